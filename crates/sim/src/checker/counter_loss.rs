//! A replica whose trusted counter does not answer ends: what its core believes to be said is not.

use super::{Broken, Verdict};
use pentarchy_core::ids::ReplicaId;

/// The name of the property.
pub const PROPERTY: &str = "counter_loss";

/// A correct replica has done something; `was_missed`: its counter did not answer.
///
/// # Errors
/// If it has not ended.
pub fn goes_on(replica: ReplicaId, was_missed: bool) -> Verdict {
    if was_missed {
        let detail = format!("{replica} goes on, though its counter does not answer");
        return Err(Broken::new(PROPERTY, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replica_that_goes_on_is_found() {
        goes_on(ReplicaId(1), false).unwrap();
        assert_eq!(goes_on(ReplicaId(1), true).unwrap_err().property, PROPERTY);
    }
}
