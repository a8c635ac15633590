//! One correct replica between two events: its core and device, and what its host holds.

use super::Broken;
use crate::checker::leaving;
use crate::checker::moving_on::{MovingOn, Timers};
use crate::crypto::Crypto;
use crate::devices::SimDevices;
use crate::node::{Act, Parts, ReplicaNode, stands};
use crate::observation::Observation;
use crate::packet::{Address, Packet};
use crate::quiet;
use crate::service::{Journal, Registers};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Verifier;
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Outcome as Result, Place, Reply, ToClient};
use pentarchy_core::protocol::{Delay, TimerKey};
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::wire::Wire as _;
use pentarchy_machine::Started;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex};

/// All clocks, always: an exploration has no time, only order.
const NOW: Millis = Millis(1_000);

/// What is the same for all replicas of an exploration.
pub struct Common {
    /// The group.
    pub membership: Arc<Membership>,
    /// The keys.
    pub crypto: Arc<Crypto>,
    /// The clients.
    pub clients: Arc<[ClientId]>,
    /// The envelopes that clients made: nothing else may be executed.
    pub envelopes: BTreeSet<Digest>,
    /// See [`super::Plan::asks`].
    pub asks: bool,
}

/// Which budget a timer draws on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// [`super::Plan::timeouts`].
    Judge,
    /// The same: a view is to begin by then.
    View,
    /// [`super::Plan::resends`].
    Resend,
    /// Waits for a clock, and clocks stand still.
    Clock,
}

/// What a client was told of a request, though it may be taken back: two replicas told it the same
/// if all of this is equal.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Answer {
    /// On what it rests.
    pub place: Place,
    /// Which client.
    pub client: u16,
    /// Which of its requests.
    pub number: u64,
    /// Digest of the result; none if there is none.
    pub result: Option<Digest>,
}

/// See the [module](self).
pub struct Replica {
    /// Which replica.
    pub id: ReplicaId,
    core: Box<dyn ReplicaCore>,
    device: SimDevices,
    /// Where its device stands: last position, last commitment. None before its first certificate.
    stands: Option<(Position, Position)>,
    /// Armed timers.
    pub timers: BTreeMap<TimerKey, Kind>,
    /// What it executed and does not take back, from slot 1 on.
    pub log: Vec<Arc<Batch>>,
    /// What it executed behind that.
    open: Vec<Arc<Batch>>,
    /// Where stands what it executed behind the last checkpoint, if that was open at first.
    places: Vec<Place>,
    /// What it ever told clients of what was open, with a name for all that it had executed up to
    /// there.
    pub told: BTreeMap<Answer, Digest>,
    /// Whether it asked for a view since it left for the one in which it is.
    moving_on: MovingOn,
    /// The state that its core asked its host to fetch.
    pub wish: Option<(Slot, Digest)>,
    /// Requests that clients sent it, as a mask.
    pub asked: u8,
    /// Requests that clients sent it again, as a mask.
    pub asked_again: u8,
    /// What is left of [`super::Plan::timeouts`].
    pub timeouts: u8,
    /// What is left of [`super::Plan::resends`].
    pub resends: u8,
}

/// What a replica consumes.
pub enum Happening<'a> {
    /// A packet arrives.
    Packet(Address, &'a Packet),
    /// A timer runs out.
    Timeout(TimerKey),
    /// A state that it wished for is there.
    State(Snapshot),
}

/// What a replica did in one step.
#[derive(Default)]
pub struct Outcome {
    /// What it sent, and to whom.
    pub sent: Vec<(ReplicaSet, Bytes)>,
    /// A property that this step alone breaks.
    pub broken: Option<Broken>,
}

impl Clone for Replica {
    fn clone(&self) -> Self {
        Self {
            core: self.core.boxed_clone(),
            device: self.device.clone(),
            timers: self.timers.clone(),
            log: self.log.clone(),
            open: self.open.clone(),
            places: self.places.clone(),
            told: self.told.clone(),
            moving_on: self.moving_on.clone(),
            id: self.id,
            stands: self.stands,
            wish: self.wish,
            asked: self.asked,
            asked_again: self.asked_again,
            timeouts: self.timeouts,
            resends: self.resends,
        }
    }
}

impl Replica {
    /// A replica that was just started.
    pub fn start(
        id: ReplicaId,
        core: Box<dyn ReplicaCore>,
        first: Vec<CoreEffect>,
        common: &Common,
        budgets: (u8, u8),
    ) -> (Self, Outcome) {
        let device = SimDevices::new(id, common.membership.lane.pillars, &common.crypto);
        let mut replica = Self {
            id,
            core,
            device,
            stands: None,
            timers: BTreeMap::new(),
            log: Vec::new(),
            open: Vec::new(),
            places: Vec::new(),
            told: BTreeMap::new(),
            moving_on: MovingOn::default(),
            wish: None,
            asked: 0,
            asked_again: 0,
            timeouts: budgets.0,
            resends: budgets.1,
        };
        let mut outcome = Outcome::default();
        replica.with_node(common, first, &mut outcome, |_, _| {});
        (replica, outcome)
    }

    /// The core, to look at.
    pub fn core(&self) -> &dyn ReplicaCore {
        &*self.core
    }

    /// Whether it executed what it may take back: then a client that asks again is waiting for
    /// something.
    pub fn is_speculative(&self) -> bool {
        !self.open.is_empty()
    }

    /// All of it.
    pub fn fingerprint(&self) -> u128 {
        let mut sink = Sink::default();
        self.core.fingerprint(&mut sink);
        self.device.fingerprint(&mut sink);
        let digests = |log: &[Arc<Batch>]| log.iter().map(|it| it.digest).collect::<Vec<_>>();
        let (log, open) = (digests(&self.log), digests(&self.open));
        let host = (self.id, self.stands, &self.timers, log, self.wish);
        (host, self.asked, self.timeouts, self.resends).hash(&mut sink);
        (open, &self.places, self.asked_again, &self.told, &self.moving_on).hash(&mut sink);
        sink.finish_128()
    }

    /// Its view and its log, as a hash.
    pub fn outcome(&self) -> u128 {
        let mut sink = Sink::default();
        let log: Vec<Digest> = self.log.iter().map(|batch| batch.digest).collect();
        (self.core.status().view, log).hash(&mut sink);
        sink.finish_128()
    }

    /// One event, and the end of the round behind it. A panic inside is a broken invariant.
    pub fn step(&mut self, happening: Happening<'_>, common: &Common) -> Outcome {
        let mut outcome = Outcome::default();
        let stepped = quiet::catch(|| {
            self.with_node(common, Vec::new(), &mut outcome, |node, out| match happening {
                Happening::Packet(from, packet) => node.on_packet(from, packet, out),
                Happening::Timeout(timer) => node.on_timeout(timer, out),
                Happening::State(snapshot) => node.on_snapshot(snapshot, out),
            });
        });
        if let Err(text) = stepped {
            outcome.broken = Some(Broken::new("invariants", format!("{}: {text}", self.id)));
        }
        outcome
    }

    /// It takes up the state behind these batches from others, in its next step.
    pub fn take_up(&mut self, log: &[Arc<Batch>]) {
        (self.log, self.open, self.places) = (log.to_vec(), Vec::new(), Vec::new());
    }

    /// The state of the executor after a slot, as a donor of state has it.
    pub fn snapshot(&self, slot: Slot, common: &Common) -> Option<Snapshot> {
        let log = self.log.get(..usize::try_from(slot.0).ok()?)?;
        let (mut executor, _) = executor(common, log.iter(), log.len(), &[]);
        executor.checkpoint();
        executor.snapshot(slot).cloned()
    }

    /// The host around the core, as the simulator has it.
    fn node(
        &self,
        common: &Common,
        first: Vec<CoreEffect>,
        acts: &mut Vec<Act>,
    ) -> ReplicaNode<'static> {
        let log = self.log.iter().chain(&self.open);
        let executes = executor(common, log, self.log.len(), &self.places);
        executes.1.lock().expect("no panic while writing").clear();
        let device = Arc::new(Mutex::new(self.device.clone()));
        let keys = (common.crypto.clone(), common.clients.clone(), device);
        let core = Started { core: self.core.boxed_clone(), effects: first };
        let parts = Parts::of_one_epoch(self.id, &common.membership, keys, core, executes);
        ReplicaNode::new(parts, NOW.0, acts)
    }

    fn with_node(
        &mut self,
        common: &Common,
        first: Vec<CoreEffect>,
        outcome: &mut Outcome,
        act: impl FnOnce(&mut ReplicaNode<'_>, &mut Vec<Act>),
    ) {
        let mut acts = Vec::new();
        let mut node = self.node(common, first, &mut acts);
        let stood = node.statuses();
        act(&mut node, &mut acts);
        node.on_clock(NOW.0, NOW);
        node.on_round(&mut acts);
        let statuses = node.statuses();
        if common.asks && !stands(&statuses).eq(stands(&stood)) {
            let shown = leaving::shown(self.id, node.shows_what_it_accepts());
            outcome.broken = outcome.broken.take().or(shown.err());
        }
        let before = self.log.len();
        let asks = acts.iter().any(|act| matches!(act, Act::Saw(seen) if seen.asks()));
        acts.into_iter().for_each(|act| self.note(act, outcome));
        if self.log.len() > before {
            self.judge_log(common, outcome);
        }
        let timers = self.leading_on();
        let moves_on = self.moving_on.stepped(self.id, statuses.cores(), asks, timers);
        outcome.broken = outcome.broken.take().or(moves_on.err());
        self.places = node.executor().places_of_all();
        let (core, device) = node.into_parts();
        self.core = core;
        self.device = device.lock().expect("no panic while certifying").clone();
    }

    /// Its timers that lead it on if it is in no working view.
    fn leading_on(&self) -> Timers {
        let count = |kind| self.timers.values().filter(|it| **it == kind).count();
        Timers { views: count(Kind::View), resends: count(Kind::Resend) }
    }

    fn note(&mut self, act: Act, outcome: &mut Outcome) {
        match act {
            Act::Send { to: Address::Replica(to), packet: Packet::Protocol(_, wire) } => {
                outcome.sent.push((ReplicaSet::from_iter([to]), wire));
            }
            Act::Send { to: Address::Client(client), packet: Packet::ToClient(_, wire) } => {
                self.tell(client, &wire);
            }
            // States are handed over in one step.
            Act::Send { .. } => {}
            Act::Arm { timer, after } => {
                let kind = match after {
                    Delay::Request { .. } => Kind::Judge,
                    Delay::ViewChange { .. } => Kind::View,
                    Delay::Resend => Kind::Resend,
                    Delay::Resends { .. } | Delay::Millis(_) => Kind::Clock,
                };
                self.timers.insert(timer, kind);
            }
            Act::Disarm(timer) => {
                self.timers.remove(&timer);
            }
            Act::DisarmAll => self.timers.clear(),
            Act::Pause { .. } => {}
            Act::Saw(seen) => self.saw(seen, outcome),
        }
    }

    /// A client is told something. What is final it is told by whoever has it in its log.
    fn tell(&mut self, client: u16, wire: &Bytes) {
        let result = |reply: Reply| match reply.outcome {
            Result::Done(result) => (reply.number, Some(Digest::of(&result))),
            _ => (reply.number, None),
        };
        let (place, results): (Place, Vec<_>) = match ToClient::from_bytes(wire) {
            Ok(ToClient::Speculative { place, replies, .. }) => {
                (place, replies.into_iter().map(result).collect())
            }
            Ok(ToClient::SpeculativeDigests { place, digests, .. }) => {
                (place, digests.into_iter().map(|it| (it.number, Some(it.digest))).collect())
            }
            _ => return,
        };
        let Some(executed) = self.executed(place.slot) else { return };
        for (number, result) in results {
            self.told.insert(Answer { place, client, number, result }, executed);
        }
    }

    /// A name for all that was executed up to a slot; none if the replica is not as far.
    fn executed(&self, slot: Slot) -> Option<Digest> {
        let all = self.log.iter().chain(&self.open).map(|batch| batch.digest);
        let upto = usize::try_from(slot.0).ok()?;
        (upto <= self.log.len() + self.open.len()).then(|| name(all.take(upto)))
    }

    /// A name for what is final up to a slot; none if not all of that is.
    pub fn sure(&self, slot: Slot) -> Option<Digest> {
        let log = self.log.get(..usize::try_from(slot.0).ok()?)?;
        Some(name(log.iter().map(|batch| batch.digest)))
    }

    fn saw(&mut self, seen: Observation, outcome: &mut Outcome) {
        match seen {
            Observation::Executed { slot, batch } => {
                assert_eq!(slot.0, self.log.len() as u64 + 1, "slots are executed in order");
                self.log.push(batch);
            }
            Observation::Speculated { slot, batch, .. } => {
                let next = (self.log.len() + self.open.len()) as u64 + 1;
                assert_eq!(slot.0, next, "slots are executed in order");
                self.open.push(batch);
            }
            Observation::RolledBack { after } => {
                let stays = after.0.checked_sub(self.log.len() as u64);
                self.open.truncate(stays.expect("what is final stays") as usize);
            }
            Observation::Committed { upto } => {
                let sure = (upto.0 as usize).saturating_sub(self.log.len());
                self.log.extend(self.open.drain(..sure));
            }
            Observation::Fetching { slot, state } => self.wish = Some((slot, state)),
            Observation::Certified { ui, .. } => self.judge_certificate(&ui, outcome),
            Observation::Diverged { slot } => {
                let detail = format!("{} has another state than f + 1 replicas at {slot}", self.id);
                outcome.broken = Some(Broken::new("agreement", detail));
            }
            _ => {}
        }
    }

    /// Positions ascend, so each is certified once; and each certificate names the commitment
    /// before it.
    fn judge_certificate(&mut self, ui: &Ui, outcome: &mut Outcome) {
        let counter = self.device.counter();
        let (last, committed) = self.stands.unwrap_or((counter.start(), counter.start()));
        if self.stands.is_some()
            && (ui.position <= last || ui.committed != counter.names(ui.position, last, committed))
        {
            let detail = format!("{} certifies {ui:?} after {last:?}, {committed:?}", self.id);
            outcome.broken = Some(Broken::new("counter_uniqueness", detail));
        }
        let commits = ui.position.index >= Position::COMMITMENT;
        let committed = if commits { ui.position } else { committed };
        self.stands = Some((ui.position, committed));
    }

    /// What ran came from clients, and ran once.
    fn judge_log(&self, common: &Common, outcome: &mut Outcome) {
        let envelopes = self.log.iter().flat_map(|batch| &batch.envelopes);
        for envelope in envelopes {
            // The digest does not cover who authenticated it.
            let made = common.envelopes.contains(&envelope.digest);
            if !made || !common.crypto.envelope(envelope) {
                let detail = format!("{} executes {envelope:?}, which no client made", self.id);
                outcome.broken = Some(Broken::new("validity", detail));
            }
        }
        let (_, journal) = executor(common, self.log.iter(), self.log.len(), &[]);
        let ran = journal.lock().expect("no panic while writing").clone();
        let mut seen = BTreeSet::new();
        for (slot, client, number) in ran {
            if !seen.insert((client, number)) {
                let detail = format!("{} runs {client}#{number} again in {slot}", self.id);
                outcome.broken = Some(Broken::new("at_most_once", detail));
            }
        }
    }
}

/// An executor that has executed these batches, in the slots from 1 on, of which so many are final,
/// and what its service wrote. Those behind the last checkpoint stand in these places.
fn executor<'a>(
    common: &Common,
    log: impl Iterator<Item = &'a Arc<Batch>>,
    sure: usize,
    places: &[Place],
) -> (Executor, Journal) {
    let journal = Journal::default();
    let service = Box::new(Registers::new(journal.clone()));
    let mut executor = Executor::new(common.membership.clone(), service);
    for (slot, batch) in (1..).map(Slot).zip(log) {
        match places.iter().find(|place| place.slot == slot) {
            Some(place) => drop(executor.speculate(*place, batch, true, |_, _| {})),
            None => executor.execute(slot, batch, |_, _| {}),
        }
    }
    executor.commit(Slot(sure as u64), |_, _| {});
    (executor, journal)
}

/// A name for batches in their order.
fn name(batches: impl Iterator<Item = Digest>) -> Digest {
    let mut hasher = pentarchy_core::digest::Hasher::new("explored batches");
    batches.for_each(|digest| {
        hasher.digest(&digest);
    });
    hasher.finish()
}

/// Collects what is hashed, so that a good hash can be taken of it.
#[derive(Default)]
pub struct Sink(Vec<u8>);

impl Sink {
    /// The first half of the digest of everything written.
    pub fn finish_128(&self) -> u128 {
        let Digest(bytes) = Digest::of(&self.0);
        let mut half = [0; 16];
        half.copy_from_slice(&bytes[..16]);
        u128::from_le_bytes(half)
    }
}

impl Hasher for Sink {
    fn write(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }
    fn finish(&self) -> u64 {
        self.finish_128() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::world::membership;
    use pentarchy_core::ids::View;
    use pentarchy_core::outsider::Outsider;
    use pentarchy_core::ports::replica::speculation::Output;
    use pentarchy_core::protocol::{Authority, FaultModel, Rules};
    use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
    use pentarchy_core::request::{Draft, Request, RequestAuth};

    const RULES: Rules = Rules {
        name: "none",
        fault_model: FaultModel::Byzantine,
        group_size: Count::per_fault_and_one(3),
        quorum: QuorumRule::Byzantine,
        replies: Count::per_fault_and_one(2),
        reads: ReadRule::AllButFaulty,
        pillars: false,
        speculative: true,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: None,
    };

    fn common() -> Common {
        let client = ClientId([99; 32]);
        Common {
            membership: Arc::new(membership(1, 4, 1)),
            crypto: Arc::new(Crypto::new(1, 4, 1)),
            clients: [client].into(),
            envelopes: BTreeSet::new(),
            asks: true,
        }
    }

    fn batch(client: ClientId) -> Arc<Batch> {
        let request = Request { number: 1, operation: "op".into() };
        let draft = Draft { client, floor: 0, events: None, requests: vec![request] };
        let envelope = Arc::new(draft.seal(RequestAuth::Signature([0; 64])));
        let digest = envelope.digest;
        Arc::new(Batch { time: Millis(1), envelopes: vec![envelope], digest })
    }

    /// A core has a client told again what came of a slot, which stands in later views now, before
    /// it is final and afterwards: each time on what that rests.
    #[test]
    fn what_clients_are_told_again_is_seen() {
        let common = common();
        let core = Box::new(Outsider { rules: RULES });
        let (slot, batch, history) = (Slot(1), batch(common.clients[0]), Digest::of(b"all"));
        let first = Output::Speculate { answers: true, slot, batch, view: View(0), history };
        let first = vec![CoreEffect::Output(first.into())];
        let (mut replica, mut outcome) = Replica::start(ReplicaId(0), core, first, &common, (0, 0));
        let mut later = |output: Output| {
            let first = vec![CoreEffect::Output(output.into())];
            replica.with_node(&common, first, &mut outcome, |_, _| {});
        };
        later(Output::Answer { slot, view: View(2) });
        later(Output::Restate { view: View(4) });
        later(Output::Commit { upto: slot });
        later(Output::Answer { slot, view: View(5) });
        let places = replica.told.keys().map(|answer| answer.place).collect::<Vec<_>>();
        assert_eq!(places, [0, 2, 4, 5].map(|view| Place { view: View(view), slot, history }));
    }
}
