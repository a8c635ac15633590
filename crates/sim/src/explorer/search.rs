//! Breadth first, so that the first broken property has a shortest run.

use super::Broken;
use super::plan::{Explored, Plan};
use super::replica::{Kind, Replica, Sink};
use super::space::{Event, LiarId, LocalId, MessageId, Space, Step};
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::protocol::TimerKey;
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet, VecDeque};
use std::hash::{BuildHasherDefault, Hash, Hasher};

/// The liar's place among the replicas' states, and that of no liar.
const NONE: u32 = u32::MAX;

/// Replicas of the largest group that can be explored.
pub const REPLICAS: usize = 7;

/// The whole group at one moment.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct State {
    /// Each correct replica's state.
    pub locals: [LocalId; REPLICAS],
    /// The liar's.
    pub liar: LiarId,
    /// Lies that it may still tell.
    pub lies: u8,
    /// The lie that it has just made and that has not arrived anywhere.
    pub fresh: Option<MessageId>,
    /// Messages under way, in order.
    pub flights: Vec<Flight>,
}

/// A message under way, and to whom; in one number, because there are very many.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Flight(u32);

impl Flight {
    /// Bits for the receiver.
    const BITS: u32 = 4;

    const fn new(message: MessageId, to: u16) -> Self {
        Self(message << Self::BITS | to as u32)
    }

    /// Which message.
    pub const fn message(self) -> MessageId {
        self.0 >> Self::BITS
    }

    /// To whom.
    pub const fn to(self) -> u16 {
        (self.0 & ((1 << Self::BITS) - 1)) as u16
    }
}

/// A step of the whole group.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Action {
    /// A client's request reaches a replica.
    Request(u8, u16),
    /// A message arrives.
    Deliver(Flight),
    /// A timer runs out.
    Timeout(TimerKey, u16),
    /// A replica gets the state that it wished for from another.
    State(u16, u16),
    /// The liar says something.
    Lie(u32),
}

impl State {
    fn fingerprint(&self) -> u128 {
        let mut sink = Sink::default();
        self.hash(&mut sink);
        sink.finish_128()
    }

    fn compact(mut self) -> Self {
        self.flights.shrink_to_fit();
        self
    }

    fn post(&mut self, message: MessageId, to: u16) {
        let flight = Flight::new(message, to);
        if let Err(at) = self.flights.binary_search(&flight) {
            self.flights.insert(at, flight);
        }
    }
}

/// The search so far.
pub struct Search<'a> {
    /// Everything that was met.
    pub space: Space<'a>,
    /// The first state.
    pub first: State,
    /// Which states were met, by fingerprint: the place in `parents`.
    seen: HashMap<u128, u32, BuildHasherDefault<Folded>>,
    /// How each state was first reached.
    parents: Vec<(u32, Option<Action>)>,
    /// What was seen of the group from outside: views and logs.
    outcomes: HashSet<[u128; REPLICAS]>,
    /// Steps taken.
    pub transitions: u64,
    /// Steps of the longest run.
    pub depth: usize,
    /// Most states that waited at the same time.
    pub waiting_max: usize,
}

/// What ended the search before all was explored.
pub struct Found {
    /// What is broken.
    pub broken: Broken,
    /// How.
    pub actions: Vec<Action>,
}

impl<'a> Search<'a> {
    /// The group at its start.
    pub fn new(plan: &'a Plan, explored: &Explored<'_>) -> Result<Self, String> {
        let (mut space, started) = Space::new(plan, explored);
        let mut locals = [NONE; REPLICAS];
        if started.len() > REPLICAS {
            return Err(format!("at most {REPLICAS} replicas can be explored"));
        }
        locals.iter_mut().zip(&started).for_each(|(place, (local, _))| *place = *local);
        let mut liar = NONE;
        if let Some(id) = plan.liar {
            if usize::from(id.0) >= started.len() {
                return Err(format!("the liar {id} is no replica of {}", started.len()));
            }
            locals[usize::from(id.0)] = NONE;
            let first = space.first_liar(id, explored);
            liar = first.ok_or_else(|| format!("{} has no liar", explored.rules.name))?;
        }
        let first = State { locals, liar, lies: plan.lies, fresh: None, flights: Vec::new() };
        let mut search = Self {
            space,
            first,
            seen: HashMap::default(),
            parents: Vec::new(),
            outcomes: HashSet::new(),
            transitions: 0,
            depth: 0,
            waiting_max: 0,
        };
        let mut first = search.first.clone();
        for (index, (_, step)) in started.iter().enumerate() {
            if first.locals[index] != NONE {
                search.send(&mut first, step);
            }
        }
        search.first = first;
        Ok(search)
    }

    /// Explores until all is seen, something is broken, or there are too many states.
    pub fn run(&mut self, mut on: impl FnMut(usize) -> bool) -> Result<bool, Found> {
        let mut waiting: VecDeque<(u32, usize, State)> = VecDeque::new();
        let first = self.first.clone();
        self.seen.insert(first.fingerprint(), 0);
        self.parents.push((0, None));
        waiting.push_back((0, 0, first));
        let deep = self.space.plan.deep;
        while let Some((place, depth, state)) =
            if deep { waiting.pop_back() } else { waiting.pop_front() }
        {
            self.depth = self.depth.max(depth);
            self.outcomes.insert(state.locals.map(|local| self.space.outcome(local)));
            let actions = self.actions(&state);
            if let (Some(broken), Some(last)) = (self.space.device_broken.take(), actions.last()) {
                return Err(Found { broken, actions: self.way_to(place, *last) });
            }
            for action in actions {
                let next = match self.apply(&state, action) {
                    Ok(Some(next)) => next,
                    Ok(None) => continue,
                    Err(broken) => {
                        let actions = self.way_to(place, action);
                        return Err(Found { broken, actions });
                    }
                };
                self.transitions += 1;
                let fresh = self.parents.len() as u32;
                if let Entry::Vacant(entry) = self.seen.entry(next.fingerprint()) {
                    entry.insert(fresh);
                    self.parents.push((place, Some(action)));
                    waiting.push_back((fresh, depth + 1, next.compact()));
                }
            }
            self.waiting_max = self.waiting_max.max(waiting.len());
            if self.parents.len() >= self.space.plan.states_max || !on(self.parents.len()) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// States that were met.
    pub fn states(&self) -> usize {
        self.parents.len()
    }

    /// Different views and logs of the whole group in the states that were followed.
    pub fn outcomes(&self) -> usize {
        self.outcomes.len()
    }

    fn way_to(&self, mut place: u32, last: Action) -> Vec<Action> {
        let mut actions = vec![last];
        while let (parent, Some(action)) = self.parents[place as usize] {
            actions.push(action);
            place = parent;
        }
        actions.reverse();
        actions
    }

    /// Everything that may happen next.
    pub fn actions(&mut self, state: &State) -> Vec<Action> {
        let fresh = state.fresh.filter(|_| self.space.plan.reduced);
        let due = |flight: &&Flight| fresh.is_none_or(|fresh| fresh == flight.message());
        let flights = state.flights.iter().filter(due);
        let mut actions: Vec<Action> = flights.map(|flight| Action::Deliver(*flight)).collect();
        self.add_lies(state, &mut actions);
        if fresh.is_some() {
            return actions;
        }
        let asked = self
            .correct(state)
            .fold(0, |all, (_, local)| all | self.space.locals[local as usize].asked);
        for (id, local) in self.correct(state) {
            let replica = &self.space.locals[local as usize];
            for request in 0..self.space.plan.requests {
                // Clients are alike: whose request is first to arrive does not matter.
                let first = asked != 0 || request == 0;
                let is_new = first && replica.asked & (1 << request) == 0;
                let again = replica.is_speculative() && replica.asked_again & (1 << request) == 0;
                if is_new || again {
                    actions.push(Action::Request(request, id));
                }
            }
            for (timer, kind) in &replica.timers {
                let left = match kind {
                    Kind::Judge | Kind::View => replica.timeouts,
                    Kind::Resend => replica.resends,
                    Kind::Clock => 0,
                };
                if left > 0 {
                    actions.push(Action::Timeout(*timer, id));
                }
            }
            if let Some((slot, _)) = replica.wish {
                let has = |local: LocalId| self.space.locals[local as usize].log.len() as u64;
                let donors = self.correct(state).filter(|(_, donor)| has(*donor) >= slot.0);
                actions.extend(donors.map(|(donor, _)| Action::State(id, donor)));
            }
        }
        actions
    }

    /// A lie is made at the last moment: just before it first arrives somewhere, or just before
    /// the next lie. Correct replicas cannot tell the difference, and the liar may have learnt
    /// more.
    fn add_lies(&mut self, state: &State, actions: &mut Vec<Action>) {
        if state.lies > 0 && state.liar != NONE {
            let lies = self.space.lies_of(state.liar);
            actions.extend(lies.iter().map(|told| Action::Lie(told.lie)));
        }
    }

    fn correct<'s>(&self, state: &'s State) -> impl Iterator<Item = (u16, LocalId)> + use<'s> {
        let all = (0u16..).zip(state.locals.iter().copied());
        all.filter(|(_, local)| *local != NONE)
    }

    /// The state behind an action; none if the action changes nothing.
    pub fn apply(&mut self, state: &State, action: Action) -> Result<Option<State>, Broken> {
        let (id, event) = match action {
            Action::Request(request, id) => (id, Event::Request(request)),
            Action::Deliver(flight) => (flight.to(), Event::Message(flight.message())),
            Action::Timeout(timer, id) => (id, Event::Timeout(timer)),
            Action::State(id, donor) => (id, Event::State(state.locals[usize::from(donor)])),
            Action::Lie(lie) => return Ok(self.lie(state, lie)),
        };
        let before = state.locals[usize::from(id)];
        let step = self.space.step(before, event)?;
        if step.next == before && step.sent.is_empty() {
            // The message may do something later, so it stays under way.
            return Ok(None);
        }
        let mut next = state.clone();
        next.locals[usize::from(id)] = step.next;
        if let Action::Deliver(arrived) = action {
            next.flights.retain(|flight| *flight != arrived);
            next.fresh = None;
        }
        let space = &mut self.space;
        next.flights
            .retain(|flight| flight.to() != id || !space.is_settled(step.next, flight.message()));
        self.send(&mut next, &step);
        if step.spoke {
            self.judge(&next)?;
        }
        Ok(Some(next))
    }

    fn lie(&mut self, state: &State, lie: u32) -> Option<State> {
        let lies = self.space.lies_of(state.liar);
        let told = *lies.iter().find(|told| told.lie == lie)?;
        let mut next = state.clone();
        (next.liar, next.lies, next.fresh) = (told.next, state.lies - 1, Some(told.message));
        for (id, local) in self.correct(state) {
            if !self.space.is_settled(local, told.message) {
                next.post(told.message, id);
            }
        }
        Some(next)
    }

    fn send(&mut self, state: &mut State, step: &Step) {
        for (message, to) in step.sent.iter() {
            self.post(state, *message, *to);
        }
    }

    fn post(&mut self, state: &mut State, message: MessageId, to: ReplicaSet) {
        for ReplicaId(id) in to.iter() {
            let local = state.locals[usize::from(id)];
            if local != NONE && !self.space.is_settled(local, message) {
                state.post(message, id);
            } else if local != NONE {
                continue;
            } else if state.liar != NONE {
                state.liar = self.space.hear(state.liar, message);
            }
        }
    }

    /// Two correct replicas never hold different batches for final in one slot, nor anything else
    /// than what a client may act on.
    fn judge(&self, state: &State) -> Result<(), Broken> {
        let logs: Vec<_> =
            self.correct(state).map(|(_, l)| &self.space.locals[l as usize]).collect();
        for (index, one) in logs.iter().enumerate() {
            let others = &logs[index + 1..];
            others.iter().try_for_each(|other| differs(one, other).map_or(Ok(()), Err))?;
        }
        relied_upon(&logs)
    }
}

/// The first slot in which two replicas executed different batches.
fn differs(one: &Replica, other: &Replica) -> Option<Broken> {
    let mut pairs = (1u64..).zip(one.log.iter().zip(&other.log));
    let (slot, (a, b)) = pairs.find(|(_, (a, b))| a.digest != b.digest)?;
    let detail = format!(
        "slot {slot}: {} executed {:?} ({}), {} executed {:?} ({})",
        one.id, a.envelopes, a.digest, other.id, b.envelopes, b.digest
    );
    Some(Broken::new("agreement", detail))
}

/// What all told a client alike it acts on, under any rule that a protocol here has; a liar may
/// have said the same. What is final behind that has to begin with it.
fn relied_upon(replicas: &[&Replica]) -> Result<(), Broken> {
    let Some((first, others)) = replicas.split_first() else { return Ok(()) };
    for (answer, executed) in &first.told {
        let slot = answer.place.slot;
        if !others.iter().all(|other| other.told.contains_key(answer)) {
            continue;
        }
        let parted = others.iter().find(|other| other.told.get(answer) != Some(executed));
        let lost = replicas.iter().find(|it| it.sure(slot).is_some_and(|sure| sure != *executed));
        let Some(other) = parted.or(lost) else { continue };
        let detail = format!(
            "a client acts on #{} in {:?}, as all told it the same; {} has something else up to \
             there",
            answer.number, answer.place, other.id
        );
        return Err(Broken::new("speculation", detail));
    }
    Ok(())
}

/// Fingerprints are hashes already.
#[derive(Default)]
struct Folded(u64);

impl Hasher for Folded {
    fn write(&mut self, bytes: &[u8]) {
        let mut first = [0; 8];
        let len = bytes.len().min(8);
        first[..len].copy_from_slice(&bytes[..len]);
        self.0 = u64::from_le_bytes(first);
    }
    fn finish(&self) -> u64 {
        self.0
    }
}
