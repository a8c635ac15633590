//! Armed timers.

use pentarchy_core::protocol::TimerKey;
use std::collections::{BTreeMap, BTreeSet};

/// Timers by name and by deadline, in milliseconds of the process's clock.
#[derive(Default)]
pub struct Timers {
    deadlines: BTreeMap<TimerKey, u64>,
    order: BTreeSet<(u64, TimerKey)>,
}

impl Timers {
    /// Arms a timer, replacing one of the same name.
    pub fn arm(&mut self, timer: TimerKey, deadline_ms: u64) {
        self.disarm(timer);
        self.deadlines.insert(timer, deadline_ms);
        self.order.insert((deadline_ms, timer));
    }

    /// Stops a timer.
    pub fn disarm(&mut self, timer: TimerKey) {
        if let Some(deadline_ms) = self.deadlines.remove(&timer) {
            self.order.remove(&(deadline_ms, timer));
        }
    }

    /// Stops all.
    pub fn clear(&mut self) {
        self.deadlines.clear();
        self.order.clear();
    }

    /// Takes out the timer that ran out first, if one has.
    pub fn pop(&mut self, now_ms: u64) -> Option<TimerKey> {
        let (deadline_ms, timer) = *self.order.first()?;
        if deadline_ms > now_ms {
            return None;
        }
        self.disarm(timer);
        Some(timer)
    }

    /// How many are armed.
    pub fn len(&self) -> usize {
        self.deadlines.len()
    }

    /// When the next timer runs out.
    pub fn next_ms(&self) -> Option<u64> {
        self.order.first().map(|(deadline_ms, _)| *deadline_ms)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_armed_timer_fires_once_in_order_of_deadline() {
        let mut timers = Timers::default();
        timers.arm((1, 1), 30);
        timers.arm((1, 2), 10);
        timers.arm((2, 0), 20);
        timers.arm((1, 1), 15);
        timers.disarm((2, 0));
        timers.disarm((9, 9));
        assert_eq!((timers.next_ms(), timers.pop(9)), (Some(10), None));
        let fired: Vec<_> = std::iter::from_fn(|| timers.pop(100)).collect();
        assert_eq!(fired, [(1, 2), (1, 1)]);
        assert_eq!(timers.next_ms(), None);
    }
}
