//! A client with the calls of BFT-SMaRt's `ServiceProxy` and `AsynchServiceProxy` (Bessani et al.,
//! *State Machine Replication for the Masses with BFT-SMART*, DSN 2014, sections IV and V.B).

use crate::completion::Completion;
use crate::error::RequestError;
use crate::handle::Client;
use crate::judging::{Comparator, Extractor, Judgement, OnReply, Tally};
use bytes::Bytes;
use pentarchy_core::ids::ReplicaId;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long a call waits for its result unless told otherwise: as long as BFT-SMaRt's.
pub const PATIENCE: Duration = Duration::from_secs(40);

/// Whether an operation is ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// It is, and executed once by every replica.
    Ordered,
    /// It changes nothing, and replicas may answer it from their state; it is ordered if they do
    /// not agree. What such a read guarantees, the protocol states.
    Unordered,
}

/// Names an operation that was submitted by [`ServiceProxy::asynchronous`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct RequestId(pub(crate) u64);

/// Is told what becomes of an operation. Runs on the client's thread: it must be short, must not
/// block, and must not call what waits in [`ServiceProxy`].
pub trait ReplyListener: Send {
    /// A replica replied with this. It is one replica's word and proves nothing. Not called for a
    /// protocol whose client has to judge replies itself ([`RequestError::JudgedByProtocol`]).
    fn reply(&mut self, from: ReplicaId, reply: &Bytes);
    /// Enough replicas agree, or none of that will come any more. Called once, at the end.
    fn done(&mut self, result: Result<Bytes, RequestError>);
}

/// Calls as BFT-SMaRt's `ServiceProxy` and `AsynchServiceProxy` have them (Bessani et al., DSN
/// 2014, sections IV and V.B). Cheap to clone; clones share the connection.
///
/// ```no_run
/// # fn example(client: pentarchy_client::Client) -> Result<(), pentarchy_client::RequestError> {
/// let proxy = pentarchy_client::ServiceProxy::new(client);
/// let before = proxy.ordered("increment")?;
/// let now = proxy.unordered("read")?;
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct ServiceProxy {
    client: Client,
    judgement: Judgement,
    patience: Duration,
}

impl ServiceProxy {
    /// Calls through this client. Replies are compared byte for byte.
    #[must_use]
    pub fn new(client: Client) -> Self {
        Self { client, judgement: Judgement::default(), patience: PATIENCE }
    }

    /// The same, with a rule of the application's own for which replies are the same.
    #[must_use]
    pub fn comparing(mut self, comparator: Arc<dyn Comparator>) -> Self {
        self.judgement.comparator = Some(comparator);
        self
    }

    /// The same, with a rule of the application's own for what follows from replies.
    #[must_use]
    pub fn extracting(mut self, extractor: Arc<dyn Extractor>) -> Self {
        self.judgement.extractor = Some(extractor);
        self
    }

    /// The same, but a call waits for so long.
    #[must_use]
    pub const fn waiting(mut self, patience: Duration) -> Self {
        self.patience = patience;
        self
    }

    /// Has an operation ordered and executed, and waits for its result (`invokeOrdered`).
    ///
    /// # Errors
    /// [`RequestError`]; after [`RequestError::TimedOut`] it may still be executed.
    pub fn ordered(&self, operation: impl Into<Bytes>) -> Result<Bytes, RequestError> {
        self.call(operation.into(), Kind::Ordered)
    }

    /// Has replicas answer a read-only operation, and waits for the result (`invokeUnordered`). A
    /// long result is told by each replica; `invokeUnorderedHashed` has no counterpart.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn unordered(&self, operation: impl Into<Bytes>) -> Result<Bytes, RequestError> {
        self.call(operation.into(), Kind::Unordered)
    }

    /// Submits an operation, and has a listener told each replica's reply and what follows from
    /// them (`invokeAsynchRequest`). Blocks while too many are outstanding.
    pub fn asynchronous(
        &self,
        operation: impl Into<Bytes>,
        kind: Kind,
        listener: impl ReplyListener + 'static,
    ) -> RequestId {
        let listener = Arc::new(Mutex::new(listener));
        let hears = listener.clone();
        let on_reply: OnReply = Box::new(move |from, reply| {
            hears.lock().unwrap_or_else(PoisonError::into_inner).reply(from, reply);
        });
        let done = Completion::call(move |result| {
            listener.lock().unwrap_or_else(PoisonError::into_inner).done(result);
        });
        let tally = Tally::new(self.judgement.clone(), Some(on_reply));
        RequestId(self.client.judge(operation.into(), kind == Kind::Unordered, tally, done))
    }

    /// Waits no longer for an operation (`cleanAsynchRequest`): its listener is told
    /// [`RequestError::Cancelled`], unless it was told before. The operation may still be executed.
    pub fn cancel(&self, id: RequestId) {
        self.client.cancel(id.0);
    }

    fn call(&self, operation: Bytes, kind: Kind) -> Result<Bytes, RequestError> {
        if self.judgement.is_plain() {
            let pending = match kind {
                Kind::Ordered => self.client.submit(operation),
                Kind::Unordered => self.client.query(operation),
            };
            return pending.wait_timeout(self.patience);
        }
        let (pending, done) = crate::completion::Pending::new();
        let tally = Tally::new(self.judgement.clone(), None);
        let id = self.client.judge(operation, kind == Kind::Unordered, tally, done);
        let result = pending.wait_timeout(self.patience);
        if result == Err(RequestError::TimedOut) {
            self.client.cancel(id);
        }
        result
    }
}
