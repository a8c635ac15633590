//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view of the last commitment was opened, what this replica committed to above the
//! checkpoint, a NEW-VIEW that it accepted later, and how far it has come in leaving.
//!
//! Own messages that have come back are kept with their certificates. The device may have forgotten
//! those: a view may last for months. What has not come back is in [`Hybster::unheard`], and its
//! certificate is the host's to keep.

use super::certificate::ViewChange;
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Opening};
use crate::common::frame::hooks::Renews;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};

impl Renews for Hybster {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        if !mutant!("hybster.entry-not-kept-again") {
            self.persist_opening(self.opening.clone(), Record::Enter, out);
            persist_said(self.own.enter.as_ref(), out);
        }
        self.persist_slots(out);
        self.persist_opening(self.later.clone(), Record::Acknowledge, out);
        persist_said(self.own.acknowledge.as_ref(), out);
        if self.frame.view > self.frame.entered {
            self.persist_leaving(out);
        }
    }
}

impl Hybster {
    /// Says something that others may have to be told again after a crash, and notes it until it
    /// comes back.
    pub(super) fn say(&mut self, message: Message, out: &mut Effects<Self>) {
        if self.frame.is_durable {
            self.unheard.push(message.clone());
        }
        out.send(To::All, message);
    }

    /// An own message came back.
    pub(super) fn heard_own(&mut self, message: &Message) {
        if let Some(index) = self.unheard.iter().position(|unheard| unheard == message) {
            self.unheard.remove(index);
        }
    }

    fn persist_opening(
        &mut self,
        opening: Option<Opening>,
        record: fn(Verified<Message>) -> Record,
        out: &mut Effects<Self>,
    ) {
        let Some(Opening { message, entry }) = opening else { return };
        self.persist_bodies(entry.base, &entry.list, out);
        out.persist(record(message));
    }

    /// What this replica committed to in the view that it entered last.
    fn persist_slots(&mut self, out: &mut Effects<Self>) {
        let first = self.frame.stable.slot.max(self.end_of_entry()).next();
        let hidden = u64::from(mutant!("hybster.commitment-not-kept-again"));
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
        let said = self.frame.own.view_change.as_ref().map(|said| &*said.message);
        let leaving = said.into_iter().chain(&self.unheard).find_map(|message| match message {
            Message::ViewChange(change) if change.view == self.left => Some(change.clone()),
            _ => None,
        });
        if let Some(change) = leaving {
            self.persist_shown(&change, out);
            out.persist(Record::Leave { change, basis: self.basis.clone() });
            persist_said(self.frame.own.view_change.as_ref(), out);
        }
        let openings = self.unheard.iter().filter_map(|message| match message {
            Message::NewView(opening) if opening.view() == self.left => Some(opening.clone()),
            _ => None,
        });
        let openings: Vec<_> = openings.collect();
        for opening in openings {
            let start = opening.start();
            self.persist_bodies(start.base, &start.list, out);
            out.persist(Record::Open(opening));
        }
    }

    /// Keeps the batches that a VIEW-CHANGE shows, as others will ask for them.
    pub(super) fn persist_shown(&mut self, change: &ViewChange, out: &mut Effects<Self>) {
        let shown: Vec<_> = change.prepares.iter().map(|it| (it.slot, it.batch)).collect();
        for (slot, batch) in shown {
            if slot > self.frame.stable.slot {
                self.frame.persist_body(slot, &batch, out);
            }
        }
    }
}

fn persist_said(said: Option<&Verified<Message>>, out: &mut Effects<Hybster>) {
    said.into_iter().for_each(|said| out.persist(Record::Said(said.clone())));
}
