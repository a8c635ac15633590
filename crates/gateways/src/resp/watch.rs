//! How others see a gateway that runs.

use super::shared::Shared;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// A window on a gateway. Cheap to clone.
#[derive(Clone)]
pub struct Watch(pub(super) Arc<Shared>);

/// What a gateway has done and is doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Numbers {
    /// Time since it was started.
    pub uptime: Duration,
    /// Connections that came.
    pub connections: u64,
    /// Those that were refused because there were too many.
    pub refused: u64,
    /// Connections there are.
    pub clients: usize,
    /// Commands received.
    pub commands: u64,
    /// Commands that the group did not answer.
    pub failures: u64,
    /// Commands that wait for the group.
    pub under_way: usize,
    /// How many may.
    pub under_way_limit: usize,
}

impl Watch {
    /// The numbers of this moment.
    #[must_use]
    pub fn numbers(&self) -> Numbers {
        let Shared { config, started, budget, counters, .. } = &*self.0;
        Numbers {
            uptime: started.elapsed(),
            connections: counters.connections.load(Relaxed),
            refused: counters.rejected.load(Relaxed),
            clients: self.0.connected(),
            commands: counters.commands.load(Relaxed),
            failures: counters.failures.load(Relaxed),
            under_way: config.outstanding_max.saturating_sub(budget.commands_left()),
            under_way_limit: config.outstanding_max,
        }
    }
}
