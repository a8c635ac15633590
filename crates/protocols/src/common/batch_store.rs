//! Bodies of batches, by digest. Votes and certificates carry digests only; a replica votes for a
//! batch only while it holds the whole of it, and keeps it as long as a peer may still ask.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::{Batch, Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, Slot};
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
    /// The highest slot as whose the log has it, see [`BatchStore::keep`].
    kept: Option<Slot>,
}

/// An envelope that complete batches name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Held {
    envelope: Arc<Envelope>,
    /// Complete batches that name it.
    batches: usize,
    /// Whether the log has it, see [`BatchStore::keep_named`].
    kept: bool,
}

/// Batches that some slot in the window orders.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct BatchStore {
    bodies: BTreeMap<Digest, Body>,
    /// Digests of the batches that are not complete.
    wanted: BTreeSet<Digest>,
    /// Envelopes that complete batches name. Those that came inside a proposal are passed on with
    /// it: a batch's digest says which is which.
    held: BTreeMap<Digest, Held>,
    /// Batches that are not complete and have their proposal, by the envelopes that it names.
    lacking: BTreeMap<Digest, BTreeSet<Digest>>,
    /// Whether the timer runs after which missing envelopes are asked for.
    is_timed: bool,
}

/// What is missing from a batch.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Missing {
    /// All of it.
    Proposal(Digest),
    /// Some envelopes that were not sent with the proposal.
    Envelopes(Vec<Digest>),
}

/// What a slot orders that nobody needs: nothing, at a time that has passed.
#[must_use]
pub fn null() -> Arc<Proposal> {
    Arc::new(Proposal::new(Millis(0), Vec::new()))
}

impl BatchStore {
    /// Whether to arm the timer after which missing envelopes are asked for.
    pub const fn start_timer(&mut self) -> bool {
        !core::mem::replace(&mut self.is_timed, true)
    }

    /// That timer ran out.
    pub const fn timer_expired(&mut self) {
        self.is_timed = false;
    }

    /// Notes that a slot orders the batch of this digest.
    pub fn want(&mut self, slot: Slot, digest: Digest) {
        let wanted = &mut self.wanted;
        let body = self.bodies.entry(digest).or_insert_with(|| {
            wanted.insert(digest);
            let fetched = BTreeMap::new();
            Body { slot, proposal: None, batch: None, fetched, oversize: false, kept: None }
        });
        body.slot = body.slot.max(slot);
    }

    /// The same of a batch that a view takes over: that of [no request](null) everyone knows.
    pub fn want_or_know(&mut self, slot: Slot, digest: Digest) {
        self.want(slot, digest);
        let nothing = null();
        if digest == nothing.digest() {
            self.offer(&nothing, |_| None);
        }
    }

    /// Whether a batch is wanted and not whole.
    #[must_use]
    pub fn lacks(&self, digest: &Digest) -> bool {
        self.wanted.contains(digest)
    }

    /// Whether some batch that is not whole names an envelope.
    #[must_use]
    pub fn lacks_envelope(&self, digest: &Digest) -> bool {
        self.lacking.contains_key(digest)
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
        if body.proposal.is_none() {
            body.proposal = Some(proposal.clone());
            for name in proposal.named() {
                self.lacking.entry(name).or_default().insert(digest);
            }
        }
        held.into_iter().for_each(|envelope| body.fetch(envelope));
        self.complete(digest, find)
    }

    /// Completes a wanted batch if all of it is here. Returns whether it breaks the limits.
    fn complete(
        &mut self,
        digest: Digest,
        find: impl Fn(&Digest) -> Option<Arc<Envelope>>,
    ) -> bool {
        let Some(body) = self.bodies.get_mut(&digest) else { return false };
        body.complete(find);
        let (oversize, batch) = (body.oversize, body.batch.clone());
        if !oversize && batch.is_none() {
            return false;
        }
        forget_names(&mut self.lacking, digest, body);
        if let Some(batch) = batch {
            self.wanted.remove(&digest);
            for envelope in body.named(&batch) {
                let new = || Held { envelope: envelope.clone(), batches: 0, kept: false };
                self.held.entry(envelope.digest).or_insert_with(new).batches += 1;
            }
        }
        oversize
    }

    /// Takes an envelope that some incomplete batch names; returns whether one did.
    pub fn offer_envelope(
        &mut self,
        envelope: &Arc<Envelope>,
        find: impl Fn(&Digest) -> Option<Arc<Envelope>>,
    ) -> bool {
        let Some(batches) = self.lacking.get(&envelope.digest).cloned() else { return false };
        for digest in &batches {
            if let Some(body) = self.bodies.get_mut(digest) {
                body.fetch(envelope.clone());
            }
            self.complete(*digest, &find);
        }
        true
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

    /// An envelope that some complete batch names, to pass on.
    #[must_use]
    pub fn envelope(&self, digest: &Digest) -> Option<Arc<Envelope>> {
        self.held.get(digest).map(|held| held.envelope.clone())
    }

    /// The envelopes that the proposal of a complete batch only names, whatever their size, and
    /// that the log does not have since [`Self::log_again`]: its reader finds them nowhere else.
    /// The caller keeps them now.
    pub fn keep_named(&mut self, digest: &Digest) -> Vec<Arc<Envelope>> {
        let Some(Body { proposal: Some(proposal), batch: Some(_), .. }) = self.bodies.get(digest)
        else {
            return Vec::new();
        };
        let mut new = Vec::new();
        for name in proposal.named() {
            if let Some(held) = self.held.get_mut(&name).filter(|held| !held.kept) {
                held.kept = true;
                new.push(held.envelope.clone());
            }
        }
        new
    }

    /// The proposal of a complete batch, unless the log has it since [`Self::log_again`] as this
    /// slot's or a later one's. The caller keeps it now.
    pub fn keep(&mut self, slot: Slot, digest: &Digest) -> Option<Arc<Proposal>> {
        let body = self.bodies.get_mut(digest).filter(|body| body.batch.is_some())?;
        if body.kept >= Some(slot) {
            return None;
        }
        body.kept = Some(slot);
        body.proposal.clone()
    }

    /// The log is about to be cut below here: whatever is needed has to be kept again.
    pub fn log_again(&mut self) {
        self.bodies.values_mut().for_each(|body| body.kept = None);
        self.held.values_mut().for_each(|held| held.kept = false);
    }

    /// Tries again to complete every wanted batch from what is at hand.
    pub fn retry(&mut self, find: impl Fn(&Digest) -> Option<Arc<Envelope>>) {
        for digest in self.wanted.clone() {
            self.complete(digest, &find);
        }
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
        for digest in self.wanted.clone().into_iter().filter(|digest| !keep(digest)) {
            self.remove(&digest);
        }
    }

    /// Keeps only batches of slots above `low` that `keep` agrees to.
    pub fn retain(&mut self, low: Slot, keep: impl Fn(&Digest) -> bool) {
        let goes = |(digest, body): (&Digest, &Body)| {
            (body.slot <= low || !keep(digest)).then_some(*digest)
        };
        let gone: Vec<Digest> = self.bodies.iter().filter_map(goes).collect();
        gone.iter().for_each(|digest| self.remove(digest));
    }

    fn remove(&mut self, digest: &Digest) {
        let Some(body) = self.bodies.remove(digest) else { return };
        self.wanted.remove(digest);
        let Some(batch) = &body.batch else {
            forget_names(&mut self.lacking, *digest, &body);
            return;
        };
        for envelope in body.named(batch) {
            if let Some(held) = self.held.get_mut(&envelope.digest) {
                held.batches -= 1;
                if held.batches == 0 {
                    self.held.remove(&envelope.digest);
                }
            }
        }
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

/// A batch waits for no envelope any more.
fn forget_names(lacking: &mut BTreeMap<Digest, BTreeSet<Digest>>, batch: Digest, body: &Body) {
    for name in body.proposal.iter().flat_map(|proposal| proposal.named()) {
        if let Some(batches) = lacking.get_mut(&name) {
            batches.remove(&batch);
            if batches.is_empty() {
                lacking.remove(&name);
            }
        }
    }
}

impl Body {
    /// The envelopes of its batch that its proposal only names.
    fn named<'a>(&'a self, batch: &'a Batch) -> impl Iterator<Item = &'a Arc<Envelope>> {
        let items = self.proposal.iter().flat_map(|proposal| &proposal.items);
        let both = items.zip(&batch.envelopes);
        both.filter(|(item, _)| matches!(item, Item::Named(_))).map(|(_, envelope)| envelope)
    }

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

#[cfg(test)]
mod tests;
