//! Where each event goes.

use super::certificate::{Entry, ViewChange};
use super::message::{Message, Shared, Steps};
use super::record::Record;
use super::replica::{OnUsig, OwnMessages, Phase, Variant};
use super::statements::TERMS;
use crate::common::certificate::{Check, CheckpointProof};
use crate::common::counters::Counted;
use crate::common::counters::certificate::Opened;
use crate::common::counters::order::Order;
use crate::common::counters::record::Noted;
use crate::common::counters::slots::Slots;
use crate::common::frame::Frame;
use crate::common::frame::changing::Changing;
use crate::common::frame::events::Events;
use crate::common::frame::hooks::{Finality, Framed};
use crate::common::message::Statements;
use crate::common::record::Kept;
use crate::common::timer::Timer;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effects, Event, Protocol, Reject, Rules, Setup, Status};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::votes::Votes;

impl<V: Variant> Protocol for OnUsig<V> {
    type Message = Message;
    type Timer = Timer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = V::RULES;
    const JUSTIFICATION: Justification = V::JUSTIFICATION;

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Message,
    ) -> Result<(), Reject> {
        let primary = |view: &View| membership.primary(*view) == author;
        let role = |good: bool| if good { Ok(()) } else { Err(Reject::WrongRole) };
        let check = || Check { opened_alone: V::OPENS_ALONE, ..Check::new(membership, verifier) };
        match message {
            Message::Order(order) => order.validate(membership, verifier, author),
            Message::ViewChange(change) => {
                let ui = tag.ui().ok_or(Reject::WrongTag)?;
                change.validate(check(), ui)
            }
            Message::NewView(opening) => {
                role(primary(&opening.view))?;
                opening.validate(check())
            }
            Message::Acknowledge { view, .. } => role(!primary(view)),
            Message::Enter { .. } => Ok(()),
            Message::Settle { .. } => Err(Reject::WrongRole),
            Message::Shared(message) => {
                let vouching = Self::vouching(membership.quorums());
                message.validate(membership, verifier, &TERMS.signed, vouching)
            }
        }
    }

    fn validate_client(
        _membership: &Membership,
        _verifier: &dyn Verifier,
        message: &Message,
    ) -> Result<(), Reject> {
        let takes = V::SETTLES && matches!(message, Message::Settle { .. });
        if takes { Ok(()) } else { Err(Reject::WrongRole) }
    }

    fn start(setup: Setup, log: &mut dyn Iterator<Item = Record>, out: &mut Effects<Self>) -> Self {
        let frame = Frame::<Self>::new(&setup);
        let speculation = V::begin(frame.executed);
        let mut replica = Self {
            frame,
            phase: Phase::Entered,
            entry: None,
            enters: Votes::default(),
            opening: None,
            own: OwnMessages::default(),
            behind: None,
            slots: Slots::new(setup.membership.base.slot, setup.tuning.window_slots),
            speculation,
        };
        replica.begin(&setup, log, out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(message) => self.on_message(message, out),
            Event::Timeout(timer) => self.on_timeout(timer, out),
            Event::Input(input) => self.on_input(input, out),
            Event::Client(client, message) => V::on_client(self, client, &message, out),
        }
    }

    fn is_redundant(&self, author: ReplicaId, message: &Message) -> bool {
        self.says_nothing_new(author, message)
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        self.frame.asks_to_leave()
    }

    fn assert_invariants(&self) {
        self.frame.assert_invariants(self.last_final());
        assert_eq!(self.frame.is_entered(), self.phase == Phase::Entered);
        let entry = self.entry.as_ref().map(Opened::view);
        assert_eq!(entry.unwrap_or_default(), self.frame.entered);
        self.slots.assert_invariants(&self.frame);
        V::assert_invariants(self);
        assert!(self.behind.is_none() || self.phase == Phase::Draining);
    }

    fn status(&self) -> Status {
        let changing = match self.phase {
            Phase::Draining => "draining",
            Phase::Entered | Phase::Changing | Phase::Opening => "changing",
            Phase::Acknowledged => "entering",
        };
        self.frame.status(changing, self.last_final())
    }

    fn confirms(&self) -> Vec<Place> {
        V::confirms(self)
    }
}

impl<V: Variant> OnUsig<V> {
    pub(crate) fn on_message(&mut self, verified: Verified<Message>, out: &mut Effects<Self>) {
        let message = verified.message.clone();
        if verified.author == self.frame.me {
            self.slots.heard_own(&message);
        }
        match &*message {
            Message::Order(order) => self.on_order(verified, order, out),
            Message::ViewChange(change) => {
                self.on_leaving(verified, change.view, &change.requests, out);
            }
            Message::NewView(opening) => self.on_new_view(verified, opening, out),
            Message::Acknowledge { view, opening } => {
                self.on_acknowledge(&verified, *view, opening, out);
            }
            Message::Enter { view, opening } => self.on_enter(verified, *view, *opening, out),
            // The ingress refuses it from replicas.
            Message::Settle { .. } => {}
            Message::Shared(message) => self.on_shared(&verified, message, out),
        }
    }
}

impl<V: Variant> Framed for OnUsig<V> {
    type More = Steps;

    const STATEMENTS: Statements = TERMS.signed;
    /// PREPARE or COMMIT; a lying primary may say both.
    const KINDS_PER_SLOT: usize = 2;
    /// Acknowledgement and ENTER.
    const KINDS_OF_NO_SLOT: usize = 2;
    const REPEATED_PER_SLOT: usize = 1;

    fn quorum(quorums: Quorums) -> usize {
        V::RULES.quorum.size(quorums)
    }
    fn vouching(quorums: Quorums) -> usize {
        quorums.weak()
    }
    fn shared(message: Shared) -> Message {
        Message::Shared(message)
    }
    fn kept(record: Kept) -> Record {
        Record::Kept(record)
    }
    fn frame(&self) -> &Frame<Self> {
        &self.frame
    }
    fn frame_mut(&mut self) -> &mut Frame<Self> {
        &mut self.frame
    }
}

impl<V: Variant> Counted for OnUsig<V> {
    type Entry = Entry;

    fn order(order: Order) -> Message {
        Message::Order(order)
    }
    fn as_order(message: &Message) -> Option<&Order> {
        if let Message::Order(order) = message { Some(order) } else { None }
    }
    fn as_change(message: &Message) -> Option<&Arc<ViewChange>> {
        if let Message::ViewChange(change) = message { Some(change) } else { None }
    }
    fn noted(record: Noted<Message>) -> Record {
        Record::Noted(record)
    }
}

impl<V: Variant> Finality for OnUsig<V> {
    fn vouched(&self, _slot: Slot, state: Digest) -> Option<Digest> {
        Some(state)
    }

    fn last_final(&self) -> Slot {
        V::last_final(self)
    }

    fn execute(
        &mut self,
        slot: Slot,
        batch: Arc<Batch>,
        is_checkpoint: bool,
        out: &mut Effects<Self>,
    ) {
        V::execute(self, (slot, batch), is_checkpoint, out);
    }

    /// A replica that cannot tell whether what it executed is final cannot compare it either.
    fn comparable(&self) -> Slot {
        V::last_final(self)
    }

    fn settle(&mut self, proof: &CheckpointProof, out: &mut Effects<Self>) -> bool {
        V::settle(self, proof, out)
    }

    fn stands_on(&mut self, slot: Slot) -> bool {
        V::stands_on(self, slot);
        true
    }

    fn on_tick(&mut self, out: &mut Effects<Self>) {
        V::on_tick(self, out);
    }

    fn on_wanted(&mut self, slot: Slot, out: &mut Effects<Self>) {
        V::on_wanted(self, slot, out);
    }
}
