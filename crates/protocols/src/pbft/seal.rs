//! By what votes and view changes convince third parties: a signature, or a trusted MAC. Either
//! says whose a statement is, to everyone who has to know; neither says that its author said
//! nothing else. That is all that PBFT asks of it, so one code serves both.

use crate::common::certificate::Check;
use pentarchy_core::auth::{Auth, AuthTag, Signature};
use pentarchy_core::counter::{Instance, TrustedMac};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::Hand;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Value;
use pentarchy_core::quorum::Quorums;
use pentarchy_core::wire::Wire;

/// By what votes and view changes convince third parties.
pub trait Seal: Wire + Value + Copy {
    /// What hosts are asked for.
    const AUTH: Auth;
    /// Whether those of all replicas are checked with one key.
    const ONE_KEY: bool;

    /// The one by which a message convinced.
    fn of(tag: &AuthTag) -> Option<Self>;

    /// Whether this replica made it for the statement.
    fn is_good(&self, check: &Check<'_>, author: ReplicaId, statement: &Digest) -> bool;

    /// A liar's own; none if its device refuses.
    fn made(hand: &mut dyn Hand, instance: Instance, statement: &Digest) -> Option<Self>;

    /// So many votes make a certificate, and so many members a NEW-VIEW.
    #[must_use]
    fn quorum(quorums: Quorums) -> usize {
        quorums.byzantine_quorum()
    }
}

impl Seal for Signature {
    const AUTH: Auth = Auth::Signature;
    const ONE_KEY: bool = false;

    fn of(tag: &AuthTag) -> Option<Self> {
        tag.signature().copied().map(Self)
    }

    fn is_good(&self, check: &Check<'_>, author: ReplicaId, statement: &Digest) -> bool {
        check.verifier.signature(author, statement, &self.0)
    }

    fn made(hand: &mut dyn Hand, _: Instance, statement: &Digest) -> Option<Self> {
        Some(Self(hand.sign(statement)))
    }
}

/// By the instance of the replica's own pillar.
impl Seal for TrustedMac {
    const AUTH: Auth = Auth::Mac(Instance::FIRST);
    const ONE_KEY: bool = true;

    fn of(tag: &AuthTag) -> Option<Self> {
        tag.mac().copied()
    }

    fn is_good(&self, check: &Check<'_>, author: ReplicaId, statement: &Digest) -> bool {
        let by = |id| check.verifier.mac((id, check.membership.instance()), statement, self);
        by(author) || mutant!("hybrid-pbft.mac-of-anyone") && check.membership.ids().any(by)
    }

    fn made(hand: &mut dyn Hand, instance: Instance, statement: &Digest) -> Option<Self> {
        hand.mac(instance, statement).ok()
    }

    fn quorum(quorums: Quorums) -> usize {
        let unique = mutant!("hybrid-pbft.mac-taken-for-unique");
        if unique { quorums.weak() } else { quorums.byzantine_quorum() }
    }
}
