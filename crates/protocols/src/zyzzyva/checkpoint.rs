//! Checkpoints: signed states, stable ones, and falling behind (appendix A). A state is signed only
//! once it is final.

use super::certificate::{Stable, mark};
use super::message::Message;
use super::record::Record;
use super::replica::{Phase, Zyzzyva};
use crate::common::certificate::CheckpointProof;
use crate::common::checkpoint::Overdue;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Finding, To};

impl<const KIND: usize> Zyzzyva<KIND> {
    /// Execution took the checkpoint: sign it.
    pub(super) fn on_checkpointed(&mut self, slot: Slot, state: Digest, out: &mut Effects<Self>) {
        if slot < self.stable.slot() {
            return;
        }
        let Some(history) = self.history(slot) else { return };
        self.checkpoints.announce(slot, mark(&history, &state));
        self.signed = Some((slot, history, state));
        out.send(To::All, Message::Checkpoint { slot, history, state });
        if slot == self.stable.slot() && state != self.stable.state {
            self.diverged(slot, state, out);
        }
    }

    pub(super) fn on_checkpoint(
        &mut self,
        verified: &Verified<Message>,
        slot: Slot,
        (history, state): (Digest, Digest),
        out: &mut Effects<Self>,
    ) {
        let Some(signature) = verified.tag.signature() else { return };
        if slot <= self.stable.slot() {
            let differs = (history, state) != (self.stable.history, self.stable.state);
            let same_slot = slot == self.stable.slot() && slot.0 > 0;
            if same_slot && differs && verified.author != self.me {
                self.caught_lying(verified.author, slot, out);
            }
            return;
        }
        let named = mark(&history, &state);
        let vote = (named, Signature(*signature));
        if self.checkpoints.note(verified.author, slot, vote).is_some() {
            mark!("zyzzyva/two_checkpoints");
            out.report(verified.author, Finding::TwoCheckpoints { slot });
            self.distrust(verified.author, out);
        }
        if let Some(proof) = self.checkpoints.proof(slot, named, self.vouching_quorum()) {
            self.on_stable(Stable { proof, history, state }, out);
        }
    }

    /// How many must have signed a state.
    fn vouching_quorum(&self) -> usize {
        if mutant!("zyzzyva.stable-by-f") { self.membership.f } else { self.table.quorum }
    }

    /// A quorum vouches for a state. If execution is there already, the window moves. If not, the
    /// missing slots may still be on their way, so state is fetched only after a tick or two.
    pub(super) fn on_stable(&mut self, stable: Stable, out: &mut Effects<Self>) {
        let slot = stable.slot();
        if slot <= self.stable.slot() {
            return;
        }
        if self.executed >= slot {
            self.adopt(stable, out);
        } else if self.checkpoints.await_slots(stable.proof.clone()) {
            mark!("zyzzyva/behind");
            if self.executed < self.stable.slot() {
                // The state that is being fetched may be had nowhere any more.
                let from = stable.proof.signers();
                out.output(Output::Fetch { slot, state: stable.state, from });
            }
            self.ahead = Some(stable);
            self.arm_resend(out);
        }
    }

    /// A tick passed: if a proven checkpoint is still out of reach, stop waiting for its slots.
    pub(super) fn check_behind(&mut self, out: &mut Effects<Self>) {
        if self.executed < self.stable.slot() {
            // A state is being fetched, and its end is waited for.
            return;
        }
        let is_due = |proof: &CheckpointProof, ahead: &Stable| ahead.proof == *proof;
        match self.checkpoints.overdue(self.executed, self.window.high()) {
            Overdue::No => {}
            Overdue::Reached(proof) | Overdue::Missed(proof) => {
                if let Some(stable) = self.ahead.take().filter(|ahead| is_due(&proof, ahead)) {
                    self.adopt(stable, out);
                }
            }
        }
    }

    /// Acts on a stable checkpoint: moves the window, forgets what is below, fetches the state if
    /// execution is not there, or came another way.
    pub(super) fn adopt(&mut self, stable: Stable, out: &mut Effects<Self>) {
        let slot = stable.slot();
        if slot <= self.stable.slot() {
            return;
        }
        mark!("zyzzyva/stable");
        let (history, state, named) = (stable.history, stable.state, stable.proof.state);
        let is_here = self.history(slot) == Some(history);
        let mine = self.checkpoints.mine(slot);
        let (from, liars) = (stable.proof.signers(), self.checkpoints.others(slot, named));
        if is_here {
            self.finalize(slot, out);
        } else if self.committed < self.executed {
            mark!("zyzzyva/other_way");
            self.executed = self.committed;
            out.output(Output::Rollback { after: self.committed });
        }
        self.checkpoints.stable(slot);
        self.stable = stable;
        self.ahead = self.ahead.take().filter(|ahead| ahead.slot() > slot);
        self.forget_below(slot);
        if self.phase == Phase::Entered {
            // The view works: the next failure starts from short timeouts again.
            self.doublings = 0;
        }
        if !is_here && !mutant!("zyzzyva.never-fetches") {
            mark!("zyzzyva/fetch");
            self.halted = None;
            out.persist(Record::Stable(self.stable.clone()));
            out.output(Output::Fetch { slot, state, from });
        } else {
            out.output(Output::Stable { slot, state });
            self.persist_again(out);
            if mine.is_some_and(|mine| mine != named) {
                let mine = self.signed.map_or(state, |(.., mine)| mine);
                self.diverged(slot, mine, out);
            }
        }
        let me = self.me;
        for liar in liars.iter().filter(|id| *id != me) {
            self.caught_lying(liar, slot, out);
        }
        // Bodies that a view change waited for may have become needless.
        self.bodies_changed(out);
    }

    /// Drops what is known of slots up to this one.
    pub(super) fn forget_below(&mut self, slot: Slot) {
        if self.executed < slot {
            // Nothing behind it was executed on that state.
            for at in (slot.0 + 1..=self.window.high().0).map(Slot) {
                if let Some(state) = self.window.get_mut(at) {
                    state.history = None;
                }
            }
        }
        self.window.advance(slot);
        self.unheard.retain(|at, _| *at > slot);
        self.vouching.retain(|at, _| *at > slot);
        self.certificate = self.certificate.take().filter(|it| it.place.slot > slot);
        if self.next_slot <= slot {
            (self.next_slot, self.tip) = (slot.next(), self.stable.history);
        }
        self.bodies.retain(slot, |_| true);
    }

    /// This replica's state is not the group's: a bug or a broken disk here. Raise the alarm and
    /// take the group's state.
    fn diverged(&mut self, slot: Slot, mine: Digest, out: &mut Effects<Self>) {
        mark!("zyzzyva/diverged");
        let theirs = self.stable.state;
        out.report(self.me, Finding::DivergedState { slot });
        out.output(Output::Diverged { slot, mine, theirs });
        out.output(Output::Fetch { slot, state: theirs, from: self.stable.proof.signers() });
    }

    /// The state after `slot` was fetched and installed: execution goes on behind it.
    pub(super) fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if let Some(stable) = self.ahead.take_if(|ahead| ahead.slot() == slot) {
            self.checkpoints.stable(slot);
            self.stable = stable;
            self.forget_below(slot);
        }
        if slot <= self.stable.slot() {
            (self.executed, self.committed, self.halted) = (slot, slot, None);
        }
        if slot != self.stable.slot() {
            // A host fetches to the end what it has begun to; by now another one is wanted.
            let wanted = self.ahead.as_ref().unwrap_or(&self.stable);
            let (slot, state, from) = (wanted.slot(), wanted.state, wanted.proof.signers());
            out.output(Output::Fetch { slot, state, from });
            return;
        }
        mark!("zyzzyva/installed");
        for at in (slot.0 + 1..=self.window.high().0).map(Slot) {
            if let Some(state) = self.window.get_mut(at) {
                state.history = None;
            }
        }
        self.checkpoints.installed(slot);
        self.pending.clear();
        if self.is_durable {
            // Now there is something to go on from, and what is below may go.
            out.output(Output::Stable { slot, state: self.stable.state });
            self.persist_again(out);
        }
        self.advance(out);
        self.check_behind(out);
    }
}
