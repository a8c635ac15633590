//! Twins by enumeration: a group of three in which one replica exists twice, with one identity and
//! one device, under every schedule of partitions in rounds (Bano et al., "Twins: BFT systems made
//! robust", 2021). Neither copy lies, and together they do what a liar could. Schedules that differ
//! only in the names of the copies or of the parts count once.

use crate::adversary::Behaviour;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::network::{Cells, NetworkOptions};
use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, for_each, run_options};
use crate::swarm::{DiskOptions, Disturbance, Options, SimConfig};
use crate::time::Micros;
use crate::workload::WorkloadOptions;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_BYTES;
use pentarchy_core::protocol::Tuning;
use std::ops::Range;

/// Replicas.
const N: u16 = 3;

/// Where the copy stands.
const COPY: u16 = N;

/// How long a partition lasts: long enough for a client to lose patience and for a view change.
const ROUND: Micros = 1_000_000;

/// Rounds that can be enumerated in bearable time: each multiplies the schedules by 15.
pub const ROUNDS_MAX: u32 = 6;

/// Operations of each of two clients in a round.
const REQUESTS: u64 = 12;

/// Who is copied, and who can speak to whom in each round.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Schedule {
    /// The replica that exists twice.
    pub copied: ReplicaId,
    /// One partition for each round.
    pub rounds: Vec<Cells>,
}

/// Every way to put four places into parts, the parts numbered as they appear.
fn partitions() -> Vec<Cells> {
    let mut all = vec![(Cells(0), 0)];
    for place in 0..=COPY {
        let next = |&(cells, parts): &(Cells, u64)| {
            (0..=parts).map(move |part| (cells.with(place, part), parts.max(part + 1)))
        };
        all = all.iter().flat_map(next).collect();
    }
    all.into_iter().map(|(cells, _)| cells).collect()
}

/// The same partition with the parts numbered as they appear.
fn renumbered(cells: Cells) -> Cells {
    let mut known: Vec<u64> = Vec::new();
    (0..=COPY).fold(Cells(0), |new, place| {
        let part = cells.of(place);
        let number = known.iter().position(|it| *it == part).unwrap_or_else(|| {
            known.push(part);
            known.len() - 1
        });
        new.with(place, number as u64)
    })
}

/// The same partition with the two copies exchanged.
fn exchanged(cells: Cells, copied: ReplicaId) -> Cells {
    let (original, copy) = (cells.of(copied.0), cells.of(COPY));
    renumbered(cells.with(copied.0, copy).with(COPY, original))
}

/// All schedules of this many rounds, each once.
#[must_use]
pub fn schedules(rounds: u32) -> Vec<Schedule> {
    let partitions = partitions();
    let total = (partitions.len() as u64).pow(rounds);
    let mut all = Vec::new();
    for copied in (0..N).map(ReplicaId) {
        for number in 0..total {
            let digit = |round: u32| {
                let index = number / (partitions.len() as u64).pow(round);
                partitions[(index % partitions.len() as u64) as usize]
            };
            let chosen: Vec<Cells> = (0..rounds).map(digit).collect();
            let other = chosen.iter().map(|cells| exchanged(*cells, copied).0);
            if chosen.iter().map(|cells| cells.0).le(other) {
                all.push(Schedule { copied, rounds: chosen });
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
        let partition = |(round, cells): (u64, &Cells)| {
            (round * ROUND, Disturbance::Partition { cells: *cells, lasts: ROUND })
        };
        Options {
            f: 1,
            n: usize::from(N),
            clients: 2,
            outstanding: 2,
            requests_each: REQUESTS * rounds,
            think_us: ROUND / (REQUESTS + REQUESTS / 4),
            tuning: Tuning {
                checkpoint_slots: 4,
                checkpoint_bytes: CHECKPOINT_BYTES,
                window_slots: 12,
                batch_requests: 4,
                proposals_in_flight: 2,
            },
            timeouts: config.timeouts,
            network: NetworkOptions { latency_us: 100, jitter_us: 200, ..Default::default() },
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
            disk: DiskOptions::default(),
            workload: WorkloadOptions {
                keys: 4,
                reads_percent: 20,
                queries_percent: 50,
                large_ppm: 0,
                skip_ppm: 0,
                tells_percent: 5,
                floods_ppm: 0,
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
    fn four_places_have_fifteen_partitions() {
        let all: BTreeSet<u64> = partitions().iter().map(|cells| cells.0).collect();
        assert_eq!(all.len(), 15);
        assert!(partitions().iter().all(|cells| renumbered(*cells) == *cells));
    }

    #[test]
    fn exchanging_the_copies_twice_changes_nothing_and_of_two_such_schedules_one_is_kept() {
        let (copied, all) = (ReplicaId(1), partitions());
        for cells in &all {
            assert_eq!(exchanged(exchanged(*cells, copied), copied), *cells);
        }
        let fixed = all.iter().filter(|cells| exchanged(**cells, copied) == **cells).count();
        // Burnside: half of all and of those that the exchange leaves as they are.
        for rounds in [1, 2, 3] {
            let expected = 3 * (15usize.pow(rounds) + fixed.pow(rounds)) / 2;
            assert_eq!(schedules(rounds).len(), expected);
        }
    }
}
