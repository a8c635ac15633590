//! A protocol that can be stopped: replica 0 orders, the others execute what they hear of, and a
//! service outside says how it ends. It agrees on nothing, so that replicas differ when they stop.

use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::ports::replica::wedging::{self, History};
use pentarchy_core::ports::replica::{Input, Output, slot_results, speculation};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, Memory, Message, NoTimer, Protocol, Reject, Rules,
    Setup, Status, To,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::sync::Arc;

pub const HEAD: ReplicaId = ReplicaId(0);

/// A replica takes a checkpoint at every multiple of so many slots, unless it speculates.
pub const CHECKPOINT_SLOTS: u64 = 2;

/// What the replicas are like.
pub const SOUND: u8 = 0;
/// They execute what may be taken back, and never say that it is final.
pub const SPECULATES: u8 = 1;
/// They go on as if nobody had stopped them.
pub const GOES_ON: u8 = 2;
/// When they have stopped they still say what is to become of states, in each round.
pub const TALKS_ON: u8 = 3;
/// When they start again, they keep once more that they have stopped, and then say so.
pub const KEEPS_AGAIN: u8 = 4;

/// The head orders this.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Order {
    pub slot: Slot,
    pub proposal: Arc<Proposal>,
}

impl Wire for Order {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.proposal.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (slot, proposal) = (Slot::decode(from)?, Arc::new(Proposal::decode(from)?));
        Ok(Self { slot, proposal })
    }
}

impl Message for Order {
    fn auth(&self) -> Auth {
        Auth::Channel
    }
    fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("order").bytes(&self.to_bytes()).finish()
    }
}

/// What a replica keeps.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    Ordered(Order),
    /// What is behind this state is said again behind this.
    Stable(Base),
    Wedged,
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Ordered(order) => {
                to.u8(0);
                order.encode(to);
            }
            Self::Stable(base) => {
                to.u8(1);
                base.encode(to);
            }
            Self::Wedged => to.u8(2),
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Order::decode(from).map(Self::Ordered),
            1 => Base::decode(from).map(Self::Stable),
            2 => Ok(Self::Wedged),
            _ => Err(Malformed),
        }
    }
}

/// One replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Stopping<const KIND: u8> {
    me: ReplicaId,
    waiting: Vec<Arc<Envelope>>,
    /// The last state that it took, and what it ordered behind that.
    base: Base,
    orders: Vec<Order>,
    executed: Slot,
    is_wedged: bool,
}

impl<const KIND: u8> Protocol for Stopping<KIND> {
    type Message = Order;
    type Timer = NoTimer;
    type Record = Record;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "stopping",
        fault_model: FaultModel::Byzantine,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: false,
        speculative: KIND == SPECULATES,
        hears_slot_results: true,
        replies_itself: false,
        authority: Authority::Service,
        counter: None,
    };

    fn validate(
        _: &Membership,
        _: &dyn Verifier,
        author: ReplicaId,
        _: &AuthTag,
        _: &Order,
    ) -> Result<(), Reject> {
        if author == HEAD { Ok(()) } else { Err(Reject::WrongRole) }
    }

    fn start(setup: Setup, log: &mut dyn Iterator<Item = Record>, out: &mut Effects<Self>) -> Self {
        assert_eq!(setup.fetch, None, "an epoch begins with a state that is there");
        let executed = match setup.memory {
            Memory::Durable { executed, .. } => executed.slot,
            Memory::Volatile => setup.membership.base.slot,
        };
        let (waiting, orders, base) = (Vec::new(), Vec::new(), setup.membership.base);
        let mut core = Self { me: setup.me, waiting, base, orders, executed, is_wedged: false };
        for record in log {
            match record {
                // What is kept again may be here twice.
                Record::Ordered(order) if order.slot != core.next() => {}
                Record::Ordered(order) => core.order(order, out),
                Record::Stable(base) => core.rest_on(base),
                Record::Wedged => core.is_wedged = true,
            }
        }
        if core.is_wedged {
            if KIND == KEEPS_AGAIN {
                out.persist(Record::Wedged);
            }
            out.output(wedging::Output::Wedged(core.history()));
        }
        core
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Input(Input::Wedging(wedging::Input::Wedge)) => {
                assert!(!self.is_wedged, "it is told so once");
                self.is_wedged = true;
                out.persist(Record::Wedged);
                out.output(wedging::Output::Wedged(self.history()));
            }
            // What the next epoch inherits is no affair of this core.
            Event::Input(Input::SlotResults(slot_results::Input::Executed { slot, .. })) => {
                assert!(slot <= self.history().end(), "{slot} is none that it ordered");
            }
            Event::Input(Input::Compact) => self.log_again(out),
            Event::Input(Input::Round { .. }) if self.is_wedged && KIND == TALKS_ON => {
                self.talk_on(out);
            }
            _ if self.is_wedged && KIND != GOES_ON => {}
            Event::Input(Input::Request { envelope, .. }) if self.me == HEAD => {
                self.waiting.push(envelope);
            }
            Event::Input(Input::Round { now }) if !self.waiting.is_empty() => {
                let items = self.waiting.drain(..).map(Item::Whole).collect();
                let proposal = Arc::new(Proposal::new(now, items));
                out.send(To::All, Order { slot: self.next(), proposal });
            }
            Event::Message(order) if order.message.slot == self.next() => {
                out.persist(Record::Ordered((*order.message).clone()));
                self.order((*order.message).clone(), out);
            }
            // The others lack what came before.
            Event::Message(_) => {
                let why = "orders out of turn";
                out.output(wedging::Output::Accuse { about: HEAD, why });
            }
            Event::Input(Input::Checkpointed { slot, state }) => {
                let base = Base { slot, state };
                self.rest_on(base);
                out.output(Output::Stable { slot, state });
                self.log_again(out);
            }
            _ => {}
        }
    }

    fn assert_invariants(&self) {}

    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: HEAD,
            phase: if self.is_wedged { "wedged" } else { "normal" },
            committed: self.executed,
            stable: self.base.slot,
            peers_committed: Slot(0),
            waiting: self.waiting.len(),
            view_changes: 0,
            reason: "",
        }
    }
}

impl<const KIND: u8> Stopping<KIND> {
    fn next(&self) -> Slot {
        self.history().end().next()
    }

    fn history(&self) -> History {
        let batches = self.orders.iter().map(|order| order.proposal.digest()).collect();
        History { base: self.base, batches }
    }

    fn log_again(&self, out: &mut Effects<Self>) {
        out.persist(Record::Stable(self.base));
        self.orders.iter().for_each(|it| out.persist(Record::Ordered(it.clone())));
        if self.is_wedged {
            out.persist(Record::Wedged);
        }
    }

    fn talk_on(&self, out: &mut Effects<Self>) {
        let (slot, state, from) = (self.executed, Digest::default(), [HEAD].into_iter().collect());
        out.output(Output::Stable { slot: slot.next(), state });
        out.output(Output::Fetch { slot: slot.next(), state, from });
        out.output(speculation::Output::Commit { upto: slot });
        out.output(speculation::Output::Rollback { after: Slot(0) });
        out.output(Output::Checkpoint { slot });
    }

    fn rest_on(&mut self, base: Base) {
        self.base = base;
        self.orders.retain(|order| order.slot > base.slot);
    }

    fn order(&mut self, order: Order, out: &mut Effects<Self>) {
        let batch = order.proposal.complete(|_| None).expect("every envelope travels whole");
        let (slot, batch) = (order.slot, Arc::new(batch));
        self.orders.push(order);
        if slot <= self.executed {
            return;
        }
        self.executed = slot;
        if KIND == SPECULATES {
            let (view, history) = (View(0), batch.digest);
            let speculate =
                speculation::Output::Speculate { answers: true, slot, batch, view, history };
            return out.output(speculate);
        }
        out.output(Output::Execute { slot, batch });
        if slot.0.is_multiple_of(CHECKPOINT_SLOTS) {
            out.output(Output::Checkpoint { slot });
        }
    }
}
