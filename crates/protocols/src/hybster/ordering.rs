//! Normal case: propose, commit, decide (Hybster section 5.2.1). What is decided is executed in
//! order (`common/frame/execution.rs`).

use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, SlotState};
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Orders, Settles};
use crate::common::frame::repair::Repair;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, Finding, To};
use pentarchy_core::votes::Cast;

impl Orders for Hybster {
    fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.window.get(slot)?.batch
    }

    fn decided(&mut self, slot: Slot, _out: &mut Effects<Self>) -> Option<Digest> {
        let may_tell = self.frame.may_tell(slot);
        self.window.get(slot).filter(|state| state.decided && may_tell)?.batch
    }

    fn propose(&mut self, out: &mut Effects<Self>) {
        while self.in_flight < self.frame.tuning.proposals_in_flight
            && let Some((slot, proposal)) = self.frame.take_proposal(out)
        {
            self.in_flight += 1;
            self.looping.insert((self.frame.view, slot));
            let view = self.frame.view;
            out.persist(Record::Prepare { view, slot, proposal: proposal.clone() });
            self.say(Message::Prepare { view, slot, proposal }, out);
        }
    }

    fn vote(&mut self, out: &mut Effects<Self>) {
        while !self.frame.is_primary() && self.commit_next(out) {}
    }

    fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        self.try_accept(out);
        self.leave(out);
        self.advance(out);
    }

    fn window_moved(&mut self, low: Slot) {
        self.advance_window(low);
        self.recount_in_flight();
    }
}

/// What it executes is final.
impl Settles for Hybster {
    fn vouched(&self, _slot: Slot, state: Digest) -> Option<Digest> {
        Some(state)
    }
}

impl Hybster {
    /// Hybster section 5.2.1: a PREPARE.
    pub(super) fn on_prepare(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        out: &mut Effects<Self>,
    ) {
        if verified.author == self.frame.me {
            // Others may pass on earlier ones while this one waits for the disk.
            self.looping.remove(&(view, slot));
            if view == self.frame.entered {
                self.frame.note_spoken(slot);
            }
        }
        if view != self.frame.entered && !mutant!("hybster.prepare-of-any-view") {
            self.frame.keep_early(verified, view, Some(slot));
        } else if self.store_prepare(verified, slot, out) {
            // It may be of the view that is being left, and bring what the next one waits for.
            self.bodies_changed(out);
        }
        self.leave(out);
    }

    fn store_prepare(
        &mut self,
        verified: Verified<Message>,
        slot: Slot,
        out: &mut Effects<Self>,
    ) -> bool {
        let taken_over = slot <= self.taken_over();
        let Some(state) = self.window.get_mut(slot) else { return false };
        if taken_over || state.prepare.is_some() {
            return false;
        }
        let message = verified.message.clone();
        let Message::Prepare { proposal, .. } = &*message else { return false };
        let batch = proposal.digest();
        state.batch = Some(batch);
        state.commits.cast(verified.author, batch);
        state.prepare = Some(verified.clone());
        self.frame.on_proposal(verified.author, slot, proposal, out);
        self.decide(slot);
        self.frame.show_left_out(&verified, out);
        true
    }

    /// Hybster section 5.2.1: a COMMIT.
    pub(super) fn on_commit(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        if view != self.frame.entered && !mutant!("hybster.commit-of-any-view") {
            self.frame.keep_early(verified, view, Some(slot));
            return;
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        if verified.author == self.frame.me {
            state.own_commit = Some(verified.clone());
            self.frame.note_spoken(slot);
        }
        if state.commits.cast(verified.author, batch) == Cast::Counted {
            if state.prepare.is_some() && state.batch != Some(batch) {
                out.report(verified.author, Finding::MismatchedCommit { view, slot });
            }
            self.decide(slot);
            self.advance(out);
            self.watch_gap(slot, out);
        }
    }

    /// A quorum of commitments to what the PREPARE orders, itself among them, decides the slot.
    fn decide(&mut self, slot: Slot) {
        let quorum = self.frame.quorum();
        let Some(state) = self.window.get_mut(slot) else { return };
        let (Some(batch), Some(_), false) = (state.batch, &state.prepare, state.decided) else {
            return;
        };
        let enough = if mutant!("hybster.decide-with-f") { quorum - 1 } else { quorum };
        if state.commits.count(&batch) >= enough {
            state.decided = true;
            if self.frame.leads(self.frame.entered) && !mutant!("hybster.flight-leaks") {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
        }
    }

    /// Commits to the next slot, if its PREPARE is here with the whole batch and its time has come.
    /// In slot order, because the counter cannot go back to a slot that was left out.
    fn commit_next(&mut self, out: &mut Effects<Self>) -> bool {
        let skip = mutant!("hybster.commit-skips-gaps")
            && self.window.get(self.frame.next_slot).is_some_and(|state| state.prepare.is_none());
        let slot = if skip { self.frame.next_slot.next() } else { self.frame.next_slot };
        let Some(SlotState { prepare: Some(prepare), batch: Some(batch), .. }) =
            self.window.get(slot).filter(|_| self.frame.has_vote_room(slot))
        else {
            return false;
        };
        let (batch, primary, record) = (*batch, prepare.author, Record::Commit(prepare.clone()));
        let Some(body) = self.frame.bodies.get(&batch) else { return false };
        let time = body.time;
        if self.frame.is_future(time) {
            self.frame.wait_for_clock(slot, time, Some(primary), out);
            return false;
        }
        self.frame.persist_named(&batch, out);
        if !mutant!("hybster.commit-not-kept") {
            out.persist(record);
        }
        self.frame.note_vote(slot, &batch);
        self.frame.next_slot = slot.next();
        out.send(To::All, Message::Commit { view: self.frame.view, slot, batch });
        true
    }

    /// Own proposals in the window that are not decided.
    fn recount_in_flight(&mut self) {
        if self.frame.leads(self.frame.entered) {
            let open = |state: &SlotState| state.prepare.is_some() && !state.decided;
            let count = self.window.iter().filter(|(_, state)| open(state)).count() as u64;
            self.in_flight = count + self.looping.len() as u64;
        }
    }
}
