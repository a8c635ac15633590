//! A thread that keeps things, so that a replica goes on while the disk writes.
//!
//! All that was handed over while one sync was under way becomes durable with the next: the slower
//! the disk, the larger the groups.

use super::{Entry, Kept};
use crate::disk::DiskError;
use crate::error::StorageError;
use pentarchy_core::epochs::Proof;
use pentarchy_core::membership::Membership;
use pentarchy_core::snapshot::Snapshot;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

/// Bytes of entries that wait for the disk before whoever hands over more has to wait too.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Keeps things on a thread of its own, in the order in which they are handed over.
pub struct Writer {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Kept>>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Told when more is durable, or when nothing will be any more.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State {
    tasks: Vec<Task>,
    waiting_bytes: usize,
    /// Number of the next entry.
    next: u64,
    durable: u64,
    failed: Option<StorageError>,
    ending: bool,
}

/// Each makes one record in the log.
enum Task {
    Entry(Entry),
    Epoch(Arc<Membership>, Option<Proof>),
    Save(Snapshot, u64),
}

impl Task {
    /// What it adds to the bytes that wait. A snapshot's chunks are shared with the executor.
    fn bytes(&self) -> usize {
        match self {
            Self::Entry(Entry::Record(record)) => record.len(),
            Self::Entry(Entry::Certified { .. }) | Self::Epoch(..) | Self::Save(..) => 64,
        }
    }
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The next tasks, as many as there are; none when it is over.
    fn take(&self) -> Option<Vec<Task>> {
        let mut state = self.state();
        while state.tasks.is_empty() {
            if state.ending {
                return None;
            }
            state = self.wait(state);
        }
        state.waiting_bytes = 0;
        self.changed.notify_all();
        Some(std::mem::take(&mut state.tasks))
    }

    fn run(&self, mut kept: Kept) -> Kept {
        let _told = TellOfPanic(self);
        while let Some(tasks) = self.take() {
            let done = tasks.into_iter().try_for_each(|task| kept.carry_out(task));
            let done = done.and_then(|()| kept.commit());
            let mut state = self.state();
            match done {
                Ok(durable) => state.durable = durable,
                Err(error) => state.fail(error),
            }
            drop(state);
            self.changed.notify_all();
            (self.wake)();
        }
        kept
    }
}

impl State {
    fn fail(&mut self, error: StorageError) {
        self.failed = Some(error);
        self.tasks.clear();
        self.ending = true;
    }
}

/// So that nobody waits for a thread that panicked.
struct TellOfPanic<'a>(&'a Shared);

impl Drop for TellOfPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let source = io::Error::other("the thread that writes has panicked");
            let error = DiskError { operation: "write", path: "the log".to_owned(), source };
            self.0.state().fail(error.into());
            self.0.changed.notify_all();
            (self.0.wake)();
        }
    }
}

impl Kept {
    fn carry_out(&mut self, task: Task) -> Result<(), StorageError> {
        match task {
            Task::Entry(entry) => self.append(&entry).map(drop),
            Task::Epoch(membership, proof) => self.begin_epoch(membership, proof).map(drop),
            Task::Save(snapshot, needed) => self.save(&snapshot, needed),
        }
    }
}

impl Writer {
    /// Starts the thread. `wake` is called from it when more is durable, or when it has failed.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(kept: Kept, wake: Box<dyn Fn() + Send + Sync>) -> io::Result<Self> {
        let state = State {
            tasks: Vec::new(),
            waiting_bytes: 0,
            next: kept.next(),
            durable: kept.durable(),
            failed: None,
            ending: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), wake });
        let its = shared.clone();
        let thread = std::thread::Builder::new().name("storage".to_owned());
        let thread = thread.spawn(move || its.run(kept))?;
        Ok(Self { shared, thread: Some(thread) })
    }

    /// Hands over a task, and gives the number of its entry. Waits while too much waits for the
    /// disk.
    fn hand_over(&self, task: Task) -> Result<u64, StorageError> {
        let mut state = self.shared.state();
        while state.waiting_bytes > WAITING_BYTES_MAX && state.failed.is_none() {
            state = self.shared.wait(state);
        }
        if let Some(error) = &state.failed {
            return Err(error.clone());
        }
        let number = state.next;
        state.next += 1;
        state.waiting_bytes += task.bytes();
        state.tasks.push(task);
        self.shared.changed.notify_all();
        Ok(number)
    }

    /// See [`Kept::append`]. What depends on the entry may leave when [`Self::durable`] is above
    /// its number.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    pub fn append(&self, entry: Entry) -> Result<u64, StorageError> {
        self.hand_over(Task::Entry(entry))
    }

    /// See [`Kept::begin_epoch`].
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    pub fn begin_epoch(
        &self,
        membership: Arc<Membership>,
        proof: Option<Proof>,
    ) -> Result<u64, StorageError> {
        self.hand_over(Task::Epoch(membership, proof))
    }

    /// See [`Kept::save`].
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    pub fn save(&self, snapshot: Snapshot, needed: u64) -> Result<u64, StorageError> {
        self.hand_over(Task::Save(snapshot, needed))
    }

    /// All entries below this are durable.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed: nothing more will be durable, and nothing that depends
    /// on it may leave.
    pub fn durable(&self) -> Result<u64, StorageError> {
        let state = self.shared.state();
        state.failed.clone().map_or(Ok(state.durable), Err)
    }

    /// Waits until an entry is durable.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    pub fn wait_for(&self, entry: u64) -> Result<(), StorageError> {
        let mut state = self.shared.state();
        loop {
            if let Some(error) = &state.failed {
                return Err(error.clone());
            }
            if state.durable > entry {
                return Ok(());
            }
            state = self.shared.wait(state);
        }
    }

    /// Makes everything durable that was handed over, and ends the thread.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    pub fn finish(mut self) -> Result<Kept, StorageError> {
        let kept = self.join().expect("it is joined once");
        self.shared.state().failed.clone().map_or(Ok(kept), Err)
    }

    fn join(&mut self) -> Option<Kept> {
        self.shared.state().ending = true;
        self.shared.changed.notify_all();
        let thread = self.thread.take()?;
        match thread.join() {
            Ok(kept) => Some(kept),
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl Drop for Writer {
    /// Waits for the disk, so that the data folder is free again.
    fn drop(&mut self) {
        if !std::thread::panicking() {
            self.join();
        }
    }
}
