//! TrInX instances as values in the replica's own process; see [`super::in_process`] for what that
//! is worth.

use super::Trinx;
use crate::identity::DeviceIdentity;
use crate::trinx::{self, Ask, Certificate, Instance, InstanceId, Memory};
use crate::usig::GroupKey;
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{Incarnation, MemberId};
use std::fmt;
use std::ops::Range;

/// The instances of one member. Not to be cloned: two of one identity could contradict each other.
pub struct TrinxInProcess {
    instances: Vec<Instance>,
    /// The number of the first of them.
    first: u16,
    incarnation: Incarnation,
    key: GroupKey,
}

impl TrinxInProcess {
    /// Initialises so many instances of a member with the group's secret, of which they keep the
    /// only copies that the host needs. None if the identity has a key of its own: TrInX seals with
    /// the group's.
    #[must_use]
    pub fn initialise(
        group_secret: &[u8; 32],
        epoch: EpochId,
        member: MemberId,
        identity: &DeviceIdentity,
        instances: u16,
    ) -> Option<Self> {
        if identity.seed().is_some() {
            return None;
        }
        let key = GroupKey::new(group_secret);
        Some(Self::these(&key, epoch, member, identity.incarnation(), 0..instances))
    }

    /// Each instance by itself, under its number, for whoever has each on a thread of its own.
    pub(crate) fn split(self) -> Vec<Self> {
        let Self { instances, first, incarnation, key } = self;
        let one = |(first, it)| Self { instances: vec![it], first, incarnation, key: key.clone() };
        (first..).zip(instances).map(one).collect()
    }

    /// A single instance, by its number.
    pub(crate) fn one(
        key: &GroupKey,
        epoch: EpochId,
        member: MemberId,
        incarnation: Incarnation,
        number: u16,
    ) -> Self {
        Self::these(key, epoch, member, incarnation, number..number + 1)
    }

    fn these(
        key: &GroupKey,
        epoch: EpochId,
        member: MemberId,
        incarnation: Incarnation,
        numbers: Range<u16>,
    ) -> Self {
        let instance = |number| {
            let id = InstanceId { member, number };
            Instance::new(epoch, id, incarnation, key.clone())
        };
        let first = numbers.start;
        let instances = numbers.map(instance).collect();
        Self { instances, first, incarnation, key: key.clone() }
    }

    fn index(&self, number: u16) -> Option<usize> {
        number.checked_sub(self.first).map(usize::from)
    }

    fn instance(&mut self, number: u16) -> Result<&mut Instance, Refused> {
        let index = self.index(number).ok_or(Refused::Unavailable)?;
        self.instances.get_mut(index).ok_or(Refused::Unavailable)
    }
}

impl Trinx for TrinxInProcess {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }
    fn instances(&self) -> u16 {
        u16::try_from(self.instances.len()).unwrap_or(u16::MAX)
    }
    fn begin_epoch(&mut self, instance: u16, epoch: &EpochId) -> Result<(), Refused> {
        self.instance(instance)?.begin_epoch(epoch)
    }
    fn certify(
        &mut self,
        instance: u16,
        ask: &Ask,
        digest: &Digest,
    ) -> Result<Certificate, Refused> {
        self.instance(instance)?.certify(ask, digest)
    }
    fn memory(&self, instance: u16) -> Option<Memory> {
        self.instances.get(self.index(instance)?).map(Instance::memory)
    }
    fn restore(&mut self, instance: u16, memory: &Memory) -> Result<(), Refused> {
        self.instance(instance)?.restore(memory)
    }
    fn verify(
        &self,
        context: &Digest,
        by: InstanceId,
        certificate: &Certificate,
        digest: &Digest,
    ) -> bool {
        trinx::is_certified(&self.key, context, by, certificate, digest)
    }
}

impl fmt::Debug for TrinxInProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TrinxInProcess({}, {} instances)", self.incarnation, self.instances.len())
    }
}
