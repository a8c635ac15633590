//! Figures over repeats, and latencies within one.

use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// One figure, measured several times.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Spread {
    /// The middle value; the mean of the two middle ones if their number is even.
    pub median: f64,
    /// The smallest.
    pub min: f64,
    /// The largest.
    pub max: f64,
    /// `(max - min) / median`. Absent if there was only one repeat, or the median is 0.
    pub relative: Option<f64>,
    /// One value for each repeat, in the order of measurement.
    pub values: Vec<f64>,
}

impl Spread {
    /// Absent if there are no values, or one that is no number.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let values: Vec<f64> = values.into_iter().collect();
        if values.is_empty() || !values.iter().all(|value| value.is_finite()) {
            return None;
        }
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let middle = sorted.len() / 2;
        let median = if sorted.len() % 2 == 1 {
            sorted[middle]
        } else {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        };
        let (min, max) = (sorted[0], sorted[sorted.len() - 1]);
        let relative = (sorted.len() > 1 && median > 0.0).then(|| (max - min) / median);
        Some(Self { median, min, max, relative, values })
    }

    /// As [`Self::of`], of what every sample says; absent if one of them does not know.
    pub fn of_all<T>(samples: &[T], figure: impl Fn(&T) -> Option<f64>) -> Option<Self> {
        let values: Option<Vec<f64>> = samples.iter().map(figure).collect();
        Self::of(values?)
    }
}

/// Bytes in the unit of tables and plots.
pub fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}

/// Latencies of many operations, to three digits, up to a minute.
#[derive(Clone, Debug)]
pub struct Latencies(Histogram<u64>);

/// The longest latency that is told from longer ones.
const LATENCY_MAX: Duration = Duration::from_secs(60);

impl Latencies {
    /// None yet.
    pub fn new() -> Self {
        let bounds = (1, LATENCY_MAX.as_nanos() as u64, 3);
        // Refused only for bounds that these are not.
        Self(Histogram::new_with_bounds(bounds.0, bounds.1, bounds.2).expect("good bounds"))
    }

    /// Takes note of an operation that took this long.
    pub fn record(&mut self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.0.saturating_record(nanos);
    }

    /// Adds another thread's.
    pub fn add(&mut self, other: &Self) {
        // Refused only if the other holds larger values than this one can, and bounds are equal.
        self.0.add(&other.0).expect("equal bounds");
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// What the application waited for, in microseconds.
    pub fn quantiles(&self) -> Quantiles {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        Quantiles {
            p50: micros(self.0.value_at_quantile(0.5)),
            p99: micros(self.0.value_at_quantile(0.99)),
            p999: micros(self.0.value_at_quantile(0.999)),
            max: micros(self.0.max()),
        }
    }
}

/// Latency in microseconds within one measurement.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Quantiles {
    /// Half of the operations were faster.
    pub p50: f64,
    /// 99 % were faster.
    pub p99: f64,
    /// 99.9 % were faster.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spread_says_the_middle_the_ends_and_how_far_apart_they_are() {
        let odd = Spread::of([30.0, 10.0, 20.0]).unwrap();
        assert_eq!((odd.median, odd.min, odd.max, odd.relative), (20.0, 10.0, 30.0, Some(1.0)));
        assert_eq!(odd.values, [30.0, 10.0, 20.0], "in the order of measurement");
        let even = Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap();
        assert_eq!((even.median, even.relative), (2.5, Some(3.0 / 2.5)));
    }

    #[test]
    fn one_value_has_no_spread_and_no_number_no_figure() {
        assert_eq!(Spread::of([7.0]).unwrap().relative, None);
        assert_eq!(Spread::of([0.0, 0.0]).unwrap().relative, None);
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([1.0, f64::NAN]), None);
        assert_eq!(Spread::of([1.0, f64::INFINITY]), None);
    }

    #[test]
    fn a_figure_that_one_sample_lacks_is_not_reported() {
        let samples = [Some(1.0), None];
        assert_eq!(Spread::of_all(&samples, |sample| *sample), None);
        assert_eq!(Spread::of_all(&samples[..1], |sample| *sample).unwrap().median, 1.0);
    }

    #[test]
    fn quantiles_of_known_latencies() {
        let mut first = Latencies::new();
        let mut second = Latencies::new();
        for micros in 1..=500 {
            first.record(Duration::from_micros(micros));
            second.record(Duration::from_micros(500 + micros));
        }
        first.add(&second);
        assert_eq!(first.count(), 1000);
        let Quantiles { p50, p99, p999, max } = first.quantiles();
        for (found, expected) in [(p50, 500.0), (p99, 990.0), (p999, 999.0), (max, 1000.0)] {
            assert!((found - expected).abs() <= expected * 2e-3, "{found} is not {expected}");
        }
    }

    #[test]
    fn latencies_beyond_the_end_are_counted_at_the_end() {
        let mut latencies = Latencies::new();
        latencies.record(LATENCY_MAX * 3);
        latencies.record(Duration::ZERO);
        assert_eq!(latencies.count(), 2);
        assert!(latencies.quantiles().max <= LATENCY_MAX.as_micros() as f64 * 1.001);
    }
}
