//! Keys and channels that do no cryptography, only count: what is left is the program's own work,
//! and the same instructions on every machine.

use crate::client::Sealer;
use crate::host::Keys;
use crate::{Channels, Node};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature, Verifier};
use pentarchy_core::authenticator::Authenticator;
use pentarchy_core::counter::{Certificate, Instance, Memory, Position, Refused, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, ReplicaId};
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::request::{Envelope, RequestAuth};
use pentarchy_io::frame::split;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How often each operation was asked for.
#[derive(Default, Debug)]
pub struct Calls {
    /// Statements signed.
    pub signed: AtomicU64,
    /// Signatures of replicas checked.
    pub signatures: AtomicU64,
    /// Counter certificates and trusted MACs asked for.
    pub certified: AtomicU64,
    /// Counter certificates and trusted MACs checked.
    pub certificates: AtomicU64,
    /// Envelopes checked.
    pub envelopes: AtomicU64,
}

impl Calls {
    /// The counts by name.
    #[must_use]
    pub fn by_name(&self) -> [(&'static str, u64); 5] {
        [
            ("signed", self.signed.load(Relaxed)),
            ("signatures", self.signatures.load(Relaxed)),
            ("certified", self.certified.load(Relaxed)),
            ("certificates", self.certificates.load(Relaxed)),
            ("envelopes", self.envelopes.load(Relaxed)),
        ]
    }
}

/// Believes everything.
struct Believing(Arc<Calls>);

impl Verifier for Believing {
    fn signature(&self, _: ReplicaId, _: &Digest, _: &[u8; 64]) -> bool {
        self.0.signatures.fetch_add(1, Relaxed);
        true
    }
    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        self.0.certificates.fetch_add(1, Relaxed);
        true
    }
    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        self.0.certificates.fetch_add(1, Relaxed);
        true
    }
    fn vector(&self, _: ReplicaId, _: &Digest, _: &MacVector) -> bool {
        true
    }
    fn envelope(&self, envelope: &Envelope) -> bool {
        self.envelopes(&[envelope])
    }
    fn envelopes(&self, envelopes: &[&Envelope]) -> bool {
        self.0.envelopes.fetch_add(envelopes.len() as u64, Relaxed);
        true
    }
}

struct Blank(Arc<Calls>);

impl Authenticator for Blank {
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        Ok(match auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum::of(digest)),
            Auth::Vector => AuthTag::Vector(MacVector::default()),
            Auth::Signature => {
                self.0.signed.fetch_add(1, Relaxed);
                AuthTag::Signature([0; 64])
            }
            Auth::Usig(_, position) => {
                self.0.certified.fetch_add(1, Relaxed);
                AuthTag::Usig(Ui {
                    incarnation: Incarnation(1),
                    instance: Instance::FIRST,
                    position: *position,
                    committed: Position::default(),
                    certificate: Certificate::Mac([0; 32]),
                })
            }
            Auth::Mac(_) => {
                self.0.certified.fetch_add(1, Relaxed);
                AuthTag::Mac(TrustedMac([0; 32]))
            }
        })
    }
    fn sign(&self, _: &Digest) -> Signature {
        Signature([0; 64])
    }
    fn begin_epoch(&mut self, _: &Membership) -> Result<(), Refused> {
        Ok(())
    }
    fn memories(&self) -> Vec<(Instance, Memory)> {
        Vec::new()
    }
}

/// The keys of a replica whose calls are counted.
#[must_use]
pub fn keys(calls: &Arc<Calls>) -> Keys {
    let verifier = Arc::new(Believing(calls.clone()));
    Keys { verifier, authenticator: Box::new(Blank(calls.clone())) }
}

/// Clients whose signatures say nothing.
#[must_use]
pub fn clients(count: usize) -> Vec<(ClientId, Sealer)> {
    let client = |index: usize| {
        let sealer: Sealer = Box::new(|draft| draft.seal(RequestAuth::Signature([0; 64])));
        // Names as evenly spread as those of real keys.
        (ClientId(Digest::of(&index.to_le_bytes()).0), sealer)
    };
    (0..count).map(client).collect()
}

/// A group for `f` faults whose members have no keys.
#[must_use]
pub fn membership(f: usize) -> Arc<Membership> {
    let member = |id: usize| ([id as u8; 32], Life::mac(Incarnation(1)));
    Arc::new(Membership::of_keys(GroupId([7; 16]), f, (0..=2 * f).map(member)))
}

/// Channels that encrypt nothing.
pub struct Plain;

impl Channels for Plain {
    fn seal(&mut self, _: Node, _: Node, plain: &[u8]) -> Vec<u8> {
        plain.to_vec()
    }
    fn open(&mut self, _: Node, _: Node, wire: Vec<u8>, messages: &mut Vec<Bytes>) {
        split(Bytes::from(wire), messages).expect("frames in here are well-formed");
    }
}
