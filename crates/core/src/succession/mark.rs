//! Evidence that an epoch certified a state: what its full replicas sign at a checkpoint.
//!
//! A history is named by a chain of hashes, which begins with the state that the epoch begins with:
//! so equal digests mean equal batches in all slots between.

use crate::auth::Signature;
use crate::digest::{Digest, Domain, Hasher};
use crate::ids::ReplicaId;
use crate::limits::REPLICAS_MAX;
use crate::membership::Base;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::vec::Vec;

/// Names the history of an epoch that has ordered nothing on the state with which it begins.
#[must_use]
pub fn empty_history(base: Base) -> Digest {
    Hasher::new("history").u64(base.slot.0).digest(&base.state).finish()
}

/// Names a history that goes on with a batch.
#[must_use]
pub fn longer_history(history: &Digest, batch: &Digest) -> Digest {
    Hasher::new("longer history").digest(history).digest(batch).finish()
}

/// What a full replica signs once all members have ordered so far: its state, and what led to it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Mark {
    /// The state, and the slot after which it is.
    pub base: Base,
    /// Names all that the epoch inherited and ordered up to there.
    pub history: Digest,
}

impl Mark {
    /// What its signature covers, in the epoch of this domain.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("mark").bytes(&self.to_bytes()).finish()
    }
}

impl Wire for Mark {
    fn encode(&self, to: &mut Writer) {
        self.base.encode(to);
        self.history.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { base: Base::decode(from)?, history: Digest::decode(from)? })
    }
}

/// What proves that an epoch certified a state: signatures of its full replicas on the same mark.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct MarkCertificate {
    /// See [`Mark::history`].
    pub history: Digest,
    /// Who signed, with what.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Wire for MarkCertificate {
    fn encode(&self, to: &mut Writer) {
        self.history.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { history: Digest::decode(from)?, signatures: from.sequence(REPLICAS_MAX)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::EpochId;
    use crate::ids::{Epoch, Slot};

    #[test]
    fn a_mark_means_something_in_its_epoch_only() {
        let base = Base { slot: Slot(3), state: Digest([1; 32]) };
        let mark = Mark { base, history: empty_history(base) };
        let domain = |epoch| Domain::new(&EpochId { epoch, ..EpochId::default() });
        assert_ne!(mark.statement(&domain(Epoch(1))), mark.statement(&domain(Epoch(2))));
        let other = Mark { history: longer_history(&mark.history, &Digest([2; 32])), ..mark };
        assert_ne!(mark.statement(&domain(Epoch(1))), other.statement(&domain(Epoch(1))));
    }

    #[test]
    fn a_history_is_named_by_all_that_is_in_it() {
        let base = |slot| Base { slot: Slot(slot), state: Digest([1; 32]) };
        let of = |slot, batches: &[u8]| {
            let next = |history, batch: &u8| longer_history(&history, &Digest([*batch; 32]));
            batches.iter().fold(empty_history(base(slot)), next)
        };
        assert_eq!(of(0, &[1, 2]), of(0, &[1, 2]));
        for other in [of(0, &[1]), of(0, &[2, 1]), of(0, &[1, 2, 3]), of(1, &[1, 2])] {
            assert_ne!(of(0, &[1, 2]), other);
        }
    }

    #[test]
    fn a_certificate_has_one_encoding_and_a_bound() {
        let signatures = |count| (0..count).map(|by| (ReplicaId(by), Signature([7; 64])));
        let of = |count| MarkCertificate {
            history: Digest([1; 32]),
            signatures: signatures(count).collect(),
        };
        let whole = of(64);
        assert_eq!(MarkCertificate::from_bytes(&whole.to_bytes()), Ok(whole));
        assert_eq!(MarkCertificate::from_bytes(&of(65).to_bytes()), Err(Malformed));
    }
}
