//! The world: what really happened, who exists, and what was ever said.

use super::machine::{Control, Machine, Stage};
use super::rules::Rule;
use super::values::{
    Change, ChangeId, Client, Configuration, ConfigurationId, Entry, Epoch, Handover, HandoverId,
    Key, Life, MemberId, Proof, ProofId, Request, Roster, Secret,
};
use crate::Broken;
use fastrand::Rng;
use std::collections::BTreeSet;

/// How many machines a run may have.
const MACHINES_MAX: usize = 12;

/// What is decided about a world before its first event.
#[derive(Clone, Copy, Debug)]
pub(super) struct Setup {
    pub devices: bool,
    pub f: usize,
    /// Members of the first configuration.
    pub n: usize,
    pub calm: bool,
    pub is_early: bool,
    pub admin_stolen: bool,
    pub slow: MemberId,
}

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct World {
    /// The chance of a run. In a small case only the quiet end of a state draws from it, and always
    /// the same.
    pub rng: Rng,
    pub without: Option<usize>,
    /// Nobody is faulty and nobody crashes, and requests are ordered in time.
    pub calm: bool,
    /// The adversary takes members as soon as their keys are erased, even if nobody else holds the
    /// state yet. Then only safety is claimed.
    pub is_early: bool,
    /// The adversary has the key of one administrator.
    pub admin_stolen: bool,
    /// A machine that the scheduler hardly ever chooses.
    pub slow: MemberId,
    /// Tables by digest.
    pub configurations: Vec<Configuration>,
    pub changes: Vec<Change>,
    pub handovers: Vec<Handover>,
    /// What really happened: configurations by number, and the changes that made them (the one of
    /// number 1 first).
    pub chain: Vec<ConfigurationId>,
    pub applied: Vec<ChangeId>,
    pub epochs: Vec<Epoch>,
    pub withdrawn: Vec<ChangeId>,
    /// After which slot each operation was executed.
    pub executed: Vec<Option<u32>>,
    /// Agreed time.
    pub now: u32,
    /// What was ever sent. The network may deliver it at any time, again and again.
    pub requests: Vec<Request>,
    pub signatures: Vec<(Key, HandoverId)>,
    pub proofs: Vec<Proof>,
    pub machines: Vec<Machine>,
    pub clients: Vec<Client>,
    /// Signing keys that the adversary has.
    pub stolen: BTreeSet<Key>,
    /// Members whose open channels the adversary holds, with the configuration's number.
    pub taken_channels: Vec<(MemberId, usize)>,
    fresh: u32,
}

/// A breach.
pub(super) fn broken(property: &'static str, how: String) -> Broken {
    Broken { property, how }
}

impl World {
    /// A world as chance has it, in which some members may be faulty from the begin on.
    pub(super) fn draw(mut rng: Rng, without: Option<usize>) -> Self {
        let devices = rng.bool();
        let f = if rng.u8(0..4) == 0 { 2 } else { 1 };
        let n = Configuration::least(devices, f) + usize::from(rng.u8(0..5) == 0);
        let calm = rng.u8(0..8) == 0;
        let setup = Setup {
            devices,
            f,
            n,
            calm,
            is_early: rng.u8(0..3) == 0,
            admin_stolen: !calm && rng.bool(),
            slow: MemberId(rng.usize(0..n)),
        };
        let mut world = Self::new(&setup, rng, without);
        if !calm {
            for _ in 0..world.rng.usize(0..=f) {
                let id = MemberId(world.rng.usize(0..n));
                world.take(id);
            }
        }
        world
    }

    /// A world of which this is decided, with correct members only.
    pub(super) fn new(setup: &Setup, rng: Rng, without: Option<usize>) -> Self {
        let Setup { devices, f, n, calm, is_early, admin_stolen, slow } = *setup;
        let mut world = Self {
            without,
            calm,
            is_early,
            admin_stolen,
            slow,
            configurations: Vec::new(),
            changes: Vec::new(),
            handovers: Vec::new(),
            chain: vec![ConfigurationId(0)],
            applied: Vec::new(),
            epochs: Vec::new(),
            withdrawn: Vec::new(),
            executed: Vec::new(),
            now: 0,
            requests: Vec::new(),
            signatures: Vec::new(),
            proofs: Vec::new(),
            machines: Vec::new(),
            clients: vec![Client::default(), Client::default()],
            stolen: BTreeSet::new(),
            taken_channels: Vec::new(),
            fresh: 0,
            rng,
        };
        world.found(devices, f, n);
        world
    }

    /// The first configuration and its members.
    fn found(&mut self, devices: bool, f: usize, n: usize) {
        let secret = self.fresh_secret();
        let mut members = Vec::new();
        let mut lives = Vec::new();
        for _ in 0..n {
            let id = self.add_machine(0);
            let life = devices.then(|| self.fresh_life());
            let machine = &mut self.machines[id.0];
            machine.disk.epoch = Some(0);
            machine.disk.saved = Some(0);
            machine.memory.state = Some(0);
            machine.memory.channels.insert(0);
            machine.disk.device = life;
            machine.disk.secrets = vec![secret];
            members.push(Entry { id, signing: machine.card });
            lives.push(life);
        }
        self.configurations.push(Configuration { number: 0, devices, f, members, secret });
        let rosters = vec![Roster { now: 0, attempt: 0, pending: None }];
        let configuration = ConfigurationId(0);
        self.epochs.push(Epoch { configuration, lives, base: 0, rosters, end: None });
    }

    /// A machine with a card, if there is room for one.
    pub(super) fn new_machine(&mut self) -> Option<MemberId> {
        let has_room = self.machines.len() < MACHINES_MAX;
        has_room.then(|| self.add_machine(self.chain.len() - 1))
    }

    fn add_machine(&mut self, chain: usize) -> MemberId {
        let id = MemberId(self.machines.len());
        let card = self.fresh_key();
        self.machines.push(Machine::new(id, card, chain));
        id
    }

    pub(super) fn fresh_key(&mut self) -> Key {
        self.fresh += 1;
        Key(self.fresh)
    }

    pub(super) fn fresh_life(&mut self) -> Life {
        self.fresh += 1;
        Life::Random(self.fresh)
    }

    pub(super) fn fresh_secret(&mut self) -> Secret {
        self.fresh += 1;
        Secret(self.fresh)
    }

    pub(super) fn keeps(&self, rule: Rule) -> bool {
        self.without != Some(rule as usize)
    }

    /// The configuration in which the order goes on.
    pub(super) fn current(&self) -> ConfigurationId {
        *self.chain.last().expect("there is a first one")
    }

    /// The roster after the last slot.
    pub(super) fn roster(&self) -> &Roster {
        let last = self.epochs.last().expect("there is a first epoch");
        last.rosters.last().expect("there is the roster of the begin")
    }

    pub(super) fn configuration_of(&self, epoch: usize) -> &Configuration {
        &self.configurations[self.epochs[epoch].configuration.0]
    }

    /// Which configuration a machine believes to be in, by number.
    pub(super) fn number_at(&self, id: MemberId) -> usize {
        let disk = &self.machines[id.0].disk;
        disk.epoch.map_or(disk.chain, |epoch| self.configuration_of(epoch).number)
    }

    /// Whether a proof convinces someone in this configuration: `f + 1` of its signing keys signed
    /// (A-R2), what they signed names it (A-R3), and the next configuration is the one that they
    /// signed for (A-R4). Signatures in a proof are genuine, because nobody puts others into it.
    pub(super) fn convinces(&self, proof: &Proof, under: ConfigurationId) -> bool {
        let handover = &self.handovers[proof.handover.0];
        let configuration = &self.configurations[under.0];
        let names = handover.configuration == under || !self.keeps(Rule::LaterProof);
        let signers = proof.keys.iter().filter(|key| configuration.owns(**key)).count();
        let next = match (handover.next, proof.attached) {
            (None, _) => true,
            (Some(next), Some(attached)) => next == attached || !self.keeps(Rule::NextCompared),
            (Some(_), None) => false,
        };
        names && next && signers > configuration.f
    }

    /// How many members of a configuration are faulty, never ran, or have no device that counts.
    pub(super) fn missing(&self, configuration: &Configuration) -> usize {
        let is_missing = |entry: &&Entry| {
            let machine = &self.machines[entry.id.0];
            match machine.control {
                Control::Rules => machine.has_lost && configuration.devices,
                Control::Nobody => true,
                Control::Adversary => !machine.freed.contains(&configuration.number),
            }
        };
        configuration.members.iter().filter(is_missing).count()
    }

    /// Whether one more member may fail: in every configuration in which it would count, and in
    /// every one that administrators proposed.
    pub(super) fn may_fail(&self, id: MemberId, freed: &BTreeSet<usize>) -> bool {
        let bears = |at: &ConfigurationId| {
            let configuration = &self.configurations[at.0];
            let counts = configuration.has(id) && !freed.contains(&configuration.number);
            !counts || self.missing(configuration) < configuration.f
        };
        let bears_change = |change: &Change| {
            change.expects != self.current()
                || !change.members.contains(&id)
                || self.missing_after(change) < change.f
        };
        self.chain.iter().all(bears) && self.changes.iter().all(bears_change)
    }

    /// How many members of a proposed configuration would be missing, should it come to be.
    pub(super) fn missing_after(&self, change: &Change) -> usize {
        let is_missing = |id: &&MemberId| {
            let machine = &self.machines[id.0];
            match machine.control {
                Control::Rules => machine.has_lost,
                Control::Adversary => true,
                Control::Nobody => !change.needed.contains(id),
            }
        };
        change.members.iter().filter(is_missing).count()
    }

    /// A proof of how an epoch ended, made of what was signed.
    pub(super) fn keep_proof(&mut self, proof: Proof) -> ProofId {
        let at = self.proofs.iter().position(|it| *it == proof);
        ProofId(at.unwrap_or_else(|| {
            self.proofs.push(proof);
            self.proofs.len() - 1
        }))
    }

    /// What is executed in an epoch, and durable at its voters, stays: correct machines can bring
    /// the base of the last epoch back whatever crashes. One has it, or one has logged the slots
    /// behind an older state of the epoch before, and one has that state.
    pub(super) fn check_base(&self) -> Result<(), Broken> {
        let last = self.epochs.len() - 1;
        let base = self.epochs[last].base;
        let correct = || self.machines.iter().filter(|it| it.is_correct() && !it.is_gone);
        let saved = |least: u32| correct().any(|it| it.disk.saved.is_some_and(|at| at >= least));
        let logged = || {
            let in_it = |it: &Machine| it.disk.epoch == Some(last - 1) && it.disk.logged >= base;
            correct().any(in_it) && saved(self.epochs[last - 1].base)
        };
        if self.is_early || last == 0 || saved(base) || logged() {
            return Ok(());
        }
        let how = format!("no correct machine has the {base} slots of the base any more");
        Err(broken("durability", how))
    }

    /// Where a machine is in the chain must be where the chain really went.
    pub(super) fn check_place(
        &self,
        id: MemberId,
        handover: HandoverId,
        believed: ConfigurationId,
    ) -> Result<usize, Broken> {
        let Handover { epoch, genuine, .. } = self.handovers[handover.0];
        let real = self.epochs.get(epoch + 1).map(|next| next.configuration);
        if genuine && real == Some(believed) {
            return Ok(epoch + 1);
        }
        let how = format!("member {} begins epoch {} in another configuration", id.0, epoch + 1);
        Err(broken("configuration", how))
    }

    /// Whether a machine has done all it has to after the last end of an epoch.
    pub(super) fn is_at_rest(&self, id: MemberId) -> bool {
        self.machines[id.0].memory.stage == Stage::Running
    }
}
