//! Devices that are not as the simulator's are noticed, and so is a seal that none of them made.

use super::*;
use crate::certifier::Certifier;
use crate::crypto::{Crypto, INCARNATION};
use crate::device::SimDevice;
use crate::devices::SimDevices;
use crate::quiet;
use crate::world::membership;
use pentarchy_core::counter::{Counters as _, Instance, Position, Refused};
use pentarchy_core::ids::View;

const ME: ReplicaId = ReplicaId(1);

fn at(view: u64, index: u64) -> Position {
    Position::new(View(view), index)
}

/// The keys of a group with devices of production.
fn keys(counter: Counter) -> Arc<Crypto> {
    let first = membership(1, 3, 1);
    Arc::new(Crypto::new(1, 3, 1).counting(counter).beside_real(&first))
}

fn counts(crypto: &Crypto) -> Compared {
    crypto.real().expect("they stand beside the simulator's").compared()
}

/// A group of devices goes through two epochs, with what it certifies and what it refuses.
fn story(counter: Counter) -> Compared {
    let crypto = keys(counter);
    let (a, b) = (Digest::of(b"a"), Digest::of(b"b"));
    let mut devices = SimDevices::new(ME, 1, &crypto);
    let ui = devices.create(Instance::FIRST, at(0, 5), &a).unwrap();
    assert_eq!(devices.create(Instance::FIRST, at(0, 5), &b), Err(Refused::Spent));
    let mut copy = devices.clone();
    let left = copy.create(Instance::FIRST, at(1, 0), &b).unwrap();
    assert_eq!(devices.create(Instance::FIRST, at(1, 0), &b), Ok(left), "a copy is as good");
    let device = devices.of(Instance::FIRST).unwrap();
    assert!(device.verify(ME, &ui, &a) && device.verify(ME, &left, &b));
    assert!(!device.verify(ME, &ui, &b) && !device.verify(ReplicaId(0), &ui, &a));
    assert_eq!(device.mac(&a).is_ok(), counter == Counter::Trinx);
    let next = Membership { epoch: Epoch(1), ..membership(1, 3, 1) };
    device.begin_epoch(&next).unwrap();
    let again = device.create(at(0, 5), &b).unwrap();
    assert!(device.verify(ME, &again, &b) && !device.verify(ME, &ui, &a));
    let changed = Membership { configuration: Digest::of(b"other keys"), ..next };
    assert_eq!(device.begin_epoch(&changed), Err(Refused::Spent));
    let mut copy = devices.clone();
    assert_eq!(copy.create(Instance::FIRST, at(0, 5), &b), Ok(again), "in its epoch");
    counts(&crypto)
}

#[test]
fn each_question_and_each_seal_is_compared() {
    assert_eq!(story(Counter::Usig), Compared { asked: 9, judged: 6 });
    assert_eq!(story(Counter::Trinx), Compared { asked: 9, judged: 6 });
}

#[test]
fn nobody_makes_counters_that_are_not_bound_to_views() {
    assert!(keys(Counter::Unbound).real().is_none());
}

/// What the world says when a device stands alone, but its group does not.
fn said_of(makes: impl Fn(&mut SimDevice, &Crypto)) -> String {
    let crypto = keys(Counter::Trinx);
    let mut alone = SimDevice::new(ME, crypto.clone());
    let said: Result<(), String> = quiet::catch(|| makes(&mut alone, &crypto));
    said.unwrap_err()
}

#[test]
fn a_seal_that_no_device_of_production_made_too_is_not_passed_over() {
    let digest = Digest::of(b"a");
    let certified = said_of(|alone, _| {
        let ui = alone.create(at(0, 5), &digest).unwrap();
        alone.verify(ME, &ui, &digest);
    });
    let attributed = said_of(|alone, crypto| {
        let mac = alone.mac(&digest).unwrap();
        let (instance, incarnation, epoch) = (Instance::FIRST, INCARNATION, Epoch(0));
        let by = Certifier { replica: ME, instance, incarnation, epoch };
        assert!(crypto.is_mac(by, &digest, &mac));
    });
    for said in [certified, attributed] {
        assert!(said.contains("no device of production made"), "{said}");
    }
}

#[cfg(feature = "mutants")]
#[test]
fn each_seeded_bug_of_the_devices_of_production_shows_in_the_story() {
    use pentarchy_core::mutant;
    let finds = |counter, bug| mutant::with(Some(bug), || quiet::catch(|| story(counter)).is_err());
    for bug in ["trusted.stays-in-its-epoch", "trusted.certifies-twice"] {
        assert!(finds(Counter::Usig, bug), "{bug}");
    }
    for bug in [
        "trusted.restores-nothing",
        "trusted.seal-not-checked",
        "trusted.checks-in-its-epoch",
        "domain.configurations-shared",
    ] {
        assert!(finds(Counter::Usig, bug), "{bug}");
    }
    for bug in ["trusted.leaves-in-silence", "trusted.forgets-what-it-said"] {
        assert!(finds(Counter::Trinx, bug), "{bug}");
    }
}
