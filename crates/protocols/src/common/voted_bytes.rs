//! How many bytes of batches this replica has voted for and not executed: with what it executed
//! since the stable checkpoint, that is what its log and its memory have to hold.

use alloc::collections::BTreeMap;
use pentarchy_core::ids::Slot;

/// See the [module](self). Holds at most one entry for each slot of a window.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct VotedBytes {
    open: BTreeMap<Slot, usize>,
    bytes: usize,
}

impl VotedBytes {
    /// This replica votes in a slot for a batch of so many bytes.
    pub fn add(&mut self, slot: Slot, bytes: usize) {
        let before = self.open.insert(slot, bytes);
        self.bytes = self.bytes - before.unwrap_or(0) + bytes;
    }

    /// Everything up to this slot was executed, or is needed no more.
    pub fn settle(&mut self, slot: Slot) {
        while let Some(first) = self.open.first_entry().filter(|first| *first.key() <= slot) {
            self.bytes -= first.remove();
        }
    }

    /// What it voted for and has not executed.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_voted_for_twice_counts_once_and_until_it_is_settled() {
        let mut voted_bytes = VotedBytes::default();
        for (slot, bytes) in [(5, 10), (6, 100), (6, 70), (8, 1)] {
            voted_bytes.add(Slot(slot), bytes);
        }
        assert_eq!(voted_bytes.bytes(), 81);
        voted_bytes.settle(Slot(4));
        assert_eq!(voted_bytes.bytes(), 81);
        voted_bytes.settle(Slot(6));
        assert_eq!(voted_bytes.bytes(), 1);
        voted_bytes.settle(Slot(9));
        assert_eq!(voted_bytes, VotedBytes::default());
    }
}
