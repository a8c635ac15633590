//! Results of one connection's operations, which come in any order and leave in one.

use super::backend::BackendError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

type Outcome = Result<Bytes, BackendError>;

/// Bytes that a result takes beside its own.
const RESULT_COST: usize = 64;

/// The places of a connection's outstanding operations, in order. As many as the connection opens,
/// which it bounds.
#[derive(Debug)]
pub(crate) struct Replies {
    state: Mutex<State>,
    /// Told when the first place is filled.
    ready: Notify,
    bytes_max: usize,
}

#[derive(Default, Debug)]
struct State {
    /// Number of the first place.
    first: u64,
    places: VecDeque<Option<Outcome>>,
    /// Bytes in filled places.
    bytes: usize,
    overflowed: bool,
}

/// More results than allowed were waiting for their turn; some are lost.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Overflowed;

impl Replies {
    pub fn new(bytes_max: usize) -> Self {
        Self { state: Mutex::default(), ready: Notify::new(), bytes_max }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing in here panics half-way, so a poisoned state is a whole one.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a place behind all others. Says its number, and how many bytes wait in filled places.
    pub fn open(&self) -> (u64, usize) {
        let mut state = self.lock();
        state.places.push_back(None);
        (state.first + state.places.len() as u64 - 1, state.bytes)
    }

    /// Fills a place, once.
    pub fn complete(&self, number: u64, outcome: Outcome) {
        let mut state = self.lock();
        let Some(index) = number.checked_sub(state.first) else { return };
        state.bytes += RESULT_COST + outcome.as_ref().map_or(0, Bytes::len);
        state.overflowed |= state.bytes > self.bytes_max;
        let overflowed = state.overflowed;
        // After an overflow the connection is lost, so its results need not be kept.
        let outcome = if overflowed { Err(BackendError::Busy) } else { outcome };
        if let Some(place) = state.places.get_mut(index as usize) {
            *place = Some(outcome);
        }
        drop(state);
        if index == 0 || overflowed {
            self.ready.notify_one();
        }
    }

    /// Waits until [`Self::take`] has something. May return without.
    pub async fn ready(&self) {
        self.ready.notified().await;
    }

    /// Moves the results whose turn it is to the end of `into`, up to so many bytes. Says how many
    /// bytes still wait.
    pub fn take(
        &self,
        bytes_max: usize,
        into: &mut VecDeque<Outcome>,
    ) -> Result<usize, Overflowed> {
        let mut state = self.lock();
        if state.overflowed {
            return Err(Overflowed);
        }
        let mut taken = 0;
        while taken < bytes_max {
            let Some(outcome) = state.places.front_mut().and_then(Option::take) else { break };
            state.places.pop_front();
            state.first += 1;
            let bytes = RESULT_COST + outcome.as_ref().map_or(0, Bytes::len);
            state.bytes -= bytes;
            taken += bytes;
            into.push_back(outcome);
        }
        Ok(state.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_leave_in_the_order_of_their_places() {
        let replies = Replies::new(10_000);
        let numbers: Vec<_> = (0..4).map(|_| replies.open().0).collect();
        let mut taken = VecDeque::new();
        let bytes = |text: &'static str| Ok(Bytes::from_static(text.as_bytes()));
        replies.complete(numbers[1], bytes("b"));
        replies.complete(numbers[3], bytes("d"));
        replies.take(usize::MAX, &mut taken).unwrap();
        assert!(taken.is_empty(), "the first is missing");
        replies.complete(numbers[0], Err(BackendError::Busy));
        replies.take(usize::MAX, &mut taken).unwrap();
        assert_eq!(taken, [Err(BackendError::Busy), bytes("b")]);
        replies.complete(numbers[2], bytes("c"));
        replies.take(1, &mut taken).unwrap();
        assert_eq!(taken.len(), 3, "one more, as asked");
        replies.take(usize::MAX, &mut taken).unwrap();
        assert_eq!(taken.range(2..).cloned().collect::<Vec<_>>(), [bytes("c"), bytes("d")]);
        assert_eq!(replies.lock().bytes, 0);
    }

    #[test]
    fn too_many_bytes_are_an_overflow_and_are_not_kept() {
        let replies = Replies::new(1000);
        let (first, second) = (replies.open().0, replies.open().0);
        replies.complete(second, Ok(Bytes::from(vec![0; 1001])));
        assert!(replies.lock().places.iter().flatten().all(Result::is_err));
        replies.complete(first, Ok(Bytes::new()));
        assert_eq!(replies.take(usize::MAX, &mut VecDeque::new()), Err(Overflowed));
    }
}
