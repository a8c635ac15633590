//! NEW-VIEW, and how it is checked: free of replica state, as other certificates are.

use super::certificate::{ViewChange, proven};
use super::start::Start;
use super::table::Table;
use crate::common::certificate::Check;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{ReplicaId, ReplicaSet, View};
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// By which a primary opens its view: VIEW-CHANGEs, from which everyone computes what it begins
/// with.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct NewView {
    /// The view.
    pub view: View,
    /// Distinct members, as many as it takes.
    pub members: Vec<Member>,
}

impl NewView {
    /// What the view begins with.
    #[must_use]
    pub fn start(&self, table: &Table) -> Start {
        let changes: Vec<&ViewChange> = self.members.iter().map(|it| &*it.change).collect();
        Start::of(&changes, table)
    }

    /// What its signature covers: everything.
    #[must_use]
    pub fn statement(&self, domain: &Domain) -> Digest {
        domain.statement("zyzzyva new-view").bytes(&self.to_bytes()).finish()
    }

    /// Checks the members.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn validate(&self, check: Check<'_>, table: &Table) -> Result<(), Reject> {
        let mut seen = ReplicaSet::EMPTY;
        for Member { author, signature, change } in &self.members {
            let fits = check.membership.contains(*author)
                && seen.insert(*author)
                && change.view == self.view;
            let statement = change.statement(&check.domain);
            proven(fits && check.verifier.signature(*author, &statement, &signature.0))?;
            change.validate(check, table)?;
        }
        proven(seen.len() == members_needed(table))
    }
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

/// A VIEW-CHANGE inside a NEW-VIEW.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Member {
    /// Who left.
    pub author: ReplicaId,
    /// Its signature.
    pub signature: Signature,
    /// What it showed.
    pub change: Arc<ViewChange>,
}

impl Wire for Member {
    fn encode(&self, to: &mut Writer) {
        self.author.encode(to);
        self.signature.encode(to);
        self.change.encode(to);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(Self {
            author: ReplicaId::decode(from)?,
            signature: Signature::decode(from)?,
            change: Arc::new(ViewChange::decode(from)?),
        })
    }
}

/// How many members a NEW-VIEW has.
#[must_use]
pub fn members_needed(table: &Table) -> usize {
    if mutant!("zyzzyva.new-view-of-few") { table.weak } else { table.members }
}
