//! What each node of a group with real keys was counted to do.

use pentarchy_costs::{Job, Node, Probe};
use pentarchy_crypto::costs::costs;
use pentarchy_io::costs::frames;
use std::collections::BTreeMap;

/// What one node did.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Spent {
    pub signatures_made: u64,
    pub signatures_verified: u64,
    pub macs: u64,
    pub usigs_created: u64,
    pub usigs_verified: u64,
    pub hashes: u64,
    pub frames_sealed: u64,
    pub frames_opened: u64,
}

/// Adds up what the process counts while a node works. The counts are the process's, so only one
/// group may work at a time.
#[derive(Default)]
pub struct Ledger(pub BTreeMap<Node, Spent>, bool);

impl Probe for Ledger {
    fn around(&mut self, node: Node, _: &'static str, work: Job<'_>) {
        // A piece of this node's work within another one is counted there.
        if std::mem::replace(&mut self.1, true) {
            return work(self);
        }
        let (before, frames_before) = (costs(), frames());
        work(self);
        self.1 = false;
        let (since, after) = (costs().since(&before), frames());
        let spent = self.0.entry(node).or_default();
        spent.signatures_made += since.signatures_made;
        spent.signatures_verified += since.signatures_verified;
        spent.macs += since.macs_made + since.macs_verified;
        spent.usigs_created += since.usigs_created;
        spent.usigs_verified += since.usigs_verified;
        spent.hashes += since.hashes;
        spent.frames_sealed += after.sealed - frames_before.sealed;
        spent.frames_opened += after.opened - frames_before.opened;
    }
}
