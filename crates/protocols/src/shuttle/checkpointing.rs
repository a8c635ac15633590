//! Checkpoints: the full replicas sign, one after the other, the state behind a slot that is done.
//! One of `f + 1` is correct, so a stable state is one that somebody correct has.

use super::message::Message;
use super::mode::Mode;
use super::record::Record;
use super::replica::{Phase, Shuttle};
use super::statements::Marked;
use crate::common::certificate::CheckpointProof;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Finding, To};

impl<M: Mode> Shuttle<M> {
    /// The host cut the state behind a slot.
    pub(super) fn on_checkpointed(&mut self, slot: Slot, state: Digest, out: &mut Effects<Self>) {
        if self.marks.due.contains(&slot) {
            self.marks.states.insert(slot, state);
            out.persist(Record::Cut(Base { slot, state }));
            self.mark(out);
        }
    }

    /// Marks what can be marked. Not what is not done: a lying predecessor could else have a state
    /// certified that not all have ordered.
    pub(super) fn mark(&mut self, out: &mut Effects<Self>) {
        let (said, done) = (self.marks.marked, self.done);
        let may = |slot: &Slot| *slot <= done || mutant!("shuttle.marks-what-is-not-done");
        let open = self.marks.states.keys().filter(|slot| **slot > said && may(slot));
        for slot in open.copied().collect::<Vec<_>>() {
            // Those before may have marked a later one already.
            let Some(message) = self.marked(slot, out) else { continue };
            self.marks.marked = slot;
            out.send(self.to_next_full(), message);
        }
    }

    /// Says the last mark again that is not stable.
    pub(super) fn mark_again(&self, out: &mut Effects<Self>) {
        let said = self.marks.marked;
        if self.marks.due.contains(&said)
            && let Some(message) = self.marked(said, out)
        {
            out.send(self.to_next_full(), message);
        }
    }

    /// The last full replica has the signatures of all once its own comes back.
    fn to_next_full(&self) -> To {
        let last = self.is_last_full();
        To::One(if last { self.me } else { ReplicaId(self.me.0 + 1) })
    }

    /// This replica's mark, if those before it have marked the same.
    fn marked(&self, slot: Slot, out: &mut Effects<Self>) -> Option<Message<M>> {
        let (state, history) = (*self.marks.states.get(&slot)?, self.log.history_at(slot)?);
        let marked = Marked { state, history };
        let Some(before) = self.predecessor() else {
            return Some(Message::Mark { slot, marked, signatures: Vec::new() });
        };
        let (theirs, signatures) = self.marks.before.get(&slot)?;
        if *theirs != marked {
            out.report(before, Finding::DivergedState { slot });
            self.accuse(before, "its state differs", out);
            return None;
        }
        Some(Message::Mark { slot, marked, signatures: signatures.clone() })
    }

    pub(super) fn on_mark(
        &mut self,
        author: ReplicaId,
        (slot, marked): (Slot, Marked),
        signatures: &[Signature],
        own: Option<[u8; 64]>,
        out: &mut Effects<Self>,
    ) {
        let signatures = signatures.iter().copied().chain(own.map(Signature));
        if author == self.me && self.is_last_full() {
            let signatures = (0..).map(ReplicaId).zip(signatures).collect();
            let proof = CheckpointProof { slot, state: marked, signatures };
            out.send(To::Others, Message::Stable(proof.clone()));
            return self.on_stable(&proof, out);
        }
        let window = self.stable.slot.0..=self.stable.slot.0 + self.tuning.window_slots;
        let is_for_me = self.predecessor() == Some(author) && self.is_full(self.me);
        if is_for_me && slot > self.stable.slot && window.contains(&slot.0) {
            self.marks.before.insert(slot, (marked, signatures.collect()));
            self.mark(out);
        }
    }

    /// All full replicas marked this. So all replicas have ordered it.
    pub(super) fn on_stable(&mut self, proof: &CheckpointProof<Marked>, out: &mut Effects<Self>) {
        let slot = proof.slot;
        if slot <= self.stable.slot || self.log.history_at(slot) != Some(proof.state.history) {
            return;
        }
        self.note_stable(proof.clone());
        out.output(Output::Stable { slot, state: proof.state.state });
        self.keep_again(out);
        self.say_done(out);
        self.advance(out);
    }

    pub(super) fn note_stable(&mut self, proof: CheckpointProof<Marked>) {
        let slot = proof.slot;
        self.log.cut(slot);
        self.extent.stable(slot);
        self.marks.cut(slot);
        self.stable = proof;
        if self.done < slot {
            (self.done, self.done_tags) = (slot, None);
        }
    }

    /// Keeps again all that is needed beside the stable state. A replica that forgot that it has
    /// stopped would go on.
    pub(super) fn keep_again(&self, out: &mut Effects<Self>) {
        out.persist(Record::Stable(self.stable.clone()));
        for entry in self.log.iter() {
            let slot = entry.order.slot;
            out.persist(Record::Ordered(entry.order.clone()));
            if let Some(results) = entry.results {
                out.persist(Record::Results { slot, results });
            }
            if let Some(state) = self.marks.states.get(&slot).copied() {
                out.persist(Record::Cut(Base { slot, state }));
            }
        }
        if self.phase == Phase::Wedged {
            out.persist(Record::Wedged);
        }
    }
}
