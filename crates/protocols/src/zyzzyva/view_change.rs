//! Changing the primary: ask, leave, open, confirm, enter (section 3.5, with the repairs that
//! `docs/protocols/zyzzyva.md` argues for).

use super::certificate::{Confirmed, Member, NewView, ViewChange, members_needed};
use super::message::Message;
use super::record::Record;
use super::replica::{OwnMessages, Phase, SlotState, Timer, Zyzzyva};
use super::start::Start;
use crate::common::showing::Showing;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, To};

impl<const KIND: usize> Zyzzyva<KIND> {
    /// Asks for a view: hates the primary (section 3.5.1). Goes on working in the current one until
    /// `f + 1` have asked.
    pub(super) fn ask(&mut self, view: View, reason: &'static str, out: &mut Effects<Self>) {
        let asked = self.asks.of(self.me).is_some_and(|asked| asked >= view);
        if !asked && !mutant!("zyzzyva.never-asks") {
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
        let fewer = usize::from(mutant!("zyzzyva.leave-on-f-asks"));
        let Some(target) = self.asks.wanted_by(self.table.weak - fewer) else { return };
        if target > self.view {
            mark!("zyzzyva/leave");
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
            mark!("zyzzyva/view_failed");
            out.disarm(Timer::ViewChange(self.view));
        }
        (self.view, self.phase) = (view, Phase::Changing);
        self.pace.view_ended(self.now);
        self.doublings = self.doublings.saturating_add(1);
        self.view_changes_count += 1;
        self.view_changes.clear();
        self.confirms.clear();
        (self.proposed, self.agreed) = (None, None);
        self.early.clear();
        self.unheard.clear();
        self.vouching.clear();
        self.is_overdue = false;
        self.drop_idle_wants();
        let ask = self.own.ask.take();
        self.own = OwnMessages { ask, ..OwnMessages::default() };
        self.arm_request_timer(out);
        self.arm_final_timer(out);
        self.arm_resend(out);
    }

    /// Stops wanting batches that no slot orders.
    fn drop_idle_wants(&mut self) {
        let needed: BTreeSet<Digest> =
            self.window.iter().filter_map(|(_, state)| state.batch).collect();
        self.bodies.retain_wanted(|digest| needed.contains(digest));
    }

    /// How far a VIEW-CHANGE shows what this replica executed, or took over, in the view that it
    /// entered last.
    fn reached(&self) -> Slot {
        self.executed.max(self.start.end()).max(self.shown)
    }

    /// Sends VIEW-CHANGE: all that this replica executed in the view that it entered last, and what
    /// it has proof of from that view.
    fn leave(&mut self, out: &mut Effects<Self>) {
        let low = self.stable.slot();
        let slots = (low.0 + 1..=self.reached().0).map(Slot);
        let known = slots.map_while(|slot| self.window.get(slot).and_then(|state| state.batch));
        let mut batches: Vec<Digest> = known.collect();
        if mutant!("zyzzyva.hides-last-slot") {
            batches.pop();
        }
        let shown = low.0 + batches.len() as u64;
        let certificate = self.certificate.as_deref().filter(|it| it.place.slot.0 <= shown);
        let certificate = certificate.filter(|_| !mutant!("zyzzyva.hides-certificate"));
        let opening = self.opening.as_ref().filter(|_| !self.table.printed);
        let entry = opening.map(|(_, proof)| Confirmed::clone(proof));
        let change = Arc::new(ViewChange {
            view: self.view,
            requests: self.asks.proof(self.view, self.table.weak),
            stable: self.stable.clone(),
            entry,
            certificate: certificate.cloned(),
            batches,
        });
        self.own.left = Some(change.clone());
        if !mutant!("zyzzyva.leaving-not-kept") {
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
        let view = change.view;
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
        if fresh && self.view_changes.len() == self.table.members {
            // From now on the new primary could open its view.
            mark!("zyzzyva/view_change_quorum");
            self.time_new_primary(out);
        }
        self.try_open(out);
    }

    pub(super) fn time_new_primary(&self, out: &mut Effects<Self>) {
        let doublings = self.doublings.saturating_sub(1);
        if !mutant!("zyzzyva.trusts-new-primary") {
            out.arm(Timer::ViewChange(self.view), Delay::ViewChange { doublings });
        }
    }

    pub(super) fn on_view_change_timeout(&mut self, view: View, out: &mut Effects<Self>) {
        if view == self.view && self.phase != Phase::Entered {
            mark!("zyzzyva/view_change_timeout");
            self.ask(view.next(), "the new primary did not open its view in time", out);
        }
    }

    /// The new primary opens its view from enough VIEW-CHANGEs (section 3.5.3, step VC3).
    fn try_open(&mut self, out: &mut Effects<Self>) {
        let needed = members_needed(&self.table);
        let mine = self.membership.primary(self.view) == self.me;
        if self.phase != Phase::Changing || !mine || self.view_changes.len() < needed {
            return;
        }
        let member = |verified: &Verified<Message>| {
            let Message::ViewChange(change) = &*verified.message else { return None };
            let signature = Signature(*verified.tag.signature()?);
            Some(Member { author: verified.author, signature, change: change.clone() })
        };
        let members = self.view_changes.values().filter_map(member).take(needed).collect();
        mark!("zyzzyva/open");
        self.phase = Phase::Opening;
        let opening = Arc::new(NewView { view: self.view, members });
        self.own.opened = Some(opening.clone());
        out.persist(Record::Open(opening.clone()));
        out.send(To::All, Message::NewView(opening));
    }

    /// The new primary says what its view begins with. Nothing follows from that alone: another
    /// replica may have been told otherwise, or nothing.
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
            // The others went on without this replica: `f + 1` of them asked.
            mark!("zyzzyva/joined");
            self.reason = "the group had moved on";
            self.move_to(opening.view, out);
            self.time_new_primary(out);
        }
        let start = opening.start(&self.table);
        let agreed = |agreed: &Arc<Confirmed>| {
            (agreed.place.slot, agreed.place.history) == (start.end(), start.history())
        };
        let is_agreed = self.agreed.as_ref().is_some_and(agreed);
        if self.proposed.is_some() && !is_agreed {
            return;
        }
        self.phase = Phase::Confirming;
        self.adopt(start.base.clone(), out);
        let low = self.stable.slot();
        for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
            self.bodies.want(slot, batch);
        }
        self.proposed = Some((verified, start));
        self.try_enter(out);
        self.try_confirm(out);
        if self.phase == Phase::Confirming && !self.bodies.is_complete() {
            self.ask_missing(To::Others, out);
        }
    }

    /// Confirms what the view begins with, once, and holding all batches of it, so that whoever
    /// lacks one can have it from whoever confirmed.
    pub(super) fn try_confirm(&mut self, out: &mut Effects<Self>) {
        let Some((verified, start)) = &self.proposed else { return };
        let low = self.stable.slot();
        let mut open = start.slots().filter(|(slot, ..)| *slot > low);
        let is_whole = open.all(|(_, batch, _)| self.bodies.get(&batch).is_some());
        if self.phase != Phase::Confirming || self.own.confirmed || !is_whole {
            return;
        }
        mark!("zyzzyva/confirm");
        let place = Place { view: self.view, slot: start.end(), history: start.history() };
        let (verified, start) = (verified.clone(), start.clone());
        for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
            self.persist_body(slot, &batch, out);
        }
        if !mutant!("zyzzyva.confirm-not-kept") {
            out.persist(Record::Confirm(verified));
        }
        self.own.confirmed = true;
        out.send(To::All, Message::Confirm(place));
    }

    /// A replica agrees on what the view begins with.
    pub(super) fn on_confirm(
        &mut self,
        verified: Verified<Message>,
        place: Place,
        out: &mut Effects<Self>,
    ) {
        if place.view != self.view || self.phase == Phase::Entered {
            return;
        }
        let Some(signature) = verified.tag.signature().map(|it| Signature(*it)) else { return };
        if verified.author == self.me {
            self.own.confirm = Some(verified.clone());
        }
        let vote = (place.slot, place.history, signature);
        self.confirms.entry(verified.author).or_insert(vote);
        let equal = self
            .confirms
            .iter()
            .filter(|(_, (slot, history, _))| (*slot, *history) == (place.slot, place.history));
        let signatures: Vec<_> = equal.map(|(id, (_, _, it))| (*id, *it)).collect();
        if signatures.len() >= self.table.quorum {
            mark!("zyzzyva/confirmed");
            let signatures = signatures.into_iter().take(self.table.quorum).collect();
            self.on_confirmed(Arc::new(Confirmed { place, signatures }), out);
        }
    }

    /// A quorum agrees on what a view begins with.
    pub(super) fn on_confirmed(&mut self, proof: Arc<Confirmed>, out: &mut Effects<Self>) {
        let view = proof.place.view;
        if view < self.view || view == self.entered {
            return;
        }
        if view > self.view {
            mark!("zyzzyva/agreed_without");
            self.reason = "the group had moved on";
            self.move_to(view, out);
            self.time_new_primary(out);
        }
        self.agreed = Some(proof);
        self.try_enter(out);
    }

    fn try_enter(&mut self, out: &mut Effects<Self>) {
        let Some((verified, start)) = self.proposed.clone() else { return };
        let place = Place { view: self.view, slot: start.end(), history: start.history() };
        let anyway = (self.table.printed || mutant!("zyzzyva.enters-without-agreement"))
            .then(|| Arc::new(Confirmed { place, signatures: Vec::new() }));
        let Some(proof) = self.agreed.clone().or(anyway) else { return };
        if proof.place != place {
            return;
        }
        mark!("zyzzyva/enter");
        if !mutant!("zyzzyva.entry-not-kept") {
            let low = self.stable.slot();
            for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
                self.persist_body(slot, &batch, out);
            }
            out.persist(Record::Enter(verified.clone(), proof.clone()));
        }
        let before = self.executed;
        self.enter((verified, proof), start);
        if self.executed < before {
            mark!("zyzzyva/rollback");
            out.output(Output::Rollback { after: self.executed });
        }
        out.output(Output::Restate { view: self.view });
        self.showing.fill(Showing::default());
        self.pending.unpropose();
        out.disarm(Timer::ViewChange(self.view));
        out.output(Output::Entered { view: self.view, reason: self.reason });
        self.drop_settled_ask();
        self.wanted = self.wanted.min(self.executed);
        self.vote(self.wanted.max(self.halted.unwrap_or_default()), out);
        self.arm_final_timer(out);
        for verified in take(&mut self.early) {
            self.on_message(verified, out);
        }
        self.advance(out);
        if !self.bodies.is_complete() {
            self.ask_missing(To::One(self.membership.primary(self.view)), out);
        }
        self.object_to_liar(out);
    }

    /// The view begins: what it takes over is what the slots order, and what was executed otherwise
    /// is taken back.
    pub(super) fn enter(&mut self, opening: (Verified<Message>, Arc<Confirmed>), start: Start) {
        (self.entered, self.phase) = (self.view, Phase::Entered);
        self.opening = Some(opening);
        (self.proposed, self.agreed, self.certificate) = (None, None, None);
        (self.own.left, self.own.opened) = (None, None);
        self.shown = Slot(0);
        self.view_changes.clear();
        let low = self.stable.slot();
        let keeps = |slot: Slot, history| self.history(slot) == Some(history);
        let same = start.slots().filter(|(slot, ..)| *slot > low);
        let same = same.take_while(|(slot, _, history)| keeps(*slot, *history)).count() as u64;
        let is_here = self.executed >= low;
        let stays = if is_here { Slot(low.0 + same).min(self.executed) } else { self.executed };
        let list: Vec<(Slot, Digest, Digest)> = start.slots().collect();
        for slot in (low.0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let index = slot.0.checked_sub(start.base.slot().0 + 1).map(|index| index as usize);
            let taken = index.and_then(|index| list.get(index));
            let batch = taken.map(|(_, batch, _)| *batch);
            let history = taken.map(|(.., history)| *history).filter(|_| slot <= stays);
            *state = SlotState { batch, history, ..SlotState::default() };
        }
        self.executed = stays;
        self.recount();
        let end = start.end();
        (self.next_slot, self.tip) = if end >= low {
            (end.next(), start.history())
        } else {
            (low.next(), self.stable.history)
        };
        self.start = start;
        let needed: BTreeSet<Digest> = list.iter().map(|(_, batch, _)| *batch).collect();
        self.bodies.retain(low, |digest| needed.contains(digest));
        for (slot, batch, _) in list.into_iter().filter(|(slot, ..)| *slot > low) {
            self.bodies.want(slot, batch);
        }
    }

    /// Counts anew where checkpoints are due, from the stable one to what is executed.
    pub(super) fn recount(&mut self) {
        self.checkpoints.extent = Default::default();
        let mut due = None;
        for slot in (self.window.low().0 + 1..=self.executed.0).map(Slot) {
            let batch = self.window.get(slot).and_then(|state| state.batch);
            let body = batch.and_then(|batch| self.bodies.get(&batch));
            let bytes = body.map_or(0, |body| body.bytes());
            let is_due = self.checkpoints.extent.executed(slot, bytes, &self.tuning);
            due = if is_due { Some(slot) } else { due };
        }
        self.halted = due.filter(|slot| *slot == self.executed && *slot > self.committed);
    }

    /// An ask for this view, or a lower one, has had its effect.
    fn drop_settled_ask(&mut self) {
        if self.asks.of(self.me).is_some_and(|asked| asked <= self.view) {
            self.own.ask = None;
        }
    }
}
