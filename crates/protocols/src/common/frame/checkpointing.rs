//! Checkpoints: signed states, stable ones, and falling behind.

use super::Frame;
use super::execution::Execution;
use super::hooks::{Core, Framed};
use crate::common::certificate::CheckpointProof;
use crate::common::checkpoint::Overdue;
use crate::common::message::Shared;
use crate::common::record::Kept;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Finding, To};

/// See the [module](self).
pub trait Checkpointing: Core {
    /// Execution took the checkpoint: sign it.
    fn on_checkpointed(&mut self, slot: Slot, state: Digest, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        if slot < frame.stable.slot {
            return;
        }
        frame.checkpoints.announce(slot, state);
        Frame::send(To::All, Shared::Checkpoint { slot, state }, out);
        if slot == frame.stable.slot && state != frame.stable.state {
            frame.diverged(slot, state, out);
        }
    }

    /// A replica signed a state.
    fn on_checkpoint(
        &mut self,
        verified: &Verified<Self::Message>,
        slot: Slot,
        state: Digest,
        out: &mut Effects<Self>,
    ) {
        let Some(signature) = verified.tag.signature() else { return };
        let frame: &mut Frame<Self> = self.frame_mut();
        if slot <= frame.stable.slot {
            if frame.is_false(verified.author, slot, &state) {
                frame.caught_lying(verified.author, slot, out);
            }
            return;
        }
        let vote = (state, Signature(*signature));
        if frame.checkpoints.note(verified.author, slot, vote).is_some() {
            mark!("frame/two_checkpoints");
            out.report(verified.author, Finding::TwoCheckpoints { slot });
            frame.distrust(verified.author, out);
        }
        if let Some(proof) = frame.checkpoints.proof(slot, state, frame.vouching()) {
            self.on_stable(proof, out);
        }
    }

    /// A quorum vouches for a state. If execution is there already, the window moves. If not, the
    /// missing slots may still be on their way, so state is fetched only after a tick or two.
    fn on_stable(&mut self, proof: CheckpointProof, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        if proof.slot <= frame.stable.slot {
            return;
        }
        if proof.slot <= frame.committed {
            self.adopt(proof, out);
        } else if frame.checkpoints.await_slots(proof) {
            mark!("frame/behind");
            frame.arm_resend(out);
        }
    }

    /// A tick passed: if a proven checkpoint is still out of reach, stop waiting for its slots.
    fn check_behind(&mut self, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        match frame.checkpoints.overdue(frame.committed) {
            Overdue::No => {}
            Overdue::Reached(proof) => self.on_stable(proof, out),
            Overdue::Missed(proof) => self.adopt(proof, out),
        }
    }

    /// Acts on a stable checkpoint: moves the window, forgets what is below, fetches the state if
    /// execution has not reached it.
    fn adopt(&mut self, proof: CheckpointProof, out: &mut Effects<Self>) {
        let CheckpointProof { slot, state, .. } = proof;
        let frame = self.frame_mut();
        if slot <= frame.stable.slot {
            return;
        }
        mark!("frame/stable");
        let mine = frame.checkpoints.mine(slot);
        let from = proof.signers();
        let liars = frame.checkpoints.others(slot, state);
        frame.checkpoints.stable(slot);
        self.move_window(proof);
        let frame: &mut Frame<Self> = self.frame_mut();
        if frame.is_entered() {
            // The view works: the next failure starts from short timeouts again.
            frame.doublings = 0;
        }
        if frame.committed < slot && !mutant!("frame.never-fetches") {
            mark!("frame/fetch");
            out.persist(Self::kept(Kept::Stable(frame.stable.clone())));
            out.output(Output::Fetch { slot, state, from });
        } else {
            out.output(Output::Stable { slot, state });
            self.persist_all_again(out);
            if let Some(mine) = mine.filter(|mine| *mine != state) {
                self.frame_mut().diverged(slot, mine, out);
            }
        }
        let frame = self.frame_mut();
        let me = frame.me;
        for liar in liars.iter().filter(|id| *id != me) {
            frame.caught_lying(liar, slot, out);
        }
        // Bodies that a view change waited for may have become needless.
        self.bodies_changed(out);
    }

    /// The window begins behind this checkpoint; what is below is forgotten.
    fn move_window(&mut self, proof: CheckpointProof) {
        let slot = proof.slot;
        self.frame_mut().stable = proof;
        self.window_moved(slot);
        let frame = self.frame_mut();
        if !mutant!("frame.next-slot-stays-behind") {
            frame.next_slot = frame.next_slot.max(slot.next());
        }
        frame.bodies.retain(slot, |_| true);
        frame.pledges.settle(slot);
    }

    /// Keeps the stable checkpoint, and everything again that is needed beside its state.
    fn persist_all_again(&mut self, out: &mut Effects<Self>) {
        if self.frame().is_durable {
            mark!("frame/persisted_again");
            self.frame_mut().bodies.keep_again();
            out.persist(Self::kept(Kept::Stable(self.frame().stable.clone())));
            self.persist_again(out);
        }
    }

    /// The state after `slot` was fetched and installed: execution goes on behind it.
    fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        mark!("frame/installed");
        let frame = self.frame_mut();
        frame.committed = slot;
        frame.pledges.settle(slot);
        frame.checkpoints.installed(slot);
        frame.pending.clear();
        if frame.is_durable && slot == frame.stable.slot {
            // Now there is something to go on from, and what is below may go.
            out.output(Output::Stable { slot, state: frame.stable.state });
            self.persist_all_again(out);
        }
        self.advance(out);
        self.check_behind(out);
    }
}

impl<C: Core> Checkpointing for C {}

impl<C: Framed> Frame<C> {
    /// How many must have signed a state.
    fn vouching(&self) -> usize {
        let quorums = self.membership.quorums();
        if mutant!("frame.stable-by-f") { quorums.f } else { C::vouching(quorums) }
    }

    /// This replica's state is not the group's: a bug or a broken disk here. Raise the alarm and
    /// take the group's state.
    fn diverged(&self, slot: Slot, mine: Digest, out: &mut Effects<C>) {
        mark!("frame/diverged");
        let theirs = self.stable.state;
        out.report(self.me, Finding::DivergedState { slot });
        out.output(Output::Diverged { slot, mine, theirs });
        out.output(Output::Fetch { slot, state: theirs, from: self.stable.signers() });
    }
}
