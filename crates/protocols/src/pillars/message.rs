//! What the replicas of pillars say, and wait for: the same as in one, and in which it is.

use alloc::sync::Arc;
use alloc::vec::Vec;
use core::fmt;
use pentarchy_core::auth::{Auth, Verified};
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::counter::Instance;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::protocol::{self, TimerKey, TimerName, Topic};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// A message of one pillar. Its number is the last byte, so that the rest is the message as the
/// pillar alone would send it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Message<M> {
    /// Of which.
    pub pillar: u8,
    /// What is said in it.
    pub inner: Arc<M>,
}

impl<M: protocol::Message> Message<M> {
    /// A checked message as its pillar knows it. Shares the bytes.
    #[must_use]
    pub fn within(verified: &Verified<Self>) -> Verified<M> {
        let Verified { author, ref tag, digest, ref message, ref wire, is_direct } = *verified;
        let (tag, wire) = (tag.clone(), wire.slice(..wire.len() - 1));
        Verified { author, tag, digest, message: message.inner.clone(), wire, is_direct }
    }

    /// Back again, to be passed on.
    #[must_use]
    pub fn around(pillar: u8, verified: &Verified<M>) -> Verified<Self> {
        let Verified { author, ref tag, digest, ref message, ref wire, is_direct } = *verified;
        let mut writer = Writer::onto(Vec::with_capacity(wire.len() + 1));
        writer.array(wire);
        writer.u8(pillar);
        let message = Arc::new(Self { pillar, inner: message.clone() });
        let (tag, wire) = (tag.clone(), writer.into_bytes());
        Verified { author, tag, digest, message, wire, is_direct }
    }
}

impl<M: protocol::Message> protocol::Message for Message<M> {
    fn auth(&self) -> Auth {
        match self.inner.auth() {
            Auth::Usig(_, position) => Auth::Usig(Instance(self.pillar), position),
            Auth::Mac(_) => Auth::Mac(Instance(self.pillar)),
            auth @ (Auth::Channel | Auth::Checksum | Auth::Signature | Auth::Vector) => auth,
        }
    }

    fn statement(&self, domain: &Domain) -> Digest {
        self.inner.statement(&domain.pillar(self.pillar))
    }

    fn kind(&self) -> &'static str {
        self.inner.kind()
    }

    fn ballots(&self, digest: &Digest, cast: &mut dyn FnMut(Ballot)) {
        let pillar = self.pillar;
        self.inner.ballots(digest, &mut |ballot| cast(Ballot { pillar, ..ballot }));
    }

    fn shows(&self) -> Option<Shown> {
        self.inner.shows().map(|shown| Shown { pillar: self.pillar, ..shown })
    }

    fn topic(&self) -> Option<Topic> {
        self.inner.topic().map(|topic| Topic { pillar: self.pillar, ..topic })
    }
}

impl<M: Wire> Wire for Message<M> {
    fn encode(&self, to: &mut Writer) {
        self.inner.encode(to);
        to.u8(self.pillar);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let inner = Arc::new(M::decode(from)?);
        Ok(Self { pillar: from.u8()?, inner })
    }
}

/// One line for traces.
impl<M: fmt::Debug> fmt::Debug for Message<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} in pillar {}", self.inner, self.pillar)
    }
}

/// Bits of a timer's kind below the number of its pillar.
const KIND_BITS: u8 = 5;

/// What one pillar waits for.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct PillarTimer<T> {
    /// Which.
    pub pillar: u8,
    /// For what.
    pub inner: T,
}

impl<T: TimerName> TimerName for PillarTimer<T> {
    fn to_key(self) -> TimerKey {
        let (kind, subject) = self.inner.to_key();
        (kind | self.pillar << KIND_BITS, subject)
    }
    fn from_key((kind, subject): TimerKey) -> Self {
        let inner = T::from_key((kind & ((1 << KIND_BITS) - 1), subject));
        Self { pillar: kind >> KIND_BITS, inner }
    }
}
