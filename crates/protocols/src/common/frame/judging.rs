//! Judging the primary: one that is slower than can be expected ([`crate::common::pace`]), that is
//! proven to lie, or in whose view nothing becomes final, is objected to. To object is to ask for
//! the next view, so that `f + 1` must agree; it lasts as long as its reason.

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

    /// Whether this replica wants another primary, whatever becomes of single requests.
    pub(super) fn objects(&self) -> bool {
        let is_late = self.waits.is_overdue || self.is_unfilled;
        let is_faulty = self.has_other_order || self.led_by_liar();
        self.is_entered() && (self.pace.is_slow() || is_faulty || is_late)
    }

    fn led_by_liar(&self) -> bool {
        self.liars.contains(self.membership.primary(self.view)) && !self.is_primary()
    }

    /// The clock was heard: if something waits, passes it on when its head start is over, and
    /// judges the primary at the end of a window.
    pub(super) fn look(&mut self, out: &mut Effects<C>) {
        if !self.judges() {
            return;
        }
        self.pace.begin(self.now);
        if self.pace.is_due(self.now) {
            self.judge(out);
        }
        if self.looked.is_none_or(|at| self.now.0 >= at.0 + u64::from(LOOK_MILLIS)) {
            let work = self.pace.work();
            for envelope in self.pending.demand(RESEND_MESSAGES_MAX, self.now, work) {
                self.forward(envelope, out);
            }
            self.looked = None;
        }
        if self.looked.is_none() && !self.pending.is_empty() {
            self.looked = Some(self.now);
            out.arm(Timer::Look, Delay::Millis(LOOK_MILLIS));
        }
    }

    /// A batch is handed to execution.
    pub(super) fn note_executed(&mut self, batch: &Batch) {
        let (judges, now) = (self.judges(), self.now);
        let pace = &mut self.pace;
        if judges {
            pace.executed(batch, self.tuning.batch_requests);
        }
        self.pending.executed(batch, |client, demand| {
            if judges {
                pace.note(client, demand, now);
            }
        });
    }

    fn judge(&mut self, out: &mut Effects<C>) {
        for (client, demand) in self.pending.demanded() {
            self.pace.note(client, Some(demand), self.now);
        }
        self.note_filled(true);
        let objected = self.objects();
        let primary = self.membership.primary(self.view);
        if self.pace.judge(primary, self.now) == Opinion::Slow {
            mark!("frame/slow_primary");
            self.ask(self.view.next(), "the primary was too slow", out);
            // It may have asked before for another reason, which ends without ending this one.
            if !mutant!("frame.slowness-untimed-when-asking") {
                self.time_asks(out);
            }
        } else if objected {
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
        self.liars.insert(liar);
        self.object_to_liar(out);
    }

    /// Asks for the next view if this one is led by a liar.
    pub fn object_to_liar(&mut self, out: &mut Effects<C>) {
        if self.is_entered() && self.led_by_liar() {
            self.ask(self.view.next(), "the primary was proven to lie", out);
        }
    }

    /// What the primary orders, or a quorum executed, contradicts the order that this replica
    /// executed. In a view that goes on, only a faulty primary can cause that; a correct one can if
    /// a quorum has left its view. This replica objects until the view ends.
    pub fn object_to_order(&mut self, reason: &'static str, out: &mut Effects<C>) {
        if self.judges() {
            self.has_other_order = !mutant!("frame.other-order-forgotten");
            self.ask(self.view.next(), reason, out);
        }
    }

    /// Whether a replica's signed state is a lie, as far as this replica can say.
    pub(super) fn is_false(&self, author: ReplicaId, slot: Slot, state: &StateOf<C>) -> bool {
        author != self.me && slot == self.stable.slot && slot.0 > 0 && *state != self.stable.state
    }
}
