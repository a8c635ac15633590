//! Chains in memory, and schedules by hand, each the smallest that needs its rule. Replicas that
//! lie have no core: the test speaks for them.

mod checkpoints;
mod client;
mod ends;
mod host;
mod links;
mod log;
mod messages;
mod order;
mod random;
mod worlds;

use super::{Macs, Message, Mode, Order, Record, Shuttle, ShuttleClient, Timer};
use crate::common::voting_client::VotingClient;
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use host::Host;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Verified, Verifier};
use pentarchy_core::counter::{Instance, TrustedMac, Ui};
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, Millis, ReplicaId, Slot};
use pentarchy_core::mac_vector::{MAC_BYTES, MacVector};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::ports::client::{self as client_port, ClientCore as _, Outcome, ToClient};
use pentarchy_core::ports::replica::{Input, Output, replying, wedging};
use pentarchy_core::protocol::{
    Effect, Effects, Event, Memory, Message as _, Protocol as _, Reject, Setup, Timeouts, To,
    Tuning,
};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::request::{Envelope, RequestAuth};

const CLIENT: ClientId = ClientId([7; 32]);
const S1: Slot = Slot(1);
const S2: Slot = Slot(2);

/// A MAC for one receiver.
fn mac(author: ReplicaId, receiver: ReplicaId, digest: &Digest) -> [u8; MAC_BYTES] {
    let mut hasher = Hasher::new("a test's mac");
    hasher.u64(author.0.into()).u64(receiver.0.into()).digest(digest);
    let mut mac = [0; MAC_BYTES];
    mac.copy_from_slice(&hasher.finish().0[..MAC_BYTES]);
    mac
}

fn macs(author: ReplicaId, n: usize, digest: &Digest) -> MacVector {
    MacVector::new((0..n as u16).map(|receiver| mac(author, ReplicaId(receiver), digest)))
}

/// A signature is the digest and who made it.
fn sign(author: ReplicaId, digest: &Digest) -> [u8; 64] {
    let mut signature = [author.0 as u8; 64];
    signature[..32].copy_from_slice(&digest.0);
    signature
}

/// What one replica can check.
struct Keys {
    me: ReplicaId,
    n: usize,
}

impl Verifier for Keys {
    fn signature(&self, author: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        *signature == sign(author, digest)
    }
    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        false
    }
    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        false
    }
    fn vector(&self, author: ReplicaId, digest: &Digest, macs: &MacVector) -> bool {
        macs.entry(self.me, self.n) == Some(&mac(author, self.me, digest))
    }
    fn envelope(&self, _: &Envelope) -> bool {
        true
    }
}

fn membership(n: usize, f: usize) -> Arc<Membership> {
    let members = vec![([0; 32], Life::mac(Incarnation(0))); n];
    Arc::new(Membership::of_keys(GroupId([7; 16]), f, members))
}

/// Checkpoints every four slots, and room for twelve.
fn tuning() -> Tuning {
    Tuning { checkpoint_slots: 4, window_slots: 12, ..Tuning::default() }
}

/// A chain, its client, and what is under way between all.
struct Group<M: Mode> {
    membership: Arc<Membership>,
    cores: BTreeMap<ReplicaId, Shuttle<M>>,
    hosts: BTreeMap<ReplicaId, Host<M>>,
    under_way: VecDeque<(ReplicaId, Verified<Message<M>>)>,
    /// What came to replicas that lie.
    heard: Vec<(ReplicaId, Verified<Message<M>>)>,
    refused: Vec<(ReplicaId, Reject)>,
    told: VecDeque<(ReplicaId, ToClient)>,
    client: ShuttleClient,
    results: BTreeMap<u64, Outcome>,
    now: u64,
}

/// Everything arrives.
fn all<M: Mode>(_: ReplicaId, _: ReplicaId, _: &Message<M>) -> bool {
    true
}

impl Group<Macs> {
    /// Three replicas: two full ones and a witness. These lie.
    fn three(liars: &[u16]) -> Self {
        Self::new(3, 1, liars)
    }
}

impl<M: Mode> Group<M> {
    fn new(n: usize, f: usize, liars: &[u16]) -> Self {
        let group = Quorums { n, f };
        let quorums = Shuttle::<M>::RULES.client_quorums(group);
        let inner = VotingClient::new(CLIENT, quorums, Timeouts::default(), 1);
        let mut group = Self {
            membership: membership(n, f),
            cores: BTreeMap::new(),
            hosts: BTreeMap::new(),
            under_way: VecDeque::new(),
            heard: Vec::new(),
            refused: Vec::new(),
            told: VecDeque::new(),
            client: ShuttleClient::new(CLIENT, group, inner),
            results: BTreeMap::new(),
            now: 1_000,
        };
        let correct = (0..n as u16).filter(|id| !liars.contains(id)).map(ReplicaId);
        correct.for_each(|id| group.start(id, Host::default()));
        group
    }

    fn start(&mut self, id: ReplicaId, host: Host<M>) {
        let memory = Memory::Durable { executed: host.base(), records: Vec::new() };
        let (membership, tuning) = (self.membership.clone(), tuning());
        let setup = Setup { me: id, membership, fetch: None, memory, tuning };
        let mut out = Effects::default();
        let core = Shuttle::start(setup, &mut host.records.clone().into_iter(), &mut out);
        core.assert_invariants();
        self.cores.insert(id, core);
        self.hosts.insert(id, host);
        self.carry_out(id, &mut out);
        self.step(id, Event::Input(Input::Round { now: Millis(self.now) }));
    }

    /// It stops, and goes on from its log. What it had sent is lost.
    fn restart(&mut self, id: u16) {
        let id = ReplicaId(id);
        self.under_way.retain(|(to, verified)| verified.author != id && *to != id);
        let host = self.hosts[&id].restarted();
        self.start(id, host);
    }

    fn core(&self, id: u16) -> &Shuttle<M> {
        &self.cores[&ReplicaId(id)]
    }

    fn host(&self, id: u16) -> &Host<M> {
        &self.hosts[&ReplicaId(id)]
    }

    /// What each correct replica has ordered.
    fn ordered(&self) -> Vec<u64> {
        self.cores.values().map(|core| core.log.ordered().0).collect()
    }

    fn done(&self) -> Vec<u64> {
        self.cores.values().map(|core| core.done.0).collect()
    }

    fn stable(&self) -> Vec<u64> {
        self.cores.values().map(|core| core.stable.slot.0).collect()
    }

    /// Whom a replica accused.
    fn accused(&self, id: u16) -> Vec<u16> {
        let mut accused: Vec<u16> = self.host(id).accused.iter().map(|it| it.0).collect();
        accused.sort_unstable();
        accused.dedup();
        accused
    }

    fn authentic(&self, author: ReplicaId, message: Message<M>) -> Verified<Message<M>> {
        let domain = self.membership.domain();
        let digest = message.statement(&domain);
        let tag = match message.auth() {
            Auth::Signature => AuthTag::Signature(sign(author, &digest)),
            Auth::Vector => AuthTag::Vector(macs(author, self.membership.n(), &digest)),
            Auth::Checksum => AuthTag::Checksum(Checksum::of(&digest)),
            _ => AuthTag::Channel,
        };
        Verified::recalled(author, tag, &domain, message)
    }

    /// A liar says something to one.
    fn say(&mut self, from: u16, to: u16, message: Message<M>) {
        let verified = self.authentic(ReplicaId(from), message);
        self.under_way.push_back((ReplicaId(to), verified));
    }

    /// The client wants one more thing done.
    fn submit(&mut self, number: u64) {
        let operation = Vec::from(number.to_le_bytes()).into();
        self.client_step(client_port::Event::Submit { number, operation });
        self.client_round();
    }

    /// The client waits so long that it asks all.
    fn ask_again(&mut self) {
        self.now += 60_000;
        self.client_round();
    }

    fn client_round(&mut self) {
        self.client_step(client_port::Event::Round { now: Millis(self.now) });
    }

    fn client_step(&mut self, event: client_port::Event) {
        let mut effects = Vec::new();
        self.client.step(event, &mut effects);
        for effect in effects {
            match effect {
                client_port::Effect::Request { to, draft } => {
                    let envelope = Arc::new(draft.seal(RequestAuth::Signature([0; 64])));
                    to.iter().for_each(|id| self.receive(id, &envelope));
                }
                client_port::Effect::Completed { number, outcome } => {
                    self.results.insert(number, outcome);
                }
                _ => {}
            }
        }
    }

    /// A replica gets what a client sends.
    fn receive(&mut self, id: ReplicaId, envelope: &Arc<Envelope>) {
        let Some(host) = self.hosts.get(&id) else { return };
        let (settled, replies) = host.settled(envelope);
        if !replies.is_empty() {
            let asked = replying::Input::Asked { client: envelope.client, replies };
            self.step(id, Event::Input(asked.into()));
        }
        if settled.len() < envelope.requests.len() {
            let envelope = envelope.clone();
            self.step(id, Event::Input(Input::Request { envelope, settled, passed_on: false }));
        }
    }

    /// The end of everybody's round.
    fn round(&mut self) {
        for id in self.cores.keys().copied().collect::<Vec<_>>() {
            self.step(id, Event::Input(Input::Round { now: Millis(self.now) }));
        }
    }

    /// Orders these one by one, and lets arrive what may.
    fn order(
        &mut self,
        numbers: impl IntoIterator<Item = u64>,
        arrives: impl Fn(ReplicaId, ReplicaId, &Message<M>) -> bool,
    ) {
        for number in numbers {
            self.submit(number);
            self.round();
            self.run(&arrives);
        }
    }

    /// Everybody says where it stands, as often as it takes to be answered.
    fn ticks(&mut self, arrives: impl Fn(ReplicaId, ReplicaId, &Message<M>) -> bool) {
        for _ in 0..8 {
            for id in self.cores.keys().copied().collect::<Vec<_>>() {
                self.expire(id, Timer::Tick);
            }
            self.client_round();
            self.round();
            self.run(&arrives);
        }
    }

    /// A timer runs out, if it runs.
    fn expire(&mut self, id: ReplicaId, timer: Timer) {
        let host = self.hosts.get_mut(&id).expect("it is correct");
        if host.armed.remove(&timer).is_some() {
            self.step(id, Event::Timeout(timer));
        }
    }

    /// All timers that run now run out, but for ticks.
    fn wait(&mut self, id: u16) {
        let id = ReplicaId(id);
        for timer in self.hosts[&id].armed.clone().into_keys() {
            if timer != Timer::Tick {
                self.expire(id, timer);
            }
        }
    }

    fn wedge(&mut self, id: u16) {
        self.step(ReplicaId(id), Event::Input(wedging::Input::Wedge.into()));
    }

    fn step(&mut self, id: ReplicaId, event: Event<Shuttle<M>>) {
        let mut out = Effects::default();
        let core = self.cores.get_mut(&id).expect("it is correct");
        core.step(event, &mut out);
        core.assert_invariants();
        self.carry_out(id, &mut out);
    }

    /// Delivers what is under way, and what follows from it; what does not arrive is lost. Replicas
    /// hear themselves in any case.
    fn run(&mut self, arrives: impl Fn(ReplicaId, ReplicaId, &Message<M>) -> bool) {
        loop {
            if let Some((from, message)) = self.told.pop_front() {
                self.client_step(client_port::Event::Message { from, message });
                continue;
            }
            let Some((to, verified)) = self.under_way.pop_front() else { return };
            let from = verified.author;
            if from == to || arrives(from, to, &verified.message) {
                self.deliver(to, verified);
            }
        }
    }

    /// As a correct replica's message: nobody refuses what it says.
    fn deliver(&mut self, to: ReplicaId, verified: Verified<Message<M>>) {
        let (refused, is_correct) = (self.refused.len(), self.cores.contains_key(&verified.author));
        let said = verified.clone();
        self.deliver_or_refuse(to, verified);
        assert!(!is_correct || self.refused.len() == refused, "{to} refuses {said:?}");
    }

    fn deliver_or_refuse(&mut self, to: ReplicaId, verified: Verified<Message<M>>) {
        if !self.cores.contains_key(&to) {
            return self.heard.push((to, verified));
        }
        let keys = Keys { me: to, n: self.membership.n() };
        let Verified { author, tag, message, digest, .. } = &verified;
        let valid = match tag {
            AuthTag::Vector(macs) if !keys.vector(*author, digest, macs) => Err(Reject::BadAuth),
            _ => Shuttle::<M>::validate(&self.membership, &keys, *author, tag, message),
        };
        match valid {
            Ok(()) => self.step(to, Event::Message(verified)),
            Err(why) => self.refused.push((to, why)),
        }
    }

    fn carry_out(&mut self, id: ReplicaId, out: &mut Effects<Shuttle<M>>) {
        let mut inward = VecDeque::new();
        for effect in out.drain().collect::<Vec<_>>() {
            let host = self.hosts.get_mut(&id).expect("it is correct");
            match effect {
                Effect::Send { to, message } => {
                    let verified = self.authentic(id, message);
                    self.send(id, to, &verified);
                }
                Effect::Persist(record) => host.records.push(record),
                Effect::Arm { timer, after } => {
                    host.armed.insert(timer, after);
                }
                Effect::Disarm(timer) => {
                    host.armed.remove(&timer);
                }
                Effect::Output(Output::Replying(replying::Output::Tell { message, .. })) => {
                    self.told.push_back((id, ToClient::Protocol(message)));
                }
                Effect::Output(Output::Replying(replying::Output::Reply { replies, .. })) => {
                    let view = pentarchy_core::ids::View(0);
                    self.told.push_back((id, ToClient::Replies { view, replies }));
                }
                Effect::Output(Output::Admit { envelope }) => {
                    let settled = host.settled(&envelope).0;
                    if settled.len() < envelope.requests.len() {
                        inward.push_back(Input::Request { envelope, settled, passed_on: true });
                    }
                }
                Effect::Output(output) => inward.extend(host.output(output)),
                Effect::Relay { .. } | Effect::Report(_) => {}
            }
        }
        inward.into_iter().for_each(|input| self.step(id, Event::Input(input)));
    }

    fn send(&mut self, id: ReplicaId, to: To, verified: &Verified<Message<M>>) {
        for other in self.membership.ids() {
            let gets = match to {
                To::One(one) => other == one,
                To::Others => other != id,
                To::All => true,
                To::Set(set) => set.contains(other),
            };
            if gets {
                self.under_way.push_back((other, verified.clone()));
            }
        }
    }
}
