//! How other threads see a replica. Who wants to know asks, and the replica leaves a report behind
//! at the end of its next round; while nobody asks, a round pays for one look at a number.

use crate::status::StatusReport;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

/// A window on a running replica. Cheap to clone.
#[derive(Clone, Default)]
pub struct Watch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    /// Questions so far.
    asked: AtomicU64,
    last: Mutex<Answer>,
    answered: Condvar,
}

/// A report, and how many questions had been asked before the round began that it tells of.
#[derive(Default)]
struct Answer {
    asked: u64,
    report: Option<Arc<StatusReport>>,
}

impl Watch {
    /// What the replica says of itself after a round that begins from now on; none if there is no
    /// such round within `limit`, so that what was true before a stall is never told as news.
    #[must_use]
    pub fn ask(&self, limit: Duration) -> Option<Arc<StatusReport>> {
        let Shared { asked, last, answered } = &*self.0;
        let mine = asked.fetch_add(1, Ordering::SeqCst) + 1;
        let last = last.lock().unwrap_or_else(PoisonError::into_inner);
        let is_old = |answer: &mut Answer| answer.asked < mine;
        let (last, _) = answered
            .wait_timeout_while(last, limit, is_old)
            .unwrap_or_else(PoisonError::into_inner);
        last.report.clone().filter(|_| last.asked >= mine)
    }

    /// Questions so far.
    pub(crate) fn asked(&self) -> u64 {
        self.0.asked.load(Ordering::SeqCst)
    }

    /// Answers so many questions.
    pub(crate) fn answer(&self, asked: u64, report: StatusReport) {
        let Shared { last, answered, .. } = &*self.0;
        let report = Some(Arc::new(report));
        *last.lock().unwrap_or_else(PoisonError::into_inner) = Answer { asked, report };
        answered.notify_all();
    }
}
