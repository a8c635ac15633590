//! How a replica goes on from what it kept.
//!
//! A replica that starts again has all that it told others, and may have a little that it did not
//! come to tell. It says all of it again, in the same words; for those its device has the same
//! certificates.
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::{NewView, ViewChange, ViewChanges};
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Opening, Phase};
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

    /// The end of what an own NEW-VIEW takes over, to which it commits.
    fn opens(&self) -> Option<Slot> {
        let Message::NewView(opening) = self.message() else { return None };
        Some(opening.start().end())
    }

    /// What has to come back before a view can be left.
    fn loops(&self) -> Option<(View, Slot)> {
        match self.message() {
            Message::Prepare { view, slot, .. } => Some((*view, *slot)),
            Message::NewView(opening) => Some((opening.view(), Slot(0))),
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

impl Resumes for Hybster {
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
        let opened = past.said.iter().filter_map(Again::opens).max().unwrap_or_default();
        let upto = Slot(self.frame.next_slot.0 - 1).max(opened);
        self.go_on(executed, upto, out);
        let silent = mutant!("hybster.says-nothing-again");
        for again in past.said.into_iter().filter(|_| !silent) {
            mark!("hybster/said_again");
            match again {
                Again::New(message) => self.say(message, out),
                Again::Said(verified) => out.relay(To::All, &verified),
            }
        }
    }
}

impl Hybster {
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
        self.looping = past.said.iter().filter_map(Again::loops).collect();
        let committed = self.frame.executed;
        self.in_flight = self.looping.iter().filter(|(_, slot)| *slot > committed).count() as u64;
        self.frame.next_slot = self.frame.next_slot.max(committed.next());
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Kept(Kept::Body { slot, proposal }) => {
                self.frame.recall_body(slot, &proposal, &past.envelopes);
            }
            Record::Kept(Kept::Stable(proof)) => self.recall_checkpoint(proof, past),
            Record::Prepare { view, slot, proposal } => {
                self.frame.next_slot = self.frame.next_slot.max(slot.next());
                self.frame.recall_body(slot, &proposal, &past.envelopes);
                if let Some(state) = self.window.get_mut(slot) {
                    state.batch = Some(proposal.digest());
                }
                past.say(Message::Prepare { view, slot, proposal });
            }
            Record::Commit(prepare) => self.recall_commit(prepare, past),
            Record::Leave { change, basis } => self.recall_leaving(change, basis, past),
            Record::Open(opening) => self.recall_open(opening, past),
            Record::Enter(verified) => self.recall_enter(verified, past),
            Record::Acknowledge(verified) => self.recall_acknowledge(verified, past),
            Record::Said(verified) => self.recall_said(verified, past),
        }
    }

    fn recall_commit(&mut self, prepare: Verified<Message>, past: &mut Past) {
        let message = prepare.message.clone();
        let Message::Prepare { view, slot, proposal } = &*message else { return };
        let batch = proposal.digest();
        self.recall_prepare(prepare);
        self.frame.recall_body(*slot, proposal, &past.envelopes);
        past.say(Message::Commit { view: *view, slot: *slot, batch });
    }

    fn recall_prepare(&mut self, prepare: Verified<Message>) {
        let message = prepare.message.clone();
        let Message::Prepare { slot, proposal, .. } = &*message else { return };
        let batch = proposal.digest();
        if let Some(state) = self.window.get_mut(*slot) {
            state.batch = Some(batch);
            state.commits.cast(prepare.author, batch);
            state.prepare = Some(prepare);
        }
        self.frame.next_slot = self.frame.next_slot.max(slot.next());
    }

    /// An own message that had come back. It comes back again, which counts it; what is needed to
    /// send it once more is noted here.
    fn recall_said(&mut self, said: Verified<Message>, past: &mut Past) {
        let message = said.message.clone();
        match &*message {
            Message::Prepare { slot, proposal, .. } => {
                self.frame.recall_body(*slot, proposal, &past.envelopes);
                self.recall_prepare(said.clone());
            }
            Message::Commit { slot, .. } => {
                if let Some(state) = self.window.get_mut(*slot) {
                    state.own_commit = Some(said.clone());
                }
            }
            Message::ViewChange(_) => self.frame.own.view_change = Some(said.clone()),
            Message::Enter { .. } => self.own.enter = Some(said.clone()),
            Message::Acknowledge { .. } => self.own.acknowledge = Some(said.clone()),
            _ => {}
        }
        past.say_as(said);
    }

    fn recall_leaving(
        &mut self,
        change: Arc<ViewChange>,
        basis: Option<Arc<ViewChanges>>,
        past: &mut Past,
    ) {
        if change.view <= self.left {
            return;
        }
        for (author, (view, signature)) in &change.requests {
            self.frame.note_ask(*author, *view, *signature);
        }
        self.recall_own_prepares(&change, past);
        self.recall_view(change.view);
        self.basis = basis;
        past.said.retain(|again| matches!(again.message(), Message::Acknowledge { .. }));
        past.said.push(Again::New(Message::ViewChange(change)));
    }

    /// Own PREPAREs of the view that is left, with the certificates that VIEW-CHANGE showed them
    /// with: the next one may have to show them again.
    fn recall_own_prepares(&mut self, change: &ViewChange, past: &Past) {
        let domain = self.frame.membership.domain();
        let of_entered = change.from() == self.frame.entered;
        if !of_entered || mutant!("hybster.own-prepares-forgotten") {
            return;
        }
        for again in &past.said {
            let Again::New(message) = again else { continue };
            let Message::Prepare { slot, .. } = message else { continue };
            let shown = change.prepares.iter().find(|prepared| prepared.slot == *slot);
            if let Some(shown) = shown {
                let tag = AuthTag::Usig(shown.ui);
                let said = Verified::recalled(self.frame.me, tag, &domain, message.clone());
                self.recall_prepare(said);
            }
        }
    }

    fn recall_view(&mut self, view: View) {
        (self.frame.view, self.left, self.phase) = (view, view, Phase::Changing);
        self.basis = None;
        self.frame.own = Own::default();
        self.frame.doublings = self.frame.doublings.saturating_add(1);
    }

    fn recall_open(&mut self, opening: Arc<NewView>, past: &mut Past) {
        let view = opening.view();
        if view < self.frame.view || view <= self.from() {
            return;
        }
        if view > self.left {
            self.recall_view(view);
        }
        self.phase = Phase::Opening;
        past.say(Message::NewView(opening));
    }

    fn recalled_opening(&self, verified: Verified<Message>) -> Option<Opening> {
        let message = verified.message.clone();
        let (Message::NewView(opening), Some(ui)) = (&*message, verified.tag.ui().copied()) else {
            return None;
        };
        let domain = self.frame.membership.domain();
        Some(Opening::new(verified, opening, ui, &domain))
    }

    fn recall_enter(&mut self, verified: Verified<Message>, past: &mut Past) {
        let Some(opening) = self.recalled_opening(verified) else { return };
        let (view, digest) = (opening.entry.view, opening.message.digest);
        if view <= self.frame.entered || view < self.left {
            return;
        }
        let mine = opening.message.author == self.frame.me;
        self.enter(opening);
        past.said.clear();
        if !mine {
            past.say(Message::Enter { view, opening: digest });
        }
    }

    fn recall_acknowledge(&mut self, verified: Verified<Message>, past: &mut Past) {
        let Some(opening) = self.recalled_opening(verified) else { return };
        let view = opening.entry.view;
        if view <= self.from() {
            return;
        }
        if view >= self.frame.view {
            // What it wanted beyond that view is forgotten; it is on its way to the next one.
            self.recall_view(view.next());
            self.left = view;
            past.said.clear();
        }
        // Its own, if it opened that view.
        past.said.retain(|again| again.loops() != Some((view, Slot(0))));
        self.later = Some(opening);
        if self.phase == Phase::Opening {
            self.phase = Phase::Changing;
        }
        past.say(Message::Acknowledge { view });
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
