//! Normal case: propose, commit, decide, execute in order (MinBFT section 4).

use super::message::Message;
use super::record::{Record, persist_named};
use super::replica::{MinBft, Phase, SlotState, Timer};
use crate::common::bodies::Missing;
use crate::common::clock::{ClockWait, is_ahead};
use alloc::sync::Arc;
use core::mem::replace;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::RESEND_MESSAGES_MAX;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, Finding, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::votes::Cast;

/// How long an envelope that a PREPARE names may still be on its way from its client.
const FETCH_MILLIS: u32 = 10;

impl MinBft {
    /// Proposes what waits, while slots and pipeline have room. Called at the end of a round, so
    /// that everything that arrived together is ordered together, and nothing waits for more.
    pub(super) fn propose(&mut self, out: &mut Effects<Self>) {
        while self.is_primary()
            && self.in_flight < self.tuning.proposals_in_flight
            && self.next_slot <= self.window.high()
            && self.has_byte_room()
            && self.pending.has_unproposed()
        {
            let items = self.pending.propose(self.tuning.batch_requests);
            let proposal = Arc::new(Proposal::new(self.now, items));
            let slot = self.next_slot;
            self.next_slot = slot.next();
            self.in_flight += 1;
            self.looping.insert((self.view, slot));
            mark!("minbft/propose");
            let named = proposal.named().filter_map(|digest| self.pending.find(&digest));
            named.for_each(|envelope| out.persist(Record::Envelope(envelope)));
            let view = self.view;
            out.persist(Record::Prepare { view, slot, proposal: proposal.clone() });
            self.say(Message::Prepare { view, slot, proposal }, out);
        }
    }

    /// MinBFT section 4, step 2 at the receivers.
    pub(super) fn on_prepare(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        out: &mut Effects<Self>,
    ) {
        if verified.author == self.me {
            // Others may pass on earlier ones while this one waits for the disk.
            self.looping.remove(&(view, slot));
        }
        if view != self.entered && !mutant!("minbft.prepare-of-any-view") {
            self.keep_early(verified, view);
        } else if self.store_prepare(verified, slot, out) {
            self.advance(out);
        }
        if self.phase == Phase::Draining {
            self.leave(out);
        }
    }

    fn store_prepare(
        &mut self,
        verified: Verified<Message>,
        slot: Slot,
        out: &mut Effects<Self>,
    ) -> bool {
        let taken_over = self.entry.as_ref().is_some_and(|entry| slot <= entry.end());
        let Some(state) = self.window.get_mut(slot) else { return false };
        if taken_over || state.prepare.is_some() {
            return false;
        }
        let message = verified.message.clone();
        let Message::Prepare { proposal, .. } = &*message else { return false };
        let batch = proposal.digest();
        state.batch = Some(batch);
        state.commits.cast(verified.author, batch);
        let author = verified.author;
        state.prepare = Some(verified.clone());
        self.bodies.want(slot, batch);
        let pending = &self.pending;
        if self.bodies.offer(proposal, |digest| pending.find(digest)) {
            out.report(author, Finding::OversizeBatch { slot });
            self.distrust(author, out);
        }
        if self.bodies.get(&batch).is_none() {
            mark!("minbft/prepare_incomplete");
            self.arm_fetch(out);
        }
        self.decide(slot);
        self.show_left_out(&verified, out);
        true
    }

    /// MinBFT section 4, step 3 at the receivers.
    pub(super) fn on_commit(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        if view != self.entered && !mutant!("minbft.commit-of-any-view") {
            self.keep_early(verified, view);
            return;
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        if verified.author == self.me {
            state.own_commit = Some(verified.clone());
        }
        if state.commits.cast(verified.author, batch) == Cast::Counted {
            if state.prepare.is_some() && state.batch != Some(batch) {
                out.report(verified.author, Finding::MismatchedCommit { view, slot });
            }
            self.decide(slot);
            self.advance(out);
            self.watch_gap(slot, out);
        }
    }

    /// Keeps a message of the view that this replica is about to enter.
    pub(super) fn keep_early(&mut self, verified: Verified<Message>, view: View) {
        let of_author = self.early.iter().filter(|early| early.author == verified.author).count();
        let room = of_author < self.tuning.window_slots as usize;
        let early = view == self.view && view != self.entered;
        if early && room && !self.early.contains(&verified) {
            mark!("minbft/early");
            self.early.push(verified);
        }
    }

    /// `f + 1` commitments to what the PREPARE orders decide the slot.
    fn decide(&mut self, slot: Slot) {
        let quorum = self.quorum();
        let Some(state) = self.window.get_mut(slot) else { return };
        let (Some(batch), Some(_), false) = (state.batch, &state.prepare, state.decided) else {
            return;
        };
        let enough = if mutant!("minbft.decide-with-f") { quorum - 1 } else { quorum };
        if state.commits.count(&batch) >= enough {
            state.decided = true;
            if self.membership.primary(self.entered) == self.me && !mutant!("minbft.flight-leaks") {
                self.in_flight = self.in_flight.saturating_sub(1);
            }
        }
    }

    /// Does everything that the state allows: commits in slot order, executes in slot order.
    pub(super) fn advance(&mut self, out: &mut Effects<Self>) {
        if self.phase == Phase::Entered && !self.is_primary() {
            while self.commit_next(out) {}
        }
        while self.execute_next(out) {}
        self.arm_request_timer(out);
        self.arm_resend_if_unsettled(out);
    }

    /// Commits to the next slot, if its PREPARE is here with the whole batch and its time has come.
    /// In slot order, because the counter cannot go back to a slot that was left out.
    fn commit_next(&mut self, out: &mut Effects<Self>) -> bool {
        let skip = mutant!("minbft.commit-skips-gaps")
            && self.window.get(self.next_slot).is_some_and(|state| state.prepare.is_none());
        let slot = if skip { self.next_slot.next() } else { self.next_slot };
        let Some(SlotState { prepare: Some(prepare), batch: Some(batch), .. }) =
            self.window.get(slot)
        else {
            return false;
        };
        let (batch, primary, record) = (*batch, prepare.author, Record::Commit(prepare.clone()));
        let Some(body) = self.bodies.get(&batch) else { return false };
        let time = body.time;
        if self.is_future(time) {
            self.wait_for_clock(slot, time, Some(primary), out);
            return false;
        }
        persist_named(body, out);
        if !mutant!("minbft.commit-not-kept") {
            out.persist(record);
        }
        self.next_slot = slot.next();
        out.send(To::All, Message::Commit { view: self.view, slot, batch });
        true
    }

    /// Whether a proposal's time is further ahead of our clock than clocks may differ.
    pub(super) fn is_future(&self, time: Millis) -> bool {
        is_ahead(time, self.now) && !mutant!("minbft.any-time-is-good")
    }

    /// Looks again when our clock has come near, and within a second in case it gets set.
    pub(super) fn wait_for_clock(
        &mut self,
        slot: Slot,
        time: Millis,
        suspect: Option<ReplicaId>,
        out: &mut Effects<Self>,
    ) {
        if self.clock_wait.is_none_or(|waiting| waiting.slot != slot) {
            let waiting = ClockWait { slot, time, suspect };
            self.clock_wait = Some(waiting);
            out.arm(Timer::Clock, Delay::Millis(waiting.look_after(self.now)));
        }
    }

    /// The host said the time. It may not have for a while, at the start or after a pause, so only
    /// what is ahead of the clock even now is its proposer's doing.
    pub(super) fn clock_moved(&mut self, out: &mut Effects<Self>) {
        let Some(ClockWait { slot, time, suspect }) = self.clock_wait else { return };
        if !self.is_future(time) {
            out.disarm(Timer::Clock);
            self.on_clock(out);
        } else if let Some(primary) = suspect {
            mark!("minbft/future_time");
            out.report(primary, Finding::FutureTime { slot, time });
            self.clock_wait = Some(ClockWait { slot, time, suspect: None });
        }
    }

    /// Whatever waited for our clock may go on.
    pub(super) fn on_clock(&mut self, out: &mut Effects<Self>) {
        self.clock_wait = None;
        self.bodies_changed(out);
    }

    /// Whether so little was executed since the stable checkpoint that more may be. Otherwise a
    /// checkpoint was taken in between, at the same slot everywhere, and its votes make room.
    fn has_byte_room(&self) -> bool {
        self.checkpoints.extent.bytes() < 2 * self.tuning.checkpoint_bytes
    }

    /// Hands the next decided slot to execution.
    fn execute_next(&mut self, out: &mut Effects<Self>) -> bool {
        if !self.has_byte_room() {
            mark!("minbft/bytes_full");
            return false;
        }
        let slot = self.committed.next();
        // Behind its own last commitment a log could not say how far this replica had come.
        if self.is_durable && slot >= self.next_slot {
            return false;
        }
        let Some(SlotState { decided: true, batch: Some(batch), .. }) = self.window.get(slot)
        else {
            return false;
        };
        let Some(batch) = self.bodies.get(batch).cloned() else { return false };
        self.committed = slot;
        self.note_executed(&batch);
        let is_checkpoint = self.checkpoints.extent.executed(slot, batch.bytes(), &self.tuning);
        out.output(Output::Execute { slot, batch });
        if is_checkpoint {
            mark!("minbft/checkpoint");
            let slot = if mutant!("minbft.checkpoint-misnamed") { slot.next() } else { slot };
            out.output(Output::Checkpoint { slot });
        }
        true
    }

    /// Has the primary asked soon for the envelopes that a PREPARE names and that are not here.
    /// Nearly always their client's own copy is on its way, and a second one would cost as much
    /// again.
    fn arm_fetch(&mut self, out: &mut Effects<Self>) {
        if !replace(&mut self.fetch_armed, true) {
            out.arm(Timer::Fetch, Delay::Millis(FETCH_MILLIS));
        }
    }

    /// What is missing did not come by itself.
    pub(super) fn on_fetch(&mut self, out: &mut Effects<Self>) {
        self.fetch_armed = false;
        let primary = self.membership.primary(self.entered);
        if !self.bodies.is_complete() && primary != self.me {
            mark!("minbft/fetch_body");
            self.ask_missing(To::One(primary), out);
        }
    }

    /// Asks for the bodies that are missing.
    pub(super) fn ask_missing(&mut self, to: To, out: &mut Effects<Self>) {
        for missing in self.bodies.missing(RESEND_MESSAGES_MAX, self.ticks) {
            match missing {
                Missing::Proposal(batch) => out.send(to, Message::AskBody { batch }),
                Missing::Envelopes(digests) => {
                    for envelope in digests.into_iter().take(RESEND_MESSAGES_MAX) {
                        out.send(to, Message::AskEnvelope { envelope });
                    }
                }
            }
        }
    }

    pub(super) fn on_ask_body(&mut self, from: ReplicaId, batch: &Digest, out: &mut Effects<Self>) {
        let Some(proposal) = self.bodies.proposal(batch).cloned() else { return };
        let bytes = proposal.whole().map(|envelope| envelope.len()).sum();
        if self.may_serve(from, *batch, bytes, out) && !mutant!("minbft.bodies-not-served") {
            mark!("minbft/body_served");
            out.send(To::One(from), Message::Body(proposal));
        }
    }

    /// Whether a peer may be sent another answer before the next tick.
    fn may_serve(
        &mut self,
        from: ReplicaId,
        digest: Digest,
        bytes: usize,
        out: &mut Effects<Self>,
    ) -> bool {
        self.arm_resend(out);
        self.served[usize::from(from.0)].takes(digest, bytes)
    }

    pub(super) fn on_ask_envelope(
        &mut self,
        from: ReplicaId,
        digest: &Digest,
        out: &mut Effects<Self>,
    ) {
        let envelope = self.pending.find(digest).or_else(|| self.bodies.envelope(digest));
        if let Some(envelope) = envelope
            && self.may_serve(from, *digest, envelope.len(), out)
        {
            mark!("minbft/envelope_served");
            out.send(To::One(from), Message::Envelope(envelope));
        }
    }

    pub(super) fn on_body(
        &mut self,
        from: ReplicaId,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) {
        let pending = &self.pending;
        self.bodies.offer(proposal, |digest| pending.find(digest));
        if !self.bodies.is_complete() {
            self.ask_missing_envelopes(proposal, To::One(from), out);
        }
        self.bodies_changed(out);
    }

    fn ask_missing_envelopes(&self, proposal: &Proposal, to: To, out: &mut Effects<Self>) {
        if self.bodies.proposal(&proposal.digest()).is_some()
            && self.bodies.get(&proposal.digest()).is_none()
        {
            let lacking = proposal.named().filter(|digest| self.pending.find(digest).is_none());
            for envelope in lacking.take(RESEND_MESSAGES_MAX) {
                out.send(to, Message::AskEnvelope { envelope });
            }
        }
    }

    /// An envelope, from a peer that was asked or from its client: some batch may name it, whatever
    /// its size.
    pub(super) fn on_envelope(&mut self, envelope: &Arc<Envelope>, out: &mut Effects<Self>) {
        let pending = &self.pending;
        if self.bodies.offer_envelope(envelope, |digest| pending.find(digest)) {
            mark!("minbft/envelope_used");
            self.bodies_changed(out);
        }
    }

    /// A batch may have become complete: whatever waited for it goes on.
    pub(super) fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        self.try_acknowledge(out);
        self.advance(out);
    }
}
