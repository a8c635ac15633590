//! MinZyzzyva: executing what the primary orders at once, and making it final (section 5 of the
//! paper, with the repairs that `docs/protocols/minzyzzyva.md` argues for).
//!
//! In a view there is one PREPARE at each slot, so the view and the slot name one order of all
//! batches up to there. Commitments are those of MinBFT, but are made only when somebody needs
//! them, and a commitment to a slot is one to all before it: whoever made it has to show them when
//! it leaves. What `f + 1` replicas committed to is final.
//!
//! A replica may install a state that a later view made final. Then it knows that this state is
//! final, and not that its own view ordered what led there. So such a state confirms nothing to
//! clients: they ask about an order.

use super::views::{Ordered, Views};
use crate::common::certificate::CheckpointProof;
use crate::common::counters::Counted;
use crate::common::counters::certificate::Start;
use crate::common::counters::order::Order;
use crate::common::counters::past::Past;
use crate::common::counters::record::Noted;
use crate::common::frame::hooks::ChangesViews;
use crate::common::usig::message::Message;
use crate::common::usig::replica::{LeftOut, OnUsig, Phase};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::speculation;
use pentarchy_core::protocol::{Effects, To};

/// What is executed and not final.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Speculation {
    /// The last slot whose state is final; nothing up to there is taken back.
    pub last_final: Slot,
    /// The slot of the last state that came from elsewhere, or from the log. It is final, and this
    /// replica need not know what the slots up to there ordered: its view may have ordered
    /// something else.
    pub stands: Slot,
    /// The last slot of the view that it entered last to which this backup committed.
    pub certified: Slot,
    /// A checkpoint is due behind this slot, and waits until it is final. Nothing is executed
    /// meanwhile.
    pub halted: Option<Slot>,
    /// What was executed at the last tick.
    pub at_tick: Slot,
    /// Clients that wait until a slot is final, of the window.
    pub asking: BTreeMap<Slot, BTreeSet<ClientId>>,
}

impl<W: Views> OnUsig<Ordered<W>> {
    /// Keeps what the primary ordered, executes, and tells each client what came of it. If a
    /// checkpoint is due behind the slot, if somebody waits for it, or if others commit to it, it
    /// is to be final soon.
    pub(super) fn speculate(
        &mut self,
        slot: Slot,
        batch: Arc<Batch>,
        is_checkpoint: bool,
        out: &mut Effects<Self>,
    ) {
        let Some(Place { view, history, .. }) = self.place(slot) else { return };
        let state = self.slots.window.get(slot);
        let others_commit = state.is_some_and(|state| state.commits.voters().len() > 1);
        let prepare = state.and_then(|state| state.prepare.clone());
        // Its own is in its log as it proposed it.
        if let Some(prepare) = prepare.filter(|prepare| prepare.author != self.frame.me) {
            self.frame.persist_named(&batch.digest, out);
            if !mutant!("minzyzzyva.executed-not-kept") {
                out.persist(Self::noted(Noted::Executed(prepare)));
            }
        }
        self.frame.next_slot = self.frame.next_slot.max(slot.next());
        out.output(speculation::Output::Speculate { answers: true, slot, batch, view, history });
        let speculation = &mut self.speculation;
        if is_checkpoint && slot > speculation.last_final {
            mark!("minzyzzyva/halt");
            speculation.halted = Some(slot);
        }
        if is_checkpoint || others_commit || self.frame.awaited.upto() == slot {
            self.commit_to(slot, out);
        }
        self.check_final(out);
    }

    /// A state that a quorum vouches for is what all have whose last final slot is that or a later
    /// one. Who does not get to know whether what it executed is final cannot tell, and fetches it.
    pub(super) fn settle_on(&mut self, proof: &CheckpointProof, out: &mut Effects<Self>) -> bool {
        if mutant!("minzyzzyva.own-state-taken-for-stable") {
            return self.frame.executed >= proof.slot;
        }
        let last_final = self.speculation.last_final;
        if last_final >= proof.slot {
            return true;
        }
        self.speculation.halted = None;
        if last_final < self.frame.executed {
            mark!("minzyzzyva/stable_first");
            self.frame.go_back(last_final, out);
        }
        false
    }

    pub(super) fn stand(&mut self, slot: Slot) {
        (self.speculation.last_final, self.speculation.halted) = (slot, None);
        self.speculation.stands = slot;
    }

    /// Nothing was executed since the last tick: what was is to become final now, and not only at
    /// the next checkpoint.
    pub(super) fn tick(&mut self, out: &mut Effects<Self>) {
        let executed = self.frame.executed;
        let rests = self.speculation.at_tick == executed;
        self.speculation.at_tick = executed;
        if rests && !mutant!("minzyzzyva.rests-unsettled") {
            self.commit_to(executed, out);
        }
    }

    pub(super) fn want_final(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if self.frame.want(slot, self.speculation.last_final, out) {
            self.commit_to(slot, out);
        }
    }

    /// What the next slot orders, if all of it is here and its time has come. As what says so is
    /// kept before the slot is executed, nothing has to come back first; but what this primary
    /// ordered itself has to have its certificate. Behind a checkpoint nothing is executed before
    /// that is final.
    pub(super) fn ordered_next(&mut self, slot: Slot, out: &mut Effects<Self>) -> Option<Digest> {
        let entered = self.phase == Phase::Entered || mutant!("minzyzzyva.executes-while-leaving");
        let state = self.slots.window.get(slot)?;
        let (batch, author) = (state.batch?, state.prepare.as_ref().map(|it| it.author));
        let is_ordered = author.is_some() || slot <= self.taken_over();
        if !entered || !is_ordered || self.speculation.halted.is_some() || self.has_hole() {
            return None;
        }
        if !self.has_taken_up(out) {
            return None;
        }
        let time = self.frame.bodies.get(&batch)?.time;
        if self.frame.is_future(time) {
            self.frame.wait_for_clock(slot, time, author, out);
            return None;
        }
        Some(batch)
    }

    /// Whether what its view ordered up to the state that it stands on is in its log, as far as it
    /// [has](Self::has_hole) that and has to show it. What it executes behind that state rests on
    /// it.
    fn has_taken_up(&mut self, out: &mut Effects<Self>) -> bool {
        let any = self.lacks_prepares() || mutant!("minzyzzyva.executes-before-taking-up");
        any || self.take_up(self.speculation.stands, out)
    }

    /// Whether it stands on a state that nobody proved to it, and lacks PREPAREs of its view up to
    /// there. Then a VIEW-CHANGE of its own would show nothing of what it executes or commits to
    /// behind that state, so it does neither until the proof comes. If it lacks none, it can show
    /// what its view ordered. That need not be what led to the state.
    pub(super) fn has_hole(&self) -> bool {
        self.lacks_prepares() && !mutant!("minzyzzyva.executes-behind-a-hole")
    }

    fn lacks_prepares(&self) -> bool {
        let known = self.frame.stable.slot.max(self.taken_over());
        let lacks = |slot| self.slots.window.get(Slot(slot)).is_none_or(|it| it.prepare.is_none());
        (known.0 + 1..=self.speculation.stands.0).any(lacks)
    }

    /// Where a slot stands in the view that was entered last.
    pub(super) fn place(&self, slot: Slot) -> Option<Place> {
        let history = self.frame.named(&self.slots.ordered(slot)?);
        Some(Place { view: self.frame.entered, slot, history })
    }

    /// A backup commits to what it executed up to a slot, unless it has. The primary committed as
    /// it proposed, and all did to what the view took over as they entered it.
    pub(super) fn commit_to(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let done = self.taken_over().max(self.speculation.certified);
        let may = self.phase == Phase::Entered && !self.frame.is_primary();
        if !may || slot <= done || slot > self.frame.executed || self.has_hole() {
            return;
        }
        if !self.take_up(slot, out) {
            return;
        }
        let Some(state) = self.slots.window.get(slot) else { return };
        let (Some(prepare), Some(batch)) = (state.prepare.clone(), state.batch) else { return };
        mark!("minzyzzyva/commit");
        if !mutant!("minzyzzyva.commit-not-kept") {
            out.persist(Self::noted(Noted::Commit(prepare)));
        }
        self.speculation.certified = slot;
        out.send(To::All, Self::order(Order::Commit { view: self.frame.view, slot, batch }));
    }

    /// Keeps the PREPAREs up to a slot that this replica did not keep as it executed them: it came
    /// by the state up to there in another way. What it commits to it has to show later, also after
    /// a crash. False if it lacks some, or a batch of them.
    fn take_up(&mut self, upto: Slot, out: &mut Effects<Self>) -> bool {
        if mutant!("minzyzzyva.commits-to-what-it-hides") {
            return true;
        }
        let slots = self.frame.next_slot.max(self.slots.window.low().next()).0..=upto.0;
        let mut new = Vec::new();
        for state in slots.map(|slot| self.slots.window.get(Slot(slot))) {
            let Some((Some(prepare), Some(batch))) = state.map(|it| (&it.prepare, it.batch)) else {
                return false;
            };
            if self.frame.bodies.get(&batch).is_none() {
                return false;
            }
            new.push((prepare.clone(), batch));
        }
        for (prepare, batch) in new {
            mark!("minzyzzyva/taken_up");
            self.frame.persist_named(&batch, out);
            out.persist(Self::noted(Noted::Executed(prepare)));
        }
        self.frame.next_slot = self.frame.next_slot.max(upto.next());
        true
    }

    /// A replica committed. Whoever executed that slot too does so as well: the other may need it.
    pub(super) fn note_commit(&mut self, author: ReplicaId, slot: Slot, out: &mut Effects<Self>) {
        self.check_final(out);
        if author != self.frame.me && !mutant!("minzyzzyva.commits-alone") {
            self.commit_to(slot, out);
        }
    }

    /// It is known what a slot orders. A commitment to it that came before counts from now on, also
    /// for the slots before it. A backup that is halted behind a checkpoint executes nothing, so
    /// nothing else evaluates finality; and a replica that committed only repeats its COMMIT, which
    /// is not counted again.
    pub(super) fn note_prepare(&mut self, out: &mut Effects<Self>) {
        if !mutant!("minzyzzyva.late-orders-complete-nothing") {
            self.check_final(out);
        }
    }

    /// The last slot of the view that was entered last to which, or to a later one, a quorum
    /// committed.
    pub(super) fn proven(&self) -> Slot {
        let fewer = usize::from(mutant!("minzyzzyva.final-with-f"));
        let quorum = self.frame.quorum() - fewer;
        let (low, end) = (self.slots.window.low(), self.taken_over());
        let mut committed = ReplicaSet::EMPTY;
        for slot in (end.max(low).0 + 1..=self.slots.window.high().0).rev().map(Slot) {
            let Some(state) = self.slots.window.get(slot) else { continue };
            let (Some(batch), Some(_)) = (state.batch, &state.prepare) else { continue };
            let any = mutant!("minzyzzyva.commitments-to-anything-count");
            let who = if any { state.commits.voters() } else { state.commits.who(&batch) };
            committed = committed.iter().chain(who.iter()).collect();
            if committed.len() >= quorum {
                return slot;
            }
            if mutant!("minzyzzyva.commitment-to-its-slot-only") {
                committed = ReplicaSet::EMPTY;
            }
        }
        // Who committed in the view has entered it, and so committed to what that took over.
        let entered: ReplicaSet = committed.iter().chain(self.enters.voters().iter()).collect();
        let at_once = W::OPENS_ALONE || mutant!("minzyzzyva.taken-over-is-final");
        if entered.len() >= quorum || at_once { end } else { Slot(0) }
    }

    /// Whether more of what was executed is final by now.
    pub(super) fn check_final(&mut self, out: &mut Effects<Self>) {
        let upto = self.proven().min(self.frame.executed);
        if upto > self.speculation.last_final {
            self.finalize(upto, out);
        } else {
            self.tell_asking(upto, out);
        }
    }

    fn finalize(&mut self, upto: Slot, out: &mut Effects<Self>) {
        mark!("minzyzzyva/final");
        self.speculation.last_final = upto;
        out.output(speculation::Output::Commit { upto });
        self.tell_asking(upto, out);
        if self.speculation.halted.is_some_and(|halted| halted <= upto) {
            self.speculation.halted = None;
            self.frame.take_checkpoint(upto, out);
        }
        self.frame.await_final(upto, out);
    }

    /// How much of what was executed a view that is entered takes over; always what came with a
    /// state, of which this replica may have heard no order.
    pub(super) fn stays(&self, start: &Start) -> Slot {
        let low = self.frame.stable.slot.max(self.speculation.stands);
        let executed = self.frame.executed;
        if executed <= low || mutant!("minzyzzyva.nothing-taken-back") {
            return executed;
        }
        let same = |slot: &Slot| {
            let batch = self.slots.ordered(*slot);
            batch.is_some() && start.batch(*slot) == batch
        };
        let slots = (low.0 + 1..=executed.0).map(Slot);
        Slot(low.0 + slots.take_while(same).count() as u64)
    }

    /// What was executed behind a slot.
    pub(super) fn executed_behind(&self, slot: Slot) -> Vec<Arc<Batch>> {
        let slots = (slot.0 + 1..=self.frame.executed.0).map(Slot);
        let batch = |slot| self.frame.bodies.get(&self.slots.ordered(slot)?).cloned();
        slots.filter_map(batch).collect()
    }

    /// The view is entered: what it did not take over is taken back, and what stays stands in it.
    pub(super) fn go_on_from(
        &mut self,
        LeftOut { stays, batches }: LeftOut,
        out: &mut Effects<Self>,
    ) {
        let before = core::mem::replace(&mut self.frame.executed, stays);
        self.speculation.certified = Slot(0);
        self.speculation.asking.clear();
        self.recount();
        if stays < before {
            mark!("minzyzzyva/rollback");
            out.output(speculation::Output::Rollback { after: stays });
            self.frame.wait_again(&batches, out);
        }
        out.output(speculation::Output::Restate { view: self.frame.view });
    }

    /// Counts anew where checkpoints are due, from the stable one to what is executed.
    fn recount(&mut self) {
        // There is a checkpoint where an installed state is, whatever its view ordered before.
        let last = self.slots.window.low().max(self.speculation.stands);
        let due = self.frame.recount(last, |slot| self.slots.ordered(slot));
        let (executed, last_final) = (self.frame.executed, self.speculation.last_final);
        self.speculation.halted = due.filter(|slot| *slot == executed && *slot > last_final);
    }

    /// Sends a peer that executed so much the last commitment again: it is one to all before.
    pub(super) fn repeat_commitment(
        &mut self,
        to: ReplicaId,
        executed: Slot,
        out: &mut Effects<Self>,
    ) {
        let slot = self.speculation.certified;
        let own = self.slots.window.get(slot).and_then(|state| state.own_commit.clone());
        if let Some(own) = own.filter(|_| slot <= executed)
            && !mutant!("minzyzzyva.commitments-not-repeated")
        {
            self.frame.repeat(to, &own, false, out);
        }
    }

    /// The log is read: it begins from a state that was final. Its device may refuse to certify
    /// what comes before that to which it committed last.
    pub(super) fn recall_speculation(&mut self, past: &Past<Self>) {
        let committed = |message: &Message| match message {
            Message::Order(Order::Commit { view, slot, .. }) => Some((*view, *slot)),
            _ => None,
        };
        let said = past.said.iter().filter_map(|again| committed(again.message()));
        let here = said.filter(|(view, _)| *view == self.frame.entered).map(|(_, slot)| slot);
        let certified = here.max().filter(|_| !mutant!("minzyzzyva.certified-forgotten"));
        self.speculation.certified = certified.unwrap_or_default();
        self.speculation.last_final = self.frame.executed;
        self.speculation.stands = self.frame.executed;
    }

    /// Asserts what holds between events.
    pub(super) fn assert_speculation(&self) {
        let Speculation { last_final, halted, certified, asking, .. } = &self.speculation;
        let executed = self.frame.executed;
        // What came with a state is final, though no order of it was heard.
        let was_ordered = executed < self.frame.next_slot || executed == *last_final;
        assert!(*last_final <= executed && was_ordered);
        assert!(*certified < self.frame.next_slot);
        assert!(halted.is_none_or(|slot| slot == executed && slot > *last_final));
        assert!(asking.len() <= self.frame.tuning.window_slots as usize);
    }
}
