//! What was executed becomes final: votes, commit certificates, and proof that enough replicas keep
//! one (section 3.3). Clients do that when not all replicas answer them alike; replicas do it among
//! themselves at checkpoints, when somebody waits for it, and when nothing else is to be done.

use super::certificate::{Committed, Reached, Stable, extended};
use super::message::Message;
use super::record::Record;
use super::replica::{Phase, Zyzzyva};
use super::variant::Variant;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::{Finality, Orders};
use crate::common::frame::repair::Repair;
use crate::common::record::Kept;
use alloc::collections::BTreeSet;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{Place, ToClient};
use pentarchy_core::ports::replica::speculation;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::votes::Cast;

/// Ticks for which replicas vote for everything, behind clients that found that not all answer: a
/// second. Then it is tried without.
const COMMITTING_TICKS: u8 = 20;

impl<V: Variant> Finality for Zyzzyva<V> {
    fn vouched(&self, slot: Slot, state: Digest) -> Option<Reached> {
        Some(Reached { history: self.history(slot)?, state })
    }

    fn last_final(&self) -> Slot {
        self.last_final
    }

    /// Keeps the order, executes, and tells each client what came of it. If a checkpoint is due
    /// behind the slot, if somebody waits for it, if others vote for it or not all answer clients,
    /// it is to be final soon. In the last case a client is told when this replica keeps a
    /// certificate, both at once (section 4, the commit optimisation for faulty backups).
    fn execute(
        &mut self,
        slot: Slot,
        batch: Arc<Batch>,
        is_checkpoint: bool,
        out: &mut Effects<Self>,
    ) {
        let Some(parent) = self.history(Slot(slot.0 - 1)) else { return };
        let Some(state) = self.window.get_mut(slot) else { return };
        let Some(digest) = state.batch else { return };
        let history = extended(&parent, &digest);
        state.history = Some(history);
        let voted_for = !state.votes.is_empty();
        if let Some(order) = state.order.clone() {
            self.frame.persist_named(&digest, out);
            if !mutant!("zyzzyva.order-not-kept") {
                out.persist(Record::Order(order));
            }
        }
        if slot >= self.frame.next_slot {
            (self.frame.next_slot, self.tip) = (slot.next(), history);
        }
        let (view, clients) = (self.frame.entered, self.clients(slot).len());
        // For who is alone all may answer a step earlier, and to tell one client twice is cheap.
        let answers = self.committing == 0 || clients == 1;
        out.output(speculation::Output::Speculate { answers, slot, batch, view, history });
        if answers {
            self.told += clients;
        } else {
            self.held.insert(slot);
        }
        if is_checkpoint && slot > self.last_final {
            mark!("zyzzyva/halt");
            self.halted = Some(slot);
        }
        if is_checkpoint || voted_for || self.frame.awaited.upto() == slot || self.committing > 0 {
            self.vote_for(slot, out);
        }
        if self.table.signs && answers {
            self.sign_for_all(slot, out);
        }
        self.check_certificate(slot, out);
        self.check_final(slot, out);
        if self.finals.get(&slot) == Some(&history) {
            // As the log says: it was final before a crash, and leads here again.
            mark!("zyzzyva/final_again");
            self.finalize(slot, out);
        }
    }

    fn settle(&mut self, proof: &Stable, out: &mut Effects<Self>) -> bool {
        let is_here = self.history(proof.slot) == Some(proof.state.history);
        if is_here {
            if proof.slot > self.last_final && !mutant!("zyzzyva.final-before-stable") {
                // The slot may have become final in a later view. Without the checkpoint a replica
                // that starts again would take it for final in its own, and a view between the two
                // may begin without it.
                out.persist(Record::Kept(Kept::Stable(proof.clone())));
            }
            self.finalize(proof.slot, out);
            return true;
        }
        self.halted = None;
        self.answer_held(self.frame.executed, out);
        if self.last_final < self.frame.executed {
            mark!("zyzzyva/other_way");
            self.frame.go_back(self.last_final, out);
        }
        false
    }

    /// It does if it knows the history up to there, as orders name that.
    fn stands_on(&mut self, slot: Slot) -> bool {
        self.held.clear();
        let proof = self.frame.checkpoints.proven(slot);
        self.landed = proof.map(|proof| (slot, proof.state.history));
        let stands = slot <= self.frame.stable.slot || self.landed.is_some();
        if stands {
            (self.last_final, self.halted, self.is_stranded) = (slot, None, false);
            self.forget_histories();
        }
        stands
    }

    /// Nothing was executed since the last tick: what was is to become final now, and not only at
    /// the next checkpoint. Nor do clients wait longer than a tick for certificates.
    fn on_tick(&mut self, out: &mut Effects<Self>) {
        self.disputed = ReplicaSet::EMPTY;
        self.answer_held(self.frame.executed, out);
        self.committing = self.committing.saturating_sub(1);
        (self.told, self.doubted) = (self.told / 2, self.doubted / 2);
        let executed = self.frame.executed;
        let rests = self.at_tick == executed;
        self.at_tick = executed;
        if rests && executed > self.last_final && !mutant!("zyzzyva.rests-unsettled") {
            self.vote_for(executed, out);
        }
    }

    fn on_wanted(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if self.frame.want(slot, self.last_final, out) {
            self.vote_for(slot, out);
        }
    }
}

impl<V: Variant> Zyzzyva<V> {
    /// The place of a slot in the view that was entered last.
    fn place(&self, slot: Slot) -> Option<Place> {
        let history = self.history(slot).filter(|_| slot <= self.frame.executed)?;
        Some(Place { view: self.frame.entered, slot, history })
    }

    /// Tells the others what was executed here, once for each slot in a view.
    pub(super) fn vote_for(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let Some(place) = self.place(slot).filter(|_| self.phase == Phase::Entered) else { return };
        let Some(state) = self.window.get_mut(slot).filter(|state| !state.voted) else { return };
        state.voted = true;
        mark!("zyzzyva/vote");
        out.send(To::All, Message::Vote(place));
    }

    /// A replica says what it executed. Whoever executed that slot too says so as well, whatever is
    /// final here already: the other may need it. An own signature for a client alone calls for
    /// nobody else's.
    pub(super) fn on_vote(
        &mut self,
        verified: Verified<Message>,
        place: Place,
        out: &mut Effects<Self>,
    ) {
        if place.view != self.frame.entered || self.phase != Phase::Entered {
            self.frame.keep_early(verified, place.view, Some(place.slot));
            return;
        }
        let Some(signature) = verified.tag.signature().map(|it| Signature(*it)) else { return };
        let Some(state) = self.window.get_mut(place.slot) else { return };
        let author = verified.author;
        state.votes.entry(author).or_insert((place.history, signature));
        if author == self.frame.me {
            state.own_vote = Some(verified);
            self.vouch(place, signature, out);
        }
        if author != self.frame.me {
            self.vote_for(place.slot, out);
        }
        let mine = self.place(place.slot);
        if mine.is_some_and(|mine| mine.history != place.history) {
            self.dispute(author, place.slot, out);
        }
        self.check_certificate(place.slot, out);
        self.advance(out);
        self.watch_gap(place.slot, out);
    }

    /// Another replica executed something else up to a slot. Histories are chained, so the two
    /// orders of that slot differ, in what they order or in what they rest on: this one and its own
    /// are all that the other replica needs to convict the primary. A vote that a liar made up
    /// draws one order too, once in a tick, and it counts as one that is sent again.
    fn dispute(&mut self, with: ReplicaId, slot: Slot, out: &mut Effects<Self>) {
        if !self.disputed.insert(with) {
            return;
        }
        mark!("zyzzyva/dispute");
        let first = if mutant!("zyzzyva.disputes-all") { self.window.low().next() } else { slot };
        for slot in (first.0..=slot.0).map(Slot) {
            let order = self.window.get(slot).and_then(|state| state.order.as_ref());
            if order.is_some_and(|order| !self.frame.repeat(with, order, false, out)) {
                break;
            }
        }
        self.frame.arm_resend(out);
    }

    /// A quorum executed what was executed here: this replica keeps proof of that, so that no later
    /// view can miss it, and says so.
    fn check_certificate(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let Some(place) = self.place(slot) else { return };
        let Some(state) = self.window.get(slot).filter(|state| !state.committed) else { return };
        let equal = state.votes.iter().filter(|(_, (history, _))| *history == place.history);
        let signatures: Vec<_> = equal.map(|(id, (_, it))| (*id, *it)).collect();
        let enough =
            if mutant!("zyzzyva.commit-with-f") { self.table.weak - 1 } else { self.table.quorum };
        if signatures.len() < enough {
            return;
        }
        mark!("zyzzyva/certificate");
        let signatures = signatures.into_iter().take(self.table.quorum).collect();
        self.keep_certificate(&Arc::new(Committed { place, signatures }), out);
        if let Some(state) = self.window.get_mut(slot) {
            state.committed = true;
        }
        out.send(To::All, Message::Commit(place));
        if self.held.remove(&slot) {
            out.output(speculation::Output::Answer { slot, view: place.view });
        }
        if self.committing > 0 {
            self.tell_kept(place, out);
        }
    }

    /// Tells clients what came of slots up to this one, if they were not told yet.
    pub(super) fn answer_held(&mut self, upto: Slot, out: &mut Effects<Self>) {
        let behind = self.held.split_off(&upto.next());
        for slot in core::mem::replace(&mut self.held, behind) {
            mark!("zyzzyva/answered_late");
            out.output(speculation::Output::Answer { slot, view: self.frame.entered });
        }
    }

    /// Tells the clients of a slot that this replica keeps a certificate for it, although nobody
    /// showed it one.
    fn tell_kept(&self, place: Place, out: &mut Effects<Self>) {
        mark!("zyzzyva/told_kept");
        for client in self.clients(place.slot) {
            out.output(speculation::Output::Tell { client, message: ToClient::Committed(place) });
        }
    }

    /// Keeps the certificate of the highest slot.
    fn keep_certificate(&mut self, certificate: &Arc<Committed>, out: &mut Effects<Self>) {
        let slot = certificate.place.slot;
        if self.certificate.as_ref().is_none_or(|known| known.place.slot < slot) {
            if !mutant!("zyzzyva.certificate-not-kept") {
                out.persist(Record::Certificate(certificate.clone()));
            }
            self.certificate = Some(certificate.clone());
        }
    }

    /// A replica keeps a certificate, or the slot is final there.
    pub(super) fn on_commit(
        &mut self,
        verified: Verified<Message>,
        place: Place,
        out: &mut Effects<Self>,
    ) {
        if place.view != self.frame.entered || self.phase != Phase::Entered {
            self.frame.keep_early(verified, place.view, Some(place.slot));
            return;
        }
        let Some(state) = self.window.get_mut(place.slot) else { return };
        if state.commits.cast(verified.author, place.history) == Cast::Counted {
            self.check_final(place.slot, out);
            self.advance(out);
        }
    }

    /// A quorum says so: one of its correct members is in every view change, and shows the
    /// certificate that it keeps, so this is never taken back. A member for which the slot was
    /// final already says so too, with or without a certificate of this view: every later view
    /// takes over what is final, so its word is as good.
    pub(super) fn check_final(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let Some(place) = self.place(slot).filter(|_| slot > self.last_final) else { return };
        let quorum = if mutant!("zyzzyva.final-with-f") {
            self.frame.membership.f
        } else {
            self.table.quorum
        };
        let Some(state) = self.window.get(slot) else { return };
        if state.commits.who(&place.history).len() >= quorum {
            self.finalize(slot, out);
        }
    }

    /// Everything up to a slot is final.
    pub(super) fn finalize(&mut self, slot: Slot, out: &mut Effects<Self>) {
        if slot <= self.last_final {
            return;
        }
        mark!("zyzzyva/final");
        self.answer_held(slot, out);
        self.last_final = slot;
        let is_checkpoint = self.halted.is_some_and(|halted| halted <= slot);
        // An epoch may end at any slot, and then the state there is saved too.
        let may_be_saved = is_checkpoint || !mutant!("zyzzyva.ends-not-kept");
        if let Some(history) = self.history(slot).filter(|_| may_be_saved) {
            self.finals.insert(slot, history);
            out.persist(Record::Final { slot, history });
        }
        out.output(speculation::Output::Commit { upto: slot });
        if is_checkpoint {
            self.halted = None;
            self.frame.take_checkpoint(slot, out);
        }
        self.frame.await_final(slot, out);
    }

    /// A client sent something of the protocol.
    pub(super) fn on_client(
        &mut self,
        client: ClientId,
        message: &Message,
        out: &mut Effects<Self>,
    ) {
        match message {
            Message::Vouch { view, slot } => self.on_vouch(client, *view, *slot, out),
            Message::Certificate(proof) => self.on_certificate(client, proof, out),
            // The ingress refuses it.
            _ => {}
        }
    }

    /// A client wants under this replica's signature what it answered: not all have answered alike,
    /// and others must believe that enough have. If there is a certificate already, that will do.
    fn on_vouch(&mut self, client: ClientId, view: View, slot: Slot, out: &mut Effects<Self>) {
        if view != self.frame.entered || self.phase != Phase::Entered {
            return;
        }
        if let Some(past) = self.past.get(&slot) {
            // A stable checkpoint has it, and that is better than a certificate.
            mark!("zyzzyva/vouch_late");
            let place = Place { view, slot, history: past.history };
            self.note_doubt(slot, client);
            out.output(speculation::Output::Tell { client, message: ToClient::Committed(place) });
            return;
        }
        let Some(place) = self.place(slot).filter(|_| self.window.contains(slot)) else { return };
        let batch = self.ordered(slot);
        if !self.frame.concerns(batch, &client) {
            return;
        }
        self.note_doubt(slot, client);
        let covered = |it: &Arc<Committed>| it.place.slot >= slot;
        if self.certificate.as_ref().is_some_and(covered) {
            out.output(speculation::Output::Tell { client, message: ToClient::Committed(place) });
            return;
        }
        let Some(state) = self.window.get(slot) else { return };
        if let Some((_, signature)) = state.votes.get(&self.frame.me) {
            let message = ToClient::Vouched { place, signature: *signature };
            out.output(speculation::Output::Tell { client, message });
            return;
        }
        mark!("zyzzyva/vouch");
        let waiting = self.vouching.entry(slot).or_default();
        if waiting.insert(client) && waiting.len() == 1 && !state.voted {
            out.send(To::One(self.frame.me), Message::Vote(place));
        }
    }

    /// A client found that not all answer. If lately at least half of those did who were told
    /// something, somebody is gone, and not only late for a few, or said to be by liars.
    fn note_doubt(&mut self, slot: Slot, client: ClientId) {
        if !self.table.commits || self.committing > 0 {
            return;
        }
        let is_new = match (self.past.get_mut(&slot), self.window.get_mut(slot)) {
            (Some(past), _) => past.content.remove(&client),
            (None, Some(state)) => state.doubts.insert(client),
            (None, None) => false,
        };
        if !is_new {
            return;
        }
        self.doubted += 1;
        if 2 * self.doubted >= self.told || mutant!("zyzzyva.one-doubt-is-enough") {
            mark!("zyzzyva/committing");
            self.committing = COMMITTING_TICKS;
            (self.told, self.doubted) = (0, 0);
        }
    }

    /// Signs what was executed for everyone who has something in it, unasked.
    fn sign_for_all(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let clients = self.clients(slot);
        let (Some(place), Some(state)) = (self.place(slot), self.window.get(slot)) else { return };
        if !state.voted {
            out.send(To::One(self.frame.me), Message::Vote(place));
        }
        self.vouching.insert(slot, clients);
    }

    /// Who has something in a slot.
    pub(super) fn clients(&self, slot: Slot) -> BTreeSet<ClientId> {
        let batch = self.ordered(slot).and_then(|batch| self.frame.bodies.get(&batch));
        let envelopes = batch.iter().flat_map(|batch| &batch.envelopes);
        envelopes.map(|envelope| envelope.client).collect()
    }

    /// This replica's signature is there: whoever waits for it gets it.
    fn vouch(&mut self, place: Place, signature: Signature, out: &mut Effects<Self>) {
        for client in self.vouching.remove(&place.slot).into_iter().flatten() {
            let message = ToClient::Vouched { place, signature };
            out.output(speculation::Output::Tell { client, message });
        }
    }

    /// A client shows that a quorum answered it alike (section 3.3, step 5). A certificate of
    /// another view counts for nothing, and one for something else than was executed here proves
    /// that the primary gave different orders.
    fn on_certificate(
        &mut self,
        client: ClientId,
        proof: &Arc<Committed>,
        out: &mut Effects<Self>,
    ) {
        let place = proof.place;
        if place.view != self.frame.entered || self.phase != Phase::Entered {
            return;
        }
        match self.place(place.slot).filter(|_| self.window.contains(place.slot)) {
            Some(mine) if mine.history == place.history => {
                mark!("zyzzyva/client_certificate");
                self.keep_certificate(proof, out);
                out.output(speculation::Output::Tell {
                    client,
                    message: ToClient::Committed(place),
                });
            }
            Some(_) => {
                mark!("zyzzyva/client_dispute");
                proof.signatures.iter().for_each(|(id, _)| self.dispute(*id, place.slot, out));
                self.frame.object_to_order("a quorum executed something else", out);
            }
            None => self.frame.arm_resend(out),
        }
    }
}
