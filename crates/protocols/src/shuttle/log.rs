//! What a replica ordered behind its stable checkpoint, slot by slot without a gap.

use super::message::Order;
use super::mode::Mode;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;

/// Slots that a head has under way: ordered, and not done. So far histories of correct replicas
/// differ at most behind a correct head.
pub const UNDER_WAY_MAX: u64 = 8;

/// Slots that a replica holds and cannot order yet.
pub const HELD_MAX: usize = UNDER_WAY_MAX as usize;

/// One slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entry<M: Mode> {
    /// As it is kept: with the tags of all before this replica, and what came of it at the
    /// predecessor.
    pub order: Arc<Order<M>>,
    /// What it orders.
    pub batch: Arc<Batch>,
    /// What came of it here; none before it was executed, and of a witness.
    pub results: Option<Digest>,
}

/// See the [module](self). Its owner bounds it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Log<M: Mode> {
    base: Slot,
    base_history: Digest,
    entries: VecDeque<Entry<M>>,
}

impl<M: Mode> Log<M> {
    /// Of one who has ordered this up to this slot.
    #[must_use]
    pub const fn new(base: Slot, base_history: Digest) -> Self {
        Self { base, base_history, entries: VecDeque::new() }
    }

    /// The last slot.
    #[must_use]
    pub fn ordered(&self) -> Slot {
        Slot(self.base.0.saturating_add(self.entries.len() as u64))
    }

    /// All that was ordered.
    #[must_use]
    pub fn history(&self) -> Digest {
        self.entries.back().map_or(self.base_history, |entry| entry.order.history)
    }

    /// What was ordered up to a slot; none below the checkpoint, and of what was not ordered.
    #[must_use]
    pub fn history_at(&self, slot: Slot) -> Option<Digest> {
        if slot == self.base {
            return Some(self.base_history);
        }
        self.get(slot).map(|entry| entry.order.history)
    }

    /// How many slots it has.
    #[must_use]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    fn index(&self, slot: Slot) -> Option<usize> {
        usize::try_from(slot.0.checked_sub(self.base.0)?.checked_sub(1)?).ok()
    }

    /// A slot.
    #[must_use]
    pub fn get(&self, slot: Slot) -> Option<&Entry<M>> {
        self.entries.get(self.index(slot)?)
    }

    /// The same.
    pub fn get_mut(&mut self, slot: Slot) -> Option<&mut Entry<M>> {
        let index = self.index(slot)?;
        self.entries.get_mut(index)
    }

    /// All slots, in order.
    pub fn iter(&self) -> impl Iterator<Item = &Entry<M>> {
        self.entries.iter()
    }

    /// The slots behind this one.
    pub fn behind(&self, slot: Slot) -> impl Iterator<Item = &Entry<M>> {
        let first = slot.0.saturating_sub(self.base.0);
        let first = usize::try_from(first).unwrap_or(usize::MAX).min(self.entries.len());
        self.entries.range(first..)
    }

    /// Orders the next slot.
    ///
    /// # Panics
    /// If it is another one: the replica is broken.
    pub fn push(&mut self, order: Arc<Order<M>>, batch: Arc<Batch>) {
        assert_eq!(order.slot, self.ordered().next(), "slots follow each other");
        self.entries.push_back(Entry { order, batch, results: None });
    }

    /// Forgets all up to a slot that it has.
    pub fn cut(&mut self, upto: Slot) {
        if let Some(history) = self.history_at(upto) {
            self.entries.retain(|entry| entry.order.slot > upto);
            (self.base, self.base_history) = (upto, history);
        }
    }
}
