//! What a simulated replica is given to convince others.

use super::SharedDevice;
use crate::crypto::Crypto;
use crate::key_ring::{KeyRing, SharedKeyRing};
use crate::packet::member_of;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature};
use pentarchy_core::authenticator::Authenticator;
use pentarchy_core::counter::{
    Counters as _, Instance, Memory as DeviceMemory, Position, Refused, TrustedMac, Ui, Usig,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, ReplicaId};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::Membership;
use std::sync::Arc;

/// A replica's keys and its devices.
pub(super) struct Means {
    pub id: ReplicaId,
    pub crypto: Arc<Crypto>,
    pub ring: SharedKeyRing,
    /// The key of its configuration.
    pub key: [u8; 32],
    /// The members of its epoch.
    pub membership: Arc<Membership>,
    pub device: SharedDevice,
    /// Nobody relies on it: its device may be in a later epoch than it is.
    pub is_faulty: bool,
}

impl Means {
    fn macs(&self, digest: &Digest) -> MacVector {
        self.crypto.macs_of(self.id, &self.membership, digest)
    }

    /// By the key of its configuration, unless that is erased.
    fn signature(&self, digest: &Digest) -> [u8; 64] {
        match self.ring.lock().has(&self.key) {
            true => self.crypto.sign(self.id, &self.key, digest),
            false => KeyRing::nothing(digest),
        }
    }
}

impl Authenticator for Means {
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        let mut device = self.device.lock().expect("a panic ends the world");
        match auth {
            Auth::Channel => Ok(AuthTag::Channel),
            Auth::Checksum => Ok(AuthTag::Checksum(Checksum::of(digest))),
            Auth::Signature => Ok(AuthTag::Signature(self.signature(digest))),
            Auth::Vector => Ok(AuthTag::Vector(self.macs(digest))),
            Auth::Usig(instance, position) => {
                device.create(*instance, *position, digest).map(AuthTag::Usig)
            }
            Auth::Mac(instance) => device.of(*instance)?.mac(digest).map(AuthTag::Mac),
        }
    }

    fn sign(&self, digest: &Digest) -> Signature {
        Signature(self.signature(digest))
    }

    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        let key = member_of(membership, self.id).expect("it has a place").signing;
        self.membership = Arc::new(membership.clone());
        if key != self.key {
            self.ring.lock().adopt(&key);
            self.key = key;
        }
        let begun = self.device.lock().expect("a panic ends the world").begin_epoch(membership);
        if self.is_faulty { Ok(()) } else { begun }
    }

    fn memories(&self) -> Vec<(Instance, DeviceMemory)> {
        self.device.lock().expect("a panic ends the world").memories()
    }
}

/// One of a replica's devices, for a replica that goes on from its disk.
pub struct OneDevice(SharedDevice, Instance);

impl OneDevice {
    /// The first so many.
    #[must_use]
    pub fn all(device: &SharedDevice, count: u8) -> Vec<Box<dyn Usig>> {
        let one = |number| Box::new(Self(device.clone(), Instance(number))) as Box<dyn Usig>;
        (0..count.max(1)).map(one).collect()
    }

    fn with<T>(&self, act: impl FnOnce(&mut dyn Usig) -> T) -> T {
        let mut device = self.0.lock().expect("a panic ends the world");
        act(device.of(self.1).expect("there is one of this number"))
    }
}

impl Usig for OneDevice {
    fn incarnation(&self) -> Incarnation {
        self.with(|device| device.incarnation())
    }
    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        self.with(|device| device.begin_epoch(membership))
    }
    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        self.with(|device| device.create(position, digest))
    }
    fn mac(&mut self, digest: &Digest) -> Result<TrustedMac, Refused> {
        self.with(|device| device.mac(digest))
    }
    fn memory(&self) -> Option<DeviceMemory> {
        self.with(|device| device.memory())
    }
    fn restore(&mut self, memory: &DeviceMemory) -> Result<(), Refused> {
        self.with(|device| device.restore(memory))
    }
    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        self.with(|device| device.verify(replica, ui, digest))
    }
}
