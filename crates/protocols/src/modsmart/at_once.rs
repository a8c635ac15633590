//! Where nobody lies a replica locks what the primary proposes without hearing what others wrote:
//! PROPOSE is its primary's ACCEPT, and a majority of ACCEPTs decides (*State Machine Replication
//! for the Masses with BFT-SMaRt*, section 3).

use super::message::Message;
use super::record::Record;
use super::replica::ModSmart;
use super::slot::SlotState;
use super::variant::Variant;
use super::writes::Lock;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> ModSmart<V> {
    /// Locks a batch that it holds, and accepts it once the log has both.
    pub(super) fn accept_at_once(&mut self, slot: Slot, batch: Digest, out: &mut Effects<Self>) {
        mark!("modsmart/accept_at_once");
        let view = self.frame.entered;
        let Some(state) = self.window.get_mut(slot) else { return };
        let lock = note_lock(state, view, batch);
        if !mutant!("modsmart-cft.accepts-before-durable") {
            out.persist(Record::Lock { slot, lock });
        }
        out.send(To::All, Message::Accept { view, slot, batch });
    }
}

/// A replica takes a batch for what the slot orders in this view.
pub(super) fn note_lock<V: Variant>(state: &mut SlotState<V>, view: View, batch: Digest) -> Lock {
    let lock = Lock { view, batch, signatures: Vec::new() };
    (state.round.wrote, state.round.locked) = (Some(batch), true);
    state.lock(lock.clone());
    lock
}
