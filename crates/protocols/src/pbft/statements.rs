//! Statements that a message makes and a certificate proves.

use crate::common::message::Statements;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};

/// What replicas sign beside votes and view changes, whatever these convince by.
pub const STATEMENTS: Statements =
    Statements { request_view_change: "pbft request-view-change", checkpoint: "pbft checkpoint" };

/// What votes cover, the primary's PRE-PREPARE among them: a quorum of seals under it is a
/// certificate. The batch enters by its digest, so that the header convinces without the body.
#[must_use]
pub fn prepare_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("pbft prepare").u64(view.0).u64(slot.0).digest(batch).finish()
}
