//! What a liar has heard.

use super::super::certificate::extended;
use super::super::certificate::{Committed, Confirmed, Reached, ViewChange};
use super::super::message::{Message, Shared};
use super::super::new_view::{Member, NewView};
use super::super::table::Table;
use crate::common::lies::{Hearsay, KEPT_MAX, Made, keep};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::Place;

/// One step of a history: the slot, what came before, and what it orders.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Link {
    pub slot: Slot,
    pub parent: Digest,
    pub batch: Digest,
}

impl Link {
    pub fn history(&self) -> Digest {
        extended(&self.parent, &self.batch)
    }
}

/// All that can be used again.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Knowledge {
    table: Table,
    /// What every protocol says.
    pub heard: Hearsay<Reached>,
    /// What was ordered or taken over in each view, and the primary's signature if it ordered it.
    pub links: BTreeMap<(View, Link), Option<Signature>>,
    /// Who says to have executed what.
    pub votes: BTreeMap<Place, BTreeMap<ReplicaId, Signature>>,
    /// Who confirmed what.
    pub confirms: BTreeMap<Place, BTreeMap<ReplicaId, Signature>>,
    /// How views were entered.
    pub entries: BTreeMap<View, Confirmed>,
    pub changes: BTreeMap<(View, ReplicaId), Member>,
    pub openings: BTreeMap<View, Arc<NewView>>,
}

fn trim<K: Ord, V>(table: &mut BTreeMap<K, V>) {
    if table.len() > KEPT_MAX {
        table.pop_first();
    }
}

impl Knowledge {
    /// Of one who has heard nothing in an epoch that begins here.
    #[must_use]
    pub fn at(base: Base, table: Table) -> Self {
        Self {
            table,
            heard: Hearsay::at(base),
            links: BTreeMap::new(),
            votes: BTreeMap::new(),
            confirms: BTreeMap::new(),
            entries: BTreeMap::new(),
            changes: BTreeMap::new(),
            openings: BTreeMap::new(),
        }
    }

    /// Takes note of a message.
    pub fn note(&mut self, me: ReplicaId, author: ReplicaId, tag: &AuthTag, message: &Message) {
        if author != me {
            self.heard.highest = self.heard.highest.max(spoken_of(message));
        }
        match (message, tag.signature().map(|signature| Signature(*signature))) {
            (Message::Order { view, slot, parent, proposal }, signature @ Some(_)) => {
                let made = Made { author, tag: tag.clone(), proposal: proposal.clone() };
                self.heard.note_made(*view, *slot, made);
                let link = Link { slot: *slot, parent: *parent, batch: proposal.digest() };
                keep(&mut self.links, (*view, link), signature);
            }
            (Message::Vote(place), Some(signature)) => {
                self.votes.entry(*place).or_default().insert(author, signature);
                trim(&mut self.votes);
            }
            (Message::Confirm(place), Some(signature)) => {
                self.confirms.entry(*place).or_default().insert(author, signature);
                trim(&mut self.confirms);
                self.note_agreement(*place);
            }
            (Message::Confirmed(proof), _) => {
                keep(&mut self.entries, proof.place.view, Confirmed::clone(proof));
            }
            (Message::ViewChange(change), Some(signature)) => {
                self.note_change(change);
                let member = Member { author, signature, change: change.clone() };
                keep(&mut self.changes, (change.view, author), member);
            }
            (Message::NewView(opening), Some(_)) => self.note_opening(opening),
            (Message::Shared(message), _) => self.heard.note(author, tag, message),
            _ => {}
        }
    }

    fn note_change(&mut self, change: &ViewChange) {
        for (id, (view, signature)) in &change.requests {
            self.heard.note_ask(*id, *view, *signature);
        }
        self.heard.note_checkpoint(&change.stable);
        change
            .entry
            .iter()
            .for_each(|entry| keep(&mut self.entries, entry.place.view, entry.clone()));
        if let Some(Committed { place, signatures }) = &change.certificate {
            self.votes.entry(*place).or_default().extend(signatures.iter().copied());
            trim(&mut self.votes);
        }
    }

    fn note_opening(&mut self, opening: &Arc<NewView>) {
        opening.members.iter().for_each(|member| self.note_change(&member.change));
        let start = opening.start(&self.table);
        let mut parent = start.base.state.history;
        for (slot, batch, history) in start.slots() {
            let link = Link { slot, parent, batch };
            self.links.entry((opening.view, link)).or_insert(None);
            trim(&mut self.links);
            parent = history;
        }
        keep(&mut self.openings, opening.view, opening.clone());
    }

    fn note_agreement(&mut self, place: Place) {
        let Some(known) = self.confirms.get(&place) else { return };
        if known.len() >= self.table.quorum {
            let signatures = known.iter().map(|(id, signature)| (*id, *signature));
            let signatures = signatures.take(self.table.quorum).collect();
            keep(&mut self.entries, place.view, Confirmed { place, signatures });
        }
    }

    /// What was ordered or taken over in a view, by slot.
    pub fn links(&self, view: View) -> impl Iterator<Item = (&Link, &Option<Signature>)> {
        let of_view = move |(at, _): &&(View, Link)| *at == view;
        self.links.iter().filter(move |(key, _)| of_view(key)).map(|((_, link), it)| (link, it))
    }

    /// A history of a view behind the checkpoint, always by the first or by the last of several
    /// ways on.
    #[must_use]
    pub fn chain(&self, view: View, last: bool) -> Vec<Link> {
        let mut chain: Vec<Link> = Vec::new();
        let (mut slot, mut history) =
            (self.heard.checkpoint.slot, self.heard.checkpoint.state.history);
        loop {
            let next = |(link, _): &(&Link, &Option<Signature>)| {
                link.slot == slot.next() && link.parent == history
            };
            let mut ways = self.links(view).filter(next).map(|(link, _)| *link);
            let way = if last { ways.last() } else { ways.next() };
            let Some(way) = way else { return chain };
            (slot, history) = (way.slot, way.history());
            chain.push(way);
        }
    }

    /// Where the next order of a view comes: the slot and the history before it.
    #[must_use]
    pub fn tip(&self, view: View) -> (Slot, Digest) {
        let last = self.chain(view, false).last().map(|link| (link.slot, link.history()));
        last.unwrap_or((self.heard.checkpoint.slot, self.heard.checkpoint.state.history))
    }

    /// The certificate of the highest slot of a view that is on this chain.
    #[must_use]
    pub fn certificate(&self, view: View, chain: &[Link]) -> Option<Committed> {
        let on_chain = |place: &Place| {
            chain.iter().any(|it| (it.slot, it.history()) == (place.slot, place.history))
        };
        let quorum = self.table.quorum;
        let proven = self.votes.iter().filter(|(place, votes)| {
            place.view == view && votes.len() >= quorum && on_chain(place)
        });
        proven.max_by_key(|(place, _)| place.slot).map(|(place, votes)| {
            let signatures = votes.iter().map(|(id, it)| (*id, *it)).take(quorum).collect();
            Committed { place: *place, signatures }
        })
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of(message: &Message) -> View {
    match message {
        Message::Order { view, .. } | Message::Shared(Shared::RequestViewChange { view }) => *view,
        Message::Vote(place) | Message::Commit(place) | Message::Confirm(place) => place.view,
        Message::ViewChange(change) => change.view,
        Message::NewView(opening) => opening.view,
        Message::Shared(Shared::Report(report)) => report.view,
        _ => View(0),
    }
}
