//! What a pillar says of itself, for the replica's thread.

use crate::status::ThreadReport;
use pentarchy_machine::report::Report;
use std::sync::{Arc, Mutex, PoisonError};

/// The last that a pillar said of itself and nobody has looked at. Older ones are
/// lost.
#[derive(Clone, Default)]
pub struct Latest(Arc<Mutex<Option<(Report, ThreadReport)>>>);

impl Latest {
    /// In the place of the one before.
    pub fn set(&self, report: Report, thread: ThreadReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((report, thread));
    }

    /// None if there was none since the last call.
    pub fn take(&self) -> Option<(Report, ThreadReport)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}
