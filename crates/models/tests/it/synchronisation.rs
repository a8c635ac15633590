//! Mod-SMaRt: nothing breaks with all rules, and something without any one of them.

use pentarchy_models::{MODELS, Model, run_all, run_until_broken};

fn models() -> impl Iterator<Item = &'static Model> {
    MODELS.iter().filter(|model| model.name.starts_with("synchronisation"))
}

#[test]
fn nothing_breaks_with_all_rules() {
    for model in models() {
        let summary = run_all(model, None, 0, 2_000, 1);
        assert_eq!(summary.first, None, "{}", model.name);
    }
}

#[test]
fn each_rule_is_missed() {
    for model in models() {
        for (rule, _) in model.rules {
            let found = run_until_broken(model, rule, 10_000);
            assert!(found.is_some(), "{}: nothing breaks without {rule}", model.name);
        }
    }
}
