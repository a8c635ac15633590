//! Changing the primary: ask, leave, open, confirm, enter (section 3.5, with the repairs that
//! `docs/protocols/zyzzyva.md` argues for).

use super::certificate::{Confirmed, ViewChange};
use super::message::Message;
use super::new_view::{Member, NewView, members_needed};
use super::record::Record;
use super::replica::{OwnMessages, Phase, SlotState, Zyzzyva};
use super::start::Start;
use super::variant::Variant;
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Orders};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::take;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::speculation;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> ChangesViews for Zyzzyva<V> {
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

    /// The new primary opens its view from enough VIEW-CHANGEs (section 3.5.3, step VC3).
    fn try_open(&mut self, out: &mut Effects<Self>) {
        let needed = members_needed(&self.table);
        let mine = self.frame.leads(self.frame.view);
        if self.phase != Phase::Changing || !mine || self.frame.view_changes.len() < needed {
            return;
        }
        let member = |verified: &Verified<Message>| {
            let Message::ViewChange(change) = &*verified.message else { return None };
            let signature = Signature(*verified.tag.signature()?);
            Some(Member { author: verified.author, signature, change: change.clone() })
        };
        let members = self.frame.view_changes.values().filter_map(member).take(needed).collect();
        mark!("zyzzyva/open");
        self.phase = Phase::Opening;
        let opening = Arc::new(NewView { view: self.frame.view, members });
        self.own.opened = Some(opening.clone());
        out.persist(Record::Open(opening.clone()));
        out.send(To::All, Message::NewView(opening));
    }
}

impl<V: Variant> Zyzzyva<V> {
    /// Gives up every lower view.
    fn move_to(&mut self, view: View, out: &mut Effects<Self>) {
        // What VIEW-CHANGE shows may become final before the next view tells clients of it.
        self.answer_held(self.frame.executed, out);
        self.frame.move_to(view, self.last_final, out);
        self.phase = Phase::Changing;
        self.confirms.clear();
        (self.proposed, self.agreed) = (None, None);
        self.own = OwnMessages::default();
        self.awaiting_loopback.clear();
        self.vouching.clear();
        self.drop_idle_wants();
    }

    /// Stops wanting batches that no slot orders.
    fn drop_idle_wants(&mut self) {
        let needed: BTreeSet<Digest> =
            self.window.iter().filter_map(|(_, state)| state.batch).collect();
        self.frame.bodies.retain_wanted(|digest| needed.contains(digest));
    }

    /// How far a VIEW-CHANGE shows what this replica executed, or took over, in the view that it
    /// entered last.
    fn reached(&self) -> Slot {
        self.frame.executed.max(self.start.end()).max(self.shown)
    }

    /// The batches that a VIEW-CHANGE shows: what led to the entry, if the stable checkpoint
    /// contradicts that.
    fn shown_batches(&self, is_contradicted: bool) -> Vec<Digest> {
        let (low, reached) = (self.frame.stable.slot, self.reached());
        if is_contradicted {
            mark!("zyzzyva/contradicted");
            let behind = self.start.slots().filter(|(slot, ..)| *slot > low);
            return behind.map(|(_, batch, _)| batch).collect();
        }
        let shown = self.chain().take_while(|(slot, ..)| *slot <= reached);
        shown.map(|(_, batch, _)| batch).collect()
    }

    /// Sends VIEW-CHANGE: all that this replica executed in the view that it entered last, and what
    /// it has proof of from that view.
    fn leave(&mut self, out: &mut Effects<Self>) {
        let low = self.frame.stable.slot;
        let opening = self.opening.as_ref().filter(|_| !self.table.printed);
        let entry = opening.map(|(_, proof)| Confirmed::clone(proof));
        let contradicted = entry.as_ref().and_then(|_| self.contradicted());
        let mut batches = self.shown_batches(contradicted.is_some());
        if mutant!("zyzzyva.hides-last-slot") {
            batches.pop();
        }
        let shown = low.0 + batches.len() as u64;
        let certificate = self.certificate.as_deref().filter(|it| it.place.slot.0 <= shown);
        let certificate = certificate.filter(|_| contradicted.is_none());
        let certificate = certificate.filter(|_| !mutant!("zyzzyva.hides-certificate"));
        let change = Arc::new(ViewChange {
            view: self.frame.view,
            requests: self.frame.view_requests.proof(self.frame.view, self.table.weak),
            stable: self.frame.stable.clone(),
            entry,
            certificate: certificate.cloned(),
            contradicted,
            batches,
        });
        self.own.left = Some(change.clone());
        if !mutant!("zyzzyva.leaving-not-kept") {
            out.persist(Record::Leave(change.clone()));
        }
        out.send(To::All, Message::ViewChange(change));
    }

    /// The new primary says what its view begins with. Nothing follows from that alone: another
    /// replica may have been told otherwise, or nothing.
    pub(super) fn on_new_view(
        &mut self,
        verified: Verified<Message>,
        opening: &NewView,
        out: &mut Effects<Self>,
    ) {
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        if opening.view > self.frame.view {
            // The others went on without this replica: `f + 1` of them asked.
            mark!("zyzzyva/joined");
            self.frame.reason = "the group had moved on";
            self.move_to(opening.view, out);
            self.frame.time_new_primary(out);
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
        let low = self.frame.stable.slot;
        for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
            self.frame.bodies.want(slot, batch);
        }
        self.proposed = Some((verified, start));
        self.try_enter(out);
        self.try_confirm(out);
        if self.phase == Phase::Confirming && !self.frame.bodies.is_complete() {
            self.frame.ask_missing(To::Others, out);
        }
    }

    /// Confirms what the view begins with, once, and holding all batches of it, so that whoever
    /// lacks one can have it from whoever confirmed.
    pub(super) fn try_confirm(&mut self, out: &mut Effects<Self>) {
        let Some((verified, start)) = &self.proposed else { return };
        let low = self.frame.stable.slot;
        let mut open = start.slots().filter(|(slot, ..)| *slot > low);
        let is_whole = open.all(|(_, batch, _)| self.frame.bodies.get(&batch).is_some());
        if self.phase != Phase::Confirming || self.own.confirmed || !is_whole {
            return;
        }
        mark!("zyzzyva/confirm");
        let place = Place { view: self.frame.view, slot: start.end(), history: start.history() };
        let (verified, start) = (verified.clone(), start.clone());
        for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
            self.frame.persist_body(slot, &batch, out);
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
        if place.view != self.frame.view || self.phase == Phase::Entered {
            return;
        }
        let Some(signature) = verified.tag.signature().map(|it| Signature(*it)) else { return };
        if verified.author == self.frame.me {
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
        if view < self.frame.view || view == self.frame.entered {
            return;
        }
        if view > self.frame.view {
            mark!("zyzzyva/agreed_without");
            self.frame.reason = "the group had moved on";
            self.move_to(view, out);
            self.frame.time_new_primary(out);
        }
        self.agreed = Some(proof);
        self.try_enter(out);
    }

    fn try_enter(&mut self, out: &mut Effects<Self>) {
        let Some((verified, start)) = self.proposed.clone() else { return };
        let place = Place { view: self.frame.view, slot: start.end(), history: start.history() };
        let anyway = (self.table.printed || mutant!("zyzzyva.enters-without-agreement"))
            .then(|| Arc::new(Confirmed { place, signatures: Vec::new() }));
        let Some(proof) = self.agreed.clone().or(anyway) else { return };
        if proof.place != place {
            return;
        }
        mark!("zyzzyva/enter");
        if !mutant!("zyzzyva.entry-not-kept") {
            let low = self.frame.stable.slot;
            for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
                self.frame.persist_body(slot, &batch, out);
            }
            out.persist(Record::Enter(verified.clone(), proof.clone()));
        }
        let before = self.frame.executed;
        let open = (self.last_final.0 + 1..=before.0).map(Slot);
        let batch = |slot| Some((slot, self.frame.bodies.get(&self.ordered(slot)?)?.clone()));
        let open: Vec<(Slot, Arc<Batch>)> = open.filter_map(batch).collect();
        self.enter((verified, proof), start);
        let stays = self.frame.executed;
        if stays < before {
            mark!("zyzzyva/rollback");
            out.output(speculation::Output::Rollback { after: stays });
            let left_out = open.iter().filter(|(slot, _)| *slot > stays).map(|(_, batch)| batch);
            self.frame.wait_again(left_out, out);
        }
        out.output(speculation::Output::Restate { view: self.frame.view });
        self.frame.note_entered(self.last_final, out);
        self.vote_for(self.frame.awaited.upto().max(self.halted.unwrap_or_default()), out);
        self.frame.await_final(self.last_final, out);
        for verified in take(&mut self.frame.early).into_values() {
            self.on_message(verified, out);
        }
        self.advance(out);
        if !self.frame.bodies.is_complete() {
            self.frame.ask_missing(To::One(self.frame.membership.primary(self.frame.view)), out);
        }
        self.frame.object_to_liar(out);
    }

    /// The view begins: what it takes over is what the slots order, and what was executed otherwise
    /// is taken back.
    pub(super) fn enter(&mut self, opening: (Verified<Message>, Arc<Confirmed>), start: Start) {
        (self.frame.entered, self.phase) = (self.frame.view, Phase::Entered);
        self.opening = Some(opening);
        (self.proposed, self.agreed, self.certificate) = (None, None, None);
        (self.own.left, self.own.opened) = (None, None);
        (self.shown, self.is_overruled) = (Slot(0), false);
        let low = self.frame.stable.slot;
        let keeps = |slot: Slot, history| self.history(slot) == Some(history);
        let same = start.slots().filter(|(slot, ..)| *slot > low);
        let same = same.take_while(|(slot, _, history)| keeps(*slot, *history)).count() as u64;
        let is_here = self.frame.executed >= low;
        let stays =
            if is_here { Slot(low.0 + same).min(self.frame.executed) } else { self.frame.executed };
        let list: Vec<(Slot, Digest, Digest)> = start.slots().collect();
        for slot in (low.0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let index = slot.0.checked_sub(start.base.slot.0 + 1).map(|index| index as usize);
            let taken = index.and_then(|index| list.get(index));
            let batch = taken.map(|(_, batch, _)| *batch);
            let history = taken.map(|(.., history)| *history).filter(|_| slot <= stays);
            *state = SlotState { batch, history, ..SlotState::default() };
        }
        self.frame.executed = stays;
        self.recount();
        let end = start.end();
        (self.frame.next_slot, self.tip) = if end >= low {
            (end.next(), start.history())
        } else {
            (low.next(), self.frame.stable.state.history)
        };
        self.start = start;
        let needed: BTreeSet<Digest> = list.iter().map(|(_, batch, _)| *batch).collect();
        self.frame.bodies.retain(low, |digest| needed.contains(digest));
        for (slot, batch, _) in list.into_iter().filter(|(slot, ..)| *slot > low) {
            self.frame.bodies.want(slot, batch);
        }
    }

    /// Counts anew where checkpoints are due, from the stable one to what is executed.
    pub(super) fn recount(&mut self) {
        let ordered = |slot| self.window.get(slot).and_then(|state| state.batch);
        let due = self.frame.recount(self.window.low(), ordered);
        self.halted = due.filter(|slot| *slot == self.frame.executed && *slot > self.last_final);
    }
}
