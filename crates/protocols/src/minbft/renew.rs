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
use crate::common::frame::hooks::Renews;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl Renews for MinBft {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
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

    fn persist_entry(&mut self, out: &mut Effects<Self>) {
        let Some(entry) = self.entry.clone() else { return };
        if mutant!("minbft.entry-not-kept-again") {
            return;
        }
        self.persist_bodies(entry.base, &entry.list, out);
        let inside = self.opening.as_ref().filter(|_| self.frame.is_entered());
        let behind = self.behind.as_ref();
        let behind = behind.and_then(|behind| Some((behind.opening.as_ref()?, &behind.own)));
        match inside.map(|opening| (opening, &self.own)).or(behind) {
            Some((opening, own)) => {
                out.persist(Record::Acknowledge(opening.message.clone()));
                persist_said(own.acknowledge.as_ref(), out);
                out.persist(Record::Enter(entry));
                persist_said(own.enter.as_ref(), out);
            }
            None => out.persist(Record::Entered(entry)),
        }
    }

    /// What this replica committed to in the view that it entered last.
    fn persist_slots(&mut self, out: &mut Effects<Self>) {
        let taken_over = self.entry.as_ref().map_or(Slot(0), Entry::end);
        let first = self.frame.stable.slot.max(taken_over).next();
        let hidden = u64::from(mutant!("minbft.commitment-not-kept-again"));
        for slot in (first.0..self.frame.next_slot.0.saturating_sub(hidden)).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let Some(prepare) = &state.prepare else { continue };
            state.batch.into_iter().for_each(|batch| self.frame.persist_named(&batch, out));
            if prepare.author == self.frame.me {
                out.persist(Record::Said(prepare.clone()));
            } else {
                out.persist(Record::Commit(prepare.clone()));
                persist_said(state.own_commit.as_ref(), out);
            }
        }
        for message in &self.unheard {
            if let Message::Prepare { view, slot, proposal } = message
                && (*view == self.frame.entered && *slot > self.frame.stable.slot)
            {
                self.frame.persist_named(&proposal.digest(), out);
                let (view, slot, proposal) = (*view, *slot, proposal.clone());
                out.persist(Record::Prepare { view, slot, proposal });
            }
        }
    }

    /// How far this replica has come towards the view that it wants to enter.
    fn persist_leaving(&mut self, out: &mut Effects<Self>) {
        if self.behind.is_some() {
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
        let openings: Vec<_> = openings.filter(|_| self.phase == Phase::Opening).cloned().collect();
        for opening in openings {
            let start = opening.start();
            self.persist_bodies(start.base, &start.list, out);
            out.persist(Record::Open(opening));
        }
        if let (Phase::Acknowledged, Some(opening)) = (self.phase, self.opening.clone()) {
            self.persist_bodies(opening.start.base, &opening.start.list, out);
            out.persist(Record::Acknowledge(opening.message));
            persist_said(self.own.acknowledge.as_ref(), out);
        }
    }
}

fn persist_said(said: Option<&Verified<Message>>, out: &mut Effects<MinBft>) {
    said.into_iter().for_each(|said| out.persist(Record::Said(said.clone())));
}
