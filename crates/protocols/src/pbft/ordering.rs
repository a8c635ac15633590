//! Normal case: propose, vote, commit, decide, execute in order (section 4.2).

use super::certificate::{Claim, Prepared};
use super::message::Message;
use super::record::{Record, persist_named};
use super::replica::{EARLY_PER_SLOT, Pbft, Phase, SlotState, Timer};
use crate::common::bodies::Missing;
use crate::common::clock::{ClockWait, is_ahead};
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::mem::replace;
use pentarchy_core::auth::{Signature, Verified};
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

/// How long an envelope that a proposal names may still be on its way from its client.
const FETCH_MILLIS: u32 = 10;

impl Pbft {
    /// Proposes what waits, while slots and pipeline have room. Called at the end of a round, so
    /// that everything that arrived together is ordered together, and nothing waits for more.
    pub(super) fn propose(&mut self, out: &mut Effects<Self>) {
        while self.is_primary()
            && self.next_slot > self.start.end()
            && self.next_slot <= self.window.high()
            && self.in_flight() < self.tuning.proposals_in_flight
            && self.has_byte_room()
            && self.pending.has_unproposed()
        {
            let items = self.pending.propose(self.tuning.batch_requests);
            let proposal = Arc::new(Proposal::new(self.now, items));
            let slot = self.next_slot;
            self.next_slot = slot.next();
            mark!("pbft/propose");
            let named = proposal.named().filter_map(|digest| self.pending.find(&digest));
            named.for_each(|envelope| out.persist(Record::Envelope(envelope)));
            let view = self.view;
            out.persist(Record::Propose { view, slot, proposal: proposal.clone() });
            self.unheard.insert(slot, proposal.clone());
            out.send(To::All, Message::PrePrepare { view, slot, proposal });
        }
    }

    /// Own proposals that are not decided.
    fn in_flight(&self) -> u64 {
        let first = self.committed.max(self.start.end()).next();
        let is_open = |slot: &Slot| self.window.get(*slot).is_some_and(|state| !state.decided);
        (first.0..self.next_slot.0).map(Slot).filter(is_open).count() as u64
    }

    /// The primary's proposal, which is its vote too (section 4.2).
    pub(super) fn on_pre_prepare(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) {
        if view != self.entered || self.phase != Phase::Entered {
            self.keep_early(verified, view);
        } else if self.store_proposal(verified, slot, proposal, out) {
            self.check_prepared(slot, out);
            self.advance(out);
        }
    }

    fn store_proposal(
        &mut self,
        verified: Verified<Message>,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) -> bool {
        if verified.author == self.me {
            self.unheard.remove(&slot);
        }
        let taken_over = slot <= self.start.end();
        let Some(state) = self.window.get_mut(slot).filter(|_| !taken_over) else { return false };
        let (author, batch) = (verified.author, proposal.digest());
        if state.batch.is_some_and(|known| known != batch) {
            mark!("pbft/two_proposals");
            let view = self.entered;
            out.report(author, Finding::TwoProposals { view, slot });
            self.distrust(author, out);
            return false;
        }
        if state.proposed.is_some() {
            return false;
        }
        state.batch = Some(batch);
        if let Some(signature) = verified.tag.signature() {
            state.votes.entry(author).or_insert((batch, Signature(*signature)));
        }
        state.proposed = Some(verified.clone());
        self.bodies.want(slot, batch);
        let pending = &self.pending;
        if self.bodies.offer(proposal, |digest| pending.find(digest)) {
            out.report(author, Finding::OversizeBatch { slot });
            self.distrust(author, out);
        }
        if self.bodies.get(&batch).is_none() {
            mark!("pbft/proposal_incomplete");
            self.arm_fetch(out);
        }
        self.show_left_out(&verified, out);
        true
    }

    /// A vote. Also the primary's, for what its view took over.
    pub(super) fn on_prepare(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        let other_view = view != self.entered && !mutant!("pbft.vote-of-any-view");
        if other_view || self.phase != Phase::Entered {
            self.keep_early(verified, view);
            return;
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        let Some(signature) = verified.tag.signature() else { return };
        let vote = (batch, Signature(*signature));
        state.votes.entry(verified.author).or_insert(vote);
        if verified.author == self.me {
            state.own_vote = Some(verified);
        }
        self.check_prepared(slot, out);
        self.advance(out);
        self.watch_gap(slot, out);
    }

    /// A replica has proof that a quorum voted.
    pub(super) fn on_commit(
        &mut self,
        verified: Verified<Message>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        if view != self.entered || self.phase != Phase::Entered {
            self.keep_early(verified, view);
            return;
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        if state.commits.cast(verified.author, batch) == Cast::Counted {
            self.decide(slot);
            self.advance(out);
            self.watch_gap(slot, out);
        }
    }

    /// Keeps a message of the view that this replica is about to enter.
    pub(super) fn keep_early(&mut self, verified: Verified<Message>, view: View) {
        let of_author = self.early.iter().filter(|early| early.author == verified.author).count();
        let room = of_author < EARLY_PER_SLOT * self.tuning.window_slots as usize;
        let early = view == self.view && view != self.entered;
        let known = |early: &Verified<Message>| *early == verified && early.wire == verified.wire;
        if early && room && !self.early.iter().any(known) {
            mark!("pbft/early");
            self.early.push(verified);
        }
    }

    /// A quorum of votes for what the slot orders, and the whole batch: this replica keeps both
    /// until the slot is stable, and commits (section 4.2). Without the batch nobody could take
    /// over what it would show in a VIEW-CHANGE.
    fn check_prepared(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let quorum = self.quorum();
        let Some(state) = self.window.get(slot).filter(|state| !state.prepared) else { return };
        let Some(batch) = state.batch.filter(|batch| self.bodies.get(batch).is_some()) else {
            return;
        };
        let of_batch = || state.votes.iter().filter(|(_, (voted, _))| *voted == batch);
        let twice = mutant!("pbft.primary-counts-twice") && state.proposed.is_some();
        if of_batch().count() + usize::from(twice) < quorum {
            return;
        }
        let signatures = of_batch().map(|(id, (_, signature))| (*id, *signature)).take(quorum);
        let signatures = signatures.collect();
        let view = self.entered;
        let certificate = Prepared { claim: Claim { slot, view, batch }, signatures };
        mark!("pbft/prepared");
        if slot >= self.next_slot {
            self.persist_body(slot, &batch, out);
        }
        if !mutant!("pbft.certificate-not-kept") {
            out.persist(Record::Prepared(certificate.clone()));
        }
        self.certificates.insert(slot, certificate);
        if let Some(state) = self.window.get_mut(slot) {
            state.prepared = true;
        }
        out.send(To::All, Message::Commit { view, slot, batch });
        self.decide(slot);
    }

    /// Keeps a batch that came otherwise than with a proposal that is kept.
    pub(super) fn persist_body(&self, slot: Slot, batch: &Digest, out: &mut Effects<Self>) {
        if let (Some(batch), Some(proposal)) = (self.bodies.get(batch), self.bodies.proposal(batch))
        {
            persist_named(batch, out);
            out.persist(Record::Body { slot, proposal: proposal.clone() });
        }
    }

    /// A quorum of COMMITs to what is prepared here decides the slot.
    fn decide(&mut self, slot: Slot) {
        let quorum = self.quorum();
        let Some(state) = self.window.get_mut(slot) else { return };
        let (Some(batch), true, false) = (state.batch, state.prepared, state.decided) else {
            return;
        };
        let enough = if mutant!("pbft.decide-with-f") { self.membership.f } else { quorum };
        if state.commits.count(&batch) >= enough {
            state.decided = true;
        }
    }

    /// Does everything that the state allows: votes in slot order, executes in slot order.
    pub(super) fn advance(&mut self, out: &mut Effects<Self>) {
        if self.phase == Phase::Entered {
            while self.vote_next(out) {}
        }
        while self.execute_next(out) {}
        self.arm_request_timer(out);
        self.arm_resend_if_unsettled(out);
    }

    /// Votes for the next slot, if it is known what it orders, the whole batch is here and its time
    /// has come. In slot order, so that whoever may go on proposing knows of no gap.
    fn vote_next(&mut self, out: &mut Effects<Self>) -> bool {
        let slot = self.next_slot;
        if self.is_primary() && slot > self.start.end() {
            return false;
        }
        let Some(SlotState { batch: Some(batch), proposed, .. }) = self.window.get(slot) else {
            return false;
        };
        let (batch, proposed) = (*batch, proposed.clone());
        let Some(body) = self.bodies.get(&batch) else { return false };
        let time = body.time;
        if self.is_future(time) {
            self.wait_for_clock(slot, time, proposed.map(|it| it.author), out);
            return false;
        }
        let view = self.view;
        if let Some(proposed) = proposed {
            persist_named(body, out);
            if !mutant!("pbft.vote-not-kept") {
                out.persist(Record::Vote(proposed));
            }
        } else {
            self.persist_body(slot, &batch, out);
            out.persist(Record::VoteAgain { view, slot, batch });
        }
        self.next_slot = slot.next();
        out.send(To::All, Message::Prepare { view, slot, batch });
        true
    }

    /// Whether a proposal's time is further ahead of our clock than clocks may differ.
    pub(super) fn is_future(&self, time: Millis) -> bool {
        is_ahead(time, self.now) && !mutant!("pbft.any-time-is-good")
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
            mark!("pbft/future_time");
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
            mark!("pbft/bytes_full");
            return false;
        }
        let slot = self.committed.next();
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
            mark!("pbft/checkpoint");
            let slot = if mutant!("pbft.checkpoint-misnamed") { slot.next() } else { slot };
            out.output(Output::Checkpoint { slot });
        }
        true
    }

    /// Has the primary asked soon for the envelopes that a proposal names and that are not here.
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
            mark!("pbft/fetch_body");
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
        if self.may_serve(from, *batch, bytes, out) && !mutant!("pbft.bodies-not-served") {
            mark!("pbft/body_served");
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
            mark!("pbft/envelope_served");
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
            mark!("pbft/envelope_used");
            self.bodies_changed(out);
        }
    }

    /// A batch may have become complete: whatever waited for it goes on.
    pub(super) fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        if self.phase == Phase::Entered {
            let known = |(slot, state): (Slot, &SlotState)| state.batch.map(|_| slot);
            let slots: Vec<Slot> = self.window.iter().filter_map(known).collect();
            slots.into_iter().for_each(|slot| self.check_prepared(slot, out));
        }
        self.advance(out);
    }
}
