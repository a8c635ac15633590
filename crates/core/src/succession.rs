//! How an epoch ends by the word of an authority outside the group
//! ([`Authority::Service`](crate::protocol::Authority::Service)): a service that is told what the
//! members had ordered when they stopped ([`Report`]), and says with what the next epoch begins
//! ([`Succession`]): a state, and batches behind it that were ordered but perhaps not executed by
//! all. Every member executes these before anything of the new epoch.
//!
//! What the authority chooses, and from which reports, is its own affair. A replica checks only
//! that the authority says it, and that the batches at hand are those that it names.
//!
//! Some things are not there yet, and no protocol that is in use may rest on them:
//! - A signed report holds no evidence that the epoch certified the state that it names as its base
//!   ([`MarkCertificate`] is that evidence). A faulty member can name any state.
//! - Nothing bounds the times of inherited batches. The group's clock goes on from the latest one.
//! - There is no prepare phase: the authority names the next epoch in one step, from the reports,
//!   when this one has stopped.
//! - Only the lives of devices change from one epoch to the next. The authority can name no other
//!   members, and no other keys.

mod mark;

pub use mark::{Mark, MarkCertificate, empty_history, longer_history};

use crate::auth::{Signature, Verifier};
use crate::batch::{Batch, Proposal};
use crate::digest::Digest;
use crate::epochs::Handover;
use crate::ids::{Epoch, ReplicaId, Slot};
use crate::limits::{BATCH_ENVELOPES_MAX, HISTORY_SLOTS_MAX, REPLICAS_MAX};
use crate::membership::{Life, Membership};
use crate::ports::replica::wedging::{History, has_room};
use crate::request::Envelope;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// What a member had ordered in an epoch when it stopped there.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Report {
    /// The epoch in which it stopped.
    pub epoch: Epoch,
    /// Which member it is.
    pub author: ReplicaId,
    /// The life of its device: one that has lost its memory has nothing to report.
    pub life: Life,
    /// What this member had ordered.
    pub history: History,
}

impl Report {
    /// What the member's signature covers.
    #[must_use]
    pub fn statement(&self, membership: &Membership) -> Digest {
        let domain = membership.domain_of(self.epoch);
        domain.statement("wedged").bytes(&self.to_bytes()).finish()
    }
}

impl Wire for Report {
    fn encode(&self, to: &mut Writer) {
        self.epoch.encode(to);
        self.author.encode(to);
        self.life.encode(to);
        self.history.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (epoch, author) = (Epoch::decode(from)?, ReplicaId::decode(from)?);
        Ok(Self { epoch, author, life: Life::decode(from)?, history: History::decode(from)? })
    }
}

/// A report under its author's key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SignedReport {
    /// The member's report.
    pub report: Report,
    /// By its author.
    pub signature: Signature,
}

impl SignedReport {
    /// Whether a member of this epoch, in the life that the epoch admits, says this of itself. What
    /// it says may be a lie.
    #[must_use]
    pub fn is_genuine(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let Self { report, signature } = self;
        let member = membership.members.get(usize::from(report.author.0));
        report.epoch == membership.epoch
            && member.is_some_and(|member| member.life() == report.life)
            && verifier.signature(report.author, &report.statement(membership), &signature.0)
    }
}

impl Wire for SignedReport {
    fn encode(&self, to: &mut Writer) {
        self.report.encode(to);
        self.signature.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { report: Report::decode(from)?, signature: Signature::decode(from)? })
    }
}

/// Where an epoch ends, by the word of the authority, and with what the next one begins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Succession {
    /// The epoch that ends, the lives of the next one's devices, and a state that a correct member
    /// has.
    pub handover: Handover,
    /// The digests of the batches that are executed on that state before the next epoch begins, one
    /// for each slot; at most [`HISTORY_SLOTS_MAX`].
    pub inherits: Vec<Digest>,
}

impl Succession {
    /// What the authority's signatures cover.
    #[must_use]
    pub fn statement(&self, membership: &Membership) -> Digest {
        let epoch = self.handover.epoch;
        let domain = membership.domain_of(epoch);
        domain.statement("succession").bytes(&self.to_bytes()).finish()
    }

    /// All that was ordered before the next epoch, as far as the authority names it.
    #[must_use]
    pub fn history(&self) -> History {
        History { base: self.handover.base, batches: self.inherits.clone() }
    }

    /// The last slot before the next epoch.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.handover.base.slot.0.saturating_add(self.inherits.len() as u64))
    }

    /// The batches that are inherited, if these bodies are theirs, in order, keep the bounds of
    /// batches, and hold only envelopes that their clients made. The digest of a batch does not
    /// name what proves that: with the same digest, one body may prove it and another not.
    #[must_use]
    pub fn batches(&self, bodies: &[Body], verifier: &dyn Verifier) -> Option<Vec<Arc<Batch>>> {
        let named = |(digest, body): (&Digest, &Body)| {
            let batch = body.batch().filter(|batch| batch.digest == *digest)?;
            let envelopes: Vec<&Envelope> = batch.envelopes.iter().map(|it| &**it).collect();
            let is_sound = batch.within_limits() && verifier.envelopes(&envelopes);
            is_sound.then(|| Arc::new(batch))
        };
        let is_whole = bodies.len() == self.inherits.len();
        is_whole.then(|| self.inherits.iter().zip(bodies).map(named).collect())?
    }
}

impl Wire for Succession {
    fn encode(&self, to: &mut Writer) {
        self.handover.encode(to);
        to.sequence(&self.inherits);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let handover = Handover::decode(from)?;
        if !has_room(handover.base) {
            return Err(Malformed);
        }
        Ok(Self { handover, inherits: from.sequence(HISTORY_SLOTS_MAX)? })
    }
}

/// A succession under the authority's signatures: convinces everyone who knows the authority.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Issued {
    /// What the authority says.
    pub succession: Succession,
    /// Who of the authority's own replicas signed, with what.
    pub signatures: Vec<(ReplicaId, Signature)>,
}

impl Issued {
    /// Whether the authority says how this membership ends, or one that follows on it.
    #[must_use]
    pub fn is_valid(&self, membership: &Membership, verifier: &dyn Verifier) -> bool {
        let Succession { handover, inherits } = &self.succession;
        handover.epoch >= membership.epoch
            && handover.next.is_none()
            && handover.lives.len() == membership.n()
            && inherits.len() <= HISTORY_SLOTS_MAX
            && verifier.authority(&self.succession.statement(membership), &self.signatures)
    }
}

impl Wire for Issued {
    fn encode(&self, to: &mut Writer) {
        self.succession.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let succession = Succession::decode(from)?;
        Ok(Self { succession, signatures: from.sequence(REPLICAS_MAX)? })
    }
}

/// What a slot of a history orders, with all that it names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Body {
    /// The proposal of its batch.
    pub proposal: Arc<Proposal>,
    /// The envelopes that it names and that did not travel in it; at most [`BATCH_ENVELOPES_MAX`].
    pub named: Vec<Arc<Envelope>>,
}

impl Body {
    /// The batch, if everything is there, and not more than a batch may name.
    #[must_use]
    pub fn batch(&self) -> Option<Batch> {
        if self.named.len() > BATCH_ENVELOPES_MAX {
            return None;
        }
        let named = |digest: &Digest| self.named.iter().find(|it| it.digest == *digest).cloned();
        self.proposal.complete(named)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::Item;
    use crate::ids::{ClientId, Millis};
    use crate::membership::Base;
    use crate::request::{Draft, Request, RequestAuth};
    use alloc::vec;
    use bytes::Bytes;

    #[test]
    fn a_succession_at_the_end_of_numbers_is_malformed() {
        let succession = |slot, batches| {
            let base = Base { slot: Slot(slot), state: Digest::default() };
            let handover = Handover { epoch: Epoch(0), base, lives: Vec::new(), next: None };
            Succession { handover, inherits: vec![Digest::default(); batches] }
        };
        for (slot, batches) in [(u64::MAX, 2), (u64::MAX - 2, 3), (u64::MAX, 0)] {
            let it = succession(slot, batches);
            assert_eq!(it.end(), Slot(u64::MAX));
            assert_eq!(Succession::from_bytes(&it.to_bytes()), Err(Malformed));
        }
        let it = succession(u64::MAX - HISTORY_SLOTS_MAX as u64 - 1, HISTORY_SLOTS_MAX);
        assert_eq!(Succession::from_bytes(&it.to_bytes()).as_ref(), Ok(&it));
    }

    #[test]
    fn a_body_brings_no_more_envelopes_than_a_batch_may_name() {
        let requests = vec![Request { number: 1, operation: Bytes::new() }];
        let draft = Draft { client: ClientId([1; 32]), floor: 1, events: None, requests };
        let envelope = Arc::new(draft.seal(RequestAuth::Signature([0; 64])));
        let proposal = Arc::new(Proposal::new(Millis(1), vec![Item::Named(envelope.digest)]));
        let body =
            |count| Body { proposal: proposal.clone(), named: vec![envelope.clone(); count] };
        assert!(body(0).batch().is_none());
        assert!(body(1).batch().is_some() && body(BATCH_ENVELOPES_MAX).batch().is_some());
        assert!(body(BATCH_ENVELOPES_MAX + 1).batch().is_none());
    }
}
