//! What a replica keeps across a crash, on threads of their own, and how the disk is doing.

use crate::meter::Spreads;
use crate::status::DurabilityReport;
use pentarchy_core::executor::Executor;
use pentarchy_core::membership::Base;
use pentarchy_storage::kept::{
    self, Certificates, EntryLog as _, Group, Kept, Measured, Scrubs, Writer,
};
use std::io;
use std::ops::{Deref, DerefMut};
use tracing::{info, warn};

/// See [`kept::Keeper`].
pub struct Keeper {
    keeper: kept::Keeper<Writer>,
    disk: Measured,
    last_sync_micros: u64,
    scrubs: Scrubs,
}

impl Deref for Keeper {
    type Target = kept::Keeper<Writer>;
    fn deref(&self) -> &Self::Target {
        &self.keeper
    }
}

impl DerefMut for Keeper {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.keeper
    }
}

impl Keeper {
    /// Goes on from what was kept, or begins to keep things: see [`kept::Keeper::new`]. `wake` is
    /// called when more is durable.
    pub fn start(
        kept: Kept,
        newest: Option<Base>,
        certified: Certificates,
        wake: Box<dyn Fn() + Send + Sync>,
    ) -> io::Result<Self> {
        let keeper = kept::Keeper::new(Writer::start(kept, wake)?, newest, certified);
        Ok(Self {
            keeper,
            disk: Measured::default(),
            last_sync_micros: 0,
            scrubs: Scrubs::default(),
        })
    }

    /// Has the disk write all that a round kept, with one sync.
    pub fn end_of_round(&self) {
        if self.barrier().lag_entries() > 0 || self.backing().has_state_for_log() {
            self.backing().write();
        }
    }

    /// Takes in what the disk did since the last call.
    pub fn measure(&mut self, spreads: &mut Spreads) {
        self.disk = self.keeper.backing().measured();
        for Group { entries, micros } in self.disk.groups.drain(..) {
            spreads.sync.record(micros);
            spreads.group.record(entries);
            self.last_sync_micros = micros;
        }
    }

    /// Tells of pieces of states that are damaged on the disk, and has them written anew from the
    /// states in memory, or from what the service has: what has the same digest is the same. What
    /// is in files now need not be in memory, if that was asked for.
    pub fn mend(&mut self, executor: &mut Executor) {
        // First: what is mended must not be left to files again that have rotted.
        if let Some(cooled) = self.keeper.backing().cooled() {
            executor.cool(&cooled.tree);
        }
        let repaired = self.scrubs.repaired;
        self.scrubs = self.keeper.backing().scrubs();
        for problem in &self.scrubs.problems {
            let problem = problem.found();
            warn!(problem, "a state on the disk is damaged; mending it from memory");
        }
        if !self.scrubs.problems.is_empty() {
            for (first, last) in &self.scrubs.sections {
                executor.mend(*first..=*last);
            }
            self.keeper.backing().repair(executor.kept().cloned());
        }
        if self.scrubs.repaired > repaired {
            info!(pieces = self.scrubs.repaired - repaired, "damaged pieces were written anew");
        }
    }

    /// How the disk is doing.
    pub fn report(&self, spreads: &Spreads) -> DurabilityReport {
        DurabilityReport {
            mode: "sync",
            log_bytes: self.disk.log_bytes,
            log_bytes_max: self.disk.log_bytes_max,
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
