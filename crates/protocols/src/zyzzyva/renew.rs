//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view was entered, orders above the checkpoint with their batches, the
//! certificate, and how far this replica has come in leaving for another view.

use super::message::Message;
use super::record::{Record, persist_named};
use super::replica::{Phase, Zyzzyva};
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl<const KIND: usize> Zyzzyva<KIND> {
    /// Keeps everything again that is needed beside the state of the stable checkpoint.
    pub(super) fn persist_again(&self, out: &mut Effects<Self>) {
        if !self.is_durable {
            return;
        }
        mark!("zyzzyva/persisted_again");
        out.persist(Record::Stable(self.stable.clone()));
        if let Some((opening, proof)) = &self.opening {
            for slot in (self.window.low().0 + 1..=self.start.end().0).map(Slot) {
                let batch = self.window.get(slot).and_then(|state| state.batch);
                batch.into_iter().for_each(|batch| self.persist_body(slot, &batch, out));
            }
            out.persist(Record::Enter(opening.clone(), proof.clone()));
        }
        let shown = self.executed.max(self.shown);
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            if slot <= shown && !mutant!("zyzzyva.cut-orders") {
                self.persist_order(slot, out);
            }
            if let Some((parent, proposal)) = self.unheard.get(&slot) {
                let named = proposal.named().filter_map(|digest| self.pending.find(&digest));
                named.for_each(|envelope| out.persist(Record::Envelope(envelope)));
                let (view, parent, proposal) = (self.entered, *parent, proposal.clone());
                out.persist(Record::Propose { view, slot, parent, proposal });
            } else {
                self.persist_proposal(slot, out);
            }
        }
        if let Some(certificate) = &self.certificate {
            out.persist(Record::Certificate(certificate.clone()));
        }
        if self.phase != Phase::Entered {
            self.own.left.iter().for_each(|change| out.persist(Record::Leave(change.clone())));
            self.own.opened.iter().for_each(|opening| out.persist(Record::Open(opening.clone())));
            if let Some((verified, _)) = self.proposed.as_ref().filter(|_| self.own.confirmed) {
                out.persist(Record::Confirm(verified.clone()));
            }
        }
    }

    /// What this replica executed in the view that it entered last.
    fn persist_order(&self, slot: Slot, out: &mut Effects<Self>) {
        let Some(state) = self.window.get(slot) else { return };
        if let (Some(order), Some(batch)) = (&state.order, &state.batch) {
            self.bodies.get(batch).into_iter().for_each(|body| persist_named(body, out));
            out.persist(Record::Order(order.clone()));
        }
    }

    /// What this replica ordered, and got back, and has not executed yet.
    fn persist_proposal(&self, slot: Slot, out: &mut Effects<Self>) {
        let order = self.window.get(slot).and_then(|state| state.order.as_ref());
        let Some(order) = order.filter(|it| it.author == self.me && slot > self.executed) else {
            return;
        };
        if let Message::Order { view, slot, parent, proposal } = &*order.message {
            let body = self.bodies.get(&proposal.digest());
            body.into_iter().for_each(|body| persist_named(body, out));
            let (view, slot, parent) = (*view, *slot, *parent);
            out.persist(Record::Propose { view, slot, parent, proposal: proposal.clone() });
        }
    }
}
