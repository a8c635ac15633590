//! One device of production beside one of the simulator's.

use super::{Device, RealDevices};
use pentarchy_core::counter::{Certificate, Instance, Memory, Position, Refused, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, ReplicaId};
use pentarchy_core::membership::Membership;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// The digest of nothing that anybody says.
const NO_STATEMENT: Digest = Digest([0x55; 32]);

/// The device of production beside one of the simulator's, or none.
#[derive(Clone)]
pub struct Shadow(Option<Real>);

struct Real {
    all: Arc<RealDevices>,
    device: Device,
    replica: ReplicaId,
    life: Incarnation,
    /// Which of its replica's it is.
    number: usize,
    /// The epoch to which it went over last; none if it is where it was opened.
    epoch: Option<Membership>,
}

/// A device of production cannot be copied. Another one takes its place that was told to go over to
/// the same epoch and given the same memory, which nobody can tell from it.
impl Clone for Real {
    fn clone(&self) -> Self {
        let Self { all, replica, life, number, epoch, .. } = self;
        let mut devices = all.fresh(*replica, *life, *number as u8 + 1);
        let mut device = devices.swap_remove(*number);
        let begun = epoch.as_ref().map_or(Ok(()), |epoch| device.begin_epoch(epoch));
        let memory = self.device.memory().expect("a device in this process tells it");
        let restored = begun.and_then(|()| device.restore(&memory));
        assert_eq!(restored, Ok(()), "a copy of {replica}'s device takes over {memory:?}");
        Self {
            all: all.clone(),
            device,
            replica: *replica,
            life: *life,
            number: *number,
            epoch: epoch.clone(),
        }
    }
}

impl Shadow {
    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    pub(super) fn new(
        all: Arc<RealDevices>,
        (replica, life, number): (ReplicaId, Incarnation, usize),
        device: Device,
    ) -> Self {
        Self(Some(Real { all, device, replica, life, number, epoch: None }))
    }

    /// The device, which is asked once more.
    fn asked(&mut self) -> Option<&mut Real> {
        let real = self.0.as_mut()?;
        real.all.asked.fetch_add(1, Ordering::Relaxed);
        Some(real)
    }

    /// Goes over to a later epoch.
    pub fn begin_epoch(&mut self, membership: &Membership, expected: Result<(), Refused>) {
        let Some(real) = self.asked() else { return };
        let begun = real.device.begin_epoch(membership);
        assert_eq!(begun, expected, "whether a device begins {}", membership.epoch);
        if begun.is_ok() {
            real.epoch = Some(membership.clone());
        }
    }

    /// Certifies, as the simulator's device just did, and does not certify anything else there.
    pub fn create(
        &mut self,
        (position, digest): (Position, &Digest),
        expected: &Result<Ui, Refused>,
    ) {
        let Some(Real { all, device, .. }) = self.asked() else { return };
        match (device.create(position, digest), expected) {
            (Ok(real), Ok(expected)) => {
                let without_seal = Ui { certificate: expected.certificate, ..real };
                assert_eq!(without_seal, *expected, "what a device certified at {position:?}");
                let (Certificate::Mac(real), Certificate::Mac(seal)) =
                    (real.certificate, expected.certificate)
                else {
                    panic!("one of both signed at {position:?}");
                };
                all.pair(seal, real);
                let again = device.create(position, &NO_STATEMENT);
                assert_eq!(again, Err(Refused::Spent), "{position:?} is given away twice");
            }
            (real, expected) => {
                assert_eq!(real, *expected, "whether a device certifies at {position:?}");
            }
        }
    }

    /// Makes a trusted MAC, as the simulator's device just did or refused to.
    pub fn mac(&mut self, digest: &Digest, expected: &Result<TrustedMac, Refused>) {
        let Some(Real { all, device, .. }) = self.asked() else { return };
        match (device.mac(digest), expected) {
            (Ok(real), Ok(expected)) => all.pair(expected.0, real.0),
            (real, expected) => assert_eq!(real, *expected, "whether a device makes a MAC"),
        }
    }

    /// What it remembers.
    pub fn memory(&self, expected: &Memory) {
        if let Some(Real { all, device, .. }) = &self.0 {
            all.asked.fetch_add(1, Ordering::Relaxed);
            assert_eq!(device.memory().as_ref(), Some(expected), "what a device remembers");
        }
    }

    /// Takes over what another one remembered, as the simulator's device does.
    pub fn restore(
        &mut self,
        (memory, instance): (&Memory, Instance),
        expected: Result<(), Refused>,
    ) {
        if let Some(real) = self.asked() {
            let restored = real.device.restore(memory);
            assert_eq!(restored, expected, "whether {instance:?} takes over {memory:?}");
        }
    }
}
