//! Going through a state on disk section by section, with no more of it in memory than a piece.

use super::header::Place;
use super::list::{self, Entry};
use super::{Snapshots, pack};
use crate::error::StorageError;
use crate::summing::Summing;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::tree::Leaf;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Sections that are not as they are in the files: what they hold, or nothing if they are empty.
pub type Overlay = BTreeMap<u32, Option<Arc<Leaf>>>;

/// Whoever is shown the sections of a state that are not empty, in order.
pub trait Sections {
    /// Here begins a section of so many bytes.
    ///
    /// # Errors
    /// [`StorageError`] if it cannot be taken: nothing more is shown.
    fn begin(&mut self, section: u32, bytes: u64) -> Result<(), StorageError>;

    /// Some of its bytes.
    ///
    /// # Errors
    /// As [`Self::begin`].
    fn take(&mut self, bytes: &[u8]) -> Result<(), StorageError>;
}

/// Whoever wants nothing but to know that they are intact.
impl Sections for () {
    fn begin(&mut self, _: u32, _: u64) -> Result<(), StorageError> {
        Ok(())
    }
    fn take(&mut self, _: &[u8]) -> Result<(), StorageError> {
        Ok(())
    }
}

/// What was seen of a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Walked {
    /// Sections that are not empty.
    pub sections: u32,
    /// Bytes of those.
    pub bytes: u64,
    /// The state's digest.
    pub digest: Digest,
}

/// On the way.
struct Walk<'a> {
    overlay: &'a Overlay,
    /// Of the overlay, sections below this were shown.
    next: u32,
    to: &'a mut dyn Sections,
    summing: Summing,
    bytes: u64,
    file: String,
}

impl Walk<'_> {
    fn begin(&mut self, section: u32, digest: Digest, bytes: u64) -> Result<(), StorageError> {
        if !self.summing.add(section, digest) {
            let what = format!("section {section} is not where it should be");
            return Err(StorageError::Corrupt { file: self.file.clone(), offset: 0, what });
        }
        self.bytes += bytes;
        self.to.begin(section, bytes)
    }

    fn leaf(&mut self, leaf: &Leaf) -> Result<(), StorageError> {
        let section = leaf.section();
        self.begin(section, leaf.digest(), leaf.len() as u64)?;
        let absent = || StorageError::Absent { sections: vec![section] };
        if leaf.chunks().is_empty() {
            return self.to.take(&leaf.joined().ok_or_else(absent)?);
        }
        leaf.chunks().iter().try_for_each(|chunk| self.to.take(&chunk.read().ok_or_else(absent)?))
    }

    /// Shows what the overlay has below a section.
    fn overlay_below(&mut self, section: u32) -> Result<(), StorageError> {
        let overlay = self.overlay;
        if self.next < section {
            for leaf in overlay.range(self.next..section).filter_map(|(_, leaf)| leaf.as_ref()) {
                self.leaf(leaf)?;
            }
            self.next = section;
        }
        Ok(())
    }

    /// Shows what the overlay has up to a section, and says whether that is in it.
    fn covers(&mut self, section: u32) -> Result<bool, StorageError> {
        self.overlay_below(section)?;
        Ok(self.overlay.contains_key(&section))
    }
}

impl Snapshots {
    /// Shows all sections of a stored state, but for those of the overlay, which are shown in their
    /// place. Each piece is checked when it is read; whether all together are the state that is
    /// meant its digest says at the end.
    ///
    /// # Errors
    /// [`StorageError`]; what was shown before means nothing.
    pub fn walk(
        &self,
        slot: Slot,
        overlay: &Overlay,
        to: &mut dyn Sections,
    ) -> Result<Walked, StorageError> {
        let lacking = || StorageError::Missing { what: format!("snapshot {slot}") };
        let list = self.lists.get(&slot).ok_or_else(lacking)?;
        let (summing, file) = (Summing::new(list.sections), list::name(slot));
        let mut walk = Walk { overlay, next: 0, to, summing, bytes: 0, file };
        for entry in &list.entries {
            if let Entry::Large(section, chunks) = entry {
                if !walk.covers(*section)? {
                    self.walk_chunks(*section, chunks, &mut walk)?;
                }
                continue;
            }
            for leaf in self.leaves(entry, slot)? {
                if !walk.covers(leaf.section())? {
                    walk.leaf(&leaf)?;
                }
            }
        }
        walk.overlay_below(list.sections)?;
        let (sections, digest) = walk.summing.finish();
        Ok(Walked { sections, bytes: walk.bytes, digest })
    }

    fn walk_chunks(
        &self,
        section: u32,
        chunks: &[(Digest, Place)],
        walk: &mut Walk<'_>,
    ) -> Result<(), StorageError> {
        let bytes = chunks.iter().map(|(_, place)| u64::from(place.bytes)).sum();
        let digest = Leaf::digest_of_chunks(section, chunks.iter().map(|(digest, _)| digest));
        walk.begin(section, digest, bytes)?;
        for (digest, place) in chunks {
            walk.to.take(&pack::chunk(&*self.folder, place, digest)?)?;
        }
        Ok(())
    }

    /// Reads all of a stored state, with no more of it in memory than a piece, and checks it.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn check_whole(&self, slot: Slot) -> Result<Walked, StorageError> {
        let walked = self.walk(slot, &Overlay::new(), &mut ())?;
        match self.lists.get(&slot).filter(|list| list.digest == walked.digest) {
            Some(_) => Ok(walked),
            None => Err(not_the_state(slot)),
        }
    }

    /// The sections of a stored state, the empty ones included, and its digest.
    #[must_use]
    pub fn shape(&self, slot: Slot) -> Option<(u32, Digest)> {
        self.lists.get(&slot).map(|list| (list.sections, list.digest))
    }
}

/// The pieces of a snapshot are intact and something else than its list says.
pub fn not_the_state(slot: Slot) -> StorageError {
    let what = "its pieces are not the state that it is the list of".to_owned();
    StorageError::Corrupt { file: list::name(slot), offset: 0, what }
}
