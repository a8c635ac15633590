//! Slots that other cores wait for whose orders are merged with this one ([`crate::pillars`]): up
//! to which slot the primary is to order, whether or not anything waits, and the timer by which a
//! backup sees to it.

use pentarchy_core::ids::Slot;

/// Why slots are to be filled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FillReason {
    /// A later one is decided in another core. The primary is timed, and its pace judged.
    Decided,
    /// A request waits in another core for the same primary, which is timed.
    Requested,
    /// Somebody is at this slot in another core. Nobody is judged by that.
    Heard,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct SlotsToFill {
    /// Slots up to this one are to be ordered.
    upto: Slot,
    /// Slots up to this one are timed; `<= upto`.
    timed_upto: Slot,
    /// The slot for whose execution the timer runs, or has run out.
    timer: Option<Slot>,
    /// Whether it has run out.
    is_overdue: bool,
}

/// A timer that is to be disarmed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    /// The slot for which it runs, or has run out.
    pub slot: Slot,
    /// Whether it has, so that a reason to want another primary is gone.
    pub was_overdue: bool,
}

impl SlotsToFill {
    /// Whether [`Self::extend`] would change anything.
    #[must_use]
    pub fn lacks(&self, slot: Slot, why: FillReason) -> bool {
        self.upto < slot || (why != FillReason::Heard && self.timed_upto < slot)
    }

    /// Others wait for this slot, or are at it.
    pub fn extend(&mut self, slot: Slot, why: FillReason) {
        self.upto = self.upto.max(slot);
        if why != FillReason::Heard {
            self.timed_upto = self.timed_upto.max(slot);
        }
    }

    /// The last slot that is to be ordered although nothing waits.
    #[must_use]
    pub const fn upto(&self) -> Slot {
        self.upto
    }

    /// Whether the primary did not order in time what others wait for.
    #[must_use]
    pub const fn is_overdue(&self) -> bool {
        self.is_overdue
    }

    /// Ends the timer if its slot is executed, or if this replica may not judge the primary.
    pub fn end_timer(&mut self, may_judge: bool, executed: Slot) -> Option<Ended> {
        let slot = self.timer.take_if(|slot| !may_judge || executed >= *slot)?;
        Some(Ended { slot, was_overdue: core::mem::take(&mut self.is_overdue) })
    }

    /// Begins the timer, if none runs and others wait for something that the primary can order now.
    /// Gives its slot.
    pub fn begin_timer(&mut self, executed: Slot, reach: Slot) -> Option<Slot> {
        let slot = self.timed_upto.min(reach);
        let begins = self.timer.is_none() && executed < slot;
        self.timer = self.timer.or(begins.then_some(slot));
        begins.then_some(slot)
    }

    /// The timer ran out; whether its slot was not ordered in time.
    pub fn timer_expired(&mut self, slot: Slot, executed: Slot) -> bool {
        let is_late = self.timer == Some(slot) && executed < slot;
        self.is_overdue |= is_late;
        is_late
    }

    /// A view is over, and what its primary did not do. The next primary is timed for what others
    /// wait for then: they may have waited for something that only the last one said.
    pub const fn view_ended(&mut self) {
        (self.is_overdue, self.timed_upto) = (false, Slot(0));
    }

    /// Asserts that nothing is overdue for which no timer ran.
    pub fn assert_invariants(&self) {
        assert!(self.timer.is_some() || !self.is_overdue);
        assert!(self.timed_upto <= self.upto);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const END: Slot = Slot(100);

    fn upto(slot: u64) -> SlotsToFill {
        let mut slots = SlotsToFill::default();
        slots.extend(Slot(slot), FillReason::Decided);
        slots
    }

    #[test]
    fn a_slot_that_others_are_at_is_filled_and_not_timed_until_somebody_waits_for_it() {
        let mut slots = SlotsToFill::default();
        slots.extend(Slot(9), FillReason::Heard);
        assert_eq!((slots.upto(), slots.begin_timer(Slot(2), END)), (Slot(9), None));
        assert!(
            !slots.lacks(Slot(9), FillReason::Heard) && slots.lacks(Slot(7), FillReason::Requested)
        );
        slots.extend(Slot(7), FillReason::Requested);
        assert_eq!(slots.begin_timer(Slot(2), END), Some(Slot(7)));
        slots.assert_invariants();
    }

    #[test]
    fn the_timer_runs_for_so_many_slots_as_the_primary_can_order() {
        let mut slots = upto(9);
        assert_eq!(slots.begin_timer(Slot(2), Slot(6)), Some(Slot(6)));
        assert_eq!((slots.begin_timer(Slot(2), END), slots.end_timer(true, Slot(5))), (None, None));
        let ended = Ended { slot: Slot(6), was_overdue: false };
        assert_eq!(slots.end_timer(true, Slot(6)), Some(ended));
        assert_eq!(slots.begin_timer(Slot(6), END), Some(Slot(9)));
        assert!(slots.end_timer(false, Slot(6)).is_some(), "it does not judge any more");
        assert_eq!(slots.begin_timer(Slot(9), END), None);
    }

    #[test]
    fn what_is_late_is_overdue_until_it_comes_or_the_view_ends() {
        let mut slots = upto(9);
        slots.begin_timer(Slot(2), END);
        assert!(!slots.timer_expired(Slot(8), Slot(2)), "that is a timer from before");
        assert!(slots.timer_expired(Slot(9), Slot(8)) && slots.is_overdue());
        let mut next_view = slots.clone();
        next_view.view_ended();
        assert!(!next_view.is_overdue() && next_view.lacks(Slot(9), FillReason::Decided));
        assert!(next_view.end_timer(true, Slot(9)).is_some());
        assert_eq!(next_view.begin_timer(Slot(2), END), None, "nobody waits yet");
        assert!(slots.end_timer(true, Slot(9)).is_some_and(|ended| ended.was_overdue));
        slots.assert_invariants();
    }
}
