//! A network in which each message takes nearly as long as a request is given, and nothing else is
//! wrong: replicas change views until they wait for long enough, and then seldom.

use crate::swarm::factories_of;
use pentarchy_core::mutant;
use pentarchy_protocols::{EXAMPLES, in_pillars};
use pentarchy_sim::checker::stability;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{Violation, run_options};

/// Pillars have others fill slots, one at a time.
const WORLD: &str = "n=4 f=1 clients=7 requests_each=12 window=16 latency_us=350000 \
     jitter_us=1000 round_us=100 stale_timer_ppm=500000 keys=2 values=3 writers=1 \
     queries_percent=100 heal_at_us=1136549 pillars=4";

fn run(seed: u64, rest: &str) -> Result<(), Violation> {
    let options = format!("{WORLD} {rest}").parse().expect("a world");
    let protocol = in_pillars(EXAMPLES.signed.rules.name).expect("it can be split");
    run_options(seed, options, &factories_of(protocol), Rng::new(seed), None).map(|_| ())
}

/// Few views fail in a world, and many with a seeded bug.
fn finds(bug: &'static str, seed: u64, rest: &str) {
    run(seed, rest).expect("few views fail");
    let violation = mutant::with(Some(bug), || run(seed, rest)).expect_err(bug);
    assert_eq!(violation.broken.property, stability::PROPERTY, "{violation}");
}

#[test]
fn what_comes_just_after_its_time_makes_that_longer() {
    finds("frame.late-is-in-time", 1, "think_us=50");
}

#[test]
fn what_failed_views_taught_is_not_forgotten_at_once() {
    finds("frame.shortens-at-once", 0, "think_us=700000");
}
