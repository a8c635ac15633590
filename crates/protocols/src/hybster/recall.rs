//! How a replica goes on from what it kept ([`crate::common::counters::past`]).
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::{NewView, ViewChange, ViewChanges};
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Opening, Phase, Said};
use crate::common::certificate::CheckpointProof;
use crate::common::counters::certificate::Opened;
use crate::common::counters::past::{self, Again, proposed};
use crate::common::counters::record::Noted;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::Resuming;
use crate::common::record::Kept;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

type Past = past::Past<Hybster>;

/// The end of what an own NEW-VIEW takes over, to which it commits.
fn opens(message: &Message) -> Option<Slot> {
    let Message::NewView(opening) = message else { return None };
    Some(opening.start().end())
}

/// What has to come back before a view can be left.
fn loops(message: &Message) -> Option<(View, Slot)> {
    match message {
        Message::NewView(opening) => Some((opening.view(), Slot(0))),
        message => proposed::<Hybster>(message),
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
        self.enter_accepted(&mut past, out);
        let said = || past.said.iter().map(Again::message);
        let (slots_awaiting_loopback, opened) =
            (said().filter_map(loops).collect(), said().filter_map(opens).max());
        self.slots.recall_decisions(&mut self.frame, slots_awaiting_loopback);
        let upto = Slot(self.frame.next_slot.0 - 1).max(opened.unwrap_or_default());
        self.go_on(executed, upto, out);
        past.say_again(&mut self.slots, &self.frame, out);
    }
}

impl Hybster {
    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Kept(Kept::Body { slot, proposal }) => {
                self.frame.recall_body(slot, &proposal, &past.envelopes);
            }
            Record::Kept(Kept::Stable(proof)) => self.recall_checkpoint(proof, past),
            Record::Noted(record) => {
                if let Noted::Said(said) = &record {
                    self.recall_said(said);
                }
                self.slots.recall(&mut self.frame, record, past);
            }
            Record::Leave { change, basis } => self.recall_leaving(change, basis, past),
            Record::Open(opening) => self.recall_open(opening, past),
            Record::Enter(verified) => self.recall_enter(verified, past),
            Record::Acknowledge(verified) => self.recall_acknowledge(verified, past),
        }
    }

    /// An own message that had come back, to send it once more.
    fn recall_said(&mut self, said: &Verified<Message>) {
        match &*said.message {
            Message::ViewChange(_) => self.frame.own_view_change = Some(said.clone()),
            Message::Acknowledge { view } => self.note_acknowledgement(said.clone(), *view),
            Message::Enter { .. } => self.own_enter = Some(said.clone()),
            _ => {}
        }
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
        self.frame.view_requests.show_all(&change.requests);
        if change.from() == self.frame.entered {
            self.slots.recall_shown(&self.frame, &change.prepares, past);
        }
        let mut openings = self.opening.iter().chain(&self.later);
        let origin = openings.find(|opening| opening.entry.view() == change.from());
        let origin = origin.map(|opening| opening.message.clone());
        self.recall_view(change.view);
        self.basis = basis;
        self.said = Some(Said { change: change.clone(), origin });
        past.retain(|message| matches!(message, Message::Acknowledge { .. }));
        past.said.push(Again::New(Message::ViewChange(change)));
    }

    fn recall_view(&mut self, view: View) {
        self.frame.recall_view(view);
        (self.left, self.phase) = (view, Phase::Changing);
        self.basis = None;
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
        let (view, digest) = (opening.entry.view(), opening.message.digest);
        if view <= self.frame.entered || view < self.left {
            return;
        }
        let mine = opening.message.author == self.frame.me;
        let wanted = self.frame.view;
        // What this replica wanted beyond the view is forgotten, also if the log has that it did:
        // it came back once before, by `enter_accepted`.
        self.enter(opening);
        if mutant!("hybster.comes-back-wanting-more") {
            self.frame.view = wanted.max(view);
        }
        past.said.clear();
        if !mine {
            past.say(Message::Enter { view, opening: digest });
        }
    }

    /// It accepted a NEW-VIEW when it wanted more, and said nothing behind that view. What it
    /// wanted is forgotten, so it is in that view as if it had accepted the NEW-VIEW in time. On
    /// its way to the next one it would be alone, with no asks by which to take others along.
    fn enter_accepted(&mut self, past: &mut Past, out: &mut Effects<Self>) {
        let accepted = self.later.as_ref().map(|later| later.entry.view());
        if accepted != Some(self.left) || mutant!("hybster.comes-back-on-its-way") {
            return;
        }
        let Some(later) = self.later.take() else { return };
        mark!("hybster/entered_after_crash");
        let (mine, view) = (later.message.author == self.frame.me, later.entry.view());
        let opening = later.message.digest;
        out.persist(Record::Enter(later.message.clone()));
        self.enter(later);
        past.said.clear();
        if !mine {
            past.say(Message::Enter { view, opening });
        }
    }

    fn recall_acknowledge(&mut self, verified: Verified<Message>, past: &mut Past) {
        let Some(opening) = self.recalled_opening(verified) else { return };
        let view = opening.entry.view();
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
        past.retain(|message| loops(message) != Some((view, Slot(0))));
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
        past.settle(low);
    }
}
