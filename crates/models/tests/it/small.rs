//! The small cases of the model of reconfiguration: nothing breaks in any of their states, and most
//! rules are missed in one. `PENTARCHY_DEEP=1` searches all cases, and every check those with few
//! states.

use pentarchy_models::{Case, MODELS, Model, Searched};

/// More states than any case has.
const STATES_MAX: usize = 5_000_000;

/// Cases with few states, the one with fewest first.
const QUICK: &[&str] = &["calm", "refresh-liar"];

/// When a rule is left out and looked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum When {
    /// In every check: something breaks after few steps.
    Always,
    /// Only in deep ones.
    Deep,
}

/// The rules that are missed in a small case, and such a case.
const MISSED: &[(&str, &str, When)] = &[
    ("later-proof-convinces", "refresh-admission", When::Deep),
    ("change-ends-epoch", "replace-liar-stays", When::Always),
    ("change-without-expected", "rivals", When::Deep),
    ("second-change-replaces", "rivals", When::Always),
    ("signing-key-kept", "replace-liar-stays", When::Deep),
    ("erases-before-durable", "refresh-liar-stop", When::Deep),
    ("votes-before-state-is-durable", "refresh-liar", When::Deep),
    ("retires-before-settled", "replace-liar-stays", When::Deep),
    ("counts-across-configurations", "replace-liar-leaves", When::Deep),
    ("welcome-by-identity", "replace-liar-stays", When::Deep),
    ("secret-outlives-member", "careless", When::Deep),
    ("index-before-epoch", "replace-liar-stays", When::Deep),
    ("configuration-from-file", "refresh-liar-stop", When::Deep),
    ("one-administrator-is-enough", "careless", When::Deep),
    ("next-not-compared", "refresh-liar", When::Always),
    ("believes-single-link", "refresh-liar", When::Always),
    ("ready-at-once", "calm", When::Always),
    ("no-fallback-incarnation", "refresh-liar", When::Always),
    ("fallback-by-name", "refresh-liar", When::Always),
    ("lifeless-members-may-be-late", "replace-liar-stays", When::Deep),
    ("enough-stays", "refresh-admission", When::Always),
    ("silent-when-counted", "refresh-liar", When::Always),
    ("withdrawn-change-returns", "rivals", When::Always),
    ("peers-by-identity", "replace-liar-stays", When::Deep),
    ("channel-not-rekeyed", "replace-liar-stays", When::Deep),
    ("folder-goes-when-not-pending", "refresh-liar-stop", When::Deep),
    ("joiner-learns-the-secret", "careless", When::Always),
    ("taken-before-settled", "replace-liar-stays", When::Deep),
    ("ready-for-ever", "refresh-loss", When::Deep),
];

/// The rules that no small case misses, and why not.
const NEEDS_MORE: &[(&str, &str)] = &[
    ("skips-a-link", "a chain of one link has none that could be skipped"),
    (
        "sealed-to-identity",
        "the secret that the first change seals is in use as long as the case goes on; it is an \
         old one only after a second change",
    ),
    (
        "waits-for-the-departed",
        "the members that a removed one waits for leave only with a second change",
    ),
];

fn is_deep() -> bool {
    std::env::var_os("PENTARCHY_DEEP").is_some()
}

fn model() -> &'static Model {
    MODELS.iter().find(|model| model.name == "roster").expect("it is one of them")
}

/// The cases that are searched whole in this check.
fn cases() -> impl Iterator<Item = &'static Case> {
    model().cases.iter().filter(|case| is_deep() || QUICK.contains(&case.name))
}

fn case(name: &str) -> &'static Case {
    model().cases.iter().find(|case| case.name == name).expect("it is one of them")
}

/// Whether all states were met, and none of them breaks a property.
#[track_caller]
fn assert_holds(case: &Case, without: Option<&str>, searched: &Searched) {
    let name = case.name;
    assert_eq!(searched.found, None, "case {name}, without {without:?}");
    assert!(searched.is_whole, "case {name}, without {without:?}, has more states");
}

#[test]
fn no_state_of_a_small_case_breaks_a_property() {
    for case in cases() {
        assert_holds(case, None, &(case.search)(None, STATES_MAX));
    }
}

#[test]
fn the_loss_of_a_rule_is_noticed_in_a_small_case() {
    for (rule, name, when) in MISSED {
        if *when == When::Always || is_deep() {
            let searched = (case(name).search)(Some(rule), STATES_MAX);
            assert!(
                searched.found.is_some(),
                "nothing breaks: pentarchy-models roster --search --case {name} --without {rule}"
            );
        }
    }
}

#[test]
fn a_rule_that_only_larger_cases_miss_is_missed_in_no_small_one() {
    let most = if is_deep() { usize::MAX } else { 1 };
    for (rule, _) in NEEDS_MORE {
        for case in cases().take(most) {
            assert_holds(case, Some(rule), &(case.search)(Some(rule), STATES_MAX));
        }
    }
}

#[test]
fn each_rule_is_missed_in_a_small_case_or_has_a_reason_why_not() {
    for (rule, _) in model().rules {
        let missed = MISSED.iter().filter(|(name, ..)| name == rule).count();
        let excused = NEEDS_MORE.iter().filter(|(name, _)| name == rule).count();
        assert_eq!(missed + excused, 1, "{rule}");
    }
    assert_eq!(MISSED.len() + NEEDS_MORE.len(), model().rules.len());
}

#[test]
fn a_search_prints_a_shortest_run_to_what_breaks() {
    let searched = (case("refresh-liar").search)(Some("believes-single-link"), STATES_MAX);
    let found = searched.found.expect("the client follows a link of the adversary's keys");
    assert_eq!(found.broken.property, "configuration");
    assert_eq!(found.steps.len(), 2, "{:?}", found.steps);
    assert!(found.steps[1].starts_with("client 0 is shown"), "{:?}", found.steps);
}
