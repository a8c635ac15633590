//! Statements that a message makes and a proof repeats.

use crate::common::message::Statements;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};

/// What replicas sign beside writes and view changes.
pub const STATEMENTS: Statements = Statements {
    request_view_change: "modsmart request-view-change",
    checkpoint: "modsmart checkpoint",
};

/// What the signature of a signed WRITE covers, and that of a signed PROPOSE, which is its
/// primary's WRITE. The batch enters by its digest, so that the header convinces without the body.
#[must_use]
pub fn write_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("modsmart write").u64(view.0).u64(slot.0).digest(batch).finish()
}

/// What the signature of a signed ACCEPT covers.
#[must_use]
pub fn accept_statement(domain: &Domain, view: View, slot: Slot, batch: &Digest) -> Digest {
    domain.statement("modsmart accept").u64(view.0).u64(slot.0).digest(batch).finish()
}
