//! How a replica goes on from what it kept.
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::{Claim, Prepared, ViewChange};
use super::message::Message;
use super::record::Record;
use super::replica::{Pbft, Phase};
use super::variant::Variant;
use crate::common::certificate::CheckpointProof;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::{Past, Resuming};
use crate::common::record::Kept;
use crate::common::seal::Seal as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::protocol::Effects;

impl<V: Variant> Resumes for Pbft<V> {
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record<V::Seal>>,
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

impl<V: Variant> Pbft<V> {
    /// What was executed was decided. Nobody commits to it again for this replica alone.
    fn recall_decisions(&mut self) {
        // A state that was fetched may lie far above the last one that the log proves.
        let last = self.frame.executed.min(self.window.high());
        for slot in (self.window.low().0 + 1..=last.0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            state.decided = state.batch.is_some();
            self.frame.recall_executed(slot, state.batch);
        }
        // The state to go on from is a checkpoint's, also if the record is lost that says why.
        self.frame.checkpoints.note_taken(self.frame.executed);
        if self.frame.leads(self.frame.entered) && self.frame.executed > self.start.end() {
            self.frame.next_slot = self.frame.next_slot.max(self.frame.executed.next());
        }
    }

    /// The highest slot that this replica may have executed: it had a certificate for it.
    fn may_have_executed(&self) -> Slot {
        let last = self.certificates.last_key_value().map_or(Slot(0), |(slot, _)| *slot);
        last.max(self.frame.executed).max(self.frame.stable.slot)
    }

    fn recall(&mut self, record: Record<V::Seal>, past: &mut Past<Message<V::Seal>>) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Propose { view, slot, proposal } => {
                if self.recall_vote(view, slot, proposal.digest()) {
                    self.frame.recall_body(slot, &proposal, &past.envelopes);
                    self.awaiting_loopback.insert(slot, proposal.clone());
                    past.say(Message::PrePrepare { view, slot, proposal });
                }
            }
            Record::Vote(proposed) => self.recall_proposal(proposed, past),
            Record::Kept(Kept::Body { slot, proposal }) => {
                self.frame.recall_body(slot, &proposal, &past.envelopes);
            }
            Record::VoteAgain { view, slot, batch } => {
                if self.recall_vote(view, slot, batch) {
                    past.say(Message::Prepare { view, slot, batch });
                }
            }
            Record::Prepared(certificate) => self.recall_certificate(certificate, past),
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

    /// A vote in the view that was entered last; false if it is of another one.
    fn recall_vote(&mut self, view: View, slot: Slot, batch: Digest) -> bool {
        let Some(state) = self.window.get_mut(slot) else { return false };
        if view != self.frame.entered || !self.frame.is_entered() {
            return false;
        }
        if state.prepared && state.batch != Some(batch) {
            state.voted_otherwise = Some(batch);
        } else {
            state.batch = Some(batch);
        }
        self.frame.next_slot = self.frame.next_slot.max(slot.next());
        true
    }

    fn recall_proposal(
        &mut self,
        proposed: Verified<Message<V::Seal>>,
        past: &mut Past<Message<V::Seal>>,
    ) {
        let message = proposed.message.clone();
        let Message::PrePrepare { view, slot, proposal } = &*message else { return };
        let (view, slot, batch) = (*view, *slot, proposal.digest());
        if !self.recall_vote(view, slot, batch) {
            return;
        }
        self.frame.recall_body(slot, proposal, &past.envelopes);
        if let (Some(state), Some(seal)) = (self.window.get_mut(slot), V::Seal::of(&proposed.tag)) {
            state.votes.insert(proposed.author, (batch, seal));
            state.proposed = Some(proposed);
        }
        past.say(Message::Prepare { view, slot, batch });
    }

    fn recall_certificate(
        &mut self,
        certificate: Prepared<V::Seal>,
        past: &mut Past<Message<V::Seal>>,
    ) {
        let Claim { slot, view, batch } = certificate.claim;
        let higher = self.certificates.get(&slot).is_some_and(|known| known.claim.view > view);
        let Some(state) = self.window.get_mut(slot).filter(|_| !higher) else { return };
        if view == self.frame.entered && self.frame.is_entered() {
            let voted = state.batch.filter(|voted| *voted != batch);
            state.voted_otherwise = state.voted_otherwise.or(voted);
            state.batch = Some(batch);
            state.prepared = true;
            let votes = certificate.seals.iter();
            state.votes.extend(votes.map(|(id, seal)| (*id, (batch, *seal))));
            past.say(Message::Commit { view, slot, batch });
        }
        self.certificates.insert(slot, certificate);
    }

    fn recall_leaving(
        &mut self,
        change: Arc<ViewChange<V::Seal>>,
        past: &mut Past<Message<V::Seal>>,
    ) {
        let view = change.claims.view;
        if view <= self.frame.view {
            return;
        }
        self.frame.view_requests.show_all(&change.requests);
        self.frame.recall_view(view);
        self.phase = Phase::Changing;
        self.own.left = Some(change.clone());
        self.own.opened = None;
        self.awaiting_loopback.clear();
        past.said = Vec::from([Message::ViewChange(change)]);
    }

    fn recall_entry(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        past: &mut Past<Message<V::Seal>>,
    ) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        self.recall_checkpoint(opening.checkpoint.clone(), past);
        self.frame.view = opening.view;
        self.awaiting_loopback.clear();
        self.enter(verified, opening);
        past.said.clear();
    }

    fn recall_checkpoint(&mut self, proof: CheckpointProof, past: &mut Past<Message<V::Seal>>) {
        let low = proof.slot;
        if !self.recall_stable(proof) {
            return;
        }
        past.said.retain(|message| match message {
            Message::PrePrepare { slot, .. }
            | Message::Prepare { slot, .. }
            | Message::Commit { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
