//! The same two jobs as those of the [`Writer`](super::Writer), without threads: whoever has it
//! says when a job begins and when it ends. A job touches the disk at its end, all at once.

use super::queue::{Chore, Done, Queue, Scrubs, Task, Tasks};
use super::{Backing, Entries, Entry, EntryLog, EpochStart, Kept, Mark, Needed, States};
use crate::error::StorageError;
use crate::snapshots::Scrubbed;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;

/// One of the two things that go on side by side.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Job {
    /// Writing the log.
    Log,
    /// Saving and removing states.
    States,
}

impl Job {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Log, Self::States];
}

/// Keeps things when it is told to, in steps of made-up time.
pub struct Stepped {
    queue: Queue,
    entries: Entries,
    states: States,
    writing: Option<Tasks>,
    tending: Option<Chore>,
}

impl Stepped {
    /// Goes on from what was kept.
    #[must_use]
    pub fn new(kept: Kept) -> Self {
        let queue = kept.queue();
        let Kept { entries, states, .. } = kept;
        Self { queue, entries, states, writing: None, tending: None }
    }

    /// Whether a job is under way.
    #[must_use]
    pub const fn is_busy(&self, job: Job) -> bool {
        match job {
            Job::Log => self.writing.is_some(),
            Job::States => self.tending.is_some(),
        }
    }

    /// Begins a job with what waits for it. False if it is under way, or nothing waits.
    pub fn begin(&mut self, job: Job) -> bool {
        if self.is_busy(job) {
            return false;
        }
        match job {
            Job::Log if self.queue.is_written() => {}
            Job::Log => self.writing = Some(self.queue.take_tasks()),
            Job::States => self.tending = self.queue.take_chore(),
        }
        self.is_busy(job)
    }

    /// Ends a job that is under way: the disk does what it is to do.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed; nothing more will be durable.
    pub fn end(&mut self, job: Job) -> Result<(), StorageError> {
        match job {
            Job::Log => {
                if let Some(tasks) = self.writing.take() {
                    let done = self.entries.write(tasks);
                    self.queue.written(done, &self.entries.log);
                }
            }
            Job::States => {
                if let Some(chore) = self.tending.take() {
                    let done = chore.carry_out(&mut self.states);
                    self.queue.tended(done);
                }
            }
        }
        self.queue.check()
    }

    /// Reads all that is in files once, to see whether it is what it was.
    pub fn scrub(&mut self) {
        let mut over = false;
        while !over {
            let done = Chore::Scrub.carry_out(&mut self.states);
            let ended = |scrubbed: &Scrubbed| scrubbed.ends_round;
            over = !matches!(&done, Ok(Done::Scrubbed(Some(scrubbed), _)) if !ended(scrubbed));
            self.queue.tended(done);
        }
    }

    /// Has damaged pieces in files written anew from these states, as far as they have them.
    pub fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        self.queue.repair(states);
    }

    /// What scrubbing, and reading for saving, came to; problems are told once.
    pub fn scrubs(&mut self) -> Scrubs {
        let told = self.queue.tell();
        self.queue.scrubs = Scrubs::default();
        told
    }

    /// The last state of which the content is in files now, if it is not to be in memory; told
    /// once.
    pub const fn cooled(&mut self) -> Option<Snapshot> {
        self.queue.take_cooled()
    }

    /// The slot of the newest state that is on the disk.
    #[must_use]
    pub fn newest(&self) -> Option<Slot> {
        self.states.0.newest().max(self.entries.chain.newest())
    }
}

impl EntryLog for Stepped {
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError> {
        self.queue.check().map(|()| self.queue.push(Task::Entry(entry)))
    }

    fn next(&self) -> u64 {
        self.queue.next()
    }

    fn durable(&self) -> Result<u64, StorageError> {
        self.queue.durable()
    }

    fn full(&self) -> Option<u64> {
        self.queue.is_full().then(|| self.entries.log.bytes_max())
    }

    fn is_behind(&self) -> bool {
        self.queue.is_behind()
    }
}

impl Backing for Stepped {
    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        self.queue.check().map(|()| self.queue.push(Task::Epoch(start)))
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<u64, StorageError> {
        self.queue.check().map(|()| self.queue.save(snapshot))
    }

    fn saved(&self) -> Result<u64, StorageError> {
        self.queue.saved_upto()
    }

    fn asks_again(&mut self) -> Option<Slot> {
        self.queue.asks_again()
    }

    fn begin_cut(&mut self) {
        self.queue.begin_cut();
    }

    fn stable(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<(), StorageError> {
        let mark = Mark { slot, needed: needed.into() };
        self.queue.check().map(|()| self.queue.stable(mark))
    }
}
