//! How a replica goes on from what it kept.
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::ViewChange;
use super::message::Message;
use super::record::Record;
use super::replica::{ModSmart, Phase};
use super::variant::Variant;
use super::writes::Lock;
use crate::common::certificate::CheckpointProof;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::{Past, Resuming};
use crate::common::record::Kept;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::protocol::Effects;

/// A write, as a record has it.
#[derive(Clone, Copy)]
struct Wrote {
    view: View,
    slot: Slot,
    batch: Digest,
    signed: bool,
}

impl<V: Variant> Resumes for ModSmart<V> {
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record<V>>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        self.frame.executed = executed.slot;
        let mut past = Past::default();
        log.for_each(|record| self.recall(record, &mut past));
        self.recall_decisions();
        self.go_on(executed, self.may_have_executed(), out);
        self.say_again(past, out);
    }
}

impl<V: Variant> ModSmart<V> {
    /// What was executed was decided, and the log says what.
    fn recall_decisions(&mut self) {
        // A state that was fetched may lie far above the last one that the log proves.
        let last = self.frame.executed.min(self.window.high());
        for slot in (self.window.low().0 + 1..=last.0).map(Slot) {
            let batch = self.window.get(slot).and_then(|state| state.decided);
            self.frame.recall_executed(slot, batch);
        }
        // The state to go on from is a checkpoint's, also if the record is lost that says why.
        self.frame.checkpoints.note_taken(self.frame.executed);
        if self.frame.leads(self.frame.entered) && self.frame.executed > self.start.end() {
            self.frame.next_slot = self.frame.next_slot.max(self.frame.executed.next());
        }
    }

    /// The highest slot that this replica may have executed: it locked something there, or knew it
    /// to be decided.
    fn may_have_executed(&self) -> Slot {
        let known = self.window.iter().filter(|(_, it)| it.lock.is_some() || it.decided.is_some());
        let last = known.last().map_or(Slot(0), |(slot, _)| slot);
        last.max(self.frame.executed).max(self.frame.stable.slot)
    }

    fn recall(&mut self, record: Record<V>, past: &mut Past<Message<V>>) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Kept(Kept::Body { slot, proposal }) => {
                self.recall_body(slot, &proposal, past);
            }
            Record::Propose { view, slot, proposal, signed } => {
                self.recall_body(slot, &proposal, past);
                let batch = proposal.digest();
                let is_of_view = if V::WRITES {
                    self.recall_write(Wrote { view, slot, batch, signed })
                } else {
                    self.recall_lock(slot, Lock { view, batch, signatures: Vec::new() })
                };
                if is_of_view {
                    past.say(Message::Propose { view, slot, proposal, signed });
                }
            }
            Record::Write { view, slot, batch, signed } => {
                if self.recall_write(Wrote { view, slot, batch, signed }) {
                    past.say(Message::Write { view, slot, batch, signed });
                }
            }
            Record::Lock { slot, lock } => {
                let Lock { view, batch, .. } = lock;
                if self.recall_lock(slot, lock) {
                    past.say(Message::Accept { view, slot, batch });
                }
            }
            Record::Decided { slot, batch } => self.recall_decision(slot, batch),
            Record::Leave(change) => self.recall_leaving(change, past),
            Record::Open(opening) => {
                if opening.view == self.frame.view && !self.frame.is_entered() {
                    self.phase = Phase::Opening;
                    self.own.opened = Some(opening.clone());
                    past.say(Message::NewView(opening));
                }
            }
            Record::Enter(verified) => self.recall_entry(verified, past),
            Record::Kept(Kept::Stable(proof)) => self.recall_checkpoint(proof, past),
        }
    }

    fn recall_body(&mut self, slot: Slot, proposal: &Arc<Proposal>, past: &Past<Message<V>>) {
        if self.window.contains(slot) {
            self.frame.recall_body(slot, proposal, &past.envelopes);
        }
    }

    /// A write; false if it is of another view than the one that was entered last.
    fn recall_write(&mut self, Wrote { view, slot, batch, signed }: Wrote) -> bool {
        let Some(state) = self.window.get_mut(slot) else { return false };
        let bottom = state.lock.as_ref().map_or(View(0), |lock| lock.view);
        if !signed && view >= bottom {
            state.writes.note(batch, view);
        }
        if view != self.frame.entered || !self.frame.is_entered() {
            return false;
        }
        state.round.wrote = Some(batch);
        state.round.candidate = Some(batch);
        self.frame.next_slot = self.frame.next_slot.max(slot.next());
        true
    }

    /// A lock; false if it is of another view than the one that was entered last.
    fn recall_lock(&mut self, slot: Slot, lock: Lock) -> bool {
        let Some(state) = self.window.get_mut(slot) else { return false };
        let Lock { view, batch, .. } = lock;
        if state.lock.as_ref().is_some_and(|known| known.view > view) {
            return false;
        }
        state.lock(lock);
        if view != self.frame.entered || !self.frame.is_entered() {
            return false;
        }
        state.round.locked = true;
        state.round.candidate = state.round.candidate.or(Some(batch));
        if V::WRITES {
            state.round.written = Some(batch);
        } else {
            state.round.wrote = Some(batch);
            self.frame.next_slot = self.frame.next_slot.max(slot.next());
        }
        true
    }

    fn recall_decision(&mut self, slot: Slot, batch: Digest) {
        if let Some(state) = self.window.get_mut(slot) {
            (state.chosen, state.decided) = (Some(batch), Some(batch));
            state.round.candidate = state.round.candidate.or(Some(batch));
        }
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past<Message<V>>) {
        let view = change.claims.view;
        if view <= self.frame.view {
            return;
        }
        self.frame.view_requests.show_all(&change.requests);
        self.frame.recall_view(view);
        self.phase = Phase::Changing;
        self.own.left = Some(change.clone());
        self.own.opened = None;
        past.said = Vec::from([Message::ViewChange(change)]);
    }

    fn recall_entry(&mut self, verified: Verified<Message<V>>, past: &mut Past<Message<V>>) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        self.recall_checkpoint(opening.checkpoint.clone(), past);
        self.frame.view = opening.view;
        self.enter(verified, opening);
        past.said.clear();
    }

    fn recall_checkpoint(&mut self, proof: CheckpointProof, past: &mut Past<Message<V>>) {
        let low = proof.slot;
        if !self.recall_stable(proof) {
            return;
        }
        past.said.retain(|message| match message {
            Message::Propose { slot, .. }
            | Message::Write { slot, .. }
            | Message::Accept { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
