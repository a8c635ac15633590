//! Why a replica must not go on.

use pentarchy_core::counter::{Position, Refused};
use pentarchy_core::ids::{Epoch, MemberId, Slot};
use pentarchy_storage::error::StorageError;
use std::fmt;

/// Why a replica ended. It must not go on: what its core believes to have happened did not.
#[derive(Debug)]
pub enum Halt {
    /// The trusted counter refused to certify a message.
    Counter(Refused),
    /// A state that a quorum vouches for cannot be installed: the others run another service or
    /// another version of it.
    Install(Slot),
    /// The service cannot go on; what it says of that.
    Service(String),
    /// The disk failed, or the log is full. What was not durable then is not claimed.
    Storage(StorageError),
    /// The group goes on without this replica from this epoch on.
    Removed(Epoch),
    /// What it has kept is older than what it has said: the data folder was put back from a copy.
    Rewound {
        /// The peer that shows a later statement of its device, certified by that.
        peer: MemberId,
        /// At this position.
        seen: Position,
        /// The last position that it has kept.
        kept: Position,
    },
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter(refused) => write!(f, "cannot authenticate a message: {refused}"),
            Self::Install(slot) => write!(
                f,
                "cannot install the group's state at {slot}: the others run another service"
            ),
            Self::Service(failure) => write!(f, "the service failed: {failure}"),
            Self::Storage(error) => write!(f, "the disk failed, and the replica stops: {error}"),
            Self::Removed(epoch) => {
                write!(f, "the group goes on without this replica from epoch {} on", epoch.0)
            }
            Self::Rewound { peer, seen, kept } => write!(
                f,
                "the data folder is out of date: {peer} has a message that this replica's device \
                 certified at {}, and the log in the folder ends at {}. The folder was put back \
                 from a copy, or the disk lost data that it had reported as synced. This replica \
                 has sent nothing from the folder. If the newest folder is still there, start with \
                 that; if not, keep this one for inspection and start with an empty one: the \
                 replica comes back as a new incarnation, which the group admits",
                text(*seen),
                text(*kept)
            ),
        }
    }
}

impl std::error::Error for Halt {}

impl From<StorageError> for Halt {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

/// A position, for people.
fn text(position: Position) -> String {
    format!("{}:{}", position.view.0, position.index)
}
