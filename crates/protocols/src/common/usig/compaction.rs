//! Keeping again what is still needed when a checkpoint becomes stable, so that the log can be cut
//! below: how the view of the last commitment was opened, what this replica committed to above the
//! checkpoint, and how far it has come in leaving for another view.

use super::message::Message;
use super::record::Record;
use super::replica::{OnUsig, Phase, Variant};
use crate::common::counters::past::persist_said;
use crate::common::counters::views::persist_bodies;
use crate::common::frame::hooks::{ChangesViews, LogCompaction};
use alloc::vec::Vec;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Effects;

impl<V: Variant> LogCompaction for OnUsig<V> {
    fn persist_again(&mut self, out: &mut Effects<Self>) {
        self.persist_entry(out);
        let taken_over = self.taken_over();
        let committed = V::committed(self);
        self.slots.persist_again(&mut self.frame, taken_over, committed, out);
        if self.frame.view > self.frame.entered {
            self.persist_leaving(out);
        }
    }
}

impl<V: Variant> OnUsig<V> {
    fn persist_entry(&mut self, out: &mut Effects<Self>) {
        let Some(entry) = self.entry.clone() else { return };
        if mutant!("usig.entry-not-kept-again") {
            return;
        }
        persist_bodies(&mut self.frame, &entry.header.start, out);
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

    /// How far this replica has come towards the view that it wants to enter.
    fn persist_leaving(&mut self, out: &mut Effects<Self>) {
        if self.behind.is_some() {
            // It has said nothing about that yet. If it crashes now, it has a reason or not.
            return;
        }
        let said = self.frame.own_view_change.as_ref().map(|said| &*said.message);
        let leaving =
            said.into_iter().chain(&self.slots.awaiting_loopback).find_map(
                |message| match message {
                    Message::ViewChange(change) if change.view == self.frame.view => {
                        Some(change.clone())
                    }
                    _ => None,
                },
            );
        out.persist(leaving.map_or(Record::Left(self.frame.view), Record::Leave));
        persist_said(self.frame.own_view_change.as_ref(), out);
        let openings = self.slots.awaiting_loopback.iter().filter_map(|message| match message {
            Message::NewView(opening) if opening.view == self.frame.view => Some(opening),
            _ => None,
        });
        let openings: Vec<_> = openings.filter(|_| self.phase == Phase::Opening).cloned().collect();
        for opening in openings {
            persist_bodies(&mut self.frame, &opening.start(), out);
            out.persist(Record::Open(opening));
        }
        if let (Phase::Acknowledged, Some(opening)) = (self.phase, self.opening.clone()) {
            persist_bodies(&mut self.frame, &opening.start, out);
            out.persist(Record::Acknowledge(opening.message));
            persist_said(self.own.acknowledge.as_ref(), out);
        }
    }
}
