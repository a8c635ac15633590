//! *Configuration.* All correct replicas go through one chain of configurations. Each is what as
//! many administrators proposed as the one before asks for, with new keys of enough members, which
//! these members made.

use super::{Broken, Verdict};
use pentarchy_core::Bytes;
use pentarchy_core::change::{Change, Petition};
use pentarchy_core::configuration::{Configuration, MemberEntry};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::wire::Wire as _;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

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
}

fn broken(detail: String) -> Verdict {
    Err(Broken { property: "configuration", detail })
}

impl Configurations {
    /// Of a group that begins like this, with these faulty members.
    #[must_use]
    pub fn new(first: &Membership, liars: BTreeSet<ClientId>) -> Self {
        let first = first.stated.iter().map(|stated| (stated.clone(), ReplicaId(0)));
        let (proposed, made) = (BTreeMap::new(), BTreeSet::new());
        Self { chain: first.collect(), proposed, made, liars }
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

    /// A correct replica goes on in an epoch of this membership.
    ///
    /// # Errors
    /// If its configuration is not the one of that number.
    pub fn began(&mut self, replica: ReplicaId, membership: &Membership) -> Verdict {
        let Some(stated) = &membership.stated else { return Ok(()) };
        match self.chain.get(stated.number as usize) {
            Some((known, _)) if known == stated => Ok(()),
            Some((known, who)) => broken(format!("{replica} begins {stated:?}, {who} {known:?}")),
            None => self.extend(replica, stated),
        }
    }

    /// The first correct replica to begin a configuration.
    fn extend(&mut self, replica: ReplicaId, next: &Arc<Configuration>) -> Verdict {
        let Some((last, _)) = self.chain.last() else { return Ok(()) };
        if next.number != last.number + 1 {
            return broken(format!("{replica} skips to configuration {}", next.number));
        }
        let of_it = |(change, _): &&(Change, BTreeSet<ClientId>)| {
            change.expects == last.digest() && is_made_of(next, change)
        };
        let threshold = usize::from(last.administrators.threshold);
        let mut changes = self.proposed.values().filter(of_it);
        let Some((change, _)) = changes.find(|(_, by)| by.len() >= threshold) else {
            return broken(format!("{replica} begins {next:?}, which too few proposed"));
        };
        let mut new = 0;
        for (member, proposed) in next.members.iter().zip(&change.next.members) {
            if member.signing == proposed.signing {
                continue;
            }
            new += 1;
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
