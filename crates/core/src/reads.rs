//! Queries that a replica has to execute something for before it answers them.
//!
//! A query is not ordered, so a replica answers it from the state that it has. What that state must
//! have is known when the query arrives: [`Protocol::reads_from`](crate::protocol::Protocol) says
//! which slots others may have told clients about by then, and
//! [`Output::Resumed`](crate::ports::replica::Output::Resumed) which ones this replica did before
//! it stopped or went back. Until they are executed the query waits here. Its client waits for some
//! milliseconds and then has it ordered, so a query that waits in vain costs no more than room.

use crate::ids::Slot;
use crate::limits::{QUERIES_HELD_BYTES_MAX, QUERIES_HELD_CLIENT_MAX, QUERIES_HELD_MAX};
use crate::mutant;
use alloc::collections::{BTreeMap, VecDeque};
use bytes::Bytes;

/// What a client asks.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Query<C> {
    /// Whom the answer goes to.
    pub client: C,
    /// The number under which the client asks.
    pub number: u64,
    /// A read-only operation.
    pub operation: Bytes,
}

/// See the [module](self).
#[derive(Debug)]
pub struct Reads<C> {
    /// No query is answered from a state before this slot.
    resumed: Slot,
    /// The queries that wait, in order of arrival, each with the slot it waits for.
    held: VecDeque<(Slot, Query<C>)>,
    /// How many of a client's wait.
    by_client: BTreeMap<C, usize>,
    /// Bytes of the operations that wait.
    bytes: usize,
}

impl<C: Ord + Copy> Default for Reads<C> {
    fn default() -> Self {
        let (held, by_client) = (VecDeque::new(), BTreeMap::new());
        Self { resumed: Slot(0), held, by_client, bytes: 0 }
    }
}

impl<C: Ord + Copy> Reads<C> {
    /// Nothing waits, in an epoch that begins with the state of this slot.
    #[must_use]
    pub fn new(base: Slot) -> Self {
        let mut reads = Self::default();
        reads.begin_epoch(base);
        reads
    }

    /// This replica may have told clients of slots up to this one, and its state may be an older
    /// one.
    pub fn resume(&mut self, upto: Slot) {
        self.resumed = self.resumed.max(upto);
    }

    /// A query came that must not miss anything up to `from`. Gives it back if the state, which is
    /// of slot `state` if there is one to be read, has all of that; keeps it otherwise, or drops it
    /// if too many wait.
    pub fn ask(&mut self, query: Query<C>, from: Slot, state: Option<Slot>) -> Option<Query<C>> {
        let at_once = mutant!("executor.resumed-reads-at-once");
        let from = if at_once { from } else { from.max(self.resumed) };
        if state >= Some(from) {
            return Some(query);
        }
        let of_client = self.by_client.get(&query.client).copied().unwrap_or_default();
        let fits = self.held.len() < QUERIES_HELD_MAX
            && of_client < QUERIES_HELD_CLIENT_MAX
            && self.bytes + query.operation.len() <= QUERIES_HELD_BYTES_MAX;
        if fits {
            self.by_client.insert(query.client, of_client + 1);
            self.bytes += query.operation.len();
            // A copy: the bytes are a part of all that was read from a socket together.
            let operation = Bytes::copy_from_slice(&query.operation);
            self.held.push_back((from, Query { operation, ..query }));
        }
        None
    }

    /// Takes out the queries that may be answered from the state of this slot.
    pub fn take(&mut self, state: Option<Slot>) -> VecDeque<Query<C>> {
        let mut ready = VecDeque::new();
        if self.held.is_empty() || state < Some(self.resumed) {
            return ready;
        }
        for (from, query) in core::mem::take(&mut self.held) {
            if state >= Some(from) {
                self.forget(&query);
                ready.push_back(query);
            } else {
                self.held.push_back((from, query));
            }
        }
        ready
    }

    fn forget(&mut self, query: &Query<C>) {
        self.bytes -= query.operation.len();
        if let Some(count) = self.by_client.get_mut(&query.client) {
            *count -= 1;
            if *count == 0 {
                self.by_client.remove(&query.client);
            }
        }
    }

    /// An epoch begins with the state of this slot. Clients may have been told of anything up to
    /// there, and this replica may have to fetch that state, or may have taken back what it had
    /// executed. The replica drops the queries that wait:
    /// their slots belong to an epoch that is over.
    pub fn begin_epoch(&mut self, base: Slot) {
        self.held.clear();
        self.by_client.clear();
        self.bytes = 0;
        if !mutant!("epochs.reads-before-base") {
            self.resume(base);
        }
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.held.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.held.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn query(client: u8, number: u64) -> Query<u8> {
        Query { client, number, operation: Bytes::from_static(b"0123456789") }
    }

    fn numbers(ready: VecDeque<Query<u8>>) -> alloc::vec::Vec<u64> {
        ready.into_iter().map(|query| query.number).collect()
    }

    #[test]
    fn a_query_waits_for_what_it_must_not_miss() {
        let mut reads = Reads::default();
        assert!(reads.ask(query(1, 1), Slot(3), Some(Slot(3))).is_some());
        assert!(reads.ask(query(1, 2), Slot(4), Some(Slot(3))).is_none());
        assert!(reads.ask(query(2, 3), Slot(0), None).is_none(), "this state is not to be read");
        assert!(reads.ask(query(2, 4), Slot(9), Some(Slot(3))).is_none());
        assert!(numbers(reads.take(None)).is_empty());
        assert_eq!(numbers(reads.take(Some(Slot(4)))), [2, 3]);
        reads.resume(Slot(20));
        assert!(numbers(reads.take(Some(Slot(9)))).is_empty(), "it went back meanwhile");
        assert_eq!(numbers(reads.take(Some(Slot(20)))), [4]);
        assert!(reads.is_empty() && reads.by_client.is_empty() && reads.bytes == 0);
    }

    #[test]
    fn few_queries_wait() {
        let mut reads = Reads::default();
        for number in 0..2 * QUERIES_HELD_CLIENT_MAX as u64 {
            assert!(reads.ask(query(1, number), Slot(1), Some(Slot(0))).is_none());
        }
        assert_eq!(reads.len(), QUERIES_HELD_CLIENT_MAX, "one client leaves room for others");
        for client in 2..12 {
            for number in 0..QUERIES_HELD_CLIENT_MAX as u64 {
                reads.ask(query(client, number), Slot(1), Some(Slot(0)));
            }
        }
        assert_eq!(reads.len(), QUERIES_HELD_MAX);
        reads.begin_epoch(Slot(0));
        let large = Bytes::from(alloc::vec![0; QUERIES_HELD_BYTES_MAX / 2]);
        for number in 0..3 {
            let operation = large.clone();
            reads.ask(Query { client: 1, number, operation }, Slot(1), Some(Slot(0)));
        }
        assert_eq!(reads.len(), 2);
    }
}
