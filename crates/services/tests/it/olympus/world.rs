//! Random worlds for Olympus: replicas that order, lie, stop and lose their logs, in one epoch
//! after the other, and what has to hold.
//!
//! As in `docs/spec/Shuttle.tla` there are no messages in the chain: a correct replica orders what
//! all correct ones before it have ordered, and a batch counts as believed by a client as soon as
//! all correct members ordered it. Olympus is the real one, and has only one replica.

use super::chain::Chain;
use super::support::{
    ADMINISTRATORS, Keys, Mode, ask, configuration, identity, life, olympus, signing,
};
use crate::support::Dice;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, MemberId};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;
use pentarchy_core::service::Service;
use pentarchy_core::wire::Wire;
use pentarchy_services::olympus::{
    Answer, Link, Notice, Olympus, Operation, SECTIONS, Stage, Status,
};
use std::collections::{BTreeMap, BTreeSet};

/// Epochs that end while anything may happen.
const ROUGH_EPOCHS: u64 = 8;

/// Steps of that part at most.
const ROUGH_STEPS: u64 = 600;

/// Steps until the group has come to rest, once only liars disturb it.
const CALM_STEPS: u64 = 6_000;

/// Epochs that liars can end until they are out.
const CALM_EPOCHS: u64 = 60;

/// Steps without an accusation, after which it has come to rest.
const REST_STEPS: u64 = 12;

/// Agreed time of a step.
const STEP_MILLIS: u64 = 100;

/// What is wrong in a world.
#[derive(Debug)]
pub struct Broken {
    pub property: &'static str,
    pub how: String,
}

pub fn broken<T>(property: &'static str, how: impl Into<String>) -> Result<T, Broken> {
    Err(Broken { property, how: how.into() })
}

/// One candidate.
pub struct Replica {
    pub lies: bool,
    pub is_dead: bool,
    /// Nobody reaches it for now.
    pub is_away: bool,
    pub life: u64,
    /// How many keys it has made.
    pub keys: u64,
    /// As whom it asked to be a member, last.
    pub registered: Option<u64>,
    /// Batches that it has, durably.
    pub bodies: BTreeSet<Digest>,
    /// States that it has.
    pub states: BTreeSet<Digest>,
    /// All that it has ordered, from the first slot on, if it is a member of the epoch.
    pub ordered: Vec<Digest>,
    /// How much it ever ordered in the epoch: it may have lost that.
    pub told: usize,
    /// The slots up to which it knows a certified state; 0 if none of this epoch.
    pub stable: usize,
    pub has_stopped: bool,
}

pub struct World {
    pub dice: Dice,
    pub mode: Mode,
    pub f: usize,
    pub olympus: Olympus<Keys>,
    pub time: u64,
    pub is_calm: bool,
    pub replicas: Vec<Replica>,
    pub chain: Chain,
    /// Up to which agreed time a tail may read.
    pub lease: u64,
    /// Whether liars give away batches and states that they made up.
    pub liars_serve: bool,
    /// Whether liars, in the end, do nothing wrong but accuse.
    pub liars_are_subtle: bool,
    pub batches: u64,
    epochs: u64,
    disk: BTreeMap<u32, Vec<u8>>,
    /// Whether somebody accused somebody in this step.
    pub accused: bool,
}

impl World {
    pub fn new(seed: u64, mode: Mode) -> Self {
        let mut dice = Dice(seed);
        let f = 1 + dice.roll(2) as usize;
        let n = mode.members(f);
        let pool = if mode.lies() { 3 * f + 1 } else { 2 * f + 1 } + dice.roll(2) as usize;
        let mut liars = BTreeSet::new();
        while mode.lies() && liars.len() < f {
            liars.insert(dice.roll(pool as u64) as usize);
        }
        let replica = |member: usize| Replica {
            lies: liars.contains(&member),
            is_dead: false,
            is_away: false,
            life: 1,
            keys: 0,
            registered: (member < n).then_some(1),
            bodies: BTreeSet::new(),
            states: BTreeSet::new(),
            ordered: Vec::new(),
            told: 0,
            stable: 0,
            has_stopped: false,
        };
        let chain = Chain::first(configuration(mode, f, 1).begin(&vec![life(1); n]));
        let (liars_serve, liars_are_subtle) = (dice.roll(2) == 0, dice.roll(2) == 0);
        let mut world = Self {
            olympus: olympus(mode, f),
            replicas: (0..pool).map(replica).collect(),
            time: 1_000_000,
            is_calm: false,
            lease: 0,
            batches: 0,
            epochs: 0,
            disk: BTreeMap::new(),
            accused: false,
            dice,
            mode,
            f,
            chain,
            liars_serve,
            liars_are_subtle,
        };
        for member in n..pool {
            let enrol = Operation::Enrol {
                identity: identity(member),
                address: format!("host-{member}:1"),
            };
            ask(&mut world.olympus, ADMINISTRATORS[0], world.time, &enrol);
        }
        world
    }

    /// Lets anything happen for some epochs, and then only liars disturb.
    pub fn run(&mut self) -> Result<(), Broken> {
        let rough = 2 + self.dice.roll(ROUGH_EPOCHS - 1);
        for _ in 0..ROUGH_STEPS {
            self.step()?;
            if self.epochs >= rough {
                break;
            }
        }
        self.is_calm = true;
        self.replicas.iter_mut().for_each(|replica| replica.is_away = false);
        let (begun, mut rested) = (self.epochs, 0);
        for _ in 0..CALM_STEPS {
            self.step()?;
            let is_at_rest = !self.accused && self.status().stage == Stage::Active;
            rested = if is_at_rest { rested + 1 } else { 0 };
            if rested >= REST_STEPS {
                return Ok(());
            }
            if self.epochs - begun > CALM_EPOCHS {
                return broken("liveness", format!("{CALM_EPOCHS} epochs, and no rest"));
            }
        }
        broken("liveness", format!("in {CALM_STEPS} steps: {:?}", self.status()))
    }

    fn step(&mut self) -> Result<(), Broken> {
        self.accused = false;
        self.time += STEP_MILLIS;
        if let Stage::Accused(due) = self.status().stage {
            self.time = self.time.max(due.0);
        }
        self.ask_as(0, &Operation::Status { epoch: Epoch(0) })?;
        if !self.is_calm {
            self.disturb();
        }
        for _ in 0..self.replicas.len() {
            let member = self.dice.roll(self.replicas.len() as u64) as usize;
            let replica = &self.replicas[member];
            match (replica.lies, replica.is_dead || replica.is_away) {
                (true, _) => self.lie(member)?,
                (false, false) => self.work(member)?,
                (false, true) => {}
            }
        }
        self.check_bounds()?;
        if self.dice.roll(4) == 0 {
            self.save()?;
        }
        Ok(())
    }

    pub fn status(&self) -> Status {
        let asked = Operation::Status { epoch: self.chain.membership.epoch };
        match Answer::from_bytes(&self.olympus.query(&asked.to_bytes()).into()) {
            Ok(Answer::Status(status)) => *status,
            other => panic!("a status is answered by {other:?}"),
        }
    }

    /// Has this member's operation ordered, and looks at what Olympus tells then.
    pub fn ask_as(&mut self, member: usize, asked: &Operation) -> Result<Answer, Broken> {
        let answer = ask(&mut self.olympus, identity(member), self.time, asked);
        self.hear()?;
        Ok(answer)
    }

    pub fn hear(&mut self) -> Result<(), Broken> {
        let mut begun: Option<Link> = None;
        for event in self.olympus.take_events() {
            if let Notice::Begin(link) = Notice::from_bytes(&event.body).expect("a notice") {
                if begun.as_ref().is_some_and(|it| *it != link) {
                    return broken("once", "two links are told at once");
                }
                begun = Some(link);
            }
        }
        let Some(link) = begun else { return Ok(()) };
        self.check_lease()?;
        self.epochs += 1;
        self.begin(&link)
    }

    /// The slowest clock is behind the agreed time by what a proposal may be ahead, and by as much
    /// as clocks differ.
    fn check_lease(&self) -> Result<(), Broken> {
        let tail = self.chain.tail();
        let reads = self.time - 2 * CLOCK_SKEW_MILLIS < self.lease;
        let has_stopped = self.replicas[tail].has_stopped || !self.takes_part(tail);
        if self.mode == Mode::Leased && reads && !has_stopped {
            return broken("lease", format!("{tail} reads until {}", self.lease));
        }
        Ok(())
    }

    fn check_bounds(&self) -> Result<(), Broken> {
        let bytes: usize = (0..SECTIONS).map(|index| self.olympus.section(index).len()).sum();
        if bytes > 256 << 10 { broken("bounds", format!("{bytes} bytes of state")) } else { Ok(()) }
    }

    /// A checkpoint writes what is said to have changed: that is all that did. Then another replica
    /// goes on from it.
    fn save(&mut self) -> Result<(), Broken> {
        for index in self.olympus.changed_sections() {
            self.disk.insert(index, self.olympus.section(index));
        }
        let mut other = olympus(self.mode, self.f);
        for index in 0..SECTIONS {
            let saved = self.disk.get(&index).cloned().unwrap_or_default();
            if saved != self.olympus.section(index) {
                return broken("snapshot", format!("section {index} is not as it was saved"));
            }
            if index > 0 || !saved.is_empty() {
                other.restore_section(index, &saved).expect("what was saved");
            }
        }
        other.changed_sections();
        self.olympus = other;
        Ok(())
    }

    /// Replicas are away for a while; where they do not lie, they also stop and lose their logs.
    fn disturb(&mut self) {
        let member = self.dice.roll(self.replicas.len() as u64) as usize;
        self.replicas[member].is_away = self.dice.roll(4) == 0;
        if self.mode.lies() {
            return;
        }
        let dead = self.replicas.iter().filter(|it| it.is_dead).count();
        match self.dice.roll(12) {
            0 if dead < self.f && self.can_lose(member) => self.replicas[member].is_dead = true,
            1 | 2 if self.can_lose(member) => {
                let replica = &mut self.replicas[member];
                replica.life += 1;
                replica.bodies.clear();
                replica.states.clear();
                replica.ordered.clear();
                replica.stable = 0;
            }
            _ => {}
        }
    }

    /// No more than `f` members of an epoch fail, nor of a proposal.
    fn can_lose(&self, member: usize) -> bool {
        let proposed = self.status().proposal.map(|it| it.link.membership());
        let all = [Some(self.chain.membership.clone()), proposed];
        all.iter().flatten().all(|membership| {
            let lost = |(id, named): (usize, u64)| {
                let replica = &self.replicas[id];
                id == member || replica.is_dead || replica.life != named
            };
            let named = |it: &pentarchy_core::membership::Member| (index(it.id), it.incarnation.0);
            let is_in = membership.members.iter().any(|it| index(it.id) == member);
            !is_in || membership.members.iter().filter(|it| lost(named(it))).count() <= self.f
        })
    }

    /// Asks to be a member, under a fresh key, if it is not or is in another life.
    pub fn register(&mut self, member: usize, status: &Status) -> Result<(), Broken> {
        let standing = status.pool.iter().find(|it| index(it.member) == member);
        let replica = &mut self.replicas[member];
        let is_registered = standing.is_some_and(|it| it.is_registered);
        if is_registered && replica.registered == Some(replica.life) {
            return Ok(());
        }
        replica.keys += 1;
        replica.registered = Some(replica.life);
        let (signing, life) = (signing(member, replica.keys), life(replica.life));
        self.ask_as(member, &Operation::Register { signing, life })?;
        Ok(())
    }

    pub fn new_batch(&mut self) -> Digest {
        self.batches += 1;
        super::support::batch(self.batches)
    }
}

pub fn index(member: MemberId) -> usize {
    member.0 as usize
}
