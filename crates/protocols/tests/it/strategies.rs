//! What a faulty primary gains by being slow, or by serving only some.

use crate::swarm::{factories_of, jobs};
use pentarchy_core::limits::TURNAROUND_MILLIS;
use pentarchy_core::mutant;
use pentarchy_protocols::DEFAULT;
use pentarchy_sim::strategies::{STRATEGIES, play, play_all};

#[test]
fn a_faulty_primary_gains_little() {
    let played = play_all(jobs(), &factories_of(DEFAULT));
    let honest = played[0].as_ref().ok().and_then(|summary| summary.late_mean_us);
    for (strategy, played) in STRATEGIES.iter().zip(&played) {
        let summary = played.as_ref().unwrap_or_else(|it| panic!("{}: {it}", strategy.name));
        let mean = summary.late_mean_us.expect("enough requests");
        eprintln!("{}: {mean} us, view {}", strategy.name, summary.view.0);
        let head_start_ms = 10;
        assert!(mean < (TURNAROUND_MILLIS + head_start_ms) * 1_000, "{}", strategy.name);
        assert!(summary.view.0 <= 3, "{}: {summary}", strategy.name);
        assert!(strategy.name != "honest" || summary.view.0 == 0, "{summary}");
    }
    assert!(honest.is_some_and(|mean| mean < 2_000), "{honest:?}");
}

/// What the measure is worth: without the defence, slowness shows.
#[test]
fn slowness_shows() {
    let late = STRATEGIES.iter().find(|it| it.name == "late by half of what clients wait");
    let late = late.expect("it is among them");
    let kept = mutant::with(Some("pace.slow-primary-kept"), || play(late, &factories_of(DEFAULT)));
    assert_eq!(kept.map_err(|it| it.broken.property).expect_err("it is slow"), "promptness");
}
