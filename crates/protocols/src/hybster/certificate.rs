//! The certificates of view changes, and how they are checked. Everything here is free of replica
//! state: whether a certificate is good depends on its bytes and the membership alone.

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

/// With what a view began: the header of its NEW-VIEW. The primary's counter gave that position to
/// nothing else, so all headers of a view that convince are one. Whether the view began at all is
/// another matter ([`NewView::is_established`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The view.
    pub view: View,
    /// The stable checkpoint on which it began.
    pub base: Slot,
    /// Digests of the batches of the slots behind `base` that it took over.
    pub list: Vec<Digest>,
    /// Digest of what its NEW-VIEW rests on.
    pub members: Digest,
    /// The primary's certificate on the NEW-VIEW.
    pub opening: Ui,
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
        let good = check.ui(primary, position, &opening, &self.opening);
        if good { Ok(()) } else { Err(Reject::BadCertificate) }
    }
}

impl Wire for Entry {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.base.encode(to);
        to.sequence(&self.list);
        self.members.encode(to);
        self.opening.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            base: Slot::decode(from)?,
            list: from.sequence(SLOTS_MAX)?,
            members: Digest::decode(from)?,
            opening: Ui::decode(from)?,
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
    let mut hasher = domain.statement("hybster new-view");
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

/// By which a replica leaves all lower views. Its certificate is continuing: it names the position
/// before, and if that was in the view that the message shows, everything up to there is shown.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChange {
    /// The view that it wants to enter; the paper's `v_to`.
    pub view: View,
    /// `f + 1` replicas that asked for this view or a higher one.
    pub requests: Vec<(ReplicaId, (View, Signature))>,
    /// Its stable checkpoint.
    pub checkpoint: CheckpointProof,
    /// With what the last view began whose NEW-VIEW it accepted; none if that is view 0.
    pub entry: Option<Entry>,
    /// PREPAREs of that view behind the checkpoint and the entry's list, without a gap.
    pub prepares: Vec<Prepared>,
}

impl ViewChange {
    /// What its certificate covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("hybster view-change").bytes(&self.to_bytes()).finish()
    }

    /// The last view whose NEW-VIEW its author accepted; the paper's `v_from`.
    #[must_use]
    pub fn from(&self) -> View {
        self.entry.as_ref().map_or(View(0), |entry| entry.view)
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

    /// The batch that it shows for a slot.
    #[must_use]
    pub fn batch(&self, slot: Slot) -> Option<Digest> {
        let listed = self.entry.as_ref().and_then(|entry| entry.batch(slot));
        listed.or_else(|| {
            let first = self.prepares.first()?.slot;
            let index = usize::try_from(slot.0.checked_sub(first.0)?).ok()?;
            self.prepares.get(index).map(|prepared| prepared.batch)
        })
    }

    /// Checks everything, with the certificate's word on the position before.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>, ui: &Ui) -> Result<(), Reject> {
        let weak = check.membership.quorums().weak();
        check.quorum(&self.requests, weak, |author, (view, signature)| {
            let statement = STATEMENTS.request_view_change(&check.domain, *view);
            *view >= self.view && check.verifier.signature(author, &statement, &signature.0)
        })?;
        STATEMENTS.validate_checkpoint(&self.checkpoint, check, weak)?;
        self.validate_entry(check, ui.committed)?;
        self.validate_prepares(check, ui.committed)
    }

    /// Who spoke in a view has accepted its NEW-VIEW.
    fn validate_entry(&self, check: Check<'_>, previous: Position) -> Result<(), Reject> {
        let spoke = previous.index >= Position::OPEN && !mutant!("hybster.from-not-checked");
        if self.from() >= self.view || spoke && self.from() < previous.view {
            return Err(Reject::BadCertificate);
        }
        match &self.entry {
            None => Ok(()),
            // A checkpoint below the base would leave slots that nobody shows.
            Some(entry) if entry.view > View(0) && entry.base <= self.checkpoint.slot => {
                entry.validate(check)
            }
            Some(_) => Err(Reject::BadCertificate),
        }
    }

    fn validate_prepares(&self, check: Check<'_>, previous: Position) -> Result<(), Reject> {
        let view = self.from();
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
        // Nothing that it said there is left out.
        match slot_at(previous.index).filter(|_| previous.view == view) {
            Some(said) if said > slot && !mutant!("hybster.omission-not-checked") => {
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

/// A VIEW-CHANGE with its author and certificate, inside another message.
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

/// A view-change certificate: a quorum of VIEW-CHANGEs for one view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChanges {
    /// The view.
    pub view: View,
    /// A quorum of distinct members.
    pub members: Vec<CertifiedViewChange>,
}

impl ViewChanges {
    /// The highest view that any member accepted.
    #[must_use]
    pub fn origin(&self) -> View {
        let from = self.members.iter().map(|member| member.change.from());
        let lowest = mutant!("hybster.lowest-origin");
        if lowest { from.min() } else { from.max() }.unwrap_or_default()
    }

    /// The highest stable checkpoint that a member shows.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&CheckpointProof> {
        self.members.iter().map(|member| &member.change.checkpoint).max_by_key(|proof| proof.slot)
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
            if !mutant!("hybster.members-not-checked") {
                change.validate(check, ui)?;
            }
        }
        let quorum = check.membership.quorums().hybrid_quorum();
        if seen.len() == quorum { Ok(()) } else { Err(Reject::BadCertificate) }
    }
}

impl Wire for ViewChanges {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.members);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { view: View::decode(from)?, members: from.sequence(REPLICAS_MAX)? })
    }
}

/// By which a primary opens its view: a view-change certificate, from which everyone computes the
/// same base and list, and who else accepted the view that they come from.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewView {
    /// The certificate for this view.
    pub changes: ViewChanges,
    /// Acknowledgements of the NEW-VIEW of its origin.
    pub acknowledgements: Vec<(ReplicaId, Signature)>,
}

/// What a view starts from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Start {
    /// The highest stable checkpoint that was shown.
    pub base: Slot,
    /// Digests of the batches behind it, slot by slot.
    pub list: Vec<Digest>,
}

impl Start {
    /// The last slot that is taken over.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.0.saturating_add(self.list.len() as u64))
    }
}

impl NewView {
    /// The view that it opens.
    #[must_use]
    pub const fn view(&self) -> View {
        self.changes.view
    }

    /// What the members show, taken together.
    ///
    /// Only the origin counts: what was committed in a lower view is in the origin's list, or below
    /// its base. Within it there is one primary and one certificate for each position, so the
    /// members can differ only in how far they saw.
    #[must_use]
    pub fn start(&self) -> Start {
        let ViewChanges { members, .. } = &self.changes;
        let slots = members.iter().map(|member| member.change.checkpoint.slot);
        let lowest = mutant!("hybster.new-view-on-lowest-base");
        let base = if lowest { slots.min() } else { slots.max() }.unwrap_or_default();
        let origin = self.changes.origin();
        let of_origin = members.iter().filter(|member| member.change.from() == origin);
        let shortest = mutant!("hybster.new-view-takes-shortest");
        let length =
            |it: &&CertifiedViewChange| it.change.shown().0 ^ if shortest { !0 } else { 0 };
        let Some(longest) = of_origin.max_by_key(length) else { return Start::default() };
        let change = &longest.change;
        let slots = (base.next().0..=change.shown().0).map(Slot);
        Start { base, list: slots.map_while(|slot| change.batch(slot)).collect() }
    }

    /// Whether one of those who accepted the origin's NEW-VIEW must be correct, and have checked
    /// it: `f + 1` members that come from there, or that acknowledged it otherwise. View 0 needs
    /// none.
    #[must_use]
    pub fn is_established(&self, weak: usize) -> bool {
        let origin = self.changes.origin();
        let from_there = |it: &&CertifiedViewChange| it.change.from() == origin;
        let members = self.changes.members.iter().filter(from_there).map(|it| it.author);
        let others = self.acknowledgements.iter().map(|(author, _)| *author);
        let accepted: ReplicaSet = members.chain(others).collect();
        origin == View(0) || accepted.len() >= weak || mutant!("hybster.acknowledged-by-none")
    }

    /// Names all that it rests on.
    #[must_use]
    pub fn members_digest(&self, domain: &Domain) -> Digest {
        let mut hasher = Hasher::new("hybster members");
        for member in &self.changes.members {
            hasher.u64(u64::from(member.author.0)).digest(&member.change.statement(domain));
        }
        hasher.bytes(&self.to_bytes_of_acknowledgements()).finish()
    }

    fn to_bytes_of_acknowledgements(&self) -> Vec<u8> {
        let mut writer = Writer::default();
        writer.sequence(&self.acknowledgements);
        writer.into_bytes().to_vec()
    }

    /// What its certificate covers: the view, what it starts from, and what that follows from.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        let Start { base, list } = self.start();
        opening_statement(domain, self.view(), base, &list, &self.members_digest(domain))
    }

    /// Its header, with the primary's certificate.
    #[must_use]
    pub fn entry(&self, ui: Ui, domain: &Domain) -> Entry {
        let Start { base, list } = self.start();
        let members = self.members_digest(domain);
        Entry { view: self.view(), base, list, members, opening: ui }
    }

    /// Checks every member and every acknowledgement.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        self.changes.validate(check)?;
        let origin = self.changes.origin();
        let statement = acknowledge_statement(&check.domain, origin);
        check.quorum(&self.acknowledgements, 0, |author, signature| {
            check.verifier.signature(author, &statement, &signature.0)
        })?;
        let established = self.is_established(check.membership.quorums().weak());
        if established { Ok(()) } else { Err(Reject::BadCertificate) }
    }
}

impl Wire for NewView {
    fn encode(&self, to: &mut Writer) {
        self.changes.encode(to);
        to.sequence(&self.acknowledgements);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            changes: ViewChanges::decode(from)?,
            acknowledgements: from.sequence(REPLICAS_MAX)?,
        })
    }
}
