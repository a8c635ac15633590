//! Repair of loss: while anyone is not level, everyone reports what it has, and answers a report
//! with what the reporter lacks: its own messages, and proposals, NEW-VIEWs and checkpoint proofs
//! of anyone. So whatever one correct replica has, every correct replica gets, also if its author
//! sends it to nobody again.

use super::Frame;
use super::hooks::{Core, Framed};
use crate::common::message::{Report, Shared};
use crate::common::timer::Timer;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, To};

/// How long a proposal that others have taken up may still be on its way.
const GAP_MILLIS: u32 = 2;

/// See the [module](self).
pub trait Repair: Core {
    /// Sees to it that a report goes out within a tick, if anything is open here or at a peer.
    fn arm_resend_if_unsettled(&mut self, out: &mut Effects<Self>) {
        if !self.frame().peers.is_timed() && !self.is_settled() {
            self.frame_mut().arm_resend(out);
        }
    }

    /// Whether nothing is open here and every peer said that it is where this replica is.
    fn is_settled(&self) -> bool {
        let frame = self.frame();
        frame.is_entered()
            && (!frame.view_requests.is_asking() || frame.suspects_primary())
            && frame.requests.is_empty()
            && frame.bodies.is_complete()
            && !frame.checkpoints.is_behind()
            && frame.executed >= frame.stable.slot.max(self.taken_over()).max(frame.to_fill.upto())
            && self.prepared() == frame.executed
            && self.last_final() == frame.executed
            && self.level().len() + 1 == frame.membership.n()
    }

    /// The last slot that this replica executed with all that led there. It may have come back to a
    /// state above, which it fetched, and not know who vouches for that: nobody may ever say so
    /// again, and it can vote for nothing above what others show it.
    fn executed_as_shown(&self) -> Slot {
        let frame = self.frame();
        match mutant!("frame.hole-not-reported") {
            false => frame.executed.min(frame.taken_up()),
            true => frame.executed,
        }
    }

    /// The last slot up to which this replica knows what every slot orders.
    fn prepared(&self) -> Slot {
        let mut slot = self.executed_as_shown();
        while self.ordered(slot.next()).is_some() {
            slot = slot.next();
        }
        slot
    }

    /// The peers whose last report puts them where this replica is.
    fn level(&self) -> ReplicaSet {
        let (frame, last_final) = (self.frame(), self.last_final());
        frame.peers.that_say(|report| {
            report.view == frame.view
                && report.entered == frame.is_entered()
                && report.stable == frame.stable.slot
                && report.executed == frame.executed
                && report.last_final() == last_final
        })
    }

    /// Where this replica is.
    fn report(&self) -> Report<Self::More> {
        let frame = self.frame();
        Report {
            view: frame.view,
            entered: frame.is_entered(),
            view_changes: frame.view_changes.keys().copied().collect(),
            stable: frame.stable.slot,
            executed: self.executed_as_shown(),
            prepared: self.prepared(),
            level: self.level(),
            more: self.more(),
        }
    }

    /// A peer says where it is.
    fn on_report(&mut self, from: ReplicaId, report: Report<Self::More>, out: &mut Effects<Self>) {
        let frame: &mut Frame<Self> = self.frame_mut();
        let stuck = frame.peers.hear(from, report, frame.executed);
        if frame.peers.may_answer(from) {
            frame.repeat_own(from, &report, out);
            if self.may_help(&report) {
                self.answer_view(from, &report, out);
            }
        }
        let frame = self.frame_mut();
        let same_view = report.view == frame.view && report.entered && frame.is_entered();
        let may_pass_on = stuck && same_view && !mutant!("frame.slots-not-passed-on");
        if may_pass_on && frame.peers.may_answer_slots(from) {
            self.answer_slots(from, &report, out);
        }
        let frame = self.frame_mut();
        if !report.level.contains(frame.me) {
            frame.arm_resend(out);
        }
        self.arm_resend_if_unsettled(out);
    }

    /// Somebody took up a slot. If the proposal that this backup must take up next has not come, it
    /// may be that the primary shows each to some replicas only, and the next tick is far. Messages
    /// overtake each other all the time, though, so it gets a moment.
    fn watch_gap(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let next = self.frame().next_slot;
        if slot >= next && self.lacks_next() && self.frame_mut().peers.open_gap(next) {
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }

    /// Whether this backup does not know what the slot orders that it must take up next.
    fn lacks_next(&self) -> bool {
        let frame = self.frame();
        let waits = frame.is_entered() && !frame.is_primary();
        waits && frame.next_slot <= frame.high() && self.ordered(frame.next_slot).is_none()
    }

    /// Tells the others where this replica is stuck: whoever hears that twice answers.
    fn on_gap(&mut self, out: &mut Effects<Self>) {
        let lacks = Some(self.frame().next_slot).filter(|_| self.lacks_next());
        if self.frame_mut().peers.ask_out_of_turn(lacks) {
            mark!("frame/gap");
            Frame::send(To::Others, Shared::Report(self.report()), out);
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }
}

impl<C: Core> Repair for C {}

impl<C: Framed> Frame<C> {
    /// Sees to it that a report goes out within a tick.
    pub fn arm_resend(&mut self, out: &mut Effects<C>) {
        if self.peers.start_timer() {
            out.arm(Timer::Resend, Delay::Resend);
        }
    }

    /// Asks for another view again, if it still does.
    pub(super) fn repeat_ask(&self, out: &mut Effects<C>) {
        if let Some(ask) = self.view_requests.to_repeat(self.view) {
            out.relay(To::Others, ask);
        }
    }

    /// Signs its last state again, if it is not stable.
    pub(super) fn repeat_checkpoint(&self, out: &mut Effects<C>) {
        if let Some((slot, state)) = self.checkpoints.latest_mine() {
            let signed = self.checkpoints.signed_by(self.me, slot);
            if slot > self.stable.slot && signed {
                Self::send(To::Others, Shared::Checkpoint { slot, state }, out);
            }
        }
    }

    /// Sends a peer the stable checkpoint that it lacks, and what this replica said about views.
    fn repeat_own(&self, from: ReplicaId, report: &Report<C::More>, out: &mut Effects<C>) {
        let to = To::One(from);
        if report.stable < self.stable.slot && !mutant!("frame.stable-not-passed-on") {
            Self::send(to, Shared::Stable(self.stable.clone()), out);
        }
        if let Some(ask) = self.view_requests.to_repeat(report.view) {
            out.relay(to, ask);
        }
        let lacks = report.view <= self.view && self.lacks(report, report.view_changes);
        if lacks && !self.is_entered() {
            self.own_view_change.iter().for_each(|message| out.relay(to, message));
        }
    }

    /// Whether a peer that says this lacks a message of this replica about its view, if that is who
    /// it has such messages of.
    #[must_use]
    pub fn lacks(&self, report: &Report<C::More>, has: ReplicaSet) -> bool {
        report.view < self.view || !has.contains(self.me)
    }

    /// Sends a peer again what it lacks of a slot, of which it may not even know what it orders.
    /// False if it has been sent enough until the next tick.
    pub fn repeat(
        &mut self,
        to: ReplicaId,
        message: &Verified<C::Message>,
        is_unknown: bool,
        out: &mut Effects<C>,
    ) -> bool {
        if message.author == to {
            // It hears that from itself only.
            return true;
        }
        if !self.peers.may_repeat(to, message.wire.len()) {
            return false;
        }
        mark!("frame/slot_relayed");
        if message.author != self.me && is_unknown {
            self.peers.lacked(to);
        }
        out.relay(To::One(to), message);
        true
    }

    /// Passes on a proposal that just came to whoever lacked one a short while ago.
    pub fn show_left_out(&mut self, proposed: &Verified<C::Message>, out: &mut Effects<C>) {
        if proposed.author == self.me {
            return;
        }
        for id in self.peers.left_out(proposed.author, proposed.wire.len()) {
            mark!("frame/proposal_shown");
            out.relay(To::One(id), proposed);
        }
    }
}
