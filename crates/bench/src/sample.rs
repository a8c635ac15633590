//! What one measurement of one system found.

use super::case::{Case, System};
use super::stats::Quantiles;
use super::status::{Effort, Spent};
use std::collections::BTreeMap;

/// One measurement: everything between the end of the warm-up and the end.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Length of the measured window.
    pub seconds: f64,
    /// Operations whose right result arrived in the window.
    pub completed: u64,
    /// Operations that came to another end in the window, by what it was.
    pub errors: BTreeMap<&'static str, u64>,
    /// From submission to completion, on the thread that did both.
    pub latency: Quantiles,
    /// What each replica used, by id.
    pub replicas: Vec<Spent>,
    /// Of an open workload: how late operations were submitted.
    pub late: Option<Quantiles>,
    /// What this process asked of the system, all clients together.
    pub client_effort: Effort,
    /// Microseconds of processor time that this process used, all clients together.
    pub client_cpu_us: f64,
    /// What the clients' cores sent.
    pub sent: Sent,
}

/// One system's samples, in the order of measurement.
pub type SystemSamples = (System, Vec<Sample>);

/// The samples of all systems under one set of conditions, equally many of each.
pub type CaseSamples = (Case, Vec<SystemSamples>);

/// What clients sent in the window.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Sent {
    /// Envelopes that left for the first time.
    pub envelopes: u64,
    /// Requests in them.
    pub requests: u64,
    /// Envelopes that left again, because an answer was late.
    pub resent: u64,
}

/// A part of [`Effort`].
#[derive(Clone, Copy, Debug)]
pub enum Part {
    /// System calls.
    Calls,
    /// Switches because a thread had nothing to do.
    Voluntary,
    /// Switches because it was another thread's turn.
    Involuntary,
    /// Allocations.
    Allocations,
}

impl Part {
    const fn of(self, effort: &Effort) -> Option<u64> {
        match self {
            Self::Calls => Some(effort.calls),
            Self::Voluntary => Some(effort.switches.voluntary),
            Self::Involuntary => Some(effort.switches.involuntary),
            Self::Allocations => effort.allocations,
        }
    }
}

/// MAC operations: of channels, a tag for each frame; of clients, with `--request-auth mac` and
/// `session`.
const MACS: [&str; 6] = [
    "frames_sealed",
    "frames_opened",
    "macs_made",
    "macs_verified",
    "session_tags_made",
    "session_tags_verified",
];

/// Signatures, made and checked.
const SIGNATURES: [&str; 2] = ["signatures_made", "signatures_verified"];

/// Digests.
const HASHES: [&str; 1] = ["hashes"];

/// Certificates of trusted counters, made and checked.
const COUNTERS: [&str; 2] = ["usigs_created", "usigs_verified"];

/// What one replica did for each operation that it executed.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Bottleneck {
    /// Microseconds of processor time.
    pub cpu_us: f64,
    /// Messages, both ways.
    pub messages: f64,
    /// Bytes, both ways.
    pub bytes: f64,
    /// MAC operations, made and checked; a frame of a channel counts as one.
    pub macs: f64,
    /// Signatures made and checked.
    pub signatures: f64,
    /// Digests.
    pub hashes: f64,
    /// Operations of trusted counters, made and checked.
    pub counters: f64,
}

impl Sample {
    /// Operations in a second.
    pub fn throughput(&self) -> f64 {
        self.completed as f64 / self.seconds
    }

    /// Microseconds from one completion to the next.
    pub fn us_per_op(&self) -> f64 {
        self.seconds * 1e6 / self.completed as f64
    }

    /// Processor time of the clients for each completed operation.
    pub fn client_cpu_us_per_op(&self) -> f64 {
        self.client_cpu_us / self.completed as f64
    }

    /// Processor time of one replica for each operation that it executed itself, which may be a few
    /// more or less than were completed.
    pub fn replica_cpu_us_per_op(&self, id: usize) -> Option<f64> {
        self.replicas.get(id).and_then(|spent| spent.per_operation(spent.cpu_us))
    }

    /// Processor time of everyone for each completed operation.
    pub fn cpu_us_per_op(&self) -> f64 {
        let replicas: u64 = self.replicas.iter().map(|spent| spent.cpu_us).sum();
        (replicas as f64 + self.client_cpu_us) / self.completed as f64
    }

    /// What one replica asked of the system for each operation that it executed.
    pub fn replica_effort(&self, id: usize, part: Part) -> Option<f64> {
        let spent = self.replicas.get(id)?;
        spent.per_operation(part.of(&spent.effort)?)
    }

    /// What this process asked of the system for each completed operation.
    pub fn client_effort(&self, part: Part) -> Option<f64> {
        part.of(&self.client_effort).map(|amount| amount as f64 / self.completed as f64)
    }

    /// Bytes and messages that the replica with the most bytes moved for each operation that it
    /// executed.
    pub fn busiest(&self) -> Option<(f64, f64)> {
        let busiest = self.replicas.iter().max_by_key(|spent| spent.bytes)?;
        Some((busiest.per_operation(busiest.bytes)?, busiest.per_operation(busiest.messages)?))
    }

    /// What the replica that used most processor time did, by its id.
    pub fn bottleneck(&self) -> Option<(usize, Bottleneck)> {
        let by_cpu = |(_, spent): &(usize, &Spent)| spent.cpu_us;
        let (id, spent) = self.replicas.iter().enumerate().max_by_key(by_cpu)?;
        let per_operation = |amount| spent.per_operation(amount);
        let cost = |names: &[&str]| per_operation(spent.cost(names));
        let bottleneck = Bottleneck {
            cpu_us: per_operation(spent.cpu_us)?,
            messages: per_operation(spent.messages)?,
            bytes: per_operation(spent.bytes)?,
            macs: cost(&MACS)?,
            signatures: cost(&SIGNATURES)?,
            hashes: cost(&HASHES)?,
            counters: cost(&COUNTERS)?,
        };
        Some((id, bottleneck))
    }

    /// The most threads that a replica had.
    pub fn replica_threads(&self) -> Option<f64> {
        self.replicas.iter().map(|spent| spent.threads as f64).reduce(f64::max)
    }

    /// Writes to the log of one replica in a second, on average over the replicas that keep one.
    pub fn log_syncs(&self) -> Option<f64> {
        let each: Vec<_> = self.replicas.iter().filter_map(|spent| spent.syncs).collect();
        let syncs = each.iter().map(|(syncs, _)| *syncs).sum::<u64>() as f64;
        (!each.is_empty()).then(|| syncs / each.len() as f64 / self.seconds)
    }

    /// Microseconds that one of them takes, on average.
    pub fn log_sync_us(&self) -> Option<f64> {
        let each = self.replicas.iter().filter_map(|spent| spent.syncs);
        let (syncs, micros) = each.fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        (syncs > 0).then(|| micros as f64 / syncs as f64)
    }

    /// The most memory that a replica had resident, in bytes.
    pub fn peak_bytes(&self, id: usize) -> Option<f64> {
        self.replicas.get(id).map(|spent| spent.peak_bytes as f64)
    }

    /// Cryptographic operations of this name, of all replicas, for each completed operation.
    pub fn crypto_per_op(&self, name: &str) -> f64 {
        let counts = self.replicas.iter().filter_map(|spent| spent.costs.get(name));
        counts.sum::<u64>() as f64 / self.completed as f64
    }

    /// Mean number of requests that the group ordered together, as the replica saw it that executed
    /// most.
    pub fn requests_per_batch(&self) -> Option<f64> {
        let most = self.replicas.iter().max_by_key(|spent| spent.requests)?;
        (most.slots > 0).then(|| most.requests as f64 / most.slots as f64)
    }

    /// Mean number of requests under one authentication.
    pub fn requests_per_envelope(&self) -> Option<f64> {
        let Sent { envelopes, requests, .. } = self.sent;
        (envelopes > 0).then(|| requests as f64 / envelopes as f64)
    }

    /// The most view changes that a replica saw.
    pub fn view_changes(&self) -> u64 {
        self.replicas.iter().map(|spent| spent.view_changes).max().unwrap_or(0)
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::super::process::Switches;
    use super::*;

    /// A sample with this throughput, and known ratios between everything.
    pub fn sample(throughput: u64) -> Sample {
        let micros = 1e6 / throughput as f64;
        let completed = 2 * throughput;
        let spent = |cpu: u64, mebibytes: u64| Spent {
            requests: completed,
            queries: 0,
            slots: completed / 100,
            cpu_us: cpu * completed,
            peak_bytes: mebibytes << 20,
            threads: 2,
            bytes: mebibytes * completed,
            messages: 4 * completed,
            effort: Effort {
                calls: 2 * completed,
                switches: Switches { voluntary: completed, involuntary: 0 },
                allocations: None,
            },
            view_changes: 0,
            syncs: Some((cpu * 100, cpu * 5_000)),
            costs: [("usigs_created".to_owned(), completed / 50)].into(),
        };
        Sample {
            seconds: 2.0,
            completed,
            errors: BTreeMap::new(),
            latency: Quantiles { p50: micros, p99: 2.0 * micros, p999: 3.0 * micros, max: 9e3 },
            replicas: vec![spent(3, 8), spent(2, 7)],
            late: None,
            client_effort: Effort {
                calls: 6 * completed,
                switches: Switches { voluntary: 3 * completed, involuntary: completed },
                allocations: Some(7 * completed),
            },
            client_cpu_us: (5 * completed) as f64,
            sent: Sent { envelopes: completed / 20, requests: completed, resent: 0 },
        }
    }

    #[test]
    fn figures_are_per_completed_operation() {
        let sample = sample(1000);
        assert_eq!((sample.throughput(), sample.us_per_op()), (1000.0, 1000.0));
        assert_eq!((sample.client_cpu_us_per_op(), sample.cpu_us_per_op()), (5.0, 10.0));
        let cpu = [0, 1, 2].map(|id| sample.replica_cpu_us_per_op(id));
        assert_eq!(cpu, [Some(3.0), Some(2.0), None]);
        assert_eq!(sample.peak_bytes(1), Some(7.0 * 1048576.0));
        assert_eq!(sample.crypto_per_op("usigs_created"), 0.04);
        let parts = [Part::Calls, Part::Voluntary, Part::Involuntary, Part::Allocations];
        let clients = parts.map(|part| sample.client_effort(part));
        assert_eq!(clients, [Some(6.0), Some(3.0), Some(1.0), Some(7.0)]);
        let replica = parts.map(|part| sample.replica_effort(1, part));
        assert_eq!(replica, [Some(2.0), Some(1.0), Some(0.0), None]);
        assert_eq!((sample.busiest(), sample.replica_threads()), (Some((8.0, 4.0)), Some(2.0)));
        let (id, bottleneck) = sample.bottleneck().unwrap();
        assert_eq!((id, bottleneck.cpu_us, bottleneck.bytes), (0, 3.0, 8.0));
        assert_eq!((bottleneck.counters, bottleneck.macs, bottleneck.hashes), (0.02, 0.0, 0.0));
        assert_eq!((sample.log_syncs(), sample.log_sync_us()), (Some(125.0), Some(50.0)));
        assert_eq!(sample.requests_per_batch(), Some(100.0));
        assert_eq!(sample.requests_per_envelope(), Some(20.0));
    }

    #[test]
    fn means_of_nothing_are_absent() {
        let mut sample = sample(1000);
        sample.sent = Sent::default();
        sample.replicas.iter_mut().for_each(|spent| spent.slots = 0);
        assert_eq!((sample.requests_per_batch(), sample.requests_per_envelope()), (None, None));
        sample.replicas.clear();
        assert_eq!((sample.requests_per_batch(), sample.view_changes()), (None, 0));
    }
}
