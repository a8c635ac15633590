//! What a lying Hybster replica can say: [`Byzantine`] hears what others say and makes of it what
//! its own key and its own device can make convincing. The interface by which searches use it is
//! [`pentarchy_core::forge`]. It holds no secret: signatures and certificates come from a [`Hand`],
//! and the device behind that refuses what a device refuses.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `view-change` | shows what its device says that it must |
//! | `view-change-empty` | shows no PREPARE |
//! | `view-change-more` | shows also what it did not commit to |
//! | `view-change-stale` | comes from an older view than it has to |
//! | `view-change-newer` | comes from the newest view that it heard opened |
//! | `view-change-junk` | comes from a view that it never opened, with batches that it made up |
//! | `new-view` | as primary: any quorum of VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-bare` | the same, without acknowledgements |
//! | `new-view-own` | the same, with its own one only |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `new-view-again` | an own NEW-VIEW that was kept from some, late |
//! | `ask-of-other` | the request for a view of one other, which the rest may lack |
//! | `enter` | commits to whatever NEW-VIEW it heard of |
//! | `acknowledge` | a NEW-VIEW that it heard of, or that nobody made |
//! | `view-changes` | gives any quorum of VIEW-CHANGEs (`choice`: the set) |
//!
//! And what can be told of slots ([`crate::common::counters::liar`]) and in every protocol
//! ([`crate::common::lies`]).
//!
//! To whom a lie is sent, and how often, is up to who uses this. A core that runs beside the liar
//! may share its device, if what that core says is heard here and it bears refusals.

use super::certificate::{Entry, NewView, ViewChange, ViewChanges};
use super::message::{Message, Shared};
use super::statements::acknowledge_statement;
use crate::common::counters::certificate::{CertifiedViewChange, Header, Opened, Prepared, Start};
use crate::common::counters::liar::{HeardOpening, Liar};
use crate::common::lies::keep;
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::authored::{decode, encode};
use pentarchy_core::batch::Proposal;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;

/// Of how many own NEW-VIEWs, and how often, it says the same again.
const REPEATED_MAX: usize = 4;
const REPEATS: u64 = 2;

/// Batches that it makes up for a view that it never opened.
const MADE_UP: u64 = 8;

/// Ways to leave a view.
const CHANGES: [&str; 6] = [
    "view-change",
    "view-change-empty",
    "view-change-more",
    "view-change-stale",
    "view-change-newer",
    "view-change-junk",
];

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine {
    liar: Liar<Entry>,
    acknowledgements: BTreeMap<(View, ReplicaId), Signature>,
    /// NEW-VIEWs that it said, as they travel.
    said: BTreeMap<View, Bytes>,
}

impl Byzantine {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        let (acknowledgements, said) = (BTreeMap::new(), BTreeMap::new());
        Self { liar: Liar::new(me, membership), acknowledgements, said }
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
                let change = change.clone();
                self.note_change(CertifiedViewChange { author, ui: *ui, change });
            }
            (Message::NewView(opening), AuthTag::Usig(ui)) => self.note_opening(opening, *ui),
            (Message::ViewChanges(changes), _) => self.note_changes(changes),
            (Message::Acknowledge { view }, AuthTag::Signature(signature)) => {
                keep(&mut self.acknowledgements, (*view, author), Signature(*signature));
            }
            (Message::Shared(message), _) => self.liar.heard.note(author, tag, message),
            _ => {}
        }
    }

    fn note_change(&mut self, certified: CertifiedViewChange<Entry>) {
        let from = certified.change.from();
        self.liar.note_change(certified, from);
    }

    fn note_changes(&mut self, changes: &ViewChanges) {
        changes.members.iter().for_each(|member| self.note_change(member.clone()));
    }

    fn note_opening(&mut self, opening: &NewView, ui: Ui) {
        self.note_changes(&opening.changes);
        let domain = self.liar.membership.domain();
        let heard = HeardOpening {
            header: opening.entry(ui, &domain).header,
            members: opening.changes.members.clone(),
            digest: opening.statement(&domain),
        };
        keep(&mut self.liar.openings, opening.view(), heard);
    }

    /// What the device will name in the next certificate that has to.
    fn last(&self) -> Position {
        self.liar.used.last().copied().unwrap_or_default()
    }

    fn add_openings(&self, view: View, lies: &mut Vec<Lie>) {
        let Liar { told, used, openings, .. } = &self.liar;
        for set in self.liar.quorums(view) {
            told.add(lies, "view-changes", view, Slot(0), set);
        }
        if view == View(0) {
            return;
        }
        told.add(lies, "acknowledge", view, Slot(0), 0);
        if used.contains(&Position::new(view, Position::OPEN)) {
            return;
        }
        if !self.liar.leads(view) {
            if openings.contains_key(&view) {
                told.add(lies, "enter", view, Slot(0), 0);
            }
            return;
        }
        for set in self.liar.quorums(view) {
            told.add(lies, "new-view", view, Slot(0), set);
            told.add(lies, "new-view-bare", view, Slot(0), set);
            told.add(lies, "new-view-own", view, Slot(0), set);
        }
        for set in self.liar.quorums(View(view.0 - 1)) {
            told.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &dyn Hand) -> Option<Message> {
        let Lie { kind, view, choice, .. } = *lie;
        Some(match kind {
            "new-view" | "new-view-bare" | "new-view-own" => {
                self.new_view(kind, (view, view), choice, hand)
            }
            "new-view-stale" => self.new_view(kind, (view, View(view.0 - 1)), choice, hand),
            "enter" => Message::Enter { view, opening: self.liar.openings.get(&view)?.digest },
            "acknowledge" => Message::Acknowledge { view },
            "view-changes" => {
                let members = self.liar.members(view, choice);
                Message::ViewChanges(Arc::new(ViewChanges { view, members }))
            }
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
        let last = self.last();
        let spoke = last.index >= Position::OPEN;
        let newest = self.liar.openings.keys().next_back().copied().unwrap_or_default();
        let of = match kind {
            "view-change-stale" => View(last.view.0.checked_sub(1)?),
            "view-change-newer" => newest,
            "view-change-junk" => self.led_below(view)?,
            _ if spoke => last.view,
            _ => newest.min(View(last.view.0.saturating_sub(1))),
        };
        let entry = match of {
            View(0) => None,
            of => Some(Entry { header: self.liar.openings.get(&of)?.header.clone() }),
        };
        let after = entry.as_ref().map_or(Slot(0), Opened::end).max(checkpoint.slot);
        let prepares = self.shown(kind, of, after);
        Some(ViewChange { view, requests, checkpoint, entry, prepares })
    }

    /// The last view below another that was its to open.
    fn led_below(&self, view: View) -> Option<View> {
        let mut below = (1..view.0).rev().take(self.liar.membership.n()).map(View);
        below.find(|view| self.liar.leads(*view))
    }

    /// Has its device certify how a view began that it never opened: with batches that nobody asked
    /// for, which it gives to whoever lacks them. Nothing if that view has passed.
    fn make_up(&mut self, of: View, hand: &mut dyn Hand) {
        let Liar { heard, .. } = &mut self.liar;
        let made = (0..MADE_UP).map(|number| {
            let before = of.0.wrapping_mul(MADE_UP) % 512 + number;
            Arc::new(Proposal::new(Millis(heard.time.0.saturating_sub(before)), Vec::new()))
        });
        let made: Vec<Arc<Proposal>> = made.collect();
        let list = made.iter().map(|proposal| proposal.digest()).collect();
        let start = Start { base: heard.checkpoint.slot, list };
        let (domain, members) = (self.liar.membership.domain(), Digest::default());
        let digest = Entry::TERMS.opening_statement(&domain, of, &start, &members);
        let position = Position::new(of, Position::OPEN);
        let Ok(opening) = hand.certify(self.liar.membership.instance(), position, &digest) else {
            return;
        };
        self.liar.note_certified(position);
        made.iter().for_each(|proposal| self.liar.heard.note_proposal(proposal));
        let header = Header { view: of, start, members, opening };
        let heard = HeardOpening { header, members: Vec::new(), digest };
        keep(&mut self.liar.openings, of, heard);
    }

    /// The request of one other for a view.
    fn ask_of_other(&self, lie: &Lie) -> Option<Bytes> {
        let id = ReplicaId(u16::try_from(lie.choice).ok()?);
        let (view, signature) = *self.liar.heard.asks.get(&id)?;
        let ask = Message::Shared(Shared::RequestViewChange { view });
        Some(encode(id, &AuthTag::Signature(signature.0), &ask))
    }

    /// What was said before, by it or by another, under the certificate that it had.
    fn repeat(&mut self, lie: &Lie) -> Option<Bytes> {
        let wire = match lie.kind {
            "prepare-rewritten" => {
                let (author, tag, order) = self.liar.rewrite(lie)?;
                encode(author, &tag, &Message::Order(order))
            }
            "new-view-again" => self.said.get(&lie.view)?.clone(),
            "ask-of-other" => self.ask_of_other(lie)?,
            _ => return None,
        };
        self.liar.told.remember(lie);
        Some(wire)
    }

    fn add_repeated(&self, lies: &mut Vec<Lie>) {
        for view in self.said.keys().rev().take(REPEATED_MAX) {
            let choices = 0..REPEATS;
            choices.for_each(|n| self.liar.told.add(lies, "new-view-again", *view, Slot(0), n));
        }
        let heard = &self.liar.heard;
        for (id, (view, _)) in heard.others_asking(self.liar.me, heard.highest) {
            self.liar.told.add(lies, "ask-of-other", view, Slot(0), u64::from(id.0));
        }
    }

    fn shown(&self, kind: &str, of: View, after: Slot) -> Vec<Prepared> {
        let named = Slot(self.last().index.saturating_sub(Position::OPEN));
        let end = match kind {
            "view-change-empty" => return Vec::new(),
            "view-change-more" => self.liar.last_prepared(of),
            _ => named,
        };
        self.liar.run_of_prepares(of, after, end)
    }

    fn new_view(&self, kind: &str, (view, of): (View, View), set: u64, hand: &dyn Hand) -> Message {
        let changes = ViewChanges { view, members: self.liar.members(of, set) };
        let origin = changes.origin();
        let acknowledgements = match kind {
            "new-view-bare" => Vec::new(),
            "new-view-own" => {
                let statement = acknowledge_statement(&self.liar.membership.domain(), origin);
                vec![(self.liar.me, Signature(hand.sign(&statement)))]
            }
            _ => {
                let of_origin = (origin, ReplicaId(0))..=(origin, ReplicaId(u16::MAX));
                let known = self.acknowledgements.range(of_origin);
                known.map(|((_, id), signature)| (*id, *signature)).collect()
            }
        };
        Message::NewView(Arc::new(NewView { changes, acknowledgements }))
    }
}

/// The view in which a message speaks, or asks for.
fn spoken_of(message: &Message) -> View {
    match message {
        Message::Order(order) => order.place().0,
        Message::Shared(Shared::RequestViewChange { view })
        | Message::Acknowledge { view }
        | Message::Enter { view, .. } => *view,
        Message::ViewChange(change) => change.view,
        Message::NewView(opening) => opening.view(),
        Message::ViewChanges(changes) => changes.view,
        Message::Shared(Shared::Report(report)) => report.view,
        Message::Shared(_) => View(0),
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
            if let Message::NewView(opening) = &message {
                keep(&mut self.said, opening.view(), wire.clone());
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
            self.liar.add_ask(view, &mut lies);
        }
        self.add_repeated(&mut lies);
        self.liar.add_shared(&mut lies);
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        if let Some(wire) = self.repeat(lie) {
            return Some(wire);
        }
        if lie.kind == "view-change-junk" {
            self.make_up(self.led_below(lie.view)?, hand);
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
