//! How a member asks to be let in again, where an epoch ends, and what proves it.

use crate::auth::{Signature, Verifier};
use crate::configuration::{Administrators, Configuration};
use crate::digest::Digest;
use crate::ids::{Epoch, ReplicaId, ReplicaSet};
use crate::limits::REPLICAS_MAX;
use crate::membership::{Base, Life, Member, Membership};
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a member asks of the group in a request under its own key
/// ([`Petition`](crate::change::Petition)): to count from the next epoch on by the device of this
/// life.
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
        self.epoch.encode(to);
        self.configuration.encode(to);
        self.life.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: Epoch::decode(from)?,
            configuration: Digest::decode(from)?,
            life: Life::decode(from)?,
        })
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
    /// The digest of the next epoch's configuration, if it is another one.
    pub next: Option<Digest>,
}

impl Handover {
    /// What its signatures cover.
    #[must_use]
    pub fn statement(&self, membership: &Membership) -> Digest {
        let domain = membership.domain_of(self.epoch);
        domain.statement("handover").bytes(&self.to_bytes()).finish()
    }

    /// What administrators sign who have a group go on that cannot by itself.
    #[must_use]
    pub fn rescue(&self, membership: &Membership) -> Digest {
        let domain = membership.domain_of(self.epoch);
        domain.statement("rescue").bytes(&self.to_bytes()).finish()
    }
}

impl Membership {
    /// The membership that follows on the end of this one, or of one behind it, under the same
    /// configuration.
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

impl Configuration {
    /// The membership with which it begins, on the end of an epoch of the configuration before.
    ///
    /// # Panics
    /// If the handover does not name one life for each member.
    #[must_use]
    pub fn after(&self, handover: &Handover) -> Membership {
        let (epoch, base) = (handover.epoch.next(), handover.base);
        Membership { epoch, base, ..self.begin(&handover.lives) }
    }
}

impl Wire for Handover {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        self.base.encode(to);
        to.sequence(&self.lives);
        to.option(self.next.as_ref());
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            epoch: Epoch::decode(from)?,
            base: Base::decode(from)?,
            lives: from.sequence(REPLICAS_MAX)?,
            next: from.option()?,
        })
    }
}

/// Whose word it is how an epoch ended.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Witnesses {
    /// `f + 1` of its members: one of them is correct and has executed so far.
    Members,
    /// As many administrators as change the configuration. Of a group that cannot go on by itself
    /// they say with which state another configuration begins. That has what they found, and
    /// perhaps not all that was acknowledged
    /// (`docs/decisions/0012-administrators-sign-how-a-lost-group-goes-on.md`).
    Administrators,
}

/// A handover to which enough [witnesses](Witnesses) put their names.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proof {
    /// What the signers vouch for.
    pub handover: Handover,
    /// The next configuration, if the handover names one.
    pub next: Option<Arc<Configuration>>,
    /// Whose word it is. Administrators always name a configuration.
    pub by: Witnesses,
    /// Who signed, with what: by places among the members, or among the administrators.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Proof {
    /// Whether it proves how this membership ends, or one that follows on it under the same
    /// configuration: members keep their keys meanwhile, so whoever was away need not see all of
    /// these. The signatures cover the configuration's digest, so nobody skips the end of one.
    #[must_use]
    pub fn is_valid(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let is_next = self.handover.epoch >= membership.epoch && self.names_a_life_each(membership);
        is_next
            && match self.by {
                Witnesses::Members => self.is_by_members(membership, verifier),
                Witnesses::Administrators => self.is_by_administrators(membership, verifier),
            }
    }

    fn is_by_members(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let statement = self.handover.statement(membership);
        let is_signed = |author: ReplicaId, signature: &Signature| {
            membership.contains(author) && verifier.signature(author, &statement, &signature.0)
        };
        self.has_signers(membership.quorums().weak(), is_signed)
    }

    fn is_by_administrators(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let Some(stated) = membership.stated.as_ref().filter(|_| self.next.is_some()) else {
            return false;
        };
        let Administrators { threshold, keys } = &stated.administrators;
        let statement = self.handover.rescue(membership);
        let is_signed = |place: ReplicaId, signature: &Signature| {
            let key = keys.get(usize::from(place.0));
            key.is_some_and(|key| verifier.key(key, &statement, &signature.0))
        };
        let needed = if mutant!("epochs.rescued-by-one") { 1 } else { usize::from(*threshold) };
        !keys.is_empty() && self.has_signers(needed, is_signed)
    }

    /// Whether so many different ones signed, and none of the signatures is bad.
    fn has_signers(
        &self,
        needed: usize,
        is_signed: impl Fn(ReplicaId, &Signature) -> bool,
    ) -> bool {
        let mut signers = ReplicaSet::EMPTY;
        let mut genuine = |(author, signature): &(ReplicaId, Signature)| {
            usize::from(author.0) < REPLICAS_MAX
                && signers.insert(*author)
                && is_signed(*author, signature)
        };
        self.signatures.iter().all(&mut genuine) && signers.len() >= needed
    }

    /// Whether there is a life for each member of what follows. If that is another configuration,
    /// whether it is the next one, and one that a group can have.
    #[must_use]
    pub fn names_a_life_each(&self, membership: &Membership) -> bool {
        let lives = self.handover.lives.len();
        match (&self.handover.next, &self.next, &membership.stated) {
            (None, None, _) => lives == membership.n(),
            (Some(digest), Some(next), Some(current)) => {
                next.number == current.number.wrapping_add(1)
                    && next.group == current.group
                    && lives == next.members.len()
                    && (next.digest() == *digest || mutant!("epochs.next-not-compared"))
                    && next.check().is_ok()
            }
            _ => false,
        }
    }

    /// The membership that the signers say follows on this one, or on one behind it.
    #[must_use]
    pub fn successor(&self, membership: &Membership) -> Membership {
        match &self.next {
            None => membership.after(&self.handover),
            Some(next) => next.after(&self.handover),
        }
    }

    /// The members that signed it, by their places in the epoch that ended.
    #[must_use]
    pub fn signers(&self) -> ReplicaSet {
        match self.by {
            Witnesses::Members => self.signatures.iter().map(|(author, _)| *author).collect(),
            Witnesses::Administrators => ReplicaSet::EMPTY,
        }
    }
}

impl Wire for Proof {
    fn encode(&self, to: &mut Writer) {
        self.handover.encode(to);
        let kind = match (&self.next, self.by) {
            (None, _) => 0,
            (Some(_), Witnesses::Members) => 1,
            (Some(_), Witnesses::Administrators) => 2,
        };
        to.u8(kind);
        if let Some(next) = &self.next {
            next.encode(to);
        }
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let handover = Handover::decode(from)?;
        let (names_one, by) = match from.u8()? {
            0 => (false, Witnesses::Members),
            1 => (true, Witnesses::Members),
            2 => (true, Witnesses::Administrators),
            _ => return Err(Malformed),
        };
        let next = names_one.then(|| Configuration::decode(from)).transpose()?.map(Arc::new);
        Ok(Self { handover, next, by, signatures: from.sequence(REPLICAS_MAX)? })
    }
}
