//! Tentative execution (section 5.1): a slot is executed as soon as it is prepared, if everything
//! before it is decided. A client that hears the same of a quorum relies on it: so many hold a
//! certificate for the slot and everything before it, so no later view orders anything else there.
//! What a view does not take over is taken back; nobody relied on it.

use super::replica::{Pbft, Tried};
use super::variant::Variant;
use crate::common::certificate::CheckpointProof;
use crate::common::frame::hooks::Finality;
use alloc::sync::Arc;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Output, speculation};
use pentarchy_core::protocol::Effects;

impl<V: Variant> Finality for Pbft<V> {
    fn vouched(&self, _slot: Slot, state: Digest) -> Option<Digest> {
        Some(state)
    }

    fn last_final(&self) -> Slot {
        let tried = self.tried.as_ref();
        tried.map_or(self.frame.executed, |tried| Slot(tried.slot.0 - 1))
    }

    fn execute(
        &mut self,
        slot: Slot,
        batch: Arc<Batch>,
        is_checkpoint: bool,
        out: &mut Effects<Self>,
    ) {
        if V::TENTATIVE {
            let (view, history) = (self.frame.entered, self.frame.named(&batch.digest));
            out.output(speculation::Output::Speculate {
                answers: true,
                slot,
                batch,
                view,
                history,
            });
            if self.window.get(slot).is_some_and(|state| !state.decided) {
                mark!("pbft/tentative");
                return;
            }
            self.tried = None;
            out.output(speculation::Output::Commit { upto: slot });
        } else {
            out.output(Output::Execute { slot, batch });
        }
        if is_checkpoint {
            self.frame.take_checkpoint(slot, out);
        }
    }

    fn settle(&mut self, proof: &CheckpointProof, out: &mut Effects<Self>) -> bool {
        // Others have decided it, or something else.
        if self.tried.as_ref().is_some_and(|tried| tried.slot <= proof.slot) {
            self.roll_back(out);
        }
        self.frame.executed >= proof.slot
    }

    fn stands_on(&mut self, _slot: Slot) -> bool {
        self.tried = None;
        true
    }
}

impl<V: Variant> Pbft<V> {
    /// Whether to execute a slot that is prepared. Not if a checkpoint is due behind it: states are
    /// taken of what is decided. Notes how to take it back.
    pub(super) fn may_try(&mut self, slot: Slot, batch: Digest) -> bool {
        if !V::TENTATIVE || !self.frame.is_entered() {
            return false;
        }
        let Some(body) = self.frame.bodies.get(&batch) else { return false };
        let extent = self.frame.checkpoints.if_not_due(slot, body.bytes(), &self.frame.tuning);
        if let Some(extent) = extent {
            self.tried = Some(Tried { slot, batch: body.clone(), extent });
        }
        self.tried.is_some()
    }

    /// What was executed before it was decided may be decided by now.
    pub(super) fn conclude(&mut self, out: &mut Effects<Self>) {
        let decided = |tried: &Tried| {
            let state = self.window.get(tried.slot);
            state.is_some_and(|state| state.decided && state.batch == Some(tried.batch.digest))
        };
        if let Some(upto) = self.tried.as_ref().filter(|it| decided(it)).map(|it| it.slot) {
            mark!("pbft/concluded");
            self.tried = None;
            out.output(speculation::Output::Commit { upto });
        }
    }

    /// What was executed before this view is certified in it: now it stands in this view, and its
    /// clients are told so. What others told them in the view before, and what who had not executed
    /// it by then tells them in this one, do not add up.
    pub(super) fn tell_again(&self, slot: Slot, out: &mut Effects<Self>) {
        let was_told = V::TENTATIVE && slot <= self.frame.executed;
        if was_told && !mutant!("pbft-tentative.not-told-again") {
            mark!("pbft/told_again");
            out.output(speculation::Output::Answer { slot, view: self.frame.entered });
        }
    }

    /// A view begins. What was executed before it was decided stays if the view takes it over. It
    /// does not stand in this view, of which there is no certificate yet: clients are told nothing
    /// anew before there is.
    pub(super) fn try_again(&mut self, out: &mut Effects<Self>) {
        let Some(Tried { slot, batch, .. }) = &self.tried else { return };
        let ordered = self.window.get(*slot).and_then(|state| state.batch);
        if ordered != Some(batch.digest) && !mutant!("pbft-tentative.keeps") {
            mark!("pbft/taken_back");
            self.roll_back(out);
        }
    }

    fn roll_back(&mut self, out: &mut Effects<Self>) {
        let Some(Tried { slot, batch, extent }) = self.tried.take() else { return };
        self.frame.checkpoints.restore(extent);
        self.frame.go_back(Slot(slot.0 - 1), out);
        self.frame.wait_again([&batch], out);
    }
}
