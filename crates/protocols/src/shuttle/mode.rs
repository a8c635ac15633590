//! What differs between Shuttle, its crash mode and plain chain replication.

use pentarchy_core::auth::{Auth, AuthTag, Verifier};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mac_vector::MacVector;
use pentarchy_core::protocol::{FaultModel, Nothing, Value};
use pentarchy_core::quorum::Count;
use pentarchy_core::wire::Wire;

/// Under which faults a chain works, and what that takes.
pub trait Mode: Value + Copy {
    /// The word after `--protocol`.
    const NAME: &'static str;
    /// What faulty replicas may do.
    const FAULT_MODEL: FaultModel;
    /// The shortest chain.
    const GROUP_SIZE: Count;
    /// How replicas say what they ordered.
    const AUTH: Auth;
    /// Whether the tail alone tells clients, who believe it: where nobody lies, what the tail has
    /// all have.
    const TAIL_TELLS: bool;
    /// What convinces all members that somebody ordered a history, whoever passes it on.
    type Tag: Wire + Value;

    /// The tag that came with a message; none where nobody lies.
    fn tag(made: &AuthTag) -> Option<Self::Tag>;

    /// Whether the author made this replica's part of the tag.
    fn is_good(
        verifier: &dyn Verifier,
        author: ReplicaId,
        statement: &Digest,
        tag: &Self::Tag,
    ) -> bool;

    /// How many tags tell of what so many replicas ordered.
    #[must_use]
    fn tags_of(replicas: usize) -> usize {
        if matches!(Self::AUTH, Auth::Vector) { replicas } else { 0 }
    }
}

/// Shuttle with HMACs in the paper's words: faulty replicas may do anything.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Macs;

impl Mode for Macs {
    const NAME: &'static str = "shuttle";
    const FAULT_MODEL: FaultModel = FaultModel::Byzantine;
    const GROUP_SIZE: Count = Count::per_fault_and_one(2);
    const AUTH: Auth = Auth::Vector;
    const TAIL_TELLS: bool = false;
    type Tag = MacVector;

    fn tag(made: &AuthTag) -> Option<MacVector> {
        made.vector().cloned()
    }
    fn is_good(
        verifier: &dyn Verifier,
        author: ReplicaId,
        statement: &Digest,
        tag: &MacVector,
    ) -> bool {
        verifier.vector(author, statement, tag)
    }
}

/// Shuttle with checksums: replicas fail by accident, and nobody lies.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Checksums;

impl Mode for Checksums {
    const NAME: &'static str = "shuttle-crc";
    const FAULT_MODEL: FaultModel = FaultModel::FailStop;
    const GROUP_SIZE: Count = Count::per_fault_and_one(1);
    const AUTH: Auth = Auth::Checksum;
    const TAIL_TELLS: bool = false;
    type Tag = Nothing;

    fn tag(_: &AuthTag) -> Option<Nothing> {
        None
    }
    fn is_good(_: &dyn Verifier, _: ReplicaId, _: &Digest, tag: &Nothing) -> bool {
        match *tag {}
    }
}

/// Chain replication (van Renesse, Schneider, OSDI 2004): replicas stop, and do nothing else.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Trusting;

impl Mode for Trusting {
    const NAME: &'static str = "chain";
    const FAULT_MODEL: FaultModel = FaultModel::FailStop;
    const GROUP_SIZE: Count = Count::per_fault_and_one(1);
    const AUTH: Auth = Auth::Channel;
    const TAIL_TELLS: bool = true;
    type Tag = Nothing;

    fn tag(_: &AuthTag) -> Option<Nothing> {
        None
    }
    fn is_good(_: &dyn Verifier, _: ReplicaId, _: &Digest, tag: &Nothing) -> bool {
        match *tag {}
    }
}
