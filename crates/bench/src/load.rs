//! The threads that offer load.

use super::operations::{Operation, Operations};
use super::stats::Latencies;
use pentarchy_client::{Client, Completions, RequestError};
use std::collections::BTreeMap;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How long a thread waits before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// When is measured.
#[derive(Clone, Copy, Debug)]
pub struct Window {
    /// The end of the warm-up.
    pub start: Instant,
    /// The end of the measurement, and of the load.
    pub end: Instant,
}

impl Window {
    /// From `start` on for this long.
    pub fn starting(start: Instant, measured: Duration) -> Self {
        Self { start, end: start + measured }
    }

    /// Whether something that ends now is measured.
    pub fn holds(&self, now: Instant) -> bool {
        (self.start..self.end).contains(&now)
    }
}

/// What a client found within the window.
#[derive(Clone, Debug)]
pub struct Tally {
    /// From submission to completion, of the operations with the right result.
    pub latencies: Latencies,
    /// Operations with another end, by what it was.
    pub errors: BTreeMap<&'static str, u64>,
    /// Of an open workload: how late operations were submitted, because this process was busy or
    /// had too many outstanding. Part of their latency.
    pub late: Latencies,
    /// Of an event loop: how many operations with the right result each of its clients had.
    pub shares: Vec<u64>,
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        Self {
            latencies: Latencies::new(),
            errors: BTreeMap::new(),
            late: Latencies::new(),
            shares: Vec::new(),
        }
    }

    /// Adds other clients'.
    pub fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        self.late.add(&other.late);
        self.shares.extend(&other.shares);
        for (error, count) in &other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }
}

/// What the threads that offer load and the one that measures tell each other.
#[derive(Default, Debug)]
pub struct Signals {
    /// Load is to end at once.
    pub stop: AtomicBool,
    /// Clients that are connected to all replicas, of those that say so.
    pub connected: AtomicUsize,
    /// When is measured. Load begins once this is known.
    pub window: OnceLock<Window>,
}

impl Signals {
    fn is_over(&self, window: Window, now: Instant) -> bool {
        now >= window.end || self.stop.load(Ordering::Relaxed)
    }
}

/// Keeps so many operations of one client outstanding until the end of the window, or until told to
/// stop. What is outstanding then is abandoned and not counted.
///
/// Whatever completed since this thread looked last is replaced by as many new operations, handed
/// over together, as an application with much to do would.
pub fn offer(
    client: &Client,
    mut operations: Operations,
    outstanding: usize,
    signals: &Signals,
) -> Tally {
    let window = *signals.window.wait();
    let completions = Completions::new();
    let mut started = vec![(Instant::now(), false); outstanding];
    let mut tally = Tally::new();
    let mut results = Vec::with_capacity(outstanding);
    let mut free: Vec<u64> = (0..outstanding as u64).collect();
    let (mut writes, mut reads) = (Vec::new(), Vec::new());
    loop {
        let now = Instant::now();
        if signals.is_over(window, now) {
            return tally;
        }
        for tag in free.drain(..) {
            let Operation { bytes, is_read } = operations.next();
            started[tag as usize] = (now, is_read);
            if is_read { &mut reads } else { &mut writes }.push((tag, bytes));
        }
        let submitted = client.submit_all(writes.drain(..), &completions);
        let asked = client.query_all(reads.drain(..), &completions);
        if submitted.and(asked).is_err() {
            tally.fail(RequestError::Closed);
            return tally;
        }
        while completions.wait(LOOK, &mut results) == 0 {
            if signals.is_over(window, Instant::now()) {
                return tally;
            }
        }
        let now = Instant::now();
        let counts = window.holds(now);
        for (tag, outcome) in results.drain(..) {
            let (at, is_read) = started[tag as usize];
            if counts {
                let right = outcome.map(|result| operations.is_right(is_read, &result));
                tally.take(now - at, right);
            }
            free.push(tag);
        }
    }
}

impl Tally {
    /// Takes note of an operation that ended so, with the right result or another one.
    pub fn take(&mut self, latency: Duration, outcome: Result<bool, RequestError>) {
        match outcome {
            Ok(true) => self.latencies.record(latency),
            Ok(false) => *self.errors.entry("wrong_result").or_default() += 1,
            Err(error) => self.fail(error),
        }
    }

    fn fail(&mut self, error: RequestError) {
        *self.errors.entry(error_name(error)).or_default() += 1;
    }
}

/// The word for an error in results.
pub const fn error_name(error: RequestError) -> &'static str {
    match error {
        RequestError::Forgotten => "forgotten",
        RequestError::Refused => "refused",
        RequestError::GivenUp => "given_up",
        RequestError::Overtaken => "overtaken",
        RequestError::TooLarge => "too_large",
        RequestError::Full => "full",
        RequestError::TimedOut => "timed_out",
        RequestError::Unreachable => "unreachable",
        RequestError::Cancelled => "cancelled",
        RequestError::JudgedByProtocol => "judged_by_protocol",
        RequestError::Closed => "closed",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_right_results_count_as_completed() {
        let mut tally = Tally::new();
        let micros = Duration::from_micros;
        tally.take(micros(10), Ok(true));
        tally.take(micros(20), Ok(false));
        tally.take(micros(30), Err(RequestError::Forgotten));
        tally.take(micros(30), Err(RequestError::Forgotten));
        assert_eq!(tally.latencies.count(), 1);
        assert_eq!(tally.errors, [("wrong_result", 1), ("forgotten", 2)].into());
        tally.shares = vec![1];
        let mut sum = Tally::new();
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!((sum.latencies.count(), sum.errors["forgotten"]), (2, 4));
        assert_eq!(sum.shares, [1, 1]);
    }

    #[test]
    fn a_window_holds_its_start_and_not_its_end() {
        let start = Instant::now();
        let window = Window { start, end: start + Duration::from_secs(1) };
        let at = |millis| window.holds(start + Duration::from_millis(millis));
        assert!(at(0) && at(999) && !at(1000));
        let later = Window { start: start + Duration::from_millis(1), ..window };
        assert!(!later.holds(start));
    }
}
