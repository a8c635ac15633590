//! Nothing that a correct replica says is evidence against it: whatever lies are found, and
//! whoever finds them, their authors are faulty.

use super::{Broken, Verdict};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::{Evidence, Finding};

/// The name of the property.
pub const PROPERTY: &str = "evidence";

/// A correct replica found a lie; `author_correct` says of whom. `in_step` says that correct
/// clocks are no further apart than they may be: a clock that is wrong is no lie.
///
/// # Errors
/// If its author is correct.
pub fn reported(
    by: ReplicaId,
    evidence: &Evidence,
    author_correct: bool,
    in_step: bool,
) -> Verdict {
    let excused = matches!(evidence.finding, Finding::FutureTime { .. }) && !in_step;
    if author_correct && !excused {
        let (author, finding) = (evidence.author, &evidence.finding);
        let detail = format!("{by} has evidence against {author}, which is correct: {finding:?}");
        return Err(Broken::new(PROPERTY, detail));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{Millis, Slot};

    #[test]
    fn only_the_faulty_may_be_accused() {
        let lie = |finding| Evidence { author: ReplicaId(1), finding };
        let two = lie(Finding::TwoCheckpoints { slot: Slot(3) });
        reported(ReplicaId(0), &two, false, true).unwrap();
        for in_step in [false, true] {
            let broken = reported(ReplicaId(0), &two, true, in_step).unwrap_err();
            assert_eq!(broken.property, PROPERTY);
            assert!(broken.detail.contains("r1"), "{broken}");
        }
        let future = lie(Finding::FutureTime { slot: Slot(3), time: Millis(9) });
        reported(ReplicaId(0), &future, true, false).unwrap();
        assert!(reported(ReplicaId(0), &future, true, true).is_err());
    }
}
