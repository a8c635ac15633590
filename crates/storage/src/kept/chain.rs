//! Which states rest on which: one that is in the log rests on the one before it, down to one that
//! is in files. So the log is cut, and files are removed, below that only.

use super::delta::{self, Delta, base_of};
use bytes::Bytes;
use pentarchy_core::ids::Slot;
use pentarchy_core::mutant;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::wire::Wire as _;
use std::collections::VecDeque;

/// A state in files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Root {
    /// Its slot.
    pub slot: Slot,
    /// States that rest on it are in the log from this entry on.
    pub behind: u64,
}

/// The states that are durable.
#[derive(Default)]
pub struct Chain {
    /// Oldest first.
    roots: VecDeque<Root>,
    /// Entry and slot of each state that is in the log, oldest first.
    deltas: VecDeque<(u64, Slot)>,
}

impl Chain {
    /// A state is in files. Those before it that are not older were wrong.
    pub fn add_root(&mut self, root: Root) {
        self.roots.retain(|other| other.slot < root.slot);
        self.roots.push_back(root);
        self.deltas.retain(|(number, slot)| *number >= root.behind || *slot < root.slot);
    }

    /// A state is in the log.
    pub fn add_delta(&mut self, number: u64, slot: Slot) {
        self.deltas.push_back((number, slot));
    }

    /// The slot of the newest state.
    pub fn newest(&self) -> Option<Slot> {
        let root = self.roots.back().map(|root| root.slot);
        root.max(self.deltas.back().map(|(_, slot)| *slot))
    }

    fn root_of(&self, slot: Slot) -> Option<usize> {
        self.roots.iter().rposition(|root| root.slot <= slot)
    }

    /// A state is stable, and what only those need that are older than the one that was stable
    /// before it may go. If both rest on the same files, those before stay too, in case these get
    /// damaged. Gives the slot below which files may go, and the entry below which states in the
    /// log may.
    pub fn forget(&mut self, stable: Slot, before: Slot) -> Option<(Slot, u64)> {
        let other = self.root_of(stable)?.saturating_sub(1);
        Some(self.forget_below(self.root_of(before)?.min(other)))
    }

    /// The same, but nothing stays in case something gets damaged. The group's first state is in no
    /// files.
    pub fn forget_all(&mut self, stable: Slot) -> Option<(Slot, u64)> {
        match self.root_of(stable) {
            Some(root) => Some(self.forget_below(root)),
            None => (stable == Slot(0)).then(|| (stable, self.first_delta())),
        }
    }

    fn forget_below(&mut self, root: usize) -> (Slot, u64) {
        self.roots.drain(..root);
        let oldest = self.roots[0].slot;
        let superfluous = self.deltas.iter().take_while(|(_, slot)| *slot <= oldest).count();
        self.deltas.drain(..superfluous);
        (oldest, self.first_delta())
    }

    fn first_delta(&self) -> u64 {
        self.deltas.front().map_or(u64::MAX, |(number, _)| *number)
    }
}

/// A state in the log, as it is read there: its entry, and its encoding.
pub type Read = (u64, Bytes);

/// All states that can be had of files, each with the entry behind which it was saved, and of the
/// log: oldest first. What rests on a state that cannot be had is left out.
pub fn assemble(mut files: Vec<(u64, Snapshot)>, deltas: &[Read]) -> Vec<Snapshot> {
    files.sort_by_key(|(behind, snapshot)| (*behind, snapshot.slot));
    let mut files = files.into_iter().peekable();
    let mut states: Vec<Snapshot> = Vec::new();
    let put = |states: &mut Vec<Snapshot>, state: Snapshot| {
        let stay = mutant!("kept.wrong-states-come-back");
        states.retain(|other| stay || other.slot < state.slot);
        states.push(state);
    };
    for (number, encoded) in deltas {
        while let Some((_, file)) = files.next_if(|(behind, _)| behind <= number) {
            put(&mut states, file);
        }
        let Ok((base, _)) = delta::heads(encoded) else { continue };
        if mutant!("kept.log-states-not-read") {
            continue;
        }
        let Some(old) = states.iter().rfind(|state| base_of(state) == base) else { continue };
        let new = Delta::from_bytes(encoded).ok().and_then(|delta| delta.apply(old));
        if let Some(new) = new {
            put(&mut states, new);
        }
    }
    files.for_each(|(_, file)| put(&mut states, file));
    states
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::tree::Tree;

    fn state(slot: u64, content: u8) -> Snapshot {
        Snapshot::new(Slot(slot), Tree::of(Slot(slot), [vec![content], vec![7; 9]]))
    }

    fn delta(number: u64, old: &Snapshot, new: &Snapshot) -> Read {
        (number, Delta::between(old, new, 1000).expect("it is small").to_bytes())
    }

    fn root(slot: u64, behind: u64) -> Root {
        Root { slot: Slot(slot), behind }
    }

    #[test]
    fn whoever_rests_on_files_keeps_them_and_those_before() {
        let mut chain = Chain::default();
        assert_eq!(chain.forget(Slot(1), Slot(0)), None, "nothing is durable");
        chain.add_root(root(1, 10));
        for slot in 2..=4 {
            chain.add_delta(10 * slot, Slot(slot));
            assert_eq!(chain.forget(Slot(slot), Slot(slot - 1)), Some((Slot(1), 20)));
        }
        // The state of slot 3 was written into files too.
        chain.add_root(root(3, 31));
        assert_eq!(chain.newest(), Some(Slot(4)));
        assert_eq!(chain.forget(Slot(4), Slot(3)), Some((Slot(1), 20)));
        chain.add_root(root(5, 50));
        assert_eq!(chain.forget(Slot(5), Slot(4)), Some((Slot(3), 40)));
        assert_eq!(chain.forget_all(Slot(5)), Some((Slot(5), u64::MAX)));
    }

    #[test]
    fn states_that_turned_out_to_be_wrong_do_not_come_back() {
        let (first, right) = (state(1, 1), state(2, 2));
        let (wrong, later) = (state(2, 9), state(3, 9));
        let deltas = [delta(5, &first, &wrong), delta(6, &wrong, &later)];
        let begun = (1, first.clone());
        let states = assemble(vec![begun.clone()], &deltas);
        assert_eq!(states, [first.clone(), wrong, later]);
        let back = (7, right.clone());
        let newer = state(3, 3);
        let more = [&deltas[..], &[delta(7, &right, &newer)]].concat();
        let states = assemble(vec![begun.clone(), back], &more);
        assert_eq!(states, [first.clone(), right, newer]);
        // Without the files on which it rests.
        assert_eq!(assemble(vec![begun], &more[2..]), [first]);
    }
}
