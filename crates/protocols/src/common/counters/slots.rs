//! The slots of the view that was entered last, by PREPAREs and COMMITs: proposing, committing,
//! deciding, and repeating for those who lack some.
//!
//! What is decided is executed in order (`common/frame/execution.rs`).

use super::certificate::{Opened, Prepared, Start};
use super::order::Order;
use super::record::Noted;
use super::{Bug, Counted};
use crate::common::frame::Frame;
use crate::common::message::Report;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::protocol::{Effects, Finding, To};
use pentarchy_core::votes::{Cast, Votes};
use pentarchy_core::window::Window;

/// What is known of a slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SlotState<M> {
    /// The batch it orders: by PREPARE, or taken over by the view.
    pub batch: Option<Digest>,
    /// The PREPARE.
    pub prepare: Option<Verified<M>>,
    /// Commitments, the primary's PREPARE among them.
    pub commits: Votes<Digest>,
    /// This replica's own COMMIT, to send again.
    pub own_commit: Option<Verified<M>>,
    /// Whether a quorum committed.
    pub decided: bool,
}

impl<M> Default for SlotState<M> {
    fn default() -> Self {
        Self {
            batch: None,
            prepare: None,
            commits: Votes::default(),
            own_commit: None,
            decided: false,
        }
    }
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Slots<C: Counted> {
    /// What is known of each.
    pub window: Window<SlotState<C::Message>>,
    /// Proposals of this primary, in this view, that are not decided.
    pub in_flight: u64,
    /// What this primary said and what has not come back by loopback: PREPAREs, and whatever its
    /// protocol adds.
    pub slots_awaiting_loopback: BTreeSet<(View, Slot)>,
    /// What was said by [`Self::say`] and has not come back, if records are kept: until then
    /// nothing else holds it.
    pub awaiting_loopback: Vec<C::Message>,
}

fn has<C: Counted>(bug: Bug) -> bool {
    (C::Entry::TERMS.has)(bug)
}

impl<C: Counted> Slots<C> {
    /// Of a replica that has heard of none.
    #[must_use]
    pub fn new(low: Slot, size: u64) -> Self {
        let window = Window::new(low, size);
        Self {
            window,
            in_flight: 0,
            slots_awaiting_loopback: BTreeSet::new(),
            awaiting_loopback: Vec::new(),
        }
    }

    /// What a slot orders, as far as this replica knows.
    #[must_use]
    pub fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.window.get(slot)?.batch
    }

    /// What a slot orders, if that is decided and may be told.
    #[must_use]
    pub fn decided(&self, frame: &Frame<C>, slot: Slot) -> Option<Digest> {
        let may_tell = frame.may_tell(slot);
        self.window.get(slot).filter(|state| state.decided && may_tell)?.batch
    }

    /// Says something that others may have to be told again after a crash, and notes it until it
    /// comes back.
    pub fn say(&mut self, frame: &Frame<C>, message: C::Message, out: &mut Effects<C>) {
        if frame.is_durable {
            self.awaiting_loopback.push(message.clone());
        }
        out.send(To::All, message);
    }

    /// An own message came back.
    pub fn heard_own(&mut self, message: &C::Message) {
        if let Some(index) =
            self.awaiting_loopback.iter().position(|awaiting_loopback| awaiting_loopback == message)
        {
            self.awaiting_loopback.remove(index);
        }
    }

    /// Proposals under way: not decided, or, if nothing waits for that, not executed.
    fn under_way(&self, frame: &Frame<C>) -> u64 {
        let behind = frame.next_slot.0.saturating_sub(frame.executed.next().0);
        if C::RULES.speculative { behind } else { self.in_flight }
    }

    /// As primary, proposes what waits, while there is room.
    pub fn propose(&mut self, frame: &mut Frame<C>, out: &mut Effects<C>) {
        while self.under_way(frame) < frame.tuning.proposals_in_flight
            && let Some((slot, proposal)) = frame.take_proposal(out)
        {
            self.in_flight += 1;
            let view = frame.view;
            self.slots_awaiting_loopback.insert((view, slot));
            out.persist(C::noted(Noted::Prepare { view, slot, proposal: proposal.clone() }));
            self.say(frame, C::order(Order::Prepare { view, slot, proposal }), out);
        }
    }

    /// A PREPARE came, in a view that took over the slots up to this one. Whether that is news: it
    /// may be of the view that is being left, and bring what the next one waits for.
    pub fn on_prepare(
        &mut self,
        frame: &mut Frame<C>,
        verified: Verified<C::Message>,
        taken_over: Slot,
        out: &mut Effects<C>,
    ) -> bool {
        let message = verified.message.clone();
        let Some(Order::Prepare { view, slot, proposal }) = C::as_order(&message) else {
            return false;
        };
        let (view, slot) = (*view, *slot);
        if verified.author == frame.me {
            // Others may pass on earlier ones while this one waits for the disk.
            self.slots_awaiting_loopback.remove(&(view, slot));
            if view == frame.entered {
                frame.note_spoken(slot);
            }
        }
        if view != frame.entered && !has::<C>(Bug::PrepareOfAnyView) {
            frame.keep_early(verified, view, Some(slot));
            return false;
        }
        let Some(state) = self.window.get(slot) else { return false };
        if slot <= taken_over || state.prepare.is_some() {
            return false;
        }
        self.hold(slot, proposal.digest(), verified.clone());
        frame.on_proposal(verified.author, slot, proposal, out);
        self.decide(frame, slot);
        frame.show_left_out(&verified, out);
        true
    }

    /// A slot orders this, by its PREPARE.
    pub(super) fn hold(&mut self, slot: Slot, batch: Digest, prepare: Verified<C::Message>) {
        if let Some(state) = self.window.get_mut(slot) {
            state.batch = Some(batch);
            state.commits.cast(prepare.author, batch);
            state.prepare = Some(prepare);
        }
    }

    /// A COMMIT came. Whether it counts.
    pub fn on_commit(
        &mut self,
        frame: &mut Frame<C>,
        verified: Verified<C::Message>,
        (view, slot, batch): (View, Slot, Digest),
        out: &mut Effects<C>,
    ) -> bool {
        if view != frame.entered && !has::<C>(Bug::CommitOfAnyView) {
            frame.keep_early(verified, view, Some(slot));
            return false;
        }
        let Some(state) = self.window.get_mut(slot) else { return false };
        let author = verified.author;
        frame.peers.note_voted(author, slot);
        if author == frame.me {
            state.own_commit = Some(verified);
            frame.note_spoken(slot);
        }
        if state.commits.cast(author, batch) != Cast::Counted {
            return false;
        }
        if state.prepare.is_some() && state.batch != Some(batch) {
            out.report(author, Finding::MismatchedCommit { view, slot });
        }
        self.decide(frame, slot);
        true
    }

    /// A quorum of commitments to what the PREPARE orders, itself among them, decides the slot.
    fn decide(&mut self, frame: &Frame<C>, slot: Slot) {
        let quorum = frame.quorum();
        let Some(state) = self.window.get_mut(slot) else { return };
        let (Some(batch), Some(_), false) = (state.batch, &state.prepare, state.decided) else {
            return;
        };
        let enough = if has::<C>(Bug::DecideWithF) { quorum - 1 } else { quorum };
        if state.commits.count(&batch) >= enough {
            state.decided = true;
            if frame.leads(frame.entered) && !has::<C>(Bug::FlightLeaks) {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
        }
    }

    /// A backup commits slot by slot to all that it may.
    pub fn commit(&mut self, frame: &mut Frame<C>, out: &mut Effects<C>) {
        while !frame.is_primary() && self.commit_next(frame, out) {}
    }

    /// Commits to the next slot, if its PREPARE is here with the whole batch and its time has come.
    /// In slot order, because the counter cannot go back to a slot that was left out.
    fn commit_next(&self, frame: &mut Frame<C>, out: &mut Effects<C>) -> bool {
        let skip = has::<C>(Bug::CommitSkipsGaps)
            && self.window.get(frame.next_slot).is_some_and(|state| state.prepare.is_none());
        let slot = if skip { frame.next_slot.next() } else { frame.next_slot };
        let Some(SlotState { prepare: Some(prepare), batch: Some(batch), .. }) =
            self.window.get(slot).filter(|_| frame.has_vote_room(slot))
        else {
            return false;
        };
        let batch = *batch;
        let Some(body) = frame.bodies.get(&batch) else { return false };
        let time = body.time;
        if frame.is_future(time) {
            frame.wait_for_clock(slot, time, Some(prepare.author), out);
            return false;
        }
        frame.persist_named(&batch, out);
        if !has::<C>(Bug::CommitNotKept) {
            out.persist(C::noted(Noted::Commit(prepare.clone())));
        }
        frame.note_vote(slot, &batch);
        frame.next_slot = slot.next();
        out.send(To::All, C::order(Order::Commit { view: frame.view, slot, batch }));
        true
    }

    /// Moves the window. Slots that come into it may be among those that the view took over, which
    /// may be decided.
    pub fn advance_window(
        &mut self,
        frame: &mut Frame<C>,
        low: Slot,
        taken_over: Option<(&Start, bool)>,
    ) {
        let before = self.window.high();
        self.window.advance(low);
        if let Some((start, decided)) = taken_over {
            for slot in (before.0 + 1..=self.window.high().0.min(start.end().0)).map(Slot) {
                if let (Some(state), Some(batch)) = (self.window.get_mut(slot), start.batch(slot)) {
                    (state.batch, state.decided) = (Some(batch), decided);
                    frame.bodies.want(slot, batch);
                }
            }
        }
        if frame.leads(frame.entered) {
            let open = |state: &SlotState<_>| state.prepare.is_some() && !state.decided;
            let count = self.window.iter().filter(|(_, state)| open(state)).count() as u64;
            self.in_flight = count + self.slots_awaiting_loopback.len() as u64;
        }
    }

    /// Slots that the view took over order what its list says; everything else begins anew. What
    /// was decided stays decided.
    pub fn take_over(&mut self, frame: &mut Frame<C>, start: &Start) {
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { continue };
            let batch = start.batch(slot).filter(|_| !has::<C>(Bug::NothingTakenOver));
            let decided = state.decided && batch.is_some() && state.batch == batch;
            *state = SlotState { batch, decided, ..SlotState::default() };
        }
        frame.bodies.retain(frame.stable.slot, |digest| start.list.contains(digest));
        for (slot, batch) in start.above(frame.stable.slot) {
            frame.bodies.want(slot, batch);
        }
    }

    /// What the view took over is decided, up to this slot.
    pub fn decide_taken_over(&mut self, end: Slot) {
        for slot in (self.window.low().0 + 1..=end.0).map(Slot) {
            if let Some(state) = self.window.get_mut(slot) {
                state.decided = state.batch.is_some();
            }
        }
    }

    /// The PREPAREs behind a slot, up to the last that this replica committed to: those it holds
    /// the batches of, and none that a lying primary made up with a batch that nobody can find or a
    /// time that has not come.
    #[must_use]
    pub fn prepares_to_show(&self, frame: &Frame<C>, after: Slot) -> Vec<Prepared> {
        let hidden = u64::from(has::<C>(Bug::HidesLastCommitment));
        let shown = (after.next().0..frame.next_slot.0 - hidden).map_while(|slot| {
            let state = self.window.get(Slot(slot))?;
            let ui = *state.prepare.as_ref()?.tag.ui()?;
            Some(Prepared { slot: Slot(slot), batch: state.batch?, ui })
        });
        shown.collect()
    }

    /// Whether these, behind a slot, are all that the counter may say of the view: nobody takes a
    /// VIEW-CHANGE that shows less, and it is certified once. What is lacking may still come.
    #[must_use]
    pub fn are_all(&self, frame: &Frame<C>, after: Slot, shown: &[Prepared]) -> bool {
        let hidden = u64::from(has::<C>(Bug::HidesLastCommitment));
        after.0 + shown.len() as u64 + hidden >= frame.next_slot.0 - 1
    }

    /// Sends a peer PREPAREs that it lacks and own COMMITs for slots that it has not committed.
    pub fn answer(
        &self,
        frame: &mut Frame<C>,
        from: ReplicaId,
        report: &Report<C::More>,
        out: &mut Effects<C>,
    ) {
        let first = report.executed.max(self.window.low()).next();
        for slot in (first.0..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get(slot) else { break };
            let only_own = has::<C>(Bug::OnlyAuthorsRepeat);
            let prepare = state.prepare.as_ref().filter(|_| slot > report.prepared);
            let prepare = prepare.filter(|it| !only_own || it.author == frame.me);
            for message in prepare.into_iter().chain(&state.own_commit) {
                if !frame.repeat(from, message, slot > report.prepared, out) {
                    return;
                }
            }
        }
    }

    /// Whether nothing follows from a PREPARE or COMMIT of another replica.
    ///
    /// There are no streams of a sender's certificates to follow: each certificate names its view
    /// and slot, and a VIEW-CHANGE shows by itself what its sender has to show. So whatever changes
    /// nothing can be dropped.
    #[must_use]
    pub fn is_redundant(&self, frame: &Frame<C>, order: &Order) -> bool {
        let (view, slot) = order.place();
        let other_view = view != frame.view && view != frame.entered;
        let known = |state: &SlotState<_>| match order {
            Order::Prepare { .. } => state.prepare.is_some(),
            Order::Commit { batch, .. } => {
                state.decided && state.prepare.is_some() && state.batch == Some(*batch)
            }
        };
        let is_known = || view == frame.entered && self.window.get(slot).is_some_and(known);
        other_view || !self.window.contains(slot) || is_known()
    }

    /// Asserts what holds between events.
    pub fn assert_invariants(&self, frame: &Frame<C>) {
        assert_eq!(self.window.low(), frame.stable.slot);
        assert!(self.awaiting_loopback.len() <= frame.tuning.window_slots as usize + REPLICAS_MAX);
        for (slot, state) in self.window.iter() {
            assert!(!state.decided || state.batch.is_some(), "{slot} is decided without a batch");
            assert!(state.own_commit.is_none() || slot < frame.next_slot);
        }
    }
}
