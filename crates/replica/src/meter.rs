//! Where time goes, and why views change. Filled by the host's thread and read by it alone; others
//! see copies of it in a [`StatusReport`](crate::StatusReport).
//!
//! Phases are measured on a sample: one envelope at a time, from its admission until its replies
//! are written. So the price is a few clock readings for each round and none for each request.

use crate::histogram::Histogram;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, View};
use pentarchy_core::protocol::Status;
use pentarchy_core::request::Envelope;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

/// A sampled envelope that is not ordered within this time is given up: its client may have
/// withdrawn it.
const SAMPLE_LIMIT: Duration = Duration::from_secs(30);

/// Changes of view that are remembered.
const VIEWS_REMEMBERED: usize = 8;

/// Spreads of durations in microseconds, and of sizes.
#[derive(Clone, Default, Debug)]
pub struct Spreads {
    /// From a request's admission here to its proposal, by the primary's clock, which counts in
    /// milliseconds.
    pub propose: Histogram,
    /// From the proposal to the decision as this replica learnt of it. A replica that did not get
    /// the request from its client only has the two replicas' clocks to tell, in milliseconds.
    pub commit: Histogram,
    /// Execution of one batch.
    pub execute: Histogram,
    /// From the execution until the replies were handed to the system.
    pub reply: Histogram,
    /// From admission until the replies were handed to the system.
    pub total: Histogram,
    /// What a round that found work took.
    pub round: Histogram,
    /// Requests in one batch.
    pub batch: Histogram,
    /// Writing and syncing one group of entries of the log.
    pub sync: Histogram,
    /// Entries in one group.
    pub group: Histogram,
}

/// A view change that began.
#[derive(Clone, PartialEq, Eq, Serialize, Debug)]
pub struct ViewChange {
    /// The view that is wanted.
    pub view: u64,
    /// Why.
    pub reason: &'static str,
    /// When, in milliseconds since the replica was started.
    pub uptime_ms: u64,
}

/// The measurements of one replica.
#[derive(Default)]
pub(crate) struct Meter {
    pub spreads: Spreads,
    /// Rounds in which something happened.
    pub rounds: u64,
    pub batches: u64,
    /// View changes by reason. Reasons are words in the protocol's code, so there are few.
    pub view_changes: BTreeMap<&'static str, u64>,
    /// The last of them, oldest first.
    pub recent: VecDeque<ViewChange>,
    /// The clock that proposals carry, as of this round.
    now: Millis,
    /// How many view changes the core has counted.
    seen: u64,
    sample: Option<Sample>,
}

struct Sample {
    envelope: Digest,
    admitted: Instant,
    /// By the clock that proposals carry.
    admitted_at: Millis,
    executed: Option<Instant>,
}

impl Meter {
    /// A round begins at this time, by the clock that proposals carry.
    pub const fn begin(&mut self, now: Millis) {
        self.now = now;
    }

    /// An envelope goes to the core. Follows it, unless another one is followed.
    pub fn admitted(&mut self, envelope: &Envelope) {
        if self.sample.is_none() {
            let (envelope, admitted) = (envelope.digest, Instant::now());
            let admitted_at = self.now;
            self.sample = Some(Sample { envelope, admitted, admitted_at, executed: None });
        }
    }

    /// A batch was executed.
    pub fn executed(&mut self, batch: &Batch, begun: Instant) {
        let ended = Instant::now();
        self.batches += 1;
        self.spreads.batch.record(batch.requests() as u64);
        self.spreads.execute.record(micros(ended - begun));
        let Some(sample) = &mut self.sample else {
            let millis = self.now.0.saturating_sub(batch.time.0);
            return self.spreads.commit.record(millis.saturating_mul(1000));
        };
        if sample.executed.is_some() {
            return;
        }
        if batch.envelopes.iter().any(|envelope| envelope.digest == sample.envelope) {
            let ordered = micros(begun - sample.admitted);
            let proposed = batch.time.0.saturating_sub(sample.admitted_at.0).saturating_mul(1000);
            let proposed = proposed.min(ordered);
            self.spreads.propose.record(proposed);
            self.spreads.commit.record(ordered - proposed);
            sample.executed = Some(ended);
        }
    }

    /// A round in which something happened is over, and what it had to say is written.
    pub fn round(&mut self, begun: Instant) {
        let ended = Instant::now();
        self.rounds += 1;
        self.spreads.round.record(micros(ended - begun));
        let is_over = |sample: &mut Sample| {
            sample.executed.is_some() || ended - sample.admitted > SAMPLE_LIMIT
        };
        let Some(sample) = self.sample.take_if(is_over) else { return };
        if let Some(executed) = sample.executed {
            self.spreads.reply.record(micros(ended - executed));
            self.spreads.total.record(micros(ended - sample.admitted));
        }
    }

    /// Compares where the core stands with the last time. Gives the view change that has begun
    /// since then.
    pub fn observe(&mut self, status: &Status, uptime_ms: u64) -> Option<&ViewChange> {
        // The core of another epoch counts from 0.
        let seen = if status.view_changes < self.seen { 0 } else { self.seen };
        let begun = status.view_changes - seen;
        self.seen = status.view_changes;
        if begun == 0 {
            return None;
        }
        *self.view_changes.entry(status.reason).or_default() += begun;
        let View(view) = status.view;
        if self.recent.len() == VIEWS_REMEMBERED {
            self.recent.pop_front();
        }
        self.recent.push_back(ViewChange { view, reason: status.reason, uptime_ms });
        self.recent.back()
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}
