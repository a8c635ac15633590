//! What waits to be written, and in which order: the part of writing that is neither disk nor
//! thread.
//!
//! Two jobs go on side by side. One writes the log: all tasks that wait when it begins become
//! durable together when it ends, so the slower the disk, the larger the groups. The other tends
//! the states: it saves one at a time, behind the entries that come before it in the log, and
//! removes those that nobody needs any more. [`Writer`](super::Writer) gives each a thread;
//! [`Stepped`](super::Stepped) leaves it to its caller when a job ends.

use super::{Entries, Entry, Mark, States};
use crate::error::StorageError;
use crate::snapshots::Scrubbed;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Membership;
use pentarchy_core::snapshot::Snapshot;
use std::collections::VecDeque;
use std::sync::Arc;

/// What there is to do for the log.
pub(super) enum Task {
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

/// A state to be saved.
pub(super) struct Save {
    snapshot: Snapshot,
    /// Entries below this one have to be durable before.
    behind: u64,
}

/// What there is to do for the states.
pub(super) enum Chore {
    Save(Save),
    RemoveBelow(Slot),
    /// Writes damaged pieces anew, from a state that may have them.
    Repair(Snapshot),
    /// Reads one more piece, to see whether it is what it was.
    Scrub,
}

/// What came of a chore.
pub(super) enum Done {
    /// The state of this slot is durable.
    Saved(Slot),
    Removed,
    /// So many pieces were written anew.
    Repaired(usize),
    /// None if there is nothing to read.
    Scrubbed(Option<Scrubbed>),
}

impl Chore {
    /// Does it.
    pub(super) fn carry_out(self, states: &mut States) -> Result<Done, StorageError> {
        Ok(match self {
            Self::Save(Save { snapshot, behind }) => {
                states.save(&snapshot, behind)?;
                Done::Saved(snapshot.slot)
            }
            Self::RemoveBelow(slot) => {
                states.0.remove_below(slot)?;
                Done::Removed
            }
            Self::Repair(snapshot) => Done::Repaired(states.0.repair(&snapshot)?),
            Self::Scrub => Done::Scrubbed(states.0.scrub_next()),
        })
    }
}

/// What scrubbing came to since the start.
#[derive(Clone, Default, Debug)]
pub struct Scrubs {
    /// Pieces that were read.
    pub pieces: u64,
    /// Rounds through all of them.
    pub rounds: u64,
    /// Pieces that were found to be damaged.
    pub damaged: u64,
    /// Pieces that were written anew.
    pub repaired: u64,
    /// What was found since the last look, oldest first.
    pub problems: Vec<StorageError>,
}

impl Scrubs {
    fn note(&mut self, scrubbed: Scrubbed) {
        self.pieces += 1;
        self.rounds += u64::from(scrubbed.ends_round);
        self.damaged += u64::from(scrubbed.problem.is_some());
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.extend(scrubbed.problem);
        }
    }
}

/// Damaged pieces that wait to be told of; further ones are counted.
const PROBLEMS_MAX: usize = 64;

impl Entries {
    /// Writes tasks and makes them durable. States below the slot that it gives may go.
    pub(super) fn write(&mut self, tasks: Vec<Task>) -> Result<Option<Slot>, StorageError> {
        for task in tasks {
            match task {
                Task::Entry(entry) => self.append(&entry)?,
                Task::Epoch(membership, proof) => self.begin_epoch(membership, proof)?,
                Task::Stable(mark) => self.stable(mark)?,
            };
        }
        self.commit()
    }
}

/// See the [module](self).
pub(super) struct Queue {
    tasks: Vec<Task>,
    /// Bytes of those.
    pub waiting_bytes: usize,
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
    /// States in memory that may have what is damaged on the disk.
    repairs: Vec<Snapshot>,
    pub scrubs: Scrubs,
    /// Number of the next entry.
    next: u64,
    durable: u64,
    failed: Option<StorageError>,
    /// Nothing more comes.
    pub ending: bool,
}

impl Queue {
    /// Nothing waits; `saved` is the newest state that is there, `next` the next entry.
    pub(super) fn new(saved: Option<Slot>, next: u64, durable: u64) -> Self {
        Self {
            tasks: Vec::new(),
            waiting_bytes: 0,
            saves: VecDeque::new(),
            busy: false,
            saved,
            stable: None,
            superfluous: None,
            repairs: Vec::new(),
            scrubs: Scrubs::default(),
            next,
            durable,
            failed: None,
            ending: false,
        }
    }

    /// Fails if anything failed before.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Something failed: nothing more is written.
    pub(super) fn fail(&mut self, error: StorageError) {
        self.failed.get_or_insert(error);
        self.tasks.clear();
        self.saves.clear();
        self.repairs.clear();
        (self.stable, self.superfluous, self.busy) = (None, None, false);
        self.ending = true;
    }

    /// Whether a state is being saved, or waits to be.
    pub(super) fn is_saving(&self) -> bool {
        self.busy || !self.saves.is_empty()
    }

    /// Adds a task, and gives the number of its entry.
    pub(super) fn push(&mut self, task: Task) -> u64 {
        let number = self.next;
        self.next += 1;
        self.waiting_bytes += task.bytes();
        self.tasks.push(task);
        number
    }

    /// Adds a state that is to be saved.
    pub(super) fn save(&mut self, snapshot: Snapshot) {
        if self.saved.is_some_and(|saved| saved > snapshot.slot) {
            self.saved = None;
        }
        self.saves.push_back(Save { snapshot, behind: self.next });
    }

    /// A quorum vouches for a state that was handed over; the log says so when it is saved.
    pub(super) fn stable(&mut self, mark: Mark) {
        if self.saved.is_some_and(|saved| saved >= mark.slot) {
            self.push(Task::Stable(mark));
        } else {
            self.stable = Some(mark);
        }
    }

    /// The tasks for the log, as many as there are.
    pub(super) fn take_tasks(&mut self) -> Vec<Task> {
        self.waiting_bytes = 0;
        std::mem::take(&mut self.tasks)
    }

    /// The tasks that were taken are done, and all entries below `durable` are durable.
    pub(super) fn written(&mut self, done: Result<Option<Slot>, StorageError>, durable: u64) {
        match done {
            Ok(below) => {
                self.durable = durable;
                self.superfluous = below.or(self.superfluous);
            }
            Err(error) => self.fail(error),
        }
    }

    /// What to do next for the states, if there is anything.
    pub(super) fn take_chore(&mut self) -> Option<Chore> {
        let durable = self.durable;
        let ready = self.saves.front().is_some_and(|save| save.behind <= durable);
        let save = if ready { self.saves.pop_front().map(Chore::Save) } else { None };
        let chore = save
            .or_else(|| self.superfluous.take().map(Chore::RemoveBelow))
            .or_else(|| self.repairs.pop().map(Chore::Repair));
        self.busy |= chore.is_some();
        chore
    }

    /// The chore that was taken is done.
    pub(super) fn tended(&mut self, done: Result<Done, StorageError>) {
        self.busy = false;
        match done {
            Ok(Done::Saved(slot)) => self.saved(slot),
            Ok(Done::Removed | Done::Scrubbed(None)) => {}
            Ok(Done::Repaired(pieces)) => self.scrubs.repaired += pieces as u64,
            Ok(Done::Scrubbed(Some(scrubbed))) => self.scrubs.note(scrubbed),
            Err(error) => self.fail(error),
        }
    }

    /// Has damaged pieces written anew from these states.
    pub(super) fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        if self.failed.is_none() && self.repairs.is_empty() {
            self.repairs.extend(states);
        }
    }

    /// A state is durable: the log may say that it is stable.
    fn saved(&mut self, slot: Slot) {
        self.saved = Some(slot);
        if self.failed.is_none()
            && let Some(mark) = self.stable.take_if(|mark| mark.slot <= slot)
        {
            self.push(Task::Stable(mark));
        }
    }

    /// Whether nothing waits for the log.
    pub(super) const fn is_written(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Whether no state waits to be saved.
    pub(super) fn has_no_saves(&self) -> bool {
        self.saves.is_empty()
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn durable(&self) -> Result<u64, StorageError> {
        self.check().map(|()| self.durable)
    }

    pub(super) fn newest_saved(&self) -> Result<Option<Slot>, StorageError> {
        self.check().map(|()| self.saved)
    }
}
