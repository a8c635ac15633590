//! How a replica begins, and how it goes on from what it kept.

use super::log::{Entry, Log};
use super::message::Order;
use super::mode::Mode;
use super::record::Record;
use super::replica::{Phase, Shuttle};
use super::statements::Marked;
use crate::common::certificate::CheckpointProof;
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{Effects, Memory, Setup};

/// What a log says, whatever is told twice.
struct Past<M: Mode> {
    orders: BTreeMap<Slot, Arc<Order<M>>>,
    results: BTreeMap<Slot, Digest>,
    stable: BTreeMap<Slot, CheckpointProof<Marked>>,
    states: BTreeMap<Slot, Digest>,
    is_wedged: bool,
}

impl<M: Mode> Past<M> {
    fn read(log: &mut dyn Iterator<Item = Record<M>>) -> Self {
        let (orders, results, stable) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let states = BTreeMap::new();
        let mut past = Self { orders, results, stable, states, is_wedged: false };
        for record in log {
            match record {
                Record::Ordered(order) => {
                    past.orders.insert(order.slot, order);
                }
                Record::Results { slot, results } => {
                    past.results.insert(slot, results);
                }
                Record::Stable(proof) => {
                    past.stable.insert(proof.slot, proof);
                }
                Record::Cut(Base { slot, state }) => {
                    past.states.insert(slot, state);
                }
                Record::Wedged => past.is_wedged = true,
            }
        }
        past
    }
}

impl<M: Mode> Shuttle<M> {
    pub(super) fn begin(
        &mut self,
        setup: &Setup,
        log: &mut dyn Iterator<Item = Record<M>>,
        out: &mut Effects<Self>,
    ) {
        let base = setup.membership.base;
        let mut past = Past::read(log);
        let Base { slot: executed, state } = match &setup.memory {
            Memory::Durable { executed, .. } => *executed,
            Memory::Volatile => base,
        };
        past.states.insert(executed, state);
        if let Some(from) = setup.fetch.filter(|_| self.is_full(self.me)) {
            self.phase = Phase::Fetching;
            out.output(Output::Fetch { slot: base.slot, state: base.state, from });
        }
        // A witness has no state to go on from, and needs none.
        let is_full = self.is_full(self.me);
        self.recall_orders(&past, if is_full { executed } else { Slot(u64::MAX) });
        self.recall_states(&past, executed);
        self.execute_again(executed, out);
        // Only now: what is left to be executed may begin below the stable checkpoint.
        if let Some((_, proof)) = past.stable.last_key_value()
            && self.log.history_at(proof.slot) == Some(proof.state.history)
        {
            self.note_stable(proof.clone());
        }
        if past.is_wedged {
            self.phase = Phase::Wedged;
            return self.report(out);
        }
        self.recall_done(executed);
        self.retime(out);
    }

    /// Takes up what the log has behind the last checkpoint that was executed.
    fn recall_orders(&mut self, past: &Past<M>, executed: Slot) {
        if let Some((_, proof)) = past.stable.range(..=executed).next_back()
            && proof.slot > self.stable.slot
        {
            self.log = Log::new(proof.slot, proof.state.history);
            self.note_stable(proof.clone());
        }
        while let Some(order) = past.orders.get(&self.log.ordered().next()) {
            let slot = order.slot;
            self.append(order.clone());
            if let Some(entry) = self.log.get_mut(slot) {
                entry.results = past.results.get(&slot).copied();
            }
        }
    }

    /// States that were cut and are not cut again.
    fn recall_states(&mut self, past: &Past<M>, executed: Slot) {
        let known =
            past.states.range(..=executed).filter(|(slot, _)| self.marks.due.contains(slot));
        let known: Vec<(Slot, Digest)> = known.map(|(slot, state)| (*slot, *state)).collect();
        self.marks.states.extend(known);
    }

    fn execute_again(&mut self, executed: Slot, out: &mut Effects<Self>) {
        let ordered = self.log.ordered();
        self.executing = executed.min(ordered);
        if self.is_full(self.me) && executed < ordered {
            out.output(Output::Resumed { upto: ordered });
            self.execute(ordered, out);
        }
    }

    /// What the tail passed on, which is to nobody, is done.
    fn recall_done(&mut self, executed: Slot) {
        let is_full = self.is_full(self.me);
        let is_known = |it: &&Entry<M>| it.results.is_some() || it.order.slot <= executed;
        let passed = self.log.iter().take_while(|it| !is_full || is_known(it));
        let last = passed.last().map(|entry| entry.order.slot);
        if let Some(last) = last.filter(|last| self.is_tail() && *last > self.done) {
            (self.done, self.done_tags) = (last, Some(Vec::new()));
        }
    }
}
