//! What a replica keeps across a crash: the log and the snapshots that replicas really use, on a
//! disk that takes its time and does what disks do when the power fails.
//!
//! Beside them runs the plainest form of the rule that they are there for: how much was to be kept
//! when a message was handed over is written down, and compared with what the disk holds when the
//! message leaves, and when the replica starts again.

use crate::disk::{Fate, Faults, Kind, SimDisk};
use crate::observation::{Observation, Recovered};
use crate::rng::Rng;
use crate::swarm::Failure;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Membership;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_machine::Disk;
use pentarchy_storage::disk::DiskError;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{
    self, Backing, Entry, EntryLog, EpochStart, Job, LOG, Measured, Needed, Past, Scrubs, Stepped,
};
use pentarchy_storage::log::Options;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::Error;
use std::rc::Rc;
use std::sync::Arc;

/// Bytes of a segment of the log, few enough that a run goes through several.
const SEGMENT_BYTES: u64 = 256 << 10;

/// The same where clients send envelopes of any size: a record has to fit.
const LARGE_SEGMENT_BYTES: u64 = 2 << 20;

/// The bound of a log that fills up: what a core needs beside a state fits it more than once.
const SMALL_LOG_SEGMENTS: u64 = 8;

/// When the log has grown by so many segments, a state goes into files: soon, so that it happens.
const GROWTH_SEGMENTS: u64 = 2;

/// Operations of a disk among which it fails.
const OPERATIONS: u64 = 4;

/// Operations that a job makes, about, if so many links of the chain wait: among those the power
/// fails.
const fn operations(job: Job, links: u64) -> u64 {
    match job {
        Job::Log => 4 + 5 * links,
        Job::States => 14,
    }
}

/// What goes wrong on a disk at any time: nothing but that the power tears what it interrupts.
const FAULTS: Faults = Faults {
    write_fails: 0,
    sync_fails: 0,
    sync_lies: 0,
    folder_sync_lies: 0,
    write_misdirected: 0,
    tears_sectors: true,
    sync_us: 0,
    capacity: 0,
};

/// A replica's disk. The replica's machine writes there; the world says when that is done, and when
/// power or disk fail.
pub struct Kept {
    disk: SimDisk,
    /// A copy of it that is to be put back.
    copy: Option<SimDisk>,
    rng: Rng,
    identity: Identity,
    options: Options,
    /// The group in which the replica began.
    first: Arc<Membership>,
    stepped: Stepped,
    /// The epoch that goes on.
    membership: Arc<Membership>,
    /// One above the last entry that was to be kept.
    handed: u64,
    /// The same for each message that waits, as it was when that was handed over.
    behind: VecDeque<u64>,
    /// The same as it was when something was executed last, and for each answer to a query.
    executed_behind: u64,
    answers_behind: VecDeque<u64>,
    /// Links of the chain that were to be kept and may not be on the disk.
    links_waiting: u64,
    /// The highest of those of messages that have left.
    relied: u64,
    /// All entries below this are on the disk.
    durable: u64,
    /// The slot of the last state that the replica may have vouched for.
    vouched: Slot,
    /// Entries, sends and jobs of the disk until something fails, and what.
    fuse: Option<(u64, Failure)>,
    /// The number of the last state that is to be saved.
    saving: u64,
    /// The number of the state with which the power fails as soon as it is durable.
    fails_when_saved: Option<u64>,
    /// Entries of this step.
    in_step: u64,
    /// Of a million entries behind another one of the same step, before how many the power fails.
    split_ppm: u32,
    /// What has failed, or is about to.
    failing: Option<Failure>,
    /// Something that rotted was found at the last start.
    has_rot: bool,
    /// The replica has ended, before or in the middle of this.
    dead: Option<&'static str>,
}

/// A replica's disk, as its machine, its driver and the world have it.
pub type SharedKept = Rc<RefCell<Kept>>;

impl Kept {
    /// The disk of a replica that begins with this epoch. `large`: clients send envelopes of any
    /// size.
    #[must_use]
    pub fn new(start: EpochStart, identity: Identity, large: bool, mut rng: Rng) -> Self {
        let first = start.membership.clone();
        let disk = SimDisk::new(rng.next_u64(), FAULTS);
        let segment_bytes = if large { LARGE_SEGMENT_BYTES } else { SEGMENT_BYTES };
        let growth_bytes_max = GROWTH_SEGMENTS * segment_bytes;
        // Where states are, and how long the log is, is seen nowhere else: so it is not drawn as
        // other things are.
        let mut aside = rng.clone();
        let cold_states = aside.percent(50);
        let bytes_max =
            if aside.percent(50) { SMALL_LOG_SEGMENTS * segment_bytes } else { 1 << 30 };
        let rest = Options::new([7; 32]);
        let options = Options { segment_bytes, bytes_max, growth_bytes_max, cold_states, ..rest };
        let kept = kept::Kept::create_in(&mut *disk.root(), identity, start, options);
        let kept = kept.expect("a disk that works");
        let durable = kept.durable();
        Self {
            disk,
            copy: None,
            rng,
            identity,
            options,
            membership: first.clone(),
            first,
            stepped: Stepped::new(kept),
            handed: durable,
            behind: VecDeque::new(),
            executed_behind: durable,
            answers_behind: VecDeque::new(),
            links_waiting: 0,
            relied: durable,
            durable,
            vouched: Slot(0),
            fuse: None,
            saving: 0,
            fails_when_saved: None,
            in_step: 0,
            split_ppm: 0,
            failing: None,
            has_rot: false,
            dead: None,
        }
    }

    /// Has power or disk fail after so many more entries, sends and jobs of the disk.
    pub fn fail_after(&mut self, points: u64, failure: Failure) {
        self.copy = (failure == Failure::PutBack).then(|| self.disk.copy());
        self.fuse = Some((points, failure));
    }

    /// Has the power fail as soon as the last state that was handed over is durable.
    pub const fn fail_when_saved(&mut self) {
        self.fails_when_saved = Some(self.saving);
    }

    /// The replica's next step begins. Of a million entries that it keeps behind another one of the
    /// same step, the power fails before so many.
    pub const fn begin_step(&mut self, split_ppm: u32) {
        (self.in_step, self.split_ppm) = (0, split_ppm);
    }

    /// There is room on the disk from now on.
    pub fn make_room(&mut self) {
        if self.failing == Some(Failure::Full) && !self.is_dead() {
            self.disk.set_faults(FAULTS);
            self.failing = None;
        }
    }

    /// Whether power or disk have failed: the replica has ended.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.dead.is_some()
    }

    /// Before or in the middle of what it ended.
    #[must_use]
    pub const fn died_at(&self) -> Option<&'static str> {
        self.dead
    }

    /// Whether there is a state of this epoch on the disk to go on from.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let base = self.membership.base.slot;
        let saved = self.stepped.newest();
        base == Slot(0) || saved.is_some_and(|saved| saved >= base)
    }

    /// One more thing that a crash can come before. False if it did.
    pub fn survives(&mut self, point: &'static str) -> bool {
        let Some((left, failure)) = self.fuse.filter(|_| !self.is_dead()) else {
            return !self.is_dead();
        };
        self.fuse = Some((left.saturating_sub(1), failure));
        if left > 0 {
            return true;
        }
        self.fuse = None;
        if failure == Failure::Full && self.failing == Some(Failure::Disk) {
            // It is about to fail at some operation, whatever room there is.
            return true;
        }
        self.failing = Some(failure);
        match failure {
            Failure::Power | Failure::Rot | Failure::Misdirected | Failure::PutBack => {
                self.lose_power(point);
            }
            Failure::Disk => {
                let operation = self.disk.operations() + self.rng.below(OPERATIONS);
                self.disk.choose(operation, Fate::Fails);
            }
            Failure::Full => {
                let capacity = self.disk.used() + self.rng.below(self.options.segment_bytes / 4);
                self.disk.set_faults(Faults { capacity, ..FAULTS });
            }
        }
        !self.is_dead()
    }

    /// The power fails. What the disk is about, it has done up to some operation: before the first,
    /// in the middle of one, or behind the last, which nobody has heard of then.
    fn lose_power(&mut self, point: &'static str) {
        let mut jobs = Job::ALL;
        if self.rng.percent(50) {
            jobs.reverse();
        }
        for job in jobs {
            let stepped = &mut self.stepped;
            // What waits may just have been begun.
            let busy = stepped.is_busy(job) || (self.rng.percent(50) && stepped.begin(job));
            if busy && self.disk.stopped_in().is_none() {
                let operations = operations(job, self.links_waiting);
                let operation = self.disk.operations() + self.rng.below(operations);
                self.disk.choose(operation, Fate::Stops);
                // It fails where it was stopped, and nobody is left to be told.
                let _ = stepped.end(job);
            }
        }
        self.dead = Some(match self.disk.stopped_in() {
            Some(Kind::Write) => "write",
            Some(Kind::Sync) => "sync",
            Some(Kind::Name) => "name",
            Some(Kind::FolderSync) => "folder_sync",
            None => point,
        });
    }

    /// The machine ended because of its disk, which fails only if the world has it fail.
    pub fn on_failure(&mut self, error: &StorageError) {
        if !self.is_dead() {
            assert!(self.failing.is_some(), "{}: {error}", self.identity.replica);
            self.dead = Some("failure");
        }
    }

    /// The machine ended, as the disk is older than what others saw of the replica.
    pub const fn on_rewound(&mut self) {
        self.dead = Some("rewound");
    }

    /// A message of the core was handed over.
    pub fn holds(&mut self) {
        self.behind.push_back(self.handed);
    }

    /// Whether all that was handed over is on the disk.
    pub const fn has_all(&self) -> bool {
        self.handed == self.durable
    }

    /// A message leaves. None if the power fails just before.
    pub fn leaves(&mut self) -> Option<Observation> {
        let behind = self.behind.pop_front().unwrap_or(self.handed);
        self.survives("send").then(|| self.relies_on(behind))
    }

    /// An answer to a client was handed over.
    pub fn holds_answer(&mut self) {
        self.answers_behind.push_back(self.executed_behind);
    }

    /// An answer to a client leaves.
    pub fn answers(&mut self) -> Observation {
        let behind = self.answers_behind.pop_front().unwrap_or(self.executed_behind);
        self.relies_on(behind)
    }

    fn relies_on(&mut self, behind: u64) -> Observation {
        self.relied = self.relied.max(behind);
        Observation::Left { behind, durable: self.durable }
    }

    /// What clients are told from now on rests on all that was handed over.
    pub fn executed_something(&mut self) {
        self.executed_behind = self.handed;
    }

    /// The replica vouches for the state of a slot.
    pub fn vouches(&mut self, slot: Slot) -> Observation {
        self.vouched = self.vouched.max(slot);
        Observation::Rests { slot, saved: self.stepped.newest() }
    }

    /// Hands something over to be written, unless the power has failed or fails just before.
    fn hands<T>(
        &mut self,
        point: &'static str,
        act: impl FnOnce(&mut Stepped) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if self.in_step > 0 && self.split_ppm > 0 && self.rng.chance(self.split_ppm) {
            self.fail_after(0, Failure::Power);
        }
        if !self.survives(point) {
            return Err(gone());
        }
        self.in_step += 1;
        let before = self.stepped.next();
        let done = act(&mut self.stepped)?;
        let next = self.stepped.next();
        if next > before {
            self.handed = next;
        }
        Ok(done)
    }

    fn save(&mut self, snapshot: Snapshot) -> Result<u64, StorageError> {
        let slot = snapshot.slot;
        let number = self.hands("save", |stepped| stepped.save(snapshot))?;
        self.saving = number;
        if slot <= self.vouched {
            // Those from there on were wrong.
            self.vouched = Slot(slot.0.saturating_sub(1));
        }
        Ok(number)
    }

    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        self.behind.clear();
        self.answers_behind.clear();
        let membership = start.membership.clone();
        self.links_waiting += start.links.len() as u64;
        let number = self.hands("entry", |stepped| stepped.begin_epoch(start))?;
        self.membership = membership;
        Ok(number)
    }

    /// Reads something, unless the power has failed.
    fn reads<T>(
        &self,
        act: impl FnOnce(&Stepped) -> Result<T, StorageError>,
    ) -> Result<T, StorageError> {
        if self.is_dead() { Err(gone()) } else { act(&self.stepped) }
    }

    /// Begins a job of the disk, if there is one to begin.
    pub fn begin(&mut self, job: Job) -> bool {
        !self.is_dead() && self.stepped.begin(job)
    }

    /// Ends a job of the disk: what it was about is done now, unless something fails.
    pub fn end(&mut self, job: Job) {
        if !self.survives("job") {
            return;
        }
        if let Err(error) = self.stepped.end(job) {
            return self.on_failure(&error);
        }
        if !self.disk.is_dirty(LOG) {
            self.durable = self.stepped.durable().unwrap_or(self.durable);
        }
        if job == Job::Log {
            self.links_waiting = 0;
        }
        let is_saved = |number| self.stepped.saved().is_ok_and(|saved| saved >= number);
        if self.fails_when_saved.take_if(|number| is_saved(*number)).is_some() {
            self.fail_after(0, Failure::Power);
        }
        self.survives("done");
    }

    /// The disk when the replica starts again: of what was not synced, a part made it nevertheless.
    /// None if it does not find what it needs, which it may not if something has rotted.
    pub fn recover(&mut self, may_rot: bool) -> Option<(Recovered, Past)> {
        let had = self.stepped.newest().unwrap_or_default();
        let failure = self.failing.take();
        self.disk.set_faults(FAULTS);
        match failure {
            Some(Failure::Disk | Failure::Full) if self.rng.percent(50) => self.disk.restart(),
            _ => self.disk.lose_power(),
        }
        let copy = self.copy.take().filter(|_| may_rot && failure == Some(Failure::PutBack));
        let is_old = copy.is_some();
        if let Some(copy) = copy {
            copy.set_faults(FAULTS);
            self.disk = copy;
        }
        let rots = match failure {
            _ if is_old => true,
            Some(Failure::Rot) if may_rot => self.rot(),
            Some(Failure::Misdirected) if may_rot => self.disk.misdirect(),
            _ => false,
        };
        let opened =
            kept::Kept::open(&mut *self.disk.root(), self.identity, &self.first, self.options);
        match opened {
            Ok((kept, past)) if past.is_whole() || !rots => {
                // What rotted before stays on the disk until a newer state is in files.
                let damaged = past.damaged.first().filter(|_| !rots && !self.has_rot);
                assert!(damaged.is_none(), "{}: {damaged:?}", self.identity.replica);
                self.has_rot = !past.damaged.is_empty();
                let (relied, found) = (self.relied, kept.next());
                let has = past.snapshot().map_or(Slot(0), |newest| newest.slot);
                let vouched = std::mem::replace(&mut self.vouched, has);
                (self.handed, self.relied, self.durable) = (found, found, found);
                (self.executed_behind, self.links_waiting) = (found, 0);
                self.behind.clear();
                self.answers_behind.clear();
                self.membership = past.membership.clone();
                self.stepped = Stepped::new(kept);
                (self.fuse, self.fails_when_saved, self.dead) = (None, None, None);
                self.begin_step(0);
                Some((Recovered { had, relied, found, vouched, has, rots, is_old }, past))
            }
            Err(error) if !rots => {
                panic!("{} cannot read its disk: {error}", self.identity.replica)
            }
            _ => None,
        }
    }

    /// A bit flips somewhere.
    fn rot(&mut self) -> bool {
        let paths = self.disk.paths();
        let path = self.rng.pick(&paths);
        let mut content = self.disk.content(path);
        // Most of a file may be room that is not used yet.
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        if used > 0 {
            content[self.rng.below(used) as usize] ^= 1 << self.rng.below(8);
            self.disk.tamper(path, Some(content));
        }
        used > 0
    }
}

/// Why nothing is written any more.
fn gone() -> StorageError {
    let (operation, path) = ("write", String::new());
    let source = Error::other("the power has failed");
    StorageError::Disk(Arc::new(DiskError { operation, path, source }))
}

/// A replica's disk, for its machine.
pub struct KeptDisk(pub SharedKept);

impl EntryLog for KeptDisk {
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError> {
        self.0.borrow_mut().hands("entry", |stepped| stepped.append(entry))
    }
    fn next(&self) -> u64 {
        self.0.borrow().stepped.next()
    }
    fn durable(&self) -> Result<u64, StorageError> {
        self.0.borrow().reads(Stepped::durable)
    }
    fn full(&self) -> Option<u64> {
        self.0.borrow().stepped.full()
    }
    fn is_behind(&self) -> bool {
        self.0.borrow().stepped.is_behind()
    }
}

impl Backing for KeptDisk {
    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        self.0.borrow_mut().begin_epoch(start)
    }
    fn save(&mut self, snapshot: Snapshot) -> Result<u64, StorageError> {
        self.0.borrow_mut().save(snapshot)
    }
    fn saved(&self) -> Result<u64, StorageError> {
        self.0.borrow().reads(Stepped::saved)
    }
    fn begin_cut(&mut self) {
        self.0.borrow_mut().stepped.begin_cut();
    }
    fn asks_again(&mut self) -> Option<Slot> {
        let mut kept = self.0.borrow_mut();
        if kept.is_dead() { None } else { kept.stepped.asks_again() }
    }
    fn stable(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<(), StorageError> {
        let mut kept = self.0.borrow_mut();
        if kept.is_dead() { Err(gone()) } else { kept.stepped.stable(slot, needed) }
    }
}

/// The world says when jobs of the disk begin and end, so the machine does not have it write.
impl Disk for KeptDisk {
    fn write(&mut self) {}
    fn has_state_for_log(&self) -> bool {
        false
    }
    fn measured(&mut self) -> Measured {
        Measured::default()
    }
    fn scrubs(&mut self) -> Scrubs {
        self.0.borrow_mut().stepped.scrubs()
    }
    fn cooled(&mut self) -> Option<Snapshot> {
        self.0.borrow_mut().stepped.cooled()
    }
    fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        self.0.borrow_mut().stepped.repair(states);
    }
    fn newest(&self) -> Option<Slot> {
        self.0.borrow().stepped.newest()
    }
}
