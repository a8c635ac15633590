//! The specifications in `docs/spec`: their constants, rules and invariants, and in which settings
//! TLC searches them.

/// Constants, each with its value.
type Constants = &'static [(&'static str, &'static str)];

/// A module with a configuration of the same name.
pub struct Specification {
    pub name: &'static str,
    /// All but the rules, as the configuration beside the module has them.
    pub constants: Constants,
    /// Whether its values can be exchanged for each other.
    pub symmetric: bool,
    /// What has to hold.
    pub invariants: &'static str,
    pub rules: &'static [Rule],
    /// In which settings all rules together are searched to the end.
    pub settings: &'static [Setting],
}

/// A rule that can be left out.
pub struct Rule {
    /// Its constant.
    pub name: &'static str,
    pub about: &'static str,
    /// The invariant that does not hold without it.
    pub breaks: &'static str,
    /// Where TLC finds that.
    pub setting: &'static Setting,
}

/// What is searched.
pub struct Setting {
    pub about: &'static str,
    /// Those that differ from the specification's own.
    pub constants: Constants,
    /// Whether the search takes minutes.
    pub slow: bool,
}

/// All of them.
pub const ALL: &[Specification] = &[HYBSTER, SHUTTLE];

const fn fast(about: &'static str, constants: Constants) -> Setting {
    Setting { about, constants, slow: false }
}

const fn slow(about: &'static str, constants: Constants) -> Setting {
    Setting { about, constants, slow: true }
}

const fn rule(
    name: &'static str,
    breaks: &'static str,
    setting: &'static Setting,
    about: &'static str,
) -> Rule {
    Rule { name, about, breaks, setting }
}

const THREE_VIEWS: Setting = fast("replica 1 faulty, views 0 to 2", &[]);
const FOUR_VIEWS: Setting = slow("replica 1 faulty, views 0 to 3", &[("MaxView", "3")]);

const HYBSTER: Specification = Specification {
    name: "Hybster",
    constants: &[("N", "3"), ("Faulty", "{1}"), ("MaxView", "2"), ("Values", "{\"a\", \"b\"}")],
    symmetric: false,
    invariants: "Agreement OwnWordsAreValid",
    rules: &[
        rule(
            "NeedsBasis",
            "Agreement",
            &THREE_VIEWS,
            "a view that was never opened is left with a certificate only",
        ),
        rule(
            "Resolved",
            "Agreement",
            &FOUR_VIEWS,
            "no member of the certificate comes from a later view",
        ),
        rule(
            "Established",
            "Agreement",
            &THREE_VIEWS,
            "a new view comes from one that f + 1 have accepted",
        ),
        rule(
            "HighestFrom",
            "Agreement",
            &THREE_VIEWS,
            "a new view comes from the highest that a member names",
        ),
    ],
    settings: &[
        THREE_VIEWS,
        slow("replica 0 faulty, views 0 to 2", &[("Faulty", "{0}")]),
        slow("replica 2 faulty, views 0 to 2", &[("Faulty", "{2}")]),
    ],
};

const SECOND_LIES: Setting = fast("replica 1 faulty", &[]);
const HEAD_LIES: Setting = fast("replica 0 faulty", &[("Faulty", "{0}")]);
const SHORT_REPORTS: Setting = fast("replica 1 faulty, reports of one batch", &[("Window", "1")]);
const HEAD_LIES_SHORT: Setting =
    fast("replica 0 faulty, reports of one batch", &[("Faulty", "{0}"), ("Window", "1")]);
/// Two full replicas that do not lie, and may lose their logs; two lives of each.
const CRASHES: Setting = fast(
    "crash mode",
    &[("N", "2"), ("Faulty", "{}"), ("Needed", "1"), ("Shift", "1"), ("MaxLife", "2")],
);
const CRASHES_TWICE: Setting = slow(
    "crash mode, three lives",
    &[("N", "2"), ("Faulty", "{}"), ("Needed", "1"), ("Shift", "1"), ("MaxLife", "3")],
);

const SHUTTLE: Specification = Specification {
    name: "Shuttle",
    constants: &[
        ("N", "3"),
        ("Pool", "3"),
        ("Shift", "0"),
        ("Faulty", "{1}"),
        ("Needed", "2"),
        ("MaxEpoch", "2"),
        ("Slots", "2"),
        ("Window", "2"),
        ("MaxLife", "1"),
        ("Values", "{a, b}"),
    ],
    symmetric: true,
    invariants: "Agreement Acceptance BasesExist ReportsSuffice Executable",
    rules: &[
        rule("AllTags", "Agreement", &SECOND_LIES, "all predecessors have tagged what is ordered"),
        rule("EpochInTags", "Agreement", &SECOND_LIES, "a statement names its epoch"),
        rule("DoneByAll", "Acceptance", &SECOND_LIES, "done is what all successors have tagged"),
        rule("FinalIfDone", "Acceptance", &SECOND_LIES, "only what is done is said to be final"),
        rule("MarksIfDone", "ReportsSuffice", &SECOND_LIES, "a checkpoint is of what is done"),
        rule("MarksOfAll", "BasesExist", &SECOND_LIES, "all full replicas sign a checkpoint"),
        rule("WitnessesVouch", "Acceptance", &SECOND_LIES, "a client hears the witness too"),
        rule("ResultsOfAll", "Acceptance", &SECOND_LIES, "a client has f + 1 equal results"),
        rule("WedgeStops", "Acceptance", &SECOND_LIES, "nothing is ordered behind a wedge"),
        rule("EachLimits", "ReportsSuffice", &HEAD_LIES_SHORT, "each replica limits its report"),
        rule("ConflictFree", "Acceptance", &SECOND_LIES, "chosen reports are compatible"),
        rule("HighestBase", "ReportsSuffice", &SHORT_REPORTS, "the highest base is chosen"),
        rule("HoldsFirst", "Executable", &SECOND_LIES, "members hold what they begin with"),
        rule("OwnLife", "Acceptance", &CRASHES, "who lost its log reports nothing"),
        rule("HeldLife", "Executable", &CRASHES, "members are the lives that held"),
    ],
    settings: &[
        SECOND_LIES,
        HEAD_LIES,
        fast("replica 2 faulty", &[("Faulty", "{2}")]),
        SHORT_REPORTS,
        CRASHES,
        CRASHES_TWICE,
        slow("replica 1 faulty, three epochs", &[("MaxEpoch", "3")]),
        slow(
            "replica 1 faulty, three epochs, members change, reports of one batch",
            &[("Pool", "4"), ("Shift", "1"), ("MaxEpoch", "3"), ("Window", "1")],
        ),
    ],
};
