//! *Retirement.* A correct member that has left the group has no key any more by which it signed,
//! and one that stays none of an earlier configuration: whoever finds the disks of `f + 1` members
//! of a configuration that is over can prove nothing by them, although nobody counts these among
//! the faulty any more. But a member that goes on with its disk has the key of the configuration in
//! which it does: else a group that lost power could have nobody who shows how one ended.

use super::{Broken, Verdict};
use pentarchy_core::ids::{Epoch, ReplicaId};

/// A correct replica has ended because the group goes on without it, and has so many keys left.
///
/// # Errors
/// If it has any.
pub fn left(replica: ReplicaId, keys: usize) -> Verdict {
    none(keys, || format!("{replica} left the group and kept {keys} signing keys"))
}

/// A correct replica stays at the end of a run, and has so many keys of earlier configurations.
///
/// # Errors
/// If it has any.
pub fn stays(replica: ReplicaId, former: usize) -> Verdict {
    none(former, || format!("{replica} kept {former} signing keys of earlier configurations"))
}

/// A correct replica goes on from its disk, and has the key of its configuration or not.
///
/// # Errors
/// If it has not.
pub fn goes_on(replica: ReplicaId, epoch: Epoch, has_key: bool) -> Verdict {
    let lacks = usize::from(!has_key);
    none(lacks, || format!("{replica} goes on in {epoch}, and has erased its key of that"))
}

fn none(keys: usize, detail: impl FnOnce() -> String) -> Verdict {
    match keys {
        0 => Ok(()),
        _ => Err(Broken { property: "retirement", detail: detail() }),
    }
}
