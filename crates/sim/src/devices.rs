//! All trusted counters of one simulated replica.

use crate::crypto::Crypto;
use crate::device::{DeviceFault, SimDevice};
use crate::real_devices::Shadow;
use pentarchy_core::counter::{Counter, Counters, Instance, Memory, Position, Refused, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId};
use pentarchy_core::membership::Membership;
use std::hash::Hasher;
use std::iter::repeat_with;
use std::sync::Arc;

/// See the [module](self). All in the same life and the same epoch; at least one.
#[derive(Clone)]
pub struct SimDevices(Vec<SimDevice>);

impl SimDevices {
    /// So many with which a replica begins.
    #[must_use]
    pub fn new(replica: ReplicaId, count: u8, crypto: &Arc<Crypto>) -> Self {
        Self::reborn(replica, count, crate::crypto::INCARNATION, crypto)
    }

    /// So many fresh ones of another life.
    #[must_use]
    pub fn reborn(
        replica: ReplicaId,
        count: u8,
        incarnation: Incarnation,
        crypto: &Arc<Crypto>,
    ) -> Self {
        let count = count.max(1);
        let real = crypto.real().map(|all| all.open(replica, incarnation, count));
        let shadows = real.into_iter().flatten().chain(repeat_with(Shadow::none));
        let device = |(number, shadow)| {
            let device = SimDevice::reborn(replica, incarnation, crypto.clone());
            device.of_number(Instance(number)).beside(shadow)
        };
        Self((0..count).zip(shadows).map(device).collect())
    }

    /// The same devices, but they lie like this.
    #[must_use]
    pub fn with(self, fault: DeviceFault) -> Self {
        Self(self.0.into_iter().map(|device| device.with(fault)).collect())
    }

    /// None of them answers any more.
    pub fn fail(&mut self) {
        self.0.iter_mut().for_each(SimDevice::fail);
    }

    /// Whether they fail, and whether one was asked since they do.
    #[must_use]
    pub fn failure(&self) -> (bool, bool) {
        let failures = self.0.iter().map(SimDevice::failure);
        failures.fold((false, false), |all, it| (all.0 | it.0, all.1 | it.1))
    }

    /// Adds their whole state to a hash.
    pub fn fingerprint(&self, hasher: &mut dyn Hasher) {
        self.0.iter().for_each(|device| device.fingerprint(hasher));
    }

    /// Their life.
    #[must_use]
    pub fn incarnation(&self) -> Incarnation {
        self.0[0].incarnation()
    }

    /// Their epoch.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0[0].certifier().epoch
    }

    /// How they count.
    #[must_use]
    pub fn counter(&self) -> Counter {
        self.0[0].counter()
    }

    /// Where the first one stands: its last position.
    #[must_use]
    pub fn last(&self) -> Position {
        self.0[0].stands().0
    }

    /// Goes over to a later epoch with all of them.
    ///
    /// # Errors
    /// [`Refused`] as for [`Usig::begin_epoch`].
    pub fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        self.0.iter_mut().try_for_each(|device| device.begin_epoch(membership))
    }

    /// Has one of them certify a digest.
    ///
    /// # Errors
    /// [`Refused`] as for [`Usig::create`], and if there is no such device.
    pub fn create(
        &mut self,
        instance: Instance,
        position: Position,
        digest: &Digest,
    ) -> Result<Ui, Refused> {
        self.of(instance)?.create(position, digest)
    }

    /// What each remembers.
    #[must_use]
    pub fn memories(&self) -> Vec<(Instance, Memory)> {
        let memory = |device: &SimDevice| Some((device.certifier().instance, device.memory()?));
        self.0.iter().filter_map(memory).collect()
    }
}

impl Counters for SimDevices {
    fn of(&mut self, instance: Instance) -> Result<&mut dyn Usig, Refused> {
        let device = self.0.get_mut(usize::from(instance.0)).ok_or(Refused::Unavailable)?;
        Ok(device)
    }
}
