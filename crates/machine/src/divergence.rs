//! What is wrong with a state that is not the group's. A checkpoint's votes give the group's
//! digest, so that the replica fetches the group's state: by then it can be told, through the trees
//! of hashes, which sections differ.

use pentarchy_core::executor::Executor;
use pentarchy_core::snapshot::Snapshot;
use tracing::error;

/// Differing sections that are named.
const NAMED_MAX: usize = 8;

/// The last time that this replica's state differed from the group's.
#[derive(Default)]
pub struct Divergence {
    /// Its state then, until the group's is there.
    mine: Option<Snapshot>,
    /// The sections that differed, as far as they are named.
    sections: Vec<String>,
}

impl Divergence {
    /// This state is not the group's.
    pub fn begin(&mut self, mine: Option<&Snapshot>) {
        self.mine = mine.cloned();
    }

    /// This is the group's, of some slot.
    pub fn compare(&mut self, theirs: &Snapshot) {
        let Some(mine) = self.mine.take_if(|mine| mine.slot <= theirs.slot) else { return };
        if mine.slot < theirs.slot {
            let (slot, fetched) = (mine.slot, theirs.slot);
            error!(%slot, %fetched, "cannot name the sections in which this replica's state \
                differed: the fetched state is of a later slot");
            return;
        }
        if mine.tree.sections() != theirs.tree.sections() {
            return;
        }
        let differing = theirs.tree.changes_since(&mine.tree);
        let names = differing.iter().map(|(section, _)| Executor::section_name(*section));
        self.sections = names.take(NAMED_MAX).collect();
        let (slot, named) = (theirs.slot, self.sections.join(", "));
        let sections = differing.len();
        error!(%slot, sections, named, "these sections of the state differed from the group's");
    }

    /// The sections that differed, of which the first few are named.
    pub fn sections(&self) -> Vec<String> {
        self.sections.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::Slot;
    use pentarchy_core::tree::Tree;

    fn state(slot: u64, sections: [&[u8]; 70]) -> Snapshot {
        Snapshot::new(Slot(slot), Tree::of(Slot(slot), sections.map(<[u8]>::to_vec)))
    }

    #[test]
    fn what_differs_is_named_once_both_states_are_there() {
        let mut sections: [&[u8]; 70] = [b"same"; 70];
        let mine = state(4, sections);
        sections[0] = b"other";
        sections[69] = b"";
        let mut divergence = Divergence::default();
        divergence.compare(&state(4, sections));
        assert!(divergence.sections().is_empty(), "nothing was wrong");
        divergence.begin(Some(&mine));
        divergence.compare(&state(3, sections));
        assert!(divergence.sections().is_empty(), "of another slot");
        divergence.compare(&state(4, sections));
        let expected = [Executor::section_name(0), Executor::section_name(69)];
        assert_eq!(divergence.sections(), expected);
    }
}
