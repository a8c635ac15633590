//! What a replica keeps across a crash: the entries of its epoch in the log, how the epoch began,
//! and the state to go on from.
//!
//! [`Kept`] does one thing after the other; [`Writer`] puts it on a thread of its own, so that the
//! replica goes on while the disk writes, and releases what depends on an entry when that is
//! durable. What has to be kept, and why: `docs/decisions/0005-durability.md`.

mod entry;
mod writer;

pub use entry::Entry;
pub use writer::Writer;

use crate::disk::Folder;
use crate::error::StorageError;
use crate::identity::Identity;
use crate::log::{self, Log, Options, Recovered};
use crate::snapshots::Snapshots;
use entry::Opened;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Membership;
use pentarchy_core::snapshot::Snapshot;
use std::sync::Arc;

/// The folder of the log in a data folder.
pub const LOG: &str = "log";
/// The folder of the snapshots in a data folder.
pub const SNAPSHOTS: &str = "snapshots";

/// What was there when a replica started again.
pub struct Past {
    /// The epoch that was going on.
    pub membership: Arc<Membership>,
    /// How the one before ended; none in the first.
    pub proof: Option<Proof>,
    /// The newest state that can be read. None if there was no checkpoint yet, in which case the
    /// group's first state is meant.
    pub snapshot: Option<Snapshot>,
    /// What was kept in this epoch, oldest first, with the numbers that were given.
    pub entries: Vec<(u64, Entry)>,
    /// About the log.
    pub recovered: Recovered,
    /// Snapshots that are damaged and were passed over.
    pub damaged: Vec<StorageError>,
}

impl Past {
    /// Whether there is a state of this epoch to go on from. If not, the replica had not come to
    /// fetch the one with which the epoch began.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let base = self.membership.base.slot;
        base == Slot(0) || self.snapshot.as_ref().is_some_and(|snapshot| snapshot.slot >= base)
    }
}

/// What a replica keeps, one thing after the other.
pub struct Kept {
    entries: Entries,
    states: States,
}

/// The part of [`Kept`] that is in the log.
struct Entries {
    log: Log,
    membership: Arc<Membership>,
    proof: Option<Proof>,
}

/// The part of [`Kept`] that is in snapshots.
struct States {
    snapshots: Snapshots,
    /// The lowest entry that is needed beside the newest snapshot.
    needed: u64,
}

impl Entries {
    fn append(&mut self, entry: &Entry) -> Result<u64, StorageError> {
        let (kind, body) = entry.seal(self.membership.epoch);
        self.log.append(kind, &body)
    }

    /// Says how the present epoch began, behind all that may go with the next snapshot.
    fn append_epoch(&mut self) -> Result<u64, StorageError> {
        let (kind, body) = entry::seal_epoch(&self.membership, self.proof.as_ref());
        self.log.append_beyond(kind, &body)
    }

    fn begin_epoch(
        &mut self,
        membership: Arc<Membership>,
        proof: Option<Proof>,
    ) -> Result<u64, StorageError> {
        (self.membership, self.proof) = (membership, proof);
        self.append_epoch()
    }
}

impl States {
    /// Saves a state, and gives the lowest entry that is still needed: beside the state before, in
    /// case this one gets damaged. All entries below `needed` must be durable.
    fn save(&mut self, snapshot: &Snapshot, needed: u64) -> Result<u64, StorageError> {
        assert!(needed >= self.needed, "what was given up is not needed again");
        self.snapshots.save(snapshot, &needed.to_le_bytes())?;
        Ok(std::mem::replace(&mut self.needed, needed))
    }
}

impl Kept {
    /// Begins to keep things, in a data folder without any. `membership` is the group as it began.
    /// Whoever calls this knows that this life of the device has certified nothing yet.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn create(
        data: &mut dyn Folder,
        identity: Identity,
        membership: Arc<Membership>,
        options: Options,
    ) -> Result<Self, StorageError> {
        let (snapshots, damaged) = Snapshots::open(data.folder(SNAPSHOTS)?, identity)?;
        if let Some(there) = snapshots.list().next() {
            return Err(StorageError::Unexpected { file: format!("snapshot {}", there.slot) });
        }
        if let Some(damaged) = damaged.into_iter().next() {
            return Err(damaged);
        }
        remove_unused(&mut *data.folder(LOG)?, &identity)?;
        let log = Log::create(data.folder(LOG)?, identity, options)?;
        let mut entries = Entries { log, membership, proof: None };
        entries.append_epoch()?;
        entries.log.commit()?;
        Ok(Self { entries, states: States { snapshots, needed: 1 } })
    }

    /// Goes on from what was kept.
    ///
    /// # Errors
    /// [`StorageError`]; the replica must not go on as whom it was.
    pub fn open(
        data: &mut dyn Folder,
        identity: Identity,
        first: &Arc<Membership>,
        options: Options,
    ) -> Result<(Self, Past), StorageError> {
        let (snapshots, mut damaged) = Snapshots::open(data.folder(SNAPSHOTS)?, identity)?;
        let mut snapshot = None;
        let slots: Vec<_> = snapshots.list().map(|stored| stored.slot).collect();
        for slot in slots.into_iter().rev() {
            match snapshots.load(slot) {
                Ok(loaded) => {
                    snapshot = Some(loaded);
                    break;
                }
                Err(problem) => damaged.push(problem),
            }
        }
        let needed = match &snapshot {
            Some(snapshot) => needed_in(&snapshots, snapshot)?,
            None if damaged.is_empty() => 1,
            None => return Err(damaged.remove(0)),
        };
        let (mut epoch, mut entries, mut bad) = (None, Vec::new(), None);
        let (log, recovered) = Log::open(data.folder(LOG)?, identity, options, needed, |record| {
            match entry::open(record.kind, &record.body, first) {
                Ok(Opened::Entry(of, entry)) => entries.push((record.number, of, entry)),
                Ok(Opened::Epoch(membership, proof)) => epoch = Some((membership, proof)),
                Err(_) => bad = bad.or(Some(record.number)),
            }
        })?;
        if let Some(number) = bad {
            let what = format!("a version of this program that knows record {number} of the log");
            return Err(StorageError::Missing { what });
        }
        let lacking = || StorageError::Missing { what: "the epoch in the log".to_owned() };
        let (membership, proof) = epoch.ok_or_else(lacking)?;
        let of_epoch = |(number, of, entry)| (of == membership.epoch).then_some((number, entry));
        let entries = entries.into_iter().filter_map(of_epoch).collect();
        let kept = Self {
            entries: Entries { log, membership: membership.clone(), proof: proof.clone() },
            states: States { snapshots, needed },
        };
        Ok((kept, Past { membership, proof, snapshot, entries, recovered, damaged }))
    }

    /// Keeps an entry of the present epoch and gives its number. Durable with the next
    /// [commit](Self::commit).
    ///
    /// # Errors
    /// [`StorageError`]; with [`StorageError::Full`] too the replica cannot go on.
    pub fn append(&mut self, entry: &Entry) -> Result<u64, StorageError> {
        self.entries.append(entry)
    }

    /// Makes durable what was appended. All entries below the number that it gives are durable.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn commit(&mut self) -> Result<u64, StorageError> {
        self.entries.log.commit()
    }

    /// Begins another epoch: what follows belongs to it, and what was before is not needed as soon
    /// as there is a snapshot of its base.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn begin_epoch(
        &mut self,
        membership: Arc<Membership>,
        proof: Option<Proof>,
    ) -> Result<u64, StorageError> {
        self.entries.begin_epoch(membership, proof)
    }

    /// Keeps a state that a quorum vouches for, durably, with all that was appended before. Of the
    /// log only entries from `needed` on are needed beside it. What is needed beside the snapshot
    /// before stays until the next one, in case this one gets damaged.
    ///
    /// # Errors
    /// [`StorageError`]
    ///
    /// # Panics
    /// If entries are needed that were not needed before.
    pub fn save(&mut self, snapshot: &Snapshot, needed: u64) -> Result<(), StorageError> {
        self.entries.append_epoch()?;
        self.commit()?;
        let needed = self.states.save(snapshot, needed)?;
        self.entries.log.truncate_below(needed)
    }

    /// The number of the next entry.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.entries.log.next()
    }

    /// The lowest entry that is needed beside the newest snapshot.
    #[must_use]
    pub const fn needed(&self) -> u64 {
        self.states.needed
    }

    /// All entries below this are durable.
    #[must_use]
    pub const fn durable(&self) -> u64 {
        self.entries.log.durable()
    }
}

/// Removes a log without entries: a crash came between its making and its use.
fn remove_unused(folder: &mut dyn Folder, identity: &Identity) -> Result<(), StorageError> {
    let mut used = false;
    match log::read(folder, Some(identity), |record| used |= record.kind != entry::EPOCH) {
        Ok(_) if !used => Ok(log::remove(folder)?),
        Ok(_) => Err(StorageError::Unexpected { file: LOG.to_owned() }),
        Err(StorageError::Missing { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}

/// From which entry on the log is needed beside a snapshot.
fn needed_in(snapshots: &Snapshots, snapshot: &Snapshot) -> Result<u64, StorageError> {
    let note = snapshots.note(snapshot.slot).and_then(|note| note.as_ref().try_into().ok());
    let lacking =
        || StorageError::Missing { what: format!("the note in snapshot {}", snapshot.slot) };
    note.map(u64::from_le_bytes).ok_or_else(lacking)
}
