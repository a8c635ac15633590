//! What a liar has heard.

use super::super::certificate::{Member, NewView, ViewChange};
use super::super::claims::Written;
use super::super::message::{Message, Shared};
use super::super::variant::{Variant, Windowed};
use crate::common::lies::{Hearsay, KEPT_MAX, Made, keep};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::quorum::Quorums;

/// How a replica left for a view: as a NEW-VIEW names it, and whole.
type Left = (Member, Arc<ViewChange>);

/// All that can be used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub(super) struct Knowledge {
    quorums: Quorums,
    /// What every protocol says.
    pub heard: Hearsay,
    /// What somebody wrote.
    pub writes: BTreeSet<(View, Slot, Digest)>,
    pub changes: BTreeMap<(View, ReplicaId), Left>,
    pub openings: BTreeMap<View, Arc<NewView>>,
}

impl Knowledge {
    /// Of one who has heard nothing in an epoch that begins here.
    #[must_use]
    pub fn at(base: Base, quorums: Quorums) -> Self {
        Self {
            quorums,
            heard: Hearsay::at(base),
            writes: BTreeSet::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
        }
    }

    /// Takes note of a message.
    pub fn note<V: Variant<Seal = Signature>>(
        &mut self,
        me: ReplicaId,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Message<V>,
    ) {
        if author != me {
            self.heard.highest = self.heard.highest.max(spoken_of(message));
        }
        match message {
            Message::Propose { view, slot, proposal, .. } => {
                let made = Made { author, tag: tag.clone(), proposal: proposal.clone() };
                self.heard.note_made(*view, *slot, made);
                self.note_write(*view, *slot, proposal.digest());
            }
            Message::Write { view, slot, batch, .. } => self.note_write(*view, *slot, *batch),
            Message::ViewChange(change) => {
                for (id, (view, signature)) in &change.requests {
                    self.heard.note_ask(*id, *view, *signature);
                }
                self.heard.note_checkpoint(&change.checkpoint);
                if let Some(seal) = tag.signature().copied().map(Signature) {
                    let claims = Arc::new(change.claims.clone());
                    let member = Member { author, seal, claims };
                    let key = (change.claims.view, author);
                    keep(&mut self.changes, key, (member, change.clone()));
                }
            }
            Message::NewView(opening) => {
                self.heard.note_checkpoint(&opening.checkpoint);
                keep(&mut self.openings, opening.view, opening.clone());
            }
            Message::Shared(message) => self.heard.note(author, tag, message),
            Message::Accept { .. } | Message::Decided { .. } => {}
        }
    }

    fn note_write(&mut self, view: View, slot: Slot, batch: Digest) {
        self.writes.insert((view, slot, batch));
        if self.writes.len() > KEPT_MAX {
            self.writes.pop_first();
        }
    }

    /// The slots of a view in which somebody wrote, with each batch.
    pub fn slots(&self, view: View) -> impl Iterator<Item = (Slot, Digest)> {
        let low = (view, Slot(0), Digest([0; 32]));
        let high = (view, Slot(u64::MAX), Digest([255; 32]));
        self.writes.range(low..=high).map(|(_, slot, batch)| (*slot, *batch))
    }

    /// The highest slot of a view in which somebody wrote, or that it took over.
    #[must_use]
    pub fn last_slot(&self, view: View) -> Slot {
        let wrote = self.slots(view).last().map_or(Slot(0), |(slot, _)| slot);
        let opening = self.openings.get(&view);
        let taken_over =
            opening.and_then(|it| it.start::<Windowed>(self.quorums)).map(|start| start.end());
        wrote.max(taken_over.unwrap_or_default()).max(self.heard.checkpoint.slot)
    }

    /// What was written above the checkpoint and in lower views: for each slot in the highest view,
    /// or in the lowest.
    #[must_use]
    pub fn written(&self, below: View, lowest: bool) -> BTreeMap<Slot, Written> {
        let mut written = BTreeMap::new();
        // Views come in ascending order.
        for (view, slot, batch) in &self.writes {
            let counts = *view < below && *slot > self.heard.checkpoint.slot;
            if counts && (!lowest || !written.contains_key(slot)) {
                written.insert(*slot, Written { view: *view, batch: *batch });
            }
        }
        written
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of<V: Variant>(message: &Message<V>) -> View {
    match message {
        Message::Propose { view, .. }
        | Message::Write { view, .. }
        | Message::Accept { view, .. }
        | Message::Shared(Shared::RequestViewChange { view }) => *view,
        Message::ViewChange(change) => change.claims.view,
        Message::NewView(opening) => opening.view,
        Message::Shared(Shared::Report(report)) => report.view,
        _ => View(0),
    }
}
