//! A primary that contradicts itself is convicted everywhere by its own orders (section 3.4, step
//! 4d).

use super::certificate::{Misbehaviour, Order};
use super::message::Message;
use super::replica::Zyzzyva;
use super::variant::Variant;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, Finding, To};

impl<V: Variant> Zyzzyva<V> {
    /// Passes the proof on if two orders contradict each other.
    pub(super) fn convict(
        &mut self,
        first: &Verified<Message>,
        second: &Verified<Message>,
        out: &mut Effects<Self>,
    ) {
        let (Some(first), Some(second)) = (order_of(first), order_of(second)) else { return };
        if Misbehaviour::is_contradiction(&first, &second) && !mutant!("zyzzyva.never-convicts") {
            mark!("zyzzyva/misbehaviour");
            let proof = Misbehaviour { view: self.frame.entered, first, second };
            self.on_misbehaviour(&proof, out);
        }
    }

    pub(super) fn on_misbehaviour(&mut self, proof: &Misbehaviour, out: &mut Effects<Self>) {
        let liar = self.frame.membership.primary(proof.view);
        if liar != self.frame.me && !self.frame.monitor.is_liar(liar) {
            let (view, slot) = (proof.view, proof.second.slot);
            out.report(liar, Finding::TwoProposals { view, slot });
            // Whoever tells a liar from the others tells them too.
            out.send(To::Others, Message::Misbehaviour(proof.clone()));
            self.frame.distrust(liar, out);
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
