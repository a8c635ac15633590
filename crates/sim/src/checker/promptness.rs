//! Once a group has had the time to replace primaries that are no good, and nothing is wrong but
//! replicas that are faulty for good, requests take round trips and not timeouts: a faulty primary
//! may be as slow as is tolerated, and no slower.

use super::{Broken, Verdict};
use crate::time::Micros;
use pentarchy_core::protocol::Timeouts;

/// The property's name.
pub const PROPERTY: &str = "promptness";

/// Time to find out about a faulty primary, once for each that there may be and once more.
const NOTICE: Micros = 4_000_000;

/// Requests of which a mean is worth looking at.
const ENOUGH: u64 = 50;

/// Looks at how long requests take.
#[derive(Clone, Debug)]
pub struct Promptness {
    /// Whether it is promised in this world.
    steady: bool,
    from: Micros,
    allowed: Micros,
    count: u64,
    sum: Micros,
}

impl Promptness {
    /// For a world in which nothing is wrong but `f` replicas from the start on, or one in which
    /// anything may be. On average a quarter of the request timeout is allowed.
    #[must_use]
    pub const fn new(steady: bool, f: usize, timeouts: &Timeouts) -> Self {
        let from = Self::grace(f);
        Self { steady, from, allowed: timeouts.request_ms * 1_000 / 4, count: 0, sum: 0 }
    }

    /// Until when nothing is promised.
    #[must_use]
    pub const fn grace(f: usize) -> Micros {
        NOTICE * (f as Micros + 1)
    }

    /// A request that was submitted at `since` has completed.
    pub const fn completed(&mut self, now: Micros, since: Micros) {
        if since >= self.from {
            self.count += 1;
            self.sum += now - since;
        }
    }

    /// The mean time in microseconds, if there were enough requests.
    #[must_use]
    pub fn mean(&self) -> Option<Micros> {
        (self.count >= ENOUGH).then(|| self.sum / self.count)
    }

    /// Everything is done.
    ///
    /// # Errors
    /// If requests took too long.
    pub fn check(&self) -> Verdict {
        let Some(mean) = self.mean().filter(|mean| self.steady && *mean > self.allowed) else {
            return Ok(());
        };
        let (count, seconds) = (self.count, self.from / 1_000_000);
        let (mean, allowed) = (mean / 1_000, self.allowed / 1_000);
        let detail = format!(
            "{count} requests after the first {seconds} s took {mean} ms on average, with \
             {allowed} ms allowed"
        );
        Err(Broken::new(PROPERTY, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steady: bool, took: Micros, count: u64) -> Verdict {
        let mut promptness = Promptness::new(steady, 1, &Timeouts::default());
        for _ in 0..100 {
            // Early ones do not count.
            promptness.completed(7_999_999 + 600_000, 7_999_999);
        }
        (0..count).for_each(|_| promptness.completed(9_000_000 + took, 9_000_000));
        promptness.check()
    }

    #[test]
    fn slow_requests_are_found_where_they_should_not_be() {
        after(true, 100_000, 50).unwrap();
        after(true, 101_000, 49).unwrap();
        after(false, 101_000, 50).unwrap();
        let broken = after(true, 101_000, 50).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("101 ms"), "{broken}");
    }
}
