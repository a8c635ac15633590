//! Holding the batches that a view takes over: what is shown and acted on can be executed and
//! handed on.

use super::Counted;
use super::certificate::{CertifiedViewChange, Opened, Start, ViewChange};
use crate::common::frame::Frame;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::Effects;

/// Whether a batch is here and its time has come: what correct replicas committed to passes sooner
/// or later, what a liar made up may never.
pub fn holds<C: Counted>(
    frame: &mut Frame<C>,
    slot: Slot,
    batch: Digest,
    out: &mut Effects<C>,
) -> bool {
    frame.bodies.want(slot, batch);
    let Some(time) = frame.bodies.get(&batch).map(|batch| batch.time) else {
        return false;
    };
    let future = frame.is_future(time);
    if future {
        frame.wait_for_clock(slot, time, None, out);
    }
    !future
}

/// Whether every batch is here that a view takes over behind the window's low mark; wants those
/// that are not.
pub fn holds_all<C: Counted>(frame: &mut Frame<C>, start: &Start, out: &mut Effects<C>) -> bool {
    let slots = start.above(frame.stable.slot);
    slots.fold(true, |complete, (slot, batch)| holds(frame, slot, batch, out) && complete)
}

/// Whether every batch that a VIEW-CHANGE shows is here; wants those that are not.
pub fn holds_shown<C: Counted, E: Opened>(
    frame: &mut Frame<C>,
    change: &ViewChange<E>,
    out: &mut Effects<C>,
) -> bool {
    let mut complete = true;
    let low = frame.stable.slot.max(change.checkpoint.slot);
    for slot in (low.0 + 1..=change.shown().0).map(Slot) {
        if let Some(batch) = change.batch(slot) {
            complete &= holds(frame, slot, batch, out);
        }
    }
    complete
}

/// The VIEW-CHANGEs for the view whose batches are here, by which a primary could open it and give
/// them to everyone else.
pub fn usable_changes<C: Counted>(
    frame: &mut Frame<C>,
    out: &mut Effects<C>,
) -> Vec<CertifiedViewChange<C::Entry>> {
    let shown: Vec<Verified<C::Message>> = frame.view_changes.values().cloned().collect();
    let mut usable = Vec::new();
    for verified in shown {
        let (Some(change), Some(ui)) = (C::as_change(&verified.message), verified.tag.ui()) else {
            continue;
        };
        if holds_shown(frame, change, out) {
            let (author, ui, change) = (verified.author, *ui, change.clone());
            usable.push(CertifiedViewChange { author, ui, change });
        }
    }
    usable
}

/// Keeps the batches that a view takes over.
pub fn persist_bodies<C: Counted>(frame: &mut Frame<C>, start: &Start, out: &mut Effects<C>) {
    for (slot, batch) in start.above(frame.stable.slot) {
        frame.persist_body(slot, &batch, out);
    }
}
