//! Time that never goes back, and never stands still.

use pentarchy_core::ids::Millis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A host's clock. Two readings with two uses: [`Clock::now`] is proposed to the group as agreed
/// time and follows the system's clock, which somebody may set; [`Clock::elapsed_ms`] times what
/// happens in this process and does not care about that.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    /// The last reading that the system's clock gave, ...
    followed: Millis,
    /// ... and when that was, since `started`.
    followed_at: Duration,
}

impl Default for Clock {
    fn default() -> Self {
        Self { started: Instant::now(), followed: Millis(0), followed_at: Duration::ZERO }
    }
}

impl Clock {
    /// Milliseconds since the Unix epoch, by the system's clock. If that is set back, it goes on at
    /// half its speed until the system's clock has come up to it: the group waits for whoever
    /// stands still, and nobody may go back.
    pub fn now(&mut self) -> Millis {
        self.read(Millis(wall_millis()), self.started.elapsed())
    }

    /// What it shows when the system's clock shows this, so long after the start.
    fn read(&mut self, system: Millis, elapsed: Duration) -> Millis {
        let passed = elapsed.saturating_sub(self.followed_at).as_millis() as u64;
        let slow = Millis(self.followed.0.saturating_add(passed / 2));
        if system >= slow {
            (self.followed, self.followed_at) = (system, elapsed);
        }
        system.max(slow)
    }

    /// Milliseconds since this clock was made, from a clock that nobody can set.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// The time since this clock was made, as [`Self::elapsed_ms`].
    #[must_use]
    pub fn elapsed(&self) -> Duration {
        self.started.elapsed()
    }
}

fn wall() -> Duration {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

fn wall_millis() -> u64 {
    u64::try_from(wall().as_millis()).unwrap_or(u64::MAX)
}

/// Microseconds since the Unix epoch by the system's clock.
#[must_use]
pub fn wall_micros() -> u64 {
    u64::try_from(wall().as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn follows_the_system_ahead_and_goes_on_slowly_when_that_is_set_back() {
        let mut clock = Clock::default();
        let mut read = |system, ms| clock.read(Millis(system), Duration::from_millis(ms)).0;
        assert_eq!(read(1_000_000, 5), 1_000_000);
        assert_eq!(read(1_000_001, 6), 1_000_001);
        assert_eq!(read(9_000_000, 7), 9_000_000, "ahead");
        assert_eq!(read(1_000_003, 8), 9_000_000, "back");
        assert_eq!(read(1_000_004, 9), 9_000_001);
        assert_eq!(read(1_004_003, 4_007), 9_002_000);
        assert_eq!(read(9_001_000, 4_008), 9_002_000, "nearly there");
        // It comes up with it, as it is twice as fast.
        assert_eq!(read(9_003_000, 6_008), 9_003_000);
        assert_eq!(read(9_003_010, 6_018), 9_003_010);
        let mut clock = Clock::default();
        let now = clock.now();
        assert!(now >= Millis(wall_millis() - 60_000) && clock.now() >= now);
    }
}
