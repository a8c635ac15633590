//! What one slot orders: envelopes and the agreed time.

use crate::digest::{Digest, Hasher};
use crate::ids::Millis;
use crate::limits::{BATCH_BYTES_MAX, BATCH_ENVELOPES_MAX, BATCH_REQUESTS_MAX};
use crate::mutant;
use crate::request::Envelope;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// An envelope in a proposal: small ones whole, large ones by name.
#[derive(Clone, PartialEq, Eq, Hash)]
pub enum Item {
    /// The envelope itself.
    Whole(Arc<Envelope>),
    /// The digest of an envelope that its client sent to every replica.
    Named(Digest),
}

impl Item {
    /// Names the envelope.
    #[must_use]
    pub fn digest(&self) -> Digest {
        match self {
            Self::Whole(envelope) => envelope.digest,
            Self::Named(digest) => *digest,
        }
    }
}

impl core::fmt::Debug for Item {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Whole(envelope) => envelope.fmt(f),
            Self::Named(digest) => write!(f, "named {digest}"),
        }
    }
}

impl Wire for Item {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Whole(envelope) => {
                to.u8(0);
                envelope.encode(to);
            }
            Self::Named(digest) => {
                to.u8(1);
                digest.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Envelope::decode(from).map(|envelope| Self::Whole(Arc::new(envelope))),
            1 => Digest::decode(from).map(Self::Named),
            _ => Err(Malformed),
        }
    }
}

/// What a primary proposes for one slot. The digest says also which envelopes travel whole: who has
/// a vote for a proposal knows what to ask for, and nobody can give it another form.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Proposal {
    /// The primary's clock when it proposed; execution makes it monotone.
    pub time: Millis,
    /// In the order in which they run. May be empty: time passes when nobody writes.
    pub items: Vec<Item>,
    digest: Digest,
}

impl Proposal {
    /// Proposes these envelopes at this time.
    #[must_use]
    pub fn new(time: Millis, items: Vec<Item>) -> Self {
        let mut hasher = Hasher::new("batch");
        let named = if mutant!("batch.time-not-named") { Millis(0) } else { time };
        hasher.u64(named.0).u64(items.len() as u64);
        for item in &items {
            let is_named = matches!(item, Item::Named(_));
            hasher.u64(u64::from(is_named)).digest(&item.digest());
        }
        let digest = hasher.finish();
        Self { time, items, digest }
    }

    /// Names time and envelopes, and which of them travel whole.
    #[must_use]
    pub const fn digest(&self) -> Digest {
        self.digest
    }

    /// The envelopes that travel whole.
    pub fn whole(&self) -> impl Iterator<Item = &Arc<Envelope>> {
        self.items.iter().filter_map(|item| match item {
            Item::Whole(envelope) => Some(envelope),
            Item::Named(_) => None,
        })
    }

    /// The digests of the envelopes that do not.
    pub fn named(&self) -> impl Iterator<Item = Digest> {
        self.items.iter().filter_map(|item| match item {
            Item::Whole(_) => None,
            Item::Named(digest) => Some(*digest),
        })
    }

    /// Whether an envelope is in it more than once.
    #[must_use]
    pub fn repeats_itself(&self) -> bool {
        let mut digests: Vec<Digest> = self.items.iter().map(Item::digest).collect();
        digests.sort_unstable();
        digests.windows(2).any(|pair| pair[0] == pair[1])
    }

    /// The batch, if `find` has every envelope that did not travel whole.
    #[must_use]
    pub fn complete(&self, find: impl Fn(&Digest) -> Option<Arc<Envelope>>) -> Option<Batch> {
        let envelope = |item: &Item| match item {
            Item::Whole(envelope) => Some(envelope.clone()),
            Item::Named(digest) => find(digest),
        };
        let envelopes: Option<Vec<_>> = self.items.iter().map(envelope).collect();
        Some(Batch { time: self.time, envelopes: envelopes?, digest: self.digest })
    }
}

impl Wire for Proposal {
    fn encode(&self, to: &mut Writer) {
        self.time.encode(to);
        to.sequence(&self.items);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let time = Millis::decode(from)?;
        let items = from.sequence(BATCH_ENVELOPES_MAX)?;
        Ok(Self::new(time, items))
    }
}

/// What one slot executes: a proposal with every envelope at hand.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Batch {
    /// See [`Proposal::time`].
    pub time: Millis,
    /// In the order in which they run.
    pub envelopes: Vec<Arc<Envelope>>,
    /// The digest of the proposal.
    pub digest: Digest,
}

impl Batch {
    /// Requests in all envelopes.
    #[must_use]
    pub fn requests(&self) -> usize {
        self.envelopes.iter().map(|envelope| envelope.requests.len()).sum()
    }

    /// Bytes of all envelopes, as limits count them.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.envelopes.iter().map(|envelope| envelope.len()).sum()
    }

    /// Whether the batch keeps the bounds that every correct primary keeps. A batch outside them is
    /// treated as if its bodies could not be had.
    #[must_use]
    pub fn within_limits(&self) -> bool {
        self.bytes() <= BATCH_BYTES_MAX && self.requests() <= BATCH_REQUESTS_MAX
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::ClientId;
    use crate::request::{Draft, Request, RequestAuth};
    use alloc::vec;

    fn envelope(number: u64) -> Arc<Envelope> {
        let requests = vec![Request { number, operation: vec![1].into() }];
        let draft = Draft { client: ClientId([1; 32]), floor: 0, events: None, requests };
        Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
    }

    #[test]
    fn a_digest_says_what_travels_whole() {
        let (a, b) = (envelope(1), envelope(2));
        let whole = |it: &Arc<Envelope>| Item::Whole(it.clone());
        let named = |it: &Arc<Envelope>| Item::Named(it.digest);
        let forms = [
            vec![whole(&a), whole(&b)],
            vec![whole(&a), named(&b)],
            vec![named(&a), whole(&b)],
            vec![named(&a), named(&b)],
            vec![named(&b), named(&a)],
        ];
        let digests: Vec<Digest> =
            forms.iter().map(|items| Proposal::new(Millis(1), items.clone()).digest()).collect();
        for (at, digest) in digests.iter().enumerate() {
            assert!(!digests[..at].contains(digest));
        }
        assert!(!Proposal::new(Millis(1), forms[1].clone()).repeats_itself());
        let twice = Proposal::new(Millis(1), vec![whole(&a), named(&b), named(&a)]);
        assert!(twice.repeats_itself());
    }
}
