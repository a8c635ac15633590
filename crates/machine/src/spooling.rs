//! Where what is cut and fetched is put when states are not to be in memory.

use pentarchy_core::executor::Executor;
use pentarchy_core::transfer::Transfer;
use pentarchy_storage::temp_blobs::TempBlobs;
use std::sync::Arc;
use tracing::warn;

/// The files, and how often they have failed as far as that was told.
pub struct Spooling {
    spool: Arc<TempBlobs>,
    failures: u64,
}

impl Spooling {
    /// Has both use them.
    pub fn start(spool: Arc<TempBlobs>, executor: &mut Executor, transfer: &mut Transfer) -> Self {
        executor.set_spool(spool.clone());
        transfer.set_spool(spool.clone());
        Self { spool, failures: 0 }
    }

    /// No state comes into files any more, so nothing that is put there would be given back: what
    /// is cut and fetched from now on stays in memory. Told once.
    pub(crate) fn end(&mut self) {
        if self.spool.end() {
            warn!(
                "states are in memory from now on, as without --cold-state: they cannot be saved \
                 any more; repair the disk, and start this replica again"
            );
        }
    }

    /// Tells of failures: what could not be written is in memory instead, and what cannot be read
    /// is mended when it is to be saved.
    pub(crate) fn look(&mut self) {
        let failures = self.spool.failures();
        if failures > self.failures {
            self.failures = failures;
            warn!(failures, "the files of the folder `spool` cannot be written or read back");
        }
    }
}
