//! The replica that runs all of its pillars in one thread: its state, and where each event goes.

use super::merger::Merger;
use super::message::{Message, PillarTimer};
use super::pillar_core::{Pillar, PillarCore, of_cell};
use super::record::Record;
use super::scratch::Scratch;
use super::transit::Transit;
use crate::common::timer::Timer;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot, View};
use pentarchy_core::limits::{LATE_MAX, PILLARS_MAX};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effect, Effects, Event, Protocol, Reject, Rules, Setup, Status};

/// Something is late; no pillar waits for this.
pub(super) const LATE: PillarTimer<Timer> = PillarTimer { pillar: 0, inner: Timer::Final(Slot(0)) };

/// One replica of several pillars.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pillars<P: Pillar> {
    pub(super) pillar_cores: Vec<PillarCore<P>>,
    pub(super) merger: Merger,
    /// What they say to each other.
    pub(super) transit: Transit,
    pub(super) of_cell: Scratch<PillarCore<P>>,
    pub(super) of_merger: Scratch<Merger>,
}

impl<P: Pillar> Protocol for Pillars<P> {
    type Message = Message<P::Message>;
    type Timer = PillarTimer<P::Timer>;
    type Record = Record<P::Record>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = PillarCore::<P>::RULES;
    const JUSTIFICATION: Justification = P::JUSTIFICATION;

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Self::Message,
    ) -> Result<(), Reject> {
        PillarCore::<P>::validate(membership, verifier, author, tag, message)
    }

    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Self::Record>,
        out: &mut Effects<Self>,
    ) -> Self {
        let count = setup.membership.lane.pillars;
        assert!((1..=PILLARS_MAX).contains(&count), "a host checks how many pillars there are");
        let mut records: Vec<Vec<Self::Record>> = (0..count).map(|_| Vec::new()).collect();
        for record in log {
            let of_pillar = records.get_mut(usize::from(record.pillar));
            of_pillar.expect("a log is of as many pillars as it was begun with").push(record);
        }
        let late = setup.tuning.interleaving;
        let of_replica = (u64::from(setup.me.0) << 32) | setup.membership.epoch.0;
        let seed =
            if late == 0 { 0 } else { late.wrapping_mul(31).wrapping_add(of_replica).max(1) };
        let mut first = Vec::new();
        let start = |(pillar, log): (u8, Vec<Self::Record>)| {
            let mut effects = Effects::default();
            let pillar_core =
                PillarCore::start(of_cell(&setup, pillar), &mut log.into_iter(), &mut effects);
            first.push(effects.drain().collect());
            pillar_core
        };
        let pillar_cores = (0..).zip(records).map(start).collect();
        let mut of_merger = Effects::default();
        let mut replica = Self {
            pillar_cores,
            merger: Merger::start(setup, &mut core::iter::empty(), &mut of_merger),
            transit: Transit::new(count, seed),
            of_cell: Scratch::default(),
            of_merger: Scratch::default(),
        };
        replica.begin(first, of_merger, out);
        replica
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        match event {
            Event::Message(verified) => {
                self.feed(verified.message.pillar, Event::Message(verified), out);
            }
            Event::Timeout(LATE) => {}
            Event::Timeout(timer) => self.feed(timer.pillar, Event::Timeout(timer), out),
            Event::Input(Input::Round { now }) => return self.on_round(now, out),
            Event::Input(input) => self.tell_stage(input, out),
            // The ingress refuses it: clients of these protocols only ask.
            Event::Client(..) => {}
        }
        self.run(false, out);
    }

    fn is_redundant(&self, author: ReplicaId, message: &Self::Message) -> bool {
        let pillar_core = self.pillar_cores.get(usize::from(message.pillar));
        pillar_core.is_some_and(|pillar_core| pillar_core.is_redundant(author, message))
    }

    fn assert_invariants(&self) {
        self.pillar_cores.iter().for_each(PillarCore::assert_invariants);
        self.merger.assert_invariants();
        let window = self.merger.tuning.window_slots as usize;
        assert!(self.merger.merge.len() <= 2 * window * self.pillar_cores.len());
        match &self.transit {
            Transit::AtOnce(inward) => assert!(inward.is_empty()),
            Transit::Late(_) => assert!(self.transit.len() <= LATE_MAX),
        }
    }

    fn status(&self) -> Status {
        let all: Vec<Status> = self.pillar_cores.iter().map(PillarCore::status).collect();
        self.merger.status_of(&all)
    }

    fn statuses(&self) -> Vec<Status> {
        self.merger.statuses_of(self.pillar_cores.iter().map(PillarCore::status).collect())
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        self.pillar_cores.iter().flat_map(PillarCore::asks_to_leave).collect()
    }

    fn reads_from(&self) -> Slot {
        let prepared = self.pillar_cores.iter().map(PillarCore::reads_from).max();
        prepared.unwrap_or_default().max(self.merger.reads_from())
    }

    fn hint(&self, client: &ClientId) -> View {
        self.pillar_cores[usize::from(self.merger.pillar_of(client))].hint(client)
    }
}

/// What a pillar says.
pub(super) type Said<P> = Vec<Effect<PillarCore<P>>>;
