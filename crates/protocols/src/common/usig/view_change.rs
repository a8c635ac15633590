//! Changing the primary: ask, leave, open, acknowledge, enter (MinBFT section 4, view change, with
//! the repairs that `docs/protocols/minbft.md` argues for).
//!
//! A replica *commits* in a view only from ENTER on, and enters only with proof that a quorum found
//! the NEW-VIEW valid. So a VIEW-CHANGE need not show what the views before its last commitment
//! rested on, and what a view took over executes only once a quorum has committed to it.

use super::certificate::{NewView, ViewChange};
use super::message::Message;
use super::record::Record;
use super::replica::{Behind, OnUsig, Opening, Phase, Variant};
use crate::common::counters::certificate::Opened;
use crate::common::counters::views::{holds_all, persist_bodies, usable_changes};
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Finality};
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::votes::Votes;

impl<V: Variant> ChangesViews for OnUsig<V> {
    fn taken_over(&self) -> Slot {
        self.entry.as_ref().map_or(Slot(0), Opened::end)
    }

    fn leave_for(&mut self, view: View, out: &mut Effects<Self>) {
        self.move_to(view, Phase::Draining, out);
        self.leave(out);
    }

    fn awaits_opening(&self) -> bool {
        self.phase == Phase::Changing
    }

    /// From a quorum of VIEW-CHANGEs whose batches it holds, so that it can give them to everyone
    /// else.
    fn try_open(&mut self, out: &mut Effects<Self>) {
        let mine = self.frame.leads(self.frame.view);
        if self.phase != Phase::Changing || !mine || self.opening.is_some() {
            return;
        }
        let mut members = usable_changes(&mut self.frame, out);
        members.truncate(self.frame.quorum());
        if members.len() == self.frame.quorum() {
            mark!("usig/open");
            self.phase = Phase::Opening;
            let opening = Arc::new(NewView { view: self.frame.view, members });
            persist_bodies(&mut self.frame, &opening.start(), out);
            out.persist(Record::Open(opening.clone()));
            self.slots.say(&self.frame, Message::NewView(opening), out);
        }
    }
}

impl<V: Variant> OnUsig<V> {
    /// Gives up every lower view.
    pub(crate) fn move_to(&mut self, view: View, phase: Phase, out: &mut Effects<Self>) {
        let was_entered = self.frame.is_entered();
        self.frame.move_to(view, self.last_final(), out);
        self.phase = phase;
        let (opening, own) = (self.opening.take(), core::mem::take(&mut self.own));
        if was_entered {
            self.behind = Some(Behind { opening, own });
        }
        if phase != Phase::Draining {
            self.behind = None;
        }
        self.drop_idle_wants(&[]);
    }

    /// Stops wanting batches that only VIEW-CHANGEs of an earlier attempt showed.
    fn drop_idle_wants(&mut self, list: &[Digest]) {
        let ordered: BTreeSet<Digest> = self
            .slots
            .window
            .iter()
            .filter_map(|(_, state)| state.batch)
            .chain(list.iter().copied())
            .collect();
        self.frame.bodies.retain_wanted(|digest| ordered.contains(digest));
    }

    /// Sends VIEW-CHANGE, once every own PREPARE has come back: it must be shown with its
    /// certificate, which only the loopback brings.
    pub(crate) fn leave(&mut self, out: &mut Effects<Self>) {
        if self.phase != Phase::Draining || !self.slots.slots_awaiting_loopback.is_empty() {
            return;
        }
        let shown_before = self.frame.stable.slot.max(self.taken_over());
        let mut prepares = self.slots.prepares_to_show(&self.frame, shown_before);
        if !self.slots.are_all(&self.frame, shown_before, &prepares) {
            return;
        }
        (self.phase, self.behind) = (Phase::Changing, None);
        if mutant!("usig.shows-commitments-only") {
            let committed = V::committed(self).unwrap_or_default();
            prepares.retain(|prepared| prepared.slot <= committed);
        }
        let change = ViewChange {
            view: self.frame.view,
            requests: self.frame.view_requests.proof(self.frame.view, self.frame.weak()),
            checkpoint: self.frame.stable.clone(),
            entry: self.entry.clone().filter(|_| !mutant!("usig.hides-entry")),
            prepares,
        };
        let change = Arc::new(change);
        if !mutant!("usig.leaving-not-kept") {
            out.persist(Record::Leave(change.clone()));
        }
        self.slots.say(&self.frame, Message::ViewChange(change), out);
    }

    pub(crate) fn on_new_view(
        &mut self,
        verified: Verified<Message>,
        opening: &NewView,
        out: &mut Effects<Self>,
    ) {
        let late = opening.view < self.frame.view || opening.view == self.frame.entered;
        let busy = opening.view == self.frame.view && self.opening.is_some();
        if late || busy || self.phase == Phase::Draining {
            return;
        }
        if opening.view > self.frame.view {
            // The others went on without this replica. The NEW-VIEW proves that a quorum did.
            mark!("usig/joined");
            self.frame.reason = "the group had moved on";
            self.move_to(opening.view, Phase::Changing, out);
        }
        if self.frame.view_changes.len() < self.frame.quorum() {
            self.frame.time_new_primary(out);
        }
        if let Some(proof) = opening.checkpoint() {
            self.adopt(proof.clone(), out);
        }
        let opening = Opening::new(verified, opening);
        self.drop_idle_wants(&opening.start.list);
        self.phase = Phase::Changing;
        self.opening = Some(opening);
        self.replay_early(out);
        self.try_acknowledge(out);
        if !self.frame.bodies.is_complete() {
            let primary = self.frame.membership.primary(self.frame.view);
            let to = if primary == self.frame.me { To::Others } else { To::One(primary) };
            self.frame.ask_missing(to, out);
        }
    }

    /// Acknowledges the NEW-VIEW once every batch that it takes over is here: what is acknowledged
    /// can be executed and handed on.
    pub(crate) fn try_acknowledge(&mut self, out: &mut Effects<Self>) {
        let (Phase::Changing, Some(opening)) = (self.phase, &self.opening) else { return };
        let digest = opening.message.digest;
        if !holds_all(&mut self.frame, &opening.start, out) {
            return;
        }
        mark!("usig/acknowledge");
        self.phase = Phase::Acknowledged;
        let mine = self.frame.leads(self.frame.view);
        if let Some(opening) = self.opening.clone() {
            if !mine {
                persist_bodies(&mut self.frame, &opening.start, out);
            }
            if !mutant!("usig.acknowledged-not-kept") {
                out.persist(Record::Acknowledge(opening.message));
            }
        }
        if !mine {
            out.send(To::All, Message::Acknowledge { view: self.frame.view, opening: digest });
        }
        self.try_enter(out);
    }

    pub(crate) fn on_acknowledge(
        &mut self,
        verified: &Verified<Message>,
        view: View,
        digest: &Digest,
        out: &mut Effects<Self>,
    ) {
        if view != self.frame.view {
            return;
        }
        // Also after entering: others may need it still.
        if verified.author == self.frame.me {
            self.own.acknowledge = Some(verified.clone());
        }
        if view == self.frame.entered {
            return;
        }
        let Some(opening) = &mut self.opening else {
            self.frame.keep_early(verified.clone(), view, None);
            return;
        };
        if let (true, Some(ui)) = (opening.message.digest == *digest, verified.tag.ui()) {
            opening.acknowledgements.insert(verified.author, *ui);
            self.try_enter(out);
        }
    }

    /// How many must have found a NEW-VIEW valid, and then have committed to it.
    fn agreed(&self) -> usize {
        let one = V::OPENS_ALONE || mutant!("usig.execute-on-new-view");
        if one { 1 } else { self.frame.quorum() }
    }

    /// Enters with the NEW-VIEW's certificate and acknowledgements by `f` others.
    fn try_enter(&mut self, out: &mut Effects<Self>) {
        let (Phase::Acknowledged, Some(opening)) = (self.phase, &self.opening) else { return };
        let others = self.agreed() - 1;
        if opening.acknowledgements.len() < others {
            return;
        }
        let acknowledged = opening.acknowledgements.iter().map(|(id, ui)| (*id, *ui));
        let domain = self.frame.membership.domain();
        let Some(entry) = opening.entry(acknowledged.take(others).collect(), &domain) else {
            return;
        };
        mark!("usig/enter");
        let digest = opening.message.digest;
        if !mutant!("usig.entry-not-kept") {
            out.persist(Record::Enter(entry.clone()));
        }
        let left_out = V::left_out(self, entry.start());
        self.slots.take_over(&mut self.frame, entry.start());
        let reused = mutant!("usig.slots-used-again");
        let taken_over = if reused { entry.start().base } else { entry.end() };
        self.frame.next_slot = taken_over.max(self.frame.stable.slot).next();
        (self.phase, self.entry) = (Phase::Entered, Some(entry));
        self.frame.entered = self.frame.view;
        // The log says from now on how far it may have come in this view.
        self.frame.spoken = Slot(0);
        (self.slots.in_flight, self.enters) = (0, Votes::default());
        self.slots.slots_awaiting_loopback.clear();
        V::roll_back(self, left_out, out);
        self.frame.note_entered(self.last_final(), out);
        self.frame.await_final(self.last_final(), out);
        out.send(To::All, Message::Enter { view: self.frame.view, opening: digest });
        self.replay_early(out);
        self.advance(out);
        self.frame.object_to_liar(out);
    }

    /// `f + 1` commitments to the NEW-VIEW decide what it took over.
    pub(crate) fn on_enter(
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
        let Some(opening) = &self.opening else { return };
        if opening.message.digest != digest {
            return;
        }
        if verified.author == self.frame.me {
            self.own.enter = Some(verified.clone());
        }
        self.enters.cast(verified.author, digest);
        let end = self.taken_over();
        if self.enters.count(&digest) == self.agreed() {
            mark!("usig/taken_over");
            self.slots.decide_taken_over(end);
        }
        V::on_enter(self, out);
        if verified.author == self.frame.me {
            self.frame.note_spoken(end);
        }
        self.advance(out);
    }

    /// Messages that came before their time.
    fn replay_early(&mut self, out: &mut Effects<Self>) {
        for verified in core::mem::take(&mut self.frame.early).into_values() {
            self.on_message(verified, out);
        }
    }
}
