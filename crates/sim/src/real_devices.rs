//! The trusted counters of production in a simulated group, beside the simulator's own: each device
//! of a replica has one of production as its shadow. Both are asked the same, and must answer the
//! same: which positions are spent, what an identifier names, what a device remembers, and whether
//! a seal that came from elsewhere is right.
//!
//! Seals differ, as the simulator's are cheaper. So each seal of the simulator's has one of
//! production that was made with it, and a message that carries the first is judged as if it
//! carried the second.

use crate::certifier::Certifier;
use pentarchy_core::counter::{
    Certificate, Counter, Instance, Memory, Position, Refused, TrustedMac, Ui, Usig,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::verifier::{Maker, UsigCheck};
use pentarchy_trusted::backend::in_process::InProcess;
use pentarchy_trusted::check::Check;
use pentarchy_trusted::identity::DeviceIdentity;
use pentarchy_trusted::order_counter::{OrderCheck, OrderCounter};
use pentarchy_trusted::usig;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

/// What all devices of a group share, so that each can check what another made.
const SECRET: [u8; 32] = [7; 32];

/// In place of a seal that no device made.
const NO_SEAL: [u8; 32] = [0x55; 32];

/// See the [module](self).
pub struct RealDevices {
    counter: Counter,
    /// The group as it began.
    first: Membership,
    /// The seal of production for each of the simulator's.
    seals: Mutex<BTreeMap<[u8; 32], [u8; 32]>>,
    checks: Mutex<BTreeMap<Epoch, Arc<dyn UsigCheck>>>,
}

impl RealDevices {
    /// For a group with such counters. None if production has none of this kind.
    #[must_use]
    pub fn new(counter: Counter, first: &Membership) -> Option<Self> {
        (counter != Counter::Unbound).then(|| Self {
            counter,
            first: first.clone(),
            seals: Mutex::default(),
            checks: Mutex::default(),
        })
    }

    /// So many devices of a replica, in this life.
    #[must_use]
    pub fn open(&self, replica: ReplicaId, life: Incarnation, count: u8) -> Vec<Shadow> {
        let identity = DeviceIdentity::chosen(life, None);
        let devices: Vec<Box<dyn Usig + Send>> = match self.counter {
            Counter::Trinx => {
                let devices =
                    OrderCounter::open_all(&self.first, replica, &identity, Some(&SECRET), count);
                let devices = devices.expect("they share a secret").into_iter();
                devices.map(|device| Box::new(device) as Box<dyn Usig + Send>).collect()
            }
            Counter::Usig | Counter::Unbound => {
                let device = InProcess::mac(&SECRET, self.first.epoch_id(), replica, identity);
                vec![Box::new(device.expect("it has no key of its own"))]
            }
        };
        devices.into_iter().map(|device| Shadow(Some(device))).collect()
    }

    /// Whether production takes an identifier, as the simulator does or does not.
    ///
    /// # Panics
    /// If the two differ.
    pub fn compare_identifier(&self, by: Certifier, ui: &Ui, digest: &Digest, takes: bool) {
        let Certificate::Mac(seal) = &ui.certificate else { return };
        let Some(seal) = self.seal_for(seal, takes) else { return };
        let real = Ui { certificate: Certificate::Mac(seal), ..*ui };
        let taken = self.check_in(by.epoch).check(by.replica, &real, digest);
        assert_eq!(taken, takes, "in {:?}, {by:?} is said to have made {ui:?}", by.epoch);
    }

    /// Whether production takes a trusted MAC, as the simulator does or does not.
    ///
    /// # Panics
    /// If the two differ.
    pub fn compare_mac(&self, by: Certifier, mac: &TrustedMac, digest: &Digest, takes: bool) {
        if self.counter != Counter::Trinx {
            return;
        }
        let Some(seal) = self.seal_for(&mac.0, takes) else { return };
        let real = TrustedMac(seal);
        let Certifier { replica, instance, incarnation, epoch } = by;
        let maker = Maker { replica, instance, incarnation };
        let taken = self.check_in(epoch).check_mac(maker, &real, digest);
        assert_eq!(taken, takes, "in {epoch:?}, {by:?} is said to have made {mac:?}");
    }

    /// The seal with which to ask production about one of the simulator's that is taken, or not.
    /// None if the device that made it had no shadow, as the copies have with which the simulator
    /// finds out what a replica would say.
    fn seal_for(&self, seal: &[u8; 32], takes: bool) -> Option<[u8; 32]> {
        let seals = self.seals.lock().expect("nothing panics with it");
        seals.get(seal).copied().or_else(|| (!takes).then_some(NO_SEAL))
    }

    /// A device sealed the same in the simulator and in production.
    fn pair(&self, seal: [u8; 32], real: [u8; 32]) {
        self.seals.lock().expect("nothing panics with it").insert(seal, real);
    }

    fn check_in(&self, epoch: Epoch) -> Arc<dyn UsigCheck> {
        let mut checks = self.checks.lock().expect("nothing panics with it");
        let check = checks.entry(epoch).or_insert_with(|| {
            let membership = Membership { epoch, ..self.first.clone() };
            match self.counter {
                Counter::Trinx => Arc::new(OrderCheck::new(&SECRET, &membership)),
                Counter::Usig | Counter::Unbound => {
                    Arc::new(Check::mac(&SECRET, usig::context_of(&membership.epoch_id())))
                }
            }
        });
        check.clone()
    }
}

/// The device of production beside one of the simulator's, or none. There is never a copy of one:
/// of a copied device of the simulator's, the copy has none.
pub struct Shadow(Option<Box<dyn Usig + Send>>);

impl Clone for Shadow {
    fn clone(&self) -> Self {
        Self::none()
    }
}

impl Shadow {
    /// None.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Goes over to a later epoch.
    pub fn begin_epoch(&mut self, membership: &Membership, expected: Result<(), Refused>) {
        if let Some(device) = &mut self.0 {
            assert_eq!(device.begin_epoch(membership), expected, "to begin {}", membership.epoch);
        }
    }

    /// Certifies, as the simulator's device just did.
    pub fn create(
        &mut self,
        (position, digest): (Position, &Digest),
        expected: &Result<Ui, Refused>,
        all: Option<&RealDevices>,
    ) {
        let (Some(device), Some(all)) = (&mut self.0, all) else { return };
        match (device.create(position, digest), expected) {
            (Ok(real), Ok(expected)) => {
                let without_seal = Ui { certificate: expected.certificate, ..real };
                assert_eq!(without_seal, *expected, "what a device certified at {position:?}");
                if let (Certificate::Mac(real), Certificate::Mac(seal)) =
                    (real.certificate, expected.certificate)
                {
                    all.pair(seal, real);
                }
            }
            (real, expected) => {
                assert_eq!(real, *expected, "whether a device certifies at {position:?}");
            }
        }
    }

    /// Makes a trusted MAC, as the simulator's device just did.
    pub fn mac(&mut self, digest: &Digest, expected: &TrustedMac, all: Option<&RealDevices>) {
        let (Some(device), Some(all)) = (&mut self.0, all) else { return };
        // Of the counters of production, those without MACs refuse.
        if let Ok(real) = device.mac(digest) {
            all.pair(expected.0, real.0);
        }
    }

    /// What it remembers.
    pub fn memory(&self, expected: &Memory) {
        if let Some(device) = &self.0 {
            assert_eq!(device.memory().as_ref(), Some(expected), "what a device remembers");
        }
    }

    /// Takes over what another one remembered, as the simulator's device does.
    pub fn restore(
        &mut self,
        (memory, instance): (&Memory, Instance),
        expected: Result<(), Refused>,
    ) {
        if let Some(device) = &mut self.0 {
            let restored = device.restore(memory);
            assert_eq!(restored, expected, "whether {instance:?} takes over {memory:?}");
        }
    }
}
