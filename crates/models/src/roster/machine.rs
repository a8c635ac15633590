//! A machine: what is on its disk, what is in its memory, and what a crash leaves.

use super::values::{ChangeId, HandoverId, Key, Life, MemberId, ProofId, Secret};
use std::collections::{BTreeMap, BTreeSet};

/// Who decides what a machine does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Control {
    /// The rules.
    Rules,
    /// The adversary.
    Adversary,
    /// Nobody: it never ran.
    Nobody,
}

/// What a member made for a change, in a folder of its own.
#[derive(Clone, Copy, Debug)]
pub(super) struct Prepared {
    pub change: ChangeId,
    pub key: Key,
    /// Its device has chosen it, and not certified anything under it.
    pub life: Option<Life>,
    pub secret: Secret,
}

/// What survives a crash.
#[derive(Clone, Debug, Default)]
pub(super) struct Disk {
    /// Number of the last configuration in its chain.
    pub chain: usize,
    /// The proof of that last link, while the log does not say yet that its epoch began.
    pub link: Option<ProofId>,
    /// The epoch of the log; none in a machine that has not begun any.
    pub epoch: Option<usize>,
    /// The last snapshot: slots of all epochs that are in it.
    pub saved: Option<u32>,
    /// Slots up to here are in the log of this epoch.
    pub logged: u32,
    /// The signing key in use.
    pub current: Option<Key>,
    /// Keys that were in use before, and are not erased yet.
    pub old: Vec<Key>,
    pub prepared: Vec<Prepared>,
    pub secrets: Vec<Secret>,
    /// Number of the configuration before which all keys are erased.
    pub erased: usize,
    /// Which life its device has; none after it lost its device.
    pub device: Option<Life>,
    /// Number of the configuration that its file names.
    pub file: usize,
}

/// Where a machine is on its way into the next epoch.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Stage {
    #[default]
    Running,
    /// It has the proof of its epoch's end.
    Proved(ProofId),
    /// The link is durable, the log still in the epoch before.
    Linked(ProofId),
    /// The log is in the epoch; the folder has the keys of two configurations.
    Logged,
    /// The new keys are in use.
    Adopted,
    /// Its channels are re-keyed; old keys and secrets are to be erased.
    Rekeyed,
}

/// What a crash takes.
#[derive(Clone, Debug, Default)]
pub(super) struct Memory {
    /// Slots of all epochs that are executed; none while it has no state.
    pub state: Option<u32>,
    pub stage: Stage,
    /// Votes for the end of its epoch, by index.
    pub votes: BTreeMap<usize, HandoverId>,
    pub voted: bool,
    /// Members of the configuration that removed it which hold the base.
    pub settled: BTreeSet<MemberId>,
    /// Indexes whose false word about its epoch it counted.
    pub heard: BTreeSet<usize>,
    /// Words about a later epoch, kept until it begins: the epoch, and the index if it was mapped
    /// before the epoch was compared.
    pub early: Vec<(usize, Option<usize>, MemberId)>,
    /// Numbers of the configurations for which it holds keys of open channels.
    pub channels: BTreeSet<usize>,
}

/// A machine, which is one member for ever.
#[derive(Clone, Debug)]
pub(super) struct Machine {
    pub id: MemberId,
    pub control: Control,
    pub is_up: bool,
    /// It exited for ever, having been removed.
    pub is_gone: bool,
    /// The signing key that its card names.
    pub card: Key,
    /// Its device lost its life, and no epoch that it began admits another one yet.
    pub has_lost: bool,
    /// By number: configurations for which it no longer counts among the faulty, because it erased
    /// its keys before the adversary took it.
    pub freed: BTreeSet<usize>,
    pub disk: Disk,
    pub memory: Memory,
}

impl Machine {
    pub(super) fn new(id: MemberId, card: Key, chain: usize) -> Self {
        let disk =
            Disk { chain, erased: chain, file: chain, current: Some(card), ..Disk::default() };
        Self {
            id,
            control: Control::Rules,
            is_up: true,
            is_gone: false,
            card,
            has_lost: false,
            freed: BTreeSet::new(),
            disk,
            memory: Memory::default(),
        }
    }

    pub(super) fn is_correct(&self) -> bool {
        self.control == Control::Rules
    }

    pub(super) fn is_faulty(&self) -> bool {
        self.control == Control::Adversary
    }

    /// Whether it follows the rules, and a process of it runs.
    pub(super) fn works(&self) -> bool {
        self.is_correct() && self.is_up && !self.is_gone
    }

    /// Whether its core runs this epoch: from the moment at which the log says so. While the link
    /// into the next one is durable and the log not, the core of the ended epoch is still there.
    pub(super) fn runs(&self, epoch: usize) -> bool {
        self.works() && self.disk.epoch == Some(epoch) && self.memory.state.is_some()
    }

    /// All signing keys that it has.
    pub(super) fn keys(&self) -> impl Iterator<Item = Key> + '_ {
        let prepared = self.disk.prepared.iter().map(|it| it.key);
        self.disk.current.into_iter().chain(self.disk.old.iter().copied()).chain(prepared)
    }

    pub(super) fn holds(&self, key: Key) -> bool {
        self.keys().any(|it| it == key)
    }

    /// Whether its device has a life that it can lose.
    pub(super) fn has_life(&self) -> bool {
        self.disk.device.is_some() && !self.has_lost
    }

    /// The state that it has after a crash: the last snapshot, and what the log adds to it.
    pub(super) fn recoverable(&self) -> Option<u32> {
        self.disk.saved.map(|saved| saved.max(self.disk.logged))
    }

    /// In a new epoch its device runs the life that the epoch admits, if it prepared that one or
    /// runs it already. A life that follows from names it may start once, in a new configuration.
    pub(super) fn start_device(&mut self, admits: Option<Life>, devices: bool, is_new: bool) {
        let prepared = self.disk.prepared.iter().any(|it| it.life.is_some() && it.life == admits);
        let named = matches!(admits, Some(Life::Named(..))) && is_new;
        if prepared || named {
            self.disk.device = admits;
        }
        if !devices {
            self.disk.device = None;
        }
        if self.disk.device == admits {
            self.has_lost = false;
        }
    }

    /// Its device is lost, with all lives that it had or was to have: the member has to ask to be
    /// admitted by another one, and counts again when it is.
    pub(super) fn lose_life(&mut self) {
        self.has_lost = true;
        self.disk.device = None;
        self.disk.prepared.iter_mut().for_each(|it| it.life = None);
    }

    /// The process ends. It starts again when the scheduler says so. `has_newer` says whether the
    /// epoch's configuration is newer than the keys that were erased.
    pub(super) fn crash(&mut self, has_newer: bool) {
        let stage = match self.disk.link {
            Some(proof) => Stage::Linked(proof),
            None if has_newer => Stage::Logged,
            None => Stage::Running,
        };
        self.is_up = false;
        self.memory = Memory { state: self.recoverable(), stage, ..Memory::default() };
    }
}
