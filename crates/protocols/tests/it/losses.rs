//! Worlds about what a replica must not go on without: its counter, and what its disk had.

use crate::registry::every;
use crate::swarm::factories_of;
use pentarchy_core::ids::ReplicaId;
use pentarchy_protocols::{Descriptor, Status};
use pentarchy_sim::crypto::Means;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{Summary, run_options, run_seed};
use pentarchy_sim::swarm::{Disturbance, Failure, Options, SimConfig, Target};

/// The stable protocols that rest on counters.
fn stable() -> impl Iterator<Item = &'static Descriptor> {
    every().filter(|it| it.rules.counter.is_some() && it.status == Status::Stable)
}

/// One replica is about to forget, as its counter is gone, and has not noticed: so the disk of
/// another one that ends meanwhile must not rot.
#[test]
fn who_loses_its_counter_and_whose_disk_rots_are_not_more_than_may_forget() {
    let config = SimConfig { f: Some(1), requests: 200, ..SimConfig::default() };
    let entry = stable().next().expect("some protocol has a counter");
    let factories = factories_of(entry);
    let mut resumed = 0;
    for seed in 0..12 {
        let mut rng = Rng::new(seed);
        let mut options = Options::draw(&mut rng, &config, &factories.rules);
        (options.means, options.restart_at_end_ppm) = (Means::Signature, 0);
        options.byzantine.clear();
        options.hostile.clear();
        let [first, second] = [1, 2].map(|id| Target::Replica(ReplicaId(id)));
        let at = options.heal_at / 2;
        let (failure, points, lasts) = (Failure::Rot, 3, 1);
        options.disturbances = vec![
            (at, Disturbance::Pause(first, 300_000)),
            (at + 1, Disturbance::CounterDies(first)),
            (at + 2, Disturbance::Stop { target: second, failure, points, lasts }),
        ];
        let summary = run_options(seed, options, &factories, rng, None);
        resumed += summary.unwrap_or_else(|violation| panic!("{violation}")).resumed;
    }
    assert!(resumed > 0, "nobody came back with its disk");
}

/// The worlds of the first seeds in which disks are put back from copies.
fn old_copies(entry: &'static Descriptor, worlds: usize) -> Vec<Summary> {
    let config = SimConfig { requests: 200, ..SimConfig::default() };
    let factories = factories_of(entry);
    let is_put_back = |seed: &u64| {
        let options = Options::draw(&mut Rng::new(*seed), &config, &factories.rules);
        let failure = |(_, it): &(_, Disturbance)| {
            matches!(it, Disturbance::Stop { failure: Failure::PutBack, .. })
        };
        options.disturbances.iter().any(failure)
    };
    let run = |seed| run_seed(seed, &config, &factories);
    let outcomes = (0..).filter(is_put_back).take(worlds).map(run);
    outcomes.map(|it| it.unwrap_or_else(|violation| panic!("{violation}"))).collect()
}

#[test]
fn who_is_put_back_to_an_old_copy_is_told_and_ends() {
    for entry in stable() {
        let (protocol, summaries) = (entry.rules.name, old_copies(entry, 12));
        let rewound: u64 = summaries.iter().map(|summary| summary.rewound).sum();
        eprintln!("{protocol}: {rewound} of {} rewound", summaries.len());
        assert!(rewound > 0, "{protocol}: nobody was told that its disk is old");
    }
}
