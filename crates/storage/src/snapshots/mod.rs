//! Checkpoints on disk, each readable chunk by chunk.
//!
//! A snapshot is a list of chunks with digests ([`pentarchy_core::snapshot`]). Saving one writes
//! the chunks that no earlier one has into a new *pack*, then a *list* that says where each chunk
//! is. Both appear under their names only when they are durable as a whole, the list last; then
//! packs go that nobody names. So a checkpoint costs what changed, and a crash at any moment leaves
//! the snapshots before it or those after it. Older ones go when their owner says so.
//!
//! A pack of which less than half is still in use is written anew with the next snapshot, so the
//! folder stays below twice what the snapshots hold.

mod list;
mod pack;

pub use list::{NOTE_BYTES_MAX, VERSION};

use crate::disk::{DiskError, Folder, remove_unfinished};
use crate::error::StorageError;
use crate::identity::Identity;
use bytes::Bytes;
use list::{List, Place};
use pack::Packs;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::{Manifest, Section, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A snapshot that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The slot after which it is the state.
    pub slot: Slot,
    /// The manifest's digest.
    pub digest: Digest,
    /// Chunks, each counted once for every place in the state.
    pub chunks: usize,
    /// Bytes of those.
    pub bytes: u64,
}

/// What saving a snapshot wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// Chunks that no earlier snapshot had.
    pub chunks_new: usize,
    /// Chunks that were written again, to free a pack.
    pub chunks_moved: usize,
    /// Bytes of both.
    pub bytes: u64,
}

/// The snapshots of one replica.
pub struct Snapshots {
    folder: Box<dyn Folder>,
    identity: Identity,
    /// By slot.
    lists: BTreeMap<Slot, List>,
    packs: Packs,
    /// Files of damaged lists; the next save removes them.
    damaged: Vec<String>,
    failed: Option<Arc<DiskError>>,
}

impl Snapshots {
    /// Opens a folder of snapshots; an empty one is fine. Also says which snapshots are damaged:
    /// those are not to be had, and nothing of them is removed before the next save.
    ///
    /// # Errors
    /// [`StorageError`], also if one is of somebody else or of another format.
    pub fn open(
        mut folder: Box<dyn Folder>,
        identity: Identity,
    ) -> Result<(Self, Vec<StorageError>), StorageError> {
        remove_unfinished(&mut *folder)?;
        let (mut snapshots, damaged) = Self::read(folder, Some(&identity))?;
        snapshots.identity = identity;
        if damaged.is_empty() {
            let freed = snapshots.remove_superfluous(Slot(0));
            snapshots.latch(freed)?;
        }
        let synced = snapshots.folder.sync();
        snapshots.latch(synced)?;
        Ok((snapshots, damaged))
    }

    /// Opens a folder to look at, and changes nothing. `owner` may be left open.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn read(
        folder: Box<dyn Folder>,
        owner: Option<&Identity>,
    ) -> Result<(Self, Vec<StorageError>), StorageError> {
        let packs = Packs::open(&*folder)?;
        let (mut lists, mut problems, mut damaged) = (BTreeMap::new(), Vec::new(), Vec::new());
        let mut identity = owner.copied();
        for name in folder.list()? {
            let Some(slot) = list::slot(&name) else { continue };
            match List::read(&*folder, &name, owner, &packs) {
                Ok((writer, list)) => {
                    identity.get_or_insert(writer);
                    lists.insert(slot, list);
                }
                Err(problem @ (StorageError::Corrupt { .. } | StorageError::Missing { .. })) => {
                    problems.push(problem);
                    damaged.push(name);
                }
                Err(other) => return Err(other),
            }
        }
        let identity = identity.unwrap_or(Identity::NOBODY);
        Ok((Self { folder, identity, lists, packs, damaged, failed: None }, problems))
    }

    /// Saves a snapshot durably, with a note of the caller's. Later ones that were there are
    /// removed before: whoever goes back says that they were wrong.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails.
    ///
    /// # Panics
    /// If the note is larger than [`NOTE_BYTES_MAX`].
    pub fn save(&mut self, snapshot: &Snapshot, note: &[u8]) -> Result<Saved, StorageError> {
        assert!(note.len() <= NOTE_BYTES_MAX, "a note keeps to its limit");
        self.check()?;
        let saved = self.remove_above(snapshot.slot).and_then(|()| self.write(snapshot, note));
        self.latch(saved)
    }

    /// Removes the snapshots below a slot, and damaged ones.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails.
    pub fn remove_below(&mut self, slot: Slot) -> Result<(), StorageError> {
        self.check()?;
        let removed = self.remove_superfluous(slot);
        self.latch(removed)
    }

    fn check(&self) -> Result<(), StorageError> {
        match &self.failed {
            None => Ok(()),
            Some(cause) => Err(StorageError::Failed { cause: cause.clone() }),
        }
    }

    fn remove_above(&mut self, slot: Slot) -> Result<(), DiskError> {
        let above = self.lists.split_off(&slot.next());
        for slot in above.keys().rev() {
            self.folder.remove(&list::name(*slot))?;
        }
        if above.is_empty() { Ok(()) } else { self.folder.sync() }
    }

    fn write(&mut self, snapshot: &Snapshot, note: &[u8]) -> Result<Saved, DiskError> {
        let manifest = snapshot.manifest();
        let chunks: BTreeMap<&Digest, &Bytes> = snapshot
            .sections
            .iter()
            .flat_map(|section| section.digests.0.iter().zip(&section.chunks))
            .collect();
        let known = self.known();
        let used = chunks.keys().filter_map(|digest| known.get(digest).copied());
        let crowded = self.packs.to_empty(used);
        let mut places: BTreeMap<Digest, Place> = BTreeMap::new();
        let (mut write, mut saved) = (Vec::new(), Saved::default());
        for (digest, bytes) in chunks {
            match known.get(digest) {
                Some(place) if !crowded.contains(&place.pack) => {
                    places.insert(*digest, *place);
                    continue;
                }
                Some(_) => saved.chunks_moved += 1,
                None => saved.chunks_new += 1,
            }
            saved.bytes += bytes.len() as u64;
            write.push((*digest, bytes));
        }
        if !write.is_empty() {
            places.extend(self.packs.write(&mut *self.folder, &self.identity, &write)?);
        }
        let places = manifest.chunks().map(|digest| places[digest]).collect();
        let list =
            List { digest: snapshot.digest, manifest, places, note: Bytes::copy_from_slice(note) };
        list.write(&mut *self.folder, &self.identity, snapshot.slot)?;
        self.damaged.retain(|name| *name != list::name(snapshot.slot));
        self.lists.insert(snapshot.slot, list);
        self.remove_superfluous(Slot(0))?;
        Ok(saved)
    }

    /// Where each chunk is that a kept snapshot has.
    fn known(&self) -> BTreeMap<Digest, Place> {
        let places = |list: &List| {
            let pairs = list.manifest.chunks().copied().zip(list.places.iter().copied());
            pairs.collect::<Vec<_>>()
        };
        self.lists.values().flat_map(places).collect()
    }

    /// Removes the lists below a slot, durably, and then the packs that nobody names any more.
    fn remove_superfluous(&mut self, below: Slot) -> Result<(), DiskError> {
        let mut removed = !self.damaged.is_empty();
        for name in self.damaged.drain(..) {
            self.folder.remove(&name)?;
        }
        while let Some(oldest) = self.lists.first_entry().filter(|it| *it.key() < below) {
            self.folder.remove(&list::name(*oldest.key()))?;
            oldest.remove();
            removed = true;
        }
        if removed {
            self.folder.sync()?;
        }
        let places = self.lists.values().flat_map(|list| list.places.iter());
        let used: BTreeSet<u64> = places.map(|place| place.pack).collect();
        self.packs.keep_only(&mut *self.folder, &used)
    }

    /// The snapshots that are there, oldest first.
    pub fn list(&self) -> impl Iterator<Item = Stored> + '_ {
        self.lists.iter().map(|(slot, list)| Stored {
            slot: *slot,
            digest: list.digest,
            chunks: list.places.len(),
            bytes: list.places.iter().map(|place| u64::from(place.bytes)).sum(),
        })
    }

    /// The slot of the newest.
    #[must_use]
    pub fn newest(&self) -> Option<Slot> {
        self.lists.last_key_value().map(|(slot, _)| *slot)
    }

    /// The digests of a snapshot's chunks.
    #[must_use]
    pub fn manifest(&self, slot: Slot) -> Option<&Manifest> {
        self.lists.get(&slot).map(|list| &list.manifest)
    }

    /// What was noted with a snapshot.
    #[must_use]
    pub fn note(&self, slot: Slot) -> Option<&Bytes> {
        self.lists.get(&slot).map(|list| &list.note)
    }

    /// Reads one chunk, by its place in [`Manifest::chunks`], and checks its digest.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn chunk(&self, slot: Slot, index: usize) -> Result<Bytes, StorageError> {
        let lacking =
            || StorageError::Missing { what: format!("chunk {index} of snapshot {slot}") };
        let list = self.lists.get(&slot).ok_or_else(lacking)?;
        let place = list.places.get(index).ok_or_else(lacking)?;
        let digest = list.manifest.chunks().nth(index).ok_or_else(lacking)?;
        pack::chunk(&*self.folder, place, digest)
    }

    /// Reads a whole snapshot and checks it. What it shares with `known` is neither read again nor
    /// held twice.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn load(&self, slot: Slot, known: Option<&Snapshot>) -> Result<Snapshot, StorageError> {
        let lacking = || StorageError::Missing { what: format!("snapshot {slot}") };
        let list = self.lists.get(&slot).ok_or_else(lacking)?;
        let known = known.iter().flat_map(|snapshot| &snapshot.sections);
        let known: BTreeMap<&Digest, &Bytes> =
            known.flat_map(|section| section.digests.0.iter().zip(&section.chunks)).collect();
        let mut places = list.places.iter();
        let mut sections = Vec::with_capacity(list.manifest.0.len());
        for digests in &list.manifest.0 {
            let chunks: Result<_, _> = digests
                .0
                .iter()
                .zip(places.by_ref())
                .map(|(digest, place)| match known.get(digest) {
                    Some(chunk) => Ok(Bytes::clone(chunk)),
                    None => pack::chunk(&*self.folder, place, digest),
                })
                .collect();
            sections.push(Section { digests: digests.clone(), chunks: chunks? });
        }
        Ok(Snapshot { slot, digest: list.digest, sections })
    }

    /// Reads every chunk of every snapshot once, and gives what is wrong.
    #[must_use]
    pub fn scrub(&self) -> Vec<StorageError> {
        let known = self.known();
        let read = known.iter().map(|(digest, place)| pack::chunk(&*self.folder, place, digest));
        read.filter_map(Result::err).collect()
    }

    fn latch<T>(&mut self, outcome: Result<T, DiskError>) -> Result<T, StorageError> {
        outcome.map_err(|error| {
            let error = Arc::new(error);
            self.failed = Some(error.clone());
            StorageError::Disk(error)
        })
    }
}
