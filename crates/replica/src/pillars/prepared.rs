//! Up to which slot a query must not miss what a pillar knows of, as the replica's thread sees it.

use pentarchy_core::ids::Slot;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a pillar's core last gave as
/// [`reads_from`](pentarchy_core::protocol::Protocol::reads_from).
///
/// The pillar sets it before it sends what it has to say about that slot. So whatever others do
/// because of what it sent, and whoever asks because of what they did, the replica's thread sees
/// the slot by then: a message in a mailbox might come later.
#[derive(Clone, Default)]
pub struct Prepared(Arc<AtomicU64>);

impl Prepared {
    pub fn set(&self, slot: Slot) {
        if self.get() != slot {
            self.0.store(slot.0, Ordering::SeqCst);
        }
    }

    pub fn get(&self) -> Slot {
        Slot(self.0.load(Ordering::SeqCst))
    }
}
