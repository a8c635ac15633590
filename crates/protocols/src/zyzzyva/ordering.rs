//! The fast case: order, and execute what is ordered at once (section 3.2).

use super::certificate::extended;
use super::message::Message;
use super::record::{Record, persist_named};
use super::replica::{EARLY_PER_SLOT, Phase, SlotState, Timer, Zyzzyva};
use crate::common::clock::{ClockWait, is_ahead};
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, Finding, To};

impl<const KIND: usize> Zyzzyva<KIND> {
    /// Orders what waits, while slots and pipeline have room. Called at the end of a round, so that
    /// everything that arrived together is ordered together, and nothing waits for more.
    pub(super) fn propose(&mut self, out: &mut Effects<Self>) {
        while self.is_primary()
            && self.executed >= self.stable.slot()
            && self.next_slot <= self.window.high()
            && self.next_slot.0 - self.executed.0 <= self.tuning.proposals_in_flight
            && self.has_byte_room()
            && self.pending.has_unproposed()
        {
            let items = self.pending.propose(self.tuning.batch_requests);
            let proposal = Arc::new(Proposal::new(self.now, items));
            let (slot, parent, view) = (self.next_slot, self.tip, self.view);
            self.next_slot = slot.next();
            self.tip = extended(&parent, &proposal.digest());
            mark!("zyzzyva/order");
            let named = proposal.named().filter_map(|digest| self.pending.find(&digest));
            named.for_each(|envelope| out.persist(Record::Envelope(envelope)));
            out.persist(Record::Propose { view, slot, parent, proposal: proposal.clone() });
            self.unheard.insert(slot, (parent, proposal.clone()));
            out.send(To::All, Message::Order { view, slot, parent, proposal });
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
        if view != self.entered || self.phase != Phase::Entered {
            self.keep_early(verified, view);
        } else if self.store_order(verified, slot, proposal, out) {
            self.advance(out);
            self.watch_gap(out);
        }
    }

    fn store_order(
        &mut self,
        verified: Verified<Message>,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) -> bool {
        if verified.author == self.me {
            self.unheard.remove(&slot);
        }
        let taken_over = slot <= self.start.end();
        let Some(state) = self.window.get_mut(slot).filter(|_| !taken_over) else { return false };
        let (author, batch) = (verified.author, proposal.digest());
        if let Some(known) = state.order.clone() {
            if known.digest != verified.digest {
                self.convict(&known, &verified, out);
            }
            return false;
        }
        state.batch = Some(batch);
        state.order = Some(verified.clone());
        self.bodies.want(slot, batch);
        let pending = &self.pending;
        if self.bodies.offer(proposal, |digest| pending.find(digest)) {
            out.report(author, Finding::OversizeBatch { slot });
            self.distrust(author, out);
        }
        if self.bodies.get(&batch).is_none() {
            mark!("zyzzyva/order_incomplete");
            self.arm_fetch(out);
        }
        self.show_left_out(&verified, out);
        true
    }

    /// Keeps a message of the view that this replica is about to enter.
    pub(super) fn keep_early(&mut self, verified: Verified<Message>, view: View) {
        let of_author = self.early.iter().filter(|early| early.author == verified.author).count();
        let room = of_author < EARLY_PER_SLOT * self.tuning.window_slots as usize;
        let early = view == self.view && view != self.entered;
        let known = |early: &Verified<Message>| *early == verified && early.wire == verified.wire;
        if early && room && !self.early.iter().any(known) {
            mark!("zyzzyva/early");
            self.early.push(verified);
        }
    }

    /// Does everything that the state allows: executes in slot order.
    pub(super) fn advance(&mut self, out: &mut Effects<Self>) {
        while self.execute_next(out) {}
        self.arm_request_timer(out);
        self.arm_resend_if_unsettled(out);
    }

    /// Whether so little was executed since the stable checkpoint that more may be.
    fn has_byte_room(&self) -> bool {
        self.checkpoints.extent.bytes() < 2 * self.tuning.checkpoint_bytes
    }

    /// Hands the next slot to execution, if it follows on what was executed, all of it is here and
    /// its time has come. Behind a checkpoint nothing is executed before that is final: then there
    /// is always a state that is final to go back to, and never one on the disk that is not.
    fn execute_next(&mut self, out: &mut Effects<Self>) -> bool {
        if self.phase != Phase::Entered || self.halted.is_some() || !self.has_byte_room() {
            return false;
        }
        let slot = self.executed.next();
        let Some(parent) = self.history(self.executed) else { return false };
        let Some(SlotState { batch: Some(batch), order, .. }) = self.window.get(slot) else {
            return false;
        };
        let (digest, order) = (*batch, order.clone());
        if order.as_ref().is_some_and(|order| !self.follows(order, parent, out)) {
            return false;
        }
        let Some(body) = self.bodies.get(&digest).cloned() else { return false };
        if let Some(order) = &order {
            if self.is_future(body.time) {
                self.wait_for_clock(slot, body.time, Some(order.author), out);
                return false;
            }
            persist_named(&body, out);
            if !mutant!("zyzzyva.order-not-kept") {
                out.persist(Record::Order(order.clone()));
            }
        }
        let history = extended(&parent, &digest);
        if let Some(state) = self.window.get_mut(slot) {
            state.history = Some(history);
        }
        self.executed = slot;
        self.note_executed(&body);
        let is_checkpoint = self.checkpoints.extent.executed(slot, body.bytes(), &self.tuning);
        let view = self.entered;
        out.output(Output::Speculate { slot, batch: body, view, history });
        self.speculated(slot, is_checkpoint, out);
        true
    }

    /// Whether an order rests on what this replica executed. If not, either the primary contradicts
    /// itself, and what it ordered before proves that; or it does not know what its view began
    /// with.
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
        let before = self.window.get(self.executed).and_then(|state| state.order.clone());
        if let Some(before) = before {
            self.convict(&before, order, out);
        }
        self.ask(self.view.next(), "the primary orders on another history", out);
        false
    }

    /// Whether an order's time is further ahead of our clock than clocks may differ.
    pub(super) fn is_future(&self, time: Millis) -> bool {
        is_ahead(time, self.now) && !mutant!("zyzzyva.any-time-is-good")
    }

    /// Looks again when our clock has come near, and within a second in case it gets set.
    fn wait_for_clock(
        &mut self,
        slot: Slot,
        time: Millis,
        suspect: Option<ReplicaId>,
        out: &mut Effects<Self>,
    ) {
        if self.clock_wait.is_none_or(|waiting| waiting.slot != slot) {
            let waiting = ClockWait { slot, time, suspect };
            self.clock_wait = Some(waiting);
            out.arm(Timer::Clock, Delay::Millis(waiting.look_after(self.now)));
        }
    }

    /// The host said the time. It may not have for a while, at the start or after a pause, so only
    /// what is ahead of the clock even now is its proposer's doing.
    pub(super) fn clock_moved(&mut self, out: &mut Effects<Self>) {
        let Some(ClockWait { slot, time, suspect }) = self.clock_wait else { return };
        if !self.is_future(time) {
            out.disarm(Timer::Clock);
            self.on_clock(out);
        } else if let Some(primary) = suspect {
            mark!("zyzzyva/future_time");
            out.report(primary, Finding::FutureTime { slot, time });
            self.clock_wait = Some(ClockWait { slot, time, suspect: None });
        }
    }

    /// Whatever waited for our clock may go on.
    pub(super) fn on_clock(&mut self, out: &mut Effects<Self>) {
        self.clock_wait = None;
        self.advance(out);
    }
}
