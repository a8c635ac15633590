//! What executes commands.

use super::budget::Share;
use super::replies::Replies;
use bytes::Bytes;
use std::sync::Arc;

/// What a gateway hands commands to: a client of the replicas, or in tests a store of its own.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Has an operation of [`pentarchy_services::kv::command`] ordered and executed, and completes
    /// `done` with the result, at once or later, on any thread. Operations of one connection are
    /// submitted in their order; whether those that are under way together also take effect in it
    /// is up to the backend, and what clients of the gateway can rely on. Must not block: the
    /// gateway keeps no more than its `outstanding_max` waiting.
    fn submit(&self, operation: Bytes, done: Completion);
}

/// Why there is no result.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum BackendError {
    /// Not executed: too much is outstanding.
    Busy,
    /// Not executed: too large.
    TooLarge,
    /// Settled: executed once with a result that is no longer kept, or given up before it ran.
    Forgotten,
    /// No result in time. May still be executed.
    TimedOut,
    /// The backend ended. May have been executed.
    Closed,
}

impl BackendError {
    /// The line that follows the `-` in RESP.
    #[must_use]
    pub const fn line(self) -> &'static str {
        match self {
            Self::Busy => "BUSY too many requests are outstanding; not executed, try again",
            Self::TooLarge => "ERR command is larger than 1048576 bytes; not executed",
            Self::Forgotten => {
                "ERR settled, but the reply is no longer kept; it was executed at most once"
            }
            Self::TimedOut => "ERR timed out waiting for the replicas; it may still be executed",
            Self::Closed => "ERR the gateway is closing; the command may or may not be executed",
        }
    }
}

/// The place of one reply. Dropping it completes it with [`BackendError::Closed`], so that no place
/// stays empty and holds up the replies behind it. Keeps the operation's share of what may be under
/// way until then, also if its client was told meanwhile that the time is over.
#[derive(Debug)]
pub struct Completion {
    replies: Arc<Replies>,
    _share: Share,
    number: u64,
    completed: bool,
}

impl Completion {
    pub(crate) const fn new(replies: Arc<Replies>, share: Share, number: u64) -> Self {
        Self { replies, _share: share, number, completed: false }
    }

    /// Says what came of the operation. Does not block.
    pub fn complete(mut self, result: Result<Bytes, BackendError>) {
        self.finish(result);
    }

    fn finish(&mut self, result: Result<Bytes, BackendError>) {
        if !self.completed {
            self.completed = true;
            self.replies.complete(self.number, result);
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.finish(Err(BackendError::Closed));
    }
}

const _: () = assert!(
    pentarchy_core::limits::OPERATION_BYTES_MAX == 1_048_576,
    "the line of TooLarge says so"
);
