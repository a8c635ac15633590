//! One pillar: a core that orders its part, and all that needs to look into it. What others beside
//! it do it knows from inputs alone, which may come late: see `docs/protocols/pillars.md`.

use super::merge::Rows;
use super::message::{Message, PillarTimer};
use super::pillared::Pillared;
use super::record::Record;
use super::scratch::Scratch;
use crate::common::slots_to_fill::FillReason;
use alloc::boxed::Box;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verifier};
use pentarchy_core::ballot::Justification;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Domain;
use pentarchy_core::forge::MakeForger;
use pentarchy_core::ids::{ClientId, ReplicaId, Slot, View};
use pentarchy_core::membership::{Membership, PillarConfig};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::pillar::{self, PillarStatus};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{
    Effect, Effects, Event, Evidence, Finding, Memory, Protocol, Reject, Rules, Setup, Status,
};

/// A protocol of which there may be several side by side.
pub trait Pillar: Pillared {
    /// The name of several.
    const NAME: &'static str;
    /// Makes a liar of one.
    const FORGER: MakeForger;
}

/// One pillar of a replica.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PillarCore<P: Pillar> {
    number: u8,
    lane: PillarConfig,
    rows: Rows,
    /// Whether it keeps records.
    is_durable: bool,
    core: P,
    /// How it said last that it stands.
    said: Option<PillarStatus>,
    /// How often it was told from where to go on.
    answers: u64,
    /// The slot in which the last request that came here, to a backup, could be ordered at the
    /// earliest.
    wants: Slot,
    /// The last slot behind which something is decided that waits for it.
    gap: Slot,
    /// The last slot that others are known to be at in any pillar.
    heard: Slot,
    scratch: Scratch<P>,
}

impl<P: Pillar> Protocol for PillarCore<P> {
    type Message = Message<P::Message>;
    type Timer = PillarTimer<P::Timer>;
    type Record = Record<P::Record>;
    type Input = Input;
    type Output = Output;

    const RULES: Rules = Rules { name: P::NAME, pillars: true, ..P::RULES };
    const JUSTIFICATION: Justification = P::JUSTIFICATION;

    /// What is said names its pillar itself.
    fn domain(membership: &Membership) -> Domain {
        let lane = PillarConfig { pillar: None, ..membership.lane };
        membership.domain_in(lane)
    }

    fn validate(
        membership: &Membership,
        verifier: &dyn Verifier,
        author: ReplicaId,
        tag: &AuthTag,
        message: &Self::Message,
    ) -> Result<(), Reject> {
        let Message { pillar, inner } = message;
        let PillarConfig { pillars, pillar: own, .. } = membership.lane;
        let elsewhere = own.is_some_and(|own| own != *pillar) && !mutant!("pillars.hears-others");
        if *pillar >= pillars || elsewhere {
            return Err(Reject::OutOfBounds);
        }
        let of_pillar = membership.of_pillar(*pillar, Rows::of(membership).base());
        P::validate(&of_pillar, verifier, author, tag, inner)
    }

    /// The membership is that of the group, with the number of this pillar in its lane; the log has
    /// what this pillar kept.
    fn start(
        setup: Setup,
        log: &mut dyn Iterator<Item = Self::Record>,
        out: &mut Effects<Self>,
    ) -> Self {
        let lane = setup.membership.lane;
        let number = lane.pillar.expect("a host says which pillar it starts");
        let is_durable = setup.memory != Memory::Volatile;
        let rows = Rows::of(&setup.membership);
        let mut log = log.map(|record| record.inner);
        let mut effects = Effects::default();
        let core = P::start(within(setup, number, rows), &mut log, &mut effects);
        let mut pillar_core = Self {
            number,
            lane,
            rows,
            is_durable,
            core,
            said: None,
            answers: 0,
            wants: Slot(0),
            gap: Slot(0),
            heard: Slot(0),
            scratch: Scratch::default(),
        };
        pillar_core.say(out);
        pillar_core.carry(effects, out);
        pillar_core
    }

    fn step(&mut self, event: Event<Self>, out: &mut Effects<Self>) {
        let is_round = matches!(event, Event::Input(Input::Round { .. }));
        let mut effects = self.scratch.take();
        match event {
            Event::Message(verified) => {
                let within = Message::within(&verified);
                self.core.step(Event::Message(within), &mut effects);
            }
            Event::Timeout(PillarTimer { inner, .. }) => {
                self.core.step(Event::Timeout(inner), &mut effects);
            }
            Event::Input(input) => self.on_input(input, &mut effects),
            // The ingress refuses it: clients of these protocols only ask.
            Event::Client(..) => {}
        }
        if self.core.can_fill(self.gap, FillReason::Decided) {
            self.core.fill(self.gap, FillReason::Decided, &mut effects);
        }
        let (stable, answers) = (self.core.stable(), self.answers);
        let has_moved =
            |said: &PillarStatus| said.status.stable != stable || said.answers != answers;
        let has_moved = self.said.as_ref().is_none_or(has_moved);
        // Before what follows from it.
        if (is_round || has_moved) && !mutant!("pillars.status-stale") {
            self.say(out);
        }
        self.carry(effects, out);
    }

    fn asks_to_leave(&self) -> Vec<Self::Message> {
        let within = |inner| Message { pillar: self.number, inner: Arc::new(inner) };
        self.core.asks_to_leave().into_iter().map(within).collect()
    }

    fn is_redundant(&self, author: ReplicaId, message: &Self::Message) -> bool {
        message.pillar == self.number && self.core.is_redundant(author, &message.inner)
    }

    fn assert_invariants(&self) {
        self.core.assert_invariants();
    }

    fn status(&self) -> Status {
        self.core.status()
    }

    /// A global slot, as queries are answered from what was executed of all pillars.
    fn reads_from(&self) -> Slot {
        let row = self.core.reads_from();
        let early = u64::from(mutant!("pillars.reads-a-row-early"));
        let last = Slot(row.0.saturating_sub(early));
        if row > self.rows.base() { self.rows.global(self.number, last) } else { Slot(0) }
    }

    fn hint(&self, _client: &ClientId) -> View {
        View(u64::from(self.core.primary().0))
    }
}

impl<P: Pillar> PillarCore<P> {
    fn on_input(&mut self, input: Input, effects: &mut Effects<P>) {
        match input {
            Input::Request { .. } => {
                self.core.step(Event::Input(input), effects);
                if !self.core.leads() && self.core.has_waiting() {
                    self.wants = self.core.next_slot();
                }
            }
            Input::Round { .. } => {
                let fills = self.core.leads() && self.core.next_slot() <= self.heard;
                if fills && self.core.can_fill(self.heard, FillReason::Heard) {
                    self.core.fill(self.heard, FillReason::Heard, effects);
                }
                self.core.step(Event::Input(input), effects);
            }
            Input::Installed { slot } => {
                // It may have been told of a later one meanwhile, and be behind that.
                let is_new = self.core.executed() < slot;
                self.on_answer(is_new.then_some(slot), effects);
            }
            Input::Checkpointed { .. } => self.core.step(Event::Input(input), effects),
            Input::Compact if self.is_durable => {
                let compacting =
                    |is_done| pillar::Output::Compacting { pillar: self.number, is_done };
                effects.output(compacting(false));
                if self.number == 0 || !mutant!("pillars.others-not-kept-again") {
                    self.core.step(Event::Input(input), effects);
                }
                effects.output(compacting(true));
            }
            Input::Pillar(input) => self.on_merger(input, effects),
            // Without a log it keeps nothing, and what pillars execute is final.
            Input::Compact
            | Input::Speculation(_)
            | Input::SlotResults(_)
            | Input::Replying(_)
            | Input::Wedging(_) => {}
        }
    }

    /// The merger says something.
    fn on_merger(&mut self, input: pillar::Input, effects: &mut Effects<P>) {
        match input {
            // Until it is there: what can be done for it changes with each step.
            pillar::Input::Fill { slot, waits_for: None } => self.gap = self.gap.max(slot),
            // It may have another primary by now, of which nobody wants this.
            pillar::Input::Fill { slot, waits_for: Some(primary) } => {
                let why = FillReason::Requested;
                if self.core.primary() == primary && self.core.can_fill(slot, why) {
                    self.core.fill(slot, why, effects);
                }
            }
            pillar::Input::Heard { slot } => self.heard = self.heard.max(slot),
            pillar::Input::Beside { batch } => self.core.note_beside(&batch),
            pillar::Input::Settled { batch } => self.on_settled(&batch, effects),
            pillar::Input::Moved { slot, back, asked } => {
                self.on_moved(slot, back, asked, effects);
            }
            // For the merger.
            pillar::Input::Said { .. } => {}
        }
    }

    /// What waits for this has come, whoever ordered it when.
    fn on_settled(&mut self, batch: &Batch, effects: &mut Effects<P>) {
        for envelope in batch.envelopes.iter().filter(|_| !mutant!("pillars.waits-for-ever")) {
            if self.lane.of_client(&envelope.client) == self.number {
                self.core.note_settled(envelope, effects);
            }
        }
    }

    /// Execution goes on behind a row. Whoever asked for that state or an earlier one goes on from
    /// there too. Others have slots below it still to come; but what was executed behind it, from
    /// the view of this pillar by now, is to be executed again.
    fn on_moved(&mut self, row: Slot, back: bool, asked: Option<Slot>, effects: &mut Effects<P>) {
        self.core.forget_waiting(effects);
        // Its window has everything from its own last checkpoint on.
        let (begins, executed) = (self.core.stable().min(row), self.core.executed());
        let goes_back = back && executed >= row && !mutant!("pillars.stays-ahead");
        let again = goes_back.then_some(begins);
        let asked = asked.filter(|asked| executed < *asked);
        self.on_answer(again.or(asked), effects);
    }

    /// It goes on from here, or not at all: it asks again for what it lacks then.
    fn on_answer(&mut self, from: Option<Slot>, effects: &mut Effects<P>) {
        self.answers += 1;
        match from {
            Some(slot) => self.core.step(Event::Input(Input::Installed { slot }), effects),
            None => self.core.fetch_again(effects),
        }
    }

    /// Says how it stands, if it has not said so.
    fn say(&mut self, out: &mut Effects<Self>) {
        let next_slot = self.core.next_slot();
        let heard_of = match mutant!("pillars.fills-what-it-voted-for") {
            true => Slot(next_slot.0 - 1),
            false => self.core.heard_of(),
        };
        let leads = self.core.leads();
        let waits = !leads && self.core.has_waiting() && self.wants > Slot(0);
        let pillar_status = PillarStatus {
            status: self.core.status(),
            leads,
            next_slot,
            heard_of,
            // A new view may have given up slots that this replica had taken up.
            wants: waits.then(|| self.wants.min(next_slot)),
            answers: self.answers,
        };
        if self.said.as_ref() != Some(&pillar_status) {
            self.said = Some(pillar_status.clone());
            out.output(pillar::Output::Status(Box::new(pillar_status)));
        }
    }

    /// What the core says, as this pillar's.
    fn carry(&mut self, mut effects: Effects<P>, out: &mut Effects<Self>) {
        let (pillar, rows) = (self.number, self.rows);
        let timer = |inner| PillarTimer { pillar, inner };
        for effect in effects.drain() {
            match effect {
                Effect::Send { to, message } => {
                    out.send(to, Message { pillar, inner: message.into() });
                }
                Effect::Relay { to, message } => out.relay(to, &Message::around(pillar, &message)),
                Effect::Persist(inner) => out.persist(Record { pillar, inner }),
                Effect::Arm { timer: inner, after } => out.arm(timer(inner), after),
                Effect::Disarm(inner) => out.disarm(timer(inner)),
                Effect::Output(output) => out.output(output),
                Effect::Report(Evidence { author, finding }) => {
                    let of_state = matches!(
                        finding,
                        Finding::DivergedState { .. } | Finding::TwoCheckpoints { .. }
                    );
                    let place =
                        |row| if of_state { rows.end(row) } else { rows.global(pillar, row) };
                    out.report(author, finding.elsewhere(place));
                }
            }
        }
        self.scratch.put(effects);
    }
}

/// What the core of a pillar is started with. It goes on from its own last stable row: a state that
/// is here may be of a row that means nothing to it.
fn within(setup: Setup, pillar: u8, rows: Rows) -> Setup {
    let membership = Arc::new(setup.membership.of_pillar(pillar, rows.base()));
    let memory = match setup.memory {
        Memory::Volatile => Memory::Volatile,
        Memory::Durable { .. } => {
            Memory::Durable { executed: membership.base, records: Vec::new() }
        }
    };
    Setup { membership, memory, ..setup }
}

/// The same setup, for one of its pillars, without a log.
pub(super) fn of_cell(setup: &Setup, pillar: u8) -> Setup {
    let lane = PillarConfig { pillar: Some(pillar), ..setup.membership.lane };
    let membership = Arc::new(Membership { lane, ..(*setup.membership).clone() });
    let memory = match &setup.memory {
        Memory::Volatile => Memory::Volatile,
        Memory::Durable { executed, .. } => {
            Memory::Durable { executed: *executed, records: Vec::new() }
        }
    };
    Setup { membership, memory, ..setup.clone() }
}
