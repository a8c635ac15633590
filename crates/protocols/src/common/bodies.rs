//! Bodies of batches, by digest. Votes and certificates carry digests only; a replica votes for a
//! batch only while it holds the whole of it, and keeps it as long as a peer may still ask.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::{BATCH_BYTES_MAX, BATCH_REQUESTS_MAX};
use pentarchy_core::request::Envelope;

/// What is known of one batch.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Body {
    /// The highest slot that orders it.
    slot: Slot,
    proposal: Option<Arc<Proposal>>,
    batch: Option<Arc<Batch>>,
    /// Large envelopes that were fetched one by one.
    fetched: BTreeMap<Digest, Arc<Envelope>>,
    /// Whether it breaks the limits of a batch, so that it will never be complete.
    oversize: bool,
}

/// Batches that some slot in the window orders.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Bodies {
    bodies: BTreeMap<Digest, Body>,
    /// Digests of the batches that are not complete.
    wanted: BTreeSet<Digest>,
}

/// What is missing from a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// All of it.
    Proposal(Digest),
    /// Some envelopes that were not sent with the proposal.
    Envelopes(Vec<Digest>),
}

impl Bodies {
    /// Notes that a slot orders the batch of this digest.
    pub fn want(&mut self, slot: Slot, digest: Digest) {
        let wanted = &mut self.wanted;
        let body = self.bodies.entry(digest).or_insert_with(|| {
            wanted.insert(digest);
            let fetched = BTreeMap::new();
            Body { slot, proposal: None, batch: None, fetched, oversize: false }
        });
        body.slot = body.slot.max(slot);
    }

    /// Takes a proposal, if its digest is wanted. Returns whether the batch breaks the limits.
    pub fn offer(
        &mut self,
        proposal: &Arc<Proposal>,
        find: impl Fn(&Digest) -> Option<Arc<Envelope>>,
    ) -> bool {
        let digest = proposal.digest();
        if !self.bodies.contains_key(&digest) {
            return false;
        }
        if self.bodies.get(&digest).is_some_and(|body| body.batch.is_some() || body.oversize) {
            return false;
        }
        // A large envelope may stand in another slot's batch, having left its client's queue.
        let named = proposal.named().filter(|d| find(d).is_none());
        let held: Vec<_> = named.filter_map(|d| self.envelope(&d)).collect();
        let Some(body) = self.bodies.get_mut(&digest) else { return false };
        body.proposal.get_or_insert_with(|| proposal.clone());
        held.into_iter().for_each(|envelope| body.fetch(envelope));
        body.complete(find);
        if body.batch.is_some() {
            self.wanted.remove(&digest);
        }
        self.bodies.get(&digest).is_some_and(|body| body.oversize)
    }

    /// Takes an envelope that some incomplete batch names; returns whether one did.
    pub fn offer_envelope(
        &mut self,
        envelope: &Arc<Envelope>,
        find: impl Fn(&Digest) -> Option<Arc<Envelope>>,
    ) -> bool {
        let mut used = false;
        let mut done = Vec::new();
        for digest in &self.wanted {
            let Some(body) = self.bodies.get_mut(digest) else { continue };
            let names = |proposal: &Arc<Proposal>| proposal.named().any(|d| d == envelope.digest);
            if !body.proposal.as_ref().is_some_and(names) {
                continue;
            }
            used = true;
            body.fetch(envelope.clone());
            body.complete(&find);
            if body.batch.is_some() {
                done.push(*digest);
            }
        }
        for digest in done {
            self.wanted.remove(&digest);
        }
        used
    }

    /// The whole batch, if it is here.
    #[must_use]
    pub fn get(&self, digest: &Digest) -> Option<&Arc<Batch>> {
        self.bodies.get(digest)?.batch.as_ref()
    }

    /// The proposal, to pass on.
    #[must_use]
    pub fn proposal(&self, digest: &Digest) -> Option<&Arc<Proposal>> {
        self.bodies.get(digest)?.proposal.as_ref()
    }

    /// An envelope of some complete batch, to pass on.
    #[must_use]
    pub fn envelope(&self, digest: &Digest) -> Option<Arc<Envelope>> {
        let batches = self.bodies.values().filter_map(|body| body.batch.as_ref());
        batches.flat_map(|batch| &batch.envelopes).find(|e| e.digest == *digest).cloned()
    }

    /// Tries again to complete every wanted batch from what is at hand.
    pub fn retry(&mut self, find: impl Fn(&Digest) -> Option<Arc<Envelope>>) {
        let bodies = &mut self.bodies;
        self.wanted.retain(|digest| {
            let Some(body) = bodies.get_mut(digest) else { return false };
            body.complete(&find);
            body.batch.is_none()
        });
    }

    /// What is missing, at most `max` batches; another part of them for each `turn`, so that junk
    /// that a liar made us want cannot keep us from asking for what exists.
    #[must_use]
    pub fn missing(&self, max: usize, turn: u64) -> Vec<Missing> {
        let skip = (turn as usize).wrapping_mul(max) % self.wanted.len().max(1);
        let around = self.wanted.iter().skip(skip).chain(self.wanted.iter().take(skip));
        let bodies = around.filter_map(|digest| Some((digest, self.bodies.get(digest)?)));
        let lacking = bodies.filter(|(_, body)| !body.oversize);
        lacking.take(max).map(|(digest, body)| body.missing(*digest)).collect()
    }

    /// Whether every batch is complete.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.wanted.is_empty()
    }

    /// Stops wanting incomplete batches that `keep` does not agree to.
    pub fn retain_wanted(&mut self, keep: impl Fn(&Digest) -> bool) {
        let bodies = &mut self.bodies;
        self.wanted.retain(|digest| {
            let keep = keep(digest);
            if !keep {
                bodies.remove(digest);
            }
            keep
        });
    }

    /// Keeps only batches of slots above `low` that `keep` agrees to.
    pub fn retain(&mut self, low: Slot, keep: impl Fn(&Digest) -> bool) {
        self.bodies.retain(|digest, body| body.slot > low && keep(digest));
        let bodies = &self.bodies;
        self.wanted.retain(|digest| bodies.contains_key(digest));
    }

    /// How many batches are held or wanted.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bodies.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bodies.is_empty()
    }
}

impl Body {
    fn complete(&mut self, find: impl Fn(&Digest) -> Option<Arc<Envelope>>) {
        let (None, Some(proposal), false) = (&self.batch, &self.proposal, self.oversize) else {
            return;
        };
        let fetched = &self.fetched;
        let find = |digest: &Digest| fetched.get(digest).cloned().or_else(|| find(digest));
        let Some(batch) = proposal.complete(find) else { return };
        if batch.within_limits() {
            self.batch = Some(Arc::new(batch));
        } else {
            self.oversize = true;
        }
        self.fetched.clear();
    }

    /// Keeps an envelope until the batch is complete, or too much was named for a batch.
    fn fetch(&mut self, envelope: Arc<Envelope>) {
        if self.batch.is_some() || self.oversize {
            return;
        }
        self.fetched.insert(envelope.digest, envelope);
        let bytes: usize = self.fetched.values().map(|envelope| envelope.len()).sum();
        let requests: usize = self.fetched.values().map(|e| e.requests.len()).sum();
        if bytes > BATCH_BYTES_MAX || requests > BATCH_REQUESTS_MAX {
            self.oversize = true;
            self.fetched.clear();
        }
    }

    fn missing(&self, digest: Digest) -> Missing {
        match &self.proposal {
            None => Missing::Proposal(digest),
            Some(proposal) => {
                let lacks = |d: &Digest| !self.fetched.contains_key(d);
                Missing::Envelopes(proposal.named().filter(lacks).collect())
            }
        }
    }
}
