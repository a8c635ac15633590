//! Everything that was met once is kept once: replicas' states, liars' states, messages; and what
//! comes of each event in each of them. A state of the group is then a few numbers, and most steps
//! of the search are looked up instead of computed.

use super::plan::{Explored, Plan};
use super::replica::{Common, Happening, Kind, Outcome, Replica, Sink};
use super::{Broken, liar::Liar};
use crate::crypto::{Crypto, client_id};
use crate::packet::{Address, Packet};
use crate::service::{Action, Operation};
use crate::world::membership;
use pentarchy_core::Bytes;
use pentarchy_core::erased::Incoming;
use pentarchy_core::forge::{IsSettled, Lie};
use pentarchy_core::ids::{ClientId, Epoch, ReplicaId, ReplicaSet};
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{Memory, Setup, TimerKey};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::wire::Wire;
use std::collections::HashMap;
use std::sync::Arc;

/// Keys, group and clients of all explorations.
const SEED: u64 = 1;

/// A kept replica state.
pub type LocalId = u32;
/// A kept message.
pub type MessageId = u32;
/// A kept state of the liar.
pub type LiarId = u32;

/// What can happen to one replica.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Event {
    /// A client's request arrives.
    Request(u8),
    /// A message arrives.
    Message(MessageId),
    /// A timer runs out.
    Timeout(TimerKey),
    /// The state that it wished for comes from a replica in this state.
    State(LocalId),
}

/// What came of it.
#[derive(Clone)]
pub struct Step {
    /// The replica's next state.
    pub next: LocalId,
    /// What it sent.
    pub sent: Arc<[(MessageId, ReplicaSet)]>,
    /// Whether it executed something, got a state, or told a client what may be taken back.
    pub spoke: bool,
}

/// A message, opened once for all receivers.
pub struct Kept {
    /// Who sends it: its author, or who passes it on.
    pub wire: Bytes,
    /// Its content, for traces. None if correct replicas refuse it.
    pub incoming: Option<Incoming>,
}

/// See the [module](self).
pub struct Space<'a> {
    /// What may happen.
    pub plan: &'a Plan,
    /// What all replicas share.
    pub common: Common,
    requests: Vec<(Packet, Arc<Envelope>)>,
    /// All replica states.
    pub locals: Vec<Replica>,
    local_ids: HashMap<u128, LocalId>,
    /// All messages.
    pub messages: Vec<Kept>,
    message_ids: HashMap<Bytes, MessageId>,
    /// All states of the liar.
    liars: Vec<Liar>,
    liar_ids: HashMap<u128, LiarId>,
    steps: HashMap<(LocalId, Event), Result<Step, Broken>>,
    /// Each replica state's view and log, as a hash.
    outcomes: Vec<u128>,
    is_settled: IsSettled,
    settled: HashMap<(LocalId, MessageId), bool>,
    heard: HashMap<(LiarId, MessageId), LiarId>,
    told: HashMap<LiarId, Arc<[Told]>>,
    /// All lies.
    pub lies: Vec<Lie>,
    /// That the liar's device broke its promise, if it did.
    pub device_broken: Option<Broken>,
}

/// A lie that correct replicas accept.
#[derive(Clone, Copy)]
pub struct Told {
    /// Which; an index into [`Space::lies`].
    pub lie: u32,
    /// The message.
    pub message: MessageId,
    /// The liar afterwards.
    pub next: LiarId,
}

impl<'a> Space<'a> {
    /// The group's first state: each correct replica's, what they sent, and the liar's.
    pub fn new(plan: &'a Plan, explored: &Explored<'_>) -> (Self, Vec<(LocalId, Step)>) {
        let n = explored.rules.replicas(plan.f);
        let clients: Arc<[ClientId]> =
            (0..usize::from(plan.requests)).map(|index| client_id(SEED, index)).collect();
        let crypto = Crypto::new(SEED, n, clients.len()).counting(explored.rules.device());
        let crypto = Arc::new(crypto);
        let requests: Vec<_> = clients.iter().map(|client| request(&crypto, *client)).collect();
        let envelopes = requests.iter().map(|(_, envelope)| envelope.digest).collect();
        let membership = Arc::new(membership(SEED, n, plan.f));
        let mut space = Self {
            plan,
            common: Common { membership, crypto, clients, envelopes, asks: plan.asks },
            requests,
            locals: Vec::new(),
            local_ids: HashMap::new(),
            messages: Vec::new(),
            message_ids: HashMap::new(),
            liars: Vec::new(),
            liar_ids: HashMap::new(),
            steps: HashMap::new(),
            outcomes: Vec::new(),
            is_settled: explored.is_settled,
            settled: HashMap::new(),
            heard: HashMap::new(),
            told: HashMap::new(),
            lies: Vec::new(),
            device_broken: None,
        };
        let ids: Vec<ReplicaId> = space.common.membership.ids().collect();
        let started = ids.into_iter().map(|id| space.start(id, explored)).collect();
        (space, started)
    }

    fn start(&mut self, id: ReplicaId, explored: &Explored<'_>) -> (LocalId, Step) {
        let (membership, tuning) = (self.common.membership.clone(), self.plan.tuning);
        let mut first = Vec::new();
        let core = (explored.start)(
            Setup { me: id, membership, fetch: None, memory: Memory::Volatile, tuning },
            &mut first,
        );
        let budgets = (self.plan.timeouts, self.plan.resends);
        let (replica, outcome) = Replica::start(id, core, first, &self.common, budgets);
        let step = self.keep_step(replica, outcome, (0, 0)).expect("a start breaks nothing");
        (step.next, step)
    }

    /// The liar at the beginning: it knows every request already.
    pub fn first_liar(&mut self, id: ReplicaId, explored: &Explored<'_>) -> Option<LiarId> {
        let mut liar =
            Liar::new(id, explored.forger?, &self.common.membership, &self.common.crypto);
        for (_, envelope) in &self.requests {
            liar.forger.hear_request(envelope);
        }
        Some(self.keep_liar(liar))
    }

    /// What comes of an event.
    pub fn step(&mut self, local: LocalId, event: Event) -> Result<Step, Broken> {
        if let Some(known) = self.steps.get(&(local, event)) {
            return known.clone();
        }
        let step = self.compute(local, event);
        self.steps.insert((local, event), step.clone());
        step
    }

    fn compute(&mut self, local: LocalId, event: Event) -> Result<Step, Broken> {
        let mut replica = self.locals[local as usize].clone();
        let before = (replica.log.len(), replica.told.len());
        let outcome = match event {
            Event::Request(index) => {
                replica.asked_again |= replica.asked & 1 << index;
                replica.asked |= 1 << index;
                let packet = &self.requests[usize::from(index)].0;
                let from = Address::Client(u16::from(index));
                replica.step(Happening::Packet(from, packet), &self.common)
            }
            Event::Message(message) => {
                let wire = &self.messages[message as usize].wire;
                let packet = Packet::Protocol(Epoch(0), wire.clone());
                let from = Address::Replica(author(wire));
                replica.step(Happening::Packet(from, &packet), &self.common)
            }
            Event::Timeout(timer) => {
                match replica.timers.remove(&timer) {
                    Some(Kind::Judge | Kind::View) => {
                        replica.timeouts = replica.timeouts.saturating_sub(1);
                    }
                    Some(Kind::Resend) => replica.resends = replica.resends.saturating_sub(1),
                    _ => {}
                }
                replica.step(Happening::Timeout(timer), &self.common)
            }
            Event::State(donor) => self.install(&mut replica, donor),
        };
        self.keep_step(replica, outcome, before)
    }

    fn install(&self, replica: &mut Replica, donor: LocalId) -> Outcome {
        let donor = &self.locals[donor as usize];
        let Some((slot, state)) = replica.wish else { return Outcome::default() };
        let snapshot = donor.snapshot(slot, &self.common).filter(|found| found.digest == state);
        let Some(snapshot) = snapshot else { return Outcome::default() };
        replica.wish = None;
        replica.take_up(&donor.log[..slot.0 as usize]);
        replica.step(Happening::State(snapshot), &self.common)
    }

    fn keep_step(
        &mut self,
        replica: Replica,
        outcome: Outcome,
        before: (usize, usize),
    ) -> Result<Step, Broken> {
        if let Some(broken) = outcome.broken {
            return Err(broken);
        }
        let spoke = (replica.log.len(), replica.told.len()) != before;
        let next = self.keep_local(replica);
        let sent = outcome.sent.into_iter().map(|(to, wire)| (self.keep_message(wire), to));
        Ok(Step { next, sent: sent.collect(), spoke })
    }

    fn keep_local(&mut self, replica: Replica) -> LocalId {
        let fingerprint = replica.fingerprint();
        *self.local_ids.entry(fingerprint).or_insert_with(|| {
            self.outcomes.push(replica.outcome());
            self.locals.push(replica);
            self.locals.len() as LocalId - 1
        })
    }

    fn keep_message(&mut self, wire: Bytes) -> MessageId {
        if let Some(known) = self.message_ids.get(&wire) {
            return *known;
        }
        let core = self.locals.first().map(Replica::core);
        let incoming =
            core.and_then(|core| core.open(&*self.common.crypto, author(&wire), &wire).ok());
        self.messages.push(Kept { wire: wire.clone(), incoming });
        let id = self.messages.len() as MessageId - 1;
        self.message_ids.insert(wire, id);
        id
    }

    /// Whether a message has no effect on a replica any more.
    pub fn is_settled(&mut self, local: LocalId, message: MessageId) -> bool {
        if !self.plan.reduced {
            return false;
        }
        *self.settled.entry((local, message)).or_insert_with(|| {
            let status = self.locals[local as usize].core().status();
            (self.is_settled)(&status, &self.messages[message as usize].wire)
        })
    }

    fn keep_liar(&mut self, liar: Liar) -> LiarId {
        let mut sink = Sink::default();
        liar.fingerprint(&mut sink);
        *self.liar_ids.entry(sink.finish_128()).or_insert_with(|| {
            self.liars.push(liar);
            self.liars.len() as LiarId - 1
        })
    }

    /// The liar once it has heard a message.
    pub fn hear(&mut self, liar: LiarId, message: MessageId) -> LiarId {
        if let Some(known) = self.heard.get(&(liar, message)) {
            return *known;
        }
        let mut next = self.liars[liar as usize].clone();
        next.forger.hear(&self.messages[message as usize].wire);
        let next = self.keep_liar(next);
        self.heard.insert((liar, message), next);
        next
    }

    /// What the liar could say that correct replicas would accept. What they refuse changes nothing
    /// in them, and all that it costs the liar is a position of its counter.
    pub fn lies_of(&mut self, liar: LiarId) -> Arc<[Told]> {
        if let Some(known) = self.told.get(&liar) {
            return known.clone();
        }
        let mut all: Vec<Told> = Vec::new();
        for lie in self.liars[liar as usize].forger.lies() {
            if !self.plan.tells(lie.kind) {
                continue;
            }
            let mut next = self.liars[liar as usize].clone();
            let Some(wire) = next.tell(&lie) else { continue };
            if let Some((position, a, b)) = next.twice() {
                let detail = format!("the liar's device certifies {a} and {b} at {position:?}");
                self.device_broken = Some(Broken::new("counter_uniqueness", detail));
            }
            let message = self.keep_message(wire);
            let known = all.iter().any(|told| told.message == message);
            if !known && self.messages[message as usize].incoming.is_some() {
                let next = self.keep_liar(next);
                self.lies.push(lie);
                all.push(Told { lie: self.lies.len() as u32 - 1, message, next });
            }
        }
        let all: Arc<[Told]> = all.into();
        self.told.insert(liar, all.clone());
        all
    }

    /// One line about a message.
    pub fn describe(&self, message: MessageId) -> String {
        let kept = &self.messages[message as usize];
        match (&kept.incoming, self.locals.first()) {
            (Some(incoming), Some(local)) => local.core().describe(incoming),
            _ => format!("{} bytes that are refused", kept.wire.len()),
        }
    }

    /// What is seen of a replica in this state from outside: its view, and what it executed.
    pub fn outcome(&self, local: LocalId) -> u128 {
        self.outcomes.get(local as usize).copied().unwrap_or_default()
    }

    /// Gives correct replicas their budgets again.
    pub fn refill(&mut self, locals: &mut [LocalId]) {
        for local in locals.iter_mut().filter(|local| **local != LocalId::MAX) {
            let mut replica = self.locals[*local as usize].clone();
            (replica.timeouts, replica.resends) = (self.plan.timeouts, self.plan.resends);
            *local = self.keep_local(replica);
        }
    }
}

/// A message begins with its author.
fn author(wire: &Bytes) -> ReplicaId {
    let mut from = pentarchy_core::wire::Reader::new(wire);
    ReplicaId::decode(&mut from).unwrap_or(ReplicaId(u16::MAX))
}

fn request(crypto: &Crypto, client: ClientId) -> (Packet, Arc<Envelope>) {
    let (number, key) = (1, 0);
    let action = Action::Append(Bytes::copy_from_slice(&client.0[..1]));
    let operation = Operation { number, key, action }.to_bytes();
    let requests = vec![Request { number, operation }];
    let envelope = Arc::new(crypto.seal(Draft { client, floor: 1, events: None, requests }));
    (Packet::ToReplica(ToReplica::Request(envelope.clone()).to_bytes()), envelope)
}
