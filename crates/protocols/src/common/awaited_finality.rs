//! Up to which executed slot somebody waits for finality, and the timer by which a backup sees to
//! it.

use pentarchy_core::ids::Slot;

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct AwaitedFinality {
    /// Somebody waits until this slot is final.
    upto: Slot,
    /// The slot for which the timer runs.
    timer: Option<Slot>,
    /// Whether it was not final in time.
    is_overdue: bool,
}

impl AwaitedFinality {
    /// Somebody waits until a slot is final.
    pub fn extend(&mut self, slot: Slot) {
        self.upto = self.upto.max(slot);
    }

    /// The last slot that somebody waits for.
    #[must_use]
    pub const fn upto(&self) -> Slot {
        self.upto
    }

    /// Nobody waits for what was executed above this slot, and taken back: its clients ask again.
    pub fn cut(&mut self, executed: Slot) {
        self.upto = self.upto.min(executed);
    }

    /// Whether what somebody waits for was not final in time.
    #[must_use]
    pub const fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Ends the timer if its slot is final, or if nobody `waits` any more. Gives its slot.
    pub fn end_timer(&mut self, waits: bool, last_final: Slot) -> Option<Slot> {
        self.timer.take_if(|slot| !waits || *slot <= last_final)
    }

    /// Begins the timer, if none runs and nothing is overdue. Gives its slot.
    pub const fn begin_timer(&mut self) -> Option<Slot> {
        if self.timer.is_some() || self.is_overdue {
            return None;
        }
        self.timer = Some(self.upto);
        self.timer
    }

    /// The timer ran out, on a replica that `may_judge` the primary or not; whether its slot was
    /// not final in time.
    pub fn timer_expired(&mut self, slot: Slot, last_final: Slot, may_judge: bool) -> bool {
        let is_late = self.timer.take_if(|timer| *timer == slot).is_some();
        let is_late = is_late && may_judge && slot > last_final;
        self.is_overdue |= is_late;
        is_late
    }

    /// What somebody waited for is final, or another view has time for it. Whether it was overdue,
    /// so that a reason to want another primary is gone.
    pub const fn relieve(&mut self) -> bool {
        core::mem::replace(&mut self.is_overdue, false)
    }

    /// Asserts that nothing is overdue that is final.
    pub fn assert_invariants(&self, last_final: Slot) {
        assert!(!self.is_overdue || self.upto > last_final, "what it waits for is final");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_final_in_time_is_overdue_and_is_not_timed_again() {
        let mut awaited = AwaitedFinality::default();
        awaited.extend(Slot(5));
        assert_eq!((awaited.begin_timer(), awaited.begin_timer()), (Some(Slot(5)), None));
        awaited.extend(Slot(7));
        assert!(!awaited.timer_expired(Slot(4), Slot(3), true), "that is a timer from before");
        assert!(awaited.timer_expired(Slot(5), Slot(4), true) && awaited.is_overdue());
        assert_eq!(awaited.begin_timer(), None);
        awaited.assert_invariants(Slot(6));
        assert!(awaited.relieve() && !awaited.relieve());
    }

    #[test]
    fn a_timer_ends_with_its_slot_or_when_nobody_waits() {
        let mut awaited = AwaitedFinality::default();
        awaited.extend(Slot(5));
        awaited.begin_timer();
        awaited.extend(Slot(7));
        assert_eq!(awaited.end_timer(true, Slot(4)), None);
        assert_eq!(awaited.end_timer(true, Slot(5)), Some(Slot(5)));
        assert_eq!(awaited.begin_timer(), Some(Slot(7)));
        assert_eq!(awaited.end_timer(false, Slot(5)), Some(Slot(7)));
        awaited.cut(Slot(6));
        assert_eq!(awaited.begin_timer(), Some(Slot(6)));
        assert!(!awaited.timer_expired(Slot(6), Slot(5), false) && !awaited.is_overdue());
    }
}
