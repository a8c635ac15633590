//! Repair of loss: while anyone is not level, everyone reports what it has, and answers a report
//! with what the reporter lacks: its own messages, and orders, NEW-VIEW and proofs of anyone. So
//! whatever one correct replica has, every correct replica gets, also if its author sends it to
//! nobody again. This is the paper's FILL-HOLE and CONFIRM-REQ (sections 3.2 and 3.4).

use super::message::{Message, Report};
use super::replica::{Phase, Timer, Zyzzyva};
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{RESEND_BYTES_MAX, RESEND_MESSAGES_MAX, WINDOW_SLOTS};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;

/// How long an order may still be on its way when a later one is here.
const GAP_MILLIS: u32 = 2;

/// Signed messages about slots that a peer is sent again between two ticks: whom a primary leaves
/// out of every slot needs as many orders, and our votes.
const RESEND_SLOTS_MAX: usize = 2 * WINDOW_SLOTS as usize;

/// How often it is asked for out of turn; then ticks have to do.
const GAP_ASKS: u8 = 4;

impl<const KIND: usize> Zyzzyva<KIND> {
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
        self.phase == Phase::Entered
            && (self.own.ask.is_none() || self.objects())
            && self.pending.is_empty()
            && self.bodies.is_complete()
            && !self.checkpoints.is_behind()
            && self.executed >= self.stable.slot().max(self.start.end())
            && self.executed == self.committed
            && self.known() == self.executed
            && self.level().len() + 1 == self.membership.n()
    }

    /// The peers whose last report puts them where this replica is.
    fn level(&self) -> ReplicaSet {
        let same = |report: &Report| {
            report.view == self.view
                && report.entered == (self.phase == Phase::Entered)
                && report.stable == self.stable.slot()
                && report.committed == self.committed
                && report.executed == self.executed
        };
        let reports = (0u16..).map(ReplicaId).zip(&self.reports);
        reports.filter(|(_, report)| report.as_ref().is_some_and(same)).map(|(id, _)| id).collect()
    }

    /// The last slot up to which this replica knows what every slot orders.
    fn known(&self) -> Slot {
        let mut slot = self.executed;
        while self.window.get(slot.next()).is_some_and(|state| state.batch.is_some()) {
            slot = slot.next();
        }
        slot
    }

    fn report(&self) -> Report {
        Report {
            view: self.view,
            entered: self.phase == Phase::Entered,
            opened: self.proposed.is_some() || self.phase == Phase::Entered,
            view_changes: self.view_changes.keys().copied().collect(),
            confirms: self.confirms.keys().copied().collect(),
            stable: self.stable.slot(),
            committed: self.committed,
            executed: self.executed,
            known: self.known(),
            level: self.level(),
        }
    }

    /// A tick: repair what can be repaired from here, then tell the others where this replica is.
    pub(super) fn on_resend(&mut self, out: &mut Effects<Self>) {
        self.resend_armed = mutant!("zyzzyva.resends-once");
        self.answered = ReplicaSet::EMPTY;
        self.disputed = ReplicaSet::EMPTY;
        self.served.iter_mut().for_each(|served| *served = 0);
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
        self.settle_what_rests(out);
        self.sign_again(out);
        out.send(To::Others, Message::Report(self.report()));
        self.arm_resend_if_unsettled(out);
    }

    /// Nothing was executed since the last tick: what was is to become final now, and not only at
    /// the next checkpoint.
    fn settle_what_rests(&mut self, out: &mut Effects<Self>) {
        let rests = self.at_tick == self.executed;
        self.at_tick = self.executed;
        if rests && self.executed > self.committed && !mutant!("zyzzyva.rests-unsettled") {
            self.vote(self.executed, out);
        }
    }

    /// Says again which state this replica has, as long as that is not stable.
    fn sign_again(&self, out: &mut Effects<Self>) {
        if let Some((slot, history, state)) = self.signed.filter(|it| it.0 > self.stable.slot()) {
            out.send(To::Others, Message::Checkpoint { slot, history, state });
        }
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
        mark!("zyzzyva/forward");
        if !mutant!("zyzzyva.never-forwards") {
            let primary = self.membership.primary(self.view);
            out.send(To::One(primary), Message::Forward(envelope));
        }
    }

    /// A peer says where it is.
    pub(super) fn on_report(&mut self, from: ReplicaId, report: Report, out: &mut Effects<Self>) {
        let before = self.reports[usize::from(from.0)].replace(report);
        // A report is old by the time it arrives; only one that repeats itself shows a gap.
        let stuck = before.is_some_and(|before| {
            let reached = |it: Report| (it.committed, it.executed, it.known);
            reached(before) == reached(report)
        });
        if self.answered.insert(from) {
            self.answer_view(from, &report, out);
        }
        if stuck {
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
        if report.stable < self.stable.slot() && !mutant!("zyzzyva.stable-not-passed-on") {
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
        if self.phase != Phase::Entered {
            let change = self.own.view_change.iter().filter(|_| lacks(report.view_changes));
            let confirm = self.own.confirm.iter().filter(|_| lacks(report.confirms));
            let opening = self.proposed.iter().map(|(verified, _)| verified);
            let opening = opening.filter(|_| below || !report.opened);
            let not_back = |message: &&Verified<Message>| message.author != from;
            let messages = change.chain(opening).chain(confirm).filter(not_back);
            messages.for_each(|message| out.relay(to, message));
        } else if let Some((opening, proof)) = &self.opening
            && (below || !report.entered)
            && !mutant!("zyzzyva.new-view-not-passed-on")
        {
            mark!("zyzzyva/new_view_relayed");
            // Nobody is sent back its own.
            if opening.author != from {
                out.relay(to, opening);
            }
            out.send(to, Message::Confirmed(proof.clone()));
        }
    }

    fn asked_above(&self, report: &Report) -> bool {
        self.asks.of(self.me).is_some_and(|view| view > report.view)
    }

    /// Sends a peer orders that it lacks, and own votes and COMMITs for slots that are not final
    /// there.
    fn answer_slots(&mut self, from: ReplicaId, report: &Report, out: &mut Effects<Self>) {
        let same_view = report.view == self.view && report.entered && self.phase == Phase::Entered;
        if !same_view {
            return;
        }
        let (messages, bytes) = &mut self.resent[usize::from(from.0)];
        let first = report.committed.min(report.known).max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let lacks = |order: &&Verified<Message>| slot > report.known && order.author != from;
            let order = state.order.as_ref().filter(lacks);
            let vote = state.own_vote.as_ref().filter(|_| slot > report.committed);
            for message in order.into_iter().chain(vote) {
                *messages += 1;
                *bytes += message.wire.len();
                if *messages > RESEND_SLOTS_MAX || (*messages > 1 && *bytes > RESEND_BYTES_MAX) {
                    return;
                }
                mark!("zyzzyva/slot_relayed");
                if message.author != self.me {
                    self.showing[usize::from(from.0)].lacked(self.ticks);
                }
                out.relay(To::One(from), message);
            }
            if let (true, Some(history)) = (state.committed, state.history)
                && slot > report.committed
            {
                let place = Place { view: self.entered, slot, history };
                out.send(To::One(from), Message::Commit(place));
            }
        }
    }

    /// Passes on an order that just came to whoever lacked one a short while ago. What may be sent
    /// again between two ticks bounds this too.
    pub(super) fn show_left_out(&mut self, order: &Verified<Message>, out: &mut Effects<Self>) {
        if order.author == self.me {
            return;
        }
        for (id, showing) in (0u16..).map(ReplicaId).zip(&self.showing) {
            let (messages, bytes) = &mut self.resent[usize::from(id.0)];
            let room = *messages < RESEND_SLOTS_MAX && *bytes < RESEND_BYTES_MAX;
            if showing.is_on(self.ticks) && id != order.author && id != self.me && room {
                (*messages, *bytes) = (*messages + 1, *bytes + order.wire.len());
                mark!("zyzzyva/order_shown");
                out.relay(To::One(id), order);
            }
        }
    }

    /// An order came, and not the one that this replica follows next. It may be that the primary
    /// shows each to some replicas only, and the next tick is far. Messages overtake each other all
    /// the time, though, so it gets a moment.
    pub(super) fn watch_gap(&mut self, out: &mut Effects<Self>) {
        if self.gap.is_none() && self.lacks_next() {
            self.gap = Some((self.executed.next(), 0));
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }

    fn lacks_next(&self) -> bool {
        let waits = self.phase == Phase::Entered && !self.is_primary() && self.halted.is_none();
        let next = self.window.get(self.executed.next());
        waits && next.is_some_and(|state| state.batch.is_none())
    }

    /// Tells the others where this replica is stuck: whoever hears that twice answers.
    pub(super) fn on_gap(&mut self, out: &mut Effects<Self>) {
        let Some((slot, asked)) = self.gap.take() else { return };
        let later = self.window.iter().any(|(at, state)| at > slot && state.batch.is_some());
        if slot == self.executed.next() && self.lacks_next() && later && asked < GAP_ASKS {
            mark!("zyzzyva/gap");
            out.send(To::Others, Message::Report(self.report()));
            self.gap = Some((slot, asked + 1));
            out.arm(Timer::Gap, Delay::Millis(GAP_MILLIS));
        }
    }
}
