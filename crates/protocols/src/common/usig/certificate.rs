//! With what a view begins, and by what that convinces. What all protocols on counters have is in
//! [`crate::common::counters::certificate`].

use super::statements::{TERMS, acknowledge_statement};
use crate::common::certificate::Check;
use crate::common::counters::Terms;
use crate::common::counters::certificate::{self, Header, Opened, Start};
use alloc::vec::Vec;
use pentarchy_core::counter::{Position, Ui};
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// By which a replica leaves all lower views. Its certificate names the last commitment that the
/// replica made, and the message must show everything up to there.
pub type ViewChange = certificate::ViewChange<Entry>;

/// By which a primary opens its view: a quorum of VIEW-CHANGEs, from which everyone computes the
/// same base and list.
pub type NewView = certificate::ViewChanges<Entry>;

/// Proof that a view was opened properly, and with what: the header of its NEW-VIEW and
/// acknowledgements by `f` others. One of the `f + 1` is correct and checked the NEW-VIEW in full,
/// so nobody has to see again what that rested on; this is what keeps view changes bounded.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Entry {
    /// The header.
    pub header: Header,
    /// The acknowledgements.
    pub acknowledgements: Vec<(ReplicaId, Ui)>,
}

impl Opened for Entry {
    const TERMS: Terms = TERMS;

    fn header(&self) -> &Header {
        &self.header
    }

    /// It comes from the view of its last commitment.
    fn may_be_shown(entry: Option<&Self>, _to: View, committed: Position) -> bool {
        entry.map_or(View(0), Opened::view) == committed.view
    }

    fn validate(&self, check: Check<'_>) -> Result<(), Reject> {
        let Header { view, .. } = self.header;
        let opening = self.header.validate(check, &TERMS)?;
        let primary = check.membership.primary(view);
        let position = Position::new(view, Position::OPEN);
        let statement = acknowledge_statement(&check.domain, view, &opening);
        let quorum = check.membership.quorums().majority();
        let others = if check.opened_alone { 0 } else { quorum - 1 };
        check.quorum(&self.acknowledgements, others, |author, ui| {
            author != primary && check.ui(author, position, &statement, ui)
        })
    }
}

impl Wire for Entry {
    fn encode(&self, to: &mut Writer) {
        self.header.encode(to);
        to.sequence(&self.acknowledgements);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self { header: Header::decode(from)?, acknowledgements: from.sequence(REPLICAS_MAX)? })
    }
}

impl NewView {
    /// What the members show, taken together. Only the highest view in which any of them committed
    /// counts.
    #[must_use]
    pub fn start(&self) -> Start {
        let highest = self.members.iter().map(|member| member.ui.committed.view).max();
        Start::of(&self.members, |member| Some(member.ui.committed.view) == highest)
    }

    /// Names the members' statements.
    fn members_digest(&self, domain: &Domain) -> Digest {
        self.name_members(domain).finish()
    }

    /// What its certificate covers: the view, what it starts from, and the members.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        let members = self.members_digest(domain);
        TERMS.opening_statement(domain, self.view, &self.start(), &members)
    }

    /// Its header, with the primary's certificate.
    #[must_use]
    pub fn header(&self, ui: Ui, domain: &Domain) -> Header {
        let (start, members) = (self.start(), self.members_digest(domain));
        Header { view: self.view, start, members, opening: ui }
    }
}
