//! A group whose schedule is written down: nothing moves but what a command moves.

use super::TracedProtocol;
use super::text_service::TextService;
use crate::crypto::{Crypto, client_id};
use crate::devices::SimDevices;
use crate::node::{Act, Parts, ReplicaNode};
use crate::observation::Observation;
use crate::packet::{Address, Packet};
use crate::service::Journal;
use crate::world::membership;
use pentarchy_core::Bytes;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::ports::client::{Outcome, Reply, ToReplica};
use pentarchy_core::protocol::{Memory, Setup, TimerKey, To, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::service::Whole;
use pentarchy_core::wire::Wire;
use pentarchy_machine::Started;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

/// Keys, group and clients of all traces.
const SEED: u64 = 1;

/// Messages that `stabilize` delivers before it says that there is no end to it.
const DELIVERIES_MAX: usize = 10_000;

/// Who may be meant at one end of a message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Side {
    /// Every node.
    Anyone,
    /// A replica.
    Replica(ReplicaId),
    /// A client, from 1.
    Client(u16),
}

impl Side {
    fn is(self, address: Address) -> bool {
        match (self, address) {
            (Self::Anyone, _) => true,
            (Self::Replica(id), Address::Replica(other)) => id == other,
            (Self::Client(index), Address::Client(other)) => index == other + 1,
            _ => false,
        }
    }
}

/// A message under way.
struct Flight {
    from: Address,
    to: Address,
    packet: Packet,
    text: String,
}

/// See the [module](self).
pub struct Scene {
    nodes: Vec<ReplicaNode<'static>>,
    timers: Vec<BTreeSet<TimerKey>>,
    crashed: BTreeSet<ReplicaId>,
    cuts: BTreeSet<(ReplicaId, ReplicaId)>,
    flights: VecDeque<Flight>,
    now: Millis,
    crypto: Arc<Crypto>,
    /// What each client has sent, by number.
    envelopes: BTreeMap<(u16, u64), Arc<Envelope>>,
    /// What has been printed: who and what. Equal things said by several stand in one line.
    lines: Vec<(BTreeSet<ReplicaId>, String)>,
}

impl Scene {
    /// Clients of a scene.
    pub const CLIENTS: u16 = 4;

    /// A group at its start.
    pub fn new(protocol: &TracedProtocol<'_>, n: usize, tuning: Tuning) -> Self {
        let f = protocol.rules.group_size.faults(n);
        let membership = Arc::new(membership(SEED, n, f));
        let clients: Arc<[ClientId]> =
            (0..usize::from(Self::CLIENTS)).map(|index| client_id(SEED, index)).collect();
        let crypto = Crypto::new(SEED, n, clients.len()).counting(protocol.rules.device());
        let crypto = Arc::new(crypto);
        let mut scene = Self {
            nodes: Vec::new(),
            timers: vec![BTreeSet::new(); n],
            crashed: BTreeSet::new(),
            cuts: BTreeSet::new(),
            flights: VecDeque::new(),
            now: Millis(1_000),
            crypto: crypto.clone(),
            envelopes: BTreeMap::new(),
            lines: Vec::new(),
        };
        for id in membership.ids() {
            let mut effects = Vec::new();
            let setup = Setup {
                me: id,
                membership: membership.clone(),
                fetch: None,
                memory: Memory::Volatile,
                tuning,
            };
            let core = (protocol.start)(setup, &mut effects);
            let device = SimDevices::new(id, membership.lane.pillars, &crypto);
            let keys = (crypto.clone(), clients.clone(), Arc::new(Mutex::new(device)));
            let service = Box::new(Whole::new(TextService::default()));
            let executes = (Executor::new(membership.clone(), service), Journal::default());
            let core = Started { core, effects };
            let parts = Parts::of_one_epoch(id, &membership, keys, core, executes);
            let mut acts = Vec::new();
            scene.nodes.push(ReplicaNode::new(parts, scene.now.0, &mut acts));
            scene.carry_out(id, acts);
            // Hosts tell a new core the time before anything else.
            scene.round(id);
        }
        scene
    }

    /// What `group` prints.
    pub fn opening(&self) -> String {
        let status = self.nodes[0].core().status();
        format!("{} primary of {}\n", status.primary, status.view)
    }

    /// All replicas.
    pub fn ids(&self) -> Vec<ReplicaId> {
        (0..self.timers.len() as u16).map(ReplicaId).collect()
    }

    /// A client sends its next request.
    pub fn request(&mut self, client: u16, operation: &str, to: &[ReplicaId]) {
        let number = 1 + self.envelopes.keys().filter(|(who, _)| *who == client).count() as u64;
        let operation = Bytes::copy_from_slice(operation.as_bytes());
        let requests = vec![Request { number, operation }];
        let id = client_id(SEED, usize::from(client) - 1);
        let envelope =
            Arc::new(self.crypto.seal(Draft { client: id, floor: 1, events: None, requests }));
        self.envelopes.insert((client, number), envelope.clone());
        self.submit(client, number, &envelope, to);
    }

    /// A client sends a request again.
    pub fn again(&mut self, client: u16, number: u64, to: &[ReplicaId]) -> Result<(), String> {
        let envelope = self.envelopes.get(&(client, number)).cloned();
        let envelope = envelope.ok_or_else(|| format!("c{client} has sent no request {number}"))?;
        self.submit(client, number, &envelope, to);
        Ok(())
    }

    fn submit(&mut self, client: u16, number: u64, envelope: &Arc<Envelope>, to: &[ReplicaId]) {
        let packet = Packet::ToReplica(ToReplica::Request(envelope.clone()).to_bytes());
        let names: Vec<String> = to.iter().map(ToString::to_string).collect();
        let text = format!("Request c{client}#{number}");
        self.lines.push((BTreeSet::new(), format!("c{client} -> {}   {text}", names.join(" "))));
        for id in to {
            let (from, to) = (Address::Client(client - 1), Address::Replica(*id));
            self.flights.push_back(Flight { from, to, packet: packet.clone(), text: text.clone() });
        }
    }

    /// Delivers everything, ends the rounds, and so on until nothing is under way.
    pub fn stabilize(&mut self) -> Result<(), String> {
        let mut budget = DELIVERIES_MAX;
        loop {
            let mut touched = BTreeSet::new();
            for flight in core::mem::take(&mut self.flights) {
                budget = budget.checked_sub(1).ok_or("messages beget messages without end")?;
                touched.extend(self.arrive(flight));
            }
            if touched.is_empty() {
                return Ok(());
            }
            touched.into_iter().for_each(|id| self.round(id));
        }
    }

    /// Delivers what is under way from one to the other and holds `text`.
    pub fn deliver(&mut self, from: &Side, to: &Side, text: &str) -> Result<(), String> {
        let flights = self.take(from, to, text)?;
        for flight in flights {
            self.arrive(flight);
        }
        Ok(())
    }

    /// Loses it.
    pub fn lose(&mut self, from: &Side, to: &Side, text: &str) -> Result<(), String> {
        self.take(from, to, text).map(drop)
    }

    fn take(&mut self, from: &Side, to: &Side, text: &str) -> Result<Vec<Flight>, String> {
        let meant = |it: &Flight| from.is(it.from) && to.is(it.to) && it.text.contains(text);
        let all = core::mem::take(&mut self.flights);
        let (taken, left): (Vec<_>, Vec<_>) = all.into_iter().partition(meant);
        self.flights = left.into();
        if taken.is_empty() { Err("nothing like that is under way".to_owned()) } else { Ok(taken) }
    }

    fn arrive(&mut self, flight: Flight) -> Option<ReplicaId> {
        let Address::Replica(id) = flight.to else { return None };
        let cut = matches!(flight.from, Address::Replica(from) if self.cuts.contains(&(from, id)));
        if cut || self.crashed.contains(&id) {
            return None;
        }
        let mut acts = Vec::new();
        let node = &mut self.nodes[usize::from(id.0)];
        node.on_packet(flight.from, &flight.packet, &mut acts);
        if matches!(flight.from, Address::Client(_)) {
            node.admit(&mut acts);
        }
        self.carry_out(id, acts);
        Some(id)
    }

    /// Ends a round.
    pub fn round(&mut self, id: ReplicaId) {
        if self.crashed.contains(&id) {
            return;
        }
        let mut acts = Vec::new();
        let node = &mut self.nodes[usize::from(id.0)];
        node.on_clock(self.now.0, self.now);
        node.on_round(&mut acts);
        self.carry_out(id, acts);
    }

    /// A timer runs out.
    pub fn fire(&mut self, id: ReplicaId, kind: Option<u8>) -> Result<(), String> {
        let armed = &mut self.timers[usize::from(id.0)];
        let timer = armed.iter().find(|timer| kind.is_none_or(|kind| kind == timer.0)).copied();
        let timer = timer.ok_or_else(|| format!("no such timer of {id} is armed"))?;
        armed.remove(&timer);
        let mut acts = Vec::new();
        self.nodes[usize::from(id.0)].on_timeout(timer, &mut acts);
        self.carry_out(id, acts);
        Ok(())
    }

    /// Clocks go on.
    pub fn advance(&mut self, millis: u64) {
        self.now = Millis(self.now.0 + millis);
    }

    /// A replica does nothing any more; what it sent is still under way.
    pub fn crash(&mut self, id: ReplicaId) {
        self.crashed.insert(id);
    }

    /// Messages between two sides are lost from now on, also those under way.
    pub fn partition(&mut self, left: &[ReplicaId], right: &[ReplicaId]) {
        for a in left {
            for b in right {
                self.cuts.extend([(*a, *b), (*b, *a)]);
            }
        }
        let cuts = &self.cuts;
        self.flights.retain(|flight| match (flight.from, flight.to) {
            (Address::Replica(from), Address::Replica(to)) => !cuts.contains(&(from, to)),
            _ => true,
        });
    }

    /// Everyone can speak to everyone.
    pub fn heal(&mut self) {
        self.cuts.clear();
    }

    fn carry_out(&mut self, id: ReplicaId, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send { to: Address::Client(_), .. } | Act::Pause { .. } => {}
                Act::Send { to: Address::Replica(to), packet } => self.send(id, to, packet),
                Act::Arm { timer, .. } => {
                    self.timers[usize::from(id.0)].insert(timer);
                }
                Act::Disarm(timer) => {
                    self.timers[usize::from(id.0)].remove(&timer);
                }
                Act::DisarmAll => self.timers[usize::from(id.0)].clear(),
                Act::Saw(seen) => self.print(id, &seen),
            }
        }
    }

    fn send(&mut self, from: ReplicaId, to: ReplicaId, packet: Packet) {
        if self.cuts.contains(&(from, to)) {
            return;
        }
        let text = match &packet {
            Packet::Protocol(_, wire) => self.nodes[usize::from(from.0)].describe_wire(wire),
            // Nobody restarts here: all that is said about epochs is that this one goes on.
            Packet::Epochs(_) | Packet::Resuming(_) => return,
            _ => "state transfer".to_owned(),
        };
        let text = named(&text);
        let (from, to) = (Address::Replica(from), Address::Replica(to));
        self.flights.push_back(Flight { from, to, packet, text });
    }

    fn print(&mut self, id: ReplicaId, seen: &Observation) {
        let node = &self.nodes[usize::from(id.0)];
        let text = match seen {
            Observation::Said { to, incoming, .. } => {
                let said = node.core().describe(incoming);
                let said = said.strip_prefix(&format!("{id} ")).unwrap_or(&said);
                format!("-> {}   {said}", target(*to))
            }
            Observation::Relayed { to, wire, .. } => {
                format!("-> {}   relays {}", target(*to), node.describe_wire(wire))
            }
            Observation::Executed { slot, batch } => {
                format!("executes {slot} {:?}", batch.envelopes)
            }
            Observation::Speculated { slot, batch, .. } => {
                format!("speculates {slot} {:?}", batch.envelopes)
            }
            Observation::Committed { upto } => format!("commits up to {upto}"),
            Observation::RolledBack { after } => format!("rolls back to {after}"),
            Observation::Replied { client, replies } => {
                let replies: Vec<String> = replies.iter().map(reply).collect();
                format!("-> {client}   Reply {}", replies.join(", "))
            }
            Observation::Told { client, number, .. } => format!("-> {client}   Event {number}"),
            Observation::Checkpointed { slot, state } => format!("checkpoint at {slot} {state}"),
            Observation::Stable { slot, state } => format!("stable at {slot} {state}"),
            Observation::Fetching { slot, state } => format!("fetches {slot} {state}"),
            Observation::Installed { slot, state } => format!("installs {slot} {state}"),
            Observation::Entered { view, reason } => format!("enters {view}: {reason}"),
            Observation::Diverged { slot } => format!("diverged at {slot}"),
            Observation::Rejected { from, why } => format!("refuses {from:?}: {}", why.name()),
            Observation::Reported(evidence) => format!("reports {evidence:?}"),
            Observation::Certified { .. }
            | Observation::Confirmed { .. }
            | Observation::Supports { .. }
            | Observation::Queried { .. }
            | Observation::Answered { .. }
            | Observation::Left { .. }
            | Observation::Rests { .. }
            | Observation::Found(_)
            | Observation::Resumes { .. }
            | Observation::LostCounter
            | Observation::Removed { .. }
            | Observation::Rewound(_)
            | Observation::Lied { .. }
            | Observation::Asked { .. }
            | Observation::Ended(_)
            | Observation::Began(_) => return,
        };
        let text = named(&text);
        match self.lines.iter_mut().find(|(who, known)| !who.is_empty() && *known == text) {
            Some((who, _)) => drop(who.insert(id)),
            None => self.lines.push((BTreeSet::from([id]), text)),
        }
    }

    /// What the last commands printed.
    pub fn printed(&mut self) -> String {
        let line = |(who, text): (BTreeSet<ReplicaId>, String)| {
            let names: Vec<String> = who.iter().map(ToString::to_string).collect();
            if names.is_empty() {
                format!("{text}\n")
            } else {
                format!("{} {text}\n", names.join(" "))
            }
        };
        core::mem::take(&mut self.lines).into_iter().map(line).collect()
    }

    /// Prints what is under way.
    pub fn print_pending(&mut self) {
        let name = |address| match address {
            Address::Replica(id) => id.to_string(),
            Address::Client(index) => format!("c{}", index + 1),
        };
        for flight in &self.flights {
            let line = format!("{} -> {}   {}", name(flight.from), name(flight.to), flight.text);
            self.lines.push((BTreeSet::new(), line));
        }
    }

    /// Prints armed timers.
    pub fn print_timers(&mut self) {
        for (index, timers) in self.timers.iter().enumerate() {
            let names: Vec<String> =
                timers.iter().map(|(kind, subject)| format!("{kind}:{subject}")).collect();
            self.lines.push((BTreeSet::new(), format!("r{index} {}", names.join(" "))));
        }
    }

    /// Prints where replicas stand.
    pub fn print_status(&mut self) {
        for (index, node) in self.nodes.iter().enumerate() {
            let status = node.core().status();
            let (view, phase) = (status.view, status.phase);
            let (executed, stable) = (node.executor().executed(), status.stable);
            let line = format!("r{index} {phase} in {view}, executed {executed}, stable {stable}");
            self.lines.push((BTreeSet::new(), line));
        }
    }
}

fn target(to: To) -> String {
    match to {
        To::All => "all".to_owned(),
        To::Others => "others".to_owned(),
        To::One(id) => id.to_string(),
        To::Set(set) => set.iter().map(|id| id.to_string()).collect::<Vec<_>>().join(" "),
    }
}

fn reply(reply: &Reply) -> String {
    match &reply.outcome {
        Outcome::Done(result) => {
            format!("#{} {:?}", reply.number, String::from_utf8_lossy(result))
        }
        Outcome::Forgotten => format!("#{} forgotten", reply.number),
        Outcome::Refused => format!("#{} refused", reply.number),
        Outcome::GivenUp => format!("#{} given up", reply.number),
        Outcome::Overtaken => format!("#{} overtaken", reply.number),
    }
}

/// Clients by the names that commands use.
fn named(text: &str) -> String {
    (0..Scene::CLIENTS).fold(text.to_owned(), |text, index| {
        let id = client_id(SEED, usize::from(index)).to_string();
        text.replace(&id, &format!("c{}", index + 1))
    })
}
