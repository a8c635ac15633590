//! What waits for the disk, and what is not done meanwhile.

use crate::workload::identity;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaSet, Slot};
use pentarchy_core::ports::replica::Output;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Tree;
use pentarchy_sim::disk::{Faults, SimDisk};
use pentarchy_sim::world::membership;
use pentarchy_storage::kept::{Certificates, DurableStore, Job, Kept, Stepped, Then};
use std::sync::Arc;

/// Until a state that was installed is saved, the core does not hear of it. If another one could be
/// fetched meanwhile, saving might never be done with the newest, and the core never hear of any.
#[test]
fn no_state_is_fetched_while_one_is_being_saved() {
    let disk = SimDisk::new(7, Faults::default());
    let first = Arc::new(membership(1, 3, 1));
    let options = crate::workload::options(7);
    let kept = Kept::create(&mut *disk.root(), identity(), first, options).unwrap();
    let mut keeper = DurableStore::new(Stepped::new(kept), None, Certificates::default());
    let (slot, state, from) = (Slot(64), Digest::of(b"newer"), ReplicaSet::EMPTY);
    let fetch = Output::Fetch { slot, state, from };
    let stable = Output::Stable { slot, state };
    assert!(!keeper.drops(&fetch));

    let slot = Slot(32);
    let installed = Snapshot::new(slot, Tree::of(slot, [vec![1]]));
    keeper.save(&installed, Then::Installed { slot }).unwrap();
    assert_eq!(keeper.next_saved().unwrap(), None);
    assert!(keeper.drops(&fetch) && keeper.drops(&Output::Checkpoint { slot }));
    assert!(!keeper.drops(&stable));

    while Job::ALL.into_iter().any(|job| keeper.backing_mut().begin(job)) {
        for job in Job::ALL {
            keeper.backing_mut().end(job).unwrap();
        }
    }
    assert_eq!(keeper.next_saved().unwrap(), Some(Then::Installed { slot }));
    assert!(!keeper.drops(&fetch));
}
