//! Nothing is done about failures that did not happen: while the network is whole, no replica is
//! faulty and no client needs patience, nobody leaves the first view, whatever clients send. And
//! where the network is slow and nothing else is wrong but a dead primary, few views fail until
//! replicas wait for long enough.

use super::{Broken, Verdict};
use pentarchy_core::ids::{ReplicaId, View};

/// The property's name.
pub const PROPERTY: &str = "stability";

/// Views that may end until timeouts, and what is tolerated of a primary, were doubled often
/// enough: twice as often as worlds have needed, and for each fault that may be, as those may that
/// are led by the dead, or that show how fast others are.
const LEARNING: u64 = 24;
const LEARNING_OF_EACH: u64 = 4;

/// Looks at the views that correct replicas enter.
#[derive(Debug)]
pub struct Stability {
    /// The last view that replicas have a reason to enter; none if there is no telling.
    last: Option<View>,
}

impl Stability {
    /// For a world in which nothing goes wrong, one that is only slow and in which `f` may be
    /// faulty, or one in which anything may go wrong.
    #[must_use]
    pub fn new(is_calm: bool, is_only_slow: bool, f: usize) -> Self {
        let last = match (is_calm, is_only_slow) {
            (true, _) => Some(View(0)),
            (false, true) => Some(View(LEARNING + LEARNING_OF_EACH * f as u64)),
            (false, false) => None,
        };
        Self { last }
    }

    /// A replica entered a view.
    ///
    /// # Errors
    /// If it had no reason to leave the one before.
    pub fn entered(&self, replica: ReplicaId, view: View) -> Verdict {
        match self.last {
            Some(View(0)) if view > View(0) => {
                let detail = format!("{replica} entered {view} although nothing went wrong");
                Err(Broken::new(PROPERTY, detail))
            }
            Some(last) if view > last => {
                let detail = format!("{replica} entered {view} in a network that is only slow");
                Err(Broken::new(PROPERTY, detail))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_change_needs_a_reason() {
        let (calm, slow) = (Stability::new(true, false, 1), Stability::new(false, true, 1));
        let rough = Stability::new(false, false, 1);
        calm.entered(ReplicaId(1), View(0)).unwrap();
        slow.entered(ReplicaId(1), View(28)).unwrap();
        rough.entered(ReplicaId(1), View(300)).unwrap();
        let broken = calm.entered(ReplicaId(1), View(1)).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("r1"), "{broken}");
        let broken = slow.entered(ReplicaId(1), View(29)).unwrap_err();
        assert!(broken.detail.contains("only slow"), "{broken}");
    }
}
