//! The way out of a group that cannot go on, for other threads: see
//! [`Machine::give_away`](pentarchy_machine::Machine::give_away).

use pentarchy_machine::Rescued;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// What came of a question: the state, or why there is none.
type Answer = Result<Rescued, String>;

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
    /// What the replica has executed. It may lack what others acknowledged last. A state that comes
    /// after the limit is there for the next question.
    ///
    /// # Errors
    /// Why there is nothing, in words.
    pub fn ask(&self, limit: Duration) -> Result<Rescued, String> {
        let Shared { asked, answer, answered } = &*self.0;
        let mut slot = answer.lock().unwrap_or_else(PoisonError::into_inner);
        if !matches!(*slot, Some(Ok(_))) {
            *slot = None;
            asked.store(true, Ordering::SeqCst);
        }
        let (mut slot, _) = answered
            .wait_timeout_while(slot, limit, |answer| answer.is_none())
            .unwrap_or_else(PoisonError::into_inner);
        slot.take().unwrap_or_else(|| Err("the replica does not answer".to_owned()))
    }

    /// Answers a question, if there is one. True if the state is given away: the replica is to work
    /// no more, and to go on answering here until it is stopped.
    pub(crate) fn serve(&self, give: impl FnOnce() -> Answer) -> bool {
        if !self.0.asked.swap(false, Ordering::SeqCst) {
            return false;
        }
        let given = give();
        let is_given = given.is_ok();
        self.give(given);
        is_given
    }

    fn give(&self, given: Answer) {
        let Shared { answer, answered, .. } = &*self.0;
        *answer.lock().unwrap_or_else(PoisonError::into_inner) = Some(given);
        answered.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::Slot;
    use pentarchy_core::snapshot::Snapshot;
    use pentarchy_core::tree::Tree;

    #[test]
    fn a_state_that_comes_too_late_for_one_question_is_there_for_the_next() {
        let rescue = Rescue::default();
        assert!(rescue.ask(Duration::ZERO).is_err());
        let snapshot = Snapshot::new(Slot(7), Tree::new(1));
        rescue.give(Ok(Rescued { snapshot, decided: Slot(5) }));
        let rescued = rescue.ask(Duration::ZERO).expect("it is there");
        assert_eq!((rescued.snapshot.slot, rescued.decided), (Slot(7), Slot(5)));
        // A refusal is not kept: it may not be so any more.
        rescue.give(Err("not lost".to_owned()));
        assert_eq!(rescue.ask(Duration::ZERO).unwrap_err(), "the replica does not answer");
    }
}
