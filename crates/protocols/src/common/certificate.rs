//! What certificates are checked with, and the one that every protocol has: proof of a state.
//! Whether a certificate is good depends on its bytes and the membership alone.

use alloc::vec::Vec;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::protocol::{Reject, Value};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// What a certificate is checked with.
#[derive(Clone, Copy)]
pub struct Check<'a> {
    /// Whose statements.
    pub membership: &'a Membership,
    /// By which keys.
    pub verifier: &'a dyn Verifier,
    /// What the statements are bound to.
    pub domain: Domain,
    /// Whether a primary alone opens a view: rules as they were printed, for the museum.
    pub opened_alone: bool,
}

impl<'a> Check<'a> {
    /// Checks against this membership.
    #[must_use]
    pub fn new(membership: &'a Membership, verifier: &'a dyn Verifier) -> Self {
        let domain = membership.domain();
        Self { membership, verifier, domain, opened_alone: false }
    }

    /// Whether a device gave this position to the statement.
    #[must_use]
    pub fn ui(&self, author: ReplicaId, position: Position, statement: &Digest, ui: &Ui) -> bool {
        ui.is_at(self.membership.instance(), position) && self.verifier.usig(author, statement, ui)
    }

    /// Checks that these are distinct members, at least `quorum` of them, and that each passes.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] otherwise.
    pub fn quorum<T>(
        &self,
        entries: &[(ReplicaId, T)],
        quorum: usize,
        mut good: impl FnMut(ReplicaId, &T) -> bool,
    ) -> Result<(), Reject> {
        let mut seen = ReplicaSet::EMPTY;
        let fine = entries.iter().all(|(author, entry)| {
            self.membership.contains(*author) && seen.insert(*author) && good(*author, entry)
        });
        if fine && seen.len() >= quorum { Ok(()) } else { Err(Reject::BadCertificate) }
    }
}

/// What replicas vouch for at a checkpoint: a state, and whatever else their protocol goes on from.
pub trait Vouched: Wire + Value + Copy {
    /// What an epoch begins with.
    fn initial(base: Base) -> Self;
    /// The digest of the state, by which hosts know it.
    fn state(&self) -> Digest;
    /// Adds all of it to what a signature covers.
    fn cover(&self, statement: &mut Hasher);
}

/// Nothing but the state.
impl Vouched for Digest {
    fn initial(base: Base) -> Self {
        base.state
    }
    fn state(&self) -> Digest {
        *self
    }
    fn cover(&self, statement: &mut Hasher) {
        statement.digest(self);
    }
}

/// Signatures over one state at one slot, by as many as the protocol asks for. The state with which
/// the epoch begins needs none.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CheckpointProof<S = Digest> {
    /// The slot.
    pub slot: Slot,
    /// The state after it.
    pub state: S,
    /// Who signed, with what.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl<S: Vouched> CheckpointProof<S> {
    /// The state with which an epoch begins.
    #[must_use]
    pub fn initial(base: Base) -> Self {
        Self { slot: base.slot, state: S::initial(base), signatures: Vec::new() }
    }

    /// Checks that at least `quorum` replicas signed the statement, which is about this slot and
    /// state.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if they did not.
    pub fn validate(
        &self,
        check: Check<'_>,
        statement: &Digest,
        quorum: usize,
    ) -> Result<(), Reject> {
        let base = check.membership.base;
        if self.slot <= base.slot {
            let initial = *self == Self::initial(base);
            return if initial { Ok(()) } else { Err(Reject::BadCertificate) };
        }
        check.quorum(&self.signatures, quorum, |author, signature| {
            check.verifier.signature(author, statement, &signature.0)
        })
    }

    /// Who vouched.
    #[must_use]
    pub fn signers(&self) -> ReplicaSet {
        self.signatures.iter().map(|(author, _)| *author).collect()
    }
}

impl<S: Vouched> Wire for CheckpointProof<S> {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.state.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            slot: Slot::decode(from)?,
            state: S::decode(from)?,
            signatures: from.sequence(REPLICAS_MAX)?,
        })
    }
}
