//! A protocol in which everyone does what replica 0 says. It tolerates nothing, but it uses every
//! way of a message through the host: to itself, to others, signed and checked. Anyone may pass
//! envelopes on, in an order of slot 0. A replica that
//! missed something fetches the last checkpoint of replica 0 and goes on from there.

use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::{Counter, Position};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Authority, Delay, Effects, Event, FaultModel, Message, Protocol, Reject, Rules, Setup, Status,
    TimerKey, TimerName, To,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What replica 0 says.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Order {
    slot: Slot,
    proposal: Proposal,
    /// Replica 0's last checkpoint.
    checkpoint: (Slot, Digest),
}

impl Order {
    /// Passes an envelope on.
    pub fn forward(envelope: Envelope) -> Self {
        let proposal = Proposal::new(Millis(0), vec![Item::Whole(Arc::new(envelope))]);
        Self { slot: Slot(0), proposal, checkpoint: (Slot(0), Digest::default()) }
    }
}

impl Wire for Order {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.proposal.encode(to);
        self.checkpoint.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (slot, proposal) = (Slot::decode(from)?, Proposal::decode(from)?);
        Ok(Self { slot, proposal, checkpoint: <(Slot, Digest)>::decode(from)? })
    }
}

impl Message for Order {
    fn auth(&self) -> Auth {
        // The empty proposal stands for a message that needs the counter.
        if self.proposal.items.is_empty() {
            Auth::usig(Position::new(View(0), self.slot.0))
        } else {
            Auth::Signature
        }
    }
    fn statement(&self, domain: &Domain) -> Digest {
        let mut hasher = domain.statement("order");
        hasher.u64(self.slot.0).digest(&self.proposal.digest());
        hasher.u64(self.checkpoint.0.0).digest(&self.checkpoint.1).finish()
    }
}

/// The one timer: replica 0 sends an order that needs the counter.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct UseCounter;

impl TimerName for UseCounter {
    fn to_key(self) -> TimerKey {
        (7, 7)
    }
    fn from_key(_key: TimerKey) -> Self {
        Self
    }
}

#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Follow {
    me: ReplicaId,
    pillars: u8,
    panics: bool,
    waiting: Vec<Arc<Envelope>>,
    ordered: Slot,
    executed: Slot,
    checkpoint: (Slot, Digest),
    /// Orders that cannot be executed yet.
    early: BTreeMap<Slot, Proposal>,
}

impl Protocol for Follow {
    type Message = Order;
    type Timer = UseCounter;
    type Record = Slot;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules {
        name: "follow",
        fault_model: FaultModel::Hybrid,
        group_size: Count::per_fault_and_one(0),
        quorum: QuorumRule::Majority,
        replies: Count::per_fault_and_one(0),
        reads: ReadRule::All,
        pillars: false,
        speculative: false,
        hears_slot_results: false,
        replies_itself: false,
        authority: Authority::Members,
        counter: Some(Counter::Usig),
    };

    fn validate(
        _membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        _tag: &AuthTag,
        message: &Order,
    ) -> Result<(), Reject> {
        if author != ReplicaId(0) && message.slot > Slot(0) {
            return Err(Reject::WrongRole);
        }
        let good = message.proposal.whole().all(|envelope| verifier.envelope(envelope));
        if good { Ok(()) } else { Err(Reject::BadRequest) }
    }

    fn start(setup: Setup, _log: &mut dyn Iterator<Item = Slot>, out: &mut Effects<Self>) -> Self {
        // Tests that want a refused counter, or a panic, set these sizes, which mean nothing here
        // otherwise.
        let panics = setup.tuning.window_slots == 0;
        if setup.tuning.proposals_in_flight == 1 || panics {
            out.arm(UseCounter, Delay::Millis(1));
        }
        Self {
            me: setup.me,
            pillars: setup.membership.lane.pillars,
            panics,
            waiting: Vec::new(),
            ordered: Slot(0),
            executed: Slot(0),
            checkpoint: (Slot(0), Digest::default()),
            early: BTreeMap::new(),
        }
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Input(Input::Request { envelope, .. }) => self.waiting.push(envelope),
            Event::Input(Input::Round { now }) => self.order(now, out),
            Event::Input(Input::Checkpointed { slot, state }) => self.checkpoint = (slot, state),
            Event::Input(Input::Installed { slot }) => {
                self.executed = slot;
                self.early.retain(|early, _| *early > slot);
                self.execute(out);
            }
            Event::Client(..)
            | Event::Input(
                Input::Compact
                | Input::Speculation(_)
                | Input::SlotResults(_)
                | Input::Replying(_)
                | Input::Wedging(_)
                | Input::Pillar(_),
            ) => {}
            Event::Message(order) => {
                let Order { slot, proposal, checkpoint } = &*order.message;
                if *slot == Slot(0) {
                    let envelopes = proposal.whole().cloned();
                    return envelopes.for_each(|envelope| out.output(Output::Admit { envelope }));
                }
                self.early.insert(*slot, proposal.clone());
                self.execute(out);
                let (at, state) = *checkpoint;
                if at > self.executed {
                    let from = ReplicaSet::from_iter([ReplicaId(0)]);
                    out.output(Output::Fetch { slot: at, state, from });
                }
            }
            Event::Timeout(UseCounter) => {
                assert!(!self.panics, "as a test wants it");
                let proposal = Proposal::new(Millis(0), Vec::new());
                let checkpoint = self.checkpoint;
                out.send(To::All, Order { slot: Slot(99), proposal, checkpoint });
            }
        }
    }

    fn assert_invariants(&self) {
        assert!(!self.early.contains_key(&self.executed.next()));
    }

    fn status(&self) -> Status {
        Status {
            view: View(0),
            primary: ReplicaId(0),
            phase: "normal",
            committed: self.executed,
            stable: Slot(0),
            peers_committed: Slot(0),
            waiting: self.waiting.len(),
            view_changes: 0,
            reason: "",
        }
    }

    fn statuses(&self) -> Vec<Status> {
        let count = if self.pillars > 1 { self.pillars } else { 0 };
        (0..count).map(|_| self.status()).collect()
    }
}

impl Follow {
    fn order(&mut self, now: Millis, out: &mut Effects<Self>) {
        let envelopes = std::mem::take(&mut self.waiting);
        if self.me != ReplicaId(0) || envelopes.is_empty() {
            return;
        }
        self.ordered = self.ordered.next();
        let items = envelopes.into_iter().map(Item::Whole).collect();
        out.persist(self.ordered);
        let (slot, proposal) = (self.ordered, Proposal::new(now, items));
        out.send(To::All, Order { slot, proposal, checkpoint: self.checkpoint });
    }

    fn execute(&mut self, out: &mut Effects<Self>) {
        while let Some(proposal) = self.early.remove(&self.executed.next()) {
            let slot = self.executed.next();
            self.executed = slot;
            let batch = proposal.complete(|_| None).expect("all items are whole");
            out.output(Output::Execute { slot, batch: Arc::new(batch) });
            if slot.0.is_multiple_of(4) {
                out.output(Output::Checkpoint { slot });
            }
        }
    }
}
