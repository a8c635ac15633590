//! What a replica tells whoever asks how its group came to be what it is: clients that were away,
//! and machines that are to become members.

use crate::change::Change;
use crate::epochs::Proof;
use crate::ids::{Epoch, ReplicaId};
use crate::limits::{LEARNERS_STATES, LINKS_TOLD_MAX};
use crate::membership::Base;
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// How a group stands, as one replica says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Standing {
    /// The replica's epoch. One replica's word.
    pub epoch: Epoch,
    /// How configurations ended, one after the other, from the one on that was asked for; at most
    /// [`LINKS_TOLD_MAX`]. Each proves itself to who knows the one that it ends.
    pub links: Vec<Proof>,
    /// The change that waits for its members. One replica's word.
    pub pending: Option<Arc<Change>>,
    /// The states that the replica keeps for the asker, which is to become a member: at most
    /// [`LEARNERS_STATES`], in order. One replica's word.
    pub states: Vec<Base>,
}

impl Wire for Standing {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        to.sequence(&self.links);
        to.option(self.pending.as_deref());
        to.sequence(&self.states);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, links) = (Epoch::decode(from)?, from.sequence(LINKS_TOLD_MAX)?);
        let pending = from.option()?.map(Arc::new);
        Ok(Self { epoch, links, pending, states: from.sequence(LEARNERS_STATES)? })
    }
}

impl Standing {
    /// The last configuration of which it says that it has begun, if it says that of any.
    #[must_use]
    pub fn begun(&self) -> Option<u64> {
        self.links.last().and_then(|link| link.next.as_ref()).map(|next| next.number)
    }
}

/// Of each replica the last configuration of which it said that it has begun. Whoever follows a
/// group goes by it: answers that replicas give in two configurations do not count together, since
/// each may tolerate other faults and ask for another number of equal answers. A replica says that
/// a configuration has begun before it answers anybody in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Begun(Vec<u64>);

impl Begun {
    /// Of so many replicas that have said nothing.
    #[must_use]
    pub fn new(replicas: usize) -> Self {
        Self(alloc::vec![0; replicas])
    }

    /// A replica says that this configuration has begun.
    pub fn heard(&mut self, from: ReplicaId, begun: u64) {
        if let Some(known) = self.0.get_mut(usize::from(from.0)) {
            *known = begun.max(*known);
        }
    }

    /// Whether what a replica answers is not for who knows the configuration of this number, but
    /// for who knows a later one.
    #[must_use]
    pub fn is_ahead(&self, replica: ReplicaId, number: u64) -> bool {
        let begun = self.0.get(usize::from(replica.0));
        begun.is_some_and(|begun| is_behind(number, *begun))
    }

    /// The replicas that are ahead.
    pub fn ahead(&self, number: u64) -> impl Iterator<Item = ReplicaId> {
        (0..self.0.len() as u16).map(ReplicaId).filter(move |it| self.is_ahead(*it, number))
    }
}

/// Whether who knows a configuration is behind one that has begun, so that what replicas answer in
/// that one is not for it yet.
#[must_use]
pub fn is_behind(known: u64, begun: u64) -> bool {
    begun > known && !mutant!("standing.counts-who-is-ahead")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_has_begun_a_later_configuration_is_ahead() {
        let mut begun = Begun::new(3);
        assert_eq!(begun.ahead(0).count(), 0);
        begun.heard(ReplicaId(1), 2);
        begun.heard(ReplicaId(9), 2);
        assert!(begun.is_ahead(ReplicaId(1), 1) && !begun.is_ahead(ReplicaId(1), 2));
        assert_eq!(begun.ahead(1).collect::<Vec<_>>(), [ReplicaId(1)]);
        begun.heard(ReplicaId(1), 1);
        assert!(begun.is_ahead(ReplicaId(1), 1), "it says what it said before");
    }
}
