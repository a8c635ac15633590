//! The certificates of checkpoints and view changes, and how they are checked. Everything here is
//! free of replica state: whether a certificate is good depends on its bytes and the membership
//! alone.

use super::message::{STATEMENTS, acknowledge_statement, prepare_statement, slot_at};
use crate::common::certificate::{Check, CheckpointProof};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::{REPLICAS_MAX, WINDOW_SLOTS};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

const SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// Checks that `f + 1` replicas vouch for a state: at least one correct replica had it.
///
/// # Errors
/// [`Reject::BadCertificate`] if they do not.
pub fn validate_checkpoint(proof: &CheckpointProof, check: Check<'_>) -> Result<(), Reject> {
    STATEMENTS.validate_checkpoint(proof, check, check.membership.quorums().weak())
}

/// Proof that a view was opened properly, and with what: the header of its NEW-VIEW and
/// acknowledgements by `f` others. One of the `f + 1` is correct and checked the NEW-VIEW in full,
/// so nobody has to see again what that rested on; this is what keeps view changes bounded.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The view.
    pub view: View,
    /// The stable checkpoint on which it began.
    pub base: Slot,
    /// Digests of the batches of the slots behind `base` that it took over.
    pub list: Vec<Digest>,
    /// Digest of the VIEW-CHANGEs in its NEW-VIEW.
    pub members: Digest,
    /// The primary's certificate on the NEW-VIEW.
    pub opening: Ui,
    /// The acknowledgements.
    pub acknowledgements: Vec<(ReplicaId, Ui)>,
}

impl Entry {
    /// The last slot that the view took over.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.0.saturating_add(self.list.len() as u64))
    }

    /// The batch of a slot that the view took over.
    #[must_use]
    pub fn batch(&self, slot: Slot) -> Option<Digest> {
        let index = slot.0.checked_sub(self.base.0)?.checked_sub(1)?;
        self.list.get(usize::try_from(index).ok()?).copied()
    }

    fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let primary = check.membership.primary(self.view);
        let opening =
            opening_statement(&check.domain, self.view, self.base, &self.list, &self.members);
        let position = Position::new(self.view, Position::OPEN);
        if !check.ui(primary, position, &opening, &self.opening) {
            return Err(Reject::BadCertificate);
        }
        let statement = acknowledge_statement(&check.domain, self.view, &opening);
        let others = check.membership.quorums().hybrid_quorum() - 1;
        check.quorum(&self.acknowledgements, others, |author, ui| {
            author != primary && check.ui(author, position, &statement, ui)
        })
    }
}

impl Wire for Entry {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.base.encode(to);
        to.sequence(&self.list);
        self.members.encode(to);
        self.opening.encode(to);
        to.sequence(&self.acknowledgements);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            base: Slot::decode(from)?,
            list: from.sequence(SLOTS_MAX)?,
            members: Digest::decode(from)?,
            opening: Ui::decode(from)?,
            acknowledgements: from.sequence(REPLICAS_MAX)?,
        })
    }
}

fn opening_statement(
    domain: &Domain,
    view: View,
    base: Slot,
    list: &[Digest],
    members: &Digest,
) -> Digest {
    let mut hasher = domain.statement("minbft new-view");
    hasher.u64(view.0).u64(base.0).u64(list.len() as u64);
    list.iter().for_each(|digest| {
        hasher.digest(digest);
    });
    hasher.digest(members).finish()
}

/// The header of a PREPARE, with the primary's certificate on it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Prepared {
    /// The slot.
    pub slot: Slot,
    /// Digest of the proposal.
    pub batch: Digest,
    /// The primary's certificate.
    pub ui: Ui,
}

impl Wire for Prepared {
    fn encode(&self, to: &mut Writer) {
        self.slot.encode(to);
        self.batch.encode(to);
        self.ui.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { slot: Slot::decode(from)?, batch: Digest::decode(from)?, ui: Ui::decode(from)? })
    }
}

/// By which a replica leaves all lower views. Its certificate names the last commitment that the
/// replica made, and the message must show everything up to there.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChange {
    /// The view that it wants to enter.
    pub view: View,
    /// `f + 1` replicas that asked for this view or a higher one.
    pub requests: Vec<(ReplicaId, (View, Signature))>,
    /// Its stable checkpoint.
    pub checkpoint: CheckpointProof,
    /// How the view of its last commitment was opened; none if that is view 0.
    pub entry: Option<Entry>,
    /// The PREPAREs of that view behind the checkpoint and the entry's list, without a gap.
    pub prepares: Vec<Prepared>,
}

impl ViewChange {
    /// What its certificate covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("minbft view-change").bytes(&self.to_bytes()).finish()
    }

    /// The slot before the first that `prepares` may show.
    fn shown_before(&self) -> Slot {
        self.entry.as_ref().map_or(Slot(0), Entry::end).max(self.checkpoint.slot)
    }

    /// The last slot that it shows.
    #[must_use]
    pub fn shown(&self) -> Slot {
        self.prepares.last().map_or_else(|| self.shown_before(), |last| last.slot)
    }

    /// Checks everything, with the certificate's word on the last commitment.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>, ui: &Ui) -> Result<(), Reject> {
        let weak = check.membership.quorums().weak();
        check.quorum(&self.requests, weak, |author, (view, signature)| {
            let statement = STATEMENTS.request_view_change(&check.domain, *view);
            *view >= self.view && check.verifier.signature(author, &statement, &signature.0)
        })?;
        validate_checkpoint(&self.checkpoint, check)?;
        self.validate_entry(check, ui.committed.view)?;
        self.validate_prepares(check, ui.committed)
    }

    fn validate_entry(&self, check: Check<'_>, committed: View) -> Result<(), Reject> {
        match &self.entry {
            None if committed == View(0) => Ok(()),
            // A checkpoint below the base would leave slots that nobody shows.
            Some(entry) if entry.view == committed && entry.base <= self.checkpoint.slot => {
                entry.validate(check)
            }
            _ => Err(Reject::BadCertificate),
        }
    }

    fn validate_prepares(&self, check: Check<'_>, committed: Position) -> Result<(), Reject> {
        let view = committed.view;
        let primary = check.membership.primary(view);
        let mut slot = self.shown_before();
        for prepared in &self.prepares {
            slot = slot.next();
            let statement = prepare_statement(&check.domain, view, slot, &prepared.batch);
            let position = super::message::position(view, slot);
            if prepared.slot != slot || !check.ui(primary, position, &statement, &prepared.ui) {
                return Err(Reject::BadCertificate);
            }
        }
        if slot.0 > self.checkpoint.slot.0.saturating_add(WINDOW_SLOTS) {
            return Err(Reject::OutOfBounds);
        }
        // Nothing that it committed to is left out.
        match slot_at(committed.index) {
            Some(committed) if committed > slot && !mutant!("minbft.omission-not-checked") => {
                Err(Reject::BadCertificate)
            }
            _ => Ok(()),
        }
    }
}

impl Wire for ViewChange {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.requests);
        self.checkpoint.encode(to);
        to.option(self.entry.as_ref());
        to.sequence(&self.prepares);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            requests: from.sequence(REPLICAS_MAX)?,
            checkpoint: CheckpointProof::decode(from)?,
            entry: from.option()?,
            prepares: from.sequence(SLOTS_MAX)?,
        })
    }
}

/// A VIEW-CHANGE with its author and certificate, inside a NEW-VIEW.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct CertifiedViewChange {
    /// Who left.
    pub author: ReplicaId,
    /// The certificate.
    pub ui: Ui,
    /// What it shows.
    pub change: Arc<ViewChange>,
}

impl Wire for CertifiedViewChange {
    fn encode(&self, to: &mut Writer) {
        self.author.encode(to);
        self.ui.encode(to);
        self.change.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            author: ReplicaId::decode(from)?,
            ui: Ui::decode(from)?,
            change: Arc::new(ViewChange::decode(from)?),
        })
    }
}

/// By which a primary opens its view: a quorum of VIEW-CHANGEs, from which everyone computes the
/// same base and list.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewView {
    /// The view.
    pub view: View,
    /// A quorum of distinct members.
    pub members: Vec<CertifiedViewChange>,
}

/// What a view starts from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Start {
    /// The highest stable checkpoint that was shown.
    pub base: Slot,
    /// Digests of the batches behind it, slot by slot.
    pub list: Vec<Digest>,
}

impl NewView {
    /// What the members show, taken together.
    ///
    /// Only the highest view in which any member committed counts: what was committed in a lower
    /// view is in that view's list, or below its base. Within it there is one primary and one
    /// certificate for each slot, so the members can differ only in how far they saw.
    #[must_use]
    pub fn start(&self) -> Start {
        let slots = self.members.iter().map(|m| m.change.checkpoint.slot);
        let lowest = mutant!("minbft.new-view-on-lowest-base");
        let base = if lowest { slots.min() } else { slots.max() }.unwrap_or_default();
        let highest = self.members.iter().map(|m| m.ui.committed.view).max().unwrap_or_default();
        let in_highest = self.members.iter().filter(|m| m.ui.committed.view == highest);
        let shortest = mutant!("minbft.new-view-takes-shortest");
        let length = |m: &&CertifiedViewChange| m.change.shown().0 ^ if shortest { !0 } else { 0 };
        let Some(longest) = in_highest.max_by_key(length) else {
            return Start::default();
        };
        let change = &longest.change;
        let list = (base.next().0..=change.shown().0)
            .map_while(|slot| batch_shown(change, Slot(slot)))
            .collect();
        Start { base, list }
    }

    /// The stable checkpoint of [`Self::start`].
    #[must_use]
    pub fn checkpoint(&self) -> Option<&CheckpointProof> {
        self.members.iter().map(|member| &member.change.checkpoint).max_by_key(|proof| proof.slot)
    }

    /// Names the members' statements.
    #[must_use]
    pub fn members_digest(&self, domain: &Domain) -> Digest {
        let mut hasher = Hasher::new("minbft members");
        for member in &self.members {
            hasher.u64(u64::from(member.author.0)).digest(&member.change.statement(domain));
        }
        hasher.finish()
    }

    /// What its certificate covers: the view, what it starts from, and the members.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        let Start { base, list } = self.start();
        opening_statement(domain, self.view, base, &list, &self.members_digest(domain))
    }

    /// Checks every member.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let mut seen = ReplicaSet::EMPTY;
        for CertifiedViewChange { author, ui, change } in &self.members {
            let position = Position::new(self.view, Position::LEAVE);
            let statement = change.statement(&check.domain);
            let good = check.membership.contains(*author)
                && seen.insert(*author)
                && change.view == self.view
                && check.ui(*author, position, &statement, ui);
            if !good {
                return Err(Reject::BadCertificate);
            }
            if !mutant!("minbft.members-not-checked") {
                change.validate(check, ui)?;
            }
        }
        let quorum = check.membership.quorums().hybrid_quorum();
        if seen.len() == quorum { Ok(()) } else { Err(Reject::BadCertificate) }
    }
}

/// The batch that a VIEW-CHANGE shows for a slot.
#[must_use]
pub fn batch_shown(change: &ViewChange, slot: Slot) -> Option<Digest> {
    let listed = change.entry.as_ref().and_then(|entry| entry.batch(slot));
    listed.or_else(|| {
        let first = change.prepares.first()?.slot;
        let index = usize::try_from(slot.0.checked_sub(first.0)?).ok()?;
        change.prepares.get(index).map(|prepared| prepared.batch)
    })
}

impl Wire for NewView {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.members);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { view: View::decode(from)?, members: from.sequence(REPLICAS_MAX)? })
    }
}
