//! Where a core stands: for one line of trace, for metrics, for leader hints.

use crate::ids::{ReplicaId, Slot, View};

/// Where a core stands.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Status {
    /// The view it is in or wants to enter.
    pub view: View,
    /// The primary of that view.
    pub primary: ReplicaId,
    /// What the replica is doing: `normal`, `changing`, `entering`, `draining`, `catching-up`.
    pub phase: &'static str,
    /// The last slot of the contiguous committed order.
    pub committed: Slot,
    /// The last stable checkpoint.
    pub stable: Slot,
    /// The highest slot that `f + 1` other replicas reported as committed, so that one of them is
    /// correct; what fewer say may be a lie.
    pub peers_committed: Slot,
    /// Envelopes waiting to be ordered.
    pub waiting: usize,
    /// View changes since the start.
    pub view_changes: u64,
    /// Why the last view change began; empty if there was none.
    pub reason: &'static str,
}
