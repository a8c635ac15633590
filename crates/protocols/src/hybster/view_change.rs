//! Opening and entering views (Hybster section 5.2.3, continuing counter certificates and new-view
//! acknowledgements). How a view is left: `leaving.rs`.
//!
//! A replica *accepts* a NEW-VIEW once it has checked it and holds its batches. If it is still at
//! that view it enters, which commits it to all that the view takes over; if not, it acknowledges.

use super::certificate::{CertifiedViewChange, NewView, ViewChanges};
use super::message::Message;
use super::record::Record;
use super::replica::{Hybster, Opening, Phase};
use crate::common::counters::certificate::Opened;
use crate::common::counters::views::{holds_all, persist_bodies, usable_changes};
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
        self.opening.as_ref().map_or(Slot(0), |opening| opening.entry.end())
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
        let usable = usable_changes(&mut self.frame, out);
        let Some(opening) = self.established(view, &usable) else { return };
        mark!("hybster/open");
        (self.phase, self.left, self.basis) = (Phase::Opening, view, None);
        let opening = Arc::new(opening);
        persist_bodies(&mut self.frame, &opening.start(), out);
        out.persist(Record::Open(opening.clone()));
        self.slots.slots_awaiting_loopback.insert((view, Slot(0)));
        self.slots.say(&self.frame, Message::NewView(opening), out);
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
            let of_origin = (origin, ReplicaId(0))..=(origin, ReplicaId(u16::MAX));
            let acknowledgements: Vec<(ReplicaId, Signature)> = self
                .acknowledged
                .range(of_origin)
                .filter(|_| origin > View(0))
                .filter_map(|((_, id), it)| Some((*id, Signature(*it.tag.signature()?))))
                .collect();
            let opening = NewView { changes: ViewChanges { view, members }, acknowledgements };
            opening.is_established(self.frame.weak()).then_some(opening)
        })
    }

    pub(super) fn on_new_view(
        &mut self,
        verified: Verified<Message>,
        opening: &NewView,
        out: &mut Effects<Self>,
    ) {
        let view = opening.view();
        if verified.author == self.frame.me {
            self.slots.slots_awaiting_loopback.remove(&(view, Slot(0)));
        }
        if self.is_doubted(view) {
            mark!("hybster/vouched");
            out.send(To::All, Message::Acknowledge { view });
        }
        if !self.may_accept(view) || self.candidates.contains_key(&view) {
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
        self.candidates.insert(view, verified);
        for member in &opening.changes.members {
            self.frame.view_requests.show_all(&member.change.requests);
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
        let candidates: Vec<Verified<Message>> = self.candidates.values().rev().cloned().collect();
        for verified in candidates {
            let message = verified.message.clone();
            let Message::NewView(opening) = &*message else { continue };
            // Its own was opened with what was here.
            if holds_all(&mut self.frame, &opening.start(), out) || verified.author == self.frame.me
            {
                self.accept(verified, opening, out);
                return;
            }
        }
    }

    fn accept(&mut self, verified: Verified<Message>, opening: &NewView, out: &mut Effects<Self>) {
        let Some(ui) = verified.tag.ui().copied() else { return };
        let domain = self.frame.membership.domain();
        let accepted = Opening::new(verified.clone(), opening, ui, &domain);
        persist_bodies(&mut self.frame, accepted.entry.start(), out);
        if opening.view() < self.frame.view {
            mark!("hybster/accept_late");
            out.persist(Record::Acknowledge(verified));
            self.later = Some(accepted);
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
            self.frame.note_spoken(self.taken_over());
        }
        self.slots.in_flight = 0;
        self.slots.slots_awaiting_loopback.clear();
        self.frame.note_entered(self.frame.executed, out);
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
        self.slots.take_over(&mut self.frame, entry.start());
        let reused = mutant!("hybster.slots-used-again");
        let taken_over = if reused { entry.start().base } else { entry.end() };
        self.frame.next_slot = taken_over.max(self.frame.stable.slot).next();
        (self.frame.view, self.frame.entered) = (entry.view(), entry.view());
        (self.phase, self.left, self.basis) = (Phase::Entered, entry.view(), None);
        (self.opening, self.later) = (Some(accepted), None);
        (self.own_enter, self.said) = (None, None);
        self.frame.own_view_change = None;
        self.enters = Votes::default();
        self.enters.cast(primary, digest);
        self.forget_views();
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
            self.own_enter = Some(verified.clone());
            self.frame.note_spoken(self.taken_over());
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
        self.slots.decide_taken_over(self.taken_over());
        self.advance(out);
    }

    /// A replica accepted a NEW-VIEW late, or found it sound when it had accepted a later one.
    pub(super) fn on_acknowledge(
        &mut self,
        verified: Verified<Message>,
        view: View,
        out: &mut Effects<Self>,
    ) {
        self.note_acknowledgement(verified, view);
        self.try_open(out);
    }
}
