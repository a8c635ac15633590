//! What comes for one connection from elsewhere: the outcome of what it has under way, messages
//! that were published, and the order to close.

use super::backend_error::BackendError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// Bytes that a message takes beside its own.
const MESSAGE_COST: usize = 128;

/// What came of what a connection has under way.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Outcome {
    /// The backend's result, or why there is none.
    Result(Result<Bytes, BackendError>),
    /// The command waits for an element. Another outcome follows.
    Waits,
    /// Refused here, with the line that follows the `-` in RESP.
    Refused(&'static str),
}

/// A published message for a connection.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Message {
    /// The pattern that matched, if it is a pattern's subscription.
    pub pattern: Option<Bytes>,
    pub channel: Bytes,
    pub payload: Bytes,
}

impl Message {
    fn cost(&self) -> usize {
        let pattern = self.pattern.as_ref().map_or(0, Bytes::len);
        MESSAGE_COST + pattern + self.channel.len() + self.payload.len()
    }
}

/// Why a connection must end.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Closing {
    /// More messages were waiting than allowed.
    Overflowed,
    /// Another connection asked for it.
    Killed,
    /// Messages were lost between the replicas and the gateway.
    Lost,
    /// The replicas refused a name that it is subscribed to.
    Refused,
}

/// Filled by any thread, emptied by the connection's task.
#[derive(Debug)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    ready: Notify,
    bytes_max: usize,
}

#[derive(Default, Debug)]
struct State {
    /// What is under way now. Outcomes of anything else come too late.
    number: u64,
    /// At most two: that it waits, and what it waited for.
    outcomes: VecDeque<Outcome>,
    messages: VecDeque<Message>,
    /// Of messages.
    bytes: usize,
    closing: Option<Closing>,
}

impl Inbox {
    /// Holds messages up to so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), ready: Notify::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way, so a poisoned state is a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins something, whose number it says, and forgets what was before.
    pub fn begin(&self) -> u64 {
        let mut state = self.lock();
        state.number += 1;
        state.outcomes.clear();
        state.number
    }

    /// Says what came of something, unless that is over already.
    pub fn complete(&self, number: u64, outcome: Outcome) {
        let mut state = self.lock();
        if number == state.number {
            state.outcomes.push_back(outcome);
            drop(state);
            self.ready.notify_one();
        }
    }

    /// Delivers a message; too many close the connection, as their reader is too slow.
    pub fn push(&self, message: Message) {
        let mut state = self.lock();
        if state.closing.is_some() {
            return;
        }
        state.bytes += message.cost();
        state.messages.push_back(message);
        if state.bytes > self.bytes_max {
            close(&mut state, Closing::Overflowed);
        }
        drop(state);
        self.ready.notify_one();
    }

    /// Has the connection end.
    pub fn close(&self, why: Closing) {
        close(&mut self.lock(), why);
        self.ready.notify_one();
    }

    /// Waits until something came. May return without.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    /// The next outcome of what is under way.
    pub fn outcome(&self) -> Option<Outcome> {
        self.lock().outcomes.pop_front()
    }

    /// The next message.
    pub fn message(&self) -> Option<Message> {
        let mut state = self.lock();
        let message = state.messages.pop_front()?;
        state.bytes -= message.cost();
        Some(message)
    }

    /// Why the connection must end, if it must.
    pub fn closing(&self) -> Option<Closing> {
        self.lock().closing
    }
}

fn close(state: &mut State, why: Closing) {
    state.closing.get_or_insert(why);
    state.messages.clear();
    state.bytes = 0;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_too_late_is_nobodys() {
        let inbox = Inbox::new(1000);
        let first = inbox.begin();
        let second = inbox.begin();
        inbox.complete(first, Outcome::Refused("late"));
        assert_eq!(inbox.outcome(), None);
        inbox.complete(second, Outcome::Waits);
        inbox.complete(second, Outcome::Refused("in time"));
        assert_eq!(inbox.outcome(), Some(Outcome::Waits));
        assert_eq!(inbox.outcome(), Some(Outcome::Refused("in time")));
        inbox.complete(second, Outcome::Waits);
        inbox.begin();
        assert_eq!(inbox.outcome(), None);
    }

    #[test]
    fn too_many_messages_close_and_are_not_kept() {
        let inbox = Inbox::new(1000);
        let payload = Bytes::from(vec![0; 300]);
        let message = Message { pattern: None, channel: Bytes::new(), payload };
        for _ in 0..10 {
            inbox.push(message.clone());
            inbox.push(message.clone());
            assert_eq!(inbox.message(), Some(message.clone()));
            assert_eq!(inbox.message(), Some(message.clone()));
        }
        assert_eq!(inbox.closing(), None);
        (0..3).for_each(|_| inbox.push(message.clone()));
        assert_eq!((inbox.closing(), inbox.message()), (Some(Closing::Overflowed), None));
        inbox.close(Closing::Killed);
        assert_eq!(inbox.closing(), Some(Closing::Overflowed));
    }
}
