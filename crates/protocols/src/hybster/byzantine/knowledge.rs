//! What a liar has heard.

use super::super::certificate::{CertifiedViewChange, Entry, NewView, Prepared, ViewChanges};
use super::super::message::{Message, Shared};
use crate::common::lies::{Hearsay, Made, keep};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::protocol::Message as _;

/// A NEW-VIEW that was heard.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct HeardOpening {
    /// What it says.
    pub opening: Arc<NewView>,
    /// The primary's certificate.
    pub ui: Ui,
    /// Digest of its statement.
    pub digest: Digest,
}

/// All that can be used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Knowledge {
    /// What every protocol says.
    pub heard: Hearsay,
    pub prepares: BTreeMap<(View, Slot), Prepared>,
    pub changes: BTreeMap<(View, ReplicaId), CertifiedViewChange>,
    pub openings: BTreeMap<View, HeardOpening>,
    pub acknowledgements: BTreeMap<(View, ReplicaId), Signature>,
}

impl Knowledge {
    /// Of one who has heard nothing in an epoch that begins here.
    #[must_use]
    pub fn at(base: Base) -> Self {
        Self {
            heard: Hearsay::at(base),
            prepares: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
            acknowledgements: BTreeMap::new(),
        }
    }

    /// Takes note of a message.
    pub fn note(&mut self, me: ReplicaId, author: ReplicaId, tag: &AuthTag, message: &Message) {
        if author != me {
            self.heard.highest = self.heard.highest.max(spoken_of(message));
        }
        match (message, tag) {
            (Message::Prepare { view, slot, proposal }, AuthTag::Usig(ui)) => {
                let batch = proposal.digest();
                keep(&mut self.prepares, (*view, *slot), Prepared { slot: *slot, batch, ui: *ui });
                let made = Made { author, tag: *tag, proposal: proposal.clone() };
                self.heard.note_made(*view, *slot, made);
            }
            (Message::ViewChange(change), AuthTag::Usig(ui)) => {
                let certified = CertifiedViewChange { author, ui: *ui, change: change.clone() };
                self.note_change(certified);
            }
            (Message::ViewChanges(changes), _) => self.note_changes(changes),
            (Message::Acknowledge { view }, AuthTag::Signature(signature)) => {
                keep(&mut self.acknowledgements, (*view, author), Signature(*signature));
            }
            (Message::Shared(message), _) => self.heard.note(author, tag, message),
            _ => {}
        }
    }

    fn note_change(&mut self, certified: CertifiedViewChange) {
        let change = &certified.change;
        for (id, (view, signature)) in &change.requests {
            self.heard.note_ask(*id, *view, *signature);
        }
        self.heard.note_checkpoint(&change.checkpoint);
        for prepared in &change.prepares {
            keep(&mut self.prepares, (change.from(), prepared.slot), *prepared);
        }
        keep(&mut self.changes, (change.view, certified.author), certified);
    }

    fn note_changes(&mut self, changes: &ViewChanges) {
        changes.members.iter().for_each(|member| self.note_change(member.clone()));
    }

    /// Takes note of a NEW-VIEW.
    pub fn note_opening(&mut self, opening: &Arc<NewView>, ui: Ui, domain: &Domain) {
        self.note_changes(&opening.changes);
        let digest = Message::NewView(opening.clone()).statement(domain);
        let heard = HeardOpening { opening: opening.clone(), ui, digest };
        keep(&mut self.openings, opening.view(), heard);
    }

    /// The batch that a view orders in a slot, by its PREPARE or by what it took over.
    #[must_use]
    pub fn batch_at(&self, view: View, slot: Slot) -> Option<Digest> {
        let prepared = self.prepares.get(&(view, slot)).map(|prepared| prepared.batch);
        prepared.or_else(|| {
            let members = &self.openings.get(&view)?.opening.changes.members;
            members.iter().find_map(|member| member.change.batch(slot))
        })
    }

    /// The last slot that a view took over.
    #[must_use]
    pub fn taken_over(&self, view: View) -> Slot {
        let start = self.openings.get(&view).map(|heard| heard.opening.start());
        start.map_or(self.heard.checkpoint.slot, |start| {
            Slot(start.base.0.saturating_add(start.list.len() as u64))
        })
    }

    /// The entry of a view, if its NEW-VIEW was heard.
    #[must_use]
    pub fn entry(&self, view: View, membership: &Membership) -> Option<Entry> {
        let heard = self.openings.get(&view)?;
        Some(heard.opening.entry(heard.ui, &membership.domain()))
    }

    /// The PREPAREs of a view from a slot on, without a gap, up to a slot.
    #[must_use]
    pub fn run_of_prepares(&self, view: View, after: Slot, end: Slot) -> Vec<Prepared> {
        let slots = (after.0.saturating_add(1)..=end.0).map(Slot);
        slots.map_while(|slot| self.prepares.get(&(view, slot)).copied()).collect()
    }

    /// The highest slot for which a PREPARE of this view was heard.
    #[must_use]
    pub fn last_prepared(&self, view: View) -> Slot {
        let of_view = self.prepares.range((view, Slot(0))..=(view, Slot(u64::MAX)));
        of_view.last().map_or(Slot(0), |((_, slot), _)| *slot)
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of(message: &Message) -> View {
    match message {
        Message::Prepare { view, .. }
        | Message::Commit { view, .. }
        | Message::Shared(Shared::RequestViewChange { view })
        | Message::Acknowledge { view }
        | Message::Enter { view, .. } => *view,
        Message::ViewChange(change) => change.view,
        Message::NewView(opening) => opening.view(),
        Message::ViewChanges(changes) => changes.view,
        Message::Shared(Shared::Report(report)) => report.view,
        _ => View(0),
    }
}

/// Whether something at a position is about a slot.
#[must_use]
pub const fn is_about_slot(position: Position) -> bool {
    position.index > Position::OPEN
}
