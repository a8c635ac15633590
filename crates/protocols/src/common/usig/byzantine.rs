//! What a lying MinBFT replica can say: [`Byzantine`] hears what others say and makes of it what
//! its own key and its own device can make convincing. The interface by which searches use it is
//! [`pentarchy_core::forge`]. It holds no secret: signatures and certificates come from a [`Hand`],
//! and the device behind that refuses what a device refuses.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `view-change` | shows what its device says that it must |
//! | `view-change-empty` | shows no PREPARE |
//! | `view-change-more` | shows also what it did not commit to |
//! | `view-change-stale` | shows the entry of an older view |
//! | `new-view` | as primary: any quorum of VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `acknowledge`, `enter` | whatever NEW-VIEW it heard of |
//!
//! And what can be told of slots ([`crate::common::counters::liar`]) and in every protocol
//! ([`crate::common::lies`]).
//!
//! To whom a lie is sent, and how often, is up to who uses this. A core that runs beside the liar
//! may share its device, if what that core says is heard here and it bears refusals.

use super::certificate::{Entry, NewView, ViewChange};
use super::message::{Message, Shared};
use crate::common::counters::certificate::{CertifiedViewChange, Header, Opened, Prepared};
use crate::common::counters::liar::{HeardOpening, Liar};
use crate::common::lies::keep;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use pentarchy_core::Bytes;
use pentarchy_core::auth::AuthTag;
use pentarchy_core::authored::{decode, encode};
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;

/// Ways to leave a view.
const CHANGES: [&str; 4] =
    ["view-change", "view-change-empty", "view-change-more", "view-change-stale"];

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine {
    liar: Liar<Entry>,
    acknowledgements: BTreeMap<(View, ReplicaId), (Digest, Ui)>,
    /// What the device will name as the last commitment.
    committed: Position,
}

impl Byzantine {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        Self {
            liar: Liar::new(me, membership),
            acknowledgements: BTreeMap::new(),
            committed: Position::new(View(0), Position::COMMITMENT),
        }
    }

    /// The same behind the interface.
    #[must_use]
    pub fn boxed(me: ReplicaId, membership: &Membership) -> Box<dyn Forger> {
        Box::new(Self::new(me, membership))
    }

    fn note(&mut self, author: ReplicaId, tag: &AuthTag, message: &Message) {
        if author != self.liar.me {
            self.liar.heard.highest = self.liar.heard.highest.max(spoken_of(message));
        }
        match (message, tag) {
            (Message::Order(order), AuthTag::Usig(ui)) => self.liar.note_order(author, ui, order),
            (Message::ViewChange(change), AuthTag::Usig(ui)) => {
                let certified = CertifiedViewChange { author, ui: *ui, change: change.clone() };
                self.liar.note_change(certified, ui.committed.view);
            }
            (Message::NewView(opening), AuthTag::Usig(ui)) => self.note_opening(opening, *ui),
            (Message::Acknowledge { view, opening }, AuthTag::Usig(ui)) => {
                keep(&mut self.acknowledgements, (*view, author), (*opening, *ui));
            }
            (Message::Shared(message), _) => self.liar.heard.note(author, tag, message),
            _ => {}
        }
    }

    fn note_opening(&mut self, opening: &NewView, ui: Ui) {
        for member in &opening.members {
            keep(&mut self.liar.changes, (opening.view, member.author), member.clone());
        }
        let domain = self.liar.membership.domain();
        let heard = HeardOpening {
            header: opening.header(ui, &domain),
            members: opening.members.clone(),
            digest: opening.statement(&domain),
        };
        keep(&mut self.liar.openings, opening.view, heard);
    }

    /// The entry of a view, if enough acknowledgements of it were heard.
    fn entry(&self, view: View) -> Option<Entry> {
        let (heard, membership) = (self.liar.openings.get(&view)?, &self.liar.membership);
        let others = membership.quorums().majority() - 1;
        let acknowledgements: Vec<(ReplicaId, Ui)> = membership
            .ids()
            .filter(|id| *id != membership.primary(view))
            .filter_map(|id| self.acknowledgements.get(&(view, id)).map(|(of, ui)| (id, *of, *ui)))
            .filter(|(_, of, _)| *of == heard.digest)
            .map(|(id, _, ui)| (id, ui))
            .take(others)
            .collect();
        let header: Header = heard.header.clone();
        (acknowledgements.len() == others).then_some(Entry { header, acknowledgements })
    }

    fn add_openings(&self, view: View, lies: &mut Vec<Lie>) {
        let Liar { told, used, openings, .. } = &self.liar;
        if used.contains(&Position::new(view, Position::OPEN)) || view == View(0) {
            return;
        }
        if !self.liar.leads(view) {
            if openings.contains_key(&view) {
                told.add(lies, "acknowledge", view, Slot(0), 0);
            }
            return;
        }
        for set in self.liar.quorums(view) {
            told.add(lies, "new-view", view, Slot(0), set);
        }
        for set in self.liar.quorums(View(view.0 - 1)) {
            told.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &dyn Hand) -> Option<Message> {
        let Lie { kind, view, choice, .. } = *lie;
        let opened = || self.liar.openings.get(&view).map(|heard| heard.digest);
        Some(match kind {
            "new-view" => self.new_view(view, view, choice),
            "new-view-stale" => self.new_view(view, View(view.0 - 1), choice),
            "acknowledge" => Message::Acknowledge { view, opening: opened()? },
            "enter" => Message::Enter { view, opening: opened()? },
            kind if CHANGES.contains(&kind) => {
                Message::ViewChange(Arc::new(self.view_change(kind, view, hand)?))
            }
            kind if kind.starts_with("prepare") || kind.starts_with("commit") => {
                Message::Order(self.liar.compose(lie)?)
            }
            _ => Message::Shared(self.liar.heard.compose(lie)?),
        })
    }

    fn view_change(&self, kind: &str, view: View, hand: &dyn Hand) -> Option<ViewChange> {
        let requests = self.liar.requests(view, hand);
        let checkpoint = self.liar.heard.checkpoint.clone();
        let committed = self.committed.view;
        let of =
            if kind == "view-change-stale" { View(committed.0.checked_sub(1)?) } else { committed };
        let entry = match of {
            View(0) => None,
            of => Some(self.entry(of)?),
        };
        let after = entry.as_ref().map_or(Slot(0), Opened::end).max(checkpoint.slot);
        let prepares = self.shown(kind, of, after);
        Some(ViewChange { view, requests, checkpoint, entry, prepares })
    }

    fn shown(&self, kind: &str, of: View, after: Slot) -> Vec<Prepared> {
        let named = Slot(self.committed.index.saturating_sub(Position::COMMITMENT));
        let end = match kind {
            "view-change-empty" => return Vec::new(),
            "view-change-more" => self.liar.last_prepared(of),
            _ => named,
        };
        self.liar.run_of_prepares(of, after, end)
    }

    fn new_view(&self, view: View, of: View, set: u64) -> Message {
        Message::NewView(Arc::new(NewView { view, members: self.liar.members(of, set) }))
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of(message: &Message) -> View {
    match message {
        Message::Order(order) => order.place().0,
        Message::Shared(Shared::RequestViewChange { view })
        | Message::Acknowledge { view, .. }
        | Message::Enter { view, .. } => *view,
        Message::ViewChange(change) => change.view,
        Message::NewView(opening) => opening.view,
        Message::Shared(Shared::Report(report)) => report.view,
        Message::Settle { .. } | Message::Shared(_) => View(0),
    }
}

impl Forger for Byzantine {
    fn hear(&mut self, wire: &Bytes) {
        let Ok((author, tag, message)) = decode::<Message>(wire) else { return };
        if !self.liar.membership.contains(author) {
            return;
        }
        if let (true, AuthTag::Usig(ui)) = (author == self.liar.me, &tag) {
            self.liar.note_certified(ui.position);
            if ui.position.index >= Position::COMMITMENT {
                self.committed = self.committed.max(ui.position);
            }
        }
        self.note(author, &tag, &message);
    }

    fn hear_request(&mut self, envelope: &Arc<Envelope>) {
        self.liar.heard.note_envelope(envelope);
    }

    fn lies(&self) -> Vec<Lie> {
        let mut lies = Vec::new();
        for view in self.liar.views() {
            self.liar.add_orders(view, &mut lies);
            self.liar.add_changes(view, &CHANGES, &mut lies);
            self.add_openings(view, &mut lies);
            let entered = self.liar.used.contains(&Position::new(view, Position::COMMITMENT));
            if self.liar.openings.contains_key(&view) && !entered {
                self.liar.told.add(&mut lies, "enter", view, Slot(0), 0);
            }
            self.liar.add_ask(view, &mut lies);
        }
        self.liar.add_shared(&mut lies);
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        if lie.kind == "prepare-rewritten" {
            let (author, tag, order) = self.liar.rewrite(lie)?;
            return Some(encode(author, &tag, &Message::Order(order)));
        }
        let message = self.compose(lie, hand)?;
        let tag = self.liar.authenticate(lie, &message, hand)?;
        let wire = encode(self.liar.me, &tag, &message);
        self.hear(&wire);
        Some(wire)
    }

    fn fingerprint(&self, mut hasher: &mut dyn Hasher) {
        self.hash(&mut hasher);
    }

    fn boxed_clone(&self) -> Box<dyn Forger> {
        Box::new(self.clone())
    }
}
