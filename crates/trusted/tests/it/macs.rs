//! Trusted MACs as protocols have them: who said it, to every device of the group, and no more.

use crate::trinx_contract::{LIFE, ME, MINE, ask, digest};
use crate::{EPOCH, REPLICAS, SECRET, membership};
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::authenticator::Authenticator as _;
use pentarchy_core::counter::{Certificate, Instance, Memory, Position, Refused, TrustedMac, Usig};
use pentarchy_core::ids::{Epoch, Incarnation, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::verifier::{GroupVerifier, Maker, RequestMode, UsigCheck};
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::backend::process::question::Device;
use pentarchy_trusted::order_counter::trusted_mac;
use pentarchy_trusted::trinx::Kind;
use pentarchy_trusted::{DeviceIdentity, OrderCheck, OrderCounter, TrinxInProcess};
use std::sync::Arc;

fn group() -> Membership {
    membership(&[[0; 32]; REPLICAS as usize])
}

fn maker(number: u8) -> Maker {
    Maker { replica: MINE, instance: Instance(number), incarnation: LIFE }
}

/// Two instances of a replica, wherever they are, and every way to check what they make.
fn say_who<U: Usig>(mut counters: Vec<U>, checks: &[OrderCheck]) {
    let before: Vec<Option<Memory>> = counters.iter().map(Usig::memory).collect();
    let said = digest(1);
    let macs: Vec<TrustedMac> =
        counters.iter_mut().map(|it| it.mac(&said).expect("it is well")).collect();
    assert_ne!(macs[0], macs[1], "an instance is not another one");
    for (number, mac) in (0u8..).zip(&macs) {
        let by = maker(number);
        for check in checks {
            assert!(check.check_mac(by, mac, &said));
            let others = [
                Maker { replica: ReplicaId(0), ..by },
                Maker { instance: Instance(1 - number), ..by },
                Maker { incarnation: Incarnation(LIFE.0 + 1), ..by },
            ];
            for other in others {
                assert!(!check.check_mac(other, mac, &said), "{other:?}");
            }
            assert!(!check.check_mac(by, mac, &digest(2)));
            let later = Membership { epoch: Epoch(EPOCH.epoch.0 + 1), ..group() };
            assert!(!check.for_epoch(&later).check_mac(by, mac, &said));
        }
    }
    // It excludes nothing: there is one for whatever it is asked, in any order and again.
    let other = counters[0].mac(&digest(2)).expect("a device gives what it is asked for");
    assert!(other != macs[0] && checks[0].check_mac(maker(0), &other, &digest(2)));
    assert_eq!(counters[0].mac(&said), Ok(macs[0]));
    let after: Vec<Option<Memory>> = counters.iter().map(Usig::memory).collect();
    assert_eq!(before, after, "nothing moves");
    // Also after what moves the counter that orders.
    counters[0].create(Position::new(View(3), 5), &digest(4)).expect("it is fresh");
    assert_eq!(counters[0].mac(&said), Ok(macs[0]));
}

#[test]
fn a_trusted_mac_says_who_said_it_to_every_device_and_excludes_nothing() {
    let identity = DeviceIdentity::chosen(LIFE, None);
    let here = OrderCounter::open_all(&group(), ME, &identity, Some(&SECRET), 2);
    let process = crate::process::start(Device::Trinx(2), ME, LIFE);
    let checks = [OrderCheck::new(&SECRET, &group()), OrderCheck::apart(process.clone(), &group())];
    say_who(here.expect("MAC devices"), &checks);
    say_who(OrderCounter::apart_all(&process, &group(), 2), &checks);
}

/// The seal of whatever else an instance certifies is no trusted MAC of the same digest, nor the
/// other way round.
#[test]
fn nothing_else_that_an_instance_certifies_passes_for_a_trusted_mac() {
    let identity = DeviceIdentity::chosen(LIFE, None);
    let device = || TrinxInProcess::initialise(&SECRET, EPOCH, ME, &identity, 1).expect("MACs");
    let check = OrderCheck::new(&SECRET, &group());
    let of = digest(1);
    let mac = device().certify(0, &trusted_mac(), &of).expect("it is well").seal;
    assert!(check.check_mac(maker(0), &TrustedMac(mac), &of));
    let asked = [
        ask(Kind::Continuing, &[(0, 0)]),
        ask(Kind::Continuing, &[(1, 1)]),
        ask(Kind::Independent, &[(1, 1)]),
        ask(Kind::Independent, &[(0, 1)]),
        ask(Kind::Continuing, &[(0, 0), (1, 0)]),
        ask(Kind::Continuing, &[(2, 0)]),
    ];
    for asked in asked {
        let seal = device().certify(0, &asked, &of).expect("a fresh device").seal;
        assert!(!check.check_mac(maker(0), &TrustedMac(seal), &of), "{asked:?}");
    }
    // Whose counter for MACs has moved has no voice; nobody else has lost anything.
    let mut moved = device();
    moved.certify(0, &ask(Kind::Continuing, &[(1, 1)]), &of).expect("a fresh device");
    assert!(moved.certify(0, &trusted_mac(), &of).is_err());
    let mut counter = OrderCounter::open(&group(), ME, &identity, Some(&SECRET)).expect("MACs");
    let ui = counter.create(Position::new(View(0), 2), &of).expect("it is fresh");
    let posing = pentarchy_core::counter::Ui { certificate: Certificate::Mac(mac), ..ui };
    assert!(counter.verify(MINE, &ui, &of) && !counter.verify(MINE, &posing, &of));
}

/// Through what hosts make and check: in the life that the membership admits, and only where
/// devices certify by MAC.
#[test]
fn a_host_believes_a_trusted_mac_of_the_life_that_its_membership_admits() {
    let group = Arc::new(group());
    let by = (MINE, Instance::FIRST);
    let host = |life: Incarnation| {
        let identity = DeviceIdentity::chosen(life, None);
        let device = OrderCounter::open(&group, ME, &identity, Some(&SECRET)).expect("MACs");
        let check = device.check();
        let keys = KeyPair::from_seed([0x40 + ME.0 as u8; 32]);
        let verifier = |group: &Arc<Membership>| {
            GroupVerifier::new(group.clone(), check.clone(), RequestMode::Signature, None).unwrap()
        };
        let mut signing = Membership::clone(&group);
        let own = &mut Arc::make_mut(&mut signing.members)[usize::from(MINE.0)];
        own.device_key = crate::device_keys()[usize::from(MINE.0)];
        let verifiers = (verifier(&group), verifier(&Arc::new(signing)));
        (Authenticator::new(keys, vec![Box::new(device)]), verifiers)
    };
    let said = digest(1);
    let made = |authenticator: &mut Authenticator| match authenticator
        .tag(&Auth::Mac(Instance::FIRST), &said)
    {
        Ok(AuthTag::Mac(mac)) => mac,
        other => panic!("{other:?}"),
    };
    let admitted = group.members[usize::from(MINE.0)].incarnation;
    let (mut authenticator, (verifier, signing)) = host(admitted);
    let mac = made(&mut authenticator);
    assert!(verifier.mac(by, &said, &mac) && !verifier.mac(by, &digest(2), &mac));
    assert!(!signing.mac(by, &said, &mac), "its device makes signatures");
    assert!(!verifier.mac((ReplicaId(REPLICAS), Instance::FIRST), &said, &mac), "no such replica");
    let (mut another, _) = host(Incarnation(admitted.0 + 1));
    assert!(!verifier.mac(by, &said, &made(&mut another)));
    let none = authenticator.tag(&Auth::Mac(Instance(1)), &said);
    assert_eq!(none, Err(Refused::Unavailable), "there is one device");
}
