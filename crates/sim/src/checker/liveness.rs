//! After the network has healed, every request completes within a stated time of its submission,
//! and correct replicas become level, and clients are told all events, within that time of the last
//! completion.

use super::{Broken, Stand, Verdict};
use crate::time::Micros;
use pentarchy_core::protocol::Timeouts;

/// The name of the property.
pub const PROPERTY: &str = "liveness";

/// The request of one client that has been waiting for longest.
#[derive(Clone, Copy, Debug)]
pub struct Waiting {
    /// The client's index.
    pub client: usize,
    /// The request's number.
    pub number: u64,
    /// When it was submitted.
    pub since: Micros,
}

/// The time that is allowed.
#[derive(Clone, Debug)]
pub struct Liveness {
    healed: Micros,
    allowed: Micros,
    /// The part of it in which something moves.
    still: Micros,
    /// Where replicas stood when that last changed.
    stand: Vec<Stand>,
    /// When that was, or the last timer that ran then had run out.
    moved: Micros,
}

/// The part of the time that is allowed for which nothing may happen: whoever is to go on has
/// timers, and those that run into nothing are not worth waiting for.
const STILL_PART: Micros = 4;

impl Liveness {
    /// This many request and view-change timeouts, and the time that the network takes at best to
    /// order, one after the other, the batches of all requests that can wait together.
    #[must_use]
    pub const fn new(healed: Micros, timeouts: &Timeouts, count: u64, ordering: Micros) -> Self {
        let timed = (timeouts.request_ms + timeouts.view_change_ms) * 1_000 * count;
        let (allowed, still) = (timed + ordering, timed / STILL_PART);
        Self { healed, allowed, still, stand: Vec::new(), moved: healed }
    }

    /// Looks whether anything moves: something reached a client at `since`, or nobody waited until
    /// then, correct replicas stand elsewhere than before, or a timer still runs of those that ran
    /// when they last did; `until` is when the last one runs out that runs now.
    ///
    /// # Errors
    /// If nothing has moved for a part of the time that is allowed.
    pub fn check_moves(
        &mut self,
        now: Micros,
        since: Micros,
        until: Micros,
        stand: impl FnOnce() -> Vec<Stand>,
    ) -> Verdict {
        let stand = stand();
        if stand != self.stand {
            (self.stand, self.moved) = (stand, until.max(now));
        }
        let moved = self.moved.max(since).max(self.healed);
        if now <= moved + self.still {
            return Ok(());
        }
        let seconds = (now - moved) / 1_000_000;
        let what = format!("not all is done, and nothing has moved for {seconds} s");
        Err(self.broken(now, &what, &self.stand))
    }

    /// Looks at what clients wait for.
    ///
    /// # Errors
    /// If one of them has waited for too long.
    pub fn check(
        &self,
        now: Micros,
        waiting: impl Iterator<Item = Waiting>,
        stand: impl FnOnce() -> Vec<Stand>,
    ) -> Verdict {
        let late = |waiting: &Waiting| now > waiting.since.max(self.healed) + self.allowed;
        let late: Vec<Waiting> = waiting.filter(late).collect();
        if late.is_empty() {
            return Ok(());
        }
        let name = |it: &Waiting| format!("client {}#{} since {}", it.client, it.number, it.since);
        let names: Vec<String> = late.iter().map(name).collect();
        Err(self.broken(now, &format!("these wait: {}", names.join(", ")), &stand()))
    }

    /// All requests have completed, and something last reached a client at `since`, but replicas
    /// are not level, or clients have not been told all events.
    ///
    /// # Errors
    /// If that has been so for too long.
    pub fn check_level(
        &self,
        now: Micros,
        since: Micros,
        events_missing: bool,
        stand: impl FnOnce() -> Vec<Stand>,
    ) -> Verdict {
        if now <= since.max(self.healed) + self.allowed {
            return Ok(());
        }
        let what = if events_missing {
            "clients miss events"
        } else {
            "replicas are not level, or not as far as one of them was"
        };
        Err(self.broken(now, &format!("all is done but {what}"), &stand()))
    }

    /// Nothing more will ever happen, although not everything is done.
    #[must_use]
    pub fn dead(&self, now: Micros, stand: &[Stand]) -> Broken {
        self.broken(now, "nothing happens any more", stand)
    }

    fn broken(&self, now: Micros, what: &str, stand: &[Stand]) -> Broken {
        let seconds = now.saturating_sub(self.healed) / 1_000_000;
        let allowed = self.allowed / 1_000_000;
        let stand: String = stand.iter().map(ToString::to_string).collect();
        let detail = format!("{seconds} s after healing, with {allowed} s allowed, {what}{stand}");
        Broken::new(PROPERTY, detail)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bounds::tests::status;
    use pentarchy_core::ids::{ReplicaId, Slot};

    fn stand() -> Vec<Stand> {
        vec![Stand { id: ReplicaId(2), executed: Slot(7), status: status() }]
    }

    #[test]
    fn a_request_that_waits_too_long_is_found() {
        let liveness = Liveness::new(1_000_000, &Timeouts::default(), 10, 0);
        let check = |now, since| {
            let waiting = Waiting { client: 3, number: 5, since };
            liveness.check(now, core::iter::once(waiting), stand)
        };
        check(9_000_000, 0).unwrap();
        check(12_000_000, 4_000_000).unwrap();
        assert!(check(12_000_001, 4_000_000).is_err());
        let broken = check(9_000_001, 0).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.contains("3#5") && broken.detail.contains("r2 executed s7"));
        let slow = Liveness::new(1_000_000, &Timeouts::default(), 10, 500_000);
        let waiting = || core::iter::once(Waiting { client: 3, number: 5, since: 0 });
        slow.check(9_500_000, waiting(), stand).unwrap();
        assert!(slow.check(9_500_001, waiting(), stand).is_err());
    }

    #[test]
    fn replicas_that_stay_behind_are_found() {
        let liveness = Liveness::new(1_000_000, &Timeouts::default(), 10, 0);
        liveness.check_level(13_000_000, 5_000_000, true, stand).unwrap();
        let broken = liveness.check_level(13_000_001, 5_000_000, false, stand).unwrap_err();
        assert!(broken.detail.contains("not level"), "{broken}");
        let broken = liveness.check_level(13_000_001, 5_000_000, true, stand).unwrap_err();
        assert!(broken.detail.contains("miss events"), "{broken}");
        assert_eq!(liveness.dead(0, &[]).property, PROPERTY);
    }

    #[test]
    fn a_world_in_which_nothing_moves_is_given_up_early() {
        let mut liveness = Liveness::new(1_000_000, &Timeouts::default(), 40, 0);
        let quarter = liveness.still;
        liveness.check_moves(2_000_000, 0, 3_000_000, stand).unwrap();
        liveness.check_moves(3_000_000 + quarter, 0, 0, stand).unwrap();
        let broken = liveness.check_moves(3_000_001 + quarter, 0, 0, stand).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.contains("nothing has moved"), "{broken}");
        liveness.check_moves(3_000_001 + quarter, 3_000_001, 0, stand).unwrap();
        let elsewhere = || vec![Stand { executed: Slot(8), ..stand().remove(0) }];
        liveness.check_moves(4_000_000 + quarter, 0, 0, elsewhere).unwrap();
    }
}
