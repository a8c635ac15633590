//! Which states go into the log, as what changed, and when one goes into files besides.
//!
//! To write a state into files, names have to be made durable, for which the file system writes
//! down more than that, in one journal for all. In the log it costs its bytes, and no sync of its
//! own. But whoever starts again has to read the log from the last state in files on. So when the
//! log has grown by enough since that one, the newest stable state goes into files too, and nothing
//! waits for that.

use super::Mark;
use super::delta::Delta;
use crate::log::Log;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::{Leaf, Tree};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// A state that was handed over for the log, and is not known to be durable.
#[derive(Clone, Copy)]
pub struct Logged {
    /// Its number, among all states.
    pub number: u64,
    pub slot: Slot,
    /// Its entry.
    pub entry: u64,
}

/// See the [module](self).
pub struct Deltas {
    /// What changed takes at most so many bytes, or the state goes into files.
    bytes_max: usize,
    growth_bytes_max: u64,
    /// How far the log is, in bytes, and how far it was when the last state went into files.
    position: u64,
    rested: u64,
    /// The state that was handed over last: the next one rests on it.
    tip: Option<Snapshot>,
    /// Oldest first.
    logged: VecDeque<Logged>,
    /// The states in the log from the last stable one on, with their entries: no more than
    /// unstable checkpoints.
    recent: VecDeque<(u64, Snapshot)>,
    /// The last of those that is in files too. In files a lower one would take its place.
    in_files: Option<Slot>,
}

impl Deltas {
    /// `tip` is the newest state there, if something may rest on it.
    pub fn new(log: &Log, tip: Option<Snapshot>) -> Self {
        Self {
            bytes_max: log.state_bytes_max(),
            growth_bytes_max: log.growth_bytes_max(),
            position: log.position(),
            // What there is of the log is read again with each start.
            rested: log.position().saturating_sub(log.bytes()),
            recent: tip.clone().map(|tip| (log.next() - 1, tip)).into_iter().collect(),
            tip,
            logged: VecDeque::new(),
            in_files: None,
        }
    }

    /// Takes a state, which the next one may rest on. Gives what changed if it is to go into the
    /// log, where it has that entry then.
    pub fn take(
        &mut self,
        number: u64,
        entry: u64,
        snapshot: &Snapshot,
        has_room: bool,
    ) -> Option<Delta> {
        let tip = self.tip.replace(snapshot.clone());
        let tip = tip.filter(|_| has_room && self.bytes_max > 0);
        let delta = tip.and_then(|tip| Delta::between(&tip, snapshot, self.bytes_max));
        if delta.is_some() {
            self.logged.push_back(Logged { number, slot: snapshot.slot, entry });
            self.recent.push_back((entry, snapshot.clone()));
        } else {
            // It goes into files. An earlier one that followed it there would take its place.
            self.recent.clear();
        }
        delta
    }

    /// The content of this state is in files: it need not be in memory.
    pub fn cool(&mut self, tree: &Tree) {
        self.each(|state| state.with_content_of(tree));
    }

    /// These are in memory, and what has their digests need not be anywhere else.
    pub fn mend(&mut self, leaves: &BTreeMap<u32, Arc<Leaf>>) {
        self.each(|state| state.replaced_with(leaves));
    }

    fn each(&mut self, change: impl Fn(&Tree) -> Tree) {
        for state in self.recent.iter_mut().map(|(_, state)| state).chain(&mut self.tip) {
            state.tree = change(&state.tree);
        }
    }

    /// The log is that far.
    pub const fn note_position(&mut self, bytes: u64) {
        self.position = bytes;
    }

    /// The oldest state that has become durable: all entries below `durable` are, and a state in
    /// files with the number `waits_for` is not.
    pub fn next_durable(&mut self, durable: u64, waits_for: Option<u64>) -> Option<Logged> {
        let early = mutant!("kept.rests-on-unsaved");
        let rests = |it: &Logged| early || waits_for.is_none_or(|number| it.number < number);
        let next = self.logged.front().filter(|it| it.entry < durable && rests(it))?;
        let next = *next;
        self.logged.pop_front();
        Some(next)
    }

    /// Whether a state waits for the log.
    pub fn is_waiting(&self, durable: u64) -> bool {
        self.logged.back().is_some_and(|last| last.entry >= durable)
    }

    /// A state is stable. Gives it, with its entry, if it is to go into files. If that is said
    /// again because the log has no room left, all those do one by one that are durable, which
    /// means with an entry below this one: the log can be cut no further than to the first that is
    /// only in it.
    pub fn stable(&mut self, mark: Mark, makes_room: Option<u64>) -> Option<(u64, Snapshot)> {
        while self.recent.front().is_some_and(|(_, state)| state.slot < mark.slot) {
            self.recent.pop_front();
        }
        if let Some(durable) = makes_room {
            return self.newer(durable);
        }
        let is_due = self.grown_since(self.rested) >= self.growth_bytes_max;
        if is_due && self.in_files >= Some(mark.slot) {
            // It is there already.
            self.rest();
            return None;
        }
        let (entry, state) = self.recent.front()?;
        (is_due && state.slot == mark.slot).then(|| (*entry, state.clone()))
    }

    /// By how much the log has grown since it was that far.
    pub const fn grown_since(&self, position: u64) -> u64 {
        self.position.saturating_sub(position)
    }

    /// When it has grown by so much, a state goes into files.
    pub const fn growth_bytes_max(&self) -> u64 {
        self.growth_bytes_max
    }

    /// A state goes into files.
    pub const fn rest(&mut self) {
        self.rested = self.position;
    }

    /// One that is in the log goes into files.
    pub fn copy(&mut self, slot: Slot) {
        self.in_files = self.in_files.max(Some(slot));
        self.rest();
    }

    /// It could not.
    pub fn uncopied(&mut self, slot: Slot) {
        self.in_files = self.in_files.min(slot.0.checked_sub(1).map(Slot));
    }

    /// The oldest of the states that are in the log only and not older than the last stable one,
    /// with its entry, if it is durable.
    pub fn newer(&self, durable: u64) -> Option<(u64, Snapshot)> {
        let in_log = |(_, state): &&(u64, Snapshot)| Some(state.slot) > self.in_files;
        self.recent.iter().find(in_log).filter(|(entry, _)| *entry < durable).cloned()
    }

    /// States from this slot on were wrong.
    pub fn give_up(&mut self, slot: Slot) {
        self.recent.retain(|(_, state)| state.slot < slot);
        self.uncopied(slot);
    }

    /// Nothing becomes durable any more.
    pub fn clear(&mut self) {
        self.logged.clear();
        self.recent.clear();
    }
}
