//! What keeps a replica from starting, and what ends it.

use pentarchy_core::ids::{MemberId, ReplicaId};
use pentarchy_machine::{BeginError, Halt};
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
    /// The group goes on without this member.
    Removed(MemberId),
    /// A member's key is no usable public key.
    MemberKey(MemberId),
    /// There is not one address for each member.
    Addresses {
        /// Members of the group.
        members: usize,
        /// Addresses given.
        addresses: usize,
    },
    /// It cannot begin with what it is started with, or with what is in its data folder.
    Begin(BeginError),
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
            Self::Removed(id) => write!(f, "the group goes on without member {id}"),
            Self::MemberKey(id) => write!(f, "the key of {id} in the membership is not usable"),
            Self::Addresses { members, addresses } => {
                write!(f, "{addresses} addresses for a group of {members} replicas")
            }
            Self::Begin(error) => write!(f, "{error}"),
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

impl From<BeginError> for StartError {
    fn from(error: BeginError) -> Self {
        Self::Begin(error)
    }
}

/// Why a replica ended. It must not go on.
#[derive(Debug)]
pub enum Fatal {
    /// What its core believes to have happened did not, or it must not say what it would.
    Halt(Halt),
    /// The system cannot report readiness.
    Io(io::Error),
}

impl fmt::Display for Fatal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Halt(halt) => write!(f, "{halt}"),
            Self::Io(error) => write!(f, "cannot wait for the sockets: {error}"),
        }
    }
}

impl std::error::Error for Fatal {}

impl Fatal {
    /// Whether nothing failed: the group goes on without this replica, and its work is done.
    #[must_use]
    pub const fn is_removal(&self) -> bool {
        matches!(self, Self::Halt(Halt::Removed(_)))
    }
}

impl From<Halt> for Fatal {
    fn from(halt: Halt) -> Self {
        Self::Halt(halt)
    }
}

impl From<io::Error> for Fatal {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::ids::{Epoch, Slot};

    #[test]
    fn only_a_removal_is_no_failure() {
        let removed = Fatal::from(Halt::Removed(Epoch(3)));
        assert!(removed.is_removal());
        let text = "the group goes on without this replica from epoch 3 on";
        assert_eq!(removed.to_string(), text);
        let failures = [Halt::Install(Slot(3)).into(), io::Error::other("a socket").into()];
        assert!(failures.iter().all(|failure: &Fatal| !failure.is_removal()));
    }
}
