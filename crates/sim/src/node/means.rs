//! What a simulated replica is given to convince others.

use super::SharedDevice;
use crate::crypto::Crypto;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature};
use pentarchy_core::authenticator::Authenticator;
use pentarchy_core::counter::{
    Counters as _, Instance, Memory as DeviceMemory, Position, Refused, TrustedMac, Ui, Usig,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Incarnation, ReplicaId};
use pentarchy_core::membership::Membership;
use std::sync::Arc;

/// A replica's key and its devices.
pub(super) struct Means {
    pub id: ReplicaId,
    pub crypto: Arc<Crypto>,
    pub device: SharedDevice,
    /// Nobody relies on it: its device may be in a later epoch than it is.
    pub is_faulty: bool,
}

impl Authenticator for Means {
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        let mut device = self.device.lock().expect("a panic ends the world");
        match auth {
            Auth::Channel => Ok(AuthTag::Channel),
            Auth::Checksum => Ok(AuthTag::Checksum(Checksum::of(digest))),
            Auth::Signature => Ok(AuthTag::Signature(self.crypto.sign(self.id, digest))),
            Auth::Vector => Ok(AuthTag::Vector(self.crypto.macs_of(self.id, digest))),
            Auth::Usig(instance, position) => {
                device.create(*instance, *position, digest).map(AuthTag::Usig)
            }
            Auth::Mac(instance) => device.of(*instance)?.mac(digest).map(AuthTag::Mac),
        }
    }

    fn sign(&self, digest: &Digest) -> Signature {
        Signature(self.crypto.sign(self.id, digest))
    }

    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
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
