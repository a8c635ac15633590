//! What executes commands.

pub use super::backend_error::BackendError;
use super::budget::Share;
use super::inbox::{Inbox, Outcome};
use bytes::Bytes;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// Where a backend delivers what comes unasked.
pub type EventSink = Arc<dyn Fn(GatewayEvent) + Send + Sync>;

/// What a gateway hands operations to: a client of the replicas, or in tests a store of its own.
pub trait Backend: Clone + Send + Sync + 'static {
    /// Has an operation of [`pentarchy_services::kv`] ordered and executed, and completes `done`
    /// with the result, at once or later, on any thread. If there is none `within` that time, a
    /// backend that can gives the operation up. Must not block: the gateway keeps no more than its
    /// `outstanding_max` waiting, and a few of its own.
    fn submit(&self, operation: Bytes, within: Duration, done: Completion);

    /// How much longer than the limit it may take to say what came of an operation.
    fn grace(&self) -> Duration {
        Duration::ZERO
    }

    /// Delivers from now on what the service tells this client unasked, in order, on any thread.
    /// Called once, before anything is submitted. The sink does not block.
    fn on_event(&self, sink: EventSink);
}

/// What comes unasked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum GatewayEvent {
    /// The body of an event of the service.
    Event(Bytes),
    /// Some were lost.
    Lost,
}

type Callback = Box<dyn FnOnce(Result<Bytes, BackendError>) + Send>;

enum Target {
    Connection(Arc<Inbox>, u64),
    Callback(Callback),
}

/// The place of one result. Dropping it completes it with [`BackendError::Closed`], so that nobody
/// waits for it in vain. Keeps the operation's share of what may be under way until then, also if
/// its client was told meanwhile that the time is over.
pub struct Completion {
    target: Option<Target>,
    _share: Option<Share>,
}

impl Completion {
    /// Completes what a connection began under this number.
    pub(crate) const fn new(inbox: Arc<Inbox>, number: u64, share: Share) -> Self {
        Self { target: Some(Target::Connection(inbox, number)), _share: Some(share) }
    }

    /// Calls back.
    pub(crate) fn call(
        callback: impl FnOnce(Result<Bytes, BackendError>) + Send + 'static,
        share: Option<Share>,
    ) -> Self {
        Self { target: Some(Target::Callback(Box::new(callback))), _share: share }
    }

    /// Says what came of the operation. Does not block.
    pub fn complete(mut self, result: Result<Bytes, BackendError>) {
        self.finish(result);
    }

    fn finish(&mut self, result: Result<Bytes, BackendError>) {
        match self.target.take() {
            None => {}
            Some(Target::Connection(inbox, number)) => {
                inbox.complete(number, Outcome::Result(result));
            }
            Some(Target::Callback(callback)) => callback(result),
        }
    }
}

impl fmt::Debug for Completion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Completion").finish_non_exhaustive()
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
