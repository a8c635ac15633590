//! States of which the content is in files and not in memory: leaves that know their places in
//! packs. A pack stays readable for as long as a leaf is there, also when it is superfluous and has
//! no name any more; its room is given back then.

use super::header::Place;
use super::list::Entry;
use super::pack;
use super::piece::SECTION_HEAD_BYTES;
use crate::disk::{DiskError, File, Folder};
use pentarchy_core::blobs::{BlobReader, BlobRef};
use pentarchy_core::tree::Leaf;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

/// Places that were found to be wrong and wait to be looked at; further ones the scrub finds.
const REPORTS_MAX: usize = 1024;

/// Where something could not be read, or was not what it was: packs and offsets there.
#[derive(Default)]
struct Reports(Mutex<BTreeSet<(u64, u64)>>);

impl Reports {
    fn all(&self) -> MutexGuard<'_, BTreeSet<(u64, u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A pack in which leaves have their bytes.
struct OpenPack {
    number: u64,
    file: Box<dyn File>,
    reports: Arc<Reports>,
}

impl BlobReader for OpenPack {
    fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        match self.file.read_at(&mut buffer, offset) {
            Ok(()) => Some(buffer),
            Err(_) => {
                self.spoiled(offset);
                None
            }
        }
    }

    fn spoiled(&self, offset: u64) {
        let mut reports = self.reports.all();
        if reports.len() < REPORTS_MAX {
            reports.insert((self.number, offset));
        }
    }
}

/// The packs in which leaves have their bytes, as long as one has.
#[derive(Default)]
pub struct Shelves {
    open: Mutex<BTreeMap<u64, Weak<OpenPack>>>,
    reports: Arc<Reports>,
}

impl Shelves {
    /// A place in a pack, as a leaf may have it.
    fn cold(
        &self,
        folder: &dyn Folder,
        pack: u64,
        (offset, bytes): (u64, u32),
    ) -> Result<BlobRef, DiskError> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shelf) = open.get(&pack).and_then(Weak::upgrade) {
            return Ok(BlobRef { shelf, offset, bytes });
        }
        let (file, reports) = (folder.open(&pack::name(pack))?, self.reports.clone());
        let shelf = Arc::new(OpenPack { number: pack, file, reports });
        open.retain(|_, known| known.strong_count() > 0);
        open.insert(pack, Arc::downgrade(&shelf));
        Ok(BlobRef { shelf, offset, bytes })
    }

    /// Where a chunk is.
    pub fn chunk(&self, folder: &dyn Folder, place: &Place) -> Result<BlobRef, DiskError> {
        self.cold(folder, place.pack, (place.offset, place.bytes))
    }

    /// The leaves of an entry, in order, at their places; those that are there already are left
    /// out.
    pub fn shelved<'a>(
        &self,
        folder: &dyn Folder,
        entry: &Entry,
        leaves: impl Iterator<Item = &'a Arc<Leaf>>,
    ) -> Result<Vec<Leaf>, DiskError> {
        let mut shelved = Vec::new();
        match entry {
            Entry::Large(_, chunks) => {
                let places = chunks.iter().map(|(_, place)| self.chunk(folder, place));
                let places: Vec<BlobRef> = places.collect::<Result<_, _>>()?;
                shelved.extend(leaves.filter_map(|leaf| leaf.shelved(places.iter().cloned())));
            }
            Entry::Small(_, _, place) => {
                let mut offset = place.offset;
                for leaf in leaves {
                    offset += SECTION_HEAD_BYTES as u64;
                    // A piece has at most a chunk.
                    let cold = self.cold(folder, place.pack, (offset, leaf.len() as u32))?;
                    offset += leaf.len() as u64;
                    shelved.extend(leaf.shelved(std::iter::once(cold)));
                }
            }
        }
        Ok(shelved)
    }

    /// A place that was found to be wrong.
    pub fn take_report(&self) -> Option<(u64, u64)> {
        self.reports.all().pop_first()
    }
}
