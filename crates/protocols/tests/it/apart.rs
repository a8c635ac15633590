//! Replicas whose pillars and merge run apart, as in threads of their own: what they say to each
//! other waits in queues, and which of them is emptied next is left to chance. Some keep a log, cut
//! it when all parts have kept again what they need, and crash.

use crate::net::{Device, Trusting, envelope};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag};
use pentarchy_core::counter::Instance;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::membership::{Base, Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output, pillar};
use pentarchy_core::protocol::{Memory, Setup, Timeouts, TimerKey, To, Tuning};
use pentarchy_core::request::Envelope;
use pentarchy_protocols::pillars::{Part as Started, Parts};
use pentarchy_protocols::{Descriptor, EXAMPLES};
use pentarchy_sim::rng::Rng;
use pentarchy_sim::world::membership;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const PILLARS: u8 = 3;
const TUNING: Tuning = Tuning {
    checkpoint_slots: 4,
    checkpoint_bytes: 1 << 20,
    window_slots: 8,
    batch_requests: 2,
    proposals_in_flight: 2,
    interleaving: 0,
};

/// What was executed, in order.
type History = Vec<(Slot, Digest)>;

/// A part of a replica: a pillar by its number, or the merger behind them.
type Part = usize;
const STAGE: Part = PILLARS as usize;

/// A state: what led there.
#[derive(Clone, Default)]
struct State {
    history: History,
    settled: BTreeSet<(ClientId, u64)>,
}

/// What a replica has kept, all at once durable.
#[derive(Default)]
struct Kept {
    /// Records by number, and which part's each is.
    log: BTreeMap<u64, (Part, Bytes)>,
    next: u64,
    /// The last state that was taken or fetched.
    saved: State,
    /// From where on parts keep again, of which the merger's host has not heard.
    begun: Vec<VecDeque<u64>>,
    /// Of each time that a state was stable, from where on parts have kept again.
    cuts: VecDeque<Vec<Option<u64>>>,
    /// How often the log was cut.
    cut: usize,
}

impl Kept {
    /// A part has kept again all that it needs. When all have, the log is cut.
    fn compacted(&mut self, part: Part) {
        let begun = self.begun[part].pop_front().expect("it has begun");
        let open = self.cuts.iter_mut().find(|cut| cut[part].is_none());
        open.expect("it was told to")[part] = Some(begun);
        let Some(needed) = self.cuts[0].iter().copied().collect::<Option<Vec<u64>>>() else {
            return;
        };
        self.cuts.pop_front();
        self.log.retain(|number, (part, _)| *number >= needed[*part]);
        self.cut += 1;
    }
}

struct Replica {
    parts: Vec<Box<dyn ReplicaCore>>,
    /// To each pillar.
    inward: Vec<VecDeque<Input>>,
    /// From each.
    outward: Vec<VecDeque<Output>>,
    /// Of each.
    devices: Vec<Device>,
    timers: BTreeMap<(Part, TimerKey), u64>,
    /// What execution told the merger.
    told: VecDeque<Input>,
    state: State,
    kept: Kept,
    fetches: Option<(Slot, Digest)>,
    installed: usize,
}

struct Group {
    /// Its name, and how many replicas it has; one of them may be faulty.
    protocol: &'static Descriptor,
    n: u16,
    membership: Arc<Membership>,
    /// Whether they keep a log, and crash now and then.
    crashes: bool,
    rng: Rng,
    now: u64,
    replicas: Vec<Replica>,
    /// From whom to which part of whom.
    network: Vec<(ReplicaId, u16, Part, Bytes)>,
    /// States by slot, whoever took them.
    states: BTreeMap<Slot, State>,
    /// Who neither hears nor is heard.
    cut_off: BTreeSet<u16>,
}

fn digest(history: &History) -> Digest {
    let mut hasher = Hasher::new("history by hand");
    for (slot, batch) in history {
        hasher.u64(slot.0).digest(batch);
    }
    hasher.finish()
}

/// Brings up all parts, in their order.
fn start(
    entry: &Descriptor,
    me: u16,
    membership: &Arc<Membership>,
    memory: Memory,
) -> impl Iterator<Item = (Box<dyn ReplicaCore>, Vec<CoreEffect>)> {
    let membership = membership.clone();
    let setup = Setup { me: ReplicaId(me), membership, fetch: None, memory, tuning: TUNING };
    let Parts { merger, pillar_cores } = (entry.split.expect("it has parts").start)(setup);
    pillar_cores.into_iter().chain([merger]).map(|Started { core, effects }| (core, effects))
}

impl Group {
    /// A group of which one replica may be faulty.
    fn new(name: &str, seed: u64) -> Self {
        let protocol = pentarchy_protocols::find(name).expect("it is there");
        let n = protocol.rules.replicas(1) as u16;
        let lane = PillarConfig { pillars: PILLARS, ..PillarConfig::default() };
        let membership = Arc::new(Membership { lane, ..membership(seed, n.into(), 1) });
        let mut group = Self {
            protocol,
            n,
            membership,
            crashes: false,
            rng: Rng::new(seed),
            now: 1_000,
            replicas: Vec::new(),
            network: Vec::new(),
            states: BTreeMap::new(),
            cut_off: BTreeSet::new(),
        };
        for me in 0..n {
            let counter = protocol.rules.device();
            let device = |part| Device::new(ReplicaId(me), Instance(part), counter);
            group.replicas.push(Replica {
                parts: Vec::new(),
                inward: Vec::new(),
                outward: Vec::new(),
                devices: (0..PILLARS).map(device).collect(),
                timers: BTreeMap::new(),
                told: VecDeque::new(),
                state: State::default(),
                kept: Kept::default(),
                fetches: None,
                installed: 0,
            });
            group.begin(me, Memory::Volatile);
        }
        group
    }

    /// The same of replicas that keep a log and crash.
    fn crashing(name: &str, seed: u64) -> Self {
        let mut group = Self::new(name, seed);
        group.crashes = true;
        group.network.clear();
        (0..group.n).for_each(|id| group.restart(id));
        group
    }

    /// A replica begins, or goes on from what it kept.
    fn begin(&mut self, me: u16, memory: Memory) {
        let queues = usize::from(PILLARS);
        let (parts, first): (Vec<_>, Vec<_>) =
            start(self.protocol, me, &self.membership, memory).unzip();
        let replica = &mut self.replicas[usize::from(me)];
        replica.parts = parts;
        replica.inward = (0..queues).map(|_| VecDeque::new()).collect();
        replica.outward = (0..queues).map(|_| VecDeque::new()).collect();
        replica.kept.begun = (0..queues).map(|_| VecDeque::new()).collect();
        for (part, effects) in first.into_iter().enumerate() {
            self.carry_out(me, part, effects);
        }
    }

    /// A replica loses all but what it kept. Its devices are as they were.
    fn restart(&mut self, id: u16) {
        let replica = &mut self.replicas[usize::from(id)];
        replica.timers.clear();
        replica.told.clear();
        replica.fetches = None;
        replica.kept.cuts.clear();
        replica.state = replica.kept.saved.clone();
        let slot = replica.state.history.last().map_or(Slot(0), |(slot, _)| *slot);
        let state = match slot {
            Slot(0) => self.membership.base.state,
            _ => digest(&replica.state.history),
        };
        let records = replica.kept.log.values().map(|(_, record)| record.clone()).collect();
        let executed = Base { slot, state };
        self.begin(id, Memory::Durable { executed, records });
        self.tell_stage(id);
    }

    fn step(&mut self, id: u16, part: Part, event: CoreEvent) {
        let mut out = Vec::new();
        let core = &mut self.replicas[usize::from(id)].parts[part];
        core.step(event, &mut out);
        core.assert_invariants();
        self.carry_out(id, part, out);
        self.tell_stage(id);
    }

    /// Execution is in step with the merger: what it answers is heard before anything else.
    fn tell_stage(&mut self, id: u16) {
        while let Some(told) = self.replicas[usize::from(id)].told.pop_front() {
            self.step(id, STAGE, CoreEvent::Input(told));
        }
    }

    fn carry_out(&mut self, id: u16, part: Part, effects: Vec<CoreEffect>) {
        let now = self.now;
        for effect in effects {
            let replica = &mut self.replicas[usize::from(id)];
            match effect {
                CoreEffect::Send { to, outgoing } => self.send(id, part, to, &outgoing),
                CoreEffect::Relay { to, wire, .. } => self.post(id, part, to, &wire),
                CoreEffect::Persist(record) => {
                    assert!(self.crashes && record.first() == Some(&(part as u8)), "its own");
                    replica.kept.log.insert(replica.kept.next, (part, record));
                    replica.kept.next += 1;
                }
                CoreEffect::Output(Output::Pillar(pillar::Output::Compacting {
                    is_done: false,
                    ..
                })) => {
                    replica.kept.begun[part].push_back(replica.kept.next);
                }
                CoreEffect::Arm { timer, after } => {
                    let at = now + Timeouts::default().millis(after);
                    replica.timers.insert((part, timer), at);
                }
                CoreEffect::Disarm(timer) => {
                    replica.timers.remove(&(part, timer));
                }
                CoreEffect::Report(evidence) => panic!("nobody lies: {evidence:?}"),
                CoreEffect::Output(Output::Pillar(pillar::Output::Tell { pillar, input })) => {
                    assert_eq!(part, STAGE);
                    replica.inward[usize::from(pillar)].push_back(*input);
                }
                CoreEffect::Output(output) if part == STAGE => self.output(id, output),
                CoreEffect::Output(output) => replica.outward[part].push_back(output),
            }
        }
    }

    fn send(&mut self, id: u16, part: Part, to: To, outgoing: &Outgoing) {
        let tag = match outgoing.auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Signature => AuthTag::Signature([id as u8; 64]),
            Auth::Usig(instance, position) => {
                assert_eq!(usize::from(instance.0), part, "a pillar uses its own");
                let device = &mut self.replicas[usize::from(id)].devices[part];
                AuthTag::Usig(device.create(position, &outgoing.digest))
            }
            Auth::Checksum | Auth::Mac(_) | Auth::Vector => panic!("nobody asks for one"),
        };
        let (wire, own) = self.replicas[usize::from(id)].parts[part].seal(outgoing, tag);
        self.post(id, part, to, &wire);
        let loops = match to {
            To::One(one) => one == ReplicaId(id),
            To::Set(set) => set.contains(ReplicaId(id)),
            To::All => true,
            To::Others => false,
        };
        if loops {
            self.step(id, part, CoreEvent::Message(own));
        }
    }

    fn post(&mut self, id: u16, part: Part, to: To, wire: &Bytes) {
        let gets = |other: u16| match to {
            To::One(one) => one == ReplicaId(other),
            To::Set(set) => set.contains(ReplicaId(other)),
            To::All | To::Others => true,
        };
        for other in (0..self.n).filter(|other| *other != id && gets(*other)) {
            self.network.push((ReplicaId(id), other, part, wire.clone()));
        }
    }

    /// Execution does what the merger asks for.
    fn output(&mut self, id: u16, output: Output) {
        let replica = &mut self.replicas[usize::from(id)];
        match output {
            Output::Execute { slot, batch } => {
                let last = replica.state.history.last().map_or(Slot(0), |(last, _)| *last);
                assert_eq!(slot, last.next(), "r{id}");
                replica.state.history.push((slot, batch.digest));
                for it in &batch.envelopes {
                    let numbers = it.requests.iter().map(|request| (it.client, request.number));
                    replica.state.settled.extend(numbers);
                }
            }
            Output::Checkpoint { slot } => {
                let state = digest(&replica.state.history);
                replica.told.push_back(Input::Checkpointed { slot, state });
                replica.kept.saved = replica.state.clone();
                self.states.insert(slot, replica.state.clone());
            }
            Output::Stable { .. } if self.crashes => {
                replica.kept.cuts.push_back(vec![None; PILLARS.into()]);
            }
            Output::Fetch { slot, state, .. } => {
                replica.fetches.get_or_insert((slot, state));
            }
            Output::Admit { envelope } => self.request(id, &envelope, true),
            Output::Diverged { .. } => panic!("r{id} has another state"),
            _ => {}
        }
    }

    fn request(&mut self, id: u16, envelope: &Arc<Envelope>, passed_on: bool) {
        let replica = &mut self.replicas[usize::from(id)];
        let is_open = |number| !replica.state.settled.contains(&(envelope.client, number));
        if envelope.requests.iter().any(|request| is_open(request.number)) {
            let (envelope, settled) = (envelope.clone(), Vec::new());
            replica.told.push_back(Input::Request { envelope, settled, passed_on });
        }
    }

    /// A fetched state arrives, all at once.
    fn install(&mut self, id: u16) {
        let replica = &mut self.replicas[usize::from(id)];
        let Some((slot, state)) = replica.fetches.take() else { return };
        let fetched = &self.states[&slot];
        assert_eq!(digest(&fetched.history), state);
        let last = replica.state.history.last().map_or(Slot(0), |(last, _)| *last);
        assert!(slot >= last, "r{id} goes back from {last} to {slot}");
        (replica.state, replica.kept.saved) = (fetched.clone(), fetched.clone());
        replica.installed += 1;
        replica.told.push_back(Input::Installed { slot });
        self.tell_stage(id);
    }

    /// Something that is under way arrives, somewhere.
    fn arrive(&mut self) {
        let id = self.rng.below(u64::from(self.n)) as u16;
        let part = self.rng.below(u64::from(PILLARS)) as usize;
        let replica = &mut self.replicas[usize::from(id)];
        let (part, event) = match self.rng.below(7) {
            0..4 => return self.deliver(),
            4 => (part, replica.inward[part].pop_front()),
            5 => {
                let output = replica.outward[part].pop_front();
                if let Some(Output::Pillar(pillar::Output::Compacting { .. })) = output {
                    return replica.kept.compacted(part);
                }
                let said = |it| pillar::Input::Said { pillar: part as u8, output: Box::new(it) };
                (STAGE, output.map(|it| said(it).into()))
            }
            _ => (part, Some(Input::Round { now: Millis(self.now) })),
        };
        if let Some(input) = event {
            self.step(id, part, CoreEvent::Input(input));
        }
    }

    fn deliver(&mut self) {
        if self.network.is_empty() {
            return;
        }
        let next = self.rng.below(self.network.len() as u64) as usize;
        let (from, to, part, wire) = self.network.swap_remove(next);
        if self.cut_off.contains(&from.0) || self.cut_off.contains(&to) {
            return;
        }
        let core = &self.replicas[usize::from(to)].parts[part];
        let opened = core.open_new(&Trusting, from, &wire).expect("nobody lies");
        if let Some(message) = opened {
            self.step(to, part, CoreEvent::Message(message));
        }
    }

    /// Some of what is under way arrives, and time goes on.
    fn millisecond(&mut self) {
        self.now += 1;
        let most = self.rng.below(2 * (60 + self.network.len() as u64));
        (0..most).for_each(|_| self.arrive());
        for id in 0..self.n {
            let timers = &mut self.replicas[usize::from(id)].timers;
            let due = timers.iter().filter(|(_, at)| **at <= self.now);
            let due: Vec<(Part, TimerKey)> = due.map(|(timer, _)| *timer).collect();
            timers.retain(|_, at| *at > self.now);
            for (part, timer) in due {
                self.step(id, part, CoreEvent::Timeout(timer));
            }
            for part in 0..=STAGE {
                let now = Millis(self.now);
                self.step(id, part, CoreEvent::Input(Input::Round { now }));
            }
            if self.rng.percent(5) {
                self.install(id);
            }
            if self.crashes && self.rng.below(400) == 0 {
                self.restart(id);
            }
        }
    }

    /// Clients ask these replicas, again and again, until these others have executed it, for so
    /// long at most.
    fn order(&mut self, client: u8, number: u64, ask: &[u16], done: &[u16]) -> bool {
        let request = envelope(client, number, 8);
        let is_done = |group: &Self| {
            let has = |id: &u16| {
                group.replicas[usize::from(*id)].state.settled.contains(&(request.client, number))
            };
            done.iter().all(has)
        };
        for round in 0..8_000 {
            if round % 300 == 0 {
                for id in ask {
                    self.request(*id, &request, false);
                    self.tell_stage(*id);
                }
            }
            if is_done(self) {
                return true;
            }
            self.millisecond();
        }
        false
    }

    /// Whether what they executed is the same, as far as they have come.
    fn assert_agreement(&self) {
        for replica in &self.replicas {
            let histories = self.replicas.iter().map(|it| &it.state.history);
            let longest = histories.max_by_key(|it| it.len()).expect("there are replicas");
            let history = &replica.state.history;
            assert_eq!(&longest[..history.len()], &history[..]);
        }
    }
}

/// Whether all is ordered: with all of them, and with the others when the first primary is gone.
fn survives_its_primary(name: &str, seed: u64) -> bool {
    let mut group = Group::new(name, seed);
    let all: Vec<u16> = (0..group.n).collect();
    let first = (1..=6).all(|number| group.order(number as u8, number, &all, &all));
    group.cut_off.insert(0);
    let rest = &all[1..];
    let then = (7..=12).all(|number| group.order(number as u8, number, rest, rest));
    group.assert_agreement();
    first && then
}

/// Whether a replica that missed more than a window has come to where the others are.
fn catches_up(name: &str, seed: u64) -> bool {
    let mut group = Group::new(name, seed);
    let last = group.n - 1;
    let rest: Vec<u16> = (0..last).collect();
    group.cut_off.insert(last);
    let mut ordered = (1..=20).all(|number| group.order(number as u8, number, &rest, &rest));
    assert_eq!(group.replicas[usize::from(last)].state.history.len(), 0);
    group.cut_off.clear();
    ordered &= (21..=40).all(|number| group.order(number as u8, number, &rest, &rest));
    for _ in 0..3_000 {
        group.millisecond();
    }
    group.assert_agreement();
    let [lagging, other] = [last, 1].map(|id| &group.replicas[usize::from(id)]);
    ordered && lagging.installed > 0 && lagging.state.history.len() == other.state.history.len()
}

/// Whether all is ordered although replicas crash all the time, and none says anything else than
/// before.
fn survives_crashes(name: &str, seed: u64) -> bool {
    let mut group = Group::crashing(name, seed);
    let all: Vec<u16> = (0..group.n).collect();
    let ordered = (1..=40).all(|number| group.order(number as u8, number, &all, &all));
    group.assert_agreement();
    ordered && group.replicas.iter().all(|replica| replica.kept.cut > 1)
}

const SEEDS: std::ops::Range<u64> = 0..6;

/// What becomes of this protocol when its order is split.
fn in_pillars(whole: &Descriptor) -> &'static str {
    pentarchy_protocols::in_pillars(whole.rules.name).expect("it can be split").rules.name
}

/// Without counters, and with.
fn protocols() -> [&'static str; 2] {
    [EXAMPLES.signed, EXAMPLES.split].map(in_pillars)
}

#[test]
fn parts_of_replicas_order_and_survive_their_primary() {
    for name in protocols() {
        SEEDS.for_each(|seed| assert!(survives_its_primary(name, seed), "{name}, seed {seed}"));
    }
    let [signed, _] = protocols();
    let unfilled = || SEEDS.clone().all(|seed| survives_its_primary(signed, seed));
    assert!(!mutant::with(Some("pillars.gaps-not-filled"), unfilled));
}

#[test]
fn parts_of_a_replica_catch_up_by_a_state() {
    for name in protocols() {
        SEEDS.for_each(|seed| assert!(catches_up(name, seed), "{name}, seed {seed}"));
    }
    let [signed, _] = protocols();
    let stale = || SEEDS.clone().all(|seed| catches_up(signed, seed));
    assert!(!mutant::with(Some("pillars.status-stale"), stale));
}

#[test]
fn parts_of_replicas_go_on_from_a_log_that_they_cut_together() {
    for name in protocols() {
        SEEDS.for_each(|seed| assert!(survives_crashes(name, seed), "{name}, seed {seed}"));
    }
    let [_, on_counters] = protocols();
    let others_cut = || {
        let all = || SEEDS.clone().all(|seed| survives_crashes(on_counters, seed));
        std::panic::catch_unwind(all).unwrap_or(false)
    };
    assert!(!mutant::with(Some("pillars.others-not-kept-again"), others_cut));
}
