//! The bytes under a certificate must not move. The answers were computed with Python's `hmac` and
//! `cryptography` (the domain with Python's `blake3`), from the layout in the documentation alone.

use crate::{EPOCH, SECRET};
use pentarchy_core::counter::{Certificate, Position};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, MemberId, View};
use pentarchy_crypto::secret_file::{from_hex, to_hex};
use pentarchy_trusted::usig::{Claim, Device, GroupKey, Key, statement};

const MAC: &str = "19a61e75fb179e1ab851c31eb3a99b670138b14fcb4b8fd026fdc29723634925";
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const SIGNATURE: &str = "fc859da94059610d170e54a1261141ae7ce12f72dc1115863f572095332fd777\
                         5e310b4cb04f893881fa0da154f9fd8c0df2fa9782f00bf6195dc3d4448a0509";

/// Certifies `0..32` at 3:4 by member 1 in life 5, having committed at 2:17.
fn certificate(key: Key) -> Certificate {
    let mut device = Device::new(EPOCH, MemberId(1), Incarnation(5), key);
    device.create(Position::new(View(2), 17), &Digest([0; 32])).unwrap();
    let digest = Digest(std::array::from_fn(|index| index as u8));
    device.create(Position::new(View(3), 4), &digest).unwrap().certificate
}

#[test]
fn a_mac_certificate_is_what_it_always_was() {
    let Certificate::Mac(mac) = certificate(Key::Group(GroupKey::new(&SECRET))) else { panic!() };
    assert_eq!(*to_hex(&mac), MAC);
}

#[test]
fn a_signed_certificate_is_what_it_always_was() {
    let key = ed25519_dalek::SigningKey::from_bytes(&from_hex(SEED).unwrap());
    let Certificate::Signature(signature) = certificate(Key::Own(key)) else { panic!() };
    assert_eq!(*to_hex(&signature), SIGNATURE);
}

#[test]
fn every_field_has_its_own_place_in_the_statement() {
    let one = |position, committed, incarnation, member, digest| {
        let claim = Claim { incarnation: Incarnation(incarnation), position, committed };
        statement(&Digest([9; 32]), MemberId(member), &claim, &Digest([digest; 32]))
    };
    let at = |view, index| Position::new(View(view), index);
    let statements = [
        one(at(1, 2), at(3, 4), 5, 6, 7),
        one(at(2, 1), at(3, 4), 5, 6, 7),
        one(at(1, 2), at(4, 3), 5, 6, 7),
        one(at(3, 4), at(1, 2), 5, 6, 7),
        one(at(1, 2), at(3, 4), 6, 5, 7),
        one(at(1, 2), at(3, 4), 5, 7, 6),
    ];
    for (index, statement) in statements.iter().enumerate() {
        assert!(!statements[..index].contains(statement), "number {index}");
    }
}
