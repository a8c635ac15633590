//! What a faulty first primary may try so as to slow a group down without being replaced, and what
//! it gains by it: the same load under each strategy.

use crate::adversary::Behaviour;
use crate::checker::promptness::Promptness;
use crate::crypto::Means;
use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, for_each, run_options};
use crate::swarm::{Options, SimConfig};
use crate::workload::WorkloadOptions;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::limits::TURNAROUND_MILLIS;
use pentarchy_core::protocol::{Timeouts, Tuning};
use std::sync::Mutex;

/// The seed of every world here.
const SEED: u64 = 1 << 41;

/// A way to be a bad primary.
pub struct Strategy {
    /// In tables.
    pub name: &'static str,
    /// What the first primary does, given the numbers behind delays.
    pub habits: fn(&Timeouts) -> Vec<Behaviour>,
}

const fn late(micros: u64) -> Behaviour {
    Behaviour::Delay { least: micros, up_to: micros }
}

/// All of them, the honest one first.
pub const STRATEGIES: &[Strategy] = &[
    Strategy { name: "honest", habits: |_| Vec::new() },
    Strategy {
        name: "silent to replicas",
        habits: |_| vec![Behaviour::Silent { to_clients_too: false }],
    },
    Strategy {
        name: "late by almost the request timeout",
        habits: |timeouts| vec![late(timeouts.request_ms * 950)],
    },
    Strategy {
        name: "late by half of what clients wait",
        habits: |timeouts| vec![late(timeouts.client_retry_ms * 500)],
    },
    Strategy { name: "late by 50 ms", habits: |_| vec![late(50_000)] },
    Strategy {
        name: "late by what is tolerated",
        habits: |_| vec![late(TURNAROUND_MILLIS * 1_000)],
    },
    Strategy {
        name: "late by anything up to 200 ms",
        habits: |_| vec![Behaviour::Delay { least: 0, up_to: 200_000 }],
    },
    Strategy {
        name: "speaks to one backup, lies to clients",
        habits: |_| {
            let friends = ReplicaSet::from_iter([ReplicaId(1)]);
            vec![Behaviour::Selective { friends, answers_clients: true }, Behaviour::Liar]
        },
    },
    Strategy {
        name: "speaks to backups in turn, lies to clients",
        habits: |_| vec![Behaviour::Alternate, Behaviour::Liar],
    },
    Strategy {
        name: "repeats old messages",
        habits: |_| vec![Behaviour::Replay { repeat_ppm: 200_000 }],
    },
    Strategy {
        name: "sends back what others said to them",
        habits: |_| vec![Behaviour::Echo { rate_ppm: 200_000 }],
    },
    Strategy {
        name: "half of what it says is spoilt",
        habits: |_| vec![Behaviour::Corrupt { rate_ppm: 500_000 }],
    },
    Strategy { name: "starves one client", habits: |_| vec![Behaviour::Starve { client: 0 }] },
    Strategy {
        name: "forges messages",
        habits: |_| vec![Behaviour::Forge { alone: true, rate_ppm: 300_000 }],
    },
];

/// What came of a strategy.
pub type Played = Result<Summary, Violation>;

/// Plays all strategies, on this many threads; what came of each, in their order.
pub fn play_all(jobs: usize, factories: &Factories<'_>) -> Vec<Played> {
    let played: Mutex<Vec<Option<Played>>> = Mutex::new(STRATEGIES.iter().map(|_| None).collect());
    let run = |index: u64| {
        let outcome = play(&STRATEGIES[index as usize], factories);
        let mut played = played.lock().expect("nobody panics with it");
        played[index as usize] = Some(outcome.clone());
        outcome
    };
    for_each(0..STRATEGIES.len() as u64, jobs, run, |_| true);
    let played = played.into_inner().expect("nobody panicked with it");
    played.into_iter().map(|outcome| outcome.expect("each was played")).collect()
}

/// Four clients, with four requests each at a time, in a group of which only the first primary is
/// faulty, for as long as it takes to find out and ten seconds more.
///
/// # Errors
/// The property that it breaks.
pub fn play(strategy: &Strategy, factories: &Factories<'_>) -> Played {
    let config = SimConfig { f: Some(1), faults: false, ..SimConfig::default() };
    let mut rng = Rng::new(SEED);
    let drawn = Options::draw(&mut rng, &config, &factories.rules);
    let habits = (strategy.habits)(&drawn.timeouts);
    let think_us = 10_000;
    let options = Options {
        clients: 4,
        outstanding: 4,
        think_us,
        requests_each: (Promptness::grace(1) + 10_000_000) / think_us,
        tuning: Tuning { checkpoint_slots: 16, window_slots: 64, ..Tuning::default() },
        means: Means::Signature,
        round_us: 50,
        workload: WorkloadOptions {
            keys: 64,
            values: 0,
            writers: 0,
            reads_percent: 0,
            queries_percent: 0,
            large_ppm: 0,
            skip_ppm: 0,
            tells_percent: 0,
            floods_ppm: 0,
            gives_up_ppm: 0,
            judged_percent: 0,
            follow_late_ms: 0,
        },
        byzantine: if habits.is_empty() { Vec::new() } else { vec![(ReplicaId(0), habits)] },
        ..drawn
    };
    run_options(SEED, options, factories, rng, None)
}
