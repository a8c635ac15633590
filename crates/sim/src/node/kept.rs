//! What a replica keeps across a crash, and what waits for that: the [`DurableStore`], the log and
//! the snapshots that replicas really use, on a disk that takes its time and does what disks do
//! when the power fails.
//!
//! Beside them runs the plainest form of the rule that they are there for: how much was to be kept
//! when a message was handed over is written down, and compared with what the disk holds when the
//! message leaves, and when the replica starts again.

use super::Observation;
use crate::devices::SimDevices;
use crate::disk::{Fate, Faults, Kind, SimDisk};
use crate::rng::Rng;
use crate::swarm::Failure;
use pentarchy_core::auth::Auth;
use pentarchy_core::counter::{Instance, Memory as DeviceMemory, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Epochs, Proof};
use pentarchy_core::erased::{CoreEffect, Outgoing};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::Memory;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{
    self, Certificates, DurableStore, EntryLog as _, Job, LOG, Past, Stepped, Then,
};
use pentarchy_storage::log::Options;
use std::collections::VecDeque;
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

/// Operations that a job makes, about: among those the power fails.
const fn operations(job: Job) -> u64 {
    match job {
        Job::Log => 4,
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

/// What a replica found when it started again.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// The slot up to which it had states, and may have vouched for them.
    pub had: Slot,
    /// Others may rely on all entries below this, ...
    pub relied: u64,
    /// ... and all below this are there.
    pub found: u64,
    /// Others may rely on its having the state of this slot, or of a later one, ...
    pub vouched: Slot,
    /// ... and it has this one.
    pub has: Slot,
    /// Something was damaged meanwhile.
    pub rots: bool,
}

/// A replica's disk.
pub struct Kept {
    disk: SimDisk,
    rng: Rng,
    identity: Identity,
    options: Options,
    /// The group as it began.
    first: Arc<Membership>,
    keeper: DurableStore<Stepped>,
    /// What was there when the replica started, until it has been taken up.
    opened: Option<kept::Kept>,
    past: Option<Past>,
    /// The epoch that goes on.
    membership: Arc<Membership>,
    /// One above the last entry that was to be kept.
    handed: u64,
    /// The same for each message that waits, as it was when that was handed over.
    behind: VecDeque<u64>,
    /// The same as it was when something was executed last, and for each answer to a query.
    executed_behind: u64,
    answers_behind: VecDeque<u64>,
    /// The highest of those of messages that have left.
    relied: u64,
    /// All entries below this are on the disk.
    durable: u64,
    /// The state that was handed over last, and the slot of the last one that the replica was told
    /// it may vouch for.
    last_state: Option<Base>,
    vouched: Slot,
    /// Entries, sends and jobs of the disk until something fails, and what.
    fuse: Option<(u64, Failure)>,
    /// What has failed, or is about to.
    failing: Option<Failure>,
    /// Something that rotted was found at the last start.
    has_rot: bool,
    /// The replica has ended, before or in the middle of this.
    dead: Option<&'static str>,
}

impl Kept {
    /// The disk of a replica that begins, in a group that began with these members. `large`:
    /// clients send envelopes of any size.
    #[must_use]
    pub fn new(first: Arc<Membership>, identity: Identity, large: bool, mut rng: Rng) -> Self {
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
        let kept = kept::Kept::create(&mut *disk.root(), identity, first.clone(), options);
        let kept = kept.expect("a disk that works");
        let durable = kept.durable();
        Self {
            disk,
            rng,
            identity,
            options,
            membership: first.clone(),
            first,
            keeper: DurableStore::new(Stepped::new(kept), None, Certificates::default()),
            opened: None,
            past: None,
            handed: durable,
            behind: VecDeque::new(),
            executed_behind: durable,
            answers_behind: VecDeque::new(),
            relied: durable,
            durable,
            last_state: None,
            vouched: Slot(0),
            fuse: None,
            failing: None,
            has_rot: false,
            dead: None,
        }
    }

    /// Has power or disk fail after so many more entries, sends and jobs of the disk.
    pub const fn fail_after(&mut self, points: u64, failure: Failure) {
        self.fuse = Some((points, failure));
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
        let saved = self.keeper.backing().newest();
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
            Failure::Power | Failure::Rot | Failure::Misdirected => self.lose_power(point),
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
            let backing = self.keeper.backing_mut();
            // What waits may just have been begun.
            let busy = backing.is_busy(job) || (self.rng.percent(50) && backing.begin(job));
            if busy && self.disk.stopped_in().is_none() {
                let operation = self.disk.operations() + self.rng.below(operations(job));
                self.disk.choose(operation, Fate::Stops);
                // It fails where it was stopped, and nobody is left to be told.
                let _ = backing.end(job);
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

    /// Does something that fails only if the disk has failed: then the replica ends, whatever else
    /// it may have in mind, and this gives nothing.
    fn tries<T>(
        &mut self,
        act: impl FnOnce(&mut DurableStore<Stepped>) -> Result<T, StorageError>,
    ) -> Option<T> {
        if self.is_dead() {
            return None;
        }
        match act(&mut self.keeper) {
            Ok(done) => Some(done),
            Err(error) if self.failing.is_none() => panic!("{}: {error}", self.identity.replica),
            Err(_) => {
                self.dead = Some("failure");
                None
            }
        }
    }

    /// The same for what hands entries over.
    fn hands<T>(
        &mut self,
        act: impl FnOnce(&mut DurableStore<Stepped>) -> Result<T, StorageError>,
    ) -> Option<T> {
        let before = self.keeper.backing().next();
        let done = self.tries(act);
        let next = self.keeper.backing().next();
        if next > before {
            self.handed = next;
        }
        done
    }

    /// See [`Barrier::hold`](kept::Barrier::hold).
    pub fn hold(&mut self, effect: CoreEffect) -> Option<CoreEffect> {
        let leaves = matches!(effect, CoreEffect::Send { .. } | CoreEffect::Relay { .. });
        let is_kept = leaves || matches!(effect, CoreEffect::Persist(_));
        if is_kept && !self.survives("entry") {
            return None;
        }
        let effect = self.hands(|keeper| keeper.barrier_mut().hold(effect))?;
        if leaves {
            self.behind.push_back(self.handed);
        }
        effect
    }

    /// Whether messages wait for the disk that their receivers have not been sent.
    #[must_use]
    pub fn holds_messages(&self) -> bool {
        self.keeper.barrier().waiting_messages() > 0
    }

    /// A message leaves. None if the power fails just before.
    pub fn leaves(&mut self) -> Option<Observation> {
        let behind = self.behind.pop_front().unwrap_or(self.handed);
        self.survives("send").then(|| self.relies_on(behind))
    }

    /// An answer to a query leaves.
    pub fn answers(&mut self) -> Observation {
        let behind = self.answers_behind.pop_front().unwrap_or(self.executed_behind);
        self.relies_on(behind)
    }

    fn relies_on(&mut self, behind: u64) -> Observation {
        self.relied = self.relied.max(behind);
        Observation::Left { behind, durable: self.durable }
    }

    /// The certificate that the device gave to a statement before the crash.
    #[must_use]
    pub fn certified(&self, outgoing: &Outgoing) -> Option<Ui> {
        let Auth::Usig(instance, position) = outgoing.auth else { return None };
        self.keeper.barrier().certified(instance, position, &outgoing.digest)
    }

    /// See [`DurableStore::hold_answer`].
    pub fn hold_answer(&mut self, client: ClientId, answer: ToClient) -> Option<ToClient> {
        self.answers_behind.push_back(self.executed_behind);
        self.keeper.hold_answer(client, answer)
    }

    /// See [`DurableStore::executed`].
    pub fn executed_something(&mut self) {
        self.executed_behind = self.handed;
        self.keeper.executed();
    }

    /// See [`Barrier::loops`](kept::Barrier::loops).
    pub fn loops(&mut self, event: u64, ui: Ui, digest: Digest) {
        self.keeper.barrier_mut().loops(event, ui, digest);
    }

    /// Looks how far the disk has come. False if the replica has ended.
    pub fn look(&mut self) -> bool {
        self.tries(DurableStore::look).is_some()
    }

    /// Takes what the disk has of states into the executor's, and mends what it could not read.
    pub fn mend(&mut self, executor: &mut Executor) {
        let backing = self.keeper.backing_mut();
        // First: what is mended must not be left to files again that have rotted.
        if let Some(cooled) = backing.cooled() {
            executor.cool(&cooled.tree);
        }
        let scrubs = backing.scrubs();
        for (first, last) in scrubs.sections {
            executor.mend(first..=last);
        }
        if !scrubs.problems.is_empty() {
            backing.repair(executor.kept().cloned());
        }
    }

    /// See [`Barrier::next_message`](kept::Barrier::next_message).
    pub fn next_message(&mut self) -> Option<CoreEffect> {
        if self.is_dead() { None } else { self.keeper.barrier_mut().next_message() }
    }

    /// See [`DurableStore::next_answer`].
    pub fn next_answer(&mut self) -> Option<(ClientId, ToClient)> {
        if self.is_dead() { None } else { self.keeper.next_answer() }
    }

    /// See [`DurableStore::next_saved`].
    pub fn next_saved(&mut self) -> Option<Then> {
        let then = self.tries(DurableStore::next_saved).flatten();
        let slot = match &then {
            Some(Then::Checkpointed { slot, .. } | Then::Installed { slot }) => *slot,
            Some(Then::Ended(handover)) => handover.base.slot,
            None => Slot(0),
        };
        self.vouched = self.vouched.max(slot);
        then
    }

    /// What is done now because the state of a slot is durable.
    #[must_use]
    pub fn rests_on(&self, slot: Slot) -> Observation {
        Observation::Rests { slot, saved: self.keeper.backing().newest() }
    }

    /// See [`DurableStore::drops`].
    #[must_use]
    pub fn drops(&self, output: &Output) -> bool {
        self.keeper.drops(output)
    }

    /// See [`DurableStore::is_ending`].
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.keeper.is_ending()
    }

    /// See [`DurableStore::save`].
    pub fn save(&mut self, snapshot: &Snapshot, then: Then) {
        if self.survives("save") {
            let state = Base { slot: snapshot.slot, state: snapshot.digest };
            if self.last_state.replace(state) != Some(state) && state.slot <= self.vouched {
                // Those from there on were wrong.
                self.vouched = Slot(state.slot.0.saturating_sub(1));
            }
            self.hands(|keeper| keeper.save(snapshot, then));
        }
    }

    /// See [`DurableStore::asks_again`].
    pub fn asks_again(&mut self) -> Option<Slot> {
        if self.is_dead() { None } else { self.keeper.asks_again() }
    }

    /// See [`DurableStore::stable`].
    pub fn stable(&mut self, slot: Slot, devices: Vec<(Instance, DeviceMemory)>, taken: u64) {
        self.hands(|keeper| keeper.stable(slot, devices, taken));
    }

    /// See [`DurableStore::stable_in_parts`].
    pub fn stable_in_parts(&mut self, slot: Option<Slot>, parts: u8) {
        self.keeper.stable_in_parts(slot, parts);
    }

    /// See [`DurableStore::keeps_again`].
    pub fn keeps_again(
        &mut self,
        part: u8,
        is_done: bool,
        devices: Vec<(Instance, DeviceMemory)>,
        taken: u64,
    ) {
        self.hands(|keeper| keeper.keeps_again(part, is_done, devices, taken));
    }

    /// See [`DurableStore::end_of_step`].
    pub fn end_of_step(&mut self) {
        self.tries(DurableStore::end_of_step);
    }

    /// See [`DurableStore::begin_epoch`].
    pub fn begin_epoch(&mut self, epochs: &Epochs, fetches: bool) {
        let (membership, proof) = (epochs.membership().clone(), epochs.proof().cloned());
        self.behind.clear();
        self.answers_behind.clear();
        self.membership = membership.clone();
        self.handed = self.keeper.backing().next() + 1;
        self.tries(|keeper| keeper.begin_epoch(membership, proof, fetches));
    }

    /// Begins a job of the disk, if there is one to begin.
    pub fn begin(&mut self, job: Job) -> bool {
        !self.is_dead() && self.keeper.backing_mut().begin(job)
    }

    /// Ends a job of the disk: what it was about is done now, unless something fails.
    pub fn end(&mut self, job: Job) {
        if !self.survives("job") {
            return;
        }
        self.tries(|keeper| keeper.backing_mut().end(job));
        if !self.is_dead() && !self.disk.is_dirty(LOG) {
            self.durable = self.keeper.backing().durable().unwrap_or(self.durable);
        }
        self.survives("done");
    }

    /// The disk when the replica starts again: of what was not synced, a part made it nevertheless.
    /// None if it does not find what it needs, which it may not if something has rotted.
    pub fn recover(&mut self, may_rot: bool) -> Option<Recovered> {
        let had = self.keeper.backing().newest().unwrap_or_default();
        let failure = self.failing.take();
        self.disk.set_faults(FAULTS);
        match failure {
            Some(Failure::Disk | Failure::Full) if self.rng.percent(50) => self.disk.restart(),
            _ => self.disk.lose_power(),
        }
        let rots = match failure {
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
                self.last_state = past.snapshot().map(|_| past.executed());
                (self.handed, self.relied, self.durable) = (found, found, found);
                self.executed_behind = found;
                self.behind.clear();
                self.answers_behind.clear();
                self.membership = past.membership.clone();
                (self.opened, self.past) = (Some(kept), Some(past));
                (self.fuse, self.dead) = (None, None);
                Some(Recovered { had, relied, found, vouched, has, rots })
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

    /// Goes on with what was found: brings fresh devices of the same life to where the ones before
    /// were, or a step further. Gives what they certified.
    pub fn take_up(&mut self, devices: &mut SimDevices) -> Vec<(Ui, Digest)> {
        let entries = self.past.iter().flat_map(|past| &past.entries).map(|(_, entry)| entry);
        let certified = Certificates::recalled(entries, devices).expect("it did so before");
        let statements = certified.iter().map(|(ui, digest)| (*ui, *digest)).collect();
        if let Some(opened) = self.opened.take() {
            let newest = self.snapshots().last();
            let newest = newest.map(|it| Base { slot: it.slot, state: it.digest });
            self.keeper = DurableStore::new(Stepped::new(opened), newest, certified);
        }
        statements
    }

    /// Follows the epochs from where the replica was.
    #[must_use]
    pub fn epochs(&self, me: ReplicaId, life: Life) -> Epochs {
        Epochs::resumed(me, life, self.membership().clone(), self.proof())
    }

    fn proof(&self) -> Option<Proof> {
        self.past.as_ref().and_then(|past| past.proof.clone())
    }

    /// The epoch that was going on when the replica started.
    #[must_use]
    pub fn membership(&self) -> &Arc<Membership> {
        self.past.as_ref().map_or(&self.first, |past| &past.membership)
    }

    /// The states that it started with, oldest first; none if it was at the group's first, or has
    /// nothing but states of another epoch's members.
    #[must_use]
    pub fn snapshots(&self) -> &[Snapshot] {
        self.past.as_ref().filter(|past| past.is_whole()).map_or(&[], |past| &past.snapshots)
    }

    /// Up to where it had executed when it started, as far as it was durable.
    #[must_use]
    pub fn executed(&self) -> Base {
        self.past.as_ref().map_or(self.first.base, Past::executed)
    }

    /// Who has the state with which the epoch began, if this replica has none of that epoch.
    #[must_use]
    pub fn fetch(&self) -> Option<ReplicaSet> {
        let past = self.past.as_ref().filter(|past| !past.is_whole())?;
        past.proof.as_ref().map(Proof::signers)
    }

    /// What a core is started with.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let begins = || Memory::Durable { executed: self.first.base, records: Vec::new() };
        self.past.as_ref().map_or_else(begins, Past::memory)
    }
}
