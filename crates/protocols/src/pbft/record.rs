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
use super::replica::{Pbft, Phase, Timer};
use crate::common::certificate::CheckpointProof;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// An envelope that the next proposal names without carrying it.
    Envelope(Arc<Envelope>),
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
    Vote(Verified<Message>),
    /// A batch that the next record is about.
    Body {
        /// The slot that orders it.
        slot: Slot,
        /// The batch, as it was proposed.
        proposal: Arc<Proposal>,
    },
    /// This replica votes for what its view took over.
    VoteAgain {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// This replica has that certificate, and commits.
    Prepared(Prepared),
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica enters the view of that NEW-VIEW.
    Enter(Verified<Message>),
    /// A state that a quorum vouches for; nothing up to there is needed any more.
    Stable(CheckpointProof),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Envelope(envelope) => {
                to.u8(0);
                envelope.encode(to);
            }
            Self::Propose { view, slot, proposal } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Vote(proposed) => {
                to.u8(2);
                proposed.encode(to);
            }
            Self::Body { slot, proposal } => {
                to.u8(3);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::VoteAgain { view, slot, batch } => {
                to.u8(4);
                view.encode(to);
                slot.encode(to);
                batch.encode(to);
            }
            Self::Prepared(certificate) => {
                to.u8(5);
                certificate.encode(to);
            }
            Self::Leave(change) => {
                to.u8(6);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(7);
                opening.encode(to);
            }
            Self::Enter(opening) => {
                to.u8(8);
                opening.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(9);
                proof.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            1 => Self::Propose {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            2 => Self::Vote(Verified::decode(from)?),
            3 => Self::Body {
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            4 => Self::VoteAgain {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                batch: Digest::decode(from)?,
            },
            5 => Self::Prepared(Prepared::decode(from)?),
            6 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            7 => Self::Open(Arc::new(NewView::decode(from)?)),
            8 => Self::Enter(Verified::decode(from)?),
            9 => Self::Stable(CheckpointProof::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}

/// Keeps the envelopes of a batch that its proposal only names.
pub(super) fn persist_named(batch: &Batch, out: &mut Effects<Pbft>) {
    for envelope in batch.envelopes.iter().filter(|envelope| envelope.is_large()) {
        out.persist(Record::Envelope(envelope.clone()));
    }
}

/// What is gathered while a log is read.
#[derive(Default)]
struct Past {
    /// What is to be said again.
    said: Vec<Message>,
    /// Envelopes by digest, for proposals that name them.
    envelopes: BTreeMap<Digest, Arc<Envelope>>,
}

impl Past {
    /// Notes what was said, unless that is known.
    fn say(&mut self, message: Message) {
        if !self.said.contains(&message) {
            self.said.push(message);
        }
    }
}

impl Pbft {
    /// Goes on from a log, and from the state that the executor has.
    pub(super) fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        self.committed = executed.slot;
        let mut past = Past::default();
        log.for_each(|record| self.recall(record, &mut past));
        self.recall_decisions();
        out.output(Output::Resumed { upto: self.may_have_executed() });
        let other = self.stable.slot == self.committed && self.stable.state != executed.state;
        if self.stable.slot > self.committed || other {
            let CheckpointProof { slot, state, .. } = self.stable;
            out.output(Output::Fetch { slot, state, from: self.stable.signers() });
        } else if self.stable.slot < self.committed {
            self.on_checkpointed(executed.slot, executed.state, out);
        }
        if self.phase != Phase::Entered {
            mark!("pbft/resumed_changing");
            let doublings = self.doublings;
            out.arm(Timer::ViewChange(self.view), Delay::ViewChange { doublings });
        }
        for message in past.said {
            mark!("pbft/said_again");
            out.send(To::All, message);
        }
    }

    /// What was executed was decided. Nobody commits to it again for this replica alone.
    fn recall_decisions(&mut self) {
        for slot in (self.window.low().0 + 1..=self.committed.0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            state.decided = state.batch.is_some();
            let body = state.batch.and_then(|batch| self.bodies.get(&batch));
            if let Some(bytes) = body.map(|body| body.bytes()) {
                self.checkpoints.extent.executed(slot, bytes, &self.tuning);
            }
        }
        // The state to go on from is a checkpoint's, also if the record is lost that says why.
        self.checkpoints.extent.begin(self.committed);
        if self.membership.primary(self.entered) == self.me && self.committed > self.start.end() {
            self.next_slot = self.next_slot.max(self.committed.next());
        }
    }

    /// The highest slot that this replica may have executed: it had a certificate for it.
    fn may_have_executed(&self) -> Slot {
        let last = self.certificates.last_key_value().map_or(Slot(0), |(slot, _)| *slot);
        last.max(self.committed).max(self.stable.slot)
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Envelope(envelope) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Propose { view, slot, proposal } => {
                if self.recall_vote(view, slot, proposal.digest()) {
                    self.recall_body(slot, &proposal, past);
                    self.unheard.insert(slot, proposal.clone());
                    past.say(Message::PrePrepare { view, slot, proposal });
                }
            }
            Record::Vote(proposed) => self.recall_proposal(proposed, past),
            Record::Body { slot, proposal } => self.recall_body(slot, &proposal, past),
            Record::VoteAgain { view, slot, batch } => {
                if self.recall_vote(view, slot, batch) {
                    past.say(Message::Prepare { view, slot, batch });
                }
            }
            Record::Prepared(certificate) => self.recall_certificate(certificate, past),
            Record::Leave(change) => self.recall_leaving(change, past),
            Record::Open(opening) => {
                if opening.view == self.view && self.phase != Phase::Entered {
                    self.phase = Phase::Opening;
                    self.own.opened = Some(opening.clone());
                    past.say(Message::NewView(opening));
                }
            }
            Record::Enter(verified) => self.recall_entry(verified, past),
            Record::Stable(proof) => self.recall_stable(proof, past),
        }
    }

    fn recall_body(&mut self, slot: Slot, proposal: &Arc<Proposal>, past: &Past) {
        self.bodies.want(slot, proposal.digest());
        self.bodies.offer(proposal, |digest| past.envelopes.get(digest).cloned());
    }

    /// A vote in the view that was entered last; false if it is of another one.
    fn recall_vote(&mut self, view: View, slot: Slot, batch: Digest) -> bool {
        let Some(state) = self.window.get_mut(slot) else { return false };
        if view != self.entered || self.phase != Phase::Entered {
            return false;
        }
        state.batch = Some(batch);
        self.next_slot = self.next_slot.max(slot.next());
        true
    }

    fn recall_proposal(&mut self, proposed: Verified<Message>, past: &mut Past) {
        let message = proposed.message.clone();
        let Message::PrePrepare { view, slot, proposal } = &*message else { return };
        let (view, slot, batch) = (*view, *slot, proposal.digest());
        if !self.recall_vote(view, slot, batch) {
            return;
        }
        self.recall_body(slot, proposal, past);
        if let (Some(state), Some(signature)) =
            (self.window.get_mut(slot), proposed.tag.signature())
        {
            state.votes.insert(proposed.author, (batch, Signature(*signature)));
            state.proposed = Some(proposed);
        }
        past.say(Message::Prepare { view, slot, batch });
    }

    fn recall_certificate(&mut self, certificate: Prepared, past: &mut Past) {
        let Claim { slot, view, batch } = certificate.claim;
        let higher = self.certificates.get(&slot).is_some_and(|known| known.claim.view > view);
        let Some(state) = self.window.get_mut(slot).filter(|_| !higher) else { return };
        if view == self.entered && self.phase == Phase::Entered {
            state.batch = Some(batch);
            state.prepared = true;
            let votes = certificate.signatures.iter();
            state.votes.extend(votes.map(|(id, signature)| (*id, (batch, *signature))));
            past.say(Message::Commit { view, slot, batch });
        }
        self.certificates.insert(slot, certificate);
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past) {
        let view = change.claims.view;
        if view <= self.view {
            return;
        }
        for (author, (view, signature)) in &change.requests {
            self.note_ask(*author, *view, *signature);
        }
        (self.view, self.phase) = (view, Phase::Changing);
        self.own.left = Some(change.clone());
        self.own.opened = None;
        self.unheard.clear();
        self.doublings = self.doublings.saturating_add(1);
        past.said = Vec::from([Message::ViewChange(change)]);
    }

    fn recall_entry(&mut self, verified: Verified<Message>, past: &mut Past) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view < self.view || opening.view == self.entered {
            return;
        }
        self.recall_stable(opening.checkpoint.clone(), past);
        self.view = opening.view;
        self.unheard.clear();
        self.enter(verified, opening);
        past.said.clear();
    }

    fn recall_stable(&mut self, proof: CheckpointProof, past: &mut Past) {
        let low = proof.slot;
        if low <= self.stable.slot {
            return;
        }
        self.stable = proof;
        self.window.advance(low);
        self.certificates.retain(|slot, _| *slot > low);
        self.unheard.retain(|slot, _| *slot > low);
        self.next_slot = self.next_slot.max(low.next());
        self.bodies.retain(low, |_| true);
        self.doublings = 0;
        past.said.retain(|message| match message {
            Message::PrePrepare { slot, .. }
            | Message::Prepare { slot, .. }
            | Message::Commit { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
