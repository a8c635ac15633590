//! What an exploration found, in words.

use super::Broken;
use super::search::{Action, Found, Search, State};
use core::fmt;
use std::collections::BTreeMap;
use std::time::Duration;

/// Figures of one exploration, and what it found.
#[derive(Clone, Debug)]
pub struct Report {
    /// Different states of the group.
    pub states: usize,
    /// Steps that led from one to another.
    pub transitions: u64,
    /// Steps of the longest run that was followed.
    pub depth: usize,
    /// Different states of single replicas.
    pub replica_states: usize,
    /// Different views and logs of the group, of the states that were followed.
    pub outcomes: usize,
    /// Slots that a replica had executed in some state, at most.
    pub slots: usize,
    /// Different messages.
    pub messages: usize,
    /// Lies that correct replicas accept, by kind, each counted once for each state of the liar in
    /// which it can tell it.
    pub lies: BTreeMap<&'static str, usize>,
    /// Most states that waited to be followed.
    pub waiting_max: usize,
    /// Whether everything within the budgets was explored.
    pub complete: bool,
    /// How long it took.
    pub took: Duration,
    /// A shortest run that breaks a property.
    pub found: Option<Counterexample>,
}

/// A run that breaks a property.
#[derive(Clone, Debug)]
pub struct Counterexample {
    /// What is broken.
    pub broken: Broken,
    /// Its steps.
    pub steps: usize,
    /// The run, line by line.
    pub lines: Vec<String>,
}

impl Report {
    /// States per second.
    #[must_use]
    pub fn states_per_second(&self) -> f64 {
        self.states as f64 / self.took.as_secs_f64().max(f64::MIN_POSITIVE)
    }
}

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let end = match (&self.found, self.complete) {
            (Some(_), _) => "a property is broken",
            (None, true) => "all that the budgets allow",
            (None, false) => "stopped before all was seen",
        };
        writeln!(
            out,
            "{} states, {} transitions, depth {}, {:.1} s ({:.0} states per second): {end}",
            self.states,
            self.transitions,
            self.depth,
            self.took.as_secs_f64(),
            self.states_per_second(),
        )?;
        write!(
            out,
            "  {} outcomes (views and logs), up to {} slots executed, {} states of single \
             replicas, {} messages, at most {} states waiting",
            self.outcomes, self.slots, self.replica_states, self.messages, self.waiting_max
        )?;
        let Some(found) = &self.found else { return Ok(()) };
        write!(out, "\n{} after {} steps:", found.broken, found.steps)?;
        found.lines.iter().try_for_each(|line| write!(out, "\n  {line}"))
    }
}

/// Writes down what a search came to.
pub fn report(mut search: Search<'_>, outcome: Result<bool, Found>, took: Duration) -> Report {
    let complete = *outcome.as_ref().unwrap_or(&false);
    let (states, depth) = (search.states(), search.depth);
    let mut lies = BTreeMap::new();
    for lie in &search.space.lies {
        *lies.entry(lie.kind).or_default() += 1;
    }
    let found = outcome.err().map(|found| Counterexample {
        steps: found.actions.len(),
        lines: lines(&mut search, &found.actions),
        broken: found.broken,
    });
    Report {
        states,
        transitions: search.transitions,
        depth,
        replica_states: search.space.locals.len(),
        outcomes: search.outcomes(),
        slots: search.space.locals.iter().map(|local| local.log.len()).max().unwrap_or(0),
        messages: search.space.messages.len(),
        lies,
        waiting_max: search.waiting_max,
        complete,
        took,
        found,
    }
}

fn lines(search: &mut Search<'_>, actions: &[Action]) -> Vec<String> {
    let mut lines = Vec::new();
    let mut state = search.first.clone();
    for (number, action) in (1..).zip(actions) {
        lines.push(format!("{number:3}. {}", title(search, action)));
        // The last step may be one that ends in a panic.
        let Ok(Some(next)) = search.apply(&state, *action) else { continue };
        lines.extend(changes(search, &state, &next).map(|change| format!("       {change}")));
        state = next;
    }
    lines
}

fn title(search: &Search<'_>, action: &Action) -> String {
    match action {
        Action::Request(request, id) => format!("request of client {} reaches r{id}", request + 1),
        Action::Deliver(flight) => {
            format!("r{} <- {}", flight.to(), search.space.describe(flight.message()))
        }
        Action::Timeout(timer, id) => format!("r{id} times out ({}:{})", timer.0, timer.1),
        Action::State(id, donor) => format!("r{id} gets its state from r{donor}"),
        Action::Lie(lie) => format!("the liar says: {:?}", search.space.lies[*lie as usize]),
    }
}

/// What an action changed that others can see.
fn changes<'s>(
    search: &'s Search<'_>,
    before: &State,
    after: &State,
) -> impl Iterator<Item = String> + use<'s> {
    let mut lines = Vec::new();
    let mut sent: Vec<u32> = Vec::new();
    for flight in after.flights.iter().filter(|flight| !before.flights.contains(flight)) {
        if !sent.contains(&flight.message()) {
            sent.push(flight.message());
        }
    }
    lines
        .extend(sent.into_iter().map(|message| format!("says {}", search.space.describe(message))));
    let pairs = before.locals.iter().zip(&after.locals).filter(|(a, b)| a != b);
    for (a, b) in pairs {
        let (a, b) = (&search.space.locals[*a as usize], &search.space.locals[*b as usize]);
        let (was, is) = (a.core().status(), b.core().status());
        if (was.view, was.phase) != (is.view, is.phase) {
            lines.push(format!("{} is {} in {}", b.id, is.phase, is.view));
        }
        for (slot, batch) in (1..).zip(&b.log).skip(a.log.len()) {
            lines.push(format!("{} executes slot {slot}: {:?}", b.id, batch.envelopes));
        }
    }
    lines.into_iter()
}
