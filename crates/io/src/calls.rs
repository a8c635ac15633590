//! Counts of system calls that this process made through this crate: what a benchmark divides by
//! its requests. One relaxed addition beside a call that takes a hundred times as long.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Calls since the process began. Opening and closing connections, and waking another thread, are
/// not in here.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Calls {
    /// Reads from sockets, those that found nothing included.
    pub reads: u64,
    /// Writes to sockets, those for which there was no room included.
    pub writes: u64,
    /// Waits for readiness, those that did not block included.
    pub waits: u64,
}

static READS: AtomicU64 = AtomicU64::new(0);
static WRITES: AtomicU64 = AtomicU64::new(0);
static WAITS: AtomicU64 = AtomicU64::new(0);

/// The counts so far. Each is exact; together they are of nearly, not exactly, one moment.
#[must_use]
pub fn calls() -> Calls {
    let [reads, writes, waits] = [&READS, &WRITES, &WAITS].map(|count| count.load(Relaxed));
    Calls { reads, writes, waits }
}

pub(crate) fn read() {
    READS.fetch_add(1, Relaxed);
}

pub(crate) fn written() {
    WRITES.fetch_add(1, Relaxed);
}

pub(crate) fn waited() {
    WAITS.fetch_add(1, Relaxed);
}
