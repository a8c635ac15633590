//! Opening and entering views (Hybster section 5.2.3, continuing counter certificates and new-view
//! acknowledgements). How a view is left: `leaving.rs`.
//!
//! A replica *accepts* a NEW-VIEW once it has checked it and holds its batches. If it is still at
//! that view it enters, which commits it to all that the view takes over; if not, it acknowledges.

use super::certificate::{CertifiedViewChange, NewView, ViewChanges};
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Opening, Phase, SlotState};
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::ChangesViews;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::votes::Votes;

impl ChangesViews for Hybster {
    fn taken_over(&self) -> Slot {
        self.entry().map_or(Slot(0), super::Entry::end)
    }

    fn leave_for(&mut self, view: View, out: &mut Effects<Self>) {
        self.move_to(view, out);
        self.leave(out);
    }

    fn awaits_opening(&self) -> bool {
        self.phase == Phase::Changing
    }

    /// From a quorum of VIEW-CHANGEs whose batches it holds, so that it can give them to everyone
    /// else, and which come from an established view.
    fn try_open(&mut self, out: &mut Effects<Self>) {
        let view = self.frame.view;
        if self.phase != Phase::Changing || !self.frame.leads(view) || self.from() >= view {
            return;
        }
        if self.frame.view_changes.len() < self.frame.quorum() {
            return;
        }
        let shown: Vec<_> = self.frame.view_changes.values().cloned().collect();
        let mut usable: Vec<CertifiedViewChange> = Vec::new();
        for verified in shown {
            let (Message::ViewChange(change), Some(ui)) = (&*verified.message, verified.tag.ui())
            else {
                continue;
            };
            if self.holds_shown(change, out) {
                let (author, ui, change) = (verified.author, *ui, change.clone());
                usable.push(CertifiedViewChange { author, ui, change });
            }
        }
        let Some(opening) = self.established(view, &usable) else { return };
        mark!("hybster/open");
        (self.phase, self.left, self.basis) = (Phase::Opening, view, None);
        let opening = Arc::new(opening);
        let start = opening.start();
        self.persist_bodies(start.base, &start.list, out);
        out.persist(Record::Open(opening.clone()));
        self.looping.insert((view, Slot(0)));
        self.say(Message::NewView(opening), out);
    }
}

impl Hybster {
    /// A NEW-VIEW of a quorum of these, from the highest view that can be shown to be established.
    fn established(&self, view: View, usable: &[CertifiedViewChange]) -> Option<NewView> {
        let origins: BTreeSet<View> = usable.iter().map(|member| member.change.from()).collect();
        origins.into_iter().rev().find_map(|origin| {
            let from_there = usable.iter().filter(|member| member.change.from() == origin);
            let before = usable.iter().filter(|member| member.change.from() < origin);
            let members = from_there.chain(before).take(self.frame.quorum()).cloned();
            let members: Vec<CertifiedViewChange> = members.collect();
            if members.len() < self.frame.quorum() {
                return None;
            }
            let of_origin = self.acknowledged.iter().filter(|(_, (of, _))| *of == origin);
            let acknowledgements: Vec<(ReplicaId, Signature)> = of_origin
                .filter(|_| origin > View(0))
                .map(|(author, (_, signature))| (*author, *signature))
                .collect();
            let opening = NewView { changes: ViewChanges { view, members }, acknowledgements };
            opening.is_established(self.frame.weak()).then_some(opening)
        })
    }

    /// Keeps the batches that a view takes over.
    pub(super) fn persist_bodies(&mut self, base: Slot, list: &[Digest], out: &mut Effects<Self>) {
        for (slot, digest) in (base.0 + 1..).map(Slot).zip(list) {
            if slot > self.frame.stable.slot {
                self.frame.persist_body(slot, digest, out);
            }
        }
    }

    pub(super) fn on_new_view(
        &mut self,
        verified: Verified<Message>,
        opening: &NewView,
        out: &mut Effects<Self>,
    ) {
        let view = opening.view();
        if verified.author == self.frame.me {
            self.looping.remove(&(view, Slot(0)));
        }
        let known = self.candidates.get(&verified.author).is_some_and(|it| match &*it.message {
            Message::NewView(known) => known.view() >= view,
            _ => false,
        });
        if view <= self.from() || known {
            self.leave(out);
            return;
        }
        if view > self.frame.view {
            // The others went on without this replica. The NEW-VIEW proves that a quorum did.
            mark!("hybster/joined");
            self.frame.reason = "the group had moved on";
            self.move_to(view, out);
        }
        if view == self.frame.view && self.frame.view_changes.len() < self.frame.quorum() {
            self.frame.time_new_primary(out);
        }
        self.candidates.insert(verified.author, verified);
        for member in &opening.changes.members {
            for (author, (view, signature)) in &member.change.requests {
                self.frame.note_ask(*author, *view, *signature);
            }
            self.heard.entry((view, member.author)).or_insert_with(|| member.clone());
        }
        self.forget_views();
        if let Some(proof) = opening.changes.checkpoint() {
            self.adopt(proof.clone(), out);
        }
        self.try_accept(out);
        self.leave(out);
        if !self.frame.bodies.is_complete() {
            let primary = self.frame.membership.primary(view);
            let to = if primary == self.frame.me { To::Others } else { To::One(primary) };
            self.frame.ask_missing(to, out);
        }
    }

    /// Accepts the highest NEW-VIEW whose batches are all here: what is accepted can be executed
    /// and handed on.
    pub(super) fn try_accept(&mut self, out: &mut Effects<Self>) {
        let mut candidates: Vec<Verified<Message>> = self.candidates.values().cloned().collect();
        let view = |verified: &Verified<Message>| match &*verified.message {
            Message::NewView(opening) => opening.view(),
            _ => View(0),
        };
        candidates.sort_by_key(|verified| core::cmp::Reverse(view(verified)));
        for verified in candidates {
            let message = verified.message.clone();
            let Message::NewView(opening) = &*message else { continue };
            // Its own was opened with what was here.
            if self.holds_all(opening, out) || verified.author == self.frame.me {
                self.accept(verified, opening, out);
                return;
            }
        }
    }

    fn holds_all(&mut self, opening: &NewView, out: &mut Effects<Self>) -> bool {
        let (start, low) = (opening.start(), self.frame.stable.slot);
        let mut complete = true;
        for (slot, batch) in (start.base.0 + 1..).map(Slot).zip(start.list) {
            complete &= slot <= low || self.holds(slot, batch, out);
        }
        complete
    }

    fn accept(&mut self, verified: Verified<Message>, opening: &NewView, out: &mut Effects<Self>) {
        let Some(ui) = verified.tag.ui().copied() else { return };
        let domain = self.frame.membership.domain();
        let accepted = Opening::new(verified.clone(), opening, ui, &domain);
        self.persist_bodies(accepted.entry.base, &accepted.entry.list, out);
        if opening.view() < self.frame.view {
            mark!("hybster/accept_late");
            out.persist(Record::Acknowledge(verified));
            self.later = Some(accepted);
            self.own.acknowledge = None;
            self.forget_views();
            if !mutant!("hybster.never-acknowledges") {
                out.send(To::All, Message::Acknowledge { view: opening.view() });
            }
            self.leave(out);
            self.try_open(out);
            return;
        }
        mark!("hybster/enter");
        if !mutant!("hybster.entry-not-kept") {
            out.persist(Record::Enter(verified.clone()));
        }
        self.enter(accepted);
        // The log says from now on how far it may have come in this view.
        self.frame.spoken = Slot(0);
        if verified.author == self.frame.me {
            self.frame.note_spoken(self.end_of_entry());
        }
        self.in_flight = 0;
        self.looping.clear();
        self.frame.note_entered(out);
        if verified.author != self.frame.me {
            let (view, opening) = (self.frame.view, verified.digest);
            out.send(To::All, Message::Enter { view, opening });
        }
        self.try_decide(out);
        for verified in core::mem::take(&mut self.frame.early).into_values() {
            self.on_message(verified, out);
        }
        self.advance(out);
        self.frame.object_to_liar(out);
    }

    /// The view of an accepted NEW-VIEW begins. Its primary has committed to it.
    pub(super) fn enter(&mut self, accepted: Opening) {
        let (entry, primary) = (accepted.entry.clone(), accepted.message.author);
        let digest = accepted.message.digest;
        self.take_over(&entry);
        let reused = mutant!("hybster.slots-used-again");
        let taken_over = if reused { entry.base } else { entry.end() };
        self.frame.next_slot = taken_over.max(self.frame.stable.slot).next();
        (self.frame.view, self.frame.entered) = (entry.view.max(self.frame.view), entry.view);
        (self.phase, self.left, self.basis) = (Phase::Entered, entry.view, None);
        (self.opening, self.later) = (Some(accepted), None);
        (self.own.enter, self.own.acknowledge) = (None, None);
        self.frame.own.view_change = None;
        self.enters = Votes::default();
        self.enters.cast(primary, digest);
        self.forget_views();
    }

    /// Slots that the view took over order what its list says; everything else begins anew. What
    /// was decided stays decided.
    fn take_over(&mut self, entry: &super::Entry) {
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let batch = entry.batch(slot).filter(|_| !mutant!("hybster.nothing-taken-over"));
            let decided = state.decided && batch.is_some() && state.batch == batch;
            *state = SlotState { batch, decided, ..SlotState::default() };
        }
        self.frame.bodies.retain(self.frame.stable.slot, |digest| entry.list.contains(digest));
        for (slot, batch) in (entry.base.0 + 1..).map(Slot).zip(&entry.list) {
            if slot > self.frame.stable.slot {
                self.frame.bodies.want(slot, *batch);
            }
        }
    }

    /// A backup commits to what its view took over.
    pub(super) fn on_enter(
        &mut self,
        verified: Verified<Message>,
        view: View,
        digest: Digest,
        out: &mut Effects<Self>,
    ) {
        if view != self.frame.entered || !self.frame.is_entered() {
            self.frame.keep_early(verified, view, None);
            return;
        }
        let right = self.opening.as_ref().is_some_and(|it| it.message.digest == digest);
        if !right {
            return;
        }
        if verified.author == self.frame.me {
            self.own.enter = Some(verified.clone());
            self.frame.note_spoken(self.end_of_entry());
        }
        self.enters.cast(verified.author, digest);
        self.try_decide(out);
    }

    /// A quorum of commitments to the NEW-VIEW, itself among them, decides what it took over.
    fn try_decide(&mut self, out: &mut Effects<Self>) {
        let Some(opening) = &self.opening else { return };
        let digest = opening.message.digest;
        let agreed = if mutant!("hybster.execute-on-new-view") { 1 } else { self.frame.quorum() };
        if self.enters.count(&digest) < agreed {
            return;
        }
        mark!("hybster/taken_over");
        for slot in (self.window.low().0 + 1..=self.end_of_entry().0).map(Slot) {
            if let Some(state) = self.window.get_mut(slot) {
                state.decided = state.batch.is_some();
            }
        }
        self.advance(out);
    }

    /// A replica accepted a NEW-VIEW late.
    pub(super) fn on_acknowledge(
        &mut self,
        verified: Verified<Message>,
        view: View,
        out: &mut Effects<Self>,
    ) {
        let Some(signature) = verified.tag.signature() else { return };
        let known = self.acknowledged.get(&verified.author).map(|(view, _)| *view);
        if known.is_none_or(|known| known < view) {
            self.acknowledged.insert(verified.author, (view, Signature(*signature)));
        }
        if verified.author == self.frame.me && self.from() == view && self.later.is_some() {
            self.own.acknowledge = Some(verified);
        }
        self.try_open(out);
    }
}
