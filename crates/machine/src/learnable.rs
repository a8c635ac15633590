//! States that replicas keep for machines that are to become members.

use pentarchy_core::executor::Executor;
use pentarchy_core::ids::Slot;
use pentarchy_core::limits::{LEARNERS_STATE_MILLIS, LEARNERS_STATES};
use pentarchy_core::membership::Base;
use pentarchy_core::snapshot::{Held, Snapshot};
use std::collections::VecDeque;

/// They are kept for so long because a stable state is soon dropped for the next one: a machine
/// far away would always ask for one that is gone, and find none that `f + 1` replicas have.
#[derive(Default)]
pub struct KeptForLearners(VecDeque<(u64, Snapshot)>);

impl KeptForLearners {
    /// This state is stable. Of all states in a period of agreed time, replicas keep the first: so
    /// they keep the same ones. In the first period in which they look, not all see the same state
    /// first. So there they keep further ones as long as there is room: if the group is idle then,
    /// no other period comes.
    pub fn stable(&mut self, state: &Snapshot) {
        if self.latest().is_some_and(|latest| latest.slot >= state.slot) {
            return;
        }
        let Some(time) = Executor::time_of(state) else { return };
        let period = time.0 / LEARNERS_STATE_MILLIS;
        let is_newer = self.0.back().is_none_or(|(last, _)| period > *last);
        let is_first = self.0.front().is_some_and(|(first, _)| period == *first);
        if is_newer || is_first && self.0.len() < LEARNERS_STATES {
            self.0.push_back((period, state.clone()));
            self.0.drain(..self.0.len().saturating_sub(LEARNERS_STATES));
        }
    }

    /// The slot and the digest of each state that this replica keeps.
    pub fn bases(&self) -> Vec<Base> {
        let base = |(_, state): &(u64, Snapshot)| Base { slot: state.slot, state: state.digest };
        self.0.iter().map(base).collect()
    }
}

impl Held for KeptForLearners {
    fn snapshot(&self, slot: Slot) -> Option<&Snapshot> {
        self.0.iter().map(|(_, state)| state).find(|state| state.slot == slot)
    }
    fn latest(&self) -> Option<&Snapshot> {
        self.0.back().map(|(_, state)| state)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::Millis;
    use pentarchy_core::tree::Tree;
    use pentarchy_core::wire::{Wire as _, Writer};

    fn state(slot: u64, millis: u64) -> Snapshot {
        let mut header = Writer::default();
        Slot(slot).encode(&mut header);
        Millis(millis).encode(&mut header);
        Snapshot::new(Slot(slot), Tree::of(Slot(slot), [header.into_vec()]))
    }

    #[test]
    fn replicas_keep_the_same_states_whenever_they_began() {
        let times = [10, 1_990, 2_000, 2_001, 3_999, 4_400, 9_000, 11_000];
        let states: Vec<_> = (1..).zip(times).map(|(slot, time)| state(slot, time)).collect();
        let kept_from = |first: usize, last: usize| {
            let mut kept = KeptForLearners::default();
            states[first..last].iter().for_each(|state| kept.stable(state));
            kept.bases().iter().map(|base| base.slot.0).collect::<Vec<_>>()
        };
        assert_eq!(kept_from(0, 2), [1, 2]);
        assert_eq!(kept_from(0, 6), [2, 3, 6]);
        assert_eq!(kept_from(0, 8), [6, 7, 8]);
        assert_eq!(kept_from(3, 6), [4, 5, 6], "it did not see the first one of a period");
        assert_eq!(kept_from(3, 8), kept_from(0, 8));
        let mut kept = KeptForLearners::default();
        kept.stable(&states[0]);
        kept.stable(&Snapshot::new(Slot(9), Tree::of(Slot(9), [vec![1]])));
        assert_eq!(kept.snapshot(Slot(1)), Some(&states[0]));
        assert_eq!((kept.snapshot(Slot(2)), kept.snapshot(Slot(9))), (None, None));
    }
}
