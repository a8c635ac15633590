//! The replica that runs all of its pillars in one thread: its state, and where each event goes.

use super::cell::{Cell, Pillar, of_cell};
use super::message::{Message, PillarTimer};
use super::record::Record;
use super::scratch::Scratch;
use super::stage::Stage;
use super::transit::Transit;
use crate::common::timer::Timer;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verifier};
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
    pub(super) cells: Vec<Cell<P>>,
    pub(super) stage: Stage,
    /// What they say to each other.
    pub(super) transit: Transit,
    pub(super) of_cell: Scratch<Cell<P>>,
    pub(super) of_stage: Scratch<Stage>,
}

impl<P: Pillar> Protocol for Pillars<P> {
    type Message = Message<P::Message>;
    type Timer = PillarTimer<P::Timer>;
    type Record = Record<P::Record>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Cell::<P>::RULES;

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Self::Message,
    ) -> Result<(), Reject> {
        Cell::<P>::validate(membership, verifier, author, tag, message)
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
            let cell = Cell::start(of_cell(&setup, pillar), &mut log.into_iter(), &mut effects);
            first.push(effects.drain().collect());
            cell
        };
        let cells = (0..).zip(records).map(start).collect();
        let mut of_stage = Effects::default();
        let mut replica = Self {
            cells,
            stage: Stage::start(setup, &mut core::iter::empty(), &mut of_stage),
            transit: Transit::new(count, seed),
            of_cell: Scratch::default(),
            of_stage: Scratch::default(),
        };
        replica.begin(first, of_stage, out);
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
            // Refused at the door: clients of these protocols only ask.
            Event::Client(..) => {}
        }
        self.run(false, out);
    }

    fn is_moot(&self, author: ReplicaId, message: &Self::Message) -> bool {
        let cell = self.cells.get(usize::from(message.pillar));
        cell.is_some_and(|cell| cell.is_moot(author, message))
    }

    fn assert_invariants(&self) {
        self.cells.iter().for_each(Cell::assert_invariants);
        self.stage.assert_invariants();
        let window = self.stage.tuning.window_slots as usize;
        assert!(self.stage.merge.len() <= 2 * window * self.cells.len());
        match &self.transit {
            Transit::AtOnce(inward) => assert!(inward.is_empty()),
            Transit::Late(_) => assert!(self.transit.len() <= LATE_MAX),
        }
    }

    fn status(&self) -> Status {
        let all: Vec<Status> = self.cells.iter().map(Cell::status).collect();
        self.stage.status_of(&all)
    }

    fn statuses(&self) -> Vec<Status> {
        self.stage.statuses_of(self.cells.iter().map(Cell::status).collect())
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        self.cells.iter().flat_map(Cell::asks_to_leave).collect()
    }

    fn reads_from(&self) -> Slot {
        let prepared = self.cells.iter().map(Cell::reads_from).max();
        prepared.unwrap_or_default().max(self.stage.reads_from())
    }

    fn hint(&self, client: &ClientId) -> View {
        self.cells[usize::from(self.stage.pillar_of(client))].hint(client)
    }
}

/// What a pillar says.
pub(super) type Said<P> = Vec<Effect<Cell<P>>>;
