//! The contract for each device there is, and devices at work with keys and verifiers.

use crate::contract::contract;
use crate::{REPLICAS, SECRET, by_mac, device_keys, member, membership, signing};
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::authenticator::Authenticator as _;
use pentarchy_core::counter::{Position, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, MemberId, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_crypto::authenticator::Authenticator;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_crypto::verifier::{GroupVerifier, RequestMode};
use pentarchy_trusted::backend::in_process::BadDevice;
use pentarchy_trusted::check::BadDeviceKey;
use pentarchy_trusted::{Check, DeviceIdentity, InProcess};
use std::sync::Arc;

const DIGEST: Digest = Digest([3; 32]);

pub fn mac_device(replica: ReplicaId, incarnation: Incarnation) -> InProcess {
    let identity = DeviceIdentity::chosen(incarnation, None);
    InProcess::mac(&SECRET, &by_mac(), member(replica), identity).unwrap()
}

#[test]
fn the_mac_device_keeps_the_contract() {
    let make = |group: &Membership, replica, life| -> Box<dyn Usig> {
        let identity = DeviceIdentity::chosen(life, None);
        Box::new(InProcess::mac(&SECRET, group, member(replica), identity).unwrap())
    };
    contract(&make, &by_mac()).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn the_signing_device_keeps_the_contract() {
    let keys = device_keys();
    let make = |group: &Membership, replica, life| -> Box<dyn Usig> {
        let identity = signing(replica, life);
        Box::new(InProcess::signature(group, member(replica), identity).unwrap())
    };
    contract(&make, &membership(&keys)).unwrap_or_else(|broken| panic!("{broken}"));
}

#[test]
fn certificates_are_bound_to_their_context() {
    let ui = mac_device(ReplicaId(0), Incarnation(1))
        .create(Position::new(View(0), 3), &DIGEST)
        .unwrap();
    let here = by_mac();
    let elsewhere = Membership { configuration: Digest([8; 32]), ..here.clone() };
    assert!(Check::mac(&SECRET, &here).check(ReplicaId(0), &ui, &DIGEST));
    assert!(!Check::mac(&SECRET, &elsewhere).check(ReplicaId(0), &ui, &DIGEST));
    assert!(!Check::mac(&[8; 32], &here).check(ReplicaId(0), &ui, &DIGEST));
}

/// A replica as its host sees it: what it says, and what it believes.
fn host(
    group: &Arc<Membership>,
    me: u16,
    identity: DeviceIdentity,
) -> (Authenticator, GroupVerifier) {
    let device = InProcess::open(group, MemberId(me.into()), identity, Some(&SECRET)).unwrap();
    let check = device.check();
    let keys = KeyPair::from_seed([0x40 + me as u8; 32]);
    let verifier = GroupVerifier::new(group.clone(), check, RequestMode::Signature, None).unwrap();
    (Authenticator::new(keys, vec![Box::new(device)]), verifier)
}

fn certify(authenticator: &mut Authenticator) -> Ui {
    let tag = authenticator.tag(&Auth::usig(Position::new(View(0), 3)), &DIGEST).unwrap();
    let AuthTag::Usig(ui) = tag else { panic!("no certificate") };
    ui
}

fn replicas_believe_each_other(device_keys: &[[u8; 32]], seeds: bool) {
    let group = Arc::new(membership(device_keys));
    let life = |id: u16| Incarnation(100 + u64::from(id));
    let identity = |id: u16| match seeds {
        true => signing(ReplicaId(id), life(id)),
        false => DeviceIdentity::chosen(life(id), None),
    };
    let mut hosts: Vec<_> = (0..REPLICAS).map(|id| host(&group, id, identity(id))).collect();
    let uis: Vec<Ui> = hosts.iter_mut().map(|(authenticator, _)| certify(authenticator)).collect();
    for (_, verifier) in &hosts {
        for (author, ui) in (0..).zip(&uis) {
            for claimed in 0..REPLICAS {
                assert_eq!(verifier.usig(ReplicaId(claimed), &DIGEST, ui), claimed == author);
            }
            assert!(!verifier.usig(ReplicaId(author), &Digest([4; 32]), ui));
        }
    }
    // A membership that differs in its epoch believes none of it.
    let next = Arc::new(Membership { epoch: Epoch(2), ..(*group).clone() });
    let (_, verifier) = host(&next, 0, identity(0));
    assert!((0..).zip(&uis).all(|(id, ui)| !verifier.usig(ReplicaId(id), &DIGEST, ui)));
}

#[test]
fn replicas_with_mac_devices_believe_each_other() {
    replicas_believe_each_other(&[[0; 32]; REPLICAS as usize], false);
}

#[test]
fn replicas_with_signing_devices_believe_each_other() {
    replicas_believe_each_other(&device_keys(), true);
}

#[test]
fn a_device_of_a_life_that_the_membership_does_not_admit_is_not_believed() {
    let group = Arc::new(by_mac());
    let (mut stranger, verifier) = host(&group, 0, DeviceIdentity::chosen(Incarnation(55), None));
    assert!(!verifier.usig(ReplicaId(0), &DIGEST, &certify(&mut stranger)));
}

#[test]
fn what_does_not_fit_together_makes_no_device() {
    let mac = || DeviceIdentity::chosen(Incarnation(100), None);
    let me = ReplicaId(0);
    let by_mac = by_mac();
    let by_signature = membership(&device_keys());
    let open = |group: &Membership, identity, secret: Option<&[u8; 32]>| {
        InProcess::open(group, member(me), identity, secret).unwrap_err()
    };
    assert_eq!(open(&by_mac, mac(), None), BadDevice::SecretMissing);
    assert_eq!(open(&by_signature, mac(), Some(&SECRET)), BadDevice::WrongKind);
    let signing = || signing(me, Incarnation(100));
    assert_eq!(open(&by_mac, signing(), Some(&SECRET)), BadDevice::WrongKind);

    // The neutral element of the curve: a point for which anyone can sign.
    let mut weak = device_keys();
    weak[2] = [0; 32];
    weak[2][0] = 1;
    let bad = BadDeviceKey { member: MemberId(2) };
    assert_eq!(open(&membership(&weak), signing(), None), BadDevice::Key(bad));
    weak[2] = [0; 32];
    assert_eq!(open(&membership(&weak), signing(), None), BadDevice::Key(bad), "mixed kinds");
}
