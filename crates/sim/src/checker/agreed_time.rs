//! The time that a group agrees on is not ahead of every clock: a batch executes only if a correct
//! replica's clock allowed it, so no lying primary can take the group's time away with it.

use super::{Broken, Verdict};
use crate::time::{Micros, latest};
use pentarchy_core::ids::{Millis, ReplicaId, Slot};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;

/// The property's name.
pub const PROPERTY: &str = "agreed_time";

/// Knows how far clocks may be ahead in one world.
#[derive(Debug)]
pub struct AgreedTime {
    ahead_ms: u64,
    drift_ppm: u64,
}

impl AgreedTime {
    /// Clocks are at most this far ahead at the start or by being set, and this much too fast.
    #[must_use]
    pub const fn new(ahead_ms: u64, drift_ppm: u64) -> Self {
        Self { ahead_ms, drift_ppm }
    }

    /// A correct replica executes a batch of this time.
    ///
    /// # Errors
    /// If no clock could show it by now.
    pub fn executed(&self, now: Micros, replica: ReplicaId, slot: Slot, time: Millis) -> Verdict {
        let latest = latest(now, self.ahead_ms, self.drift_ppm).0 + CLOCK_SKEW_MILLIS;
        if time.0 <= latest {
            return Ok(());
        }
        let detail =
            format!("{replica} executes {slot} of time {} at {latest} at the latest", time.0);
        Err(Broken::new(PROPERTY, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_that_no_clock_can_show_is_found() {
        let checker = AgreedTime::new(100, 50_000);
        let at = |ms: u64| {
            let time = Millis(latest(0, 0, 0).0 + ms);
            checker.executed(1_000_000, ReplicaId(1), Slot(3), time)
        };
        at(1_150 + CLOCK_SKEW_MILLIS).unwrap();
        assert_eq!(at(1_151 + CLOCK_SKEW_MILLIS).unwrap_err().property, PROPERTY);
    }
}
