//! *Configuration.* All correct replicas go through one chain of configurations. Each is what as
//! many administrators proposed as the one before asks for, with new keys of enough members, which
//! these members made. It begins when all of them are ready, or when enough have been for two
//! seconds of agreed time.

use super::{Broken, Verdict};
use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::change::{Change, Petition};
use pentarchy_core::configuration::{Access, Configuration, MemberEntry};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::limits::READY_WAIT_MILLIS;
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How ready the members are for a change.
#[derive(Default)]
struct Readiness {
    /// Each with the slot in which it said so last.
    members: BTreeMap<ClientId, Slot>,
    /// Since when there are so many or more, by their number.
    since: BTreeMap<usize, Millis>,
}

impl Readiness {
    fn note(&mut self, now: Millis) {
        let count = self.members.len();
        self.since.retain(|many, _| *many <= count);
        for many in 1..=count {
            self.since.entry(many).or_insert(now);
        }
    }
}

/// See the [module](self).
pub struct Configurations {
    /// By number, with who began it first.
    chain: Vec<(Arc<Configuration>, ReplicaId)>,
    /// Each change that was ever proposed, with the administrators that proposed it.
    proposed: BTreeMap<Digest, (Change, BTreeSet<ClientId>)>,
    /// The keys that correct members said they have.
    made: BTreeSet<(ClientId, [u8; 32])>,
    /// Members that may say anything.
    liars: BTreeSet<ClientId>,
    /// What was executed so far, and its agreed time.
    at: (Slot, Millis),
    /// The last epoch that a correct replica began.
    last: Membership,
    /// Who is ready for which change, and since when, by agreed time, so many are at least.
    ready: BTreeMap<Digest, Readiness>,
}

fn broken(detail: String) -> Verdict {
    Err(Broken { property: "configuration", detail })
}

impl Configurations {
    /// Of a group that begins like this, with these faulty members.
    #[must_use]
    pub fn new(first: &Membership, liars: BTreeSet<ClientId>) -> Self {
        let last = first.clone();
        let first = first.stated.iter().map(|stated| (stated.clone(), ReplicaId(0)));
        let (proposed, made) = (BTreeMap::new(), BTreeSet::new());
        let (at, ready) = (Default::default(), BTreeMap::new());
        Self { chain: first.collect(), proposed, made, liars, at, last, ready }
    }

    /// A member or an administrator had this sent to the group.
    pub fn asked(&mut self, by: ClientId, operation: &Bytes) {
        match Petition::from_bytes(operation) {
            Ok(Petition::Propose(change)) => {
                let known = self.proposed.entry(change.digest());
                known.or_insert_with(|| ((*change).clone(), BTreeSet::new())).1.insert(by);
            }
            Ok(Petition::Ready(ready)) => {
                self.made.insert((by, ready.signing));
            }
            _ => {}
        }
    }

    /// A correct replica executed a slot for good.
    ///
    /// # Errors
    /// If somebody had something executed who is no client of the configuration.
    pub fn executed(&mut self, slot: Slot, batch: &Batch) -> Verdict {
        if slot != self.at.0.next() {
            return Ok(());
        }
        let now = self.at.1.max(batch.time);
        self.at = (slot, now);
        for envelope in &batch.envelopes {
            // Whoever begins first may have executed less: that was asked before.
            if slot > self.last.base.slot {
                self.has_access(slot, envelope)?;
            }
            let petitions = envelope.requests.iter();
            for petition in petitions.filter_map(|it| Petition::from_bytes(&it.operation).ok()) {
                if let Petition::Ready(ready) = petition {
                    let ready = self.ready.entry(ready.change).or_default();
                    ready.members.insert(envelope.client, slot);
                }
            }
        }
        self.ready.values_mut().for_each(|ready| ready.note(now));
        Ok(())
    }

    /// Replicas execute a client's request to the service only if the configuration lists the
    /// client, or the client is a member or an administrator.
    fn has_access(&self, slot: Slot, envelope: &Envelope) -> Verdict {
        let Some(Access::Only(listed)) = self.last.stated.as_ref().map(|it| &it.access) else {
            return Ok(());
        };
        let client = envelope.client;
        let members = self.last.members.iter().map(|member| ClientId(member.identity));
        let mut governing = members.chain(self.last.administrators());
        if listed.contains(&client) || governing.any(|it| it == client) || envelope.is_to_group() {
            return Ok(());
        }
        broken(format!("{slot} holds a request of {client}, which the configuration does not list"))
    }

    /// A member whose device is another one from an epoch on has to say again that it is ready. It
    /// may have done so in the slot in which it was admitted.
    fn look_who_was_admitted(&mut self, membership: &Membership) {
        if membership.epoch <= self.last.epoch {
            return;
        }
        if membership.configuration == self.last.configuration {
            for (before, after) in self.last.members.iter().zip(membership.members.iter()) {
                let by = ClientId(after.identity);
                if before.life() != after.life() {
                    self.ready.values_mut().for_each(|ready| {
                        ready.members.retain(|it, said| *it != by || *said == membership.base.slot);
                    });
                }
            }
            self.ready.values_mut().for_each(|ready| ready.note(self.at.1));
        }
        self.last = membership.clone();
    }

    /// Whether this is when a change takes effect.
    fn is_due(&self, change: &Change) -> bool {
        let (n, f) = (change.next.members.len(), usize::from(change.next.f));
        let ready = self.ready.get(&change.digest());
        ready.is_some_and(|ready| {
            let since = ready.since.get(&(n - f));
            let waited = since.is_some_and(|since| self.at.1.0 - since.0 >= READY_WAIT_MILLIS);
            ready.members.len() == n || waited
        })
    }

    /// A correct replica goes on in an epoch of this membership.
    ///
    /// # Errors
    /// If its configuration is not the one of that number.
    pub fn began(&mut self, replica: ReplicaId, membership: &Membership) -> Verdict {
        let Some(stated) = &membership.stated else { return Ok(()) };
        self.look_who_was_admitted(membership);
        match self.chain.get(stated.number as usize) {
            Some((known, _)) if known == stated => Ok(()),
            Some((known, who)) => broken(format!("{replica} begins {stated:?}, {who} {known:?}")),
            None => self.extend(replica, stated, membership.base.slot),
        }
    }

    /// The first correct replica to begin a configuration.
    fn extend(&mut self, replica: ReplicaId, next: &Arc<Configuration>, base: Slot) -> Verdict {
        let Some((last, _)) = self.chain.last() else { return Ok(()) };
        if next.number != last.number + 1 {
            return broken(format!("{replica} skips to configuration {}", next.number));
        }
        let of_it = |(change, _): &&(Change, BTreeSet<ClientId>)| {
            change.expects == last.digest() && is_made_of(next, change)
        };
        let threshold = usize::from(last.administrators.threshold);
        // Two changes may differ in nothing but how long they last.
        let changes = self.proposed.values().filter(of_it);
        let changes = changes.filter(|(_, by)| by.len() >= threshold).map(|(change, _)| change);
        let changes: Vec<&Change> = changes.collect();
        let Some(change) = changes.first() else {
            return broken(format!("{replica} begins {next:?}, which too few proposed"));
        };
        // Who begins first may have been shown the end, and have executed less.
        if self.at.0 == base && !changes.iter().any(|change| self.is_due(change)) {
            return broken(format!("{replica} begins {next:?} too soon"));
        }
        let who = |it: &Configuration| -> BTreeSet<_> {
            it.members.iter().map(|member| (member.id, member.identity)).collect()
        };
        if who(next) != who(last) && (next.secret.is_none() || next.secret == last.secret) {
            return broken(format!("{replica} begins {next:?} with the secret of the one before"));
        }
        let mut new = 0;
        for (member, proposed) in next.members.iter().zip(&change.next.members) {
            if member.signing == proposed.signing {
                continue;
            }
            new += 1;
            if let Some(by) = self.made_by_another(member) {
                return broken(format!("{replica} knows a key of {} that {by} made", member.id));
            }
            if !self.said(member) {
                return broken(format!(
                    "{replica} knows a key of {} that it did not make",
                    member.id
                ));
            }
        }
        if new + usize::from(next.f) < next.members.len() {
            return broken(format!("{replica} begins {next:?}: {new} were ready"));
        }
        self.chain.push((next.clone(), replica));
        Ok(())
    }

    /// Whether a member said that it has this key, unless it may say anything.
    fn said(&self, member: &MemberEntry) -> bool {
        let by = ClientId(member.identity);
        self.liars.contains(&by) || self.made.contains(&(by, member.signing))
    }

    /// Who else said that it has this key: nobody has another's, not even a liar.
    fn made_by_another(&self, member: &MemberEntry) -> Option<ClientId> {
        let is_its = |(by, key): &&(ClientId, [u8; 32])| {
            *key == member.signing && by.0 != member.identity && !self.liars.contains(by)
        };
        self.made.iter().find(is_its).map(|(by, _)| *by)
    }

    /// How many configurations began behind the first one.
    #[must_use]
    pub fn changes(&self) -> u64 {
        (self.chain.len() as u64).saturating_sub(1)
    }
}

/// Whether a configuration is what a change proposes, but for its members' keys.
fn is_made_of(next: &Configuration, change: &Change) -> bool {
    let mut without = next.clone();
    for (member, proposed) in without.members.iter_mut().zip(&change.next.members) {
        member.signing = proposed.signing;
    }
    without == change.next
}
