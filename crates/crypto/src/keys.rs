//! A node's key pair, and the secret that the group's trusted devices share.
//!
//! # One key for two purposes
//!
//! Noise channels need an X25519 static key, statements an Ed25519 key. A node has one seed for
//! both: its X25519 key is the image of its Ed25519 key under the birational map between the two
//! forms of the curve, so whoever knows a member's public key knows with whom the channel is to be
//! opened, and there is no second key to distribute, certify or lose.
//!
//! Using one secret scalar in two schemes is sound if neither scheme gives an oracle against the
//! other. For this pair, joint security was proved in the random oracle model by E. Thormarker, *On
//! using the same key pair for Ed25519 and an X25519 based KEM* (IACR ePrint 2021/509), for a KEM
//! that hashes the shared point before use. Noise hashes every shared point into its chaining key,
//! and so do the derivations of pairwise MAC keys in [`crate::request_auth`], of session keys in
//! [`crate::session`], and of keys for secrets on their way in [`crate::sealed`]; none shows a
//! shared point or a bare scalar to anyone. What remains outside that proof is that a Noise
//! handshake is several such steps rather than one KEM.

use crate::costs;
use crate::secret_file::{self, SecretFileError};
use ed25519_dalek::{Signature, Signer as _, SigningKey, VerifyingKey};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::ClientId;
use std::fmt;
use std::path::Path;
use zeroize::{Zeroize, Zeroizing};

/// The label of a key file.
pub const KEY_LABEL: &str = "pentarchy-key-1";
/// The label of a file with a group's secret.
pub const GROUP_SECRET_LABEL: &str = "pentarchy-group-secret-1";

/// One node's Ed25519 key pair. Its memory is overwritten when it goes out of scope, and it never
/// prints its secret.
#[derive(Clone)]
pub struct KeyPair {
    signing: SigningKey,
}

/// Whether somebody signed this by the key of which this is the public part.
#[must_use]
pub fn is_signed_by(key: &[u8; 32], digest: &Digest, signature: &[u8; 64]) -> bool {
    costs::SIGNATURES_VERIFIED.add(1);
    let signature = Signature::from_bytes(signature);
    VerifyingKey::from_bytes(key).is_ok_and(|key| key.verify_strict(&digest.0, &signature).is_ok())
}

impl KeyPair {
    /// A new random key.
    ///
    /// # Panics
    /// If the operating system has no randomness to give: nothing safe can follow.
    #[must_use]
    pub fn generate() -> Self {
        Self::from_seed(*random_secret())
    }

    /// The key of a known seed, for tests, simulations and keys that are stored elsewhere.
    #[must_use]
    pub fn from_seed(mut seed: [u8; 32]) -> Self {
        let signing = SigningKey::from_bytes(&seed);
        seed.zeroize();
        Self { signing }
    }

    /// The Ed25519 public key, as the membership names it.
    #[must_use]
    pub fn public(&self) -> [u8; 32] {
        self.signing.verifying_key().to_bytes()
    }

    /// The client who is whoever holds this key.
    #[must_use]
    pub fn client_id(&self) -> ClientId {
        ClientId(self.public())
    }

    /// Signs a statement. The digest must come from [`pentarchy_core::digest::Domain::statement`],
    /// which keeps statements of different kinds, groups and epochs apart.
    #[must_use]
    pub fn sign(&self, digest: &Digest) -> [u8; 64] {
        costs::SIGNATURES_MADE.add(1);
        self.signing.sign(&digest.0).to_bytes()
    }

    /// The X25519 secret of this node's channels; not yet clamped, as X25519 does that itself.
    #[must_use]
    pub fn channel_secret(&self) -> Zeroizing<[u8; 32]> {
        Zeroizing::new(self.signing.to_scalar_bytes())
    }

    /// Reads a key file.
    ///
    /// # Errors
    /// [`SecretFileError`] if it is missing, malformed, or open to others than its owner.
    pub fn load(path: &Path) -> Result<Self, SecretFileError> {
        read_secret(path, KEY_LABEL).map(|seed| Self::from_seed(*seed))
    }

    /// Creates a key file with mode 0600.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SecretFileError> {
        secret_file::create(path, KEY_LABEL, &[&secret_file::to_hex(self.signing.as_bytes())])
    }
}

impl fmt::Debug for KeyPair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyPair({})", self.client_id())
    }
}

/// The X25519 public key for channels with the node of this Ed25519 public key. `None` if the bytes
/// are no point of the curve, or one of the few with which a channel would not be secret.
#[must_use]
pub fn channel_public(public: &[u8; 32]) -> Option<[u8; 32]> {
    let key = VerifyingKey::from_bytes(public).ok()?;
    if key.is_weak() { None } else { Some(key.to_montgomery().to_bytes()) }
}

/// The MAC key that only a group's trusted devices may hold. Whoever learns it can forge every
/// counter certificate of the group.
#[derive(Clone)]
pub struct GroupSecret(Zeroizing<[u8; 32]>);

impl GroupSecret {
    /// A new random secret.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn generate() -> Self {
        Self(random_secret())
    }

    /// A known secret, for tests and simulations.
    #[must_use]
    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(Zeroizing::new(bytes))
    }

    /// Names it, for whoever has it and for whoever has not.
    #[must_use]
    pub fn name(&self) -> Digest {
        Hasher::new("pentarchy group secret").bytes(self.as_bytes()).finish()
    }

    /// The secret, for the trusted device.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// Reads a file with a group's secret.
    ///
    /// # Errors
    /// [`SecretFileError`] if it is missing, malformed, or open to others than its owner.
    pub fn load(path: &Path) -> Result<Self, SecretFileError> {
        read_secret(path, GROUP_SECRET_LABEL).map(Self)
    }

    /// Creates a file with a group's secret, with mode 0600.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SecretFileError> {
        secret_file::create(path, GROUP_SECRET_LABEL, &[&secret_file::to_hex(&*self.0)])
    }
}

impl fmt::Debug for GroupSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("GroupSecret(..)")
    }
}

/// 32 random bytes of the operating system.
///
/// # Panics
/// If it has none to give.
#[must_use]
pub fn random_secret() -> Zeroizing<[u8; 32]> {
    let mut secret = Zeroizing::new([0; 32]);
    getrandom::fill(&mut *secret).expect("the operating system gives randomness");
    secret
}

fn read_secret(path: &Path, label: &'static str) -> Result<Zeroizing<[u8; 32]>, SecretFileError> {
    secret_file::read(path, label, |fields| match fields {
        [hex] => secret_file::from_hex(hex).map(Zeroizing::new),
        _ => None,
    })
}
