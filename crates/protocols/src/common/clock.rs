//! Proposals whose time is ahead of our clock: they are delayed, and their proposer is reported if
//! it goes on.

use pentarchy_core::ids::{Millis, ReplicaId, Slot};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;

/// Whether a proposal's time is further ahead of a clock than clocks may differ.
#[must_use]
pub const fn is_ahead(time: Millis, now: Millis) -> bool {
    time.0 > now.0.saturating_add(CLOCK_SKEW_MILLIS)
}

/// A proposal whose time is ahead of our clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct ClockWait {
    /// The slot that it orders.
    pub slot: Slot,
    /// Its time.
    pub time: Millis,
    /// Who proposed it, until it was reported.
    pub suspect: Option<ReplicaId>,
}

impl ClockWait {
    /// After how many milliseconds to look again: when our clock has come near, and within a second
    /// in case it gets set.
    #[must_use]
    pub fn look_after(&self, now: Millis) -> u32 {
        let early = self.time.0.saturating_sub(now.0.saturating_add(CLOCK_SKEW_MILLIS));
        early.clamp(1, 1_000) as u32
    }
}
