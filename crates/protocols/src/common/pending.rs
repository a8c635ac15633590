//! Envelopes that clients sent here and that are not executed yet: what a primary proposes from,
//! and by what a backup judges the primary.
//!
//! A request is settled when *its number* executes, with whatever content, so a client that gives
//! the primary one operation and the backups another under the same number cannot make a correct
//! primary look silent. Of two envelopes that claim one number, the first stays.

use alloc::collections::btree_map::Entry;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::{Batch, Item};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::{
    BATCH_BYTES_MAX, BATCH_ENVELOPES_MAX, BATCH_INLINE_BYTES, PENDING_BYTES_MAX,
    PENDING_CLIENT_BYTES_MAX, PENDING_CLIENT_ENVELOPES_MAX, PENDING_ENVELOPES_MAX,
};
use pentarchy_core::mutant;
use pentarchy_core::request::Envelope;

/// One waiting envelope.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    envelope: Arc<Envelope>,
    /// Order of arrival.
    arrival: u64,
    /// Its numbers that are not settled, if some are; nearly always none is.
    open: Option<Vec<u64>>,
    /// Rounds of retransmission that it has been waiting for.
    ticks: u8,
}

/// The table. Bounded in envelopes, in bytes, and in bytes per client.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Pending {
    clients: BTreeMap<ClientId, Vec<Waiting>>,
    /// The same envelopes by digest.
    by_digest: BTreeMap<Digest, Arc<Envelope>>,
    /// Arrival order; entries whose envelope is gone are skipped.
    arrivals: VecDeque<(u64, Digest)>,
    /// What a primary has not proposed in this view.
    unproposed: VecDeque<Digest>,
    next_arrival: u64,
    bytes: usize,
}

impl Pending {
    /// Takes an envelope, some of whose numbers may be settled already; false if it is here
    /// already, claims no number that is not claimed here, or the table is full.
    pub fn add(&mut self, envelope: Arc<Envelope>, settled: Vec<u64>) -> bool {
        let digest = envelope.digest;
        let len = envelope.len();
        let full =
            self.by_digest.len() >= PENDING_ENVELOPES_MAX || self.bytes + len > PENDING_BYTES_MAX;
        if full || self.by_digest.contains_key(&digest) {
            return false;
        }
        let waiting = self.clients.entry(envelope.client).or_default();
        let crowded = waiting.len() >= PENDING_CLIENT_ENVELOPES_MAX;
        let held: usize = waiting.iter().map(|w| w.envelope.len()).sum();
        let claimed = crowded || is_claimed(&envelope, waiting);
        if claimed || held + len > PENDING_CLIENT_BYTES_MAX {
            self.drop_if_empty(envelope.client);
            return false;
        }
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        self.by_digest.insert(digest, envelope.clone());
        self.arrivals.push_back((arrival, digest));
        self.unproposed.push_back(digest);
        self.bytes += len;
        let open = (!settled.is_empty()).then(|| {
            let numbers = envelope.requests.iter().map(|request| request.number);
            numbers.filter(|number| !settled.contains(number)).collect()
        });
        waiting.push(Waiting { envelope, arrival, open, ticks: 0 });
        true
    }

    /// The envelope of this digest.
    #[must_use]
    pub fn find(&self, digest: &Digest) -> Option<Arc<Envelope>> {
        self.by_digest.get(digest).cloned()
    }

    /// Settles every number of an executed batch.
    pub fn executed(&mut self, batch: &Batch) {
        for envelope in &batch.envelopes {
            self.settle(envelope);
        }
        self.trim();
    }

    /// Drops queue entries whose envelope is gone: those in front at once, those behind an envelope
    /// that stays once they are the larger part.
    fn trim(&mut self) {
        let by_digest = &self.by_digest;
        while self.arrivals.front().is_some_and(|(_, digest)| !by_digest.contains_key(digest)) {
            self.arrivals.pop_front();
        }
        while self.unproposed.front().is_some_and(|digest| !by_digest.contains_key(digest)) {
            self.unproposed.pop_front();
        }
        let bound = 2 * by_digest.len() + 64;
        if self.arrivals.len() > bound {
            self.arrivals.retain(|(_, digest)| by_digest.contains_key(digest));
        }
        if self.unproposed.len() > bound {
            self.unproposed.retain(|digest| by_digest.contains_key(digest));
        }
    }

    fn settle(&mut self, executed: &Envelope) {
        let Entry::Occupied(mut waiting) = self.clients.entry(executed.client) else { return };
        waiting.get_mut().retain_mut(|w| {
            let by_number = !mutant!("pending.waits-for-digest") && w.settle(executed);
            let done = w.envelope.digest == executed.digest || by_number;
            if done {
                self.by_digest.remove(&w.envelope.digest);
                self.bytes -= w.envelope.len();
            }
            !done
        });
        if waiting.get().is_empty() {
            waiting.remove();
        }
    }

    fn drop_if_empty(&mut self, client: ClientId) {
        if self.clients.get(&client).is_some_and(Vec::is_empty) {
            self.clients.remove(&client);
        }
    }

    /// Forgets everything: after a state transfer nobody here knows what was executed. Clients
    /// send again what they still want.
    pub fn clear(&mut self) {
        *self = Self { next_arrival: self.next_arrival, ..Self::default() };
    }

    /// Everything may be proposed again, oldest first: a new view began.
    pub fn unpropose(&mut self) {
        self.unproposed = self
            .arrivals
            .iter()
            .map(|(_, d)| *d)
            .filter(|d| self.by_digest.contains_key(d))
            .collect();
    }

    /// Takes the next batch's items, oldest first, within the limits of a batch.
    pub fn propose(&mut self, requests_max: usize) -> Vec<Item> {
        let (mut requests, mut inline, mut bytes) = (0, 0, 0);
        let mut items = Vec::new();
        while let Some(digest) = self.unproposed.front() {
            let Some(envelope) = self.find(digest) else {
                self.unproposed.pop_front();
                continue;
            };
            requests += envelope.requests.len();
            bytes += envelope.len();
            inline += if envelope.is_large() { 0 } else { envelope.len() };
            let room = requests <= requests_max
                && bytes <= BATCH_BYTES_MAX
                && inline <= BATCH_INLINE_BYTES
                && items.len() < BATCH_ENVELOPES_MAX;
            if !room && !items.is_empty() {
                break;
            }
            self.unproposed.pop_front();
            items.push(if envelope.is_large() {
                Item::Named(envelope.digest)
            } else {
                Item::Whole(envelope)
            });
        }
        items
    }

    /// Whether something waits to be proposed.
    #[must_use]
    pub fn has_unproposed(&self) -> bool {
        self.unproposed.iter().any(|digest| self.by_digest.contains_key(digest))
    }

    /// Arrival number of the oldest envelope.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.arrivals
            .iter()
            .find(|(_, d)| self.by_digest.contains_key(d))
            .map(|(arrival, _)| *arrival)
    }

    /// Envelopes that have waited for a tick, and again at every fourth: time to pass them on to
    /// the primary, whom their client may have left out.
    pub fn tick(&mut self, max: usize) -> Vec<Arc<Envelope>> {
        let mut due = Vec::new();
        for waiting in self.clients.values_mut().flatten() {
            if waiting.ticks % 4 == 1 {
                if due.len() >= max {
                    continue;
                }
                due.push(waiting.envelope.clone());
            }
            waiting.ticks = waiting.ticks.wrapping_add(1);
        }
        due
    }

    /// How many envelopes wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// Asserts that the parts agree.
    pub fn assert_invariants(&self) {
        let waiting = || self.clients.values().flatten();
        assert_eq!(waiting().count(), self.by_digest.len());
        assert!(waiting().all(|w| self.by_digest.contains_key(&w.envelope.digest)));
        assert_eq!(waiting().map(|w| w.envelope.len()).sum::<usize>(), self.bytes);
        assert!(self.bytes <= PENDING_BYTES_MAX && self.by_digest.len() <= PENDING_ENVELOPES_MAX);
        assert!(self.clients.values().all(|waiting| !waiting.is_empty()));
        assert!(waiting().all(|w| w.arrival < self.next_arrival));
        assert!(self.arrivals.len() <= 2 * self.by_digest.len() + 64 + PENDING_ENVELOPES_MAX);
    }
}

impl Waiting {
    /// Settles the numbers that another envelope executed or its client has given up; true if
    /// none is left.
    fn settle(&mut self, executed: &Envelope) -> bool {
        let (low, high) = self.envelope.range();
        let (first, last) = executed.range();
        if executed.floor <= low && (last < low || high < first) {
            return false;
        }
        let envelope = &self.envelope;
        let open = self.open.get_or_insert_with(|| {
            envelope.requests.iter().map(|request| request.number).collect()
        });
        open.retain(|number| *number >= executed.floor && !executed.asks(*number));
        open.is_empty()
    }
}

/// Whether each of its numbers is claimed by an envelope that waits already.
fn is_claimed(envelope: &Envelope, waiting: &[Waiting]) -> bool {
    let (low, high) = envelope.range();
    let near = |w: &&Waiting| {
        let (first, last) = w.envelope.range();
        first <= high && low <= last
    };
    let rivals: Vec<&Waiting> = waiting.iter().filter(near).collect();
    let claims = |number: u64| rivals.iter().any(|w| w.envelope.asks(number));
    !rivals.is_empty() && envelope.requests.iter().all(|request| claims(request.number))
}
