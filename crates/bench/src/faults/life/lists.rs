//! The load of `bench life`: clients that keep lists of strings under keys, as BFT-SMaRt's
//! `BFTMapList` does, and check every reply against what they wrote. The key-value store has the
//! lists.

use crate::faults::record::Record;
use crate::load::error_name;
use bytes::Bytes;
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::{Client, KeyPair, RequestError, node};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_services::kv::{Command as Words, Reply};
use serde::Serialize;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes of a string, as in the paper.
const STRING_BYTES: usize = 100;

/// Lists of each client.
const LISTS: usize = 8;

/// A list of so many strings is purged.
const LENGTH_MAX: u64 = 100;

/// How long a client waits for a result.
const PATIENCE: Duration = Duration::from_secs(60);

/// What came of it.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize)]
pub struct Verdict {
    /// Operations that clients had results of.
    pub completed: u64,
    /// Results that are not what follows from what the client wrote.
    pub wrong: u64,
    /// Operations that ended in an error, by name. Their lists are not compared at the end.
    pub errors: BTreeMap<&'static str, u64>,
    /// Lists that were compared at the end, ...
    pub lists: u64,
    /// ... and those of them that were not what the client had written.
    pub wrong_lists: u64,
}

impl Verdict {
    fn add(&mut self, other: &Self) {
        self.completed += other.completed;
        self.wrong += other.wrong;
        self.lists += other.lists;
        self.wrong_lists += other.wrong_lists;
        for (error, count) in &other.errors {
            *self.errors.entry(error).or_default() += count;
        }
    }

    /// Fails if a client had an error, or something was lost or done twice.
    pub fn check(&self) -> Outcome {
        if self.errors.is_empty() && (self.wrong, self.wrong_lists) == (0, 0) {
            return Ok(());
        }
        Err(Failure::Unwell(format!("{}. Please report it", self.sentence())))
    }

    /// A sentence for people.
    pub fn sentence(&self) -> String {
        let Self { completed, wrong, lists, wrong_lists, .. } = self;
        let errors = self.errors.iter().map(|(error, count)| format!("{count} {error}"));
        let errors = errors.collect::<Vec<_>>().join(", ");
        let errors = if errors.is_empty() { "none".to_owned() } else { errors };
        format!(
            "operations: {completed}, {wrong} with a wrong result; errors: {errors}; of {lists} \
             lists {wrong_lists} were wrong at the end"
        )
    }
}

/// What a client does with one of its lists.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Doing {
    /// Adds a string; makes the list if there is none.
    PutEntry,
    /// Removes the list.
    Remove,
    /// Asks whether there is a list under the key.
    ContainsKey,
    /// Asks how many lists there are, those of all clients.
    Size,
}

/// A list, as its only writer knows it.
#[derive(Clone, Debug)]
struct List {
    key: String,
    /// How often it was removed.
    generation: u64,
    /// Strings in it.
    length: u64,
}

impl List {
    fn string(&self, index: u64) -> String {
        let text = format!("{} {} {index} ", self.key, self.generation);
        format!("{text:x<STRING_BYTES$}")
    }

    fn operation(&self, doing: Doing) -> Bytes {
        match doing {
            Doing::PutEntry => words(&["RPUSH", &self.key, &self.string(self.length)]),
            Doing::Remove => words(&["DEL", &self.key]),
            Doing::ContainsKey => words(&["EXISTS", &self.key]),
            Doing::Size => words(&["DBSIZE"]),
        }
    }

    /// Whether this is the right reply; the list is as it then is.
    fn done(&mut self, doing: Doing, reply: &Reply) -> bool {
        let Reply::Int(number) = reply else { return false };
        let (number, there) = (*number, self.length > 0);
        match doing {
            Doing::PutEntry => {
                self.length += 1;
                u64::try_from(number) == Ok(self.length)
            }
            Doing::Remove => {
                (self.generation, self.length) = (self.generation + 1, 0);
                number == i64::from(there)
            }
            Doing::ContainsKey => number == i64::from(there),
            Doing::Size => number >= i64::from(there),
        }
    }

    /// Whether this is all that is in it.
    fn is(&self, stored: &Reply) -> bool {
        let Reply::Array(strings) = stored else { return false };
        let is_right = |(index, stored): (u64, &Reply)| {
            let string = Bytes::from(self.string(index));
            *stored == Reply::Bulk(string)
        };
        strings.len() as u64 == self.length && (0..).zip(strings).all(is_right)
    }
}

/// Clients that go on until they are told to stop. Dropping it stops them.
pub struct Owners {
    /// When what was completed.
    pub record: Arc<Record>,
    stop: Arc<AtomicBool>,
    threads: Vec<JoinHandle<Outcome<Verdict>>>,
}

impl Owners {
    /// Starts so many, each with a key of its own and one operation outstanding.
    pub fn start(config: &ClusterConfig, clients: usize) -> Outcome<Self> {
        let (record, stop) = (Arc::new(Record::new()), Arc::new(AtomicBool::new(false)));
        let mut owners = Self { record, stop, threads: Vec::new() };
        for number in 0..clients {
            let client = node::connect(config, KeyPair::generate());
            let client = client.map_err(|error| Failure::Internal(error.to_string()))?;
            let mut owner = Owner {
                client,
                lists: (0..LISTS).map(|list| Owner::list(number, list)).collect(),
                made: LISTS,
                number,
                random: fastrand::Rng::with_seed(number as u64),
                verdict: Verdict::default(),
            };
            let (record, stop) = (owners.record.clone(), owners.stop.clone());
            owners.threads.push(std::thread::spawn(move || owner.run(&record, &stop)));
        }
        Ok(owners)
    }

    /// Waits for what is outstanding, then compares all lists.
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

impl Drop for Owners {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// One client.
struct Owner {
    client: Client,
    number: usize,
    lists: Vec<List>,
    /// Lists that it has begun.
    made: usize,
    random: fastrand::Rng,
    verdict: Verdict,
}

impl Owner {
    fn list(number: usize, list: usize) -> List {
        List { key: format!("list:{number}:{list}"), generation: 0, length: 0 }
    }

    fn run(&mut self, record: &Record, stop: &AtomicBool) -> Outcome<Verdict> {
        while !stop.load(Ordering::Relaxed) {
            let index = self.random.usize(..self.lists.len());
            let doing = self.next(index);
            match self.ask(self.lists[index].operation(doing)) {
                Ok(reply) => {
                    let is_right = self.lists[index].done(doing, &decoded(&reply)?);
                    self.verdict.completed += 1;
                    self.verdict.wrong += u64::from(!is_right);
                    record.completed(1);
                }
                Err(RequestError::Closed) => {
                    return Err(Failure::Internal("a client has ended".to_owned()));
                }
                Err(error) => {
                    *self.verdict.errors.entry(error_name(error)).or_default() += 1;
                    // It may have been executed or not, and the list be either.
                    self.lists[index] = Self::list(self.number, self.made);
                    self.made += 1;
                }
            }
        }
        for index in 0..self.lists.len() {
            let read = words(&["LRANGE", &self.lists[index].key, "0", "-1"]);
            let read = self.ask(read);
            let read = read.map_err(|error| Failure::Unwell(format!("a read failed: {error}")))?;
            self.verdict.lists += 1;
            self.verdict.wrong_lists += u64::from(!self.lists[index].is(&decoded(&read)?));
        }
        Ok(std::mem::take(&mut self.verdict))
    }

    /// Mostly adds strings, and purges a list before it grows large.
    fn next(&mut self, index: usize) -> Doing {
        if self.lists[index].length >= LENGTH_MAX {
            return Doing::Remove;
        }
        match self.random.u8(..10) {
            0 => Doing::Remove,
            1 => Doing::Size,
            2 => Doing::ContainsKey,
            _ => Doing::PutEntry,
        }
    }

    fn ask(&self, operation: Bytes) -> Result<Bytes, RequestError> {
        self.client.submit(operation).wait_timeout(PATIENCE)
    }
}

fn words(words: &[&str]) -> Bytes {
    Words::new(words).to_operation()
}

fn decoded(reply: &Bytes) -> Outcome<Reply> {
    Reply::decode(reply)
        .map_err(|_| Failure::Unwell("the store gave no reply of its kind".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stored(list: &List, length: u64) -> Reply {
        let strings = (0..length).map(|index| Reply::Bulk(list.string(index).into()));
        Reply::Array(strings.collect())
    }

    #[test]
    fn a_reply_that_does_not_follow_from_what_was_written_is_wrong() {
        let mut list = Owner::list(3, 1);
        assert_eq!(list.string(0).len(), STRING_BYTES);
        assert!(list.done(Doing::Remove, &Reply::Int(0)) && list.generation == 1);
        assert!(list.done(Doing::ContainsKey, &Reply::Int(0)));
        assert!(list.done(Doing::PutEntry, &Reply::Int(1)));
        assert!(
            list.done(Doing::ContainsKey, &Reply::Int(1)) && list.done(Doing::Size, &Reply::Int(9))
        );
        for (doing, number) in [
            (Doing::PutEntry, 1),
            (Doing::PutEntry, 3),
            (Doing::ContainsKey, 0),
            (Doing::Size, 0),
            (Doing::Remove, 0),
        ] {
            assert!(!list.clone().done(doing, &Reply::Int(number)), "{doing:?} {number}");
            assert!(!list.clone().done(doing, &Reply::Ok), "{doing:?}");
        }
    }

    #[test]
    fn a_list_that_lacks_a_string_or_has_another_one_is_wrong() {
        let list = List { length: 2, ..Owner::list(0, 0) };
        assert!(list.is(&stored(&list, 2)));
        assert!(!list.is(&stored(&list, 1)) && !list.is(&stored(&list, 3)));
        let before = List { generation: 1, ..list.clone() };
        assert!(!list.is(&stored(&before, 2)), "strings of a list that was removed");
        let mut verdict = Verdict { completed: 5, lists: 2, ..Verdict::default() };
        assert!(verdict.check().is_ok());
        verdict.wrong_lists = 1;
        assert!(verdict.check().is_err());
    }
}
