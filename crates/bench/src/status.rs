//! What the replicas say that they used, asked over the client channel at both ends of a window.

use super::process::{Process, Switches};
use pentarchy_client::Client;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_core::ids::ReplicaId;
use pentarchy_io::calls::calls;
use pentarchy_replica::status::allocations;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a replica may take to say how it is. Under load the question waits for its turn.
const LIMIT: Duration = Duration::from_secs(5);

/// The part of a replica's status report that is used here.
#[derive(Clone, PartialEq, Deserialize, Debug)]
pub struct Report {
    /// Requests executed since the start.
    requests: u64,
    /// The last executed slot.
    executed: u64,
    /// View changes since the start.
    view_changes: u64,
    /// Processor time of the process, user and system.
    cpu_micros: u64,
    /// Its process.
    pid: u32,
    /// What the system says of it. Memory in particular: a figure that a process has of itself may
    /// start with what its parent had, which is the process with all clients.
    #[serde(skip)]
    process: Process,
    /// What went over its sockets.
    traffic: Traffic,
    /// System calls, by name.
    calls: BTreeMap<String, u64>,
    /// What was asked of the allocator, if the program counts it.
    allocations: Option<Allocations>,
    /// Cryptographic operations since the start, by name.
    costs: BTreeMap<String, u64>,
    /// What else happened.
    counters: Counters,
    /// Its log, if it keeps one.
    durability: Option<Log>,
}

/// Of what a replica says of its log, the part that is needed here.
#[derive(Clone, Copy, PartialEq, Deserialize, Debug)]
struct Log {
    syncs: u64,
    sync_micros: u64,
}

/// Of the replica's counters, the one that is needed here.
#[derive(Clone, Copy, PartialEq, Deserialize, Debug)]
struct Counters {
    /// Reads executed without being ordered.
    client_queries: u64,
}

/// What went over sockets, to other replicas and to clients.
#[derive(Clone, Copy, PartialEq, Deserialize, Debug)]
struct Traffic {
    peers: Flow,
    clients: Flow,
}

/// What came and what left.
#[derive(Clone, Copy, PartialEq, Deserialize, Debug)]
struct Flow {
    bytes_in: u64,
    bytes_out: u64,
    messages_in: u64,
    messages_out: u64,
}

/// What was asked of the allocator.
#[derive(Clone, Copy, PartialEq, Deserialize, Debug)]
struct Allocations {
    count: u64,
}

impl Traffic {
    const fn bytes(&self) -> u64 {
        let Self { peers, clients } = self;
        peers.bytes_in + peers.bytes_out + clients.bytes_in + clients.bytes_out
    }

    const fn messages(&self) -> u64 {
        let Self { peers, clients } = self;
        peers.messages_in + peers.messages_out + clients.messages_in + clients.messages_out
    }
}

/// What one replica used between two reports.
#[derive(Clone, PartialEq, Debug)]
pub struct Spent {
    /// Requests that it executed.
    pub requests: u64,
    /// Reads that it executed without their being ordered.
    pub queries: u64,
    /// Slots that it executed.
    pub slots: u64,
    /// Microseconds of processor time, all its threads, in user and kernel mode.
    pub cpu_us: u64,
    /// The most memory that it had resident since its start, in bytes.
    pub peak_bytes: u64,
    /// Its threads.
    pub threads: usize,
    /// Writes to its log, each with a sync, and microseconds that they took; none if it keeps none.
    pub syncs: Option<(u64, u64)>,
    /// View changes that it saw.
    pub view_changes: u64,
    /// Cryptographic operations, by name.
    pub costs: BTreeMap<String, u64>,
    /// Bytes that it read and wrote.
    pub bytes: u64,
    /// Messages that it read and wrote.
    pub messages: u64,
    /// What it asked of the system.
    pub effort: Effort,
}

/// What a process asked of the system.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Effort {
    /// System calls that moved bytes or waited for some.
    pub calls: u64,
    /// Times that a thread gave up the processor.
    pub switches: Switches,
    /// Allocations of memory; none if the program does not count them.
    pub allocations: Option<u64>,
}

impl Effort {
    /// What was asked since an earlier reading.
    pub fn since(self, before: Self) -> Self {
        let allocations = self.allocations.zip(before.allocations);
        Self {
            calls: self.calls.saturating_sub(before.calls),
            switches: self.switches.since(before.switches),
            allocations: allocations.map(|(now, then)| now.saturating_sub(then)),
        }
    }

    /// What this process has asked so far.
    pub fn here() -> Outcome<Self> {
        let calls = calls();
        Ok(Self {
            calls: calls.reads + calls.writes + calls.waits,
            switches: Process::read(std::process::id())?.switches,
            allocations: allocations().map(|allocations| allocations.count),
        })
    }
}

impl Spent {
    /// Operations of these names together.
    pub fn cost(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.costs.get(*name)).sum()
    }

    /// Something of it for each operation that this replica executed, ordered or not; absent if it
    /// executed none.
    pub fn per_operation(&self, amount: u64) -> Option<f64> {
        let operations = self.requests + self.queries;
        (operations > 0).then(|| amount as f64 / operations as f64)
    }
}

impl Report {
    /// The most memory that it ever had resident, in bytes.
    pub const fn peak_bytes(&self) -> u64 {
        self.process.peak_bytes
    }

    /// View changes since the start.
    pub const fn view_changes(&self) -> u64 {
        self.view_changes
    }

    /// What was used since an earlier report of the same replica.
    pub fn since(&self, before: &Self) -> Spent {
        let cost = |(name, now): (&String, &u64)| {
            let then = before.costs.get(name).copied().unwrap_or(0);
            (name.clone(), now.saturating_sub(then))
        };
        let log = self.durability.zip(before.durability);
        Spent {
            syncs: log.map(|(now, then)| {
                let micros = now.sync_micros.saturating_sub(then.sync_micros);
                (now.syncs.saturating_sub(then.syncs), micros)
            }),
            requests: self.requests.saturating_sub(before.requests),
            queries: self.counters.client_queries.saturating_sub(before.counters.client_queries),
            slots: self.executed.saturating_sub(before.executed),
            cpu_us: self.cpu_micros.saturating_sub(before.cpu_micros),
            peak_bytes: self.process.peak_bytes,
            threads: self.process.threads,
            bytes: self.traffic.bytes().saturating_sub(before.traffic.bytes()),
            messages: self.traffic.messages().saturating_sub(before.traffic.messages()),
            effort: self.effort().since(before.effort()),
            view_changes: self.view_changes.saturating_sub(before.view_changes),
            costs: self.costs.iter().map(cost).collect(),
        }
    }
}

impl Report {
    fn effort(&self) -> Effort {
        Effort {
            calls: self.calls.values().sum(),
            switches: self.process.switches,
            allocations: self.allocations.map(|allocations| allocations.count),
        }
    }
}

/// Asks all replicas at once.
pub fn ask(client: &Client, replicas: usize) -> Outcome<Vec<Report>> {
    let ids = (0..replicas as u16).map(ReplicaId);
    let asked: Vec<_> = ids.map(|id| (id, client.status(id))).collect();
    let report = |(id, pending): (ReplicaId, pentarchy_client::Pending)| {
        let json = pending.wait_timeout(LIMIT).map_err(|error| {
            Failure::Unwell(format!("replica {id} does not say how it is: {error}"))
        })?;
        let mut report: Report = serde_json::from_slice(&json).map_err(|error| {
            Failure::Internal(format!("the status of replica {id} is not understood: {error}"))
        })?;
        report.process = Process::read(report.pid)?;
        Ok(report)
    };
    asked.into_iter().map(report).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(requests: u64) -> Report {
        let flow = format!(
            r#"{{"bytes_in": {requests}, "bytes_out": 1, "messages_in": 2, "messages_out": {}}}"#,
            3 * requests
        );
        let json = format!(
            r#"{{"requests": {requests}, "executed": {}, "view_changes": 1, "cpu_micros": {},
                "pid": 7, "counters": {{"client_queries": {}}}, "phase": "normal",
                "costs": {{"macs_made": {requests}}}, "calls": {{"reads": {requests}, "waits": 5}},
                "allocations": {{"count": {requests}}},
                "durability": {{"syncs": {requests}, "sync_micros": {}}},
                "traffic": {{"peers": {flow}, "clients": {flow}}}}}"#,
            requests / 10,
            requests * 3,
            requests / 4,
            requests * 50
        );
        let switches = Switches { voluntary: 2 * requests, involuntary: 1 };
        let process = Process { peak_bytes: 2048, threads: 3, switches };
        Report { process, ..serde_json::from_str(&json).unwrap() }
    }

    #[test]
    fn what_was_spent_is_the_difference_of_two_reports() {
        let spent = report(1100).since(&report(100));
        assert_eq!((spent.requests, spent.slots, spent.cpu_us), (1000, 100, 3000));
        assert_eq!((spent.peak_bytes, spent.view_changes), (2048, 0), "the peak is no difference");
        assert_eq!((spent.costs["macs_made"], spent.syncs), (1000, Some((1000, 50_000))));
        assert_eq!((spent.bytes, spent.messages, spent.threads), (2000, 6000, 3));
        let switches = Switches { voluntary: 2000, involuntary: 0 };
        let effort = Effort { calls: 1000, switches, allocations: Some(1000) };
        assert_eq!(spent.effort, effort);
        assert_eq!((spent.queries, spent.per_operation(spent.cpu_us)), (250, Some(2.4)));
        let idle = report(100).since(&report(100));
        assert_eq!(idle.per_operation(idle.cpu_us), None);
    }
}
