//! What a replica keeps across a crash, and how it goes on from there.
//!
//! Each record is persisted before the message that rests on it is sent: a vote before PREPARE,
//! with the batch; a certificate before COMMIT; what a VIEW-CHANGE shows before it is shown. A
//! replica that starts again has all that it told others, and says it again. Slots are not logged
//! as decided: whoever committed says so again, and `2f + 1` COMMITs decide as before.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`renew.rs`). What was told again
//! may break off anywhere.
//!
//! A request for a view needs no record, it is made again if there is still a reason; nor does a
//! signed state, as execution gets there again.

use super::certificate::{Claim, NewView, Prepared, ViewChange};
use super::message::Message;
use super::replica::{Pbft, Phase};
use super::seal::Seal;
use super::variant::Variant;
use crate::common::certificate::CheckpointProof;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::{Envelopes, Resuming};
use crate::common::record::Kept;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record<S: Seal = Signature> {
    /// What every protocol keeps. A batch is one that the next record is about.
    Kept(Kept),
    /// As primary, this replica proposes.
    Propose {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica votes for that PRE-PREPARE.
    Vote(Verified<Message<S>>),
    /// This replica votes for what its view took over, or voted for what its slot does not order.
    VoteAgain {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// This replica has that certificate, and commits.
    Prepared(Prepared<S>),
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange<S>>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView<S>>),
    /// This replica enters the view of that NEW-VIEW.
    Enter(Verified<Message<S>>),
}

impl<S: Seal> Wire for Record<S> {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Kept(record) => record.encode(to),
            Self::Propose { view, slot, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Vote(proposed) => {
                to.u8(1);
                proposed.encode(to);
            }
            Self::VoteAgain { view, slot, batch } => {
                to.u8(2);
                view.encode(to);
                slot.encode(to);
                batch.encode(to);
            }
            Self::Prepared(certificate) => {
                to.u8(3);
                certificate.encode(to);
            }
            Self::Leave(change) => {
                to.u8(4);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Enter(opening) => {
                to.u8(6);
                opening.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Propose {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Vote(Verified::decode(from)?),
            2 => Self::VoteAgain {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                batch: Digest::decode(from)?,
            },
            3 => Self::Prepared(Prepared::decode(from)?),
            4 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            5 => Self::Open(Arc::new(NewView::decode(from)?)),
            6 => Self::Enter(Verified::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}

/// What is gathered while a log is read.
struct Past<S> {
    /// What is to be said again.
    said: Vec<Message<S>>,
    /// Envelopes by digest, for proposals that name them.
    envelopes: Envelopes,
}

impl<S: Seal> Past<S> {
    /// Notes what was said, unless that is known.
    fn say(&mut self, message: Message<S>) {
        if !self.said.contains(&message) {
            self.said.push(message);
        }
    }
}

impl<V: Variant> Resumes for Pbft<V> {
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record<V::Seal>>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        self.frame.executed = executed.slot;
        let mut past = Past { said: Vec::new(), envelopes: Envelopes::default() };
        log.for_each(|record| self.recall(record, &mut past));
        self.recall_decisions();
        self.go_on(executed, self.may_have_executed(), out);
        for message in past.said {
            mark!("pbft/said_again");
            out.send(To::All, message);
        }
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

    fn recall(&mut self, record: Record<V::Seal>, past: &mut Past<V::Seal>) {
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

    fn recall_proposal(&mut self, proposed: Verified<Message<V::Seal>>, past: &mut Past<V::Seal>) {
        let message = proposed.message.clone();
        let Message::PrePrepare { view, slot, proposal } = &*message else { return };
        let (view, slot, batch) = (*view, *slot, proposal.digest());
        if !self.recall_vote(view, slot, batch) {
            return;
        }
        self.frame.recall_body(slot, proposal, &past.envelopes);
        if let (Some(state), Some(seal)) =
            (self.window.get_mut(slot), <V::Seal as Seal>::of(&proposed.tag))
        {
            state.votes.insert(proposed.author, (batch, seal));
            state.proposed = Some(proposed);
        }
        past.say(Message::Prepare { view, slot, batch });
    }

    fn recall_certificate(&mut self, certificate: Prepared<V::Seal>, past: &mut Past<V::Seal>) {
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

    fn recall_leaving(&mut self, change: Arc<ViewChange<V::Seal>>, past: &mut Past<V::Seal>) {
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

    fn recall_entry(&mut self, verified: Verified<Message<V::Seal>>, past: &mut Past<V::Seal>) {
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

    fn recall_checkpoint(&mut self, proof: CheckpointProof, past: &mut Past<V::Seal>) {
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
