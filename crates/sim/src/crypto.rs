//! Keys of the simulated world. A signature is a keyed hash under a secret that only this module
//! holds: as hard to forge as the real thing for everyone who has to go through [`Crypto`], and far
//! cheaper. Adversaries are never handed one.

use pentarchy_core::auth::Verifier;
use pentarchy_core::counter::{Certificate, Position, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ClientId, Incarnation, ReplicaId};
use pentarchy_core::request::{Draft, Envelope, RequestAuth};
use std::collections::BTreeMap;

/// The life of every device in the simulation.
pub const INCARNATION: Incarnation = Incarnation(1);

/// All secrets of one world.
pub struct Crypto {
    replicas: Vec<Digest>,
    devices: Vec<Digest>,
    clients: BTreeMap<ClientId, Digest>,
}

fn secret(kind: &'static str, seed: u64, index: usize) -> Digest {
    Hasher::new("simulated secret").bytes(kind.as_bytes()).u64(seed).u64(index as u64).finish()
}

fn signature(secret: &Digest, digest: &Digest) -> [u8; 64] {
    let half = Hasher::new("simulated signature").digest(secret).digest(digest).finish();
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&half.0);
    signature[32..].copy_from_slice(&digest.0);
    signature
}

impl Crypto {
    /// The keys of a world with `n` replicas and this many clients.
    #[must_use]
    pub fn new(seed: u64, n: usize, clients: usize) -> Self {
        let client = |index| (client_id(seed, index), secret("client", seed, index));
        Self {
            replicas: (0..n).map(|index| secret("replica", seed, index)).collect(),
            devices: (0..n).map(|index| secret("device", seed, index)).collect(),
            clients: (0..clients).map(client).collect(),
        }
    }

    /// Signs as a replica.
    #[must_use]
    pub fn sign(&self, replica: ReplicaId, digest: &Digest) -> [u8; 64] {
        signature(&self.replicas[usize::from(replica.0)], digest)
    }

    /// Signs as the draft's client.
    ///
    /// # Panics
    /// If the client is not of this world.
    #[must_use]
    pub fn seal(&self, draft: Draft) -> Envelope {
        let secret = self.clients.get(&draft.client).expect("a client of this world");
        let auth = RequestAuth::Signature(signature(secret, &draft.digest()));
        draft.seal(auth)
    }

    /// Seals as the device of a replica.
    #[must_use]
    pub fn certify(
        &self,
        replica: ReplicaId,
        position: Position,
        committed: Position,
        digest: &Digest,
    ) -> Certificate {
        let mut hasher = Hasher::new("simulated certificate");
        hasher.digest(&self.devices[usize::from(replica.0)]).u64(INCARNATION.0);
        hasher.u64(position.view.0).u64(position.index);
        hasher.u64(committed.view.0).u64(committed.index).digest(digest);
        Certificate::Mac(hasher.finish().0)
    }
}

/// The name of a client of this world.
#[must_use]
pub fn client_id(seed: u64, index: usize) -> ClientId {
    ClientId(secret("client id", seed, index).0)
}

impl Verifier for Crypto {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signed: &[u8; 64]) -> bool {
        let secret = self.replicas.get(usize::from(replica.0));
        secret.is_some_and(|secret| signature(secret, digest) == *signed)
    }

    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        usize::from(replica.0) < self.devices.len()
            && ui.incarnation == INCARNATION
            && self.certify(replica, ui.position, ui.committed, digest) == ui.certificate
    }

    fn envelope(&self, envelope: &Envelope) -> bool {
        let secret = self.clients.get(&envelope.client);
        match (&envelope.auth, secret) {
            (RequestAuth::Signature(signed), Some(secret)) => {
                signature(secret, &envelope.digest) == *signed
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::Bytes;
    use pentarchy_core::request::Request;

    #[test]
    fn nobody_can_speak_for_another() {
        let crypto = Crypto::new(1, 3, 2);
        let (digest, other) = (Digest::of(b"a"), Digest::of(b"b"));
        let signed = crypto.sign(ReplicaId(1), &digest);
        assert!(crypto.signature(ReplicaId(1), &digest, &signed));
        assert!(!crypto.signature(ReplicaId(2), &digest, &signed));
        assert!(!crypto.signature(ReplicaId(1), &other, &signed));
        assert!(!crypto.signature(ReplicaId(9), &digest, &signed));
    }

    #[test]
    fn an_envelope_convinces_only_as_its_client_made_it() {
        let crypto = Crypto::new(1, 3, 2);
        let requests = vec![Request { number: 1, operation: Bytes::from_static(b"x") }];
        let draft = Draft { client: client_id(1, 0), floor: 1, events: None, requests };
        let good = crypto.seal(draft.clone());
        assert!(crypto.envelope(&good));
        let mut stolen = draft;
        stolen.client = client_id(1, 1);
        assert!(!crypto.envelope(&stolen.seal(good.auth)));
    }
}
