//! No replication: one server that executes what it is sent. The baseline of every benchmark: the
//! same host, channel, authentication, service and client, and nothing agreed on.

use crate::descriptor::{self, Descriptor};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::Counter;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Authority, Effects, Event, FaultModel, NoTimer, Nothing, Protocol, Reject, Rules, Setup, Status,
};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::Envelope;

/// The baseline.
pub static DESCRIPTOR: Descriptor = Descriptor {
    about: "one server",
    paper: "none",
    ..Descriptor::of::<Unreplicated>(descriptor::Status::Comparator)
};

/// The server.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Unreplicated {
    waiting: Vec<Arc<Envelope>>,
    executed: Slot,
}

impl Protocol for Unreplicated {
    type Message = Nothing;
    type Timer = NoTimer;
    type Record = Nothing;
    type Input = Input;
    type Output = Output;

    /// Nothing is tolerated. It has a device, as clients may open sessions with one, which is
    /// measured too.
    const RULES: Rules = Rules {
        name: "unreplicated",
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
        _verifier: &dyn Verifier,
        _author: ReplicaId,
        _tag: &AuthTag,
        message: &Nothing,
    ) -> Result<(), Reject> {
        match *message {}
    }

    fn start(
        _setup: Setup,
        _log: &mut dyn Iterator<Item = Nothing>,
        _out: &mut Effects<Self>,
    ) -> Self {
        Self { waiting: Vec::new(), executed: Slot(0) }
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Input(Input::Request { envelope, .. }) => self.waiting.push(envelope),
            Event::Input(Input::Round { now }) => self.execute(now, out),
            Event::Input(
                Input::Checkpointed { .. }
                | Input::Installed { .. }
                | Input::Compact
                | Input::Speculation(_)
                | Input::SlotResults(_)
                | Input::Replying(_)
                | Input::Wedging(_)
                | Input::Pillar(_),
            )
            | Event::Client(..)
            | Event::Timeout(NoTimer) => {}
            Event::Message(message) => match *message.message {},
        }
    }

    fn assert_invariants(&self) {}

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
}

impl Unreplicated {
    fn execute(&mut self, now: Millis, out: &mut Effects<Self>) {
        if self.waiting.is_empty() {
            return;
        }
        let items = self.waiting.drain(..).map(Item::Whole).collect();
        let batch = Proposal::new(now, items).complete(|_| None).expect("every item is whole");
        self.executed = self.executed.next();
        out.output(Output::Execute { slot: self.executed, batch: Arc::new(batch) });
    }
}
