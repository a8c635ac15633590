//! A plan says what a benchmark measures, how long and how often.

use super::conditions::PlannedCase;
use std::time::Duration;

/// Clients that a group serves at a time; see `HostLimits::clients_max`. One more asks for status.
pub const CLIENTS_MAX: usize = 1000;

/// How long and how often a benchmark measures.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    /// Load before the measurement.
    pub warmup: Duration,
    /// The measurement.
    pub measured: Duration,
    /// How often.
    pub repeats: usize,
}

impl Timing {
    /// Shows whether a benchmark works, and not how fast a group is.
    pub const QUICK: Self = Self {
        warmup: Duration::from_millis(300),
        measured: Duration::from_millis(700),
        repeats: 1,
    };
}

/// What a benchmark measures. Its options were checked before.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The conditions, in the order of measurement, and what is measured under each.
    pub cases: Vec<PlannedCase>,
    /// How long and how often.
    pub timing: Timing,
}

/// Operations in a second.
pub fn parse_rate(text: &str) -> Result<u64, String> {
    let rate = text.parse().ok().filter(|rate| (1..=100_000_000).contains(rate));
    rate.ok_or_else(|| format!("{text:?} is not a number of operations in a second"))
}

/// A time in seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is not a number of seconds from 0.1 to 3600"))
}
