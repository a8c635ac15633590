//! Repair of loss: while anyone is not level, everyone reports what it has, and answers a report
//! with what the reporter lacks: its own messages, and PREPAREs, NEW-VIEW and checkpoint proofs of
//! anyone. So whatever one correct replica has, every correct replica gets, also if its author
//! sends it to nobody again.

use super::certificate::Entry;
use super::message::{Message, Report};
use super::replica::{MinBft, Phase, Timer};
use super::served::Served;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{RESEND_BYTES_MAX, RESEND_MESSAGES_MAX, WINDOW_SLOTS};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;

/// How long a PREPARE that others have committed to may still be on its way.
const GAP_MILLIS: u32 = 2;

/// Messages about slots that a peer is sent again between two ticks: a primary that leaves someone
/// out of every slot needs as many.
const RESEND_SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// How often it is asked for out of turn; then ticks have to do.
const GAP_ASKS: u8 = 4;

impl MinBft {
    /// Sees to it that a report goes out within a tick.
    pub(super) fn arm_resend(&mut self, out: &mut Effects<Self>) {
        if !self.resend_armed {
            self.resend_armed = true;
            out.arm(Timer::Resend, Delay::Resend);
        }
    }

    /// The same, if anything is open here or at a peer.
    pub(super) fn arm_resend_if_unsettled(&mut self, out: &mut Effects<Self>) {
        if !self.resend_armed && !self.is_settled() {
            self.arm_resend(out);
        }
    }

    /// Whether nothing is open here and every peer said that it is where this replica is.
    fn is_settled(&self) -> bool {
        let taken_over = self.entry.as_ref().map_or(Slot(0), Entry::end);
        self.phase == Phase::Entered
            && (self.own.ask.is_none() || self.objects())
            && self.pending.is_empty()
            && self.bodies.is_complete()
            && !self.checkpoints.is_behind()
            && self.committed >= self.stable.slot.max(taken_over)
            && self.prepared() == self.committed
            && self.level().len() + 1 == self.membership.n()
    }

    /// The peers whose last report puts them where this replica is.
    fn level(&self) -> ReplicaSet {
        let same = |report: &Report| {
            report.view == self.view
                && report.entered == (self.phase == Phase::Entered)
                && report.stable == self.stable.slot
                && report.committed == self.committed
        };
        let reports = (0u16..).map(ReplicaId).zip(&self.reports);
        reports.filter(|(_, report)| report.as_ref().is_some_and(same)).map(|(id, _)| id).collect()
    }

    /// The last slot up to which this replica knows what every slot orders.
    fn prepared(&self) -> Slot {
        let mut slot = self.committed;
        while self.window.get(slot.next()).is_some_and(|state| state.batch.is_some()) {
            slot = slot.next();
        }
        slot
    }

    fn report(&self) -> Report {
        let opening = self.opening.as_ref();
        let mut acknowledged: ReplicaSet =
            opening.iter().flat_map(|opening| opening.acknowledgements.keys().copied()).collect();
        if self.phase == Phase::Entered {
            // The entry is complete; more acknowledgements would not help.
            acknowledged = self.membership.ids().collect();
        }
        Report {
            view: self.view,
            entered: self.phase == Phase::Entered,
            opened: opening.is_some(),
            view_changes: self.view_changes.keys().copied().collect(),
            acknowledged,
            enters: self.enters.voters(),
            stable: self.stable.slot,
            committed: self.committed,
            prepared: self.prepared(),
            level: self.level(),
        }
    }

    /// A tick: repair what can be repaired from here, then tell the others where this replica is.
    pub(super) fn on_resend(&mut self, out: &mut Effects<Self>) {
        self.resend_armed = mutant!("minbft.resends-once");
        self.answered = ReplicaSet::EMPTY;
        self.served.fill_with(Served::default);
        self.resent.iter_mut().for_each(|resent| *resent = (0, 0));
        self.ticks += 1;
        self.check_behind(out);
        self.expire_asks();
        self.forward_requests(out);
        if !self.bodies.is_complete() {
            let pending = &self.pending;
            self.bodies.retry(|digest| pending.find(digest));
            self.bodies_changed(out);
            self.ask_missing(To::One(self.peer_of_tick()), out);
        }
        if let Some((slot, state)) = self.checkpoints.latest_mine() {
            let signed = self.checkpoints.signed_by(self.me, slot);
            if slot > self.stable.slot && signed {
                out.send(To::Others, Message::Checkpoint { slot, state });
            }
        }
        out.send(To::Others, Message::Report(self.report()));
        self.arm_resend_if_unsettled(out);
    }

    /// A different peer at each tick.
    fn peer_of_tick(&self) -> ReplicaId {
        let others = self.membership.n() as u64 - 1;
        let offset = 1 + self.ticks % others.max(1);
        ReplicaId(((u64::from(self.me.0) + offset) % self.membership.n() as u64) as u16)
    }

    /// The primary may never have seen what a client sent here: a client that leaves it out must
    /// not be able to have it deposed.
    fn forward_requests(&mut self, out: &mut Effects<Self>) {
        if self.phase != Phase::Entered || self.is_primary() {
            return;
        }
        for envelope in self.pending.tick(RESEND_MESSAGES_MAX, RESEND_BYTES_MAX) {
            self.forward(envelope, out);
        }
    }

    /// Passes a request on to the primary.
    pub(super) fn forward(&self, envelope: Arc<Envelope>, out: &mut Effects<Self>) {
        mark!("minbft/forward");
        if !mutant!("minbft.never-forwards") {
            let primary = self.membership.primary(self.view);
            out.send(To::One(primary), Message::Forward(envelope));
        }
    }

    /// A peer says where it is.
    pub(super) fn on_report(&mut self, from: ReplicaId, report: Report, out: &mut Effects<Self>) {
        let before = self.reports[usize::from(from.0)].replace(report);
        // A report is old by the time it arrives; only one that repeats itself shows a gap.
        let stuck = before.is_some_and(|before| {
            before.committed == report.committed && before.prepared == report.prepared
        });
        if self.answered.insert(from) {
            self.answer_view(from, &report, out);
        }
        if stuck && !mutant!("minbft.slots-not-passed-on") {
            self.answer_slots(from, &report, out);
        }
        if !report.level.contains(self.me) {
            self.arm_resend(out);
        }
        self.arm_resend_if_unsettled(out);
    }

    /// Sends a peer what it lacks of checkpoints and of the current view.
    fn answer_view(&self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let to = To::One(from);
        if report.stable < self.stable.slot && !mutant!("minbft.stable-not-passed-on") {
            out.send(to, Message::Stable(self.stable.clone()));
        }
        if let Some(ask) = self.own.ask.as_ref().filter(|_| self.asked_above(report)) {
            out.relay(to, ask);
        }
        if report.view > self.view {
            return;
        }
        let below = report.view < self.view;
        let lacks = |has: ReplicaSet| below || !has.contains(self.me);
        let changing = self.phase != Phase::Entered;
        if changing && lacks(report.view_changes) {
            self.own.view_change.iter().for_each(|message| out.relay(to, message));
        }
        if let Some(opening) = self.opening.as_ref().filter(|_| below || !report.opened) {
            mark!("minbft/new_view_relayed");
            if !mutant!("minbft.new-view-not-passed-on") {
                out.relay(to, &opening.message);
            }
        }
        if lacks(report.acknowledged) {
            self.own.acknowledge.iter().for_each(|message| out.relay(to, message));
        }
        if lacks(report.enters) {
            self.own.enter.iter().for_each(|message| out.relay(to, message));
        }
    }

    fn asked_above(&self, report: &Report) -> bool {
        self.asks.of(self.me).is_some_and(|view| view > report.view)
    }

    /// Sends a peer PREPAREs that it lacks and own COMMITs for slots that it has not committed.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let same_view = report.view == self.view && report.entered && self.phase == Phase::Entered;
        if !same_view {
            return;
        }
        let (messages, bytes) = &mut self.resent[usize::from(from.0)];
        let first = report.committed.max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let only_own = mutant!("minbft.only-authors-repeat");
            let prepare = state.prepare.as_ref().filter(|_| slot > report.prepared);
            let prepare = prepare.filter(|it| !only_own || it.author == self.me);
            for message in prepare.into_iter().chain(&state.own_commit) {
                *messages += 1;
                *bytes += message.wire.len();
                if *messages > RESEND_SLOTS_MAX || (*messages > 1 && *bytes > RESEND_BYTES_MAX) {
                    return;
                }
                mark!("minbft/slot_relayed");
                if message.author != self.me {
                    self.showing[usize::from(from.0)].lacked(self.ticks);
                }
                out.relay(To::One(from), message);
            }
        }
    }

    /// Passes on a PREPARE that just came to whoever lacked one a short while ago. What may be sent
    /// again between two ticks bounds this too.
    pub(super) fn show_left_out(&mut self, prepare: &Verified<Message>, out: &mut Effects<Self>) {
        if prepare.author == self.me {
            return;
        }
        for (id, showing) in (0u16..).map(ReplicaId).zip(&self.showing) {
            let (messages, bytes) = &mut self.resent[usize::from(id.0)];
            let room = *messages < RESEND_SLOTS_MAX && *bytes < RESEND_BYTES_MAX;
            if showing.is_on(self.ticks) && id != prepare.author && room {
                (*messages, *bytes) = (*messages + 1, *bytes + prepare.wire.len());
                mark!("minbft/prepare_shown");
                out.relay(To::One(id), prepare);
            }
        }
    }

    /// Somebody committed to a slot. If the PREPARE that this backup must commit to next has not
    /// come, it may be that the primary shows each to some replicas only, and the next tick is
    /// far. Messages overtake each other all the time, though, so it gets a moment.
    pub(super) fn watch_gap(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if self.gap.is_none() && slot >= self.next_slot && self.lacks_next() {
            self.gap = Some((self.next_slot, 0));
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }

    fn lacks_next(&self) -> bool {
        let waits = self.phase == Phase::Entered && !self.is_primary();
        waits && self.window.get(self.next_slot).is_some_and(|state| state.batch.is_none())
    }

    /// Tells the others where this replica is stuck: whoever hears that twice answers.
    pub(super) fn on_gap(&mut self, out: &mut Effects<Self>) {
        let Some((slot, asked)) = self.gap.take() else { return };
        if slot == self.next_slot && self.lacks_next() && asked < GAP_ASKS {
            mark!("minbft/gap");
            out.send(To::Others, Message::Report(self.report()));
            self.gap = Some((slot, asked + 1));
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }

    /// Own proposals in the window that are not decided.
    pub(super) fn recount_in_flight(&mut self) {
        if self.membership.primary(self.entered) == self.me {
            let open =
                |state: &super::replica::SlotState| state.prepare.is_some() && !state.decided;
            let count = self.window.iter().filter(|(_, state)| open(state)).count() as u64;
            self.in_flight = count + self.looping.len() as u64;
        }
    }
}
