//! Whether two lists of measurements differ, by ranks alone: the Mann-Whitney test, and the
//! interval that goes with it (Hodges and Lehmann). Exact for short lists, and nothing is drawn at
//! random.
//!
//! What it assumes: repeats are independent of each other, and a change multiplies them all by much
//! the same factor. It does not assume a normal distribution, which five repeats could not show.

/// Above so many values together the distribution of the test is taken from the normal one.
const EXACT_MAX: usize = 100;

/// What a change did to a figure.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Change {
    /// The median of all ratios of an after by a before.
    pub ratio: f64,
    /// The ratios that the data do not contradict. Absent where there are too few values for this
    /// confidence, whatever they are.
    pub interval: Option<(f64, f64)>,
    /// How probable a difference as large as this is if there is none; both sides.
    pub p: f64,
}

impl Change {
    /// Compares positive values. Absent if there are none, or some that are not positive numbers.
    pub fn between(before: &[f64], after: &[f64], confidence: f64) -> Option<Self> {
        let good = |value: &f64| value.is_finite() && *value > 0.0;
        if before.is_empty() || after.is_empty() || !before.iter().chain(after).all(good) {
            return None;
        }
        let mut ratios: Vec<f64> =
            after.iter().flat_map(|b| before.iter().map(move |a| b / a)).collect();
        ratios.sort_by(f64::total_cmp);
        let lower = ratios.iter().filter(|ratio| **ratio < 1.0).count();
        let equal = ratios.iter().filter(|ratio| **ratio <= 1.0).count() - lower;
        // A tie counts for half a pair on either side.
        let fewer = (2 * lower + equal).min(2 * ratios.len() - 2 * lower - equal).div_ceil(2);
        let law = Law::new(before.len(), after.len());
        let outside = law.outside((1.0 - confidence) / 2.0);
        let interval = (outside > 0).then(|| (ratios[outside - 1], ratios[ratios.len() - outside]));
        Some(Self { ratio: middle(&ratios), interval, p: (2.0 * law.at_most(fewer)).min(1.0) })
    }
}

fn middle(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[half] } else { f64::midpoint(sorted[half - 1], sorted[half]) }
}

/// How the number of pairs in which the first list's value is the larger one is distributed, if
/// both lists are drawn from one distribution.
enum Law {
    /// For each number of pairs, how many of all arrangements have it.
    Exact(Vec<i128>),
    /// Mean and standard deviation.
    Normal(f64, f64),
}

impl Law {
    fn new(n: usize, m: usize) -> Self {
        if n + m > EXACT_MAX {
            let pairs = n as f64 * m as f64;
            return Self::Normal(pairs / 2.0, (pairs * (n + m + 1) as f64 / 12.0).sqrt());
        }
        // The Gaussian binomial coefficient: the product of (1 - q^(m + i)) / (1 - q^i).
        let mut counts = vec![0_i128; n * m + 1];
        counts[0] = 1;
        for i in 1..=n {
            for at in (m + i..counts.len()).rev() {
                counts[at] -= counts[at - m - i];
            }
            for at in i..counts.len() {
                counts[at] += counts[at - i];
            }
        }
        Self::Exact(counts)
    }

    /// The probability of at most so many pairs.
    fn at_most(&self, pairs: usize) -> f64 {
        match self {
            Self::Exact(counts) => {
                let all: i128 = counts.iter().sum();
                let some: i128 = counts.iter().take(pairs + 1).sum();
                some as f64 / all as f64
            }
            Self::Normal(mean, deviation) => normal((pairs as f64 + 0.5 - mean) / deviation),
        }
    }

    /// The interval begins and ends with this one of the sorted ratios, counted from either end:
    /// one more than the most pairs that are at most this probable. 0 if no number of pairs is.
    fn outside(&self, tail: f64) -> usize {
        let mut pairs = 0;
        // 1 of 20 arrangements is 5 %, however 5 % was computed.
        while self.at_most(pairs) <= tail * (1.0 + 1e-9) {
            pairs += 1;
        }
        pairs
    }
}

/// The standard normal distribution, to seven digits (Abramowitz and Stegun 26.2.17).
fn normal(x: f64) -> f64 {
    if x > 0.0 {
        return 1.0 - normal(-x);
    }
    let t = 1.0 / (1.0 + 0.231_641_9 * -x);
    let series = [0.319_381_530, -0.356_563_782, 1.781_477_937, -1.821_255_978, 1.330_274_429];
    let sum = series.iter().rev().fold(0.0, |sum, factor| (sum + factor) * t);
    sum * (-x * x / 2.0).exp() / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(before: &[f64], after: &[f64]) -> Change {
        Change::between(before, after, 0.95).unwrap()
    }

    #[test]
    fn the_law_is_that_of_the_tables() {
        // Two-sided critical values at 5 % (Mann and Whitney): 5 and 5: 2; 8 and 8: 13; 4 and 4: 0.
        for (n, m, critical) in [(5, 5, 2), (8, 8, 13), (4, 4, 0), (5, 8, 6), (20, 20, 127)] {
            assert_eq!(Law::new(n, m).outside(0.025), critical + 1, "{n} and {m}");
        }
        assert_eq!(Law::new(3, 3).outside(0.025), 0, "1 of 20 arrangements is too many");
        let Law::Exact(counts) = Law::new(2, 3) else { panic!("small") };
        assert_eq!(counts, [1, 1, 2, 2, 2, 1, 1]);
    }

    #[test]
    fn the_normal_law_takes_over_where_the_exact_one_ends() {
        let exact = Law::new(50, 50);
        let pairs = 1250.0_f64;
        let close = Law::Normal(pairs, (2500.0_f64 * 101.0 / 12.0).sqrt());
        for pairs in [900, 1000, 1100, 1250, 1400] {
            let difference = exact.at_most(pairs) - close.at_most(pairs);
            assert!(difference.abs() < 1e-3, "{pairs}: {difference}");
        }
        assert!(matches!(Law::new(51, 50), Law::Normal(..)));
    }

    #[test]
    fn a_change_larger_than_the_noise_is_shown() {
        let before = [100.0, 104.0, 97.0, 102.0, 99.0];
        let after = before.map(|value| value * 1.10);
        let Change { ratio, interval, p } = change(&before, &after);
        let (low, high) = interval.unwrap();
        assert!((ratio - 1.10).abs() < 0.02, "{ratio}");
        assert!(1.0 < low && low < ratio && ratio < high && high < 1.2, "{low} .. {high}");
        assert!((p - 2.0 / 252.0).abs() < 1e-12, "all pairs point one way: {p}");
    }

    #[test]
    fn noise_alone_shows_nothing() {
        let before = [100.0, 104.0, 97.0, 102.0, 99.0];
        let after = [98.0, 103.0, 101.0, 96.0, 105.0];
        let Change { interval, p, .. } = change(&before, &after);
        let (low, high) = interval.unwrap();
        assert!(low < 1.0 && high > 1.0 && p > 0.5, "{low} .. {high}, {p}");
        let same = change(&before, &before);
        assert!((same.ratio, same.p) == (1.0, 1.0), "{same:?}");
    }

    /// The interval holds 1 exactly where the test finds nothing, so the two never disagree.
    #[test]
    fn interval_and_test_say_the_same() {
        let mut seed = 1_u64;
        let mut draw = || {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            100.0 + (seed >> 40) as f64 / f64::from(1 << 21)
        };
        let (mut shown, runs) = (0, 2000);
        for _ in 0..runs {
            let (before, after) = ([(); 5].map(|()| draw()), [(); 5].map(|()| draw()));
            let Change { interval, p, .. } = change(&before, &after);
            let (low, high) = interval.unwrap();
            assert_eq!(low > 1.0 || high < 1.0, p <= 0.05, "{low} .. {high}, {p}");
            shown += usize::from(p <= 0.05);
        }
        // 3.2 % of all arrangements are that lopsided.
        assert!((40..90).contains(&shown), "{shown} of {runs} differences where there is none");
    }

    #[test]
    fn too_few_or_senseless_values_have_no_interval() {
        assert_eq!(change(&[1.0, 1.1, 0.9], &[9.0, 9.1, 8.9]).interval, None);
        assert_eq!(Change::between(&[], &[1.0], 0.95), None);
        assert_eq!(Change::between(&[0.0], &[1.0], 0.95), None);
        assert_eq!(Change::between(&[1.0], &[f64::NAN], 0.95), None);
    }
}
