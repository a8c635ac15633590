//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view was entered, orders above the checkpoint with their batches, the
//! certificate, and how far this replica has come in leaving for another view.

use super::message::Message;
use super::record::Record;
use super::replica::{Phase, Zyzzyva};
use super::variant::Variant;
use crate::common::frame::hooks::LogCompaction;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl<V: Variant> LogCompaction for Zyzzyva<V> {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        if let Some((opening, proof)) = self.opening.clone() {
            for slot in (self.window.low().0 + 1..=self.start.end().0).map(Slot) {
                let batch = self.window.get(slot).and_then(|state| state.batch);
                batch.into_iter().for_each(|batch| self.frame.persist_body(slot, &batch, out));
            }
            out.persist(Record::Enter(opening, proof));
        }
        if self.is_overruled {
            out.persist(Record::Overruled(self.frame.entered));
        }
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            self.persist_order(slot, out);
        }
        for (slot, history) in &self.finals {
            out.persist(Record::Final { slot: *slot, history: *history });
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
}

impl<V: Variant> Zyzzyva<V> {
    /// What this replica executed of a slot in the view that it entered last, or ordered there.
    fn persist_order(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if let Some((parent, proposal)) = self.awaiting_loopback.get(&slot) {
            let (view, parent) = (self.frame.entered, *parent);
            self.frame.persist_named(&proposal.digest(), out);
            out.persist(Record::Propose { view, slot, parent, proposal: proposal.clone() });
        }
        let Some(order) = self.window.get(slot).and_then(|state| state.order.clone()) else {
            return;
        };
        let Message::Order { view, slot, parent, proposal } = &*order.message else { return };
        let is_shown = *slot <= self.frame.executed.max(self.shown);
        if is_shown && mutant!("zyzzyva.cut-orders") {
            return;
        }
        self.frame.persist_named(&proposal.digest(), out);
        if is_shown {
            out.persist(Record::Order(order));
        } else if order.author == self.frame.me {
            // It came back, and was not executed yet.
            let (view, slot, parent) = (*view, *slot, *parent);
            out.persist(Record::Propose { view, slot, parent, proposal: proposal.clone() });
        }
    }
}
