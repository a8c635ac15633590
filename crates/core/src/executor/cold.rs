//! What of the states that are kept need not be in memory, and what has to come back.

use super::{Executor, OWN_SECTIONS};
use crate::blobs::TempBlobs;
use crate::tree::{Leaf, Tree};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use core::ops::RangeInclusive;

impl Executor {
    /// Has sections be put there when they are cut from now on, and not kept in memory.
    pub fn set_spool(&mut self, spool: Arc<dyn TempBlobs>) {
        self.spool = Some(spool);
    }

    /// Takes what another state has of the sections of those that are kept, wherever it has the
    /// same: one that is in files now, say. No digest changes by that.
    pub fn cool(&mut self, by: &Tree) {
        self.each(|tree| tree.with_content_of(by));
    }

    /// Some of these sections cannot be read from the disk: brings them into memory from the
    /// service and the client table, as far as those still have what is lost. Gives how many.
    pub fn mend(&mut self, sections: RangeInclusive<u32>) -> usize {
        let mut mended: BTreeMap<u32, Arc<Leaf>> = BTreeMap::new();
        for known in self.tree.within(sections).filter(|leaf| leaf.is_cold()) {
            let index = known.section();
            let bytes = match index.checked_sub(OWN_SECTIONS) {
                None if index == 0 => continue,
                None => self.sessions.section(index - 1),
                Some(index) => self.service.section(index),
            };
            let leaf = Leaf::new(index, bytes, known.changed());
            if leaf.digest() == known.digest() {
                mended.insert(index, Arc::new(leaf));
            }
        }
        if !mended.is_empty() {
            self.each(|tree| tree.replaced_with(&mended));
        }
        mended.len()
    }

    fn each(&mut self, change: impl Fn(&Tree) -> Tree) {
        self.tree = change(&self.tree);
        let kept = self.snapshots.iter_mut();
        let mark = self.speculation.iter_mut().map(|it| &mut it.mark);
        kept.chain(mark).for_each(|snapshot| snapshot.tree = change(&snapshot.tree));
    }
}
