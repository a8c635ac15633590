//! What replicas must have sent before one of them decides something. This follows the paper, and
//! stands apart from the code that counts: see
//! [`pentarchy_core::protocol::Protocol::JUSTIFICATION`].

use pentarchy_core::ballot::{
    Grounds, Justification, Reach, all_but_faulty, byzantine_quorum, majority, one_correct,
};

/// A quorum locked it, or somebody correct says that it is decided.
pub const JUSTIFICATION: Justification = Justification {
    of_final: &[
        Grounds { kind: "accept", voters: byzantine_quorum, reach: Reach::Slot },
        Grounds { kind: "decided", voters: one_correct, reach: Reach::Slot },
    ],
    of_view: &[Grounds { kind: "view_change", voters: all_but_faulty, reach: Reach::Slot }],
    of_stable: &[Grounds { kind: "checkpoint", voters: byzantine_quorum, reach: Reach::Slot }],
    of_ballot: &[(
        "accept",
        Grounds { kind: "write", voters: byzantine_quorum, reach: Reach::Slot },
    )],
    to_be_shown: Some("accept"),
};

/// In the crash mode a majority locked what the primary proposed, or anybody says that it is
/// decided.
pub const CRASH: Justification = Justification {
    of_final: &[
        Grounds { kind: "accept", voters: majority, reach: Reach::Slot },
        Grounds { kind: "decided", voters: anybody, reach: Reach::Slot },
    ],
    of_view: &[Grounds { kind: "view_change", voters: all_but_faulty, reach: Reach::Slot }],
    of_stable: &[Grounds { kind: "checkpoint", voters: majority, reach: Reach::Slot }],
    of_ballot: &[],
    to_be_shown: Some("accept"),
};

/// Nobody lies.
const fn anybody(_n: usize, _f: usize) -> usize {
    1
}
