//! VIEW-CHANGE and NEW-VIEW, and how they are checked. Everything here is free of replica state:
//! whether one is good depends on its bytes and the membership alone.

use super::claims::{Claims, SLOTS_MAX};
use super::signed_writes::{SignedWrites, validate_proofs};
use super::start::{Left, Start};
use super::statements::STATEMENTS;
use super::variant::Variant;
use crate::common::certificate::{Check, CheckpointProof};
use crate::common::seal::Seal;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::quorum::Quorums;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// How many members a NEW-VIEW has at least: as many as answer for certain.
#[must_use]
pub const fn members_needed(quorums: Quorums) -> usize {
    quorums.n - quorums.f
}

/// By which a replica leaves all lower views: the paper's STOPDATA. Its signature covers the
/// claims; what proves them is checked by whoever gets it, and any proof will do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChange {
    /// What it claims.
    pub claims: Claims,
    /// `f + 1` replicas that asked for this view or a higher one. Nobody where nobody lies: there
    /// the word of its author is enough.
    pub requests: Vec<(ReplicaId, (View, Signature))>,
    /// Proof of the stable checkpoint.
    pub checkpoint: CheckpointProof,
    /// The signed WRITEs among those that made its locks.
    pub proofs: Vec<SignedWrites>,
}

impl ViewChange {
    /// Checks everything but the author's signature.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate<V: Variant>(&self, check: Check<'_>) -> Result<(), Reject> {
        let Self { claims, requests, checkpoint, proofs } = self;
        if !claims.are_orderly() {
            return Err(Reject::OutOfBounds);
        }
        let quorums = check.membership.quorums();
        let asked = if V::WRITES { quorums.weak() } else { 0 };
        check.quorum(requests, asked, |author, (view, signature)| {
            let statement = STATEMENTS.request_view_change(&check.domain, *view);
            *view >= claims.view && check.verifier.signature(author, &statement, &signature.0)
        })?;
        let of_lock = |it: &SignedWrites| {
            claims.of(it.slot).is_some_and(|claim| claim.lock == Some(it.written))
        };
        if checkpoint.slot != claims.stable || !proofs.iter().all(of_lock) {
            return Err(Reject::BadCertificate);
        }
        STATEMENTS.validate_checkpoint(checkpoint, check, V::quorum(quorums))?;
        validate_proofs(proofs, check)
    }
}

impl Wire for ViewChange {
    fn encode(&self, to: &mut Writer) {
        self.claims.encode(to);
        to.sequence(&self.requests);
        self.checkpoint.encode(to);
        to.sequence(&self.proofs);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            claims: Claims::decode(from)?,
            requests: from.sequence(REPLICAS_MAX)?,
            checkpoint: CheckpointProof::decode(from)?,
            proofs: from.sequence(SLOTS_MAX)?,
        })
    }
}

/// A VIEW-CHANGE inside a NEW-VIEW, without its proofs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member<S = Signature> {
    /// Who left.
    pub author: ReplicaId,
    /// By what its claims convince.
    pub seal: S,
    /// What it claims.
    pub claims: Arc<Claims>,
}

impl<S: Seal> Wire for Member<S> {
    fn encode(&self, to: &mut Writer) {
        self.author.encode(to);
        self.seal.encode(to);
        self.claims.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            author: ReplicaId::decode(from)?,
            seal: S::decode(from)?,
            claims: Arc::new(Claims::decode(from)?),
        })
    }
}

/// By which a primary opens its view: the paper's SYNC. It holds the VIEW-CHANGEs of all but `f`
/// replicas, or of more, and what proves the locks that bind. Everyone computes the same base and
/// list from it.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewView<S = Signature> {
    /// The view.
    pub view: View,
    /// Distinct members.
    pub members: Vec<Member<S>>,
    /// Proof of the highest stable checkpoint that they claim.
    pub checkpoint: CheckpointProof,
    /// The signed WRITEs for the locks that bind.
    pub proofs: Vec<SignedWrites>,
}

impl<S: Seal> NewView<S> {
    /// What the members claim, taken together; none if that leaves a slot open.
    #[must_use]
    pub fn start<V: Variant>(&self, quorums: Quorums) -> Option<Start> {
        let members: Vec<Left<'_>> =
            self.members.iter().map(|it| (it.author, &*it.claims)).collect();
        Start::of::<V>(&members, &self.proofs, quorums)
    }

    /// What its signature covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("modsmart new-view").bytes(&self.to_bytes()).finish()
    }

    /// Checks members and proofs, and that what follows from them leaves nothing open.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate<V: Variant<Seal = S>>(&self, check: Check<'_>) -> Result<(), Reject> {
        let quorums = check.membership.quorums();
        let mut seen = ReplicaSet::EMPTY;
        for member in &self.members {
            if !self.is_good(member, check) || !seen.insert(member.author) {
                return Err(Reject::BadCertificate);
            }
        }
        validate_proofs(&self.proofs, check)?;
        let start = self.start::<V>(quorums).ok_or(Reject::BadCertificate)?;
        if seen.len() < members_needed(quorums) || self.checkpoint.slot != start.base {
            return Err(Reject::BadCertificate);
        }
        STATEMENTS.validate_checkpoint(&self.checkpoint, check, V::quorum(quorums))
    }

    fn is_good(&self, member: &Member<S>, check: Check<'_>) -> bool {
        let Member { author, seal, claims } = member;
        let of_view = claims.view == self.view
            || claims.view < self.view && mutant!("modsmart.collect-names-no-view");
        let statement = claims.statement(&check.domain);
        of_view
            && claims.are_orderly()
            && check.membership.contains(*author)
            && seal.is_good(&check, *author, &statement)
    }
}

impl<S: Seal> Wire for NewView<S> {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.members);
        self.checkpoint.encode(to);
        to.sequence(&self.proofs);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            members: from.sequence(REPLICAS_MAX)?,
            checkpoint: CheckpointProof::decode(from)?,
            proofs: from.sequence(SLOTS_MAX)?,
        })
    }
}
