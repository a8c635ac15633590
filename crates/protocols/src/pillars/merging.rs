//! What the merger hears, and what follows.

use super::merge::Next;
use super::merger::{Merger, Untold, Wishes};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, ReplicaSet, Slot};
use pentarchy_core::mark;
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output, pillar};
use pentarchy_core::protocol::Effects;

impl Merger {
    /// The host, or a pillar, says something.
    pub(super) fn on_input(&mut self, input: Input, out: &mut Effects<Self>) {
        match input {
            Input::Pillar(pillar::Input::Said { pillar, output }) => {
                self.hear(pillar, *output, out);
            }
            Input::Request { ref envelope, .. } => {
                let pillar = self.pillar_of(&envelope.client);
                Self::tell(pillar, input, out);
            }
            Input::Checkpointed { slot, state } => {
                if let Some(row) = self.merge.note_state(slot, state) {
                    self.tell_state(row, state, out);
                    self.note_mine(row, state, out);
                }
            }
            Input::Installed { slot } => self.on_installed(slot, out),
            Input::Compact => self.tell_compact(out),
            // A round's end is the caller's business; and the merger neither speculates, nor asks
            // for slot results, nor replies. What else is said among its parts is for a pillar.
            Input::Round { .. }
            | Input::Speculation(_)
            | Input::SlotResults(_)
            | Input::Replying(_)
            | Input::Wedging(_)
            | Input::Pillar(_) => {}
        }
    }

    /// A pillar says something.
    pub(super) fn hear(&mut self, pillar: u8, output: Output, out: &mut Effects<Self>) {
        match output {
            Output::Execute { slot, batch } => {
                let others = self.numbers().filter(|other| *other != pillar);
                // Whoever only fills has nothing to do.
                for other in others.filter(|_| !batch.envelopes.is_empty()) {
                    Self::tell(other, pillar::Input::Beside { batch: batch.clone() }, out);
                }
                let known = self.known(pillar);
                if slot <= known.decided && mutant!("pillars.said-twice-dropped") {
                    return;
                }
                known.decided = known.decided.max(slot);
                self.merge.decided(pillar, slot, batch);
            }
            Output::Stable { slot, state } => {
                self.on_stable(pillar, slot, state);
                self.note_vouched(slot, state, out);
            }
            Output::Fetch { slot, state, from } => self.on_fetch(pillar, (slot, state), from, out),
            Output::Diverged { slot, mine, theirs } => {
                let known = self.known(pillar);
                known.wishes.diverged |= known.is_answered();
                self.says_diverged(slot, mine, theirs, out);
            }
            Output::Pillar(pillar::Output::Status(pillar_status)) => {
                self.on_pillar_status(pillar, *pillar_status, out)
            }
            output @ (Output::Admit { .. } | Output::Full { .. } | Output::Entered { .. }) => {
                out.output(output);
            }
            // These are for all of them to say.
            Output::Resumed { .. } | Output::Checkpoint { .. } => {}
            // That is for their host; and they say nothing that may be taken back, nor to clients.
            Output::Pillar(_)
            | Output::Speculation(_)
            | Output::Replying(_)
            | Output::Wedging(_) => {}
        }
    }

    /// Execution goes as far as it can, and what follows from that.
    pub(super) fn settle(&mut self, out: &mut Effects<Self>) {
        let (lane, tuning) = (self.membership.lane, self.tuning);
        self.merge.advance(&tuning, |next| match next {
            Next::Execute(slot, batch) => {
                tell_settled(&batch, lane, out);
                out.output(Output::Execute { slot, batch });
            }
            Next::Checkpoint(slot) => out.output(Output::Checkpoint { slot }),
        });
        self.keep_promise();
        self.answer_wishes(out);
        if core::mem::take(&mut self.seeks) {
            self.fetch_promised(out);
        }
        self.fill_gaps(out);
    }

    /// A quorum vouches in a pillar for the state after a row, and the pillar has come to it. The
    /// others may not have.
    fn on_stable(&mut self, pillar: u8, row: Slot, state: Digest) {
        let known = self.known(pillar);
        known.vouched = known.vouched.max(row);
        if row <= self.stable {
            return;
        }
        if self.merge.has_row(row) {
            self.note_stable(row, state);
        } else if self.promised.is_none_or(|(known, _)| known < row) {
            self.promised = Some((row, state));
            self.seeks = true;
        }
    }

    /// All that pillars have said so far was heard.
    pub(super) fn all_is_heard(&mut self, out: &mut Effects<Self>) {
        self.give_up();
        if self.seeks {
            self.settle(out);
        }
        self.tell_stable(out);
    }

    /// Lets go of what pillars decided that went on too far without the others. Before all was
    /// heard, what is missing may only have come in another order.
    fn give_up(&mut self) {
        for pillar in self.numbers() {
            let row = self.known(pillar).vouched;
            if row > self.known(pillar).given_up && self.is_far(row) {
                // What is missing between may never come, and this pillar goes on.
                mark!("pillars/left_behind");
                self.merge.give_up(pillar, row);
                self.known(pillar).given_up = row;
                self.given_up = self.given_up.max(row);
                self.seeks = true;
            }
        }
    }

    /// Whether more than a window is missing of what leads to the end of a row.
    fn is_far(&self, row: Slot) -> bool {
        let reached = self.merge.rows.complete(self.merge.executed());
        row.0 > reached.0.saturating_add(self.tuning.window_slots)
    }

    /// Asks for the promised state, unless slots still lead to it. If a pillar waits for an
    /// earlier one, nobody may have that any more: of stable states others keep the last.
    fn fetch_promised(&mut self, out: &mut Effects<Self>) {
        let waits = self.pillars.iter().any(|known| !known.wishes.rows.is_empty());
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
            let is_late = self.untold.is_some() || core::mem::take(&mut self.is_fresh);
            self.untold = Some(Untold { row, state, is_late });
        }
    }

    /// Tells the host of the last stable state that execution has come to. The host then cuts its
    /// log there, so all pillars keep again what they need. Those behind that row write all of a
    /// window, so they are given until the next one.
    fn tell_stable(&mut self, out: &mut Effects<Self>) {
        let lowest = self.pillars.iter().map(|known| known.pillar_status.status.stable).min();
        let lowest = lowest.unwrap_or_default();
        let is_time = |untold: &Untold| untold.is_late || lowest >= untold.row;
        let Some(Untold { row, state, .. }) = self.untold.filter(is_time) else { return };
        self.untold = None;
        self.stable = row;
        // A pillar that is further behind may ask for earlier ones.
        self.merge.stable(lowest.min(row));
        out.output(Output::Stable { slot: self.merge.rows.end(row), state });
        self.tell_compact(out);
    }

    /// Each pillar is to keep again what it needs.
    fn tell_compact(&self, out: &mut Effects<Self>) {
        self.numbers().for_each(|pillar| Self::tell(pillar, Input::Compact, out));
    }

    /// A pillar lacks a state: the replica may have it, or a later one.
    fn on_fetch(
        &mut self,
        pillar: u8,
        (row, state): (Slot, Digest),
        from: ReplicaSet,
        out: &mut Effects<Self>,
    ) {
        let is_here = self.merge.has_row(row) || mutant!("pillars.state-not-here");
        let is_wrong = is_here && self.merge.state(row).is_some_and(|mine| mine != state);
        let known = self.known(pillar);
        if !known.is_answered() {
            // What it had asked for may be here by now, and to fetch it would take back what was
            // executed since.
            mark!("pillars/asked_too_early");
            return;
        }
        let wishes = &mut known.wishes;
        if is_wrong {
            // It is the wrong one, as the pillar may have found out before a restart.
            mark!("pillars/wrong_state");
            wishes.diverged = true;
        }
        if is_here && !wishes.diverged {
            mark!("pillars/state_is_here");
            self.tell_here(pillar, row, out);
            return;
        }
        note(&mut wishes.rows, row, (state, from));
        out.output(Output::Fetch { slot: self.merge.rows.end(row), state, from });
        self.seeks = true;
    }

    /// Execution may have come to a state that a pillar lacks: what that had said before it went
    /// back may have been under way.
    fn answer_wishes(&mut self, out: &mut Effects<Self>) {
        for pillar in self.numbers() {
            let known = &self.pillars[usize::from(pillar)];
            let here = known.wishes.rows.keys().rfind(|row| self.merge.has_row(**row)).copied();
            let Some(row) = here.filter(|_| !known.wishes.diverged) else { continue };
            let known = self.known(pillar);
            mark!("pillars/reached_by_itself");
            // What it lacks still, it asks for again.
            known.wishes = Wishes::default();
            self.tell_here(pillar, row, out);
        }
    }

    /// A pillar goes on behind a row. What it had been told of that and later states it has dropped
    /// then, as those may have been wrong.
    fn tell_here(&mut self, pillar: u8, row: Slot, out: &mut Effects<Self>) {
        self.known(pillar).answers += 1;
        Self::tell(pillar, Input::Installed { slot: row }, out);
        for (slot, state) in self.merge.states_from(row) {
            Self::tell(pillar, Input::Checkpointed { slot, state }, out);
        }
    }

    /// The state after a row, to all pillars, for each to sign.
    fn tell_state(&self, row: Slot, state: Digest, out: &mut Effects<Self>) {
        let all = self.membership.lane.pillars;
        let told = if mutant!("pillars.one-is-told") { 1 } else { all };
        (0..told).for_each(|it| Self::tell(it, Input::Checkpointed { slot: row, state }, out));
    }

    /// After a restart: states before the one from which it goes on cannot be signed any more. All
    /// others come to it, too.
    pub(super) fn tell_first_state(&self, out: &mut Effects<Self>) {
        let row = self.merge.rows.complete(self.merge.executed());
        if let Some(state) = self.merge.state(row).filter(|_| row > self.merge.rows.base()) {
            self.tell_state(row, state, out);
        }
    }

    /// Another state is here: execution goes on behind it. Each pillar finds out what that means
    /// for where it is by now. What it says of slots behind the state, before or after that, is
    /// what was agreed on, so it may come twice.
    fn on_installed(&mut self, slot: Slot, out: &mut Effects<Self>) {
        let rows = self.merge.rows;
        let row = rows.complete(slot);
        let back = slot <= self.merge.executed();
        let wished = self.pillars.iter().find_map(|known| known.wishes.rows.get(&row));
        let wished = wished.map(|(state, _)| *state);
        let known = wished.or_else(|| self.asked.get(&row).copied());
        self.asked = self.asked.split_off(&row.next());
        self.vouched = self.vouched.split_off(&row.next());
        self.merge.installed(row, known);
        self.installed = row;
        // Who says again that it is stable says what there was no state for.
        self.stable = self.stable.min(Slot(row.0.saturating_sub(1)));
        // The host has no older states now.
        self.untold = None;
        self.diverged = Slot(0);
        for (pillar, known) in (0..).zip(&mut self.pillars) {
            if back {
                known.decided = row.min(known.decided);
            }
            // While one state was being fetched, the host may have forgotten another: so what it
            // lacks still, it asks for again.
            let wishes = core::mem::take(&mut known.wishes);
            let asked = wishes.rows.range(..=row).next_back().map(|(row, _)| *row);
            known.answers += 1;
            known.given_up = Slot(0);
            Self::tell(pillar, pillar::Input::Moved { slot: row, back, asked }, out);
        }
        if let Some(state) = known {
            self.tell_state(row, state, out);
        }
        self.seeks = true;
    }
}

/// Tells the pillars of its clients that a batch was executed.
fn tell_settled(batch: &Arc<Batch>, lane: PillarConfig, out: &mut Effects<Merger>) {
    let bit = |client: &ClientId| 1u32 << lane.of_client(client);
    let concerned = batch.envelopes.iter().fold(0, |all, it| all | bit(&it.client));
    for pillar in (0..lane.pillars).filter(|pillar| concerned & (1 << pillar) != 0) {
        Merger::tell(pillar, pillar::Input::Settled { batch: batch.clone() }, out);
    }
}

/// Notes what was asked for: the first, of which a host may be fetching the state already, and the
/// last.
pub(super) fn note<T>(asked: &mut BTreeMap<Slot, T>, row: Slot, what: T) {
    if asked.len() > 1 && !asked.contains_key(&row) {
        asked.pop_last();
    }
    asked.insert(row, what);
}
