//! The plans of the cases: what may happen in each.

use super::{Kind, Left, Plan, Proposal, search_case};
use crate::Case;
use crate::roster::values::THRESHOLD;

/// The cases, those with few states first.
pub(in crate::roster) const CASES: &[Case] = &[
    Case {
        name: "calm",
        about: "keys are renewed; nobody is faulty, and requests are ordered in time",
        search: |without, states_max| search_case(&CALM, without, states_max),
    },
    Case {
        name: "refresh-liar",
        about: "keys are renewed; one member is the adversary's; a client",
        search: |without, states_max| search_case(&REFRESH_LIAR, without, states_max),
    },
    Case {
        name: "refresh-admission",
        about: "keys are renewed; one member is the adversary's, and asks to be admitted again",
        search: |without, states_max| search_case(&REFRESH_ADMISSION, without, states_max),
    },
    Case {
        name: "rivals",
        about: "two administrators propose to renew keys at once, and withdraw that",
        search: |without, states_max| search_case(&RIVALS, without, states_max),
    },
    Case {
        name: "refresh-liar-stop",
        about: "keys are renewed; one member is the adversary's; one power failure",
        search: |without, states_max| search_case(&REFRESH_LIAR_STOP, without, states_max),
    },
    Case {
        name: "careless",
        about: "keys are renewed, beside proposals that are refused; the adversary takes a member",
        search: |without, states_max| search_case(&CARELESS, without, states_max),
    },
    Case {
        name: "refresh-stop",
        about: "keys are renewed; one power failure",
        search: |without, states_max| search_case(&REFRESH_STOP, without, states_max),
    },
    Case {
        name: "refresh",
        about: "keys are renewed; the adversary takes a member; a client",
        search: |without, states_max| search_case(&REFRESH, without, states_max),
    },
    Case {
        name: "replace",
        about: "a member is replaced; the adversary takes a member",
        search: |without, states_max| search_case(&REPLACE, without, states_max),
    },
    Case {
        name: "refresh-loss",
        about: "keys are renewed; a member loses its device; the adversary takes a member",
        search: |without, states_max| search_case(&REFRESH_LOSS, without, states_max),
    },
    Case {
        name: "replace-liar-leaves",
        about: "a member of the adversary is replaced; it takes another one; a client",
        search: |without, states_max| search_case(&REPLACE_LIAR_LEAVES, without, states_max),
    },
    Case {
        name: "replace-liar-stays",
        about: "a member is replaced; the adversary has another one, and takes one more; a client",
        search: |without, states_max| search_case(&REPLACE_LIAR_STAYS, without, states_max),
    },
    Case {
        name: "replace-early",
        about: "the same, and it need not wait until the next members hold the state: safety only",
        search: |without, states_max| search_case(&REPLACE_EARLY, without, states_max),
    },
    Case {
        name: "replace-liar-stop",
        about: "a member is replaced; it or another one is the adversary's; one power failure",
        search: |without, states_max| search_case(&REPLACE_LIAR_STOP, without, states_max),
    },
];

const REFRESHES: Proposal =
    Proposal { kind: Kind::Refresh, keeps_secret: false, signers: THRESHOLD };
const REPLACES: Proposal = Proposal { kind: Kind::Replace, ..REFRESHES };

const NOTHING: Left = Left { possessions: 0, stops: 0, losses: 0, admissions: 0 };

/// Keys are renewed, and nothing goes wrong. More slots than these cannot have an effect.
pub(super) const QUIET: Plan = Plan {
    proposals: &[REFRESHES],
    withdraws: false,
    liars: &[None],
    calm: false,
    is_early: false,
    has_client: false,
    left: NOTHING,
    slots: 6,
};

const CALM: Plan = Plan { calm: true, slots: 5, ..QUIET };

const REFRESH: Plan = Plan { has_client: true, left: Left { possessions: 1, ..NOTHING }, ..QUIET };

const REFRESH_LIAR: Plan = Plan { liars: &[Some(0)], has_client: true, ..QUIET };

const REFRESH_LIAR_STOP: Plan =
    Plan { liars: &[Some(0)], left: Left { stops: 1, ..NOTHING }, ..QUIET };

pub(super) const REFRESH_STOP: Plan = Plan { left: Left { stops: 1, ..NOTHING }, ..QUIET };

/// A member asks to be admitted at most once in each of two epochs, and says more than once that it
/// is ready: with what its device had before, and has then.
const REFRESH_LOSS: Plan =
    Plan { left: Left { losses: 1, possessions: 1, ..NOTHING }, slots: 7, ..QUIET };

const REFRESH_ADMISSION: Plan =
    Plan { liars: &[Some(0)], left: Left { admissions: 1, ..NOTHING }, slots: 7, ..QUIET };

/// Without a rule, the second change can follow the first one: four slots each.
const RIVALS: Plan =
    Plan { proposals: &[REFRESHES, REFRESHES], withdraws: true, slots: 8, ..QUIET };

/// Beside a change that may be: one that too few administrators signed, and two that leave the
/// devices the secret that a former or future member knows.
const CARELESS: Plan = Plan {
    proposals: &[
        REFRESHES,
        Proposal { signers: THRESHOLD - 1, ..REFRESHES },
        Proposal { keeps_secret: true, ..REPLACES },
        Proposal { kind: Kind::Add, keeps_secret: true, ..REFRESHES },
    ],
    left: Left { possessions: 1, ..NOTHING },
    ..QUIET
};

const REPLACE: Plan =
    Plan { proposals: &[REPLACES], left: Left { possessions: 1, ..NOTHING }, ..QUIET };

const REPLACE_LIAR_LEAVES: Plan = Plan { liars: &[Some(0)], has_client: true, ..REPLACE };

const REPLACE_LIAR_STAYS: Plan = Plan { liars: &[Some(1)], ..REPLACE_LIAR_LEAVES };

const REPLACE_EARLY: Plan = Plan { is_early: true, ..REPLACE_LIAR_STAYS };

const REPLACE_LIAR_STOP: Plan =
    Plan { liars: &[Some(0), Some(1)], left: Left { stops: 1, ..NOTHING }, ..REPLACE };
