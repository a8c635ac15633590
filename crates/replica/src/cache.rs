//! States that are kept for the next incarnation of this replica, so that it fetches only what
//! differs.
//!
//! Nothing waits for them and nothing rests on them: a replica that restarts with one of them
//! remembers no promise, and is admitted like any that lost its memory. They are saved in the
//! background, one at a time, the newest that there is by then. A disk that fails costs the next
//! incarnation its head start, and this one nothing.

use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_machine::StateCache;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::snapshots::Snapshots;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tracing::warn;

/// Between the beginnings of two saves, at least: a group takes many checkpoints in a second.
const PERIOD: Duration = Duration::from_secs(1);

/// Saves states for as long as it lives.
pub struct Cache {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    /// To be saved next.
    next: Option<Snapshot>,
    saved: Option<Slot>,
    /// The last one with its content in files, if it is not to be in memory.
    cooled: Option<Snapshot>,
    /// The sections because of which the last one was not saved.
    unread: Vec<u32>,
    ending: bool,
    /// The disk has failed: nothing more is saved.
    has_ended: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next state, not before its time; none when it is over.
    fn take(&self, not_before: Instant) -> Option<Snapshot> {
        let mut state = self.state();
        loop {
            let wait = not_before.saturating_duration_since(Instant::now());
            if state.ending || (state.next.is_some() && wait.is_zero()) {
                return state.next.take();
            }
            let wait = if state.next.is_some() { wait } else { PERIOD };
            let waited = self.changed.wait_timeout(state, wait);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn run(&self, mut snapshots: Snapshots) {
        let mut not_before = Instant::now();
        while let Some(snapshot) = self.take(not_before) {
            not_before = Instant::now() + PERIOD;
            for problem in snapshots.scrub_reported() {
                let problem = problem.found();
                warn!(
                    problem,
                    "a snapshot on disk is damaged; the next one does not reuse the damaged pieces"
                );
            }
            match save(&mut snapshots, &snapshot) {
                Ok(()) => {}
                Err(ref absent @ StorageError::Absent { ref sections }) => {
                    let problem = absent.found();
                    warn!(problem, "state not kept for the next incarnation");
                    self.state().unread.clone_from(sections);
                    continue;
                }
                Err(problem) => {
                    warn!(%problem, "states are no longer kept for the next incarnation");
                    self.state().has_ended = true;
                    return;
                }
            }
            let cooled = snapshots.cooled(&snapshot);
            let mut state = self.state();
            (state.saved, state.cooled) = (Some(snapshot.slot), cooled);
        }
    }
}

fn save(snapshots: &mut Snapshots, snapshot: &Snapshot) -> Result<(), StorageError> {
    snapshots.save(snapshot, b"")?;
    snapshots.remove_below(snapshot.slot)
}

impl Cache {
    /// Goes on from the states of an earlier life.
    pub fn start(snapshots: Snapshots) -> io::Result<Self> {
        let shared = Arc::new(Shared::default());
        shared.state().saved = snapshots.newest();
        let its = shared.clone();
        let thread = std::thread::Builder::new().name("snapshots".to_owned());
        let thread = thread.spawn(move || its.run(snapshots))?;
        Ok(Self { shared, thread: Some(thread) })
    }
}

impl StateCache for Cache {
    fn offer(&self, snapshot: &Snapshot) {
        self.shared.state().next = Some(snapshot.clone());
        self.shared.changed.notify_all();
    }
    fn cooled(&self) -> Option<Snapshot> {
        self.shared.state().cooled.take()
    }
    fn unread(&self) -> Vec<u32> {
        std::mem::take(&mut self.shared.state().unread)
    }
    fn has_ended(&self) -> bool {
        self.shared.state().has_ended
    }
    fn saved(&self) -> Option<Slot> {
        self.shared.state().saved
    }
}

impl Drop for Cache {
    /// Waits for the disk, so that the data folder is free again.
    fn drop(&mut self) {
        self.shared.state().ending = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // If it panicked, what it had saved is there, or is found to be damaged.
            let _ = thread.join();
        }
    }
}
