//! What a replica keeps across a crash, and how it goes on from there.
//!
//! Each record is persisted before what rests on it is said: an order before it is executed, as
//! the answer is a vote; a certificate before COMMIT; what a VIEW-CHANGE shows before it is shown;
//! a NEW-VIEW before it is confirmed. A replica that starts again has all that it told others, and
//! says it again. For each slot up to which all became final at once, the log has the history,
//! before the state there is saved: the slot is final again when it is executed again, and a saved
//! state without its history was fetched, and what the log orders may lead elsewhere.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`renew.rs`). What was told again
//! may break off anywhere.

use super::certificate::{Committed, Confirmed, Reached, Stable, ViewChange};
use super::message::Message;
use super::new_view::NewView;
use super::replica::{Phase, Zyzzyva};
use super::variant::Variant;
use crate::common::frame::execution::Execution;
use crate::common::frame::hooks::Resumes;
use crate::common::frame::resuming::{Envelopes, Resuming};
use crate::common::record::Kept;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{Effects, To};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// As primary, this replica orders.
    Propose {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// The history before it.
        parent: Digest,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica executes what that order says.
    Order(Verified<Message>),
    /// This replica has that certificate.
    Certificate(Arc<Committed>),
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica confirms what follows from that NEW-VIEW.
    Confirm(Verified<Message>),
    /// This replica enters the view of that NEW-VIEW, as a quorum agrees on what follows.
    Enter(Verified<Message>, Arc<Confirmed>),
    /// That history was final at a slot. The state there, or one before it, may be saved.
    Final {
        /// The slot.
        slot: Slot,
        /// The history up to there.
        history: Digest,
    },
    /// A stable checkpoint contradicts what this replica ordered as primary of that view.
    Overruled(View),
    /// What every protocol keeps.
    Kept(Kept<Reached>),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Propose { view, slot, parent, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                parent.encode(to);
                proposal.encode(to);
            }
            Self::Order(order) => {
                to.u8(1);
                order.encode(to);
            }
            Self::Certificate(certificate) => {
                to.u8(2);
                certificate.encode(to);
            }
            Self::Leave(change) => {
                to.u8(3);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Confirm(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Enter(opening, proof) => {
                to.u8(6);
                opening.encode(to);
                proof.encode(to);
            }
            Self::Final { slot, history } => {
                to.u8(7);
                slot.encode(to);
                history.encode(to);
            }
            Self::Overruled(view) => {
                to.u8(8);
                view.encode(to);
            }
            Self::Kept(kept) => kept.encode(to),
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Propose {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                parent: Digest::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Order(Verified::decode(from)?),
            2 => Self::Certificate(Arc::new(Committed::decode(from)?)),
            3 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            4 => Self::Open(Arc::new(NewView::decode(from)?)),
            5 => Self::Confirm(Verified::decode(from)?),
            6 => Self::Enter(Verified::decode(from)?, Arc::new(Confirmed::decode(from)?)),
            7 => Self::Final { slot: Slot::decode(from)?, history: Digest::decode(from)? },
            8 => Self::Overruled(View::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}

/// What is gathered while a log is read.
#[derive(Default)]
struct Past {
    /// What is to be said again.
    said: Vec<Message>,
    /// Envelopes by digest, for orders that name them.
    envelopes: Envelopes,
}

impl Past {
    /// Notes what was said, unless that is known.
    fn say(&mut self, message: Message) {
        if !self.said.contains(&message) {
            self.said.push(message);
        }
    }
}

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
        self.shown = reached;
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

    fn recall(&mut self, record: Record, past: &mut Past) {
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

    fn recall_order(&mut self, order: Verified<Message>, past: &Past) {
        let message = order.message.clone();
        let Message::Order { view, slot, proposal, .. } = &*message else { return };
        let taken_over = *slot <= self.start.end();
        let here = *view == self.frame.entered && !taken_over;
        let Some(state) = self.window.get_mut(*slot).filter(|_| here) else { return };
        state.batch = Some(proposal.digest());
        state.order = Some(order);
        self.frame.recall_body(*slot, proposal, &past.envelopes);
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past) {
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

    fn recall_confirm(&mut self, verified: Verified<Message>, past: &mut Past) {
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
        past: &mut Past,
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

    fn recall_checkpoint(&mut self, proof: Stable, past: &mut Past) {
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
