//! When the operations of an open workload come.

use std::time::{Duration, Instant};

/// Evenly spaced points in time. They come whether or not anybody takes them: who is late takes the
/// old ones first, each with the time at which it came.
pub struct Arrivals {
    start: Instant,
    /// Nanoseconds from one to the next.
    interval: f64,
    /// Of the first, in intervals.
    phase: f64,
    taken: u64,
}

impl Arrivals {
    /// One thread's share of `rate` in a second: every `threads`th, beginning with number `thread`.
    pub fn new(start: Instant, rate: u64, thread: usize, threads: usize) -> Self {
        let interval = 1e9 * threads as f64 / rate.max(1) as f64;
        Self { start, interval, phase: thread as f64 / threads as f64, taken: 0 }
    }

    /// When the next one comes, or came.
    pub fn next_at(&self) -> Instant {
        let nanos = (self.taken as f64 + self.phase) * self.interval;
        self.start + Duration::from_nanos(nanos as u64)
    }

    /// Takes the next one.
    pub const fn take(&mut self) {
        self.taken += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_together_have_the_rate_and_nothing_is_forgotten_by_who_is_late() {
        let start = Instant::now();
        let mut all = Vec::new();
        for thread in 0..3 {
            let mut arrivals = Arrivals::new(start, 3000, thread, 3);
            // However late this is, the times are those at which operations were to come.
            for _ in 0..100 {
                all.push(arrivals.next_at() - start);
                arrivals.take();
            }
        }
        all.sort();
        for (number, at) in (0_u32..).zip(&all) {
            let expected = Duration::from_nanos(1_000_000_000 / 3000) * number;
            let difference = at.abs_diff(expected);
            assert!(difference < Duration::from_micros(1), "{number}: {at:?}, not {expected:?}");
        }
    }
}
