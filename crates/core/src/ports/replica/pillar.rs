//! The capability to share an order: what several cores, each of which orders a part of it, and the
//! core that merges them tell each other. Only `pentarchy_protocols::pillars` has such cores. The
//! types are here because hosts carry them between threads.

use crate::batch::Batch;
use crate::ids::{ReplicaId, Slot};
use crate::status::Status;
use alloc::boxed::Box;
use alloc::sync::Arc;

/// How a pillar stands, as far as those need to know who run it beside others. Slots are the
/// pillar's own.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PillarStatus {
    /// View, role and progress.
    pub status: Status,
    /// Whether this replica orders in it now.
    pub leads: bool,
    /// The slot that is proposed or taken up next.
    pub next_slot: Slot,
    /// The last slot of which it has heard that others are at it.
    pub heard_of: Slot,
    /// If a request waits here for another replica to order it: the slot in which the last one
    /// that came could be ordered at the earliest.
    pub wants: Option<Slot>,
    /// How often it was told from where to go on, by [`Installed`](super::Input::Installed) and
    /// [`Input::Moved`]. The pillar asks again for a state that it asked for before the last of
    /// these, if it still lacks that state.
    pub answers: u64,
}

/// What a pillar is told by the merger, and the merger by the host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// To a pillar: what others decided waits for its slots up to this one. They are to be ordered,
    /// empty if nothing waits.
    Fill {
        /// The slot.
        slot: Slot,
        /// Nobody if a later one is decided elsewhere. Otherwise the primary that a request waits
        /// for elsewhere: it means nothing to a pillar that has another one by now.
        waits_for: Option<ReplicaId>,
    },
    /// To a pillar: somebody is at this slot elsewhere. Whoever is or becomes primary orders its
    /// slots up to it at the end of its next round, empty if nothing waits. Nobody is judged by it.
    Heard {
        /// The slot.
        slot: Slot,
    },
    /// To a pillar: another one decided this, which costs whoever orders here as well.
    Beside {
        /// What it decided.
        batch: Arc<Batch>,
    },
    /// To a pillar: this was executed, whichever pillar decided it when. It need not wait any more.
    Settled {
        /// What was executed.
        batch: Arc<Batch>,
    },
    /// To a pillar: the state after this slot was installed, and what is executed next comes behind
    /// it. What waits may be settled.
    Moved {
        /// The slot.
        slot: Slot,
        /// Whether execution goes back, so that what came behind the slot is to be said again.
        back: bool,
        /// The last slot, up to this one, whose state this pillar had asked for.
        asked: Option<Slot>,
    },
    /// To the merger: a pillar said this.
    Said {
        /// The pillar's number.
        pillar: u8,
        /// The pillar's output.
        output: Box<super::Output>,
    },
}

/// What a pillar and the merger say beside what every core does.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// From a pillar, for its host, answer to [`Compact`](super::Input::Compact): what it persists
    /// from here on is all it needs to go on from where it stands. Said again, when that much is
    /// persisted.
    ///
    /// Pillars are told to compact also when a newer state became stable: what
    /// [`Stable`](super::Output::Stable) says of a core's records, here this says of each pillar's.
    Compacting {
        /// The pillar's number, with which its records begin.
        pillar: u8,
        /// Whether it is said again.
        is_done: bool,
    },
    /// From a pillar, for the merger: how it stands. Said at the end of a round if it has changed,
    /// and at once when another state is stable or it was told from where to go on.
    Status(Box<PillarStatus>),
    /// From the merger: a pillar is to be told this.
    Tell {
        /// The pillar's number.
        pillar: u8,
        /// What it is to be told.
        input: Box<super::Input>,
    },
}

impl From<Input> for super::Input {
    fn from(input: Input) -> Self {
        Self::Pillar(input)
    }
}

impl From<Output> for super::Output {
    fn from(output: Output) -> Self {
        Self::Pillar(output)
    }
}
