//! What can go wrong, as an application sees it.

use pentarchy_core::ids::ReplicaId;
use std::fmt;
use std::io;

/// Why there is no result for an operation.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum RequestError {
    /// It was executed once, and the result is not kept any more.
    Forgotten,
    /// It was not executed and never will be: there was no result in time, and it was given up
    /// before it ran.
    GivenUp,
    /// Another host uses the same key and has begun with higher numbers: the replicas serve that
    /// one. If the operation was sent it was executed once or never will be; if it was not, it was
    /// not executed. This client asks for nothing more.
    Overtaken,
    /// It was not executed: its number was outside the client's window.
    Refused,
    /// It is larger than [`pentarchy_core::limits::OPERATION_BYTES_MAX`]; nothing was sent.
    TooLarge,
    /// As many operations are outstanding as may be; nothing was sent.
    Full,
    /// The time to wait is over. The operation may still be executed. If it was submitted with a
    /// limit ([`crate::Client::submit_within`]), whatever this client submits from now on is
    /// executed after it, or without it.
    TimedOut,
    /// The replica could not be asked for its status.
    Unreachable,
    /// Whoever submitted it waits no longer; it may still be executed.
    Cancelled,
    /// The replies of this protocol's replicas may be taken back, so that only its own client can
    /// judge them: with a comparator or an extractor, nothing was sent.
    JudgedByProtocol,
    /// The client was shut down. The operation may or may not have been executed.
    Closed,
}

impl fmt::Display for RequestError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forgotten => "executed once, but the result is no longer kept",
            Self::GivenUp => "no result in time; it was not executed and never will be",
            Self::Overtaken => {
                "another process uses this client's key, or this host's clock is behind that of \
                 the one that did; the operation was executed at most once and is not executed \
                 from now on"
            }
            Self::Refused => "not executed: the request number is outside the client's window",
            Self::TooLarge => "not sent: the operation is too large",
            Self::Full => "not sent: too many operations are outstanding",
            Self::TimedOut => "no result in time; the operation may still be executed",
            Self::Unreachable => "the replica cannot be reached",
            Self::Cancelled => "cancelled; the operation may still be executed",
            Self::JudgedByProtocol => {
                "not sent: only this protocol's own client can judge its replies, not a comparator \
                 or an extractor"
            }
            Self::Closed => "the client was shut down; the operation may have been executed",
        })
    }
}

impl std::error::Error for RequestError {}

/// Why a client cannot be started. Replicas that are down are no reason: they are dialled again.
#[derive(Debug)]
pub enum ConnectError {
    /// There is not one address for each member.
    Addresses {
        /// Members of the group.
        members: usize,
        /// Addresses given.
        addresses: usize,
    },
    /// A member's key is no usable public key.
    MemberKey(ReplicaId),
    /// The signer authenticates as another client than the key.
    Signer,
    /// What the system says.
    Io(io::Error),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Addresses { members, addresses } => {
                write!(f, "{addresses} addresses for a group of {members} replicas")
            }
            Self::MemberKey(id) => write!(f, "the key of replica {id} is not a public key"),
            Self::Signer => f.write_str("the signer belongs to another client"),
            Self::Io(error) => write!(f, "cannot start the client: {error}"),
        }
    }
}

impl std::error::Error for ConnectError {}

impl From<io::Error> for ConnectError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}
