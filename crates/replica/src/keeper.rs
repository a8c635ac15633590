//! What a replica keeps across a crash, on threads of their own, and how the disk is doing.

use crate::meter::Spreads;
use crate::status::DurabilityReport;
use pentarchy_core::membership::Base;
use pentarchy_storage::kept::{self, Backing as _, Certificates, Group, Kept, Measured, Writer};
use std::io;
use std::ops::{Deref, DerefMut};

/// See [`kept::Keeper`].
pub struct Keeper {
    keeper: kept::Keeper<Writer>,
    disk: Measured,
    last_sync_micros: u64,
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
        Ok(Self { keeper, disk: Measured::default(), last_sync_micros: 0 })
    }

    /// Has the disk write all that a round kept, with one sync.
    pub fn end_of_round(&self) {
        if self.lag_entries() > 0 {
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

    /// How the disk is doing.
    pub fn report(&self, spreads: &Spreads) -> DurabilityReport {
        DurabilityReport {
            mode: "sync",
            log_bytes: self.disk.log_bytes,
            log_bytes_max: self.disk.log_bytes_max,
            lag_entries: self.lag_entries(),
            waiting_messages: self.waiting_messages() as u64,
            entries: spreads.group.sum(),
            syncs: spreads.sync.count(),
            sync_micros: spreads.sync.sum(),
            last_sync_micros: self.last_sync_micros,
            saved: self.backing().saved().ok().flatten().map(|slot| slot.0),
        }
    }
}
