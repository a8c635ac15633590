//! What Olympus asks of keys.

use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;

/// Checks Ed25519 signatures of members. All replicas have to check alike, so this is to be the
/// strict check that the group's own replicas use.
pub trait CheckSignatures: Send {
    /// Whether the holder of this key signed the statement with this digest.
    fn signed(&self, key: &[u8; 32], statement: &Digest, signature: &Signature) -> bool;
}
