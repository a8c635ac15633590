//! A MinBFT group of three with one liar. The input is a list of deeds: what the liar says with its
//! keys and its device, what its clients ask, which message arrives next, whose timer runs out.
//! Whatever it does, the two correct replicas never panic, keep their invariants, execute the same,
//! execute only what clients asked, have equal states, and refuse nothing that the other one says.

mod recorder;

use crate::input::Input;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::authored;
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Usig;
use pentarchy_core::digest::Digest;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::protocol::{Memory, Message as _, Setup, TimerKey, Tuning};
use pentarchy_core::request::{Draft, Request};
use pentarchy_core::wire::Wire;
use pentarchy_machine::Started;
use pentarchy_protocols::minbft;
use pentarchy_sim::crypto::{Crypto, client_id, member_id};
use pentarchy_sim::device::SimDevice;
use pentarchy_sim::devices::SimDevices;
use pentarchy_sim::node::{Act, Parts, ReplicaNode};
use pentarchy_sim::observation::Observation;
use pentarchy_sim::packet::{Address, Packet};
use pentarchy_sim::service::{Journal, Registers};
use pentarchy_sim::world::membership;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, OnceLock};

pub use recorder::{divide, recorded_packets, seeds};

/// The keys and the group of every input.
pub const SEED: u64 = 1;

/// Small, so that short inputs reach checkpoints and the end of the window.
pub const TUNING: Tuning = Tuning {
    checkpoint_slots: 2,
    checkpoint_bytes: 64 << 10,
    window_slots: 4,
    batch_requests: 8,
    proposals_in_flight: 2,
    interleaving: 0,
};

const N: u16 = 3;
const CLIENTS: usize = 2;

/// What clocks show at first.
const STARTED: Millis = Millis(1);

/// Deeds of one input.
const DEEDS_MAX: usize = 400;
/// Messages under way; what is sent beyond that is lost.
const FLIGHTS_MAX: usize = 512;

/// The first byte of each deed.
mod deed {
    pub const SAY: u8 = 0;
    pub const RAW: u8 = 1;
    pub const TRANSFER: u8 = 2;
    pub const REQUEST: u8 = 3;
    pub const DELIVER: u8 = 4;
    pub const DROP: u8 = 5;
    pub const ROUND: u8 = 6;
    pub const FIRE: u8 = 7;
    pub const CLIENT: u8 = 8;
    /// All of these, and one more: the liar passes on what it was told.
    pub const KINDS: u8 = 10;
}

/// The secrets of all.
pub fn crypto() -> Arc<Crypto> {
    static CRYPTO: OnceLock<Arc<Crypto>> = OnceLock::new();
    CRYPTO.get_or_init(|| Arc::new(Crypto::new(SEED, usize::from(N), CLIENTS))).clone()
}

fn clients() -> Arc<[ClientId]> {
    (0..CLIENTS).map(|index| client_id(SEED, index)).collect()
}

fn node(id: ReplicaId, out: &mut Vec<Act>) -> ReplicaNode<'static> {
    let entry = pentarchy_protocols::find("minbft").expect("it is there");
    let membership = Arc::new(membership(SEED, usize::from(N), 1));
    let mut effects = Vec::new();
    let setup = Setup {
        me: id,
        membership: membership.clone(),
        fetch: None,
        memory: Memory::Volatile,
        tuning: TUNING,
    };
    let core = (entry.start)(setup, &mut effects);
    let core = Started { core, effects };
    let journal = Journal::default();
    let service = Box::new(Registers::new(journal.clone()));
    let executes = (Executor::new(membership.clone(), service), journal);
    let crypto = crypto();
    let device = Arc::new(Mutex::new(SimDevices::new(id, 1, &crypto)));
    let keys = (crypto, clients(), device);
    let parts = Parts::of_one_epoch(id, &membership, keys, core, executes);
    ReplicaNode::new(parts, STARTED.0, out)
}

/// A packet arrives. The requests in it do not wait for the end of the round, so that each of them
/// comes to the core in the order in which the input has it arrive.
fn arrive(node: &mut ReplicaNode<'_>, from: Address, packet: &Packet, out: &mut Vec<Act>) {
    node.on_packet(from, packet, out);
    if matches!(from, Address::Client(_)) {
        node.admit(out);
    }
}

/// A packet under way between replicas.
struct Flight {
    from: ReplicaId,
    to: ReplicaId,
    packet: Packet,
}

/// The two correct replicas, and what the liar has.
struct Group {
    liar: ReplicaId,
    device: SimDevice,
    membership: Membership,
    nodes: BTreeMap<ReplicaId, ReplicaNode<'static>>,
    timers: BTreeMap<ReplicaId, BTreeSet<TimerKey>>,
    flights: VecDeque<Flight>,
    /// What the liar was told.
    heard: Vec<(ReplicaId, Packet)>,
    now: Millis,
    asked: BTreeSet<(ClientId, u64)>,
    executed: BTreeMap<Slot, Digest>,
    states: BTreeMap<Slot, Digest>,
}

pub fn run(input: &[u8]) {
    let mut input = Input::new(input);
    let mut group = Group::new(ReplicaId(u16::from(input.u8()) % N));
    for _ in 0..DEEDS_MAX {
        if input.is_empty() {
            break;
        }
        group.act(&mut input);
    }
}

impl Group {
    fn new(liar: ReplicaId) -> Self {
        let mut group = Self {
            liar,
            device: SimDevice::new(liar, crypto()),
            membership: membership(SEED, usize::from(N), 1),
            nodes: BTreeMap::new(),
            timers: BTreeMap::new(),
            flights: VecDeque::new(),
            heard: Vec::new(),
            now: STARTED,
            asked: BTreeSet::new(),
            executed: BTreeMap::new(),
            states: BTreeMap::new(),
        };
        for id in (0..N).map(ReplicaId).filter(|id| *id != liar) {
            let mut acts = Vec::new();
            group.nodes.insert(id, node(id, &mut acts));
            group.carry_out(id, acts);
        }
        group
    }

    /// Does the next deed of the input.
    fn act(&mut self, input: &mut Input<'_>) {
        match input.u8() % deed::KINDS {
            deed::SAY => {
                let (to, body) = (input.u8(), Bytes::copy_from_slice(input.bytes()));
                if let Some(wire) = self.authenticate(&body) {
                    self.tell(to, &Packet::Protocol(Epoch(0), wire));
                }
            }
            deed::RAW => {
                let (to, wire) = (input.u8(), Bytes::copy_from_slice(input.bytes()));
                self.tell(to, &Packet::Protocol(Epoch(0), wire));
            }
            deed::TRANSFER => {
                let (to, wire) = (input.u8(), Bytes::copy_from_slice(input.bytes()));
                self.tell(to, &Packet::Transfer(wire));
            }
            deed::REQUEST => self.request(input),
            deed::DELIVER => self.deliver(input.u8()),
            deed::DROP => {
                let at = usize::from(input.u8());
                self.flights.remove(at % self.flights.len().max(1));
            }
            deed::ROUND => {
                self.now.0 += u64::from(input.u16());
                for id in self.correct() {
                    let now = self.now;
                    self.step(id, |node, out| {
                        node.on_clock(now.0, now);
                        node.on_round(out);
                    });
                }
            }
            deed::FIRE => self.fire(input.u8(), input.u8()),
            deed::CLIENT => {
                let (to, wire) = (input.u8(), Bytes::copy_from_slice(input.bytes()));
                self.client_said(0, to, &wire);
            }
            _ => {
                let (to, at) = (input.u8(), usize::from(input.u8()));
                if let Some((_, packet)) = self.heard.get(at % self.heard.len().max(1)).cloned() {
                    self.tell(to, &packet);
                }
            }
        }
    }

    fn correct(&self) -> Vec<ReplicaId> {
        self.nodes.keys().copied().collect()
    }

    /// What the liar's keys and its device make of a body, which the device may refuse.
    fn authenticate(&mut self, body: &Bytes) -> Option<Bytes> {
        let message = minbft::Message::from_bytes(body).ok()?;
        let digest = message.statement(&self.membership.domain());
        let tag = match message.auth() {
            Auth::Channel => AuthTag::Channel,
            Auth::Signature => {
                AuthTag::Signature(crypto().sign(self.liar, &member_id(self.liar).0, &digest))
            }
            Auth::Checksum | Auth::Vector => return None,
            Auth::Mac(_) => AuthTag::Mac(self.device.mac(&digest).ok()?),
            Auth::Usig(_, position) => AuthTag::Usig(self.device.create(position, &digest).ok()?),
        };
        Some(authored::join(self.liar, &tag, body))
    }

    /// The liar's packets arrive at once.
    fn tell(&mut self, to: u8, packet: &Packet) {
        let from = Address::Replica(self.liar);
        for id in self.correct().into_iter().filter(|id| to & (1 << id.0) != 0) {
            self.step(id, |node, out| arrive(node, from, packet, out));
        }
    }

    fn request(&mut self, input: &mut Input<'_>) {
        let (index, to, number) = (usize::from(input.u8()) % CLIENTS, input.u8(), input.u8());
        let operation = Bytes::copy_from_slice(input.bytes());
        let (client, number) = (client_id(SEED, index), u64::from(number));
        // A number stands for one operation only.
        if !self.asked.insert((client, number)) {
            return;
        }
        let requests = vec![Request { number, operation }];
        let draft = Draft { client, floor: 0, events: None, requests };
        let message = ToReplica::Request(Arc::new(crypto().seal(draft)));
        let wire = message.to_bytes();
        if to & (1 << self.liar.0) != 0 {
            self.heard.push((self.liar, Packet::ToReplica(wire.clone())));
        }
        self.client_said(index as u16, to, &wire);
    }

    fn client_said(&mut self, index: u16, to: u8, wire: &Bytes) {
        let packet = Packet::ToReplica(wire.clone());
        let from = Address::Client(index);
        for id in self.correct().into_iter().filter(|id| to & (1 << id.0) != 0) {
            self.step(id, |node, out| arrive(node, from, &packet, out));
        }
    }

    fn deliver(&mut self, at: u8) {
        let at = usize::from(at) % self.flights.len().max(1);
        let Some(Flight { from, to, packet }) = self.flights.remove(at) else { return };
        self.step(to, |node, out| arrive(node, Address::Replica(from), &packet, out));
    }

    fn fire(&mut self, whose: u8, which: u8) {
        let correct = self.correct();
        let id = correct[usize::from(whose) % correct.len()];
        let Some(timers) = self.timers.get_mut(&id).filter(|timers| !timers.is_empty()) else {
            return;
        };
        let timer = timers.iter().nth(usize::from(which) % timers.len()).copied();
        if let Some(timer) = timer {
            timers.remove(&timer);
            self.step(id, |node, out| node.on_timeout(timer, out));
        }
    }

    fn step(&mut self, id: ReplicaId, event: impl FnOnce(&mut ReplicaNode<'_>, &mut Vec<Act>)) {
        let mut acts = Vec::new();
        if let Some(node) = self.nodes.get_mut(&id) {
            event(node, &mut acts);
        }
        self.carry_out(id, acts);
    }

    fn carry_out(&mut self, id: ReplicaId, acts: Vec<Act>) {
        for act in acts {
            match act {
                Act::Send { to: Address::Replica(to), packet } if to == self.liar => {
                    if self.heard.len() < FLIGHTS_MAX {
                        self.heard.push((id, packet));
                    }
                }
                Act::Send { to: Address::Replica(to), packet } => {
                    if self.flights.len() < FLIGHTS_MAX {
                        self.flights.push_back(Flight { from: id, to, packet });
                    }
                }
                Act::Send { to: Address::Client(_), .. } => {}
                Act::Pause { whom, .. } => self.check_pause(id, whom),
                Act::Arm { timer, .. } => {
                    self.timers.entry(id).or_default().insert(timer);
                }
                Act::Disarm(timer) => {
                    self.timers.entry(id).or_default().remove(&timer);
                }
                Act::DisarmAll => {
                    self.timers.remove(&id);
                }
                Act::Saw(seen) => self.check(id, seen),
            }
        }
    }

    fn check(&mut self, id: ReplicaId, seen: Observation) {
        match seen {
            Observation::Executed { slot, batch } => {
                let known = *self.executed.entry(slot).or_insert(batch.digest);
                assert_eq!(known, batch.digest, "{id} disagrees on {slot}");
                self.check_asked(&batch);
            }
            Observation::Checkpointed { slot, state }
            | Observation::Stable { slot, state }
            | Observation::Fetching { slot, state }
            | Observation::Installed { slot, state } => {
                let known = *self.states.entry(slot).or_insert(state);
                assert_eq!(known, state, "{id} has another state at {slot}");
            }
            Observation::Diverged { slot } => panic!("{id} believes to be wrong at {slot}"),
            Observation::Rejected { from: Address::Replica(from), why } => {
                assert!(from == self.liar, "{id} refuses what {from} said: {why:?}");
            }
            Observation::Reported(evidence) => {
                assert!(evidence.author == self.liar, "{id} accuses {evidence:?}");
            }
            Observation::Left { .. }
            | Observation::Rests { .. }
            | Observation::Found(_)
            | Observation::Resumes { .. }
            | Observation::Rewound(_) => panic!("{id} has a disk"),
            Observation::LostCounter => panic!("the counter of {id} does not answer"),
            Observation::Removed { .. } => panic!("nobody changes the members of this group"),
            Observation::Speculated { .. }
            | Observation::Committed { .. }
            | Observation::Confirmed { .. }
            | Observation::RolledBack { .. } => panic!("{id} speculates"),
            // The group has nobody who lost its memory.
            Observation::Asked { .. } | Observation::Ended(_) | Observation::Began(_) => {
                panic!("{id} leaves its epoch");
            }
            Observation::Said { .. }
            | Observation::Relayed { .. }
            | Observation::Lied { .. }
            | Observation::Certified { .. }
            | Observation::Replied { .. }
            | Observation::Supports { .. }
            | Observation::Queried { .. }
            | Observation::Answered { .. }
            | Observation::Told { .. }
            | Observation::Entered { .. }
            | Observation::Rejected { .. } => {}
        }
    }

    fn check_pause(&self, id: ReplicaId, whom: Address) {
        if let Address::Replica(peer) = whom {
            assert!(peer == self.liar, "{id} does not listen to {peer}");
        }
    }

    fn check_asked(&self, batch: &Batch) {
        for envelope in &batch.envelopes {
            assert!(crypto().envelope(envelope), "executed for nobody: {envelope:?}");
        }
    }
}
