//! Where time goes, and why views change. Others see copies of it in a
//! [`StatusReport`](crate::StatusReport).
//!
//! Phases are measured on a sample: one envelope at a time, from its admission until its replies
//! are written. So the price is a few clock readings for each round and none for each request.

use crate::histogram::Histogram;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Millis;
use pentarchy_core::protocol::Status;
use pentarchy_core::request::Envelope;
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

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
    /// In which pillar, if there are several.
    pub pillar: Option<u8>,
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
    /// How many view changes the core has counted, in all.
    seen: u64,
    /// Those of each pillar.
    seen_in: Vec<u64>,
    sample: Option<Sample>,
}

struct Sample {
    envelope: Digest,
    /// By the driver's clock, as [`Self::executed`].
    admitted: Duration,
    /// By the clock that proposals carry.
    admitted_at: Millis,
    executed: Option<Duration>,
}

impl Meter {
    /// A round begins at this time, by the clock that proposals carry.
    pub const fn begin(&mut self, now: Millis) {
        self.now = now;
    }

    /// An envelope goes to the core. Follows it, unless another one is followed.
    pub fn admitted(&mut self, envelope: &Envelope, clock: impl FnOnce() -> Duration) {
        if self.sample.is_none() {
            let (envelope, admitted) = (envelope.digest, clock());
            let admitted_at = self.now;
            self.sample = Some(Sample { envelope, admitted, admitted_at, executed: None });
        }
    }

    /// A batch was executed between these times.
    pub fn executed(&mut self, batch: &Batch, begun: Duration, ended: Duration) {
        self.batches += 1;
        self.spreads.batch.record(batch.requests() as u64);
        self.spreads.execute.record(micros(ended.saturating_sub(begun)));
        let Some(sample) = &mut self.sample else {
            let millis = self.now.0.saturating_sub(batch.time.0);
            return self.spreads.commit.record(millis.saturating_mul(1000));
        };
        if sample.executed.is_some() {
            return;
        }
        if batch.envelopes.iter().any(|envelope| envelope.digest == sample.envelope) {
            let ordered = micros(begun.saturating_sub(sample.admitted));
            let proposed = batch.time.0.saturating_sub(sample.admitted_at.0).saturating_mul(1000);
            let proposed = proposed.min(ordered);
            self.spreads.propose.record(proposed);
            self.spreads.commit.record(ordered - proposed);
            sample.executed = Some(ended);
        }
    }

    /// A round in which something happened is over, and what it had to say is written.
    pub fn round(&mut self, begun: Duration, ended: Duration) {
        self.rounds += 1;
        self.spreads.round.record(micros(ended.saturating_sub(begun)));
        let is_over = |sample: &mut Sample| {
            sample.executed.is_some() || ended.saturating_sub(sample.admitted) > SAMPLE_LIMIT
        };
        let Some(sample) = self.sample.take_if(is_over) else { return };
        if let Some(executed) = sample.executed {
            self.spreads.reply.record(micros(ended.saturating_sub(executed)));
            self.spreads.total.record(micros(ended.saturating_sub(sample.admitted)));
        }
    }

    /// Compares where the core stands with the last time. Gives the view changes that have begun
    /// since then, at most one of each pillar. `pillars` is asked for only if there are any.
    pub fn compare(
        &mut self,
        status: &Status,
        pillars: impl FnOnce() -> Vec<Status>,
        uptime_ms: u64,
    ) -> Vec<ViewChange> {
        let before = std::mem::replace(&mut self.seen, status.view_changes);
        if before == status.view_changes {
            return Vec::new();
        }
        let pillars = pillars();
        let all = match pillars.as_slice() {
            [] => vec![(None, status)],
            pillars => (0..).map(Some).zip(pillars).collect(),
        };
        self.seen_in.resize(all.len(), before);
        let mut changes = Vec::new();
        for ((pillar, status), seen) in all.into_iter().zip(&mut self.seen_in) {
            let before = std::mem::replace(seen, status.view_changes);
            // The core of another epoch counts from 0.
            let before = if status.view_changes < before { 0 } else { before };
            if status.view_changes > before {
                *self.view_changes.entry(status.reason).or_default() +=
                    status.view_changes - before;
                let (view, reason) = (status.view.0, status.reason);
                changes.push(ViewChange { pillar, view, reason, uptime_ms });
            }
        }
        self.recent.extend(changes.iter().cloned());
        let forgotten = self.recent.len().saturating_sub(VIEWS_REMEMBERED);
        self.recent.drain(..forgotten);
        changes
    }
}

fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{ReplicaId, Slot, View};

    fn status(view: u64, view_changes: u64, reason: &'static str) -> Status {
        Status {
            view: View(view),
            primary: ReplicaId(0),
            phase: "normal",
            committed: Slot(0),
            stable: Slot(0),
            peers_committed: Slot(0),
            waiting: 0,
            view_changes,
            reason,
        }
    }

    fn told(changes: &[ViewChange]) -> Vec<(Option<u8>, u64, &'static str)> {
        changes.iter().map(|it| (it.pillar, it.view, it.reason)).collect()
    }

    #[test]
    fn view_changes_are_told_once() {
        let mut meter = Meter::default();
        let mut compare = |status| told(&meter.compare(&status, Vec::new, 7));
        assert_eq!(compare(status(0, 0, "")), []);
        assert_eq!(compare(status(2, 2, "late")), [(None, 2, "late")]);
        assert_eq!(compare(status(2, 2, "late")), []);
        assert_eq!(compare(status(1, 1, "slow")), [(None, 1, "slow")], "of another epoch");
        assert_eq!(meter.view_changes, BTreeMap::from([("late", 2), ("slow", 1)]));
    }

    #[test]
    fn view_changes_of_each_pillar_are_told_as_such() {
        let mut meter = Meter::default();
        let mut compare = |pillars: [Status; 2]| {
            let all = pillars.iter().map(|it| it.view_changes).sum();
            told(&meter.compare(&status(0, all, ""), || pillars.to_vec(), 7))
        };
        assert_eq!(compare([status(0, 0, ""), status(1, 1, "late")]), [(Some(1), 1, "late")]);
        assert_eq!(compare([status(0, 0, ""), status(1, 1, "late")]), []);
        let both = compare([status(1, 1, "slow"), status(3, 3, "late")]);
        assert_eq!(both, [(Some(0), 1, "slow"), (Some(1), 3, "late")]);
        assert_eq!(meter.view_changes, BTreeMap::from([("late", 3), ("slow", 1)]));
        (0..9).for_each(|view| {
            let pillars = || vec![status(0, 1, ""), status(view, 4 + view, "")];
            meter.compare(&status(0, 5 + view, ""), pillars, 7);
        });
        assert_eq!(meter.recent.len(), VIEWS_REMEMBERED);
    }
}
