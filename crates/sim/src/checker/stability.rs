//! Nothing is done about failures that did not happen: while the network is whole, no replica is
//! faulty and no client needs patience, nobody leaves the first view, whatever clients send.

use super::{Broken, Verdict};
use pentarchy_core::ids::{ReplicaId, View};

/// The property's name.
pub const PROPERTY: &str = "stability";

/// Looks at the views that correct replicas enter.
#[derive(Debug)]
pub struct Stability {
    /// Whether nothing goes wrong in this world.
    calm: bool,
}

impl Stability {
    /// For a world in which nothing goes wrong, or one in which anything may.
    #[must_use]
    pub const fn new(calm: bool) -> Self {
        Self { calm }
    }

    /// A replica entered a view.
    ///
    /// # Errors
    /// If it had no reason to leave the one before.
    pub fn entered(&self, replica: ReplicaId, view: View) -> Verdict {
        if !self.calm || view == View(0) {
            return Ok(());
        }
        let detail = format!("{replica} entered view {} although nothing went wrong", view.0);
        Err(Broken::new(PROPERTY, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_view_change_needs_a_reason() {
        let (calm, rough) = (Stability::new(true), Stability::new(false));
        calm.entered(ReplicaId(1), View(0)).unwrap();
        rough.entered(ReplicaId(1), View(3)).unwrap();
        let broken = calm.entered(ReplicaId(1), View(1)).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("r1"), "{broken}");
    }
}
