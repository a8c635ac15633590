//! A seed becomes a world: sizes, faults, timing. Options are drawn so that each run leans towards
//! something (a lossy network, tiny windows, a dying primary) instead of a little of everything.

use crate::adversary::Behaviour;
use crate::checker::promptness::Promptness;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::hostile::Hostility;
use crate::network::{NetworkOptions, Parts};
use crate::rng::Rng;
use crate::time::Micros;
use crate::workload::WorkloadOptions;
use pentarchy_core::counter::Counter;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::limits::CHECKPOINT_BYTES;
use pentarchy_core::protocol::{Rules, Timeouts, Tuning};

mod allowed;
mod alone;
mod changes;
mod disturbance;
mod forks;
mod habits;
mod installs;
mod late;
mod losses;
mod machines;
mod reads;
mod refreshes;
mod replacements;
mod reshapes;
mod rifts;
mod small;
mod switches;
pub mod text;

pub use disturbance::{Disturbance, Failure, Target};
pub(crate) use refreshes::AS_IT_SHOULD_BE;

/// Worlds in which replicas have the store of production.
const STORES_PERCENT: u32 = 12;

/// Worlds in which the trusted counters of production run beside the simulator's.
const DEVICES_PERCENT: u32 = 25;

/// What the person who starts a run decides.
#[derive(Clone, Debug)]
pub struct SimConfig {
    /// Requests of all clients together, about.
    pub requests: u64,
    /// Faults to tolerate; drawn from the seed if none is given.
    pub f: Option<usize>,
    /// Whether anything goes wrong at all: faults, loss, skew, pauses.
    pub faults: bool,
    /// Whether nothing goes wrong but what hostile clients send.
    pub hostile_only: bool,
    /// Whether replicas and clients may be Byzantine.
    pub byzantine: bool,
    /// What every world is about in which several things may go wrong; drawn from the seed if it is
    /// not said.
    pub theme: Option<Theme>,
    /// How the devices of faulty replicas are. Unless they keep their contract, every world has
    /// two copies of some replica, and checkers are expected to find something.
    pub device: DeviceFault,
    /// Into how many pillars the order is split, where it is; drawn from the seed if it is not
    /// said.
    pub pillars: Option<u8>,
    /// Whether each of them begins with another primary; likewise.
    pub rotates: Option<bool>,
    /// The numbers behind delays.
    pub timeouts: Timeouts,
    /// After healing, each request must complete within this many request and view-change timeouts.
    pub liveness_timeouts: u64,
}

impl Default for SimConfig {
    fn default() -> Self {
        Self {
            requests: 1_000,
            f: None,
            faults: true,
            hostile_only: false,
            byzantine: true,
            theme: None,
            device: DeviceFault::None,
            pillars: None,
            rotates: None,
            timeouts: Timeouts::default(),
            liveness_timeouts: 50,
        }
    }
}

/// What a world may be about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Theme {
    /// Changing the primary: hiccups and changeovers.
    Changes,
    /// Views that fail because messages reach exact minorities.
    Minorities,
    /// Changing the group itself, whatever else goes wrong: keys, members, size, protocol.
    Reconfiguration,
}

/// What administrators want in a world: of a hundred worlds, in how many it is drawn.
struct Wanted {
    refreshes: u32,
    replacements: u32,
    switches: u32,
    reshapes: u32,
}

impl Wanted {
    const SELDOM: Self = Self { refreshes: 15, replacements: 10, switches: 10, reshapes: 8 };

    /// One of them for certain, if the world is to be about that.
    fn draw(theme: Option<Theme>, rng: &mut Rng) -> Self {
        if theme != Some(Theme::Reconfiguration) {
            return Self::SELDOM;
        }
        match rng.below(4) {
            0 => Self { refreshes: 100, ..Self::SELDOM },
            1 => Self { replacements: 100, ..Self::SELDOM },
            2 => Self { switches: 100, ..Self::SELDOM },
            _ => Self { reshapes: 100, ..Self::SELDOM },
        }
    }
}

/// How long disks take.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DiskOptions {
    /// A write with its sync, about.
    pub sync_us: Micros,
    /// Of a million, how many take much longer before everything heals.
    pub slow_ppm: u32,
    /// The same for those of the log alone, if that is more: states overtake it.
    pub slow_log_ppm: u32,
    /// By how much.
    pub slow_us: Micros,
    /// Of a million stable checkpoints, how many cut off power while the log is cut.
    pub stop_at_stable_ppm: u32,
    /// Of a million states that a replica fetched, how many cut off power as soon as they are
    /// durable.
    pub stop_at_saved_ppm: u32,
    /// Of a million entries that a replica keeps behind another one of the same step, while it
    /// changes views, before how many power fails.
    pub split_steps_ppm: u32,
}

/// Everything that a seed decides.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Options {
    /// Faults to tolerate.
    pub f: usize,
    /// Replicas.
    pub n: usize,
    /// Pillars into which the order is split.
    pub pillars: u8,
    /// Whether each of them begins with another primary.
    pub rotates: bool,
    /// Clients.
    pub clients: usize,
    /// Operations that each client keeps outstanding.
    pub outstanding: usize,
    /// Operations that each client submits.
    pub requests_each: u64,
    /// Mean time between two operations of one client.
    pub think_us: Micros,
    /// For how long clients submit nothing once the network has healed.
    pub rest_us: Micros,
    /// Sizes.
    pub tuning: Tuning,
    /// The numbers behind delays.
    pub timeouts: Timeouts,
    /// The network before it heals.
    pub network: NetworkOptions,
    /// Who hears what before that, as a number that [`Hearing`](crate::hearing::Hearing) draws it
    /// from; all hear all if it is 0.
    pub hearing: u64,
    /// By how much later than others a replica hears what it is drawn not to hear; if it is 0, it
    /// never does.
    pub hears_late_us: Micros,
    /// One above the place of a replica that hears of checkpoints only while it changes views; 0 if
    /// there is none.
    pub late_checkpoints: u16,
    /// For how long nobody hears a replica that enters a view alone, and it does not hear them; if
    /// it is 0, nobody is left alone.
    pub left_alone_us: Micros,
    /// How far clocks are apart.
    pub skew_ms: u64,
    /// How much faster than others a clock may run before everything heals, in millionths.
    pub drift_ppm: u64,
    /// How clients authenticate.
    pub means: Means,
    /// Clients that do harm, beside the others.
    pub hostile: Vec<Hostility>,
    /// See [`SimConfig::device`].
    pub device: DeviceFault,
    /// Whether the counters' own checker looks: without it others must notice a device that lies.
    pub watch_devices: bool,
    /// A host's round ends at most this long after something came.
    pub round_us: Micros,
    /// Of a million envelopes, how many a host refuses because its tables are full.
    pub busy_ppm: u32,
    /// Of a million disarmed timers, how many fire nevertheless.
    pub stale_timer_ppm: u32,
    /// Of a million ends of an epoch, how many cost a replica its memory.
    pub restart_at_end_ppm: u32,
    /// Of a million ends of an epoch, how many cut off the power of a replica with a disk, at one
    /// of the steps by which it begins the next one.
    pub stop_at_end_ppm: u32,
    /// How long disks take, where replicas have disks.
    pub disk: DiskOptions,
    /// Whether replicas have the key-value store of production beside the simulator's own service.
    pub has_store: bool,
    /// Whether each trusted counter has one of production beside it.
    pub has_real_devices: bool,
    /// Whether there are administrators, who may change the group.
    pub has_administrators: bool,
    /// An attacker compromises each machine that has left the group.
    pub possesses: bool,
    /// Of a million machines that are to join, how many never come, or crash or lose their memory
    /// once they are members.
    pub joins_badly_ppm: u32,
    /// What clients do.
    pub workload: WorkloadOptions,
    /// Replicas that are faulty from the start, and how.
    pub byzantine: Vec<(ReplicaId, Vec<Behaviour>)>,
    /// What happens when.
    pub disturbances: Vec<(Micros, Disturbance)>,
    /// When the network heals.
    pub heal_at: Micros,
    /// See [`SimConfig::liveness_timeouts`]; 0 if liveness is not promised.
    pub liveness_timeouts: u64,
}

impl Options {
    /// The options of a seed.
    #[must_use]
    pub fn draw(rng: &mut Rng, config: &SimConfig, rules: &Rules) -> Self {
        // The world draws from streams of their own what is to change none of its other choices.
        let mut aside = rng.clone().fork();
        let mut services = Rng::new(rng.clone().next_u64().rotate_left(19));
        let byzantine = config.byzantine && rules.fault_model.lies();
        let config = &SimConfig { byzantine, ..config.clone() };
        let mut options = Self::draw_plain(rng, config, rules);
        let may = config.faults && config.byzantine && !config.hostile_only;
        if rules.speculative && may && options.hearing == 0 {
            options.draw_installs(&mut aside, config.liveness_timeouts);
        }
        if may {
            options.draw_collusion(&mut aside);
        }
        if may && !options.is_steady() {
            options.draw_habits(&mut Rng::new(services.next_u64().rotate_left(31)));
        }
        options.has_store = services.percent(STORES_PERCENT);
        let is_made = |counter| counter != Counter::Unbound;
        let has_devices = rules.counter.is_some_and(is_made) && options.device == DeviceFault::None;
        options.has_real_devices = has_devices && services.percent(DEVICES_PERCENT);
        let wanted = Wanted::draw(config.theme, &mut Rng::new(services.clone().next_u64()));
        // A group that is split keeps its configuration.
        if config.faults && !config.hostile_only && !rules.pillars {
            let mut rng = Rng::new(services.next_u64().rotate_left(43));
            options.draw_refreshes(&mut rng, config.byzantine, wanted.refreshes);
        }
        options.draw_judging(&mut Rng::new(services.next_u64().rotate_left(47)));
        options.draw_stops_at_checkpoints(&mut Rng::new(services.next_u64().rotate_left(53)));
        if config.faults && !config.hostile_only && !rules.pillars {
            options.draw_late(&mut Rng::new(services.next_u64().rotate_left(59)));
            let seed = services.next_u64();
            options.draw_replacements(&mut Rng::new(seed.rotate_left(61)), wanted.replacements);
            options.draw_switches(&mut Rng::new(seed.rotate_left(13)), wanted.switches);
            options.draw_reshapes(&mut Rng::new(seed.rotate_left(37)), wanted.reshapes);
            options.draw_machines(&mut Rng::new(seed.rotate_left(7)), config.byzantine);
        }
        options.draw_split_steps(&mut Rng::new(services.next_u64().rotate_left(17)));
        if may && config.theme.is_none() && !rules.pillars {
            let mut rng = Rng::new(services.next_u64().rotate_left(29));
            options.draw_alone(&mut rng, config.liveness_timeouts);
        }
        if !rules.fault_model.lies() {
            // Nor does a disk of theirs rot.
            options.byzantine.clear();
        }
        if options.abuses_macs() {
            options.liveness_timeouts = 0;
        }
        options
    }

    fn draw_plain(rng: &mut Rng, config: &SimConfig, rules: &Rules) -> Self {
        let readers = rng.clone();
        let f = config.f.unwrap_or(if rng.percent(66) { 1 } else { rng.range(2, 3) as usize });
        let n = rules.replicas(f);
        let clients = rng.range(1, 8) as usize;
        let outstanding = *rng.pick(&[1, 2, 4, 8, 16, 32]);
        let requests_each = config.requests.div_ceil(clients as u64);
        let heal_at = rng.range(800_000, 5_000_000);
        // With room to spare, so that most requests are submitted while things go wrong.
        let think_us = heal_at * 7 / 10 * outstanding as u64 / requests_each;
        let mut options = Self {
            f,
            n,
            pillars: 1,
            rotates: false,
            clients,
            outstanding,
            requests_each,
            think_us: think_us / outstanding as u64,
            rest_us: 0,
            tuning: draw_tuning(rng),
            timeouts: config.timeouts,
            network: NetworkOptions { latency_us: 50, jitter_us: 100, ..NetworkOptions::default() },
            hearing: 0,
            hears_late_us: 0,
            late_checkpoints: 0,
            left_alone_us: 0,
            skew_ms: 0,
            drift_ppm: 0,
            means: draw_means(rng, rules),
            hostile: Vec::new(),
            device: config.device,
            watch_devices: config.device == DeviceFault::None,
            round_us: rng.range(0, 3) * 50,
            busy_ppm: 0,
            stale_timer_ppm: 0,
            restart_at_end_ppm: 0,
            stop_at_end_ppm: 0,
            disk: DiskOptions::default(),
            has_store: false,
            has_real_devices: false,
            has_administrators: false,
            possesses: false,
            joins_badly_ppm: 0,
            workload: draw_workload(rng),
            byzantine: Vec::new(),
            disturbances: Vec::new(),
            heal_at: if config.faults { heal_at } else { 0 },
            liveness_timeouts: config.liveness_timeouts,
        };
        options.draw_faults(rng, config);
        if config.faults && config.byzantine && !config.hostile_only && rng.percent(10) {
            options.make_steady(rng);
        } else if rules.speculative && config.faults && config.byzantine && !config.hostile_only {
            options.draw_fork(rng);
            options.draw_rift(&mut rng.clone().fork());
        }
        if config.faults && config.byzantine && !config.hostile_only {
            // Before those about changing the primary, in which nothing else is wrong.
            options.draw_losses(&mut Rng::new(rng.clone().next_u64().rotate_left(7)), rules);
            options.draw_changes(&mut Rng::new(!rng.clone().next_u64()), config, rules);
        }
        options.draw_reads(&readers, config, rules);
        if rules.pillars {
            options.draw_pillars(rng, config);
        }
        options
    }

    fn draw_pillars(&mut self, rng: &mut Rng, config: &SimConfig) {
        let (pillars, rotates) = (rng.range(2, 4) as u8, rng.percent(50));
        self.pillars = config.pillars.unwrap_or(pillars);
        self.rotates = config.rotates.unwrap_or(rotates);
        let late = rng.percent(50).then(|| rng.range(1, 1_000_000));
        self.tuning.interleaving = late.unwrap_or(0);
    }

    /// What goes wrong.
    fn draw_faults(&mut self, rng: &mut Rng, config: &SimConfig) {
        if config.hostile_only {
            self.hostile = (0..rng.range(1, 3)).map(|_| Hostility::draw(rng)).collect();
        } else if config.faults {
            self.draw_network(rng);
            if config.byzantine {
                self.draw_replicas(rng);
                self.draw_hostile(rng);
            }
            self.draw_disturbances(rng);
            self.draw_restarts(rng);
            self.draw_stops(rng);
            self.draw_late_crash(rng);
            // From a stream of its own, so that nothing else of a world depends on it.
            self.workload.gives_up_ppm = draw_impatience(&mut Rng::new(rng.clone().next_u64()));
        }
    }

    /// Lets nothing go wrong but what faulty replicas do, most often the first primary, and lets
    /// clients work for long enough to see what becomes of it.
    fn make_steady(&mut self, rng: &mut Rng) {
        self.network = NetworkOptions { latency_us: 50, jitter_us: 100, ..Default::default() };
        (self.skew_ms, self.drift_ppm, self.busy_ppm, self.restart_at_end_ppm) = (0, 0, 0, 0);
        self.stop_at_end_ppm = 0;
        self.hostile.clear();
        self.disturbances.clear();
        self.means = Means::Signature;
        // A full batch is to mean a busy group: patience with primaries grows with their number.
        self.tuning.batch_requests = 512;
        // Nor is execution to wait for checkpoints that a faulty replica is late to sign.
        self.tuning.checkpoint_bytes = Tuning::default().checkpoint_bytes;
        let habits = match rng.below(6) {
            0 => Some(vec![Behaviour::Alternate, Behaviour::Liar]),
            1..=3 => {
                // Slow enough to matter, and just fast enough for those who wait for it alone.
                let least = self.timeouts.client_retry_ms * 600;
                let late = rng.range(least, self.timeouts.request_ms * 950);
                Some(vec![Behaviour::Delay { least: late, up_to: late }])
            }
            _ => None,
        };
        if let Some(habits) = habits {
            match self.byzantine.first_mut() {
                Some((_, known)) => *known = habits,
                None => self.byzantine.push((ReplicaId(0), habits)),
            }
        }
        if let Some((first, _)) = self.byzantine.first_mut().filter(|_| rng.percent(60)) {
            let before = core::mem::replace(first, ReplicaId(0));
            // Whoever was to be the faulty first one changes places with it.
            let other = self.byzantine.iter_mut().skip(1).find(|(id, _)| *id == ReplicaId(0));
            other.into_iter().for_each(|(id, _)| *id = before);
        }
        let work_us = Promptness::grace(self.f) + 6_000_000;
        self.clients = self.clients.min(4);
        self.outstanding = self.outstanding.min(8);
        self.think_us = rng.range(20_000, 50_000);
        self.requests_each = work_us / self.think_us;
        self.heal_at = 0;
    }

    /// Whether nothing goes wrong but what replicas do that are faulty from the start, and none of
    /// them has epochs end: that drops what is under way, as often as it may ask to be admitted.
    #[must_use]
    pub fn is_steady(&self) -> bool {
        let mut habits = self.byzantine.iter().flat_map(|(_, habits)| habits);
        if habits.any(|habit| matches!(habit, Behaviour::Usurp { .. })) {
            return false;
        }
        let honest = Self { byzantine: Vec::new(), ..self.clone() };
        self.hostile.is_empty() && !self.abuses_macs() && self.heal_at == 0 && honest.is_calm()
    }

    /// Whether somebody may make requests that convince some replicas only: a client with partial
    /// MACs, or a replica that spoils one in what it passes on. MACs are for those who fail by
    /// accident; then liveness is not promised.
    #[must_use]
    pub fn abuses_macs(&self) -> bool {
        let partial = self.hostile.contains(&Hostility::PartialMacs);
        self.means == Means::Macs && (partial || !self.byzantine.is_empty())
    }

    /// Whether replicas have disks: where one may crash and go on.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        let stops = |(_, it): &(Micros, Disturbance)| {
            matches!(it, Disturbance::Stop { .. } | Disturbance::Blackout { .. })
        };
        self.disturbances.iter().any(stops)
    }

    /// How far clocks are set ahead, all together.
    #[must_use]
    pub fn jumps_ms(&self) -> u64 {
        let jump = |(_, it): &(Micros, Disturbance)| match it {
            Disturbance::ClockJump(_, ms) => *ms,
            _ => 0,
        };
        self.disturbances.iter().map(jump).sum()
    }

    /// Replicas and copies of them: wherever a core runs is a place, and the first `n` places are
    /// the replicas in their order.
    #[must_use]
    pub fn places(&self) -> Vec<ReplicaId> {
        let ids = (0..self.n as u16).map(ReplicaId);
        ids.chain(self.twins()).collect()
    }

    /// The machines that are members from the start, and those that may become so, by their
    /// places.
    pub fn machines(&self) -> impl Iterator<Item = ReplicaId> + use<> {
        (0..(self.n + self.joiners()) as u16).map(ReplicaId)
    }

    /// Machines that may join the group.
    #[must_use]
    pub fn joiners(&self) -> usize {
        let takes_in = |(_, it): &&(Micros, Disturbance)| {
            matches!(it, Disturbance::Replace(_) | Disturbance::Reshape(_))
        };
        self.disturbances.iter().filter(takes_in).count()
    }

    /// How many members the group can have at most.
    #[must_use]
    pub fn largest(&self) -> usize {
        let grows = |(_, it): &&(Micros, Disturbance)| matches!(it, Disturbance::Reshape(_));
        self.n + self.disturbances.iter().filter(grows).count()
    }

    /// Whether clients have to follow the group: also to members' other keys, if they share some.
    #[must_use]
    pub fn has_to_follow(&self) -> bool {
        let shares_keys = self.means == Means::Macs;
        let has_to = |(_, it): &(Micros, Disturbance)| match it {
            Disturbance::Switch(_) => true,
            Disturbance::Refresh(_) | Disturbance::Reshape(_) => shares_keys,
            _ => false,
        };
        self.joiners() > 0 || self.disturbances.iter().any(has_to)
    }

    fn twins(&self) -> impl Iterator<Item = ReplicaId> {
        let twin = |(id, kinds): &(ReplicaId, Vec<Behaviour>)| {
            kinds.contains(&Behaviour::Twin).then_some(*id)
        };
        self.byzantine.iter().filter_map(twin)
    }

    fn draw_network(&mut self, rng: &mut Rng) {
        self.network = draw_network(rng);
        self.skew_ms = *rng.pick(&[0, 20, 200, 400]);
        self.drift_ppm = *rng.pick(&[0, 200, 5_000, 50_000]);
        self.busy_ppm = *rng.pick(&[0, 0, 1_000, 20_000]);
        self.stale_timer_ppm = *rng.pick(&[0, 50_000, 500_000]);
    }

    fn draw_replicas(&mut self, rng: &mut Rng) {
        let lies = self.device != DeviceFault::None;
        if !lies && rng.percent(35) {
            return;
        }
        let mut ids: Vec<ReplicaId> = (0..self.n as u16).map(ReplicaId).collect();
        for count in 0..rng.range(1, self.f as u64) {
            // The first primary can do most.
            let first = count == 0 && rng.percent(30);
            let index = if first { 0 } else { rng.below(ids.len() as u64) as usize };
            let behaviour =
                |rng: &mut Rng| Behaviour::draw(rng, self.n, self.clients, &self.timeouts);
            let mut behaviours = vec![behaviour(rng)];
            if rng.percent(25) {
                let second = behaviour(rng);
                behaviours.extend(Some(second).filter(|it| it.name() != behaviours[0].name()));
            }
            if lies {
                behaviours = vec![Behaviour::Twin];
            } else if self.means == Means::Session && rng.percent(30) {
                behaviours.push(Behaviour::Impostor { rate_ppm: *rng.pick(&[20_000, 300_000]) });
            }
            self.byzantine.push((ids.swap_remove(index), behaviours));
        }
    }

    fn draw_hostile(&mut self, rng: &mut Rng) {
        if rng.percent(60) {
            return;
        }
        for _ in 0..rng.range(1, 3) {
            self.hostile.push(Hostility::draw(rng));
        }
        if self.means == Means::Macs && rng.percent(50) {
            self.hostile.push(Hostility::PartialMacs);
        }
    }

    /// A replica takes of a client's connection only what is that client's. So what a client forges
    /// in another's name comes to the device of a replica only if a member passes it on: where
    /// devices are to see through that, some member does, if one may be faulty. Some worlds are
    /// about that.
    fn draw_collusion(&mut self, rng: &mut Rng) {
        if self.means != Means::Session || self.device != DeviceFault::None {
            return;
        }
        if rng.percent(15) && !self.is_calm() && !self.hostile.contains(&Hostility::Forge) {
            self.hostile.push(Hostility::Forge);
        }
        if !self.hostile.contains(&Hostility::Forge) {
            return;
        }
        let speaks = |it: &Behaviour| {
            let is_mute =
                matches!(it, Behaviour::Silent { .. } | Behaviour::Forge { alone: true, .. });
            !is_mute && !matches!(it, Behaviour::Twin | Behaviour::Rot { .. })
        };
        let habit = Behaviour::Impostor { rate_ppm: 0 };
        let able = |(_, habits): &&mut (ReplicaId, Vec<Behaviour>)| habits.iter().all(speaks);
        if let Some((_, habits)) = self.byzantine.iter_mut().find(able) {
            if !habits.iter().any(|it| it.name() == habit.name()) {
                habits.push(habit);
            }
        } else if self.byzantine.len() < self.f {
            let is_free = |id: &ReplicaId| self.byzantine.iter().all(|(known, _)| known != id);
            let free: Vec<_> = (0..self.n as u16).map(ReplicaId).filter(is_free).collect();
            self.byzantine.push((*rng.pick(&free), vec![habit]));
        }
    }

    fn draw_disturbances(&mut self, rng: &mut Rng) {
        if rng.percent(75) {
            let at = rng.range(self.heal_at / 10, self.heal_at / 2);
            let lasts = rng.range(600_000, 2_500_000);
            self.disturbances.push((at, draw_one(rng, Target::Primary, lasts)));
        }
        for _ in 0..rng.below(4) {
            let at = rng.below(self.heal_at * 9 / 10);
            let lasts = rng.range(1_000, 2_000_000);
            let disturbance = self.draw_disturbance(rng, lasts);
            self.disturbances.push((at, disturbance));
        }
        if self.twins().next().is_some() {
            // Copies that see the same do the same.
            for _ in 0..6 {
                let at = rng.below(self.heal_at * 9 / 10);
                let parts = Parts::draw(rng, self.places().len(), 2);
                let lasts = rng.range(50_000, 800_000);
                self.disturbances.push((at, Disturbance::Partition { parts, lasts }));
            }
        }
    }

    /// Some worlds in which replicas start again, most of them more than once.
    fn draw_restarts(&mut self, rng: &mut Rng) {
        if rng.percent(40) {
            return;
        }
        self.restart_at_end_ppm = *rng.pick(&[0, 100_000, 500_000]);
        // Who is faulty for good leaves less room for those who come back.
        if self.byzantine.len() == self.f && rng.percent(70) {
            self.byzantine.pop();
        }
        if rng.percent(70) {
            self.disturbances.retain(|(_, it)| !matches!(it, Disturbance::Crash(_)));
        }
        // A member is admitted again only after a while.
        let longer = rng.range(1, 3);
        self.heal_at *= longer;
        self.think_us *= longer;
        for _ in 0..rng.range(2, 8) {
            let at = rng.below(self.heal_at);
            let target = if rng.percent(40) {
                Target::Primary
            } else {
                Target::Replica(ReplicaId(rng.below(self.n as u64) as u16))
            };
            let after = *rng.pick(&[1, 20_000, 100_000, 700_000]);
            self.disturbances.push((at, Disturbance::Restart(target, after)));
        }
    }

    /// Some worlds in which replicas have disks, crash anywhere, and go on from there.
    fn draw_stops(&mut self, rng: &mut Rng) {
        if rng.percent(60) {
            return;
        }
        self.disk = DiskOptions {
            sync_us: *rng.pick(&[0, 50, 500, 2_000, 10_000]),
            slow_ppm: *rng.pick(&[0, 0, 10_000, 100_000, 200_000]),
            slow_log_ppm: 0,
            slow_us: *rng.pick(&[20_000, 200_000, 1_500_000]),
            ..DiskOptions::default()
        };
        // What its host does with a state that is not the group's depends on its disk.
        if self.byzantine.is_empty() && self.device == DeviceFault::None && rng.percent(20) {
            let rots = Behaviour::Rot { every: rng.range(20, 200) };
            self.byzantine.push((ReplicaId(rng.below(self.n as u64) as u16), vec![rots]));
        }
        for _ in 0..rng.range(1, 10) {
            let at = rng.below(self.heal_at);
            let points = rng.below(40);
            let lasts = *rng.pick(&[1, 1_000, 100_000, 900_000]);
            let any = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
            let target = if rng.percent(40) { Target::Primary } else { any };
            let failure = match rng.below(20) {
                0..3 => Failure::Disk,
                3..5 => Failure::Full,
                5..7 => Failure::Rot,
                7..9 => Failure::Misdirected,
                _ => Failure::Power,
            };
            let disturbance = match rng.below(10) {
                0..3 => Disturbance::Blackout { points, lasts },
                _ => Disturbance::Stop { target, failure, points, lasts },
            };
            self.disturbances.push((at, disturbance));
        }
    }

    /// Some worlds in which the primary fails for good when everything else is well: only those who
    /// wait for it can notice.
    fn draw_late_crash(&mut self, rng: &mut Rng) {
        if rng.percent(75) {
            return;
        }
        if self.byzantine.len() == self.f && rng.percent(50) {
            self.byzantine.pop();
        }
        self.disturbances.retain(|(_, it)| !matches!(it, Disturbance::Crash(_)));
        let at = self.heal_at + rng.below(self.heal_at / 2);
        self.disturbances.push((at, Disturbance::Crash(Target::Primary)));
        // Clients still want something then.
        self.think_us *= 2;
    }

    fn draw_disturbance(&self, rng: &mut Rng, lasts: Micros) -> Disturbance {
        let places = self.places().len();
        if rng.percent(40) {
            let part = ReplicaSet(rng.range(1, (1 << places) - 2));
            return Disturbance::Split { part, one_way: rng.percent(40), lasts };
        }
        if rng.percent(15) {
            let parts = rng.range(2, 4);
            let parts = Parts::draw(rng, places, parts);
            return Disturbance::Partition { parts, lasts };
        }
        let target = if rng.percent(30) {
            Target::Primary
        } else {
            Target::Replica(ReplicaId(rng.below(self.n as u64) as u16))
        };
        if rng.percent(10) {
            return Disturbance::ClockJump(target, rng.range(100, 3_000));
        }
        draw_one(rng, target, lasts)
    }
}

fn draw_one(rng: &mut Rng, target: Target, lasts: Micros) -> Disturbance {
    match rng.below(3) {
        0 => Disturbance::Crash(target),
        1 => Disturbance::Pause(target, lasts),
        _ => {
            let (hears, clients) = (rng.percent(30), rng.percent(50));
            Disturbance::Isolate { target, hears, clients, lasts }
        }
    }
}

fn draw_means(rng: &mut Rng, rules: &Rules) -> Means {
    match rng.below(100) {
        0..10 => Means::Macs,
        10..40 if rules.trusts_devices() => Means::Session,
        _ => Means::Signature,
    }
}

fn draw_tuning(rng: &mut Rng) -> Tuning {
    let checkpoint_slots = rng.range(4, 16);
    Tuning {
        checkpoint_slots,
        checkpoint_bytes: *rng.pick(&[300, 2_000, CHECKPOINT_BYTES, CHECKPOINT_BYTES]),
        window_slots: checkpoint_slots * rng.range(2, 4),
        batch_requests: *rng.pick(&[1, 4, 16, 64, 512]),
        proposals_in_flight: rng.range(1, 6),
        interleaving: 0,
    }
}

fn draw_workload(rng: &mut Rng) -> WorkloadOptions {
    WorkloadOptions {
        keys: *rng.pick(&[1, 4, 16, 64]),
        values: 0,
        writers: 0,
        reads_percent: *rng.pick(&[0, 20, 50]),
        queries_percent: *rng.pick(&[0, 50, 100]),
        large_ppm: *rng.pick(&[0, 0, 0, 5_000, 100_000]),
        skip_ppm: *rng.pick(&[0, 0, 50_000]),
        tells_percent: *rng.pick(&[0, 5, 30]),
        floods_ppm: *rng.pick(&[0, 0, 50_000]),
        gives_up_ppm: 0,
        judged_percent: 0,
        follow_late_ms: 0,
    }
}

/// In a quarter of the worlds applications give up what they wait for, now and then.
fn draw_impatience(rng: &mut Rng) -> u32 {
    if rng.percent(25) { *rng.pick(&[10_000, 100_000, 500_000]) } else { 0 }
}

fn draw_network(rng: &mut Rng) -> NetworkOptions {
    NetworkOptions {
        latency_us: *rng.pick(&[20, 100, 500, 2_000]),
        jitter_us: *rng.pick(&[0, 100, 1_000, 10_000]),
        loss_ppm: *rng.pick(&[0, 0, 1_000, 10_000, 50_000, 150_000]),
        duplicate_ppm: *rng.pick(&[0, 0, 10_000, 100_000]),
        straggle_ppm: *rng.pick(&[0, 0, 1_000, 20_000]),
        straggle_us: rng.range(1_000, 1_500_000),
        deviation_us: 0,
        slow_links: 0,
        slow_link_us: 0,
    }
}
