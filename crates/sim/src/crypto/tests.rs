//! Nobody can say what is not theirs to say.

use super::*;
use pentarchy_core::Bytes;
use pentarchy_core::counter::Position;
use pentarchy_core::ids::ReplicaSet;
use pentarchy_core::request::{Draft, Request, RequestAuth};
use std::sync::Arc;

/// A public key; each has its secret.
const KEY: [u8; 32] = [9; 32];

#[test]
fn nobody_can_speak_for_another() {
    let crypto = Crypto::new(1, 3, 2);
    let (digest, other) = (Digest::of(b"a"), Digest::of(b"b"));
    let signed = crypto.sign(ReplicaId(1), &KEY, &digest);
    assert!(crypto.is_signed((ReplicaId(1), &KEY), &digest, &signed));
    assert!(!crypto.is_signed((ReplicaId(2), &KEY), &digest, &signed));
    assert!(!crypto.is_signed((ReplicaId(1), &KEY), &other, &signed));
    assert!(!crypto.is_signed((ReplicaId(9), &KEY), &digest, &signed));
    assert!(!crypto.is_signed((ReplicaId(1), &[8; 32]), &digest, &signed), "by another key");
}

#[test]
fn an_envelope_convinces_only_as_its_client_made_it() {
    let crypto = Crypto::new(1, 3, 2);
    let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
    let draft = Draft { client: client_id(1, 0), floor: 1, events: None, requests };
    let good = crypto.seal(draft.clone());
    assert!(crypto.envelope(&good));
    let mut stolen = draft;
    stolen.client = client_id(1, 1);
    assert!(!crypto.envelope(&stolen.seal(good.auth)));
}

#[test]
fn macs_convince_only_those_for_whom_they_are() {
    let crypto = Arc::new(Crypto::new(1, 3, 1).with(Means::Macs));
    let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
    let draft = Draft { client: client_id(1, 0), floor: 1, events: None, requests };
    let partial = crypto.seal_for(draft.clone(), ReplicaSet::from_iter([ReplicaId(1)]));
    let convinces = |envelope: &Envelope| {
        let membership = Arc::new(crate::world::membership(1, 3, 1));
        [0, 1, 2].map(|me| {
            let (crypto, membership) = (crypto.clone(), membership.clone());
            Keys { crypto, me: ReplicaId(me), membership, lets_anyone_in: false }.envelope(envelope)
        })
    };
    assert_eq!(convinces(&partial), [false, true, false]);
    assert_eq!(convinces(&crypto.seal(draft.clone())), [true; 3]);
    assert!(crypto.envelope(&partial), "its client made it");
    assert_eq!(convinces(&Crypto::new(1, 3, 1).seal(draft)), [false; 3], "signed");
}

#[test]
fn a_tag_convinces_all_or_nobody() {
    let crypto = Arc::new(Crypto::new(1, 3, 2).with(Means::Session));
    let membership = Arc::new(crate::world::membership(1, 3, 1));
    let convinces = |envelope: &Envelope| {
        [0, 1, 2].map(|me| {
            let (crypto, membership) = (crypto.clone(), membership.clone());
            Keys { crypto, me: ReplicaId(me), membership, lets_anyone_in: false }.envelope(envelope)
        })
    };
    let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
    let of = |client| Draft { client, floor: 1, events: None, requests: requests.clone() };
    let (client, other) = (client_id(1, 0), client_id(1, 1));
    assert_eq!(convinces(&crypto.seal(of(client))), [true; 3]);
    let digest = of(client).digest();
    let false_tags = [
        crypto.tag(&other, &digest),
        crypto.tag(&client, &of(other).digest()),
        crypto.tag_elsewhere(&client, &digest),
    ];
    for tag in false_tags {
        let envelope = of(client).seal(RequestAuth::Session(tag.unwrap()));
        assert_eq!(convinces(&envelope), [false; 3]);
        assert!(!crypto.envelope(&envelope));
    }
    assert_eq!(convinces(&Crypto::new(1, 3, 2).seal(of(client))), [false; 3], "signed");
    let member = member_id(ReplicaId(1));
    assert_eq!(convinces(&crypto.seal(of(member))), [true; 3], "members sign");
    let tag = crypto.tag(&member, &of(member).digest()).unwrap();
    assert_eq!(convinces(&of(member).seal(RequestAuth::Session(tag))), [false; 3]);
}

#[test]
fn certificates_cover_everything_that_they_say() {
    let crypto = Crypto::new(1, 2, 0);
    let at = |view, index| Position::new(pentarchy_core::ids::View(view), index);
    let digest = Digest::of(b"a");
    let by = Certifier {
        replica: ReplicaId(0),
        instance: Instance::FIRST,
        incarnation: INCARNATION,
        epoch: Epoch(0),
    };
    let all = [
        crypto.certify(by, at(1, 2), at(3, 4), &digest),
        crypto.certify(Certifier { replica: ReplicaId(1), ..by }, at(1, 2), at(3, 4), &digest),
        crypto.certify(
            Certifier { incarnation: Incarnation(2), ..by },
            at(1, 2),
            at(3, 4),
            &digest,
        ),
        crypto.certify(Certifier { instance: Instance(1), ..by }, at(1, 2), at(3, 4), &digest),
        crypto.certify(Certifier { epoch: Epoch(1), ..by }, at(1, 2), at(3, 4), &digest),
        crypto.certify(by, at(2, 2), at(3, 4), &digest),
        crypto.certify(by, at(1, 3), at(3, 4), &digest),
        crypto.certify(by, at(1, 2), at(4, 4), &digest),
        crypto.certify(by, at(1, 2), at(3, 5), &digest),
        crypto.certify(by, at(1, 2), at(3, 4), &Digest::of(b"b")),
    ];
    let different: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len());
}
