//! The order of all pillars together: which slot of which comes where, and what is decided and
//! waits for what comes before it.

use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;

/// Where slots of pillars are in the global order of an epoch.
///
/// With `N` pillars and the base slot `B` of the epoch, every pillar begins behind its slot
/// `ceil(B / N)`, so that its base is above 0 if `B` is; and slot `k` of pillar `u` is global slot
/// `B + (k - ceil(B / N) - 1) * N + u + 1`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Rows {
    pillars: u64,
    base: Slot,
}

impl Rows {
    /// Of an epoch.
    #[must_use]
    pub fn of(membership: &Membership) -> Self {
        Self { pillars: u64::from(membership.lane.pillars.max(1)), base: membership.base.slot }
    }

    /// The slot behind which each pillar begins.
    #[must_use]
    pub const fn base(self) -> Slot {
        Slot(self.base.0.div_ceil(self.pillars))
    }

    /// The last global slot of a row.
    #[must_use]
    pub const fn end(self, row: Slot) -> Slot {
        Slot(
            self.base
                .0
                .saturating_add(row.0.saturating_sub(self.base().0).saturating_mul(self.pillars)),
        )
    }

    /// Where a slot of a pillar is.
    #[must_use]
    pub const fn global(self, pillar: u8, row: Slot) -> Slot {
        Slot(self.end(row).0.saturating_sub(self.pillars - 1 - pillar as u64))
    }

    /// The last row of which everything is up to a global slot.
    #[must_use]
    pub const fn complete(self, global: Slot) -> Slot {
        Slot(self.base().0 + global.0.saturating_sub(self.base.0) / self.pillars)
    }

    /// Which slot of which pillar a global slot of the epoch is.
    #[must_use]
    pub const fn place(self, global: Slot) -> (u8, Slot) {
        let before = global.0.saturating_sub(self.base.0 + 1);
        ((before % self.pillars) as u8, Slot(self.base().0 + 1 + before / self.pillars))
    }

    /// The last global slot that may have been executed before a restart, as pillars say: up to
    /// which row each may have come, if it says so.
    #[must_use]
    pub fn spoken(self, said: impl Iterator<Item = Option<Slot>>) -> Option<Slot> {
        let place = |(pillar, row): (u8, Slot)| match row > self.base() {
            true => self.global(pillar, row),
            false => Slot(0),
        };
        let places = (0..).zip(said).filter_map(|(pillar, row)| Some(place((pillar, row?))));
        if mutant!("pillars.lowest-row-spoken") { places.min() } else { places.max() }
    }

    /// The state of a row, if it is one: otherwise it is in the middle.
    #[must_use]
    pub fn row_of(self, state: Base) -> Option<(Slot, Digest)> {
        let row = self.complete(state.slot);
        (self.end(row) == state.slot).then_some((row, state.state))
    }
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Merge {
    /// Where slots are.
    pub rows: Rows,
    /// The last global slot that was handed to execution; below the epoch's base while the state of
    /// that is not here.
    executed: Slot,
    /// What pillars decided and what comes before is not here.
    waiting: BTreeMap<Slot, Arc<Batch>>,
    /// Bytes that were executed since the last checkpoint. States are taken and installed at
    /// checkpoints only, and batches have the same bytes everywhere: so all correct replicas take
    /// them after the same rows.
    since: usize,
    /// Rows after which a state is to be taken, until that is here.
    due: BTreeSet<Slot>,
    /// The states after rows, as far as a pillar may still learn that another one is vouched for.
    states: BTreeMap<Slot, Digest>,
}

/// What follows from the order.
pub enum Next {
    /// Execute this.
    Execute(Slot, Arc<Batch>),
    /// Take the state after this slot.
    Checkpoint(Slot),
}

impl Merge {
    /// In the beginning, or where the executor is.
    #[must_use]
    pub fn new(rows: Rows, executed: Base) -> Self {
        let (waiting, due) = (BTreeMap::new(), BTreeSet::new());
        let states = rows.row_of(executed).into_iter().collect();
        Self { rows, executed: executed.slot, waiting, since: 0, due, states }
    }

    /// The last global slot that was handed to execution.
    #[must_use]
    pub const fn executed(&self) -> Slot {
        self.executed
    }

    /// Whether everything in a row was executed, and all before it.
    #[must_use]
    pub fn has_row(&self, row: Slot) -> bool {
        self.executed >= self.rows.end(row)
    }

    /// How many batches wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The last global slot that is decided although one before it is not.
    #[must_use]
    pub fn last_waiting(&self) -> Option<Slot> {
        self.waiting.last_key_value().map(|(slot, _)| *slot)
    }

    /// A pillar decided a slot.
    pub fn decided(&mut self, pillar: u8, row: Slot, batch: Arc<Batch>) {
        let slot = self.rows.global(pillar, row);
        if slot > self.executed || mutant!("pillars.covered-not-dropped") {
            self.waiting.insert(slot, batch);
        }
    }

    /// Takes out what is next. After a row a state is taken if so many rows or bytes have passed:
    /// the same for all pillars.
    pub fn advance(&mut self, tuning: &Tuning, mut next: impl FnMut(Next)) {
        while let Some((slot, batch)) = self.next() {
            self.executed = slot;
            self.since += batch.bytes();
            next(Next::Execute(self.executed, batch));
            let row = self.rows.complete(self.executed);
            let is_due = row.0.is_multiple_of(tuning.checkpoint_slots)
                || self.since >= tuning.checkpoint_bytes;
            if self.rows.end(row) == self.executed && is_due {
                self.since = 0;
                self.due.insert(row);
                next(Next::Checkpoint(self.executed));
            }
        }
    }

    fn next(&mut self) -> Option<(Slot, Arc<Batch>)> {
        if mutant!("pillars.gaps-left-out") {
            return self.waiting.pop_first();
        }
        self.waiting.remove_entry(&self.executed.next())
    }

    /// The state after a global slot is known: of which row, if it was to be taken.
    pub fn note_state(&mut self, slot: Slot, state: Digest) -> Option<Slot> {
        let (row, state) = self.rows.row_of(Base { slot, state })?;
        if !self.due.remove(&row) {
            return None;
        }
        self.states.insert(row, state);
        Some(row)
    }

    /// The state after a row, if it is known.
    #[must_use]
    pub fn state(&self, row: Slot) -> Option<Digest> {
        self.states.get(&row).copied()
    }

    /// The states after a row and later ones, as far as they are known.
    pub fn states_from(&self, row: Slot) -> impl Iterator<Item = (Slot, Digest)> {
        self.states.range(row..).map(|(row, state)| (*row, *state))
    }

    /// The state after a row was installed, whether it is the one that execution had come to, one
    /// behind it or one before.
    pub fn installed(&mut self, row: Slot, state: Option<Digest>) {
        let goes_back = self.executed >= self.rows.end(row);
        self.executed = self.rows.end(row);
        if !mutant!("pillars.bytes-go-on") {
            self.since = 0;
        }
        if goes_back {
            self.waiting.clear();
            self.due.retain(|due| *due < row);
            self.states.retain(|known, _| *known < row);
        } else {
            self.waiting = self.waiting.split_off(&self.executed.next());
            self.due.clear();
            self.states.clear();
        }
        self.states.extend(state.map(|state| (row, state)));
    }

    /// A quorum vouches in all pillars for the state after a row, or after a later one.
    pub fn stable(&mut self, row: Slot) {
        self.states.retain(|known, _| *known >= row);
    }

    /// Lets go of what one pillar decided up to a row, as a state is fetched that covers it.
    pub fn give_up(&mut self, pillar: u8, row: Slot) {
        let rows = self.rows;
        self.waiting.retain(|slot, _| {
            let (of, at) = rows.place(*slot);
            of != pillar || at > row
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;
    use pentarchy_core::Bytes;
    use pentarchy_core::ids::{ClientId, Millis};
    use pentarchy_core::request::{Draft, Request, RequestAuth};

    fn rows(pillars: u64, base: u64) -> Rows {
        Rows { pillars, base: Slot(base) }
    }

    /// A checkpoint after every second row.
    fn tuning() -> Tuning {
        Tuning { checkpoint_slots: 2, ..Tuning::default() }
    }

    fn batch() -> Arc<Batch> {
        Arc::new(Batch { digest: Digest::default(), time: Millis(0), envelopes: Vec::new() })
    }

    /// What is executed, and checkpoints as negative numbers.
    fn advance(merge: &mut Merge) -> Vec<i64> {
        let mut done = Vec::new();
        merge.advance(&tuning(), |next| {
            done.push(match next {
                Next::Execute(slot, _) => slot.0 as i64,
                Next::Checkpoint(slot) => -(slot.0 as i64),
            });
        });
        done
    }

    #[test]
    fn global_slots_and_slots_of_pillars_are_one_to_one() {
        for (pillars, base) in [(1, 0), (2, 0), (3, 7), (4, 1), (8, 64), (5, 9)] {
            let rows = rows(pillars, base);
            assert_eq!(rows.base() == Slot(0), base == 0, "nobody begins at 0 behind a state");
            assert_eq!(rows.end(rows.base()), Slot(base));
            for global in (base + 1..base + 100).map(Slot) {
                let (pillar, row) = rows.place(global);
                assert_eq!(rows.global(pillar, row), global);
                assert!(u64::from(pillar) < pillars && row > rows.base());
                let is_last = u64::from(pillar) == pillars - 1;
                assert_eq!(rows.end(row) == global, is_last);
                assert_eq!(rows.complete(global) == row, is_last);
            }
        }
    }

    #[test]
    fn what_is_decided_early_waits_and_a_state_is_taken_when_its_row_is_complete() {
        let mut merge = Merge::new(rows(2, 0), Base::default());
        (1..=3).for_each(|row| merge.decided(0, Slot(row), batch()));
        assert_eq!(advance(&mut merge), [1]);
        assert_eq!(merge.last_waiting(), Some(Slot(5)));
        merge.decided(1, Slot(1), batch());
        assert_eq!(advance(&mut merge), [2, 3]);
        merge.decided(1, Slot(2), batch());
        assert_eq!(advance(&mut merge), [4, -4, 5]);
        let state = Digest([1; 32]);
        assert_eq!(merge.note_state(Slot(4), state), Some(Slot(2)));
        assert_eq!(merge.note_state(Slot(4), state), None, "it was asked for once");
        assert_eq!(merge.state(Slot(2)), Some(state));
    }

    #[test]
    fn states_are_taken_by_the_bytes_of_all_pillars_and_counted_from_a_state() {
        let requests = Vec::from([Request { number: 1, operation: Bytes::from_static(&[1; 9]) }]);
        let draft = Draft { client: ClientId([1; 32]), floor: 0, events: None, requests };
        let envelopes = Vec::from([Arc::new(draft.seal(RequestAuth::Signature([0; 64])))]);
        let batch = Arc::new(Batch { envelopes, ..(*batch()).clone() });
        let tuning = Tuning { checkpoint_bytes: 2 * batch.bytes(), ..Tuning::default() };
        let taken = |merge: &mut Merge| {
            let mut taken = Vec::new();
            merge.advance(&tuning, |next| {
                if let Next::Checkpoint(slot) = next {
                    taken.push(slot.0);
                }
            });
            taken
        };
        let decide = |merge: &mut Merge, slots: core::ops::RangeInclusive<u64>| {
            for (pillar, row) in slots.map(|slot| merge.rows.place(Slot(slot))).collect::<Vec<_>>()
            {
                merge.decided(pillar, row, batch.clone());
            }
        };
        let mut merge = Merge::new(rows(3, 0), Base::default());
        decide(&mut merge, 1..=9);
        assert_eq!(taken(&mut merge), [3, 6, 9], "two are enough, and a row is complete");
        merge.installed(Slot(4), None);
        decide(&mut merge, 13..=15);
        assert_eq!(taken(&mut merge), [15]);
    }

    #[test]
    fn what_an_installed_state_covers_is_not_executed_and_an_older_one_begins_anew() {
        let mut merge = Merge::new(rows(2, 0), Base::default());
        merge.decided(0, Slot(4), batch());
        merge.decided(0, Slot(2), batch());
        merge.installed(Slot(3), None);
        merge.decided(1, Slot(3), batch());
        assert_eq!(advance(&mut merge), [7], "4 of the first pillar was kept");
        merge.installed(Slot(3), None);
        assert_eq!((merge.executed(), merge.len()), (Slot(6), 0));
        merge.decided(0, Slot(4), batch());
        assert_eq!(advance(&mut merge), [7]);
        let covered = || {
            merge.decided(0, Slot(2), batch());
            merge.len()
        };
        assert_eq!(mutant::with(Some("pillars.covered-not-dropped"), covered), 1);
    }
}
