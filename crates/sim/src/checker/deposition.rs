//! `f` liars depose nobody: once nothing goes wrong any more but what faulty replicas do, a correct
//! replica gives a view up because others ask for another one only if a correct one did so lately.
//! What was asked and withdrawn long ago is no reason.

use super::{Broken, Verdict};
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, View};

/// The property's name.
pub const PROPERTY: &str = "deposition";

/// For how long an ask is a reason: two seconds after it was last repeated, and what it may take to
/// leave and to enter.
const LATELY: Micros = 4_000_000;

/// The reason that replicas give who leave because of what others ask.
const REASON: &str = "others asked for it";

/// Looks at who asks, and at the views that correct replicas enter.
#[derive(Debug)]
pub struct Deposition {
    /// From when on nothing goes wrong but what faulty replicas do; none if that is never so.
    from: Option<Micros>,
    /// When a correct replica asked last, or repeated that it does.
    asked: Option<Micros>,
}

impl Deposition {
    /// For a world in which this is so from some moment on, or never.
    #[must_use]
    pub const fn new(from: Option<Micros>) -> Self {
        Self { from, asked: None }
    }

    /// A correct replica asks for another view, or repeats that it does.
    pub const fn asked(&mut self, now: Micros) {
        self.asked = Some(now);
    }

    /// A correct replica entered a view.
    ///
    /// # Errors
    /// If it left the one before because of asks that nobody correct stands by.
    pub fn entered(&self, id: ReplicaId, view: View, reason: &str, now: Micros) -> Verdict {
        let calm = self.from.is_some_and(|from| now > from + LATELY);
        let lately = self.asked.is_some_and(|asked| now <= asked + LATELY);
        if !calm || lately || reason != REASON {
            return Ok(());
        }
        let last = self.asked.map_or(0, |asked| asked / 1_000);
        let detail = format!(
            "{id} entered view {} as others asked for it, and no correct replica has asked since \
             {last} ms",
            view.0
        );
        Err(Broken::new(PROPERTY, detail))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_is_a_reason_for_a_while() {
        let enter = |it: &Deposition, now| it.entered(ReplicaId(1), View(1), REASON, now);
        let mut checker = Deposition::new(Some(1_000_000));
        enter(&checker, 4_000_000).unwrap();
        checker.asked(6_000_000);
        enter(&checker, 9_000_000).unwrap();
        let broken = enter(&checker, 11_000_000).unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("r1"), "{broken}");
        checker.entered(ReplicaId(1), View(1), "the group had moved on", 11_000_000).unwrap();
        enter(&Deposition::new(None), 11_000_000).unwrap();
    }
}
