//! How a replica goes on from what it kept.
//!
//! A replica that starts again has all that it told others, and may have a little that it did not
//! come to tell. It says all of it again, in the same words; for those its device has the same
//! certificates.
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::{Entry, ViewChange};
use super::message::Message;
use super::record::Record;
use super::replica::{MinBft, OwnMessages, Phase};
use super::view_change::Opening;
use crate::common::certificate::CheckpointProof;
use crate::common::frame::Own;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::{Envelopes, Resuming};
use crate::common::record::Kept;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::votes::Votes;

/// Something to be said again.
enum Again {
    /// To be certified; the host has the certificate, or the device gives it.
    New(Message),
    /// As it was said.
    Said(Verified<Message>),
}

impl Again {
    fn message(&self) -> &Message {
        match self {
            Self::New(message) => message,
            Self::Said(verified) => &verified.message,
        }
    }

    fn proposed(&self) -> Option<(View, Slot)> {
        match self.message() {
            Message::Prepare { view, slot, .. } => Some((*view, *slot)),
            _ => None,
        }
    }
}

/// What is gathered while a log is read.
#[derive(Default)]
struct Past {
    /// What is to be said again.
    said: Vec<Again>,
    /// Envelopes by digest, for proposals that name them.
    envelopes: Envelopes,
}

impl Past {
    /// Notes what was said, unless that is known.
    fn say(&mut self, message: Message) {
        if !self.said.iter().any(|again| *again.message() == message) {
            self.said.push(Again::New(message));
        }
    }

    /// Notes with which certificate something was said.
    fn say_as(&mut self, said: Verified<Message>) {
        match self.said.iter_mut().find(|again| *again.message() == *said.message) {
            Some(again) => *again = Again::Said(said),
            None => self.said.push(Again::Said(said)),
        }
    }
}

impl Resumes for MinBft {
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        self.frame.executed = executed.slot;
        let mut past = Past::default();
        log.for_each(|record| self.recall(record, &mut past));
        self.recall_decisions(&past);
        self.go_on(executed, self.may_have_executed(), out);
        let silent = mutant!("minbft.says-nothing-again");
        for again in past.said.into_iter().filter(|_| !silent) {
            mark!("minbft/said_again");
            match again {
                Again::New(message) => self.say(message, out),
                Again::Said(verified) => out.relay(To::All, &verified),
            }
        }
    }
}

impl MinBft {
    /// What was executed was decided. Nobody commits to it again for this replica alone.
    fn recall_decisions(&mut self, past: &Past) {
        // A state that was fetched may lie far above the last one that the log proves.
        let last = self.frame.executed.min(self.window.high());
        for slot in (self.window.low().0 + 1..=last.0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            state.decided = state.batch.is_some();
            self.frame.recall_executed(slot, state.batch);
        }
        // The state to go on from is a checkpoint's, also if the record is lost that says why.
        self.frame.checkpoints.extent.begin(self.frame.executed);
        self.looping = past.said.iter().filter_map(Again::proposed).collect();
        let open = |(_, slot): &&(View, Slot)| *slot > self.frame.executed;
        self.in_flight = self.looping.iter().filter(open).count() as u64;
        self.frame.next_slot = self.frame.next_slot.max(self.frame.executed.next());
    }

    /// The highest slot that this replica may have executed.
    fn may_have_executed(&self) -> Slot {
        Slot(self.frame.next_slot.0 - 1)
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Prepare { view, slot, proposal } => {
                self.frame.next_slot = self.frame.next_slot.max(slot.next());
                self.frame.recall_body(slot, &proposal, &past.envelopes);
                if let Some(state) = self.window.get_mut(slot) {
                    state.batch = Some(proposal.digest());
                }
                past.say(Message::Prepare { view, slot, proposal });
            }
            Record::Commit(prepare) => self.recall_commit(prepare, past),
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
            Record::Said(verified) => self.recall_said(verified, past),
            Record::Entered(entry) if entry.view > self.frame.entered => self.recall_entered(entry),
            Record::Left(view) if view > self.frame.view => {
                self.recall_view(view);
                past.said.retain(|again| again.proposed().is_some());
            }
            Record::Entered(_) | Record::Left(_) => {}
        }
    }

    fn recall_commit(&mut self, prepare: Verified<Message>, past: &mut Past) {
        let message = prepare.message.clone();
        let Message::Prepare { view, slot, proposal } = &*message else { return };
        let batch = proposal.digest();
        self.frame.recall_body(*slot, proposal, &past.envelopes);
        if let Some(state) = self.window.get_mut(*slot) {
            state.batch = Some(batch);
            state.commits.cast(prepare.author, batch);
            state.prepare = Some(prepare);
        }
        self.frame.next_slot = self.frame.next_slot.max(slot.next());
        past.say(Message::Commit { view: *view, slot: *slot, batch });
    }

    /// An own message that had come back. It comes back again, which counts it; what is needed to
    /// send it once more is noted here.
    fn recall_said(&mut self, said: Verified<Message>, past: &mut Past) {
        let message = said.message.clone();
        match &*message {
            Message::Prepare { slot, proposal, .. } => {
                self.frame.recall_body(*slot, proposal, &past.envelopes);
                let batch = proposal.digest();
                if let Some(state) = self.window.get_mut(*slot) {
                    state.batch = Some(batch);
                    state.commits.cast(said.author, batch);
                    state.prepare = Some(said.clone());
                }
                self.frame.next_slot = self.frame.next_slot.max(slot.next());
            }
            Message::Commit { slot, .. } => {
                if let Some(state) = self.window.get_mut(*slot) {
                    state.own_commit = Some(said.clone());
                }
            }
            Message::ViewChange(_) => self.frame.own.view_change = Some(said.clone()),
            Message::Acknowledge { .. } => self.own.acknowledge = Some(said.clone()),
            Message::Enter { .. } => self.own.enter = Some(said.clone()),
            _ => {}
        }
        past.say_as(said);
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past) {
        if change.view <= self.frame.view {
            return;
        }
        for (author, (view, signature)) in &change.requests {
            self.frame.note_ask(*author, *view, *signature);
        }
        self.recall_own_prepares(&change, past);
        self.recall_view(change.view);
        past.said = Vec::from([Again::New(Message::ViewChange(change))]);
    }

    /// Own PREPAREs of the view that is left, with the certificates that VIEW-CHANGE showed them
    /// with: the next one may have to show them again.
    fn recall_own_prepares(&mut self, change: &ViewChange, past: &mut Past) {
        let domain = self.frame.membership.domain();
        for again in past.said.drain(..) {
            let Again::New(message) = again else { continue };
            let Message::Prepare { slot, proposal, .. } = &message else { continue };
            let (slot, batch) = (*slot, proposal.digest());
            let shown = change.prepares.iter().find(|prepared| prepared.slot == slot);
            let shown = shown.filter(|_| !mutant!("minbft.own-prepares-forgotten"));
            let (Some(shown), Some(state)) = (shown, self.window.get_mut(slot)) else { continue };
            let tag = AuthTag::Usig(shown.ui);
            state.batch = Some(batch);
            state.commits.cast(self.frame.me, batch);
            state.prepare = Some(Verified::recalled(self.frame.me, tag, &domain, message));
        }
    }

    fn recall_view(&mut self, view: View) {
        (self.frame.view, self.phase) = (view, Phase::Changing);
        (self.opening, self.own) = (None, OwnMessages::default());
        self.frame.own = Own::default();
        self.frame.doublings = self.frame.doublings.saturating_add(1);
    }

    fn recall_opening(&mut self, verified: Verified<Message>, past: &mut Past) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        let told = opening.view == self.frame.view && self.phase == Phase::Acknowledged;
        if told || opening.view <= self.frame.entered || opening.view < self.frame.view {
            return;
        }
        if opening.view > self.frame.view {
            self.recall_view(opening.view);
            // Until the view is entered, a later one may want to be shown what was proposed.
            past.said.retain(|again| again.proposed().is_some());
        }
        self.phase = Phase::Acknowledged;
        let (view, digest) = (opening.view, verified.digest);
        if self.frame.membership.primary(view) != self.frame.me {
            past.say(Message::Acknowledge { view, opening: digest });
        }
        self.opening = Some(Opening::new(verified, opening, &self.frame.membership.domain()));
    }

    fn recall_entry(&mut self, entry: Entry, past: &mut Past) {
        let Some(opening) = &mut self.opening else { return };
        if entry.view <= self.frame.entered {
            return;
        }
        opening.acknowledgements = entry.acknowledgements.iter().copied().collect();
        let (view, opening) = (entry.view, opening.message.digest);
        self.recall_entered(entry);
        past.said.retain(|again| {
            let left = matches!(again.message(), Message::ViewChange(_));
            !left && again.proposed().is_none()
        });
        past.say(Message::Enter { view, opening });
    }

    fn recall_entered(&mut self, entry: Entry) {
        self.take_over(&entry);
        self.frame.next_slot = entry.end().max(self.frame.stable.slot).next();
        (self.frame.view, self.frame.entered, self.phase) =
            (entry.view, entry.view, Phase::Entered);
        self.entry = Some(entry);
        self.enters = Votes::default();
    }

    fn recall_checkpoint(&mut self, proof: CheckpointProof, past: &mut Past) {
        let low = proof.slot;
        if !self.recall_stable(proof) {
            return;
        }
        past.said.retain(|again| match again.message() {
            Message::Prepare { slot, .. } | Message::Commit { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
