//! The way out of a group that cannot go on, for other threads: see
//! [`Machine::give_away`](pentarchy_machine::Machine::give_away).

use pentarchy_core::snapshot::Snapshot;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

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
    pub(crate) fn serve(&self, give: impl FnOnce() -> Answer) -> bool {
        let Shared { asked, answer, answered } = &*self.0;
        if !asked.swap(false, Ordering::SeqCst) {
            return false;
        }
        let given = give();
        let is_given = given.is_ok();
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
        answered.notify_all();
        is_given
    }
}
