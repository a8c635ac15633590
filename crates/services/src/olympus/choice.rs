//! Which histories the next configuration can inherit (the design's rule C-O1).
//!
//! A *conflict-free quorum* is a set of so many reports that one of them is by a correct member.
//! All of them are prefixes of the longest of them, and reach the highest base among them. What is
//! inherited is that base, and the longest of them behind it. It holds all that every correct
//! member had ordered: the correct member in the set has that, and the longest extends it.
//!
//! The longest report of all, which the paper takes, need not have this: a liar can make it.

use super::reports::Reported;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::vec::Vec;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::wedging::History;

/// What names a choice: the end of its history, what names that, and the state of its base.
pub type Key = (Slot, Digest, Slot, Digest);

/// What the next configuration may inherit.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Choice {
    /// A base, and what follows it.
    pub history: History,
    /// Names all of the history.
    pub end: Digest,
    /// Whose reports say so.
    pub by: ReplicaSet,
}

impl Choice {
    /// See [`Key`].
    pub fn key(&self) -> Key {
        let Base { slot, state } = self.history.base;
        (self.history.end(), self.end, slot, state)
    }

    /// The slots of this history that at most `f` reports name, as the first of them and who names
    /// it. Perhaps only faulty members do, and nobody has these batches.
    pub fn doubtful(
        &self,
        reports: &BTreeMap<ReplicaId, Reported>,
        f: usize,
    ) -> Option<(Slot, ReplicaSet)> {
        let own = reports
            .values()
            .find(|it| *it.end() == self.end && it.history.base.slot <= self.history.base.slot)?;
        let slots = self.history.base.slot.0 + 1..=self.history.end().0;
        slots.map(Slot).find_map(|slot| {
            let names = |(_, report): &(&ReplicaId, &Reported)| report.at(slot) == own.at(slot);
            let by: ReplicaSet = reports.iter().filter(names).map(|(id, _)| *id).collect();
            (by.len() <= f).then_some((slot, by))
        })
    }
}

/// All choices from these reports, if so many are needed.
pub fn choices(reports: &BTreeMap<ReplicaId, Reported>, needed: usize) -> Vec<Choice> {
    let needed = if mutant!("olympus.longest-report") { 1 } else { needed };
    let those = |holds: &dyn Fn(&Reported) -> bool| -> ReplicaSet {
        reports.iter().filter(|(_, it)| holds(it)).map(|(id, _)| *id).collect()
    };
    let reach = |base: Slot| {
        those(&|it: &Reported| (it.history.base.slot..=it.history.end()).contains(&base))
    };
    let bases: Vec<_> = reports
        .iter()
        .map(|(id, it)| (*id, it.history.base, reach(it.history.base.slot)))
        .collect();
    let (mut found, mut seen) = (Vec::new(), BTreeSet::new());
    for (id, longest) in reports {
        let prefixes = those(&|it: &Reported| longest.extends(it));
        for (holder, base, reaching) in &bases {
            let by = ReplicaSet(prefixes.0 & reaching.0);
            if by.len() < needed || !by.contains(*id) || !by.contains(*holder) {
                continue;
            }
            let (end, slot) = (longest.history.end(), base.slot);
            if seen.insert((end, *longest.end(), slot, base.state)) {
                let skipped = (slot.0 - longest.history.base.slot.0) as usize;
                let batches = longest.history.batches[skipped..].to_vec();
                let history = History { base: *base, batches };
                found.push(Choice { history, end: *longest.end(), by });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use pentarchy_core::succession::{empty_history, longer_history};

    fn batches(batches: &[u8]) -> Vec<Digest> {
        batches.iter().map(|batch| Digest([*batch; 32])).collect()
    }

    /// A report of these batches, of which the first `certified` are in its base.
    fn report(certified: usize, all: &[u8]) -> Reported {
        let next = |history: Digest, batch: &Digest| longer_history(&history, batch);
        let history = batches(&all[..certified]).iter().fold(empty_history(Base::default()), next);
        let state = if certified == 0 { Digest::default() } else { history };
        let base = Base { slot: Slot(certified as u64), state };
        Reported::new(History { base, batches: batches(&all[certified..]) }, history)
    }

    fn reports(all: Vec<Reported>) -> BTreeMap<ReplicaId, Reported> {
        (0..).map(ReplicaId).zip(all).collect()
    }

    /// The base and the end of each choice, with how many reports say so.
    fn shown(reports: &BTreeMap<ReplicaId, Reported>, needed: usize) -> Vec<(u64, u64, usize)> {
        let show = |it: &Choice| (it.history.base.slot.0, it.history.end().0, it.by.len());
        choices(reports, needed).iter().map(show).collect()
    }

    #[test]
    fn the_longest_report_alone_is_no_choice() {
        let all = reports(vec![report(0, &[1, 2]), report(0, &[1]), report(0, &[9, 9, 9])]);
        assert_eq!(shown(&all, 2), [(0, 2, 2)]);
        assert_eq!(shown(&all, 1), [(0, 2, 2), (0, 1, 1), (0, 3, 1)]);
    }

    #[test]
    fn reports_that_conflict_are_no_quorum() {
        let all = reports(vec![report(0, &[1, 2]), report(0, &[1, 3])]);
        assert!(shown(&all, 2).is_empty());
    }

    #[test]
    fn a_choice_is_a_history_and_a_base() {
        let all = reports(vec![report(0, &[1, 2, 3]), report(2, &[1, 2]), report(0, &[1])]);
        // The last one ends before the higher base, so it does not count together with that.
        assert_eq!(shown(&all, 2), [(0, 3, 2), (2, 3, 2)]);
        assert!(shown(&all, 3).is_empty());
    }

    #[test]
    fn what_differs_before_a_base_is_another_history() {
        let all = reports(vec![report(0, &[9, 2, 3]), report(2, &[1, 2, 3])]);
        assert!(shown(&all, 2).is_empty());
    }

    #[test]
    fn what_few_name_is_in_doubt() {
        let all = reports(vec![report(0, &[1, 2, 3]), report(0, &[1, 2]), report(1, &[1])]);
        let choice = choices(&all, 2).into_iter().find(|it| it.history.base.slot == Slot(0));
        let (slot, by) = choice.unwrap().doubtful(&all, 1).unwrap();
        assert_eq!((slot, by), (Slot(3), ReplicaSet(1)));
        let certain = reports(vec![report(0, &[1, 2]), report(0, &[1, 2])]);
        assert_eq!(choices(&certain, 2)[0].doubtful(&certain, 1), None);
    }
}
