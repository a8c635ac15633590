//! `f` liars depose nobody: once nothing goes wrong any more but what faulty replicas do, a correct
//! replica gives a view up because others ask for another one only if a correct one did so lately.
//! What was asked and withdrawn long ago is no reason.
//!
//! One bound is left (`docs/decisions/0007-asks-that-still-stand.md`): a faulty replica that shows
//! such an ask and its own VIEW-CHANGE for two seconds cannot be told from a correct one that was
//! left behind. A correct replica that follows it says so, and others may follow that one. They may
//! enter the view before it does, or without it, if it leaves that view too.

use super::{Broken, Verdict};
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, View};
use std::collections::BTreeMap;

/// The property's name.
pub const PROPERTY: &str = "deposition";

/// For how long an ask is a reason: two seconds after it was last repeated, and what it may take to
/// leave and to enter.
const LATELY: Micros = 4_000_000;

/// The reason that replicas give who leave because of what others ask.
const REASON: &str = "others asked for it";

/// The reason of a replica that follows one that left alone.
const FOLLOWED: &str = "a replica had been left behind";

/// Looks at who asks, and at the views that correct replicas enter.
#[derive(Debug)]
pub struct Deposition {
    /// From when on nothing goes wrong but what faulty replicas do; none if that is never so.
    from: Option<Micros>,
    /// When a correct replica asked last, or repeated that it does.
    asked: Option<Micros>,
    /// When a correct replica last followed one that left alone.
    followed: Option<Micros>,
    /// For which view each correct replica did so last.
    followers: BTreeMap<ReplicaId, View>,
    /// The first entry that nothing seen so far excuses, and when that was: a correct replica that
    /// left for another reason may enter a moment later.
    suspected: Option<(Micros, View, Broken)>,
}

impl Deposition {
    /// For a world in which this is so from some moment on, or never.
    #[must_use]
    pub const fn new(from: Option<Micros>) -> Self {
        Self { from, asked: None, followed: None, followers: BTreeMap::new(), suspected: None }
    }

    /// A correct replica asks for another view, or repeats that it does.
    pub const fn asked(&mut self, now: Micros) {
        self.asked = Some(now);
    }

    /// A correct replica left a view for this one, which it need not have entered. It gave this
    /// reason for what it did last about views.
    pub fn stands(&mut self, id: ReplicaId, view: View, reason: &str, now: Micros) {
        if reason == FOLLOWED && self.followers.insert(id, view) != Some(view) {
            self.follows(view, now);
        }
    }

    /// A correct replica begins an epoch, or a life: its views are others from now on.
    pub fn begins(&mut self, id: ReplicaId) {
        self.followers.remove(&id);
    }

    fn follows(&mut self, view: View, now: Micros) {
        self.followed = Some(now);
        self.suspected.take_if(|(_, suspected, _)| *suspected == view);
    }

    /// A correct replica entered a view.
    ///
    /// # Errors
    /// If another one left the one before because of asks that nobody correct stands by.
    pub fn entered(&mut self, id: ReplicaId, view: View, reason: &str, now: Micros) -> Verdict {
        self.passed(now)?;
        let calm = self.from.is_some_and(|from| now > from + LATELY);
        if reason == FOLLOWED {
            self.follows(view, now);
        }
        let lately = |at: Option<Micros>| at.is_some_and(|at| now <= at + LATELY);
        if !calm || lately(self.asked) || lately(self.followed) || reason != REASON {
            return Ok(());
        }
        let last = self.asked.map_or(0, |asked| asked / 1_000);
        let detail = format!(
            "{id} entered view {} as others asked for it, and no correct replica has asked since \
             {last} ms",
            view.0
        );
        self.suspected.get_or_insert((now, view, Broken::new(PROPERTY, detail)));
        Ok(())
    }

    /// Time passed.
    ///
    /// # Errors
    /// If nobody entered in time who would excuse that another one entered.
    pub fn passed(&mut self, now: Micros) -> Verdict {
        let is_over = |(at, ..): &mut (Micros, View, Broken)| now > *at + LATELY;
        self.suspected.take_if(is_over).map_or(Ok(()), |(.., broken)| Err(broken))
    }

    /// The world is over.
    ///
    /// # Errors
    /// If a replica left a view because of asks that nobody correct stood by.
    pub fn ended(&mut self) -> Verdict {
        self.suspected.take().map_or(Ok(()), |(.., broken)| Err(broken))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ask_is_a_reason_for_a_while() {
        let enter = |it: &mut Deposition, now| it.entered(ReplicaId(1), View(1), REASON, now);
        let mut checker = Deposition::new(Some(1_000_000));
        enter(&mut checker, 4_000_000).unwrap();
        checker.asked(6_000_000);
        enter(&mut checker, 9_000_000).unwrap();
        enter(&mut checker, 11_000_000).unwrap();
        let broken = checker.ended().unwrap_err();
        assert!(broken.property == PROPERTY && broken.detail.contains("r1"), "{broken}");
        checker.entered(ReplicaId(1), View(1), "the group had moved on", 11_000_000).unwrap();
        let mut never = Deposition::new(None);
        enter(&mut never, 11_000_000).unwrap();
        never.ended().unwrap();
    }

    #[test]
    fn who_follows_a_replica_that_left_alone_may_be_followed_for_a_while() {
        let mut checker = Deposition::new(Some(1_000_000));
        checker.entered(ReplicaId(2), View(2), FOLLOWED, 20_000_000).unwrap();
        checker.entered(ReplicaId(0), View(2), REASON, 20_100_000).unwrap();
        checker.ended().unwrap();
        checker.entered(ReplicaId(0), View(3), REASON, 25_000_000).unwrap();
        checker.passed(29_000_000).unwrap();
        checker.passed(29_000_001).unwrap_err();
    }

    #[test]
    fn who_follows_it_may_enter_before_it_does() {
        let mut checker = Deposition::new(Some(1_000_000));
        checker.entered(ReplicaId(0), View(2), REASON, 20_000_000).unwrap();
        checker.entered(ReplicaId(2), View(2), FOLLOWED, 20_100_000).unwrap();
        checker.passed(30_000_000).unwrap();
        checker.ended().unwrap();
    }

    #[test]
    fn who_left_and_enters_later_excuses_others_anew() {
        let mut checker = Deposition::new(Some(1_000_000));
        checker.stands(ReplicaId(2), View(2), FOLLOWED, 20_000_000);
        checker.entered(ReplicaId(0), View(2), REASON, 24_100_000).unwrap();
        checker.entered(ReplicaId(2), View(2), FOLLOWED, 24_200_000).unwrap();
        checker.ended().unwrap();
        checker.begins(ReplicaId(2));
        checker.entered(ReplicaId(0), View(2), REASON, 30_000_000).unwrap();
        checker.stands(ReplicaId(2), View(2), FOLLOWED, 30_100_000);
        checker.ended().unwrap();
    }

    #[test]
    fn who_follows_it_may_enter_without_it() {
        let mut checker = Deposition::new(Some(1_000_000));
        checker.stands(ReplicaId(2), View(2), FOLLOWED, 20_000_000);
        checker.entered(ReplicaId(0), View(2), REASON, 20_100_000).unwrap();
        checker.ended().unwrap();
        checker.stands(ReplicaId(2), View(2), FOLLOWED, 25_000_000);
        checker.entered(ReplicaId(0), View(3), REASON, 25_100_000).unwrap();
        checker.ended().unwrap_err();
    }
}
