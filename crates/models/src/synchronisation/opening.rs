//! How NEW-VIEWs come about, from correct primaries and from liars.

use super::outcome::{Outcome, Outcomes};
use super::rules::Fault;
use super::types::{Member, Set, Slot, View, ViewChange};
use super::world::World;
use crate::Broken;

impl World {
    /// The VIEW-CHANGEs of correct replicas that count in a view.
    pub(super) fn honest_changes(&self, view: View) -> Vec<ViewChange> {
        let reuses = self.group.lacks(Fault::CollectNamesNoView);
        let counts = |it: &&ViewChange| it.view == view || reuses && it.view < view;
        self.changes.iter().filter(counts).copied().collect()
    }

    /// A NEW-VIEW reaches the replica, or the primary makes it.
    pub(super) fn try_to_open(&mut self, me: Member) -> Result<(), Broken> {
        let view = self.replicas[me].view;
        let primary = self.primary(view);
        if primary != me && !self.liars.has(primary) {
            let said: Vec<_> = self.new_views.iter().filter(|(it, _)| *it == view).collect();
            if said.is_empty() {
                return Ok(());
            }
            let changes = said[self.rng.usize(..said.len())].1.clone();
            return self.open(me, &changes).map(|_| ());
        }
        let mut all = self.honest_changes(view);
        for liar in self.liars.iter() {
            let change = self.false_change(liar, view);
            all.push(change);
        }
        self.rng.shuffle(&mut all);
        let mut authors = Set::default();
        all.retain(|it| {
            let first = !authors.has(it.from);
            authors.insert(it.from);
            first
        });
        let least = self.group.n - self.group.f;
        if all.len() < least {
            return Ok(());
        }
        all.truncate(self.rng.usize(least..=all.len()));
        if primary == me {
            self.assemble(me, &all)
        } else {
            // Liars tell each what suits them; what a correct replica accepts can be passed on.
            if self.open(me, &all)? {
                self.new_views.push((view, all));
            }
            Ok(())
        }
    }

    /// The primary sends a NEW-VIEW, if the VIEW-CHANGEs that it has suffice.
    pub(super) fn assemble(&mut self, me: Member, all: &[ViewChange]) -> Result<(), Broken> {
        let view = self.replicas[me].view;
        let Some(changes) = self.usable(me, all) else { return Ok(()) };
        if self.open(me, &changes)? {
            self.new_views.push((view, changes));
        }
        Ok(())
    }

    /// Those of the VIEW-CHANGEs that the primary can go on with: it holds what they bind.
    fn usable(&mut self, me: Member, all: &[ViewChange]) -> Option<Vec<ViewChange>> {
        let mut changes = all.to_vec();
        loop {
            let outcomes = Outcomes::of(&changes, &self.group);
            if changes.len() < self.group.n - self.group.f || !outcomes.complete() {
                return None;
            }
            let Some((slot, outcome)) = self.lacking(me, &outcomes) else { break };
            if self.group.lacks(Fault::WaitsForBoundBody) {
                return None;
            }
            changes.retain(|it| {
                let lock = it.slots[slot].lock;
                Outcome::Bound(lock.ts, lock.batch) != outcome
            });
        }
        if self.group.lacks(Fault::WaitsForUncertifiedBody) && self.lacks_claimed(me, &changes) {
            return None;
        }
        Some(changes)
    }

    /// A slot whose bound batch the primary does not get from a correct replica.
    fn lacking(&mut self, me: Member, outcomes: &Outcomes) -> Option<(Slot, Outcome)> {
        for slot in outcomes.taken() {
            let Some(outcome) = outcomes.get(slot) else { continue };
            if slot > self.replicas[me].stable.slot && !self.fetch(me, slot, outcome.batch()) {
                return Some((slot, outcome));
            }
        }
        None
    }

    fn lacks_claimed(&self, me: Member, changes: &[ViewChange]) -> bool {
        let held = |slot: Slot| self.replicas[me].entries[slot].bodies;
        let window = self.replicas[me].window(&self.group);
        window.into_iter().any(|slot| {
            changes.iter().any(|it| it.slots[slot].batches().without(held(slot)).len() > 0)
        })
    }

    /// The replica asks all correct ones for a batch. Whether it holds it now.
    pub(super) fn fetch(&mut self, me: Member, slot: Slot, batch: u8) -> bool {
        let held = self.up.iter().any(|it| self.replicas[it].entries[slot].holds(batch));
        if held {
            self.replicas[me].entries[slot].bodies.insert(batch.into());
        }
        held || self.replicas[me].entries[slot].holds(batch)
    }
}
