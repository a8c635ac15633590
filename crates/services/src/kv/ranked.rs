//! A sorted sequence in which every element has a rank.
//!
//! Blocks of a few hundred elements, one after the other. Looking up is two binary searches;
//! inserting and removing move one block; a rank is a sum over the blocks before, of which a
//! million elements have some four thousand.

use alloc::vec::Vec;
use core::cmp::Ordering;

/// Elements at which a block is divided.
const BLOCK_MAX: usize = 512;

/// Two blocks that have no more than this together become one.
const BLOCK_MIN: usize = BLOCK_MAX / 4;

/// The sequence. What orders it is up to its owner, who says it at each call, always the same.
#[derive(Clone, Debug)]
pub struct Ranked<T> {
    blocks: Vec<Vec<T>>,
    len: usize,
}

impl<T> Default for Ranked<T> {
    fn default() -> Self {
        Self { blocks: Vec::new(), len: 0 }
    }
}

impl<T: PartialEq> PartialEq for Ranked<T> {
    fn eq(&self, other: &Self) -> bool {
        self.len == other.len && self.iter().eq(other.iter())
    }
}

impl<T> Ranked<T> {
    pub const fn len(&self) -> usize {
        self.len
    }

    /// The block and the offset in it of the first element that is not `before`; `before` holds
    /// for all elements up to some place and for none behind it.
    fn seek(&self, before: impl Fn(&T) -> bool) -> (usize, usize) {
        let block = self.blocks.partition_point(|block| block.last().is_some_and(&before));
        let offset = self.blocks.get(block).map_or(0, |block| block.partition_point(&before));
        (block, offset)
    }

    /// How many elements are `before`.
    pub fn rank(&self, before: impl Fn(&T) -> bool) -> usize {
        let (block, offset) = self.seek(before);
        self.blocks[..block].iter().map(Vec::len).sum::<usize>() + offset
    }

    /// The element that `order` calls equal, where `order` compares an element with what is looked
    /// for.
    pub fn find(&self, order: impl Fn(&T) -> Ordering) -> Option<&T> {
        let (block, offset) = self.seek(|item| order(item).is_lt());
        self.blocks.get(block)?.get(offset).filter(|item| order(item).is_eq())
    }

    /// As [`Self::find`]. The caller changes nothing that orders it.
    pub fn find_mut(&mut self, order: impl Fn(&T) -> Ordering) -> Option<&mut T> {
        let (block, offset) = self.seek(|item| order(item).is_lt());
        self.blocks.get_mut(block)?.get_mut(offset).filter(|item| order(item).is_eq())
    }

    /// Inserts an element behind those that are `before` it.
    pub fn insert(&mut self, item: T, before: impl Fn(&T) -> bool) {
        let (mut block, mut offset) = self.seek(before);
        if block == self.blocks.len() {
            // Behind all others: full blocks stay full when elements come in order.
            match self.blocks.last() {
                Some(last) if last.len() < BLOCK_MAX => (block, offset) = (block - 1, last.len()),
                _ => self.blocks.push(Vec::new()),
            }
        }
        self.blocks[block].insert(offset, item);
        self.len += 1;
        if self.blocks[block].len() > BLOCK_MAX {
            let half = self.blocks[block].split_off(BLOCK_MAX / 2);
            self.blocks[block].shrink_to_fit();
            self.blocks.insert(block + 1, half);
        }
    }

    /// Removes the element that `order` calls equal.
    pub fn remove(&mut self, order: impl Fn(&T) -> Ordering) -> Option<T> {
        let (block, offset) = self.seek(|item| order(item).is_lt());
        let found = self.blocks.get(block)?.get(offset)?;
        if order(found).is_ne() {
            return None;
        }
        let item = self.blocks[block].remove(offset);
        self.len -= 1;
        self.tidy(block);
        Some(item)
    }

    /// Joins a block that became small with a neighbour, and gives back room.
    fn tidy(&mut self, block: usize) {
        let length = self.blocks[block].len();
        if length == 0 {
            self.blocks.remove(block);
            return;
        }
        let next = self.blocks.get(block + 1).map_or(usize::MAX, Vec::len);
        if next.saturating_add(length) <= BLOCK_MIN {
            let next = self.blocks.remove(block + 1);
            self.blocks[block].extend(next);
        } else if self.blocks[block].capacity() > 4 * length + 8 {
            self.blocks[block].shrink_to(2 * length);
        }
    }

    pub fn get(&self, rank: usize) -> Option<&T> {
        let (block, offset) = self.locate(rank);
        self.blocks.get(block)?.get(offset)
    }

    fn locate(&self, rank: usize) -> (usize, usize) {
        let mut left = rank;
        for (index, block) in self.blocks.iter().enumerate() {
            if left < block.len() {
                return (index, left);
            }
            left -= block.len();
        }
        (self.blocks.len(), 0)
    }

    /// The elements from one rank up to, but without, another.
    pub fn range(&self, from: usize, to: usize) -> impl DoubleEndedIterator<Item = &T> {
        let (first, start) = self.locate(from);
        let (last, end) = self.locate(to.max(from));
        (first..last + 1).flat_map(move |index| {
            let block = self.blocks.get(index).map_or(&[][..], |block| block);
            let end = if index == last { end } else { block.len() };
            block[if index == first { start } else { 0 }..end].iter()
        })
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> {
        self.blocks.iter().flatten()
    }

    /// The elements from the first that is not `before`.
    pub fn iter_from(&self, before: impl Fn(&T) -> bool) -> impl Iterator<Item = &T> {
        let (block, offset) = self.seek(before);
        self.blocks.get(block..).unwrap_or_default().iter().flatten().skip(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn it_does_what_a_plain_set_does() {
        let (mut ranked, mut plain) = (Ranked::default(), BTreeSet::new());
        let mut state = 1u64;
        let mut roll = |sides: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % sides
        };
        for round in 0..40_000u64 {
            let item = roll(6000);
            // Grows at first, shrinks in the end.
            if roll(40_000) > round {
                if plain.insert(item) {
                    ranked.insert(item, |other| *other < item);
                }
            } else {
                assert_eq!(ranked.remove(|other| other.cmp(&item)).is_some(), plain.remove(&item));
            }
            assert_eq!(ranked.len(), plain.len());
            assert_eq!(ranked.find(|other| other.cmp(&item)).is_some(), plain.contains(&item));
            if round % 500 == 0 {
                assert!(ranked.iter().eq(plain.iter()));
                let rank = ranked.rank(|other| *other < item);
                assert_eq!(rank, plain.range(..item).count());
                assert!(ranked.iter_from(|other| *other < item).eq(plain.range(item..)));
                assert_eq!(ranked.get(rank), plain.range(item..).next());
                let (from, to) = (rank / 2, rank);
                assert!(ranked.range(from, to).eq(plain.iter().skip(from).take(to - from)));
                let back = ranked.range(from, to).rev();
                assert!(
                    back.eq(plain.iter().take(to).skip(from).collect::<Vec<_>>().into_iter().rev())
                );
                assert!(ranked.blocks.iter().all(|block| (1..=BLOCK_MAX).contains(&block.len())));
                assert!(ranked.blocks.len() <= 2 + 4 * ranked.len() / BLOCK_MIN);
            }
        }
        assert!(ranked.len() < 3000);
    }
}
