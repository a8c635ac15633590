//! Replicas whose pillars and merge run apart, as in threads of their own: what they say to each
//! other waits in queues, and which of them is emptied next is left to chance.

use crate::net::{Net, Trusting, envelope};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Memory, Setup, Timeouts, TimerKey, To, Tuning};
use pentarchy_core::request::Envelope;
use pentarchy_protocols::pbft::Pbft;
use pentarchy_protocols::pillars::Pillars;
use pentarchy_protocols::pillars::{Part as Started, Parts};
use pentarchy_sim::rng::Rng;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

const N: u16 = 4;
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

/// A part of a replica: a pillar by its number, or the stage behind them.
type Part = usize;
const STAGE: Part = PILLARS as usize;

struct Replica {
    parts: Vec<Box<dyn ReplicaCore>>,
    /// To each pillar.
    inward: Vec<VecDeque<Input>>,
    /// From each.
    outward: Vec<VecDeque<Output>>,
    timers: BTreeMap<(Part, TimerKey), u64>,
    /// What execution told the stage.
    told: VecDeque<Input>,
    history: History,
    settled: BTreeSet<(ClientId, u64)>,
    fetches: Option<(Slot, Digest)>,
    installed: usize,
}

struct Group {
    rng: Rng,
    now: u64,
    replicas: Vec<Replica>,
    /// From whom to which part of whom.
    network: Vec<(ReplicaId, u16, Part, Bytes)>,
    /// States by slot, whoever took them.
    states: BTreeMap<Slot, History>,
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
    me: u16,
    membership: &Arc<Membership>,
) -> impl Iterator<Item = (Box<dyn ReplicaCore>, Vec<CoreEffect>)> {
    let entry = pentarchy_protocols::find("pbft-pillars").expect("it is there");
    let (membership, memory) = (membership.clone(), Memory::Volatile);
    let setup = Setup { me: ReplicaId(me), membership, fetch: None, memory, tuning: TUNING };
    let Parts { stage, cells } = entry.split.expect("it has parts")(setup);
    cells.into_iter().chain([stage]).map(|Started { core, effects }| (core, effects))
}

impl Group {
    fn new(seed: u64) -> Self {
        let membership =
            Net::<Pillars<Pbft<false>>>::of_pillars(PILLARS, 4, &[], TUNING).membership;
        let mut group = Self {
            rng: Rng::new(seed),
            now: 1_000,
            replicas: Vec::new(),
            network: Vec::new(),
            states: BTreeMap::new(),
            cut_off: BTreeSet::new(),
        };
        for me in 0..N {
            let queues = usize::from(PILLARS);
            let (parts, first): (Vec<_>, Vec<_>) = start(me, &membership).unzip();
            group.replicas.push(Replica {
                parts,
                inward: (0..queues).map(|_| VecDeque::new()).collect(),
                outward: (0..queues).map(|_| VecDeque::new()).collect(),
                timers: BTreeMap::new(),
                told: VecDeque::new(),
                history: Vec::new(),
                settled: BTreeSet::new(),
                fetches: None,
                installed: 0,
            });
            for (part, effects) in first.into_iter().enumerate() {
                group.carry_out(me, part, effects);
            }
        }
        group
    }

    fn step(&mut self, id: u16, part: Part, event: CoreEvent) {
        let mut out = Vec::new();
        let core = &mut self.replicas[usize::from(id)].parts[part];
        core.step(event, &mut out);
        core.assert_invariants();
        self.carry_out(id, part, out);
        self.tell_stage(id);
    }

    /// Execution is in step with the stage: what it answers is heard before anything else.
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
                CoreEffect::Persist(_) => panic!("nothing is kept"),
                CoreEffect::Arm { timer, after } => {
                    let at = now + Timeouts::default().millis(after);
                    replica.timers.insert((part, timer), at);
                }
                CoreEffect::Disarm(timer) => {
                    replica.timers.remove(&(part, timer));
                }
                CoreEffect::Report(evidence) => panic!("nobody lies: {evidence:?}"),
                CoreEffect::Output(Output::ToPillar { pillar, input }) => {
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
            Auth::Usig(..) | Auth::Mac(_) => panic!("it has no devices"),
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
        for other in (0..N).filter(|other| *other != id && gets(*other)) {
            self.network.push((ReplicaId(id), other, part, wire.clone()));
        }
    }

    /// Execution does what the stage asks for.
    fn output(&mut self, id: u16, output: Output) {
        let replica = &mut self.replicas[usize::from(id)];
        match output {
            Output::Execute { slot, batch } => {
                let last = replica.history.last().map_or(Slot(0), |(last, _)| *last);
                assert_eq!(slot, last.next(), "r{id}");
                replica.history.push((slot, batch.digest));
                for it in &batch.envelopes {
                    let numbers = it.requests.iter().map(|request| (it.client, request.number));
                    replica.settled.extend(numbers);
                }
            }
            Output::Checkpoint { slot } => {
                let state = digest(&replica.history);
                replica.told.push_back(Input::Checkpointed { slot, state });
                self.states.insert(slot, replica.history.clone());
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
        let is_open = |number| !replica.settled.contains(&(envelope.client, number));
        if envelope.requests.iter().any(|request| is_open(request.number)) {
            let (envelope, settled) = (envelope.clone(), Vec::new());
            replica.told.push_back(Input::Request { envelope, settled, passed_on });
        }
    }

    /// A fetched state arrives, all at once.
    fn install(&mut self, id: u16) {
        let replica = &mut self.replicas[usize::from(id)];
        let Some((slot, state)) = replica.fetches.take() else { return };
        let history = &self.states[&slot];
        assert_eq!(digest(history), state);
        let last = replica.history.last().map_or(Slot(0), |(last, _)| *last);
        assert!(slot >= last, "r{id} goes back from {last} to {slot}");
        replica.history = history.clone();
        replica.installed += 1;
        replica.told.push_back(Input::Installed { slot });
        self.tell_stage(id);
    }

    /// Something that is under way arrives, somewhere.
    fn arrive(&mut self) {
        let id = self.rng.below(u64::from(N)) as u16;
        let part = self.rng.below(u64::from(PILLARS)) as usize;
        let replica = &mut self.replicas[usize::from(id)];
        let (part, event) = match self.rng.below(7) {
            0..4 => return self.deliver(),
            4 => (part, replica.inward[part].pop_front()),
            5 => {
                let output = replica.outward[part].pop_front();
                let pillar = part as u8;
                (STAGE, output.map(|it| Input::OfPillar { pillar, output: Box::new(it) }))
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
        for id in 0..N {
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
        }
    }

    /// Clients ask these replicas, again and again, until these others have executed it, for so
    /// long at most.
    fn order(&mut self, client: u8, number: u64, ask: &[u16], done: &[u16]) -> bool {
        let request = envelope(client, number, 8);
        let is_done = |group: &Self| {
            let has = |id: &u16| {
                group.replicas[usize::from(*id)].settled.contains(&(request.client, number))
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
            let longest = self.replicas.iter().map(|it| &it.history).max_by_key(|it| it.len());
            let longest = longest.expect("there are replicas");
            assert_eq!(&longest[..replica.history.len()], &replica.history[..]);
        }
    }
}

/// Whether all is ordered: with all four, and with three when the first primary is gone.
fn survives_its_primary(seed: u64) -> bool {
    let mut group = Group::new(seed);
    let all = [0, 1, 2, 3];
    let first = (1..=6).all(|number| group.order(number as u8, number, &all, &all));
    group.cut_off.insert(0);
    let rest = [1, 2, 3];
    let then = (7..=12).all(|number| group.order(number as u8, number, &rest, &rest));
    group.assert_agreement();
    first && then
}

/// Whether a replica that missed more than a window has come to where the others are.
fn catches_up(seed: u64) -> bool {
    let mut group = Group::new(seed);
    let rest = [0, 1, 2];
    group.cut_off.insert(3);
    let mut ordered = (1..=20).all(|number| group.order(number as u8, number, &rest, &rest));
    assert_eq!(group.replicas[3].history.len(), 0);
    group.cut_off.clear();
    ordered &= (21..=40).all(|number| group.order(number as u8, number, &rest, &rest));
    for _ in 0..3_000 {
        group.millisecond();
    }
    group.assert_agreement();
    let come_to = |id: usize| group.replicas[id].history.len();
    ordered && group.replicas[3].installed > 0 && come_to(3) == come_to(1)
}

const SEEDS: std::ops::Range<u64> = 0..6;

#[test]
fn parts_of_replicas_order_and_survive_their_primary() {
    SEEDS.for_each(|seed| assert!(survives_its_primary(seed), "seed {seed}"));
    let unfilled = || SEEDS.clone().all(survives_its_primary);
    assert!(!mutant::with(Some("pillars.gaps-not-filled"), unfilled));
}

#[test]
fn parts_of_a_replica_catch_up_by_a_state() {
    SEEDS.for_each(|seed| assert!(catches_up(seed), "seed {seed}"));
    let stale = || SEEDS.clone().all(catches_up);
    assert!(!mutant::with(Some("pillars.glance-stale"), stale));
}
