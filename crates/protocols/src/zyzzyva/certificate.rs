//! The certificates of the normal case and of view changes, and how they are checked. Everything
//! here is free of replica state: whether a certificate is good depends on its bytes and the
//! membership alone.

use super::statements::{STATEMENTS, confirm_statement, order_statement, vote_statement};
use super::table::Table;
use crate::common::certificate::{Check, CheckpointProof, Vouched};
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::ballot::Shown;
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::{REPLICAS_MAX, WINDOW_SLOTS};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

const SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// Signatures of distinct replicas under one statement.
pub type Signatures = Vec<(ReplicaId, Signature)>;

/// The history that an epoch begins with.
#[must_use]
pub fn genesis(base: Base) -> Digest {
    Hasher::new("zyzzyva base").u64(base.slot.0).digest(&base.state).finish()
}

/// The history with one more batch. A batch's digest covers its time, so that histories differ
/// where what services are told differs.
#[must_use]
pub fn extended(history: &Digest, batch: &Digest) -> Digest {
    Hasher::new("zyzzyva history").digest(history).digest(batch).finish()
}

fn signed(check: Check<'_>, statement: &Digest, signatures: &Signatures, quorum: usize) -> bool {
    let good =
        |author, signature: &Signature| check.verifier.signature(author, statement, &signature.0);
    check.quorum(signatures, quorum, good).is_ok()
}

pub(super) fn proven(is_good: bool) -> Result<(), Reject> {
    if is_good { Ok(()) } else { Err(Reject::BadCertificate) }
}

/// Proof that a quorum executed one history in one view: a commit certificate (section 3.3).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Committed {
    /// What they executed.
    pub place: Place,
    /// Who says so.
    pub signatures: Signatures,
}

impl Committed {
    /// Checks the signatures.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if they prove nothing.
    pub fn validate(&self, check: Check<'_>, table: &Table) -> Result<(), Reject> {
        let statement = vote_statement(&check.domain, &self.place);
        let quorum =
            if mutant!("zyzzyva.certificate-of-f") { table.weak - 1 } else { table.quorum };
        proven(self.place.slot > Slot(0) && signed(check, &statement, &self.signatures, quorum))
    }
}

impl Wire for Committed {
    fn encode(&self, to: &mut Writer) {
        self.place.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { place: Place::decode(from)?, signatures: from.sequence(REPLICAS_MAX)? })
    }
}

/// Proof that a quorum agreed on what a view begins with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Confirmed {
    /// The view, the last slot that it takes over, and the history up to there.
    pub place: Place,
    /// Who says so.
    pub signatures: Signatures,
}

impl Confirmed {
    /// Checks the signatures.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if they prove nothing.
    pub fn validate(&self, check: Check<'_>, table: &Table) -> Result<(), Reject> {
        let statement = confirm_statement(&check.domain, &self.place);
        proven(signed(check, &statement, &self.signatures, table.quorum))
    }
}

impl Wire for Confirmed {
    fn encode(&self, to: &mut Writer) {
        self.place.encode(to);
        to.sequence(&self.signatures);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { place: Place::decode(from)?, signatures: from.sequence(REPLICAS_MAX)? })
    }
}

/// What replicas vouch for at a checkpoint: a history that is final, and the state after it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Reached {
    /// The history.
    pub history: Digest,
    /// The state.
    pub state: Digest,
}

/// Proof of a stable checkpoint.
pub type Stable = CheckpointProof<Reached>;

impl Vouched for Reached {
    fn initial(base: Base) -> Self {
        Self { history: genesis(base), state: base.state }
    }
    fn state(&self) -> Digest {
        self.state
    }
    fn cover(&self, statement: &mut Hasher) {
        statement.digest(&self.history).digest(&self.state);
    }
}

impl Wire for Reached {
    fn encode(&self, to: &mut Writer) {
        self.history.encode(to);
        self.state.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { history: Digest::decode(from)?, state: Digest::decode(from)? })
    }
}

/// What an ORDER-REQ says, without its batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Order {
    /// The slot.
    pub slot: Slot,
    /// The history on which it rests.
    pub parent: Digest,
    /// Digest of the batch.
    pub batch: Digest,
    /// The primary's signature.
    pub signature: Signature,
}

impl Wire for Order {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.parent.encode(to);
        self.batch.encode(to);
        self.signature.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            slot: Slot::decode(from)?,
            parent: Digest::decode(from)?,
            batch: Digest::decode(from)?,
            signature: Signature::decode(from)?,
        })
    }
}

/// Two orders of one view that no correct primary gives: a proof of misbehaviour (section 3.4).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Misbehaviour {
    /// The view, which says whose they are.
    pub view: View,
    /// The one.
    pub first: Order,
    /// The other: for the same slot, or for the next one on another history.
    pub second: Order,
}

impl Misbehaviour {
    /// Whether the two contradict each other.
    #[must_use]
    pub fn is_contradiction(first: &Order, second: &Order) -> bool {
        let what = |order: &Order| (order.parent, order.batch);
        (first.slot == second.slot && what(first) != what(second))
            || (first.slot.next() == second.slot
                && extended(&first.parent, &first.batch) != second.parent)
    }

    /// Checks both signatures, and that they contradict each other.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if nothing is proven.
    pub fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let primary = check.membership.primary(self.view);
        let good = |order: &Order| {
            let Order { slot, parent, batch, signature } = order;
            let statement = order_statement(&check.domain, self.view, *slot, parent, batch);
            check.verifier.signature(primary, &statement, &signature.0)
        };
        let Self { first, second, .. } = self;
        proven(Self::is_contradiction(first, second) && good(first) && good(second))
    }
}

impl Wire for Misbehaviour {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.first.encode(to);
        self.second.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            first: Order::decode(from)?,
            second: Order::decode(from)?,
        })
    }
}

/// By which a replica leaves all lower views, and shows what it executed.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChange {
    /// The view that its author wants to enter.
    pub view: View,
    /// `f + 1` replicas that asked for this view or a higher one.
    pub requests: Vec<(ReplicaId, (View, Signature))>,
    /// Its stable checkpoint.
    pub stable: Stable,
    /// The view that it entered last, and what that began with; none in the first view.
    pub entry: Option<Confirmed>,
    /// Of the highest slot of which it has proof from that view, if it is above the checkpoint.
    pub certificate: Option<Committed>,
    /// The history of that view at the checkpoint's slot, if it is another one than the
    /// checkpoint's. The batches then lead from there to the entry, which proves it, and count for
    /// nothing.
    pub contradicted: Option<Digest>,
    /// Digests of the batches that it executed in that view, or took over into it, behind the
    /// checkpoint.
    pub batches: Vec<Digest>,
}

impl ViewChange {
    /// The view that its author entered last.
    #[must_use]
    pub fn last_view(&self) -> View {
        self.entry.as_ref().map_or(View(0), |entry| entry.place.view)
    }

    /// The history after each slot that it shows, that at its checkpoint first.
    pub fn histories(&self) -> impl Iterator<Item = (Slot, Digest)> {
        let mut history = self.contradicted.unwrap_or(self.stable.state.history);
        let first = (self.stable.slot, history);
        let slots = (self.stable.slot.0.saturating_add(1)..).map(Slot);
        let behind = slots.zip(&self.batches).map(move |(slot, batch)| {
            history = extended(&history, batch);
            (slot, history)
        });
        core::iter::once(first).chain(behind)
    }

    /// What this VIEW-CHANGE shows of what its author told clients. If a stable checkpoint
    /// contradicts the view of the author, what the author told counts for nothing.
    pub(super) fn answers(&self) -> Shown {
        let (view, stable) = (self.last_view(), self.stable.slot);
        let since = if self.contradicted.is_some() { self.view } else { view };
        let slots = self.histories().map(|(slot, history)| (slot, view, history)).collect();
        Shown { pillar: 0, view: self.view, since, stable, slots }
    }

    /// Whether it shows this history, or is so far ahead that it need not.
    fn shows(&self, place: &Place) -> bool {
        place.slot < self.stable.slot
            || self.histories().any(|it| it == (place.slot, place.history))
    }

    /// Whether the entry rests on another history than the checkpoint, if it is said to. Nobody
    /// finds other batches that lead to what a quorum confirmed.
    pub(super) fn proves_contradiction(&self) -> bool {
        self.contradicted.is_none_or(|history| {
            let entry = self.entry.as_ref().map(|entry| (entry.place.slot, entry.place.history));
            history != self.stable.state.history
                && entry.is_some()
                && entry == self.histories().last()
                && self.certificate.is_none()
        })
    }

    /// What its signature covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("zyzzyva view-change").bytes(&self.to_bytes()).finish()
    }

    /// Checks everything but the author's signature.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>, table: &Table) -> Result<(), Reject> {
        let Self { view, requests, stable, entry, certificate, .. } = self;
        let last = self.last_view();
        let orderly = last < *view && entry.as_ref().is_none_or(|_| last > View(0));
        if !orderly {
            return Err(Reject::OutOfBounds);
        }
        check.quorum(requests, table.weak, |author, (asked, signature)| {
            let statement = STATEMENTS.request_view_change(&check.domain, *asked);
            asked >= view && check.verifier.signature(author, &statement, &signature.0)
        })?;
        STATEMENTS.validate_checkpoint(stable, check, table.quorum)?;
        proven(self.proves_contradiction())?;
        if let Some(entry) = entry {
            entry.validate(check, table)?;
            proven(self.shows(&entry.place))?;
        }
        if let Some(certificate) = certificate {
            let Place { view, slot, .. } = certificate.place;
            let any = table.printed || mutant!("zyzzyva.certificate-of-any-view");
            let is_of_view = view == last || any;
            proven(is_of_view && slot > stable.slot && self.shows(&certificate.place))?;
            certificate.validate(check, table)?;
        }
        Ok(())
    }
}

impl Wire for ViewChange {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.requests);
        self.stable.encode(to);
        to.option(self.entry.as_ref());
        to.option(self.certificate.as_ref());
        to.option(self.contradicted.as_ref());
        to.sequence(&self.batches);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            requests: from.sequence(REPLICAS_MAX)?,
            stable: Stable::decode(from)?,
            entry: from.option()?,
            certificate: from.option()?,
            contradicted: from.option()?,
            batches: from.sequence(SLOTS_MAX)?,
        })
    }
}
