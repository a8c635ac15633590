//! After the network has healed, every request completes and correct replicas become level, within
//! a stated time.

use super::{Broken, Stand, Verdict};
use crate::time::Micros;
use pentarchy_core::protocol::Timeouts;

/// The name of the property.
pub const PROPERTY: &str = "liveness";

/// The time that is allowed.
#[derive(Clone, Copy, Debug)]
pub struct Deadline {
    /// When the network has healed.
    pub healed: Micros,
    /// When everything must be done.
    pub at: Micros,
}

impl Deadline {
    /// This many request and view-change timeouts after healing.
    #[must_use]
    pub const fn new(healed: Micros, timeouts: &Timeouts, count: u64) -> Self {
        let one = (timeouts.request_ms + timeouts.view_change_ms) * 1_000;
        Self { healed, at: healed + one * count }
    }

    /// Looks at the whole group: what clients wait for, and where correct replicas stand.
    ///
    /// # Errors
    /// If the time is over.
    pub fn check(&self, now: Micros, waiting: &[String], replicas: &[Stand]) -> Verdict {
        if now <= self.at {
            return Ok(());
        }
        let seconds = (self.at - self.healed) / 1_000_000;
        let mut detail = format!("{seconds} s after healing");
        match waiting {
            [] => detail.push_str(" replicas are not level"),
            waiting => {
                detail.push_str(" these wait: ");
                detail.push_str(&waiting.join(", "));
            }
        }
        replicas.iter().for_each(|stand| detail.push_str(&stand.to_string()));
        Err(Broken::new(PROPERTY, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::bounds::tests::status;
    use pentarchy_core::ids::{ReplicaId, Slot};

    #[test]
    fn lateness_is_found_and_said_of_whom() {
        let deadline = Deadline::new(1_000_000, &Timeouts::default(), 10);
        assert_eq!(deadline.at, 9_000_000);
        let replicas = [Stand { id: ReplicaId(2), executed: Slot(7), status: status() }];
        let waiting = ["c1#5".to_owned()];
        assert!(deadline.check(9_000_000, &waiting, &replicas).is_ok());
        let broken = deadline.check(9_000_001, &waiting, &replicas).unwrap_err();
        assert_eq!(broken.property, PROPERTY);
        assert!(broken.detail.contains("c1#5") && broken.detail.contains("r2 executed s7"));
        let broken = deadline.check(9_000_001, &[], &replicas).unwrap_err();
        assert!(broken.detail.contains("level"));
    }
}
