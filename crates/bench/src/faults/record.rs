//! When operations were completed.

use serde::Serialize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Length of the intervals in which completions are counted.
pub const BUCKET: Duration = Duration::from_millis(100);

/// Times without a completion that are noted, if they are at least as long as this.
const LONG: Duration = Duration::from_millis(450);

/// A time in which nothing was completed.
#[derive(Clone, Copy, PartialEq, Debug, Serialize)]
pub struct Gap {
    /// When the operation before was completed, in seconds from the start.
    pub from: f64,
    /// How long nothing was.
    pub ms: f64,
}

/// What all clients together completed, over time. Takes 8 bytes for each 100 ms.
pub struct Record {
    start: Instant,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    buckets: Vec<u64>,
    /// The last completion, from the start.
    last: Duration,
    /// The longest time without one since it was last asked for.
    longest: Duration,
    /// All long ones.
    gaps: Vec<Gap>,
}

impl Record {
    /// Nothing yet; time begins now.
    pub fn new() -> Self {
        Self { start: Instant::now(), state: Mutex::default() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Also after a panic of another thread: every critical section here leaves whole values.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Time since the start.
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// So many operations were completed now.
    pub fn completed(&self, count: u64) {
        let mut state = self.state();
        // Read under the lock, so that time does not run backwards.
        let now = self.now();
        state.add(now, count);
    }

    /// All that was completed.
    pub fn total(&self) -> u64 {
        self.state().buckets.iter().sum()
    }

    /// Begins to look for the longest time without a completion anew. What is waited for already
    /// counts from the last completion.
    pub fn watch(&self) {
        self.state().longest = Duration::ZERO;
    }

    /// The longest time without a completion since [`Self::watch`], also if it is not over.
    pub fn longest_gap(&self) -> Duration {
        let state = self.state();
        state.longest.max(self.now().saturating_sub(state.last))
    }

    /// All times without a completion that were not short, and are over.
    pub fn gaps(&self) -> Vec<Gap> {
        self.state().gaps.clone()
    }

    /// Time since the last completion.
    pub fn silence(&self) -> Duration {
        let state = self.state();
        self.now().saturating_sub(state.last)
    }

    /// Completions in a second, for each whole interval from one time to another, with its middle.
    pub fn rates(&self, from: Duration, to: Duration) -> Vec<(Duration, f64)> {
        let state = self.state();
        let width = BUCKET.as_millis();
        let first = from.as_millis().div_ceil(width) as usize;
        let end = (to.as_millis() / width) as usize;
        (first..end)
            .map(|bucket| {
                // Beyond the last completion nothing was completed.
                let count = state.buckets.get(bucket).copied().unwrap_or(0);
                let middle = BUCKET * bucket as u32 + BUCKET / 2;
                (middle, count as f64 / BUCKET.as_secs_f64())
            })
            .collect()
    }
}

impl State {
    fn add(&mut self, now: Duration, count: u64) {
        let bucket = (now.as_millis() / BUCKET.as_millis()) as usize;
        if self.buckets.len() <= bucket {
            self.buckets.resize(bucket + 1, 0);
        }
        self.buckets[bucket] += count;
        let waited = now.saturating_sub(self.last);
        if waited >= LONG {
            self.gaps.push(Gap { from: self.last.as_secs_f64(), ms: waited.as_secs_f64() * 1e3 });
        }
        self.longest = self.longest.max(waited);
        self.last = now;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    #[test]
    fn the_longest_gap_is_between_two_completions_or_open() {
        let record = Record::new();
        {
            let mut state = record.state();
            for at in [10, 50, 250, 260] {
                state.add(ms(at), 1);
            }
            assert_eq!((state.longest, state.last), (ms(200), ms(260)));
        }
        record.watch();
        record.state().last = record.now() + ms(10_000);
        assert_eq!(record.longest_gap(), Duration::ZERO, "the earlier gap is forgotten");
        let long_ago = Record { start: Instant::now() - ms(5000), state: Mutex::default() };
        assert!(long_ago.longest_gap() >= ms(5000) && long_ago.silence() >= ms(5000));
        long_ago.completed(1);
        assert!(long_ago.longest_gap() >= ms(5000) && long_ago.silence() < ms(5000));
    }

    #[test]
    fn long_gaps_are_noted() {
        let record = Record::new();
        for at in [100, 500, 1_000, 1_400] {
            record.state().add(ms(at), 1);
        }
        assert_eq!(record.gaps(), [Gap { from: 0.5, ms: 500.0 }]);
    }

    #[test]
    fn rates_are_of_whole_intervals_and_nought_where_nothing_was_completed() {
        let record = Record::new();
        for at in [0, 99, 100, 350] {
            record.state().add(ms(at), 3);
        }
        let all = record.rates(ms(0), ms(600));
        let rates: Vec<f64> = all.iter().map(|(_, rate)| *rate).collect();
        assert_eq!(rates, [60.0, 30.0, 0.0, 30.0, 0.0, 0.0]);
        assert_eq!(all[1].0, ms(150));
        assert_eq!(record.rates(ms(1), ms(399)), all[1..3].to_vec());
        assert_eq!(record.rates(ms(300), ms(200)), []);
    }
}
