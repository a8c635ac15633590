//! How a replica goes on from what it kept ([`crate::common::counters::past`]).
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::{Entry, ViewChange};
use super::message::Message;
use super::record::Record;
use super::replica::{OnUsig, Opening, OwnMessages, Phase, Variant};
use crate::common::certificate::CheckpointProof;
use crate::common::counters::certificate::Opened;
use crate::common::counters::past::{Again, Past, proposed};
use crate::common::counters::record::Noted;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::Resuming;
use crate::common::record::Kept;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::protocol::Effects;
use pentarchy_core::votes::Votes;

impl<V: Variant> Resumes for OnUsig<V> {
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        self.frame.executed = executed.slot;
        let mut past = Past::default();
        log.for_each(|record| self.recall(record, &mut past));
        let slots_awaiting_loopback =
            past.said.iter().filter_map(|again| proposed::<Self>(again.message()));
        self.slots.recall_decisions(&mut self.frame, slots_awaiting_loopback.collect());
        V::recall(self, &past);
        self.go_on(executed, Slot(self.frame.next_slot.0 - 1), out);
        past.say_again(&mut self.slots, &self.frame, out);
        if V::SETTLES {
            self.advance(out);
        }
    }
}

impl<V: Variant> OnUsig<V> {
    fn recall(&mut self, record: Record, past: &mut Past<Self>) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Noted(record) => {
                if let Noted::Said(said) = &record {
                    self.recall_said(said);
                }
                self.slots.recall(&mut self.frame, record, past);
            }
            Record::Kept(Kept::Body { slot, proposal }) => {
                self.frame.recall_body(slot, &proposal, &past.envelopes);
            }
            Record::Leave(change) => self.recall_leaving(change, past),
            Record::Open(opening) => {
                if self.phase == Phase::Changing && opening.view == self.frame.view {
                    self.phase = Phase::Opening;
                    past.say(Message::NewView(opening));
                }
            }
            Record::Acknowledge(verified) => self.recall_opening(verified, past),
            Record::Enter(entry) => self.recall_entry(entry, past),
            Record::Kept(Kept::Stable(proof)) => self.recall_checkpoint(proof, past),
            Record::Entered(entry) if entry.view() > self.frame.entered => {
                self.recall_entered(entry)
            }
            Record::Left(view) if view > self.frame.view => {
                self.recall_view(view);
                past.retain(|message| proposed::<Self>(message).is_some());
            }
            Record::Entered(_) | Record::Left(_) => {}
        }
    }

    /// An own message that had come back, to send it once more.
    fn recall_said(&mut self, said: &Verified<Message>) {
        match &*said.message {
            Message::ViewChange(_) => self.frame.own_view_change = Some(said.clone()),
            Message::Acknowledge { .. } => self.own.acknowledge = Some(said.clone()),
            Message::Enter { .. } => self.own.enter = Some(said.clone()),
            _ => {}
        }
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past<Self>) {
        if change.view <= self.frame.view {
            return;
        }
        self.frame.view_requests.show_all(&change.requests);
        self.slots.recall_shown(&self.frame, &change.prepares, past);
        self.recall_view(change.view);
        past.said = Vec::from([Again::New(Message::ViewChange(change))]);
    }

    fn recall_view(&mut self, view: View) {
        self.frame.recall_view(view);
        self.phase = Phase::Changing;
        (self.opening, self.own) = (None, OwnMessages::default());
    }

    fn recall_opening(&mut self, verified: Verified<Message>, past: &mut Past<Self>) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        let told = opening.view == self.frame.view && self.phase == Phase::Acknowledged;
        if told || opening.view <= self.frame.entered || opening.view < self.frame.view {
            return;
        }
        if opening.view > self.frame.view {
            self.recall_view(opening.view);
            // Until the view is entered, a later one may want to be shown what was proposed.
            past.retain(|message| proposed::<Self>(message).is_some());
        }
        self.phase = Phase::Acknowledged;
        let (view, digest) = (opening.view, verified.digest);
        if self.frame.membership.primary(view) != self.frame.me {
            past.say(Message::Acknowledge { view, opening: digest });
        }
        self.opening = Some(Opening::new(verified, opening));
    }

    fn recall_entry(&mut self, entry: Entry, past: &mut Past<Self>) {
        let Some(opening) = &mut self.opening else { return };
        if entry.view() <= self.frame.entered {
            return;
        }
        opening.acknowledgements = entry.acknowledgements.iter().copied().collect();
        let (view, opening) = (entry.view(), opening.message.digest);
        self.recall_entered(entry);
        past.retain(|message| {
            let left = matches!(message, Message::ViewChange(_));
            !left && proposed::<Self>(message).is_none()
        });
        past.say(Message::Enter { view, opening });
    }

    fn recall_entered(&mut self, entry: Entry) {
        self.slots.take_over(&mut self.frame, entry.start());
        self.frame.next_slot = entry.end().max(self.frame.stable.slot).next();
        (self.frame.view, self.frame.entered, self.phase) =
            (entry.view(), entry.view(), Phase::Entered);
        self.entry = Some(entry);
        self.enters = Votes::default();
    }

    fn recall_checkpoint(&mut self, proof: CheckpointProof, past: &mut Past<Self>) {
        let low = proof.slot;
        if !self.recall_stable(proof) {
            return;
        }
        past.settle(low);
    }
}
