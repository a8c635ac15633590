//! What a lying Mod-SMaRt replica can say: [`Byzantine`] hears what others say and makes of it what
//! its own key can make convincing. The interface by which searches use it is
//! [`pentarchy_core::forge`]. It holds no secret: signatures come from a [`Hand`].
//!
//! | lie | what it says |
//! | --- | --- |
//! | `propose` | as primary: no request (`choice` 0) or the `choice`-th envelope it knows |
//! | `propose-again` | another batch in the same slot |
//! | `propose-skip` | the same, leaving out a slot |
//! | `propose-future` | a batch whose time has not come |
//! | `propose-oversize` | names so many envelopes that the batch is past the limits |
//! | `propose-names-small` | names an envelope that should travel inside |
//! | `propose-signed` | signs what need not be signed |
//! | `write`, `accept`, `decided` | what others wrote, held or not, in its view or not |
//! | `write-signed` | the same, signed although that is not needed |
//! | `write-other`, `accept-other`, `decided-other` | another batch |
//! | `view-change` | shows for each slot what others wrote last, as its lock and as written |
//! | `view-change-empty` | shows nothing |
//! | `view-change-stale` | shows for each slot what others wrote first |
//! | `view-change-lock` | shows a lock of the last view that is invented, of a real batch |
//! | `view-change-unheld` | shows locks and writes of batches that nobody has |
//! | `view-change-far` | the same at the end of the window |
//! | `view-change-signed` | shows a lock of what nobody has, with its own signed WRITE |
//! | `new-view` | as primary: all but `f` of the VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-few` | as primary: one less |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `new-view-mine` | as `new-view`, with its own VIEW-CHANGE changed into a lie |
//! | `stable-false` | a checkpoint that only it signed |
//!
//! And what can be told in every protocol ([`crate::common::lies`]).
//!
//! To whom a lie is sent, and how often, is up to who uses this.

mod knowledge;
mod leaving;

use super::message::{Message, Shared};
use super::statements::STATEMENTS;
use super::variant::{Variant, Windowed};
use crate::common::certificate::CheckpointProof;
use crate::common::lies::{Told, authenticate, false_state, sets, vouched_alone};
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use core::marker::PhantomData;
use knowledge::Knowledge;
use leaving::VIEW_CHANGES;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::authored::{decode, encode};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;

/// Votes that it can cast.
const VOTES: [&str; 7] =
    ["write", "write-signed", "write-other", "accept", "accept-other", "decided", "decided-other"];

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine<V: Variant<Seal = Signature> = Windowed> {
    me: ReplicaId,
    membership: Membership,
    knows: Knowledge,
    told: Told,
    variant: PhantomData<V>,
}

impl<V: Variant<Seal = Signature>> Byzantine<V> {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        let knows = Knowledge::at(membership.base, membership.quorums());
        Self {
            me,
            membership: membership.clone(),
            knows,
            told: Told::default(),
            variant: PhantomData,
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

    fn add_proposals(&self, view: View, lies: &mut Vec<Lie>) {
        let last = self.knows.last_slot(view);
        let slot = last.next();
        let choices = self.knows.heard.choices();
        for choice in 0..=choices {
            self.told.add(lies, "propose", view, slot, choice);
            self.told.add(lies, "propose-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.told.add(lies, "propose-skip", view, slot.next(), choice);
            self.told.add(lies, "propose-names-small", view, slot, choice);
            self.told.add(lies, "propose-signed", view, slot, choice);
        }
        self.told.add(lies, "propose-future", view, slot, 0);
        if self.knows.heard.knows_too_much() {
            self.told.add(lies, "propose-oversize", view, slot, 0);
        }
    }

    fn add_votes(&self, view: View, lies: &mut Vec<Lie>) {
        let low = self.knows.heard.checkpoint.slot;
        for (slot, _) in self.knows.slots(view).filter(|(slot, _)| *slot > low) {
            VOTES.iter().for_each(|kind| self.told.add(lies, kind, view, slot, 0));
        }
    }

    fn add_changes(&self, view: View, lies: &mut Vec<Lie>) {
        let asked = self.knows.heard.others_asking(self.me, view);
        if view == View(0) || asked.count() + 1 < self.membership.quorums().weak() {
            return;
        }
        VIEW_CHANGES.iter().for_each(|kind| self.told.add(lies, kind, view, Slot(0), 0));
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
        let needed = self.membership.n() - self.membership.f;
        for set in self.sets(view, needed) {
            self.told.add(lies, "new-view", view, Slot(0), set);
            self.told.add(lies, "new-view-mine", view, Slot(0), set);
        }
        for set in self.sets(view, needed - 1) {
            self.told.add(lies, "new-view-few", view, Slot(0), set);
        }
        for set in self.sets(View(view.0 - 1), needed) {
            self.told.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &mut dyn Hand) -> Option<Message<V>> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            kind if kind.starts_with("propose") => {
                let proposal = Arc::new(self.knows.heard.proposal(kind, choice)?);
                Message::Propose { view, slot, proposal, signed: kind.ends_with("-signed") }
            }
            kind if VOTES.contains(&kind) => self.vote(kind, view, slot)?,
            "new-view" | "new-view-few" => self.new_view((view, view), choice, None),
            "new-view-stale" => self.new_view((view, View(view.0 - 1)), choice, None),
            "new-view-mine" => self.new_view((view, view), choice, Some(hand)),
            "stable-false" => Message::Shared(Shared::Stable(self.alone(slot, hand))),
            kind if VIEW_CHANGES.contains(&kind) => {
                Message::ViewChange(Arc::new(self.view_change(kind, view, hand)))
            }
            _ => Message::Shared(self.knows.heard.compose(lie)?),
        })
    }

    fn vote(&self, kind: &str, view: View, slot: Slot) -> Option<Message<V>> {
        let right = self.knows.slots(view).find(|(at, _)| *at == slot)?.1;
        let batch: Digest =
            if kind.ends_with("other") { self.knows.heard.other_batch(right)? } else { right };
        let signed = kind.ends_with("-signed");
        Some(match kind.split('-').next() {
            Some("write") => Message::Write { view, slot, batch, signed },
            Some("accept") => Message::Accept { view, slot, batch },
            _ => Message::Decided { slot, batch },
        })
    }

    /// A checkpoint that nobody else signed, with its signature as often as it takes.
    fn alone(&self, slot: Slot, hand: &dyn Hand) -> CheckpointProof {
        let about = (slot, false_state());
        vouched_alone(
            (&STATEMENTS, &self.membership),
            about,
            self.membership.quorums().byzantine_quorum(),
            hand,
        )
    }
}

impl<V: Variant<Seal = Signature>> Forger for Byzantine<V> {
    fn hear(&mut self, wire: &Bytes) {
        let Ok((author, tag, message)) = decode::<Message<V>>(wire) else { return };
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
                self.add_proposals(view, &mut lies);
            }
            self.add_votes(view, &mut lies);
            self.add_changes(view, &mut lies);
            self.add_openings(view, &mut lies);
            if view > View(0) && view >= self.knows.heard.highest {
                self.told.add(&mut lies, "ask", view, Slot(0), 0);
            }
        }
        let about_states = ["checkpoint", "checkpoint-false", "stable-false"];
        self.told.add_shared(&mut lies, &self.knows.heard, &about_states, View(0));
        lies
    }

    fn tell(&mut self, lie: &Lie, hand: &mut dyn Hand) -> Option<Bytes> {
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
