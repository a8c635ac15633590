//! What a lying PBFT replica can say: [`Byzantine`] hears what others say and makes of it what its
//! own key can make convincing. The interface by which searches use it is
//! [`pentarchy_core::forge`]. It holds no secret: signatures come from a [`Hand`]. It has no use
//! for its device.
//!
//! | lie | what it says |
//! | --- | --- |
//! | `pre-prepare` | as primary: no request (`choice` 0) or the `choice`-th envelope it knows |
//! | `pre-prepare-again` | another batch in the same slot |
//! | `pre-prepare-skip` | the same, leaving out a slot |
//! | `pre-prepare-future` | a batch whose time has not come |
//! | `pre-prepare-oversize` | one envelope named so often that the batch is past the limits |
//! | `prepare`, `commit` | what the slot orders, whether it has proof or has left the view |
//! | `prepare-other`, `commit-other` | another batch |
//! | `ask` | for a view, without cause |
//! | `view-change` | shows every certificate that it knows |
//! | `view-change-empty` | shows none |
//! | `view-change-stale` | shows for each slot the certificate of the lowest view |
//! | `view-change-forged` | shows one of another batch, with the proof of the right one |
//! | `new-view` | as primary: any quorum of VIEW-CHANGEs (`choice`: the set) |
//! | `new-view-few` | as primary: `f + 1` of them |
//! | `new-view-stale` | VIEW-CHANGEs for a lower view |
//! | `new-view-forged` | a quorum of which itself claims what it has no proof of |
//! | `checkpoint`, `checkpoint-false` | signs a state that others have, or none has |
//! | `stable-false` | a checkpoint that only it signed |
//! | `body` | gives a batch that somebody lacks |
//! | `report` | pretends to lack everything, so that others send it |
//!
//! To whom a lie is sent, and how often, is up to who uses this.

mod knowledge;

use super::certificate::{Claim, Claims, Member, NewView, Prepared, Start, ViewChange};
use super::message::{Message, Report, checkpoint_statement, request_statement};
use crate::common::certificate::CheckpointProof;
use alloc::boxed::Box;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use knowledge::Knowledge;
use pentarchy_core::Bytes;
use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::{Forger, Hand, Lie};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::{BATCH_BYTES_MAX, BATCH_ENVELOPES_MAX, BATCH_REQUESTS_MAX};
use pentarchy_core::membership::Membership;
use pentarchy_core::protocol::Message as _;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

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
    knows: Knowledge,
    told: BTreeSet<Lie>,
}

impl Byzantine {
    /// A liar that has heard nothing.
    #[must_use]
    pub fn new(me: ReplicaId, membership: &Membership) -> Self {
        let knows = Knowledge::at(membership.base);
        Self { me, membership: membership.clone(), knows, told: BTreeSet::new() }
    }

    /// The same behind the interface.
    #[must_use]
    pub fn boxed(me: ReplicaId, membership: &Membership) -> Box<dyn Forger> {
        Box::new(Self::new(me, membership))
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

    fn quorum(&self) -> usize {
        self.membership.quorums().byzantine_quorum()
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

    fn add_proposals(&self, view: View, lies: &mut Vec<Lie>) {
        let last = self.knows.last_slot(view);
        let slot = last.next();
        let choices = self.knows.envelopes.len().min(CHOICES_MAX) as u64;
        for choice in 0..=choices {
            self.add(lies, "pre-prepare", view, slot, choice);
            self.add(lies, "pre-prepare-again", view, last, choice);
        }
        for choice in 1..=choices {
            self.add(lies, "pre-prepare-skip", view, slot.next(), choice);
        }
        self.add(lies, "pre-prepare-future", view, slot, 0);
        let too_much = |envelope: &Envelope| {
            envelope.requests.len() * BATCH_ENVELOPES_MAX > BATCH_REQUESTS_MAX
                || envelope.len() * BATCH_ENVELOPES_MAX > BATCH_BYTES_MAX
        };
        let mut known = (1..).zip(self.knows.envelopes.values());
        if let Some((choice, _)) = known.find(|(_, envelope)| too_much(envelope)) {
            self.add(lies, "pre-prepare-oversize", view, slot, choice);
        }
    }

    fn add_votes(&self, view: View, lies: &mut Vec<Lie>) {
        for (slot, _) in
            self.knows.slots(view).filter(|(slot, _)| *slot > self.knows.checkpoint.slot)
        {
            for kind in ["prepare", "prepare-other", "commit", "commit-other"] {
                self.add(lies, kind, view, slot, 0);
            }
        }
    }

    fn add_changes(&self, view: View, lies: &mut Vec<Lie>) {
        let asked = self.knows.asks.iter().filter(|(id, ask)| **id != self.me && ask.0 >= view);
        if view == View(0) || asked.count() + 1 < self.membership.quorums().weak() {
            return;
        }
        for kind in ["view-change", "view-change-empty", "view-change-stale", "view-change-forged"]
        {
            self.add(lies, kind, view, Slot(0), 0);
        }
    }

    /// Sets of so many of the VIEW-CHANGEs for a view, as masks of their authors.
    fn sets(&self, view: View, size: usize) -> Vec<u64> {
        let known = self.knows.changes.range((view, ReplicaId(0))..=(view, ReplicaId(u16::MAX)));
        let authors: u64 = known.fold(0, |mask, ((_, id), _)| mask | 1 << (id.0 % 64));
        let n = self.membership.n().min(10) as u32;
        let fits = |set: &u64| set & !authors == 0 && set.count_ones() as usize == size;
        (1..1u64 << n).filter(fits).take(SETS_MAX).collect()
    }

    fn add_openings(&self, view: View, lies: &mut Vec<Lie>) {
        if view == View(0) || !self.leads(view) {
            return;
        }
        for set in self.sets(view, self.quorum()) {
            self.add(lies, "new-view", view, Slot(0), set);
            self.add(lies, "new-view-forged", view, Slot(0), set);
        }
        for set in self.sets(view, self.membership.quorums().weak()) {
            self.add(lies, "new-view-few", view, Slot(0), set);
        }
        for set in self.sets(View(view.0 - 1), self.quorum()) {
            self.add(lies, "new-view-stale", view, Slot(0), set);
        }
    }

    /// What a lie says, and how it must convince.
    fn compose(&self, lie: &Lie, hand: &dyn Hand) -> Option<Message> {
        let Lie { kind, view, slot, choice } = *lie;
        Some(match kind {
            "pre-prepare"
            | "pre-prepare-again"
            | "pre-prepare-skip"
            | "pre-prepare-future"
            | "pre-prepare-oversize" => {
                let proposal = Arc::new(self.proposal(kind, choice)?);
                Message::PrePrepare { view, slot, proposal }
            }
            "prepare" | "commit" | "prepare-other" | "commit-other" => {
                let right = self.knows.slots(view).find(|(at, _)| *at == slot)?.1;
                let batch = if kind.ends_with("other") { self.other(right)? } else { right };
                if kind.starts_with("prepare") {
                    Message::Prepare { view, slot, batch }
                } else {
                    Message::Commit { view, slot, batch }
                }
            }
            "ask" => Message::RequestViewChange { view },
            "new-view" | "new-view-few" => self.new_view(view, view, choice, None),
            "new-view-stale" => self.new_view(view, View(view.0 - 1), choice, None),
            "new-view-forged" => self.new_view(view, view, choice, Some(hand)),
            "checkpoint" => {
                let mut states = self.knows.states.keys().filter(|(at, _)| *at == slot);
                Message::Checkpoint { slot, state: states.next()?.1 }
            }
            "checkpoint-false" => Message::Checkpoint { slot, state: Digest::of(b"a lie") },
            "stable-false" => Message::Stable(self.alone(slot, hand)),
            "body" => {
                let wanted = self.knows.wanted.iter().nth(usize::try_from(choice).ok()?)?;
                Message::Body(self.knows.proposals.get(wanted)?.clone())
            }
            "report" => Message::Report(Report { view, entered: true, ..Report::default() }),
            _ => Message::ViewChange(Arc::new(self.view_change(kind, view, hand))),
        })
    }

    fn proposal(&self, kind: &str, choice: u64) -> Option<Proposal> {
        let index = choice.checked_sub(1).and_then(|index| usize::try_from(index).ok());
        let envelope = index.map(|index| self.knows.envelopes.values().nth(index));
        let items = match envelope {
            Some(known) if kind == "pre-prepare-oversize" => {
                vec![Item::Named(known?.digest); BATCH_ENVELOPES_MAX]
            }
            Some(known) => vec![Item::Whole(known?.clone())],
            None => Vec::new(),
        };
        let future = kind == "pre-prepare-future";
        let time = if future { Millis(u64::MAX / 2) } else { self.knows.time };
        Some(Proposal::new(time, items))
    }

    fn other(&self, right: Digest) -> Option<Digest> {
        self.knows.proposals.keys().find(|digest| **digest != right).copied()
    }

    /// A checkpoint that nobody else signed, with its signature as often as it takes.
    fn alone(&self, slot: Slot, hand: &dyn Hand) -> CheckpointProof {
        let state = Digest::of(b"a lie");
        let statement = checkpoint_statement(&self.membership.domain(), slot, &state);
        let signature = Signature(hand.sign(&statement));
        let signatures = self.membership.ids().take(self.quorum()).map(|id| (id, signature));
        CheckpointProof { slot, state, signatures: signatures.collect() }
    }

    fn view_change(&self, kind: &str, view: View, hand: &dyn Hand) -> ViewChange {
        let statement = request_statement(&self.membership.domain(), view);
        let own = (self.me, (view, Signature(hand.sign(&statement))));
        let others = self.knows.asks.iter().filter(|(id, ask)| **id != self.me && ask.0 >= view);
        let others = others.map(|(id, ask)| (*id, *ask));
        let weak = self.membership.quorums().weak();
        let requests = core::iter::once(own).chain(others).take(weak).collect();
        let checkpoint = self.knows.checkpoint.clone();
        let lowest = kind == "view-change-stale";
        let mut proven = self.knows.certificates(view, self.quorum(), lowest);
        match kind {
            "view-change-empty" => proven.clear(),
            "view-change-forged" => self.falsify(&mut proven),
            _ => {}
        }
        let stable = checkpoint.slot;
        let prepared = proven.values().map(|it| it.claim).collect();
        let proofs = proven.into_values().map(|it| it.signatures).collect();
        ViewChange { claims: Claims { view, stable, prepared }, requests, checkpoint, proofs }
    }

    /// Has the last certificate name another batch.
    fn falsify(&self, proven: &mut alloc::collections::BTreeMap<Slot, Prepared>) {
        if let Some(mut last) = proven.last_entry() {
            let claim = &mut last.get_mut().claim;
            claim.batch = self.other(claim.batch).unwrap_or_default();
        }
    }

    /// A NEW-VIEW of these VIEW-CHANGEs; with a hand, of which the own claims more than it may.
    fn new_view(&self, view: View, of: View, set: u64, forge: Option<&dyn Hand>) -> Message {
        let chosen = |id: &ReplicaId| set & (1 << (id.0 % 64)) != 0;
        let ids = self.membership.ids().filter(chosen);
        let known: Vec<_> = ids.filter_map(|id| self.knows.changes.get(&(of, id))).collect();
        let mut members: Vec<Member> = known.iter().map(|(member, _)| member.clone()).collect();
        if let Some(hand) = forge {
            self.overclaim(view, &mut members, hand);
        }
        let start = Start::of(members.iter().map(|member| &*member.claims));
        let proof = |claim: &Claim| {
            let votes = self.knows.votes.get(&(claim.view, claim.slot, claim.batch));
            let votes = votes.into_iter().flatten().map(|(id, signature)| (*id, *signature));
            votes.take(self.quorum()).collect()
        };
        let proofs = start.list.iter().flatten().map(proof).collect();
        let proven = known.iter().map(|(_, change)| &change.checkpoint);
        let checkpoint = proven.max_by_key(|proof| proof.slot);
        let checkpoint = checkpoint.unwrap_or(&self.knows.checkpoint).clone();
        Message::NewView(Arc::new(NewView { view, members, checkpoint, proofs }))
    }

    /// Has its own member claim another batch, voted for in the view before, in its first slot.
    fn overclaim(&self, view: View, members: &mut [Member], hand: &dyn Hand) {
        let Some(own) = members.iter_mut().find(|member| member.author == self.me) else { return };
        let mut claims = Claims::clone(&own.claims);
        let slot = claims.stable.next();
        let batch = self.knows.proposals.keys().next().copied().unwrap_or_default();
        let claim = Claim { slot, view: View(view.0.saturating_sub(1)), batch };
        claims.prepared.retain(|known| known.slot != slot);
        claims.prepared.insert(0, claim);
        own.signature = Signature(hand.sign(&claims.statement(&self.membership.domain())));
        own.claims = Arc::new(claims);
    }
}

/// Author, tag and content of a message.
pub(super) fn decode(wire: &Bytes) -> Result<(ReplicaId, AuthTag, Message), Malformed> {
    let mut from = Reader::new(wire);
    let (author, tag) = (ReplicaId::decode(&mut from)?, AuthTag::decode(&mut from)?);
    let message = Message::decode(&mut from)?;
    from.finish().map(|()| (author, tag, message))
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
                self.add_proposals(view, &mut lies);
            }
            self.add_votes(view, &mut lies);
            self.add_changes(view, &mut lies);
            self.add_openings(view, &mut lies);
            if view > View(0) && view >= self.knows.highest {
                self.add(&mut lies, "ask", view, Slot(0), 0);
            }
        }
        for (slot, _) in self.knows.states.keys() {
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
