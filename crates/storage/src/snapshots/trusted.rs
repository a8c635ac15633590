//! Which pieces this process knows to be intact on the disk.

use super::header::Place;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a pack.
enum Known {
    /// This process wrote it.
    Whole,
    /// Pieces from these offsets on were read.
    Pieces(BTreeSet<u64>),
}

/// By pack. No larger than the lists of the snapshots.
#[derive(Default)]
pub struct Trusted(BTreeMap<u64, Known>);

impl Trusted {
    /// This process wrote a pack.
    pub fn wrote(&mut self, pack: u64) {
        self.0.insert(pack, Known::Whole);
    }

    /// What is here was read, and is intact.
    pub fn read(&mut self, place: &Place) {
        let known = self.0.entry(place.pack).or_insert_with(|| Known::Pieces(BTreeSet::new()));
        if let Known::Pieces(offsets) = known {
            offsets.insert(place.offset);
        }
    }

    /// Whether what is here needs no look.
    pub fn contains(&self, place: &Place) -> bool {
        match self.0.get(&place.pack) {
            Some(Known::Whole) => true,
            Some(Known::Pieces(offsets)) => offsets.contains(&place.offset),
            None => false,
        }
    }

    /// Forgets all other packs.
    pub fn keep_only(&mut self, packs: &BTreeSet<u64>) {
        self.0.retain(|pack, _| packs.contains(pack));
    }
}
