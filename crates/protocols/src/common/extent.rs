//! How many bytes were executed since which checkpoint, which decides where the next one is taken.
//!
//! Every state that replicas agree on begins at a checkpoint, and batches have the same bytes
//! everywhere, so all correct replicas take checkpoints at the same slots. A replica that installs
//! a state counts from there. In a pillar, whose checkpoints are not its own to place, each slot is
//! counted for itself.

use alloc::collections::VecDeque;
use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::Tuning;

/// See the [module](self). Holds one entry for each checkpoint that is not stable, in a pillar for
/// each slot of the window.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Extent {
    /// Checkpoints that are not stable, ascending, with what was executed since the one before.
    open: VecDeque<(Slot, usize)>,
    /// What was executed since the last checkpoint.
    since: usize,
}

impl Extent {
    /// A slot was executed; says whether a checkpoint is to be taken behind it.
    pub fn executed(&mut self, slot: Slot, bytes: usize, tuning: &Tuning) -> bool {
        self.since += bytes;
        let is_due =
            slot.0.is_multiple_of(tuning.checkpoint_slots) || self.since >= tuning.checkpoint_bytes;
        if is_due {
            self.open.push_back((slot, core::mem::take(&mut self.since)));
        }
        is_due
    }

    /// A slot of a pillar was executed: where checkpoints are is decided for all pillars together.
    pub fn executed_in_pillar(&mut self, slot: Slot, bytes: usize) {
        self.open.push_back((slot, bytes));
    }

    /// There is a checkpoint at this slot, for whatever reason it was taken.
    pub fn begin(&mut self, slot: Slot) {
        if self.since > 0 {
            self.open.push_back((slot, core::mem::take(&mut self.since)));
        }
    }

    /// The checkpoint at this slot is stable.
    pub fn stable(&mut self, slot: Slot) {
        while self.open.front().is_some_and(|(open, _)| *open <= slot) {
            self.open.pop_front();
        }
    }

    /// What was executed since the stable checkpoint.
    pub fn bytes(&self) -> usize {
        self.since + self.open.iter().map(|(_, bytes)| bytes).sum::<usize>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn checkpoints_come_by_slots_and_by_bytes_and_make_room_when_stable() {
        let tuning = Tuning { checkpoint_slots: 4, checkpoint_bytes: 100, ..Tuning::default() };
        let mut extent = Extent::default();
        let execute = |extent: &mut Extent, slot, bytes| {
            extent.executed(Slot(slot), bytes, &tuning).then_some(slot)
        };
        let bytes = [60, 39, 1, 0, 100, 99, 0, 98];
        let taken: Vec<u64> =
            (1..).zip(bytes).filter_map(|(slot, n)| execute(&mut extent, slot, n)).collect();
        assert_eq!(taken, [3, 4, 5, 8]);
        assert_eq!(extent.bytes(), 397);
        extent.stable(Slot(4));
        assert_eq!(extent.bytes(), 297);
        assert_eq!(execute(&mut extent, 9, 7), None);
        extent.stable(Slot(8));
        assert_eq!(extent.bytes(), 7);
    }
}
