//! Normal case: propose, vote, commit, decide (section 4.2). What is decided is executed in order
//! (`common/frame/execution.rs`).

use super::certificate::{Claim, Prepared};
use super::message::Message;
use super::record::Record;
use super::replica::{Pbft, SlotState};
use super::variant::Variant;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Orders};
use crate::common::frame::repair::Repair;
use crate::common::seal::Seal as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, Finding, To};
use pentarchy_core::votes::Cast;

impl<V: Variant> Orders for Pbft<V> {
    fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.window.get(slot)?.batch
    }

    fn decided(&mut self, slot: Slot, _out: &mut Effects<Self>) -> Option<Digest> {
        if !self.frame.may_tell(slot) || self.tried.is_some() {
            return None;
        }
        let state = self.window.get(slot)?;
        let (batch, decided) = (state.batch?, state.decided);
        (decided || (state.prepared && self.may_try(slot, batch))).then_some(batch)
    }

    fn propose(&mut self, out: &mut Effects<Self>) {
        while self.frame.is_primary()
            && self.frame.next_slot > self.start.end()
            && self.in_flight() < self.frame.tuning.proposals_in_flight
            && let Some((slot, proposal)) = self.frame.take_proposal(out)
        {
            let view = self.frame.view;
            out.persist(Record::Propose { view, slot, proposal: proposal.clone() });
            self.awaiting_loopback.insert(slot, proposal.clone());
            out.send(To::All, Message::PrePrepare { view, slot, proposal });
        }
    }

    fn vote(&mut self, out: &mut Effects<Self>) {
        while self.vote_next(out) {}
    }

    fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        if self.frame.is_entered() {
            self.check_all_prepared(out);
        }
        self.advance(out);
    }

    fn window_moved(&mut self, low: Slot) {
        self.window.advance(low);
        self.certificates.retain(|slot, _| *slot > low);
        self.awaiting_loopback.retain(|slot, _| *slot > low);
    }
}

impl<V: Variant> Pbft<V> {
    /// Own proposals that are not decided.
    fn in_flight(&self) -> u64 {
        let first = self.frame.executed.max(self.start.end()).next();
        let is_open = |slot: &Slot| self.window.get(*slot).is_some_and(|state| !state.decided);
        (first.0..self.frame.next_slot.0).map(Slot).filter(is_open).count() as u64
    }

    /// The primary's proposal, which is its vote too (section 4.2).
    pub(super) fn on_pre_prepare(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        view: View,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) {
        if view != self.frame.entered || !self.frame.is_entered() {
            self.frame.keep_early(verified, view, Some(slot));
        } else if self.store_proposal(verified, slot, proposal, out) {
            self.check_prepared(slot, out);
            self.advance(out);
        }
    }

    fn store_proposal(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) -> bool {
        if verified.author == self.frame.me {
            self.awaiting_loopback.remove(&slot);
        }
        let taken_over = slot <= self.start.end();
        let Some(state) = self.window.get_mut(slot).filter(|_| !taken_over) else { return false };
        let (author, batch) = (verified.author, proposal.digest());
        if state.batch.is_some_and(|known| known != batch) {
            mark!("pbft/two_proposals");
            let view = self.frame.entered;
            out.report(author, Finding::TwoProposals { view, slot });
            self.frame.distrust(author, out);
            return self.replace_proposal(verified, slot, proposal, out);
        }
        if state.proposed.is_some() {
            return false;
        }
        state.batch = Some(batch);
        if let Some(seal) = V::Seal::of(&verified.tag) {
            state.votes.entry(author).or_insert((batch, seal));
        }
        state.proposed = Some(verified.clone());
        self.frame.on_proposal(author, slot, proposal, out);
        self.frame.show_left_out(&verified, out);
        true
    }

    /// The primary proposed something else to others. If a quorum voted for that, it is what the
    /// slot orders, whatever this replica voted for.
    fn replace_proposal(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) -> bool {
        let (author, batch) = (verified.author, proposal.digest());
        let quorum = self.frame.quorum();
        let Some(seal) = V::Seal::of(&verified.tag) else { return false };
        let Some(state) = self.window.get_mut(slot).filter(|it| !it.prepared) else { return false };
        // Both of its votes are good in a certificate.
        state.votes.insert(author, (batch, seal));
        if state.votes_for(&batch).count() < quorum {
            return false;
        }
        mark!("pbft/proposal_replaced");
        let voted = state.batch.filter(|_| slot < self.frame.next_slot);
        state.voted_otherwise = state.voted_otherwise.or(voted);
        (state.batch, state.proposed) = (Some(batch), Some(verified));
        self.frame.on_proposal(author, slot, proposal, out);
        true
    }

    /// A replica made two different votes. Either is good in a certificate, and the later one may
    /// be the one that everybody else has.
    fn caught_voting_twice(
        &mut self,
        author: ReplicaId,
        slot: Slot,
        vote: (Digest, V::Seal),
        out: &mut Effects<Self>,
    ) {
        mark!("pbft/two_votes");
        out.report(author, Finding::TwoVotes { view: self.frame.entered, slot });
        self.frame.distrust(author, out);
        if let Some(state) = self.window.get_mut(slot).filter(|state| !state.prepared) {
            state.votes.insert(author, vote);
        }
    }

    /// A vote. Also the primary's, for what its view took over.
    pub(super) fn on_prepare(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        let other_view = view != self.frame.entered && !mutant!("pbft.vote-of-any-view");
        if other_view || !self.frame.is_entered() {
            self.frame.keep_early(verified, view, Some(slot));
            return;
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        let Some(seal) = V::Seal::of(&verified.tag) else { return };
        let (author, vote) = (verified.author, (batch, seal));
        let known = state.votes.get(&author).copied();
        self.frame.peers.note_voted(author, slot);
        if author == self.frame.me {
            state.own_vote = Some(verified);
        }
        match known {
            None => _ = state.votes.insert(author, vote),
            Some((before, _)) if before == batch => return,
            Some(_) => {
                self.caught_voting_twice(author, slot, vote, out);
                if mutant!("pbft.later-votes-prepare-nothing") {
                    return;
                }
            }
        }
        self.check_prepared(slot, out);
        self.advance(out);
        self.watch_gap(slot, out);
    }

    /// A replica has proof that a quorum voted.
    pub(super) fn on_commit(
        &mut self,
        verified: Verified<Message<V::Seal>>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        if view != self.frame.entered || !self.frame.is_entered() {
            self.frame.keep_early(verified, view, Some(slot));
            return;
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        if verified.author == self.frame.me {
            self.frame.note_spoken(slot);
        }
        if state.commits.cast(verified.author, batch) == Cast::Counted {
            self.decide(slot, out);
            self.advance(out);
            self.watch_gap(slot, out);
        }
    }

    /// A quorum of votes for what the slot orders, and the whole batch: this replica keeps both
    /// until the slot is stable, and commits (section 4.2). Without the batch nobody could take
    /// over what it would show in a VIEW-CHANGE.
    fn check_prepared(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let quorum = self.frame.quorum();
        let Some(state) = self.window.get(slot).filter(|state| !state.prepared) else { return };
        let Some(batch) = state.batch.filter(|batch| self.frame.bodies.get(batch).is_some()) else {
            return;
        };
        let of_batch = || state.votes_for(&batch);
        let twice = mutant!("pbft.primary-counts-twice") && state.proposed.is_some();
        if of_batch().count() + usize::from(twice) < quorum {
            return;
        }
        let seals = of_batch().take(quorum).collect();
        let view = self.frame.entered;
        let certificate = Prepared { claim: Claim { slot, view, batch }, seals };
        mark!("pbft/prepared");
        if slot >= self.frame.next_slot || state.voted_otherwise.is_some() {
            self.frame.persist_body(slot, &batch, out);
        }
        if !mutant!("pbft.certificate-not-kept") {
            out.persist(Record::Prepared(certificate.clone()));
        }
        self.certificates.insert(slot, certificate);
        if let Some(state) = self.window.get_mut(slot) {
            state.prepared = true;
        }
        out.send(To::All, Message::Commit { view, slot, batch });
        self.tell_again(slot, out);
        self.decide(slot, out);
    }

    /// A quorum of COMMITs to what is prepared here decides the slot.
    fn decide(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let quorum = self.frame.quorum();
        let Some(state) = self.window.get_mut(slot) else { return };
        let (Some(batch), true, false) = (state.batch, state.prepared, state.decided) else {
            return;
        };
        let enough = if mutant!("pbft.decide-with-f") { self.frame.membership.f } else { quorum };
        if state.commits.count(&batch) >= enough {
            state.decided = true;
            self.conclude(out);
        }
    }

    /// Votes for the next slot, if it is known what it orders, the whole batch is here and its time
    /// has come. In slot order, so that whoever may go on proposing knows of no gap.
    fn vote_next(&mut self, out: &mut Effects<Self>) -> bool {
        let slot = self.frame.next_slot;
        if self.frame.is_primary() && slot > self.start.end() {
            return false;
        }
        let Some(SlotState { batch: Some(batch), proposed, .. }) =
            self.window.get(slot).filter(|_| self.frame.has_vote_room(slot))
        else {
            return false;
        };
        let (batch, proposed) = (*batch, proposed.clone());
        let Some(body) = self.frame.bodies.get(&batch) else { return false };
        let time = body.time;
        if self.frame.is_future(time) {
            self.frame.wait_for_clock(slot, time, proposed.map(|it| it.author), out);
            return false;
        }
        let view = self.frame.view;
        if let Some(proposed) = proposed {
            self.frame.persist_named(&batch, out);
            if !mutant!("pbft.vote-not-kept") {
                out.persist(Record::Vote(proposed));
            }
        } else {
            self.frame.persist_body(slot, &batch, out);
            out.persist(Record::VoteAgain { view, slot, batch });
        }
        self.frame.note_vote(slot, &batch);
        self.frame.next_slot = slot.next();
        out.send(To::All, Message::Prepare { view, slot, batch });
        true
    }

    /// Looks at every slot whose batch may have become complete.
    fn check_all_prepared(&mut self, out: &mut Effects<Self>) {
        let known = |(slot, state): (Slot, &SlotState<V::Seal>)| state.batch.map(|_| slot);
        let slots: Vec<Slot> = self.window.iter().filter_map(known).collect();
        slots.into_iter().for_each(|slot| self.check_prepared(slot, out));
    }
}
