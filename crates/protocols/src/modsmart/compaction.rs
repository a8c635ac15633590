//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view was entered; above the checkpoint what this replica wrote, locked and knows
//! to be decided, with the batches; and how far it has come in leaving for another view.

use super::record::Record;
use super::replica::ModSmart;
use crate::common::frame::hooks::LogCompaction;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl LogCompaction for ModSmart {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        if let Some(opening) = &self.opening {
            out.persist(Record::Enter(opening.clone()));
        }
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            self.persist_slot(slot, out);
        }
        if !self.frame.is_entered() {
            self.own.left.iter().for_each(|change| out.persist(Record::Leave(change.clone())));
            self.own.opened.iter().for_each(|opening| out.persist(Record::Open(opening.clone())));
        }
    }
}

impl ModSmart {
    fn persist_slot(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let view = self.frame.entered;
        let Some(state) = self.window.get(slot) else { return };
        let (lock, decided, wrote) = (state.lock.clone(), state.decided, state.round.wrote);
        let writes: Vec<_> = state.writes.iter().collect();
        let is_kept = |(batch, of): &(_, _)| wrote == Some(*batch) && *of == view;
        let signed = !writes.iter().any(is_kept);
        for (batch, view) in writes.iter().filter(|it| !is_kept(it)).copied() {
            self.frame.persist_body(slot, &batch, out);
            out.persist(Record::Write { view, slot, batch, signed: false });
        }
        if let Some(batch) = wrote {
            self.persist_write(slot, batch, signed, out);
        }
        if let Some(lock) = lock.filter(|_| !mutant!("modsmart.cut-locks")) {
            self.frame.persist_body(slot, &lock.batch, out);
            out.persist(Record::Lock { slot, lock });
        }
        if let Some(batch) = decided {
            self.frame.persist_body(slot, &batch, out);
            out.persist(Record::Decided { slot, batch });
        }
    }

    /// What this replica wrote in the view that it entered last.
    fn persist_write(&mut self, slot: Slot, batch: Digest, signed: bool, out: &mut Effects<Self>) {
        let view = self.frame.entered;
        let proposal = self.frame.bodies.proposal(&batch).cloned();
        let proposed = self.frame.leads(view) && slot > self.start.end();
        match proposal.filter(|_| proposed) {
            Some(proposal) => {
                self.frame.persist_named(&batch, out);
                out.persist(Record::Propose { view, slot, proposal, signed });
            }
            None => {
                self.frame.persist_body(slot, &batch, out);
                out.persist(Record::Write { view, slot, batch, signed });
            }
        }
    }
}
