//! A list that knows how large it is.

use super::text::Text;
use alloc::boxed::Box;
use alloc::collections::VecDeque;

/// What an element of a list costs beside its bytes.
const ITEM_COST: u64 = 32;

/// Which end of a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum End {
    /// The first element; `L` in a command's name.
    Left,
    /// The last one; `R` in a command's name.
    Right,
}

/// A list of byte strings. Never empty while it is in the store.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct List {
    items: VecDeque<Text>,
    /// Sum of the cost of all items, so that it need not be summed up at each change.
    cost: u64,
}

const fn cost_of(item: &[u8]) -> u64 {
    ITEM_COST + item.len() as u64
}

impl List {
    pub fn len(&self) -> usize {
        self.items.len()
    }

    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    pub const fn cost(&self) -> u64 {
        self.cost
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &[u8]> + ExactSizeIterator {
        self.items.iter().map(|item| &**item)
    }

    /// The elements from one index up to, but without, another.
    pub fn range(&self, from: usize, to: usize) -> impl Iterator<Item = &[u8]> {
        self.items.range(from..to).map(|item| &**item)
    }

    pub fn get(&self, index: usize) -> Option<&[u8]> {
        self.items.get(index).map(|item| &**item)
    }

    pub fn push(&mut self, end: End, item: &[u8]) {
        self.cost += cost_of(item);
        match end {
            End::Left => self.items.push_front(Box::from(item)),
            End::Right => self.items.push_back(Box::from(item)),
        }
    }

    pub fn pop(&mut self, end: End) -> Option<Text> {
        let item = match end {
            End::Left => self.items.pop_front(),
            End::Right => self.items.pop_back(),
        }?;
        self.cost -= cost_of(&item);
        self.shrink();
        Some(item)
    }

    pub fn set(&mut self, index: usize, item: &[u8]) {
        let place = &mut self.items[index];
        self.cost = self.cost - cost_of(place) + cost_of(item);
        *place = Box::from(item);
    }

    /// Puts an item before the one at this index, or at the end.
    pub fn insert(&mut self, index: usize, item: &[u8]) {
        self.cost += cost_of(item);
        self.items.insert(index, Box::from(item));
    }

    /// Keeps only the elements from one index up to, but without, another.
    pub fn keep(&mut self, from: usize, to: usize) {
        let dropped = self.items.range(..from).chain(self.items.range(to..));
        self.cost -= dropped.map(|item| cost_of(item)).sum::<u64>();
        self.items.truncate(to);
        self.items.drain(..from);
        self.shrink();
    }

    /// Removes elements equal to `item`, at most `limit` of them from that end on, and says how
    /// many.
    pub fn remove(&mut self, from: End, limit: usize, item: &[u8]) -> usize {
        let equal = self.iter().filter(|other| *other == item).count();
        let removed = equal.min(limit);
        // Seen from the left, those to remove are the first or the last of the equal ones.
        let first = if from == End::Left { 0 } else { equal - removed };
        let mut seen = 0;
        self.items.retain(|other| {
            if **other != *item {
                return true;
            }
            seen += 1;
            !(first..first + removed).contains(&(seen - 1))
        });
        self.cost -= removed as u64 * cost_of(item);
        self.shrink();
        removed
    }

    /// Gives back room that a list once needed, when it is down to a quarter.
    fn shrink(&mut self) {
        if self.items.capacity() > 64 && self.items.len() < self.items.capacity() / 4 {
            self.items.shrink_to(self.items.len() * 2);
        }
    }
}
