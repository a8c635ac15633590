//! Equal slots, equal states: whatever correct replicas compute, vouch for or install. And who has
//! installed a state fetches no earlier one.

use super::{Broken, Verdict};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use std::collections::BTreeMap;

/// The name of the property.
pub const PROPERTY: &str = "checkpoint";

/// How a correct replica came by a state.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// It executed up to there.
    Computed,
    /// It believes that a quorum vouches for it.
    Vouched,
    /// An epoch ends or begins with it.
    Handed,
    /// It was sent the state.
    Installed,
    /// The world compared everyone at the end.
    Final,
}

/// The first digest at each slot.
#[derive(Default)]
pub struct Checkpoints {
    states: BTreeMap<Slot, (Digest, ReplicaId, Source)>,
    stable: Slot,
    /// What each replica has installed last in its life and epoch.
    installed: BTreeMap<ReplicaId, Slot>,
}

impl Checkpoints {
    /// A correct replica has, or believes in, a state.
    ///
    /// # Errors
    /// If another correct replica has another one.
    pub fn state(
        &mut self,
        replica: ReplicaId,
        slot: Slot,
        state: Digest,
        source: Source,
    ) -> Verdict {
        if source == Source::Vouched {
            self.stable = self.stable.max(slot);
        }
        let known = self.states.entry(slot).or_insert((state, replica, source));
        if known.0 == state {
            return Ok(());
        }
        let (first, who, how) = known;
        let detail =
            format!("at {slot} {who} has {first} ({how:?}), {replica} {state} ({source:?})");
        Err(Broken::new(PROPERTY, detail))
    }

    /// A correct replica has installed the state of a slot.
    pub fn installed(&mut self, replica: ReplicaId, slot: Slot) {
        self.installed.insert(replica, slot);
    }

    /// A replica begins another life or epoch, with a state that may be an earlier one.
    pub fn begins(&mut self, replica: ReplicaId) {
        self.installed.remove(&replica);
    }

    /// A correct replica asks others for the state of a slot.
    ///
    /// # Errors
    /// If it has installed a later one.
    pub fn fetches(&self, replica: ReplicaId, slot: Slot) -> Verdict {
        match self.installed.get(&replica) {
            Some(installed) if slot < *installed => {
                let detail = format!("{replica} goes back from the state at {installed} to {slot}");
                Err(Broken::new(PROPERTY, detail))
            }
            _ => Ok(()),
        }
    }

    /// A correct replica says that its own state is wrong.
    ///
    /// # Errors
    /// Always.
    pub fn diverged(&self, replica: ReplicaId, slot: Slot) -> Verdict {
        Err(Broken::new(PROPERTY, format!("{replica} says that its state at {slot} diverged")))
    }

    /// The highest stable checkpoint of any correct replica.
    #[must_use]
    pub const fn stable(&self) -> Slot {
        self.stable
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn different_states_at_one_slot_are_found_however_they_came() {
        let (a, b) = (Digest([1; 32]), Digest([2; 32]));
        let mut checker = Checkpoints::default();
        checker.state(ReplicaId(0), Slot(4), a, Source::Computed).unwrap();
        checker.state(ReplicaId(1), Slot(4), a, Source::Vouched).unwrap();
        checker.state(ReplicaId(1), Slot(8), b, Source::Computed).unwrap();
        for source in [Source::Computed, Source::Vouched, Source::Installed, Source::Final] {
            let broken = checker.state(ReplicaId(2), Slot(4), b, source).unwrap_err();
            assert_eq!(broken.property, PROPERTY);
        }
        assert!(checker.diverged(ReplicaId(2), Slot(4)).is_err());
        assert_eq!(checker.stable(), Slot(4));
    }

    #[test]
    fn who_has_installed_a_state_fetches_no_earlier_one() {
        let mut checker = Checkpoints::default();
        checker.fetches(ReplicaId(1), Slot(4)).unwrap();
        checker.installed(ReplicaId(1), Slot(8));
        checker.fetches(ReplicaId(1), Slot(8)).unwrap();
        checker.fetches(ReplicaId(2), Slot(4)).unwrap();
        assert!(checker.fetches(ReplicaId(1), Slot(4)).is_err());
        checker.begins(ReplicaId(1));
        checker.fetches(ReplicaId(1), Slot(4)).unwrap();
    }
}
