//! How long rounds wait for something to happen.

/// The longest: how late a stop, or a core that only looks at the clock, may be.
const IDLE_MS: u64 = 20;

/// Milliseconds until the first of these deadlines.
pub fn wait_ms<const N: usize>(deadlines: [Option<u64>; N], now_ms: u64) -> u64 {
    let next_ms = deadlines.into_iter().flatten().min().unwrap_or(u64::MAX);
    next_ms.saturating_sub(now_ms).min(IDLE_MS)
}
