//! A protocol for a world in which nothing fails: replica 0 orders, everyone executes what it says.
//! With a number other than 0 it has a bug, and the checkers are asked to name it.

use pentarchy_core::auth::{Auth, AuthTag, Verified, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::{Counter, Position};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, Finding, Message, NoTimer, Protocol, Reject, Rules,
    Setup, Status, To,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Envelope, RequestAuth};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

pub const CORRECT: u8 = 0;
/// Replica 1 executes its requests as they come to it.
pub const WITHOUT_AGREEMENT: u8 = 1;
/// Replica 2 executes one slot twice.
pub const SLOT_TWICE: u8 = 2;
/// Replica 0 orders what no client asked.
pub const FORGES: u8 = 3;
/// Replica 0 stops.
pub const STOPS: u8 = 4;
/// Replica 0 certifies two messages at one position.
pub const COUNTER_TWICE: u8 = 5;
/// Replica 1 refuses what replica 0 says at times.
pub const REFUSES: u8 = 6;
/// Replica 2 keeps far more than the window.
pub const UNBOUNDED: u8 = 7;
/// Replica 1 says that it has evidence against replica 0.
pub const ACCUSES: u8 = 8;

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Order {
    slot: Slot,
    position: u64,
    proposal: Proposal,
}

impl Wire for Order {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        to.u64(self.position);
        self.proposal.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (slot, position) = (Slot::decode(from)?, from.u64()?);
        Ok(Self { slot, position, proposal: Proposal::decode(from)? })
    }
}

impl Message for Order {
    fn auth(&self) -> Auth {
        Auth::usig(Position::new(View(0), self.position))
    }
    fn statement(&self, domain: &Domain) -> Digest {
        let mut hasher = domain.statement("order");
        hasher.u64(self.slot.0).u64(self.position).digest(&self.proposal.digest()).finish()
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Naive<const BUG: u8> {
    setup: Setup,
    waiting: Vec<Arc<Envelope>>,
    ordered: Slot,
    orders: BTreeMap<Slot, Proposal>,
    executed: Slot,
    stable: Slot,
}

impl<const BUG: u8> Naive<BUG> {
    fn is(&self, id: u16) -> bool {
        self.setup.me == ReplicaId(id)
    }

    fn propose(&mut self, now: Millis, out: &mut Effects<Self>) {
        if self.waiting.is_empty() || !self.is(0) || (BUG == STOPS && self.ordered.0 == 20) {
            return;
        }
        self.ordered = self.ordered.next();
        let slot = self.ordered;
        let mut items: Vec<Item> = self.waiting.drain(..).map(Item::Whole).collect();
        if let (FORGES, 5, Item::Whole(envelope)) = (BUG, slot.0, &items[0]) {
            let (client, floor, events) = (envelope.client, envelope.floor, envelope.events);
            let draft = Draft { client, floor, events, requests: envelope.requests.clone() };
            items[0] = Item::Whole(Arc::new(draft.seal(RequestAuth::Signature([9; 64]))));
        }
        let position = if BUG == COUNTER_TWICE && slot.0 == 9 { 10 } else { slot.0 + 2 };
        out.send(To::All, Order { slot, position, proposal: Proposal::new(now, items) });
    }

    fn execute(&mut self, proposal: &Proposal, out: &mut Effects<Self>) {
        self.executed = self.executed.next();
        let slot = self.executed;
        let batch = Arc::new(proposal.complete(|_| None).expect("all travel whole"));
        out.output(Output::Execute { slot, batch: batch.clone() });
        if BUG == SLOT_TWICE && self.is(2) && slot.0 == 7 {
            out.output(Output::Execute { slot, batch });
        }
        if BUG == ACCUSES && self.is(1) && slot.0 == 8 {
            out.report(ReplicaId(0), Finding::OversizeBatch { slot });
        }
        if slot.0.is_multiple_of(self.setup.tuning.checkpoint_slots) {
            out.output(Output::Checkpoint { slot });
        }
    }
}

impl<const BUG: u8> Protocol for Naive<BUG> {
    type Message = Order;
    type Timer = NoTimer;
    type Record = Slot;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "naive",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(2),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(1),
        reads: ReadRule::All,
        pillars: false,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(Counter::Usig),
    };

    fn validate(
        _: &Membership,
        _: &dyn Verifier,
        author: ReplicaId,
        _: &AuthTag,
        message: &Order,
    ) -> Result<(), Reject> {
        let refuses = BUG == REFUSES && message.slot.0 == 6;
        if author == ReplicaId(0) && !refuses { Ok(()) } else { Err(Reject::WrongRole) }
    }

    fn start(setup: Setup, _: &mut dyn Iterator<Item = Slot>, _: &mut Effects<Self>) -> Self {
        let (ordered, executed, stable) = (Slot(0), Slot(0), Slot(0));
        let (waiting, orders) = (Vec::new(), BTreeMap::new());
        Self { setup, waiting, ordered, orders, executed, stable }
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(Verified { message, .. }) => {
                self.orders.insert(message.slot, message.proposal.clone());
                while let Some(proposal) = self.orders.remove(&self.executed.next()) {
                    self.execute(&proposal, out);
                }
            }
            Event::Input(Input::Request { envelope, .. }) => {
                if BUG == WITHOUT_AGREEMENT && self.is(1) {
                    let proposal = Proposal::new(Millis(1), vec![Item::Whole(envelope)]);
                    return self.execute(&proposal, out);
                }
                self.waiting.push(envelope);
            }
            Event::Input(Input::Round { now }) => self.propose(now, out),
            Event::Input(Input::Checkpointed { slot, state }) => {
                if !(BUG == UNBOUNDED && self.is(2)) {
                    self.stable = slot;
                    out.output(Output::Stable { slot, state });
                }
            }
            Event::Input(
                Input::Installed { .. }
                | Input::Compact
                | Input::Speculation(_)
                | Input::SlotResults(_)
                | Input::Replying(_)
                | Input::Wedging(_)
                | Input::Pillar(_),
            )
            | Event::Client(..)
            | Event::Timeout(_) => {}
        }
    }

    fn assert_invariants(&self) {
        assert!(self.stable <= self.executed);
    }

    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase: "normal",
            committed: self.executed,
            stable: self.stable,
            peers_committed: Slot(0),
            waiting: if self.is(0) { self.waiting.len() } else { 0 },
            view_changes: 0,
            reason: "",
        }
    }
}
