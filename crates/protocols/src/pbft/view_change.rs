//! Changing the primary: ask, leave, open, enter (section 4.4, with the repairs that
//! `docs/protocols/pbft.md` argues for).

use super::certificate::{
    Claims, Member, NewView, Prepared, Start, ViewChange, members_needed, null,
};
use super::message::Message;
use super::record::Record;
use super::replica::{OwnMessages, Pbft, Phase, SlotState, Timer};
use crate::common::showing::Showing;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, To};

impl Pbft {
    /// Asks for a view. Goes on working in the current one until `f + 1` have asked.
    pub(super) fn ask(&mut self, view: View, reason: &'static str, out: &mut Effects<Self>) {
        let asked = self.asks.of(self.me).is_some_and(|asked| asked >= view);
        if !asked && !mutant!("pbft.never-asks") {
            self.reason = reason;
            out.send(To::All, Message::RequestViewChange { view });
            self.arm_resend(out);
        }
    }

    pub(super) fn on_request_view_change(
        &mut self,
        verified: &Verified<Message>,
        view: View,
        out: &mut Effects<Self>,
    ) {
        let Some(signature) = verified.tag.signature() else { return };
        if verified.author == self.me {
            self.own.ask = Some(verified.clone());
        }
        self.note_ask(verified.author, view, Signature(*signature));
        self.try_leave(out);
    }

    pub(super) fn note_ask(&mut self, author: ReplicaId, view: View, signature: Signature) {
        self.asks.note(author, view, signature, self.ticks);
    }

    /// Leaves for the highest view that `f + 1` replicas asked for.
    fn try_leave(&mut self, out: &mut Effects<Self>) {
        let fewer = usize::from(mutant!("pbft.leave-on-f-asks"));
        let Some(target) = self.asks.wanted_by(self.weak() - fewer) else { return };
        if target > self.view {
            mark!("pbft/leave");
            if self.asks.of(self.me).is_none_or(|asked| asked < target) {
                self.reason = "others asked for it";
            }
            self.move_to(target, out);
            self.leave(out);
        }
    }

    /// Forgets what others no longer ask for.
    pub(super) fn expire_asks(&mut self) {
        if self.phase == Phase::Entered {
            self.asks.expire(self.me, self.ticks);
        }
    }

    /// Stops asking for another view.
    pub(super) fn withdraw_ask(&mut self) {
        if self.own.ask.take().is_some() {
            self.asks.withdraw(self.me);
        }
    }

    /// Gives up every lower view.
    fn move_to(&mut self, view: View, out: &mut Effects<Self>) {
        if self.phase != Phase::Entered {
            mark!("pbft/view_failed");
            out.disarm(Timer::ViewChange(self.view));
        }
        (self.view, self.phase) = (view, Phase::Changing);
        self.pace.view_ended(self.now);
        self.doublings = self.doublings.saturating_add(1);
        self.view_changes_count += 1;
        self.view_changes.clear();
        self.early.clear();
        self.unheard.clear();
        self.drop_idle_wants(&Start::default());
        let ask = self.own.ask.take();
        self.own = OwnMessages { ask, ..OwnMessages::default() };
        self.arm_request_timer(out);
        self.arm_resend(out);
    }

    /// Stops wanting batches that no slot orders, no certificate names and no start takes over.
    fn drop_idle_wants(&mut self, start: &Start) {
        let ordered = self.window.iter().filter_map(|(_, state)| state.batch);
        let proven = self.certificates.values().map(|certificate| certificate.claim.batch);
        let taken_over = start.batches().map(|(_, batch)| batch);
        let needed: BTreeSet<Digest> = ordered.chain(proven).chain(taken_over).collect();
        self.bodies.retain_wanted(|digest| needed.contains(digest));
    }

    /// Sends VIEW-CHANGE: what this replica has proof of, whatever view that comes from.
    fn leave(&mut self, out: &mut Effects<Self>) {
        let shown =
            |it: &&Prepared| !mutant!("pbft.hides-older-views") || it.claim.view == self.entered;
        let certificates = || self.certificates.values().filter(shown);
        let hidden = usize::from(mutant!("pbft.hides-last-certificate"));
        let count = certificates().count().saturating_sub(hidden);
        let claims = Claims {
            view: self.view,
            stable: self.stable.slot,
            prepared: certificates().map(|it| it.claim).take(count).collect(),
        };
        let change = ViewChange {
            claims,
            requests: self.asks.proof(self.view, self.weak()),
            checkpoint: self.stable.clone(),
            proofs: certificates().map(|it| it.signatures.clone()).take(count).collect(),
        };
        let change = Arc::new(change);
        self.own.left = Some(change.clone());
        if !mutant!("pbft.leaving-not-kept") {
            out.persist(Record::Leave(change.clone()));
        }
        out.send(To::All, Message::ViewChange(change));
    }

    pub(super) fn on_view_change(
        &mut self,
        verified: Verified<Message>,
        change: &ViewChange,
        out: &mut Effects<Self>,
    ) {
        let view = change.claims.view;
        if view < self.view {
            return;
        }
        // Its requests convince us as they convinced the sender.
        for (author, (view, signature)) in &change.requests {
            self.note_ask(*author, *view, *signature);
        }
        self.try_leave(out);
        if view != self.view || self.phase == Phase::Entered {
            return;
        }
        if verified.author == self.me {
            self.own.view_change = Some(verified.clone());
        }
        let fresh = !self.view_changes.contains_key(&verified.author);
        self.view_changes.entry(verified.author).or_insert(verified);
        if fresh && self.view_changes.len() == self.quorum() {
            // From now on the new primary could open its view.
            mark!("pbft/view_change_quorum");
            self.time_new_primary(out);
        }
        self.try_open(out);
        if fresh && self.phase == Phase::Changing && !self.bodies.is_complete() {
            self.ask_missing(To::Others, out);
        }
    }

    fn time_new_primary(&self, out: &mut Effects<Self>) {
        let doublings = self.doublings.saturating_sub(1);
        if !mutant!("pbft.trusts-new-primary") {
            out.arm(Timer::ViewChange(self.view), Delay::ViewChange { doublings });
        }
    }

    pub(super) fn on_view_change_timeout(&mut self, view: View, out: &mut Effects<Self>) {
        if view == self.view && self.phase != Phase::Entered {
            mark!("pbft/view_change_timeout");
            self.ask(view.next(), "the new primary did not open its view in time", out);
        }
    }

    /// The new primary opens its view from a quorum of VIEW-CHANGEs whose batches it holds, so that
    /// it can give them to everyone else. A correct replica holds what it claims proof of.
    pub(super) fn try_open(&mut self, out: &mut Effects<Self>) {
        let needed = members_needed(&self.membership);
        let mine = self.membership.primary(self.view) == self.me;
        if self.phase != Phase::Changing || !mine || self.view_changes.len() < needed {
            return;
        }
        let shown: Vec<_> = self.view_changes.values().cloned().collect();
        let (mut members, mut changes) = (Vec::new(), Vec::new());
        for verified in &shown {
            let (Message::ViewChange(change), Some(signature)) =
                (&*verified.message, verified.tag.signature())
            else {
                continue;
            };
            if self.holds_claimed(&change.claims) && members.len() < needed {
                let (author, signature) = (verified.author, Signature(*signature));
                let claims = Arc::new(change.claims.clone());
                members.push(Member { author, signature, claims });
                changes.push(change.clone());
            }
        }
        if members.len() < needed {
            return;
        }
        let start = Start::of(members.iter().map(|member| &*member.claims));
        let Some(opening) = prove(self.view, members, &changes, &start) else { return };
        mark!("pbft/open");
        self.phase = Phase::Opening;
        let opening = Arc::new(opening);
        self.own.opened = Some(opening.clone());
        out.persist(Record::Open(opening.clone()));
        out.send(To::All, Message::NewView(opening));
    }

    /// Whether every batch that a VIEW-CHANGE names is here; wants those that are not.
    fn holds_claimed(&mut self, claims: &Claims) -> bool {
        let low = self.stable.slot.max(claims.stable);
        let mut complete = true;
        for claim in claims.prepared.iter().filter(|claim| claim.slot > low) {
            self.want_batch(claim.slot, claim.batch);
            complete &= self.bodies.get(&claim.batch).is_some();
        }
        complete
    }

    /// Wants a batch; that of no request is known to everyone.
    fn want_batch(&mut self, slot: Slot, batch: Digest) {
        self.bodies.want(slot, batch);
        let nothing = null();
        if batch == nothing.digest() {
            self.bodies.offer(&nothing, |_| None);
        }
    }

    /// Wants the batches that a view takes over.
    fn want(&mut self, start: &Start) {
        let low = self.stable.slot;
        for (slot, batch) in start.batches().filter(|(slot, _)| *slot > low) {
            self.want_batch(slot, batch);
        }
    }

    pub(super) fn on_new_view(
        &mut self,
        verified: Verified<Message>,
        opening: &NewView,
        out: &mut Effects<Self>,
    ) {
        if opening.view < self.view || opening.view == self.entered {
            return;
        }
        if opening.view > self.view {
            // The others went on without this replica. The NEW-VIEW proves that a quorum did.
            mark!("pbft/joined");
            self.reason = "the group had moved on";
            self.move_to(opening.view, out);
        }
        self.adopt(opening.checkpoint.clone(), out);
        mark!("pbft/enter");
        if !mutant!("pbft.entry-not-kept") {
            out.persist(Record::Enter(verified.clone()));
        }
        self.enter(verified, opening);
        self.showing.fill(Showing::default());
        self.pending.unpropose();
        out.disarm(Timer::ViewChange(self.view));
        out.output(Output::Entered { view: self.view, reason: self.reason });
        self.drop_settled_ask();
        for verified in core::mem::take(&mut self.early) {
            self.on_message(verified, out);
        }
        self.advance(out);
        if !self.bodies.is_complete() {
            self.ask_missing(To::One(self.membership.primary(self.view)), out);
        }
        self.object_to_liar(out);
    }

    /// The view of a NEW-VIEW begins: slots that it takes over order what follows from it,
    /// everything else begins anew. What was decided stays decided. The window begins at or above
    /// the base of the NEW-VIEW, so all that it takes over lies in the window or below.
    pub(super) fn enter(&mut self, verified: Verified<Message>, opening: &NewView) {
        let start = opening.start();
        (self.entered, self.phase) = (opening.view, Phase::Entered);
        self.opening = Some(verified);
        (self.own.left, self.own.opened) = (None, None);
        let gap = |batch: &Digest| mutant!("pbft.gaps-stay-open") && *batch == null().digest();
        let list: Vec<(Slot, Digest)> = start.batches().collect();
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let index = slot.0.checked_sub(start.base.0 + 1).map(|index| index as usize);
            let batch = index.and_then(|index| list.get(index)).map(|(_, batch)| *batch);
            let batch = batch.filter(|it| !mutant!("pbft.nothing-taken-over") && !gap(it));
            let decided = state.decided && batch.is_some() && state.batch == batch;
            *state = SlotState { batch, decided, ..SlotState::default() };
        }
        let skip = mutant!("pbft.taken-over-not-voted-for");
        self.next_slot = self.stable.slot.max(if skip { start.end() } else { Slot(0) }).next();
        self.start = start;
        let needed: BTreeSet<Digest> = list
            .into_iter()
            .map(|(_, batch)| batch)
            .chain(self.certificates.values().map(|certificate| certificate.claim.batch))
            .collect();
        self.bodies.retain(self.stable.slot, |digest| needed.contains(digest));
        let start = self.start.clone();
        self.want(&start);
    }

    /// An ask for this view, or a lower one, has had its effect.
    fn drop_settled_ask(&mut self) {
        if self.asks.of(self.me).is_some_and(|asked| asked <= self.view) {
            self.own.ask = None;
        }
    }
}

/// A NEW-VIEW of these members, with the proofs of the claims that win, from their own messages.
fn prove(
    view: View,
    members: Vec<Member>,
    changes: &[Arc<ViewChange>],
    start: &Start,
) -> Option<NewView> {
    let proof = |claim| {
        changes.iter().find_map(|change| {
            let index = change.claims.prepared.iter().position(|it| it == claim)?;
            change.proofs.get(index).cloned()
        })
    };
    let proofs: Option<Vec<_>> = start.list.iter().flatten().map(proof).collect();
    let checkpoint = changes.iter().map(|change| &change.checkpoint);
    let checkpoint = checkpoint.max_by_key(|proof| proof.slot)?.clone();
    Some(NewView { view, members, checkpoint, proofs: proofs? })
}
