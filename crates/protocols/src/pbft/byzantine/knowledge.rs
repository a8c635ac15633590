//! What a liar has heard.

use super::super::certificate::{Claim, Member, NewView, Prepared, Signatures, ViewChange};
use super::super::message::Message;
use crate::common::certificate::CheckpointProof;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::request::Envelope;

/// Entries of each table; a liar that forgets old things lies about new ones.
const KEPT_MAX: usize = 64;

/// All that can be used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Knowledge {
    pub envelopes: BTreeMap<Digest, Arc<Envelope>>,
    pub proposals: BTreeMap<Digest, Arc<Proposal>>,
    /// Who voted for what.
    pub votes: BTreeMap<(View, Slot, Digest), BTreeMap<ReplicaId, Signature>>,
    /// The highest view that each replica asked for.
    pub asks: BTreeMap<ReplicaId, (View, Signature)>,
    pub changes: BTreeMap<(View, ReplicaId), (Member, Arc<ViewChange>)>,
    pub openings: BTreeMap<View, Arc<NewView>>,
    pub states: BTreeMap<(Slot, Digest), BTreeMap<ReplicaId, Signature>>,
    /// The highest proven checkpoint.
    pub checkpoint: CheckpointProof,
    /// Digests of batches that somebody lacks.
    pub wanted: BTreeSet<Digest>,
    /// The highest view of which another replica spoke.
    pub highest: View,
    /// The highest time proposed.
    pub time: Millis,
}

fn insert<K: Ord + Clone, V>(table: &mut BTreeMap<K, V>, key: K, value: V) {
    table.insert(key, value);
    if table.len() > KEPT_MAX {
        table.pop_first();
    }
}

impl Knowledge {
    /// Of one who has heard nothing in an epoch that begins here.
    #[must_use]
    pub fn at(base: Base) -> Self {
        Self {
            envelopes: BTreeMap::new(),
            proposals: BTreeMap::new(),
            votes: BTreeMap::new(),
            asks: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
            states: BTreeMap::new(),
            checkpoint: CheckpointProof::initial(base),
            wanted: BTreeSet::new(),
            highest: View(0),
            time: Millis(0),
        }
    }

    /// Takes note of a message.
    pub fn note(&mut self, me: ReplicaId, author: ReplicaId, tag: &AuthTag, message: &Message) {
        if author != me {
            self.highest = self.highest.max(spoken_of(message));
        }
        match (message, tag.signature().map(|signature| Signature(*signature))) {
            (Message::PrePrepare { view, slot, proposal }, Some(signature)) => {
                self.note_proposal(proposal);
                self.note_vote(
                    Claim { slot: *slot, view: *view, batch: proposal.digest() },
                    author,
                    signature,
                );
            }
            (Message::Prepare { view, slot, batch }, Some(signature)) => {
                self.note_vote(
                    Claim { slot: *slot, view: *view, batch: *batch },
                    author,
                    signature,
                );
            }
            (Message::RequestViewChange { view }, Some(signature)) => {
                self.note_ask(author, *view, signature);
            }
            (Message::ViewChange(change), Some(signature)) => {
                for (id, (view, signature)) in &change.requests {
                    self.note_ask(*id, *view, *signature);
                }
                self.note_checkpoint(&change.checkpoint);
                let proven = change.claims.prepared.iter().zip(&change.proofs);
                proven.for_each(|(claim, proof)| self.note_proof(*claim, proof));
                let member = Member { author, signature, claims: Arc::new(change.claims.clone()) };
                let key = (change.claims.view, author);
                insert(&mut self.changes, key, (member, change.clone()));
            }
            (Message::NewView(opening), Some(_)) => {
                self.note_checkpoint(&opening.checkpoint);
                let start = opening.start();
                let proven = start.list.iter().flatten().zip(&opening.proofs);
                proven.for_each(|(claim, proof)| self.note_proof(*claim, proof));
                insert(&mut self.openings, opening.view, opening.clone());
            }
            (Message::Checkpoint { slot, state }, Some(signature)) => {
                self.states.entry((*slot, *state)).or_default().insert(author, signature);
                if self.states.len() > KEPT_MAX {
                    self.states.pop_first();
                }
            }
            (Message::Stable(proof), _) => self.note_checkpoint(proof),
            (Message::Body(proposal), _) => self.note_proposal(proposal),
            (Message::Forward(envelope) | Message::Envelope(envelope), _) => {
                self.note_envelope(envelope);
            }
            (Message::AskBody { batch }, _) if self.wanted.len() < KEPT_MAX => {
                self.wanted.insert(*batch);
            }
            _ => {}
        }
    }

    fn note_vote(&mut self, claim: Claim, author: ReplicaId, signature: Signature) {
        let Claim { slot, view, batch } = claim;
        self.votes.entry((view, slot, batch)).or_default().insert(author, signature);
        if self.votes.len() > KEPT_MAX {
            self.votes.pop_first();
        }
    }

    fn note_proof(&mut self, claim: Claim, proof: &Signatures) {
        proof.iter().for_each(|(id, signature)| self.note_vote(claim, *id, *signature));
    }

    /// Takes note of an envelope.
    pub fn note_envelope(&mut self, envelope: &Arc<Envelope>) {
        insert(&mut self.envelopes, envelope.digest, envelope.clone());
    }

    fn note_proposal(&mut self, proposal: &Arc<Proposal>) {
        self.time = self.time.max(proposal.time);
        proposal.whole().for_each(|envelope| self.note_envelope(envelope));
        insert(&mut self.proposals, proposal.digest(), proposal.clone());
    }

    fn note_ask(&mut self, id: ReplicaId, view: View, signature: Signature) {
        if self.asks.get(&id).is_none_or(|(before, _)| *before < view) {
            self.asks.insert(id, (view, signature));
        }
    }

    fn note_checkpoint(&mut self, proof: &CheckpointProof) {
        if proof.slot > self.checkpoint.slot {
            self.checkpoint = proof.clone();
        }
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
        voted.max(taken_over.unwrap_or_default()).max(self.checkpoint.slot)
    }

    /// Certificates for slots above a checkpoint, of views below one: for each slot that of the
    /// highest view, or of the lowest.
    #[must_use]
    pub fn certificates(
        &self,
        below: View,
        quorum: usize,
        lowest: bool,
    ) -> BTreeMap<Slot, Prepared> {
        let mut proven: BTreeMap<Slot, Prepared> = BTreeMap::new();
        for ((view, slot, batch), votes) in &self.votes {
            if *view >= below || *slot <= self.checkpoint.slot || votes.len() < quorum {
                continue;
            }
            let signatures = votes.iter().map(|(id, it)| (*id, *it)).take(quorum).collect();
            let claim = Claim { slot: *slot, view: *view, batch: *batch };
            // Views come in ascending order.
            if !lowest || !proven.contains_key(slot) {
                proven.insert(*slot, Prepared { claim, signatures });
            }
        }
        proven
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of(message: &Message) -> View {
    match message {
        Message::PrePrepare { view, .. }
        | Message::Prepare { view, .. }
        | Message::Commit { view, .. }
        | Message::RequestViewChange { view } => *view,
        Message::ViewChange(change) => change.claims.view,
        Message::NewView(opening) => opening.view,
        Message::Report(report) => report.view,
        _ => View(0),
    }
}
