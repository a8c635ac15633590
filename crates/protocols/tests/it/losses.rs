//! Worlds about what a replica must not go on without: its counter, and what its disk had.

use crate::swarm::factories;
use pentarchy_core::ids::ReplicaId;
use pentarchy_sim::crypto::Means;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::run_options;
use pentarchy_sim::swarm::{Disturbance, Failure, Options, SimConfig, Target};

/// One replica is about to forget, as its counter is gone, and has not noticed: so the disk of
/// another one that ends meanwhile must not rot.
#[test]
fn who_loses_its_counter_and_whose_disk_rots_are_not_more_than_may_forget() {
    let config = SimConfig { f: Some(1), requests: 200, ..SimConfig::default() };
    let factories = factories("minbft");
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
