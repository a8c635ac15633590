//! Checkpoints on disk.
//!
//! A snapshot is a tree ([`pentarchy_core::tree`]), which is cut into *pieces*: small subtrees, and
//! the chunks of large sections. Saving one writes the pieces that no earlier one has into a new
//! *pack*, then a *list* that says where each piece is. Both appear under their names only when
//! they are durable as a whole, the list last; then packs go that nobody names. So a crash at any
//! moment leaves the snapshots before it or those after it. Older ones go when their owner says so.
//!
//! A piece is referred to again only if this process wrote it, or has read it and found it intact:
//! what rots on the disk must not become part of snapshots to come.
//!
//! A pack of which less than half is still in use is written anew with the next snapshot, so the
//! folder stays below twice what the snapshots hold.

mod blob_reader;
mod header;
mod list;
mod pack;
mod piece;
mod scrub;
mod trusted;
mod walk;

pub use header::VERSION;
pub use list::NOTE_BYTES_MAX;
pub(crate) use pack::ABSENT_MAX;
pub use scrub::Scrubbed;
pub(crate) use walk::not_the_state;
pub use walk::{Overlay, Sections, Walked};

use crate::disk::{DiskError, Folder, remove_unfinished};
use crate::error::StorageError;
use crate::identity::Identity;
use blob_reader::Shelves;
use bytes::Bytes;
use header::Place;
use list::{Entry, List};
use pack::{Packs, Source, Unwritten};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Chunk, Leaf, Node, Place as Top, Tree};
use piece::{Absent, Piece};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use trusted::Trusted;

/// A snapshot that is there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stored {
    /// The slot after which it is the state.
    pub slot: Slot,
    /// The state's digest.
    pub digest: Digest,
    /// Pieces.
    pub chunks: usize,
    /// Bytes of those.
    pub bytes: u64,
}

/// What saving a snapshot wrote.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Saved {
    /// Pieces that no earlier snapshot had, or none intact.
    pub chunks_new: usize,
    /// Pieces that were written again, to free a pack.
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
    trusted: Trusted,
    /// Files of damaged lists; the next save removes them.
    damaged: Vec<String>,
    scrub: scrub::Scrub,
    /// Where states have their content that is not to be in memory.
    shelves: Option<Shelves>,
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
        let (trusted, scrub) = (Trusted::default(), scrub::Scrub::default());
        let (shelves, failed) = (None, None);
        let snapshots =
            Self { folder, identity, lists, packs, trusted, damaged, scrub, shelves, failed };
        Ok((snapshots, problems))
    }

    /// Has what is loaded from now on have its content in the files, and not in memory.
    #[must_use]
    pub fn keep_cold(self) -> Self {
        Self { shelves: Some(Shelves::default()), ..self }
    }

    /// A state that is in files, with its content there; none if states are to be in memory, or it
    /// is not there.
    #[must_use]
    pub fn cooled(&self, snapshot: &Snapshot) -> Option<Snapshot> {
        let list = self.lists.get(&snapshot.slot).filter(|list| list.digest == snapshot.digest)?;
        let shelves = self.shelves.as_ref()?;
        let mut moved: BTreeMap<u32, Leaf> = BTreeMap::new();
        for entry in &list.entries {
            let leaves = entry.find(&snapshot.tree)?.iter();
            // What cannot be opened now stays where it is.
            let shelved = shelves.shelved(&*self.folder, entry, leaves).unwrap_or_default();
            moved.extend(shelved.into_iter().map(|leaf| (leaf.section(), leaf)));
        }
        let tree = snapshot.tree.replaced(&mut |leaf| moved.remove(&leaf.section()));
        Some(Snapshot { tree, ..*snapshot })
    }

    /// Saves a snapshot durably, with a note of the caller's. Later ones that were there are
    /// removed before: whoever goes back says that they were wrong.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails, unless it is
    /// [`StorageError::Absent`], which is of the state and not of the disk.
    ///
    /// # Panics
    /// If the note is larger than [`NOTE_BYTES_MAX`].
    pub fn save(&mut self, snapshot: &Snapshot, note: &[u8]) -> Result<Saved, StorageError> {
        assert!(note.len() <= NOTE_BYTES_MAX, "a note keeps to its limit");
        self.check()?;
        let stays = mutant!("snapshots.wrong-states-stay");
        let removed = if stays { Ok(()) } else { self.remove_above(snapshot.slot) };
        let saved = removed.map_err(Unwritten::Disk).and_then(|()| self.write(snapshot, note));
        self.latch_unwritten(saved)
    }

    fn latch_unwritten<T>(&mut self, outcome: Result<T, Unwritten>) -> Result<T, StorageError> {
        match outcome {
            Ok(done) => Ok(done),
            Err(Unwritten::Disk(error)) => self.latch(Err(error)),
            Err(Unwritten::Absent(Absent { sections })) => Err(StorageError::Absent { sections }),
        }
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

    /// Counts a snapshot as damaged, because it cannot be loaded: it is not to be had any more,
    /// nothing refers to its pieces, and the next save removes it.
    pub fn give_up(&mut self, slot: Slot) {
        if self.lists.remove(&slot).is_some() {
            self.damaged.push(list::name(slot));
        }
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

    fn write(&mut self, snapshot: &Snapshot, note: &[u8]) -> Result<Saved, Unwritten> {
        let pieces = piece::pieces(&snapshot.tree);
        let sources = sources(&pieces);
        let known = self.intact(&sources);
        let crowded = self.packs.to_empty(known.values().copied());
        let mut places: BTreeMap<Digest, Place> = BTreeMap::new();
        let (mut write, mut saved) = (Vec::new(), Saved::default());
        for (digest, source) in sources {
            match known.get(&digest) {
                Some(place) if !crowded.contains(&place.pack) => {
                    places.insert(digest, *place);
                    continue;
                }
                Some(_) => saved.chunks_moved += 1,
                None => saved.chunks_new += 1,
            }
            saved.bytes += source.bytes();
            write.push((digest, source));
        }
        if !write.is_empty() {
            let written = self.packs.write(&mut *self.folder, &self.identity, &write)?;
            written.iter().for_each(|(_, place)| self.trusted.wrote(place.pack));
            places.extend(written);
        }
        let entries = pieces.iter().map(|piece| entry(piece, &places)).collect();
        let (digest, sections) = (snapshot.digest, snapshot.tree.sections());
        let list = List { digest, sections, entries, note: Bytes::copy_from_slice(note) };
        list.write(&mut *self.folder, &self.identity, snapshot.slot)?;
        self.damaged.retain(|name| *name != list::name(snapshot.slot));
        self.lists.insert(snapshot.slot, list);
        self.remove_superfluous(Slot(0))?;
        Ok(saved)
    }

    /// Where each of these is that a kept snapshot has, if it is intact there.
    fn intact(&mut self, sources: &BTreeMap<Digest, Source<'_>>) -> BTreeMap<Digest, Place> {
        let Self { folder, lists, trusted, scrub, .. } = self;
        let mut places: BTreeMap<Digest, Place> = lists.values().flat_map(List::places).collect();
        places.retain(|digest, place| {
            let is_spoiled = scrub.spoiled.contains_key(digest);
            sources.get(digest).filter(|_| !is_spoiled).is_some_and(|source| {
                trusted.contains(place)
                    || mutant!("snapshots.rot-carried-on")
                    || pack::holds(&**folder, place, digest, source)
            })
        });
        places.values().for_each(|place| trusted.read(place));
        places
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
        if removed && !mutant!("snapshots.packs-go-with-lists") {
            self.folder.sync()?;
        }
        let places = self.lists.values().flat_map(List::places);
        let used: BTreeSet<u64> = places.map(|(_, place)| place.pack).collect();
        self.scrub.keep_only(&used, &self.lists);
        self.trusted.keep_only(&used);
        self.packs.keep_only(&mut *self.folder, &used)
    }

    /// The snapshots that are there, oldest first.
    pub fn list(&self) -> impl Iterator<Item = Stored> + '_ {
        self.lists.iter().map(|(slot, list)| Stored {
            slot: *slot,
            digest: list.digest,
            chunks: list.places().count(),
            bytes: list.places().map(|(_, place)| u64::from(place.bytes)).sum(),
        })
    }

    /// Whose they are; of an empty folder that is only looked at, nobody's.
    #[must_use]
    pub const fn identity(&self) -> &Identity {
        &self.identity
    }

    /// The slot of the newest.
    #[must_use]
    pub fn newest(&self) -> Option<Slot> {
        self.lists.last_key_value().map(|(slot, _)| *slot)
    }

    /// What was noted with a snapshot.
    #[must_use]
    pub fn note(&self, slot: Slot) -> Option<&Bytes> {
        self.lists.get(&slot).map(|list| &list.note)
    }

    /// Reads a whole snapshot and checks it. What it shares with `known` is neither read again nor
    /// held twice.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn load(&mut self, slot: Slot, known: Option<&Snapshot>) -> Result<Snapshot, StorageError> {
        let mut read = Vec::new();
        let loaded = self.read_whole(slot, known, &mut read);
        read.iter().for_each(|place| self.trusted.read(place));
        loaded
    }

    /// The same, and says which places were found intact.
    fn read_whole(
        &self,
        slot: Slot,
        known: Option<&Snapshot>,
        read: &mut Vec<Place>,
    ) -> Result<Snapshot, StorageError> {
        let lacking = || StorageError::Missing { what: format!("snapshot {slot}") };
        let list = self.lists.get(&slot).ok_or_else(lacking)?;
        let known = known.map(|known| &known.tree).filter(|it| it.sections() == list.sections);
        let mut leaves = Vec::new();
        for entry in &list.entries {
            match known.and_then(|known| entry.find(known)) {
                Some(node) => leaves.extend(node.iter().cloned()),
                None => {
                    leaves.extend(self.leaves(entry, slot)?);
                    read.extend(entry.places().map(|(_, place)| place));
                }
            }
        }
        let ordered = leaves.is_sorted_by(|a, b| a.section() < b.section());
        let fits = leaves.last().is_none_or(|last| last.section() < list.sections);
        if ordered && fits {
            let top = Node::of(Top::top(list.sections), &leaves, slot);
            let mut tree = Tree::with_top(list.sections, top);
            if let Some(known) = known {
                tree = known.changed(&tree.changes_since(known), slot);
            }
            if tree.digest() == list.digest {
                return Ok(Snapshot { slot, digest: list.digest, tree });
            }
        }
        Err(walk::not_the_state(slot))
    }

    /// Reads what an entry of a list stands for.
    fn leaves(&self, entry: &Entry, slot: Slot) -> Result<Vec<Arc<Leaf>>, StorageError> {
        match entry {
            Entry::Small(top, digest, place) => {
                let leaves = pack::piece(&*self.folder, place, (*top, digest), slot)?;
                let Some(shelves) = &self.shelves else { return Ok(leaves) };
                let shelved = shelves.shelved(&*self.folder, entry, leaves.iter())?;
                Ok(shelved.into_iter().map(Arc::new).collect())
            }
            Entry::Large(section, chunks) => {
                let read = |(digest, place): &(Digest, Place)| {
                    let bytes = pack::chunk(&*self.folder, place, digest)?;
                    let Some(shelves) = &self.shelves else {
                        return Ok(Chunk::new(*digest, bytes));
                    };
                    Ok(Chunk::at(*digest, shelves.chunk(&*self.folder, place)?))
                };
                let chunks = chunks.iter().map(read).collect::<Result<_, StorageError>>()?;
                Ok(vec![Arc::new(Leaf::of_chunks(*section, chunks, slot))])
            }
        }
    }

    /// Reads every piece of every snapshot once, and gives what is wrong.
    #[must_use]
    pub fn scrub(&self) -> Vec<StorageError> {
        let mut read: BTreeSet<(u64, u64)> = BTreeSet::new();
        let mut problems = Vec::new();
        for (slot, list) in &self.lists {
            for entry in &list.entries {
                let at = |(_, place): (Digest, Place)| (place.pack, place.offset);
                if entry.places().filter(|it| read.insert(at(*it))).count() > 0 {
                    problems.extend(self.leaves(entry, *slot).err());
                }
            }
        }
        problems
    }

    fn latch<T>(&mut self, outcome: Result<T, DiskError>) -> Result<T, StorageError> {
        outcome.map_err(|error| {
            let error = Arc::new(error);
            self.failed = Some(error.clone());
            StorageError::Disk(error)
        })
    }
}

/// What may have to be written, by digest.
fn sources<'a>(pieces: &[Piece<'a>]) -> BTreeMap<Digest, Source<'a>> {
    let mut sources = BTreeMap::new();
    for piece in pieces {
        match piece {
            Piece::Small(top, node) => {
                sources.insert(node.digest(), Source::Small(*top, node));
            }
            Piece::Large(leaf) => {
                let source = |chunk| Source::Chunk(leaf.section(), chunk);
                sources.extend(leaf.chunks().iter().map(|it| (it.digest(), source(it))));
            }
        }
    }
    sources
}

/// What the list says of a piece.
fn entry(piece: &Piece<'_>, places: &BTreeMap<Digest, Place>) -> Entry {
    match piece {
        Piece::Small(top, node) => Entry::Small(*top, node.digest(), places[&node.digest()]),
        Piece::Large(leaf) => {
            let chunk = |chunk: &Chunk| (chunk.digest(), places[&chunk.digest()]);
            Entry::Large(leaf.section(), leaf.chunks().iter().map(chunk).collect())
        }
    }
}
