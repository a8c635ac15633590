//! Simulated time, and the clocks of nodes, which are neither right nor equally fast.

use crate::rng::Rng;
use pentarchy_core::ids::Millis;

/// Microseconds since the start of the world.
pub type Micros = u64;

/// What the clocks show at the start of the world.
const START: u64 = 1_000_000_000_000;

/// The clock of one node.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock {
    /// Milliseconds ahead of the slowest clock at the start.
    pub ahead_ms: u64,
    /// How much faster than the world's time it runs, in millionths.
    pub fast_ppm: u64,
}

impl Clock {
    /// A clock at most this far from any other at the start, and at most 0.02 % too fast.
    pub fn random(rng: &mut Rng, skew_ms: u64) -> Self {
        Self { ahead_ms: rng.range(0, skew_ms), fast_ppm: rng.range(0, 200) }
    }

    /// What it shows.
    #[must_use]
    pub const fn read(&self, now: Micros) -> Millis {
        let elapsed = now + now / 1_000_000 * self.fast_ppm;
        Millis(START + self.ahead_ms + elapsed / 1_000)
    }

    /// The first moment, not before `now`, at which it shows at least `time`.
    #[must_use]
    pub fn when(&self, time: Millis, now: Micros) -> Micros {
        let missing = time.0.saturating_sub(self.read(now).0);
        now.saturating_add(missing.saturating_mul(1_000))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_has_reached_the_time_for_which_it_is_asked() {
        let clock = Clock { ahead_ms: 300, fast_ppm: 200 };
        for now in [0, 999, 5_000_000, 123_456_789] {
            for ahead in [0, 1, 40, 10_000] {
                let time = Millis(clock.read(now).0 + ahead);
                assert!(clock.read(clock.when(time, now)) >= time);
            }
        }
        assert!(clock.read(7_000_000) > clock.read(6_999_000));
    }
}
