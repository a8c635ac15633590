//! The device as a value in the replica's own process.
//!
//! It proves protocol logic and stops a replica that is faulty only in what it says. It claims
//! nothing against whoever controls the process: they can read its key, and with MACs that is the
//! key of the whole group. Its counter lives in memory, so it must never be made twice for one
//! identity: hosts get theirs by [`DeviceIdentity::take`].

use crate::check::{BadDeviceKey, Check};
use crate::identity::DeviceIdentity;
use crate::usig::{Device, GroupKey, Key};
use ed25519_dalek::SigningKey;
use pentarchy_core::counter::{Memory, Position, Refused, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, MemberId, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use std::fmt;
use std::sync::Arc;

/// Why no device can be made.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BadDevice {
    /// The identity is for MACs and signatures are wanted, or the other way round.
    WrongKind,
    /// The membership's devices share a secret, and it was not given.
    SecretMissing,
    /// A key of another device is unusable.
    Key(BadDeviceKey),
}

impl fmt::Display for BadDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WrongKind => f.write_str(
                "the trusted device's identity is of another kind (MAC or signature) than the \
                 membership's devices",
            ),
            Self::SecretMissing => f.write_str(
                "the trusted devices of this membership share a secret, and none was given",
            ),
            Self::Key(error) => fmt::Display::fmt(error, f),
        }
    }
}

impl std::error::Error for BadDevice {}

/// A trusted device inside the process that uses it. Not to be cloned: two of one identity could
/// contradict each other.
pub struct InProcess {
    device: Device,
    check: Arc<Check>,
}

impl InProcess {
    /// A device that certifies with the group's shared secret, of which it keeps the only copy that
    /// the host needs.
    ///
    /// # Errors
    /// [`BadDevice::WrongKind`] if the identity has a key of its own.
    pub fn mac(
        group_secret: &[u8; 32],
        membership: &Membership,
        me: MemberId,
        identity: DeviceIdentity,
    ) -> Result<Self, BadDevice> {
        if identity.seed().is_some() {
            return Err(BadDevice::WrongKind);
        }
        let key = Key::Group(GroupKey::new(group_secret));
        let check = Arc::new(Check::mac(group_secret, membership));
        let device = Device::new(membership.epoch_id(), me, identity.incarnation(), key);
        Ok(Self { device, check })
    }

    /// A device that certifies with a key of its own and checks others by those of the membership.
    ///
    /// # Errors
    /// [`BadDevice`] if the identity has no key, or one of the others' is unusable.
    pub fn signature(
        membership: &Membership,
        me: MemberId,
        identity: DeviceIdentity,
    ) -> Result<Self, BadDevice> {
        let key = Key::Own(SigningKey::from_bytes(identity.seed().ok_or(BadDevice::WrongKind)?));
        let check = Check::signature(membership).map_err(BadDevice::Key)?;
        let device = Device::new(membership.epoch_id(), me, identity.incarnation(), key);
        Ok(Self { device, check: Arc::new(check) })
    }

    /// The device that a membership expects of a member. Whether the membership admits this very
    /// identity was checked when it was taken ([`DeviceIdentity::take`]).
    ///
    /// # Errors
    /// [`BadDevice`] if the secret is missing, or identity and membership differ in kind.
    pub fn open(
        membership: &Membership,
        me: MemberId,
        identity: DeviceIdentity,
        group_secret: Option<&[u8; 32]>,
    ) -> Result<Self, BadDevice> {
        if membership.members.iter().all(|member| member.life().is_mac()) {
            let secret = group_secret.ok_or(BadDevice::SecretMissing)?;
            Self::mac(secret, membership, me, identity)
        } else {
            Self::signature(membership, me, identity)
        }
    }

    /// Checks certificates without the counter, for a verifier on any thread.
    #[must_use]
    pub fn check(&self) -> Arc<Check> {
        self.check.clone()
    }
}

impl Usig for InProcess {
    fn incarnation(&self) -> Incarnation {
        self.device.incarnation()
    }
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        if mutant!("trusted.stays-in-its-epoch") {
            return Ok(());
        }
        self.device.begin_epoch(&membership.epoch_id())?;
        self.check = Arc::new(self.check.for_epoch(membership));
        Ok(())
    }
    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        self.device.create(position, digest)
    }
    fn memory(&self) -> Option<Memory> {
        Some(self.device.memory())
    }
    fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        if mutant!("trusted.restores-nothing") {
            return Ok(());
        }
        self.device.restore(memory)
    }
    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        self.check.check(replica, ui, digest)
    }
}

impl fmt::Debug for InProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "InProcess({}, {:?})", self.device.incarnation(), self.check)
    }
}
