//! What a replica keeps across a crash: the host's part of "persist before send", with the log and
//! the snapshots that replicas really use, on a disk that does what disks do when the power fails.

use crate::device::SimDevice;
use crate::disk::{Fate, Faults, SimDisk};
use crate::rng::Rng;
use crate::swarm::Failure;
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Memory as DeviceMemory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Epochs, Proof};
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Memory;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_storage::error::StorageError;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{self, Certificates, Entry, Past};
use pentarchy_storage::log::Options;
use std::sync::Arc;

/// Bytes of a segment of the log, few enough that a run goes through several.
const SEGMENT_BYTES: u64 = 256 << 10;

/// The same where clients send envelopes of any size: a record has to fit.
const LARGE_SEGMENT_BYTES: u64 = 2 << 20;

/// Operations of a disk among which the power fails.
const OPERATIONS: u64 = 4;

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

/// A replica's disk.
pub struct Kept {
    disk: SimDisk,
    rng: Rng,
    identity: Identity,
    options: Options,
    /// The group as it began.
    first: Arc<Membership>,
    kept: kept::Kept,
    /// What was there when the replica started.
    past: Option<Past>,
    /// What the device had certified before the crash.
    certificates: Certificates,
    /// Whether everything is there to go on from.
    whole: bool,
    /// A state that just became stable, and the first entry that is needed beside it.
    cut: Option<(Slot, u64)>,
    /// Writes, syncs and sends until something fails, and what.
    fuse: Option<(u64, Failure)>,
    /// What has failed, or is about to.
    failing: Option<Failure>,
    /// The replica has ended.
    dead: bool,
}

impl Kept {
    /// The disk of a replica that begins, in a group that began with these members. `large`:
    /// clients send envelopes of any size.
    #[must_use]
    pub fn new(first: Arc<Membership>, identity: Identity, large: bool, mut rng: Rng) -> Self {
        let disk = SimDisk::new(rng.next_u64(), FAULTS);
        let segment_bytes = if large { LARGE_SEGMENT_BYTES } else { SEGMENT_BYTES };
        let options = Options { segment_bytes, ..Options::new([7; 32]) };
        let kept = kept::Kept::create(&mut *disk.root(), identity, first.clone(), options);
        Self {
            disk,
            rng,
            identity,
            options,
            whole: first.base.slot == Slot(0),
            first,
            kept: kept.expect("a disk that works"),
            past: None,
            certificates: Certificates::default(),
            cut: None,
            fuse: None,
            failing: None,
            dead: false,
        }
    }

    /// Has power or disk fail after so many more writes, syncs and sends.
    pub const fn fail_after(&mut self, points: u64, failure: Failure) {
        self.fuse = Some((points, failure));
    }

    /// There is room on the disk from now on.
    pub fn make_room(&mut self) {
        if self.failing == Some(Failure::Full) && !self.dead {
            self.disk.set_faults(FAULTS);
            self.failing = None;
        }
    }

    /// Whether power or disk have failed: the replica has ended.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.dead
    }

    /// One more thing that a crash can come before. False if it did.
    pub fn survives(&mut self) -> bool {
        // Who lacks the state of its epoch has nothing to go on from.
        let Some((left, failure)) = self.fuse.filter(|_| self.whole && !self.dead) else {
            return !self.dead;
        };
        self.fuse = Some((left.saturating_sub(1), failure));
        if left == 0 {
            (self.fuse, self.failing) = (None, Some(failure));
            let operation = self.disk.operations() + self.rng.below(OPERATIONS);
            match failure {
                Failure::Power | Failure::Rot => {
                    self.disk.choose(operation, Fate::Stops);
                    self.dead = true;
                }
                Failure::Disk => self.disk.choose(operation, Fate::Fails),
                Failure::Full => {
                    let capacity =
                        self.disk.used() + self.rng.below(self.options.segment_bytes / 4);
                    self.disk.set_faults(Faults { capacity, ..FAULTS });
                }
            }
        }
        !self.dead
    }

    /// Has the disk do something, in the middle of which the power may fail. None if that or the
    /// disk has: then the replica ends, whatever else it may have in mind.
    fn tries<T>(
        &mut self,
        act: impl FnOnce(&mut kept::Kept) -> Result<T, StorageError>,
    ) -> Option<T> {
        if self.dead {
            return None;
        }
        self.survives();
        let done = act(&mut self.kept);
        match done {
            Ok(_) if self.dead => None,
            Ok(done) => Some(done),
            Err(error) if self.failing.is_none() => panic!("{}: {error}", self.identity.replica),
            Err(_) => {
                self.dead = true;
                None
            }
        }
    }

    fn append(&mut self, entry: &Entry) {
        self.tries(|kept| kept.append(entry));
    }

    /// Writes what a core wants kept.
    pub fn record(&mut self, record: Bytes) {
        self.append(&Entry::Record(record));
    }

    /// The certificate that the device gave to this before the crash. If it is new, it is written
    /// down before the device hears of it.
    pub fn certifies(&mut self, position: Position, digest: Digest) -> Option<Ui> {
        let known = self.certificates.get(position, &digest);
        if known.is_none() {
            self.append(&Entry::Certified { position, digest });
        }
        known
    }

    /// Makes all that was written durable. False if a crash came first.
    pub fn sync(&mut self) -> bool {
        let skips = mutant!("kept.sends-before-durable");
        if self.kept.durable() < self.kept.next() && !skips {
            self.tries(kept::Kept::commit);
        }
        !self.dead
    }

    /// Keeps a state, durably.
    pub fn keep(&mut self, snapshot: &Snapshot) {
        if self.tries(|kept| kept.save(snapshot)).is_some() {
            self.whole |= snapshot.slot >= self.kept.membership().base.slot;
        }
    }

    /// A quorum vouches for the state of a slot, which is kept. The core goes on to write what it
    /// needs beside it. So does this, for the device, and for own messages that the core has not
    /// got back.
    pub fn stable(
        &mut self,
        slot: Slot,
        device: Option<DeviceMemory>,
        unheard: impl Iterator<Item = (Ui, Digest)>,
    ) {
        self.cut = Some((slot, self.kept.next()));
        device.into_iter().for_each(|memory| self.append(&Entry::Memory(memory)));
        unheard.for_each(|(ui, digest)| self.append(&Entry::Issued { ui, digest }));
    }

    /// A step of the core is over: if it made a state stable, all is written that is needed.
    pub fn end_of_step(&mut self) {
        if let Some((slot, needed)) = self.cut.take() {
            let early = mutant!("kept.log-cut-too-early");
            let needed = if early { self.kept.next() } else { needed };
            self.tries(|kept| kept.stable(slot, needed));
        }
    }

    /// Begins the log of another epoch.
    pub fn begin(&mut self, epochs: &Epochs, snapshot: Option<Snapshot>) {
        let (membership, proof) = (epochs.membership().clone(), epochs.proof().cloned());
        self.certificates = Certificates::default();
        self.cut = None;
        let begun = self.tries(|kept| kept.begin_epoch(membership.clone(), proof));
        let Some(begun) = begun else { return };
        self.whole = membership.base.slot == Slot(0);
        if let Some(snapshot) = snapshot {
            self.keep(&snapshot);
            self.tries(|kept| kept.stable(snapshot.slot, begun));
        }
    }

    /// The disk when the replica starts again: of what was not synced, a part made it nevertheless.
    /// Gives the slot up to which it had states, and may have vouched for them. None if it does not
    /// find what it needs, which it may not if something has rotted.
    pub fn recover(&mut self, may_rot: bool) -> Option<Slot> {
        let had = self.kept.newest().unwrap_or_default();
        let failure = self.failing.take();
        self.disk.set_faults(FAULTS);
        match failure {
            Some(Failure::Disk | Failure::Full) if self.rng.percent(50) => self.disk.restart(),
            _ => self.disk.lose_power(),
        }
        let rots = may_rot && failure == Some(Failure::Rot);
        if rots {
            self.rot();
        }
        let opened =
            kept::Kept::open(&mut *self.disk.root(), self.identity, &self.first, self.options);
        match opened {
            Ok((kept, past)) if past.is_whole() || !rots => {
                (self.kept, self.whole, self.past) = (kept, past.is_whole(), Some(past));
                (self.cut, self.fuse, self.dead) = (None, None, false);
                Some(had)
            }
            Err(error) if !rots => {
                panic!("{} cannot read its disk: {error}", self.identity.replica)
            }
            _ => None,
        }
    }

    /// A bit flips somewhere.
    fn rot(&mut self) {
        let paths = self.disk.paths();
        let path = self.rng.pick(&paths);
        let mut content = self.disk.content(path);
        // Most of a file may be room that is not used yet.
        let used = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last as u64 + 1);
        if used > 0 {
            content[self.rng.below(used) as usize] ^= 1 << self.rng.below(8);
            self.disk.tamper(path, Some(content));
        }
    }

    /// Brings a fresh device of the same life to where the one before was, or a step further.
    /// Gives what it certified.
    pub fn certify(&mut self, device: &mut SimDevice) -> Vec<(Ui, Digest)> {
        let entries = self.past.iter().flat_map(|past| &past.entries).map(|(_, entry)| entry);
        let recalled = Certificates::recalled(entries, device);
        self.certificates = recalled.expect("it did so before");
        self.certificates.iter().map(|(ui, digest)| (*ui, *digest)).collect()
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

    /// What a core is started with.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let begins = || Memory::Durable { executed: self.first.base, records: Vec::new() };
        self.past.as_ref().map_or_else(begins, Past::memory)
    }
}
