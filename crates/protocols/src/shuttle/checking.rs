//! Checks of messages that need no replica state: roles, bounds, tags and signatures.

use super::message::Order;
use super::mode::Mode;
use super::statements::{Marked, mark_statement, order_statement};
use crate::common::certificate::{Check, CheckpointProof};
use crate::common::checks::requests;
use crate::common::message::in_bounds;
use pentarchy_core::auth::Verifier;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::{BATCH_BYTES_MAX, BATCH_REQUESTS_MAX};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;

/// What a message is checked with.
pub struct Checking<'a> {
    pub membership: &'a Membership,
    pub verifier: &'a dyn Verifier,
    pub author: ReplicaId,
}

impl Checking<'_> {
    fn n(&self) -> usize {
        self.membership.n()
    }

    fn place(&self) -> usize {
        usize::from(self.author.0)
    }

    fn role(good: bool) -> Result<(), Reject> {
        if good { Ok(()) } else { Err(Reject::WrongRole) }
    }

    /// Checks this replica's part of the tags of these authors, one of each.
    fn tags<M: Mode>(
        &self,
        authors: impl ExactSizeIterator<Item = usize>,
        statement: &Digest,
        tags: &[M::Tag],
    ) -> Result<(), Reject> {
        let by = authors.map(|author| ReplicaId(author as u16));
        let good = |(author, tag)| M::is_good(self.verifier, author, statement, tag);
        if by.zip(tags).all(good) { Ok(()) } else { Err(Reject::BadCertificate) }
    }

    pub fn order<M: Mode>(&self, order: &Order<M>) -> Result<(), Reject> {
        Self::role(self.place() + 1 < self.n())?;
        in_bounds(order.slot)?;
        // Witnesses do not know what came of it; nor need a full replica that has restarted.
        let is_full = self.place() <= self.membership.f;
        let is_whole = order.tags.len() == M::tags_of(self.place());
        if order.results.is_some() && !is_full || !is_whole {
            return Err(Reject::BadCertificate);
        }
        if !mutant!("shuttle.tags-of-one") {
            let statement = order_statement(&self.membership.domain(), order.slot, &order.history);
            self.tags::<M>(0..self.place(), &statement, &order.tags)?;
        }
        self.batch(&order.proposal)
    }

    /// What every correct head keeps to.
    fn batch(&self, proposal: &Proposal) -> Result<(), Reject> {
        let bytes: usize = proposal.whole().map(|envelope| envelope.len()).sum();
        let asked: usize = proposal.whole().map(|envelope| envelope.requests.len()).sum();
        let is_fine = bytes <= BATCH_BYTES_MAX
            && asked <= BATCH_REQUESTS_MAX
            && proposal.named().next().is_none()
            && !proposal.repeats_itself();
        if !is_fine {
            return Err(Reject::OutOfBounds);
        }
        requests(self.verifier, proposal.whole())
    }

    pub fn done<M: Mode>(
        &self,
        upto: Slot,
        history: &Digest,
        tags: &[M::Tag],
    ) -> Result<(), Reject> {
        Self::role(self.place() > 0)?;
        in_bounds(upto)?;
        let behind = self.place() + 1..self.n();
        if tags.len() != M::tags_of(behind.len()) && !mutant!("shuttle.done-of-one") {
            return Err(Reject::BadCertificate);
        }
        if mutant!("shuttle.done-not-checked") {
            return Ok(());
        }
        let statement = order_statement(&self.membership.domain(), upto, history);
        self.tags::<M>(behind, &statement, tags)
    }

    pub fn mark<'s>(
        &self,
        slot: Slot,
        marked: &Marked,
        signatures: impl ExactSizeIterator<Item = &'s [u8; 64]>,
    ) -> Result<(), Reject> {
        Self::role(self.place() <= self.membership.f)?;
        in_bounds(slot)?;
        let statement = mark_statement(&self.membership.domain(), slot, marked);
        let is_whole = signatures.len() == self.place();
        let mut signed = (0..).map(ReplicaId).zip(signatures);
        let is_good = |(by, signature)| self.verifier.signature(by, &statement, signature);
        let is_proof = is_whole && signed.all(is_good);
        if is_proof { Ok(()) } else { Err(Reject::BadCertificate) }
    }

    pub fn stable(&self, proof: &CheckpointProof<Marked>) -> Result<(), Reject> {
        let check = Check::new(self.membership, self.verifier);
        let statement = mark_statement(&check.domain, proof.slot, &proof.state);
        let all_full = self.membership.quorums().weak();
        let enough = if mutant!("shuttle.one-full-replica-marks") { 1 } else { all_full };
        let is_by_full = |(by, _): &(ReplicaId, _)| usize::from(by.0) < all_full;
        if !proof.signatures.iter().all(is_by_full) {
            return Err(Reject::BadCertificate);
        }
        proof.validate(check, &statement, enough)
    }
}
