//! One replica without sockets, clock and threads: what `pentarchy-replica` does around a core,
//! piece by piece, so that each can be measured alone.

use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Outgoing, ReplicaCore};
use pentarchy_core::executor::{Executor, Notice};
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::REPLY_WHOLE_BYTES;
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Place, Reply, ToClient, ToReplica};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Delay, Memory, Setup, TimerKey, To, Tuning};
use pentarchy_core::request::Envelope;
use pentarchy_core::sessions::Lookup;
use pentarchy_core::telling::Telling;
use pentarchy_core::wire::{Wire, Writer};
use pentarchy_protocols::Entry;
use pentarchy_services::null::Null;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// First byte of a message between replicas, as in `pentarchy-replica`.
const PROTOCOL: u8 = 0;

/// Makes the tags that a replica's messages ask for.
pub trait Tagger {
    /// The tag for the statement with this digest.
    fn tag(&mut self, auth: &Auth, digest: &Digest) -> AuthTag;
}

/// What a replica checks and convinces with.
pub struct Keys {
    /// Checks what others made.
    pub verifier: Arc<dyn Verifier>,
    /// Makes what others check.
    pub tagger: Box<dyn Tagger>,
}

/// Messages for one destination, behind their lengths. Keeps its buffer, as a connection does.
#[derive(Default)]
pub struct Queue {
    plain: Vec<u8>,
    messages: Vec<(&'static str, usize)>,
}

impl Queue {
    /// Appends one message in place.
    pub fn push(&mut self, kind: &'static str, encode: impl FnOnce(&mut Writer)) {
        let start = self.plain.len();
        let mut writer = Writer::onto(std::mem::take(&mut self.plain));
        writer.u32(0);
        encode(&mut writer);
        self.plain = writer.into_vec();
        let length = self.plain.len() - start - 4;
        self.plain[start..start + 4].copy_from_slice(&(length as u32).to_le_bytes());
        self.messages.push((kind, length));
    }

    /// The bytes of all, and the kind and the length of each.
    #[must_use]
    pub fn waiting(&self) -> (&[u8], &[(&'static str, usize)]) {
        (&self.plain, &self.messages)
    }

    /// Everything was sent.
    pub fn clear(&mut self) {
        self.plain.clear();
        self.messages.clear();
    }
}

/// What a client is to be told.
enum Answer {
    /// Results, and what they rest on if they may be taken back.
    Results(Option<Place>, Vec<Reply>),
    /// Something of the protocol.
    Protocol(ToClient),
}

/// One replica.
pub struct Host {
    core: Box<dyn ReplicaCore>,
    executor: Executor,
    keys: Keys,
    me: ReplicaId,
    others: ReplicaSet,
    epoch: Epoch,
    inward: VecDeque<CoreEvent>,
    effects: Vec<CoreEffect>,
    fresh: Vec<Arc<Envelope>>,
    outputs: VecDeque<Output>,
    answers: Vec<(ClientId, Answer)>,
    timers: BTreeMap<TimerKey, Delay>,
    to_peers: BTreeMap<ReplicaId, Queue>,
    to_clients: BTreeMap<ClientId, Queue>,
    telling: Telling,
}

impl Host {
    /// A replica of a fresh group that replicates [`Null`].
    #[must_use]
    pub fn new(
        me: ReplicaId,
        membership: &Arc<Membership>,
        protocol: &Entry,
        keys: Keys,
        tuning: Tuning,
    ) -> Self {
        let (mut effects, membership) = (Vec::new(), membership.clone());
        let setup = Setup {
            me,
            membership: membership.clone(),
            fetch: None,
            memory: Memory::Volatile,
            tuning,
        };
        let mut others: ReplicaSet = membership.ids().collect();
        others.remove(me);
        let mut host = Self {
            core: (protocol.start)(setup, &mut effects),
            executor: Executor::new(membership.clone(), Box::new(Null::new())),
            keys,
            me,
            others,
            epoch: membership.epoch,
            inward: VecDeque::new(),
            effects,
            fresh: Vec::new(),
            outputs: VecDeque::new(),
            answers: Vec::new(),
            timers: BTreeMap::new(),
            to_peers: BTreeMap::new(),
            to_clients: BTreeMap::new(),
            telling: Telling { me, n: membership.n(), whole_bytes: REPLY_WHOLE_BYTES },
        };
        host.carry_out();
        host
    }

    /// Takes a client's message: decodes it, and keeps an envelope for [`Self::admit`].
    ///
    /// # Panics
    /// If it is neither a new request nor the protocol's, which no client in here sends.
    pub fn on_client(&mut self, client: ClientId, bytes: &Bytes) {
        match ToReplica::from_bytes(bytes) {
            Ok(ToReplica::Request(envelope)) => {
                assert!(!self.settled(&envelope), "each request is sent once");
                self.fresh.push(envelope);
            }
            Ok(ToReplica::Protocol(message)) => {
                let opened = self.core.open_client(&*self.keys.verifier, &message);
                let opened = opened.unwrap_or_else(|why| panic!("refused as {}", why.name()));
                self.step(CoreEvent::Client(client, opened));
            }
            other => panic!("a client in here only submits: {other:?}"),
        }
    }

    fn settled(&self, envelope: &Envelope) -> bool {
        self.executor.lookups(envelope).all(|known| known != Lookup::New)
    }

    /// Checks the new envelopes together and hands them to the core.
    ///
    /// # Panics
    /// If one is not authentic.
    pub fn admit(&mut self) {
        let fresh = std::mem::take(&mut self.fresh);
        let envelopes: Vec<&Envelope> = fresh.iter().map(AsRef::as_ref).collect();
        assert!(envelopes.is_empty() || self.keys.verifier.envelopes(&envelopes));
        for envelope in fresh {
            self.step(CoreEvent::Input(Input::Request {
                envelope,
                settled: Vec::new(),
                passed_on: false,
            }));
        }
    }

    /// Takes a replica's message.
    ///
    /// # Panics
    /// If it is refused, as all in here are correct.
    pub fn on_peer(&mut self, peer: ReplicaId, bytes: &Bytes) {
        let opened = self.core.open_new(&*self.keys.verifier, peer, &bytes.slice(9..));
        let opened = opened.unwrap_or_else(|why| panic!("refused as {}", why.name()));
        if let Some(incoming) = opened {
            self.step(CoreEvent::Message(incoming));
        }
    }

    /// Says that the round is over.
    pub fn on_round(&mut self, now: Millis) {
        self.step(CoreEvent::Input(Input::Round { now }));
    }

    /// Lets the timer run out that retransmission waits for; false if none is armed.
    pub fn on_resend(&mut self) -> bool {
        let armed = self.timers.iter().find(|(_, after)| **after == Delay::Resend);
        let Some((timer, _)) = armed.map(|(timer, after)| (*timer, *after)) else { return false };
        self.timers.remove(&timer);
        self.step(CoreEvent::Timeout(timer));
        true
    }

    /// The delays of all armed timers.
    pub fn delays(&self) -> impl Iterator<Item = Delay> {
        self.timers.values().copied()
    }

    /// The next thing that the core wants executed.
    pub fn next_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Executes it, and gives the core its answer.
    pub fn execute(&mut self, output: Output) {
        match output {
            Output::Execute { slot, batch } => {
                let answers = &mut self.answers;
                self.executor.execute(slot, &batch, |client, notice| {
                    if let Notice::Reply(reply) = notice {
                        add_result(answers, *client, None, reply);
                    }
                });
            }
            Output::Speculate { answers: tells, slot, batch, view, history } => {
                let (answers, place) = (&mut self.answers, Place { view, slot, history });
                self.executor.speculate(place, &batch, tells, |client, reply| {
                    if tells {
                        add_result(answers, *client, Some(place), reply);
                    }
                });
            }
            Output::Answer { slot, view } => {
                for (client, place, replies) in self.executor.answers(slot, view) {
                    for reply in replies {
                        add_result(&mut self.answers, client, Some(place), reply);
                    }
                }
            }
            Output::Commit { upto } => {
                self.executor.commit(upto, |_, notice| panic!("nobody waits for {notice:?}"));
            }
            Output::Tell { client, message } => {
                self.answers.push((client, Answer::Protocol(message)));
            }
            Output::Checkpoint { slot } => {
                let state = self.executor.checkpoint();
                self.checkpointed(slot, state);
            }
            Output::Stable { slot, .. } => self.executor.stable(slot),
            Output::Admit { .. }
            | Output::Full { .. }
            | Output::Resumed { .. }
            | Output::Fetch { .. }
            | Output::Rollback { .. }
            | Output::Restate { .. }
            | Output::Entered { .. }
            | Output::Keeping { .. }
            | Output::Glance(_)
            | Output::ToPillar { .. }
            | Output::Diverged { .. } => panic!("nothing goes wrong in here: {output:?}"),
        }
    }

    /// The digest of the last state that was cut; none is a zero.
    #[must_use]
    pub fn state(&self) -> Digest {
        self.executor.latest().map(|snapshot| snapshot.digest).unwrap_or_default()
    }

    /// Tells the core the digest of the state after a slot.
    pub fn checkpointed(&mut self, slot: Slot, state: Digest) {
        self.step(CoreEvent::Input(Input::Checkpointed { slot, state }));
    }

    /// Encodes the results for their clients.
    pub fn reply(&mut self) {
        for (client, answer) in std::mem::take(&mut self.answers) {
            let messages = match answer {
                Answer::Results(place, replies) => results(self.telling, &client, place, replies),
                Answer::Protocol(message) => [Some(message), None],
            };
            let queue = self.to_clients.entry(client).or_default();
            for message in messages.into_iter().flatten() {
                queue.push(message.kind(), |to| message.encode(to));
            }
        }
    }

    /// Results of up to so many bytes every replica tells; of longer ones all but one tell the
    /// digest.
    pub const fn tell_whole(&mut self, bytes: usize) {
        self.telling.whole_bytes = bytes;
    }

    /// What is to be sent to replicas.
    pub fn to_peers(&mut self) -> impl Iterator<Item = (ReplicaId, &mut Queue)> {
        self.to_peers.iter_mut().map(|(id, queue)| (*id, queue))
    }

    /// Forgets what is to be sent.
    pub fn drop_outgoing(&mut self) {
        self.to_peers.values_mut().chain(self.to_clients.values_mut()).for_each(Queue::clear);
    }

    /// What is to be sent to clients.
    pub fn to_clients(&mut self) -> impl Iterator<Item = (ClientId, &mut Queue)> {
        self.to_clients.iter_mut().map(|(id, queue)| (*id, queue))
    }

    fn step(&mut self, event: CoreEvent) {
        self.core.step(event, &mut self.effects);
        self.carry_out();
        while let Some(event) = self.inward.pop_front() {
            self.core.step(event, &mut self.effects);
            self.carry_out();
        }
    }

    fn carry_out(&mut self) {
        let mut effects = std::mem::take(&mut self.effects);
        for effect in effects.drain(..) {
            match effect {
                CoreEffect::Send { to, outgoing } => self.send(to, &outgoing),
                CoreEffect::Relay { to, wire, kind } => self.queue(self.receivers(to), kind, &wire),
                CoreEffect::Arm { timer, after } => {
                    self.timers.insert(timer, after);
                }
                CoreEffect::Disarm(timer) => {
                    self.timers.remove(&timer);
                }
                CoreEffect::Output(output) => self.outputs.push_back(output),
                CoreEffect::Report(evidence) => panic!("all in here are correct: {evidence:?}"),
                CoreEffect::Persist(_) => {}
            }
        }
        self.effects = effects;
    }

    fn receivers(&self, to: To) -> ReplicaSet {
        match to {
            To::One(id) => ReplicaSet::from_iter([id]),
            To::Others => self.others,
            To::All => {
                let mut all = self.others;
                all.insert(self.me);
                all
            }
            To::Set(set) => set,
        }
    }

    fn send(&mut self, to: To, outgoing: &Outgoing) {
        let tag = self.keys.tagger.tag(&outgoing.auth, &outgoing.digest);
        let (wire, incoming) = self.core.seal(outgoing, tag);
        let receivers = self.receivers(to);
        if receivers.contains(self.me) {
            self.inward.push_back(CoreEvent::Message(incoming));
        }
        self.queue(receivers, outgoing.kind, &wire);
    }

    fn queue(&mut self, mut receivers: ReplicaSet, kind: &'static str, wire: &Bytes) {
        receivers.remove(self.me);
        for peer in receivers.iter() {
            self.to_peers.entry(peer).or_default().push(kind, |to| {
                to.u8(PROTOCOL);
                self.epoch.encode(to);
                to.array(wire);
            });
        }
    }
}

/// What a client is told of results: those that this replica tells, and digests of the others.
fn results(
    telling: Telling,
    client: &ClientId,
    place: Option<Place>,
    replies: Vec<Reply>,
) -> [Option<ToClient>; 2] {
    let (replies, digests) = telling.split(client, replies);
    let (some, others) = (!replies.is_empty(), !digests.is_empty());
    let (view, primary) = (View(0), ReplicaId(0));
    let (whole, digests) = match place {
        None => (ToClient::Replies { view, replies }, ToClient::Digests { view, digests }),
        Some(place) => (
            ToClient::Speculative { primary, place, replies },
            ToClient::SpeculativeDigests { primary, place, digests },
        ),
    };
    [some.then_some(whole), others.then_some(digests)]
}

/// Adds a result to those of the same client and place, if they came just before.
fn add_result(
    answers: &mut Vec<(ClientId, Answer)>,
    client: ClientId,
    place: Option<Place>,
    reply: Reply,
) {
    match answers.last_mut() {
        Some((last, Answer::Results(at, replies))) if *last == client && *at == place => {
            replies.push(reply);
        }
        _ => answers.push((client, Answer::Results(place, vec![reply]))),
    }
}
