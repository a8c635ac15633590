//! How a scene's group changes: administrators propose, machines join.

use super::{SEED, Scene};
use crate::administration::{Invitation, add, administrators, ask, ordered_by, renew_secret};
use crate::crypto::member_id;
use crate::packet::{member_at, member_of};
use pentarchy_core::change::{Change, Petition};
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::wire::Wire as _;
use std::sync::Arc;

/// For so many milliseconds a change can wait for its members.
const LASTS_MS: u64 = 60_000;

/// What administrators want.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Wanted {
    /// Only other keys for all members, which they get with each change.
    Renew,
    /// A machine as one more member, behind all others.
    Add(ReplicaId),
    /// A member less.
    Remove(ReplicaId),
    /// The second one, a machine, in the place of the first one, a member.
    Replace(ReplicaId, ReplicaId),
    /// The protocol of this name.
    Switch(String),
}

impl Scene<'_> {
    /// An administrator signs a change of the present configuration, and sends it to all.
    pub fn propose(&mut self, administrator: &str, wanted: &Wanted) -> Result<(), String> {
        let names = administrators(SEED);
        let index = administrator.strip_prefix('a').and_then(|number| number.parse().ok());
        let index = index.and_then(|number: usize| number.checked_sub(1));
        let client = index.and_then(|index| names.get(index)).copied();
        let client = client.ok_or_else(|| {
            format!("{administrator} is no administrator; there are a1 to a{}", names.len())
        })?;
        let newest = self.running().max_by_key(|node| node.epoch());
        let newest = newest.ok_or("no replica is left")?;
        let attempt = newest.executor().withdrawn_changes();
        let current = newest.membership().stated.clone();
        let current = current.ok_or("this group cannot change: it needs `machines=`")?;
        let next = self.next(&current, wanted)?;
        let (expects, expires) = (current.digest(), Millis(self.now.0 + LASTS_MS));
        let change = Change { expects, attempt, expires, next, needed: Vec::new() };
        let from = self.index_of(&client).ok_or("it has no name")?;
        let number = self.next_number(from);
        self.petition((from, client), number, &Petition::Propose(Arc::new(change)));
        Ok(())
    }

    /// The configuration that they want.
    fn next(&self, current: &Configuration, wanted: &Wanted) -> Result<Configuration, String> {
        let mut next = Configuration { number: current.number + 1, ..current.clone() };
        match wanted {
            Wanted::Renew => {}
            Wanted::Add(id) => {
                let at = next.members.len();
                self.admit(&mut next, *id, at)?;
            }
            Wanted::Remove(id) => _ = leave(&mut next, *id)?,
            Wanted::Replace(id, by) => {
                let at = leave(&mut next, *id)?;
                self.admit(&mut next, *by, at)?;
            }
            Wanted::Switch(name) => {
                let mut all = self.factories.all().map(|it| it.rules);
                let rules = all.find(|rules| rules.name == name);
                let rules = rules.ok_or_else(|| format!("no group can switch to {name}"))?;
                next = ordered_by(&next, &rules);
            }
        }
        let secret = Digest::of(&next.number.to_le_bytes());
        renew_secret(&mut next, secret);
        Ok(next)
    }

    /// A machine becomes a member, at this index.
    fn admit(&self, next: &mut Configuration, id: ReplicaId, at: usize) -> Result<(), String> {
        let exists = usize::from(id.0) < self.rings.len();
        if !exists || member_at(id) != next.next_member {
            return Err(format!("{id} is not the next machine that can join"));
        }
        add(next, at);
        Ok(())
    }

    /// A machine that is no member yet says that it is ready for the change that makes it one.
    pub fn ready(&mut self, id: ReplicaId) -> Result<(), String> {
        let client = member_id(id);
        let from =
            self.index_of(&client).ok_or_else(|| format!("{id} is no machine that joins"))?;
        let invitation = self.running().find_map(|node| Invitation::of(node, id));
        let invitation = invitation.ok_or_else(|| format!("no pending change names {id}"))?;
        let ready = invitation.accept(id, &self.crypto, &self.rings[usize::from(id.0)]);
        self.petition((from, client), self.now.0, &ready);
        Ok(())
    }

    /// A machine that has become a member starts as a replica. As it has followed the group, it
    /// knows how the configurations before ended; what it lacks is the state.
    pub fn join(&mut self, id: ReplicaId) -> Result<(), String> {
        let newest = self.running().map(|node| node.chain());
        let newest = newest.max_by_key(|(membership, _)| membership.epoch);
        let is_next = usize::from(id.0) == self.nodes.len();
        let chain = newest.filter(|(group, _)| is_next && member_of(group, id).is_some());
        let chain = chain.ok_or_else(|| format!("{id} is no new member"))?;
        self.start(id, chain);
        Ok(())
    }

    /// The index of somebody whom replicas answer.
    fn index_of(&self, client: &ClientId) -> Option<u16> {
        let index = self.names.clients.iter().position(|known| known == client)?;
        u16::try_from(index).ok()
    }

    /// Somebody asks something of the group itself.
    fn petition(&mut self, (from, client): (u16, ClientId), number: u64, petition: &Petition) {
        let envelope = ask(&self.crypto, client, number, petition.to_bytes());
        self.envelopes.insert((from, number), envelope.clone());
        let all = self.ids();
        self.submit(from, &envelope, &all);
    }
}

/// A member leaves. Gives the index that it had.
fn leave(next: &mut Configuration, id: ReplicaId) -> Result<usize, String> {
    let at = next.members.iter().position(|member| member.id == member_at(id));
    let at = at.ok_or_else(|| format!("{id} is no member"))?;
    next.members.remove(at);
    Ok(at)
}
