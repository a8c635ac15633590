//! How values are spread, at the price of one addition for each.

/// Buckets of a [`Histogram`]; what is larger than the last bound only counts in the total.
const BUCKETS: usize = 25;

/// Counts of values by the power of two that holds them: 1, 2, 4 up to 2^24, which is 17 seconds
/// in microseconds. Never larger than 216 bytes, whatever is recorded.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Histogram {
    counts: [u64; BUCKETS],
    count: u64,
    sum: u64,
}

impl Histogram {
    /// Takes in a value. Its unit is the owner's affair.
    pub fn record(&mut self, value: u64) {
        // The smallest power of two that is not less than the value.
        let index = value.saturating_sub(1).checked_ilog2().map_or(0, |log| log as usize + 1);
        if let Some(count) = self.counts.get_mut(index) {
            *count += 1;
        }
        self.count += 1;
        self.sum = self.sum.saturating_add(value);
    }

    /// Values recorded.
    #[must_use]
    pub const fn count(&self) -> u64 {
        self.count
    }

    /// Their sum.
    #[must_use]
    pub const fn sum(&self) -> u64 {
        self.sum
    }

    /// Each bucket's upper bound, which belongs to it, and the values that are in it and in no
    /// smaller one.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.counts.iter().enumerate().map(|(index, count)| (1 << index, *count))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_in_the_smallest_bucket_that_holds_it() {
        let mut histogram = Histogram::default();
        for value in [0, 1, 2, 3, 4, 5, 1 << 24, (1 << 24) + 1, u64::MAX] {
            histogram.record(value);
        }
        let filled: Vec<_> = histogram.buckets().filter(|(_, count)| *count > 0).collect();
        assert_eq!(filled, [(1, 2), (2, 1), (4, 2), (8, 1), (1 << 24, 1)]);
        assert_eq!((histogram.count(), histogram.sum()), (9, u64::MAX));
    }
}
