//! When to dial again.

/// Doubling delays with jitter between two bounds, so that replicas that lost each other at the
/// same moment do not all come back at the same moment.
#[derive(Clone, Debug)]
pub struct Backoff {
    next_ms: u64,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { next_ms: Self::MIN_MS }
    }
}

impl Backoff {
    /// The first delay is at most this long.
    pub const MIN_MS: u64 = 10;
    /// No delay is longer than this.
    pub const MAX_MS: u64 = 1000;

    /// Milliseconds to wait before the next attempt: between half and all of the current bound.
    pub fn delay_ms(&mut self) -> u64 {
        let bound = self.next_ms;
        self.next_ms = (bound * 2).min(Self::MAX_MS);
        // Without randomness the delay is merely less spread out.
        let random = getrandom::u64().unwrap_or(0);
        bound / 2 + random % (bound / 2 + 1)
    }

    /// An attempt succeeded.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_up_to_its_bound_and_starts_again() {
        let mut backoff = Backoff::default();
        for bound in [10, 20, 40, 80, 160, 320, 640, 1000, 1000] {
            let delay = backoff.delay_ms();
            assert!((bound / 2..=bound).contains(&delay), "{delay} for {bound}");
        }
        backoff.reset();
        assert!(backoff.delay_ms() <= Backoff::MIN_MS);
    }
}
