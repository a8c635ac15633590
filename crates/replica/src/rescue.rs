//! The way out of a group that cannot go on: what one survivor has executed, for a new group.
//!
//! A replica gives it away only if more than `f` members have lost their memory, and works no more
//! behind that: what it executed and might have taken back counts as final in what it gives, as
//! clients may have been told of it.

use crate::unit::Unit;
use pentarchy_core::executor::Executor;
use pentarchy_core::snapshot::Snapshot;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// Why a replica gives nothing away.
const NOT_LOST: &str = "the group is not lost: so far as is known here, no more than f members \
    have lost their memory. Take a backup with `pentarchy snapshot save`";

/// Why one that was started anew has nothing.
const FORGETFUL: &str = "this replica is one of those that lost their memory; ask a survivor";

/// What came of a question: the state, or why there is none.
type Answer = Result<Snapshot, String>;

/// Asks a running replica, from any thread. Cheap to clone.
#[derive(Clone, Default)]
pub struct Rescue(Arc<Shared>);

#[derive(Default)]
struct Shared {
    asked: AtomicBool,
    answer: Mutex<Option<Answer>>,
    answered: Condvar,
}

impl Rescue {
    /// What the replica has executed. It may lack what others acknowledged last.
    ///
    /// # Errors
    /// Why there is nothing, in words.
    pub fn ask(&self, limit: Duration) -> Result<Snapshot, String> {
        let Shared { asked, answer, answered } = &*self.0;
        let mut slot = answer.lock().unwrap_or_else(PoisonError::into_inner);
        *slot = None;
        asked.store(true, Ordering::SeqCst);
        let (mut slot, _) = answered
            .wait_timeout_while(slot, limit, |answer| answer.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        slot.take().unwrap_or_else(|| Err("the replica does not answer".to_owned()))
    }

    /// Answers a question, if there is one. True if the state is given away: the replica is to end.
    pub(crate) fn serve(&self, unit: &mut Unit) -> bool {
        let Shared { asked, answer, answered } = &*self.0;
        if !asked.swap(false, Ordering::SeqCst) {
            return false;
        }
        let given = match (unit.others.is_lost(), unit.succession.epochs.is_admitted()) {
            (true, true) => state(&mut unit.executor),
            (true, false) => Err(FORGETFUL.to_owned()),
            (false, _) => Err(NOT_LOST.to_owned()),
        };
        let is_given = given.is_ok();
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
        answered.notify_all();
        is_given
    }
}

/// All that was executed.
fn state(executor: &mut Executor) -> Answer {
    executor.commit(executor.executed(), |_, _| {});
    executor.checkpoint();
    match (executor.failure(), executor.latest()) {
        (None, Some(latest)) => Ok(latest.clone()),
        (failure, _) => Err(failure.unwrap_or_else(|| "there is no state".to_owned())),
    }
}
