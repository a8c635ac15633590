//! What replicas must have sent before one of them decides something. This follows the paper, and
//! stands apart from the code that counts: see
//! [`pentarchy_core::protocol::Protocol::JUSTIFICATION`].

use pentarchy_core::ballot::{
    ANSWER, Grounds, Justification, Reach, all_but_faulty, byzantine_quorum,
};

const STABLE: Grounds =
    Grounds { kind: "checkpoint", voters: byzantine_quorum, reach: Reach::Slot };

/// A slot is final with a later one, or because its state is stable.
pub const JUSTIFICATION: Justification = Justification {
    of_final: &[
        Grounds { kind: "commit", voters: byzantine_quorum, reach: Reach::UpTo },
        Grounds { reach: Reach::UpTo, ..STABLE },
    ],
    of_view: &[
        Grounds { kind: "view_change", voters: all_but_faulty, reach: Reach::Slot },
        Grounds { kind: "confirm", voters: byzantine_quorum, reach: Reach::Slot },
    ],
    of_stable: &[STABLE],
    of_ballot: &[],
    to_be_shown: Some(ANSWER),
};
