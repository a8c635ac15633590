//! A group of a protocol of which only the descriptor is known. It loses messages, falls behind and
//! changes views, so that honest replicas say nearly all that they ever do.

use crate::net::{Device, Trusting, envelope};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Checksum};
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::{Instance, TrustedMac};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::ENVELOPE_INLINE_BYTES;
use pentarchy_core::membership::{Base, Life, Membership, PillarConfig};
use pentarchy_core::ports::replica::{Input, Output, speculation};
use pentarchy_core::protocol::{Memory, Setup, Status, Timeouts, TimerKey, To, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_protocols::Descriptor;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Milliseconds between two looks at the clock.
const STEP: u64 = 5;

/// So small that a replica falls behind soon.
const SMALL: Tuning = Tuning {
    checkpoint_slots: 4,
    checkpoint_bytes: 64 << 10,
    window_slots: 8,
    batch_requests: 8,
    proposals_in_flight: 2,
    interleaving: 0,
};

/// So large that no state becomes stable.
const LARGE: Tuning = Tuning { checkpoint_slots: 64, window_slots: 256, ..SMALL };

fn membership(protocol: &Descriptor) -> Arc<Membership> {
    let pillars = if protocol.rules.pillars { 2 } else { 1 };
    let lane = PillarConfig { pillars, ..PillarConfig::default() };
    let members = vec![([0; 32], Life::mac(Incarnation(0))); protocol.rules.replicas(1)];
    Arc::new(Membership { lane, ..Membership::of_keys(GroupId([7; 16]), 1, members) })
}

fn start(
    protocol: &Descriptor,
    me: u16,
    (records, tuning): (Vec<Bytes>, Tuning),
) -> (Box<dyn ReplicaCore>, Vec<CoreEffect>) {
    let mut effects = Vec::new();
    let memory = Memory::Durable { executed: Base::default(), records };
    let (me, membership) = (ReplicaId(me), membership(protocol));
    let core =
        (protocol.start)(Setup { me, membership, fetch: None, memory, tuning }, &mut effects);
    (core, effects)
}

/// A replica that was told nothing yet.
pub fn of_group(protocol: &Descriptor) -> Box<dyn ReplicaCore> {
    start(protocol, 0, (Vec::new(), LARGE)).0
}

/// Where a replica stands that starts with this log, and what it says first.
pub fn restarted(protocol: &Descriptor, log: &[Bytes]) -> (Status, Vec<Outgoing>) {
    let (core, effects) = start(protocol, 1, (log.to_vec(), LARGE));
    let said = effects.into_iter().filter_map(|effect| match effect {
        CoreEffect::Send { outgoing, .. } => Some(outgoing),
        _ => None,
    });
    (core.status(), said.collect())
}

struct Node {
    core: Box<dyn ReplicaCore>,
    /// By pillar.
    devices: Vec<Device>,
    timers: BTreeMap<TimerKey, u64>,
    executed: Vec<(Slot, Arc<Batch>)>,
    log: Vec<Bytes>,
}

/// See the [module](self).
pub struct Group {
    nodes: Vec<Node>,
    /// From whom, to whom, and what.
    queue: VecDeque<(u16, u16, Bytes)>,
    now: u64,
    /// Who neither hears nor is heard.
    alone: Option<u16>,
    /// Who is not heard by whom.
    unheard: Option<(u16, u16)>,
    /// What was said first of each kind.
    pub said: BTreeMap<&'static str, Outgoing>,
}

impl Group {
    fn new(protocol: &Descriptor, tuning: Tuning) -> Self {
        let (queue, said) = (VecDeque::new(), BTreeMap::new());
        let (nodes, alone, unheard) = (Vec::new(), None, None);
        let mut group = Self { nodes, queue, now: 1_000, alone, unheard, said };
        let membership = membership(protocol);
        let mut begun = Vec::new();
        for me in membership.ids() {
            let (core, effects) = start(protocol, me.0, (Vec::new(), tuning));
            let device = |pillar| Device::new(me, Instance(pillar), protocol.rules.device());
            let devices = (0..membership.lane.pillars).map(device).collect();
            let (timers, executed, log) = (BTreeMap::new(), Vec::new(), Vec::new());
            group.nodes.push(Node { core, devices, timers, executed, log });
            begun.push(effects);
        }
        for (id, effects) in (0..).zip(begun) {
            group.carry_out(id, effects);
        }
        group.run(100);
        group
    }

    /// A group in which much goes wrong.
    pub fn that_talks(protocol: &Descriptor) -> Self {
        let mut group = Self::new(protocol, SMALL);
        let all: Vec<u16> = (0..group.nodes.len() as u16).collect();
        let last = all.len() as u16 - 1;
        let others = &all[..all.len() - 1];
        // It has to ask for what only the others were sent, for what it did not hear from the
        // primary, and for what they ordered meanwhile.
        group.ask_much(others, 1);
        group.unheard = Some((group.primary(), last));
        group.ask(others, 2);
        group.unheard = None;
        group.alone = Some(last);
        group.ask(others, 3);
        group.alone = None;
        group.run(500);
        // Now it needs another state.
        group.alone = Some(last);
        (4..=20).for_each(|number| group.ask(others, number));
        group.alone = None;
        group.run(1_000);
        // Only the last one is asked, which is no primary.
        group.ask(&[last], 21);
        group.run(2_000);
        group.lose_primary(&all, 22);
        group.ask(&all, 23);
        group.lose_two_primaries(&all, 24);
        group.ask(&all, 25);
        group.run(500);
        group
    }

    /// What one replica keeps while its group orders something, loses its primary and goes on.
    pub fn log_of_one(protocol: &Descriptor) -> Vec<Bytes> {
        let mut group = Self::new(protocol, LARGE);
        let all: Vec<u16> = (0..group.nodes.len() as u16).collect();
        group.ask(&all, 1);
        group.ask(&all, 2);
        group.lose_primary(&all, 3);
        group.nodes.swap_remove(1).log
    }

    /// All records, in the order of the replicas that kept them.
    pub fn records(&self) -> impl Iterator<Item = &Bytes> {
        self.nodes.iter().flat_map(|node| &node.log)
    }

    fn primary(&self) -> u16 {
        self.nodes[1].core.status().primary.0
    }

    /// The primary is silent while the others are asked for something, and then the next one is.
    fn lose_two_primaries(&mut self, all: &[u16], number: u64) {
        let primary = self.primary();
        let others: Vec<u16> = all.iter().copied().filter(|id| *id != primary).collect();
        self.alone = Some(primary);
        self.ask(&others, number);
        self.run(300);
        self.alone = Some((primary + 1) % all.len() as u16);
        self.run(5_000);
        self.alone = None;
        self.run(3_000);
    }

    /// The primary is silent for a while, and the others are asked for something.
    fn lose_primary(&mut self, all: &[u16], number: u64) {
        let primary = self.primary();
        let others: Vec<u16> = all.iter().copied().filter(|id| *id != primary).collect();
        self.alone = Some(primary);
        self.ask(&others, number);
        self.run(3_000);
        self.alone = None;
        self.run(1_000);
    }

    /// A client asks these for something small.
    fn ask(&mut self, of: &[u16], number: u64) {
        self.order(of, &envelope(9, number, 3));
    }

    /// A client asks these for something that is ordered by its digest.
    fn ask_much(&mut self, of: &[u16], number: u64) {
        let operation = Bytes::from(vec![0; ENVELOPE_INLINE_BYTES + 1]);
        let requests = vec![Request { number, operation }];
        let draft = Draft { client: ClientId([9; 32]), floor: 1, events: None, requests };
        self.order(of, &Arc::new(draft.seal(RequestAuth::Signature([0; 64]))));
    }

    fn order(&mut self, of: &[u16], envelope: &Arc<Envelope>) {
        of.iter().for_each(|id| self.admit(*id, envelope.clone(), false));
        self.run(100);
        // Somebody waits until it is final, if it is not.
        for id in 0..self.nodes.len() as u16 {
            let node = &self.nodes[usize::from(id)];
            let last = node.executed.last().filter(|_| node.core.rules().speculative);
            if let Some((slot, _)) = last {
                self.step(id, CoreEvent::Input(speculation::Input::Wanted { slot: *slot }.into()));
            }
        }
        self.run(100);
    }

    fn admit(&mut self, id: u16, envelope: Arc<Envelope>, passed_on: bool) {
        let executed = self.nodes[usize::from(id)].executed.iter();
        let executed = executed.flat_map(|(_, batch)| &batch.envelopes);
        let its = executed.filter(|it| it.client == envelope.client);
        let known: BTreeSet<u64> =
            its.flat_map(|it| it.requests.iter().map(|request| request.number)).collect();
        let numbers = envelope.requests.iter().map(|request| request.number);
        let settled: Vec<u64> = numbers.filter(|number| known.contains(number)).collect();
        if settled.len() < envelope.requests.len() {
            self.step(id, CoreEvent::Input(Input::Request { envelope, settled, passed_on }));
        }
    }

    fn step(&mut self, id: u16, event: CoreEvent) {
        let mut effects = Vec::new();
        let core = &mut self.nodes[usize::from(id)].core;
        core.step(event, &mut effects);
        core.assert_invariants();
        self.carry_out(id, effects);
    }

    fn carry_out(&mut self, id: u16, effects: Vec<CoreEffect>) {
        for effect in effects {
            let node = &mut self.nodes[usize::from(id)];
            match effect {
                CoreEffect::Send { to, outgoing } => self.send(id, to, &outgoing),
                CoreEffect::Relay { to, wire, .. } => self.post(id, to, &wire),
                CoreEffect::Persist(record) => node.log.push(record),
                CoreEffect::Arm { timer, after } => {
                    node.timers.insert(timer, self.now + Timeouts::default().millis(after));
                }
                CoreEffect::Disarm(timer) => {
                    node.timers.remove(&timer);
                }
                CoreEffect::Output(output) => self.output(id, output),
                CoreEffect::Report(evidence) => panic!("nobody lies: {evidence:?}"),
            }
        }
    }

    fn output(&mut self, id: u16, output: Output) {
        let executed = &mut self.nodes[usize::from(id)].executed;
        match output {
            Output::Execute { slot, batch }
            | Output::Speculation(speculation::Output::Speculate { slot, batch, .. }) => {
                executed.push((slot, batch));
            }
            Output::Speculation(speculation::Output::Rollback { after }) => {
                executed.retain(|(slot, _)| *slot <= after);
            }
            Output::Checkpoint { slot } => {
                let state = Digest::of(&slot.0.to_le_bytes());
                self.step(id, CoreEvent::Input(Input::Checkpointed { slot, state }));
            }
            // Whoever has the state has executed all that is in it.
            Output::Fetch { slot, .. } => {
                let longest = self.nodes.iter().map(|node| &node.executed);
                let longest = longest.max_by_key(|executed| executed.len()).expect("a group");
                let upto = longest.iter().filter(|(other, _)| *other <= slot).cloned();
                self.nodes[usize::from(id)].executed = upto.collect();
                self.step(id, CoreEvent::Input(Input::Installed { slot }));
            }
            Output::Admit { envelope } => self.admit(id, envelope, true),
            _ => {}
        }
    }

    fn send(&mut self, id: u16, to: To, outgoing: &Outgoing) {
        self.said.entry(outgoing.kind).or_insert_with(|| outgoing.clone());
        let node = &mut self.nodes[usize::from(id)];
        let tag = match outgoing.auth {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum::of(&outgoing.digest)),
            Auth::Signature => AuthTag::Signature([id as u8; 64]),
            Auth::Mac(_) => AuthTag::Mac(TrustedMac([id as u8; 32])),
            Auth::Vector => panic!("nobody asks for one"),
            Auth::Usig(instance, at) => {
                let device = &mut node.devices[usize::from(instance.0)];
                AuthTag::Usig(device.create(at, &outgoing.digest))
            }
        };
        let (wire, incoming) = node.core.seal(outgoing, tag);
        self.post(id, to, &wire);
        let loops = match to {
            To::One(one) => one.0 == id,
            To::Set(set) => set.contains(ReplicaId(id)),
            To::All => true,
            To::Others => false,
        };
        if loops {
            self.step(id, CoreEvent::Message(incoming));
        }
    }

    fn post(&mut self, id: u16, to: To, wire: &Bytes) {
        let mut receivers: ReplicaSet = match to {
            To::One(one) => [one].into_iter().collect(),
            To::Set(set) => set,
            To::All | To::Others => (0..self.nodes.len() as u16).map(ReplicaId).collect(),
        };
        receivers.remove(ReplicaId(id));
        self.queue.extend(receivers.iter().map(|to| (id, to.0, wire.clone())));
    }

    /// Delivers what was under way before this.
    fn deliver(&mut self) {
        for (from, to, wire) in std::mem::take(&mut self.queue) {
            let is_alone = [from, to].map(Some).contains(&self.alone);
            if is_alone || self.unheard == Some((from, to)) {
                continue;
            }
            let core = &self.nodes[usize::from(to)].core;
            match core.open_new(&Trusting, ReplicaId(from), &wire) {
                Ok(Some(incoming)) => self.step(to, CoreEvent::Message(incoming)),
                Ok(None) => {}
                Err(why) => panic!("what an honest replica says is refused: {}", why.name()),
            }
        }
    }

    fn run(&mut self, millis: u64) {
        for _ in 0..millis / STEP {
            self.now += STEP;
            self.deliver();
            for id in 0..self.nodes.len() as u16 {
                let timers = &mut self.nodes[usize::from(id)].timers;
                let due = timers.iter().filter(|(_, at)| **at <= self.now).map(|(key, _)| *key);
                for key in due.collect::<Vec<TimerKey>>() {
                    self.nodes[usize::from(id)].timers.remove(&key);
                    self.step(id, CoreEvent::Timeout(key));
                }
                let now = Millis(self.now);
                self.step(id, CoreEvent::Input(Input::Round { now }));
            }
        }
    }
}
