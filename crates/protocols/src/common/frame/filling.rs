//! Slots that other cores wait for whose orders are merged with this one ([`crate::pillars`]): the
//! primary is to fill them, and is judged by it as by requests.

use super::Frame;
use super::hooks::Framed;
use crate::common::slots_to_fill::{Ended, FillReason};
use crate::common::timer::Timer;
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;
use pentarchy_core::request::Envelope;

impl<C: Framed> Frame<C> {
    /// Whether anything follows from `on_fill`.
    #[must_use]
    pub fn can_fill(&self, slot: Slot, why: FillReason) -> bool {
        self.executed < slot && (self.to_fill.lacks(slot, why) || self.demands(slot, why))
    }

    /// Whether the primary would be judged by slots by which it is not judged yet.
    fn demands(&self, slot: Slot, why: FillReason) -> bool {
        let (room, heard) = self.room_and_heard(slot);
        let is_new = || self.monitor.lacks_demands(self.executed, room, heard);
        why == FillReason::Decided && self.may_judge_filling() && is_new()
    }

    /// Of the slots up to this one, the last that the primary can order now, and the last of which
    /// it can know.
    fn room_and_heard(&self, slot: Slot) -> (Slot, Slot) {
        (slot.min(self.reach()), slot.min(self.high()))
    }

    /// A replica that is behind cannot tell which slots the primary has filled. While too many
    /// bytes are executed behind the stable checkpoint, no primary may order more.
    fn may_judge_filling(&self) -> bool {
        self.judges() && !self.is_behind() && self.has_byte_room()
    }

    /// The last slot that the primary can order now: as many as it has under way at most, so that
    /// a pillar that runs far ahead does not make it look slow. A slot beyond the window lacks
    /// votes, and not a proposal.
    fn reach(&self) -> Slot {
        let reach = Slot(self.executed.0.saturating_add(self.tuning.proposals_in_flight));
        reach.min(self.high())
    }

    fn is_behind(&self) -> bool {
        self.is_fetching() || self.checkpoints.is_behind()
    }

    /// Slots up to this one are to be ordered. The primary does so at the end of its next round. If
    /// a later one is decided elsewhere, it can know, and is judged by how long it takes.
    pub(super) fn on_fill(&mut self, slot: Slot, why: FillReason, out: &mut Effects<C>) {
        if !self.can_fill(slot, why) {
            return;
        }
        if self.demands(slot, why) {
            let (room, heard) = self.room_and_heard(slot);
            self.monitor.demand_slots(self.executed, room, heard, self.now);
        }
        self.to_fill.extend(slot, why);
        self.arm_fill_timer(out);
    }

    /// Slots that the primary was to fill are executed. A replica that is behind cannot tell, and a
    /// primary that may order no more bytes is not late.
    pub(super) fn note_filled(&mut self) {
        if self.is_behind() {
            self.monitor.forget_slots();
        }
        self.monitor.executed_upto(self.executed, self.now);
        if !self.has_byte_room() {
            self.monitor.forget_slots();
        }
    }

    /// The last slot of which this replica has heard that others are at it: a proposal came, even
    /// if it cannot be voted for yet, or somebody correct voted, or reports that it is executed. A
    /// proposal alone counts no further from what this replica has taken up than a correct primary
    /// gets. What somebody correct says counts in full: the primary of this core could otherwise
    /// withhold parts of batches, and so have the primary of another one, which does not know that
    /// it is to fill slots, look slow.
    #[must_use]
    pub fn heard_of(&self) -> Slot {
        let taken_up = self.taken_up();
        let most = Slot(taken_up.0.saturating_add(self.tuning.proposals_in_flight));
        let others = self.peers.last_voted().max(self.peers.last_final());
        self.proposed.min(most).max(others).max(taken_up)
    }

    /// Whether this primary is to propose in its next slot although nothing waits.
    #[must_use]
    pub fn has_to_fill(&self) -> bool {
        self.next_slot <= self.to_fill.upto()
    }

    /// Runs the clock for what is to be filled, on backups that could have it: for so many slots at
    /// a time as the primary has under way at most.
    pub(super) fn arm_fill_timer(&mut self, out: &mut Effects<C>) {
        self.note_filled();
        let (may_judge, reach) = (self.may_judge_filling(), self.reach());
        if let Some(Ended { slot, was_overdue }) = self.to_fill.end_timer(may_judge, self.executed)
        {
            out.disarm(Timer::Fill(slot));
            if was_overdue {
                self.reconsider(out);
            }
        }
        if may_judge
            && !mutant!("frame.never-times-gaps")
            && let Some(slot) = self.to_fill.begin_timer(self.executed, reach)
        {
            out.arm(Timer::Fill(slot), self.judging_delay());
        }
    }

    /// A core beside this one decided a batch: whoever fills slots here has that to do as well.
    pub fn note_beside(&mut self, batch: &Batch) {
        if self.judges() {
            self.monitor.executed_beside(batch, self.tuning.batch_requests);
        }
    }

    /// This was executed, later than it was decided here or in another core: its client may have
    /// sent it again meanwhile, and nobody orders it again.
    pub fn executed_late(&mut self, envelope: &Envelope, out: &mut Effects<C>) {
        if self.requests.executed_late(envelope) {
            mark!("frame/executed_late");
            self.arm_request_timer(out);
        }
    }

    /// What waited may have been executed by a state that was installed: nobody here knows.
    pub fn forget_requests(&mut self, out: &mut Effects<C>) {
        self.requests.clear();
        self.view_change_timer.forget_late();
        self.arm_request_timer(out);
    }

    /// What others wait for was not ordered in time.
    pub(super) fn on_fill_timeout(&mut self, slot: Slot, out: &mut Effects<C>) {
        if self.may_judge_filling() && self.to_fill.timer_expired(slot, self.executed) {
            mark!("frame/fill_timeout");
            self.view_change_timer.slot_ran_out(slot);
            let reason = "a slot that others wait for was not ordered in time";
            self.ask(self.view.next(), reason, out);
        }
    }
}
