//! How long a view may take to begin, and whatever is judged in it: twice as long for each view in
//! a row that failed.
//!
//! A view *failed* if a timer of this replica ran out in it, and
//!
//! - it was not entered; or
//! - it made nothing final, or was left before it had executed what waited when it was entered. To
//!   make something final is not enough: where a slot takes longer than a request is given, each
//!   view orders one slot and ends, and whoever waits behind a long queue waits for as many view
//!   changes; or
//! - something that a timer had run out for came after all, not long before the view ended: others
//!   had asked for the next one by then, as their timers had run out too.
//!
//! A view that ends for another reason, as its primary is slower than others, says nothing about
//! timeouts.
//!
//! Each view that fails too early does so by a timer of a correct replica, whose next view gets
//! twice the time; so after finitely many the time of enough replicas is long enough. A view that
//! did not fail was long enough: the next one gets as much, and at least twice the shortest time.
//! The time becomes shorter again with each checkpoint of a view that served whom it found waiting,
//! and with each `CALM_MILLIS` in views that go on, so that what one outage taught does not slow
//! the next failover down for ever. What passes until a timer runs out, or until a view is entered,
//! is no calm time: where that takes longer than `CALM_MILLIS`, each failure would be forgotten
//! before the next one, and no view would ever get more time.
//!
//! After a view that it had entered and that failed, a replica makes the time no shorter for
//! `CALM_MILLIS`, and for twice as long after each further one, up to minutes. Otherwise, in a slow
//! network, each slot that is a checkpoint, and each `CALM_MILLIS`, would cost a view change.

use pentarchy_core::ids::{Millis, Slot};
use pentarchy_core::mutant;

/// After so long in views that go on, times are half as long.
const CALM_MILLIS: u64 = 10_000;

/// How often the time doubles for which nothing takes back what views taught: to minutes.
const LESSONS_MAX: u8 = 4;

/// A hundredth of a second doubled so often is longer than
/// [the longest delay](pentarchy_core::protocol::Timeouts::DELAY_MAX_MS). What an outage of days
/// would double further, it would take as long to forget.
const DOUBLINGS_MAX: u8 = 16;

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
    /// Consecutive views that failed, less what was forgotten until a timer last began; doubles the
    /// timeouts.
    doublings: u8,
    /// How often the timer is doubled that began last, and when that was.
    judged: (u8, Millis),
    /// What timers ran out for in this view.
    late: Option<Late>,
    /// Views that were entered and failed, less one for each calm time with the shortest timeouts.
    lessons: u8,
    /// This replica makes the time no shorter before this.
    kept_until: Millis,
    /// From when on calm time counts that is not counted yet.
    calm_since: Millis,
    /// When this replica left for its view.
    left: Millis,
    /// The last slot that was final when this replica entered its view.
    final_before: Slot,
    /// Envelopes that had arrived when this replica entered its view.
    arrived_before: u64,
}

/// What timers ran out for that began with so many doublings.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
struct Late {
    /// The first envelope, by its arrival number.
    arrival: Option<u64>,
    /// The first slot that was to be filled, or to become final.
    slot: Option<Slot>,
    doublings: u8,
    /// When the first of the timers began.
    began: Millis,
    /// When it ran out, once the clock was read.
    ran_out: Option<Millis>,
}

impl Late {
    /// Whether that says nothing any more of the time that things take now.
    fn is_old(&self, now: Millis) -> bool {
        self.ran_out.is_some_and(|at| {
            let counts = CALM_MILLIS.max(at.0.saturating_sub(self.began.0));
            now.0 > at.0.saturating_add(counts)
        })
    }
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
            judged: (0, Millis(0)),
            late: None,
            lessons: 0,
            kept_until: Millis(0),
            calm_since: Millis(0),
            left: Millis(0),
            final_before: last_final,
            arrived_before: 0,
        }
    }

    /// A timer begins by which the primary is judged. Gives how often it is doubled.
    pub fn judge(&mut self, now: Millis) -> u8 {
        self.count_calm(now);
        self.judged = (self.doublings, now);
        self.doublings
    }

    /// The clock was read.
    pub const fn clock_moved(&mut self, now: Millis) {
        if let Some(Late { ran_out: ran_out @ None, .. }) = &mut self.late {
            *ran_out = Some(now);
        }
    }

    /// Forgets a failure for each calm time since the last was forgotten.
    fn count_calm(&mut self, now: Millis) {
        let calm = now.0.saturating_sub(self.calm_since.0) / CALM_MILLIS;
        self.calm_since.0 += calm * CALM_MILLIS;
        let calm = u8::try_from(calm).unwrap_or(u8::MAX);
        self.lessons = self.lessons.saturating_sub(calm.saturating_sub(self.doublings));
        self.doublings = self.doublings.saturating_sub(calm);
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

    /// Whether something that a timer ran out for came in this view after all, lately.
    fn came_late(&self, standing: Standing) -> bool {
        let Some(late) = self.late.filter(|late| !late.is_old(standing.now)) else { return false };
        let came = late.arrival.is_some_and(|it| it < standing.oldest)
            || late.slot.is_some_and(|it| it <= standing.last_final);
        came && !mutant!("frame.late-is-in-time")
    }

    /// A view was long enough: the next one gets so much, and not less than the least.
    fn relax(&mut self, doublings: u8, least: u8, now: Millis) {
        let doublings = if forgets_failures() { least } else { doublings.max(least) };
        if doublings != self.doublings {
            self.set(doublings, now);
        }
    }

    /// A view that was entered failed: this replica makes the time no shorter for a while.
    fn keep_lesson(&mut self, now: Millis) {
        let keeps = if mutant!("frame.shortens-at-once") { 0 } else { CALM_MILLIS << self.lessons };
        self.kept_until = Millis(now.0.saturating_add(keeps));
        self.lessons = (self.lessons + 1).min(LESSONS_MAX);
    }

    fn set(&mut self, doublings: u8, now: Millis) {
        self.doublings = doublings.min(DOUBLINGS_MAX);
        self.calm_since = now.max(self.kept_calm_since());
    }

    /// From when on calm time counts at the earliest, so that the first is over when the time may
    /// become shorter.
    const fn kept_calm_since(&self) -> Millis {
        Millis(self.kept_until.0.saturating_sub(CALM_MILLIS))
    }

    /// This replica leaves a view for one that gets twice the time that a new primary gets once a
    /// quorum has left. A view that did not fail does not count: if it did, a group with few
    /// requests, whose checkpoints are far apart, would wait twice as long after each failure.
    pub fn view_left(&mut self, was_entered: bool, standing: Standing) {
        let now = standing.now;
        let is_further =
            standing.last_final > self.final_before || mutant!("frame.entered-views-worked");
        let has_served = was_entered && self.has_served(standing);
        let was_too_short = !(is_further && has_served) || self.came_late(standing);
        let failed = self.has_run_out && was_too_short || mutant!("frame.views-that-worked-failed");
        if failed {
            if was_entered {
                self.keep_lesson(now);
            }
            // A checkpoint may have made the time shorter after the timer began.
            let ran_out = self.late.map_or(0, |late| late.doublings);
            self.set(self.doublings.max(ran_out).saturating_add(1), now);
        } else {
            if has_served {
                self.count_calm(now);
            }
            self.relax(self.doublings, 1, now);
        }
        (self.has_run_out, self.late, self.left) = (false, None, now);
    }

    /// The envelope of this arrival number was not executed in time.
    pub fn request_ran_out(&mut self, arrival: u64) {
        self.late().arrival.get_or_insert(arrival);
    }

    /// This slot was not filled, or did not become final, in time.
    pub fn slot_ran_out(&mut self, slot: Slot) {
        let late = self.late();
        late.slot = Some(late.slot.map_or(slot, |first| first.min(slot)));
    }

    /// Takes note that the timer ran out that began last.
    fn late(&mut self) -> &mut Late {
        self.has_run_out = true;
        let (doublings, began) = self.judged;
        let _ = self.late.take_if(|late| late.is_old(began));
        let new = Late { arrival: None, slot: None, doublings, began, ran_out: None };
        let late = self.late.get_or_insert(new);
        late.doublings = late.doublings.max(doublings);
        late
    }

    /// A state was installed: nobody here knows whether what it brought came late.
    pub const fn forget_late(&mut self) {
        self.late = None;
    }

    /// It begins for the view. Gives how often it is doubled.
    pub const fn start(&mut self) -> u8 {
        self.is_running = true;
        self.doublings
    }

    /// It begins for the new primary to open the view. Gives how often it is doubled.
    pub const fn start_for_primary(&mut self) -> u8 {
        self.start().saturating_sub(1)
    }

    /// It ran out itself.
    pub const fn expired(&mut self) {
        (self.is_running, self.has_run_out) = (false, true);
    }

    /// The view is entered.
    pub fn view_entered(&mut self, standing: Standing) {
        self.is_running = false;
        let changing = standing.now.0.saturating_sub(self.left.0);
        if self.kept_until > self.left {
            self.kept_until.0 = self.kept_until.0.saturating_add(changing);
        }
        let calm_since = Millis(self.calm_since.min(self.left).0.saturating_add(changing));
        self.calm_since = calm_since.max(self.kept_calm_since());
        (self.final_before, self.arrived_before) = (standing.last_final, standing.next);
    }

    /// A checkpoint became stable in the view.
    pub fn view_works(&mut self, standing: Standing) {
        if !self.has_served(standing) {
            return;
        }
        self.count_calm(standing.now);
        if standing.now >= self.kept_until {
            self.relax(self.doublings.saturating_sub(1), 0, standing.now);
        }
    }

    /// The log says that this replica left for a view.
    pub fn recall_leaving(&mut self) {
        self.doublings = self.doublings.saturating_add(1).min(DOUBLINGS_MAX);
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
        assert_eq!(timer.doublings, 1);
        timer.expired();
        timer.view_left(false, standing(4, 0, 3, 0));
        let times = (timer.start(), timer.start_for_primary());
        assert_eq!((times, timer.is_running()), ((2, 1), true));
        timer.view_entered(standing(6, 0, 3, 0));
        assert!(!timer.is_running());
        // It made a slot final, but the last of the three envelopes waits on.
        timer.request_ran_out(2);
        timer.view_left(true, standing(7, 2, 5, 0));
        assert_eq!(timer.doublings, 3);
        timer.view_entered(standing(7, 2, 5, 0));
        timer.request_ran_out(5);
        timer.view_left(true, standing(9, 5, 8, 0));
        assert_eq!(timer.doublings, 3);
        timer.recall_leaving();
        timer.resumed();
        assert_eq!(timer.start(), 1);
    }

    /// Each view is opened late, and a request that waits from then on is not ordered.
    #[test]
    fn views_that_fail_double_it_also_if_each_lasts_longer_than_a_calm_time() {
        let (mut timer, mut now) = (ViewChangeTimer::new(Slot(0)), 0);
        for doublings in 1..=DOUBLINGS_MAX {
            now += 400 << timer.start();
            timer.view_entered(standing(0, 0, 3, now));
            now += 400 << timer.judge(Millis(now));
            timer.request_ran_out(0);
            timer.view_left(true, standing(0, 0, 3, now));
            assert_eq!(timer.doublings, doublings);
        }
        timer.expired();
        timer.view_left(false, standing(0, 0, 3, now));
        assert_eq!(timer.doublings, DOUBLINGS_MAX, "it is long enough");
    }

    /// How often it is doubled after a view that made slots 1 to 4 final and found nobody waiting.
    fn after(late: impl FnOnce(&mut ViewChangeTimer)) -> u8 {
        let mut timer = ViewChangeTimer::new(Slot(0));
        timer.view_left(true, standing(0, 0, 0, 0));
        timer.view_entered(standing(0, 0, 0, 0));
        assert_eq!(timer.judge(Millis(0)), 1);
        late(&mut timer);
        timer.view_left(true, standing(4, 7, 9, 0));
        timer.doublings
    }

    #[test]
    fn what_comes_after_its_time_but_in_its_view_doubles_it() {
        assert_eq!([6, 7].map(|arrival| after(|timer| timer.request_ran_out(arrival))), [2, 1]);
        assert_eq!([4, 5].map(|slot| after(|timer| timer.slot_ran_out(Slot(slot)))), [2, 1]);
        let both = |timer: &mut ViewChangeTimer| {
            timer.request_ran_out(6);
            timer.request_ran_out(7);
        };
        assert_eq!(after(both), 2, "the first one came");
        let installed = |timer: &mut ViewChangeTimer| {
            timer.slot_ran_out(Slot(4));
            timer.forget_late();
        };
        assert_eq!(after(installed), 1);
        let too_late = || after(|timer| timer.slot_ran_out(Slot(4)));
        assert_eq!(mutant::with(Some("frame.late-is-in-time"), too_late), 1);
    }

    /// How often it is doubled after a view in which nobody waited from before, and whose first
    /// slot took too long.
    fn after_a_view_without_progress() -> u8 {
        let mut timer = ViewChangeTimer::new(Slot(0));
        timer.view_left(true, standing(0, 0, 0, 0));
        timer.view_entered(standing(0, 0, 0, 0));
        assert_eq!(timer.judge(Millis(0)), 1);
        timer.slot_ran_out(Slot(1));
        timer.view_left(true, standing(0, 0, 0, 0));
        timer.doublings
    }

    #[test]
    fn a_view_that_made_nothing_final_was_too_short() {
        assert_eq!(after_a_view_without_progress(), 2);
        let bug = Some("frame.entered-views-worked");
        assert_eq!(mutant::with(bug, after_a_view_without_progress), 1);
    }

    /// Each slot is a checkpoint, and takes longer than the time that such a checkpoint leaves.
    fn after_a_checkpoint_in_the_next_view() -> u8 {
        let mut timer = ViewChangeTimer::new(Slot(0));
        timer.view_left(true, standing(0, 0, 0, 0));
        timer.view_entered(standing(0, 0, 0, 0));
        assert_eq!(timer.judge(Millis(0)), 1);
        timer.slot_ran_out(Slot(2));
        timer.view_works(standing(1, 0, 0, 10));
        assert_eq!(timer.judge(Millis(15)), 0, "the next slot's");
        timer.view_left(true, standing(2, 0, 0, 20));
        assert_eq!(timer.doublings, 2, "twice the time that ran out");
        timer.view_entered(standing(2, 0, 0, 30));
        timer.view_works(standing(3, 0, 0, 40));
        timer.doublings
    }

    #[test]
    fn no_checkpoint_takes_back_for_a_calm_time_what_a_view_taught() {
        assert_eq!(after_a_checkpoint_in_the_next_view(), 2);
        let bug = Some("frame.shortens-at-once");
        assert_eq!(mutant::with(bug, after_a_checkpoint_in_the_next_view), 1);
    }

    /// How often it is doubled after a view in which something came late so long before its end.
    fn after_so_long(millis: u64) -> u8 {
        let mut timer = ViewChangeTimer::new(Slot(0));
        timer.view_left(true, standing(0, 0, 0, 0));
        timer.view_entered(standing(0, 0, 0, 0));
        assert_eq!(timer.judge(Millis(0)), 1);
        timer.request_ran_out(6);
        timer.clock_moved(Millis(800));
        timer.view_left(true, standing(4, 7, 9, 800 + millis));
        timer.doublings
    }

    #[test]
    fn what_came_late_long_ago_says_nothing() {
        assert_eq!([CALM_MILLIS, CALM_MILLIS + 1].map(after_so_long), [2, 1]);
    }

    /// An entered view fails, then one that nobody enters, then one goes on.
    #[test]
    fn what_an_entered_view_taught_is_kept_whatever_comes_of_the_next() {
        let mut timer = ViewChangeTimer::new(Slot(0));
        timer.view_left(true, standing(0, 0, 3, 0));
        for _ in 0..2 {
            timer.view_entered(standing(0, 0, 3, 0));
            timer.judge(Millis(0));
            timer.request_ran_out(0);
            timer.view_left(true, standing(0, 0, 3, 0));
        }
        timer.expired();
        timer.view_left(false, standing(0, 0, 3, 0));
        timer.view_entered(standing(0, 3, 3, 100));
        let kept_until = 100 + 2 * CALM_MILLIS;
        assert_eq!(timer.judge(Millis(kept_until - 1)), 4);
        timer.view_works(standing(9, 9, 9, kept_until - 1));
        assert_eq!(timer.judge(Millis(kept_until)), 3);
    }

    /// Another replica's timer ran out.
    #[test]
    fn whoever_follows_out_of_a_view_that_served_nobody_forgets_nothing() {
        let mut timer = ViewChangeTimer::new(Slot(0));
        for _ in 0..4 {
            timer.expired();
            timer.view_left(false, standing(0, 0, 3, 0));
        }
        timer.view_entered(standing(0, 0, 3, 2 * CALM_MILLIS));
        assert_eq!(timer.judge(Millis(2 * CALM_MILLIS)), 4);
        timer.view_left(true, standing(0, 0, 3, 4 * CALM_MILLIS));
        assert_eq!(timer.doublings, 4);
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
        assert_eq!(timer.judge(Millis(100)), 5);
        timer.view_works(standing(128, 3, 9, 200));
        assert_eq!(timer.judge(Millis(200)), 4);
        assert_eq!(timer.judge(Millis(200 + 2 * CALM_MILLIS)), 2);
        // Two views that do not fail, and have a calm time together.
        timer.view_left(true, standing(129, 9, 9, 200 + 2 * CALM_MILLIS + CALM_MILLIS / 2));
        timer.view_entered(standing(129, 9, 9, 200 + 2 * CALM_MILLIS + CALM_MILLIS / 2));
        timer.view_left(true, standing(130, 9, 9, 200 + 3 * CALM_MILLIS));
        assert_eq!(timer.doublings, 1);
        assert_eq!(timer.judge(Millis(u64::MAX)), 0);
    }
}
