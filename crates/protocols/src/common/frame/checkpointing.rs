//! Checkpoints: signed states, stable ones, and falling behind.

use super::Frame;
use super::execution::Execution;
use super::hooks::{Core, Framed, StateOf};
use crate::common::certificate::{CheckpointProof, Vouched};
use crate::common::checkpoint::Overdue;
use crate::common::message::Shared;
use crate::common::record::Kept;
use core::cmp::Ordering;
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
        if slot < self.frame().stable.slot {
            return;
        }
        let Some(vouched) = self.vouched(slot, state) else { return };
        let frame = self.frame_mut();
        frame.checkpoints.announce(slot, vouched);
        Frame::send(To::All, Shared::Checkpoint { slot, state: vouched }, out);
        if slot == frame.stable.slot && vouched != frame.stable.state {
            frame.diverged(slot, state, out);
        }
    }

    /// A replica signed a state.
    fn on_checkpoint(
        &mut self,
        verified: &Verified<Self::Message>,
        slot: Slot,
        state: StateOf<Self>,
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
    ///
    /// While another one is being fetched, the window stays behind that: the slots that are decided
    /// meanwhile are executed as soon as it is here, and no more of them are voted for and logged
    /// than a window holds. The host hears of the newer one in case the other cannot be had.
    fn on_stable(&mut self, proof: CheckpointProof<StateOf<Self>>, out: &mut Effects<Self>) {
        let comparable = self.comparable();
        let frame = self.frame_mut();
        if proof.slot <= frame.stable.slot {
            return;
        }
        if proof.slot <= comparable {
            self.adopt(proof, out);
        } else if frame.checkpoints.await_slots(proof) {
            mark!("frame/behind");
            frame.arm_resend(out);
            if frame.is_fetching() {
                frame.fetch_ahead(out);
            }
        }
    }

    /// A tick passed: if a proven checkpoint is still out of reach, stop waiting for its slots.
    fn check_behind(&mut self, out: &mut Effects<Self>) {
        let comparable = self.comparable();
        let frame = self.frame_mut();
        if frame.is_fetching() {
            return;
        }
        match frame.checkpoints.overdue(comparable, frame.high()) {
            Overdue::No => {}
            Overdue::Reached(proof) => self.on_stable(proof, out),
            Overdue::Missed(proof) => self.adopt(proof, out),
        }
    }

    /// Acts on a stable checkpoint: moves the window, forgets what is below, fetches the state if
    /// execution has not reached it.
    fn adopt(&mut self, proof: CheckpointProof<StateOf<Self>>, out: &mut Effects<Self>) {
        let CheckpointProof { slot, state, .. } = proof;
        let frame = self.frame_mut();
        if slot <= frame.stable.slot {
            return;
        }
        mark!("frame/stable");
        let is_here = self.settle(&proof, out);
        let frame: &mut Frame<Self> = self.frame_mut();
        let mine = frame.checkpoints.mine(slot);
        let liars = frame.checkpoints.others(slot, state);
        frame.checkpoints.stable(slot);
        self.move_window(proof);
        let frame: &mut Frame<Self> = self.frame_mut();
        if frame.is_entered() {
            let standing = frame.standing(slot);
            frame.view_change_timer.view_works(standing);
        }
        if !is_here && !mutant!("frame.never-fetches") {
            mark!("frame/fetch");
            out.persist(Self::kept(Kept::Stable(frame.stable.clone())));
            frame.fetch_stable(out);
        } else {
            out.output(Output::Stable { slot, state: state.state() });
            self.persist_all_again(out);
            if let Some(mine) = mine.filter(|mine| *mine != state) {
                self.frame_mut().diverged(slot, mine.state(), out);
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
    fn move_window(&mut self, proof: CheckpointProof<StateOf<Self>>) {
        let slot = proof.slot;
        self.frame_mut().stable = proof;
        self.window_moved(slot);
        let frame = self.frame_mut();
        if !mutant!("frame.next-slot-stays-behind") {
            frame.next_slot = frame.next_slot.max(slot.next());
        }
        frame.bodies.retain(slot, |_| true);
        frame.voted_bytes.settle(slot);
        if !mutant!("frame.early-stays") {
            // A replica can fail to enter a view in which the others go on for many windows.
            frame.early.retain(|(about, ..), _| *about == Slot(0) || *about > slot);
        }
    }

    /// Keeps the stable checkpoint, and everything again that is needed beside its state.
    fn persist_all_again(&mut self, out: &mut Effects<Self>) {
        if self.frame().is_durable {
            mark!("frame/persisted_again");
            self.frame_mut().bodies.log_again();
            out.persist(Self::kept(Kept::Stable(self.frame().stable.clone())));
            self.persist_again(out);
        }
    }

    /// The state after `slot` was fetched and installed: execution goes on behind it.
    fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if !self.stands_on(slot) {
            // A host fetches to the end what it has begun to; by now another one is wanted. What
            // this state stands on is above the one behind which the window begins: a replica does
            // not go back to that, if only because it has heard of so many later ones meanwhile.
            let frame = self.frame_mut();
            let is_newer = frame.checkpoints.ahead().is_some_and(|ahead| ahead.slot > slot);
            match is_newer && !mutant!("frame.installs-what-is-older") {
                true => frame.fetch_ahead(out),
                false => frame.fetch_stable(out),
            }
            return;
        }
        mark!("frame/installed");
        let frame = self.frame_mut();
        frame.executed = slot;
        frame.voted_bytes.settle(slot);
        frame.checkpoints.installed(slot);
        frame.requests.clear();
        frame.monitor.forget_slots();
        frame.view_change_timer.forget_late();
        let proof = frame.checkpoints.proven(slot).cloned();
        if let Some(proof) = proof.filter(|_| !mutant!("frame.installed-without-proof")) {
            // Before anything is executed behind it: what is above the last proven state has to be
            // shown when a view changes, and what led to this one was never here.
            mark!("frame/installed_newer");
            self.adopt(proof, out);
        } else {
            self.resume_behind(slot, out);
        }
        self.advance(out);
        let last_final = self.last_final();
        self.frame_mut().note_installed(last_final, out);
        self.check_behind(out);
    }

    /// The state is that of the stable checkpoint, or of another one whose proof is elsewhere.
    fn resume_behind(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let frame = self.frame_mut();
        match slot.cmp(&frame.stable.slot) {
            // The window moved on while this was fetched or saved.
            Ordering::Less => {
                mark!("frame/installed_old");
                frame.fetch_stable(out);
            }
            Ordering::Equal if frame.is_durable => {
                // Now there is something to go on from, and what is below may go.
                out.output(Output::Stable { slot, state: frame.stable.state.state() });
                self.persist_all_again(out);
            }
            // A newer one than that behind which the window begins: its proof waits.
            Ordering::Equal | Ordering::Greater => {}
        }
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
    fn diverged(&mut self, slot: Slot, mine: Digest, out: &mut Effects<C>) {
        mark!("frame/diverged");
        let theirs = self.stable.state.state();
        out.report(self.me, Finding::DivergedState { slot });
        out.output(Output::Diverged { slot, mine, theirs });
        self.fetch_stable(out);
    }

    /// Asks for the state of the stable checkpoint. Nobody may have that any more: if a newer one
    /// is proven already, the host hears of it too.
    pub fn fetch_stable(&self, out: &mut Effects<C>) {
        self.fetch(&self.stable, out);
        self.fetch_ahead(out);
    }

    fn fetch_ahead(&self, out: &mut Effects<C>) {
        if let Some(newer) = self.checkpoints.ahead() {
            self.fetch(newer, out);
        }
    }

    /// Asks for the state that a proof is about; where an epoch begins, any member may have it.
    pub(super) fn fetch(&self, proof: &CheckpointProof<StateOf<C>>, out: &mut Effects<C>) {
        let (slot, state) = (proof.slot, proof.state.state());
        let signers = proof.signers();
        let from = if signers.is_empty() { self.membership.ids().collect() } else { signers };
        out.output(Output::Fetch { slot, state, from });
    }

    /// Whether the window begins behind a state that is not here yet.
    #[must_use]
    pub const fn is_fetching(&self) -> bool {
        self.executed.0 < self.stable.slot.0
    }
}
