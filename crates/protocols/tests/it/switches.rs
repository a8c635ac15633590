//! Groups that switch to another protocol while clients go on.

use crate::swarm::factories_of;
use pentarchy_core::mutant;
use pentarchy_protocols::{EXAMPLES, PROTOCOLS};
use pentarchy_sim::checker::linearizability;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{Summary, Violation, run_options};

/// One client writes, every other one of the rest is late to follow, and reads. A faulty replica
/// and two that hear others late say what was before.
const WORLD: &str = "n=4 f=1 clients=7 requests_each=200 think_us=50 checkpoint=64 window=256 \
     batch=1 in_flight=4 latency_us=20 jitter_us=50 slow_links=1234 slow_link_us=8000 \
     round_us=50 keys=1 values=2 writers=1 queries_percent=100 heal_at_us=3000000 \
     administrators=1 follow_late_ms=2000 faulty=r0:mislead at=1000:switch(0)";

fn run(seed: u64) -> Result<Summary, Violation> {
    let options = WORLD.parse().expect("a world");
    run_options(seed, options, &factories_of(EXAMPLES.signed), Rng::new(seed), None)
}

#[test]
fn answers_of_two_protocols_do_not_count_together() {
    let seeds = 18..=20;
    for seed in seeds.clone() {
        assert_eq!(run(seed).expect("reads are linearizable").configurations, 1);
    }
    let bug = "standing.counts-who-is-ahead";
    let found = mutant::with(Some(bug), || seeds.clone().find_map(|seed| run(seed).err()));
    assert_eq!(found.expect(bug).broken.property, linearizability::PROPERTY);
}

/// Each protocol to which groups can switch is switched to from each other one: none has a name
/// for which there is nothing to be run.
#[test]
fn each_protocol_that_can_be_switched_to_has_others() {
    let all = PROTOCOLS.iter().copied().filter(|entry| entry.can_be_switched_to());
    let all: Vec<_> = all.map(|entry| entry.rules.name).collect();
    for entry in PROTOCOLS {
        let others: Vec<_> = entry.switches_to().map(|other| other.rules.name).collect();
        let expected = all.iter().copied().filter(|name| *name != entry.rules.name);
        match entry.can_be_switched_to() {
            true => assert_eq!(others, expected.collect::<Vec<_>>()),
            false => assert!(others.is_empty(), "{}", entry.rules.name),
        }
        assert_eq!(factories_of(entry).all().count(), 1 + others.len());
    }
}
