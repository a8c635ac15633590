//! Known answers, and the conversion to X25519.

use crate::replica_key;
use curve25519_dalek::MontgomeryPoint;
use curve25519_dalek::constants::EIGHT_TORSION;
use pentarchy_core::digest::Digest;
use pentarchy_crypto::keys::{GroupSecret, KeyPair, channel_public};
use pentarchy_crypto::secret_file::{from_hex, to_hex};

/// Seed and public key of the first test vector of RFC 8032, section 7.1.
const SEED: &str = "9d61b19deffd5a60ba844af492ec2cc44449c5697b326919703bac031cae7f60";
const PUBLIC: &str = "d75a980182b10ab7d54bfed3c964073a0ee172f3daa62325af021a68f707511a";
/// Its signature of the bytes 0 to 31, made with OpenSSL.
const SIGNATURE: &str = "00c1db988bb12fd7351a6054ae3fac90fab7e4fc56b1651c7181f5f55f896f66\
                         3933d3a90605d9058e9d0ac45950ee2d3c9c9b14857415587179fe0ccac35f09";

#[test]
fn a_known_seed_gives_the_known_key_and_signature() {
    let keys = KeyPair::from_seed(from_hex(SEED).unwrap());
    assert_eq!(*to_hex(&keys.public()), PUBLIC);
    assert_eq!(keys.client_id().0, keys.public());
    let message = Digest(std::array::from_fn(|index| index as u8));
    assert_eq!(*to_hex(&keys.sign(&message)), SIGNATURE);
}

#[test]
fn channel_keys_match_and_agree() {
    let (a, b) = (replica_key(0), replica_key(1));
    let public = |keys: &KeyPair| channel_public(&keys.public()).unwrap();
    let own = MontgomeryPoint::mul_base_clamped(*a.channel_secret());
    assert_eq!(own.to_bytes(), public(&a));
    let from_a = MontgomeryPoint(public(&b)).mul_clamped(*a.channel_secret());
    let from_b = MontgomeryPoint(public(&a)).mul_clamped(*b.channel_secret());
    assert_eq!(from_a, from_b);
    assert_ne!(public(&a), public(&b));
}

#[test]
fn there_is_no_channel_to_a_point_of_low_order_or_to_no_point() {
    for point in EIGHT_TORSION {
        assert_eq!(channel_public(&point.compress().to_bytes()), None);
    }
    let no_point = (0..=255u8)
        .map(|byte| [byte; 32])
        .find(|bytes| curve25519_dalek::edwards::CompressedEdwardsY(*bytes).decompress().is_none());
    assert_eq!(channel_public(&no_point.unwrap()), None);
}

#[test]
fn secrets_are_not_printed() {
    let seed = [0xab; 32];
    let printed = format!("{:?} {:?}", KeyPair::from_seed(seed), GroupSecret::from_bytes(seed));
    assert!(!printed.contains("abab") && !printed.contains("171"), "{printed}");
}

#[test]
fn generated_secrets_differ() {
    assert_ne!(KeyPair::generate().public(), KeyPair::generate().public());
    assert_ne!(GroupSecret::generate().as_bytes(), GroupSecret::generate().as_bytes());
}
