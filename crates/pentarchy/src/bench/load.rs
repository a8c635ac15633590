//! The threads that offer load.

use super::case::Case;
use super::stats::Latencies;
use bytes::Bytes;
use pentarchy_client::{Client, Completions, RequestError};
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// Whether this is within it.
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
}

impl Tally {
    /// Nothing yet.
    pub fn new() -> Self {
        Self { latencies: Latencies::new(), errors: BTreeMap::new() }
    }

    /// Adds another client's.
    pub fn add(&mut self, other: &Self) {
        self.latencies.add(&other.latencies);
        for (error, count) in &other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }
}

/// Keeps `case.outstanding` operations of one client outstanding until the end of the window, or
/// until told to stop. What is outstanding then is abandoned and not counted.
///
/// Whatever completed since this thread looked last is replaced by as many new operations, handed
/// over together, as an application with much to do would.
pub fn offer(client: &Client, case: &Case, window: Window, stop: &AtomicBool) -> Tally {
    let operation = case.payload.operation();
    let completions = Completions::new();
    let mut started = vec![Instant::now(); case.outstanding];
    let mut tally = Tally::new();
    let mut results = Vec::with_capacity(case.outstanding);
    let mut free: Vec<u64> = (0..case.outstanding as u64).collect();
    loop {
        let now = Instant::now();
        if now >= window.end || stop.load(Ordering::Relaxed) {
            return tally;
        }
        free.iter().for_each(|tag| started[*tag as usize] = now);
        let operations = free.drain(..).map(|tag| (tag, operation.clone()));
        if client.submit_all(operations, &completions).is_err() {
            *tally.errors.entry(error_name(RequestError::Closed)).or_default() += 1;
            return tally;
        }
        while completions.wait(LOOK, &mut results) == 0 {
            if Instant::now() >= window.end || stop.load(Ordering::Relaxed) {
                return tally;
            }
        }
        let now = Instant::now();
        let counts = window.holds(now);
        for (tag, outcome) in results.drain(..) {
            if counts {
                tally.take(now - started[tag as usize], &outcome, case.payload.reply);
            }
            free.push(tag);
        }
    }
}

impl Tally {
    fn take(&mut self, latency: Duration, outcome: &Result<Bytes, RequestError>, reply: usize) {
        let error = match outcome {
            Ok(result) if result.len() == reply => {
                return self.latencies.record(latency);
            }
            Ok(_) => "wrong_result",
            Err(error) => error_name(*error),
        };
        *self.errors.entry(error).or_default() += 1;
    }
}

/// The word for an error in results.
pub const fn error_name(error: RequestError) -> &'static str {
    match error {
        RequestError::Forgotten => "forgotten",
        RequestError::Refused => "refused",
        RequestError::TooLarge => "too_large",
        RequestError::Full => "full",
        RequestError::TimedOut => "timed_out",
        RequestError::Unreachable => "unreachable",
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
        tally.take(micros(10), &Ok(Bytes::from_static(b"1234")), 4);
        tally.take(micros(20), &Ok(Bytes::new()), 4);
        tally.take(micros(30), &Err(RequestError::Forgotten), 4);
        tally.take(micros(30), &Err(RequestError::Forgotten), 4);
        assert_eq!(tally.latencies.count(), 1);
        assert_eq!(tally.errors, [("wrong_result", 1), ("forgotten", 2)].into());
        let mut sum = Tally::new();
        sum.add(&tally);
        sum.add(&tally);
        assert_eq!((sum.latencies.count(), sum.errors["forgotten"]), (2, 4));
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
