//! The handle that applications hold.

use crate::completion::{Completion, Completions, Pending};
use crate::config::ClientConfig;
use crate::error::{ConnectError, RequestError};
use crate::host::Host;
use crate::inbox::{Command, Inbox, Question};
use crate::judging::Tally;
use bytes::Bytes;
use pentarchy_core::ids::{ClientId, ReplicaId};
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::transfer;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Has an operation ordered, however long that takes.
const fn submit(operation: Bytes, done: Completion) -> Command {
    Command::Submit(operation, None, done)
}

/// A connected client. Cheap to clone; when the last clone is dropped, its thread ends and what is
/// outstanding completes with [`RequestError::Closed`].
#[derive(Clone)]
pub struct Client(Arc<Shared>);

struct Shared {
    inbox: Arc<Inbox>,
    id: ClientId,
    /// Names judged operations.
    judged: AtomicU64,
    thread: Mutex<Option<JoinHandle<()>>>,
}

impl Client {
    /// Starts the client's thread, which dials every replica and keeps dialling those that are
    /// down. Does not wait for any of them.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub fn connect(config: ClientConfig) -> Result<Self, ConnectError> {
        let id = config.keys.client_id();
        let (host, inbox) = Host::new(config)?;
        let thread = std::thread::Builder::new()
            .name("pentarchy-client".into())
            .spawn(move || host.run())?;
        let (judged, thread) = (AtomicU64::new(0), Mutex::new(Some(thread)));
        Ok(Self(Arc::new(Shared { inbox, id, judged, thread })))
    }

    /// Who this client is.
    #[must_use]
    pub fn id(&self) -> ClientId {
        self.0.id
    }

    /// The group as this client knows it: it follows the group through changes, if it was
    /// configured to.
    #[must_use]
    pub fn membership(&self) -> Arc<Membership> {
        self.0.inbox.membership()
    }

    /// Has an operation ordered and executed. Blocks while too many are outstanding.
    pub fn submit(&self, operation: impl Into<Bytes>) -> Pending {
        self.pending(operation.into(), submit, true)
    }

    /// Like [`Self::submit`], but fails at once with [`RequestError::Full`] where that blocks.
    pub fn try_submit(&self, operation: impl Into<Bytes>) -> Pending {
        self.pending(operation.into(), submit, false)
    }

    /// Has an operation ordered and executed, and waits for its result.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn call(&self, operation: impl Into<Bytes>) -> Result<Bytes, RequestError> {
        self.submit(operation).wait()
    }

    /// Answers a read-only operation by the protocol's fast read, whose guarantee the protocol
    /// states. Blocks while too many operations are outstanding.
    pub fn query(&self, operation: impl Into<Bytes>) -> Pending {
        self.pending(operation.into(), Command::Query, true)
    }

    /// Like [`Self::submit`], with a callback instead of something to wait for. The callback runs
    /// on the client's thread: it must be short, must not block, and must not call what blocks
    /// here.
    pub fn submit_with(
        &self,
        operation: impl Into<Bytes>,
        callback: impl FnOnce(Result<Bytes, RequestError>) + Send + 'static,
    ) {
        self.hand_over(operation.into(), Completion::call(callback), submit, true);
    }

    /// Like [`Self::submit_with`], with a limit for the time that the result may take. When it is
    /// over the operation is given up, by an ordered request that settles its number: then its
    /// result comes after all, or [`RequestError::GivenUp`] says that it was not executed and never
    /// will be. If that is not known [`GIVE_UP_TIME`](crate::GIVE_UP_TIME) later, as too few
    /// replicas answer, the error is [`RequestError::TimedOut`]: it may still be executed. Nothing
    /// that is submitted later is sent before it is settled, so whatever comes after it is executed
    /// after it or without it.
    pub fn submit_within(
        &self,
        operation: impl Into<Bytes>,
        limit: Duration,
        callback: impl FnOnce(Result<Bytes, RequestError>) + Send + 'static,
    ) {
        let command = |operation, done| Command::Submit(operation, Some(limit), done);
        self.hand_over(operation.into(), Completion::call(callback), command, true);
    }

    /// Whether another host uses this client's key, which took its place; see
    /// [`RequestError::Overtaken`]. Stays so.
    #[must_use]
    pub fn is_overtaken(&self) -> bool {
        self.0.inbox.is_overtaken()
    }

    /// Like [`Self::submit_with`] for [`Self::query`].
    pub fn query_with(
        &self,
        operation: impl Into<Bytes>,
        callback: impl FnOnce(Result<Bytes, RequestError>) + Send + 'static,
    ) {
        self.hand_over(operation.into(), Completion::call(callback), Command::Query, true);
    }

    /// Has many operations ordered and executed, in this order, with one hand-over for all of them.
    /// The results go to `completions`, each with the tag that came with its operation. Blocks
    /// while too many are outstanding.
    ///
    /// # Errors
    /// [`RequestError::Closed`] if the client has ended; what was not handed over then completes
    /// with the same error.
    pub fn submit_all(
        &self,
        operations: impl IntoIterator<Item = (u64, Bytes)>,
        completions: &Arc<Completions>,
    ) -> Result<(), RequestError> {
        self.hand_over_all(operations, completions, submit)
    }

    /// Like [`Self::submit_all`] for [`Self::query`].
    ///
    /// # Errors
    /// As there.
    pub fn query_all(
        &self,
        operations: impl IntoIterator<Item = (u64, Bytes)>,
        completions: &Arc<Completions>,
    ) -> Result<(), RequestError> {
        self.hand_over_all(operations, completions, Command::Query)
    }

    fn hand_over_all(
        &self,
        operations: impl IntoIterator<Item = (u64, Bytes)>,
        completions: &Arc<Completions>,
        command: impl Fn(Bytes, Completion) -> Command,
    ) -> Result<(), RequestError> {
        let mut commands = Vec::new();
        for (tag, operation) in operations {
            let done = Completion::queue(completions, tag);
            if operation.len() > OPERATION_BYTES_MAX {
                done.complete(Err(RequestError::TooLarge));
            } else {
                commands.push(command(operation, done));
            }
        }
        while !commands.is_empty() {
            self.0.inbox.submit_all(&mut commands)?;
        }
        Ok(())
    }

    /// Has an operation executed whose replies the application judges; gives its name.
    pub(crate) fn judge(
        &self,
        operation: Bytes,
        fast: bool,
        tally: Tally,
        done: Completion,
    ) -> u64 {
        let id = self.0.judged.fetch_add(1, Ordering::Relaxed);
        let judged = |operation, done| {
            let tally = Box::new(tally);
            Command::Judged { operation, fast, tally, id, done }
        };
        self.hand_over(operation, done, judged, true);
        id
    }

    /// Waits no longer for a judged operation.
    pub(crate) fn cancel(&self, id: u64) {
        self.0.inbox.hand_over(Command::Cancel(id));
    }

    /// A replica's own view of itself, as JSON. It is one replica's word and proves nothing.
    pub fn status(&self, replica: ReplicaId) -> Pending {
        let (pending, done) = Pending::new();
        self.0.inbox.ask(replica, Question::Status, done);
        pending
    }

    /// How the group stands, as one replica says, with the proofs of how its configurations ended
    /// from this one on: an encoded [`Standing`](pentarchy_core::standing::Standing). It goes to
    /// `completions`, with the replica's number.
    pub fn standing(&self, replica: ReplicaId, from: u64, completions: &Arc<Completions>) {
        let done = Completion::queue(completions, replica.0.into());
        self.0.inbox.ask(replica, Question::Standing(from), done);
    }

    /// Puts the replica's word on how the configuration of this number ended into `completions`,
    /// with the replica's number, when it says that unasked.
    pub fn end(&self, replica: ReplicaId, number: u64, completions: &Arc<Completions>) {
        let done = Completion::queue(completions, replica.0.into());
        self.0.inbox.ask(replica, Question::End(number), done);
    }

    /// Asks a replica for a part of its state, which it gives to machines that are to become
    /// members alone. The answer, if the replica sends one, is an encoded [`transfer::Message`].
    /// All answers from now on go to `completions`, also those to earlier questions, with the
    /// replica's number.
    pub fn fetch(
        &self,
        replica: ReplicaId,
        question: transfer::Message,
        completions: &Arc<Completions>,
    ) {
        self.0.inbox.hand_over(Command::Fetch(replica, question, completions.clone()));
    }

    fn pending(
        &self,
        operation: Bytes,
        command: impl FnOnce(Bytes, Completion) -> Command,
        block: bool,
    ) -> Pending {
        let (pending, done) = Pending::new();
        self.hand_over(operation, done, command, block);
        pending
    }

    fn hand_over(
        &self,
        operation: Bytes,
        done: Completion,
        command: impl FnOnce(Bytes, Completion) -> Command,
        block: bool,
    ) {
        if operation.len() > OPERATION_BYTES_MAX {
            return done.complete(Err(RequestError::TooLarge));
        }
        self.0.inbox.submit(command(operation, done), block);
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Client({})", self.0.id)
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.inbox.close();
        let thread = self.thread.get_mut().ok().and_then(Option::take);
        // The last handle may go inside a callback, on the thread itself.
        if let Some(thread) =
            thread.filter(|thread| thread.thread().id() != std::thread::current().id())
        {
            // A panic of the thread has been printed, and everything outstanding was completed.
            let _ = thread.join();
        }
    }
}
