//! A device's identity, as it waits in a file for its one life.
//!
//! The membership names each device's incarnation (and public key, if it has one) before any device
//! is started, so both are drawn when the group's keys are made. The in-process device counts in
//! memory: a second start under the same identity would count from the beginning again and could
//! certify two messages at one position, which is the one thing that must not happen. So the file
//! is used up by the first start. Its name ends in `.used` from then on, and a replica that lost
//! its state begins a new incarnation ([`DeviceIdentity::next_life`]), which its group has to
//! admit.

use ed25519_dalek::SigningKey;
use pentarchy_core::ids::Incarnation;
use pentarchy_core::membership::{Life, Member};
use pentarchy_crypto::keys::random_secret;
use pentarchy_crypto::secret_file::{self, SecretFileError};
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The label of an identity file.
pub const DEVICE_LABEL: &str = "pentarchy-device-1";

/// In place of a seed in an identity file: certifies with the group's secret.
const NO_SEED: &str = "mac";

/// Who a device is in one life. Used up by making the device; deliberately not to be cloned.
pub struct DeviceIdentity {
    incarnation: Incarnation,
    seed: Option<Zeroizing<[u8; 32]>>,
}

/// Why an identity cannot be taken.
#[derive(Debug)]
pub enum TakeError {
    /// The file cannot be used.
    File(SecretFileError),
    /// A device was started with this identity before; this file says so.
    Used(PathBuf),
    /// The membership names another incarnation or device key. The file was left as it is.
    NotAdmitted(PathBuf),
    /// The file could not be marked as used, so no device may be started with it.
    Unmarked(PathBuf, io::Error),
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(error) => fmt::Display::fmt(error, f),
            Self::Used(path) => write!(
                f,
                "this trusted device has been started before ({} exists). Its counter was lost \
                 when it stopped; started again it could certify two messages at one position. \
                 The replica needs a device that begins a new incarnation",
                path.display()
            ),
            Self::NotAdmitted(path) => write!(
                f,
                "the membership admits another trusted device for this replica than the one in {}: \
                 use the identity that was made with this membership",
                path.display()
            ),
            Self::Unmarked(path, error) => write!(
                f,
                "{}: {error}. A trusted device's identity is marked as used before the device is \
                 started, so its file must lie in a directory that this process may write",
                path.display()
            ),
        }
    }
}

impl std::error::Error for TakeError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::File(error) => Some(error),
            Self::Unmarked(_, error) => Some(error),
            Self::Used(_) | Self::NotAdmitted(_) => None,
        }
    }
}

impl DeviceIdentity {
    /// A new identity for a device that certifies with the group's secret.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn generate_mac() -> Self {
        Self { incarnation: random_incarnation(), seed: None }
    }

    /// A new identity for a device that certifies with a key of its own.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn generate_signature() -> Self {
        Self { incarnation: random_incarnation(), seed: Some(random_secret()) }
    }

    /// An identity for the next life of a member's device, of the same kind as the one before. It
    /// exists in memory only: a device that is started once more begins yet another life.
    ///
    /// # Panics
    /// If the operating system has no randomness to give.
    #[must_use]
    pub fn next_life(member: &Member) -> Self {
        if member.life().is_mac() { Self::generate_mac() } else { Self::generate_signature() }
    }

    /// A chosen identity, for simulators and tests, and for a device that becomes one of another
    /// kind in a later epoch. With a seed it has a key of its own.
    #[must_use]
    pub fn chosen(incarnation: Incarnation, seed: Option<[u8; 32]>) -> Self {
        Self { incarnation, seed: seed.map(Zeroizing::new) }
    }

    /// The life that this is, as others know it.
    #[must_use]
    pub fn life(&self) -> Life {
        Life { incarnation: self.incarnation, device_key: self.device_key() }
    }

    /// The life that this is.
    #[must_use]
    pub const fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    /// The public key for [`Member::device_key`]; all zero if the device certifies with MACs.
    #[must_use]
    pub fn device_key(&self) -> [u8; 32] {
        self.seed().map_or([0; 32], |seed| SigningKey::from_bytes(seed).verifying_key().to_bytes())
    }

    pub(crate) fn seed(&self) -> Option<&[u8; 32]> {
        self.seed.as_deref()
    }

    /// Creates an identity file with mode 0600.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file exists or cannot be written.
    pub fn save(&self, path: &Path) -> Result<(), SecretFileError> {
        let seed = self.seed().map(|seed| secret_file::to_hex(seed));
        let seed = seed.as_deref().map_or(NO_SEED, String::as_str);
        secret_file::create(path, DEVICE_LABEL, &[&self.incarnation.0.to_string(), seed])
    }

    /// What the membership has to say of the device in this file: incarnation and device key.
    /// Uses nothing up.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file is missing, malformed, or open to others than its owner.
    pub fn describe(path: &Path) -> Result<(Incarnation, [u8; 32]), SecretFileError> {
        Self::read(path).map(|identity| (identity.incarnation, identity.device_key()))
    }

    /// Takes the identity out of its file, for ever: renames the file to end in `.used` and makes
    /// that durable before it returns. Of several who try, at most one succeeds.
    ///
    /// # Errors
    /// [`TakeError`] if the file cannot be used, was used, or is not what the membership admits. In
    /// the last case nothing is used up.
    pub fn take(path: &Path, admitted: &Member) -> Result<Self, TakeError> {
        let used = used_name(path);
        if used.exists() {
            return Err(TakeError::Used(used));
        }
        let identity = Self::read(path).map_err(TakeError::File)?;
        if (identity.incarnation, identity.device_key())
            != (admitted.incarnation, admitted.device_key)
        {
            return Err(TakeError::NotAdmitted(path.to_owned()));
        }
        // Creating the new name decides who wins; a crash after it leaves the identity used.
        match OpenOptions::new().write(true).create_new(true).open(&used) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                return Err(TakeError::Used(used));
            }
            Err(error) => return Err(TakeError::Unmarked(used, error)),
        }
        fs::rename(path, &used)
            .and_then(|()| secret_file::sync_directory_of(&used))
            .map_err(|error| TakeError::Unmarked(used, error))?;
        Ok(identity)
    }

    /// Reads an identity, for a device whose memory outlives its process: whoever calls this brings
    /// the device to where it was before it certifies anything, or knows that it was never started.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file is missing, malformed, or open to others than its owner.
    pub fn load(path: &Path) -> Result<Self, SecretFileError> {
        Self::read(path)
    }

    fn read(path: &Path) -> Result<Self, SecretFileError> {
        secret_file::read(path, DEVICE_LABEL, |fields| {
            let [incarnation, seed] = fields else {
                return None;
            };
            let incarnation = Incarnation(incarnation.parse().ok()?);
            let seed = match *seed {
                NO_SEED => None,
                hex => Some(Zeroizing::new(secret_file::from_hex(hex)?)),
            };
            Some(Self { incarnation, seed })
        })
    }
}

impl fmt::Debug for DeviceIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "DeviceIdentity({})", self.incarnation)
    }
}

fn used_name(path: &Path) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(".used");
    PathBuf::from(name)
}

/// As good as unique: a device that lost its state draws another one.
fn random_incarnation() -> Incarnation {
    let secret = random_secret();
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&secret[..8]);
    Incarnation(u64::from_le_bytes(bytes))
}
