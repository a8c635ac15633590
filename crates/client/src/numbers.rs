//! Request numbers and who waits for them.

use pentarchy_core::limits::CLIENT_WINDOW;
use std::collections::VecDeque;

/// The outstanding numbers. They are given out in ascending order without holes, so the table is a
/// window over them.
pub struct Numbers<T> {
    first: u64,
    waiting: VecDeque<Option<T>>,
}

impl<T> Numbers<T> {
    /// The first number is `start`. A client that starts again must start above every number that
    /// it ever used; [`pentarchy_io::clock::wall_micros`] is, as long as fewer than a million
    /// requests a second are made on average and nobody sets the clock back.
    #[must_use]
    pub const fn new(start: u64) -> Self {
        Self { first: start, waiting: VecDeque::new() }
    }

    /// Whether one more number may be given out. Replicas refuse numbers that are too far above the
    /// lowest outstanding one, so a slow operation closes the window for those behind it.
    #[must_use]
    pub fn has_room(&self) -> bool {
        (self.waiting.len() as u64) < CLIENT_WINDOW
    }

    /// The next number, and who waits for it.
    pub fn give(&mut self, who: T) -> u64 {
        self.waiting.push_back(Some(who));
        self.first + self.waiting.len() as u64 - 1
    }

    /// The waiter of a number, to be changed.
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        self.waiting.get_mut(index)?.as_mut()
    }

    /// The lowest outstanding number, or the one that is given out next.
    #[must_use]
    pub const fn lowest(&self) -> u64 {
        self.first
    }

    /// All who wait.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.waiting.iter_mut().flatten()
    }

    /// Settles a number and gives its waiter, unless it was settled before.
    pub fn settle(&mut self, number: u64) -> Option<T> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let done = self.waiting.get_mut(index)?.take();
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::Pending;

    #[test]
    fn numbers_are_settled_in_any_order_and_once() {
        let mut numbers = Numbers::new(100);
        let mut give = |expected| {
            let (pending, done) = Pending::new();
            assert_eq!(numbers.give(done), expected);
            pending
        };
        let _pending = [give(100), give(101), give(102)];
        assert!(numbers.settle(101).is_some());
        assert!(numbers.settle(101).is_none());
        assert!(numbers.settle(99).is_none() && numbers.settle(103).is_none());
        assert!(numbers.settle(100).is_some());
        assert_eq!((numbers.first, numbers.waiting.len()), (102, 1));
        assert!(numbers.settle(102).is_some());
        assert_eq!(numbers.give(Pending::new().1), 103);
    }

    #[test]
    fn a_slow_number_closes_the_window() {
        let mut numbers = Numbers::new(0);
        while numbers.has_room() {
            numbers.give(Pending::new().1);
        }
        assert!(numbers.settle(1).is_some() && !numbers.has_room());
        assert!(numbers.settle(0).is_some() && numbers.has_room());
    }
}
