//! What does not change while Olympus serves a group, and every figure that bounds what it does.

use pentarchy_core::configuration::Configuration;
use pentarchy_core::limits::HISTORY_SLOTS_MAX;

/// Candidates in the pool, those that are members included.
pub const POOL_MAX: usize = 128;

/// Ends of configurations that Olympus keeps, to lead on who was away meanwhile; members keep all.
pub const LINKS_KEPT: usize = 64;

/// Bytes of the words with which a member says why it accuses another.
pub const WHY_BYTES_MAX: usize = 64;

/// Milliseconds of agreed time for which Olympus waits for the other reports, once there are
/// enough: well above a round trip, so that correct members are not taken for silent ones.
pub const GATHER_MILLIS: u64 = 150;

/// Milliseconds of agreed time that the members of a proposal have to hold all of it, at the first
/// attempt. Doubles with each attempt, up to [`PREPARE_DOUBLINGS_MAX`] times.
pub const PREPARE_MILLIS: u64 = 1_000;

/// Few, as tens of attempts may be needed.
pub const PREPARE_DOUBLINGS_MAX: u32 = 2;

/// Milliseconds of agreed time between two wedges at least. Doubles with each configuration that
/// certified nothing of its own.
pub const PAUSE_MILLIS: u64 = 100;

/// The longest pause between two wedges.
pub const PAUSE_MILLIS_MAX: u64 = 30_000;

/// Milliseconds of agreed time after which scores count half, and the doublings of pauses too.
pub const HALVE_MILLIS: u64 = 600_000;

/// Milliseconds of agreed time for which a tail may read, from when its renewal is executed.
pub const LEASE_MILLIS: u64 = 500;

/// What a candidate's score grows by. The one with the lowest score is taken first.
pub mod score {
    /// A member accused it.
    pub const ACCUSED: u32 = 2;
    /// It accused a member. As much: which of the two lies is unknown, and with less a liar that
    /// accuses everybody would be the better candidate.
    pub const ACCUSER: u32 = 2;
    /// It did not report.
    pub const SILENT: u32 = 3;
    /// It did not hold what was proposed, or vouched alone for what nobody could fetch.
    pub const EMPTY_HANDED: u32 = 1;
    /// It signed two states after one slot.
    pub const CONVICTED: u32 = 8;
}

/// What Olympus is told of the protocol of its group, beside what its configuration states. **Must
/// be the same on all replicas.**
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Terms {
    /// Whether the tail answers queries alone, under a lease that it renews here.
    pub leases: bool,
}

/// Reports that end a configuration: one of them is by a correct member. Where members do not lie,
/// one is enough.
pub fn reports_needed(configuration: &Configuration) -> usize {
    if configuration.facts.fault_model.lies() { usize::from(configuration.f) + 1 } else { 1 }
}

/// Members that execute, from the head on: their signatures certify a state. The others are
/// witnesses, which only order.
pub fn full_members(configuration: &Configuration) -> usize {
    usize::from(configuration.f) + 1
}

/// Batches that a report may name, and a configuration inherit.
pub fn history_max(configuration: &Configuration) -> usize {
    let window = usize::try_from(configuration.tuning.window_slots).unwrap_or(usize::MAX);
    window.min(HISTORY_SLOTS_MAX)
}
