//! What a lying PBFT replica can say: [`Byzantine`] hears what others say and makes of it what its
//! own key and device can make convincing. The interface by which searches use it is
//! [`pentarchy_core::forge`]. It holds no secret: signatures and MACs come from a [`Hand`].
//!
//! | lie | what it says |
//! | --- | --- |
//! | `pre-prepare` | as primary: no request (`choice` 0) or the `choice`-th envelope it knows |
//! | `pre-prepare-again` | another batch in the same slot |
//! | `pre-prepare-skip` | the same, leaving out a slot |
//! | `pre-prepare-future` | a batch whose time has not come |
//! | `pre-prepare-oversize` | names so many envelopes that the batch is past the limits |
//! | `pre-prepare-names-small` | names an envelope that should travel inside |
//! | `pre-prepare-rewritten` | any primary's PRE-PREPARE, with its envelopes only named |
//! | `prepare`, `commit` | what the slot orders, whether it has proof or has left the view |
//! | `prepare-other`, `commit-other` | another batch |
//! | `view-change` | shows every certificate that it knows |
//! | `view-change-empty` | shows none |
//! | `view-change-stale` | shows for each slot the certificate of the lowest view |
//! | `view-change-forged` | shows one of another batch, with the proof of the right one |
//! | `view-change-alone` | where one key checks all: its own vote under every name |
//! | `new-view` | as primary: any quorum of VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-few` | as primary: `f + 1` of them |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `new-view-forged` | a quorum of which itself claims what it has no proof of |
//! | `new-view-unproven` | the same in the last slot, and without any proof of it |
//! | `stable-false` | a checkpoint that only it signed |
//!
//! And what can be told in every protocol ([`crate::common::lies`]).
//!
//! To whom a lie is sent, and how often, is up to who uses this.

mod knowledge;

use super::certificate::{Claim, Claims, Member, NewView, Prepared, Start, ViewChange};
use super::message::{Message, Shared};
use super::seal::Seal;
use super::statements::{STATEMENTS, prepare_statement};
use crate::common::certificate::CheckpointProof;
use crate::common::lies::{Made, Told, authenticate, false_state, sets, vouched_alone};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use knowledge::Knowledge;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::authored::{decode, encode};
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::request::Envelope;

/// VIEW-CHANGEs that it can tell.
const VIEW_CHANGES: [&str; 5] = [
    "view-change",
    "view-change-empty",
    "view-change-stale",
    "view-change-forged",
    "view-change-alone",
];

/// See the head of this file.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Byzantine<S> {
    me: ReplicaId,
    membership: Membership,
    knows: Knowledge<S>,
    told: Told,
}

impl<S: Seal> Byzantine<S> {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        let knows = Knowledge::at(membership.base);
        Self { me, membership: membership.clone(), knows, told: Told::default() }
    }

    /// The same behind the interface.
    #[must_use]
    pub fn boxed(me: ReplicaId, membership: &Membership) -> Box<dyn Forger> {
        Box::new(Self::new(me, membership))
    }

    fn leads(&self, view: View) -> bool {
        self.membership.primary(view) == self.me
    }

    fn quorum(&self) -> usize {
        self.membership.quorums().byzantine_quorum()
    }

    fn add_proposals(&self, view: View, lies: &mut Vec<Lie>) {
        let last = self.knows.last_slot(view);
        let slot = last.next();
        let choices = self.knows.heard.choices();
        for choice in 0..=choices {
            self.told.add(lies, "pre-prepare", view, slot, choice);
            self.told.add(lies, "pre-prepare-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.told.add(lies, "pre-prepare-skip", view, slot.next(), choice);
        }
        self.told.add(lies, "pre-prepare-future", view, slot, 0);
        for choice in 1..=choices {
            self.told.add(lies, "pre-prepare-names-small", view, slot, choice);
        }
        if self.knows.heard.knows_too_much() {
            self.told.add(lies, "pre-prepare-oversize", view, slot, 0);
        }
    }

    fn add_votes(&self, view: View, lies: &mut Vec<Lie>) {
        for (slot, _) in
            self.knows.slots(view).filter(|(slot, _)| *slot > self.knows.heard.checkpoint.slot)
        {
            for kind in ["prepare", "prepare-other", "commit", "commit-other"] {
                self.told.add(lies, kind, view, slot, 0);
            }
        }
    }

    fn add_changes(&self, view: View, lies: &mut Vec<Lie>) {
        let asked = self.knows.heard.others_asking(self.me, view);
        if view == View(0) || asked.count() + 1 < self.membership.quorums().weak() {
            return;
        }
        let kinds = VIEW_CHANGES.into_iter().filter(|kind| S::ONE_KEY || !kind.ends_with("-alone"));
        for kind in kinds {
            self.told.add(lies, kind, view, Slot(0), 0);
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
        for set in self.sets(view, self.quorum()) {
            self.told.add(lies, "new-view", view, Slot(0), set);
            self.told.add(lies, "new-view-forged", view, Slot(0), set);
            self.told.add(lies, "new-view-unproven", view, Slot(0), set);
        }
        for set in self.sets(view, self.membership.quorums().weak()) {
            self.told.add(lies, "new-view-few", view, Slot(0), set);
        }
        for set in self.sets(View(view.0 - 1), self.quorum()) {
            self.told.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &mut dyn Hand) -> Option<Message<S>> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "pre-prepare"
            | "pre-prepare-again"
            | "pre-prepare-skip"
            | "pre-prepare-future"
            | "pre-prepare-oversize"
            | "pre-prepare-names-small" => {
                let proposal = Arc::new(self.knows.heard.proposal(kind, choice)?);
                Message::PrePrepare { view, slot, proposal }
            }
            "prepare" | "commit" | "prepare-other" | "commit-other" => {
                let right = self.knows.slots(view).find(|(at, _)| *at == slot)?.1;
                let batch = if kind.ends_with("other") {
                    self.knows.heard.other_batch(right)?
                } else {
                    right
                };
                if kind.starts_with("prepare") {
                    Message::Prepare { view, slot, batch }
                } else {
                    Message::Commit { view, slot, batch }
                }
            }
            "new-view" | "new-view-few" => self.new_view(view, view, choice, None),
            "new-view-stale" => self.new_view(view, View(view.0 - 1), choice, None),
            "new-view-forged" | "new-view-unproven" => {
                self.new_view(view, view, choice, Some((kind, hand)))
            }
            "stable-false" => Message::Shared(Shared::Stable(self.alone(slot, hand))),
            kind if VIEW_CHANGES.contains(&kind) => {
                Message::ViewChange(Arc::new(self.view_change(kind, view, hand)))
            }
            _ => Message::Shared(self.knows.heard.compose(lie)?),
        })
    }

    /// A checkpoint that nobody else signed, with its signature as often as it takes.
    fn alone(&self, slot: Slot, hand: &dyn Hand) -> CheckpointProof {
        let about = (slot, false_state());
        vouched_alone((&STATEMENTS, &self.membership), about, self.quorum(), hand)
    }

    fn view_change(&self, kind: &str, view: View, hand: &mut dyn Hand) -> ViewChange<S> {
        let statement = STATEMENTS.request_view_change(&self.membership.domain(), view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.knows.heard.others_asking(self.me, view);
        let weak = self.membership.quorums().weak();
        let requests = core::iter::once(own).chain(others).take(weak).collect();
        let checkpoint = self.knows.heard.checkpoint.clone();
        let lowest = kind == "view-change-stale";
        let mut proven = self.knows.certificates(view, self.quorum(), lowest);
        match kind {
            "view-change-empty" => proven.clear(),
            "view-change-forged" => self.falsify(&mut proven),
            "view-change-alone" => self.vote_alone(&mut proven, view, hand),
            _ => {}
        }
        let stable = checkpoint.slot;
        let prepared = proven.values().map(|it| it.claim).collect();
        let proofs = proven.into_values().map(|it| it.seals).collect();
        ViewChange { claims: Claims { view, stable, prepared }, requests, checkpoint, proofs }
    }

    /// Has the last certificate name another batch.
    fn falsify(&self, proven: &mut BTreeMap<Slot, Prepared<S>>) {
        if let Some(mut last) = proven.last_entry() {
            let claim = &mut last.get_mut().claim;
            claim.batch = self.knows.heard.other_batch(claim.batch).unwrap_or_default();
        }
    }

    /// Makes a certificate of another batch in the first slot, of the last view before this one,
    /// out of its own vote under the names of a quorum.
    fn vote_alone(
        &self,
        proven: &mut BTreeMap<Slot, Prepared<S>>,
        view: View,
        hand: &mut dyn Hand,
    ) {
        let Some(mut first) = proven.first_entry() else { return };
        let Prepared { claim, seals } = first.get_mut();
        claim.batch = self.knows.heard.other_batch(claim.batch).unwrap_or_default();
        claim.view = View(view.0.saturating_sub(1));
        let domain = self.membership.domain();
        let vote = prepare_statement(&domain, claim.view, claim.slot, &claim.batch);
        if let Some(seal) = S::made(hand, self.membership.instance(), &vote) {
            let names = self.membership.ids().take(self.quorum());
            *seals = names.map(|id| (id, seal)).collect();
        }
    }

    /// A NEW-VIEW of these VIEW-CHANGEs; with a hand, of which the own claims more than it may.
    fn new_view(
        &self,
        view: View,
        of: View,
        set: u64,
        forge: Option<(&str, &mut dyn Hand)>,
    ) -> Message<S> {
        let chosen = |id: &ReplicaId| set & (1 << (id.0 % 64)) != 0;
        let ids = self.membership.ids().filter(chosen);
        let known: Vec<_> = ids.filter_map(|id| self.knows.changes.get(&(of, id))).collect();
        let mut members: Vec<Member<S>> = known.iter().map(|(member, _)| member.clone()).collect();
        let mut is_unproven = false;
        if let Some((kind, hand)) = forge {
            is_unproven = kind == "new-view-unproven";
            let claimed = members.iter().flat_map(|member| &member.claims.prepared);
            let last = claimed.map(|claim| claim.slot).max().filter(|_| is_unproven);
            self.overclaim(view, last, &mut members, hand);
        }
        let start = Start::of(members.iter().map(|member| &*member.claims));
        let proof = |claim: &Claim| {
            let votes = self.knows.votes.get(&(claim.view, claim.slot, claim.batch));
            let votes = votes.into_iter().flatten().map(|(id, seal)| (*id, *seal));
            votes.take(self.quorum()).collect()
        };
        let mut proofs: Vec<_> = start.list.iter().flatten().map(proof).collect();
        if is_unproven {
            proofs.pop();
        }
        let proven = known.iter().map(|(_, change)| &change.checkpoint);
        let checkpoint = proven.max_by_key(|proof| proof.slot);
        let checkpoint = checkpoint.unwrap_or(&self.knows.heard.checkpoint).clone();
        Message::NewView(Arc::new(NewView { view, members, checkpoint, proofs }))
    }

    /// Has its own member claim another batch, voted for in the view before, in its first slot or
    /// in this one.
    fn overclaim(
        &self,
        view: View,
        at: Option<Slot>,
        members: &mut [Member<S>],
        hand: &mut dyn Hand,
    ) {
        let Some(own) = members.iter().position(|member| member.author == self.me) else { return };
        // Of two claims of one view the first one counts.
        members.swap(0, own);
        let own = &mut members[0];
        let mut claims = Claims::clone(&own.claims);
        let slot = at.unwrap_or(claims.stable.next());
        let batch = self.knows.heard.proposals.keys().next().copied().unwrap_or_default();
        let claim = Claim { slot, view: View(view.0.saturating_sub(1)), batch };
        claims.prepared.retain(|known| known.slot != slot);
        claims.prepared.push(claim);
        claims.prepared.sort_by_key(|claim| claim.slot);
        let statement = claims.statement(&self.membership.domain());
        if let Some(seal) = S::made(hand, self.membership.instance(), &statement) {
            own.seal = seal;
        }
        own.claims = Arc::new(claims);
    }
}

impl<S: Seal> Forger for Byzantine<S> {
    fn hear(&mut self, wire: &Bytes) {
        let Ok((author, tag, message)) = decode::<Message<S>>(wire) else { return };
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
            for slot in self.knows.heard.rewritable(view) {
                self.told.add(&mut lies, "pre-prepare-rewritten", view, slot, 0);
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
        if lie.kind == "pre-prepare-rewritten" {
            let Made { author, tag, proposal } = self.knows.heard.rewrite(lie.view, lie.slot)?;
            self.told.remember(lie);
            let message = Message::<S>::PrePrepare { view: lie.view, slot: lie.slot, proposal };
            return Some(encode(author, &tag, &message));
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
