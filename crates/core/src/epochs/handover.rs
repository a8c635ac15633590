//! How a member asks to be let in again, where an epoch ends, and what proves it.

use crate::auth::{Signature, Verifier};
use crate::digest::Digest;
use crate::ids::{Epoch, ReplicaId, ReplicaSet};
use crate::limits::REPLICAS_MAX;
use crate::membership::{Base, Life, Member, Membership};
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;

/// What a member asks of the group, as the operation of a request under its own key: to count from
/// the next epoch on by the device of this life.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Admission {
    /// The epoch that it asks to end. In every other one it means nothing, so that nobody can have
    /// a member's former life admitted again.
    pub epoch: Epoch,
    /// The digest of that epoch's configuration: another group of the same name, or another chain
    /// of configurations, may have an epoch of that number.
    pub configuration: Digest,
    /// The life.
    pub life: Life,
}

impl Wire for Admission {
    fn encode(&self, to: &mut Writer) {
        to.u8(0);
        self.epoch.encode(to);
        self.configuration.encode(to);
        self.life.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self {
                epoch: Epoch::decode(from)?,
                configuration: Digest::decode(from)?,
                life: Life::decode(from)?,
            }),
            _ => Err(Malformed),
        }
    }
}

/// Where an epoch ends and the next one begins.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Handover {
    /// The epoch that ends.
    pub epoch: Epoch,
    /// Its last slot, and the state after it.
    pub base: Base,
    /// The lives of the next epoch's devices, by member.
    pub lives: Vec<Life>,
}

impl Handover {
    /// What its signatures cover.
    #[must_use]
    pub fn statement(&self, membership: &Membership) -> Digest {
        let domain = membership.domain_of(self.epoch);
        domain.statement("handover").bytes(&self.to_bytes()).finish()
    }
}

impl Membership {
    /// The membership that follows on the end of this one, or of one behind it.
    #[must_use]
    pub fn after(&self, handover: &Handover) -> Self {
        let next = |(member, life): (&Member, &Life)| Member {
            incarnation: life.incarnation,
            device_key: life.device_key,
            ..member.clone()
        };
        Self {
            epoch: handover.epoch.next(),
            members: self.members.iter().zip(&handover.lives).map(next).collect(),
            base: if mutant!("epochs.begins-elsewhere") { self.base } else { handover.base },
            ..self.clone()
        }
    }
}

impl Wire for Handover {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        self.base.encode(to);
        to.sequence(&self.lives);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: Epoch::decode(from)?,
            base: Base::decode(from)?,
            lives: from.sequence(REPLICAS_MAX)?,
        })
    }
}

/// A handover to which `f + 1` members of the ending epoch put their names: one of them is correct
/// and has executed so far.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proof {
    /// What they vouch for.
    pub handover: Handover,
    /// Who signed, with what.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Proof {
    /// Whether it proves how this membership ends, or one that follows on it: members keep their
    /// keys, so whoever was away for longer than ends of epochs are kept need not see all of them.
    #[must_use]
    pub fn is_valid(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let Self { handover, signatures } = self;
        if handover.epoch < membership.epoch || handover.lives.len() != membership.n() {
            return false;
        }
        let statement = handover.statement(membership);
        let mut signers = ReplicaSet::EMPTY;
        let mut genuine = |(author, signature): &(ReplicaId, Signature)| {
            membership.contains(*author)
                && signers.insert(*author)
                && verifier.signature(*author, &statement, &signature.0)
        };
        signatures.iter().all(&mut genuine) && signers.len() >= membership.quorums().weak()
    }

    /// Who signed it.
    #[must_use]
    pub fn signers(&self) -> ReplicaSet {
        self.signatures.iter().map(|(author, _)| *author).collect()
    }
}

impl Wire for Proof {
    fn encode(&self, to: &mut Writer) {
        self.handover.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let handover = Handover::decode(from)?;
        Ok(Self { handover, signatures: from.sequence(REPLICAS_MAX)? })
    }
}
