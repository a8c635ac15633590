//! Threads that keep things, so that a replica goes on while the disk writes.
//!
//! One writes the log. All that was handed over while one sync was under way becomes durable with
//! the next: the slower the disk, the larger the groups. Another one saves states, which may take
//! long, and must not hold up the log meanwhile.

use super::{Entries, Entry, Kept, States};
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
    tasks: Vec<Task>,
    waiting_bytes: usize,
    /// The newest state that waits to be saved.
    save: Option<Save>,
    /// Whether one is being saved.
    saving: bool,
    /// Number of the next entry.
    next: u64,
    durable: u64,
    failed: Option<StorageError>,
    ending: bool,
}

/// A state to be saved.
struct Save {
    snapshot: Snapshot,
    /// See [`Kept::save`].
    needed: u64,
    /// Entries up to this one have to be durable before.
    behind: u64,
}

/// What there is to do for the log.
enum Task {
    Entry(Entry),
    Epoch(Arc<Membership>, Option<Proof>),
    /// Say once more how the epoch began.
    Checkpoint,
    /// Entries below this are not needed any more.
    Truncate(u64),
}

impl Task {
    /// What it adds to the bytes that wait.
    fn bytes(&self) -> usize {
        match self {
            Self::Entry(Entry::Record(record)) => record.len(),
            _ => 64,
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

    /// The next tasks for the log, as many as there are; none when it is over.
    fn take(&self) -> Option<Vec<Task>> {
        let mut state = self.state();
        while state.tasks.is_empty() {
            if state.ending && !state.is_saving() {
                return None;
            }
            state = self.wait(state);
        }
        state.waiting_bytes = 0;
        self.changed.notify_all();
        Some(std::mem::take(&mut state.tasks))
    }

    fn write(&self, mut entries: Entries) -> Entries {
        let _told = TellOfPanic(self);
        while let Some(tasks) = self.take() {
            let done = tasks.into_iter().try_for_each(|task| entries.carry_out(task));
            let done = done.and_then(|()| entries.log.commit());
            let mut state = self.state();
            match done {
                Ok(durable) => state.durable = durable,
                Err(error) => state.fail(error),
            }
            drop(state);
            self.changed.notify_all();
            (self.wake)();
        }
        entries
    }

    /// The next state, when it may be saved; none when it is over.
    fn take_save(&self) -> Option<Save> {
        let mut state = self.state();
        loop {
            let durable = state.durable;
            if let Some(save) = state.save.take_if(|save| save.behind < durable) {
                state.saving = true;
                return Some(save);
            }
            if state.ending && state.save.is_none() {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn save(&self, mut states: States) -> States {
        let _told = TellOfPanic(self);
        while let Some(Save { snapshot, needed, .. }) = self.take_save() {
            let saved = states.save(&snapshot, needed);
            let mut state = self.state();
            state.saving = false;
            match saved {
                Ok(needed) if state.failed.is_none() => {
                    state.tasks.push(Task::Truncate(needed));
                }
                Ok(_) => {}
                Err(error) => state.fail(error),
            }
            drop(state);
            self.changed.notify_all();
            (self.wake)();
        }
        states
    }
}

impl State {
    fn fail(&mut self, error: StorageError) {
        self.failed.get_or_insert(error);
        self.tasks.clear();
        self.save = None;
        self.ending = true;
    }

    const fn is_saving(&self) -> bool {
        self.saving || self.save.is_some()
    }
}

/// So that nobody waits for a thread that panicked.
struct TellOfPanic<'a>(&'a Shared);

impl Drop for TellOfPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let source = io::Error::other("the thread that writes has panicked");
            let error = DiskError { operation: "write", path: "the log".to_owned(), source };
            let mut state = self.0.state();
            state.saving = false;
            state.fail(error.into());
            drop(state);
            self.0.changed.notify_all();
            (self.0.wake)();
        }
    }
}

impl Entries {
    fn carry_out(&mut self, task: Task) -> Result<(), StorageError> {
        match task {
            Task::Entry(entry) => self.append(&entry).map(drop),
            Task::Epoch(membership, proof) => self.begin_epoch(membership, proof).map(drop),
            Task::Checkpoint => self.append_epoch().map(drop),
            Task::Truncate(needed) => self.log.truncate_below(needed),
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
        let state = State {
            tasks: Vec::new(),
            waiting_bytes: 0,
            save: None,
            saving: false,
            next: kept.next(),
            durable: kept.durable(),
            failed: None,
            ending: false,
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), wake });
        let Kept { entries, states } = kept;
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let its = shared.clone();
        let saves = named("snapshots").spawn(move || its.save(states))?;
        let its = shared.clone();
        match named("log").spawn(move || its.write(entries)) {
            Ok(writes) => Ok(Self { shared, threads: Some((writes, saves)) }),
            Err(error) => {
                shared.state().ending = true;
                shared.changed.notify_all();
                Err(error)
            }
        }
    }

    /// Hands over a task, and gives the number of its entry. Waits while too much waits for the
    /// disk.
    fn hand_over(&self, task: Task) -> Result<u64, StorageError> {
        let mut state = self.ready()?;
        Self::push(&mut state, task, &self.shared)
    }

    /// The state, when there is room.
    fn ready(&self) -> Result<MutexGuard<'_, State>, StorageError> {
        let mut state = self.shared.state();
        while state.waiting_bytes > WAITING_BYTES_MAX && state.failed.is_none() {
            state = self.shared.wait(state);
        }
        state.failed.clone().map_or(Ok(state), Err)
    }

    fn push(state: &mut State, task: Task, shared: &Shared) -> Result<u64, StorageError> {
        let number = state.next;
        state.next += 1;
        state.waiting_bytes += task.bytes();
        state.tasks.push(task);
        shared.changed.notify_all();
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

    /// See [`Kept::save`]. If one waits to be saved already, this one takes its place.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    pub fn save(&self, snapshot: Snapshot, needed: u64) -> Result<u64, StorageError> {
        let mut state = self.ready()?;
        let behind = Self::push(&mut state, Task::Checkpoint, &self.shared)?;
        state.save = Some(Save { snapshot, needed, behind });
        Ok(behind)
    }

    /// Whether a state is being saved, or waits to be.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.shared.state().is_saving()
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

    /// Makes everything durable that was handed over, and ends the threads.
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
        let (writes, saves) = self.threads.take()?;
        // The log goes on for as long as a state is being saved.
        match (saves.join(), writes.join()) {
            (Ok(states), Ok(entries)) => Some(Kept { entries, states }),
            (Err(panic), _) | (_, Err(panic)) => std::panic::resume_unwind(panic),
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
