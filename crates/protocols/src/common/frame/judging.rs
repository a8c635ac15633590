//! Judging the primary: one that is slower than can be expected ([`crate::common::pace`]), that is
//! proven to lie, or in whose view nothing becomes final, is suspected. A replica that suspects it
//! asks for the next view, for which `f + 1` must agree, as long as it has a reason.

use super::Frame;
use super::hooks::{Framed, StateOf};
use crate::common::pace::{LOOK_MILLIS, Opinion};
use crate::common::timer::Timer;
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::RESEND_MESSAGES_MAX;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, Finding};

impl<C: Framed> Frame<C> {
    pub(super) fn judges(&self) -> bool {
        self.is_entered() && !self.is_primary()
    }

    /// How long what a backup waits for may take in this view.
    pub(super) fn judging_delay(&mut self) -> Delay {
        Delay::Request { doublings: self.view_change_timer.judge(self.now) }
    }

    /// Whether this replica wants another primary, whatever becomes of single requests.
    pub(super) fn suspects_primary(&self) -> bool {
        let is_late = self.awaited.is_overdue() || self.to_fill.is_overdue();
        self.is_entered() && (is_late || self.monitor.suspects(self.membership.primary(self.view)))
    }

    /// The clock was heard: if something waits, passes it on when its head start is over, and
    /// judges the primary at the end of a window.
    pub(super) fn look(&mut self, out: &mut Effects<C>) {
        if !self.judges() {
            return;
        }
        if self.monitor.is_due(self.now) {
            self.judge_primary(out);
        }
        if let Some(work) = self.monitor.begin_look(self.now) {
            for envelope in self.requests.demand(RESEND_MESSAGES_MAX, self.now, work) {
                self.forward(envelope, out);
            }
        }
        if !self.requests.is_empty() && self.monitor.start_look_timer(self.now) {
            out.arm(Timer::Look, Delay::Millis(LOOK_MILLIS));
        }
    }

    /// A batch is handed to execution.
    pub(super) fn note_executed(&mut self, batch: &Batch) {
        let (judges, now) = (self.judges(), self.now);
        let monitor = &mut self.monitor;
        if judges {
            monitor.executed(batch, self.tuning.batch_requests);
        }
        self.requests.executed(batch, |client, demand| {
            if judges {
                monitor.settled(client, demand, now);
            }
        });
    }

    fn judge_primary(&mut self, out: &mut Effects<C>) {
        self.note_filled();
        let suspected = self.suspects_primary();
        let primary = self.membership.primary(self.view);
        let demanded = self.requests.demanded();
        if self.monitor.judge(primary, demanded, self.now) == Opinion::Slow {
            mark!("frame/slow_primary");
            self.ask(self.view.next(), "the primary was too slow", out);
            // It may have asked before for another reason, which ends without ending this one.
            if !mutant!("frame.slowness-untimed-when-asking") {
                self.time_asks(out);
            }
        } else if suspected {
            self.reconsider(out);
        }
    }

    /// A replica signed another state for a slot than a quorum did, and this replica has.
    pub(super) fn caught_lying(&mut self, liar: ReplicaId, slot: Slot, out: &mut Effects<C>) {
        mark!("frame/liar");
        out.report(liar, Finding::DivergedState { slot });
        self.distrust(liar, out);
    }

    /// A replica signed what no correct one signs. It is not to lead in this epoch.
    pub fn distrust(&mut self, liar: ReplicaId, out: &mut Effects<C>) {
        self.monitor.note_liar(liar);
        self.object_to_liar(out);
    }

    /// Asks for the next view if this one is led by a liar.
    pub fn object_to_liar(&mut self, out: &mut Effects<C>) {
        let primary = self.membership.primary(self.view);
        if self.is_entered() && self.monitor.is_led_by_liar(primary) {
            self.ask(self.view.next(), "the primary was proven to lie", out);
        }
    }

    /// What the primary orders, or a quorum executed, contradicts the order that this replica
    /// executed. In a view that goes on, only a faulty primary can cause that; a correct one can if
    /// a quorum has left its view. This replica suspects the primary until the view ends.
    pub fn object_to_order(&mut self, reason: &'static str, out: &mut Effects<C>) {
        if self.judges() {
            self.monitor.note_other_order();
            self.ask(self.view.next(), reason, out);
        }
    }

    /// Whether a replica's signed state is a lie, as far as this replica can say.
    pub(super) fn is_false(&self, author: ReplicaId, slot: Slot, state: &StateOf<C>) -> bool {
        author != self.me && slot == self.stable.slot && slot.0 > 0 && *state != self.stable.state
    }
}
