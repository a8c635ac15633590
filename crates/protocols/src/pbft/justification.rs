//! What replicas must have sent before one of them decides something. This follows the paper, and
//! stands apart from the code that counts: see
//! [`pentarchy_core::protocol::Protocol::JUSTIFICATION`].

use pentarchy_core::ballot::{Grounds, Justification, Reach, byzantine_quorum};

/// So many say that the slot is prepared at each of them. What is executed when it is prepared
/// becomes final in the same way.
pub const JUSTIFICATION: Justification = Justification {
    of_final: &[Grounds { kind: "commit", voters: byzantine_quorum, reach: Reach::Slot }],
    of_view: &[Grounds { kind: "view_change", voters: byzantine_quorum, reach: Reach::Slot }],
    of_stable: &[Grounds { kind: "checkpoint", voters: byzantine_quorum, reach: Reach::Slot }],
    of_ballot: &[(
        "commit",
        Grounds { kind: "vote", voters: byzantine_quorum, reach: Reach::Slot },
    )],
    to_be_shown: Some("commit"),
};
