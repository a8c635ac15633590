//! Reading what nobody asks for, one piece at a time, so that rot is found while it can be mended:
//! a piece that is damaged on the disk is written anew from a state in memory that has it. What is
//! written has the digest of what was lost, so it does not matter which state that is.

use super::list::{Entry, Place};
use super::{Snapshots, piece, sources};
use crate::error::StorageError;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;
use std::collections::BTreeMap;

/// How far scrubbing is, and what it found.
#[derive(Default)]
pub struct Scrub {
    /// The last piece that was read: its pack and its place there.
    cursor: Option<(u64, u64)>,
    /// Pieces that are damaged, by digest, with where they are.
    pub(super) spoiled: BTreeMap<Digest, Place>,
}

/// What came of reading one piece.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// It was the last one of a round through all.
    pub ends_round: bool,
    /// What is wrong with it, if that is new.
    pub problem: Option<StorageError>,
}

const fn at(place: &Place) -> (u64, u64) {
    (place.pack, place.offset)
}

impl Snapshots {
    /// Reads the next piece of any snapshot, in the order in which they lie on the disk. None if
    /// there is no snapshot.
    pub fn scrub_next(&mut self) -> Option<Scrubbed> {
        let next = self.behind(self.scrub.cursor).or_else(|| self.behind(None));
        let (slot, entry, digest, place) = next?;
        self.scrub.cursor = Some(at(&place));
        let ends_round = self.behind(self.scrub.cursor).is_none();
        let mut problem = self.check_piece(&entry, &digest, &place, slot).err();
        if problem.is_some() && self.scrub.spoiled.insert(digest, place) == Some(place) {
            problem = None;
        }
        Some(Scrubbed { ends_round, problem })
    }

    /// The first piece behind this place of the disk, and of which list and entry it is.
    fn behind(&self, cursor: Option<(u64, u64)>) -> Option<(Slot, Entry, Digest, Place)> {
        let mut first: Option<(Slot, &Entry, Digest, Place)> = None;
        for (slot, list) in &self.lists {
            for entry in &list.entries {
                for (digest, place) in entry.places() {
                    let is_next = cursor.is_none_or(|cursor| at(&place) > cursor);
                    if is_next && first.as_ref().is_none_or(|it| at(&place) < at(&it.3)) {
                        first = Some((*slot, entry, digest, place));
                    }
                }
            }
        }
        first.map(|(slot, entry, digest, place)| (slot, entry.clone(), digest, place))
    }

    fn check_piece(
        &self,
        entry: &Entry,
        digest: &Digest,
        place: &Place,
        slot: Slot,
    ) -> Result<(), StorageError> {
        match entry {
            Entry::Small(top, ..) => {
                super::pack::piece(&*self.folder, place, (*top, digest), slot).map(drop)
            }
            Entry::Large(..) => super::pack::chunk(&*self.folder, place, digest).map(drop),
        }
    }

    /// Pieces that are known to be damaged.
    #[must_use]
    pub fn spoiled(&self) -> usize {
        self.scrub.spoiled.len()
    }

    /// Writes the damaged pieces anew that this state has, and gives how many those are. Which
    /// snapshots name them does not matter: a piece is what has its digest.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails.
    pub fn repair(&mut self, snapshot: &Snapshot) -> Result<usize, StorageError> {
        self.check()?;
        let pieces = piece::pieces(&snapshot.tree);
        let known = sources(&pieces);
        let is_spoiled = |digest: &Digest| self.scrub.spoiled.contains_key(digest);
        let write: Vec<_> = known.into_iter().filter(|(digest, _)| is_spoiled(digest)).collect();
        if write.is_empty() {
            return Ok(0);
        }
        let written = self.packs.write(&mut *self.folder, &self.identity, &write);
        let places: BTreeMap<Digest, Place> = self.latch(written)?.into_iter().collect();
        for (slot, list) in &mut self.lists {
            let mut changed = false;
            for entry in &mut list.entries {
                changed |= entry.move_to(&places);
            }
            if changed {
                let listed = list.write(&mut *self.folder, &self.identity, *slot);
                if let Err(error) = listed {
                    return self.latch(Err(error));
                }
            }
        }
        self.scrub.spoiled.retain(|digest, _| !places.contains_key(digest));
        let freed = self.remove_superfluous(Slot(0));
        self.latch(freed)?;
        Ok(places.len())
    }
}
