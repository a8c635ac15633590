//! Asking for views and leaving for them. What a replica then shows, and what follows from it, is
//! the protocol's.

use super::Frame;
use super::hooks::{Core, Framed};
use crate::common::message::Shared;
use crate::common::timer::Timer;
use crate::common::view_change_timer::Standing;
use crate::common::view_requests::{ASK_AGE_MAX, ASK_AGE_TICKS};
use crate::common::voted_bytes::VotedBytes;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, To};

/// See the [module](self).
pub trait Changing: Core {
    /// A replica asks for a view.
    fn on_request_view_change(
        &mut self,
        verified: &Verified<Self::Message>,
        view: View,
        out: &mut Effects<Self>,
    ) {
        let Some(signature) = verified.tag.signature() else { return };
        let (author, signature) = (verified.author, Signature(*signature));
        let frame = self.frame_mut();
        if author == frame.me {
            if frame.view_requests.has_withdrawn(view) {
                return;
            }
            if !frame.is_primary() {
                frame.view_requests.came_back(verified.clone(), view);
            }
        }
        if verified.is_direct {
            frame.view_requests.hear(author, view, signature);
        } else {
            frame.view_requests.show(author, view, signature);
        }
        self.try_leave(out);
    }

    /// Leaves for the highest view that `f + 1` replicas ask for. In a view that works only those
    /// count that stand by it: what others show may be old.
    fn try_leave(&mut self, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        frame.time_asks(out);
        let fewer = usize::from(mutant!("frame.leave-on-f-asks"));
        let any = !frame.is_entered() || mutant!("frame.old-asks-count");
        let count = frame.weak() - fewer;
        let Some(target) = frame.view_requests.wanted_by(count, any) else { return };
        if target > frame.view {
            mark!("frame/leave");
            if frame.view_requests.of(frame.me) < Some(target) {
                frame.reason = "others asked for it";
            }
            self.leave_for(target, out);
        }
    }

    /// A replica left for a view, by these requests.
    fn on_leaving(
        &mut self,
        verified: Verified<Self::Message>,
        view: View,
        requests: &[(ReplicaId, (View, Signature))],
        out: &mut Effects<Self>,
    ) {
        if view < self.frame().view {
            return;
        }
        let frame = self.frame_mut();
        frame.view_requests.show_all(requests);
        frame.view_requests.leaves(verified.author, view);
        self.try_leave(out);
        let frame = self.frame_mut();
        let author = verified.author;
        if view > frame.view && frame.view_requests.is_left_behind(author, frame.peers.ticks()) {
            mark!("frame/followed");
            frame.reason = "a replica had been left behind";
            self.leave_for(view, out);
        }
        let frame = self.frame_mut();
        if view != frame.view || frame.is_entered() {
            return;
        }
        if author == frame.me {
            frame.own_view_change = Some(verified.clone());
        }
        let fresh = !frame.view_changes.contains_key(&author);
        frame.view_changes.entry(author).or_insert(verified);
        if fresh && frame.view_changes.len() == frame.quorum() {
            // From now on the new primary could open its view.
            mark!("frame/view_change_quorum");
            frame.time_new_primary(out);
        }
        self.try_open(out);
        if fresh && self.awaits_opening() && !self.frame().bodies.is_complete() {
            self.frame().ask_missing(To::Others, out);
        }
    }
}

impl<C: Core> Changing for C {}

impl<C: Framed> Frame<C> {
    /// Asks for a view. Goes on working in the current one until `f + 1` have asked. A primary does
    /// not ask for another one while its own view works.
    pub fn ask(&mut self, view: View, reason: &'static str, out: &mut Effects<C>) {
        if self.is_primary() || !self.view_requests.start_asking(view) {
            return;
        }
        if !mutant!("frame.never-asks") {
            self.reason = reason;
            Self::send(To::All, Shared::RequestViewChange { view }, out);
            self.arm_resend(out);
        }
    }

    /// See [`pentarchy_core::protocol::Protocol::asks_to_leave`].
    #[must_use]
    pub fn asks_to_leave(&self) -> Vec<C::Message> {
        vec![C::shared(Shared::RequestViewChange { view: self.view.next() })]
    }

    /// Sees to it that asks grow older.
    pub(super) fn time_asks(&mut self, out: &mut Effects<C>) {
        if self.view_requests.start_timer(self.monitor.is_slow()) {
            out.arm(Timer::Asks, Delay::Resends { times: ASK_AGE_TICKS });
        }
    }

    /// What others ask for has grown older. In no working view, nothing is forgotten.
    pub(super) fn on_asks_timeout(&mut self, out: &mut Effects<C>) {
        self.view_requests.timer_expired(self.peers.is_timed());
        // A replica that asks and has no ticks tells its ask again to one that has.
        self.peers.answer_again();
        if self.is_entered() {
            self.view_requests.expire();
            if self.monitor.asks_grew_older(self.membership.primary(self.view), ASK_AGE_MAX) {
                mark!("frame/objection_ended");
                self.reconsider(out);
            }
        }
        self.time_asks(out);
    }

    /// By what this replica says whether a view failed. So far this slot is final.
    pub(super) fn standing(&self, last_final: Slot) -> Standing {
        let next = self.requests.next_arrival();
        let oldest = self.requests.oldest().unwrap_or(next);
        Standing { last_final, oldest, next, now: self.now }
    }

    /// Gives up every lower view. So far this slot is final.
    pub fn move_to(&mut self, view: View, last_final: Slot, out: &mut Effects<C>) {
        let standing = self.standing(last_final);
        self.view_change_timer.view_left(self.is_entered(), standing);
        if !self.is_entered() {
            mark!("frame/view_failed");
            out.disarm(Timer::ViewChange(self.view));
        }
        self.view = view;
        self.monitor.view_ended(self.now);
        self.view_changes_count += 1;
        self.view_changes.clear();
        self.early.clear();
        self.own_view_change = None;
        self.end_waiting(out);
        self.to_fill.view_ended();
        self.arm_request_timer(out);
        self.arm_fill_timer(out);
        self.arm_resend(out);
        if !mutant!("frame.waits-untimed-for-a-quorum") {
            // If a quorum never leaves, others may be waiting for this replica's ask.
            self.time_view(out);
        }
    }

    /// Gives its view so much time to begin. Whoever is in no view that works has a timer, or asks
    /// for the next view: nobody else may have a reason to.
    pub(super) fn time_view(&mut self, out: &mut Effects<C>) {
        let doublings = self.view_change_timer.start();
        self.arm_view_change_timer(doublings, out);
    }

    fn arm_view_change_timer(&self, doublings: u8, out: &mut Effects<C>) {
        if !mutant!("frame.trusts-new-primary") {
            out.arm(Timer::ViewChange(self.view), Delay::ViewChange { doublings });
        }
    }

    /// Gives the new primary time to open its view.
    pub fn time_new_primary(&mut self, out: &mut Effects<C>) {
        let doublings = self.view_change_timer.start_for_primary();
        self.arm_view_change_timer(doublings, out);
    }

    /// The view was not entered in time.
    pub(super) fn on_view_change_timeout(&mut self, view: View, out: &mut Effects<C>) {
        if view == self.view && !self.is_entered() {
            mark!("frame/view_change_timeout");
            self.view_change_timer.expired();
            self.ask(view.next(), "the new primary did not open its view in time", out);
        }
    }

    /// The view is entered: what was for the one before begins anew. So far this slot is final.
    pub fn note_entered(&mut self, last_final: Slot, out: &mut Effects<C>) {
        let standing = self.standing(last_final);
        self.view_change_timer.view_entered(standing);
        self.peers.forget_left_out();
        self.voted_bytes = VotedBytes::default();
        self.requests.unpropose();
        self.awaited.cut(self.executed);
        out.disarm(Timer::ViewChange(self.view));
        out.output(Output::Entered { view: self.view, reason: self.reason });
        self.view_requests.view_entered(self.view);
    }
}
