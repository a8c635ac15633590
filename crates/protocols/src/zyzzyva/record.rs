//! What a replica keeps across a crash, and how it goes on from there.
//!
//! Each record is persisted before what rests on it is said: an order before it is executed, as
//! the answer is a vote; a certificate before COMMIT; what a VIEW-CHANGE shows before it is shown;
//! a NEW-VIEW before it is confirmed. A replica that starts again has all that it told others, and
//! says it again. What is final is not logged: whoever knows says so again.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`renew.rs`). What was told again
//! may break off anywhere.

use super::certificate::{Committed, Confirmed, NewView, Stable, ViewChange, extended};
use super::message::Message;
use super::replica::{Phase, Timer, Zyzzyva};
use crate::common::bodies::Bodies;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mark;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Delay, Effects, To};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// An envelope that the next order names without carrying it.
    Envelope(Arc<Envelope>),
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
    /// A batch that a view takes over.
    Body {
        /// The slot that orders it.
        slot: Slot,
        /// The batch, as it was proposed.
        proposal: Arc<Proposal>,
    },
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
    /// A state that a quorum vouches for; nothing up to there is needed any more.
    Stable(Stable),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Envelope(envelope) => {
                to.u8(0);
                envelope.encode(to);
            }
            Self::Propose { view, slot, parent, proposal } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                parent.encode(to);
                proposal.encode(to);
            }
            Self::Order(order) => {
                to.u8(2);
                order.encode(to);
            }
            Self::Body { slot, proposal } => {
                to.u8(3);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Certificate(certificate) => {
                to.u8(4);
                certificate.encode(to);
            }
            Self::Leave(change) => {
                to.u8(5);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(6);
                opening.encode(to);
            }
            Self::Confirm(opening) => {
                to.u8(7);
                opening.encode(to);
            }
            Self::Enter(opening, proof) => {
                to.u8(8);
                opening.encode(to);
                proof.encode(to);
            }
            Self::Stable(stable) => {
                to.u8(9);
                stable.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            1 => Self::Propose {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                parent: Digest::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            2 => Self::Order(Verified::decode(from)?),
            3 => Self::Body {
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            4 => Self::Certificate(Arc::new(Committed::decode(from)?)),
            5 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            6 => Self::Open(Arc::new(NewView::decode(from)?)),
            7 => Self::Confirm(Verified::decode(from)?),
            8 => Self::Enter(Verified::decode(from)?, Arc::new(Confirmed::decode(from)?)),
            9 => Self::Stable(Stable::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}

/// Keeps the envelopes of a batch that its order only names.
pub(super) fn persist_named<const KIND: usize>(batch: &Batch, out: &mut Effects<Zyzzyva<KIND>>) {
    for envelope in batch.envelopes.iter().filter(|envelope| envelope.is_large()) {
        out.persist(Record::Envelope(envelope.clone()));
    }
}

/// What is gathered while a log is read.
#[derive(Default)]
struct Past {
    /// What is to be said again.
    said: Vec<Message>,
    /// Envelopes by digest, for orders that name them.
    envelopes: BTreeMap<Digest, Arc<Envelope>>,
    /// Batches that a view takes over may come before it.
    bodies: BTreeMap<Digest, Arc<Proposal>>,
}

impl Past {
    /// Notes what was said, unless that is known.
    fn say(&mut self, message: Message) {
        if !self.said.contains(&message) {
            self.said.push(message);
        }
    }

    fn offer(&self, bodies: &mut Bodies, proposal: &Arc<Proposal>) {
        bodies.offer(proposal, |digest| self.envelopes.get(digest).cloned());
    }
}

impl<const KIND: usize> Zyzzyva<KIND> {
    /// Goes on from a log, and from the state that the executor has, which was final.
    pub(super) fn resume(
        &mut self,
        log: &mut dyn Iterator<Item = Record>,
        executed: Base,
        out: &mut Effects<Self>,
    ) {
        (self.executed, self.committed) = (self.stable.slot(), self.stable.slot());
        let mut past = Past::default();
        log.for_each(|record| self.recall(record, &mut past));
        // Only what some slot orders, or a view is to take over, is wanted.
        past.bodies.values().for_each(|proposal| past.offer(&mut self.bodies, proposal));
        let reached = self.recall_histories(executed.slot);
        self.recall_tip();
        out.output(Output::Resumed { upto: reached.max(self.stable.slot()) });
        let other = self.stable.slot() == executed.slot && self.stable.state != executed.state;
        if self.stable.slot() > executed.slot || other {
            let (slot, state) = (self.stable.slot(), self.stable.state);
            (self.executed, self.committed) = (executed.slot, executed.slot);
            out.output(Output::Fetch { slot, state, from: self.stable.proof.signers() });
        } else if self.stable.slot() < executed.slot {
            self.on_checkpointed(executed.slot, executed.state, out);
        }
        if self.phase != Phase::Entered {
            mark!("zyzzyva/resumed_changing");
            let doublings = self.doublings;
            out.arm(Timer::ViewChange(self.view), Delay::ViewChange { doublings });
        }
        for message in past.said {
            mark!("zyzzyva/said_again");
            out.send(To::All, message);
        }
        self.try_confirm(out);
        self.advance(out);
    }

    /// Follows the chain from the stable checkpoint: up to where the executor is, that was
    /// executed. Gives how far this replica may have told others that it had come.
    fn recall_histories(&mut self, executed: Slot) -> Slot {
        let mut history = self.stable.history;
        let mut reached = self.stable.slot();
        for slot in (self.window.low().0 + 1..=self.window.high().0).map(Slot) {
            let Some(state) = self.window.get_mut(slot) else { break };
            let Some(batch) = state.batch else { break };
            history = extended(&history, &batch);
            state.history = (slot <= executed).then_some(history);
            reached = slot;
        }
        self.executed = executed.min(reached);
        self.committed = self.executed;
        self.shown = reached;
        self.recount();
        reached
    }

    /// Where this primary orders next.
    fn recall_tip(&mut self) {
        let mut history = self.stable.history;
        let mut slot = self.stable.slot();
        loop {
            let known = self.window.get(slot.next()).and_then(|state| state.batch);
            let own = || self.unheard.get(&slot.next()).map(|(_, proposal)| proposal.digest());
            let Some(batch) = known.or_else(own) else { break };
            history = extended(&history, &batch);
            slot = slot.next();
        }
        (self.next_slot, self.tip) = (slot.next(), history);
    }

    fn recall(&mut self, record: Record, past: &mut Past) {
        match record {
            Record::Envelope(envelope) => {
                past.envelopes.insert(envelope.digest, envelope);
            }
            Record::Propose { view, slot, parent, proposal } => {
                let here = view == self.entered && self.phase == Phase::Entered;
                if here && self.window.contains(slot) && slot > self.start.end() {
                    self.bodies.want(slot, proposal.digest());
                    past.offer(&mut self.bodies, &proposal);
                    self.unheard.insert(slot, (parent, proposal.clone()));
                    past.say(Message::Order { view, slot, parent, proposal });
                }
            }
            Record::Order(order) => self.recall_order(order, past),
            Record::Body { proposal, .. } => {
                past.bodies.insert(proposal.digest(), proposal);
            }
            Record::Certificate(certificate) => {
                let Place { view, slot, .. } = certificate.place;
                let known = self.certificate.as_ref().map_or(Slot(0), |it| it.place.slot);
                if view == self.entered && self.window.contains(slot) && slot > known {
                    self.certificate = Some(certificate);
                }
            }
            Record::Leave(change) => self.recall_leaving(change, past),
            Record::Open(opening) => {
                if opening.view == self.view && self.phase == Phase::Changing {
                    self.phase = Phase::Opening;
                    self.own.opened = Some(opening.clone());
                    past.say(Message::NewView(opening));
                }
            }
            Record::Confirm(verified) => self.recall_confirm(verified, past),
            Record::Enter(verified, proof) => self.recall_entry(verified, proof, past),
            Record::Stable(stable) => self.recall_stable(stable, past),
        }
    }

    fn recall_order(&mut self, order: Verified<Message>, past: &Past) {
        let message = order.message.clone();
        let Message::Order { view, slot, proposal, .. } = &*message else { return };
        let taken_over = *slot <= self.start.end();
        let here = *view == self.entered && !taken_over;
        let Some(state) = self.window.get_mut(*slot).filter(|_| here) else { return };
        state.batch = Some(proposal.digest());
        state.order = Some(order);
        self.bodies.want(*slot, proposal.digest());
        past.offer(&mut self.bodies, proposal);
    }

    fn recall_leaving(&mut self, change: Arc<ViewChange>, past: &mut Past) {
        let view = change.view;
        if view <= self.view {
            return;
        }
        for (author, (view, signature)) in &change.requests {
            self.note_ask(*author, *view, *signature);
        }
        (self.view, self.phase) = (view, Phase::Changing);
        self.own.left = Some(change.clone());
        (self.own.opened, self.own.confirmed, self.proposed) = (None, false, None);
        self.unheard.clear();
        self.doublings = self.doublings.saturating_add(1);
        past.said = Vec::from([Message::ViewChange(change)]);
    }

    fn recall_confirm(&mut self, verified: Verified<Message>, past: &mut Past) {
        let message = verified.message.clone();
        let Message::NewView(opening) = &*message else { return };
        if opening.view < self.view || opening.view == self.entered {
            return;
        }
        let start = opening.start(&self.table);
        self.recall_stable(start.base.clone(), past);
        if opening.view > self.view {
            self.unheard.clear();
            past.said.clear();
        }
        (self.view, self.phase) = (opening.view, Phase::Confirming);
        let place = Place { view: self.view, slot: start.end(), history: start.history() };
        let low = self.stable.slot();
        for (slot, batch, _) in start.slots().filter(|(slot, ..)| *slot > low) {
            self.bodies.want(slot, batch);
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
        if opening.view < self.view || opening.view == self.entered {
            return;
        }
        let start = opening.start(&self.table);
        self.recall_stable(start.base.clone(), past);
        self.view = opening.view;
        self.unheard.clear();
        (self.executed, self.committed) = (self.stable.slot(), self.stable.slot());
        self.enter((verified, proof), start);
        past.said.clear();
    }

    fn recall_stable(&mut self, stable: Stable, past: &mut Past) {
        let low = stable.slot();
        if low <= self.stable.slot() {
            return;
        }
        self.stable = stable;
        (self.executed, self.committed) = (low, low);
        self.forget_below(low);
        self.doublings = 0;
        past.said.retain(|message| match message {
            Message::Order { slot, .. } => *slot > low,
            _ => true,
        });
    }
}
