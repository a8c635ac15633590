//! The fast case: order, and execute what is ordered at once (section 3.2).

use super::certificate::extended;
use super::message::Message;
use super::record::Record;
use super::replica::{PastSlot, Phase, SlotState, Zyzzyva};
use super::variant::Variant;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::Orders;
use crate::common::frame::repair::Repair;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> Orders for Zyzzyva<V> {
    fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.window.get(slot)?.batch
    }

    /// The next slot, if it follows on what was executed, all of it is here and its time has come.
    /// As what says so is kept before the slot is executed, nothing has to come back first.
    /// In a view that a stable checkpoint contradicts nothing is executed any more.
    /// Behind a checkpoint nothing is executed before that is final: then there is always a state
    /// that is final to go back to, and never one on the disk that is not.
    fn decided(&mut self, slot: Slot, out: &mut Effects<Self>) -> Option<Digest> {
        let waits = self.halted.is_some() || self.is_stranded || self.is_overruled;
        if self.phase != Phase::Entered || waits || self.contradicted().is_some() {
            return None;
        }
        let parent = self.history(self.frame.executed)?;
        let SlotState { batch, order, .. } = self.window.get(slot)?;
        let (batch, order) = ((*batch)?, order.clone());
        if order.as_ref().is_some_and(|order| !self.follows(order, parent, out)) {
            return None;
        }
        let time = self.frame.bodies.get(&batch)?.time;
        if let Some(order) = order.filter(|_| self.frame.is_future(time)) {
            self.frame.wait_for_clock(slot, time, Some(order.author), out);
            return None;
        }
        Some(batch)
    }

    /// A primary whose order a stable checkpoint contradicts orders nothing more in its view: an
    /// order on that checkpoint and its own before would convict it.
    /// What clients are not told yet is in flight as what is not executed: while certificates are
    /// made, requests gather to be ordered together.
    fn propose(&mut self, out: &mut Effects<Self>) {
        while self.frame.is_primary()
            && !self.is_overruled
            && (self.held.len() as u64) < self.frame.tuning.proposals_in_flight
            && self.frame.executed >= self.frame.stable.slot
            && self.frame.next_slot.0 - self.frame.executed.0
                <= self.frame.tuning.proposals_in_flight
            && let Some((slot, proposal)) = self.frame.take_proposal(out)
        {
            let (view, parent) = (self.frame.view, self.tip);
            self.tip = extended(&parent, &proposal.digest());
            out.persist(Record::Propose { view, slot, parent, proposal: proposal.clone() });
            self.awaiting_loopback.insert(slot, (parent, proposal.clone()));
            out.send(To::All, Message::Order { view, slot, parent, proposal });
        }
    }

    /// What it executes it tells the clients, and the others only when somebody needs that.
    fn vote(&mut self, _out: &mut Effects<Self>) {}

    fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_confirm(out);
        self.advance(out);
    }

    fn window_moved(&mut self, low: Slot) {
        self.is_overruled |= self.is_overruled_at(low) && !mutant!("zyzzyva.orders-when-overruled");
        if self.frame.executed < low {
            self.forget_histories();
        }
        let left = self.window.iter().take_while(|(slot, _)| *slot <= low);
        let left = left.filter_map(|(slot, state)| {
            let all = if self.table.commits { self.clients(slot) } else { BTreeSet::new() };
            let content = all.difference(&state.doubts).copied().collect();
            Some((slot, PastSlot { history: state.history?, content }))
        });
        let left: Vec<_> = left.collect();
        self.past.extend(left);
        let window = self.frame.tuning.window_slots;
        self.past.retain(|slot, _| slot.0 + window > low.0);
        self.finals.retain(|slot, _| *slot > low);
        self.landed = None;
        self.window.advance(low);
        self.awaiting_loopback.retain(|at, _| *at > low);
        self.vouching.retain(|at, _| *at > low);
        self.certificate = self.certificate.take().filter(|it| it.place.slot > low);
        if self.frame.next_slot <= low {
            self.tip = self.frame.stable.state.history;
        }
    }
}

impl<V: Variant> Zyzzyva<V> {
    /// Nothing in the window was executed on the state that is here, or will be.
    pub(super) fn forget_histories(&mut self) {
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            if let Some(state) = self.window.get_mut(slot) {
                state.history = None;
            }
        }
    }

    /// The primary orders. What comes too early waits for its turn (section 4, caching of what is
    /// out of order).
    pub(super) fn on_order(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) {
        if view != self.frame.entered || self.phase != Phase::Entered {
            self.frame.keep_early(verified, view, Some(slot));
        } else if self.store_order(verified, slot, proposal, out) {
            self.advance(out);
            self.watch_gap(slot, out);
        }
    }

    fn store_order(
        &mut self,
        verified: Verified<Message>,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) -> bool {
        if verified.author == self.frame.me {
            self.awaiting_loopback.remove(&slot);
        }
        let taken_over = slot <= self.start.end();
        let Some(state) = self.window.get_mut(slot).filter(|_| !taken_over) else { return false };
        if let Some(known) = state.order.clone() {
            if known.digest != verified.digest {
                self.convict(&known, &verified, out);
            }
            return false;
        }
        state.batch = Some(proposal.digest());
        state.order = Some(verified.clone());
        self.frame.on_proposal(verified.author, slot, proposal, out);
        self.frame.show_left_out(&verified, out);
        true
    }

    /// Whether an order rests on what this replica executed. If not, either the primary contradicts
    /// itself, and what it ordered before proves that; or it does not know what its view began
    /// with; or a quorum has left the view and made something else stable.
    fn follows(
        &mut self,
        order: &Verified<Message>,
        parent: Digest,
        out: &mut Effects<Self>,
    ) -> bool {
        let Message::Order { parent: named, .. } = &*order.message else { return false };
        if *named == parent || mutant!("zyzzyva.any-history-is-good") {
            return true;
        }
        mark!("zyzzyva/other_history");
        let before = self.window.get(self.frame.executed).and_then(|state| state.order.clone());
        if let Some(before) = before {
            self.convict(&before, order, out);
        }
        self.frame.object_to_order("the primary orders on another history", out);
        false
    }
}
