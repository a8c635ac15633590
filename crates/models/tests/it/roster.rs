//! The model of reconfiguration.

use pentarchy_models::{MODELS, Model, run_all};

/// Runs without a breach.
const RUNS: u64 = 2_000;

/// In so many runs the loss of a rule must be noticed.
const ENOUGH: u64 = 600;

/// Where to begin for rules whose loss needs a rare scene. Every other rule is looked for from
/// seed 0 on.
const FIRST_SEEDS: &[(&str, u64)] = &[
    ("erases-before-durable", 900),
    ("index-before-epoch", 2_300),
    ("sealed-to-identity", 22_000),
    ("folder-goes-when-not-pending", 28_600),
    ("taken-before-settled", 2_000),
    ("ready-for-ever", 16_900),
];

fn model() -> &'static Model {
    MODELS.iter().find(|model| model.name == "roster").expect("it is one of them")
}

#[test]
fn all_rules_together_hold() {
    let summary = run_all(model(), None, 0, RUNS, 1);
    assert_eq!(summary.first, None, "pentarchy-models roster --runs {RUNS}");
    assert_eq!(summary.runs, RUNS);
}

#[test]
fn the_loss_of_each_rule_is_noticed() {
    for (rule, about) in model().rules {
        let listed = FIRST_SEEDS.iter().find(|(name, _)| name == rule);
        let first = listed.map_or(0, |(_, seed)| *seed);
        let summary = run_all(model(), Some(rule), first, ENOUGH, 1);
        assert!(
            summary.first.is_some(),
            "nothing breaks if {about}: pentarchy-models roster --without {rule} --seed {first}"
        );
    }
}
