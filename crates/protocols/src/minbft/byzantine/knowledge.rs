//! What a liar has heard.

use super::super::certificate::{CertifiedViewChange, Entry, NewView, Prepared, batch_shown};
use super::super::message::Message;
use crate::common::certificate::CheckpointProof;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::protocol::Message as _;
use pentarchy_core::request::Envelope;

/// Entries of each table; a liar that forgets old things lies about new ones.
const KEPT_MAX: usize = 64;

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
    pub envelopes: BTreeMap<Digest, Arc<Envelope>>,
    pub proposals: BTreeMap<Digest, Arc<Proposal>>,
    pub prepares: BTreeMap<(View, Slot), Prepared>,
    /// The highest view that each replica asked for.
    pub asks: BTreeMap<ReplicaId, (View, Signature)>,
    pub changes: BTreeMap<(View, ReplicaId), CertifiedViewChange>,
    pub openings: BTreeMap<View, HeardOpening>,
    pub acknowledgements: BTreeMap<(View, ReplicaId), (Digest, Ui)>,
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
            prepares: BTreeMap::new(),
            asks: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
            acknowledgements: BTreeMap::new(),
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
        match (message, tag) {
            (Message::Prepare { view, slot, proposal }, AuthTag::Usig(ui)) => {
                let batch = proposal.digest();
                insert(
                    &mut self.prepares,
                    (*view, *slot),
                    Prepared { slot: *slot, batch, ui: *ui },
                );
                self.note_proposal(proposal);
            }
            (Message::RequestViewChange { view }, AuthTag::Signature(signature)) => {
                self.note_ask(author, *view, Signature(*signature));
            }
            (Message::ViewChange(change), AuthTag::Usig(ui)) => {
                for (id, (view, signature)) in &change.requests {
                    self.note_ask(*id, *view, *signature);
                }
                self.note_checkpoint(&change.checkpoint);
                for prepared in &change.prepares {
                    let key = (ui.committed.view, prepared.slot);
                    insert(&mut self.prepares, key, *prepared);
                }
                let certified = CertifiedViewChange { author, ui: *ui, change: change.clone() };
                insert(&mut self.changes, (change.view, author), certified);
            }
            (Message::Acknowledge { view, opening }, AuthTag::Usig(ui)) => {
                insert(&mut self.acknowledgements, (*view, author), (*opening, *ui));
            }
            (Message::Checkpoint { slot, state }, AuthTag::Signature(signature)) => {
                let signed = Signature(*signature);
                self.states.entry((*slot, *state)).or_default().insert(author, signed);
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

    /// Takes note of a NEW-VIEW.
    pub fn note_opening(&mut self, opening: &Arc<NewView>, ui: Ui, domain: &Domain) {
        for member in &opening.members {
            insert(&mut self.changes, (opening.view, member.author), member.clone());
        }
        let digest = Message::NewView(opening.clone()).statement(domain);
        let heard = HeardOpening { opening: opening.clone(), ui, digest };
        insert(&mut self.openings, opening.view, heard);
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

    /// The batch that a view orders in a slot, by its PREPARE or by what it took over.
    #[must_use]
    pub fn batch_at(&self, view: View, slot: Slot) -> Option<Digest> {
        let prepared = self.prepares.get(&(view, slot)).map(|prepared| prepared.batch);
        prepared.or_else(|| {
            let members = &self.openings.get(&view)?.opening.members;
            members.iter().find_map(|member| batch_shown(&member.change, slot))
        })
    }

    /// The last slot that a view took over.
    #[must_use]
    pub fn taken_over(&self, view: View) -> Slot {
        let start = self.openings.get(&view).map(|heard| heard.opening.start());
        start.map_or(self.checkpoint.slot, |start| {
            Slot(start.base.0.saturating_add(start.list.len() as u64))
        })
    }

    /// The entry of a view, if enough acknowledgements of it were heard.
    #[must_use]
    pub fn entry(&self, view: View, membership: &Membership) -> Option<Entry> {
        let heard = self.openings.get(&view)?;
        let start = heard.opening.start();
        let others = membership.quorums().hybrid_quorum() - 1;
        let acknowledgements: Vec<(ReplicaId, Ui)> = membership
            .ids()
            .filter(|id| *id != membership.primary(view))
            .filter_map(|id| self.acknowledgements.get(&(view, id)).map(|(of, ui)| (id, *of, *ui)))
            .filter(|(_, of, _)| *of == heard.digest)
            .map(|(id, _, ui)| (id, ui))
            .take(others)
            .collect();
        let members = heard.opening.members_digest(&membership.domain());
        let (base, list, opening) = (start.base, start.list, heard.ui);
        let entry = Entry { view, base, list, members, opening, acknowledgements };
        (entry.acknowledgements.len() == others).then_some(entry)
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
        | Message::RequestViewChange { view }
        | Message::Acknowledge { view, .. }
        | Message::Enter { view, .. } => *view,
        Message::ViewChange(change) => change.view,
        Message::NewView(opening) => opening.view,
        Message::Report(report) => report.view,
        _ => View(0),
    }
}

/// The first index in a view at which a commitment to a slot can stand is behind its ENTER.
#[must_use]
pub const fn is_commitment_to_slot(position: Position) -> bool {
    position.index > Position::COMMITMENT
}
