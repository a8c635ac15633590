//! What a replica keeps across a crash, and how the disk is doing.

use crate::meter::Spreads;
use crate::status::DurabilityReport;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_storage::kept::{Backing, DurableStore, Group, Measured, Scrubs, Stepped, Writer};
use std::ops::{Deref, DerefMut};
use tracing::{info, warn};

/// A disk that writes beside the machine, which only looks how far it has come.
pub trait Disk: Backing {
    /// Has all written that was handed over.
    fn write(&mut self);

    /// Whether a state waits to be written into the log.
    fn has_state_for_log(&self) -> bool;

    /// How the log stands; what became durable is told once.
    fn measured(&mut self) -> Measured;

    /// What scrubbing came to; problems are told once.
    fn scrubs(&mut self) -> Scrubs;

    /// The last state of which the content is in files now, if it is not to be in memory; told
    /// once.
    fn cooled(&mut self) -> Option<Snapshot>;

    /// Has damaged pieces written anew from these states, as far as they have them.
    fn repair(&mut self, states: impl Iterator<Item = Snapshot>);

    /// The slot of the newest state that is durable, and not known to be wrong.
    fn newest(&self) -> Option<Slot>;
}

impl Disk for Writer {
    fn write(&mut self) {
        Self::write(self);
    }
    fn has_state_for_log(&self) -> bool {
        Self::has_state_for_log(self)
    }
    fn measured(&mut self) -> Measured {
        Self::measured(self)
    }
    fn scrubs(&mut self) -> Scrubs {
        Self::scrubs(self)
    }
    fn cooled(&mut self) -> Option<Snapshot> {
        Self::cooled(self)
    }
    fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        Self::repair(self, states);
    }
    fn newest(&self) -> Option<Slot> {
        Self::newest(self)
    }
}

/// Its owner says when its jobs begin and end, so it is not told to write.
impl Disk for Stepped {
    fn write(&mut self) {}
    fn has_state_for_log(&self) -> bool {
        false
    }
    fn measured(&mut self) -> Measured {
        Measured::default()
    }
    fn scrubs(&mut self) -> Scrubs {
        Self::scrubs(self)
    }
    fn cooled(&mut self) -> Option<Snapshot> {
        Self::cooled(self)
    }
    fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        Self::repair(self, states);
    }
    fn newest(&self) -> Option<Slot> {
        Self::newest(self)
    }
}

/// States that are saved for the next incarnation of a replica, in the background: nothing waits
/// for them.
pub trait StateCache: Send {
    /// A quorum vouches for this state.
    fn offer(&self, snapshot: &Snapshot);

    /// The last state of which the content is in files now, if it is not to be in memory; told
    /// once.
    fn cooled(&self) -> Option<Snapshot>;

    /// Sections that could not be read when they were to be saved; told once.
    fn unread(&self) -> Vec<u32>;

    /// Whether the disk has failed, so that nothing more is saved.
    fn has_ended(&self) -> bool;

    /// The slot of the newest state that is saved.
    fn saved(&self) -> Option<Slot>;
}

/// A durable store, with what operators are told of its disk.
pub struct ObservedStore<D> {
    store: DurableStore<D>,
    measured: Measured,
    last_sync_micros: u64,
    scrubs: Scrubs,
}

impl<D> Deref for ObservedStore<D> {
    type Target = DurableStore<D>;
    fn deref(&self) -> &Self::Target {
        &self.store
    }
}

impl<D> DerefMut for ObservedStore<D> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.store
    }
}

impl<D: Disk> ObservedStore<D> {
    /// Of this store.
    pub fn new(store: DurableStore<D>) -> Self {
        let (measured, scrubs) = (Measured::default(), Scrubs::default());
        Self { store, measured, last_sync_micros: 0, scrubs }
    }

    /// Has the disk write all that a round kept, with one sync.
    pub(crate) fn end_of_round(&mut self) {
        if self.barrier().lag_entries() > 0 || self.backing().has_state_for_log() {
            self.backing_mut().write();
        }
    }

    /// Takes in what the disk did since the last call.
    pub(crate) fn measure(&mut self, spreads: &mut Spreads) {
        self.measured = self.store.backing_mut().measured();
        for Group { entries, micros } in self.measured.groups.drain(..) {
            spreads.sync.record(micros);
            spreads.group.record(entries);
            self.last_sync_micros = micros;
        }
    }

    /// Tells of pieces of states that are damaged on the disk, and has them written anew from the
    /// states in memory, or from what the service has: what has the same digest is the same. What
    /// is in files now need not be in memory, if that was asked for.
    pub(crate) fn mend(&mut self, executor: &mut Executor) {
        // First: what is mended must not be left to files again that have rotted.
        if let Some(cooled) = self.store.backing_mut().cooled() {
            executor.cool(&cooled.tree);
        }
        let repaired = self.scrubs.repaired;
        self.scrubs = self.store.backing_mut().scrubs();
        for problem in &self.scrubs.problems {
            let problem = problem.found();
            warn!(problem, "a snapshot on disk is damaged; repairing it from memory");
        }
        if !self.scrubs.problems.is_empty() {
            for (first, last) in &self.scrubs.sections {
                executor.mend(*first..=*last);
            }
            self.store.backing_mut().repair(executor.kept().cloned());
        }
        if self.scrubs.repaired > repaired {
            info!(pieces = self.scrubs.repaired - repaired, "damaged pieces rewritten");
        }
    }

    /// How the disk is doing.
    pub(crate) fn report(&self, spreads: &Spreads) -> DurabilityReport {
        DurabilityReport {
            mode: "sync",
            log_bytes: self.measured.log_bytes,
            log_bytes_max: self.measured.log_bytes_max,
            log_full: self.backing().full().is_some(),
            lag_entries: self.barrier().lag_entries(),
            waiting_messages: self.waiting_messages() as u64,
            entries: spreads.group.sum(),
            syncs: spreads.sync.count(),
            sync_micros: spreads.sync.sum(),
            last_sync_micros: self.last_sync_micros,
            scrubbed_pieces: self.scrubs.pieces,
            scrub_rounds: self.scrubs.rounds,
            damaged_pieces: self.scrubs.damaged,
            repaired_pieces: self.scrubs.repaired,
            saved: self.backing().newest().map(|slot| slot.0),
        }
    }
}
