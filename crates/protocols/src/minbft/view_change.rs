//! Changing the primary: ask, leave, open, acknowledge, enter (MinBFT section 4, view change, with
//! the repairs that `docs/protocols/minbft.md` argues for).
//!
//! A replica *commits* in a view only from ENTER on, and enters only with proof that a quorum found
//! the NEW-VIEW valid. So a VIEW-CHANGE need not show what the views before its last commitment
//! rested on, and what a view took over executes only once a quorum has committed to it.

use super::certificate::{
    CertifiedViewChange, Entry, NewView, Prepared, Start, ViewChange, batch_shown,
};
use super::message::Message;
use super::record::Record;
use super::replica::{Behind, MinBft, Phase, SlotState};
use crate::common::frame::checkpointing::Checkpointing;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::ChangesViews;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::votes::Votes;

/// A NEW-VIEW on its way to be entered, or the one that was.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Opening {
    /// The NEW-VIEW, to pass on. Its digest is what is acknowledged.
    pub message: Verified<Message>,
    /// What follows from it.
    pub start: Start,
    /// Digest of its members.
    pub members: Digest,
    /// Who acknowledged it.
    pub acknowledgements: BTreeMap<ReplicaId, Ui>,
}

impl Opening {
    /// Of this NEW-VIEW, which nobody has acknowledged.
    pub(super) fn new(message: Verified<Message>, opening: &NewView, domain: &Domain) -> Self {
        let (start, members) = (opening.start(), opening.members_digest(domain));
        Self { message, start, members, acknowledgements: BTreeMap::new() }
    }
}

impl ChangesViews for MinBft {
    fn taken_over(&self) -> Slot {
        self.entry.as_ref().map_or(Slot(0), Entry::end)
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
        let shown: Vec<_> = self.frame.view_changes.values().cloned().collect();
        let mut members: Vec<CertifiedViewChange> = Vec::new();
        for verified in shown {
            let (Message::ViewChange(change), Some(ui)) = (&*verified.message, verified.tag.ui())
            else {
                continue;
            };
            if self.holds_shown(change, out) && members.len() < self.frame.quorum() {
                let (author, ui, change) = (verified.author, *ui, change.clone());
                members.push(CertifiedViewChange { author, ui, change });
            }
        }
        if members.len() == self.frame.quorum() {
            mark!("minbft/open");
            self.phase = Phase::Opening;
            let opening = Arc::new(NewView { view: self.frame.view, members });
            let start = opening.start();
            self.persist_bodies(start.base, &start.list, out);
            out.persist(Record::Open(opening.clone()));
            self.say(Message::NewView(opening), out);
        }
    }
}

impl MinBft {
    /// Gives up every lower view.
    pub(super) fn move_to(&mut self, view: View, phase: Phase, out: &mut Effects<Self>) {
        let was_entered = self.frame.is_entered();
        self.frame.move_to(view, out);
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
            .window
            .iter()
            .filter_map(|(_, state)| state.batch)
            .chain(list.iter().copied())
            .collect();
        self.frame.bodies.retain_wanted(|digest| ordered.contains(digest));
    }

    /// Sends VIEW-CHANGE, once every own PREPARE has come back: it must be shown with its
    /// certificate, which only the loopback brings.
    pub(super) fn leave(&mut self, out: &mut Effects<Self>) {
        if self.phase != Phase::Draining || !self.looping.is_empty() {
            return;
        }
        (self.phase, self.behind) = (Phase::Changing, None);
        let change = ViewChange {
            view: self.frame.view,
            requests: self.frame.asks.proof(self.frame.view, self.frame.weak()),
            checkpoint: self.frame.stable.clone(),
            entry: self.entry.clone().filter(|_| !mutant!("minbft.hides-entry")),
            prepares: self.prepares_to_show(),
        };
        let change = Arc::new(change);
        if !mutant!("minbft.leaving-not-kept") {
            out.persist(Record::Leave(change.clone()));
        }
        self.say(Message::ViewChange(change), out);
    }

    /// The PREPAREs of the entered view behind what it took over and the stable checkpoint, up to
    /// the last that this replica committed to: those it holds the batches of, and none that a
    /// lying primary made up with a batch that nobody can find or a time that has not come.
    fn prepares_to_show(&self) -> Vec<Prepared> {
        let taken_over = self.entry.as_ref().map_or(Slot(0), Entry::end);
        let first = self.frame.stable.slot.max(taken_over).next();
        let hidden = u64::from(mutant!("minbft.hides-last-commitment"));
        let shown = (first.0..self.frame.next_slot.0 - hidden).map_while(|slot| {
            let state = self.window.get(Slot(slot))?;
            let ui = *state.prepare.as_ref()?.tag.ui()?;
            Some(Prepared { slot: Slot(slot), batch: state.batch?, ui })
        });
        shown.collect()
    }

    /// Keeps the batches that a view takes over.
    pub(super) fn persist_bodies(&mut self, base: Slot, list: &[Digest], out: &mut Effects<Self>) {
        for (slot, digest) in (base.0 + 1..).map(Slot).zip(list) {
            if slot > self.frame.stable.slot {
                self.frame.persist_body(slot, digest, out);
            }
        }
    }

    /// Whether every batch that a VIEW-CHANGE shows is here; wants those that are not.
    fn holds_shown(&mut self, change: &ViewChange, out: &mut Effects<Self>) -> bool {
        let mut complete = true;
        let low = self.frame.stable.slot.max(change.checkpoint.slot);
        for slot in (low.0 + 1..=change.shown().0).map(Slot) {
            if let Some(batch) = batch_shown(change, slot) {
                complete &= self.holds(slot, batch, out);
            }
        }
        complete
    }

    /// Whether a batch is here and its time has come: what correct replicas committed to passes
    /// sooner or later, what a liar made up may never.
    fn holds(&mut self, slot: Slot, batch: Digest, out: &mut Effects<Self>) -> bool {
        self.frame.bodies.want(slot, batch);
        let Some(time) = self.frame.bodies.get(&batch).map(|batch| batch.time) else {
            return false;
        };
        let future = self.frame.is_future(time);
        if future {
            self.frame.wait_for_clock(slot, time, None, out);
        }
        !future
    }

    pub(super) fn on_new_view(
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
            mark!("minbft/joined");
            self.frame.reason = "the group had moved on";
            self.move_to(opening.view, Phase::Changing, out);
        }
        if self.frame.view_changes.len() < self.frame.quorum() {
            self.frame.time_new_primary(out);
        }
        if let Some(proof) = opening.checkpoint() {
            self.adopt(proof.clone(), out);
        }
        let opening = Opening::new(verified, opening, &self.frame.membership.domain());
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
    pub(super) fn try_acknowledge(&mut self, out: &mut Effects<Self>) {
        let (Phase::Changing, Some(opening)) = (self.phase, &self.opening) else { return };
        let digest = opening.message.digest;
        let low = self.frame.stable.slot;
        let slots = (opening.start.base.0 + 1..).map(Slot).zip(opening.start.list.clone());
        let mut complete = true;
        for (slot, batch) in slots.filter(|(slot, _)| *slot > low) {
            complete &= self.holds(slot, batch, out);
        }
        if !complete {
            return;
        }
        mark!("minbft/acknowledge");
        self.phase = Phase::Acknowledged;
        let mine = self.frame.leads(self.frame.view);
        if let Some(opening) = self.opening.clone() {
            if !mine {
                self.persist_bodies(opening.start.base, &opening.start.list, out);
            }
            if !mutant!("minbft.acknowledged-not-kept") {
                out.persist(Record::Acknowledge(opening.message));
            }
        }
        if !mine {
            out.send(To::All, Message::Acknowledge { view: self.frame.view, opening: digest });
        }
        self.try_enter(out);
    }

    pub(super) fn on_acknowledge(
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
        if mutant!("minbft.execute-on-new-view") { 1 } else { self.frame.quorum() }
    }

    /// Enters with the NEW-VIEW's certificate and acknowledgements by `f` others.
    fn try_enter(&mut self, out: &mut Effects<Self>) {
        let (Phase::Acknowledged, Some(opening)) = (self.phase, &self.opening) else { return };
        let others = self.agreed() - 1;
        let Some(ui) = opening.message.tag.ui() else { return };
        if opening.acknowledgements.len() < others {
            return;
        }
        mark!("minbft/enter");
        let acknowledgements = opening.acknowledgements.iter().map(|(id, ui)| (*id, *ui));
        let entry = Entry {
            view: self.frame.view,
            base: opening.start.base,
            list: opening.start.list.clone(),
            members: opening.members,
            opening: *ui,
            acknowledgements: acknowledgements.take(others).collect(),
        };
        let digest = opening.message.digest;
        if !mutant!("minbft.entry-not-kept") {
            out.persist(Record::Enter(entry.clone()));
        }
        self.take_over(&entry);
        let taken_over = if mutant!("minbft.slots-used-again") { entry.base } else { entry.end() };
        self.frame.next_slot = taken_over.max(self.frame.stable.slot).next();
        (self.phase, self.entry) = (Phase::Entered, Some(entry));
        self.frame.entered = self.frame.view;
        // The log says from now on how far it may have come in this view.
        self.frame.spoken = Slot(0);
        (self.in_flight, self.enters) = (0, Votes::default());
        self.looping.clear();
        self.frame.note_entered(out);
        out.send(To::All, Message::Enter { view: self.frame.view, opening: digest });
        self.replay_early(out);
        self.advance(out);
        self.frame.object_to_liar(out);
    }

    /// Slots that the view took over order what its list says; everything else begins anew. What
    /// was decided stays decided.
    pub(super) fn take_over(&mut self, entry: &Entry) {
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let batch = entry.batch(slot).filter(|_| !mutant!("minbft.nothing-taken-over"));
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

    /// Moves the window. Slots that come into it may be among those that the view took over.
    pub(super) fn advance_window(&mut self, low: Slot) {
        let before = self.window.high();
        self.window.advance(low);
        let Some(entry) = &self.entry else { return };
        let decided = self.enters.voters().len() >= self.frame.quorum();
        for slot in (before.0 + 1..=self.window.high().0.min(entry.end().0)).map(Slot) {
            if let (Some(state), Some(batch)) = (self.window.get_mut(slot), entry.batch(slot)) {
                state.batch = Some(batch);
                state.decided = decided;
                self.frame.bodies.want(slot, batch);
            }
        }
    }

    /// `f + 1` commitments to the NEW-VIEW decide what it took over.
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
        let Some(opening) = &self.opening else { return };
        if opening.message.digest != digest {
            return;
        }
        if verified.author == self.frame.me {
            self.own.enter = Some(verified.clone());
        }
        self.enters.cast(verified.author, digest);
        let end = self.entry.as_ref().map_or(Slot(0), Entry::end);
        if self.enters.count(&digest) == self.agreed() {
            mark!("minbft/taken_over");
            for slot in (self.window.low().0 + 1..=end.0).map(Slot) {
                if let Some(state) = self.window.get_mut(slot) {
                    state.decided = state.batch.is_some();
                }
            }
        }
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
