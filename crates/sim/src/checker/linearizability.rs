//! What clients see is what one register that does one thing at a time would show: there is an
//! order of all operations on a key, in accordance with real time, that explains every result.
//!
//! The search is Wing and Gong's with Lowe's memory of failed configurations ("Testing for
//! linearizability", 2017), for each key alone, as linearizability is local (Herlihy and Wing,
//! 1990).
//!
//! Operations that never returned may have run at any time or not at all, and there are as many
//! ways to fit them in as there are sequences of them. So only those are tried that could matter:
//! such an operation changes something, its change is not lost to another one whose result nobody
//! knows, and few of them follow each other without anything between them that somebody saw; more
//! only if that leads nowhere.

use super::Broken;
use crate::audit::{Audit, Fingerprint};
use crate::rng::Rng;
use crate::service::{Action, apply, may_give};
use pentarchy_core::ids::ClientId;
use std::collections::{BTreeMap, HashSet};

/// The name of the property.
pub const PROPERTY: &str = "linearizability";

/// One operation as its client saw it. Times are places in the sequence of all invocations and
/// responses.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Who asked.
    pub client: ClientId,
    /// Under which number.
    pub number: u64,
    /// Which register.
    pub key: u16,
    /// What.
    pub action: Action,
    /// When it was invoked.
    pub invoked: u64,
    /// When the result came; never if it did not. Such an operation may have run or not.
    pub returned: Option<u64>,
    /// The result, unless it was forgotten.
    pub result: Option<Vec<u8>>,
}

/// Configurations of one key that are tried in one attempt before the search gives up. Each takes
/// some sixty bytes.
pub const CONFIGURATIONS_MAX: usize = 400_000;

/// How many operations that never returned may follow each other, one attempt after the other.
const LOST_IN_A_ROW: [usize; 4] = [1, 2, 4, usize::MAX];

/// Whether some order explains what was seen. Gives the number of keys for which the search gave
/// up.
///
/// # Errors
/// If there is none, naming the key and the operations where the search got stuck.
pub fn check(history: &[Seen]) -> Result<u64, Broken> {
    let mut undecided = 0;
    let mut keys: BTreeMap<u16, Vec<&Seen>> = BTreeMap::new();
    for seen in history {
        keys.entry(seen.key).or_default().push(seen);
    }
    for (key, operations) in keys {
        match search(&operations) {
            Found::Order => {}
            Found::Nothing => undecided += 1,
            Found::NoOrder { stuck, .. } => return Err(no_order(key, &operations, &stuck)),
        }
    }
    Ok(undecided)
}

/// Looks for an order, with more and more operations in a row that never returned.
fn search(operations: &[&Seen]) -> Found {
    for lost_max in LOST_IN_A_ROW {
        match Search::new(operations, lost_max).run() {
            Found::NoOrder { all: false, .. } => {}
            found => return found,
        }
    }
    Found::Nothing
}

fn no_order(key: u16, operations: &[&Seen], stuck: &[usize]) -> Broken {
    let name = |index: &usize| {
        let Seen { client, number, action, result, .. } = operations[*index];
        format!("{client}#{number} {action:?} = {result:?}")
    };
    let names: Vec<String> = stuck.iter().map(name).collect();
    Broken::new(PROPERTY, format!("no order explains key {key}; stuck at {}", names.join(" | ")))
}

/// What a search comes to.
enum Found {
    /// An order that explains everything.
    Order,
    /// There is none.
    NoOrder {
        /// The operations that could come next where the search got farthest.
        stuck: Vec<usize>,
        /// Everything was tried, however many operations in a row never returned.
        all: bool,
    },
    /// Nothing within [`CONFIGURATIONS_MAX`].
    Nothing,
}

/// A step that the search took and may take back.
struct Taken {
    /// The node of the operation's invocation.
    node: usize,
    /// The state before it, and how many in a row had not returned; none if it changed nothing.
    before: Option<(Vec<u8>, usize)>,
}

/// A set of operations, as the exclusive or of a random number for each: 128 bits, so that two
/// different sets never look alike in practice. Adding and removing is the same.
type Set = u128;

/// Operations that are named when there is no order.
const NAMED_MAX: usize = 8;

/// The state after an operation, if it would have had the result that was seen.
fn step(state: &[u8], seen: &Seen) -> Option<Vec<u8>> {
    if seen.result.as_ref().is_some_and(|result| !may_give(state, &seen.action, result)) {
        return None;
    }
    let mut after = state.to_vec();
    let result = apply(&mut after, &seen.action);
    seen.result.as_ref().is_none_or(|expected| *expected == result).then_some(after)
}

/// Depth-first search for an order of one key's operations.
struct Search<'a> {
    operations: &'a [&'a Seen],
    /// Invocations and responses in the order of time; an operation that never returned does so
    /// after everything else.
    events: Vec<(u64, usize, bool)>,
    /// Linked list over `events` with a sentinel at 0: event `i` is node `i + 1`.
    next: Vec<usize>,
    previous: Vec<usize>,
    /// The node of each operation's response.
    response: Vec<usize>,
    /// The random number of each operation.
    marks: Vec<Set>,
    /// Operations that never returned and follow each other, at most.
    lost_max: usize,
    /// Whether more might have followed each other.
    cut: bool,
}

impl<'a> Search<'a> {
    fn new(operations: &'a [&'a Seen], lost_max: usize) -> Self {
        let mut events = Vec::with_capacity(2 * operations.len());
        for (index, seen) in operations.iter().enumerate() {
            events.push((seen.invoked, index, false));
            events.push((seen.returned.unwrap_or(u64::MAX), index, true));
        }
        events.sort_unstable();
        let mut response = vec![0; operations.len()];
        for (at, (_, index, returns)) in events.iter().enumerate() {
            if *returns {
                response[*index] = at + 1;
            }
        }
        let count = events.len();
        let next = (1..=count + 1).map(|node| if node > count { 0 } else { node }).collect();
        let previous = (0..=count).map(|node: usize| node.saturating_sub(1)).collect();
        let mut rng = Rng::new(count as u64);
        let mut mark = || (Set::from(rng.next_u64()) << 64) | Set::from(rng.next_u64());
        let marks = operations.iter().map(|_| mark()).collect();
        Self { operations, events, next, previous, response, marks, lost_max, cut: false }
    }

    /// The state after an operation, if it is worth trying here: `lost` operations that never
    /// returned stand directly before it.
    fn try_next(&mut self, state: &[u8], seen: &Seen, lost: usize) -> Option<Vec<u8>> {
        let returned = seen.returned.is_some();
        if lost > 0 && seen.result.is_none() && matches!(seen.action, Action::Put(_)) {
            // Nobody would see that those before it ran: they need not have.
            return None;
        }
        let after = step(state, seen)?;
        if returned {
            return Some(after);
        }
        if after == state {
            return None;
        }
        self.cut |= lost >= self.lost_max;
        (lost < self.lost_max).then_some(after)
    }

    fn unlink(&mut self, node: usize) {
        let (before, after) = (self.previous[node], self.next[node]);
        self.next[before] = after;
        if after != 0 {
            self.previous[after] = before;
        }
    }

    fn relink(&mut self, node: usize) {
        let (before, after) = (self.previous[node], self.next[node]);
        self.next[before] = node;
        if after != 0 {
            self.previous[after] = node;
        }
    }

    /// Takes an operation's invocation and response out of the list.
    fn lift(&mut self, node: usize, index: usize) {
        self.unlink(node);
        self.unlink(self.response[index]);
    }

    fn unlift(&mut self, node: usize, index: usize) {
        self.relink(self.response[index]);
        self.relink(node);
    }

    fn run(mut self) -> Found {
        let operations = self.operations;
        let mut done: Set = 0;
        let (mut state, mut lost) = (Vec::new(), 0);
        let mut tried: HashSet<(Set, Fingerprint, usize)> = HashSet::new();
        let mut stack: Vec<Taken> = Vec::new();
        let (mut best, mut stuck) = (0, Vec::new());
        self.take_idle(&state, &mut stack, &mut done);
        let mut node = self.next[0];
        while node != 0 {
            let (time, index, returns) = self.events[node - 1];
            if !returns {
                let with = done ^ self.marks[index];
                let seen = operations[index];
                let row = if seen.returned.is_some() { 0 } else { lost + 1 };
                let after = self.try_next(&state, seen, lost);
                match after.filter(|after| tried.insert((with, Audit::of(after), row))) {
                    Some(after) => {
                        let before = core::mem::replace(&mut state, after);
                        stack.push(Taken { node, before: Some((before, lost)) });
                        done = with;
                        self.lift(node, index);
                        let idle = self.take_idle(&state, &mut stack, &mut done);
                        lost = if idle { 0 } else { row };
                        node = self.next[0];
                    }
                    None => node = self.next[node],
                }
                continue;
            }
            if time == u64::MAX {
                // Only operations without a response are left: they need not have run.
                return Found::Order;
            }
            if stuck.is_empty() || stack.len() > best {
                (best, stuck) = (stack.len(), self.front());
            }
            if tried.len() > CONFIGURATIONS_MAX {
                return Found::Nothing;
            }
            match self.take_back(&mut stack, &mut done) {
                Some((last, before)) => {
                    (state, lost) = before;
                    node = self.next[last];
                }
                None => return Found::NoOrder { stuck, all: !self.cut },
            }
        }
        Found::Order
    }

    /// Takes every operation that can come here, and whose known result says that it changes
    /// nothing: if it can come here, it may as well, and nothing else becomes impossible by it.
    /// True if there was one.
    fn take_idle(&mut self, state: &[u8], stack: &mut Vec<Taken>, done: &mut Set) -> bool {
        let taken = stack.len();
        let mut node = self.next[0];
        while node != 0 {
            let (_, index, returns) = self.events[node - 1];
            if returns {
                break;
            }
            let seen = self.operations[index];
            if seen.result.is_some() && step(state, seen).is_some_and(|after| after == state) {
                let earlier = self.previous[node];
                stack.push(Taken { node, before: None });
                *done ^= self.marks[index];
                self.lift(node, index);
                node = self.next[earlier];
            } else {
                node = self.next[node];
            }
        }
        stack.len() > taken
    }

    /// Takes back the last step that had an alternative: its node and the state before it.
    fn take_back(
        &mut self,
        stack: &mut Vec<Taken>,
        done: &mut Set,
    ) -> Option<(usize, (Vec<u8>, usize))> {
        loop {
            let taken = stack.pop()?;
            let index = self.events[taken.node - 1].1;
            *done ^= self.marks[index];
            self.unlift(taken.node, index);
            if let Some(before) = taken.before {
                return Some((taken.node, before));
            }
        }
    }

    /// Some operations that could come next: those invoked before the first response.
    fn front(&self) -> Vec<usize> {
        let mut front = Vec::with_capacity(NAMED_MAX);
        let mut node = self.next[0];
        while node != 0 {
            let (_, index, returns) = self.events[node - 1];
            if returns || front.len() == NAMED_MAX {
                break;
            }
            front.push(index);
            node = self.next[node];
        }
        front
    }
}

#[cfg(test)]
mod tests;
