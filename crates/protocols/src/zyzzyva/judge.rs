//! Judging the primary: one that is slower than can be expected ([`crate::common::pace`]), that is
//! proven to lie, or in whose view nothing becomes final, is objected to. To object is to ask for
//! the next view, so that `f + 1` must agree; it lasts as long as its reason.

use super::certificate::{Misbehaviour, Order};
use super::message::Message;
use super::replica::{Phase, Timer, Zyzzyva};
use crate::common::pace::{LOOK_MILLIS, Opinion};
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::RESEND_MESSAGES_MAX;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Delay, Effects, Finding, To};

impl<const KIND: usize> Zyzzyva<KIND> {
    fn judges(&self) -> bool {
        self.phase == Phase::Entered && !self.is_primary()
    }

    /// Whether this replica wants another primary, whatever becomes of single requests.
    pub(super) fn objects(&self) -> bool {
        let reason = self.pace.is_slow() || self.led_by_liar() || self.is_overdue;
        self.phase == Phase::Entered && reason
    }

    fn led_by_liar(&self) -> bool {
        self.liars.contains(self.membership.primary(self.view)) && !self.is_primary()
    }

    /// The clock was heard: if something waits, passes it on when its head start is over, and
    /// judges the primary at the end of a window.
    pub(super) fn look(&mut self, out: &mut Effects<Self>) {
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

    fn judge(&mut self, out: &mut Effects<Self>) {
        for (client, demand) in self.pending.demanded() {
            self.pace.note(client, Some(demand), self.now);
        }
        let objected = self.objects();
        let primary = self.membership.primary(self.view);
        if self.pace.judge(primary, self.now) == Opinion::Slow {
            mark!("zyzzyva/slow_primary");
            self.ask(self.view.next(), "the primary was too slow", out);
        } else if objected && !self.objects() {
            self.withdraw_ask();
        }
    }

    /// A replica signed another state for a slot than a quorum did, and this replica has.
    pub(super) fn caught_lying(&mut self, liar: ReplicaId, slot: Slot, out: &mut Effects<Self>) {
        mark!("zyzzyva/liar");
        out.report(liar, Finding::DivergedState { slot });
        self.distrust(liar, out);
    }

    /// A replica signed what no correct one signs. It is not to lead in this epoch.
    pub(super) fn distrust(&mut self, liar: ReplicaId, out: &mut Effects<Self>) {
        self.liars.insert(liar);
        self.object_to_liar(out);
    }

    /// Asks for the next view if this one is led by a liar.
    pub(super) fn object_to_liar(&mut self, out: &mut Effects<Self>) {
        if self.phase == Phase::Entered && self.led_by_liar() {
            self.ask(self.view.next(), "the primary was proven to lie", out);
        }
    }

    /// Two orders that contradict each other convict the primary everywhere (section 3.4, step 4d).
    pub(super) fn convict(
        &mut self,
        first: &Verified<Message>,
        second: &Verified<Message>,
        out: &mut Effects<Self>,
    ) {
        let (Some(first), Some(second)) = (order_of(first), order_of(second)) else { return };
        if Misbehaviour::is_contradiction(&first, &second) && !mutant!("zyzzyva.never-convicts") {
            mark!("zyzzyva/misbehaviour");
            let proof = Misbehaviour { view: self.entered, first, second };
            self.on_misbehaviour(&proof, out);
        }
    }

    pub(super) fn on_misbehaviour(&mut self, proof: &Misbehaviour, out: &mut Effects<Self>) {
        let liar = self.membership.primary(proof.view);
        if liar != self.me && !self.liars.contains(liar) {
            let (view, slot) = (proof.view, proof.second.slot);
            out.report(liar, Finding::TwoProposals { view, slot });
            // Whoever tells a liar from the others tells them too.
            out.send(To::Others, Message::Misbehaviour(proof.clone()));
            self.distrust(liar, out);
        }
    }
}

/// An order as it stands in a proof.
fn order_of(verified: &Verified<Message>) -> Option<Order> {
    match (&*verified.message, verified.tag.signature()) {
        (Message::Order { slot, parent, proposal, .. }, Some(signature)) => Some(Order {
            slot: *slot,
            parent: *parent,
            batch: proposal.digest(),
            signature: Signature(*signature),
        }),
        _ => None,
    }
}
