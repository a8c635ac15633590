//! Worlds whose clients authenticate to the replicas' devices, with those who would like to speak
//! in their names.

use crate::swarm::factories_of;
use pentarchy_core::ids::ReplicaId;
use pentarchy_protocols::DEFAULT;
use pentarchy_sim::adversary::Behaviour;
use pentarchy_sim::crypto::Means;
use pentarchy_sim::hostile::Hostility;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{Summary, run_options};
use pentarchy_sim::swarm::{Options, SimConfig};

/// Who tries.
#[derive(Clone, Copy)]
enum Forger {
    Replica(u16),
    Client,
}

/// A world with this bug in which somebody forges requests all the time: what the run came to, or
/// the property that it broke.
fn run(seed: u64, forger: Forger, bug: Option<&str>) -> Result<Summary, &'static str> {
    let config = SimConfig { f: Some(1), requests: 200, ..SimConfig::default() };
    let factories = factories_of(DEFAULT);
    let mut rng = Rng::new(seed);
    let mut options = Options::draw(&mut rng, &config, &factories.rules);
    options.means = Means::Session;
    (options.hostile, options.byzantine) = match forger {
        // A correct replica takes of a client's connection only what is that client's. So a faulty
        // member passes on what the client says in others' names, if its own device believes it.
        Forger::Client => {
            let habit = Behaviour::Impostor { rate_ppm: 0 };
            (vec![Hostility::Forge], vec![(ReplicaId(0), vec![habit])])
        }
        Forger::Replica(id) => {
            let habit = Behaviour::Impostor { rate_ppm: 300_000 };
            (Vec::new(), vec![(ReplicaId(id), vec![habit])])
        }
    };
    options.disturbances.clear();
    let world = || run_options(seed, options, &factories, rng, None);
    let outcome = pentarchy_core::mutant::with(bug, world);
    outcome.map_err(|violation| violation.broken.property)
}

#[test]
fn nobody_speaks_in_a_clients_name_and_everybody_is_served() {
    for forger in [Forger::Replica(0), Forger::Replica(1), Forger::Client] {
        let worlds = (0..6).map(|seed| run(seed, forger, None).expect("forgeries are refused"));
        let rejected: u64 = worlds.map(|summary| summary.rejected).sum();
        assert!(rejected > 10, "only {rejected} times was anything refused");
    }
}

#[test]
fn a_device_that_takes_false_tags_is_noticed() {
    let cases = [
        ("session.any-tag-good", Forger::Replica(0)),
        ("session.any-tag-good", Forger::Client),
        ("session.client-not-bound", Forger::Client),
        ("session.group-not-bound", Forger::Client),
    ];
    for (bug, forger) in cases {
        let mut outcomes = (0..200).map(|seed| run(seed, forger, Some(bug)));
        let broken = outcomes.find_map(Result::err);
        assert_eq!(broken, Some("validity"), "{bug}");
    }
}
