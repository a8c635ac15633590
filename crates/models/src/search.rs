//! Searches a small case of a model whole: every state that can be reached, breadth first, so that
//! the first breach has a shortest run.

use crate::Broken;
use std::collections::{HashSet, VecDeque};
use std::fmt;
use std::hash::{DefaultHasher, Hasher};

/// A case of a model in which so little may happen that every state of it can be visited.
#[derive(Clone, Copy)]
pub struct Case {
    /// One word.
    pub name: &'static str,
    /// What may happen in it.
    pub about: &'static str,
    /// Searches it without the rule of this name, until all states are met, or so many.
    pub search: fn(without: Option<&str>, states_max: usize) -> Searched,
}

/// What came of a search.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Searched {
    /// Different states that were met.
    pub states: usize,
    /// Steps that led from a state to another one, be it a new one or not.
    pub transitions: u64,
    /// Steps from the begin to the states that are farthest from it.
    pub depth: usize,
    /// Most states that were met and not yet followed, at any time. They fill the memory.
    pub waiting_max: usize,
    /// Whether all states were met.
    pub is_whole: bool,
    /// What broke first.
    pub found: Option<Found>,
}

/// A shortest run that breaks a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Found {
    /// What breaks.
    pub broken: Broken,
    /// What happens until then, one after the other.
    pub steps: Vec<String>,
}

/// A state of a small case.
pub(crate) trait State: Sized {
    /// A step to another state.
    type Action: fmt::Display;

    /// Everything that may happen next. Some of it may change nothing.
    fn actions(&self) -> Vec<Self::Action>;

    /// The state behind an action; none if the action changes nothing.
    fn after(&self, action: &Self::Action) -> Result<Option<Self>, Broken>;

    /// Whether all ends well from here on, if nothing bad happens any more.
    fn check(&self) -> Result<(), Broken>;

    /// Equal bytes for states from which the same can happen, and different bytes for others.
    fn encode(&self) -> Vec<u8>;
}

/// Searches from these states on, until all states are met, or so many.
pub(crate) fn search<S: State>(first: Vec<S>, states_max: usize) -> Searched {
    let mut search = Search {
        seen: HashSet::new(),
        ways: Vec::new(),
        waiting: VecDeque::new(),
        transitions: 0,
        depth: 0,
        waiting_max: 0,
    };
    let outcome = search.run(first, states_max);
    Searched {
        states: search.ways.len(),
        transitions: search.transitions,
        depth: search.depth,
        waiting_max: search.waiting_max,
        is_whole: *outcome.as_ref().unwrap_or(&false),
        found: outcome.err(),
    }
}

struct Search<S: State> {
    /// Fingerprints of all states that were met.
    seen: HashSet<u128>,
    /// How each state was first reached: from which one, and by what.
    ways: Vec<(usize, Option<S::Action>)>,
    waiting: VecDeque<Waiting<S>>,
    transitions: u64,
    depth: usize,
    waiting_max: usize,
}

/// A state that is to be followed.
struct Waiting<S> {
    /// Its place among the ways.
    place: usize,
    depth: usize,
    state: S,
}

impl<S: State> Search<S> {
    /// Whether all states were met.
    fn run(&mut self, first: Vec<S>, states_max: usize) -> Result<bool, Found> {
        for state in first {
            self.meet(state, 0, (0, None))?;
        }
        while let Some(Waiting { place, depth, state }) = self.waiting.pop_front() {
            self.depth = self.depth.max(depth);
            if self.ways.len() >= states_max {
                return Ok(false);
            }
            for action in state.actions() {
                match state.after(&action) {
                    Ok(None) => {}
                    Ok(Some(next)) => {
                        self.transitions += 1;
                        self.meet(next, depth + 1, (place, Some(action)))?;
                    }
                    Err(broken) => return Err(self.found(place, Some(&action), broken)),
                }
            }
        }
        Ok(true)
    }

    /// Keeps a state if it is new.
    fn meet(
        &mut self,
        state: S,
        depth: usize,
        way: (usize, Option<S::Action>),
    ) -> Result<(), Found> {
        if !self.seen.insert(fingerprint(&state.encode())) {
            return Ok(());
        }
        let place = self.ways.len();
        self.ways.push(way);
        if let Err(broken) = state.check() {
            return Err(self.found(place, None, broken));
        }
        self.waiting.push_back(Waiting { place, depth, state });
        self.waiting_max = self.waiting_max.max(self.waiting.len());
        Ok(())
    }

    /// The run to a state, and a last action.
    fn found(&self, mut place: usize, last: Option<&S::Action>, broken: Broken) -> Found {
        let mut steps: Vec<String> = last.map(ToString::to_string).into_iter().collect();
        while let (from, Some(action)) = &self.ways[place] {
            steps.push(action.to_string());
            place = *from;
        }
        steps.reverse();
        Found { broken, steps }
    }
}

/// So long that two of a million states have the same one by a chance of less than one in `10^26`.
fn fingerprint(bytes: &[u8]) -> u128 {
    let half = |salt: u8| {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(salt);
        hasher.write(bytes);
        u128::from(hasher.finish())
    };
    (half(0) << 64) | half(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A place on a board, from which one goes to the right or up.
    struct Place {
        x: u8,
        y: u8,
    }

    impl State for Place {
        type Action = &'static str;

        fn actions(&self) -> Vec<&'static str> {
            vec!["right", "up"]
        }

        fn after(&self, action: &&'static str) -> Result<Option<Self>, Broken> {
            let Self { x, y } = *self;
            let next = if *action == "up" { Self { x, y: y + 1 } } else { Self { x: x + 1, y } };
            if next.y == 4 {
                return Err(Broken { property: "board", how: "left at the top".to_owned() });
            }
            Ok((next.x < 4).then_some(next))
        }

        fn check(&self) -> Result<(), Broken> {
            let is_hole = (self.x, self.y) == (2, 1);
            let broken = || Broken { property: "hole", how: "fell in".to_owned() };
            if is_hole { Err(broken()) } else { Ok(()) }
        }

        fn encode(&self) -> Vec<u8> {
            vec![self.x, self.y]
        }
    }

    #[test]
    fn a_search_finds_a_shortest_run_to_what_breaks() {
        let found = search(vec![Place { x: 0, y: 0 }], 100).found.expect("there is a hole");
        assert_eq!(found.broken.property, "hole");
        assert_eq!(found.steps, ["right", "right", "up"]);
    }

    #[test]
    fn an_action_that_breaks_something_is_the_last_step() {
        let found = search(vec![Place { x: 3, y: 0 }], 100).found.expect("it leaves at the top");
        assert_eq!(found.broken.property, "board");
        assert_eq!(found.steps, ["up"; 4]);
    }

    #[test]
    fn a_search_that_was_cut_short_says_so() {
        let searched = search(vec![Place { x: 3, y: 0 }], 2);
        assert_eq!(searched.found, None);
        assert!(!searched.is_whole);
    }

    /// The first row of the board alone.
    struct Row(Place);

    impl State for Row {
        type Action = &'static str;

        fn actions(&self) -> Vec<&'static str> {
            vec!["right", "right"]
        }

        fn after(&self, action: &&'static str) -> Result<Option<Self>, Broken> {
            Ok(self.0.after(action)?.map(Self))
        }

        fn check(&self) -> Result<(), Broken> {
            self.0.check()
        }

        fn encode(&self) -> Vec<u8> {
            self.0.encode()
        }
    }

    #[test]
    fn a_whole_search_counts_each_state_once_and_each_transition() {
        let searched = search(vec![Row(Place { x: 0, y: 0 })], 100);
        let Searched { states, transitions, depth, is_whole, .. } = searched;
        assert_eq!((states, transitions, depth, is_whole), (4, 6, 3, true));
    }
}
