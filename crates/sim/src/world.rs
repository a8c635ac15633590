//! The whole group in one value: replicas, clients, network, clocks and checkers, and one thing
//! that happens at a time, in the order of simulated time. Everything that is left open by the host
//! contract is decided by one seed.

use crate::adversary::{Behaviour, Chain};
use crate::audit::{Audit, Fingerprint};
use crate::checker::liveness::{Liveness, Waiting};
use crate::checker::moving_on::MovingOn;
use crate::checker::{Stand, Verdict, bounds, retirement};
use crate::coverage::Coverage;
use crate::crypto::{Crypto, client_id, member_id};
use crate::device::DeviceFault;
use crate::devices::SimDevices;
use crate::factories::{ClientSetup, Factories};
use crate::hostile::HostileClient;
use crate::key_ring::{KeyRing, SharedKeyRing};
use crate::network::{Cut, Network};
use crate::node::{Act, Fault, Impostor, Lying, Parrot, ReplicaNode, SharedDevice, Usurping};
use crate::oracle::Oracle;
use crate::packet::{Address, Packet, member_at, member_of};
use crate::rng::Rng;
use crate::summary::Summary;
use crate::swarm::{Disturbance, Failure, Options, Target};
use crate::time::{Clock, Micros};
use crate::workload::{ClientAct, ClientNode};
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Life, Membership, PillarConfig};
use pentarchy_core::protocol::{Delay, TimerKey};
use pentarchy_storage::kept::Job;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

mod administer;
mod alone;
mod clients;
mod confirms;
mod disturb;
mod joining;
mod late;
mod lives;
pub mod log;
mod moves;
mod possessed;
mod queue;
mod replicas;
mod strikes;

use administer::Wish;
use confirms::Looked;
use lives::Keeping;
pub use log::Log;
use moves::{Input, Moves};
use queue::Queue;

/// Something that is going to happen.
enum Happening {
    /// `from` is who says it, `to` the place that it comes to.
    Arrive {
        from: Address,
        to: Address,
        packet: Packet,
    },
    Timeout {
        replica: usize,
        timer: TimerKey,
        arming: u64,
    },
    /// A job of a replica's disk is done, if it is still the life that began it.
    Disk {
        replica: usize,
        job: Job,
        begun: u64,
    },
    Round(usize),
    ClientRound(usize),
    Think(usize),
    Harm(usize),
    Restart(usize),
    Resume(usize),
    Disturb(usize),
    Administer(usize),
    /// The machine of this place looks whether it is to join.
    Join(usize),
    Mend(u64),
    Heal,
    /// An end of a connection notices that it is over, or that it is there again.
    Link {
        replica: usize,
        whom: Address,
        is_up: bool,
    },
}

/// A timer that runs.
struct Armed {
    /// The number of the arming.
    arming: u64,
    /// When it runs out.
    at: Micros,
    /// For how long it was armed.
    after: Delay,
}

/// A moment in which a replica does not listen to somebody.
#[derive(Default)]
struct Pause {
    until: Micros,
    lasts: Micros,
}

/// A replica in its place.
struct Replica<'a> {
    id: ReplicaId,
    node: ReplicaNode<'a>,
    clock: Clock,
    timers: BTreeMap<TimerKey, Armed>,
    round_at: Option<Micros>,
    paused_until: Micros,
    /// Until then it hears nothing but what is about checkpoints.
    deaf_until: Micros,
    /// What it is to hear when it changes views.
    withheld: Vec<(Address, Packet)>,
    /// When it hears or heard some of that.
    released_at: Micros,
    crashed: bool,
    /// It is going to start again.
    returns: bool,
    /// It lost its memory, and has not been admitted with the state of its epoch since. Until
    /// then it counts as faulty.
    behind: bool,
    /// Nor before it has executed this: it lost a state that it may have vouched for.
    behind_until: Slot,
    /// It came back without its memory after it had left the group, when this epoch was the newest.
    forgot: Option<Epoch>,
    /// Its counters do not answer any more.
    has_no_counter: bool,
    /// The epoch in which all others know of more than its disk has, if that was put back from a
    /// copy and the replica has not ended since.
    put_back: Option<Epoch>,
    /// Since it went on from its disk, enough others have answered what it asked them.
    was_answered: bool,
    /// Its disk was damaged or put back, so that others may have seen more of it than it has.
    doubtful: bool,
    /// When its power fails, it is back after so long.
    stops_for: Micros,
    /// Timers that were armed with a lower number are of an epoch or of a life that is over.
    timers_from: u64,
    /// Jobs of its disk that were begun with a lower number are of a life that is over.
    disk_from: u64,
    /// Those to whom it does not listen for a moment, or did not lately.
    pauses: BTreeMap<Address, Pause>,
    /// When it was looked at last.
    looked: Looked,
    /// How it moved lately.
    moves: Moves,
    /// Whether it asked for a view since it left for the one in which it is.
    moving_on: MovingOn,
    /// What its host does, if it is faulty.
    adversary: Option<Chain>,
    /// Core and host do what they should, whatever becomes of the service.
    sound: bool,
    /// The group has gone on without it.
    has_left: bool,
    /// The members of the epoch in which it is.
    members: Arc<Membership>,
    /// Drawn by the host: what is full, which stale timers fire, when rounds end.
    rng: Rng,
}

impl Replica<'_> {
    /// Counts as one of the `f` that may be faulty: it does not work, is not meant to, or does not
    /// remember what it promised. Of those that have left the group, nobody relies on one.
    const fn is_faulty(&self) -> bool {
        let is_missing = self.crashed || self.behind || self.has_no_counter;
        (is_missing && !self.has_left) || self.adversary.is_some()
    }

    /// Lost its memory, and is to have the group's again.
    const fn is_away(&self) -> bool {
        self.adversary.is_none() && (self.returns || (self.behind && !self.crashed))
    }
}

/// A client in its place.
struct Client<'a> {
    node: ClientNode<'a>,
    clock: Clock,
    round_at: Option<Micros>,
}

impl Client<'_> {
    /// Everything that the application wanted is done.
    fn is_idle(&self) -> bool {
        self.node.left() == 0 && self.node.outstanding() == 0
    }
}

/// Simulated time between two looks at liveness.
const LOOK_EVERY: Micros = 100_000;

/// Replicas that start from their disks at the end of a world may take so long to execute again,
/// and make final, the requests whose results clients acted on.
const SETTLING: Micros = 5_000_000;

/// On a slow network a request may wait for so many times as long more than elsewhere: through the
/// turn of each dead primary, and through those of correct ones that replicas depose too early.
const SLOW_TURNS: u64 = 2;

/// How long hostile clients go on after everything has healed, and how long a world goes on in
/// which liveness is not promised.
const AFTERMATH: Micros = 1_000_000;

/// See the [module](self).
pub struct World<'a> {
    seed: u64,
    options: Options,
    factories: Factories<'a>,
    crypto: Arc<Crypto>,
    ids: Arc<[ClientId]>,
    /// The group as it began.
    membership: Arc<Membership>,
    restarts: u64,
    /// Replicas that started again with what they had kept.
    resumed: u64,
    /// Those that ended since their disks had been put back from copies.
    rewound: u64,
    /// Before or in the middle of what power or disk failed, and how often.
    crash_points: BTreeMap<&'static str, u64>,
    now: Micros,
    sequence: u64,
    queue: Queue,
    network: Network,
    replicas: Vec<Replica<'a>>,
    clients: Vec<Client<'a>>,
    hostile: Vec<HostileClient>,
    /// The signing keys of each replica.
    rings: Vec<SharedKeyRing>,
    /// What administrators want.
    wishes: Vec<Wish>,
    /// Where machines are that have left the group, and that an attacker has compromised.
    possessed: ReplicaSet,
    /// With which epoch each machine began that joined, or that came back when nobody was left whom
    /// it had known, and how the configurations before ended.
    begun_late: BTreeMap<ReplicaId, (Arc<Membership>, Vec<Proof>)>,
    oracle: Oracle,
    audit: Audit,
    rng: Rng,
    healed: bool,
    last_completion: Micros,
    /// How long each request took whose result a client believed.
    took: Vec<Micros>,
    /// When a replica began with another configuration last.
    changed_at: Option<Micros>,
    /// Who was left alone in a view last.
    alone: Option<alone::Alone>,
    messages: u64,
    lies: u64,
    traffic_max: u64,
    acts: Vec<Act>,
    client_acts: Vec<ClientAct>,
    log: Option<Log>,
    /// What the world covers, if somebody wants to know, ...
    coverage: Option<Coverage>,
    /// ... and what a replica handled last.
    handled: Input,
}

impl<'a> World<'a> {
    /// The world of a seed.
    #[must_use]
    pub fn new(
        seed: u64,
        options: Options,
        factories: &Factories<'a>,
        mut rng: Rng,
        log: Option<Log>,
    ) -> Self {
        let ids = names(seed, &options);
        let traffic_max = bounds::traffic_max(
            options.places().len(),
            options.pillars.max(1),
            options.requests_each * options.clients as u64 + 4_000 * options.hostile.len() as u64,
        );
        let first = group(seed, &options, factories);
        let rings = options.machines().map(|id| KeyRing::shared(id, member_id(id).0)).collect();
        let crypto = Arc::new(keys(seed, &options, &first, factories));
        let network = Network::new(options.network.clone(), rng.fork());
        let mut world = Self {
            seed,
            factories: *factories,
            crypto: crypto.clone(),
            ids: ids.clone(),
            membership: first.clone(),
            restarts: 0,
            resumed: 0,
            rewound: 0,
            crash_points: BTreeMap::new(),
            now: 0,
            sequence: 0,
            queue: Queue::default(),
            network,
            replicas: Vec::new(),
            clients: Vec::new(),
            hostile: Vec::new(),
            rings,
            wishes: Vec::new(),
            possessed: ReplicaSet::EMPTY,
            begun_late: BTreeMap::new(),
            oracle: Oracle::new(crypto.clone(), &first, &options),
            audit: Audit::default(),
            rng,
            healed: false,
            last_completion: 0,
            took: Vec::new(),
            changed_at: None,
            alone: None,
            messages: 0,
            lies: 0,
            traffic_max,
            acts: Vec::new(),
            client_acts: Vec::new(),
            log,
            coverage: None,
            handled: Input::Nothing,
            options,
        };
        world.add_replicas();
        let correct = world.replicas.iter().find(|replica| replica.adversary.is_none());
        if let Some(correct) = correct {
            let justification = correct.node.core().justification();
            world.oracle.judge_by(first.epoch, justification, &factories.rules);
        }
        world.add_clients(&crypto, &ids, factories);
        world.add_hostile(&crypto, &ids);
        for index in 0..world.options.disturbances.len() {
            world.schedule(world.options.disturbances[index].0, Happening::Disturb(index));
        }
        world.schedule(world.options.heal_at, Happening::Heal);
        world
    }

    fn add_replicas(&mut self) {
        let mut devices: Vec<SharedDevice> = Vec::new();
        for (place, id) in self.options.places().into_iter().enumerate() {
            let mut rng = self.rng.fork();
            let device = self.device(place, id, &devices);
            devices.push(device.clone());
            let behaviours = self.behaviours(id);
            let (faulty, adversary) = self.adversary(&behaviours, id, &mut rng);
            let mut acts = Vec::new();
            let sound = is_sound(&behaviours);
            let kept = self.disk(id, crate::crypto::INCARNATION, sound);
            let node = self.node(id, device, faulty, Keeping::afresh(kept), &mut acts);
            let replica = Replica { adversary, sound, ..self.correct_replica(id, node, rng) };
            self.replicas.push(replica);
            let started = self.carry_out(place, acts);
            started.unwrap_or_else(|broken| panic!("at the start: {broken}"));
            self.want_round(place);
        }
    }

    /// A correct replica in its place, as it starts.
    fn correct_replica(&self, id: ReplicaId, node: ReplicaNode<'a>, mut rng: Rng) -> Replica<'a> {
        Replica {
            id,
            members: node.chain().0,
            node,
            clock: Clock::random(&mut rng, self.options.skew_ms, self.options.drift_ppm),
            timers: BTreeMap::new(),
            round_at: None,
            paused_until: 0,
            deaf_until: 0,
            withheld: Vec::new(),
            released_at: 0,
            crashed: false,
            returns: false,
            behind: false,
            behind_until: Slot(0),
            forgot: None,
            has_no_counter: false,
            put_back: None,
            was_answered: false,
            doubtful: false,
            stops_for: 0,
            timers_from: 0,
            disk_from: 0,
            pauses: BTreeMap::new(),
            looked: Looked::default(),
            moves: Moves::default(),
            moving_on: MovingOn::default(),
            adversary: None,
            sound: true,
            has_left: false,
            rng,
        }
    }

    fn behaviours(&self, id: ReplicaId) -> Vec<Behaviour> {
        let faulty = self.options.byzantine.iter().find(|(who, _)| *who == id);
        faulty.map(|(_, behaviours)| behaviours.clone()).unwrap_or_default()
    }

    /// The device at a place. Copies of one replica share one, unless devices can be copied too.
    fn device(&self, place: usize, id: ReplicaId, devices: &[SharedDevice]) -> SharedDevice {
        let fault = self.options.device;
        if place >= self.options.n && fault != DeviceFault::Clone {
            return devices[usize::from(id.0)].clone();
        }
        let faulty = !self.behaviours(id).is_empty();
        let fault = if faulty { fault } else { DeviceFault::None };
        let count = self.membership.lane.pillars;
        Arc::new(Mutex::new(SimDevices::new(id, count, &self.crypto).with(fault)))
    }

    /// What makes a replica lie, and what its host does, if it is faulty.
    fn adversary(
        &self,
        behaviours: &[Behaviour],
        id: ReplicaId,
        rng: &mut Rng,
    ) -> (Option<Fault>, Option<Chain>) {
        let faulty = self.fault(behaviours, id, rng);
        let chain = faulty.is_some().then(|| {
            let built = behaviours.iter().filter_map(|behaviour| behaviour.build(&self.ids));
            Chain(built.collect())
        });
        (faulty, chain)
    }

    fn fault(&self, behaviours: &[Behaviour], id: ReplicaId, rng: &mut Rng) -> Option<Fault> {
        if behaviours.is_empty() {
            return None;
        }
        let lying = |behaviour: &Behaviour| {
            let (alone, quiet_ms, rate_ppm) = match behaviour {
                Behaviour::Forge { alone, rate_ppm } => (*alone, 0, *rate_ppm),
                Behaviour::Lurk { quiet_ms, rate_ppm } => (false, *quiet_ms, *rate_ppm),
                _ => return None,
            };
            let make = self.factories.forger?;
            let group = self.begins_with(id).0;
            let me = group.index_of(member_at(id)).expect("it begins as a member");
            let (forger, rng) = (make(me, &group), rng.fork());
            let heard = VecDeque::new();
            Some(Lying { forger, make, rng, heard, alone, rate_ppm, quiet_ms, began: None })
        };
        let lying = behaviours.iter().find_map(lying);
        let usurping = behaviours.iter().find_map(|behaviour| match behaviour {
            Behaviour::Usurp { rate_ppm } => Some(Usurping::new(rng.fork(), *rate_ppm)),
            _ => None,
        });
        let impostor = behaviours.iter().find_map(|behaviour| match behaviour {
            Behaviour::Impostor { rate_ppm } => Some(Impostor::new(rng.fork(), *rate_ppm)),
            _ => None,
        });
        let parrot = behaviours.iter().find_map(|behaviour| match behaviour {
            Behaviour::Parrot { alone, rate_ppm } => {
                Some(Parrot::new(rng.fork(), *alone, *rate_ppm))
            }
            _ => None,
        });
        let lets_anyone_in = !is_sound(behaviours);
        Some(Fault { lying, usurping, impostor, parrot, lets_anyone_in })
    }

    fn add_clients(
        &mut self,
        crypto: &Arc<Crypto>,
        ids: &Arc<[ClientId]>,
        factories: &Factories<'_>,
    ) {
        // Correct clients do not talk to hostile ones.
        let correct: Arc<[ClientId]> = ids[..self.options.clients].into();
        for (index, id) in correct.iter().enumerate() {
            let mut rng = self.rng.fork();
            let clock = Clock::random(&mut rng, self.options.skew_ms, self.options.drift_ppm);
            let Options { n, f, timeouts, requests_each, .. } = self.options;
            let setup = ClientSetup { client: *id, n, f, timeouts, start_floor: 1 };
            let core = (factories.client)(setup);
            let work = (self.options.workload.clone(), requests_each);
            let who = (correct.clone(), index);
            let mut node = ClientNode::new(who, core, crypto.clone(), work, rng);
            if self.options.has_to_follow() {
                // What one client writes early, others may look for late.
                let late_ms = if index % 2 == 0 { 0 } else { self.options.workload.follow_late_ms };
                node.follow(self.membership.clone(), (self.factories, setup), late_ms);
            }
            node.listen(&mut self.client_acts);
            for replica in 0..n as u16 {
                node.on_connected(ReplicaId(replica), &mut self.client_acts);
            }
            self.clients.push(Client { node, clock, round_at: None });
            let at = self.rng.below(10_000);
            self.schedule(at, Happening::Think(index));
        }
    }

    fn add_hostile(&mut self, crypto: &Arc<Crypto>, ids: &Arc<[ClientId]>) {
        for (index, kind) in self.options.hostile.clone().into_iter().enumerate() {
            let rng = self.rng.fork();
            let names = (ids[self.options.clients + index], ids[0]);
            let client = HostileClient::new(names, kind, crypto.clone(), self.options.n, rng);
            self.hostile.push(client);
            let at = self.rng.below(100_000);
            self.schedule(at, Happening::Harm(index));
        }
    }

    /// Runs until everything is done, or a property is broken.
    ///
    /// # Errors
    /// The property.
    pub fn run(&mut self) -> Result<Summary, crate::checker::Broken> {
        let Options { heal_at, timeouts, liveness_timeouts, .. } = self.options;
        let last_crash = self.options.disturbances.iter().map(|(at, _)| *at).max();
        let well_at = heal_at.max(last_crash.unwrap_or_default());
        let ordering = self.options.ordering_us();
        let turns = if self.options.is_slow() { SLOW_TURNS * liveness_timeouts } else { 0 };
        let turns = turns * 1_000 * (timeouts.request_ms + timeouts.view_change_ms);
        let mut liveness = Liveness::new(well_at, &timeouts, liveness_timeouts, ordering + turns);
        let promised = liveness_timeouts > 0;
        let mut next_look = heal_at;
        while let Some((time, happening)) = self.queue.pop() {
            self.now = time;
            self.happen(happening)?;
            let over = !promised && time > heal_at + AFTERMATH;
            if over || self.is_done() {
                return self.finish();
            }
            if promised && time > next_look {
                next_look = time + LOOK_EVERY;
                self.check_liveness(&mut liveness)?;
            }
            bounds::traffic(self.messages, self.queue.len(), self.traffic_max, || self.stand())?;
        }
        if promised {
            return Err(liveness.dead(self.now, &self.stand()));
        }
        self.finish()
    }

    /// The time, and the hash of all that has happened.
    #[must_use]
    pub fn reached(&self) -> (Micros, Fingerprint) {
        (self.now, self.audit.digest())
    }

    /// How long requests took, in the order in which clients believed their results.
    #[must_use]
    pub fn took(&self) -> &[Micros] {
        &self.took
    }

    fn schedule(&mut self, at: Micros, happening: Happening) {
        self.sequence += 1;
        self.queue.push(at.max(self.now), self.sequence, happening);
    }

    fn happen(&mut self, happening: Happening) -> Verdict {
        match happening {
            Happening::Arrive { from, to, packet } => return self.arrive(from, to, packet),
            Happening::Timeout { replica, timer, arming } => {
                return self.timeout(replica, timer, arming);
            }
            Happening::Disk { replica, job, begun } => return self.disk_done(replica, job, begun),
            Happening::Round(index) => return self.round(index),
            Happening::ClientRound(index) => return self.client_round(index),
            Happening::Think(index) => return self.think(index),
            Happening::Harm(index) => self.harm(index),
            Happening::Restart(index) => return self.restart(index),
            Happening::Resume(index) => return self.resume(index),
            Happening::Disturb(index) => self.disturb(index),
            Happening::Administer(index) => self.administer(index),
            Happening::Join(place) => self.join(place),
            Happening::Mend(name) => self.network.mend(name),
            Happening::Heal => return self.heal(),
            Happening::Link { replica, whom, is_up } => return self.link(replica, whom, is_up),
        }
        Ok(())
    }

    fn correct(&self) -> impl Iterator<Item = (ReplicaId, &Replica<'a>)> {
        let numbered = self.replicas.iter().enumerate();
        numbered
            .filter(|(_, replica)| !replica.crashed && replica.adversary.is_none())
            .map(|(_, replica)| (replica.id, replica))
    }

    fn is_done(&self) -> bool {
        if !self.healed || !self.clients.iter().all(Client::is_idle) {
            return false;
        }
        if self.oracle.events_missing() || self.replicas.iter().any(Replica::is_away) {
            return false;
        }
        if self.is_changing() {
            return false;
        }
        if self.correct().any(|(_, replica)| replica.node.executor().is_speculative()) {
            return false;
        }
        // As far as anybody ever was: what one of them executed for good may not be gone.
        let highest = self.oracle.highest();
        let executes = |it: &Replica<'_>| !it.node.core().is_witness() && self.is_awaited(it);
        let mut executing = self.correct().filter(|(_, it)| executes(it));
        executing.all(|(_, replica)| replica.node.executor().executed() == highest)
            && self.has_settled()
    }

    /// Whether a correct replica is to come as far as the others. One that has left the group need
    /// only learn of that, if somebody can tell it.
    fn is_awaited(&self, replica: &Replica<'_>) -> bool {
        !replica.has_left || (!replica.node.is_leaving() && self.has_guide(replica.id))
    }

    /// Whether somebody can show the replica at a place how the group has gone on: somebody whom it
    /// knows as a member, and who has gone further.
    fn has_guide(&self, place: ReplicaId) -> bool {
        let replica = &self.replicas[usize::from(place.0)];
        let epoch = replica.node.epoch();
        self.correct().any(|(id, other)| {
            let is_further = other.node.epoch() > epoch || other.node.is_leaving();
            id != place && is_further && member_of(&replica.members, id).is_some()
        })
    }

    /// Whether all that clients acted on is final, or nobody seems to be about to make it so.
    fn has_settled(&self) -> bool {
        let since = self.last_completion.max(self.options.heal_at);
        self.now > since + SETTLING || self.oracle.all_is_final().is_ok()
    }

    fn check_liveness(&self, liveness: &mut Liveness) -> Verdict {
        let armed = self.correct().flat_map(|(_, replica)| replica.timers.values());
        let until = armed.map(|armed| armed.at).max().unwrap_or_default();
        let since = self.last_completion.max(self.awaited_since());
        liveness.check_moves(self.now, since, until, || self.stand())?;
        if self.clients.iter().all(Client::is_idle) {
            let missing = self.oracle.events_missing();
            return liveness.check_level(self.now, self.last_completion, missing, || self.stand());
        }
        let waiting = |(client, it): (usize, &Client<'_>)| {
            it.node.oldest().map(|(number, since)| Waiting { client, number, since })
        };
        let waiting = self.clients.iter().enumerate().filter_map(waiting);
        liveness.check(self.now, waiting, || self.stand())
    }

    /// Since when a client waits for something to move, if not for longer: nothing has to while
    /// applications think of what to ask next.
    fn awaited_since(&self) -> Micros {
        let oldest = self.clients.iter().filter_map(|client| client.node.oldest());
        match oldest.map(|(_, since)| since).min() {
            Some(since) => since,
            None if self.clients.iter().all(Client::is_idle) => 0,
            None => self.now,
        }
    }

    /// Where correct replicas stand.
    fn stand(&self) -> Vec<Stand> {
        let stand = |(id, replica): (ReplicaId, &Replica<'_>)| {
            let executed = replica.node.executor().executed();
            Stand { id, executed, status: replica.node.core().status() }
        };
        self.correct().map(stand).collect()
    }

    fn finish(&mut self) -> Result<Summary, crate::checker::Broken> {
        for replica in &mut self.replicas {
            // One that waits for the state with which its epoch began has none that is anybody's,
            // and one that may take something back has none that lasts.
            let lasts = replica.node.is_level() && !replica.node.executor().is_speculative();
            if !replica.crashed && replica.adversary.is_none() && lasts {
                if !replica.node.is_to_erase_keys() {
                    let ring = &self.rings[usize::from(replica.id.0)];
                    retirement::stays(replica.id, ring.lock().former())?;
                }
                let slot = replica.node.executor().executed();
                let state = replica.node.state();
                self.oracle.ended(replica.id, slot, state)?;
                self.audit.note(self.now, 20, u64::from(replica.id.0), &state.0);
            }
        }
        if self.is_done() {
            self.oracle.all_is_final()?;
        }
        self.oracle.history()?;
        let mut summary = self.oracle.summary();
        summary.n = self.options.n;
        summary.f = self.options.f;
        summary.messages = self.messages;
        summary.lies = self.lies;
        summary.simulated_ms = self.now / 1_000;
        let crashed = |it: &&Replica<'_>| it.crashed && it.adversary.is_none();
        summary.crashed = self.replicas.iter().filter(crashed).count();
        let kinds = self.options.byzantine.iter().flat_map(|(_, kinds)| kinds);
        summary.adversaries = kinds.map(|kind| kind.name()).collect();
        summary.hostile = self.options.hostile.iter().map(|kind| kind.name()).collect();
        let faults = self.options.disturbances.iter();
        summary.faults = faults.map(|(_, disturbance)| disturbance.name()).collect();
        summary.restarts = self.restarts;
        (summary.resumed, summary.rewound) = (self.resumed, self.rewound);
        summary.crash_points = self.crash_points.clone();
        summary.audit = self.audit.digest();
        summary.compared = self.crypto.real().map(|all| all.compared()).unwrap_or_default();
        Ok(summary)
    }
}

/// The names of all clients: correct ones, hostile ones, administrators, and machines that may join
/// the group.
fn names(seed: u64, options: &Options) -> Arc<[ClientId]> {
    let clients = options.clients + options.hostile.len();
    let clients = (0..clients).map(|index| client_id(seed, index));
    let administrators = administer::administrators(seed);
    let administrators = administrators.into_iter().filter(|_| options.has_administrators);
    let joiners = options.machines().skip(options.n).map(member_id);
    clients.chain(administrators).chain(joiners).collect()
}

/// The group as it begins.
fn group(seed: u64, options: &Options, factories: &Factories) -> Arc<Membership> {
    let pillars = options.pillars;
    let lane = PillarConfig { pillars, rotates: options.rotates && pillars > 1, pillar: None };
    let first = Membership { lane, ..membership(seed, options.n, options.f) };
    match options.has_administrators {
        true => administer::stated(&first, &factories.rules, options.tuning, seed),
        false => Arc::new(first),
    }
}

/// Whether nothing is wrong with a replica's core and host. They must go on when its state differs
/// from the group's.
fn is_sound(behaviours: &[Behaviour]) -> bool {
    behaviours.iter().all(|behaviour| matches!(behaviour, Behaviour::Rot { .. }))
}

/// All secrets of a world, for a group that begins so.
fn keys(seed: u64, options: &Options, first: &Membership, factories: &Factories) -> Crypto {
    let clients = options.clients + options.hostile.len();
    let machines = options.machines().count();
    let crypto = Crypto::new(seed, machines, clients).with(options.means);
    let crypto = crypto.counting(factories.rules.device()).under(first.configuration);
    let crypto = match options.has_administrators {
        true => crypto.administered_by(administer::administrators(seed)),
        false => crypto,
    };
    // A device of production does not lie.
    let is_honest = options.device == DeviceFault::None;
    if options.has_real_devices && is_honest { crypto.beside_real(first) } else { crypto }
}

/// The group of a world.
#[must_use]
pub fn membership(seed: u64, n: usize, f: usize) -> Membership {
    let mut group = [0; 16];
    group[..8].copy_from_slice(&seed.to_le_bytes());
    let life = Life::mac(crate::crypto::INCARNATION);
    let members = (0..n).map(|index| (member_id(ReplicaId(index as u16)).0, life));
    Membership::of_keys(GroupId(group), f, members)
}
