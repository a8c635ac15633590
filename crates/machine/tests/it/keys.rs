//! Keys for tests: what one of them makes is a hash that names its maker. It is authentic as long
//! as nobody makes another's.

use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature, Verifier};
use pentarchy_core::authenticator::Authenticator;
use pentarchy_core::counter::{Instance, Memory as Recent, Refused, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::mac_vector::{MAC_BYTES, Mac, MacVector};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::{Envelope, RequestAuth};
use std::cell::Cell;

/// Replicas of the group.
pub const N: u16 = 3;

/// What a replica of the group, or one of the authority's own replicas, signs.
pub fn signature(kind: &'static str, by: ReplicaId, digest: &Digest) -> Signature {
    let mut signature = [0; 64];
    let made = Hasher::new(kind).u64(by.0.into()).digest(digest).finish();
    signature[..32].copy_from_slice(&made.0);
    Signature(signature)
}

fn mac(author: ReplicaId, receiver: u16, digest: &Digest) -> Mac {
    let mut hasher = Hasher::new("mac");
    hasher.u64(author.0.into()).u64(receiver.into()).digest(digest);
    *hasher.finish().0.first_chunk::<MAC_BYTES>().expect("a digest is longer")
}

/// The replicas of the authority that have to say something before it has said it.
pub const AUTHORITY_QUORUM: usize = 2;

/// What one of the authority's replicas signs.
pub fn by_authority(id: u16, digest: &Digest) -> (ReplicaId, Signature) {
    (ReplicaId(id), signature("authority", ReplicaId(id), digest))
}

thread_local! {
    /// Envelopes that were checked in this test.
    pub static CHECKED: Cell<usize> = const { Cell::new(0) };
}

/// What a replica can check. An envelope is authentic if its signature begins with 1.
pub struct Eyes(pub ReplicaId);

impl Verifier for Eyes {
    fn signature(&self, replica: ReplicaId, digest: &Digest, said: &[u8; 64]) -> bool {
        signature("replica", replica, digest).0 == *said
    }
    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        false
    }
    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        false
    }
    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        macs.entry(self.0, usize::from(N)) == Some(&mac(author, self.0.0, digest))
    }
    fn authority(&self, digest: &Digest, signatures: &[(ReplicaId, Signature)]) -> bool {
        let is_good = |(id, said): &&(ReplicaId, Signature)| by_authority(id.0, digest).1 == *said;
        let signers: ReplicaSet = signatures.iter().filter(is_good).map(|(id, _)| *id).collect();
        signers.len() >= AUTHORITY_QUORUM
    }
    fn envelope(&self, envelope: &Envelope) -> bool {
        CHECKED.set(CHECKED.get() + 1);
        envelope.auth == RequestAuth::Signature([1; 64])
    }
}

/// A replica's key, and a device that remembers, or has nothing to remember.
pub struct Hand {
    pub me: ReplicaId,
    pub remembers: bool,
}

impl Authenticator for Hand {
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> Result<AuthTag, Refused> {
        Ok(match auth {
            Auth::Checksum => AuthTag::Checksum(Checksum::of(digest)),
            Auth::Vector => AuthTag::Vector(macs(self.me, digest)),
            _ => AuthTag::Channel,
        })
    }
    fn sign(&self, digest: &Digest) -> Signature {
        signature("replica", self.me, digest)
    }
    fn begin_epoch(&mut self, _: &Membership) -> Result<(), Refused> {
        Ok(())
    }
    fn memories(&self) -> Vec<(Instance, Recent)> {
        if self.remembers { vec![(Instance::FIRST, Recent::default())] } else { Vec::new() }
    }
}

/// What an author makes for each member.
pub fn macs(author: ReplicaId, digest: &Digest) -> MacVector {
    MacVector::new((0..N).map(|receiver| mac(author, receiver, digest)))
}
