//! The state after a slot: what a checkpoint vouches for and what a transfer moves.

use crate::digest::Digest;
use crate::ids::Slot;
use crate::tree::Tree;

/// The state after one slot. A clone shares all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    /// The slot after which this is the state.
    pub slot: Slot,
    /// The tree's digest.
    pub digest: Digest,
    /// All sections.
    pub tree: Tree,
}

impl Snapshot {
    /// Seals the state after a slot.
    #[must_use]
    pub fn new(slot: Slot, tree: Tree) -> Self {
        Self { slot, digest: tree.digest(), tree }
    }
}

/// Where a transfer finds the states that its owner has.
pub trait Held {
    /// The state after this slot.
    fn snapshot(&self, slot: Slot) -> Option<&Snapshot>;

    /// The newest.
    fn latest(&self) -> Option<&Snapshot>;
}

/// Of who executes nothing, and has one state at most.
impl Held for Option<Snapshot> {
    fn snapshot(&self, slot: Slot) -> Option<&Snapshot> {
        self.as_ref().filter(|held| held.slot == slot)
    }
    fn latest(&self) -> Option<&Snapshot> {
        self.as_ref()
    }
}
