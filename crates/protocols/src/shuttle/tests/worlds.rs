//! Chains in the simulator: whole replicas with their hosts. No authority is there that could end
//! an epoch, so worlds have only what a chain gets over without one.

use super::super::{CHAIN, CHECKSUMS, DESCRIPTOR};
use crate::descriptor::{ClientStart, Descriptor};
use pentarchy_core::quorum::Quorums;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{ClientSetup, Factories, run_options, run_seed};
use pentarchy_sim::swarm::{Disturbance, Failure, Options, SimConfig};

/// Runs something with a protocol's replicas and clients.
fn with<R>(protocol: &Descriptor, run: impl FnOnce(&Factories<'_>) -> R) -> R {
    let client = |setup: ClientSetup| {
        let ClientSetup { client, n, f, timeouts, start_floor } = setup;
        let group = Quorums { n, f };
        (protocol.client)(ClientStart { client, group, timeouts, start_floor, seed: None })
    };
    run(&Factories::new(protocol.rules, &protocol.start, &client))
}

#[test]
fn chains_of_every_mode_order_where_nobody_is_faulty() {
    let config = SimConfig { faults: false, requests: 200, ..SimConfig::default() };
    for protocol in [&DESCRIPTOR, &CHECKSUMS, &CHAIN] {
        for seed in 0..20 {
            let summary = with(protocol, |factories| run_seed(seed, &config, factories));
            let summary = summary.unwrap_or_else(|violation| panic!("{violation}"));
            assert!(summary.executed > 0 && summary.rejected == 0, "{summary}");
        }
    }
}

/// Links that fail, replicas that pause, and those that stop and go on from their disks.
fn is_got_over(disturbance: &Disturbance) -> bool {
    match disturbance {
        Disturbance::Pause(..)
        | Disturbance::Isolate { .. }
        | Disturbance::Split { .. }
        | Disturbance::Partition { .. } => true,
        Disturbance::Stop { failure, .. } => *failure == Failure::Power,
        _ => false,
    }
}

/// Worlds that lose messages; how many disturbances of each kind they had.
fn gets_over(protocol: &Descriptor, seeds: u64) -> [usize; 2] {
    let config = SimConfig { requests: 200, byzantine: false, ..SimConfig::default() };
    let mut had = [0; 2];
    for seed in 0..seeds {
        let mut rng = Rng::new(seed);
        let mut options = Options::draw(&mut rng, &config, &protocol.rules);
        options.hostile.clear();
        options.byzantine.clear();
        options.disturbances.retain(|(_, it)| is_got_over(it));
        (options.restart_at_end_ppm, options.has_administrators) = (0, false);
        let is_stop = |it: &Disturbance| matches!(it, Disturbance::Stop { .. });
        for (_, it) in &options.disturbances {
            had[usize::from(is_stop(it))] += 1;
        }
        let ran = with(protocol, |factories| run_options(seed, options, factories, rng, None));
        ran.unwrap_or_else(|violation| panic!("{violation}"));
    }
    had
}

#[test]
fn chains_get_over_bad_links_and_power_cuts() {
    for protocol in [&CHECKSUMS, &CHAIN, &DESCRIPTOR] {
        let [links, stops] = gets_over(protocol, 40);
        assert!(links > 0 && stops > 0, "{links} {stops}");
    }
}
