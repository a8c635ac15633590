//! How long a view may take to begin, and whatever is judged in it: twice as long for each view in
//! a row that failed.
//!
//! A view *failed* if a timer of this replica ran out in it, and it was not entered, made nothing
//! final, or was left before it had executed what waited when it was entered. To make something
//! final is not enough: where a slot takes longer than a request is given, each view orders one
//! slot and ends, and whoever waits behind a long queue waits for as many view changes. A view that
//! ends for another reason, as its primary is slower than others, says nothing about timeouts.
//!
//! Each view that fails too early does so by a timer of a correct replica, whose next view gets
//! twice the time; so after finitely many the time of enough replicas is long enough. A view that
//! did not fail was long enough: the next one gets as much, and at least twice the shortest time.
//! The time becomes shorter again with each checkpoint of a view that served whom it found waiting,
//! and with each `CALM_MILLIS` without a failure, so that what one outage taught does not slow
//! the next failover down for ever.

use pentarchy_core::ids::{Millis, Slot};
use pentarchy_core::mutant;

/// After so long without a failed view, times are half as long.
const CALM_MILLIS: u64 = 10_000;

/// What a replica knows when it enters or leaves a view, by which it says whether the view failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Standing {
    /// The last slot that is final here.
    pub last_final: Slot,
    /// The arrival number of the oldest envelope that waits here; of the next to come if none does.
    pub oldest: u64,
    /// The arrival number of the next envelope to come.
    pub next: u64,
    /// This replica's clock.
    pub now: Millis,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChangeTimer {
    /// Whether it runs. Whoever is in no view that works has that, or asks for a later one.
    is_running: bool,
    /// Whether a timer of this replica ran out since it left for this view: also if it entered that
    /// afterwards, as those who asked for the next one then go on to it.
    has_run_out: bool,
    /// Consecutive views that failed, less what was forgotten since; doubles the timeouts.
    doublings: u8,
    /// When the doublings last changed.
    changed: Millis,
    /// The last slot that was final when this replica entered its view.
    final_before: Slot,
    /// Envelopes that had arrived when this replica entered its view.
    arrived_before: u64,
}

/// Whether any progress sets timeouts back to the shortest, as a seeded bug has it.
fn forgets_failures() -> bool {
    mutant!("frame.any-progress-is-enough")
}

impl ViewChangeTimer {
    /// Of a replica that is in the first view, with so much final.
    #[must_use]
    pub const fn new(last_final: Slot) -> Self {
        Self {
            is_running: false,
            has_run_out: false,
            doublings: 0,
            changed: Millis(0),
            final_before: last_final,
            arrived_before: 0,
        }
    }

    /// How often timeouts are doubled.
    #[must_use]
    pub fn doublings(&self, now: Millis) -> u8 {
        let calm = now.0.saturating_sub(self.changed.0) / CALM_MILLIS;
        self.doublings.saturating_sub(u8::try_from(calm).unwrap_or(u8::MAX))
    }

    /// Whether it runs.
    #[must_use]
    pub const fn is_running(&self) -> bool {
        self.is_running
    }

    /// Whether this view executed all that waited when it was entered.
    fn has_served(&self, standing: Standing) -> bool {
        standing.oldest >= self.arrived_before || forgets_failures()
    }

    /// A view was long enough: the next one gets so much, and not less than the least.
    fn relax(&mut self, doublings: u8, least: u8, now: Millis) {
        let doublings = if forgets_failures() { least } else { doublings };
        self.set(doublings.max(least), now);
    }

    fn set(&mut self, doublings: u8, now: Millis) {
        (self.doublings, self.changed) = (doublings, now);
    }

    /// This replica leaves a view for one that gets twice the time that a new primary gets once a
    /// quorum has left. A view that did not fail does not count: if it did, a group with few
    /// requests, whose checkpoints are far apart, would wait twice as long after each failure.
    pub fn view_left(&mut self, was_entered: bool, standing: Standing) {
        let is_further =
            standing.last_final > self.final_before || mutant!("frame.entered-views-worked");
        let was_too_short = !(was_entered && is_further && self.has_served(standing));
        let failed = self.has_run_out && was_too_short || mutant!("frame.views-that-worked-failed");
        let doublings = self.doublings(standing.now);
        if failed {
            self.set(doublings.saturating_add(1), standing.now);
        } else {
            self.relax(doublings, 1, standing.now);
        }
        self.has_run_out = false;
    }

    /// Something that this replica waits for in its view took too long.
    pub const fn run_out(&mut self) {
        self.has_run_out = true;
    }

    /// It begins for the view. Gives how often it is doubled.
    pub fn start(&mut self, now: Millis) -> u8 {
        self.is_running = true;
        self.doublings(now)
    }

    /// It begins for the new primary to open the view. Gives how often it is doubled.
    pub fn start_for_primary(&mut self, now: Millis) -> u8 {
        self.start(now).saturating_sub(1)
    }

    /// It ran out itself.
    pub const fn expired(&mut self) {
        (self.is_running, self.has_run_out) = (false, true);
    }

    /// The view is entered.
    pub const fn view_entered(&mut self, standing: Standing) {
        self.is_running = false;
        (self.final_before, self.arrived_before) = (standing.last_final, standing.next);
    }

    /// A checkpoint became stable in the view.
    pub fn view_works(&mut self, standing: Standing) {
        if self.has_served(standing) {
            self.relax(self.doublings(standing.now).saturating_sub(1), 0, standing.now);
        }
    }

    /// The log says that this replica left for a view.
    pub const fn recall_leaving(&mut self) {
        self.doublings = self.doublings.saturating_add(1);
    }

    /// The log says that a checkpoint is stable.
    pub const fn recall_stable(&mut self) {
        self.doublings = 0;
    }

    /// The log is read. It does not say which views failed, and no group fails for long because
    /// replicas start again.
    pub fn resumed(&mut self) {
        self.doublings = self.doublings.min(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn standing(last_final: u64, oldest: u64, next: u64, now: u64) -> Standing {
        Standing { last_final: Slot(last_final), oldest, next, now: Millis(now) }
    }

    #[test]
    fn views_that_fail_in_a_row_double_it_and_one_that_worked_does_not_count() {
        let mut timer = ViewChangeTimer::new(Slot(4));
        timer.view_left(true, standing(4, 0, 3, 0));
        assert_eq!(timer.doublings(Millis(0)), 1);
        timer.expired();
        timer.view_left(false, standing(4, 0, 3, 0));
        let times = (timer.start(Millis(0)), timer.start_for_primary(Millis(0)));
        assert_eq!((times, timer.is_running()), ((2, 1), true));
        timer.view_entered(standing(6, 0, 3, 0));
        assert!(!timer.is_running());
        // It made a slot final, but the last of the three envelopes waits on.
        timer.run_out();
        timer.view_left(true, standing(7, 2, 5, 0));
        assert_eq!(timer.doublings(Millis(0)), 3);
        timer.view_entered(standing(7, 2, 5, 0));
        timer.run_out();
        timer.view_left(true, standing(9, 5, 8, 0));
        assert_eq!(timer.doublings(Millis(0)), 3);
        timer.recall_leaving();
        timer.resumed();
        assert_eq!(timer.start(Millis(0)), 1);
    }

    #[test]
    fn it_is_shorter_after_a_checkpoint_that_leaves_nobody_waiting_and_after_a_calm_time() {
        let mut timer = ViewChangeTimer::new(Slot(0));
        for _ in 0..5 {
            timer.expired();
            timer.view_left(false, standing(0, 0, 3, 0));
        }
        timer.view_entered(standing(0, 0, 3, 0));
        timer.view_works(standing(64, 2, 9, 100));
        assert_eq!(timer.doublings(Millis(100)), 5);
        timer.view_works(standing(128, 3, 9, 200));
        assert_eq!(timer.doublings(Millis(200)), 4);
        assert_eq!(timer.doublings(Millis(200 + 2 * CALM_MILLIS)), 2);
        timer.view_left(true, standing(129, 9, 9, 200 + 3 * CALM_MILLIS));
        assert_eq!(timer.doublings(Millis(200 + 3 * CALM_MILLIS)), 1);
        assert_eq!(timer.doublings(Millis(u64::MAX)), 0);
    }
}
