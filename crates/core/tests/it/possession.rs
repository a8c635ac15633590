//! A member that says that it is ready shows that it has the key by which it is to sign.

use crate::governed::{adding, first, identity, life, ready};
use pentarchy_core::auth::Signature;
use pentarchy_core::change::{Petition, Ready, proves_possession};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::wire::Wire;

/// A key convinces as that of one member, for one change, in one epoch, with one device.
#[test]
fn who_is_ready_shows_that_it_has_the_key_that_it_names() {
    let change = adding(&first());
    let (client, Petition::Ready(unsigned)) = ready(&change, 1) else { panic!() };
    let sign = |key: &[u8; 32], digest: &Digest| {
        let mut signature = [0; 64];
        signature[..32].copy_from_slice(&digest.0);
        signature[32..].copy_from_slice(key);
        Signature(signature)
    };
    let possession = sign(&unsigned.signing, &unsigned.statement(&client));
    let good = Ready { possession, ..unsigned };
    let proves = |client: ClientId, ready: Ready| {
        let operation = Petition::Ready(ready).to_bytes();
        let requests = vec![Request { number: 1, operation }];
        let draft = Draft { client, floor: 0, events: None, requests };
        let envelope = draft.seal(RequestAuth::Signature([0; 64]));
        proves_possession(&envelope, |key, digest, signed| sign(key, digest) == *signed)
    };
    assert!(proves(client, good));
    assert!(!proves(identity(2), good), "it is another member's");
    assert!(!proves(client, unsigned));
    let alter: [fn(&mut Ready); 4] = [
        |it| it.epoch = Epoch(1),
        |it| it.change = Digest::of(b"another"),
        |it| it.signing[0] ^= 1,
        |it| it.life = life(3),
    ];
    for alter in alter {
        let mut other = good;
        alter(&mut other);
        assert!(!proves(client, other), "{other:?}");
    }
    let signature = |of: &Ready| sign(&[7; 32], &of.statement(&client));
    assert!(!proves(client, Ready { possession: signature(&good), ..good }), "by another key");
}

/// Each costs as much as the signature of an envelope, and a stranger can make as many.
#[test]
fn an_envelope_shows_one_key_at_most() {
    let (client, Petition::Ready(ready)) = ready(&adding(&first()), 1) else { panic!() };
    let checked = |count: u64| {
        let operation = Petition::Ready(ready).to_bytes();
        let request = |number| Request { number, operation: operation.clone() };
        let requests = (1..=count).map(request).collect();
        let envelope = Draft { client, floor: 0, events: None, requests }
            .seal(RequestAuth::Signature([0; 64]));
        let checks = core::cell::Cell::new(0);
        let check = |_: &[u8; 32], _: &Digest, _: &Signature| {
            checks.set(checks.get() + 1);
            true
        };
        (proves_possession(&envelope, check), checks.get())
    };
    assert_eq!(checked(1), (true, 1));
    assert_eq!(checked(512), (false, 0));
}
