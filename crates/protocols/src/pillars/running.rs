//! How pillars and their merger take turns in one thread.

use super::merger::Merger;
use super::pillar_core::{Pillar, PillarCore};
use super::replica::{LATE, Pillars, Said};
use super::transit::{Arrival, Transit};
use alloc::vec::Vec;
use pentarchy_core::ids::Millis;
use pentarchy_core::ports::replica::{Input, Output, pillar};
use pentarchy_core::protocol::{Delay, Effect, Effects, Event, Protocol as _};

impl<P: Pillar> Pillars<P> {
    /// Carries out what the pillars asked for when they were started.
    pub(super) fn begin(
        &mut self,
        first: Vec<Said<P>>,
        mut of_merger: Effects<Merger>,
        out: &mut Effects<Self>,
    ) {
        let resumed = |effect: &Effect<PillarCore<P>>| match effect {
            Effect::Output(Output::Resumed { upto }) => Some(*upto),
            _ => None,
        };
        let said = first.iter().map(|said| said.iter().filter_map(resumed).max());
        if let Some(upto) = self.merger.merge.rows.spoken(said) {
            out.output(Output::Resumed { upto: upto.max(self.merger.executed()) });
        }
        self.pass_on(&mut of_merger, out);
        for (pillar, said) in (0..).zip(first) {
            said.into_iter().for_each(|effect| self.carry(pillar, effect, out));
        }
        self.run(false, out);
    }

    /// The end of a round: what waits is proposed, and what has to be filled for that is too.
    pub(super) fn on_round(&mut self, now: Millis, out: &mut Effects<Self>) {
        let round = || Event::Input(Input::Round { now });
        for pillar in self.merger.numbers() {
            self.feed(pillar, round(), out);
        }
        for pillar in self.run(true, out) {
            self.feed(pillar, round(), out);
        }
        self.run(false, out);
        if self.transit.len() > 0 {
            // As no more may come from outside.
            out.arm(LATE, Delay::Millis(1));
        }
    }

    /// Lets arrive what may, and all that follows from it. Says which pillars have something to
    /// order because of that.
    pub(super) fn run(&mut self, is_round: bool, out: &mut Effects<Self>) -> Vec<u8> {
        let mut to_order = Vec::new();
        self.transit.begin(is_round);
        loop {
            self.have(|merger, effects| merger.settle(effects), out);
            if self.transit.len() == 0 || (is_round && matches!(self.transit, Transit::Late(_))) {
                self.have(|merger, effects| merger.all_is_heard(effects), out);
            }
            match self.transit.next() {
                None => return to_order,
                Some(Arrival::AtPillar(pillar, input)) => {
                    let heard = matches!(input, Input::Pillar(pillar::Input::Heard { .. }));
                    let orders = heard || matches!(input, Input::Request { .. });
                    if orders && !to_order.contains(&pillar) {
                        to_order.push(pillar);
                    }
                    self.feed(pillar, Event::Input(input), out);
                }
                Some(Arrival::AtStage(pillar, output)) => {
                    self.have(|merger, effects| merger.hear(pillar, output, effects), out);
                }
            }
        }
    }

    /// The host tells the merger something.
    pub(super) fn tell_stage(&mut self, input: Input, out: &mut Effects<Self>) {
        self.have(|merger, effects| merger.on_input(input, effects), out);
    }

    /// Has the merger do something.
    fn have(
        &mut self,
        act: impl FnOnce(&mut Merger, &mut Effects<Merger>),
        out: &mut Effects<Self>,
    ) {
        let mut effects = self.of_merger.take();
        act(&mut self.merger, &mut effects);
        self.pass_on(&mut effects, out);
        self.of_merger.put(effects);
    }

    fn pass_on(&mut self, said: &mut Effects<Merger>, out: &mut Effects<Self>) {
        for effect in said.drain() {
            match effect {
                Effect::Output(Output::Pillar(pillar::Output::Tell { pillar, input })) => {
                    self.transit.inward(pillar, *input);
                }
                Effect::Output(output) => out.output(output),
                // It says nothing to others, keeps nothing and waits for nothing.
                Effect::Send { .. }
                | Effect::Relay { .. }
                | Effect::Persist(_)
                | Effect::Arm { .. }
                | Effect::Disarm(_)
                | Effect::Report(_) => {}
            }
        }
    }

    /// Has a pillar take one step.
    pub(super) fn feed(&mut self, pillar: u8, event: Event<Self>, out: &mut Effects<Self>) {
        let event = match event {
            Event::Message(verified) => Event::Message(verified),
            Event::Timeout(timer) => Event::Timeout(timer),
            Event::Input(input) => Event::Input(input),
            Event::Client(..) => return,
        };
        let Some(pillar_core) = self.pillar_cores.get_mut(usize::from(pillar)) else { return };
        let mut effects = self.of_cell.take();
        pillar_core.step(event, &mut effects);
        for effect in effects.drain() {
            self.carry(pillar, effect, out);
        }
        self.of_cell.put(effects);
    }

    fn carry(&mut self, pillar: u8, effect: Effect<PillarCore<P>>, out: &mut Effects<Self>) {
        match effect {
            Effect::Send { to, message } => out.send(to, message),
            Effect::Relay { to, message } => out.relay(to, &message),
            Effect::Persist(record) => out.persist(record),
            Effect::Arm { timer, after } => out.arm(timer, after),
            Effect::Disarm(timer) => out.disarm(timer),
            Effect::Report(evidence) => out.report(evidence.author, evidence.finding),
            // Where it says so is what matters.
            Effect::Output(Output::Pillar(output @ pillar::Output::Compacting { .. })) => {
                out.output(output);
            }
            Effect::Output(output) => {
                if let Some(output) = self.transit.outward(pillar, output) {
                    self.have(|merger, effects| merger.hear(pillar, output, effects), out);
                }
            }
        }
    }
}
