//! The synchronisation phase: ask, leave, open, enter (*From Byzantine Consensus to BFT State
//! Machine Replication*, section 4.3, with the repairs that `docs/protocols/modsmart.md` argues
//! for).

use super::certificate::{Member, NewView, ViewChange, members_needed};
use super::claims::{Claims, SlotClaim, Written};
use super::message::Message;
use super::record::Record;
use super::replica::{ModSmart, OwnMessages, Phase};
use super::signed_writes::SignedWrites;
use super::slot::{Round, SlotState};
use super::start::{Left, Start};
use super::variant::Variant;
use crate::common::frame::changing::Changing;
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Finality as _};
use crate::common::seal::Seal;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::quorum::Quorums;

/// A VIEW-CHANGE, with its author and signature.
type Shown<S> = (ReplicaId, S, Arc<ViewChange>);

impl<V: Variant> ChangesViews for ModSmart<V> {
    fn taken_over(&self) -> Slot {
        self.start.end()
    }

    fn leave_for(&mut self, view: View, out: &mut Effects<Self>) {
        self.move_to(view, out);
        self.leave(out);
    }

    fn awaits_opening(&self) -> bool {
        self.phase == Phase::Changing
    }

    /// From all VIEW-CHANGEs that came, or from fewer: whoever shows a lock whose batch nobody
    /// supplies is left out, as a correct replica that has a lock has the batch. More of them never
    /// leave more open.
    fn try_open(&mut self, out: &mut Effects<Self>) {
        let quorums = self.frame.membership.quorums();
        let mine = self.frame.leads(self.frame.view);
        if self.phase != Phase::Changing || !mine {
            return;
        }
        let mut shown = self.shown();
        let start = loop {
            if shown.len() < members_needed(quorums) {
                return;
            }
            let Some(start) = start_of::<V>(&shown, quorums) else { return };
            let Some((slot, lacking)) = self.lacking(&start) else { break start };
            if mutant!("modsmart.waits-for-bound-body") {
                return;
            }
            mark!("modsmart/left_out");
            shown.retain(|(_, _, change)| change.claims.lock(slot) != Some(lacking));
        };
        if mutant!("modsmart.waits-for-uncertified-body") && self.lacks_claimed(&shown) {
            return;
        }
        let Some(opening) = prove(self.frame.view, &shown, &start, quorums.weak()) else { return };
        mark!("modsmart/open");
        self.phase = Phase::Opening;
        let opening = Arc::new(opening);
        self.own.opened = Some(opening.clone());
        // The window first: after a crash, this replica reads no batches back from outside it.
        if !mutant!("modsmart-cft.opens-outside-its-window") {
            self.adopt(opening.checkpoint.clone(), out);
        }
        if !mutant!("modsmart-cft.opened-from-memory") {
            self.persist_bound(&start, out);
        }
        out.persist(Record::Open(opening.clone()));
        out.send(To::All, Message::NewView(opening));
    }
}

impl<V: Variant> ModSmart<V> {
    /// Gives up every lower view.
    pub(super) fn move_to(&mut self, view: View, out: &mut Effects<Self>) {
        self.frame.move_to(view, self.last_final(), out);
        self.phase = Phase::Changing;
        self.own = OwnMessages::default();
        let needed = self.needed();
        self.frame.bodies.retain_wanted(|digest| needed.contains(digest));
    }

    /// The batches that some slot may need.
    fn needed(&self) -> BTreeSet<Digest> {
        self.window.iter().flat_map(|(_, state)| state.batches()).collect()
    }

    /// Sends VIEW-CHANGE: what this replica wrote and locked, in whatever view that was.
    pub(super) fn leave(&mut self, out: &mut Effects<Self>) {
        let most = if mutant!("modsmart.collects-one-slot") { 1 } else { usize::MAX };
        let known = || self.window.iter().filter(|(_, state)| knows(state)).take(most);
        let asked = if V::WRITES { self.frame.weak() } else { 0 };
        let claims = Claims {
            view: self.frame.view,
            stable: self.frame.stable.slot,
            slots: known().map(|(slot, state)| claim(slot, state)).collect(),
        };
        let change = ViewChange {
            claims,
            requests: self.frame.view_requests.proof(self.frame.view, asked),
            checkpoint: self.frame.stable.clone(),
            proofs: known().filter_map(|(slot, state)| proof(slot, state)).collect(),
        };
        let change = Arc::new(change);
        self.own.left = Some(change.clone());
        if !mutant!("modsmart.leaving-not-in-log") {
            out.persist(Record::Leave(change.clone()));
        }
        out.send(To::All, Message::ViewChange(change));
    }

    /// Where nobody lies whoever left had a reason to: who hears of it follows.
    pub(super) fn on_view_change(
        &mut self,
        verified: Verified<Message<V>>,
        change: &ViewChange,
        out: &mut Effects<Self>,
    ) {
        let view = change.claims.view;
        if !V::WRITES && view > self.frame.view {
            mark!("modsmart/followed");
            self.frame.reason = "another replica had left";
            self.leave_for(view, out);
        }
        self.on_leaving(verified, view, &change.requests, out);
    }

    /// The VIEW-CHANGEs for its view that came.
    fn shown(&self) -> Vec<Shown<V::Seal>> {
        let shown = self.frame.view_changes.values();
        let parts = shown.filter_map(|verified| {
            let seal = V::Seal::of(&verified.tag)?;
            match &*verified.message {
                Message::ViewChange(change) => Some((verified.author, seal, change.clone())),
                _ => None,
            }
        });
        parts.collect()
    }

    /// Keeps the batches that a view takes over. In crash mode one other replica may be all that
    /// has one of them, and lose it after this view was opened.
    pub(super) fn persist_bound(&mut self, start: &Start, out: &mut Effects<Self>) {
        let low = self.frame.stable.slot;
        for (slot, bound) in start.bound().filter(|(slot, _)| *slot > low) {
            self.frame.persist_body(slot, &bound.batch, out);
        }
    }

    /// A lock that binds and whose batch is not here; wants all such.
    fn lacking(&mut self, start: &Start) -> Option<(Slot, Written)> {
        let low = self.frame.stable.slot;
        let mut first = None;
        for (slot, bound) in start.bound().filter(|(slot, _)| *slot > low) {
            self.frame.bodies.want_or_know(slot, bound.batch);
            if self.frame.bodies.get(&bound.batch).is_none() {
                first = first.or(Some((slot, bound)));
            }
        }
        first
    }

    fn lacks_claimed(&mut self, shown: &[Shown<V::Seal>]) -> bool {
        let claims = shown.iter().flat_map(|(_, _, change)| &change.claims.slots);
        let (low, mut lacks) = (self.frame.stable.slot, false);
        for claim in claims.filter(|it| it.slot > low) {
            for written in claim.lock.iter().chain(&claim.writes) {
                self.frame.bodies.want_or_know(claim.slot, written.batch);
                lacks |= self.frame.bodies.get(&written.batch).is_none();
            }
        }
        lacks
    }

    pub(super) fn on_new_view(
        &mut self,
        verified: Verified<Message<V>>,
        opening: &NewView<V::Seal>,
        out: &mut Effects<Self>,
    ) {
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        if opening.view > self.frame.view {
            // The others went on without this replica. The NEW-VIEW proves that enough did.
            mark!("modsmart/joined");
            self.frame.reason = "the group had moved on";
            self.move_to(opening.view, out);
        }
        self.adopt(opening.checkpoint.clone(), out);
        mark!("modsmart/enter");
        if !mutant!("modsmart.entry-not-in-log") {
            out.persist(Record::Enter(verified.clone()));
        }
        self.enter(verified, opening);
        self.frame.note_entered(self.last_final(), out);
        for verified in core::mem::take(&mut self.frame.early).into_values() {
            self.on_message(verified, out);
        }
        self.advance(out);
        if !self.frame.bodies.is_complete() {
            self.frame.ask_missing(To::One(self.frame.membership.primary(self.frame.view)), out);
        }
        self.frame.object_to_liar(out);
    }

    /// The view of a NEW-VIEW begins: slots that it takes over order what follows from it,
    /// everything else begins anew. What was locked, written and decided stays.
    pub(super) fn enter(&mut self, verified: Verified<Message<V>>, opening: &NewView<V::Seal>) {
        let start = opening.start::<V>(self.frame.membership.quorums());
        self.start = start.expect("what leaves a slot open is not valid");
        (self.frame.entered, self.phase) = (opening.view, Phase::Entered);
        self.opening = Some(verified);
        self.own = OwnMessages::default();
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            state.round = Round { candidate: state.chosen, ..Round::default() };
            if mutant!("modsmart.forgets-shown-writes") {
                state.writes.clear();
            }
            if mutant!("modsmart.lock-not-kept") {
                state.lock = None;
            }
        }
        self.frame.next_slot = self.frame.stable.slot.next();
        let taken_over: Vec<(Slot, Digest)> = self.start.batches().collect();
        for (slot, batch) in taken_over.iter().filter(|_| !mutant!("modsmart.nothing-taken-over")) {
            if let Some(state) = self.window.get_mut(*slot) {
                state.round.candidate = Some(*batch);
            }
        }
        let needed = self.needed();
        self.frame.bodies.retain(self.frame.stable.slot, |digest| needed.contains(digest));
        for (slot, batch) in taken_over {
            if self.window.contains(slot) {
                self.frame.bodies.want_or_know(slot, batch);
            }
        }
    }
}

fn knows<V: Variant>(state: &SlotState<V>) -> bool {
    state.lock.is_some() || !state.writes.is_empty()
}

fn claim<V: Variant>(slot: Slot, state: &SlotState<V>) -> SlotClaim {
    let lock = state.lock.as_ref().map(|lock| Written { view: lock.view, batch: lock.batch });
    let writes = state.writes.iter().map(|(batch, view)| Written { view, batch }).collect();
    SlotClaim { slot, lock, writes }
}

fn proof<V: Variant>(slot: Slot, state: &SlotState<V>) -> Option<SignedWrites> {
    let lock = state.lock.as_ref().filter(|lock| !lock.signatures.is_empty())?;
    let written = Written { view: lock.view, batch: lock.batch };
    Some(SignedWrites { slot, written, signatures: lock.signatures.clone() })
}

/// What follows from these VIEW-CHANGEs.
fn start_of<V: Variant>(shown: &[Shown<V::Seal>], quorums: Quorums) -> Option<Start> {
    let members: Vec<Left<'_>> = shown.iter().map(|(id, _, it)| (*id, &it.claims)).collect();
    let proofs = shown.iter().flat_map(|(_, _, change)| change.proofs.iter().cloned());
    let proofs: Vec<SignedWrites> = proofs.collect();
    Start::of::<V>(&members, &proofs, quorums)
}

/// A NEW-VIEW of these members, with what proves the locks that bind, from their own messages.
fn prove<S: Seal>(
    view: View,
    shown: &[Shown<S>],
    start: &Start,
    weak: usize,
) -> Option<NewView<S>> {
    let proof = |(slot, written): (Slot, Written)| {
        let all = shown.iter().flat_map(|(_, _, change)| &change.proofs);
        let proofs = all.filter(|it| it.slot == slot && it.written == written);
        let writers: BTreeMap<_, _> = proofs.flat_map(|it| it.signatures.iter().copied()).collect();
        let signatures: Vec<_> = writers.into_iter().take(weak).collect();
        (!signatures.is_empty()).then_some(SignedWrites { slot, written, signatures })
    };
    let member = |(author, seal, change): &Shown<S>| Member {
        author: *author,
        seal: *seal,
        claims: Arc::new(change.claims.clone()),
    };
    let checkpoint = shown.iter().map(|(_, _, change)| &change.checkpoint);
    let checkpoint = checkpoint.max_by_key(|proof| proof.slot)?.clone();
    let proofs = start.bound().filter_map(proof).collect();
    Some(NewView { view, members: shown.iter().map(member).collect(), checkpoint, proofs })
}
