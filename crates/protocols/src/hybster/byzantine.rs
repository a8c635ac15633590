//! What a lying Hybster replica can say: [`Byzantine`] hears what others say and makes of it what
//! its own key and its own device can make convincing. The interface by which searches use it is
//! [`pentarchy_core::forge`]. It holds no secret: signatures and certificates come from a [`Hand`],
//! and the device behind that refuses what a device refuses.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `prepare` | as primary: no request (`choice` 0) or the `choice`-th envelope that it knows |
//! | `prepare-again` | another batch in the same slot, if its device lets it |
//! | `prepare-skip` | the same, leaving out a slot |
//! | `prepare-future` | a batch whose time has not come |
//! | `prepare-oversize` | names so many envelopes that the batch is past the limits of one |
//! | `prepare-names-small` | names an envelope that should travel inside |
//! | `prepare-rewritten` | any primary's PREPARE, with its envelopes only named |
//! | `commit` | to what the slot orders, whether it was asked to or has left the view |
//! | `commit-other` | to another batch |
//! | `view-change` | shows what its device says that it must |
//! | `view-change-empty` | shows no PREPARE |
//! | `view-change-more` | shows also what it did not commit to |
//! | `view-change-stale` | comes from an older view than it has to |
//! | `view-change-newer` | comes from the newest view that it heard opened |
//! | `new-view` | as primary: any quorum of VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-bare` | the same, without acknowledgements |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `enter` | commits to whatever NEW-VIEW it heard of |
//! | `acknowledge` | a NEW-VIEW that it heard of, or that nobody made |
//! | `view-changes` | gives any quorum of VIEW-CHANGEs (`choice`: the set) |
//!
//! And what can be told in every protocol ([`crate::common::lies`]).
//!
//! To whom a lie is sent, and how often, is up to who uses this. A core that runs beside the liar
//! may share its device, if what that core says is heard here and it bears refusals.

mod knowledge;

use super::certificate::{CertifiedViewChange, NewView, Prepared, ViewChange, ViewChanges};
use super::message::{Message, STATEMENTS, position};
use crate::common::lies::{Made, TOLD_MAX, Told, decode, encode};
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use knowledge::{Knowledge, is_about_slot};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::Position;
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Message as _;
use pentarchy_core::request::Envelope;

/// Ways to leave a view.
const CHANGES: [&str; 5] = [
    "view-change",
    "view-change-empty",
    "view-change-more",
    "view-change-stale",
    "view-change-newer",
];

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine {
    me: ReplicaId,
    membership: Membership,
    knows: Knowledge,
    told: Told,
    /// Positions that its device has certified, of the last views.
    used: BTreeSet<Position>,
}

impl Byzantine {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        Self {
            me,
            membership: membership.clone(),
            knows: Knowledge::at(membership.base),
            told: Told::default(),
            used: BTreeSet::new(),
        }
    }

    /// The same behind the interface.
    #[must_use]
    pub fn boxed(me: ReplicaId, membership: &Membership) -> Box<dyn Forger> {
        Box::new(Self::new(me, membership))
    }

    fn leads(&self, view: View) -> bool {
        self.membership.primary(view) == self.me
    }

    /// What the device will name in the next certificate that has to.
    fn last(&self) -> Position {
        self.used.last().copied().unwrap_or_default()
    }

    /// The last view in which its device certified something.
    fn at(&self) -> View {
        self.used.last().map_or(View(0), |position| position.view)
    }

    /// Views worth lying about: the one that others are in, the ones around it, and the own.
    fn views(&self) -> BTreeSet<View> {
        let high = self.knows.heard.highest.max(self.at());
        let low = View(high.0.saturating_sub(1));
        [View(0), low, high, high.next()].into_iter().collect()
    }

    fn add_prepares(&self, view: View, lies: &mut Vec<Lie>) {
        let in_view = self.used.range(position(view, Slot(0))..position(view, Slot(u64::MAX)));
        let last = in_view.last().filter(|position| is_about_slot(**position));
        let last = last.map_or(Slot(0), |position| Slot(position.index - Position::OPEN));
        let slot =
            last.max(self.knows.taken_over(view)).max(self.knows.heard.checkpoint.slot).next();
        let choices = self.knows.heard.choices();
        for choice in 0..=choices {
            self.told.add(lies, "prepare", view, slot, choice);
        }
        for choice in (1..=choices).filter(|_| last > Slot(0)) {
            self.told.add(lies, "prepare-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.told.add(lies, "prepare-skip", view, slot.next(), choice);
        }
        let first = last.max(self.knows.heard.checkpoint.slot).next();
        for choice in (0..=choices).filter(|_| first <= self.knows.taken_over(view)) {
            self.told.add(lies, "prepare-taken-over", view, first, choice);
        }
        self.told.add(lies, "prepare-future", view, slot, 0);
        self.told.add(lies, "prepare-unknown", view, slot, 0);
        for choice in 1..=choices {
            self.told.add(lies, "prepare-names-small", view, slot, choice);
        }
        if self.knows.heard.knows_too_much() {
            self.told.add(lies, "prepare-oversize", view, slot, 0);
        }
    }

    fn add_commits(&self, view: View, lies: &mut Vec<Lie>) {
        let first = self.knows.heard.checkpoint.slot.next();
        // Another liar may have proposed in a slot that nobody ever reaches.
        let slots = (first.0..=self.knows.last_prepared(view).0).take(WINDOW_SLOTS as usize);
        for slot in slots.map(Slot) {
            if !self.used.contains(&position(view, slot)) {
                self.told.add(lies, "commit", view, slot, 0);
                self.told.add(lies, "commit-other", view, slot, 0);
            }
        }
    }

    fn add_changes(&self, view: View, lies: &mut Vec<Lie>) {
        let asked = self.knows.heard.others_asking(self.me, view);
        if view == View(0) || self.used.contains(&Position::new(view, Position::LEAVE)) {
            return;
        }
        if asked.count() + 1 >= self.membership.quorums().weak() {
            for kind in CHANGES {
                self.told.add(lies, kind, view, Slot(0), 0);
            }
        }
    }

    /// Each set of a quorum of the VIEW-CHANGEs for a view, as a mask of their authors.
    fn quorums(&self, view: View) -> Vec<u64> {
        let known = self.knows.changes.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
        let authors: u64 = known.fold(0, |mask, ((_, id), _)| mask | 1 << (id.0 % 64));
        let quorum = self.membership.quorums().hybrid_quorum() as u32;
        let n = self.membership.n().min(8) as u32;
        (1..1u64 << n).filter(|set| set & !authors == 0 && set.count_ones() == quorum).collect()
    }

    fn add_openings(&self, view: View, lies: &mut Vec<Lie>) {
        for set in self.quorums(view) {
            self.told.add(lies, "view-changes", view, Slot(0), set);
        }
        if view == View(0) {
            return;
        }
        self.told.add(lies, "acknowledge", view, Slot(0), 0);
        if self.used.contains(&Position::new(view, Position::OPEN)) {
            return;
        }
        if !self.leads(view) {
            if self.knows.openings.contains_key(&view) {
                self.told.add(lies, "enter", view, Slot(0), 0);
            }
            return;
        }
        for set in self.quorums(view) {
            self.told.add(lies, "new-view", view, Slot(0), set);
            self.told.add(lies, "new-view-bare", view, Slot(0), set);
        }
        for set in self.quorums(View(view.0 - 1)) {
            self.told.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// Its device certified something: for a lie, or for a core that shares it.
    fn note_certified(&mut self, position: Position) {
        self.used.insert(position);
        if self.used.len() > TOLD_MAX {
            self.used.pop_first();
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &dyn Hand) -> Option<Message> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "prepare-unknown" => {
                let items = vec![Item::Named(Digest::of(b"nobody has it"))];
                let proposal = Arc::new(Proposal::new(self.knows.heard.time, items));
                Message::Prepare { view, slot, proposal }
            }
            "prepare"
            | "prepare-again"
            | "prepare-skip"
            | "prepare-taken-over"
            | "prepare-future"
            | "prepare-oversize"
            | "prepare-names-small" => {
                let proposal = Arc::new(self.knows.heard.proposal(kind, choice)?);
                Message::Prepare { view, slot, proposal }
            }
            "commit" => Message::Commit { view, slot, batch: self.knows.batch_at(view, slot)? },
            "commit-other" => {
                let right = self.knows.batch_at(view, slot)?;
                Message::Commit { view, slot, batch: self.knows.heard.other_batch(right)? }
            }
            "new-view" => self.new_view(view, view, choice, true),
            "new-view-bare" => self.new_view(view, view, choice, false),
            "new-view-stale" => self.new_view(view, View(view.0 - 1), choice, true),
            "enter" => Message::Enter { view, opening: self.knows.openings.get(&view)?.digest },
            "acknowledge" => Message::Acknowledge { view },
            "view-changes" => {
                let members = self.members(view, choice);
                Message::ViewChanges(Arc::new(ViewChanges { view, members }))
            }
            kind if CHANGES.contains(&kind) => {
                Message::ViewChange(Arc::new(self.view_change(kind, view, hand)?))
            }
            _ => Message::Shared(self.knows.heard.compose(lie)?),
        })
    }

    fn view_change(&self, kind: &str, view: View, hand: &dyn Hand) -> Option<ViewChange> {
        let statement = STATEMENTS.request_view_change(&self.membership.domain(), view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.knows.heard.others_asking(self.me, view);
        let weak = self.membership.quorums().weak();
        let requests = core::iter::once(own).chain(others).take(weak).collect();
        let checkpoint = self.knows.heard.checkpoint.clone();
        let last = self.last();
        let spoke = last.index >= Position::OPEN;
        let newest = self.knows.openings.keys().next_back().copied().unwrap_or_default();
        let of = match kind {
            "view-change-stale" => View(last.view.0.checked_sub(1)?),
            "view-change-newer" => newest,
            _ if spoke => last.view,
            _ => newest.min(View(last.view.0.saturating_sub(1))),
        };
        let entry = match of {
            View(0) => None,
            of => Some(self.knows.entry(of, &self.membership)?),
        };
        let after = entry.as_ref().map_or(Slot(0), super::Entry::end).max(checkpoint.slot);
        let prepares = self.shown(kind, of, after);
        Some(ViewChange { view, requests, checkpoint, entry, prepares })
    }

    fn shown(&self, kind: &str, of: View, after: Slot) -> Vec<Prepared> {
        let named = Slot(self.last().index.saturating_sub(Position::OPEN));
        let end = match kind {
            "view-change-empty" => return Vec::new(),
            "view-change-more" => self.knows.last_prepared(of),
            _ => named,
        };
        self.knows.run_of_prepares(of, after, end)
    }

    fn members(&self, of: View, set: u64) -> Vec<CertifiedViewChange> {
        let chosen = |id: &ReplicaId| set & (1 << (id.0 % 64)) != 0;
        let ids = self.membership.ids().filter(chosen);
        ids.filter_map(|id| self.knows.changes.get(&(of, id)).cloned()).collect()
    }

    fn new_view(&self, view: View, of: View, set: u64, acknowledged: bool) -> Message {
        let changes = ViewChanges { view, members: self.members(of, set) };
        let origin = changes.origin();
        let of_origin = (origin, ReplicaId(0))..=(origin, ReplicaId(u16::MAX));
        let known = self.knows.acknowledgements.range(of_origin).filter(|_| acknowledged);
        let acknowledgements = known.map(|((_, id), signature)| (*id, *signature)).collect();
        Message::NewView(Arc::new(NewView { changes, acknowledgements }))
    }
}

impl Forger for Byzantine {
    fn hear(&mut self, wire: &Bytes) {
        let Ok((author, tag, message)) = decode::<Message>(wire) else { return };
        if !self.membership.contains(author) {
            return;
        }
        if let (true, AuthTag::Usig(ui)) = (author == self.me, &tag) {
            self.note_certified(ui.position);
        }
        if let (Message::NewView(opening), AuthTag::Usig(ui)) = (&message, &tag) {
            self.knows.note_opening(opening, *ui, &self.membership.domain());
        }
        self.knows.note(self.me, author, &tag, &message);
    }

    fn hear_request(&mut self, envelope: &Arc<Envelope>) {
        self.knows.heard.note_envelope(envelope);
    }

    fn lies(&self) -> Vec<Lie> {
        let mut lies = Vec::new();
        for view in self.views() {
            if self.leads(view) && (view == View(0) || self.knows.openings.contains_key(&view)) {
                self.add_prepares(view, &mut lies);
            }
            if !self.leads(view) {
                self.add_commits(view, &mut lies);
            }
            for slot in self.knows.heard.rewritable(view) {
                self.told.add(&mut lies, "prepare-rewritten", view, slot, 0);
            }
            self.add_changes(view, &mut lies);
            self.add_openings(view, &mut lies);
            if view > View(0) && view >= self.knows.heard.highest {
                self.told.add(&mut lies, "ask", view, Slot(0), 0);
            }
        }
        let about_states = ["checkpoint", "checkpoint-false"];
        self.told.add_shared(&mut lies, &self.knows.heard, &about_states, self.at());
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        if lie.kind == "prepare-rewritten" {
            let Made { author, tag, proposal } = self.knows.heard.rewrite(lie.view, lie.slot)?;
            self.told.remember(lie);
            let message = Message::Prepare { view: lie.view, slot: lie.slot, proposal };
            return Some(encode(author, &tag, &message));
        }
        let message = self.compose(lie, hand)?;
        let digest = message.statement(&self.membership.domain());
        let tag = match message.auth() {
            Auth::Channel => {
                self.told.remember(lie);
                AuthTag::Channel
            }
            Auth::Signature => {
                self.told.remember(lie);
                AuthTag::Signature(hand.sign(&digest))
            }
            // The position is used up, which is memory enough.
            Auth::Usig(position) => {
                let ui = hand.certify(position, &digest).ok()?;
                self.note_certified(position);
                AuthTag::Usig(ui)
            }
        };
        let wire = encode(self.me, &tag, &message);
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
