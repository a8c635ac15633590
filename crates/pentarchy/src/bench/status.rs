//! What the replicas say that they used, asked over the client channel at both ends of a window.

use crate::cli::failure::{Failure, Outcome};
use pentarchy_client::Client;
use pentarchy_core::ids::ReplicaId;
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
    /// The most memory it ever had resident, in bytes. The system tells it; a figure that a process
    /// has of itself may start with what its parent had, which is the process with all clients.
    #[serde(skip)]
    peak_bytes: u64,
    /// Cryptographic operations since the start, by name.
    costs: BTreeMap<String, u64>,
}

/// What one replica used between two reports.
#[derive(Clone, PartialEq, Debug)]
pub struct Spent {
    /// Requests that it executed.
    pub requests: u64,
    /// Slots that it executed.
    pub slots: u64,
    /// Microseconds of processor time, all its threads, in user and kernel mode.
    pub cpu_us: u64,
    /// The most memory that it had resident since its start, in bytes.
    pub peak_bytes: u64,
    /// View changes that it saw.
    pub view_changes: u64,
    /// Cryptographic operations, by name.
    pub costs: BTreeMap<String, u64>,
}

impl Spent {
    /// Something of it for each request that this replica executed; absent if it executed none.
    pub fn per_request(&self, amount: u64) -> Option<f64> {
        (self.requests > 0).then(|| amount as f64 / self.requests as f64)
    }
}

impl Report {
    /// The most memory that it ever had resident, in bytes.
    pub const fn peak_bytes(&self) -> u64 {
        self.peak_bytes
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
        Spent {
            requests: self.requests.saturating_sub(before.requests),
            slots: self.executed.saturating_sub(before.executed),
            cpu_us: self.cpu_micros.saturating_sub(before.cpu_micros),
            peak_bytes: self.peak_bytes,
            view_changes: self.view_changes.saturating_sub(before.view_changes),
            costs: self.costs.iter().map(cost).collect(),
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
        report.peak_bytes = peak_bytes(report.pid)?;
        Ok(report)
    };
    asked.into_iter().map(report).collect()
}

/// The most memory that a process on this machine ever had resident, in bytes.
fn peak_bytes(pid: u32) -> Outcome<u64> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).unwrap_or_default();
    high_water_mark(&text)
        .ok_or_else(|| Failure::Internal(format!("{path} does not say how much memory it has")))
}

fn high_water_mark(status: &str) -> Option<u64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(requests: u64) -> Report {
        let json = format!(
            r#"{{"requests": {requests}, "executed": {}, "view_changes": 1, "cpu_micros": {},
                "pid": 7, "costs": {{"macs_made": {requests}}}, "phase": "normal"}}"#,
            requests / 10,
            requests * 3
        );
        Report { peak_bytes: 2048, ..serde_json::from_str(&json).unwrap() }
    }

    #[test]
    fn what_was_spent_is_the_difference_of_two_reports() {
        let spent = report(1100).since(&report(100));
        assert_eq!((spent.requests, spent.slots, spent.cpu_us), (1000, 100, 3000));
        assert_eq!((spent.peak_bytes, spent.view_changes), (2048, 0), "the peak is no difference");
        assert_eq!(spent.costs["macs_made"], 1000);
        assert_eq!(spent.per_request(spent.cpu_us), Some(3.0));
        let idle = report(100).since(&report(100));
        assert_eq!(idle.per_request(idle.cpu_us), None);
    }

    #[test]
    fn the_system_knows_how_much_memory_a_process_had() {
        let status = "VmPeak:\t   99 kB\nVmHWM:\t  2048 kB\nVmRSS:\t  1 kB\n";
        assert_eq!(high_water_mark(status), Some(2 << 20));
        assert_eq!(high_water_mark("VmHWM: many\n"), None);
        assert!(peak_bytes(std::process::id()).unwrap() > 100_000);
    }
}
