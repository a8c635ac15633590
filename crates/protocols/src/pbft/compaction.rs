//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view was entered, votes and certificates above the checkpoint with their batches,
//! and how far this replica has come in leaving for another view.

use super::message::Message;
use super::record::Record;
use super::replica::Pbft;
use super::variant::Variant;
use crate::common::frame::hooks::LogCompaction;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl<V: Variant> LogCompaction for Pbft<V> {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        if let Some(opening) = &self.opening {
            out.persist(Record::Enter(opening.clone()));
        }
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            if self.frame.is_entered() && slot < self.frame.next_slot {
                self.persist_vote(slot, out);
            }
            let certificate = self.certificates.get(&slot);
            if let Some(certificate) = certificate.filter(|_| !mutant!("pbft.cut-certificates")) {
                self.frame.persist_body(slot, &certificate.claim.batch, out);
                out.persist(Record::Prepared(certificate.clone()));
            }
        }
        if !self.frame.is_entered() {
            self.own.left.iter().for_each(|change| out.persist(Record::Leave(change.clone())));
            self.own.opened.iter().for_each(|opening| out.persist(Record::Open(opening.clone())));
        }
    }
}

impl<V: Variant> Pbft<V> {
    /// What this replica voted for in the view that it is in.
    fn persist_vote(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let view = self.frame.entered;
        if let Some(proposal) = self.awaiting_loopback.get(&slot) {
            self.frame.persist_named(&proposal.digest(), out);
            out.persist(Record::Propose { view, slot, proposal: proposal.clone() });
            return;
        }
        let Some(state) = self.window.get(slot) else { return };
        if let Some(batch) = state.voted_otherwise {
            out.persist(Record::VoteAgain { view, slot, batch });
            return;
        }
        let Some(batch) = state.batch else { return };
        let Some(proposed) = &state.proposed else {
            self.frame.persist_body(slot, &batch, out);
            out.persist(Record::VoteAgain { view, slot, batch });
            return;
        };
        self.frame.persist_named(&batch, out);
        match &*proposed.message {
            Message::PrePrepare { proposal, .. } if proposed.author == self.frame.me => {
                out.persist(Record::Propose { view, slot, proposal: proposal.clone() });
            }
            _ => out.persist(Record::Vote(proposed.clone())),
        }
    }
}
