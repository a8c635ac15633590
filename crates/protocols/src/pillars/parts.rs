//! Brings up the parts of a replica, each on its own: for a host that gives each a thread.

use super::merge::Rows;
use super::merger::Merger;
use super::pillar_core::{Pillar, PillarCore, of_cell};
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
        let pillar_core = |pillar: u8| {
            let its = |record: &&Bytes| record.first() == Some(&pillar);
            let mut setup = of_cell(&setup, pillar);
            if let Memory::Durable { records: of_cell, .. } = &mut setup.memory {
                of_cell.extend(records.iter().filter(its).cloned());
            }
            let mut effects = Vec::new();
            let core = Box::new(Erased::<PillarCore<P>>::start(setup, &mut effects));
            Part { core, effects }
        };
        let pillar_cores: Vec<Part> = (0..setup.membership.lane.pillars).map(pillar_core).collect();
        let rows = Rows::of(&setup.membership);
        let said = pillar_cores
            .iter()
            .map(|pillar_core| pillar_core.effects.iter().filter_map(resumed).max());
        let spoken = rows.spoken(said);
        let mut effects = Vec::new();
        let merger = Erased::<Merger>::start(setup, &mut effects);
        if let Some(upto) = spoken {
            let upto = upto.max(merger.core().executed());
            effects.push(CoreEffect::Output(Output::Resumed { upto }));
        }
        Self { merger: Part { core: Box::new(merger), effects }, pillar_cores }
    }
}

/// Up to which row a pillar may have executed before a restart.
fn resumed(effect: &CoreEffect) -> Option<Slot> {
    match effect {
        CoreEffect::Output(Output::Resumed { upto }) => Some(*upto),
        _ => None,
    }
}
