//! Checkpoints that are not stable yet.

use super::statements::Marked;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;

/// What is known of checkpoints behind the stable one. Bounded by the slots that may be ordered
/// there.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Marks {
    /// Where a checkpoint is due. All replicas agree on that, as it follows from what is ordered.
    pub due: BTreeSet<Slot>,
    /// This replica's states there; none of a witness.
    pub states: BTreeMap<Slot, Digest>,
    /// What the full replica before this one marked, with the signatures up to its own.
    pub before: BTreeMap<Slot, (Marked, Vec<Signature>)>,
    /// The last slot that this replica marked.
    pub marked: Slot,
}

impl Marks {
    /// A checkpoint is stable: nothing up to there is needed any more.
    pub fn cut(&mut self, upto: Slot) {
        self.due.retain(|slot| *slot > upto);
        self.states.retain(|slot, _| *slot > upto);
        self.before.retain(|slot, _| *slot > upto);
        self.marked = self.marked.max(upto);
    }
}
