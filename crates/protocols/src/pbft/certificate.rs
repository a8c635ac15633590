//! The certificates of the normal case and of view changes, and how they are checked. Everything
//! here is free of replica state: whether a certificate is good depends on its bytes and the
//! membership alone.

use super::seal::Seal;
use super::statements::{STATEMENTS, prepare_statement};
use crate::common::batch_store::null;
use crate::common::certificate::{Check, CheckpointProof};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::ballot::Shown;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::{REPLICAS_MAX, WINDOW_SLOTS};
use pentarchy_core::membership::Membership;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

const SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// Checks that a quorum vouches for a state.
///
/// # Errors
/// [`Reject::BadCertificate`] if it does not.
pub fn validate_checkpoint(proof: &CheckpointProof, check: Check<'_>) -> Result<(), Reject> {
    STATEMENTS.validate_checkpoint(proof, check, check.membership.quorums().byzantine_quorum())
}

/// What distinct replicas made for one statement.
pub type Seals<S> = Vec<(ReplicaId, S)>;

/// What a replica says that it holds proof of: in this view a quorum voted for this batch in this
/// slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Claim {
    /// The slot.
    pub slot: Slot,
    /// The view in which the quorum voted.
    pub view: View,
    /// Digest of the proposal.
    pub batch: Digest,
}

impl Claim {
    fn validate<S: Seal>(&self, check: Check<'_>, seals: &Seals<S>) -> Result<(), Reject> {
        let statement = prepare_statement(&check.domain, self.view, self.slot, &self.batch);
        let quorum = S::quorum(check.membership.quorums());
        check.quorum(seals, quorum, |author, seal| seal.is_by(&check, author, &statement))
    }
}

impl Wire for Claim {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.view.encode(to);
        self.batch.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            slot: Slot::decode(from)?,
            view: View::decode(from)?,
            batch: Digest::decode(from)?,
        })
    }
}

/// A claim with its proof. In one view no two for the same slot name different batches: two quorums
/// share a correct replica, and that votes once.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Prepared<S> {
    /// What is proven.
    pub claim: Claim,
    /// A quorum of votes.
    pub seals: Seals<S>,
}

impl<S: Seal> Wire for Prepared<S> {
    fn encode(&self, to: &mut Writer) {
        self.claim.encode(to);
        to.sequence(&self.seals);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { claim: Claim::decode(from)?, seals: from.sequence(REPLICAS_MAX)? })
    }
}

/// What the seal of a VIEW-CHANGE covers.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Claims {
    /// The view that its author wants to enter.
    pub view: View,
    /// Its stable checkpoint.
    pub stable: Slot,
    /// The certificate of the highest view that it holds for each slot behind, ascending.
    pub prepared: Vec<Claim>,
}

impl Claims {
    /// All that it shows: see [`pentarchy_core::protocol::Message::shows`].
    #[must_use]
    pub fn shows(&self) -> Shown {
        let claims = self.prepared.iter().map(|it| (it.slot, it.view, it.batch));
        let (view, since, slots) = (self.view, View(0), claims.collect());
        Shown { pillar: 0, view, since, stable: self.stable, slots }
    }

    /// What the seal covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("pbft view-change").bytes(&self.to_bytes()).finish()
    }

    /// Whether a correct replica could claim that: slots of one window, ascending, of lower views.
    fn are_orderly(&self) -> bool {
        let ascending = self.prepared.is_sorted_by(|a, b| a.slot < b.slot);
        let high = self.stable.0.saturating_add(WINDOW_SLOTS);
        let inside = |claim: &Claim| claim.slot > self.stable && claim.slot.0 <= high;
        let earlier = |claim: &Claim| claim.view < self.view;
        ascending && self.prepared.iter().all(|claim| inside(claim) && earlier(claim))
    }
}

impl Wire for Claims {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.stable.encode(to);
        to.sequence(&self.prepared);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            stable: Slot::decode(from)?,
            prepared: from.sequence(SLOTS_MAX)?,
        })
    }
}

/// By which a replica leaves all lower views. Its seal covers the claims; what proves them is
/// checked by whoever gets it, and any proof will do.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChange<S> {
    /// What it claims.
    pub claims: Claims,
    /// `f + 1` replicas that asked for this view or a higher one.
    pub requests: Vec<(ReplicaId, (View, Signature))>,
    /// Proof of the stable checkpoint.
    pub checkpoint: CheckpointProof,
    /// Proof of each claim, in the same order.
    pub proofs: Vec<Seals<S>>,
}

impl<S: Seal> ViewChange<S> {
    /// Checks everything but the author's seal.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let Self { claims, requests, checkpoint, proofs } = self;
        if !claims.are_orderly() {
            return Err(Reject::OutOfBounds);
        }
        let weak = check.membership.quorums().weak();
        check.quorum(requests, weak, |author, (view, signature)| {
            let statement = STATEMENTS.request_view_change(&check.domain, *view);
            *view >= claims.view && check.verifier.signature(author, &statement, &signature.0)
        })?;
        if checkpoint.slot != claims.stable || proofs.len() != claims.prepared.len() {
            return Err(Reject::BadCertificate);
        }
        validate_checkpoint(checkpoint, check)?;
        if mutant!("pbft.claims-not-checked") {
            return Ok(());
        }
        claims
            .prepared
            .iter()
            .zip(proofs)
            .try_for_each(|(claim, proof)| claim.validate(check, proof))
    }
}

impl<S: Seal> Wire for ViewChange<S> {
    fn encode(&self, to: &mut Writer) {
        self.claims.encode(to);
        to.sequence(&self.requests);
        self.checkpoint.encode(to);
        encode_proofs(&self.proofs, to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            claims: Claims::decode(from)?,
            requests: from.sequence(REPLICAS_MAX)?,
            checkpoint: CheckpointProof::decode(from)?,
            proofs: decode_proofs(from)?,
        })
    }
}

fn encode_proofs<S: Seal>(proofs: &[Seals<S>], to: &mut Writer) {
    to.u64(proofs.len() as u64);
    proofs.iter().for_each(|proof| to.sequence(proof));
}

fn decode_proofs<S: Seal>(from: &mut Reader<'_>) -> Result<Vec<Seals<S>>, Malformed> {
    let count = usize::try_from(from.u64()?).map_err(|_| Malformed)?;
    if count > SLOTS_MAX {
        return Err(Malformed);
    }
    (0..count).map(|_| from.sequence(REPLICAS_MAX)).collect()
}

/// A VIEW-CHANGE inside a NEW-VIEW, without its proofs.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member<S> {
    /// Who left.
    pub author: ReplicaId,
    /// What it made for them.
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

/// By which a primary opens its view: a quorum of VIEW-CHANGEs, from which everyone computes the
/// same base and list, and proof of the claims that won. A claim that did not win decides nothing,
/// so nobody has to see its proof.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewView<S> {
    /// The view.
    pub view: View,
    /// A quorum of distinct members.
    pub members: Vec<Member<S>>,
    /// Proof of the highest stable checkpoint that they claim.
    pub checkpoint: CheckpointProof,
    /// Proof of each claim in [`Self::start`]'s list, in the same order.
    pub proofs: Vec<Seals<S>>,
}

/// What a view starts from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Start {
    /// The highest stable checkpoint that was claimed.
    pub base: Slot,
    /// The claim that won in each slot behind it; none where nothing is to be ordered.
    pub list: Vec<Option<Claim>>,
}

impl Start {
    /// What these claims, taken together, have a view start from: in each slot the claim of the
    /// highest view. Orderly claims are of one window behind the base at most. Others are left
    /// out: whoever prints or notes a message may not have checked it.
    #[must_use]
    pub fn of<'a>(members: impl Iterator<Item = &'a Claims> + Clone) -> Self {
        let lowest = mutant!("pbft.new-view-on-lowest-base");
        let slots = members.clone().map(|claims| claims.stable);
        let base = if lowest { slots.min() } else { slots.max() }.unwrap_or_default();
        let mut list: Vec<Option<Claim>> = Vec::new();
        let last = Slot(base.0.saturating_add(WINDOW_SLOTS));
        let counts = |it: &&Claim| it.slot > base && it.slot <= last;
        for claim in members.flat_map(|claims| &claims.prepared).filter(counts) {
            let index = (claim.slot.0 - base.0 - 1) as usize;
            if list.len() <= index {
                list.resize(index + 1, None);
            }
            if list[index].as_ref().is_none_or(|best| claim.view > best.view) {
                list[index] = Some(*claim);
            }
        }
        Self { base, list }
    }

    /// The last slot that the view takes over.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.0.saturating_add(self.list.len() as u64))
    }

    /// What each slot that the view takes over orders.
    pub fn batches(&self) -> impl Iterator<Item = (Slot, Digest)> {
        let empty = null().digest();
        let slots = (self.base.0.saturating_add(1)..).map(Slot);
        let batch = move |claim: &Option<Claim>| claim.map_or(empty, |claim| claim.batch);
        slots.zip(self.list.iter().map(batch))
    }
}

/// How many members a NEW-VIEW has.
#[must_use]
pub fn members_needed<S: Seal>(membership: &Membership) -> usize {
    let quorums = membership.quorums();
    if mutant!("pbft.new-view-of-f") { quorums.f } else { S::quorum(quorums) }
}

impl<S: Seal> NewView<S> {
    /// What the members claim, taken together.
    #[must_use]
    pub fn start(&self) -> Start {
        Start::of(self.members.iter().map(|member| &*member.claims))
    }

    /// What its seal covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("pbft new-view").bytes(&self.to_bytes()).finish()
    }

    /// Checks members and proofs.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let mut seen = ReplicaSet::EMPTY;
        for Member { author, seal, claims } in &self.members {
            let good = check.membership.contains(*author)
                && seen.insert(*author)
                && claims.view == self.view
                && claims.are_orderly();
            let statement = claims.statement(&check.domain);
            if !good || !seal.is_by(&check, *author, &statement) {
                return Err(Reject::BadCertificate);
            }
        }
        let start = self.start();
        let claims = start.list.iter().flatten();
        let proven = self.proofs.len() == claims.clone().count();
        if seen.len() != members_needed::<S>(check.membership)
            || !proven
            || self.checkpoint.slot != start.base
        {
            return Err(Reject::BadCertificate);
        }
        validate_checkpoint(&self.checkpoint, check)?;
        claims.zip(&self.proofs).try_for_each(|(claim, proof)| claim.validate(check, proof))
    }
}

impl<S: Seal> Wire for NewView<S> {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.members);
        self.checkpoint.encode(to);
        encode_proofs(&self.proofs, to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            members: from.sequence(REPLICAS_MAX)?,
            checkpoint: CheckpointProof::decode(from)?,
            proofs: decode_proofs(from)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    fn claim(slot: u64, view: u64, batch: &[u8]) -> Claim {
        Claim { slot: Slot(slot), view: View(view), batch: Digest::of(batch) }
    }

    #[test]
    fn in_each_slot_the_highest_view_wins_and_gaps_order_nothing() {
        let of = |stable, prepared| Claims { view: View(3), stable: Slot(stable), prepared };
        let members = [
            of(4, vec![claim(5, 0, b"a"), claim(6, 1, b"b"), claim(8, 0, b"c")]),
            of(5, vec![claim(6, 2, b"d")]),
            of(2, vec![claim(3, 2, b"e"), claim(6, 0, b"f")]),
        ];
        let start = Start::of(members.iter());
        assert_eq!((start.base, start.end()), (Slot(5), Slot(8)));
        let batches: Vec<Digest> = start.batches().map(|(_, batch)| batch).collect();
        assert_eq!(batches, [Digest::of(b"d"), null().digest(), Digest::of(b"c")]);
    }

    /// Whoever lies can claim anything, and would have others make room for it.
    #[test]
    fn claims_beyond_a_window_are_not_counted() {
        let far = |slot| claim(slot, 1, b"far");
        let prepared = vec![claim(5, 0, b"a"), far(5 + WINDOW_SLOTS), far(1 << 40), far(u64::MAX)];
        let claims = Claims { view: View(3), stable: Slot(4), prepared };
        let start = Start::of([claims].iter());
        assert_eq!((start.base, start.end()), (Slot(4), Slot(5)));
    }

    #[test]
    fn claims_are_of_one_window_and_of_lower_views_in_order() {
        let orderly = |prepared| Claims { view: View(2), stable: Slot(4), prepared }.are_orderly();
        assert!(
            orderly(vec![]) && orderly(vec![claim(5, 1, b""), claim(4 + WINDOW_SLOTS, 0, b"")])
        );
        assert!(!orderly(vec![claim(4, 1, b"")]) && !orderly(vec![claim(5, 2, b"")]));
        assert!(!orderly(vec![claim(6, 0, b""), claim(5, 0, b"")]));
        assert!(!orderly(vec![claim(5, 0, b""), claim(5, 1, b"")]), "one for each slot");
        assert!(!orderly(vec![claim(5 + WINDOW_SLOTS, 0, b"")]));
    }
}
