//! The certificates of view changes, and how they are checked. Everything here is free of replica
//! state: whether a certificate is good depends on its bytes and the membership alone.

use super::{Bug, Terms};
use crate::common::certificate::{Check, CheckpointProof};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::ballot::Shown;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain, Hasher};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::{REPLICAS_MAX, WINDOW_SLOTS};
use pentarchy_core::protocol::{Reject, Value};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

const SLOTS_MAX: usize = WINDOW_SLOTS as usize;

/// What a view starts from.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Start {
    /// The highest stable checkpoint that was shown.
    pub base: Slot,
    /// Digests of the batches behind it that it takes over, slot by slot.
    pub list: Vec<Digest>,
}

impl Start {
    /// What members show, taken together, if only those count that this says.
    ///
    /// They come from one view: what was committed in a lower one is in its list, or below its
    /// base. Within it there is one primary and one certificate for each position, so they can
    /// differ only in how far they saw.
    pub fn of<E: Opened>(
        members: &[CertifiedViewChange<E>],
        counts: impl Fn(&CertifiedViewChange<E>) -> bool,
    ) -> Self {
        let slots = members.iter().map(|member| member.change.checkpoint.slot);
        let lowest = (E::TERMS.has)(Bug::NewViewOnLowestBase);
        let base = if lowest { slots.min() } else { slots.max() }.unwrap_or_default();
        let shortest = (E::TERMS.has)(Bug::NewViewTakesShortest);
        let length =
            |it: &&CertifiedViewChange<E>| it.change.shown().0 ^ if shortest { !0 } else { 0 };
        let longest = members.iter().filter(|member| counts(member)).max_by_key(length);
        let Some(change) = longest.map(|member| &member.change) else { return Self::default() };
        let slots = (base.next().0..=change.shown().0).map(Slot);
        Self { base, list: slots.map_while(|slot| change.batch(slot)).collect() }
    }

    /// The last slot that is taken over.
    #[must_use]
    pub fn end(&self) -> Slot {
        Slot(self.base.0.saturating_add(self.list.len() as u64))
    }

    /// The batch of a slot that is taken over.
    #[must_use]
    pub fn batch(&self, slot: Slot) -> Option<Digest> {
        let index = slot.0.checked_sub(self.base.0)?.checked_sub(1)?;
        self.list.get(usize::try_from(index).ok()?).copied()
    }

    /// The slots above this one that are taken over, with their batches.
    pub fn above(&self, low: Slot) -> impl Iterator<Item = (Slot, Digest)> {
        let slots = (self.base.0.saturating_add(1)..).map(Slot).zip(self.list.iter().copied());
        slots.filter(move |(slot, _)| *slot > low)
    }
}

impl Wire for Start {
    fn encode(&self, to: &mut Writer) {
        self.base.encode(to);
        to.sequence(&self.list);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { base: Slot::decode(from)?, list: from.sequence(SLOTS_MAX)? })
    }
}

/// The header of a NEW-VIEW. The primary's counter gave its position to nothing else, so all
/// headers of a view that convince are one.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Header {
    /// The view.
    pub view: View,
    /// What it started from.
    pub start: Start,
    /// Digest of what its NEW-VIEW rests on.
    pub members: Digest,
    /// The primary's certificate on the NEW-VIEW.
    pub opening: Ui,
}

impl Header {
    /// Checks the primary's certificate. Gives what that covers.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if it is not good.
    pub fn validate(&self, check: Check<'_>, terms: &Terms) -> Result<Digest, Reject> {
        let primary = check.membership.primary(self.view);
        let opening = terms.opening_statement(&check.domain, self.view, &self.start, &self.members);
        let position = Position::new(self.view, Position::OPEN);
        let good = check.ui(primary, position, &opening, &self.opening);
        if good { Ok(opening) } else { Err(Reject::BadCertificate) }
    }
}

impl Wire for Header {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        self.start.encode(to);
        self.members.encode(to);
        self.opening.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            view: View::decode(from)?,
            start: Start::decode(from)?,
            members: Digest::decode(from)?,
            opening: Ui::decode(from)?,
        })
    }
}

impl Terms {
    /// What a NEW-VIEW's certificate covers: the view, what it starts from, and what that rests on.
    #[must_use]
    pub fn opening_statement(
        &self,
        domain: &Domain,
        view: View,
        start: &Start,
        members: &Digest,
    ) -> Digest {
        let mut hasher = domain.statement(self.new_view);
        hasher.u64(view.0).u64(start.base.0).u64(start.list.len() as u64);
        start.list.iter().for_each(|digest| {
            hasher.digest(digest);
        });
        hasher.digest(members).finish()
    }
}

/// With what a view began, as a VIEW-CHANGE shows it.
pub trait Opened: Wire + Value {
    /// The protocol's.
    const TERMS: Terms;

    /// The header of its NEW-VIEW.
    fn header(&self) -> &Header;

    /// Whether a VIEW-CHANGE to a view, whose certificate names that position, may show how this
    /// view began; or none, if it comes from view 0.
    fn may_be_shown(entry: Option<&Self>, to: View, named: Position) -> bool;

    /// Checks that the view began so.
    ///
    /// # Errors
    /// [`Reject::BadCertificate`] if that is not shown.
    fn validate(&self, check: Check<'_>) -> Result<(), Reject>;

    /// The view.
    fn view(&self) -> View {
        self.header().view
    }

    /// What it started from.
    fn start(&self) -> &Start {
        &self.header().start
    }

    /// The last slot that it took over.
    fn end(&self) -> Slot {
        self.start().end()
    }
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

/// By which a replica leaves all lower views. Its certificate names a position before, and if that
/// was in the view that the message comes from, everything up to there is shown.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChange<E> {
    /// The view that it wants to enter.
    pub view: View,
    /// `f + 1` replicas that asked for this view or a higher one.
    pub requests: Vec<(ReplicaId, (View, Signature))>,
    /// Its stable checkpoint.
    pub checkpoint: CheckpointProof,
    /// With what the view began that it comes from; none if that is view 0.
    pub entry: Option<E>,
    /// PREPAREs of that view behind the checkpoint and the entry's list, without a gap.
    pub prepares: Vec<Prepared>,
}

impl<E: Opened> ViewChange<E> {
    /// What its certificate covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement(E::TERMS.view_change).bytes(&self.to_bytes()).finish()
    }

    /// The view that it comes from.
    #[must_use]
    pub fn from(&self) -> View {
        self.entry.as_ref().map_or(View(0), Opened::view)
    }

    /// The slot before the first that `prepares` may show.
    fn shown_before(&self) -> Slot {
        self.entry.as_ref().map_or(Slot(0), Opened::end).max(self.checkpoint.slot)
    }

    /// The last slot that it shows.
    #[must_use]
    pub fn shown(&self) -> Slot {
        self.prepares.last().map_or_else(|| self.shown_before(), |last| last.slot)
    }

    /// The batch that it shows for a slot.
    #[must_use]
    pub fn batch(&self, slot: Slot) -> Option<Digest> {
        let listed = self.entry.as_ref().and_then(|entry| entry.start().batch(slot));
        listed.or_else(|| {
            let first = self.prepares.first()?.slot;
            let index = usize::try_from(slot.0.checked_sub(first.0)?).ok()?;
            self.prepares.get(index).map(|prepared| prepared.batch)
        })
    }

    /// All that it shows: see [`pentarchy_core::protocol::Message::shows`].
    #[must_use]
    pub fn shows(&self) -> Shown {
        let (since, stable) = (self.from(), self.checkpoint.slot);
        let slots = (stable.next().0..=self.shown().0).map(Slot);
        let batches = slots.filter_map(|slot| Some((slot, since, self.batch(slot)?)));
        Shown { pillar: 0, view: self.view, since, stable, slots: batches.collect() }
    }

    /// Checks everything, with the certificate's word on a position before.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>, ui: &Ui) -> Result<(), Reject> {
        let (weak, signed) = (check.membership.quorums().weak(), E::TERMS.signed);
        check.quorum(&self.requests, weak, |author, (view, signature)| {
            let statement = signed.request_view_change(&check.domain, *view);
            *view >= self.view && check.verifier.signature(author, &statement, &signature.0)
        })?;
        signed.validate_checkpoint(&self.checkpoint, check, weak)?;
        // A checkpoint below the base would leave slots that nobody shows.
        let gap = |entry: &E| entry.start().base > self.checkpoint.slot;
        if !E::may_be_shown(self.entry.as_ref(), self.view, ui.committed)
            || self.entry.as_ref().is_some_and(gap)
        {
            return Err(Reject::BadCertificate);
        }
        self.entry.as_ref().map_or(Ok(()), |entry| entry.validate(check))?;
        self.validate_prepares(check, ui.committed)
    }

    fn validate_prepares(&self, check: Check<'_>, named: Position) -> Result<(), Reject> {
        let view = self.from();
        let primary = check.membership.primary(view);
        let mut slot = self.shown_before();
        for prepared in &self.prepares {
            slot = slot.next();
            let statement = E::TERMS.prepare_statement(&check.domain, view, slot, &prepared.batch);
            let position = E::TERMS.position(view, slot);
            if prepared.slot != slot || !check.ui(primary, position, &statement, &prepared.ui) {
                return Err(Reject::BadCertificate);
            }
        }
        if slot.0 > self.checkpoint.slot.0.saturating_add(WINDOW_SLOTS) {
            return Err(Reject::OutOfBounds);
        }
        // Nothing that it said there is left out.
        match E::TERMS.slot_at(named.index).filter(|_| named.view == view) {
            Some(said) if said > slot && !(E::TERMS.has)(Bug::OmissionNotChecked) => {
                Err(Reject::BadCertificate)
            }
            _ => Ok(()),
        }
    }
}

impl<E: Opened> Wire for ViewChange<E> {
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
pub struct CertifiedViewChange<E> {
    /// Who left.
    pub author: ReplicaId,
    /// The certificate.
    pub ui: Ui,
    /// What it shows.
    pub change: Arc<ViewChange<E>>,
}

impl<E: Opened> Wire for CertifiedViewChange<E> {
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

/// A quorum of VIEW-CHANGEs for one view.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct ViewChanges<E> {
    /// The view.
    pub view: View,
    /// A quorum of distinct members.
    pub members: Vec<CertifiedViewChange<E>>,
}

impl<E: Opened> ViewChanges<E> {
    /// The highest stable checkpoint that a member shows.
    #[must_use]
    pub fn checkpoint(&self) -> Option<&CheckpointProof> {
        self.members.iter().map(|member| &member.change.checkpoint).max_by_key(|proof| proof.slot)
    }

    /// Begins to name the members' statements.
    #[must_use]
    pub fn name_members(&self, domain: &Domain) -> Hasher {
        let mut hasher = Hasher::new(E::TERMS.members);
        for member in &self.members {
            hasher.u64(u64::from(member.author.0)).digest(&member.change.statement(domain));
        }
        hasher
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
            if !(E::TERMS.has)(Bug::MembersNotChecked) {
                change.validate(check, ui)?;
            }
        }
        let quorum = check.membership.quorums().majority();
        if seen.len() == quorum { Ok(()) } else { Err(Reject::BadCertificate) }
    }
}

impl<E: Opened> Wire for ViewChanges<E> {
    fn encode(&self, to: &mut Writer) {
        self.view.encode(to);
        to.sequence(&self.members);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { view: View::decode(from)?, members: from.sequence(REPLICAS_MAX)? })
    }
}
