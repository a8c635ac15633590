//! By what view changes convince third parties, and votes where those have to: a signature, a
//! trusted MAC, or a checksum where nobody lies. Each says whose a statement is, to everyone who
//! has to know; none says that its author said nothing else. So one code serves all.

use super::certificate::Check;
use pentarchy_core::auth::{Auth, AuthTag, Checksum, Signature};
use pentarchy_core::counter::{Instance, TrustedMac};
use pentarchy_core::digest::Digest;
use pentarchy_core::forge::Hand;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Value;
use pentarchy_core::wire::Wire;

/// By what messages convince third parties.
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
        check.verifier.mac((author, check.membership.instance()), statement, self)
    }

    fn made(hand: &mut dyn Hand, instance: Instance, statement: &Digest) -> Option<Self> {
        hand.mac(instance, statement).ok()
    }
}

/// Nobody lies: only an accident could have changed what is passed on.
impl Seal for Checksum {
    const AUTH: Auth = Auth::Checksum;
    const ONE_KEY: bool = false;

    fn of(tag: &AuthTag) -> Option<Self> {
        match tag {
            AuthTag::Checksum(sum) => Some(*sum),
            _ => None,
        }
    }

    fn is_good(&self, _: &Check<'_>, _: ReplicaId, statement: &Digest) -> bool {
        *self == Self::of(statement)
    }

    fn made(_: &mut dyn Hand, _: Instance, statement: &Digest) -> Option<Self> {
        Some(Self::of(statement))
    }
}
