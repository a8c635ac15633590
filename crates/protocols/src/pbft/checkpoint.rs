//! Checkpoints: signed states, stable ones, and falling behind (section 4.3).

use super::message::Message;
use super::record::Record;
use super::replica::Pbft;
use crate::common::certificate::CheckpointProof;
use crate::common::checkpoint::Overdue;
use pentarchy_core::auth::Signature;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Finding, To};

impl Pbft {
    /// Execution took the checkpoint: sign it.
    pub(super) fn on_checkpointed(&mut self, slot: Slot, state: Digest, out: &mut Effects<Self>) {
        if slot < self.stable.slot {
            return;
        }
        self.checkpoints.announce(slot, state);
        out.send(To::All, Message::Checkpoint { slot, state });
        if slot == self.stable.slot && state != self.stable.state {
            self.diverged(slot, state, out);
        }
    }

    pub(super) fn on_checkpoint(
        &mut self,
        verified: &Verified<Message>,
        slot: Slot,
        state: Digest,
        out: &mut Effects<Self>,
    ) {
        let Some(signature) = verified.tag.signature() else { return };
        if slot <= self.stable.slot {
            if self.is_false(verified.author, slot, &state) {
                self.caught_lying(verified.author, slot, out);
            }
            return;
        }
        let vote = (state, Signature(*signature));
        if self.checkpoints.note(verified.author, slot, vote).is_some() {
            mark!("pbft/two_checkpoints");
            out.report(verified.author, Finding::TwoCheckpoints { slot });
            self.distrust(verified.author, out);
        }
        if let Some(proof) = self.checkpoints.proof(slot, state, self.vouching()) {
            self.on_stable(proof, out);
        }
    }

    /// How many must have signed a state.
    fn vouching(&self) -> usize {
        if mutant!("pbft.stable-by-f") { self.membership.f } else { self.quorum() }
    }

    /// A quorum vouches for a state. If execution is there already, the window moves. If not, the
    /// missing slots may still be on their way, so state is fetched only after a tick or two.
    pub(super) fn on_stable(&mut self, proof: CheckpointProof, out: &mut Effects<Self>) {
        if proof.slot <= self.stable.slot {
            return;
        }
        if proof.slot <= self.committed {
            self.adopt(proof, out);
        } else if self.checkpoints.await_slots(proof) {
            mark!("pbft/behind");
            self.arm_resend(out);
        }
    }

    /// A tick passed: if a proven checkpoint is still out of reach, stop waiting for its slots.
    pub(super) fn check_behind(&mut self, out: &mut Effects<Self>) {
        match self.checkpoints.overdue(self.committed) {
            Overdue::No => {}
            Overdue::Reached(proof) => self.on_stable(proof, out),
            Overdue::Missed(proof) => self.adopt(proof, out),
        }
    }

    /// Acts on a stable checkpoint: moves the window, forgets what is below, fetches the state if
    /// execution has not reached it.
    pub(super) fn adopt(&mut self, proof: CheckpointProof, out: &mut Effects<Self>) {
        let CheckpointProof { slot, state, .. } = proof;
        if slot <= self.stable.slot {
            return;
        }
        mark!("pbft/stable");
        let mine = self.checkpoints.mine(slot);
        let from = proof.signers();
        let liars = self.checkpoints.others(slot, state);
        self.checkpoints.stable(slot);
        self.stable = proof;
        self.window.advance(slot);
        self.certificates.retain(|at, _| *at > slot);
        self.unheard.retain(|at, _| *at > slot);
        self.next_slot = self.next_slot.max(slot.next());
        self.bodies.retain(slot, |_| true);
        if self.phase == super::replica::Phase::Entered {
            // The view works: the next failure starts from short timeouts again.
            self.doublings = 0;
        }
        if self.committed < slot && !mutant!("pbft.never-fetches") {
            mark!("pbft/fetch");
            out.persist(Record::Stable(self.stable.clone()));
            out.output(Output::Fetch { slot, state, from });
        } else {
            out.output(Output::Stable { slot, state });
            self.persist_again(out);
            if let Some(mine) = mine.filter(|mine| *mine != state) {
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

    /// This replica's state is not the group's: a bug or a broken disk here. Raise the alarm and
    /// take the group's state.
    fn diverged(&mut self, slot: Slot, mine: Digest, out: &mut Effects<Self>) {
        mark!("pbft/diverged");
        let theirs = self.stable.state;
        out.report(self.me, Finding::DivergedState { slot });
        out.output(Output::Diverged { slot, mine, theirs });
        out.output(Output::Fetch { slot, state: theirs, from: self.stable.signers() });
    }

    /// The state after `slot` was fetched and installed: execution goes on behind it.
    pub(super) fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        mark!("pbft/installed");
        self.committed = slot;
        self.checkpoints.installed(slot);
        self.pending.clear();
        if self.is_durable && slot == self.stable.slot {
            // Now there is something to go on from, and what is below may go.
            out.output(Output::Stable { slot, state: self.stable.state });
            self.persist_again(out);
        }
        self.advance(out);
        self.check_behind(out);
    }
}
