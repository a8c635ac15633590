//! What a replica keeps across a crash, and how it goes on from there.
//!
//! Each record is persisted before the message that rests on it is sent: a commitment before the
//! COMMIT, with the batch that it commits to. A replica that starts again has all that it told
//! others, and may have a little that it did not come to tell. It says all of it again, in the same
//! words; for those its device has the same certificates. Slots are not logged as decided: whoever
//! committed says so again, and `f + 1` commitments decide as before.
//!
//! Signed messages need no record. A request for a view is made again if there is still a reason,
//! and a checkpoint is signed again when execution gets there.

use super::certificate::{Entry, NewView, ViewChange};
use super::message::Message;
use super::replica::{MinBft, Phase, Timer};
use super::view_change::Opening;
use crate::common::certificate::CheckpointProof;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified};
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::votes::Votes;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// An envelope that the next proposal names without carrying it.
    Envelope(Arc<Envelope>),
    /// As primary, this replica proposes.
    Prepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica commits to that PREPARE.
    Commit(Verified<Message>),
    /// A batch that the next NEW-VIEW takes over.
    Body {
        /// The slot that orders it.
        slot: Slot,
        /// The batch, as it was proposed.
        proposal: Arc<Proposal>,
    },
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica found that NEW-VIEW valid, and holds its batches.
    Acknowledge(Verified<Message>),
    /// This replica enters its view.
    Enter(Entry),
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
            Self::Prepare { view, slot, proposal } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Commit(prepare) => {
                to.u8(2);
                prepare.encode(to);
            }
            Self::Body { slot, proposal } => {
                to.u8(3);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Leave(change) => {
                to.u8(4);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Acknowledge(opening) => {
                to.u8(6);
                opening.encode(to);
            }
            Self::Enter(entry) => {
                to.u8(7);
                entry.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(8);
                proof.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            1 => Self::Prepare {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            2 => Self::Commit(Verified::decode(from)?),
            3 => Self::Body {
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            4 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            5 => Self::Open(Arc::new(NewView::decode(from)?)),
            6 => Self::Acknowledge(Verified::decode(from)?),
            7 => Self::Enter(Entry::decode(from)?),
            8 => Self::Stable(CheckpointProof::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}

/// Keeps the envelopes of a batch that its proposal only names.
pub(super) fn persist_named(batch: &Batch, out: &mut Effects<MinBft>) {
    for envelope in batch.envelopes.iter().filter(|envelope| envelope.is_large()) {
        out.persist(Record::Envelope(envelope.clone()));
    }
}

const fn is_prepare(message: &Message) -> bool {
    matches!(message, Message::Prepare { .. })
}

/// What is gathered while a log is read.
#[derive(Default)]
struct Past {
    /// What is to be said again.
    said: Vec<Message>,
    /// Envelopes by digest, for proposals that name them.
    envelopes: BTreeMap<Digest, Arc<Envelope>>,
}

impl MinBft {
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
        self.recall_decisions(&past);
        out.output(Output::Resumed { upto: self.may_have_executed() });
        let other = self.stable.slot == self.committed && self.stable.state != executed.state;
        if self.stable.slot > self.committed || other {
            let CheckpointProof { slot, state, .. } = self.stable;
            out.output(Output::Fetch { slot, state, from: self.stable.signers() });
        } else if self.stable.slot < self.committed && !mutant!("minbft.state-not-vouched-again") {
            self.on_checkpointed(executed.slot, executed.state, out);
        }
        if self.phase != Phase::Entered {
            mark!("minbft/resumed_changing");
            let doublings = self.doublings;
            out.arm(Timer::ViewChange(self.view), Delay::ViewChange { doublings });
        }
        let silent = mutant!("minbft.says-nothing-again");
        for message in past.said.into_iter().filter(|_| !silent) {
            mark!("minbft/said_again");
            out.send(To::All, message);
        }
    }

    /// What was executed was decided. Nobody commits to it again for this replica alone.
    fn recall_decisions(&mut self, past: &Past) {
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
        let proposed = past.said.iter().filter_map(|message| match message {
            Message::Prepare { slot, .. } => Some(*slot),
            _ => None,
        });
        let proposed: Vec<Slot> = proposed.collect();
        self.looping = proposed.len() as u64;
        self.in_flight = proposed.iter().filter(|slot| **slot > self.committed).count() as u64;
        self.next_slot = self.next_slot.max(self.committed.next());
    }

    /// The highest slot that this replica may have executed.
    fn may_have_executed(&self) -> Slot {
        Slot(self.next_slot.0 - 1)
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Envelope(envelope) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Prepare { view, slot, proposal } => {
                self.next_slot = slot.next();
                self.recall_body(slot, &proposal, past);
                if let Some(state) = self.window.get_mut(slot) {
                    state.batch = Some(proposal.digest());
                }
                past.said.push(Message::Prepare { view, slot, proposal });
            }
            Record::Commit(prepare) => self.recall_commit(prepare, past),
            Record::Body { slot, proposal } => self.recall_body(slot, &proposal, past),
            Record::Leave(change) => {
                for (author, (view, signature)) in &change.requests {
                    self.note_ask(*author, *view, *signature);
                }
                self.recall_own_prepares(&change, past);
                self.recall_view(change.view);
                past.said = Vec::from([Message::ViewChange(change)]);
            }
            Record::Open(opening) => {
                self.phase = Phase::Opening;
                past.said.push(Message::NewView(opening));
            }
            Record::Acknowledge(verified) => self.recall_opening(verified, past),
            Record::Enter(entry) => self.recall_entry(entry, past),
            Record::Stable(proof) => self.recall_stable(proof, past),
        }
    }

    fn recall_body(&mut self, slot: Slot, proposal: &Arc<Proposal>, past: &Past) {
        self.bodies.want(slot, proposal.digest());
        self.bodies.offer(proposal, |digest| past.envelopes.get(digest).cloned());
    }

    fn recall_commit(&mut self, prepare: Verified<Message>, past: &mut Past) {
        let message = prepare.message.clone();
        let Message::Prepare { view, slot, proposal } = &*message else { return };
        let batch = proposal.digest();
        self.recall_body(*slot, proposal, past);
        if let Some(state) = self.window.get_mut(*slot) {
            state.batch = Some(batch);
            state.commits.cast(prepare.author, batch);
            state.prepare = Some(prepare);
        }
        self.next_slot = slot.next();
        past.said.push(Message::Commit { view: *view, slot: *slot, batch });
    }

    /// Own PREPAREs of the view that is left, with the certificates that VIEW-CHANGE showed them
    /// with: the next one may have to show them again.
    fn recall_own_prepares(&mut self, change: &ViewChange, past: &mut Past) {
        let domain = self.membership.domain();
        for message in past.said.drain(..) {
            let Message::Prepare { slot, proposal, .. } = &message else { continue };
            let (slot, batch) = (*slot, proposal.digest());
            let shown = change.prepares.iter().find(|prepared| prepared.slot == slot);
            let shown = shown.filter(|_| !mutant!("minbft.own-prepares-forgotten"));
            let (Some(shown), Some(state)) = (shown, self.window.get_mut(slot)) else { continue };
            let tag = AuthTag::Usig(shown.ui);
            state.batch = Some(batch);
            state.commits.cast(self.me, batch);
            state.prepare = Some(Verified::recalled(self.me, tag, &domain, message));
        }
    }

    fn recall_view(&mut self, view: View) {
        (self.view, self.phase) = (view, Phase::Changing);
        self.opening = None;
        self.doublings = self.doublings.saturating_add(1);
    }

    fn recall_opening(&mut self, verified: Verified<Message>, past: &mut Past) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view > self.view {
            self.recall_view(opening.view);
            // No report of this replica's has shown its PREPAREs yet. Said again, they come back
            // with the certificates that the next report must show them with.
            past.said.retain(is_prepare);
        }
        self.phase = Phase::Acknowledged;
        let (view, digest) = (opening.view, verified.digest);
        if self.membership.primary(view) != self.me {
            past.said.push(Message::Acknowledge { view, opening: digest });
        }
        self.opening = Some(Opening::new(verified, opening, &self.membership.domain()));
    }

    fn recall_entry(&mut self, entry: Entry, past: &mut Past) {
        let Some(opening) = &mut self.opening else { return };
        opening.acknowledgements = entry.acknowledgements.iter().copied().collect();
        let (view, opening) = (entry.view, opening.message.digest);
        self.take_over(&entry);
        self.next_slot = entry.end().max(self.stable.slot).next();
        (self.entered, self.phase, self.entry) = (view, Phase::Entered, Some(entry));
        self.enters = Votes::default();
        past.said.retain(|it| !matches!(it, Message::ViewChange(_)) && !is_prepare(it));
        past.said.push(Message::Enter { view, opening });
    }

    fn recall_stable(&mut self, proof: CheckpointProof, past: &mut Past) {
        let low = proof.slot;
        if low <= self.stable.slot {
            return;
        }
        self.stable = proof;
        self.advance_window(low);
        self.next_slot = self.next_slot.max(low.next());
        self.bodies.retain(low, |_| true);
        self.doublings = 0;
        past.said.retain(|message| match message {
            Message::Prepare { slot, .. } | Message::Commit { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
