//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view of the last commitment was opened, what this replica committed to above the
//! checkpoint, and how far it has come in leaving for another view.
//!
//! Own messages that have come back are kept with their certificates. The device may have forgotten
//! those: a view may last for months. What has not come back is in [`MinBft::unheard`], and its
//! certificate is the host's to keep.

use super::certificate::Entry;
use super::message::Message;
use super::record::Record;
use super::replica::{MinBft, Phase};
use crate::common::frame::Frame;
use crate::common::frame::hooks::Renews;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl Renews for MinBft {
    fn persist_again(&self, out: &mut Effects<Self>) {
        self.persist_entry(out);
        self.persist_slots(out);
        if self.frame.view > self.frame.entered {
            self.persist_leaving(out);
        }
    }
}

impl MinBft {
    /// Says something that others may have to be told again after a crash, and notes it until it
    /// comes back.
    pub(super) fn say(&mut self, message: Message, out: &mut Effects<Self>) {
        if self.frame.is_durable {
            self.unheard.push(message.clone());
        }
        out.send(To::All, message);
    }

    /// An own message came back.
    pub(super) fn heard(&mut self, message: &Message) {
        if let Some(index) = self.unheard.iter().position(|unheard| unheard == message) {
            self.unheard.remove(index);
        }
    }

    fn persist_entry(&self, out: &mut Effects<Self>) {
        let Some(entry) = &self.entry else { return };
        if mutant!("minbft.entry-not-kept-again") {
            return;
        }
        self.persist_bodies(entry.base, &entry.list, out);
        match &self.opening {
            Some(opening) if self.frame.is_entered() => {
                out.persist(Record::Acknowledge(opening.message.clone()));
                persist_said(self.own.acknowledge.as_ref(), out);
                out.persist(Record::Enter(entry.clone()));
                persist_said(self.own.enter.as_ref(), out);
            }
            _ => out.persist(Record::Entered(entry.clone())),
        }
    }

    /// What this replica committed to in the view that it entered last.
    fn persist_slots(&self, out: &mut Effects<Self>) {
        let taken_over = self.entry.as_ref().map_or(Slot(0), Entry::end);
        let first = self.frame.stable.slot.max(taken_over).next();
        let hidden = u64::from(mutant!("minbft.commitment-not-kept-again"));
        for slot in (first.0..self.frame.next_slot.0.saturating_sub(hidden)).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let Some(prepare) = &state.prepare else { continue };
            let body = state.batch.and_then(|batch| self.frame.bodies.get(&batch));
            body.into_iter().for_each(|body| Frame::persist_named(body, out));
            if prepare.author == self.frame.me {
                out.persist(Record::Said(prepare.clone()));
            } else {
                out.persist(Record::Commit(prepare.clone()));
                persist_said(state.own_commit.as_ref(), out);
            }
        }
        for message in &self.unheard {
            if let Message::Prepare { view, slot, proposal } = message
                && *view == self.frame.entered
            {
                self.frame.persist_pending(proposal, out);
                let (view, slot, proposal) = (*view, *slot, proposal.clone());
                out.persist(Record::Prepare { view, slot, proposal });
            }
        }
    }

    /// How far this replica has come towards the view that it wants to enter.
    fn persist_leaving(&self, out: &mut Effects<Self>) {
        if self.phase == Phase::Draining {
            // It has said nothing about that yet. If it crashes now, it has a reason or not.
            return;
        }
        let said = self.frame.own.view_change.as_ref().map(|said| &*said.message);
        let leaving = said.into_iter().chain(&self.unheard).find_map(|message| match message {
            Message::ViewChange(change) if change.view == self.frame.view => Some(change.clone()),
            _ => None,
        });
        out.persist(leaving.map_or(Record::Left(self.frame.view), Record::Leave));
        persist_said(self.frame.own.view_change.as_ref(), out);
        let openings = self.unheard.iter().filter_map(|message| match message {
            Message::NewView(opening) if opening.view == self.frame.view => Some(opening),
            _ => None,
        });
        for opening in openings.filter(|_| self.phase == Phase::Opening) {
            let start = opening.start();
            self.persist_bodies(start.base, &start.list, out);
            out.persist(Record::Open(opening.clone()));
        }
        if let (Phase::Acknowledged, Some(opening)) = (self.phase, &self.opening) {
            self.persist_bodies(opening.start.base, &opening.start.list, out);
            out.persist(Record::Acknowledge(opening.message.clone()));
            persist_said(self.own.acknowledge.as_ref(), out);
        }
    }
}

fn persist_said(said: Option<&Verified<Message>>, out: &mut Effects<MinBft>) {
    said.into_iter().for_each(|said| out.persist(Record::Said(said.clone())));
}
