//! The digest of a state that is read section by section and never held as a whole: what
//! [`Tree::digest`] gives, from the digests of the sections in order.

use pentarchy_core::digest::Digest;
use pentarchy_core::tree::{CHILDREN, Inner, Place, Tree};

/// A node of which some children are known: at most 16.
#[derive(Clone, Default)]
struct Level {
    present: u16,
    children: Vec<Digest>,
    /// Sections below.
    leaves: u32,
}

impl Level {
    fn add(&mut self, number: usize, digest: Digest, leaves: u32) {
        self.present |= 1 << number;
        self.children.push(digest);
        self.leaves += leaves;
    }

    /// What stands for it in the node above: a section that is alone here stands for itself.
    fn digest(&self) -> Digest {
        match self.leaves {
            1 => self.children[0],
            _ => Inner::digest_of(self.present, self.children.iter().copied()),
        }
    }
}

/// Takes the sections of a state that are not empty, in order.
pub struct Summing {
    sections: u32,
    /// From the nodes right above the sections to the top.
    levels: Vec<Level>,
    last: Option<u32>,
}

impl Summing {
    /// Of a state with so many sections, the empty ones included.
    #[must_use]
    pub fn new(sections: u32) -> Self {
        let height = usize::from(Place::top(sections).height);
        Self { sections, levels: vec![Level::default(); height], last: None }
    }

    /// The next section and its digest. False if it does not come behind the last one.
    #[must_use]
    pub fn add(&mut self, section: u32, digest: Digest) -> bool {
        if section >= self.sections || self.last.is_some_and(|last| section <= last) {
            return false;
        }
        if let Some(last) = self.last.replace(section) {
            self.close(last, Some(section));
        }
        self.levels[0].add(section as usize % CHILDREN, digest, 1);
        true
    }

    /// Closes the nodes above a section that have nothing of the next one, from below.
    fn close(&mut self, last: u32, next: Option<u32>) {
        for height in 1..self.levels.len() {
            let number = above(last, height);
            if next.is_some_and(|next| above(next, height) == number) {
                return;
            }
            let level = std::mem::take(&mut self.levels[height - 1]);
            self.levels[height].add(number % CHILDREN, level.digest(), level.leaves);
        }
    }

    /// Sections so far that are not empty, and the digest of the state that has no others.
    #[must_use]
    pub fn finish(mut self) -> (u32, Digest) {
        let (mut leaves, mut top) = (0, Digest::default());
        if let Some(last) = self.last {
            self.close(last, None);
            let level = self.levels.last().expect("a tree has a top");
            (leaves, top) = (level.leaves, level.digest());
        }
        (leaves, Tree::digest_of(self.sections, leaves, top))
    }
}

/// The number of the node that is so many steps above a section, among those of its height.
const fn above(section: u32, height: usize) -> usize {
    section as usize / CHILDREN.pow(height as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::Bytes;
    use pentarchy_core::ids::Slot;
    use pentarchy_core::tree::Leaf;
    use std::sync::Arc;

    #[test]
    fn the_sum_of_the_sections_is_the_digest_of_the_tree() {
        let slot = Slot(1);
        let cases: [(u32, &[u32]); 9] = [
            (0, &[]),
            (1, &[]),
            (1, &[0]),
            (16, &[3]),
            (17, &[0, 16]),
            (5000, &[0, 1, 2, 15, 16, 17, 255, 256, 4095, 4096, 4999]),
            (1 << 24, &[77]),
            (1 << 24, &[5, 6, 1 << 20, (1 << 20) + 17, (1 << 24) - 1]),
            (u32::MAX, &[0, 1 << 31, u32::MAX - 1]),
        ];
        for (sections, there) in cases {
            let leaf = |at: &u32| Leaf::small(*at, Bytes::from(vec![*at as u8; 9]), slot);
            let mut summing = Summing::new(sections);
            assert!(there.iter().all(|at| summing.add(*at, leaf(at).digest())));
            let changes: Vec<_> = there.iter().map(|at| (*at, Some(Arc::new(leaf(at))))).collect();
            let tree = Tree::new(sections).changed(&changes, slot);
            assert_eq!(summing.finish(), (tree.leaves(), tree.digest()), "{there:?}");
        }
        let mut summing = Summing::new(8);
        assert!(summing.add(3, Digest::default()) && !summing.add(3, Digest::default()));
        assert!(!summing.add(8, Digest::default()));
    }
}
