//! How messages convince: what is asked of keys ([`Auth`]), what was made ([`AuthTag`]), and proof
//! that it was checked ([`Verified`]).

use crate::counter::{Instance, Position, TrustedMac, Ui};
use crate::digest::Digest;
use crate::ids::ReplicaId;
use crate::mac_vector::MacVector;
use crate::request::Envelope;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use bytes::Bytes;
use core::fmt;
use core::hash::{Hash, Hasher};

/// What the receivers of a message must be able to check.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Auth {
    /// Only that it came over the sender's authenticated channel. Convinces the direct receiver.
    Channel,
    /// A checksum. Shows everyone that no accident changed the message, and says nothing of its
    /// author: for groups whose faulty replicas do not lie.
    Checksum,
    /// An Ed25519 signature. Convinces everyone, for ever.
    Signature,
    /// A certificate of this counter for this position. Convinces everyone in the group, and that
    /// nothing else was certified there.
    Usig(Instance, Position),
    /// A trusted MAC by this device. Convinces everyone in the group, as a signature does, and says
    /// nothing of what else was said.
    Mac(Instance),
    /// A MAC for each member: an *authenticator*. Convinces each replica in the group, whoever
    /// passed it on, of what its own entry covers, and lets none convince another.
    Vector,
}

impl Auth {
    /// By the first counter.
    #[must_use]
    pub const fn usig(position: Position) -> Self {
        Self::Usig(Instance::FIRST, position)
    }
}

/// What the sender made in answer to an [`Auth`].
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum AuthTag {
    /// Nothing; the channel vouches.
    Channel,
    /// The checksum of the message's statement.
    Checksum(Checksum),
    /// Ed25519 over the message's statement.
    Signature([u8; 64]),
    /// A counter certificate over the message's statement.
    Usig(Ui),
    /// A trusted MAC over the message's statement.
    Mac(TrustedMac),
    /// MACs over the message's statement, one for each member.
    Vector(MacVector),
}

/// The first eight bytes of a statement's digest: as good as any checksum, and the digest is there.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checksum(pub [u8; 8]);

impl Checksum {
    /// Of the statement with this digest.
    #[must_use]
    pub const fn of(digest: &Digest) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = digest.0;
        Self([a, b, c, d, e, f, g, h])
    }
}

impl AuthTag {
    /// The certificate, if it is one.
    #[must_use]
    pub const fn ui(&self) -> Option<&Ui> {
        match self {
            Self::Usig(ui) => Some(ui),
            _ => None,
        }
    }

    /// The signature, if it is one.
    #[must_use]
    pub const fn signature(&self) -> Option<&[u8; 64]> {
        match self {
            Self::Signature(signature) => Some(signature),
            _ => None,
        }
    }

    /// The trusted MAC, if it is one.
    #[must_use]
    pub const fn mac(&self) -> Option<&TrustedMac> {
        match self {
            Self::Mac(mac) => Some(mac),
            _ => None,
        }
    }

    /// The MACs for each member, if it is these: for a core that shows them in a message of its
    /// own, whose receivers check their entries ([`Verifier::vector`]).
    #[must_use]
    pub const fn vector(&self) -> Option<&MacVector> {
        match self {
            Self::Vector(macs) => Some(macs),
            _ => None,
        }
    }
}

/// An Ed25519 signature inside a message.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Signature(pub [u8; 64]);

impl Wire for Signature {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

impl Wire for Checksum {
    fn encode(&self, to: &mut Writer) {
        to.array(&self.0);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        from.array().map(Self)
    }
}

impl fmt::Debug for AuthTag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Channel => f.write_str("channel"),
            Self::Checksum(_) => f.write_str("checksum"),
            Self::Signature(_) => f.write_str("signature"),
            Self::Usig(ui) if ui.instance == Instance::FIRST => {
                write!(f, "usig {:?}", ui.position)
            }
            Self::Usig(ui) => write!(f, "usig {} {:?}", ui.instance.0, ui.position),
            Self::Mac(_) => f.write_str("mac"),
            Self::Vector(macs) => macs.fmt(f),
        }
    }
}

impl Wire for AuthTag {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Channel => to.u8(0),
            Self::Signature(signature) => {
                to.u8(1);
                to.array(signature);
            }
            Self::Usig(ui) => {
                to.u8(2);
                ui.encode(to);
            }
            Self::Mac(mac) => {
                to.u8(3);
                mac.encode(to);
            }
            Self::Checksum(sum) => {
                to.u8(4);
                sum.encode(to);
            }
            Self::Vector(macs) => {
                to.u8(5);
                macs.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Channel),
            1 => from.array().map(Self::Signature),
            2 => Ui::decode(from).map(Self::Usig),
            3 => TrustedMac::decode(from).map(Self::Mac),
            4 => Checksum::decode(from).map(Self::Checksum),
            5 => MacVector::decode(from).map(Self::Vector),
            _ => Err(Malformed),
        }
    }
}

/// Checks what others made. Knows the membership's keys; holds no secret but what a trusted
/// device keeps inside.
pub trait Verifier: Send + Sync {
    /// Whether the replica signed the statement with this digest.
    fn signature(&self, replica: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool;

    /// Whether the replica's device, that one which the identifier names, in the incarnation that
    /// the membership admits, gave the identifier to the statement with this digest. Whoever asks
    /// must also have compared which one it is.
    fn usig(&self, replica: ReplicaId, digest: &Digest, ui: &Ui) -> bool;

    /// Whether this device of the replica, in the incarnation that the membership admits, made the
    /// MAC of the statement with this digest. Nobody can say so whose devices make none.
    fn mac(&self, by: (ReplicaId, Instance), digest: &Digest, mac: &TrustedMac) -> bool;

    /// Whether the author made this replica's entry over the statement with this digest, and there
    /// is one entry for each member. Says nothing of the other entries, whose receivers check them.
    /// Nobody can say so who has no keys for it.
    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        let _ = (author, digest, macs);
        false
    }

    /// Whether these signatures prove that the authority outside that ends this group's epochs
    /// made the statement with this digest: enough of its own replicas signed, each counted once.
    /// Nobody can say so whose group has no such authority.
    fn authority(&self, digest: &Digest, signatures: &[(ReplicaId, Signature)]) -> bool {
        let _ = (digest, signatures);
        false
    }

    /// Whether whoever has the secret part of this key signed the statement with this digest.
    /// Nobody can say so who has no use for keys of others than members and clients.
    fn key(&self, key: &[u8; 32], digest: &Digest, signature: &[u8; 64]) -> bool {
        let _ = (key, digest, signature);
        false
    }

    /// Whether the client made the envelope.
    fn envelope(&self, envelope: &Envelope) -> bool;

    /// Whether all of these were made by their clients. Faster together than one by one.
    fn envelopes(&self, envelopes: &[&Envelope]) -> bool {
        envelopes.iter().all(|envelope| self.envelope(envelope))
    }
}

/// A verifier that accepts everything. A replica uses it for messages that it checked before it
/// logged them, and tests use it; no replica may use it for messages from the network.
pub struct Unchecked;

impl Verifier for Unchecked {
    fn signature(&self, _: ReplicaId, _: &Digest, _: &[u8; 64]) -> bool {
        true
    }

    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        true
    }

    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        true
    }

    fn vector(&self, _: ReplicaId, _: &Digest, _: &MacVector) -> bool {
        true
    }

    fn key(&self, _: &[u8; 32], _: &Digest, _: &[u8; 64]) -> bool {
        true
    }

    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

/// A message whose author, tag and nested certificates were checked. Made only in
/// [`crate::erased`], by the ingress and by loopback. Cheap to clone.
pub struct Verified<M> {
    /// Who says it. Not always the peer who passed it on.
    pub author: ReplicaId,
    /// How it convinces.
    pub tag: AuthTag,
    /// Digest of its statement.
    pub digest: Digest,
    /// What it says.
    pub message: Arc<M>,
    /// The bytes it came in, to pass on unchanged.
    pub wire: Bytes,
    /// Whether its author itself sent it just now, or it came back to its author. What somebody
    /// else passed on may be old: it still convinces of what was said, not of what is so.
    pub is_direct: bool,
}

impl<M> Clone for Verified<M> {
    fn clone(&self) -> Self {
        Self {
            author: self.author,
            tag: self.tag.clone(),
            digest: self.digest,
            message: self.message.clone(),
            wire: self.wire.clone(),
            is_direct: self.is_direct,
        }
    }
}

impl<M> PartialEq for Verified<M> {
    fn eq(&self, other: &Self) -> bool {
        self.author == other.author && self.tag == other.tag && self.digest == other.digest
    }
}

impl<M> Eq for Verified<M> {}

impl<M> Hash for Verified<M> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.author.hash(state);
        self.tag.hash(state);
        self.digest.hash(state);
    }
}

impl<M: fmt::Debug> fmt::Debug for Verified<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?} {:?}", self.author, self.tag, self.message)
    }
}
