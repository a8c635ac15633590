//! The only source of chance in the simulator: xoshiro256++, seeded through splitmix64.

/// A deterministic generator. Forks give independent streams, so that drawing more in one part of
/// the world does not move what another part draws.
#[derive(Clone, Debug)]
pub struct Rng([u64; 4]);

impl Rng {
    /// The generator of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut state = seed;
        Self(core::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mut z = state;
            z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        }))
    }

    /// A stream of its own.
    pub fn fork(&mut self) -> Self {
        Self::new(self.next_u64())
    }

    /// 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        let s = &mut self.0;
        let result = s[0].wrapping_add(s[3]).rotate_left(23).wrapping_add(s[0]);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        result
    }

    /// A number below `bound`, which is not 0. The bias of 64-bit multiplication is far below what
    /// a simulation could notice.
    pub fn below(&mut self, bound: u64) -> u64 {
        debug_assert!(bound > 0);
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// A number from `low` to `high`, both included.
    pub fn range(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True in this many of a million cases.
    pub fn chance(&mut self, per_million: u32) -> bool {
        self.below(1_000_000) < u64::from(per_million)
    }

    /// True in this many of a hundred cases.
    pub fn percent(&mut self, percent: u32) -> bool {
        self.chance(percent * 10_000)
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    /// Around `mean`, seldom long: the minimum of a geometric distribution over eighths of it and
    /// eight times the mean.
    pub fn around(&mut self, mean: u64) -> u64 {
        let mut eighths = 0;
        while eighths < 64 && self.below(9) != 0 {
            eighths += 1;
        }
        mean * eighths / 8 + self.below(mean / 8 + 1)
    }
}

#[cfg(test)]
mod tests {
    use super::Rng;

    #[test]
    fn equal_seeds_give_equal_streams_and_forks_do_not_disturb_each_other() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        let (mut fork_a, _unused) = (a.fork(), b.fork());
        (0..10).for_each(|_| assert_ne!(fork_a.next_u64(), 0));
        assert_eq!(a.next_u64(), b.next_u64());
        assert_ne!(Rng::new(1).next_u64(), Rng::new(2).next_u64());
    }

    #[test]
    fn ranges_are_inclusive_and_reached() {
        let mut rng = Rng::new(1);
        let seen: std::collections::BTreeSet<u64> = (0..1000).map(|_| rng.range(3, 6)).collect();
        assert_eq!(seen.into_iter().collect::<Vec<_>>(), [3, 4, 5, 6]);
        let total: u64 = (0..10_000).map(|_| rng.around(1_000)).sum();
        assert!((700..1_400).contains(&(total / 10_000)), "{}", total / 10_000);
    }
}
