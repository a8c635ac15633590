//! How much of all connections may be under way at a time.

use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Results of up to so many bytes count as commands only: as many as may be under way at all are
/// no burden, and no reader of large values holds them up.
const SMALL_BYTES: usize = 2 << 10;

/// What all commands under way take their shares of.
#[derive(Debug)]
pub(crate) struct Budget {
    commands: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    bytes_max: usize,
}

/// A command's share, given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Share {
    _command: OwnedSemaphorePermit,
    _bytes: Option<OwnedSemaphorePermit>,
}

impl Budget {
    /// For so many commands and bytes of results.
    pub fn new(commands: usize, bytes: usize) -> Self {
        let bytes_max = bytes.min(Semaphore::MAX_PERMITS);
        Self {
            commands: Arc::new(Semaphore::new(commands.min(Semaphore::MAX_PERMITS))),
            bytes: Arc::new(Semaphore::new(bytes_max)),
            bytes_max,
        }
    }

    /// A share for a result of so many bytes, if there is one now.
    pub fn try_take(&self, bytes: usize) -> Option<Share> {
        let bytes = match self.counted(bytes) {
            0 => None,
            bytes => Some(self.bytes.clone().try_acquire_many_owned(bytes).ok()?),
        };
        let command = self.commands.clone().try_acquire_owned().ok()?;
        Some(Share { _command: command, _bytes: bytes })
    }

    /// Waits for a share for a result of so many bytes, in the order of those who ask.
    pub async fn take(&self, bytes: usize) -> Option<Share> {
        let bytes = match self.counted(bytes) {
            0 => None,
            bytes => Some(self.bytes.clone().acquire_many_owned(bytes).await.ok()?),
        };
        let command = self.commands.clone().acquire_owned().await.ok()?;
        Some(Share { _command: command, _bytes: bytes })
    }

    /// How many more commands may be under way.
    pub fn commands_left(&self) -> usize {
        self.commands.available_permits()
    }

    fn counted(&self, bytes: usize) -> u32 {
        let counted = if bytes > SMALL_BYTES { bytes.min(self.bytes_max) } else { 0 };
        u32::try_from(counted).unwrap_or(u32::MAX)
    }
}
