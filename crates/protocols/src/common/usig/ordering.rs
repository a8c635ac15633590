//! Normal case: propose and commit (MinBFT section 4). When a slot is executed, each variant says
//! for itself.

use super::message::Message;
use super::replica::{OnUsig, Variant};
use crate::common::counters::certificate::Opened;
use crate::common::counters::order::Order;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Orders};
use crate::common::frame::repair::Repair;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::Effects;

impl<V: Variant> Orders for OnUsig<V> {
    fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.slots.ordered(slot)
    }

    fn decided(&mut self, slot: Slot, out: &mut Effects<Self>) -> Option<Digest> {
        V::executable(self, slot, out)
    }

    fn propose(&mut self, out: &mut Effects<Self>) {
        self.slots.propose(&mut self.frame, out);
    }

    fn vote(&mut self, out: &mut Effects<Self>) {
        V::vote(self, out);
    }

    fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        self.try_acknowledge(out);
        self.leave(out);
        self.advance(out);
    }

    fn window_moved(&mut self, low: Slot) {
        let decided = self.enters.voters().len() >= self.frame.quorum();
        let taken_over = self.entry.as_ref().map(|entry| (entry.start(), decided));
        self.slots.advance_window(&mut self.frame, low, taken_over);
        V::window_moved(self, low);
    }
}

impl<V: Variant> OnUsig<V> {
    /// MinBFT section 4, steps 2 and 3 at the receivers.
    pub(crate) fn on_order(
        &mut self,
        verified: Verified<Message>,
        order: &Order,
        out: &mut Effects<Self>,
    ) {
        match order {
            Order::Prepare { .. } => {
                let taken_over = self.taken_over();
                if self.slots.on_prepare(&mut self.frame, verified, taken_over, out) {
                    V::on_prepare(self, out);
                    self.bodies_changed(out);
                }
                self.leave(out);
            }
            Order::Commit { view, slot, batch } => {
                let vote = (*view, *slot, *batch);
                let author = verified.author;
                if self.slots.on_commit(&mut self.frame, verified, vote, out) {
                    V::on_commit(self, author, *slot, out);
                    self.advance(out);
                    self.watch_gap(*slot, out);
                }
            }
        }
    }
}
