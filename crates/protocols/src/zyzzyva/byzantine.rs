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
//! | `order-oversize` | one envelope named so often that the batch is past the limits |
//! | `vote`, `commit` | what the slot orders, whether it has executed that or has left the view |
//! | `vote-other`, `commit-other` | another history |
//! | `ask` | for a view, without cause |
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
//! | `checkpoint`, `checkpoint-false` | signs a state that others have, or none has |
//! | `stable-false` | a checkpoint that only it signed |
//! | `misbehaviour-false` | two orders that contradict nothing |
//! | `body` | gives a batch that somebody lacks |
//! | `report` | pretends to lack everything, so that others send it |
//!
//! To whom a lie is sent, and how often, is up to who uses this.

mod knowledge;

use super::certificate::{
    Confirmed, Member, Misbehaviour, NewView, Order, Stable, ViewChange, mark,
};
use super::explore::decode;
use super::message::{Message, Report, checkpoint_statement, confirm_statement, request_statement};
use super::table::Table;
use crate::common::certificate::CheckpointProof;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use knowledge::{Knowledge, Link};
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::{BATCH_BYTES_MAX, BATCH_ENVELOPES_MAX, BATCH_REQUESTS_MAX};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::Message as _;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Wire, Writer};

/// Lies remembered, so as not to repeat them; then they may be repeated.
const TOLD_MAX: usize = 1024;

/// Envelopes that a lying primary chooses among.
const CHOICES_MAX: usize = 4;

/// Sets of VIEW-CHANGEs that a lying primary chooses among.
const SETS_MAX: usize = 16;

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine {
    me: ReplicaId,
    membership: Membership,
    table: Table,
    knows: Knowledge,
    told: BTreeSet<Lie>,
}

impl Byzantine {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(kind: usize, me: ReplicaId, membership: &Membership) -> Self {
        let table = Table::of(kind, membership);
        let knows = Knowledge::at(membership.base, table);
        Self { me, membership: membership.clone(), table, knows, told: BTreeSet::new() }
    }

    /// The same behind the interface.
    #[must_use]
    pub fn boxed<const KIND: usize>(me: ReplicaId, membership: &Membership) -> Box<dyn Forger> {
        Box::new(Self::new(KIND, me, membership))
    }

    fn remember(&mut self, lie: &Lie) {
        if self.told.len() >= TOLD_MAX {
            self.told.clear();
        }
        self.told.insert(*lie);
    }

    fn leads(&self, view: View) -> bool {
        self.membership.primary(view) == self.me
    }

    /// Views worth lying about: the one that others are in, and the ones around it.
    fn views(&self) -> BTreeSet<View> {
        let high = self.knows.highest;
        [View(0), View(high.0.saturating_sub(1)), high, high.next()].into_iter().collect()
    }

    fn add(&self, lies: &mut Vec<Lie>, kind: &'static str, view: View, slot: Slot, choice: u64) {
        let lie = Lie { kind, view, slot, choice };
        if !self.told.contains(&lie) {
            lies.push(lie);
        }
    }

    fn add_orders(&self, view: View, lies: &mut Vec<Lie>) {
        let (last, _) = self.knows.tip(view);
        let slot = last.next();
        let choices = self.knows.envelopes.len().min(CHOICES_MAX) as u64;
        for choice in 0..=choices {
            self.add(lies, "order", view, slot, choice);
            self.add(lies, "order-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.add(lies, "order-skip", view, slot.next(), choice);
            self.add(lies, "order-elsewhere", view, slot, choice);
        }
        self.add(lies, "order-future", view, slot, 0);
        let too_much = |envelope: &Envelope| {
            envelope.requests.len() * BATCH_ENVELOPES_MAX > BATCH_REQUESTS_MAX
                || envelope.len() * BATCH_ENVELOPES_MAX > BATCH_BYTES_MAX
        };
        let mut known = (1..).zip(self.knows.envelopes.values());
        if let Some((choice, _)) = known.find(|(_, envelope)| too_much(envelope)) {
            self.add(lies, "order-oversize", view, slot, choice);
        }
    }

    fn add_votes(&self, view: View, lies: &mut Vec<Lie>) {
        let low = self.knows.stable.slot();
        for (link, _) in self.knows.links(view).filter(|(link, _)| link.slot > low) {
            for kind in ["vote", "vote-other", "commit", "commit-other"] {
                self.add(lies, kind, view, link.slot, 0);
            }
        }
    }

    fn add_changes(&self, view: View, lies: &mut Vec<Lie>) {
        let asked = self.knows.asks.iter().filter(|(id, ask)| **id != self.me && ask.0 >= view);
        if view == View(0) || asked.count() + 1 < self.table.weak {
            return;
        }
        for kind in ["view-change-empty", "view-change-short", "view-change-other"] {
            self.add(lies, kind, view, Slot(0), 0);
        }
        for choice in 0..2 {
            self.add(lies, "view-change", view, Slot(0), choice);
            self.add(lies, "view-change-stale", view, Slot(0), choice);
        }
    }

    /// Sets of so many of the VIEW-CHANGEs for a view, as masks of their authors.
    fn sets(&self, view: View, size: usize) -> Vec<u64> {
        let known = self.knows.changes.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
        let authors: u64 = known.fold(0, |mask, ((_, id), _)| mask | 1 << (id.0 % 64));
        if (authors.count_ones() as usize) < size {
            return Vec::new();
        }
        let n = self.membership.n().min(16) as u32;
        let fits = |set: &u64| set & !authors == 0 && set.count_ones() as usize == size;
        (1..1u64 << n).filter(fits).take(SETS_MAX).collect()
    }

    fn add_openings(&self, view: View, lies: &mut Vec<Lie>) {
        if view == View(0) || !self.leads(view) {
            return;
        }
        for set in self.sets(view, self.table.members) {
            self.add(lies, "new-view", view, Slot(0), set);
        }
        for set in self.sets(view, self.table.weak) {
            self.add(lies, "new-view-few", view, Slot(0), set);
        }
        for set in self.sets(View(view.0 - 1), self.table.members) {
            self.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &dyn Hand) -> Option<Message> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "order" | "order-again" | "order-skip" | "order-elsewhere" | "order-future"
            | "order-oversize" => {
                let parent = self.parent(kind, view, slot)?;
                let proposal = Arc::new(self.proposal(kind, choice)?);
                Message::Order { view, slot, parent, proposal }
            }
            "vote" | "commit" | "vote-other" | "commit-other" => {
                let link = self.knows.links(view).find(|(link, _)| link.slot == slot)?.0;
                let other = kind.ends_with("other");
                let history = if other { self.other_history(link) } else { link.history() };
                let place = Place { view, slot, history };
                if kind.starts_with("vote") { Message::Vote(place) } else { Message::Commit(place) }
            }
            "ask" => Message::RequestViewChange { view },
            "new-view" | "new-view-few" => self.new_view(view, view, choice),
            "new-view-stale" => self.new_view(view, View(view.0 - 1), choice),
            "confirm" | "confirm-other" | "confirmed-alone" => self.agree(kind, view, hand)?,
            "checkpoint" => {
                let known = self.knows.states.keys().find(|(at, ..)| *at == slot)?;
                Message::Checkpoint { slot, history: known.1, state: known.2 }
            }
            "checkpoint-false" => {
                let known = self.knows.states.keys().find(|(at, ..)| *at == slot)?;
                Message::Checkpoint { slot, history: known.1, state: Digest::of(b"a lie") }
            }
            "stable-false" => Message::Stable(self.alone(slot, hand)),
            "misbehaviour-false" => self.accusation(view)?,
            "body" => {
                let wanted = self.knows.wanted.iter().nth(usize::try_from(choice).ok()?)?;
                Message::Body(self.knows.proposals.get(wanted)?.clone())
            }
            "report" => Message::Report(Report { view, entered: true, ..Report::default() }),
            _ => Message::ViewChange(Arc::new(self.view_change(kind, view, choice, hand))),
        })
    }

    /// The history behind which an order comes.
    fn parent(&self, kind: &str, view: View, slot: Slot) -> Option<Digest> {
        let (last, history) = self.knows.tip(view);
        let chain = self.knows.chain(view, false);
        let before = || match chain.len().checked_sub(2) {
            Some(index) => chain[index].history(),
            None => self.knows.stable.history,
        };
        match kind {
            "order-again" if slot == last && !chain.is_empty() => Some(before()),
            "order-again" => None,
            "order-elsewhere" => Some(before()),
            _ => Some(history),
        }
    }

    fn proposal(&self, kind: &str, choice: u64) -> Option<Proposal> {
        let index = choice.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let envelope = index.map(|index| self.knows.envelopes.values().nth(index));
        let items = match envelope {
            Some(known) if kind == "order-oversize" => {
                vec![Item::Named(known?.digest); BATCH_ENVELOPES_MAX]
            }
            Some(known) => vec![Item::Whole(known?.clone())],
            None => Vec::new(),
        };
        let future = kind == "order-future";
        let time = if future { Millis(u64::MAX / 2) } else { self.knows.time };
        Some(Proposal::new(time, items))
    }

    fn other_batch(&self, right: Digest) -> Digest {
        let other = self.knows.proposals.keys().find(|digest| **digest != right);
        other.copied().unwrap_or_default()
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
        let (history, state) = (Digest::of(b"no history"), Digest::of(b"a lie"));
        let named = mark(&history, &state);
        let statement = checkpoint_statement(&self.membership.domain(), slot, &named);
        let signature = Signature(hand.sign(&statement));
        let ids = self.membership.ids().take(self.table.quorum);
        let signatures = ids.map(|id| (id, signature)).collect();
        Stable { proof: CheckpointProof { slot, state: named, signatures }, history, state }
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
        let statement = request_statement(&self.membership.domain(), view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.knows.asks.iter().filter(|(id, ask)| **id != self.me && ask.0 >= view);
        let others = others.map(|(id, ask)| (*id, *ask));
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
        let stable = self.knows.stable.clone();
        ViewChange { view, requests, stable, entry, certificate, batches }
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
        let Ok((author, tag, message)) = decode(wire) else { return };
        if self.membership.contains(author) {
            self.knows.note(self.me, author, &tag, &message);
        }
    }

    fn hear_request(&mut self, envelope: &Arc<Envelope>) {
        self.knows.note_envelope(envelope);
    }

    fn lies(&self) -> Vec<Lie> {
        let mut lies = Vec::new();
        for view in self.views() {
            if self.leads(view) && (view == View(0) || self.knows.openings.contains_key(&view)) {
                self.add_orders(view, &mut lies);
            }
            self.add_votes(view, &mut lies);
            self.add_changes(view, &mut lies);
            self.add_openings(view, &mut lies);
            if self.knows.openings.contains_key(&view) {
                for kind in ["confirm", "confirm-other", "confirmed-alone"] {
                    self.add(&mut lies, kind, view, Slot(0), 0);
                }
            }
            if view > View(0) && view >= self.knows.highest {
                self.add(&mut lies, "ask", view, Slot(0), 0);
            }
            self.add(&mut lies, "misbehaviour-false", view, Slot(0), 0);
        }
        for (slot, ..) in self.knows.states.keys() {
            for kind in ["checkpoint", "checkpoint-false", "stable-false"] {
                self.add(&mut lies, kind, View(0), *slot, 0);
            }
        }
        for (choice, batch) in (0..).zip(&self.knows.wanted) {
            if self.knows.proposals.contains_key(batch) {
                self.add(&mut lies, "body", View(0), Slot(0), choice);
            }
        }
        self.add(&mut lies, "report", self.knows.highest, Slot(0), 0);
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
        let message = self.compose(lie, hand)?;
        let digest = message.statement(&self.membership.domain());
        let tag = match message.auth() {
            Auth::Channel => AuthTag::Channel,
            Auth::Signature => AuthTag::Signature(hand.sign(&digest)),
            Auth::Usig(_) => return None,
        };
        self.remember(lie);
        let mut to = Writer::default();
        self.me.encode(&mut to);
        tag.encode(&mut to);
        message.encode(&mut to);
        let wire = to.into_bytes();
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
