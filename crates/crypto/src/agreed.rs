//! Keys that two nodes agree on without a word, and the MACs that they make with them.

use crate::costs;
use crate::keys::channel_public;
use curve25519_dalek::MontgomeryPoint;
use pentarchy_core::digest::Digest;
use pentarchy_core::mac_vector::{MAC_BYTES, Mac};
use zeroize::Zeroizing;

/// A key that only two nodes have.
pub type PairKey = Zeroizing<[u8; 32]>;

/// What two nodes share (X25519), from the secret of one and the public key of the other; none if
/// that is no usable key.
pub fn agree(secret: &[u8; 32], peer: &[u8; 32]) -> Option<PairKey> {
    costs::KEY_AGREEMENTS.add(1);
    let shared = MontgomeryPoint(channel_public(peer)?).mul_clamped(*secret);
    Some(Zeroizing::new(shared.to_bytes()))
}

/// The key for one purpose and one direction, of what the two nodes share.
pub fn derive(purpose: &str, shared: &PairKey, from: &[u8; 32], to: &[u8; 32]) -> PairKey {
    // The length is fixed, so that the parts cannot be confused.
    let mut material = Zeroizing::new([0; 96]);
    material[..32].copy_from_slice(&**shared);
    material[32..64].copy_from_slice(from);
    material[64..].copy_from_slice(to);
    Zeroizing::new(blake3::derive_key(purpose, &*material))
}

/// The first bytes of keyed BLAKE3.
pub fn mac(key: &PairKey, digest: &Digest) -> Mac {
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&blake3::keyed_hash(key, &digest.0).as_bytes()[..MAC_BYTES]);
    mac
}
