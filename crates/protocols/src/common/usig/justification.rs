//! What replicas must have sent before one of them decides something. This follows the paper, and
//! stands apart from the code that counts: see
//! [`pentarchy_core::protocol::Protocol::JUSTIFICATION`].

use pentarchy_core::ballot::{Grounds, Justification, Reach, majority, one_correct};

/// So many replicas left for a view, and so many found its NEW-VIEW valid.
const OF_VIEW: &[Grounds] = &[
    Grounds { kind: "view_change", voters: majority, reach: Reach::Slot },
    Grounds { kind: "acknowledge", voters: majority, reach: Reach::Slot },
];

/// So many committed to a NEW-VIEW, and so to what it takes over.
const ENTERED: Grounds =
    Grounds { kind: "enter", voters: majority, reach: Reach::TakenOver("opening") };

/// For protocols whose replicas execute what is decided.
pub const DECIDED: Justification = Justification {
    of_final: &[Grounds { kind: "commit", voters: majority, reach: Reach::Slot }, ENTERED],
    of_view: OF_VIEW,
    of_stable: &[Grounds { kind: "checkpoint", voters: one_correct, reach: Reach::Slot }],
    of_ballot: &[("enter", Grounds { kind: "acknowledge", voters: majority, reach: Reach::Slot })],
    to_be_shown: Some("commit"),
};

/// For protocols whose replicas execute what is ordered. There, a commitment to a slot is one to
/// all slots before it.
pub const SPECULATED: Justification = Justification {
    of_final: &[Grounds { kind: "commit", voters: majority, reach: Reach::Cumulative }, ENTERED],
    ..DECIDED
};
