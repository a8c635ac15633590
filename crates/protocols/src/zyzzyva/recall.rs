//! How a replica goes on from what it kept.
//!
//! The log may begin where a checkpoint became stable, with what was persisted again then, or
//! anywhere before. So each record is a fact that changes nothing when it is told a second time,
//! and what was told again may break off anywhere.

use super::certificate::{Confirmed, Stable, ViewChange};
use super::message::Message;
use super::record::Record;
use super::replica::{Phase, Zyzzyva};
use super::variant::Variant;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::{Past, Resuming};
use crate::common::record::Kept;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{Effects, To};

impl<V: Variant> Resumes for Zyzzyva<V> {
    /// From a state that was final.
    fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        self.frame.executed = self.frame.stable.slot;
        let mut past = Past::default();
        log.for_each(|record| self.recall(record, &mut past));
        let reached = self.recall_histories(executed.slot);
        let (last, history) = self.last_ordered();
        (self.frame.next_slot, self.tip) = (last.next(), history);
        self.go_on(executed, reached.max(executed.slot), out);
        for message in past.said {
            mark!("zyzzyva/said_again");
            out.send(To::All, message);
        }
        self.try_confirm(out);
        self.advance(out);
    }
}

impl<V: Variant> Zyzzyva<V> {
    /// Follows the chain from the stable checkpoint: up to where the executor is, that was
    /// executed. Gives how far this replica may have told others that it had come.
    fn recall_histories(&mut self, executed: Slot) -> Slot {
        let chain: Vec<_> = self.chain().collect();
        let reached = chain.last().map_or(self.frame.stable.slot, |(slot, ..)| *slot);
        let led_there = self.led_to(executed, &chain);
        for (slot, _, history) in chain.into_iter().filter(|(slot, ..)| *slot <= executed) {
            if let Some(state) = self.window.get_mut(slot) {
                state.history = Some(history);
            }
        }
        // A state that was fetched may lie above all that the log knows, or where the log's orders
        // led elsewhere. Without its history there is no going on from it.
        self.is_stranded = executed > self.frame.stable.slot && !led_there;
        if self.is_stranded {
            mark!("zyzzyva/stranded");
            self.forget_histories();
        }
        self.frame.executed = if self.is_stranded { self.frame.stable.slot } else { executed };
        self.last_final = self.frame.executed;
        if !mutant!("zyzzyva.shown-forgotten") {
            self.shown = reached;
        }
        self.recount();
        // The state to go on from is a checkpoint's, also if the record is lost that says why.
        self.frame.checkpoints.note_taken(self.frame.executed);
        reached
    }

    /// Whether what the log orders led to the state after a slot: what was final there, or later,
    /// is what those orders lead to.
    fn led_to(&self, slot: Slot, chain: &[(Slot, Digest, Digest)]) -> bool {
        let was_final = |at: &Slot, history| {
            self.finals.get(at) == Some(history) || mutant!("zyzzyva.any-saved-state-is-own")
        };
        chain.iter().any(|(at, _, history)| *at >= slot && was_final(at, history))
    }

    fn recall(&mut self, record: Record, past: &mut Past<Message>) {
        match record {
            Record::Kept(Kept::Envelope(envelope)) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Propose { view, slot, parent, proposal } => {
                let here = view == self.frame.entered && self.phase == Phase::Entered;
                if here && self.window.contains(slot) && slot > self.start.end() {
                    self.frame.recall_body(slot, &proposal, &past.envelopes);
                    self.awaiting_loopback.insert(slot, (parent, proposal.clone()));
                    past.say(Message::Order { view, slot, parent, proposal });
                }
            }
            Record::Order(order) => self.recall_order(order, past),
            Record::Kept(Kept::Body { slot, proposal }) => {
                self.frame.recall_body(slot, &proposal, &past.envelopes);
            }
            Record::Certificate(certificate) => {
                let Place { view, slot, .. } = certificate.place;
                let known = self.certificate.as_ref().map_or(Slot(0), |it| it.place.slot);
                if view == self.frame.entered && self.window.contains(slot) && slot > known {
                    self.certificate = Some(certificate);
                }
            }
            Record::Leave(change) => self.recall_leaving(change, past),
            Record::Open(opening) => {
                if opening.view == self.frame.view && self.phase == Phase::Changing {
                    self.phase = Phase::Opening;
                    self.own.opened = Some(opening.clone());
                    past.say(Message::NewView(opening));
                }
            }
            Record::Confirm(verified) => self.recall_confirm(verified, past),
            Record::Enter(verified, proof) => self.recall_entry(verified, proof, past),
            Record::Final { slot, history } => {
                if slot > self.frame.stable.slot {
                    self.finals.insert(slot, history);
                }
            }
            Record::Overruled(view) => self.is_overruled |= view == self.frame.entered,
            Record::Kept(Kept::Stable(proof)) => self.recall_checkpoint(proof, past),
        }
    }

    fn recall_order(&mut self, order: Verified<Message>, past: &Past<Message>) {
        let message = order.message.clone();
        let Message::Order { view, slot, proposal, .. } = &*message else { return };
        let taken_over = *slot <= self.start.end();
        let here = *view == self.frame.entered && !taken_over;
        let Some(state) = self.window.get_mut(*slot).filter(|_| here) else { return };
        state.batch = Some(proposal.digest());
        state.order = Some(order);
        self.frame.recall_body(*slot, proposal, &past.envelopes);
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past<Message>) {
        let view = change.view;
        if view <= self.frame.view {
            return;
        }
        self.frame.view_requests.show_all(&change.requests);
        self.frame.recall_view(view);
        self.phase = Phase::Changing;
        self.own.left = Some(change.clone());
        (self.own.opened, self.own.confirmed, self.proposed) = (None, false, None);
        self.awaiting_loopback.clear();
        past.said = Vec::from([Message::ViewChange(change)]);
    }

    fn recall_confirm(&mut self, verified: Verified<Message>, past: &mut Past<Message>) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        let start = opening.start(&self.table);
        self.recall_checkpoint(start.base.clone(), past);
        if opening.view > self.frame.view {
            self.awaiting_loopback.clear();
            past.said.clear();
        }
        (self.frame.view, self.phase) = (opening.view, Phase::Confirming);
        let place = Place { view: opening.view, slot: start.end(), history: start.history() };
        let low = self.frame.stable.slot;
        for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
            self.frame.bodies.want(slot, batch);
        }
        self.own.confirmed = true;
        self.proposed = Some((verified, start));
        past.say(Message::Confirm(place));
    }

    fn recall_entry(
        &mut self,
        verified: Verified<Message>,
        proof: Arc<Confirmed>,
        past: &mut Past<Message>,
    ) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view < self.frame.view || opening.view == self.frame.entered {
            return;
        }
        let start = opening.start(&self.table);
        self.recall_checkpoint(start.base.clone(), past);
        self.frame.view = opening.view;
        self.awaiting_loopback.clear();
        self.enter((verified, proof), start);
        past.said.clear();
    }

    fn recall_checkpoint(&mut self, proof: Stable, past: &mut Past<Message>) {
        let low = proof.slot;
        if !self.recall_stable(proof) {
            return;
        }
        self.frame.executed = low;
        past.said.retain(|message| match message {
            Message::Order { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
