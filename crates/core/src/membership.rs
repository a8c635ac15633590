//! Who is in an epoch, with the keys by which their statements are checked.

use crate::digest::Domain;
use crate::ids::{Epoch, GroupId, Incarnation, ReplicaId, View};
use crate::limits::REPLICAS_MAX;
use crate::quorum::Quorums;
use alloc::vec::Vec;

/// One replica of the group.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Ed25519 public key: signatures, and by conversion the channel's static key.
    pub key: [u8; 32],
    /// The life of its trusted device that this epoch admits.
    pub incarnation: Incarnation,
    /// Ed25519 public key of its trusted device; all zero if the device certifies with the group's
    /// shared MAC key.
    pub device_key: [u8; 32],
}

/// The members of one epoch, in the order of their ids.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Membership {
    /// Name of the group.
    pub group: GroupId,
    /// Number of this membership.
    pub epoch: Epoch,
    /// Faulty members that are tolerated.
    pub f: usize,
    /// The replicas; index is [`ReplicaId`].
    pub members: Vec<Member>,
}

/// A membership in which no protocol can be safe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BadMembership {
    /// Members named.
    pub n: usize,
    /// Faults asked for.
    pub f: usize,
}

impl core::fmt::Display for BadMembership {
    fn fmt(&self, out: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(
            out,
            "{} replicas cannot tolerate f = {}; a hybrid protocol needs 2f + 1 = {} of at most {}",
            self.n,
            self.f,
            2 * self.f + 1,
            REPLICAS_MAX
        )
    }
}

impl core::error::Error for BadMembership {}

impl Membership {
    /// Checks that a hybrid protocol is safe and live in this group.
    ///
    /// # Errors
    /// [`BadMembership`] if it is not.
    pub fn check_hybrid(&self) -> Result<(), BadMembership> {
        let n = self.members.len();
        let fits = n <= REPLICAS_MAX && n > 2 * self.f && self.quorums().is_hybrid();
        if fits { Ok(()) } else { Err(BadMembership { n, f: self.f }) }
    }

    /// Group size and faults.
    #[must_use]
    pub fn quorums(&self) -> Quorums {
        Quorums { n: self.members.len(), f: self.f }
    }

    /// How many replicas there are.
    #[must_use]
    pub fn n(&self) -> usize {
        self.members.len()
    }

    /// The one that proposes in a view.
    #[must_use]
    pub fn primary(&self, view: View) -> ReplicaId {
        ReplicaId((view.0 % self.members.len() as u64) as u16)
    }

    /// Whether a replica of this number exists.
    #[must_use]
    pub fn contains(&self, id: ReplicaId) -> bool {
        usize::from(id.0) < self.members.len()
    }

    /// All ids in order.
    pub fn ids(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..self.members.len() as u16).map(ReplicaId)
    }

    /// What every statement in this epoch is bound to.
    #[must_use]
    pub fn domain(&self) -> Domain {
        Domain::new(&self.group, self.epoch)
    }
}
