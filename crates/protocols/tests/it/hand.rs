//! A group whose cores, devices, disks and links a test drives by hand, of any protocol: for
//! schedules that liars need and chance rarely finds. Who lies has no core; the test speaks for it.

use pentarchy_core::auth::{Auth, AuthTag, Checksum, Verified, Verifier};
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::counter::{Certificate, Counter, Instance, Position, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{
    ClientId, GroupId, Incarnation, Millis, ReplicaId, ReplicaSet, Slot, View,
};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::ports::replica::{Input, Output, speculation};
use pentarchy_core::protocol::{
    Delay, Effect, Effects, Event, Memory, Message as _, Protocol, Setup, Timeouts, TimerKey,
    TimerName as _, To, Tuning,
};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::wire::Wire as _;
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::common::usig::{OnUsig, Variant};
use pentarchy_protocols::{hybster, minbft, modsmart, pbft, zyzzyva};
use pentarchy_sim::checker::moving_on::{MovingOn, Timers};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// What a schedule needs to say in a protocol's words.
pub trait Spoken: Protocol<Input = Input, Output = Output> {
    /// Replicas, of which one may lie.
    const N: usize;
    /// The primary of view 0 proposes.
    fn propose(slot: Slot, proposal: &Arc<Proposal>) -> Self::Message;
    /// What else it says, so that others decide.
    fn commit(slot: Slot, batch: Digest) -> Option<Self::Message>;
    /// Who asks for a view.
    fn ask(view: View) -> Self::Message;
    /// A batch by digest.
    fn body(proposal: &Arc<Proposal>) -> Self::Message;
    /// An envelope by digest.
    fn envelope(envelope: &Arc<Envelope>) -> Self::Message;
}

/// MinBFT and MinZyzzyva.
impl<V: Variant> Spoken for OnUsig<V> {
    const N: usize = 3;
    fn propose(slot: Slot, proposal: &Arc<Proposal>) -> Self::Message {
        let proposal = proposal.clone();
        minbft::Message::Order(minbft::Order::Prepare { view: View(0), slot, proposal })
    }
    fn commit(_: Slot, _: Digest) -> Option<Self::Message> {
        None
    }
    fn ask(view: View) -> Self::Message {
        minbft::Message::Shared(Shared::RequestViewChange { view })
    }
    fn body(proposal: &Arc<Proposal>) -> Self::Message {
        minbft::Message::Shared(Shared::Body(proposal.clone()))
    }
    fn envelope(envelope: &Arc<Envelope>) -> Self::Message {
        minbft::Message::Shared(Shared::Envelope(envelope.clone()))
    }
}

impl Spoken for hybster::Hybster {
    const N: usize = 3;
    fn propose(slot: Slot, proposal: &Arc<Proposal>) -> Self::Message {
        let proposal = proposal.clone();
        hybster::Message::Order(hybster::Order::Prepare { view: View(0), slot, proposal })
    }
    fn commit(_: Slot, _: Digest) -> Option<Self::Message> {
        None
    }
    fn ask(view: View) -> Self::Message {
        hybster::Message::Shared(Shared::RequestViewChange { view })
    }
    fn body(proposal: &Arc<Proposal>) -> Self::Message {
        hybster::Message::Shared(Shared::Body(proposal.clone()))
    }
    fn envelope(envelope: &Arc<Envelope>) -> Self::Message {
        hybster::Message::Shared(Shared::Envelope(envelope.clone()))
    }
}

impl Spoken for pbft::Pbft {
    const N: usize = 4;
    fn propose(slot: Slot, proposal: &Arc<Proposal>) -> Self::Message {
        pbft::Message::PrePrepare { view: View(0), slot, proposal: proposal.clone() }
    }
    fn commit(slot: Slot, batch: Digest) -> Option<Self::Message> {
        Some(pbft::Message::Commit { view: View(0), slot, batch })
    }
    fn ask(view: View) -> Self::Message {
        pbft::Message::Shared(Shared::RequestViewChange { view })
    }
    fn body(proposal: &Arc<Proposal>) -> Self::Message {
        pbft::Message::Shared(Shared::Body(proposal.clone()))
    }
    fn envelope(envelope: &Arc<Envelope>) -> Self::Message {
        pbft::Message::Shared(Shared::Envelope(envelope.clone()))
    }
}

impl<V: modsmart::Variant> Spoken for modsmart::ModSmart<V> {
    const N: usize = V::RULES.replicas(1);
    fn propose(slot: Slot, proposal: &Arc<Proposal>) -> Self::Message {
        let proposal = proposal.clone();
        modsmart::Message::Propose { view: View(0), slot, proposal, signed: false }
    }
    fn commit(slot: Slot, batch: Digest) -> Option<Self::Message> {
        Some(modsmart::Message::Accept { view: View(0), slot, batch })
    }
    fn ask(view: View) -> Self::Message {
        modsmart::Message::Shared(Shared::RequestViewChange { view })
    }
    fn body(proposal: &Arc<Proposal>) -> Self::Message {
        modsmart::Message::Shared(Shared::Body(proposal.clone()))
    }
    fn envelope(envelope: &Arc<Envelope>) -> Self::Message {
        modsmart::Message::Shared(Shared::Envelope(envelope.clone()))
    }
}

impl Spoken for zyzzyva::Zyzzyva {
    const N: usize = 4;
    /// Behind the history with which the group begins: in the first slot.
    fn propose(slot: Slot, proposal: &Arc<Proposal>) -> Self::Message {
        let parent = zyzzyva::Stable::initial(Base::default()).state.history;
        zyzzyva::Message::Order { view: View(0), slot, parent, proposal: proposal.clone() }
    }
    fn commit(_: Slot, _: Digest) -> Option<Self::Message> {
        None
    }
    fn ask(view: View) -> Self::Message {
        zyzzyva::Message::Shared(Shared::RequestViewChange { view })
    }
    fn body(proposal: &Arc<Proposal>) -> Self::Message {
        zyzzyva::Message::Shared(Shared::Body(proposal.clone()))
    }
    fn envelope(envelope: &Arc<Envelope>) -> Self::Message {
        zyzzyva::Message::Shared(Shared::Envelope(envelope.clone()))
    }
}

/// Signatures and certificates are digests of who says what.
struct Seals;

impl Seals {
    fn sign(id: ReplicaId, digest: &Digest) -> [u8; 64] {
        let mut signature = [id.0 as u8; 64];
        signature[..32].copy_from_slice(&digest.0);
        signature
    }
    fn certify(id: ReplicaId, at: Position, last: Position, digest: &Digest) -> Certificate {
        let mut hasher = Hasher::new("test device");
        hasher.u64(u64::from(id.0)).u64(at.view.0).u64(at.index);
        hasher.u64(last.view.0).u64(last.index).digest(digest);
        Certificate::Mac(hasher.finish().0)
    }
    fn mac_of(id: ReplicaId, digest: &Digest) -> TrustedMac {
        TrustedMac(Hasher::new("test mac").u64(id.0.into()).digest(digest).finish().0)
    }
}

impl Verifier for Seals {
    fn signature(&self, id: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        *signature == Self::sign(id, digest)
    }
    fn usig(&self, id: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        ui.certificate == Self::certify(id, ui.position, ui.committed, digest)
    }
    fn mac(&self, by: (ReplicaId, Instance), digest: &Digest, mac: &TrustedMac) -> bool {
        *mac == Self::mac_of(by.0, digest)
    }
    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

struct Device {
    counter: Counter,
    last: Position,
    committed: Position,
    certified: BTreeMap<Position, (Digest, Ui)>,
}

impl Device {
    fn certify(&mut self, id: ReplicaId, position: Position, digest: &Digest) -> Ui {
        if let Some((same, ui)) = self.certified.get(&position) {
            assert_eq!(same, digest, "{id:?} says something else at {position:?}");
            assert!(position.view >= self.last.view, "{id:?} has passed {position:?}");
            return *ui;
        }
        assert!(position > self.last, "{id:?} goes back from {:?} to {position:?}", self.last);
        let committed = self.counter.names(position, self.last, self.committed);
        self.last = position;
        if position.index >= Position::COMMITMENT {
            self.committed = position;
        }
        let certificate = Seals::certify(id, position, committed, digest);
        let ui = Ui {
            incarnation: Incarnation(0),
            instance: Instance::FIRST,
            position,
            committed,
            certificate,
        };
        self.certified.insert(position, (*digest, ui));
        ui
    }
}

/// The kind of the message by which a replica asks for a view.
const ASK: &str = "request_view_change";

/// One replica.
pub struct Node<P: Protocol> {
    /// None if it lies.
    pub core: Option<P>,
    device: Device,
    /// When each runs out, and for how long it was armed.
    timers: BTreeMap<TimerKey, (u64, Delay)>,
    moving_on: MovingOn,
    /// It asked for a view since its last round.
    asks: bool,
    /// What it has persisted since it began, and how much of that was cut away.
    pub log: Vec<P::Record>,
    /// See [`Self::log`].
    pub cut: usize,
    pub saved: Option<Base>,
    /// What it executed, also what a state that it fetched stands for.
    pub executed: Vec<(Slot, Arc<Batch>)>,
    /// Its disk takes its time: nothing is sent before [`Group::sync`].
    pub disk_is_slow: bool,
    waits: VecDeque<Effect<P>>,
    wishes: Option<Slot>,
    /// All states that it wanted so far.
    pub wished: Vec<Slot>,
    settled: BTreeSet<(ClientId, u64)>,
    floors: BTreeMap<ClientId, u64>,
    /// How many messages of each kind it said.
    pub said: BTreeMap<&'static str, usize>,
    /// It answers queries once this slot is executed.
    pub answers_from: Slot,
}

impl<P: Protocol> Node<P> {
    /// Bytes that it persisted behind the last cut.
    pub fn log_bytes(&self) -> usize {
        self.log[self.cut..].iter().map(|record| record.to_bytes().len()).sum()
    }

    /// Takes back what it executed behind a slot.
    fn roll_back(&mut self, after: Slot) {
        let stays = |(slot, _): &(Slot, Arc<Batch>)| *slot <= after;
        let (kept, left_out): (Vec<_>, Vec<_>) = self.executed.drain(..).partition(stays);
        self.executed = kept;
        for envelope in left_out.iter().flat_map(|(_, batch)| &batch.envelopes) {
            for request in &envelope.requests {
                self.settled.remove(&(envelope.client, request.number));
            }
        }
    }

    fn note(&mut self, slot: Slot, batch: Arc<Batch>) {
        for envelope in &batch.envelopes {
            let numbers = envelope.requests.iter().map(|request| (envelope.client, request.number));
            self.settled.extend(numbers);
            let floor = self.floors.entry(envelope.client).or_default();
            *floor = envelope.floor.max(*floor);
        }
        self.executed.push((slot, batch));
    }
}

type Sent<P> = (ReplicaId, ReplicaId, Verified<<P as Protocol>::Message>);

/// A group, its links and its clock.
pub struct Group<P: Protocol> {
    membership: Arc<Membership>,
    tuning: Tuning,
    /// By number.
    pub nodes: Vec<Node<P>>,
    /// Who sent what to whom.
    pub queue: VecDeque<Sent<P>>,
    /// Links that lose everything.
    pub cut: BTreeSet<(u16, u16)>,
    /// Messages of these kinds are lost.
    pub loses: &'static [&'static str],
    /// Messages from one to another of a kind are lost, if this says so.
    pub drops: Box<dyn Fn(u16, u16, &'static str) -> bool>,
    /// Hosts save no states, so that no checkpoint becomes stable.
    pub saves_nothing: bool,
    /// Nobody gets a state from elsewhere.
    pub fetches_nothing: bool,
    /// Whoever has persisted so many bytes since it last kept something again does so, and its log
    /// is cut there.
    pub log_bytes_max: usize,
    /// Milliseconds.
    pub now: u64,
}

impl<P: Spoken> Group<P> {
    /// Of which this one lies, if any.
    pub fn new(liar: Option<u16>, tuning: Tuning) -> Self {
        let members = vec![([0; 32], Life::mac(Incarnation(0))); P::N];
        let membership = Arc::new(Membership::of_keys(GroupId([7; 16]), 1, members));
        let counter = P::RULES.device();
        let start = counter.start();
        let node = || Node {
            core: None,
            device: Device { counter, last: start, committed: start, certified: BTreeMap::new() },
            timers: BTreeMap::new(),
            moving_on: MovingOn::default(),
            asks: false,
            log: Vec::new(),
            cut: 0,
            saved: None,
            executed: Vec::new(),
            disk_is_slow: false,
            waits: VecDeque::new(),
            wishes: None,
            wished: Vec::new(),
            settled: BTreeSet::new(),
            floors: BTreeMap::new(),
            said: BTreeMap::new(),
            answers_from: Slot(0),
        };
        let mut group = Self {
            nodes: membership.ids().map(|_| node()).collect(),
            membership,
            tuning,
            queue: VecDeque::new(),
            cut: BTreeSet::new(),
            loses: &[],
            drops: Box::new(|_, _, _| false),
            fetches_nothing: false,
            log_bytes_max: usize::MAX,
            saves_nothing: false,
            now: 1_000,
        };
        for id in (0..P::N as u16).filter(|id| Some(*id) != liar) {
            group.start(id);
        }
        group.run(300);
        group
    }

    /// The replica begins, or goes on from its log after a crash.
    pub fn start(&mut self, id: u16) {
        let node = &mut self.nodes[usize::from(id)];
        node.timers.clear();
        (node.moving_on, node.asks) = (MovingOn::default(), false);
        node.waits.clear();
        node.disk_is_slow = false;
        let executed = node.saved.unwrap_or(self.membership.base);
        let past: Vec<_> = std::mem::take(&mut node.executed);
        (node.settled, node.floors) = (BTreeSet::new(), BTreeMap::new());
        past.into_iter()
            .filter(|(slot, _)| *slot <= executed.slot)
            .for_each(|(slot, batch)| node.note(slot, batch));
        let records = node.log[node.cut..].to_vec();
        let (core, mut out) = self.restarted(id, &records);
        self.nodes[usize::from(id)].core = Some(core);
        self.carry_out(id, &mut out);
        self.round(id);
    }

    fn step(&mut self, id: u16, event: Event<P>) {
        let Some(core) = &mut self.nodes[usize::from(id)].core else { return };
        let mut out = Effects::default();
        core.step(event, &mut out);
        core.assert_invariants();
        self.carry_out(id, &mut out);
    }

    fn carry_out(&mut self, id: u16, out: &mut Effects<P>) {
        for effect in out.drain().collect::<Vec<_>>() {
            let node = &mut self.nodes[usize::from(id)];
            if node.disk_is_slow && matches!(effect, Effect::Send { .. } | Effect::Relay { .. }) {
                node.waits.push_back(effect);
            } else {
                self.effect(id, effect);
            }
        }
    }

    /// What a replica persisted so far is durable.
    pub fn sync(&mut self, id: u16) {
        let waits = std::mem::take(&mut self.nodes[usize::from(id)].waits);
        waits.into_iter().for_each(|effect| self.effect(id, effect));
    }

    fn effect(&mut self, id: u16, effect: Effect<P>) {
        let now = self.now;
        let node = &mut self.nodes[usize::from(id)];
        match effect {
            Effect::Send { to, message } => {
                *node.said.entry(message.kind()).or_default() += 1;
                node.asks |= message.kind() == ASK;
                let verified = self.authenticated(id, message);
                self.post(id, to, &verified);
            }
            Effect::Relay { to, message } => {
                node.asks |= message.message.kind() == ASK;
                self.post(id, to, &message);
            }
            Effect::Persist(record) => node.log.push(record),
            Effect::Arm { timer, after } => {
                let at = now + Timeouts::default().millis(after);
                node.timers.insert(timer.to_key(), (at, after));
            }
            Effect::Disarm(timer) => {
                node.timers.remove(&timer.to_key());
            }
            Effect::Output(output) => self.output(id, output),
            Effect::Report(_) => {}
        }
    }

    fn output(&mut self, id: u16, output: Output) {
        let node = &mut self.nodes[usize::from(id)];
        match output {
            Output::Execute { slot, batch }
            | Output::Speculation(speculation::Output::Speculate { slot, batch, .. }) => {
                node.note(slot, batch);
            }
            Output::Speculation(speculation::Output::Rollback { after }) => node.roll_back(after),
            Output::Checkpoint { slot } if !self.saves_nothing => {
                let state = Digest::of(&slot.0.to_le_bytes());
                self.step(id, Event::Input(Input::Checkpointed { slot, state }));
            }
            Output::Stable { slot, state } => {
                (node.saved, node.cut) = (Some(Base { slot, state }), node.log.len());
            }
            Output::Fetch { slot, .. } => {
                node.wishes = Some(slot);
                node.wished.push(slot);
            }
            Output::Resumed { upto } => node.answers_from = upto,
            Output::Admit { envelope } => self.admit(id, &envelope, true),
            _ => {}
        }
    }

    /// As a replica says it, with its key and its device.
    pub fn authenticated(&mut self, id: u16, message: P::Message) -> Verified<P::Message> {
        let (me, domain) = (ReplicaId(id), self.membership.domain());
        let digest = message.statement(&domain);
        let device = &mut self.nodes[usize::from(id)].device;
        let tag = match message.auth() {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum::of(&digest)),
            Auth::Signature => AuthTag::Signature(Seals::sign(me, &digest)),
            Auth::Usig(_, position) => AuthTag::Usig(device.certify(me, position, &digest)),
            Auth::Mac(_) => AuthTag::Mac(Seals::mac_of(me, &digest)),
            Auth::Vector => panic!("nobody asks for one"),
        };
        Verified::recalled(me, tag, &domain, message)
    }

    /// The same signature or certificate under something else.
    pub fn forged(
        &self,
        genuine: &Verified<P::Message>,
        message: P::Message,
    ) -> Verified<P::Message> {
        Verified::recalled(genuine.author, genuine.tag.clone(), &self.membership.domain(), message)
    }

    fn post(&mut self, id: u16, to: To, message: &Verified<P::Message>) {
        let all = || self.membership.ids().collect();
        let (receivers, loops): (ReplicaSet, bool) = match to {
            To::One(one) => ([one].into_iter().collect(), one.0 == id),
            To::Set(set) => (set, set.contains(ReplicaId(id))),
            To::Others => (all(), false),
            To::All => (all(), true),
        };
        for other in receivers.iter().filter(|other| other.0 != id) {
            self.queue.push_back((ReplicaId(id), other, message.clone()));
        }
        if loops {
            self.step(id, Event::Message(message.clone()));
        }
    }

    /// The liar says something to these.
    pub fn say(&mut self, liar: u16, to: &[u16], message: P::Message) -> Verified<P::Message> {
        self.nodes[usize::from(liar)].asks |= message.kind() == ASK;
        let said = self.authenticated(liar, message);
        for id in to {
            self.queue.push_back((ReplicaId(liar), ReplicaId(*id), said.clone()));
        }
        said
    }

    /// Delivers what was sent, and what comes of it.
    pub fn settle(&mut self) {
        let mut touched = BTreeSet::new();
        for _ in 0..100_000 {
            let Some((from, to, mut message)) = self.queue.pop_front() else { break };
            message.is_direct = from == message.author;
            let kind = message.message.kind();
            let lost = self.cut.contains(&(from.0, to.0))
                || self.loses.contains(&kind)
                || (self.drops)(from.0, to.0, kind);
            if !lost && self.is_good(&message) {
                self.step(to.0, Event::Message(message));
                touched.insert(to.0);
            }
        }
        touched.into_iter().for_each(|id| self.round(id));
    }

    /// What the ingress lets in.
    fn is_good(&self, it: &Verified<P::Message>) -> bool {
        let is_authentic = match (it.message.auth(), &it.tag) {
            (Auth::Channel, AuthTag::Channel) => true,
            (Auth::Checksum, AuthTag::Checksum(sum)) => *sum == Checksum::of(&it.digest),
            (Auth::Signature, AuthTag::Signature(signature)) => {
                Seals.signature(it.author, &it.digest, signature)
            }
            (Auth::Mac(instance), AuthTag::Mac(mac)) => {
                Seals.mac((it.author, instance), &it.digest, mac)
            }
            (Auth::Usig(_, position), AuthTag::Usig(ui)) => {
                ui.position == position && Seals.usig(it.author, &it.digest, ui)
            }
            _ => false,
        };
        let validate = || P::validate(&self.membership, &Seals, it.author, &it.tag, &it.message);
        is_authentic && validate().is_ok()
    }

    /// A round of a replica's host ends.
    pub fn round(&mut self, id: u16) {
        self.step(id, Event::Input(Input::Round { now: Millis(self.now) }));
        self.assert_moves_on(id);
        let node = &self.nodes[usize::from(id)];
        if node.core.is_some() && node.log_bytes() > self.log_bytes_max {
            self.log_again(id);
        }
    }

    /// A correct replica that is in no working view has a timer that leads it on.
    fn assert_moves_on(&mut self, id: u16) {
        let node = &mut self.nodes[usize::from(id)];
        let Some(core) = &node.core else { return };
        let timers = Timers::of(node.timers.values().map(|(_, after)| *after));
        let asks = std::mem::take(&mut node.asks);
        let stepped = node.moving_on.stepped(ReplicaId(id), &[core.status()], asks, timers);
        assert!(!node.waits.is_empty() || stepped.is_ok(), "{stepped:?}");
    }

    /// The state after a slot came, which the replica may not want any more.
    pub fn came(&mut self, id: u16, slot: Slot) {
        self.step(id, Event::Input(Input::Installed { slot }));
    }

    /// A replica keeps again what it needs, and its log is cut there.
    pub fn log_again(&mut self, id: u16) {
        let begins = self.nodes[usize::from(id)].log.len();
        self.step(id, Event::Input(Input::Compact));
        self.nodes[usize::from(id)].cut = begins;
    }

    /// The same, and it crashes when so many of its records are durable: the log is cut behind the
    /// last.
    pub fn crash_keeping_again(&mut self, id: u16, records: usize) {
        let begins = self.nodes[usize::from(id)].log.len();
        self.step(id, Event::Input(Input::Compact));
        let node = &mut self.nodes[usize::from(id)];
        if node.log.len() > begins + records {
            node.log.truncate(begins + records);
        } else {
            node.cut = begins;
        }
        self.start(id);
    }

    /// What a replica would go on as if its log were this.
    pub fn restarted(&self, id: u16, log: &[P::Record]) -> (P, Effects<P>) {
        let executed = self.nodes[usize::from(id)].saved.unwrap_or(self.membership.base);
        let memory = Memory::Durable { executed, records: Vec::new() };
        let (membership, tuning) = (self.membership.clone(), self.tuning);
        let setup = Setup { me: ReplicaId(id), membership, fetch: None, memory, tuning };
        let mut out = Effects::default();
        let core = P::start(setup, &mut log.iter().cloned(), &mut out);
        (core, out)
    }

    /// Time passes; all disks but slow ones are fast.
    pub fn run(&mut self, millis: u64) {
        let end = self.now + millis;
        while self.now < end {
            self.now += 5;
            self.settle_all();
            for id in 0..P::N as u16 {
                let now = self.now;
                let timers = &mut self.nodes[usize::from(id)].timers;
                let due = timers.iter().filter(|(_, (at, _))| *at <= now);
                let due: Vec<_> = due.map(|(key, _)| *key).collect();
                timers.retain(|_, (at, _)| *at > now);
                for key in due {
                    self.step(id, Event::Timeout(P::Timer::from_key(key)));
                }
                self.transfer(id);
                self.round(id);
            }
        }
        self.settle_all();
    }

    /// Delivers until nothing is under way, or for long.
    pub fn settle_all(&mut self) {
        for _ in 0..20 {
            if self.queue.is_empty() {
                break;
            }
            self.settle();
        }
    }

    /// A state that a replica wants comes, if another one has it.
    fn transfer(&mut self, id: u16) {
        let Some(slot) = self.nodes[usize::from(id)].wishes else { return };
        if !self.fetches_nothing && self.install(id, slot) {
            self.step(id, Event::Input(Input::Installed { slot }));
        }
    }

    /// The state that a replica wants comes and is durable; then it crashes, before its core hears
    /// of that. Gives the state's slot.
    pub fn crash_with_what_it_wants(&mut self, id: u16) -> Slot {
        let slot = self.nodes[usize::from(id)].wishes.expect("it wants a state");
        assert!(self.install(id, slot), "nobody has it");
        let state = Digest::of(&slot.0.to_le_bytes());
        self.nodes[usize::from(id)].saved = Some(Base { slot, state });
        self.start(id);
        slot
    }

    fn install(&mut self, id: u16, slot: Slot) -> bool {
        let has = |node: &Node<P>| node.executed.last().is_some_and(|(last, _)| *last >= slot);
        let Some(source) = self.nodes.iter().find(|node| has(node)) else { return false };
        let past: Vec<_> = source.executed.clone();
        let node = &mut self.nodes[usize::from(id)];
        node.wishes = None;
        node.executed.clear();
        past.into_iter().filter(|(at, _)| *at <= slot).for_each(|(at, batch)| node.note(at, batch));
        true
    }

    /// A client's envelope reaches a replica's host.
    pub fn request(&mut self, id: u16, envelope: &Arc<Envelope>) {
        self.admit(id, envelope, false);
    }

    fn admit(&mut self, id: u16, envelope: &Arc<Envelope>, passed_on: bool) {
        let node = &self.nodes[usize::from(id)];
        let floor = node.floors.get(&envelope.client).copied().unwrap_or(0);
        let is_settled = |n: &u64| *n < floor || node.settled.contains(&(envelope.client, *n));
        let numbers = envelope.requests.iter().map(|request| request.number);
        let settled: Vec<u64> = numbers.filter(is_settled).collect();
        if settled.len() < envelope.requests.len() {
            let envelope = envelope.clone();
            self.step(id, Event::Input(Input::Request { envelope, settled, passed_on }));
        }
    }

    /// A client asks everyone again and again for so many seconds.
    pub fn insist(&mut self, envelope: &Arc<Envelope>, seconds: u64) {
        for _ in 0..seconds {
            (0..P::N as u16).for_each(|id| self.request(id, envelope));
            self.run(1_000);
        }
    }

    /// Whether all replicas that do not lie have executed an envelope, and nothing twice or in
    /// another order.
    pub fn all_executed(&self, envelope: &Arc<Envelope>) -> bool {
        let correct: Vec<_> = self.nodes.iter().filter(|node| node.core.is_some()).collect();
        for node in &correct {
            let longest = correct.iter().max_by_key(|node| node.executed.len()).expect("some");
            let same = node.executed.iter().zip(&longest.executed);
            assert!(same.clone().all(|(a, b)| a.0 == b.0 && a.1.digest == b.1.digest));
        }
        let executed = |node: &&&Node<P>| {
            let envelopes = node.executed.iter().flat_map(|(_, batch)| &batch.envelopes);
            envelopes.filter(|it| it.digest == envelope.digest).count() == 1
        };
        correct.iter().filter(executed).count() == correct.len()
    }
}

/// One client's envelope, with one operation of so many bytes for each number.
pub fn envelope(client: u8, floor: u64, numbers: &[u64], bytes: usize) -> Arc<Envelope> {
    let request = |n: &u64| Request { number: *n, operation: vec![client; bytes].into() };
    let requests = numbers.iter().map(request).collect();
    let draft = Draft { client: ClientId([client; 32]), floor, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
}
