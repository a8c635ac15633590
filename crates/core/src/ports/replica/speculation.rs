//! The capability to speculate: to execute what may be taken back. A core that does says so in its
//! rules ([`Rules::speculative`](crate::protocol::Rules::speculative)).

use crate::batch::Batch;
use crate::digest::Digest;
use crate::ids::{ClientId, Slot, View};
use crate::ports::client::ToClient;
use alloc::sync::Arc;

/// What the host tells a core that speculates.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// Somebody waits until what was [speculated](Output::Speculate) up to this slot is final: a
    /// client that asks again, one that is to be told an event, or the end of the epoch.
    Wanted {
        /// The slot.
        slot: Slot,
    },
}

/// What a core that speculates asks of its host.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Execute, although this may be taken back, and tell each client what came of its requests
    /// and on which history that rests: it decides when to act on it. What the service tells
    /// clients unasked waits until the slot is final. What the core asked to be kept before is
    /// durable when a client is told.
    Speculate {
        /// Whether clients are told now; if not, [`Output::Answer`] says when.
        answers: bool,
        /// The slot.
        slot: Slot,
        /// The batch that the slot orders.
        batch: Arc<Batch>,
        /// The view in which the slot orders it.
        view: View,
        /// Names all that was executed up to here.
        history: Digest,
    },
    /// Tell clients what came of this slot, which was speculated: they were not told then, or it
    /// stands in another view now.
    Answer {
        /// The slot.
        slot: Slot,
        /// The view in which it stands.
        view: View,
    },
    /// What was speculated up to this slot is final.
    Commit {
        /// The slot.
        upto: Slot,
    },
    /// Take back what was speculated behind this slot. What is executed next follows on it.
    Rollback {
        /// The last slot that stays.
        after: Slot,
    },
    /// What was speculated and is not final now stands in this view, on the same histories.
    /// Clients that may wait for results of it are told so.
    Restate {
        /// The view.
        view: View,
    },
    /// Tell a client what helps it to act on a speculative result, or to know it final. What the
    /// core asked to be kept before is durable then.
    Tell {
        /// Whom.
        client: ClientId,
        /// What.
        message: ToClient,
    },
}

impl Output {
    /// See [`super::Output::needs_execution_in_step`].
    #[must_use]
    pub const fn needs_execution_in_step(&self) -> bool {
        !matches!(self, Self::Restate { .. } | Self::Tell { .. })
    }
}

impl From<Input> for super::Input {
    fn from(input: Input) -> Self {
        Self::Speculation(input)
    }
}

impl From<Output> for super::Output {
    fn from(output: Output) -> Self {
        Self::Speculation(output)
    }
}
