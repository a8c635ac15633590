//! Threads that keep things, so that a replica goes on while the disk writes.
//!
//! One writes the log. All that was handed over while one sync was under way becomes durable with
//! the next: the slower the disk, the larger the groups. Another one saves states, which may take
//! long, and must not hold up the log meanwhile.

use super::{Entries, Entry, Kept, Mark, States};
use crate::disk::DiskError;
use crate::error::StorageError;
use crate::log::Log;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Membership;
use pentarchy_core::snapshot::Snapshot;
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Instant;

/// Bytes of entries that wait for the disk before whoever hands over more has to wait too.
const WAITING_BYTES_MAX: usize = 64 << 20;

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
    tasks: Vec<Task>,
    /// Whether the tasks are to be carried out now.
    asked: bool,
    waiting_bytes: usize,
    /// The states that wait to be saved, oldest first: no more than unstable checkpoints.
    saves: VecDeque<Save>,
    /// Whether one is being saved, or others are being removed.
    busy: bool,
    /// The last state that is durable.
    saved: Option<Slot>,
    /// What is stable and waits for its state to be saved.
    stable: Option<Mark>,
    /// States below this slot may go.
    superfluous: Option<Slot>,
    /// Number of the next entry.
    next: u64,
    durable: u64,
    failed: Option<StorageError>,
    ending: bool,
    measured: Measured,
}

/// A state to be saved.
struct Save {
    snapshot: Snapshot,
    /// Entries below this one have to be durable before.
    behind: u64,
}

/// What there is to do for the states.
enum Chore {
    Save(Save),
    RemoveBelow(Slot),
}

/// What there is to do for the log.
enum Task {
    Entry(Entry),
    Epoch(Arc<Membership>, Option<Proof>),
    Stable(Mark),
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
        while state.tasks.is_empty() || !(state.asked || state.ending) {
            if state.tasks.is_empty() && state.ending && !state.is_busy() {
                return None;
            }
            state = self.wait(state);
        }
        (state.waiting_bytes, state.asked) = (0, false);
        self.changed.notify_all();
        Some(std::mem::take(&mut state.tasks))
    }

    fn write(&self, mut entries: Entries) -> Entries {
        let _told = TellOfPanic(self);
        while let Some(tasks) = self.take() {
            let (begun, before) = (Instant::now(), entries.log.durable());
            let done = tasks.into_iter().try_for_each(|task| entries.carry_out(task));
            let done = done.and_then(|()| entries.commit());
            let micros = begun.elapsed().as_micros().try_into().unwrap_or(u64::MAX);
            let mut state = self.state();
            state.measured.note(&entries.log, before, micros);
            match done {
                Ok(below) => {
                    state.durable = entries.log.durable();
                    state.superfluous = below.or(state.superfluous);
                }
                Err(error) => state.fail(error),
            }
            drop(state);
            self.changed.notify_all();
            (self.wake)();
        }
        entries
    }

    /// What to do next for the states; none when it is over.
    fn take_chore(&self) -> Option<Chore> {
        let mut state = self.state();
        loop {
            let durable = state.durable;
            let ready = state.saves.front().is_some_and(|save| save.behind <= durable);
            let save = if ready { state.saves.pop_front().map(Chore::Save) } else { None };
            let chore = save.or_else(|| state.superfluous.take().map(Chore::RemoveBelow));
            if chore.is_some() {
                state.busy = true;
                return chore;
            }
            // What is left to be removed is found again by the next life.
            if state.ending && state.saves.is_empty() {
                return None;
            }
            state = self.wait(state);
        }
    }

    fn tend(&self, mut states: States) -> States {
        let _told = TellOfPanic(self);
        while let Some(chore) = self.take_chore() {
            let done = match &chore {
                Chore::Save(Save { snapshot, behind }) => states.save(snapshot, *behind),
                Chore::RemoveBelow(slot) => states.0.remove_below(*slot),
            };
            let mut state = self.state();
            state.busy = false;
            match (done, chore) {
                (Ok(()), Chore::Save(save)) => state.saved(save.snapshot.slot),
                (Ok(()), Chore::RemoveBelow(_)) => {}
                (Err(error), _) => state.fail(error),
            }
            drop(state);
            self.changed.notify_all();
            (self.wake)();
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

impl State {
    fn fail(&mut self, error: StorageError) {
        self.failed.get_or_insert(error);
        self.tasks.clear();
        self.saves.clear();
        (self.stable, self.superfluous) = (None, None);
        self.ending = true;
    }

    fn is_busy(&self) -> bool {
        self.busy || !self.saves.is_empty()
    }

    /// A state is durable: the log may say that it is stable.
    fn saved(&mut self, slot: Slot) {
        self.saved = Some(slot);
        if self.failed.is_none()
            && let Some(mark) = self.stable.take_if(|mark| mark.slot <= slot)
        {
            self.push(Task::Stable(mark));
            self.asked = true;
        }
    }

    /// Adds a task, and gives the number of its entry.
    fn push(&mut self, task: Task) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting_bytes += task.bytes();
        self.tasks.push(task);
        number
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
            state.busy = false;
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
            Task::Stable(mark) => self.stable(mark).map(drop),
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
            asked: false,
            waiting_bytes: 0,
            saves: VecDeque::new(),
            busy: false,
            saved: kept.states.0.newest(),
            stable: None,
            superfluous: None,
            next: kept.next(),
            durable: kept.durable(),
            failed: None,
            ending: false,
            measured: Measured::default(),
        };
        let shared = Arc::new(Shared { state: Mutex::new(state), changed: Condvar::new(), wake });
        let Kept { entries, states } = kept;
        let named = |name: &str| std::thread::Builder::new().name(name.to_owned());
        let its = shared.clone();
        let saves = named("snapshots").spawn(move || its.tend(states))?;
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
    /// disk. The thread is not woken for it: see [`Self::write`].
    fn hand_over(&self, task: Task) -> Result<u64, StorageError> {
        Ok(self.ready()?.push(task))
    }

    /// Has everything written that was handed over, as one group if it fits one. Nothing is written
    /// before somebody asks for it, here or by waiting for it.
    pub fn write(&self) {
        self.ask(&mut self.shared.state());
    }

    fn ask(&self, state: &mut State) {
        state.asked = true;
        self.shared.changed.notify_all();
    }

    /// The state, when there is room.
    fn ready(&self) -> Result<MutexGuard<'_, State>, StorageError> {
        let mut state = self.shared.state();
        if state.waiting_bytes > WAITING_BYTES_MAX {
            self.ask(&mut state);
        }
        while state.waiting_bytes > WAITING_BYTES_MAX && state.failed.is_none() {
            state = self.shared.wait(state);
        }
        state.failed.clone().map_or(Ok(state), Err)
    }

    /// See [`Kept::append`]. It is written after the next [`Self::write`]; what depends on it may
    /// leave when [`Self::durable`] is above its number.
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

    /// See [`Kept::save`]. The replica may vouch for the state when [`Self::saved`] has reached it.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    pub fn save(&self, snapshot: Snapshot) -> Result<(), StorageError> {
        let mut state = self.ready()?;
        let behind = state.next;
        if state.saved.is_some_and(|saved| saved > snapshot.slot) {
            state.saved = None;
        }
        state.saves.push_back(Save { snapshot, behind });
        self.ask(&mut state);
        Ok(())
    }

    /// The slot of the last state that is durable. It falls back when a state is saved that is
    /// older than that: those after it were wrong.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    pub fn saved(&self) -> Result<Option<Slot>, StorageError> {
        let state = self.shared.state();
        state.failed.clone().map_or(Ok(state.saved), Err)
    }

    /// See [`Kept::stable`]. The state has been handed over to be saved; the log says that it is
    /// stable when that is done.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    pub fn stable(&self, slot: Slot, needed: u64) -> Result<(), StorageError> {
        let mut state = self.ready()?;
        let mark = Mark { slot, needed };
        if state.saved.is_some_and(|saved| saved >= slot) {
            state.push(Task::Stable(mark));
        } else {
            state.stable = Some(mark);
        }
        self.ask(&mut state);
        Ok(())
    }

    /// The number of the next entry: none that is handed over from now on has a lower one.
    #[must_use]
    pub fn next(&self) -> u64 {
        self.shared.state().next
    }

    /// Whether a state is being saved, or waits to be.
    #[must_use]
    pub fn is_saving(&self) -> bool {
        self.shared.state().is_busy()
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
        self.ask(&mut state);
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
