//! What handles hand to the host's thread: one lock, one swap per round, and a system call only if
//! the thread sleeps.

use crate::completion::{Completion, Completions, lock};
use crate::error::RequestError;
use crate::judging::Tally;
use bytes::Bytes;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::transfer;
use pentarchy_io::poll::Waker;
use std::mem::{replace, swap, take};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Questions to single replicas that may wait at a time: of each kind, and one more, to each.
const QUESTIONS_MAX: usize = 4 * REPLICAS_MAX;

/// What a replica says of itself, and not of what was ordered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Question {
    /// How it is.
    Status,
    /// How its group stands, from the configuration of this number on.
    Standing(u64),
    /// How the configuration of this number ended, when it has. A replica says so unasked.
    End(u64),
}

/// What answers questions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    /// How a replica is.
    Status,
    /// How its group stands, with proofs that lead to the configuration of this number, if to any.
    Standing(Option<u64>),
}

impl Question {
    /// Whether that answers this question. Links of a chain say themselves from where on they lead.
    pub const fn is_answered_by(self, answer: Answer) -> bool {
        match (self, answer) {
            (Self::Status, Answer::Status) | (Self::Standing(_), Answer::Standing(_)) => true,
            (Self::End(number), Answer::Standing(Some(begun))) => begun > number,
            _ => false,
        }
    }

    /// How a replica is asked, if it has to be.
    pub const fn message(self) -> Option<ToReplica> {
        match self {
            Self::Status => Some(ToReplica::Status),
            Self::Standing(from) => Some(ToReplica::Standing { from }),
            Self::End(_) => None,
        }
    }
}

/// What a handle wants.
pub enum Command {
    /// An ordered operation, and how long its result may take before it is given up.
    Submit(Bytes, Option<Duration>, Completion),
    /// A read that need not be ordered.
    Query(Bytes, Completion),
    /// An operation whose replies the application judges, under a name of its own, and whether
    /// replicas may answer without ordering it.
    Judged { operation: Bytes, fast: bool, tally: Box<Tally>, id: u64, done: Completion },
    /// Nobody waits any longer for the judged operation of this name.
    Cancel(u64),
    /// What a replica says of itself.
    Ask(ReplicaId, Question, Completion),
    /// A part of a replica's state. The answer goes there, with the replica's number.
    Fetch(ReplicaId, transfer::Message, Arc<Completions>),
}

impl Command {
    /// How long its result may take before it is given up.
    pub const fn limit(&self) -> Option<Duration> {
        match self {
            Self::Submit(_, limit, _) => *limit,
            Self::Query(..)
            | Self::Judged { .. }
            | Self::Cancel(_)
            | Self::Ask(..)
            | Self::Fetch(..) => None,
        }
    }

    /// Operations and questions that it is.
    pub const fn counts(&self) -> (usize, usize) {
        match self {
            Self::Ask(..) => (0, 1),
            Self::Cancel(_) | Self::Fetch(..) => (0, 0),
            Self::Submit(..) | Self::Query(..) | Self::Judged { .. } => (1, 0),
        }
    }

    /// Completes it without a result.
    pub fn fail(self, error: RequestError) {
        match self {
            Self::Submit(_, _, done)
            | Self::Query(_, done)
            | Self::Judged { done, .. }
            | Self::Ask(_, _, done) => done.complete(Err(error)),
            Self::Cancel(_) | Self::Fetch(..) => {}
        }
    }
}

/// The queue between handles and the host's thread. Bounded by the operations that may be
/// outstanding.
pub struct Inbox {
    state: Mutex<State>,
    space: Condvar,
    waker: Waker,
    outstanding_max: usize,
    /// The group as the host knows it.
    membership: Mutex<Arc<Membership>>,
}

#[derive(Default)]
struct State {
    commands: Vec<Command>,
    /// Submitted and not completed.
    outstanding: usize,
    questions_outstanding: usize,
    /// Threads that wait for [`Inbox::space`].
    blocked: usize,
    /// The host's thread sleeps or is about to.
    sleeping: bool,
    closed: bool,
    /// Another host uses the same key.
    overtaken: bool,
}

impl Inbox {
    pub fn new(waker: Waker, outstanding_max: usize, membership: Arc<Membership>) -> Self {
        let outstanding_max = outstanding_max.max(1);
        let (state, membership) = (Mutex::default(), Mutex::new(membership));
        Self { state, space: Condvar::new(), waker, outstanding_max, membership }
    }

    /// The host: the group has changed.
    pub fn follow(&self, membership: Arc<Membership>) {
        *lock(&self.membership) = membership;
    }

    /// The group as the host knows it.
    pub fn membership(&self) -> Arc<Membership> {
        lock(&self.membership).clone()
    }

    /// Hands over as many operations as there is room for, at least one. Blocks while there is
    /// none. What is left stays in `commands`.
    pub fn submit_all(&self, commands: &mut Vec<Command>) -> Result<(), RequestError> {
        let (mut state, room) = self.room(true)?;
        let count = room.min(commands.len());
        state.outstanding += count;
        state.commands.extend(commands.drain(..count));
        self.wake(state);
        Ok(())
    }

    /// Hands over one operation, or completes it with what prevents that.
    pub fn submit(&self, command: Command, block: bool) {
        match self.room(block) {
            Ok((mut state, _)) => {
                state.outstanding += 1;
                state.commands.push(command);
                self.wake(state);
            }
            Err(error) => command.fail(error),
        }
    }

    /// How many operations may be handed over, at least one.
    fn room(&self, block: bool) -> Result<(MutexGuard<'_, State>, usize), RequestError> {
        let mut state = lock(&self.state);
        while block
            && state.outstanding >= self.outstanding_max
            && !state.closed
            && !state.overtaken
        {
            state.blocked += 1;
            state = self.space.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.blocked -= 1;
        }
        if state.closed {
            return Err(RequestError::Closed);
        }
        if state.overtaken {
            return Err(RequestError::Overtaken);
        }
        match self.outstanding_max.saturating_sub(state.outstanding) {
            0 => Err(RequestError::Full),
            room => Ok((state, room)),
        }
    }

    /// Hands over a command that takes no room among the operations and questions.
    pub fn hand_over(&self, command: Command) {
        let mut state = lock(&self.state);
        if !state.closed && !state.overtaken {
            state.commands.push(command);
            self.wake(state);
        }
    }

    /// Hands over a question to a replica.
    pub fn ask(&self, replica: ReplicaId, question: Question, done: Completion) {
        let mut state = lock(&self.state);
        let refusal = match &*state {
            State { closed: true, .. } => Some(RequestError::Closed),
            State { overtaken: true, .. } => Some(RequestError::Overtaken),
            State { questions_outstanding: QUESTIONS_MAX.., .. } => Some(RequestError::Full),
            _ => None,
        };
        if let Some(refusal) = refusal {
            drop(state);
            return done.complete(Err(refusal));
        }
        state.questions_outstanding += 1;
        state.commands.push(Command::Ask(replica, question, done));
        self.wake(state);
    }

    /// Ends a hand-over.
    fn wake(&self, mut state: MutexGuard<'_, State>) {
        let is_asleep = replace(&mut state.sleeping, false);
        drop(state);
        if is_asleep {
            // The system refuses only if the event counter is full, and then the thread is awake.
            let _ = self.waker.wake();
        }
    }

    /// The last handle is gone: the host ends.
    pub fn close(&self) {
        lock(&self.state).closed = true;
        let _ = self.waker.wake();
    }

    /// The host: whether it may sleep because nothing was handed over. From now on it is woken.
    pub fn may_sleep(&self) -> bool {
        let mut state = lock(&self.state);
        state.sleeping = state.commands.is_empty() && !state.closed;
        state.sleeping
    }

    /// The host: takes all that was handed over into the empty `into`. False if it is to end.
    pub fn take(&self, into: &mut Vec<Command>) -> bool {
        let mut state = lock(&self.state);
        state.sleeping = false;
        swap(&mut state.commands, into);
        !state.closed
    }

    /// The host: so many operations and questions were completed.
    pub fn release(&self, operations: usize, questions: usize) {
        if operations == 0 && questions == 0 {
            return;
        }
        let mut state = lock(&self.state);
        state.outstanding -= operations;
        state.questions_outstanding -= questions;
        let blocked = state.blocked > 0;
        drop(state);
        if blocked {
            self.space.notify_all();
        }
    }

    /// The host: another one uses the same key, so nothing more is taken.
    pub fn overtaken(&self) {
        lock(&self.state).overtaken = true;
        self.space.notify_all();
    }

    /// Whether another host uses the same key.
    pub fn is_overtaken(&self) -> bool {
        lock(&self.state).overtaken
    }

    /// The host has ended: nobody waits for room any more.
    pub fn end(&self) {
        let mut state = lock(&self.state);
        state.closed = true;
        // Completing may call back into here, so not under the lock.
        let commands = take(&mut state.commands);
        drop(state);
        self.space.notify_all();
        drop(commands);
    }
}
