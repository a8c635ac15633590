//! The way out of a group that cannot go on: what one survivor has executed, for a new group.
//!
//! A replica gives it away only if more than `f` members have lost their memory, and works no more
//! behind that: what it executed and might have taken back counts as final in what it gives, as
//! clients may have been told of it. It keeps what it gave, and gives it again, until it is
//! stopped: what it gave has still to be written down, and there may be no other copy.

use crate::machine::Machine;
use crate::store::Disk;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::Slot;
use pentarchy_core::snapshot::Snapshot;

/// Why a replica gives nothing away.
const NOT_LOST: &str = "the group is not lost: so far as is known here, no more than f members \
    have lost their memory. Take a backup with `pentarchy snapshot save`";

/// Why one that has only just joined has nothing.
const STATELESS: &str = "this replica has not fetched the state with which its epoch begins; ask \
                         another survivor";

/// Why one that was started anew has nothing.
const FORGETFUL: &str = "this replica is one of those that lost their memory; ask a survivor";

/// What a survivor has.
#[derive(Clone, Debug)]
pub struct Rescued {
    /// All that it has executed.
    pub snapshot: Snapshot,
    /// The last slot that it knew to be decided. What it executed behind that it speculated.
    pub decided: Slot,
}

impl<D: Disk> Machine<'_, D> {
    /// All that was executed, for a new group. If it is given away, the replica is to work no more,
    /// and to go on giving it until it is stopped.
    ///
    /// # Errors
    /// Why there is nothing, in words.
    pub fn give_away(&mut self) -> Result<Rescued, String> {
        match (self.others.is_lost(), self.epoch_manager.epochs.is_admitted()) {
            (true, true) if self.executor.executed() < self.membership().base.slot => {
                Err(STATELESS.to_owned())
            }
            (true, true) => state(&mut self.executor),
            (true, false) => Err(FORGETFUL.to_owned()),
            (false, _) => Err(NOT_LOST.to_owned()),
        }
    }
}

/// All that was executed.
fn state(executor: &mut Executor) -> Result<Rescued, String> {
    let decided = executor.committed();
    executor.commit(executor.executed(), |_, _| {});
    executor.checkpoint();
    match (executor.failure(), executor.latest()) {
        (None, Some(latest)) => Ok(Rescued { snapshot: latest.clone(), decided }),
        (failure, _) => Err(failure.unwrap_or_else(|| "there is no state".to_owned())),
    }
}
