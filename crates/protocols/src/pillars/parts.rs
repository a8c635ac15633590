//! Brings up the parts of a replica, each on its own: for a host that gives each a thread.

use super::cell::{Cell, Pillar, of_cell};
use super::merge::Rows;
use super::stage::Stage;
use crate::common::parts::{Part, Parts};
use alloc::boxed::Box;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::erased::{CoreEffect, Erased};
use pentarchy_core::ids::Slot;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Memory, Setup};

impl Parts {
    /// Brings them up, each with its own part of the log.
    #[must_use]
    pub fn start<P: Pillar>(mut setup: Setup) -> Self {
        let records = match &mut setup.memory {
            Memory::Volatile => Vec::new(),
            Memory::Durable { records, .. } => core::mem::take(records),
        };
        let cell = |pillar: u8| {
            let its = |record: &&Bytes| record.first() == Some(&pillar);
            let mut setup = of_cell(&setup, pillar);
            if let Memory::Durable { records: of_cell, .. } = &mut setup.memory {
                of_cell.extend(records.iter().filter(its).cloned());
            }
            let mut effects = Vec::new();
            let core = Box::new(Erased::<Cell<P>>::start(setup, &mut effects));
            Part { core, effects }
        };
        let cells: Vec<Part> = (0..setup.membership.lane.pillars).map(cell).collect();
        let rows = Rows::of(&setup.membership);
        let said = cells.iter().map(|cell| cell.effects.iter().filter_map(resumed).max());
        let spoken = rows.spoken(said);
        let mut effects = Vec::new();
        let stage = Erased::<Stage>::start(setup, &mut effects);
        if let Some(upto) = spoken {
            let upto = upto.max(stage.core().executed());
            effects.push(CoreEffect::Output(Output::Resumed { upto }));
        }
        Self { stage: Part { core: Box::new(stage), effects }, cells }
    }
}

/// Up to which row a pillar may have executed before a restart.
fn resumed(effect: &CoreEffect) -> Option<Slot> {
    match effect {
        CoreEffect::Output(Output::Resumed { upto }) => Some(*upto),
        _ => None,
    }
}
