//! What a lying replica can say: [`Byzantine`] hears what others say and makes of it what its own
//! key can make convincing. The interface by which searches use it is [`pentarchy_core::forge`]. It
//! holds no secret: signatures come from a [`Hand`]. It has no use for its device.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `order` | as primary: no request (`choice` 0) or the `choice`-th envelope it knows |
//! | `order-again` | another batch in the same slot |
//! | `order-elsewhere` | the same behind another history |
//! | `order-skip` | the same, leaving out a slot |
//! | `order-future` | a batch whose time has not come |
//! | `order-oversize` | more than the limits allow |
//! | `order-names-small` | an envelope that is small, without carrying it |
//! | `order-rewritten` | a primary's order as it came, of which nothing travels whole |
//! | `vote`, `commit` | what the slot orders, whether it has executed that or has left the view |
//! | `vote-other`, `commit-other` | another history |
//! | `view-change` | shows what it knows of the last view (`choice`: which way histories part) |
//! | `view-change-empty` | shows nothing behind the checkpoint |
//! | `view-change-short` | all but the last slot, and no certificate |
//! | `view-change-other` | another batch in the last slot |
//! | `view-change-stale` | pretends to have entered no view but the first |
//! | `new-view` | as primary: any set of VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-few` | as primary: `f + 1` of them |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `confirm`, `confirm-other` | what follows from a NEW-VIEW, or from none |
//! | `confirmed-alone` | that a quorum agrees, with its own signature as often as it takes |
//! | `stable-false` | a checkpoint that only it signed |
//! | `misbehaviour-false` | two orders that contradict nothing |
//!
//! And what every protocol's liars tell: [`crate::common::lies`].
//!
//! To whom a lie is sent, and how often, is up to who uses this.

mod knowledge;

use super::certificate::{Confirmed, Misbehaviour, Order, Stable, ViewChange};
use super::message::{Message, Shared};
use super::new_view::{Member, NewView};
use super::statements::{STATEMENTS, confirm_statement};
use super::table::Table;
use super::variant::{Kind, Variant};
use crate::common::lies::{Made, Told, authenticate, false_state, sets, vouched_alone};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use knowledge::{Knowledge, Link};
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::authored::{decode, encode};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::Place;
use pentarchy_core::request::Envelope;

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine {
    me: ReplicaId,
    membership: Membership,
    table: Table,
    knows: Knowledge,
    told: Told,
}

impl Byzantine {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(kind: Kind, me: ReplicaId, membership: &Membership) -> Self {
        let table = Table::of(kind, membership);
        let knows = Knowledge::at(membership.base, table);
        Self { me, membership: membership.clone(), table, knows, told: Told::default() }
    }

    /// The same behind the interface.
    #[must_use]
    pub fn boxed<V: Variant>(me: ReplicaId, membership: &Membership) -> Box<dyn Forger> {
        Box::new(Self::new(V::KIND, me, membership))
    }

    fn leads(&self, view: View) -> bool {
        self.membership.primary(view) == self.me
    }

    fn add_orders(&self, view: View, lies: &mut Vec<Lie>) {
        let (last, _) = self.knows.tip(view);
        let slot = last.next();
        let choices = self.knows.heard.choices();
        for choice in 0..=choices {
            self.told.add(lies, "order", view, slot, choice);
            self.told.add(lies, "order-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.told.add(lies, "order-skip", view, slot.next(), choice);
            self.told.add(lies, "order-elsewhere", view, slot, choice);
            self.told.add(lies, "order-names-small", view, slot, choice);
        }
        self.told.add(lies, "order-future", view, slot, 0);
        if self.knows.heard.knows_too_much() {
            self.told.add(lies, "order-oversize", view, slot, 0);
        }
    }

    fn add_votes(&self, view: View, lies: &mut Vec<Lie>) {
        let low = self.knows.heard.checkpoint.slot;
        for (link, _) in self.knows.links(view).filter(|(link, _)| link.slot > low) {
            for kind in ["vote", "vote-other", "commit", "commit-other"] {
                self.told.add(lies, kind, view, link.slot, 0);
            }
        }
    }

    fn add_changes(&self, view: View, lies: &mut Vec<Lie>) {
        let asked = self.knows.heard.others_asking(self.me, view);
        if view == View(0) || asked.count() + 1 < self.table.weak {
            return;
        }
        for kind in ["view-change-empty", "view-change-short", "view-change-other"] {
            self.told.add(lies, kind, view, Slot(0), 0);
        }
        for choice in 0..2 {
            self.told.add(lies, "view-change", view, Slot(0), choice);
            self.told.add(lies, "view-change-stale", view, Slot(0), choice);
        }
    }

    /// Sets of so many of the VIEW-CHANGEs for a view, as masks of their authors.
    fn sets(&self, view: View, size: usize) -> Vec<u64> {
        let known = self.knows.changes.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
        sets(known.map(|((_, id), _)| *id), self.membership.n(), size)
    }

    fn add_openings(&self, view: View, lies: &mut Vec<Lie>) {
        if view == View(0) || !self.leads(view) {
            return;
        }
        for set in self.sets(view, self.table.members) {
            self.told.add(lies, "new-view", view, Slot(0), set);
        }
        for set in self.sets(view, self.table.weak) {
            self.told.add(lies, "new-view-few", view, Slot(0), set);
        }
        for set in self.sets(View(view.0 - 1), self.table.members) {
            self.told.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &dyn Hand) -> Option<Message> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "order" | "order-again" | "order-skip" | "order-elsewhere" | "order-future"
            | "order-oversize" | "order-names-small" => {
                let parent = self.parent(kind, view, slot)?;
                let proposal = Arc::new(self.knows.heard.proposal(kind, choice)?);
                Message::Order { view, slot, parent, proposal }
            }
            "vote" | "commit" | "vote-other" | "commit-other" => {
                let link = self.knows.links(view).find(|(link, _)| link.slot == slot)?.0;
                let other = kind.ends_with("other");
                let history = if other { self.other_history(link) } else { link.history() };
                let place = Place { view, slot, history };
                if kind.starts_with("vote") { Message::Vote(place) } else { Message::Commit(place) }
            }
            "new-view" | "new-view-few" => self.new_view(view, view, choice),
            "new-view-stale" => self.new_view(view, View(view.0 - 1), choice),
            "confirm" | "confirm-other" | "confirmed-alone" => self.agree(kind, view, hand)?,
            "stable-false" => Message::Shared(Shared::Stable(self.alone(slot, hand))),
            "misbehaviour-false" => self.accusation(view)?,
            _ if kind.starts_with("view-change") => {
                Message::ViewChange(Arc::new(self.view_change(kind, view, choice, hand)))
            }
            _ => Message::Shared(self.knows.heard.compose(lie)?),
        })
    }

    /// The history behind which an order comes.
    fn parent(&self, kind: &str, view: View, slot: Slot) -> Option<Digest> {
        let (last, history) = self.knows.tip(view);
        let chain = self.knows.chain(view, false);
        let before = || match chain.len().checked_sub(2) {
            Some(index) => chain[index].history(),
            None => self.knows.heard.checkpoint.state.history,
        };
        match kind {
            "order-again" if slot == last && !chain.is_empty() => Some(before()),
            "order-again" => None,
            "order-elsewhere" => Some(before()),
            _ => Some(history),
        }
    }

    fn other_batch(&self, right: Digest) -> Digest {
        self.knows.heard.other_batch(right).unwrap_or_default()
    }

    fn other_history(&self, link: &Link) -> Digest {
        Link { batch: self.other_batch(link.batch), ..*link }.history()
    }

    /// What a view begins with, by its NEW-VIEW, or something else.
    fn agree(&self, kind: &str, view: View, hand: &dyn Hand) -> Option<Message> {
        let start = self.knows.openings.get(&view)?.start(&self.table);
        let mut place = Place { view, slot: start.end(), history: start.history() };
        if kind != "confirm" {
            place.history = Digest::of(b"a lie");
        }
        if kind != "confirmed-alone" {
            return Some(Message::Confirm(place));
        }
        let statement = confirm_statement(&self.membership.domain(), &place);
        let signature = Signature(hand.sign(&statement));
        let signatures = self.membership.ids().take(self.table.quorum).map(|id| (id, signature));
        Some(Message::Confirmed(Arc::new(Confirmed { place, signatures: signatures.collect() })))
    }

    /// A checkpoint that nobody else signed, with its signature as often as it takes.
    fn alone(&self, slot: Slot, hand: &dyn Hand) -> Stable {
        let about = (slot, false_state());
        vouched_alone((&STATEMENTS, &self.membership), about, self.table.quorum, hand)
    }

    /// Two orders that follow each other.
    fn accusation(&self, view: View) -> Option<Message> {
        let order = |(link, signature): (&Link, &Option<Signature>)| {
            let Link { slot, parent, batch } = *link;
            (*signature).map(|signature| Order { slot, parent, batch, signature })
        };
        let mut orders = self.knows.links(view).filter_map(order);
        let (first, second) = (orders.next()?, orders.next()?);
        Some(Message::Misbehaviour(Misbehaviour { view, first, second }))
    }

    fn view_change(&self, kind: &str, view: View, choice: u64, hand: &dyn Hand) -> ViewChange {
        let statement = STATEMENTS.request_view_change(&self.membership.domain(), view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.knows.heard.others_asking(self.me, view);
        let requests = core::iter::once(own).chain(others).take(self.table.weak).collect();
        let entries = self.knows.entries.range(..view);
        let entry = entries.last().filter(|_| kind != "view-change-stale");
        let entry = entry.map(|(_, entry)| entry.clone());
        let last = entry.as_ref().map_or(View(0), |entry| entry.place.view);
        let mut chain = self.knows.chain(last, choice == 1);
        match kind {
            "view-change-empty" => chain.clear(),
            "view-change-short" => drop(chain.pop()),
            "view-change-other" => {
                if let Some(link) = chain.last_mut() {
                    link.batch = self.other_batch(link.batch);
                }
            }
            _ => {}
        }
        let hides = kind == "view-change-short" || kind == "view-change-empty";
        let certificate = self.knows.certificate(last, &chain).filter(|_| !hides);
        let batches = chain.into_iter().map(|link| link.batch).collect();
        let stable = self.knows.heard.checkpoint.clone();
        ViewChange { view, requests, stable, entry, certificate, contradicted: None, batches }
    }

    /// An order under its primary's own signature, of which nothing travels whole.
    fn rewritten(&self, lie: &Lie) -> Option<Bytes> {
        let Made { author, tag, proposal } = self.knows.heard.rewrite(lie.view, lie.slot)?;
        let batch = proposal.digest();
        let mut links = self.knows.links(lie.view).map(|(link, _)| link);
        let parent = links.find(|link| (link.slot, link.batch) == (lie.slot, batch))?.parent;
        let message = Message::Order { view: lie.view, slot: lie.slot, parent, proposal };
        Some(encode(author, &tag, &message))
    }

    fn new_view(&self, view: View, of: View, set: u64) -> Message {
        let chosen = |id: &ReplicaId| set & (1 << (id.0 % 64)) != 0;
        let ids = self.membership.ids().filter(chosen);
        let members: Vec<Member> =
            ids.filter_map(|id| self.knows.changes.get(&(of, id)).cloned()).collect();
        Message::NewView(Arc::new(NewView { view, members }))
    }
}

impl Forger for Byzantine {
    fn hear(&mut self, wire: &Bytes) {
        let Ok((author, tag, message)) = decode::<Message>(wire) else { return };
        if self.membership.contains(author) {
            self.knows.note(self.me, author, &tag, &message);
        }
    }

    fn hear_request(&mut self, envelope: &Arc<Envelope>) {
        self.knows.heard.note_envelope(envelope);
    }

    fn lies(&self) -> Vec<Lie> {
        let mut lies = Vec::new();
        for view in self.knows.heard.views() {
            if self.leads(view) && (view == View(0) || self.knows.openings.contains_key(&view)) {
                self.add_orders(view, &mut lies);
            }
            for slot in self.knows.heard.rewritable(view) {
                self.told.add(&mut lies, "order-rewritten", view, slot, 0);
            }
            self.add_votes(view, &mut lies);
            self.add_changes(view, &mut lies);
            self.add_openings(view, &mut lies);
            if self.knows.openings.contains_key(&view) {
                for kind in ["confirm", "confirm-other", "confirmed-alone"] {
                    self.told.add(&mut lies, kind, view, Slot(0), 0);
                }
            }
            if view > View(0) && view >= self.knows.heard.highest {
                self.told.add(&mut lies, "ask", view, Slot(0), 0);
            }
            self.told.add(&mut lies, "misbehaviour-false", view, Slot(0), 0);
        }
        let about_states = ["checkpoint", "checkpoint-false", "stable-false"];
        self.told.add_shared(&mut lies, &self.knows.heard, &about_states, View(0));
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        if lie.kind == "order-rewritten" {
            let wire = self.rewritten(lie)?;
            self.told.remember(lie);
            return Some(wire);
        }
        let message = self.compose(lie, hand)?;
        let tag = authenticate(&message, &self.membership, hand)?;
        self.told.remember(lie);
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
