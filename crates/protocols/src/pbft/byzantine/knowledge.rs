//! What a liar has heard.

use super::super::certificate::{Claim, Member, NewView, Prepared, Seals, ViewChange};
use super::super::message::{Message, Shared};
use super::super::seal::Seal;
use crate::common::lies::{Hearsay, KEPT_MAX, Made, keep};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use pentarchy_core::auth::AuthTag;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Base;

/// How a replica left for a view: as a NEW-VIEW names it, and with its proofs.
type Left<S> = (Member<S>, Arc<ViewChange<S>>);

/// All that can be used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Knowledge<S> {
    /// What every protocol says.
    pub heard: Hearsay,
    /// Who voted for what.
    pub votes: BTreeMap<(View, Slot, Digest), BTreeMap<ReplicaId, S>>,
    pub changes: BTreeMap<(View, ReplicaId), Left<S>>,
    pub openings: BTreeMap<View, Arc<NewView<S>>>,
}

impl<S: Seal> Knowledge<S> {
    /// Of one who has heard nothing in an epoch that begins here.
    #[must_use]
    pub fn at(base: Base) -> Self {
        Self {
            heard: Hearsay::at(base),
            votes: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
        }
    }

    /// Takes note of a message.
    pub fn note(&mut self, me: ReplicaId, author: ReplicaId, tag: &AuthTag, message: &Message<S>) {
        if author != me {
            self.heard.highest = self.heard.highest.max(spoken_of(message));
        }
        match (message, S::of(tag)) {
            (Message::PrePrepare { view, slot, proposal }, Some(seal)) => {
                let made = Made { author, tag: tag.clone(), proposal: proposal.clone() };
                self.heard.note_made(*view, *slot, made);
                self.note_vote(
                    Claim { slot: *slot, view: *view, batch: proposal.digest() },
                    author,
                    seal,
                );
            }
            (Message::Prepare { view, slot, batch }, Some(seal)) => {
                self.note_vote(Claim { slot: *slot, view: *view, batch: *batch }, author, seal);
            }
            (Message::ViewChange(change), Some(seal)) => {
                for (id, (view, signature)) in &change.requests {
                    self.heard.note_ask(*id, *view, *signature);
                }
                self.heard.note_checkpoint(&change.checkpoint);
                let proven = change.claims.prepared.iter().zip(&change.proofs);
                proven.for_each(|(claim, proof)| self.note_proof(*claim, proof));
                let member = Member { author, seal, claims: Arc::new(change.claims.clone()) };
                let key = (change.claims.view, author);
                keep(&mut self.changes, key, (member, change.clone()));
            }
            (Message::NewView(opening), Some(_)) => {
                self.heard.note_checkpoint(&opening.checkpoint);
                let start = opening.start();
                let proven = start.list.iter().flatten().zip(&opening.proofs);
                proven.for_each(|(claim, proof)| self.note_proof(*claim, proof));
                keep(&mut self.openings, opening.view, opening.clone());
            }
            (Message::Shared(message), _) => self.heard.note(author, tag, message),
            _ => {}
        }
    }

    fn note_vote(&mut self, claim: Claim, author: ReplicaId, seal: S) {
        let Claim { slot, view, batch } = claim;
        self.votes.entry((view, slot, batch)).or_default().insert(author, seal);
        if self.votes.len() > KEPT_MAX {
            self.votes.pop_first();
        }
    }

    fn note_proof(&mut self, claim: Claim, proof: &Seals<S>) {
        proof.iter().for_each(|(id, seal)| self.note_vote(claim, *id, *seal));
    }

    /// The slots of a view for which somebody voted, with one batch for each.
    pub fn slots(&self, view: View) -> impl Iterator<Item = (Slot, Digest)> {
        let low = (view, Slot(0), Digest([0; 32]));
        let high = (view, Slot(u64::MAX), Digest([255; 32]));
        self.votes.range(low..=high).map(|((_, slot, batch), _)| (*slot, *batch))
    }

    /// The highest slot of a view for which somebody voted, or that it took over.
    #[must_use]
    pub fn last_slot(&self, view: View) -> Slot {
        let voted = self.slots(view).last().map_or(Slot(0), |(slot, _)| slot);
        let taken_over = self.openings.get(&view).map(|opening| opening.start().end());
        voted.max(taken_over.unwrap_or_default()).max(self.heard.checkpoint.slot)
    }

    /// Certificates for slots above a checkpoint, of views below one: for each slot that of the
    /// highest view, or of the lowest.
    #[must_use]
    pub fn certificates(
        &self,
        below: View,
        quorum: usize,
        lowest: bool,
    ) -> BTreeMap<Slot, Prepared<S>> {
        let mut proven: BTreeMap<Slot, Prepared<S>> = BTreeMap::new();
        for ((view, slot, batch), votes) in &self.votes {
            if *view >= below || *slot <= self.heard.checkpoint.slot || votes.len() < quorum {
                continue;
            }
            let seals = votes.iter().map(|(id, it)| (*id, *it)).take(quorum).collect();
            let claim = Claim { slot: *slot, view: *view, batch: *batch };
            // Views come in ascending order.
            if !lowest || !proven.contains_key(slot) {
                proven.insert(*slot, Prepared { claim, seals });
            }
        }
        proven
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of<S>(message: &Message<S>) -> View {
    match message {
        Message::PrePrepare { view, .. }
        | Message::Prepare { view, .. }
        | Message::Commit { view, .. }
        | Message::Shared(Shared::RequestViewChange { view }) => *view,
        Message::ViewChange(change) => change.claims.view,
        Message::NewView(opening) => opening.view,
        Message::Shared(Shared::Report(report)) => report.view,
        _ => View(0),
    }
}
