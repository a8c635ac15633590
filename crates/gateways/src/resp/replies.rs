//! Results of one connection's operations, which come in any order and leave in one.

use super::backend::BackendError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

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
    places: VecDeque<Place>,
    /// Bytes in filled places.
    bytes: usize,
    overflowed: bool,
}

#[derive(Debug)]
struct Place {
    opened: Instant,
    outcome: Option<Outcome>,
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
    pub fn open(&self, now: Instant) -> (u64, usize) {
        let mut state = self.lock();
        state.places.push_back(Place { opened: now, outcome: None });
        (state.first + state.places.len() as u64 - 1, state.bytes)
    }

    /// When the first place that is still empty was opened.
    pub fn oldest(&self) -> Option<Instant> {
        let state = self.lock();
        state.places.iter().find(|place| place.outcome.is_none()).map(|place| place.opened)
    }

    /// Fills the places that were opened so long ago and are still empty. What comes for them later
    /// is ignored.
    pub fn expire(&self, now: Instant, timeout: Duration) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let old = |place: &&mut Place| now.saturating_duration_since(place.opened) >= timeout;
        for place in state.places.iter_mut().take_while(old) {
            if place.outcome.is_none() {
                place.outcome = Some(Err(BackendError::TimedOut));
                state.bytes += RESULT_COST;
            }
        }
    }

    /// Fills a place, unless it is filled.
    pub fn complete(&self, number: u64, outcome: Outcome) {
        let mut guard = self.lock();
        let state = &mut *guard;
        let Some(index) = number.checked_sub(state.first) else { return };
        let place = state.places.get_mut(index as usize);
        let Some(place) = place.filter(|place| place.outcome.is_none()) else { return };
        state.bytes += RESULT_COST + outcome.as_ref().map_or(0, Bytes::len);
        state.overflowed |= state.bytes > self.bytes_max;
        let overflowed = state.overflowed;
        // After an overflow the connection is lost, so its results need not be kept.
        let outcome = if overflowed { Err(BackendError::Busy) } else { outcome };
        place.outcome = Some(outcome);
        drop(guard);
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
            let Some(outcome) = state.places.front_mut().and_then(|p| p.outcome.take()) else {
                break;
            };
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
        let numbers: Vec<_> = (0..4).map(|_| replies.open(Instant::now()).0).collect();
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
    fn what_is_late_is_lost_alone() {
        let replies = Replies::new(10_000);
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let numbers = [0, 0, 5].map(|late| replies.open(start + late * second).0);
        assert_eq!(replies.oldest(), Some(start));
        replies.complete(numbers[1], Ok(Bytes::new()));
        let mut taken = VecDeque::new();
        replies.expire(start + 9 * second, 10 * second);
        replies.take(usize::MAX, &mut taken).unwrap();
        assert!(taken.is_empty(), "the first has a second left");
        replies.expire(start + 10 * second, 10 * second);
        replies.complete(numbers[0], Ok(Bytes::from_static(b"too late")));
        replies.take(usize::MAX, &mut taken).unwrap();
        assert_eq!(taken, [Err(BackendError::TimedOut), Ok(Bytes::new())]);
        assert_eq!(replies.oldest(), Some(start + 5 * second));
        replies.complete(numbers[0], Ok(Bytes::from_static(b"too late")));
        replies.complete(numbers[2], Ok(Bytes::from_static(b"in time")));
        taken.clear();
        replies.take(usize::MAX, &mut taken).unwrap();
        assert_eq!(taken, [Ok(Bytes::from_static(b"in time"))]);
        assert_eq!(replies.lock().bytes, 0);
    }

    #[test]
    fn too_many_bytes_are_an_overflow_and_are_not_kept() {
        let replies = Replies::new(1000);
        let now = Instant::now();
        let (first, second) = (replies.open(now).0, replies.open(now).0);
        replies.complete(second, Ok(Bytes::from(vec![0; 1001])));
        assert!(
            replies.lock().places.iter().filter_map(|p| p.outcome.as_ref()).all(Result::is_err)
        );
        replies.complete(first, Ok(Bytes::new()));
        assert_eq!(replies.take(usize::MAX, &mut VecDeque::new()), Err(Overflowed));
    }
}
