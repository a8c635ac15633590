//! Signed WRITEs: what proves to everyone that somebody wrote.

use super::claims::Written;
use super::statements::write_statement;
use crate::common::certificate::Check;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Signed WRITEs of one batch: their authors count as its writers, whatever they show.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct SignedWrites {
    /// The slot.
    pub slot: Slot,
    /// What they wrote.
    pub written: Written,
    /// Distinct authors, at most `f + 1`.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl SignedWrites {
    fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let Written { view, batch } = self.written;
        let statement = write_statement(&check.domain, view, self.slot, &batch);
        let most = check.membership.quorums().weak();
        if self.signatures.is_empty() || self.signatures.len() > most {
            return Err(Reject::OutOfBounds);
        }
        check.quorum(&self.signatures, 1, |author, signature| {
            check.verifier.signature(author, &statement, &signature.0)
        })
    }
}

impl Wire for SignedWrites {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.written.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            slot: Slot::decode(from)?,
            written: Written::decode(from)?,
            signatures: from.sequence(REPLICAS_MAX)?,
        })
    }
}

/// Checks proofs, of which there is one for a slot at most, in their order.
///
/// # Errors
/// The first thing that is wrong.
pub fn validate_proofs(proofs: &[SignedWrites], check: Check<'_>) -> Result<(), Reject> {
    if !proofs.is_sorted_by(|a, b| a.slot < b.slot) {
        return Err(Reject::OutOfBounds);
    }
    proofs.iter().try_for_each(|proof| proof.validate(check))
}
