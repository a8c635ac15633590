//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view of the last commitment was opened, what this replica committed to above the
//! checkpoint, a NEW-VIEW that it accepted later, and how far it has come in leaving.

use super::certificate::ViewChange;
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Opening};
use crate::common::counters::certificate::Opened;
use crate::common::counters::past::persist_said;
use crate::common::counters::views::persist_bodies;
use crate::common::frame::hooks::{ChangesViews, LogCompaction};
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl LogCompaction for Hybster {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        if !mutant!("hybster.entry-not-kept-again") {
            self.persist_opening(self.opening.clone(), Record::Enter, out);
            persist_said(self.own_enter.as_ref(), out);
        }
        let taken_over = self.taken_over();
        self.slots.persist_again(&mut self.frame, taken_over, None, out);
        self.persist_opening(self.later.clone(), Record::Acknowledge, out);
        let me = self.frame.me;
        let acknowledged = |later: &Opening| self.acknowledged.get(&(later.entry.view(), me));
        persist_said(self.later.as_ref().and_then(acknowledged), out);
        if self.frame.view > self.frame.entered {
            self.persist_leaving(out);
        }
    }
}

impl Hybster {
    fn persist_opening(
        &mut self,
        opening: Option<Opening>,
        record: fn(Verified<Message>) -> Record,
        out: &mut Effects<Self>,
    ) {
        let Some(Opening { message, entry }) = opening else { return };
        persist_bodies(&mut self.frame, &entry.header.start, out);
        out.persist(record(message));
    }

    /// How far this replica has come towards the view that it wants to enter.
    fn persist_leaving(&mut self, out: &mut Effects<Self>) {
        let said = self.frame.own_view_change.as_ref().map(|said| &*said.message);
        let leaving =
            said.into_iter().chain(&self.slots.awaiting_loopback).find_map(
                |message| match message {
                    Message::ViewChange(change) if change.view == self.left => Some(change.clone()),
                    _ => None,
                },
            );
        if let Some(change) = leaving {
            self.persist_shown(&change, out);
            out.persist(Record::Leave { change, basis: self.basis.clone() });
            persist_said(self.frame.own_view_change.as_ref(), out);
        }
        let openings = self.slots.awaiting_loopback.iter().filter_map(|message| match message {
            Message::NewView(opening) if opening.view() == self.left => Some(opening.clone()),
            _ => None,
        });
        let openings: Vec<_> = openings.collect();
        for opening in openings {
            persist_bodies(&mut self.frame, &opening.start(), out);
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
