//! Twins by enumeration: a group in which one replica exists twice, with one identity and one
//! device, under every schedule of partitions in rounds (Bano et al., "Twins: BFT systems made
//! robust", 2021). Neither copy lies, and together they do what a liar could. Schedules that differ
//! only in the names of the copies or of the parts count once. The group is the smallest that
//! tolerates one fault, so how many schedules there are depends on the protocol.

use crate::adversary::Behaviour;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::network::{NetworkOptions, Parts};
use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, for_each, run_options};
use crate::swarm::{DiskOptions, Disturbance, Options, SimConfig};
use crate::time::Micros;
use crate::workload::WorkloadOptions;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_BYTES;
use pentarchy_core::protocol::{Rules, Tuning};
use std::ops::Range;

/// How long a partition lasts: long enough for a client to lose patience and for a view change.
const ROUND: Micros = 1_000_000;

/// Rounds that can be enumerated in bearable time, of the smallest group: see [`rounds_max`].
pub const ROUNDS_MAX: u32 = 6;

/// Schedules that are enumerated at most.
const SCHEDULES_MAX: u64 = 20_000_000;

/// Operations of each of two clients in a round.
const REQUESTS: u64 = 12;

/// Who is copied, and who can speak to whom in each round.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// Replicas; the copy stands behind them.
    pub n: u16,
    /// The replica that exists twice.
    pub copied: ReplicaId,
    /// One partition for each round.
    pub rounds: Vec<Parts>,
}

/// The replicas of this protocol's smallest group; none if one that exists twice is more than it
/// tolerates, or there are more places than a partition can tell apart.
#[must_use]
pub fn group(rules: &Rules) -> Option<u16> {
    let n = rules.replicas(1);
    let fits = (3..Parts::PLACES_MAX).contains(&n);
    (rules.fault_model.lies() && fits).then_some(n as u16)
}

/// How many rounds of a group of so many can be enumerated.
#[must_use]
pub fn rounds_max(n: u16) -> u32 {
    let partitions = partitions(n).len() as u64;
    // Of two schedules that differ in the names of the copies one is left out.
    let fits = |rounds: &u32| partitions.pow(*rounds) * u64::from(n) / 2 <= SCHEDULES_MAX;
    (1..=ROUNDS_MAX).take_while(fits).last().unwrap_or(0)
}

/// Every way to put so many replicas and the copy into parts, the parts numbered as they appear.
fn partitions(n: u16) -> Vec<Parts> {
    let mut all = vec![(Parts(0), 0)];
    for place in 0..=n {
        let next = |&(parts, count): &(Parts, u64)| {
            (0..=count).map(move |part| (parts.with(place, part), count.max(part + 1)))
        };
        all = all.iter().flat_map(next).collect();
    }
    all.into_iter().map(|(parts, _)| parts).collect()
}

/// The same partition with the parts numbered as they appear.
fn renumbered(parts: Parts, n: u16) -> Parts {
    let mut known: Vec<u64> = Vec::new();
    (0..=n).fold(Parts(0), |new, place| {
        let part = parts.of(place);
        let number = known.iter().position(|it| *it == part).unwrap_or_else(|| {
            known.push(part);
            known.len() - 1
        });
        new.with(place, number as u64)
    })
}

/// The same partition with the two copies exchanged.
fn exchanged(parts: Parts, copied: ReplicaId, n: u16) -> Parts {
    let (original, copy) = (parts.of(copied.0), parts.of(n));
    renumbered(parts.with(copied.0, copy).with(n, original), n)
}

/// All schedules of this many rounds, at most [`rounds_max`], for a group of `n`, each once.
#[must_use]
pub fn schedules(rounds: u32, n: u16) -> Vec<Schedule> {
    let partitions = partitions(n);
    let total = (partitions.len() as u64).pow(rounds);
    let mut all = Vec::new();
    for copied in (0..n).map(ReplicaId) {
        for number in 0..total {
            let digit = |round: u32| {
                let index = number / (partitions.len() as u64).pow(round);
                partitions[(index % partitions.len() as u64) as usize]
            };
            let chosen: Vec<Parts> = (0..rounds).map(digit).collect();
            let other = chosen.iter().map(|parts| exchanged(*parts, copied, n).0);
            if chosen.iter().map(|parts| parts.0).le(other) {
                all.push(Schedule { n, copied, rounds: chosen });
            }
        }
    }
    all
}

impl Schedule {
    /// The world in which it happens.
    #[must_use]
    pub fn options(&self, config: &SimConfig) -> Options {
        let rounds = self.rounds.len() as u64;
        let partition = |(round, parts): (u64, &Parts)| {
            (round * ROUND, Disturbance::Partition { parts: *parts, lasts: ROUND })
        };
        Options {
            f: 1,
            n: usize::from(self.n),
            pillars: config.pillars.unwrap_or(1),
            rotates: config.rotates.unwrap_or_default(),
            clients: 2,
            outstanding: 2,
            requests_each: REQUESTS * rounds,
            think_us: ROUND / (REQUESTS + REQUESTS / 4),
            rest_us: 0,
            tuning: Tuning {
                checkpoint_slots: 4,
                checkpoint_bytes: CHECKPOINT_BYTES,
                window_slots: 12,
                batch_requests: 4,
                proposals_in_flight: 2,
                interleaving: 0,
            },
            timeouts: config.timeouts,
            network: NetworkOptions { latency_us: 100, jitter_us: 200, ..Default::default() },
            hearing: 0,
            hears_late_us: 0,
            late_checkpoints: 0,
            left_alone_us: 0,
            skew_ms: 20,
            drift_ppm: 0,
            means: Means::Signature,
            hostile: Vec::new(),
            device: config.device,
            watch_devices: config.device == DeviceFault::None,
            round_us: 50,
            busy_ppm: 0,
            stale_timer_ppm: 0,
            restart_at_end_ppm: 0,
            stop_at_end_ppm: 0,
            disk: DiskOptions::default(),
            has_store: false,
            has_real_devices: false,
            has_administrators: false,
            possesses: false,
            joins_badly_ppm: 0,
            workload: WorkloadOptions {
                keys: 4,
                values: 0,
                writers: 0,
                reads_percent: 20,
                queries_percent: 50,
                large_ppm: 0,
                skip_ppm: 0,
                tells_percent: 5,
                floods_ppm: 0,
                gives_up_ppm: 0,
                judged_percent: 0,
                follow_late_ms: 0,
            },
            byzantine: vec![(self.copied, vec![Behaviour::Twin])],
            disturbances: (0..).zip(&self.rounds).map(partition).collect(),
            heal_at: rounds * ROUND,
            liveness_timeouts: config.liveness_timeouts,
        }
    }
}

/// Runs some of all schedules on this many threads, each with its index as its seed; see
/// [`crate::run::run_many`].
pub fn run_schedules(
    schedules: &[Schedule],
    indices: Range<u64>,
    jobs: usize,
    config: &SimConfig,
    factories: &Factories<'_>,
    progress: impl FnMut(&Result<Summary, Violation>) -> bool + Send,
) {
    let end = indices.end.min(schedules.len() as u64);
    let run = |index: u64| {
        let options = schedules[index as usize].options(config);
        run_options(index, options, factories, Rng::new(index), None)
    };
    for_each(indices.start..end, jobs, run, progress);
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn places_have_as_many_partitions_as_bell_counted() {
        for (n, count) in [(3, 15), (4, 52), (6, 877)] {
            let all: BTreeSet<u64> = partitions(n).iter().map(|parts| parts.0).collect();
            assert_eq!(all.len(), count);
            assert!(partitions(n).iter().all(|parts| renumbered(*parts, n) == *parts));
        }
    }

    #[test]
    fn larger_groups_have_fewer_rounds_that_can_be_enumerated() {
        assert_eq!([3, 4, 6].map(rounds_max), [6, 4, 2]);
    }

    #[test]
    fn exchanging_the_copies_twice_changes_nothing_and_of_two_such_schedules_one_is_kept() {
        for (n, rounds) in [(3, 1), (3, 2), (3, 3), (4, 1), (4, 2), (6, 1)] {
            let (copied, all) = (ReplicaId(1), partitions(n));
            let again = |parts| exchanged(parts, copied, n);
            assert!(all.iter().all(|parts| again(again(*parts)) == *parts));
            let fixed = all.iter().filter(|parts| again(**parts) == **parts).count();
            // Burnside: half of all and of those that the exchange leaves as they are.
            let expected = usize::from(n) * (all.len().pow(rounds) + fixed.pow(rounds)) / 2;
            assert_eq!(schedules(rounds, n).len(), expected);
        }
    }
}
