//! What keeps a replica from starting, and what ends it.

use crate::resuming::text;
use pentarchy_core::counter::{Position, Refused};
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::protocol::BadRecord;
use pentarchy_storage::error::StorageError;
use std::fmt;
use std::io;
use std::net::SocketAddr;

/// Why a replica does not start.
#[derive(Debug)]
pub enum StartError {
    /// The membership has no replica of this number.
    NotAMember(ReplicaId),
    /// The key is not the one that the membership names for this replica.
    WrongKey(ReplicaId),
    /// A member's key is no usable public key.
    MemberKey(ReplicaId),
    /// There is not one address for each member.
    Addresses {
        /// Members of the group.
        members: usize,
        /// Addresses given.
        addresses: usize,
    },
    /// The log holds what the protocol's core did not write.
    Record(BadRecord),
    /// The device does not repeat what the log says that it certified.
    Device(Refused),
    /// The service cannot be brought to the newest state in the data folder; what it says of that.
    Service(String),
    /// The newest state in the data folder cannot be restored.
    State(Slot),
    /// The address to listen on cannot be had.
    Listen(Option<SocketAddr>, io::Error),
    /// What else the system says.
    Io(io::Error),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotAMember(id) => write!(f, "the membership has no replica {id}"),
            Self::WrongKey(id) => write!(f, "the key is not the one of {id} in the membership"),
            Self::MemberKey(id) => write!(f, "the key of {id} in the membership is not usable"),
            Self::Addresses { members, addresses } => {
                write!(f, "{addresses} addresses for a group of {members} replicas")
            }
            Self::Record(bad) => write!(f, "{bad}. Start the program that wrote it"),
            Self::Device(refused) => {
                write!(f, "the trusted device does not go on where the log says it was: {refused}")
            }
            Self::Service(failure) => write!(f, "the service cannot be started: {failure}"),
            Self::State(slot) => write!(
                f,
                "the state at {slot} in the data folder is another service's, or of another \
                 version of it: start the program that wrote it, with the same --service"
            ),
            Self::Listen(Some(address), error) => write!(f, "cannot listen on {address}: {error}"),
            Self::Listen(None, error) => write!(f, "cannot listen: {error}"),
            Self::Io(error) => write!(f, "cannot start the replica: {error}"),
        }
    }
}

impl std::error::Error for StartError {}

impl From<io::Error> for StartError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// Why a replica ended. It must not go on: what its core believes to have happened did not.
#[derive(Debug)]
pub enum Fatal {
    /// The trusted counter refused to certify a message.
    Counter(Refused),
    /// A state that a quorum vouches for cannot be installed: the others run another service or
    /// another version of it.
    Install(Slot),
    /// The service cannot go on; what it says of that.
    Service(String),
    /// The disk failed, or the log is full. What was not durable then is not claimed.
    Storage(StorageError),
    /// What it has kept is older than what it has said: the data folder was put back from a copy.
    Rewound {
        /// Who shows a later statement of its device, certified by that.
        peer: ReplicaId,
        /// At this position.
        seen: Position,
        /// The last position that it has kept.
        kept: Position,
    },
    /// The system cannot report readiness.
    Io(io::Error),
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Counter(refused) => write!(f, "cannot authenticate a message: {refused}"),
            Self::Install(slot) => write!(
                f,
                "cannot install the group's state at {slot}: the others run another service"
            ),
            Self::Service(failure) => write!(f, "the service cannot go on: {failure}"),
            Self::Storage(error) => write!(f, "cannot go on without its disk: {error}"),
            Self::Rewound { peer, seen, kept } => write!(
                f,
                "the data folder is older than what this replica has said: {peer} shows its \
                 statement at {}, certified by its device, which is not in the log, whose last is \
                 at {}. The folder was put back from a copy, or its disk lost what it had said was \
                 synced. Nothing was said from it. If the newest folder is still there, start with \
                 that; if not, keep \
                 this one for inspection and start with an empty one: the replica comes back as a \
                 new life, which the group admits",
                text(*seen),
                text(*kept)
            ),
            Self::Io(error) => write!(f, "cannot wait for the sockets: {error}"),
        }
    }
}

impl std::error::Error for Fatal {}

impl From<StorageError> for Fatal {
    fn from(error: StorageError) -> Self {
        Self::Storage(error)
    }
}

impl From<io::Error> for Fatal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
