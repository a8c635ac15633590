//! What surrounds a core: it executes, cuts states and keeps records.

use super::{CLIENT, Mode, Record, Timer};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::{Digest, Hasher};
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::client::{Outcome, Reply};
use pentarchy_core::ports::replica::slot_results::{self, Results};
use pentarchy_core::ports::replica::wedging::{self, History};
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::Delay;
use pentarchy_core::request::Envelope;

/// What a replica executed: a digest for each slot, and what came of each number.
#[derive(Clone, Default)]
struct State {
    slots: Vec<Digest>,
    results: BTreeMap<u64, Outcome>,
}

pub struct Host<M: Mode> {
    pub records: Vec<Record<M>>,
    pub armed: BTreeMap<Timer, Delay>,
    pub accused: Vec<ReplicaId>,
    pub report: Option<History>,
    state: State,
    cut: BTreeMap<Slot, State>,
    stable: Slot,
}

impl<M: Mode> Default for Host<M> {
    fn default() -> Self {
        Self {
            records: Vec::new(),
            armed: BTreeMap::new(),
            accused: Vec::new(),
            report: None,
            state: State::default(),
            cut: BTreeMap::new(),
            stable: Slot(0),
        }
    }
}

impl<M: Mode> Host<M> {
    pub fn executed(&self) -> Slot {
        Slot(self.state.slots.len() as u64)
    }

    /// The state that it has.
    pub fn base(&self) -> Base {
        let mut state = Hasher::new("a test's state");
        self.state.slots.iter().for_each(|slot| {
            state.digest(slot);
        });
        Base { slot: self.executed(), state: state.finish() }
    }

    /// What was executed in each slot.
    pub fn slots(&self) -> &[Digest] {
        &self.state.slots
    }

    /// What came of a number.
    pub fn result(&self, number: u64) -> Option<&Outcome> {
        self.state.results.get(&number)
    }

    /// What outlives a crash: the log, and the last stable state.
    pub fn restarted(&self) -> Self {
        self.restarted_from(self.stable)
    }

    /// The same, with the state that was cut behind this slot.
    pub fn restarted_from(&self, slot: Slot) -> Self {
        let state = self.cut.get(&slot).cloned().unwrap_or_default();
        let (records, cut, stable) = (self.records.clone(), self.cut.clone(), self.stable);
        Self { records, cut, stable, state, ..Self::default() }
    }

    /// Which numbers are settled, and what came of them.
    pub fn settled(&self, envelope: &Envelope) -> (Vec<u64>, Vec<Reply>) {
        let numbers = envelope.requests.iter().map(|request| request.number);
        let known = numbers.filter_map(|number| {
            let outcome = self.state.results.get(&number)?.clone();
            Some(Reply { number, outcome })
        });
        let replies: Vec<Reply> = known.collect();
        (replies.iter().map(|reply| reply.number).collect(), replies)
    }

    /// Carries out what the core asks for; gives what it hears of it.
    pub fn output(&mut self, output: Output) -> Option<Input> {
        match output {
            Output::Execute { slot, batch } => Some(self.execute(slot, &batch)),
            Output::Checkpoint { slot } => {
                assert_eq!(slot, self.executed(), "execution is in step with the core");
                self.cut.insert(slot, self.state.clone());
                Some(Input::Checkpointed { slot, state: self.base().state })
            }
            Output::Stable { slot, .. } => {
                self.stable = slot;
                None
            }
            Output::Wedging(wedging::Output::Accuse { about, .. }) => {
                self.accused.push(about);
                None
            }
            Output::Wedging(wedging::Output::Wedged(history)) => {
                self.report = Some(history);
                None
            }
            _ => None,
        }
    }

    fn execute(&mut self, slot: Slot, batch: &Arc<Batch>) -> Input {
        assert_eq!(slot, self.executed().next(), "slots are executed in order");
        self.state.slots.push(batch.digest);
        let mut replies = Vec::new();
        for request in batch.envelopes.iter().flat_map(|envelope| &envelope.requests) {
            let count = self.state.results.len() as u64;
            let result = || Outcome::Done(Vec::from(count.to_le_bytes()).into());
            let outcome = self.state.results.entry(request.number).or_insert_with(result).clone();
            replies.push(Reply { number: request.number, outcome });
        }
        let results = if replies.is_empty() { vec![] } else { vec![Results::new(CLIENT, replies)] };
        slot_results::Input::Executed { slot, results }.into()
    }
}
