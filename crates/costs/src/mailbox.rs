//! What one thread tells another, as in `pentarchy-replica`: a lock around what waits, into which a
//! round's letters go together. Here threads wait for nothing else, so who finds nothing sleeps.

use std::sync::{Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A letter did not come for longer than a thread was to wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stalled;

impl std::fmt::Display for Stalled {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a thread waits for another one, which says nothing")
    }
}

impl std::error::Error for Stalled {}

/// From one thread to one other.
pub struct Mailbox<T> {
    waiting: Mutex<Waiting<T>>,
    arrived: Condvar,
}

struct Waiting<T> {
    letters: Vec<T>,
    /// Somebody sleeps until there are some.
    is_awaited: bool,
}

impl<T> Default for Mailbox<T> {
    fn default() -> Self {
        let waiting = Waiting { letters: Vec::new(), is_awaited: false };
        Self { waiting: Mutex::new(waiting), arrived: Condvar::new() }
    }
}

impl<T> Mailbox<T> {
    /// Puts in all of these.
    pub fn post(&self, letters: &mut Vec<T>) {
        if letters.is_empty() {
            return;
        }
        let is_awaited = {
            let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
            waiting.letters.append(letters);
            std::mem::take(&mut waiting.is_awaited)
        };
        if is_awaited {
            self.arrived.notify_one();
        }
    }

    /// Of the thread that takes letters out, and waits so long for one.
    pub const fn reader(&self, patience: Duration) -> Reader<'_, T> {
        Reader { mailbox: self, patience, taken: Vec::new() }
    }

    /// Takes out all there is, once there is something, into an empty list.
    fn take(&self, into: &mut Vec<T>, patience: Duration) -> Result<(), Stalled> {
        let mut waiting = self.waiting.lock().unwrap_or_else(PoisonError::into_inner);
        waiting.is_awaited = waiting.letters.is_empty();
        let slept = self.arrived.wait_timeout_while(waiting, patience, |it| it.letters.is_empty());
        let (mut waiting, _) = slept.unwrap_or_else(PoisonError::into_inner);
        waiting.is_awaited = false;
        std::mem::swap(&mut waiting.letters, into);
        if into.is_empty() { Err(Stalled) } else { Ok(()) }
    }
}

/// Takes letters out in their order.
pub struct Reader<'a, T> {
    mailbox: &'a Mailbox<T>,
    patience: Duration,
    /// The next one last.
    taken: Vec<T>,
}

impl<T> Reader<'_, T> {
    /// The next letter.
    ///
    /// # Errors
    /// [`Stalled`] if none comes.
    pub fn letter(&mut self) -> Result<T, Stalled> {
        if self.taken.is_empty() {
            self.mailbox.take(&mut self.taken, self.patience)?;
            self.taken.reverse();
        }
        self.taken.pop().ok_or(Stalled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn letters_come_in_their_order_whoever_waits_for_whom() {
        let mailbox = Mailbox::default();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..1_000 {
                    mailbox.post(&mut (3 * round..3 * round + round % 4).collect());
                }
            });
            let mut reader = mailbox.reader(PATIENCE);
            for round in 0..1_000 {
                for letter in 3 * round..3 * round + round % 4 {
                    assert_eq!(reader.letter(), Ok(letter));
                }
            }
        });
        assert_eq!(mailbox.reader(Duration::ZERO).letter(), Err(Stalled), "all were taken");
    }
}
