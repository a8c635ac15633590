//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view was entered; above the checkpoint what this replica wrote, locked and knows
//! to be decided, with the batches; and how far it has come in leaving for another view.

use super::certificate::NewView;
use super::record::Record;
use super::replica::ModSmart;
use super::variant::Variant;
use crate::common::frame::hooks::LogCompaction;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl<V: Variant> LogCompaction for ModSmart<V> {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        if let Some(opening) = &self.opening {
            out.persist(Record::Enter(opening.clone()));
        }
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            self.persist_slot(slot, out);
        }
        let opened = self.own.opened.clone().filter(|_| !self.frame.is_entered());
        let opens = |it: Arc<NewView<V::Seal>>| it.start::<V>(self.frame.membership.quorums());
        let starts = [Some(self.start.clone()), opened.clone().and_then(opens)];
        for start in starts.iter().flatten().filter(|_| !mutant!("modsmart-cft.cut-bound-batches"))
        {
            self.persist_bound(start, out);
        }
        if !self.frame.is_entered() {
            self.own.left.iter().for_each(|change| out.persist(Record::Leave(change.clone())));
            opened.into_iter().for_each(|opening| out.persist(Record::Open(opening)));
        }
    }
}

impl<V: Variant> ModSmart<V> {
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
        let proposed = wrote.filter(|_| self.frame.leads(view) && slot > self.start.end());
        let is_whole = proposed
            .is_some_and(|batch| self.persist_proposal(slot, batch, signed && V::WRITES, out));
        if let Some(batch) = wrote.filter(|_| V::WRITES && !is_whole) {
            self.frame.persist_body(slot, &batch, out);
            out.persist(Record::Write { view, slot, batch, signed });
        }
        // Where nobody writes, to propose is to lock.
        let lock = lock.filter(|_| V::WRITES || !is_whole);
        if let Some(lock) = lock.filter(|_| !mutant!("modsmart.cut-locks")) {
            self.frame.persist_body(slot, &lock.batch, out);
            out.persist(Record::Lock { slot, lock });
        }
        if let Some(batch) = decided {
            self.frame.persist_body(slot, &batch, out);
            out.persist(Record::Decided { slot, batch });
        }
    }

    /// What this replica proposed in the view that it entered last; false if the proposal is gone.
    fn persist_proposal(
        &mut self,
        slot: Slot,
        batch: Digest,
        signed: bool,
        out: &mut Effects<Self>,
    ) -> bool {
        let view = self.frame.entered;
        let Some(proposal) = self.frame.bodies.proposal(&batch).cloned() else { return false };
        self.frame.persist_named(&batch, out);
        self.frame.bodies.keep(slot, &batch);
        out.persist(Record::Propose { view, slot, proposal, signed });
        true
    }
}
