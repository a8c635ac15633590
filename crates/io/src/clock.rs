//! Time that never goes back.

use pentarchy_core::ids::Millis;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A host's clock. Two readings with two uses: [`Clock::now`] is proposed to the group as agreed
/// time and follows the system's clock, and nothing else may depend on it; [`Clock::elapsed_ms`]
/// times what happens in this process and does not care whether someone sets the system's clock.
#[derive(Debug)]
pub struct Clock {
    started: Instant,
    last: Millis,
}

impl Default for Clock {
    fn default() -> Self {
        Self { started: Instant::now(), last: Millis(0) }
    }
}

impl Clock {
    /// Milliseconds since the Unix epoch. Stands still while the system's clock is behind an
    /// earlier reading.
    pub fn now(&mut self) -> Millis {
        self.last = self.last.max(Millis(wall_millis()));
        self.last
    }

    /// Milliseconds since this clock was made, from a clock that nobody can set.
    #[must_use]
    pub fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
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
    fn never_goes_back() {
        let future = Millis(wall_millis() + 60_000);
        let mut clock = Clock { started: Instant::now(), last: future };
        assert_eq!(clock.now(), future);
        assert!(Clock::default().now() < future);
    }
}
