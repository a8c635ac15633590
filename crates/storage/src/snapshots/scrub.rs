//! Reading what nobody asks for, one piece at a time, so that rot is found while it can be mended:
//! a piece that is damaged on the disk is written anew from a state in memory that has it. What is
//! written has the digest of what was lost, so it does not matter which state that is. Lists are
//! read once in a round; they are in memory as a whole.

use super::header::Place;
use super::list::{Entry, List};
use super::pack::{self, Source};
use super::{Snapshots, piece, sources};
use crate::disk::DiskError;
use crate::error::StorageError;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Place as Top;
use std::collections::{BTreeMap, BTreeSet};

/// Pieces that are looked up at a time: all lists are gone through for that, once for so many
/// pieces, however many there are.
const PLANNED_MAX: usize = 1024;

/// How far scrubbing is, and what it found.
#[derive(Default)]
pub struct Scrub {
    /// The last piece that was read: its pack and its place there.
    cursor: Option<At>,
    /// Those that come next, by where they are.
    planned: BTreeMap<At, Planned>,
    /// Nothing comes behind those.
    is_last: bool,
    /// Pieces that are damaged, by digest, with where they are.
    pub(super) spoiled: BTreeMap<Digest, Place>,
}

/// Pack and place in it.
type At = (u64, u64);

/// A piece that is to be read.
struct Planned {
    digest: Digest,
    place: Place,
    /// Where it is in the tree; none if it is a chunk.
    top: Option<Top>,
}

/// What came of reading one piece.
#[derive(Clone, Debug)]
pub struct Scrubbed {
    /// It was the last one of a round through all.
    pub ends_round: bool,
    /// What is wrong with it, if that is new.
    pub problem: Option<StorageError>,
    /// The first and the last section that may have been in it then.
    pub sections: Option<(u32, u32)>,
}

const fn at(place: &Place) -> At {
    (place.pack, place.offset)
}

impl Scrub {
    /// Forgets what is in other packs, which go, and damage in what none of these lists names.
    pub(super) fn keep_only(&mut self, packs: &BTreeSet<u64>, lists: &BTreeMap<Slot, List>) {
        self.planned.retain(|(pack, _), _| packs.contains(pack));
        if self.spoiled.is_empty() {
            return;
        }
        let places = lists.values().flat_map(List::places);
        self.spoiled = places.filter(|(it, at)| self.spoiled.get(it) == Some(at)).collect();
    }
}

impl Snapshots {
    /// Reads the next piece of any snapshot, in the order in which they lie on the disk. None if
    /// there is no snapshot.
    pub fn scrub_next(&mut self) -> Option<Scrubbed> {
        if let Some(next) = self.next_reported() {
            return Some(self.scrub_piece(&next, false));
        }
        while self.scrub.planned.is_empty() {
            if self.scrub.is_last {
                self.scrub.cursor = None;
            }
            self.plan();
            if self.scrub.planned.is_empty() && self.scrub.cursor.take().is_none() {
                return None;
            }
        }
        let (reached, next) = self.scrub.planned.pop_first()?;
        self.scrub.cursor = Some(reached);
        let ends_round = self.scrub.is_last && self.scrub.planned.is_empty();
        Some(self.scrub_piece(&next, ends_round))
    }

    /// Reads the pieces in which somebody found something wrong, and gives what is. The next save
    /// does without what is there.
    pub fn scrub_reported(&mut self) -> Vec<StorageError> {
        let mut problems = Vec::new();
        while let Some(next) = self.next_reported() {
            problems.extend(self.scrub_piece(&next, false).problem);
        }
        problems
    }

    fn scrub_piece(&mut self, next: &Planned, ends_round: bool) -> Scrubbed {
        let spoiled = self.check_piece(next).err().and_then(|error| self.spoil(next, error));
        let (problem, sections) = spoiled.unzip();
        Scrubbed { ends_round, problem, sections }
    }

    /// A piece in which somebody found something wrong, who wanted to read it.
    fn next_reported(&mut self) -> Option<Planned> {
        let shelves = self.shelves.as_ref()?;
        while let Some((pack, offset)) = shelves.take_report() {
            let is_meant = |place: &Place| {
                let end = place.offset + u64::from(place.bytes);
                place.pack == pack && (place.offset..end).contains(&offset)
            };
            for entry in self.lists.values().flat_map(|list| &list.entries) {
                let top = if let Entry::Small(top, ..) = entry { Some(*top) } else { None };
                if let Some((digest, place)) = entry.places().find(|(_, place)| is_meant(place)) {
                    return Some(Planned { digest, place, top });
                }
            }
        }
        None
    }

    /// Looks up which pieces come next.
    fn plan(&mut self) {
        let Self { lists, scrub, .. } = self;
        scrub.is_last = true;
        for entry in lists.values().flat_map(|list| &list.entries) {
            let top = if let Entry::Small(top, ..) = entry { Some(*top) } else { None };
            for (digest, place) in entry.places() {
                let is_behind = scrub.cursor.is_none_or(|cursor| at(&place) > cursor);
                let is_full = scrub.planned.len() == PLANNED_MAX;
                let last =
                    scrub.planned.last_key_value().filter(|_| is_full).map(|(last, _)| *last);
                if !is_behind || last.is_some_and(|last| at(&place) > last) {
                    scrub.is_last &= !is_behind;
                    continue;
                }
                scrub.planned.insert(at(&place), Planned { digest, place, top });
                if scrub.planned.len() > PLANNED_MAX {
                    scrub.planned.pop_last();
                    scrub.is_last = false;
                }
            }
        }
    }

    fn check_piece(&self, Planned { digest, place, top }: &Planned) -> Result<(), StorageError> {
        match top {
            Some(top) => pack::piece(&*self.folder, place, (*top, digest), Slot(0)).map(drop),
            None => pack::chunk(&*self.folder, place, digest).map(drop),
        }
    }

    /// A piece is damaged: gives what to say of it if that is new, and any snapshot still has it,
    /// with the sections that may be in it.
    fn spoil(
        &mut self,
        found: &Planned,
        problem: StorageError,
    ) -> Option<(StorageError, (u32, u32))> {
        let wanted = (found.digest, found.place);
        let names = |entry: &&Entry| entry.places().any(|it| it == wanted);
        let of = |list: &List| {
            let entry = list.entries.iter().find(names)?;
            Some((entry.name(list.sections), entry.sections(list.sections)))
        };
        let (of, sections) = self.lists.values().find_map(of)?;
        let is_known = self.scrub.spoiled.insert(found.digest, found.place) == Some(found.place);
        let told = |problem| match problem {
            StorageError::Corrupt { file, offset, what } => {
                StorageError::Corrupt { file, offset, what: format!("{what}: {of}") }
            }
            other => other,
        };
        (!is_known).then(|| (told(problem), sections))
    }

    /// Reads the lists of all snapshots, and writes anew those that are not what they were. Gives
    /// what was wrong.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails.
    pub fn mend_lists(&mut self) -> Result<Vec<StorageError>, StorageError> {
        self.check()?;
        let Self { folder, identity, lists, packs, .. } = self;
        let mut problems = Vec::new();
        let mut written: Result<(), DiskError> = Ok(());
        for (slot, list) in lists {
            let read = List::read(&**folder, &super::list::name(*slot), Some(identity), packs);
            if let Err(problem) = read {
                problems.push(problem);
                written = written.and_then(|()| list.write(&mut **folder, identity, *slot));
            }
        }
        self.latch(written).map(|()| problems)
    }

    /// Pieces that are known to be damaged.
    #[must_use]
    pub fn spoiled(&self) -> usize {
        self.scrub.spoiled.len()
    }

    /// Writes the damaged pieces anew that this state has, and gives how many those are. Which
    /// snapshots name them does not matter: a piece is what has its digest. So what has not, in
    /// memory either, is left as it is.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails.
    pub fn repair(&mut self, snapshot: &Snapshot) -> Result<usize, StorageError> {
        self.check()?;
        let pieces = piece::pieces(&snapshot.tree);
        let known = sources(&pieces);
        let is_wanted = |digest: &Digest, source: &Source<'_>| {
            self.scrub.spoiled.contains_key(digest) && source.has(digest)
        };
        let write: Vec<_> =
            known.into_iter().filter(|(digest, source)| is_wanted(digest, source)).collect();
        if write.is_empty() {
            return Ok(0);
        }
        let written = self.packs.write(&mut *self.folder, &self.identity, &write);
        let places: BTreeMap<Digest, Place> = match self.latch_unwritten(written) {
            // It was there a moment ago.
            Err(StorageError::Absent { .. }) => return Ok(0),
            written => written?.into_iter().collect(),
        };
        places.values().for_each(|place| self.trusted.wrote(place.pack));
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

    /// Removes the snapshots before the newest one that is whole and not newer than this slot:
    /// nothing can be gained of what is damaged in those.
    ///
    /// # Errors
    /// [`StorageError`]; from then on every operation that writes fails.
    pub fn remove_before_whole(&mut self, upto: Slot) -> Result<(), StorageError> {
        let is_spoiled = |digest: &Digest| self.scrub.spoiled.contains_key(digest);
        let is_whole = |list: &List| !list.places().any(|(digest, _)| is_spoiled(&digest));
        let whole = self.lists.range(..=upto).rev().find(|(_, list)| is_whole(list));
        match whole.map(|(slot, _)| *slot) {
            Some(slot) => self.remove_below(slot),
            None => Ok(()),
        }
    }
}
