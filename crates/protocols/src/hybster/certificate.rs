//! The certificates of view changes, and how they are checked. What all protocols on counters have
//! is in [`crate::common::counters::certificate`].

use super::statements::{TERMS, acknowledge_statement};
use crate::common::certificate::Check;
use crate::common::counters::Terms;
use crate::common::counters::certificate::{self, Header, Opened, Start};
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// By which a replica leaves all lower views, to the paper's `v_to`. Its certificate is continuing:
/// it names the position before.
pub type ViewChange = certificate::ViewChange<Entry>;

/// A VIEW-CHANGE with its author and certificate.
pub type CertifiedViewChange = certificate::CertifiedViewChange<Entry>;

/// A view-change certificate: a quorum of VIEW-CHANGEs for one view.
pub type ViewChanges = certificate::ViewChanges<Entry>;

/// With what a view began: the header of its NEW-VIEW. Its VIEW-CHANGE shows that of the last view
/// that it accepted, the paper's `v_from`. Whether that view began at all is another matter
/// ([`NewView::is_established`]).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The header.
    pub header: Header,
}

impl Opened for Entry {
    const TERMS: Terms = TERMS;

    fn header(&self) -> &Header {
        &self.header
    }

    /// Who spoke in a view has accepted its NEW-VIEW.
    fn may_be_shown(entry: Option<&Self>, to: View, previous: Position) -> bool {
        let spoke = previous.index >= Position::OPEN && !mutant!("hybster.from-not-checked");
        let from = entry.map_or(View(0), Opened::view);
        let hides = spoke && from < previous.view;
        from < to && !hides && (entry.is_none() || from > View(0))
    }

    fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        self.header.validate(check, &TERMS).map(|_| ())
    }
}

impl Wire for Entry {
    fn encode(&self, to: &mut Writer) {
        self.header.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header: Header::decode(from)? })
    }
}

impl ViewChanges {
    /// The highest view that any member accepted.
    #[must_use]
    pub fn origin(&self) -> View {
        let from = self.members.iter().map(|member| member.change.from());
        let lowest = mutant!("hybster.lowest-origin");
        if lowest { from.min() } else { from.max() }.unwrap_or_default()
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

impl NewView {
    /// The view that it opens.
    #[must_use]
    pub const fn view(&self) -> View {
        self.changes.view
    }

    /// What the members show, taken together. Only the origin counts.
    #[must_use]
    pub fn start(&self) -> Start {
        let origin = self.changes.origin();
        Start::of(&self.changes.members, |member| member.change.from() == origin)
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
    fn members_digest(&self, domain: &Domain) -> Digest {
        let mut acknowledgements = Writer::default();
        acknowledgements.sequence(&self.acknowledgements);
        self.changes.name_members(domain).bytes(&acknowledgements.into_bytes()).finish()
    }

    /// What its certificate covers: the view, what it starts from, and what that follows from.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        let members = self.members_digest(domain);
        TERMS.opening_statement(domain, self.view(), &self.start(), &members)
    }

    /// Its header, with the primary's certificate.
    #[must_use]
    pub fn entry(&self, ui: Ui, domain: &Domain) -> Entry {
        let (start, members) = (self.start(), self.members_digest(domain));
        Entry { header: Header { view: self.view(), start, members, opening: ui } }
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
