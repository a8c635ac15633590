//! Proposals whose time is ahead of our clock: they are delayed, and their proposer is reported if
//! it goes on.

use pentarchy_core::ids::{Millis, ReplicaId, Slot};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;
use pentarchy_core::mutant;

/// Whether a proposal's time is further ahead of a clock than clocks may differ.
#[must_use]
pub fn is_ahead(time: Millis, now: Millis) -> bool {
    time.0 > now.0.saturating_add(CLOCK_SKEW_MILLIS) && !mutant!("frame.any-time-is-good")
}

/// A proposal whose time is ahead of our clock.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ahead {
    /// The slot that it orders.
    pub slot: Slot,
    /// Its time.
    pub time: Millis,
    /// Who proposed it, until it was reported.
    pub suspect: Option<ReplicaId>,
}

/// The proposal that waits for our clock, if one does.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct ClockWait {
    ahead: Option<Ahead>,
}

/// What follows from what the host's clock says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Heard {
    /// Nothing.
    Nothing,
    /// What waited may go on.
    Over,
    /// The proposal is still ahead of the clock, so its proposer is at fault.
    Early(ReplicaId, Ahead),
}

impl ClockWait {
    /// A proposal is ahead of our clock. If it is not the one that waits already, gives after how
    /// many milliseconds to look again: when our clock has come near, and within a second in case
    /// it gets set.
    pub fn start(&mut self, ahead: Ahead, now: Millis) -> Option<u32> {
        if self.ahead.is_some_and(|waiting| waiting.slot == ahead.slot) {
            return None;
        }
        self.ahead = Some(ahead);
        let early = ahead.time.0.saturating_sub(now.0.saturating_add(CLOCK_SKEW_MILLIS));
        Some(early.clamp(1, 1_000) as u32)
    }

    /// The host said the time. It may not have for a while, at the start or after a pause, so a
    /// proposer is at fault only if its proposal is still ahead of the clock.
    pub fn hear(&mut self, now: Millis) -> Heard {
        let Some(ahead) = &mut self.ahead else { return Heard::Nothing };
        if !is_ahead(ahead.time, now) {
            return Heard::Over;
        }
        let reported = *ahead;
        ahead.suspect.take().map_or(Heard::Nothing, |suspect| Heard::Early(suspect, reported))
    }

    /// What waited goes on.
    pub const fn end(&mut self) {
        self.ahead = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_ahead_of_a_clock_that_was_just_heard_is_reported_once() {
        let mut wait = ClockWait::default();
        assert_eq!(wait.hear(Millis(0)), Heard::Nothing);
        let suspect = Some(ReplicaId(1));
        let ahead = Ahead { slot: Slot(3), time: Millis(CLOCK_SKEW_MILLIS + 50), suspect };
        assert_eq!((wait.start(ahead, Millis(0)), wait.start(ahead, Millis(0))), (Some(50), None));
        assert_eq!(wait.hear(Millis(49)), Heard::Early(ReplicaId(1), ahead));
        assert_eq!([49, 50].map(|now| wait.hear(Millis(now))), [Heard::Nothing, Heard::Over]);
        wait.end();
        assert_eq!(wait.start(Ahead { time: Millis(u64::MAX), ..ahead }, Millis(0)), Some(1_000));
    }
}
