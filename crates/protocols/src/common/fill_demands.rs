//! Slots that other cores wait for, and since when the primary can have filled each of them: from
//! when it could propose there, and not before it can have heard that others wait.

use super::pace::{Demand, Work};
use alloc::collections::VecDeque;
use core::ops::RangeInclusive;
use pentarchy_core::ids::{Millis, Slot};
use pentarchy_core::mutant;

/// How long it may take until the primary hears that a slot is to be filled: of what is decided
/// elsewhere every vote tells, and votes that are lost are repeated after this.
const HEARD_OF_MILLIS: u64 = 50;

/// See the [module](self). Memory: two entries for each slot of the window.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct FillDemands {
    /// Up to which slots this replica knew that others wait, and since when, in rising order.
    heard: VecDeque<(Slot, Millis)>,
    /// The slots that the primary is to fill next.
    open: VecDeque<(Slot, Demand)>,
}

impl FillDemands {
    /// Whether [`Self::hear`] would note anything.
    #[must_use]
    pub fn is_news(&self, slot: Slot) -> bool {
        self.heard.back().is_none_or(|(last, _)| *last < slot)
    }

    /// Others wait for slots up to this one.
    pub fn hear(&mut self, slot: Slot, now: Millis) {
        if self.is_news(slot) {
            self.heard.push_back((slot, now));
        }
    }

    /// Of the slots up to `last`, those that are not demanded yet; up to `executed` all are there.
    #[must_use]
    pub fn lacking(&self, executed: Slot, last: Slot) -> RangeInclusive<u64> {
        let demanded = self.open.back().map_or(executed, |(slot, _)| *slot);
        demanded.max(executed).next().0..=last.0
    }

    /// The primary can fill these slots from now on: at once if it has known of them for long.
    pub fn demand(&mut self, slots: RangeInclusive<u64>, now: Millis, work: Work) {
        for slot in slots.map(Slot) {
            let at = self.heard.iter().find(|(heard, _)| *heard >= slot).map_or(now, |(_, at)| *at);
            let at = if mutant!("frame.rows-heard-of-anew") { now } else { at };
            let since = now.max(Millis(at.0.saturating_add(HEARD_OF_MILLIS)));
            self.open.push_back((slot, Demand { since, work }));
        }
    }

    /// Takes the demand for the next slot that is executed by now.
    pub fn pop_filled(&mut self, executed: Slot) -> Option<Demand> {
        while self.heard.front().is_some_and(|(slot, _)| *slot <= executed) {
            self.heard.pop_front();
        }
        let (slot, demand) = self.open.front().copied()?;
        (slot <= executed).then(|| self.open.pop_front()).map(|_| demand)
    }

    /// The demand for the slot that comes next, if any.
    #[must_use]
    pub fn first(&self) -> Option<Demand> {
        self.open.front().map(|(_, demand)| *demand)
    }

    /// Forgets all.
    pub fn clear(&mut self) {
        self.heard.clear();
        self.open.clear();
    }

    /// Asserts that it stays bounded.
    pub fn assert_invariants(&self, window: u64) {
        let window = window as usize;
        assert!(self.heard.len() <= window && self.open.len() <= window);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn since(demands: &mut FillDemands, executed: u64) -> Vec<u64> {
        let filled = core::iter::from_fn(|| demands.pop_filled(Slot(executed)));
        filled.map(|demand| demand.since.0).collect()
    }

    #[test]
    fn a_slot_gets_the_time_that_it_takes_to_hear_of_it() {
        let mut demands = FillDemands::default();
        demands.hear(Slot(2), Millis(1_000));
        demands.demand(demands.lacking(Slot(0), Slot(2)), Millis(1_000), Work::default());
        assert_eq!(since(&mut demands, 2), [1_050, 1_050]);
    }

    #[test]
    fn a_slot_that_was_heard_of_long_ago_is_to_be_filled_as_soon_as_there_is_room() {
        let mut demands = FillDemands::default();
        demands.hear(Slot(2), Millis(1_000));
        demands.hear(Slot(9), Millis(1_030));
        demands.demand(demands.lacking(Slot(0), Slot(2)), Millis(1_040), Work::default());
        assert_eq!(since(&mut demands, 1), [1_050]);
        assert_eq!(since(&mut room_at_last(demands.clone()), 4), [1_050, 1_200, 1_200]);
        let mut anew = mutant::with(Some("frame.rows-heard-of-anew"), || room_at_last(demands));
        assert_eq!(since(&mut anew, 4), [1_050, 1_250, 1_250]);
    }

    /// Slot 2 is executed late, and makes room for 3 and 4.
    fn room_at_last(mut demands: FillDemands) -> FillDemands {
        demands.demand(demands.lacking(Slot(2), Slot(4)), Millis(1_200), Work::default());
        demands
    }

    #[test]
    fn what_is_not_executed_stays_demanded_once() {
        let mut demands = FillDemands::default();
        demands.hear(Slot(3), Millis(0));
        demands.demand(demands.lacking(Slot(0), Slot(3)), Millis(0), Work::default());
        assert!(demands.lacking(Slot(0), Slot(3)).is_empty() && !demands.is_news(Slot(3)));
        assert_eq!(demands.pop_filled(Slot(0)), None);
        assert!(demands.first().is_some(), "it is still open");
        demands.clear();
        assert!(demands.first().is_none() && demands.is_news(Slot(3)));
    }
}
