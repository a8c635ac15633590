//! One pillar takes a step, and what becomes of its effects.

use super::merge::Next;
use super::message::{Message, PillarTimer};
use super::record::Record;
use super::replica::{Pillar, Pillars, Untold, Wishes, pillar_of};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hash::{Hash, Hasher};
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaSet, Slot};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Effect, Effects, Event, Evidence, Finding, Protocol};

/// Room for a pillar's effects, empty between steps.
#[derive(Debug)]
pub(super) struct Scratch<P: Protocol>(Option<Effects<P>>);

impl<P: Protocol> Default for Scratch<P> {
    fn default() -> Self {
        Self(None)
    }
}

impl<P: Protocol> Clone for Scratch<P> {
    fn clone(&self) -> Self {
        Self::default()
    }
}

impl<P: Protocol> PartialEq for Scratch<P> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl<P: Protocol> Eq for Scratch<P> {}

impl<P: Protocol> Hash for Scratch<P> {
    fn hash<H: Hasher>(&self, _state: &mut H) {}
}

impl<P: Pillar> Pillars<P> {
    /// Carries out what the pillars asked for when they were started.
    pub(super) fn begin(&mut self, first: Vec<Effects<P>>, out: &mut Effects<Self>) {
        let is_resumed =
            |effect: &Effect<P>| matches!(effect, Effect::Output(Output::Resumed { .. }));
        let spoken = (0..).zip(&first).flat_map(|(pillar, effects)| {
            let rows = self.merge.rows;
            effects.as_slice().iter().filter_map(move |effect| match effect {
                Effect::Output(Output::Resumed { upto }) if *upto > rows.base() => {
                    Some(rows.global(pillar, *upto))
                }
                _ => None,
            })
        });
        let spoken = spoken.max().unwrap_or_default().max(self.merge.executed());
        if first.iter().any(|effects| effects.as_slice().iter().any(is_resumed)) {
            out.output(Output::Resumed { upto: spoken });
        }
        for (pillar, mut effects) in (0..).zip(first) {
            effects.drain().for_each(|effect| self.carry(pillar, effect, out));
        }
        // States before this one cannot be signed any more. All others come to it, too.
        let row = self.merge.rows.complete(self.merge.executed());
        if let Some(state) = self.merge.state(row).filter(|_| row > self.merge.rows.base()) {
            self.tell_state(row, state);
        }
        self.settle(out);
        // All have written again what they need: whoever crashes often would fill its log.
        if let Some(untold) = &mut self.untold {
            untold.is_late = true;
            self.settle(out);
        }
    }

    /// Has a pillar take one step.
    pub(super) fn feed(&mut self, pillar: u8, event: Event<P>, out: &mut Effects<Self>) {
        self.have(pillar, |core, effects| core.step(event, effects), out);
    }

    /// Has a pillar do something.
    fn have(
        &mut self,
        pillar: u8,
        act: impl FnOnce(&mut P, &mut Effects<P>),
        out: &mut Effects<Self>,
    ) {
        let mut effects = self.scratch.0.take().unwrap_or_default();
        let Some(core) = self.pillars.get_mut(usize::from(pillar)) else { return };
        act(core, &mut effects);
        effects.drain().for_each(|effect| self.carry(pillar, effect, out));
        self.scratch.0 = Some(effects);
    }

    /// Does all that follows from a step of a pillar.
    pub(super) fn settle(&mut self, out: &mut Effects<Self>) {
        loop {
            let mut executed = Vec::new();
            let tuning = self.pillars[0].frame().tuning;
            self.merge.advance(&tuning, |next| match next {
                Next::Execute(slot, batch) => {
                    executed.push(batch.clone());
                    out.output(Output::Execute { slot, batch });
                }
                Next::Checkpoint(slot) => out.output(Output::Checkpoint { slot }),
            });
            executed.iter().for_each(|batch| self.on_executed(batch, out));
            self.keep_promise();
            if core::mem::take(&mut self.seeks) {
                self.fetch_promised(out);
            }
            self.fill_gaps();
            if self.inward.is_empty() {
                self.tell_stable(None, out);
            }
            let Some((pillar, input)) = self.inward.pop_front() else { return };
            self.feed(pillar, Event::Input(input), out);
        }
    }

    /// What waits for this in the pillars of its clients has come, whoever ordered it when.
    fn on_executed(&mut self, batch: &Batch, out: &mut Effects<Self>) {
        for envelope in batch.envelopes.iter().filter(|_| !mutant!("pillars.waits-for-ever")) {
            let pillar = pillar_of(&envelope.client, self.membership.lane.pillars);
            let settle =
                |core: &mut P, effects: &mut _| core.frame_mut().executed_late(envelope, effects);
            self.have(pillar, settle, out);
        }
    }

    fn carry(&mut self, pillar: u8, effect: Effect<P>, out: &mut Effects<Self>) {
        let timer = |inner| PillarTimer { pillar, inner };
        match effect {
            Effect::Send { to, message } => {
                out.send(to, Message { pillar, inner: message.into() });
            }
            Effect::Relay { to, message } => out.relay(to, &Message::around(pillar, &message)),
            Effect::Persist(inner) => out.persist(Record { pillar, inner }),
            Effect::Arm { timer: inner, after } => out.arm(timer(inner), after),
            Effect::Disarm(inner) => out.disarm(timer(inner)),
            Effect::Output(output) => self.on_output(pillar, output, out),
            Effect::Report(Evidence { author, finding }) => {
                let rows = self.merge.rows;
                let of_state = matches!(
                    finding,
                    Finding::DivergedState { .. } | Finding::TwoCheckpoints { .. }
                );
                let place = |row| if of_state { rows.end(row) } else { rows.global(pillar, row) };
                out.report(author, finding.elsewhere(place));
            }
        }
    }

    fn on_output(&mut self, pillar: u8, output: Output, out: &mut Effects<Self>) {
        let rows = self.merge.rows;
        match output {
            Output::Execute { slot, batch } => {
                let others = (0..).zip(&mut self.pillars).filter(|(other, _)| *other != pillar);
                others.for_each(|(_, other): (u8, _)| other.frame_mut().note_beside(&batch));
                self.merge.decided(pillar, slot, batch);
            }
            Output::Stable { slot, state } => self.on_stable(pillar, slot, state, out),
            Output::Fetch { slot, state, from } => self.on_fetch(pillar, (slot, state), from, out),
            Output::Diverged { slot, mine, theirs } => {
                mark!("pillars/diverged");
                self.wishes[usize::from(pillar)].diverged = true;
                out.output(Output::Diverged { slot: rows.end(slot), mine, theirs });
            }
            // These are for all of them to say.
            Output::Resumed { .. } | Output::Checkpoint { .. } => {}
            // They say nothing that may be taken back.
            Output::Speculate { .. }
            | Output::Answer { .. }
            | Output::Commit { .. }
            | Output::Rollback { .. }
            | Output::Restate { .. }
            | Output::Tell { .. }
            | Output::Glance(_)
            | Output::ToPillar { .. } => {}
            output @ (Output::Admit { .. } | Output::Full { .. } | Output::Entered { .. }) => {
                out.output(output);
            }
        }
    }

    /// A quorum vouches in a pillar for the state after a row, and the pillar has come to it. The
    /// others may not have.
    fn on_stable(&mut self, pillar: u8, row: Slot, state: Digest, out: &mut Effects<Self>) {
        if self.is_far(row) {
            // What is missing between may never come, and this pillar goes on.
            mark!("pillars/left_behind");
            self.merge.give_up(pillar, row);
            self.given_up = self.given_up.max(row);
        }
        if row <= self.stable {
            return;
        }
        if self.merge.has_row(row) {
            self.note_stable(row, state);
            if self.inward.is_empty() {
                self.tell_stable(Some(pillar), out);
            }
        } else if self.promised.is_none_or(|(known, _)| known < row) {
            self.promised = Some((row, state));
            self.seeks = true;
        }
    }

    /// Whether more than a window is missing of what leads to the end of a row.
    fn is_far(&self, row: Slot) -> bool {
        let window = self.pillars[0].frame().tuning.window_slots;
        let reached = self.merge.rows.complete(self.merge.executed());
        row.0 > reached.0.saturating_add(window)
    }

    /// Asks for the promised state, unless slots still lead to it. If a pillar waits for an
    /// earlier one, nobody may have that any more: of stable states others keep the last.
    fn fetch_promised(&mut self, out: &mut Effects<Self>) {
        let waits = self.wishes.iter().any(|wishes| !wishes.rows.is_empty());
        let lacks = !self.merge.has_row(self.given_up);
        if let Some((row, state)) = self.promised.filter(|_| waits || lacks) {
            let mut from: ReplicaSet = self.membership.ids().collect();
            from.remove(self.me);
            note(&mut self.asked, row, state);
            out.output(Output::Fetch { slot: self.merge.rows.end(row), state, from });
        }
    }

    /// Whether execution has come to what was promised.
    fn keep_promise(&mut self) {
        if let Some((row, state)) = self.promised.filter(|(row, _)| self.merge.has_row(*row)) {
            self.promised = None;
            self.note_stable(row, state);
        }
    }

    /// A quorum vouches for the state after a row that execution has come to.
    fn note_stable(&mut self, row: Slot, state: Digest) {
        let before = self.untold.map_or(self.stable, |untold| untold.row);
        if row > before {
            self.untold = Some(Untold { row, state, is_late: self.untold.is_some() });
        }
    }

    /// Tells the host of the last stable state that execution has come to. The host then cuts its
    /// log there, so all pillars keep again what they need, except one that is about to. Those
    /// behind that row write all of a window, so they are given until the next one.
    fn tell_stable(&mut self, writes: Option<u8>, out: &mut Effects<Self>) {
        let lowest = self.pillars.iter().map(|pillar| pillar.frame().stable.slot).min();
        let lowest = lowest.unwrap_or_default();
        let is_time = |untold: &Untold| untold.is_late || lowest >= untold.row;
        let Some(Untold { row, state, .. }) = self.untold.filter(is_time) else { return };
        self.untold = None;
        self.stable = row;
        // A pillar that is further behind may ask for earlier ones.
        self.merge.stable(lowest.min(row));
        out.output(Output::Stable { slot: self.merge.rows.end(row), state });
        let others = self.numbers().filter(|pillar| Some(*pillar) != writes);
        if !mutant!("pillars.others-not-kept-again") {
            self.inward.extend(others.map(|pillar| (pillar, Input::KeepAgain)));
        }
    }

    /// A pillar lacks a state: the replica may have it, or a later one.
    fn on_fetch(
        &mut self,
        pillar: u8,
        (row, state): (Slot, Digest),
        from: ReplicaSet,
        out: &mut Effects<Self>,
    ) {
        let wishes: &mut Wishes = &mut self.wishes[usize::from(pillar)];
        let is_here = self.merge.has_row(row) || mutant!("pillars.state-not-here");
        if is_here && self.merge.state(row).is_some_and(|mine| mine != state) {
            // It is the wrong one, as the pillar may have found out before a restart.
            mark!("pillars/wrong_state");
            wishes.diverged = true;
        }
        if is_here && !wishes.diverged {
            mark!("pillars/state_is_here");
            self.inward.push_back((pillar, Input::Installed { slot: row }));
            return;
        }
        note(&mut wishes.rows, row, (state, from));
        out.output(Output::Fetch { slot: self.merge.rows.end(row), state, from });
        self.seeks = true;
    }

    /// The host says something.
    pub(super) fn on_input(&mut self, input: Input, out: &mut Effects<Self>) {
        match input {
            Input::Request { ref envelope, .. } => {
                let client = envelope.client;
                self.on_request(&client, input, out);
            }
            Input::Round { now } => self.on_round(now, out),
            Input::Checkpointed { slot, state } => {
                if let Some(row) = self.merge.note_state(slot, state) {
                    self.tell_state(row, state);
                }
            }
            Input::Installed { slot } => self.on_installed(slot, out),
            // Of those who are no pillars themselves nobody says more.
            Input::Wanted { .. }
            | Input::Fill { .. }
            | Input::KeepAgain
            | Input::Heard { .. }
            | Input::Beside { .. }
            | Input::Executed { .. }
            | Input::Moved { .. }
            | Input::OfPillar { .. } => {}
        }
    }

    /// The state after a row, to all pillars, for each to sign.
    fn tell_state(&mut self, row: Slot, state: Digest) {
        let all = self.membership.lane.pillars;
        let told = if mutant!("pillars.one-is-told") { 1 } else { all };
        self.inward.extend((0..told).map(|it| (it, Input::Checkpointed { slot: row, state })));
    }

    /// Another state is here: execution goes on behind it. Who asked for it, or for an earlier one,
    /// goes on from there too. Others have slots below it still to come; but what was executed
    /// behind it is to be executed again.
    fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let rows = self.merge.rows;
        let (row, before) = (rows.complete(slot), self.merge.executed());
        let goes_back = slot <= before;
        let wished = self.wishes.iter().find_map(|wishes| wishes.rows.get(&row));
        let wished = wished.map(|(state, _)| *state);
        let known = wished.or_else(|| self.asked.get(&row).copied());
        self.asked = self.asked.split_off(&row.next());
        self.merge.installed(row, known);
        self.installed = row;
        // Who says again that it is stable says what there was no state for.
        self.stable = self.stable.min(Slot(row.0.saturating_sub(1)));
        // The host has no older states now.
        self.untold = None;
        for pillar in 0..self.membership.lane.pillars {
            self.have(pillar, |core, effects| core.frame_mut().forget_pending(effects), out);
        }
        for (pillar, wishes) in (0..).zip(&mut self.wishes) {
            let frame = self.pillars[usize::from(pillar)].frame();
            let later = wishes.rows.split_off(&row.next());
            let wanted = core::mem::replace(&mut wishes.rows, later);
            let wanted = wanted.last_key_value().map(|(row, _)| *row);
            wishes.diverged = false;
            // Its window has everything from its own last checkpoint on.
            let begins = frame.stable.slot.min(row);
            let again = (goes_back && frame.executed >= row).then_some(begins);
            let wanted = wanted.filter(|row| frame.executed < *row);
            if let Some(slot) = again.or(wanted) {
                // It asks again for what it lacks then.
                wishes.rows.clear();
                self.inward.push_back((pillar, Input::Installed { slot }));
            }
            // While one state was being fetched, the host may have forgotten another.
            for (row, (state, from)) in &wishes.rows {
                out.output(Output::Fetch { slot: rows.end(*row), state: *state, from: *from });
            }
        }
        if let Some(state) = known {
            self.tell_state(row, state);
        }
        self.seeks = true;
    }
}

/// Notes what was asked for: the first, of which a host may be fetching the state already, and the
/// last.
fn note<T>(asked: &mut BTreeMap<Slot, T>, row: Slot, what: T) {
    if asked.len() > 1 && !asked.contains_key(&row) {
        asked.pop_last();
    }
    asked.insert(row, what);
}
