//! Normal case: propose, commit, decide (Hybster section 5.2.1). What is decided is executed in
//! order (`common/frame/execution.rs`).

use super::message::Message;
use super::replica::Hybster;
use crate::common::counters::certificate::Opened;
use crate::common::counters::order::Order;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Finality, Orders};
use crate::common::frame::repair::Repair;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::Effects;

impl Orders for Hybster {
    fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.slots.ordered(slot)
    }

    fn decided(&mut self, slot: Slot, _out: &mut Effects<Self>) -> Option<Digest> {
        self.slots.decided(&self.frame, slot)
    }

    fn propose(&mut self, out: &mut Effects<Self>) {
        self.slots.propose(&mut self.frame, out);
    }

    fn vote(&mut self, out: &mut Effects<Self>) {
        self.slots.commit(&mut self.frame, out);
    }

    fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        self.try_accept(out);
        self.leave(out);
        self.advance(out);
    }

    fn window_moved(&mut self, low: Slot) {
        let decided = self.enters.voters().len() >= self.frame.quorum();
        let taken_over = self
            .opening
            .as_ref()
            .map(|opening| &opening.entry)
            .map(|entry| (entry.start(), decided));
        self.slots.advance_window(&mut self.frame, low, taken_over);
    }
}

/// What it executes is final.
impl Finality for Hybster {
    fn vouched(&self, _slot: Slot, state: Digest) -> Option<Digest> {
        Some(state)
    }
}

impl Hybster {
    /// Hybster section 5.2.1: a PREPARE or a COMMIT.
    pub(super) fn on_order(
        &mut self,
        verified: Verified<Message>,
        order: &Order,
        out: &mut Effects<Self>,
    ) {
        match order {
            Order::Prepare { .. } => {
                let taken_over = self.taken_over();
                if self.slots.on_prepare(&mut self.frame, verified, taken_over, out) {
                    self.bodies_changed(out);
                }
                self.leave(out);
            }
            Order::Commit { view, slot, batch } => {
                let vote = (*view, *slot, *batch);
                if self.slots.on_commit(&mut self.frame, verified, vote, out) {
                    self.advance(out);
                    self.watch_gap(*slot, out);
                }
            }
        }
    }
}
