//! What has to be said before a replica decides something, from the paper and apart from the code
//! that counts: see [`pentarchy_core::protocol::Protocol::JUSTIFICATION`].

use pentarchy_core::ballot::{Grounds, Justification, Reach, byzantine_quorum};

/// So many say that the slot is prepared at each of them.
const COMMITTED: Grounds = Grounds { kind: "commit", voters: byzantine_quorum, reach: Reach::Slot };

const STABLE: Grounds =
    Grounds { kind: "checkpoint", voters: byzantine_quorum, reach: Reach::Slot };

/// Where what is decided is executed.
pub const DECIDED: Justification = Justification {
    of_final: &[COMMITTED],
    of_view: &[Grounds { kind: "view_change", voters: byzantine_quorum, reach: Reach::Slot }],
    of_stable: &[STABLE],
    of_ballot: &[(
        "commit",
        Grounds { kind: "vote", voters: byzantine_quorum, reach: Reach::Slot },
    )],
};

/// Where what is prepared is executed, and becomes final later, or because its state is stable.
pub const TENTATIVE: Justification =
    Justification { of_final: &[COMMITTED, Grounds { reach: Reach::UpTo, ..STABLE }], ..DECIDED };
