//! Checkpoints: signed states, stable ones, and falling behind (MinBFT section 4, garbage
//! collection).

use super::certificate::CheckpointProof;
use super::extent::Extent;
use super::message::Message;
use super::record::Record;
use super::replica::MinBft;
use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::SNAPSHOTS_KEPT;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Finding, To};

/// Signed states of each replica. A liar can only fill its own row.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Checkpoints {
    /// What was executed since.
    pub(super) extent: Extent,
    rows: Vec<BTreeMap<Slot, (Digest, Signature)>>,
    /// The own last states, also before they come back signed.
    mine: BTreeMap<Slot, Digest>,
    /// A proven checkpoint that execution has not reached, and that ordering still might reach.
    ahead: Option<CheckpointProof>,
    /// Ticks that `ahead` has waited without progress.
    patience: u8,
    /// What was committed at the last tick.
    reached: Slot,
}

/// States kept for each replica: those of a window, and some beyond for a replica far ahead.
const ROW_MAX: usize = 2 * SNAPSHOTS_KEPT;

impl Checkpoints {
    /// Empty, for this many replicas.
    #[must_use]
    pub fn new(n: usize) -> Self {
        let rows = vec![BTreeMap::new(); n];
        Self {
            extent: Extent::default(),
            rows,
            mine: BTreeMap::new(),
            ahead: None,
            patience: 0,
            reached: Slot(0),
        }
    }

    /// Notes a signed state; returns what the replica had signed there before if it differs.
    fn note(&mut self, author: ReplicaId, slot: Slot, vote: (Digest, Signature)) -> Option<Digest> {
        let row = &mut self.rows[usize::from(author.0)];
        if let Some((before, _)) = row.get(&slot) {
            return Some(*before).filter(|before| *before != vote.0);
        }
        row.insert(slot, vote);
        if row.len() > ROW_MAX {
            row.pop_first();
        }
        None
    }

    /// The proof that a state is stable, if enough replicas signed it.
    fn proof(&self, slot: Slot, state: Digest, weak: usize) -> Option<CheckpointProof> {
        let signatures: Vec<_> = (0u16..)
            .map(ReplicaId)
            .zip(&self.rows)
            .filter_map(|(id, row)| {
                row.get(&slot).filter(|vote| vote.0 == state).map(|v| (id, v.1))
            })
            .take(weak)
            .collect();
        (signatures.len() == weak).then_some(CheckpointProof { slot, state, signatures })
    }

    fn forget_below(&mut self, slot: Slot) {
        self.rows.iter_mut().for_each(|row| row.retain(|at, _| *at >= slot));
        self.mine.retain(|at, _| *at >= slot);
    }

    /// Whether a proven checkpoint waits for execution to reach it.
    #[must_use]
    pub const fn is_behind(&self) -> bool {
        self.ahead.is_some()
    }

    /// Who signed another state than this one.
    fn others(&self, slot: Slot, state: Digest) -> ReplicaSet {
        let rows = (0u16..).map(ReplicaId).zip(&self.rows);
        let other = |row: &BTreeMap<Slot, (Digest, Signature)>| {
            row.get(&slot).is_some_and(|vote| vote.0 != state)
        };
        rows.filter(|(_, row)| other(row)).map(|(id, _)| id).collect()
    }

    /// This replica's own signature at a slot, to send again.
    #[must_use]
    pub fn signed_by(&self, me: ReplicaId, slot: Slot) -> bool {
        self.rows[usize::from(me.0)].contains_key(&slot)
    }

    /// The highest state that this replica announced and that is not stable.
    #[must_use]
    pub fn latest_mine(&self) -> Option<(Slot, Digest)> {
        self.mine.last_key_value().map(|(slot, state)| (*slot, *state))
    }
}

impl MinBft {
    /// Execution took the checkpoint: sign it.
    pub(super) fn on_checkpointed(&mut self, slot: Slot, state: Digest, out: &mut Effects<Self>) {
        if slot < self.stable.slot {
            return;
        }
        self.checkpoints.mine.insert(slot, state);
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
            mark!("minbft/two_checkpoints");
            out.report(verified.author, Finding::TwoCheckpoints { slot });
            self.distrust(verified.author, out);
        }
        if let Some(proof) = self.checkpoints.proof(slot, state, self.vouching()) {
            self.on_stable(proof, out);
        }
    }

    /// How many must have signed a state.
    fn vouching(&self) -> usize {
        if mutant!("minbft.stable-by-f") { self.membership.f } else { self.weak() }
    }

    /// A quorum vouches for a state. If execution is there already, the window moves. If not, the
    /// missing slots may still be on their way, so state is fetched only after a tick or two.
    pub(super) fn on_stable(&mut self, proof: CheckpointProof, out: &mut Effects<Self>) {
        if proof.slot <= self.stable.slot {
            return;
        }
        if proof.slot <= self.committed {
            self.adopt(proof, out);
        } else if self.checkpoints.ahead.as_ref().is_none_or(|ahead| ahead.slot < proof.slot) {
            mark!("minbft/behind");
            self.checkpoints.ahead = Some(proof);
            self.arm_resend(out);
        }
    }

    /// A tick passed: if a proven checkpoint is still out of reach, stop waiting for its slots.
    pub(super) fn check_behind(&mut self, out: &mut Effects<Self>) {
        let Some(ahead) = &self.checkpoints.ahead else { return };
        if ahead.slot <= self.committed {
            let proof = self.checkpoints.ahead.take();
            proof.into_iter().for_each(|proof| self.on_stable(proof, out));
            return;
        }
        if self.committed > self.checkpoints.reached {
            self.checkpoints.reached = self.committed;
            self.checkpoints.patience = 0;
        }
        self.checkpoints.patience += 1;
        if self.checkpoints.patience > 2
            && let Some(proof) = self.checkpoints.ahead.take()
        {
            self.adopt(proof, out);
        }
    }

    /// Acts on a stable checkpoint: moves the window, forgets what is below, fetches the state if
    /// execution has not reached it.
    pub(super) fn adopt(&mut self, proof: CheckpointProof, out: &mut Effects<Self>) {
        let CheckpointProof { slot, state, .. } = proof;
        if slot <= self.stable.slot {
            return;
        }
        mark!("minbft/stable");
        let mine = self.checkpoints.mine.get(&slot).copied();
        let from = proof.signers();
        let liars = self.checkpoints.others(slot, state);
        self.checkpoints.forget_below(slot);
        self.checkpoints.extent.stable(slot);
        self.checkpoints.patience = 0;
        self.checkpoints.ahead = self.checkpoints.ahead.take().filter(|ahead| ahead.slot > slot);
        self.stable = proof;
        self.advance_window(slot);
        if !mutant!("minbft.next-slot-stays-behind") {
            self.next_slot = self.next_slot.max(slot.next());
        }
        self.bodies.retain(slot, |_| true);
        if self.phase == super::replica::Phase::Entered {
            // The view works: the next failure starts from short timeouts again.
            self.doublings = 0;
        }
        if self.committed < slot && !mutant!("minbft.never-fetches") {
            mark!("minbft/fetch");
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
        self.recount_in_flight();
        // Bodies that a view change waited for may have become needless.
        self.bodies_changed(out);
    }

    /// Moves the window. Slots that come into it may be among those that the view took over.
    pub(super) fn advance_window(&mut self, low: Slot) {
        let before = self.window.high();
        self.window.advance(low);
        let Some(entry) = &self.entry else { return };
        let decided = self.enters.voters().len() >= self.quorum();
        for slot in (before.0 + 1..=self.window.high().0.min(entry.end().0)).map(Slot) {
            if let (Some(state), Some(batch)) = (self.window.get_mut(slot), entry.batch(slot)) {
                state.batch = Some(batch);
                state.decided = decided;
                self.bodies.want(slot, batch);
            }
        }
    }

    /// This replica's state is not the group's: a bug or a broken disk here. Raise the alarm and
    /// take the group's state.
    fn diverged(&mut self, slot: Slot, mine: Digest, out: &mut Effects<Self>) {
        mark!("minbft/diverged");
        let theirs = self.stable.state;
        out.report(self.me, Finding::DivergedState { slot });
        out.output(Output::Diverged { slot, mine, theirs });
        out.output(Output::Fetch { slot, state: theirs, from: self.stable.signers() });
    }

    /// The state after `slot` was fetched and installed: execution goes on behind it.
    pub(super) fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        mark!("minbft/installed");
        self.committed = slot;
        self.checkpoints.extent = Extent::default();
        self.pending.clear();
        self.checkpoints.mine.retain(|at, _| *at <= slot);
        if self.is_durable && slot == self.stable.slot {
            // Now there is something to go on from, and what is below may go.
            out.output(Output::Stable { slot, state: self.stable.state });
            self.persist_again(out);
        }
        self.advance(out);
        self.check_behind(out);
    }
}
