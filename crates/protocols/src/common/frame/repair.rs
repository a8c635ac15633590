//! Repair of loss: while anyone is not level, everyone reports what it has, and answers a report
//! with what the reporter lacks: its own messages, and proposals, NEW-VIEWs and checkpoint proofs
//! of anyone. So whatever one correct replica has, every correct replica gets, also if its author
//! sends it to nobody again.

use super::checkpointing::Checkpointing;
use super::hooks::{Core, Framed};
use super::{Frame, Heard};
use crate::common::message::{More, Report, Shared};
use crate::common::reply_quota::ReplyQuota;
use crate::common::timer::Timer;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{RESEND_BYTES_MAX, WINDOW_SLOTS};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, To};

/// How long a proposal that others have taken up may still be on its way.
const GAP_MILLIS: u32 = 2;

/// How often it is asked for out of turn; then ticks have to do.
const GAP_ASKS: u8 = 4;

/// How often a peer that is stuck is sent what it lacks of its slots between two ticks: once for
/// its own tick, and as often as it asks out of turn.
const SLOT_ANSWERS_MAX: u8 = 1 + GAP_ASKS;

/// See the [module](self).
pub trait Repair: Core {
    /// Sees to it that a report goes out within a tick, if anything is open here or at a peer.
    fn arm_resend_if_unsettled(&mut self, out: &mut Effects<Self>) {
        if !self.frame().resend_armed && !self.is_settled() {
            self.frame_mut().arm_resend(out);
        }
    }

    /// Whether nothing is open here and every peer said that it is where this replica is.
    fn is_settled(&self) -> bool {
        let frame = self.frame();
        frame.is_entered()
            && (!frame.view_requests.is_asking() || frame.objects())
            && frame.pending.is_empty()
            && frame.bodies.is_complete()
            && !frame.checkpoints.is_behind()
            && frame.executed >= frame.stable.slot.max(self.taken_over()).max(frame.fill)
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
        let same = |Heard { report, .. }: &Heard<Self::More>| {
            report.view == frame.view
                && report.entered == frame.is_entered()
                && report.stable == frame.stable.slot
                && report.executed == frame.executed
                && report.last_final() == last_final
        };
        let reports = (0u16..).map(ReplicaId).zip(&frame.reports);
        reports.filter(|(_, heard)| heard.as_ref().is_some_and(same)).map(|(id, _)| id).collect()
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

    /// A tick: repair what can be repaired from here, then tell the others where this replica is.
    fn on_resend(&mut self, out: &mut Effects<Self>) {
        self.frame_mut().begin_tick();
        self.check_behind(out);
        let frame = self.frame_mut();
        frame.repeat_ask(out);
        frame.forward_requests(out);
        if !frame.bodies.is_complete() {
            let pending = &frame.pending;
            frame.bodies.retry(|digest| pending.find(digest));
            self.bodies_changed(out);
            let frame = self.frame();
            frame.ask_missing(To::One(frame.peer_of_tick()), out);
        }
        self.on_tick(out);
        self.frame().repeat_checkpoint(out);
        Frame::send(To::Others, Shared::Report(self.report()), out);
        self.arm_resend_if_unsettled(out);
    }

    /// A peer says where it is.
    fn on_report(&mut self, from: ReplicaId, report: Report<Self::More>, out: &mut Effects<Self>) {
        let frame: &mut Frame<Self> = self.frame_mut();
        let stuck = frame.note_report(from, report);
        if frame.answered.insert(from) {
            frame.repeat_own(from, &report, out);
            if self.may_help(&report) {
                self.answer_view(from, &report, out);
            }
        }
        let frame = self.frame_mut();
        let same_view = report.view == frame.view && report.entered && frame.is_entered();
        if stuck && same_view && !mutant!("frame.slots-not-passed-on") {
            let answers = &mut frame.slots_answered[usize::from(from.0)];
            if *answers < SLOT_ANSWERS_MAX {
                *answers += 1;
                self.answer_slots(from, &report, out);
            }
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
        if self.frame().gap.is_none() && slot >= next && self.lacks_next() {
            self.frame_mut().gap = Some((next, 0));
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
        let Some((slot, asked)) = self.frame_mut().gap.take() else { return };
        if slot == self.frame().next_slot && self.lacks_next() && asked < GAP_ASKS {
            mark!("frame/gap");
            Frame::send(To::Others, Shared::Report(self.report()), out);
            self.frame_mut().gap = Some((slot, asked + 1));
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }
}

impl<C: Core> Repair for C {}

impl<C: Framed> Frame<C> {
    /// Sees to it that a report goes out within a tick.
    pub fn arm_resend(&mut self, out: &mut Effects<C>) {
        if !self.resend_armed {
            self.resend_armed = true;
            out.arm(Timer::Resend, Delay::Resend);
        }
    }

    /// Takes note of where a peer is, and says whether it is stuck. A report is old by the time it
    /// arrives, so one alone shows nothing. But who says the same twice has a gap; and so has who
    /// lacks at the second one still what had been decided here at the first, however much of later
    /// slots came meanwhile.
    fn note_report(&mut self, from: ReplicaId, report: Report<C::More>) -> bool {
        let heard = Heard { report, executed: self.executed };
        let Some(before) = self.reports[usize::from(from.0)].replace(heard) else { return false };
        let reached = |it: Report<C::More>| (it.executed, it.prepared, it.more.reached());
        let lags = report.executed == before.report.executed
            && report.executed < before.executed
            && !mutant!("frame.stuck-only-if-idle");
        lags || reached(before.report) == reached(report)
    }

    /// What peers were sent before a tick does not count against what they are sent after it.
    fn begin_tick(&mut self) {
        self.resend_armed = mutant!("frame.resends-once");
        self.answered = ReplicaSet::EMPTY;
        self.reply_quotas.fill_with(ReplyQuota::default);
        self.resent.fill((0, 0));
        self.slots_answered.fill(0);
        self.ticks += 1;
    }

    /// A different peer at each tick.
    fn peer_of_tick(&self) -> ReplicaId {
        let others = self.membership.n() as u64 - 1;
        let offset = 1 + self.ticks % others.max(1);
        ReplicaId(((u64::from(self.me.0) + offset) % self.membership.n() as u64) as u16)
    }

    /// Asks for another view again, if it still does.
    fn repeat_ask(&self, out: &mut Effects<C>) {
        if let Some(ask) = self.view_requests.to_repeat(self.view) {
            out.relay(To::Others, ask);
        }
    }

    /// Signs its last state again, if it is not stable.
    fn repeat_checkpoint(&self, out: &mut Effects<C>) {
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
        if !self.may_repeat(to, message.wire.len()) {
            return false;
        }
        mark!("frame/slot_relayed");
        if message.author != self.me && is_unknown {
            self.forward_to[usize::from(to.0)].lacked(self.ticks);
        }
        out.relay(To::One(to), message);
        true
    }

    /// Counts a message about a slot that a peer is sent again, of so many bytes; false if it has
    /// been sent enough until the next tick.
    pub fn may_repeat(&mut self, to: ReplicaId, bytes: usize) -> bool {
        let (messages, sent) = &mut self.resent[usize::from(to.0)];
        *messages += 1;
        *sent += bytes;
        *messages <= Self::REPEATED_MAX && (*messages == 1 || *sent <= RESEND_BYTES_MAX)
    }

    /// Messages about slots that a peer is sent again between two ticks: whom a primary leaves out
    /// of every slot needs as many.
    const REPEATED_MAX: usize = C::REPEATED_PER_SLOT * WINDOW_SLOTS as usize;

    /// Passes on a proposal that just came to whoever lacked one a short while ago. What may be
    /// sent again between two ticks bounds this too.
    pub fn show_left_out(&mut self, proposed: &Verified<C::Message>, out: &mut Effects<C>) {
        if proposed.author == self.me {
            return;
        }
        for (id, showing) in (0u16..).map(ReplicaId).zip(&self.forward_to) {
            let (messages, bytes) = &mut self.resent[usize::from(id.0)];
            let room = *messages < Self::REPEATED_MAX && *bytes < RESEND_BYTES_MAX;
            if showing.is_on(self.ticks) && id != proposed.author && room {
                (*messages, *bytes) = (*messages + 1, *bytes + proposed.wire.len());
                mark!("frame/proposal_shown");
                out.relay(To::One(id), proposed);
            }
        }
    }
}
