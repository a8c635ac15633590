//! Draws that are the same on every replica.

use super::work::Work;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use pentarchy_core::service::Context;

/// What [`Context::nonce`] is asked for.
const PURPOSE: u64 = 1;

/// An odd number that sends the streams of an operation's commands far apart.
const SPREAD: u64 = 0xd134_2543_de82_ef95;

/// A stream of numbers from an agreed seed. Not secret, and the primary can influence it.
pub struct Dice(u64);

impl Dice {
    /// For the command that runs: those of one pack or transaction draw differently.
    pub fn new(context: &Context, work: &Work) -> Self {
        let [a, b, c, d, e, f, g, h, ..] = context.nonce(PURPOSE);
        let seed = u64::from_be_bytes([a, b, c, d, e, f, g, h]);
        Self(seed ^ work.commands_before().wrapping_mul(SPREAD))
    }

    /// The next number, by `SplitMix64`.
    pub const fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `bound`; 0 if that is 0.
    pub const fn below(&mut self, bound: usize) -> usize {
        ((self.next() as u128 * bound as u128) >> 64) as usize
    }

    /// So many different numbers below `bound`, or all, in rising order.
    pub fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        if count >= bound {
            return (0..bound).collect();
        }
        // Each subset is as likely as every other (Floyd).
        let mut chosen = BTreeSet::new();
        for top in bound - count..bound {
            let drawn = self.below(top + 1);
            if !chosen.insert(drawn) {
                chosen.insert(top);
            }
        }
        chosen.into_iter().collect()
    }

    /// What a command draws from `length` elements by the count in its words: different ones if it
    /// is positive, as many as asked for with repetitions if it is negative. `None` if those are
    /// more than `most`, so that no reply could carry them.
    pub fn draw(&mut self, count: i64, length: usize, most: usize) -> Option<Vec<usize>> {
        let size = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
        if count >= 0 {
            (size.min(length) <= most).then(|| self.distinct(size, length))
        } else {
            (size <= most).then(|| (0..size).map(|_| self.below(length)).collect())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_distinct_in_bounds_and_all_come_up() {
        let mut dice = Dice(7);
        let mut seen = [0; 10];
        for _ in 0..2000 {
            let drawn = dice.distinct(3, 10);
            assert!(drawn.len() == 3 && drawn.is_sorted_by(|a, b| a < b), "{drawn:?}");
            drawn.iter().for_each(|index| seen[*index] += 1);
        }
        // 600 each on average, with a deviation of about 20.
        assert!(seen.iter().all(|times| (480..720).contains(times)), "{seen:?}");
        assert_eq!(dice.distinct(9, 3), [0, 1, 2]);
        assert_eq!(dice.below(0), 0);
        assert_eq!(dice.draw(-5, 1, 5), Some([0; 5].to_vec()));
        assert_eq!(dice.draw(-6, 1, 5), None);
        assert_eq!(dice.draw(i64::MAX, 2, 5), Some([0, 1].to_vec()));
    }
}
