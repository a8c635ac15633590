//! What a replica keeps across a crash: the host's part of "persist before send", on a disk that
//! loses what was not synced.

use crate::device::SimDevice;
use crate::rng::Rng;
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Position, Ui, Usig};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Epochs, Proof};
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::protocol::Memory;
use pentarchy_core::snapshot::Snapshot;
use std::collections::BTreeMap;
use std::sync::Arc;

/// One entry of the log.
#[derive(Clone, Debug)]
enum Entry {
    /// What the core had kept.
    Record(Bytes),
    /// The device is about to certify this.
    Certified(Position, Digest),
}

/// A replica's disk.
#[derive(Debug)]
pub struct Kept {
    /// The epoch to which the log belongs.
    membership: Arc<Membership>,
    /// How the epoch before ended.
    proof: Option<Proof>,
    /// States, the newest last: from the one that a quorum vouches for on.
    snapshots: Vec<Snapshot>,
    log: Vec<Entry>,
    /// Entries that outlive a crash for certain.
    synced: usize,
    /// Writes, syncs and sends until the power fails.
    fuse: Option<u64>,
    /// The power has failed.
    dead: bool,
    /// What the device had certified before the crash.
    certified: BTreeMap<Position, (Digest, Ui)>,
}

impl Kept {
    /// The disk of a replica that begins.
    #[must_use]
    pub const fn new(membership: Arc<Membership>) -> Self {
        Self {
            membership,
            proof: None,
            snapshots: Vec::new(),
            log: Vec::new(),
            synced: 0,
            fuse: None,
            dead: false,
            certified: BTreeMap::new(),
        }
    }

    /// Has the power fail after so many more writes, syncs and sends.
    pub const fn fail_after(&mut self, points: u64) {
        self.fuse = Some(points);
    }

    /// Whether the power has failed.
    #[must_use]
    pub const fn is_dead(&self) -> bool {
        self.dead
    }

    /// One more thing that a crash can come before. False if it did.
    pub fn survives(&mut self) -> bool {
        // Who lacks the state of its epoch has nothing to go on from.
        let left = self.fuse.filter(|_| self.is_whole());
        self.dead |= left == Some(0);
        self.fuse = left.map(|left| left.saturating_sub(1));
        !self.dead
    }

    /// Whether everything is here to go on from.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.membership.base.slot.0 == 0 || !self.snapshots.is_empty()
    }

    /// Writes what a core wants kept.
    pub fn record(&mut self, record: Bytes) {
        if self.survives() {
            self.log.push(Entry::Record(record));
        }
    }

    /// The certificate that the device gave to this before the crash. If it is new, it is written
    /// down before the device hears of it.
    pub fn certifies(&mut self, position: Position, digest: Digest) -> Option<Ui> {
        if let Some((what, ui)) = self.certified.get(&position)
            && *what == digest
        {
            return Some(*ui);
        }
        if self.survives() {
            self.log.push(Entry::Certified(position, digest));
        }
        None
    }

    /// Makes all that was written durable. False if a crash came first.
    pub fn sync(&mut self) -> bool {
        if self.synced < self.log.len() && self.survives() {
            self.synced = self.log.len();
        }
        !self.dead
    }

    /// Keeps a state, in one step.
    pub fn keep(&mut self, snapshot: Snapshot) {
        if self.survives() {
            self.snapshots.retain(|known| known.slot < snapshot.slot);
            self.snapshots.push(snapshot);
        }
    }

    /// A quorum vouches for the state of a slot: those before may go.
    pub fn stable(&mut self, slot: Slot) {
        // Not before the log says so too, or a crash would leave a claim and no state for it.
        if self.sync() {
            self.snapshots.retain(|snapshot| snapshot.slot >= slot);
        }
    }

    /// Begins the log of another epoch, in one step.
    pub fn begin(&mut self, epochs: &Epochs, snapshot: Option<Snapshot>) {
        if self.survives() {
            let (fuse, proof) = (self.fuse, epochs.proof().cloned());
            let snapshots = snapshot.into_iter().collect();
            *self = Self { snapshots, fuse, proof, ..Self::new(epochs.membership().clone()) };
        }
    }

    /// The disk after the crash: of what was not synced, a part made it nevertheless.
    pub fn recover(&mut self, rng: &mut Rng) {
        let unsynced = (self.log.len() - self.synced) as u64;
        self.log.truncate(self.synced + rng.below(unsynced + 1) as usize);
        self.synced = self.log.len();
        (self.fuse, self.dead) = (None, false);
    }

    /// Brings a fresh device of the same life to where the one before was, or a step further.
    /// Gives what it certified.
    pub fn certify(&mut self, device: &mut SimDevice) -> Vec<(Ui, Digest)> {
        let wanted = self.log.iter().filter_map(|entry| match entry {
            Entry::Certified(position, digest) => Some((*position, *digest)),
            Entry::Record(_) => None,
        });
        for (position, digest) in wanted {
            let ui = device.create(position, &digest).expect("it did so before");
            self.certified.insert(position, (digest, ui));
        }
        self.certified.values().map(|(digest, ui)| (*ui, *digest)).collect()
    }

    /// Follows the epochs from where the replica was.
    #[must_use]
    pub fn epochs(&self, me: ReplicaId, life: Life) -> Epochs {
        Epochs::resumed(me, life, self.membership.clone(), self.proof.clone())
    }

    /// The epoch that was going on.
    #[must_use]
    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// The states that it has, oldest first; none if it is at the group's first.
    #[must_use]
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.snapshots
    }

    /// Up to where it had executed, as far as it is durable.
    #[must_use]
    pub fn executed(&self) -> Base {
        let newest = self.snapshots.last();
        newest.map_or(self.membership.base, |it| Base { slot: it.slot, state: it.digest })
    }

    /// What a core is started with.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let records = self.log.iter().filter_map(|entry| match entry {
            Entry::Record(record) => Some(record.clone()),
            Entry::Certified(..) => None,
        });
        Memory::Durable { executed: self.executed(), records: records.collect() }
    }
}
