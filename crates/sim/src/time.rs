//! Simulated time, and the clocks of nodes, which are neither right nor equally fast.

use crate::rng::Rng;
use pentarchy_core::ids::Millis;

/// Microseconds since the start of the world.
pub type Micros = u64;

/// What the clocks show at the start of the world.
const START: u64 = 1_000_000_000_000;

/// The latest time that a clock can show which is at most this far ahead and this much too fast.
#[must_use]
pub const fn latest(now: Micros, ahead_ms: u64, drift_ppm: u64) -> Millis {
    Millis(START + ahead_ms + (now + now * drift_ppm / 1_000_000) / 1_000)
}

/// The clock of one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Milliseconds ahead of the slowest clock at the start.
    pub ahead_ms: u64,
    /// How much faster than the world's time it runs, in millionths.
    pub fast_ppm: u64,
    /// Since when it runs at that rate.
    pub since: Micros,
    /// It never shows less than this.
    pub floor: Millis,
}

impl Clock {
    /// A clock at most this far from any other at the start, and at most this much too fast.
    pub fn random(rng: &mut Rng, skew_ms: u64, drift_ppm: u64) -> Self {
        let (ahead_ms, fast_ppm) = (rng.range(0, skew_ms), rng.range(0, drift_ppm));
        Self { ahead_ms, fast_ppm, ..Self::default() }
    }

    /// What it would show if it could go back.
    const fn raw(&self, now: Micros) -> u64 {
        let running = now.saturating_sub(self.since);
        let elapsed = now + running * self.fast_ppm / 1_000_000;
        START + self.ahead_ms + elapsed / 1_000
    }

    /// What it shows.
    #[must_use]
    pub fn read(&self, now: Micros) -> Millis {
        Millis(self.raw(now)).max(self.floor)
    }

    /// The first moment, not before `now`, at which it shows at least `time`.
    #[must_use]
    pub fn when(&self, time: Millis, now: Micros) -> Micros {
        if time <= self.read(now) {
            return now;
        }
        let missing = time.0.saturating_sub(self.raw(now));
        now.saturating_add(missing.saturating_mul(1_000))
    }

    /// Somebody sets it ahead.
    pub const fn jump(&mut self, ms: u64) {
        self.ahead_ms += ms;
    }

    /// From now on it runs at the right speed and is at most this far ahead. If it was farther, it
    /// stands still until it is not.
    pub fn discipline(&mut self, now: Micros, skew_ms: u64) {
        let floor = self.read(now);
        let ahead_ms = (self.raw(now) - START).saturating_sub(now / 1_000).min(skew_ms);
        *self = Self { ahead_ms, fast_ppm: 0, since: now, floor };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_reached_the_time_for_which_it_is_asked() {
        let clock = Clock { ahead_ms: 300, fast_ppm: 200, ..Clock::default() };
        for now in [0, 999, 5_000_000, 123_456_789] {
            for ahead in [0, 1, 40, 10_000] {
                let time = Millis(clock.read(now).0 + ahead);
                assert!(clock.read(clock.when(time, now)) >= time);
            }
        }
        assert!(clock.read(7_000_000) > clock.read(6_999_000));
    }

    #[test]
    fn a_disciplined_clock_waits_for_the_others_and_never_goes_back() {
        let mut clock = Clock { ahead_ms: 100, fast_ppm: 50_000, ..Clock::default() };
        clock.jump(2_000);
        let right = |now: Micros| START + now / 1_000;
        assert_eq!(clock.read(1_000_000).0, right(1_000_000) + 2_150);
        let before = clock.read(1_000_000);
        clock.discipline(1_000_000, 100);
        assert_eq!(clock.read(2_000_000), before, "it stands still");
        assert_eq!(clock.read(9_000_000).0, right(9_000_000) + 100);
        let reached = clock.when(Millis(before.0 + 7), 1_000_000);
        assert_eq!(clock.read(reached).0, before.0 + 7);
        assert!(clock.read(reached - 1_000).0 < before.0 + 7);
    }
}
