//! The trusted counters of production in a simulated group, beside the simulator's own: each device
//! of a replica has one of production as its [shadow](Shadow), and so has each copy of a device by
//! which the simulator finds out what a replica would say. Both are asked the same, and must answer
//! the same: which positions are spent, what an identifier names, what a device remembers, and
//! whether a seal that came from elsewhere is right.
//!
//! Seals differ, as the simulator's are cheaper. So each seal of the simulator's has one of
//! production that was made with it, and a message that carries the first is judged as if it
//! carried the second.
//!
//! Few replicas of a world try what no device may allow. So each device is also asked for the
//! position that it has just given away, for another statement, and what is right where it was made
//! is also judged where it means nothing: under another configuration of the same group.

mod shadow;

pub use shadow::Shadow;

use crate::certifier::Certifier;
use pentarchy_core::counter::{Certificate, Counter, TrustedMac, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::verifier::{Maker, UsigCheck};
use pentarchy_trusted::backend::in_process::InProcess;
use pentarchy_trusted::check::Check;
use pentarchy_trusted::identity::DeviceIdentity;
use pentarchy_trusted::order_counter::{OrderCheck, OrderCounter};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

/// What all devices of a group share, so that each can check what another made.
const SECRET: [u8; 32] = [7; 32];

/// In place of a seal that no device made.
const NO_SEAL: [u8; 32] = [0x55; 32];

/// In place of the configuration of a group: none has it.
const NO_CONFIGURATION: Digest = Digest([0x55; 32]);

/// How often devices of production were compared with the simulator's.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Compared {
    /// Devices were asked for something.
    pub asked: u64,
    /// Seals were judged.
    pub judged: u64,
}

/// How production checks what is said in an epoch, and where that means nothing.
struct Checks {
    here: Arc<dyn UsigCheck>,
    /// In the same epoch, under another configuration.
    elsewhere: Arc<dyn UsigCheck>,
}

/// What all devices of production in a group have in common: see the [module](self).
pub struct RealDevices {
    counter: Counter,
    /// The group as it began.
    first: Membership,
    /// The seal of production for each of the simulator's.
    seals: Mutex<BTreeMap<[u8; 32], [u8; 32]>>,
    /// Under which configuration devices are in each epoch.
    configurations: Mutex<BTreeMap<Epoch, Digest>>,
    checks: Mutex<BTreeMap<(Epoch, Digest), Arc<Checks>>>,
    asked: AtomicU64,
    judged: AtomicU64,
}

impl RealDevices {
    /// For a group with such counters. None if production has none of this kind.
    #[must_use]
    pub fn new(counter: Counter, first: &Membership) -> Option<Arc<Self>> {
        let make = || Self {
            counter,
            first: first.clone(),
            seals: Mutex::default(),
            configurations: Mutex::default(),
            checks: Mutex::default(),
            asked: AtomicU64::new(0),
            judged: AtomicU64::new(0),
        };
        (counter != Counter::Unbound).then(|| Arc::new(make()))
    }

    /// So many devices of a replica, in this life.
    #[must_use]
    pub fn open(self: &Arc<Self>, replica: ReplicaId, life: Incarnation, count: u8) -> Vec<Shadow> {
        let devices = self.fresh(replica, life, count).into_iter().enumerate();
        let shadow = |(number, device)| Shadow::new(self.clone(), (replica, life, number), device);
        devices.map(shadow).collect()
    }

    fn fresh(&self, replica: ReplicaId, life: Incarnation, count: u8) -> Vec<Device> {
        let identity = DeviceIdentity::chosen(life, None);
        let member = self.first.members[usize::from(replica.0)].id;
        match self.counter {
            Counter::Trinx => {
                let devices =
                    OrderCounter::open_all(&self.first, member, &identity, Some(&SECRET), count);
                let devices = devices.expect("they share a secret").into_iter();
                devices.map(|device| Box::new(device) as Device).collect()
            }
            Counter::Usig | Counter::Unbound => {
                let device = InProcess::mac(&SECRET, &self.first, member, identity);
                vec![Box::new(device.expect("it has no key of its own"))]
            }
        }
    }

    /// Whether production takes an identifier, as the simulator does or does not.
    ///
    /// # Panics
    /// If the two differ.
    pub fn compare_identifier(&self, by: Certifier, ui: &Ui, digest: &Digest, takes: bool) {
        let certificate = match ui.certificate {
            Certificate::Mac(seal) => Certificate::Mac(self.seal_for(&seal, takes)),
            signature @ Certificate::Signature(_) => signature,
        };
        let real = Ui { certificate, ..*ui };
        let said = || format!("in {:?}, {by:?} is said to have made {ui:?}", by.epoch);
        self.compare(by.epoch, takes, |check| check.check(by.replica, &real, digest), said);
    }

    /// Whether production takes a trusted MAC, as the simulator does or does not.
    ///
    /// # Panics
    /// If the two differ.
    pub fn compare_mac(&self, by: Certifier, mac: &TrustedMac, digest: &Digest, takes: bool) {
        let real = TrustedMac(self.seal_for(&mac.0, takes));
        let Certifier { replica, instance, incarnation, epoch } = by;
        let maker = Maker { replica, instance, incarnation };
        let said = || format!("in {epoch:?}, {by:?} is said to have made {mac:?}");
        self.compare(epoch, takes, |check| check.check_mac(maker, &real, digest), said);
    }

    fn compare(
        &self,
        epoch: Epoch,
        takes: bool,
        is_taken: impl Fn(&dyn UsigCheck) -> bool,
        said: impl Fn() -> String,
    ) {
        self.judged.fetch_add(1, Ordering::Relaxed);
        let checks = self.checks_in(epoch);
        assert_eq!(is_taken(&*checks.here), takes, "{}", said());
        assert!(!takes || !is_taken(&*checks.elsewhere), "under any configuration, {}", said());
    }

    /// The seal with which to ask production about one of the simulator's that is taken, or not.
    ///
    /// # Panics
    /// If the simulator takes a seal that none of its devices made beside one of production.
    fn seal_for(&self, seal: &[u8; 32], takes: bool) -> [u8; 32] {
        let seals = self.seals.lock().expect("nothing panics with it");
        let paired = seals.get(seal).copied();
        drop(seals);
        assert!(paired.is_some() || !takes, "no device of production made {seal:?} too");
        paired.unwrap_or(NO_SEAL)
    }

    /// A device sealed the same in the simulator and in production.
    fn pair(&self, seal: [u8; 32], real: [u8; 32]) {
        self.seals.lock().expect("nothing panics with it").insert(seal, real);
    }

    /// A device is in an epoch.
    fn began(&self, membership: &Membership) {
        let mut configurations = self.configurations.lock().expect("nothing panics with it");
        configurations.insert(membership.epoch, membership.configuration);
    }

    fn checks_in(&self, epoch: Epoch) -> Arc<Checks> {
        let configurations = self.configurations.lock().expect("nothing panics with it");
        let configuration = configurations.get(&epoch).copied();
        let configuration = configuration.unwrap_or(self.first.configuration);
        drop(configurations);
        let mut checks = self.checks.lock().expect("nothing panics with it");
        let made = checks.entry((epoch, configuration)).or_insert_with(|| {
            let here = Membership { epoch, configuration, ..self.first.clone() };
            let elsewhere = Membership { configuration: NO_CONFIGURATION, ..here.clone() };
            let check = |membership| self.check_for(membership);
            Arc::new(Checks { here: check(&here), elsewhere: check(&elsewhere) })
        });
        made.clone()
    }

    /// The check with which the group began, gone over to this epoch.
    fn check_for(&self, membership: &Membership) -> Arc<dyn UsigCheck> {
        match self.counter {
            Counter::Trinx => Arc::new(OrderCheck::new(&SECRET, &self.first).for_epoch(membership)),
            Counter::Usig | Counter::Unbound => {
                Arc::new(Check::mac(&SECRET, &self.first).for_epoch(membership))
            }
        }
    }

    /// Has something look at seals that is no part of the world, and does not count that.
    pub fn uncounted<T>(&self, look: impl FnOnce() -> T) -> T {
        let before = self.judged.load(Ordering::Relaxed);
        let seen = look();
        self.judged.store(before, Ordering::Relaxed);
        seen
    }

    /// How often both were compared so far.
    #[must_use]
    pub fn compared(&self) -> Compared {
        let [asked, judged] =
            [&self.asked, &self.judged].map(|count| count.load(Ordering::Relaxed));
        Compared { asked, judged }
    }
}

/// A device of production.
type Device = Box<dyn Usig + Send>;

#[cfg(test)]
mod tests;
