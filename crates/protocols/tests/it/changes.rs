//! Worlds about changing the primary: `SEEDS=1000 PROTOCOL=minbft cargo test --release -p
//! pentarchy-protocols --test it changes` runs more of them.

use crate::swarm::{bound, factories_of, jobs, swept};
use pentarchy_core::mutant;
use pentarchy_protocols::of_mutant;
use pentarchy_sim::run::{run_many, run_seed};
use pentarchy_sim::swarm::{SimConfig, Theme};

fn config(theme: Theme) -> SimConfig {
    let f = (theme == Theme::Changes).then_some(1);
    SimConfig { requests: 200, f, theme: Some(theme), ..SimConfig::default() }
}

fn seeds(release: u64) -> u64 {
    let asked = std::env::var("SEEDS").ok().and_then(|text| text.parse().ok());
    asked.unwrap_or_else(|| bound(release))
}

fn survive(theme: Theme) {
    for entry in swept() {
        let protocol = entry.rules.name;
        let mut broken = Vec::new();
        run_many(0..seeds(8), jobs(), &config(theme), &factories_of(entry), |outcome| {
            broken.extend(outcome.as_ref().err().map(ToString::to_string));
            broken.len() < 5
        });
        assert!(broken.is_empty(), "{protocol}:\n{}", broken.join("\n"));
    }
}

#[test]
fn groups_survive_changes_of_their_primary() {
    survive(Theme::Changes);
}

#[test]
fn groups_survive_views_that_fail_by_exact_minorities() {
    survive(Theme::Minorities);
}

/// The first of so many worlds that a seeded bug breaks, and what names it.
fn found(theme: Theme, mutant: &'static str, worlds: u64) -> Option<(u64, &'static str)> {
    let factories = factories_of(of_mutant(mutant));
    mutant::with(Some(mutant), || {
        (0..worlds).find_map(|seed| {
            let violation = run_seed(seed, &config(theme), &factories).err()?;
            Some((seed, violation.broken.property))
        })
    })
}

#[test]
#[ignore = "by hand"]
fn which() {
    for mutant in std::env::var("MUTANTS").unwrap_or_default().split_whitespace() {
        let name = mutant::MUTANTS.iter().find(|it| it.name == mutant).expect("known").name;
        for theme in [Theme::Minorities, Theme::Changes] {
            println!("{name} {theme:?} {:?}", found(theme, name, 300));
        }
    }
}

#[test]
fn a_replica_without_a_timer_is_found() {
    let found = found(Theme::Changes, "frame.waits-untimed-for-a-quorum", 4);
    assert_eq!(found.map(|(_, property)| property), Some("panic"), "{found:?}");
}

/// The liar keeps what a correct replica asked for in a bad moment, and plays it long after.
#[test]
fn asks_that_nobody_stands_by_are_found() {
    let found = found(Theme::Changes, "frame.old-asks-count", 40);
    assert_eq!(found.map(|(_, property)| property), Some("deposition"), "{found:?}");
}
