//! The whole group in one value: replicas, clients, network, clocks and checkers, and one thing
//! that happens at a time, in the order of simulated time. Everything that is left open by the host
//! contract is decided by one seed.

use crate::adversary::Adversary;
use crate::audit::Audit;
use crate::checker::liveness::{Liveness, Waiting};
use crate::checker::{Stand, Verdict, bounds};
use crate::crypto::{Crypto, client_id};
use crate::network::{Cut, Network};
use crate::node::{Act, Address, Packet, Parts, ReplicaNode};
use crate::oracle::Oracle;
use crate::rng::Rng;
use crate::run::{ClientSetup, Factories, Summary};
use crate::service::Journal;
use crate::swarm::{Disturbance, Options, Target};
use crate::time::{Clock, Micros};
use crate::workload::{ClientAct, ClientNode};
use pentarchy_core::ids::{ClientId, Epoch, GroupId, ReplicaId, ReplicaSet};
use pentarchy_core::membership::{Base, Member, Membership};
use pentarchy_core::protocol::{Setup, TimerKey};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

mod clients;
mod disturb;
mod log;
mod replicas;

/// Something that is going to happen.
enum Happening {
    Arrive { from: Address, to: Address, packet: Packet },
    Timeout { replica: usize, timer: TimerKey, arming: u64 },
    Round(usize),
    ClientRound(usize),
    Think(usize),
    Disturb(usize),
    Mend(u64),
    Heal,
}

struct Scheduled(Micros, u64, Happening);

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.1 == other.1
    }
}
impl Eq for Scheduled {}
impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(other.0, other.1))
    }
}

/// A replica in its place.
struct Replica {
    node: ReplicaNode,
    clock: Clock,
    /// Armed timers, with the number of the arming.
    timers: BTreeMap<TimerKey, u64>,
    round_at: Option<Micros>,
    paused_until: Micros,
    crashed: bool,
    adversary: Option<Box<dyn Adversary>>,
    /// Drawn by the host: what is full, which stale timers fire, when rounds end.
    rng: Rng,
}

/// A client in its place.
struct Client {
    node: ClientNode,
    clock: Clock,
    round_at: Option<Micros>,
}

impl Client {
    /// Everything that the application wanted is done.
    fn is_idle(&self) -> bool {
        self.node.left() == 0 && self.node.outstanding() == 0
    }
}

/// Simulated time between two looks at liveness.
const LOOK_EVERY: Micros = 100_000;

/// See the [module](self).
pub struct World {
    options: Options,
    now: Micros,
    sequence: u64,
    queue: BinaryHeap<Reverse<Scheduled>>,
    network: Network,
    replicas: Vec<Replica>,
    clients: Vec<Client>,
    oracle: Oracle,
    audit: Audit,
    rng: Rng,
    healed: bool,
    last_completion: Micros,
    messages: u64,
    traffic_max: u64,
    acts: Vec<Act>,
    client_acts: Vec<ClientAct>,
    log: Option<Log>,
}

/// Gets a line for each thing that happens.
pub type Log = Box<dyn FnMut(&str)>;

impl World {
    /// The world of a seed.
    #[must_use]
    pub fn new(
        seed: u64,
        options: Options,
        factories: &Factories<'_>,
        mut rng: Rng,
        log: Option<Log>,
    ) -> Self {
        let crypto = Arc::new(Crypto::new(seed, options.n, options.clients));
        let ids: Arc<[ClientId]> = (0..options.clients).map(|i| client_id(seed, i)).collect();
        let network = Network::new(options.network.clone(), rng.fork());
        let mut world = Self {
            now: 0,
            sequence: 0,
            queue: BinaryHeap::new(),
            network,
            replicas: Vec::new(),
            clients: Vec::new(),
            oracle: Oracle::new(crypto.clone(), options.n, options.tuning),
            audit: Audit::default(),
            rng,
            healed: false,
            last_completion: 0,
            messages: 0,
            traffic_max: bounds::traffic_max(
                options.n,
                options.requests_each * options.clients as u64,
            ),
            acts: Vec::new(),
            client_acts: Vec::new(),
            log,
            options,
        };
        world.add_replicas(seed, &crypto, &ids, factories);
        world.add_clients(&crypto, &ids, factories);
        for index in 0..world.options.disturbances.len() {
            world.schedule(world.options.disturbances[index].0, Happening::Disturb(index));
        }
        world.schedule(world.options.heal_at, Happening::Heal);
        world
    }

    fn add_replicas(
        &mut self,
        seed: u64,
        crypto: &Arc<Crypto>,
        clients: &Arc<[ClientId]>,
        factories: &Factories<'_>,
    ) {
        let membership = Arc::new(membership(seed, self.options.n, self.options.f));
        for id in membership.ids() {
            let mut rng = self.rng.fork();
            let mut effects = Vec::new();
            let tuning = self.options.tuning;
            let setup = Setup { me: id, membership: membership.clone(), fetch: None, tuning };
            let core = (factories.replica)(setup, &mut effects);
            let journal = Journal::default();
            let service = (factories.service)(journal.clone());
            let (crypto, clients) = (crypto.clone(), clients.clone());
            let core = (core, effects);
            let membership = membership.clone();
            let parts = Parts { id, membership, crypto, clients, service, journal, core };
            let mut acts = Vec::new();
            let node = ReplicaNode::new(parts, &mut acts);
            let faulty = self.options.byzantine.iter().find(|(who, _)| *who == id);
            let replica = Replica {
                node,
                clock: Clock::random(&mut rng, self.options.skew_ms),
                timers: BTreeMap::new(),
                round_at: None,
                paused_until: 0,
                crashed: false,
                adversary: faulty.map(|(_, behaviour)| behaviour.build()),
                rng,
            };
            self.replicas.push(replica);
            let index = usize::from(id.0);
            let started = self.carry_out(index, acts);
            started.unwrap_or_else(|broken| panic!("at the start: {broken}"));
            self.want_round(index);
        }
    }

    fn add_clients(
        &mut self,
        crypto: &Arc<Crypto>,
        ids: &Arc<[ClientId]>,
        factories: &Factories<'_>,
    ) {
        for (index, id) in ids.iter().enumerate() {
            let mut rng = self.rng.fork();
            let clock = Clock::random(&mut rng, self.options.skew_ms);
            let Options { n, f, timeouts, requests_each, .. } = self.options;
            let setup = ClientSetup { client: *id, n, f, timeouts, start_floor: 1 };
            let core = (factories.client)(setup);
            let work = (self.options.workload.clone(), requests_each);
            let who = (ids.clone(), index);
            let mut node = ClientNode::new(who, core, crypto.clone(), work, rng);
            node.listen(&mut self.client_acts);
            for replica in 0..n as u16 {
                node.on_connected(ReplicaId(replica), &mut self.client_acts);
            }
            self.clients.push(Client { node, clock, round_at: None });
            let at = self.rng.below(10_000);
            self.schedule(at, Happening::Think(index));
        }
    }

    /// Runs until everything is done, or a property is broken.
    ///
    /// # Errors
    /// The property.
    pub fn run(mut self) -> Result<Summary, crate::checker::Broken> {
        let Options { heal_at, timeouts, liveness_timeouts, .. } = self.options;
        let liveness = Liveness::new(heal_at, &timeouts, liveness_timeouts);
        let mut next_look = heal_at;
        while let Some(Reverse(Scheduled(time, _, happening))) = self.queue.pop() {
            self.now = time;
            self.happen(happening)?;
            if self.is_done() {
                return self.finish();
            }
            if time > next_look {
                next_look = time + LOOK_EVERY;
                self.check_liveness(&liveness)?;
            }
            bounds::traffic(self.messages, self.queue.len(), self.traffic_max, || self.stand())?;
        }
        Err(liveness.dead(self.now, &self.stand()))
    }

    fn schedule(&mut self, at: Micros, happening: Happening) {
        self.sequence += 1;
        self.queue.push(Reverse(Scheduled(at.max(self.now), self.sequence, happening)));
    }

    fn happen(&mut self, happening: Happening) -> Verdict {
        match happening {
            Happening::Arrive { from, to, packet } => return self.arrive(from, to, packet),
            Happening::Timeout { replica, timer, arming } => {
                return self.timeout(replica, timer, arming);
            }
            Happening::Round(index) => return self.round(index),
            Happening::ClientRound(index) => return self.client_round(index),
            Happening::Think(index) => return self.think(index),
            Happening::Disturb(index) => self.disturb(index),
            Happening::Mend(name) => self.network.mend(name),
            Happening::Heal => self.heal(),
        }
        Ok(())
    }

    fn correct(&self) -> impl Iterator<Item = (ReplicaId, &Replica)> {
        let numbered = self.replicas.iter().enumerate();
        numbered
            .filter(|(_, replica)| !replica.crashed && replica.adversary.is_none())
            .map(|(index, replica)| (ReplicaId(index as u16), replica))
    }

    fn is_done(&self) -> bool {
        if !self.healed || !self.clients.iter().all(Client::is_idle) {
            return false;
        }
        if self.oracle.events_missing() {
            return false;
        }
        let mut executed = self.correct().map(|(_, replica)| replica.node.executor().executed());
        let first = executed.next();
        executed.all(|slot| Some(slot) == first)
    }

    fn check_liveness(&self, liveness: &Liveness) -> Verdict {
        if self.clients.iter().all(Client::is_idle) {
            let missing = self.oracle.events_missing();
            return liveness.check_level(self.now, self.last_completion, missing, || self.stand());
        }
        let waiting = |(client, it): (usize, &Client)| {
            it.node.oldest().map(|(number, since)| Waiting { client, number, since })
        };
        let waiting = self.clients.iter().enumerate().filter_map(waiting);
        liveness.check(self.now, waiting, || self.stand())
    }

    /// Where correct replicas stand.
    fn stand(&self) -> Vec<Stand> {
        let stand = |(id, replica): (ReplicaId, &Replica)| {
            let executed = replica.node.executor().executed();
            Stand { id, executed, status: replica.node.core().status() }
        };
        self.correct().map(stand).collect()
    }

    fn finish(mut self) -> Result<Summary, crate::checker::Broken> {
        for (index, replica) in self.replicas.iter_mut().enumerate() {
            if !replica.crashed && replica.adversary.is_none() {
                let slot = replica.node.executor().executed();
                let state = replica.node.state();
                self.oracle.ended(ReplicaId(index as u16), slot, state)?;
                self.audit.note(self.now, 20, index as u64, &state.0);
            }
        }
        self.oracle.history()?;
        let mut summary = self.oracle.summary();
        summary.n = self.options.n;
        summary.f = self.options.f;
        summary.messages = self.messages;
        summary.simulated_ms = self.now / 1_000;
        summary.crashed = self.replicas.iter().filter(|replica| replica.crashed).count();
        let adversaries = self.replicas.iter().filter_map(|replica| replica.adversary.as_ref());
        summary.adversaries = adversaries.map(|adversary| adversary.name()).collect();
        summary.audit = self.audit.digest();
        Ok(summary)
    }
}

/// The group of a world.
#[must_use]
pub fn membership(seed: u64, n: usize, f: usize) -> Membership {
    let member = |index: usize| Member {
        key: [index as u8; 32],
        incarnation: crate::crypto::INCARNATION,
        device_key: [0; 32],
    };
    let mut group = [0; 16];
    group[..8].copy_from_slice(&seed.to_le_bytes());
    let members = (0..n).map(member).collect();
    Membership { group: GroupId(group), epoch: Epoch(0), f, members, base: Base::default() }
}
