//! The outstanding numbers, their waiters, and until when each waits.

use crate::completion::Completion;
use crate::numbers::Numbers;
use pentarchy_core::ports::client::Event;
use std::collections::BTreeSet;
use std::time::Duration;

/// How long it may take to give an operation up whose time is over, before that is said to be open.
pub const GIVE_UP_TIME: Duration = Duration::from_secs(2);

/// One outstanding number.
struct Waiter {
    /// None if nobody waits: it does for no application, or was told that its time is over.
    done: Option<Completion>,
    /// When it is to be given up, or, if it was, when whoever waits is told that it is open what
    /// comes of it.
    until: Option<u64>,
    given_up: bool,
    /// How the core was asked, if it may have to be asked again.
    asked: Option<Event>,
}

/// See the [module](self). Times are in milliseconds of the host's clock.
pub struct Waiting {
    numbers: Numbers<Waiter>,
    len: usize,
    /// Numbers by [`Waiter::until`].
    until: BTreeSet<(u64, u64)>,
    /// Those that were given up and are not settled.
    given_up: usize,
}

impl Waiting {
    /// The first number is `start`: see [`Numbers::new`].
    pub const fn new(start: u64) -> Self {
        Self { numbers: Numbers::new(start), len: 0, until: BTreeSet::new(), given_up: 0 }
    }

    /// Whether no number is outstanding.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Whether one more number may be given out.
    pub fn has_room(&self) -> bool {
        self.numbers.has_room()
    }

    /// Whether a number was given up and is not settled.
    pub const fn is_giving_up(&self) -> bool {
        self.given_up > 0
    }

    /// Takes the next number, for this waiter and until this time.
    pub fn give(&mut self, done: Option<Completion>, until: Option<u64>) -> u64 {
        let number = self.numbers.give(Waiter { done, until, given_up: false, asked: None });
        self.len += 1;
        self.until.extend(until.map(|until| (until, number)));
        number
    }

    /// The lowest outstanding number, or the one that is given out next.
    pub const fn lowest(&self) -> u64 {
        self.numbers.lowest()
    }

    /// Takes note of how the core was asked for a number.
    pub fn note(&mut self, number: u64, asked: Event) {
        if let Some(waiter) = self.numbers.get_mut(number) {
            waiter.asked = Some(asked);
        }
    }

    /// How the core was asked for what is outstanding, in order, and whether that was given up.
    pub fn asked(&mut self) -> Vec<(Event, bool)> {
        let waiters = self.numbers.iter_mut();
        waiters.filter_map(|waiter| Some((waiter.asked.clone()?, waiter.given_up))).collect()
    }

    /// Settles a number and gives its waiter, unless it was settled before.
    pub fn settle(&mut self, number: u64) -> Option<Completion> {
        let Waiter { done, until, given_up, .. } = self.numbers.settle(number)?;
        self.len -= 1;
        self.given_up -= usize::from(given_up);
        until.into_iter().for_each(|until| _ = self.until.remove(&(until, number)));
        done
    }

    /// The application waits no longer for a number, which stays outstanding.
    pub fn dismiss(&mut self, number: u64) -> Option<Completion> {
        self.numbers.get_mut(number)?.done.take()
    }

    /// When something is to be done that nobody tells.
    pub fn next_ms(&self) -> Option<u64> {
        self.until.first().map(|(until, _)| *until)
    }

    /// The numbers whose time is over. From now on they count as given up.
    pub fn start_giving_up(&mut self, now_ms: u64) -> Vec<u64> {
        let mut numbers = Vec::new();
        for (until, number) in self.over(now_ms) {
            let Some(waiter) = self.numbers.get_mut(number) else { continue };
            if !waiter.given_up {
                let open = now_ms + GIVE_UP_TIME.as_millis() as u64;
                (waiter.given_up, waiter.until) = (true, Some(open));
                self.given_up += 1;
                self.until.remove(&(until, number));
                self.until.insert((open, number));
                numbers.push(number);
            }
        }
        numbers
    }

    /// The waiters of numbers that were given up too long ago and are not settled.
    pub fn take_expired(&mut self, now_ms: u64) -> Vec<Completion> {
        let mut all = Vec::new();
        for (until, number) in self.over(now_ms) {
            self.until.remove(&(until, number));
            let Some(waiter) = self.numbers.get_mut(number) else { continue };
            waiter.until = None;
            all.extend(waiter.done.take());
        }
        all
    }

    fn over(&self, now_ms: u64) -> Vec<(u64, u64)> {
        self.until.range(..=(now_ms, u64::MAX)).copied().collect()
    }

    /// All who wait.
    pub fn take_all(&mut self) -> Vec<Completion> {
        self.until.clear();
        self.numbers.iter_mut().filter_map(|waiter| waiter.done.take()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::completion::Pending;

    #[test]
    fn who_waits_is_given_up_first_and_disappointed_later() {
        let mut waiting = Waiting::new(100);
        let (_pending, done) = Pending::new();
        assert_eq!(waiting.give(Some(done), Some(50)), 100);
        assert_eq!(waiting.give(None, None), 101);
        assert_eq!((waiting.start_giving_up(49), waiting.next_ms()), (vec![], Some(50)));
        assert_eq!((waiting.start_giving_up(60), waiting.is_giving_up()), (vec![100], true));
        assert!(waiting.start_giving_up(60).is_empty() && waiting.take_expired(60).is_empty());
        let open = 60 + GIVE_UP_TIME.as_millis() as u64;
        assert_eq!(waiting.next_ms(), Some(open));
        assert_eq!(waiting.take_expired(open).len(), 1);
        assert!(waiting.is_giving_up() && waiting.next_ms().is_none());
        assert!(waiting.settle(100).is_none(), "it was told");
        assert!(!waiting.is_giving_up() && !waiting.is_empty());
        assert!(waiting.settle(101).is_none() && waiting.is_empty());
    }

    #[test]
    fn what_is_settled_in_time_is_not_given_up() {
        let mut waiting = Waiting::new(1);
        let (_pending, done) = Pending::new();
        waiting.give(Some(done), Some(50));
        assert!(waiting.settle(1).is_some() && waiting.next_ms().is_none());
        assert!(waiting.start_giving_up(99).is_empty() && !waiting.is_giving_up());
    }
}
