//! Schedules by hand for any protocol: a group in memory whose liars say what a test puts into
//! their mouths. Signatures are believed if they name their author; timers run by a clock that the
//! test moves.

use pentarchy_core::auth::{Auth, AuthTag, Checksum, Verified, Verifier};
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::{Certificate, Counter, Instance, Position, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{
    ClientId, Epoch, GroupId, Incarnation, Millis, ReplicaId, ReplicaSet, Slot,
};
use pentarchy_core::membership::{Base, Life, Membership, PillarConfig};
use pentarchy_core::ports::client::{Place, ToClient};
use pentarchy_core::ports::replica::{Input, Output, speculation};
use pentarchy_core::protocol::{
    Effect, Effects, Event, Evidence, Memory, Message as _, Protocol, Setup, Status, Timeouts,
    TimerKey, TimerName, To, Tuning,
};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::wire::Wire as _;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Believes every client, signatures that name their author, and certificates of [`Device`]s.
pub struct Trusting;

impl Verifier for Trusting {
    fn signature(&self, author: ReplicaId, _: &Digest, signature: &[u8; 64]) -> bool {
        signature[0] == author.0 as u8
    }
    fn usig(&self, author: ReplicaId, digest: &Digest, ui: &Ui) -> bool {
        ui.certificate == certificate(author, ui.position, ui.committed, digest)
    }
    fn mac(&self, by: (ReplicaId, Instance), _: &Digest, mac: &TrustedMac) -> bool {
        mac.0[0] == by.0.0 as u8
    }
    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

fn certificate(id: ReplicaId, at: Position, committed: Position, digest: &Digest) -> Certificate {
    let mut hasher = Hasher::new("device by hand");
    hasher.u64(u64::from(id.0)).u64(at.view.0).u64(at.index);
    hasher.u64(committed.view.0).u64(committed.index).digest(digest);
    Certificate::Mac(hasher.finish().0)
}

/// A trusted counter that never certifies two statements at one position.
pub struct Device {
    id: ReplicaId,
    instance: Instance,
    counter: Counter,
    committed: Position,
    certified: BTreeMap<Position, (Digest, Ui)>,
}

impl Device {
    /// One that certified nothing.
    pub const fn new(id: ReplicaId, instance: Instance, counter: Counter) -> Self {
        Self { id, instance, counter, committed: counter.start(), certified: BTreeMap::new() }
    }

    /// Its identifier of a statement.
    pub fn create(&mut self, position: Position, digest: &Digest) -> Ui {
        if let Some((same, ui)) = self.certified.get(&position) {
            assert_eq!(same, digest, "{:?} says something else at {position:?}", self.id);
            return *ui;
        }
        let last = self.certified.keys().next_back().copied().unwrap_or(self.counter.start());
        let committed = self.counter.names(position, last, self.committed);
        if position.index >= Position::COMMITMENT {
            self.committed = position;
        }
        let certificate = certificate(self.id, position, committed, digest);
        let ui = Ui {
            incarnation: Incarnation(0),
            instance: self.instance,
            position,
            committed,
            certificate,
        };
        self.certified.insert(position, (*digest, ui));
        ui
    }
}

/// One place of a group.
pub struct Node<P: Protocol> {
    /// None if it lies.
    core: Option<P>,
    device: Device,
    timers: BTreeMap<TimerKey, u64>,
    settled: BTreeSet<(ClientId, u64)>,
    /// What it executed.
    pub executed: Vec<(Slot, Arc<Batch>)>,
    /// How many slots it took back.
    pub taken_back: usize,
    /// On what it told clients that its results rest.
    pub places: Vec<Place>,
    /// Slots of which it told clients what came, before they were final.
    pub answered: Vec<Slot>,
    /// Whom it told something of the protocol.
    pub told: Vec<ClientId>,
    /// What it confirmed to clients.
    pub confirmed: Vec<Place>,
    /// Queries are answered once this slot is executed.
    pub answers_from: Slot,
    /// Which states it said to be stable.
    pub stable: Vec<Slot>,
    /// What it reported.
    pub findings: Vec<Evidence>,
    /// Messages by kind that it sent, and passed on, to how many.
    pub sent: BTreeMap<&'static str, usize>,
    /// Envelopes that it found no room for.
    pub refused: usize,
    /// Bytes that it persisted.
    pub kept: usize,
    /// What it persisted.
    pub log: Vec<P::Record>,
}

impl<P: Protocol> Node<P> {
    fn execute(&mut self, slot: Slot, batch: Arc<Batch>) {
        let ran = batch.envelopes.iter();
        let ran = ran.flat_map(|it| it.requests.iter().map(|r| (it.client, r.number)));
        self.settled.extend(ran);
        self.executed.push((slot, batch));
    }

    fn roll_back(&mut self, after: Slot) {
        let left_out = self.executed.iter().filter(|(slot, _)| *slot > after);
        for envelope in left_out.flat_map(|(_, batch)| &batch.envelopes) {
            for request in &envelope.requests {
                self.settled.remove(&(envelope.client, request.number));
            }
        }
        let before = self.executed.len();
        self.executed.retain(|(slot, _)| *slot <= after);
        self.taken_back += before - self.executed.len();
    }

    fn speculation(&mut self, output: speculation::Output) {
        use speculation::Output;
        match output {
            Output::Speculate { answers, slot, batch, view, history } => {
                self.places.push(Place { view, slot, history });
                self.answered.extend(answers.then_some(slot));
                self.execute(slot, batch);
            }
            Output::Rollback { after } => self.roll_back(after),
            Output::Answer { slot, .. } => self.answered.push(slot),
            Output::Tell { client, message } => {
                self.told.push(client);
                if let ToClient::Committed(place) = message {
                    self.confirmed.push(place);
                }
            }
            Output::Commit { .. } | Output::Restate { .. } => {}
        }
    }
}

/// A message on its way from a peer to a peer.
type Sent<P> = (ReplicaId, ReplicaId, Verified<<P as Protocol>::Message>);

/// A group.
pub struct Net<P: Protocol> {
    pub membership: Arc<Membership>,
    pub nodes: Vec<Node<P>>,
    pub queue: VecDeque<Sent<P>>,
    pub now: u64,
    /// Loses what it says true to, of what one sends another.
    pub loses: fn(to: u16, &P::Message) -> bool,
}

/// Two tests' tuning: small batches, one at a time.
pub const SLOW: Tuning = Tuning {
    checkpoint_slots: 64,
    checkpoint_bytes: 12 << 20,
    window_slots: 256,
    batch_requests: 16,
    proposals_in_flight: 1,
    interleaving: 0,
};

fn members(n: usize) -> Membership {
    let members = vec![([0; 32], Life::mac(Incarnation(0))); n];
    Membership::of_keys(GroupId([7; 16]), 1, members)
}

impl<P: Protocol<Input = Input, Output = Output>> Net<P> {
    /// A group of `n` that tolerates one; these lie.
    pub fn new(n: usize, liars: &[u16], tuning: Tuning) -> Self {
        Self::in_epoch((Epoch(0), Base::default()), n, liars, tuning)
    }

    /// The same in an epoch that begins with this.
    pub fn in_epoch((epoch, base): (Epoch, Base), n: usize, liars: &[u16], tuning: Tuning) -> Self {
        Self::of(Arc::new(Membership { epoch, base, ..members(n) }), liars, tuning)
    }

    /// The same, and each keeps a log.
    pub fn durable(n: usize, liars: &[u16], tuning: Tuning) -> Self {
        let memory = Memory::Durable { executed: Base::default(), records: Vec::new() };
        Self::with_memory(Arc::new(members(n)), liars, tuning, &memory)
    }

    /// The same with so many pillars, of protocols that rest on no counters.
    pub fn of_pillars(pillars: u8, n: usize, liars: &[u16], tuning: Tuning) -> Self {
        let lane = PillarConfig { pillars, ..PillarConfig::default() };
        Self::of(Arc::new(Membership { lane, ..members(n) }), liars, tuning)
    }

    /// The same, each with a primary of its own.
    pub fn rotating(pillars: u8, n: usize, liars: &[u16], tuning: Tuning) -> Self {
        let lane = PillarConfig { pillars, rotates: true, pillar: None };
        Self::of(Arc::new(Membership { lane, ..members(n) }), liars, tuning)
    }

    fn of(membership: Arc<Membership>, liars: &[u16], tuning: Tuning) -> Self {
        Self::with_memory(membership, liars, tuning, &Memory::Volatile)
    }

    fn with_memory(
        membership: Arc<Membership>,
        liars: &[u16],
        tuning: Tuning,
        memory: &Memory,
    ) -> Self {
        let mut net = Self {
            membership: membership.clone(),
            nodes: Vec::new(),
            queue: VecDeque::new(),
            now: 1_000,
            loses: |_, _| false,
        };
        let mut first = Vec::new();
        for me in membership.ids() {
            let (fetch, memory) = (None, memory.clone());
            let setup = Setup { me, membership: membership.clone(), fetch, memory, tuning };
            let mut out = Effects::default();
            let lies = liars.contains(&me.0);
            let core = (!lies).then(|| P::start(setup, &mut std::iter::empty(), &mut out));
            let device = Device::new(me, Instance::FIRST, P::RULES.device());
            first.push(out);
            net.nodes.push(Node {
                core,
                device,
                timers: BTreeMap::new(),
                settled: BTreeSet::new(),
                executed: Vec::new(),
                taken_back: 0,
                places: Vec::new(),
                answered: Vec::new(),
                told: Vec::new(),
                confirmed: Vec::new(),
                answers_from: Slot(0),
                stable: Vec::new(),
                findings: Vec::new(),
                sent: BTreeMap::new(),
                refused: 0,
                kept: 0,
                log: Vec::new(),
            });
        }
        for (id, out) in (0..).zip(first) {
            net.carry_out(id, out);
        }
        net.run(300);
        net
    }

    /// How a correct replica stands.
    pub fn status(&self, id: u16) -> Status {
        self.nodes[usize::from(id)].core.as_ref().expect("it is correct").status()
    }

    pub fn core(&self, id: u16) -> &P {
        self.nodes[usize::from(id)].core.as_ref().expect("it is correct")
    }

    fn step(&mut self, id: u16, event: Event<P>) {
        let mut out = Effects::default();
        if let Some(core) = &mut self.nodes[usize::from(id)].core {
            core.step(event, &mut out);
            core.assert_invariants();
            self.carry_out(id, out);
        }
    }

    fn carry_out(&mut self, id: u16, mut out: Effects<P>) {
        let now = self.now;
        for effect in out.drain().collect::<Vec<_>>() {
            let node = &mut self.nodes[usize::from(id)];
            match effect {
                Effect::Send { to, message } => {
                    let message = self.authentic(id, message);
                    self.post(id, to, &message);
                }
                Effect::Relay { to, message } => self.post(id, to, &message),
                Effect::Arm { timer, after } => {
                    node.timers.insert(timer.to_key(), now + Timeouts::default().millis(after));
                }
                Effect::Disarm(timer) => {
                    node.timers.remove(&timer.to_key());
                }
                Effect::Report(evidence) => node.findings.push(evidence),
                Effect::Persist(record) => {
                    node.kept += record.to_bytes().len();
                    node.log.push(record);
                }
                Effect::Output(output) => self.output(id, output),
            }
        }
    }

    fn output(&mut self, id: u16, output: Output) {
        let node = &mut self.nodes[usize::from(id)];
        match output {
            Output::Execute { slot, batch } => node.execute(slot, batch),
            Output::Speculation(output) => node.speculation(output),
            Output::Checkpoint { slot } => {
                let state = Digest::of(&slot.0.to_le_bytes());
                self.step(id, Event::Input(Input::Checkpointed { slot, state }));
            }
            Output::Stable { slot, .. } => node.stable.push(slot),
            Output::Full { .. } => node.refused += 1,
            Output::Resumed { upto } => node.answers_from = node.answers_from.max(upto),
            Output::Admit { envelope } => self.admit(id, envelope, true),
            _ => {}
        }
    }

    fn admit(&mut self, id: u16, envelope: Arc<Envelope>, passed_on: bool) {
        let known = &self.nodes[usize::from(id)].settled;
        let numbers = envelope.requests.iter().map(|request| request.number);
        let settled: Vec<u64> =
            numbers.filter(|n| known.contains(&(envelope.client, *n))).collect();
        if settled.len() < envelope.requests.len() {
            self.step(id, Event::Input(Input::Request { envelope, settled, passed_on }));
        }
    }

    /// A client sends an envelope to a replica.
    pub fn request(&mut self, id: u16, envelope: &Arc<Envelope>) {
        self.admit(id, envelope.clone(), false);
    }

    /// A client says something of the protocol to a replica.
    pub fn says(&mut self, client: &Arc<Envelope>, id: u16, message: P::Message) {
        self.step(id, Event::Client(client.client, Arc::new(message)));
    }

    /// A client sends an envelope to the primary, and everything settles.
    pub fn order(&mut self, primary: u16, envelope: &Arc<Envelope>) {
        self.request(primary, envelope);
        self.round(primary);
        self.settle();
    }

    /// A message as this replica would say it.
    pub fn authentic(&mut self, id: u16, message: P::Message) -> Verified<P::Message> {
        let domain = self.membership.domain();
        let digest = message.statement(&domain);
        let tag = match message.auth() {
            Auth::Channel => AuthTag::Channel,
            Auth::Checksum => AuthTag::Checksum(Checksum::of(&digest)),
            Auth::Signature => AuthTag::Signature([id as u8; 64]),
            Auth::Mac(_) => AuthTag::Mac(TrustedMac([id as u8; 32])),
            Auth::Vector => panic!("nobody asks for one"),
            Auth::Usig(_, at) => {
                AuthTag::Usig(self.nodes[usize::from(id)].device.create(at, &digest))
            }
        };
        Verified::recalled(ReplicaId(id), tag, &domain, message)
    }

    /// What a liar's device certifies, whatever it is.
    pub fn certify(&mut self, liar: u16, at: Position, digest: &Digest) -> Ui {
        self.nodes[usize::from(liar)].device.create(at, digest)
    }

    /// A liar says something to some.
    pub fn say(&mut self, liar: u16, to: &[u16], message: P::Message) {
        let message = self.authentic(liar, message);
        self.pass_on(liar, to, &message);
    }

    /// A liar passes something on to some.
    pub fn pass_on(&mut self, liar: u16, to: &[u16], message: &Verified<P::Message>) {
        let sent = to.iter().map(|to| (ReplicaId(liar), ReplicaId(*to), message.clone()));
        self.queue.extend(sent);
    }

    fn post(&mut self, id: u16, to: To, message: &Verified<P::Message>) {
        let me = ReplicaId(id);
        let mut receivers: ReplicaSet = match to {
            To::One(one) => [one].into_iter().collect(),
            To::Set(set) => set,
            To::All | To::Others => self.membership.ids().collect(),
        };
        let loops = receivers.contains(me) && !matches!(to, To::Others);
        receivers.remove(me);
        let node = &mut self.nodes[usize::from(id)];
        *node.sent.entry(message.message.kind()).or_default() += receivers.iter().count();
        self.queue.extend(receivers.iter().map(|to| (me, to, message.clone())));
        if loops {
            self.step(id, Event::Message(message.clone()));
        }
    }

    /// Delivers what is under way and has not been sent since.
    pub fn deliver(&mut self) {
        for _ in 0..self.queue.len() {
            let Some((from, to, mut verified)) = self.queue.pop_front() else { return };
            verified.is_direct = from == verified.author;
            let node = &self.nodes[usize::from(to.0)];
            let Some(core) = &node.core else { continue };
            if (self.loses)(to.0, &verified.message)
                || core.is_redundant(verified.author, &verified.message)
            {
                continue;
            }
            let Verified { author, tag, message, .. } = &verified;
            let valid = P::validate(&self.membership, &Trusting, *author, tag, message);
            assert_eq!(valid, Ok(()), "{:?} by {author:?} to {to:?}", message.kind());
            self.step(to.0, Event::Message(verified));
        }
    }

    /// Delivers until nothing is under way.
    pub fn settle(&mut self) {
        for _ in 0..100 {
            if self.queue.is_empty() {
                return;
            }
            self.deliver();
            self.rounds();
        }
        panic!("the group goes on talking");
    }

    pub fn round(&mut self, id: u16) {
        self.step(id, Event::Input(Input::Round { now: Millis(self.now) }));
    }

    /// The state after a slot came from elsewhere.
    pub fn installed(&mut self, id: u16, slot: Slot) {
        self.step(id, Event::Input(Input::Installed { slot }));
    }

    /// A replica starts again with its log, and with this state.
    pub fn resume(&mut self, id: u16, executed: Base, tuning: Tuning) {
        let node = &mut self.nodes[usize::from(id)];
        node.timers.clear();
        let mut log = node.log.clone().into_iter();
        let (me, membership) = (ReplicaId(id), self.membership.clone());
        let memory = Memory::Durable { executed, records: Vec::new() };
        let mut out = Effects::default();
        let setup = Setup { me, membership, fetch: None, memory, tuning };
        self.nodes[usize::from(id)].core = Some(P::start(setup, &mut log, &mut out));
        self.carry_out(id, out);
    }

    fn rounds(&mut self) {
        (0..self.nodes.len() as u16).for_each(|id| self.round(id));
    }

    /// Another millisecond, in which messages get from one replica to the next.
    pub fn millisecond(&mut self) {
        self.now += 1;
        self.deliver();
        for id in 0..self.nodes.len() as u16 {
            let timers = &mut self.nodes[usize::from(id)].timers;
            let due: Vec<TimerKey> =
                timers.iter().filter(|(_, at)| **at <= self.now).map(|(key, _)| *key).collect();
            for key in due {
                self.nodes[usize::from(id)].timers.remove(&key);
                self.step(id, Event::Timeout(P::Timer::from_key(key)));
            }
        }
        self.rounds();
    }

    pub fn run(&mut self, millis: u64) {
        (0..millis).for_each(|_| self.millisecond());
    }
}

/// An envelope of one request, of a client with this name.
pub fn envelope(client: u8, number: u64, bytes: usize) -> Arc<Envelope> {
    let requests = vec![Request { number, operation: vec![client; bytes].into() }];
    let draft = Draft { client: ClientId([client; 32]), floor: 1, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
}
