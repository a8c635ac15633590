//! Keys of the simulated world. A signature is a keyed hash under a secret that only this module
//! holds: as hard to forge as the real thing for everyone who has to go through [`Crypto`], and far
//! cheaper. Adversaries are never handed one. The hash is the audit's: nobody here looks for
//! collisions, and a cryptographic one would take a fifth of a run.

mod counters;
mod keys;
mod requests;

pub use keys::Keys;
pub use requests::{Means, Tag};

use crate::audit::Audit;
use crate::certifier::Certifier;
use crate::real_devices::RealDevices;
use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Counter, Instance, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ClientId, Epoch, Incarnation, ReplicaId};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

/// The life of every device with which a group begins.
pub const INCARNATION: Incarnation = Incarnation(1);

/// The name under which a member of the group asks to be admitted: its public key.
#[must_use]
pub const fn member_id(replica: ReplicaId) -> ClientId {
    ClientId([replica.0 as u8; 32])
}

/// The name of a client of this world.
#[must_use]
pub fn client_id(seed: u64, index: usize) -> ClientId {
    ClientId(secret("client id", seed, index).0)
}

/// The names of a world's administrators.
#[must_use]
pub fn administrator_id(seed: u64, index: usize) -> ClientId {
    ClientId(secret("administrator id", seed, index).0)
}

/// All secrets of one world.
pub struct Crypto {
    replicas: Vec<Digest>,
    devices: Vec<Digest>,
    clients: BTreeMap<ClientId, Digest>,
    /// Who may change the group. They sign, whatever other clients do.
    administrators: Vec<ClientId>,
    means: Means,
    /// For which clients made MACs: a configuration's number, and a key by which a member signs in
    /// it.
    known_keys: Mutex<BTreeSet<(u64, [u8; 32])>>,
    /// Under which configuration the group begins.
    configuration: Digest,
    /// Which counter its devices are.
    counter: Counter,
    /// Those of production, if they are asked the same.
    real: Option<Arc<RealDevices>>,
}

fn secret(kind: &'static str, seed: u64, index: usize) -> Digest {
    Hasher::new("simulated secret").bytes(kind.as_bytes()).u64(seed).u64(index as u64).finish()
}

/// The keyed hash of some numbers and a digest. The secret goes in first and last.
fn keyed(secret: &Digest, kind: u8, numbers: [u64; 6], digest: &Digest) -> [u8; 16] {
    let mut audit = Audit::default();
    audit.note(numbers[0], kind, numbers[1], &secret.0);
    audit.note(numbers[2], kind, numbers[3], &digest.0);
    audit.note(numbers[4], kind, numbers[5], &secret.0);
    audit.digest().to_bytes()
}

fn signature(secret: &Digest, digest: &Digest) -> [u8; 64] {
    let mut signature = [0; 64];
    signature[..16].copy_from_slice(&keyed(secret, 1, [0; 6], digest));
    signature[32..].copy_from_slice(&digest.0);
    signature
}

impl Crypto {
    /// The keys of a world with `n` machines for replicas and this many clients, who sign. Members
    /// are clients too, under their own keys.
    #[must_use]
    pub fn new(seed: u64, n: usize, clients: usize) -> Self {
        let client = |index| (client_id(seed, index), secret("client", seed, index));
        let member = |index| (member_id(ReplicaId(index as u16)), secret("replica", seed, index));
        Self {
            replicas: (0..n).map(|index| secret("replica", seed, index)).collect(),
            devices: (0..n).map(|index| secret("device", seed, index)).collect(),
            clients: (0..clients).map(client).chain((0..n).map(member)).collect(),
            administrators: Vec::new(),
            means: Means::Signature,
            known_keys: Mutex::default(),
            configuration: Digest::default(),
            counter: Counter::Usig,
            real: None,
        }
    }

    /// The same, and administrators have keys.
    #[must_use]
    pub fn administered_by(mut self, administrators: Vec<ClientId>) -> Self {
        let keys = (0..).zip(&administrators);
        self.clients.extend(keys.map(|(index, id)| (*id, secret("administrator", index, 0))));
        Self { administrators, ..self }
    }

    /// The same keys, for a group that begins under the configuration of this digest.
    #[must_use]
    pub fn under(self, configuration: Digest) -> Self {
        Self { configuration, ..self }
    }

    /// Under which configuration the group begins.
    #[must_use]
    pub const fn configuration(&self) -> Digest {
        self.configuration
    }

    /// The same keys, but devices count like this.
    #[must_use]
    pub fn counting(self, counter: Counter) -> Self {
        Self { counter, ..self }
    }

    /// How devices count.
    #[must_use]
    pub const fn counter(&self) -> Counter {
        self.counter
    }

    /// The same keys, and each device has one of production beside it, in a group that begins so.
    #[must_use]
    pub fn beside_real(self, first: &Membership) -> Self {
        Self { real: RealDevices::new(self.counter, first), ..self }
    }

    /// The devices of production, if they are asked the same.
    #[must_use]
    pub const fn real(&self) -> Option<&Arc<RealDevices>> {
        self.real.as_ref()
    }

    /// The same keys, but clients use these means.
    #[must_use]
    pub fn with(self, means: Means) -> Self {
        Self { means, ..self }
    }

    /// Signs as a replica, by the one of its keys whose public part this is.
    #[must_use]
    pub fn sign(&self, replica: ReplicaId, key: &[u8; 32], digest: &Digest) -> [u8; 64] {
        signature(&self.secret_of(replica, key), digest)
    }

    /// Whether a signature is a replica's, by that key.
    pub(crate) fn is_signed(
        &self,
        (replica, key): (ReplicaId, &[u8; 32]),
        digest: &Digest,
        signed: &[u8; 64],
    ) -> bool {
        let exists = usize::from(replica.0) < self.replicas.len();
        exists && signature(&self.secret_of(replica, key), digest) == *signed
    }

    /// Each key of a replica has a secret of its own. That of the first one is its identity's.
    fn secret_of(&self, replica: ReplicaId, key: &[u8; 32]) -> Digest {
        let mut secret = self.replicas[usize::from(replica.0)];
        let first = member_id(replica).0;
        for ((byte, key), first) in secret.0.iter_mut().zip(key).zip(first) {
            *byte ^= key ^ first;
        }
        secret
    }

    /// The MACs by which the replica at a place convinces each of a group of a statement with this
    /// digest.
    #[must_use]
    pub fn macs_of(
        &self,
        author: ReplicaId,
        membership: &Membership,
        digest: &Digest,
    ) -> MacVector {
        self.macs_to(author, membership.members.iter().map(|member| member.id.0.into()), digest)
    }

    fn macs_to(
        &self,
        author: ReplicaId,
        receivers: impl Iterator<Item = u64>,
        digest: &Digest,
    ) -> MacVector {
        let secret = &self.replicas[usize::from(author.0)];
        MacVector::new(receivers.map(|to| keyed(secret, 6, [to, 0, 0, 0, 0, 0], digest)))
    }
}

/// As nobody in particular: an envelope is its client's if it would convince anyone, and devices
/// are as the group began.
impl Verifier for Crypto {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signed: &[u8; 64]) -> bool {
        let secret = self.replicas.get(usize::from(replica.0));
        secret.is_some_and(|secret| signature(secret, digest) == *signed)
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        let by =
            Certifier { replica, instance: ui.instance, incarnation: INCARNATION, epoch: Epoch(0) };
        self.certified(by, digest, ui)
    }

    fn mac(
        &self,
        (replica, instance): (ReplicaId, Instance),
        digest: &Digest,
        mac: &TrustedMac,
    ) -> bool {
        let by = Certifier { replica, instance, incarnation: INCARNATION, epoch: Epoch(0) };
        self.is_mac(by, digest, mac)
    }

    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        let n = self.replicas.len();
        if usize::from(author.0) >= n {
            return false;
        }
        let made = self.macs_to(author, 0..n as u64, digest);
        let mut receivers = (0..n as u16).map(ReplicaId);
        receivers.any(|to| macs.entry(to, n).is_some_and(|entry| made.entry(to, n) == Some(entry)))
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        self.convinces_anyone(envelope)
    }
}

#[cfg(test)]
mod tests;
