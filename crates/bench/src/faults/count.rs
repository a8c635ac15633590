//! Clients that count in the key-value store, and compare what they were told with what is there.

use super::record::Record;
use crate::load::error_name;
use bytes::Bytes;
use pentarchy_client::Completions;
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::{Client, KeyPair, RequestError, node};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_services::kv::{Command as Words, Reply};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How long a thread waits before it looks whether it is to stop.
const LOOK: Duration = Duration::from_millis(50);

/// How long results may take once no more is asked for.
const PATIENCE: Duration = Duration::from_secs(30);

/// How often an increment that ended in an error is tried again.
const RETRIES: u32 = 5;

/// What is counted.
#[derive(Clone, Copy)]
pub struct Load {
    /// Threads, each a client with a key of its own.
    pub clients: usize,
    /// Increments that each keeps outstanding.
    pub outstanding: usize,
    /// Counters of each client, incremented in turn.
    pub counters: u64,
}

/// What came of it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Verdict {
    /// Increments that clients were told of.
    pub acknowledged: u64,
    /// The sum of the counters in the store.
    pub stored: u64,
    /// Errors, by name. After each the increment was tried again.
    pub errors: BTreeMap<&'static str, u64>,
    /// Increments that failed however often they were tried, or had no answer until the end.
    pub uncured: u64,
    /// Clients whose counters do not fit what they were told.
    pub wrong_clients: u64,
}

impl Verdict {
    /// Adds what came of something else.
    pub fn add(&mut self, other: &Self) {
        self.acknowledged += other.acknowledged;
        self.stored += other.stored;
        self.uncured += other.uncured;
        self.wrong_clients += other.wrong_clients;
        for (error, count) in &other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }

    /// Whether one client's counters are what it was told. An increment that had an error, or no
    /// answer, may have been executed or not.
    fn judge(&mut self) {
        let unsure = self.uncured + self.errors.values().sum::<u64>();
        let possible = self.acknowledged..=self.acknowledged + unsure;
        self.wrong_clients = u64::from(!possible.contains(&self.stored));
    }

    /// Whether every client got all its answers, and the store has what they were told.
    pub const fn is_well(&self) -> bool {
        self.uncured == 0 && self.wrong_clients == 0
    }

    /// Fails if something was lost.
    pub fn check(&self) -> Outcome {
        if self.is_well() {
            return Ok(());
        }
        Err(Failure::Unwell(format!(
            "{} increments had no answer, and the counters of {} clients are wrong: {} \
             acknowledged, {} stored. Please report it",
            self.uncured, self.wrong_clients, self.acknowledged, self.stored
        )))
    }

    /// A sentence for people.
    pub fn sentence(&self) -> String {
        let Self { acknowledged, stored, .. } = self;
        let errors: Vec<_> =
            self.errors.iter().map(|(error, count)| format!("{count} {error}")).collect();
        let errors = if errors.is_empty() { "none".to_owned() } else { errors.join(", ") };
        format!("increments: {acknowledged} acknowledged, {stored} stored; errors: {errors}")
    }
}

/// Threads that count until they are told to stop. Dropping it stops them.
pub struct Counters {
    /// When what was completed.
    pub record: Arc<Record>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Outcome<Verdict>>>,
}

impl Counters {
    /// Starts to count.
    pub fn start(config: &ClusterConfig, load: Load) -> Outcome<Self> {
        let (record, stop) = (Arc::new(Record::new()), Arc::new(AtomicBool::new(false)));
        let mut counters = Self { record, stop, threads: Vec::new() };
        for number in 0..load.clients {
            let client = node::connect(config, KeyPair::generate());
            let client = client.map_err(|error| Failure::Internal(error.to_string()))?;
            let counter = Counter {
                client,
                number,
                load,
                record: counters.record.clone(),
                stop: counters.stop.clone(),
            };
            counters.threads.push(std::thread::spawn(move || counter.run()));
        }
        Ok(counters)
    }

    /// Waits for what is outstanding, then compares.
    pub fn finish(mut self) -> Outcome<Verdict> {
        self.stop.store(true, Ordering::Relaxed);
        let mut sum = Verdict::default();
        for thread in self.threads.drain(..) {
            let verdict = thread.join();
            let verdict = verdict.map_err(|_| Failure::Internal("a client panicked".to_owned()))?;
            sum.add(&verdict?);
        }
        Ok(sum)
    }
}

impl Drop for Counters {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One client.
struct Counter {
    client: Client,
    number: usize,
    load: Load,
    record: Arc<Record>,
    stop: Arc<AtomicBool>,
}

/// An increment that is outstanding.
#[derive(Clone)]
struct Attempt {
    operation: Bytes,
    retries: u32,
}

impl Counter {
    fn run(&self) -> Outcome<Verdict> {
        let completions = Completions::new();
        let mut verdict = Verdict::default();
        let mut next = 0_u64;
        let fresh = |next: &mut u64| {
            let key = self.key(*next % self.load.counters);
            *next += 1;
            Attempt { operation: words(&["INCRBY", &key, "1"]), retries: 0 }
        };
        let mut attempts: Vec<_> = (0..self.load.outstanding).map(|_| fresh(&mut next)).collect();
        let mut outstanding = 0;
        let mut todo: Vec<u64> = (0..self.load.outstanding as u64).collect();
        let mut results = Vec::new();
        let mut deadline = None;
        loop {
            outstanding += todo.len();
            let operations =
                todo.drain(..).map(|tag| (tag, attempts[tag as usize].operation.clone()));
            self.client
                .submit_all(operations, &completions)
                .map_err(|error| Failure::Internal(format!("a client does not work: {error}")))?;
            if outstanding == 0 {
                break;
            }
            let stop = self.stop.load(Ordering::Relaxed);
            let deadline = stop.then(|| *deadline.get_or_insert(Instant::now() + PATIENCE));
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                break;
            }
            outstanding -= completions.wait(LOOK, &mut results);
            let mut completed = 0;
            for (tag, result) in results.drain(..) {
                let attempt = &mut attempts[tag as usize];
                let again = verdict.take(attempt, &result)?;
                completed += u64::from(result.is_ok());
                if again {
                    todo.push(tag);
                } else if !stop {
                    *attempt = fresh(&mut next);
                    todo.push(tag);
                }
            }
            if completed > 0 {
                self.record.completed(completed);
            }
        }
        verdict.uncured += outstanding as u64;
        verdict.stored = self.stored(next)?;
        verdict.judge();
        Ok(verdict)
    }

    fn key(&self, counter: u64) -> String {
        format!("count:{}:{counter}", self.number)
    }

    /// The sum of this client's counters in the store.
    fn stored(&self, asked: u64) -> Outcome<u64> {
        let counters = 0..self.load.counters.min(asked);
        let mut sum = 0;
        for counter in counters {
            let read = words(&["GET", &self.key(counter)]);
            let read = self.client.submit(read).wait_timeout(PATIENCE);
            let read = read.map_err(|error| Failure::Unwell(format!("a read failed: {error}")))?;
            sum += match Reply::decode(&read) {
                Ok(Reply::Bulk(digits)) => parse(&digits).ok_or_else(wrong_reply)?,
                // All increments of it failed, which is said elsewhere.
                Ok(Reply::Nil) => 0,
                _ => return Err(wrong_reply()),
            };
        }
        Ok(sum)
    }
}

impl Verdict {
    /// Takes note of a result. True if the same is to be tried again.
    fn take(
        &mut self,
        attempt: &mut Attempt,
        result: &Result<Bytes, RequestError>,
    ) -> Outcome<bool> {
        match result {
            Ok(reply) => {
                if !matches!(Reply::decode(reply), Ok(Reply::Int(_))) {
                    return Err(wrong_reply());
                }
                self.acknowledged += 1;
                Ok(false)
            }
            Err(error) => {
                *self.errors.entry(error_name(*error)).or_default() += 1;
                attempt.retries += 1;
                let again = attempt.retries <= RETRIES && *error != RequestError::Closed;
                self.uncured += u64::from(!again);
                Ok(again)
            }
        }
    }
}

fn words(words: &[&str]) -> Bytes {
    Words::new(words).to_operation()
}

fn parse(digits: &[u8]) -> Option<u64> {
    std::str::from_utf8(digits).ok()?.parse().ok()
}

fn wrong_reply() -> Failure {
    Failure::Unwell("the store gave an answer that is no number: please report it".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(acknowledged: u64, stored: u64, errors: u64) -> bool {
        let errors = [("forgotten", errors)].into();
        let mut verdict = Verdict { acknowledged, stored, errors, ..Verdict::default() };
        verdict.judge();
        assert_eq!(verdict.check().is_ok(), verdict.is_well());
        verdict.is_well()
    }

    #[test]
    fn the_store_has_what_was_acknowledged_and_at_most_what_is_unsure() {
        assert!(judged(10, 10, 0));
        assert!(!judged(10, 9, 0), "one was lost");
        assert!(!judged(10, 11, 0), "one was counted twice");
        assert!(judged(10, 12, 2) && judged(10, 10, 2));
        assert!(!judged(10, 9, 2) && !judged(10, 13, 2));
    }

    #[test]
    fn an_error_is_tried_again_and_not_for_ever() {
        let mut verdict = Verdict::default();
        let mut attempt = Attempt { operation: Bytes::new(), retries: 0 };
        for _ in 0..RETRIES {
            assert!(verdict.take(&mut attempt, &Err(RequestError::Forgotten)).unwrap());
        }
        assert!(verdict.is_well());
        assert!(!verdict.take(&mut attempt, &Err(RequestError::Forgotten)).unwrap());
        assert_eq!((verdict.uncured, verdict.errors["forgotten"]), (1, u64::from(RETRIES) + 1));
        assert!(!verdict.is_well());
    }

    #[test]
    fn only_a_number_acknowledges_an_increment() {
        let mut verdict = Verdict::default();
        let mut attempt = Attempt { operation: Bytes::new(), retries: 0 };
        assert!(verdict.take(&mut attempt, &Ok(Bytes::from_static(b"?"))).is_err());
        assert_eq!(verdict.acknowledged, 0);
    }
}
