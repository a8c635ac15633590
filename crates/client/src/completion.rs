//! How results get from the host's thread to whoever waits for them.

use crate::error::RequestError;
use bytes::Bytes;
use std::collections::VecDeque;
use std::future::Future;
use std::mem::replace;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

/// What came of an operation.
pub type Outcome = Result<Bytes, RequestError>;

/// Locks, also after a panic of another thread: every critical section here leaves whole values.
pub fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// An operation that was submitted. A future, and something to wait for. Dropping it does not take
/// the operation back.
#[must_use = "the result says whether the operation was executed"]
pub struct Pending(Arc<Cell>);

struct Cell {
    state: Mutex<CellState>,
    ready: Condvar,
}

enum CellState {
    Waiting {
        waker: Option<Waker>,
        /// A thread waits for [`Cell::ready`].
        blocked: bool,
    },
    Done(Outcome),
    Taken,
}

impl Pending {
    /// Something to wait for, and what completes it.
    pub(crate) fn new() -> (Self, Completion) {
        let state = Mutex::new(CellState::Waiting { waker: None, blocked: false });
        let cell = Arc::new(Cell { state, ready: Condvar::new() });
        (Self(cell.clone()), Completion(Some(Target::Cell(cell))))
    }

    /// Blocks until the operation is executed. Not for the host's own thread: never call it in a
    /// callback.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn wait(self) -> Outcome {
        let mut state = lock(&self.0.state);
        loop {
            if let Some(outcome) = state.take() {
                return outcome;
            }
            state = self.0.ready.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Blocks until the operation is executed or the time is over.
    ///
    /// # Errors
    /// [`RequestError`]; the operation may still be executed after [`RequestError::TimedOut`].
    pub fn wait_timeout(self, timeout: Duration) -> Outcome {
        let deadline = Instant::now() + timeout;
        let mut state = lock(&self.0.state);
        loop {
            if let Some(outcome) = state.take() {
                return outcome;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(RequestError::TimedOut);
            }
            let waited = self.0.ready.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl CellState {
    /// The outcome if it is there; takes note of a blocked thread otherwise.
    fn take(&mut self) -> Option<Outcome> {
        match self {
            Self::Waiting { blocked, .. } => {
                *blocked = true;
                None
            }
            Self::Done(_) | Self::Taken => match replace(self, Self::Taken) {
                Self::Done(outcome) => Some(outcome),
                _ => Some(Err(RequestError::Closed)),
            },
        }
    }
}

impl Future for Pending {
    type Output = Outcome;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Outcome> {
        let mut state = lock(&self.0.state);
        if let CellState::Waiting { waker, .. } = &mut *state {
            match waker {
                Some(waker) => waker.clone_from(context.waker()),
                None => *waker = Some(context.waker().clone()),
            }
            return Poll::Pending;
        }
        state.take().map_or(Poll::Pending, Poll::Ready)
    }
}

/// A queue into which many operations' results come, each with the tag it was submitted with. The
/// cheapest way to wait for many: one lock takes all that is there.
#[derive(Default)]
pub struct Completions {
    queue: Mutex<Queue>,
    ready: Condvar,
}

#[derive(Default)]
struct Queue {
    results: VecDeque<(u64, Outcome)>,
    blocked: usize,
}

impl Completions {
    /// An empty queue.
    #[must_use]
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Blocks until something is there or the time is over, then moves all that is there to the end
    /// of `into`, in the order of completion. Says how many came.
    pub fn wait(&self, timeout: Duration, into: &mut Vec<(u64, Outcome)>) -> usize {
        let mut queue = lock(&self.queue);
        if queue.results.is_empty() && !timeout.is_zero() {
            queue.blocked += 1;
            let empty = |queue: &mut Queue| queue.results.is_empty();
            let waited = self.ready.wait_timeout_while(queue, timeout, empty);
            queue = waited.unwrap_or_else(PoisonError::into_inner).0;
            queue.blocked -= 1;
        }
        let count = queue.results.len();
        into.extend(queue.results.drain(..));
        count
    }

    fn push(&self, tag: u64, outcome: Outcome) {
        let mut queue = lock(&self.queue);
        queue.results.push_back((tag, outcome));
        let wake = queue.blocked > 0 && queue.results.len() == 1;
        drop(queue);
        if wake {
            self.ready.notify_one();
        }
    }
}

/// The host's end: completes one operation, with [`RequestError::Closed`] if it is dropped.
pub struct Completion(Option<Target>);

enum Target {
    Cell(Arc<Cell>),
    Queue(Arc<Completions>, u64),
    Call(Box<dyn FnOnce(Outcome) + Send>),
}

impl Completion {
    pub(crate) fn queue(completions: &Arc<Completions>, tag: u64) -> Self {
        Self(Some(Target::Queue(completions.clone(), tag)))
    }

    pub(crate) fn call(callback: impl FnOnce(Outcome) + Send + 'static) -> Self {
        Self(Some(Target::Call(Box::new(callback))))
    }

    pub(crate) fn complete(mut self, outcome: Outcome) {
        self.finish(outcome);
    }

    fn finish(&mut self, outcome: Outcome) {
        match self.0.take() {
            None => {}
            Some(Target::Call(callback)) => callback(outcome),
            Some(Target::Queue(completions, tag)) => completions.push(tag, outcome),
            Some(Target::Cell(cell)) => {
                let before = replace(&mut *lock(&cell.state), CellState::Done(outcome));
                if let CellState::Waiting { waker, blocked } = before {
                    if blocked {
                        cell.ready.notify_all();
                    }
                    if let Some(waker) = waker {
                        waker.wake();
                    }
                }
            }
        }
    }
}

impl Drop for Completion {
    fn drop(&mut self) {
        self.finish(Err(RequestError::Closed));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::task::Wake;

    struct Flag(Mutex<bool>);
    impl Wake for Flag {
        fn wake(self: Arc<Self>) {
            *lock(&self.0) = true;
        }
    }

    #[test]
    fn a_future_is_woken_once_its_result_is_there() {
        let flag = Arc::new(Flag(Mutex::new(false)));
        let waker = Waker::from(flag.clone());
        let mut context = Context::from_waker(&waker);
        let (mut pending, completion) = Pending::new();
        assert!(Pin::new(&mut pending).poll(&mut context).is_pending());
        completion.complete(Ok(Bytes::from_static(b"done")));
        assert!(*lock(&flag.0));
        let ready = Pin::new(&mut pending).poll(&mut context);
        assert_eq!(ready, Poll::Ready(Ok(Bytes::from_static(b"done"))));
    }

    #[test]
    fn a_dropped_completion_says_that_the_client_is_closed() {
        let (pending, completion) = Pending::new();
        drop(completion);
        assert_eq!(pending.wait(), Err(RequestError::Closed));
        let (pending, completion) = Pending::new();
        assert_eq!(pending.wait_timeout(Duration::from_millis(1)), Err(RequestError::TimedOut));
        completion.complete(Ok(Bytes::new()));
    }

    #[test]
    fn a_waiting_thread_gets_all_that_is_there() {
        let completions = Completions::new();
        let waiter = completions.clone();
        let thread = std::thread::spawn(move || {
            let mut got = Vec::new();
            while got.len() < 100 {
                waiter.wait(Duration::from_secs(10), &mut got);
            }
            got
        });
        for tag in 0..100 {
            Completion::queue(&completions, tag).complete(Ok(Bytes::new()));
        }
        let tags: Vec<u64> = thread.join().unwrap().into_iter().map(|(tag, _)| tag).collect();
        assert_eq!(tags, (0..100).collect::<Vec<_>>());
    }
}
