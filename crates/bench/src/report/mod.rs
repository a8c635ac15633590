//! From samples to figures. This is also the shape of `--json`, whose readers `docs/benchmarks.md`
//! sends here: a change of meaning raises [`FORMAT`].

mod conditions;
mod csv;
pub mod table;

pub use conditions::Conditions;
pub use csv::write as write_csv;
pub use table::{page, render};

use super::case::{Case, System};
use super::disk::DiskReport;
use super::machine::{Machine, Program};
use super::plan::Timing;
use super::sample::{Bottleneck, Part, Sample, SystemSamples};
use super::stats::Spread;
use pentarchy_cluster::limits::{BATCH_INLINE_BYTES, BATCH_REQUESTS_MAX, PROPOSALS_IN_FLIGHT};
use serde::Serialize;
use std::collections::BTreeMap;

/// Version of the JSON object.
pub const FORMAT: u32 = 1;

/// Everything that was measured.
#[derive(Serialize, Debug)]
pub struct Report {
    /// [`FORMAT`].
    pub format: u32,
    /// Where.
    pub machine: Machine,
    /// With what.
    pub program: Program,
    /// What the disk does by itself; none if nothing is kept on it.
    pub disk: Option<DiskReport>,
    /// How.
    pub settings: Settings,
    /// Whether all of it was measured. False after an interruption or a failure.
    pub complete: bool,
    /// One for each set of conditions under which all systems were measured.
    pub cases: Vec<CaseReport>,
}

/// How it was measured.
#[derive(Serialize, Debug)]
pub struct Settings {
    /// Measurements of each system under each set of conditions.
    pub repeats: usize,
    /// Seconds of each measurement.
    pub seconds: f64,
    /// Seconds of load before each measurement.
    pub warmup_seconds: f64,
    /// Where the replicas run and how they are reached.
    pub network: &'static str,
    /// When a primary proposes what.
    pub batch_policy: String,
    /// When a client believes a result.
    pub reply_policy: &'static str,
}

/// What was found under one set of conditions.
#[derive(Serialize, Debug)]
pub struct CaseReport {
    /// `closed`, `pipelined` or `open`.
    pub workload: &'static str,
    /// Operations that each client keeps outstanding.
    pub outstanding: usize,
    /// Operations in a second that were offered; none if completions were replaced.
    pub offered_ops: Option<u64>,
    /// The rest.
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The replicated system first, then the baseline.
    pub systems: Vec<SystemReport>,
    /// The replicated system compared with the baseline, if both were measured.
    pub ratio: Option<Ratio>,
}

/// What was found of one system.
#[derive(Serialize, Debug)]
pub struct SystemReport {
    /// The protocol's name.
    pub protocol: String,
    /// Faults tolerated.
    pub f: usize,
    /// Replicas.
    pub n: usize,
    /// Operations completed in a second.
    pub throughput_ops: Spread,
    /// Microseconds from one completion to the next: the inverse of the throughput.
    pub us_per_op: Spread,
    /// Microseconds from submission to completion.
    pub latency_us: LatencyReport,
    /// Microseconds of processor time for one operation.
    pub cpu_us_per_op: CpuReport,
    /// What is asked of the system for one operation.
    pub effort_per_op: EffortReport,
    /// Bytes that the busiest replica moves for one operation, both ways.
    pub busiest_bytes_per_op: Option<Spread>,
    /// Messages that it moves.
    pub busiest_messages_per_op: Option<Spread>,
    /// What the replica that uses most processor time does for one operation.
    pub bottleneck_per_op: Option<BottleneckReport>,
    /// Writes to its log, each with a sync, of one replica in a second; none if nothing is kept.
    pub log_syncs: Option<Spread>,
    /// Microseconds that one of them takes, on average.
    pub log_sync_us: Option<Spread>,
    /// The most threads of a replica.
    pub replica_threads: Option<Spread>,
    /// Of an open workload: microseconds by which 99 % of the operations were submitted too late
    /// at most. Part of their latency.
    pub late_p99_us: Option<Spread>,
    /// The most memory that each replica had resident, in bytes, by id.
    pub peak_memory_bytes: Vec<Spread>,
    /// Mean number of requests in a batch.
    pub requests_per_batch: Option<Spread>,
    /// Mean number of requests in an envelope, under one authentication.
    pub requests_per_envelope: Option<Spread>,
    /// Cryptographic operations of all replicas together for one operation, by name.
    pub crypto_per_op: BTreeMap<String, Spread>,
    /// Operations completed in all repeats.
    pub completed: u64,
    /// Operations that came to another end, by what it was, in all repeats.
    pub errors: BTreeMap<&'static str, u64>,
    /// Envelopes that clients sent again, in all repeats.
    pub resent_envelopes: u64,
    /// View changes, in all repeats.
    pub view_changes: u64,
}

/// What the replica that uses most processor time does for one operation that it executes.
#[derive(Serialize, Debug)]
pub struct BottleneckReport {
    /// Which replica that is, in each repeat.
    pub replica: Vec<usize>,
    /// Microseconds of processor time.
    pub cpu_us: Spread,
    /// Messages, both ways.
    pub messages: Spread,
    /// Bytes, both ways.
    pub bytes: Spread,
    /// MAC operations, made and checked; a frame of a channel counts as one.
    pub macs: Spread,
    /// Signatures made and checked.
    pub signatures: Spread,
    /// Digests.
    pub hashes: Spread,
    /// Operations of trusted counters, made and checked.
    pub counters: Spread,
}

impl BottleneckReport {
    /// None if a replica executed nothing in some repeat.
    fn new(samples: &[Sample]) -> Option<Self> {
        let each: Vec<_> = samples.iter().map(Sample::bottleneck).collect::<Option<_>>()?;
        let over = |figure: fn(&Bottleneck) -> f64| Spread::of(each.iter().map(|(_, b)| figure(b)));
        Some(Self {
            replica: each.iter().map(|(id, _)| *id).collect(),
            cpu_us: over(|b| b.cpu_us)?,
            messages: over(|b| b.messages)?,
            bytes: over(|b| b.bytes)?,
            macs: over(|b| b.macs)?,
            signatures: over(|b| b.signatures)?,
            hashes: over(|b| b.hashes)?,
            counters: over(|b| b.counters)?,
        })
    }
}

/// What is asked of the system for one operation.
#[derive(Serialize, Debug)]
pub struct EffortReport {
    /// By each replica, by id, for each operation that it executed.
    pub replicas: Vec<Effort>,
    /// By the process with all clients, for each completed operation.
    pub clients: Effort,
}

/// What one process asks of the system for one operation.
#[derive(Serialize, Debug)]
pub struct Effort {
    /// System calls that move bytes or wait for some.
    pub system_calls: Option<Spread>,
    /// Context switches because a thread has nothing to do.
    pub voluntary_switches: Option<Spread>,
    /// Context switches because it is another thread's turn.
    pub involuntary_switches: Option<Spread>,
    /// Allocations; none if the program does not count them.
    pub allocations: Option<Spread>,
}

impl Effort {
    fn new(samples: &[Sample], figure: impl Fn(&Sample, Part) -> Option<f64>) -> Self {
        let over = |part| Spread::of_all(samples, |sample| figure(sample, part));
        Self {
            system_calls: over(Part::Calls),
            voluntary_switches: over(Part::Voluntary),
            involuntary_switches: over(Part::Involuntary),
            allocations: over(Part::Allocations),
        }
    }
}

/// Latency, each quantile over the repeats.
#[derive(Serialize, Debug)]
pub struct LatencyReport {
    /// Median.
    pub p50: Spread,
    /// 99 % were faster.
    pub p99: Spread,
    /// 99.9 % were faster.
    pub p999: Spread,
    /// The slowest.
    pub max: Spread,
}

/// Processor time for one operation.
#[derive(Serialize, Debug)]
pub struct CpuReport {
    /// Of each replica, by id, for each operation that it executed. Empty if one of them executed
    /// nothing in one of the repeats.
    pub replicas: Vec<Spread>,
    /// Of the process with all clients, for each completed operation.
    pub clients: Spread,
}

/// The replicated system divided by the baseline. Each repeat is compared with the one of the
/// baseline that followed it.
#[derive(Serialize, Debug)]
pub struct Ratio {
    /// Of operations in a second: below 1, replication costs throughput.
    pub throughput: Spread,
    /// Of the median latency: above 1, replication costs time.
    pub latency_p50: Spread,
    /// Of the processor time of all replicas and clients together for one operation.
    pub cpu: Spread,
}

impl Settings {
    /// In words where there is no number.
    pub fn new(timing: Timing) -> Self {
        Self {
            repeats: timing.repeats,
            seconds: timing.measured.as_secs_f64(),
            warmup_seconds: timing.warmup.as_secs_f64(),
            network: "one machine, a process for each replica, encrypted TCP over loopback",
            batch_policy: format!(
                "the primary proposes all that waits as soon as fewer than {PROPOSALS_IN_FLIGHT} \
                 proposals are in flight; at most {BATCH_REQUESTS_MAX} requests and {} KiB in one",
                BATCH_INLINE_BYTES >> 10
            ),
            reply_policy: "all replicas send results of up to 256 bytes, one of them a longer one \
                           and the others its digest; a client believes f + 1 equal ones of \
                           2f + 1, or 2f + 1 of 3f + 1",
        }
    }
}

impl CaseReport {
    /// `None` if there is a system without a sample. Samples of all systems have equal numbers.
    pub fn new(case: &Case, systems: &[SystemSamples]) -> Option<Self> {
        let reports: Option<Vec<_>> =
            systems.iter().map(|(system, samples)| SystemReport::new(system, samples)).collect();
        let ratio = match systems {
            [(first, a), (second, b)] if !first.is_baseline() && second.is_baseline() => {
                Ratio::new(a, b)
            }
            _ => None,
        };
        Some(Self {
            workload: case.workload.name(),
            outstanding: case.outstanding,
            offered_ops: case.rate,
            conditions: Conditions::new(case),
            systems: reports?,
            ratio,
        })
    }
}

impl SystemReport {
    fn new(system: &System, samples: &[Sample]) -> Option<Self> {
        let over = |figure: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(figure));
        // Of a group with a replica that crashed, those that ran.
        let ran = samples.iter().map(|sample| sample.replicas.len()).min()?;
        let by_id = |figure: &dyn Fn(&Sample, usize) -> Option<f64>| -> Option<Vec<Spread>> {
            (0..ran).map(|id| Spread::of_all(samples, |sample| figure(sample, id))).collect()
        };
        let mut errors = BTreeMap::new();
        for (error, count) in samples.iter().flat_map(|sample| &sample.errors) {
            *errors.entry(*error).or_default() += count;
        }
        Some(Self {
            protocol: system.protocol.clone(),
            f: system.f,
            n: system.n,
            throughput_ops: over(&Sample::throughput)?,
            us_per_op: over(&Sample::us_per_op)?,
            latency_us: LatencyReport {
                p50: over(&|sample| sample.latency.p50)?,
                p99: over(&|sample| sample.latency.p99)?,
                p999: over(&|sample| sample.latency.p999)?,
                max: over(&|sample| sample.latency.max)?,
            },
            cpu_us_per_op: CpuReport {
                replicas: by_id(&Sample::replica_cpu_us_per_op).unwrap_or_default(),
                clients: over(&Sample::client_cpu_us_per_op)?,
            },
            effort_per_op: EffortReport {
                replicas: (0..ran)
                    .map(|id| Effort::new(samples, |sample, part| sample.replica_effort(id, part)))
                    .collect(),
                clients: Effort::new(samples, Sample::client_effort),
            },
            busiest_bytes_per_op: Spread::of_all(samples, |s| Some(s.busiest()?.0)),
            busiest_messages_per_op: Spread::of_all(samples, |s| Some(s.busiest()?.1)),
            bottleneck_per_op: BottleneckReport::new(samples),
            log_syncs: Spread::of_all(samples, Sample::log_syncs),
            log_sync_us: Spread::of_all(samples, Sample::log_sync_us),
            replica_threads: Spread::of_all(samples, Sample::replica_threads),
            late_p99_us: Spread::of_all(samples, |s| Some(s.late?.p99)),
            peak_memory_bytes: by_id(&Sample::peak_bytes).unwrap_or_default(),
            requests_per_batch: Spread::of_all(samples, Sample::requests_per_batch),
            requests_per_envelope: Spread::of_all(samples, Sample::requests_per_envelope),
            crypto_per_op: crypto_per_op(samples),
            completed: samples.iter().map(|sample| sample.completed).sum(),
            errors,
            resent_envelopes: samples.iter().map(|sample| sample.sent.resent).sum(),
            view_changes: samples.iter().map(Sample::view_changes).sum(),
        })
    }
}

fn crypto_per_op(samples: &[Sample]) -> BTreeMap<String, Spread> {
    let names = samples.iter().flat_map(|sample| &sample.replicas);
    let names = names.flat_map(|spent| spent.costs.keys().cloned());
    let spread = |name: String| {
        let spread = Spread::of(samples.iter().map(|sample| sample.crypto_per_op(&name)))?;
        Some((name, spread))
    };
    names.collect::<std::collections::BTreeSet<_>>().into_iter().filter_map(spread).collect()
}

impl Ratio {
    fn new(replicated: &[Sample], baseline: &[Sample]) -> Option<Self> {
        let over = |figure: &dyn Fn(&Sample) -> f64| {
            let pairs = replicated.iter().zip(baseline);
            Spread::of(pairs.map(|(a, b)| figure(a) / figure(b)))
        };
        Some(Self {
            throughput: over(&Sample::throughput)?,
            latency_p50: over(&|sample| sample.latency.p50)?,
            cpu: over(&Sample::cpu_us_per_op)?,
        })
    }
}

#[cfg(test)]
mod tests;
