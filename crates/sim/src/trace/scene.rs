//! A group whose schedule is written down: nothing moves but what a command moves.

use super::text_service::TextService;
use crate::administration::{administrators, stated};
use crate::crypto::{Crypto, client_id, member_id};
use crate::devices::SimDevices;
use crate::factories::Factories;
use crate::key_ring::{KeyRing, SharedKeyRing};
use crate::node::{Act, NodeStart, ReplicaNode};
use crate::observation::Observation;
use crate::packet::{Address, Packet};
use crate::service::Journal;
use crate::world::membership;
use pentarchy_core::Bytes;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{TimerKey, Tuning};
use pentarchy_core::request::{Draft, Envelope, Request};
use pentarchy_core::service::{Service, Whole};
use pentarchy_core::wire::Wire;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};

mod changing;
mod lines;
mod words;

pub use changing::Wanted;
use lines::Lines;

/// Keys, group and clients of all traces.
const SEED: u64 = 1;

/// Messages that `stabilize` delivers before it says that there is no end to it.
const DELIVERIES_MAX: usize = 10_000;

/// Who may be meant at one end of a message.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Side {
    /// Every node.
    Anyone,
    /// Whoever has this name.
    Named(String),
}

/// A message under way.
struct Flight {
    from: Address,
    to: Address,
    packet: Packet,
    text: String,
}

/// Who may ask something of a group, and what commands call them: clients, then administrators,
/// then machines, of which the members of the first configuration come last.
struct Names {
    all: Vec<(ClientId, String)>,
    /// Those of them that replicas take for clients, which are all but these members.
    clients: Arc<[ClientId]>,
}

impl Names {
    fn of_clients() -> Self {
        let client = |index| (client_id(SEED, index), format!("c{}", index + 1));
        let all: Vec<_> = (0..usize::from(Scene::CLIENTS)).map(client).collect();
        let clients = all.iter().map(|(id, _)| *id).collect();
        Self { all, clients }
    }

    /// The same in a group of `n` that can change, where there are so many machines.
    fn with_machines(self, n: usize, machines: usize) -> Self {
        let administrators = administrators(SEED).into_iter().zip(1..);
        let administrators = administrators.map(|(id, number)| (id, format!("a{number}")));
        let machine = |place: usize| {
            let place = ReplicaId(place as u16);
            (member_id(place), place.to_string())
        };
        let mut all = self.all;
        all.extend(administrators.chain((n..machines).map(machine)));
        let clients = all.iter().map(|(id, _)| *id).collect();
        all.extend((0..n).map(machine));
        Self { all, clients }
    }
}

/// See the [module](self).
pub struct Scene<'a> {
    /// What replicas are made of.
    factories: Factories<'a>,
    tuning: Tuning,
    crypto: Arc<Crypto>,
    names: Names,
    /// Whether administrators can change the group.
    can_change: bool,
    /// The signing keys of each machine.
    rings: Vec<SharedKeyRing>,
    /// The replicas that have started, by machine.
    nodes: Vec<ReplicaNode<'a>>,
    timers: Vec<BTreeSet<TimerKey>>,
    /// Those that do nothing any more.
    ended: BTreeSet<ReplicaId>,
    cuts: BTreeSet<(ReplicaId, ReplicaId)>,
    flights: VecDeque<Flight>,
    now: Millis,
    /// What each of those with names has sent, by index and number.
    envelopes: BTreeMap<(u16, u64), Arc<Envelope>>,
    /// What has been printed.
    lines: Lines,
}

impl<'a> Scene<'a> {
    /// Clients of a scene.
    pub const CLIENTS: u16 = 4;

    /// A group of `n` at its start. If `machines` is said, it can change, and so many machines are
    /// members or may join.
    pub fn new(
        factories: &Factories<'a>,
        n: usize,
        machines: Option<usize>,
        tuning: Tuning,
    ) -> Self {
        let rules = &factories.rules;
        let first = membership(SEED, n, rules.group_size.faults(n));
        let first = match machines {
            Some(_) => stated(&first, rules, tuning, SEED),
            None => Arc::new(first),
        };
        let names = Names::of_clients();
        let names = match machines {
            Some(machines) => names.with_machines(n, machines),
            None => names,
        };
        let (can_change, machines) = (machines.is_some(), machines.unwrap_or(n));
        let crypto = Crypto::new(SEED, machines, Self::CLIENTS.into()).counting(rules.device());
        let crypto = crypto.under(first.configuration);
        let crypto = match can_change {
            true => crypto.administered_by(administrators(SEED)),
            false => crypto,
        };
        let places = (0..machines as u16).map(ReplicaId);
        let mut scene = Self {
            factories: *factories,
            tuning,
            crypto: Arc::new(crypto),
            names,
            can_change,
            rings: places.map(|id| KeyRing::shared(id, member_id(id).0)).collect(),
            nodes: Vec::new(),
            timers: Vec::new(),
            ended: BTreeSet::new(),
            cuts: BTreeSet::new(),
            flights: VecDeque::new(),
            now: Millis(1_000),
            envelopes: BTreeMap::new(),
            lines: Lines::default(),
        };
        first.ids().for_each(|id| scene.start(id, (first.clone(), Vec::new())));
        scene
    }

    /// The next machine starts as a replica, which has a place in this group first.
    fn start(&mut self, id: ReplicaId, chain: (Arc<Membership>, Vec<Proof>)) {
        let mut device = SimDevices::new(id, chain.0.lane.pillars, &self.crypto);
        device.begin_epoch(&chain.0).expect("it is in no later one");
        let service: Box<dyn Service> = Box::new(Whole::new(TextService::default()));
        let start = NodeStart {
            id,
            crypto: self.crypto.clone(),
            clients: self.names.clients.clone(),
            factories: self.factories,
            tuning: self.tuning,
            device: Arc::new(Mutex::new(device)),
            ring: self.rings[usize::from(id.0)].clone(),
            chain,
            service: (service, Journal::default()),
            faulty: None,
            kept: None,
            past: None,
        };
        let mut acts = Vec::new();
        self.nodes.push(start.start(self.now.0, &mut acts));
        self.timers.push(BTreeSet::new());
        self.carry_out(id, acts);
        // Hosts tell a new core the time before anything else.
        self.round(id);
    }

    /// What `group` prints.
    pub fn opening(&self) -> String {
        let status = self.nodes[0].core().status();
        format!("{} primary of {}\n", status.primary, status.view)
    }

    /// All replicas that have started.
    pub fn ids(&self) -> Vec<ReplicaId> {
        (0..self.nodes.len() as u16).map(ReplicaId).collect()
    }

    /// Those of them that go on.
    fn running(&self) -> impl Iterator<Item = &ReplicaNode<'a>> {
        let numbered = (0..).map(ReplicaId).zip(&self.nodes);
        numbered.filter(move |(id, _)| !self.ended.contains(id)).map(|(_, node)| node)
    }

    /// Whether somebody has this name.
    pub fn knows(&self, name: &str) -> bool {
        self.names.all.iter().any(|(_, known)| known == name)
            || self.ids().iter().any(|id| id.to_string() == name)
    }

    fn name(&self, address: Address) -> String {
        match address {
            Address::Replica(id) => id.to_string(),
            Address::Client(index) => self.names.all[usize::from(index)].1.clone(),
        }
    }

    /// Everyone by the names that commands use.
    fn named(&self, text: &str) -> String {
        let names = self.names.all.iter();
        names.fold(text.to_owned(), |text, (id, name)| text.replace(&id.to_string(), name))
    }

    /// A client sends its next request.
    pub fn request(&mut self, client: u16, operation: &str, to: &[ReplicaId]) {
        let number = self.next_number(client);
        let operation = Bytes::copy_from_slice(operation.as_bytes());
        let requests = vec![Request { number, operation }];
        let id = client_id(SEED, client.into());
        let envelope =
            Arc::new(self.crypto.seal(Draft { client: id, floor: 1, events: None, requests }));
        self.envelopes.insert((client, number), envelope.clone());
        self.submit(client, &envelope, to);
    }

    /// The number of the request that somebody with this index sends next.
    fn next_number(&self, index: u16) -> u64 {
        1 + self.envelopes.keys().filter(|(who, _)| *who == index).count() as u64
    }

    /// A client sends a request again.
    pub fn again(&mut self, client: u16, number: u64, to: &[ReplicaId]) -> Result<(), String> {
        let envelope = self.envelopes.get(&(client, number)).cloned();
        let envelope = envelope.ok_or_else(|| {
            let name = self.name(Address::Client(client));
            format!("{name} has sent no request {number}")
        })?;
        self.submit(client, &envelope, to);
        Ok(())
    }

    /// Somebody with this index sends a request.
    fn submit(&mut self, from: u16, envelope: &Arc<Envelope>, to: &[ReplicaId]) {
        let packet = Packet::ToReplica(ToReplica::Request(envelope.clone()).to_bytes());
        let from = Address::Client(from);
        let text = self.named(&format!("Request {}", words::request(envelope)));
        let names: Vec<String> = to.iter().map(ToString::to_string).collect();
        self.lines.add(format!("{} -> {}   {text}", self.name(from), names.join(" ")));
        for id in to {
            let (to, packet, text) = (Address::Replica(*id), packet.clone(), text.clone());
            self.flights.push_back(Flight { from, to, packet, text });
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
        let all = core::mem::take(&mut self.flights);
        let is = |side: &Side, address| match side {
            Side::Anyone => true,
            Side::Named(name) => self.name(address) == *name,
        };
        let meant = |it: &Flight| is(from, it.from) && is(to, it.to) && it.text.contains(text);
        let (taken, left): (Vec<_>, Vec<_>) = all.into_iter().partition(meant);
        self.flights = left.into();
        if taken.is_empty() { Err("nothing like that is under way".to_owned()) } else { Ok(taken) }
    }

    fn arrive(&mut self, flight: Flight) -> Option<ReplicaId> {
        let Address::Replica(id) = flight.to else { return None };
        let cut = matches!(flight.from, Address::Replica(from) if self.cuts.contains(&(from, id)));
        if cut || self.ended.contains(&id) {
            return None;
        }
        // A machine that has not started hears nothing.
        let node = self.nodes.get_mut(usize::from(id.0))?;
        let mut acts = Vec::new();
        node.on_packet(flight.from, &flight.packet, &mut acts);
        if matches!(flight.from, Address::Client(_)) {
            node.admit(&mut acts);
        }
        self.carry_out(id, acts);
        Some(id)
    }

    /// Ends a round.
    pub fn round(&mut self, id: ReplicaId) {
        if self.ended.contains(&id) {
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
        self.ended.insert(id);
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
                Act::Saw(seen) => self.saw(id, &seen),
            }
        }
    }

    fn send(&mut self, from: ReplicaId, to: ReplicaId, packet: Packet) {
        if self.cuts.contains(&(from, to)) {
            return;
        }
        let text = match &packet {
            Packet::Protocol(_, wire) => self.nodes[usize::from(from.0)].describe_wire(wire),
            // Nobody restarts here. So in a group that cannot change, all that is said about epochs
            // is that this one goes on.
            Packet::Epochs(_) if !self.can_change => return,
            Packet::Epochs(wire) => words::about_epochs(wire),
            Packet::Resuming(_) => return,
            _ => "state transfer".to_owned(),
        };
        let text = self.named(&text);
        if matches!(packet, Packet::Epochs(_)) {
            self.lines.says(from, to, &text);
        }
        let (from, to) = (Address::Replica(from), Address::Replica(to));
        self.flights.push_back(Flight { from, to, packet, text });
    }

    fn saw(&mut self, id: ReplicaId, seen: &Observation) {
        if let Some(text) = words::seen(&self.nodes[usize::from(id.0)], seen) {
            let text = self.named(&text);
            self.lines.does(id, text);
        }
        if matches!(seen, Observation::Removed { .. }) {
            self.ended.insert(id);
        }
    }

    /// What the last commands printed.
    pub fn printed(&mut self) -> String {
        self.lines.take()
    }

    /// Prints what is under way.
    pub fn print_pending(&mut self) {
        for flight in &self.flights {
            let (from, to) = (self.name(flight.from), self.name(flight.to));
            self.lines.add(format!("{from} -> {to}   {}", flight.text));
        }
    }

    /// Prints armed timers.
    pub fn print_timers(&mut self) {
        for (index, timers) in self.timers.iter().enumerate() {
            let names: Vec<String> =
                timers.iter().map(|(kind, subject)| format!("{kind}:{subject}")).collect();
            self.lines.add(format!("r{index} {}", names.join(" ")));
        }
    }

    /// Prints where replicas stand.
    pub fn print_status(&mut self) {
        for (index, node) in self.nodes.iter().enumerate() {
            if node.is_dead() {
                self.lines.add(format!("r{index} has left"));
                continue;
            }
            let status = node.core().status();
            let (view, phase) = (status.view, status.phase);
            let of = if self.can_change { format!(" of {}", node.epoch()) } else { String::new() };
            let (executed, stable) = (node.executor().executed(), status.stable);
            let stands = format!("executed {executed}, stable {stable}");
            self.lines.add(format!("r{index} {phase} in {view}{of}, {stands}"));
        }
    }
}
