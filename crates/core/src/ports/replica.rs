//! The replica's pair: what every protocol that orders requests needs. What only some need is a
//! capability, nested in one variant each way.

pub mod pillar;
pub mod replying;
pub mod slot_results;
pub mod speculation;
pub mod wedging;

use crate::batch::Batch;
use crate::digest::Digest;
use crate::ids::{Millis, ReplicaSet, Slot, View};
use crate::request::Envelope;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What the host tells a replica core.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A client's envelope, authentic and not yet executed. On a backup it starts the clock by
    /// which the primary is judged.
    Request {
        /// The envelope.
        envelope: Arc<Envelope>,
        /// Those of its numbers that are settled already; never all of them.
        settled: Vec<u64>,
        /// Whether it comes from another replica, by [`Output::Admit`].
        passed_on: bool,
    },
    /// All that had arrived was delivered: propose what waits. Carries the clock: it is data.
    Round {
        /// The host's clock. Never goes back.
        now: Millis,
    },
    /// Answer to [`Output::Checkpoint`].
    Checkpointed {
        /// The slot.
        slot: Slot,
        /// Digest of service state and client table after that slot.
        state: Digest,
    },
    /// Answer to [`Output::Fetch`]: a state was fetched, checked and installed. Not
    /// necessarily the one that was wanted last.
    Installed {
        /// The slot whose state it is.
        slot: Slot,
    },
    /// The log fills up and no newer state becomes stable. What this core persisted before may go:
    /// in this step it persists again all that it needs beside the last state that it said to be
    /// stable ([`Output::Stable`]).
    Compact,
    /// To a core that speculates.
    Speculation(speculation::Input),
    /// To a core that hears what came of a slot.
    SlotResults(slot_results::Input),
    /// To a core that replies to clients itself.
    Replying(replying::Input),
    /// To a core that an authority outside can stop.
    Wedging(wedging::Input),
    /// To a core that is one of several whose orders are merged, or that merges them.
    Pillar(pillar::Input),
}

/// What a replica core asks of its host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// If this is not executed yet, it is to come back as [`Input::Request`]; its
    /// authentication was checked. Its client is not answered: it did not ask here, and whoever
    /// passes old envelopes on could have it flooded.
    Admit {
        /// An envelope that another replica passed on, or of what was taken back.
        envelope: Arc<Envelope>,
    },
    /// There is no room for this envelope: its client is to try again later.
    Full {
        /// The envelope that the core did not take.
        envelope: Arc<Envelope>,
    },
    /// This replica may have executed up to there before it stopped, or took that back, and may
    /// have told clients so. Until it has done so again, its state is no answer to a query.
    Resumed {
        /// The highest slot that it may have executed.
        upto: Slot,
    },
    /// Execute and answer the clients. Slots come in order, each once; after an installed
    /// snapshot they go on behind it.
    Execute {
        /// The slot.
        slot: Slot,
        /// The batch that the slot orders.
        batch: Arc<Batch>,
    },
    /// Take a snapshot after this slot, which is final, and say its digest, once it is durable
    /// if anything is.
    Checkpoint {
        /// The slot.
        slot: Slot,
    },
    /// A quorum vouches for this state: snapshots below it may go.
    ///
    /// If records are kept: what the core has persisted from here on, in the step that says
    /// this and in those that follow, is all it needs to go on from the state at that slot. So
    /// the log below may go, once that state is durable here, and so may older states when the
    /// log says durably that this one is stable. Of its own certified messages the core keeps
    /// those again, with their certificates, that have come back to it; those that have not
    /// are the host's to keep, with what the trusted device remembers.
    Stable {
        /// The slot.
        slot: Slot,
        /// The vouched digest.
        state: Digest,
    },
    /// Get this state from these replicas; a quorum vouches for it. If another one is being
    /// fetched, and something comes of that, that is fetched to its end and this is forgotten:
    /// a busy group has a newer state more often than one is moved.
    Fetch {
        /// The slot.
        slot: Slot,
        /// The vouched digest.
        state: Digest,
        /// Who vouched.
        from: ReplicaSet,
    },
    /// A view was entered; for logs.
    Entered {
        /// The view.
        view: View,
        /// Why the one before was left.
        reason: &'static str,
    },
    /// This replica's own state is wrong: a quorum vouches for another digest. Alarm.
    Diverged {
        /// The slot.
        slot: Slot,
        /// What this replica had.
        mine: Digest,
        /// What the quorum has.
        theirs: Digest,
    },
    /// From a core that speculates.
    Speculation(speculation::Output),
    /// From a core that speaks with clients.
    Replying(replying::Output),
    /// From a core that an authority outside can stop.
    Wedging(wedging::Output),
    /// From a core that is one of several whose orders are merged, or that merges them.
    Pillar(pillar::Output),
}

impl Output {
    /// Whether it has the executor do something that only makes sense if that is where the core
    /// believes it to be.
    #[must_use]
    pub const fn needs_execution_in_step(&self) -> bool {
        match self {
            Self::Execute { .. } | Self::Checkpoint { .. } => true,
            Self::Speculation(output) => output.needs_execution_in_step(),
            _ => false,
        }
    }
}
