//! Normal case: propose, write, lock, accept, decide (*From Byzantine Consensus to BFT State
//! Machine Replication*, section 4.2; the underlying consensus is *Yet Another Visit to Paxos*).
//! What is decided is executed in order (`common/frame/execution.rs`).

use super::at_once::note_lock;
use super::message::Message;
use super::record::Record;
use super::replica::ModSmart;
use super::slot::{Round, SlotState};
use super::variant::Variant;
use super::writes::Lock;
use super::writing::note_write;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{ChangesViews, Orders};
use crate::common::frame::repair::Repair;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Effects, Finding, To};
use pentarchy_core::votes::Cast;

impl<V: Variant> Orders for ModSmart<V> {
    fn ordered(&self, slot: Slot) -> Option<Digest> {
        self.window.get(slot)?.ordered()
    }

    fn decided(&mut self, slot: Slot, _out: &mut Effects<Self>) -> Option<Digest> {
        let state = self.window.get(slot).filter(|_| self.frame.may_tell(slot))?;
        state.decided
    }

    fn propose(&mut self, out: &mut Effects<Self>) {
        self.pass_decided();
        while self.frame.is_primary()
            && self.frame.next_slot > self.start.end()
            && self.in_flight() < self.in_flight_max()
            && let Some((slot, proposal)) = self.frame.take_proposal(out)
        {
            let (view, batch) = (self.frame.view, proposal.digest());
            let Some(state) = self.window.get_mut(slot) else { return };
            state.round.candidate = Some(batch);
            let signed = V::WRITES && note_write(state, view, batch);
            if !V::WRITES && !mutant!("modsmart-cft.proposal-is-no-lock") {
                note_lock(state, view, batch);
            }
            // The record has the batch: to lock or decide it need not log it again.
            self.frame.bodies.keep(slot, &batch);
            out.persist(Record::Propose { view, slot, proposal: proposal.clone(), signed });
            out.send(To::All, Message::Propose { view, slot, proposal, signed });
            self.pass_decided();
        }
    }

    fn vote(&mut self, out: &mut Effects<Self>) {
        while self.vote_next(out) {}
    }

    fn bodies_changed(&mut self, out: &mut Effects<Self>) {
        self.try_open(out);
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            self.settle(slot, out);
        }
        self.advance(out);
    }

    fn window_moved(&mut self, low: Slot) {
        self.window.advance(low);
    }

    /// The primary, and where it proposed nothing here enough that wrote, or accepted where nobody
    /// writes: one of them is correct and holds the batch.
    fn suppliers(&self) -> ReplicaSet {
        let echoed = |state: &&SlotState<V>| {
            let Round { candidate, proposed, .. } = &state.round;
            let lacks = |batch: &Digest| self.frame.bodies.get(batch).is_none();
            candidate != proposed && candidate.as_ref().is_some_and(lacks)
        };
        let states = self.window.iter().map(|(_, state)| state).filter(echoed);
        let writers = states.flat_map(|state| {
            let batch = state.round.candidate.unwrap_or_default();
            let heard = if V::WRITES { &state.round.heard } else { &state.round.accepts };
            heard.who(&batch).iter().take(self.frame.weak()).collect::<Vec<_>>()
        });
        let primary = self.frame.membership.primary(self.frame.entered);
        core::iter::once(primary).chain(writers).collect()
    }
}

impl<V: Variant> ModSmart<V> {
    /// So many votes decide, and so many WRITEs lock.
    fn votes_needed(&self) -> usize {
        V::quorum(self.frame.membership.quorums())
    }

    /// In so many slots this primary proposes at a time.
    const fn in_flight_max(&self) -> u64 {
        if V::SERIAL { 1 } else { self.frame.tuning.proposals_in_flight }
    }

    /// Own proposals that are not decided.
    fn in_flight(&self) -> u64 {
        let first = self.frame.executed.max(self.start.end()).next();
        let is_open = |slot: &Slot| self.window.get(*slot).is_some_and(|it| it.decided.is_none());
        (first.0..self.frame.next_slot.0).map(Slot).filter(is_open).count() as u64
    }

    /// A primary proposes nothing where it was told a decision.
    fn pass_decided(&mut self) {
        let is_decided = |slot| self.window.get(slot).is_some_and(|it| it.chosen.is_some());
        while self.frame.is_primary() && is_decided(self.frame.next_slot) {
            self.frame.next_slot = self.frame.next_slot.next();
        }
    }

    fn is_here(&self, view: View) -> bool {
        view == self.frame.entered && self.frame.is_entered()
    }

    /// The primary's proposal, which is its WRITE too. Nobody passes it on, as it convinces by
    /// channel: who gets none learns from others' WRITEs what it was.
    pub(super) fn on_propose(
        &mut self,
        verified: Verified<Message<V>>,
        view: View,
        slot: Slot,
        proposal: &Arc<Proposal>,
        out: &mut Effects<Self>,
    ) {
        if !V::WRITES && verified.author == self.frame.me {
            self.frame.note_spoken(slot);
        }
        if !self.is_here(view) {
            self.frame.keep_early(verified, view, Some(slot));
            return;
        }
        let taken_over = slot <= self.start.end();
        let author = verified.author;
        let Some(state) = self.window.get_mut(slot).filter(|_| !taken_over) else { return };
        let batch = proposal.digest();
        match state.round.proposed {
            None => {
                state.round.proposed = Some(batch);
                state.round.candidate = state.round.candidate.or(Some(batch));
                self.frame.on_proposal(author, slot, proposal, out);
            }
            Some(known) if known == batch => return,
            Some(_) => {
                mark!("modsmart/two_proposals");
                out.report(author, Finding::TwoProposals { view, slot });
                self.frame.distrust(author, out);
                return;
            }
        }
        if V::WRITES {
            self.count_write(verified, slot, batch, out);
        } else {
            self.count_accept(verified, slot, batch, out);
            // What others decided may have waited for the batch.
            self.settle(slot, out);
            self.advance(out);
        }
    }

    /// A replica holds the batch and writes no other.
    pub(super) fn on_write(
        &mut self,
        verified: Verified<Message<V>>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        if self.is_here(view) {
            self.count_write(verified, slot, batch, out);
            self.watch_gap(slot, out);
        } else {
            self.frame.keep_early(verified, view, Some(slot));
        }
    }

    fn count_write(
        &mut self,
        verified: Verified<Message<V>>,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        let (weak, quorum) = (self.frame.weak(), self.votes_needed());
        let Some(state) = self.window.get_mut(slot) else { return };
        let author = verified.author;
        self.frame.peers.note_voted(author, slot);
        let signature = verified.tag.signature().map(|it| Signature(*it));
        if author == self.frame.me {
            state.round.own_write = Some(verified);
        }
        match state.round.heard.cast(author, batch) {
            Cast::Counted => {}
            Cast::Repeated => return,
            Cast::Conflicting => return self.caught_voting_twice(author, slot, out),
        }
        if let Some(signature) = signature {
            state.round.signatures.insert(author, signature);
        }
        let count = state.round.heard.count(&batch);
        if count >= quorum {
            state.round.written = state.round.written.or(Some(batch));
        }
        if count >= weak && !mutant!("modsmart.no-echo") {
            // The echo: somebody correct got a proposal that this replica may never get.
            self.take_up(slot, batch, out);
        } else if count >= quorum {
            self.frame.bodies.want_or_know(slot, batch);
        }
        self.settle(slot, out);
        self.advance(out);
    }

    fn caught_voting_twice(&mut self, author: ReplicaId, slot: Slot, out: &mut Effects<Self>) {
        mark!("modsmart/two_votes");
        out.report(author, Finding::TwoVotes { view: self.frame.entered, slot });
        self.frame.distrust(author, out);
    }

    /// A replica locked the batch.
    pub(super) fn on_accept(
        &mut self,
        verified: Verified<Message<V>>,
        view: View,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        if verified.author == self.frame.me {
            self.frame.note_spoken(slot);
        }
        if !self.is_here(view) {
            self.frame.keep_early(verified, view, Some(slot));
            return;
        }
        self.count_accept(verified, slot, batch, out);
    }

    fn count_accept(
        &mut self,
        verified: Verified<Message<V>>,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        let quorum = self.votes_needed();
        let Some(state) = self.window.get_mut(slot) else { return };
        let author = verified.author;
        if author == self.frame.me {
            state.round.own_accept = Some(verified);
        }
        match state.round.accepts.cast(author, batch) {
            Cast::Counted => {}
            Cast::Repeated => return,
            Cast::Conflicting => return self.caught_voting_twice(author, slot, out),
        }
        let few = mutant!("modsmart.decides-below-quorum")
            || !V::WRITES && mutant!("modsmart-cft.decides-below-quorum");
        if state.round.accepts.count(&batch) >= quorum - usize::from(few) {
            self.choose(slot, batch, out);
        }
        self.advance(out);
        self.watch_gap(slot, out);
    }

    /// A replica tells what is decided. Of enough that say the same one is correct.
    pub(super) fn on_decided(
        &mut self,
        author: ReplicaId,
        slot: Slot,
        batch: Digest,
        out: &mut Effects<Self>,
    ) {
        let believed = V::believed(self.frame.membership.quorums());
        if author == self.frame.me {
            self.frame.note_spoken(slot);
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        let is_new = state.told.cast(author, batch) == Cast::Counted;
        if is_new && state.told.count(&batch) >= believed {
            mark!("modsmart/told");
            self.choose(slot, batch, out);
        }
        self.advance(out);
    }

    /// A batch becomes what this replica writes, unless it wrote already.
    fn take_up(&mut self, slot: Slot, batch: Digest, out: &mut Effects<Self>) {
        self.frame.bodies.want_or_know(slot, batch);
        if self.frame.bodies.get(&batch).is_none() {
            mark!("modsmart/echo_incomplete");
            self.frame.arm_fetch(out);
        }
        let Some(state) = self.window.get_mut(slot) else { return };
        match state.round.wrote {
            None => state.round.candidate = Some(batch),
            Some(wrote) if wrote != batch && mutant!("modsmart.writes-twice") => {
                self.write(slot, batch, out);
            }
            Some(_) => {}
        }
    }

    /// The slot is decided.
    fn choose(&mut self, slot: Slot, batch: Digest, out: &mut Effects<Self>) {
        let Some(state) = self.window.get_mut(slot).filter(|it| it.chosen.is_none()) else {
            return;
        };
        state.chosen = Some(batch);
        self.take_up(slot, batch, out);
        self.settle(slot, out);
    }

    /// Goes as far in a slot as votes and bodies allow.
    pub(super) fn settle(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if slot > self.frame.high() {
            return;
        }
        if self.frame.is_entered() {
            self.lock(slot, out);
        }
        self.decide(slot, out);
    }

    /// A quorum wrote, and the whole batch is here: this replica keeps both until the slot is
    /// stable or a quorum writes in a higher view, and accepts. Without the batch nobody could take
    /// over what it would show.
    fn lock(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let (view, weak) = (self.frame.entered, self.frame.weak());
        let Some(state) = self.window.get_mut(slot).filter(|it| !it.round.locked) else { return };
        let Some(batch) = state.round.written else { return };
        if self.frame.bodies.get(&batch).is_none() {
            return;
        }
        mark!("modsmart/lock");
        state.round.locked = true;
        let writers = state.round.heard.who(&batch);
        let signed = state.round.signatures.iter().filter(|(id, _)| writers.contains(**id));
        let signed = signed.map(|(id, signature)| (*id, *signature)).take(weak);
        let signatures: Vec<_> =
            signed.filter(|_| !mutant!("modsmart.lock-carries-no-signatures")).collect();
        let lock = Lock { view, batch, signatures };
        state.lock(lock.clone());
        self.frame.persist_body(slot, &batch, out);
        if !mutant!("modsmart.lock-not-in-log") {
            out.persist(Record::Lock { slot, lock });
        }
        out.send(To::All, Message::Accept { view, slot, batch });
    }

    /// What is decided is whole: it goes into the log, and is executed when its turn comes.
    fn decide(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let Some(state) = self.window.get_mut(slot).filter(|it| it.decided.is_none()) else {
            return;
        };
        let Some(batch) = state.chosen else { return };
        if self.frame.bodies.get(&batch).is_none() {
            return;
        }
        mark!("modsmart/decide");
        state.decided = Some(batch);
        let accepted = state.lock.as_ref().is_some_and(|lock| lock.batch == batch);
        self.frame.persist_body(slot, &batch, out);
        out.persist(Record::Decided { slot, batch });
        if !accepted {
            // Its own ACCEPT will not come back to say that the log has this.
            mark!("modsmart/decided_unlocked");
            out.send(To::All, Message::Decided { slot, batch });
        }
    }
}
