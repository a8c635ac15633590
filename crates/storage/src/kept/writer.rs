//! Threads that keep things, so that a replica goes on while the disk writes.
//!
//! One writes the log. Another one saves states, which may take long, and must not hold up the log
//! meanwhile. What they do, and in which order, says the [queue](super::queue).

use super::queue::{Chore, Queue, Scrubs, Task, Tasks};
use super::{Backing, Entries, Entry, EntryLog, EpochStart, Kept, Mark, Needed, States};
use crate::disk::DiskError;
use crate::error::StorageError;
use crate::log::Log;
use pentarchy_core::ids::{Epoch, Slot};
use pentarchy_core::snapshot::Snapshot;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes of entries that wait for the disk before whoever hands over more has to wait too.
const WAITING_BYTES_MAX: usize = 64 << 20;

/// Between two pieces that are read to see whether they are what they were: at most 5 MiB a second,
/// and a quarter of an hour for a state of a GiB.
const SCRUB_EVERY: Duration = Duration::from_millis(50);

/// So that an end that was not waited for does not make a thread turn.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

/// Groups whose measurements wait to be taken; further ones are not measured.
const GROUPS_MAX: usize = 256;

/// What became durable with one sync of the log.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Group {
    /// Entries in it.
    pub entries: u64,
    /// Microseconds that writing and syncing took.
    pub micros: u64,
}

/// How the log stands.
#[derive(Clone, Default, Debug)]
pub struct Measured {
    /// What became durable since the last look, oldest first.
    pub groups: Vec<Group>,
    /// Bytes of the log on the disk.
    pub log_bytes: u64,
    /// Bytes that it may have.
    pub log_bytes_max: u64,
}

/// Keeps things on threads of its own: entries in the order in which they are handed over, states
/// when the entries before them are durable.
pub struct Writer {
    shared: Arc<Shared>,
    threads: Option<(JoinHandle<Entries>, JoinHandle<States>)>,
}

struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    /// Told when more is durable, or when nothing will be any more.
    wake: Box<dyn Fn() + Send + Sync>,
}

struct State {
    queue: Queue,
    /// Whether the tasks are to be carried out now.
    asked: bool,
    measured: Measured,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn wait<'a>(&self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        self.changed.wait(state).unwrap_or_else(PoisonError::into_inner)
    }

    /// The state, when there is room.
    fn ready(&self) -> Result<MutexGuard<'_, State>, StorageError> {
        let mut state = self.state();
        if state.queue.waiting_bytes > WAITING_BYTES_MAX {
            self.ask(&mut state);
        }
        let waits = |queue: &Queue| queue.waiting_bytes > WAITING_BYTES_MAX && !queue.is_written();
        while waits(&state.queue) && state.queue.check().is_ok() {
            state = self.wait(state);
        }
        state.queue.check().map(|()| state)
    }

    /// Hands something over; waits while too much waits for the disk. The log's thread is not woken
    /// for it: see [`Writer::write`].
    fn hand_over<T>(&self, act: impl FnOnce(&mut Queue) -> T) -> Result<T, StorageError> {
        Ok(act(&mut self.ready()?.queue))
    }

    fn ask(&self, state: &mut State) {
        state.asked = true;
        self.changed.notify_all();
    }

    fn next(&self) -> u64 {
        self.state().queue.next()
    }

    fn durable(&self) -> Result<u64, StorageError> {
        self.state().queue.durable()
    }

    fn full(&self) -> Option<u64> {
        let state = self.state();
        state.queue.is_full().then_some(state.measured.log_bytes_max)
    }

    fn is_behind(&self) -> bool {
        self.state().queue.is_behind()
    }

    /// The next tasks for the log, as many as there are; none when it is over.
    fn take(&self) -> Option<Tasks> {
        let mut state = self.state();
        while state.queue.is_written() || !(state.asked || state.queue.ending) {
            if state.queue.is_written() && state.queue.ending && !state.queue.is_saving() {
                return None;
            }
            state = self.wait(state);
        }
        state.asked = false;
        self.changed.notify_all();
        Some(state.queue.take_tasks())
    }

    fn write(&self, mut entries: Entries) -> Entries {
        let _told = TellOfPanic(self);
        while let Some(tasks) = self.take() {
            let (begun, before) = (Instant::now(), entries.log.durable());
            let done = entries.write(tasks);
            let micros = begun.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
            let mut state = self.state();
            state.measured.note(&entries.log, before, micros);
            // What there was no room for is written as soon as there is.
            state.asked |= state.queue.written(done, &entries.log);
            drop(state);
            self.changed.notify_all();
            (self.wake)();
        }
        entries
    }

    /// What to do next for the states; none when it is over.
    fn take_chore(&self, scrubbed: &mut Instant) -> Option<Chore> {
        let mut state = self.state();
        loop {
            let chore = state.queue.take_chore();
            // What is left to be removed is found again by the next life.
            let over = state.queue.ending && state.queue.has_no_saves();
            if chore.is_some() || over {
                return chore;
            }
            let left = SCRUB_EVERY.saturating_sub(scrubbed.elapsed());
            if left.is_zero() && !state.queue.ending {
                *scrubbed = Instant::now();
                return Some(Chore::Scrub);
            }
            let waited = self.changed.wait_timeout(state, left.max(SHORTEST_WAIT));
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn tend(&self, mut states: States) -> States {
        let _told = TellOfPanic(self);
        let mut scrubbed = Instant::now();
        while let Some(chore) = self.take_chore(&mut scrubbed) {
            let is_scrub = matches!(chore, Chore::Scrub);
            let done = chore.carry_out(&mut states);
            let mut state = self.state();
            state.queue.tended(done);
            // What is stable is said without a round that asks for it.
            state.asked |= !is_scrub;
            drop(state);
            self.changed.notify_all();
            if !is_scrub {
                (self.wake)();
            }
        }
        states
    }
}

impl Measured {
    fn note(&mut self, log: &Log, before: u64, micros: u64) {
        if self.groups.len() < GROUPS_MAX {
            self.groups.push(Group { entries: log.durable() - before, micros });
        }
        (self.log_bytes, self.log_bytes_max) = (log.bytes(), log.bytes_max());
    }
}

/// So that nobody waits for a thread that panicked.
struct TellOfPanic<'a>(&'a Shared);

impl Drop for TellOfPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let source = io::Error::other("the thread that writes has panicked");
            let error = DiskError { operation: "write", path: "the log".to_owned(), source };
            self.0.state().queue.fail(error.into());
            self.0.changed.notify_all();
            (self.0.wake)();
        }
    }
}

impl Writer {
    /// Starts the threads. `wake` is called from them when more is durable, when a state is saved,
    /// and when anything has failed.
    ///
    /// # Errors
    /// What the system says.
    pub fn start(kept: Kept, wake: Box<dyn Fn() + Send + Sync>) -> io::Result<Self> {
        let state = State { queue: kept.queue(), asked: false, measured: Measured::default() };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), wake });
        let Kept { entries, states, .. } = kept;
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let its = shared.clone();
        let saves = named("snapshots").spawn(move || its.tend(states))?;
        let its = shared.clone();
        match named("log").spawn(move || its.write(entries)) {
            Ok(writes) => Ok(Self { shared, threads: Some((writes, saves)) }),
            Err(error) => {
                shared.state().queue.ending = true;
                shared.changed.notify_all();
                Err(error)
            }
        }
    }

    /// Has everything written that was handed over, as one group if it fits one. Nothing is written
    /// before somebody asks for it, here or by waiting for it.
    pub fn write(&self) {
        self.shared.ask(&mut self.shared.state());
    }

    /// For a thread that keeps entries of this epoch too.
    #[must_use]
    pub fn log_handle(&self, epoch: Epoch) -> LogHandle {
        LogHandle { shared: self.shared.clone(), epoch }
    }

    /// What scrubbing came to; problems are told once.
    #[must_use]
    pub fn scrubs(&self) -> Scrubs {
        self.shared.state().queue.tell()
    }

    /// The last state of which the content is in files now, if it is not to be in memory; told
    /// once.
    #[must_use]
    pub fn cooled(&self) -> Option<Snapshot> {
        self.shared.state().queue.take_cooled()
    }

    /// Has damaged pieces on the disk written anew from these states, as far as they have them.
    pub fn repair(&self, states: impl Iterator<Item = Snapshot>) {
        self.shared.state().queue.repair(states);
        self.shared.changed.notify_all();
    }

    /// The slot of the newest state that is durable, and not known to be wrong.
    #[must_use]
    pub fn newest(&self) -> Option<Slot> {
        self.shared.state().queue.newest()
    }

    /// Whether a state waits to be written into the log.
    #[must_use]
    pub fn has_state_for_log(&self) -> bool {
        self.shared.state().queue.has_state_for_log()
    }

    /// Whether a state is being saved, or waits to be.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.shared.state().queue.is_saving()
    }

    /// How the log stands; what became durable is told once.
    #[must_use]
    pub fn measured(&self) -> Measured {
        let mut state = self.shared.state();
        let groups = std::mem::take(&mut state.measured.groups);
        Measured { groups, ..state.measured }
    }

    /// Waits until an entry is durable.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    pub fn wait_for(&self, entry: u64) -> Result<(), StorageError> {
        let mut state = self.shared.state();
        self.shared.ask(&mut state);
        loop {
            if state.queue.durable()? > entry {
                return Ok(());
            }
            state = self.shared.wait(state);
        }
    }

    /// Makes everything durable that was handed over, and ends the threads.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    pub fn finish(mut self) -> Result<Kept, StorageError> {
        let kept = self.join().expect("it is joined once");
        self.shared.state().queue.check().map(|()| kept)
    }

    fn join(&mut self) -> Option<Kept> {
        self.shared.state().queue.ending = true;
        self.shared.changed.notify_all();
        let (writes, saves) = self.threads.take()?;
        // The log goes on for as long as a state is being saved.
        match (saves.join(), writes.join()) {
            (Ok(states), Ok(entries)) => {
                let newest = self.newest();
                Some(Kept { entries, states, tip: None, newest })
            }
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
        }
    }
}

/// For a thread that keeps entries of one epoch beside the one that has the [`Writer`]. As soon as
/// another one began, its entries are not kept any more: nobody goes on from them.
pub struct LogHandle {
    shared: Arc<Shared>,
    epoch: Epoch,
}

impl LogHandle {
    /// Goes over to another epoch.
    pub const fn begin_epoch(&mut self, epoch: Epoch) {
        self.epoch = epoch;
    }

    /// See [`Writer::write`].
    pub fn write(&self) {
        self.shared.ask(&mut self.shared.state());
    }
}

impl EntryLog for LogHandle {
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError> {
        self.shared.hand_over(|queue| queue.push_in(self.epoch, entry))
    }

    fn next(&self) -> u64 {
        self.shared.next()
    }

    fn durable(&self) -> Result<u64, StorageError> {
        self.shared.durable()
    }

    fn full(&self) -> Option<u64> {
        self.shared.full()
    }

    /// Also while the log has little room and a checkpoint is under way that makes some. Whoever
    /// has the [`Writer`] goes on then: it is told that others have kept again what they need.
    fn is_behind(&self) -> bool {
        let queue = &self.shared.state().queue;
        queue.is_behind() || queue.is_short()
    }
}

impl EntryLog for Writer {
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError> {
        self.shared.hand_over(|queue| queue.push(Task::Entry(entry)))
    }

    fn next(&self) -> u64 {
        self.shared.next()
    }

    fn durable(&self) -> Result<u64, StorageError> {
        self.shared.durable()
    }

    fn full(&self) -> Option<u64> {
        self.shared.full()
    }

    fn is_behind(&self) -> bool {
        self.shared.is_behind()
    }
}

impl Backing for Writer {
    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        self.shared.hand_over(|queue| queue.push(Task::Epoch(start)))
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<u64, StorageError> {
        let number = self.shared.hand_over(|queue| queue.save(snapshot))?;
        self.shared.changed.notify_all();
        Ok(number)
    }

    fn saved(&self) -> Result<u64, StorageError> {
        self.shared.state().queue.saved_upto()
    }

    fn asks_again(&mut self) -> Option<Slot> {
        self.shared.state().queue.asks_again()
    }

    fn begin_cut(&mut self) {
        self.shared.state().queue.begin_cut();
        self.shared.changed.notify_all();
    }

    fn stable(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<(), StorageError> {
        let mark = Mark { slot, needed: needed.into() };
        self.shared.hand_over(|queue| queue.stable(mark))
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
