//! Statements that a message makes and a certificate proves.

use crate::common::message::Statements;
use pentarchy_core::digest::{Digest, Domain};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::ports::client::Place;

/// What replicas sign beside orders, votes and view changes.
pub const STATEMENTS: Statements = Statements {
    request_view_change: "zyzzyva request-view-change",
    checkpoint: "zyzzyva checkpoint",
};

/// What an ORDER-REQ's signature covers. The batch enters by its digest.
#[must_use]
pub fn order_statement(
    domain: &Domain,
    view: View,
    slot: Slot,
    parent: &Digest,
    batch: &Digest,
) -> Digest {
    let mut hasher = domain.statement("zyzzyva order");
    hasher.u64(view.0).u64(slot.0).digest(parent).digest(batch).finish()
}

fn place_statement(domain: &Domain, kind: &'static str, place: &Place) -> Digest {
    let mut hasher = domain.statement(kind);
    hasher.u64(place.view.0).u64(place.slot.0).digest(&place.history).finish()
}

/// What the signature under an answer covers: a quorum of them is a commit certificate.
#[must_use]
pub fn vote_statement(domain: &Domain, place: &Place) -> Digest {
    place_statement(domain, "zyzzyva response", place)
}

/// What a CONFIRM's signature covers.
#[must_use]
pub fn confirm_statement(domain: &Domain, place: &Place) -> Digest {
    place_statement(domain, "zyzzyva view-confirm", place)
}
