//! What members had ordered when they stopped: which reports count, and what they have in common.

use super::signatures::CheckSignatures;
use super::terms::{full_members, history_max};
use alloc::vec::Vec;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaSet, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::succession::{Mark, MarkCertificate, empty_history, longer_history};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// A report that counts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reported {
    /// What the member had ordered.
    pub history: History,
    /// Names the history up to the base, and up to each slot behind it. So two reports are equal up
    /// to a slot of both if their digests there are.
    lineage: Vec<Digest>,
}

impl Reported {
    /// A history behind what this digest names.
    pub fn new(history: History, base_history: Digest) -> Self {
        let next = |before: &mut Digest, batch: &Digest| {
            *before = longer_history(before, batch);
            Some(*before)
        };
        let behind = history.batches.iter().scan(base_history, next);
        let lineage = core::iter::once(base_history).chain(behind).collect();
        Self { history, lineage }
    }

    /// Names the history up to a slot; none if that is before the base or behind the end.
    pub fn at(&self, slot: Slot) -> Option<&Digest> {
        let behind = slot.0.checked_sub(self.history.base.slot.0)?;
        self.lineage.get(usize::try_from(behind).ok()?)
    }

    /// Names all of it.
    pub fn end(&self) -> &Digest {
        self.lineage.last().expect("a lineage begins with its base")
    }

    /// Whether the other is the same history up to where that ends. One that ends before this
    /// base is not: no correct member's does, as a state is certified after all ordered so far.
    pub fn extends(&self, other: &Self) -> bool {
        self.at(other.history.end()) == Some(other.end())
    }
}

impl Wire for Reported {
    fn encode(&self, to: &mut Writer) {
        self.history.encode(to);
        self.lineage[0].encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self::new(History::decode(from)?, Digest::decode(from)?))
    }
}

/// The epoch that ends, as reports are judged by it.
pub struct Judge<'a> {
    pub membership: &'a Membership,
    pub configuration: &'a Configuration,
    pub inherits: &'a [Digest],
    pub signatures: &'a dyn CheckSignatures,
}

impl Judge<'_> {
    /// What a report says, if a correct member can have made it. It may be a lie all the same.
    pub fn admit(
        &self,
        history: History,
        certificate: Option<&MarkCertificate>,
    ) -> Option<Reported> {
        if history.batches.len() > history_max(self.configuration) {
            return None;
        }
        let began = self.membership.base;
        let base_history = match certificate {
            None if history.base == began && history.batches.starts_with(self.inherits) => {
                empty_history(began)
            }
            None => return None,
            Some(certificate) => {
                let mark = Mark { base: history.base, history: certificate.history };
                let is_later = history.base.slot > began.slot;
                if !is_later || !self.certifies(&mark, certificate) {
                    return None;
                }
                mark.history
            }
        };
        Some(Reported::new(history, base_history))
    }

    /// Whether all full members signed it. One of them is correct, so it has the state, and signed
    /// only when all members had ordered so far.
    fn certifies(&self, mark: &Mark, certificate: &MarkCertificate) -> bool {
        let statement = mark.statement(&self.membership.domain());
        let full = full_members(self.configuration);
        let mut signers = ReplicaSet::EMPTY;
        for (by, signature) in &certificate.signatures {
            let index = usize::from(by.0);
            let Some(member) = self.membership.members[..full].get(index) else { return false };
            if !self.signatures.signed(&member.signing, &statement, signature) {
                return false;
            }
            signers.insert(*by);
        }
        signers.len() >= full || mutant!("olympus.takes-any-base")
    }
}
