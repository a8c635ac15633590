//! What replicas must have sent before one of them decides something. This follows the paper, and
//! stands apart from the code that counts: see
//! [`pentarchy_core::protocol::Protocol::JUSTIFICATION`].

use pentarchy_core::ballot::{Grounds, Justification, Reach, majority, one_correct};

/// Commitments in the slot, or to the NEW-VIEW that takes it over.
pub const JUSTIFICATION: Justification = Justification {
    of_final: &[
        Grounds { kind: "commit", voters: majority, reach: Reach::Slot },
        Grounds { kind: "enter", voters: majority, reach: Reach::TakenOver("opening") },
    ],
    of_view: &[Grounds { kind: "view_change", voters: majority, reach: Reach::Slot }],
    of_stable: &[Grounds { kind: "checkpoint", voters: one_correct, reach: Reach::Slot }],
    of_ballot: &[],
    to_be_shown: Some("commit"),
};
