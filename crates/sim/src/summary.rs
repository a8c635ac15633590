//! What is told of a world in which nothing is broken.

use crate::audit::Fingerprint;
use crate::real_devices::Compared;
use crate::time::Micros;
use core::fmt;
use pentarchy_core::ids::{Slot, View};
use std::collections::BTreeMap;

/// The kinds of lies that replicas find, for [`Summary::found`].
pub const FINDINGS: [&str; 7] = [
    "two_checkpoints",
    "diverged_state",
    "mismatched_commit",
    "future_time",
    "oversize_batch",
    "two_proposals",
    "two_votes",
];

/// What happened in one world.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Summary {
    /// The seed.
    pub seed: u64,
    /// Replicas.
    pub n: usize,
    /// Faults that are tolerated.
    pub f: usize,
    /// Operations that clients submitted; all of them completed.
    pub requests: u64,
    /// Requests that were ordered and ran; the others were answered as queries.
    pub executed: u64,
    /// Slots that were executed.
    pub slots: u64,
    /// The highest stable checkpoint.
    pub stable: Slot,
    /// The highest view that was entered.
    pub view: View,
    /// States that were transferred and installed.
    pub transfers: u64,
    /// Times that a correct replica took back what it had executed.
    pub rollbacks: u64,
    /// Packets that arrived.
    pub messages: u64,
    /// Packets that were refused.
    pub rejected: u64,
    /// Lies that were told by forgers.
    pub lies: u64,
    /// Lies that correct replicas found, by kind: see [`FINDINGS`].
    pub found: [u64; FINDINGS.len()],
    /// Events that clients were told.
    pub told: u64,
    /// Events that clients were told they miss.
    pub missed: u64,
    /// Keys whose history was too tangled to decide whether it is linearizable.
    pub undecided: u64,
    /// How often a replica started again with nothing.
    pub restarts: u64,
    /// Replicas that started again with their disks.
    pub resumed: u64,
    /// Those that ended since others had seen more of them than their disks had.
    pub rewound: u64,
    /// How often power or a disk failed, by what that interrupted or came before.
    pub crash_points: BTreeMap<&'static str, u64>,
    /// Epochs that began behind the first one.
    pub epochs: u64,
    /// Replicas that crashed.
    pub crashed: usize,
    /// What faulty replicas did.
    pub adversaries: Vec<&'static str>,
    /// What hostile clients did.
    pub hostile: Vec<&'static str>,
    /// What else was to go wrong.
    pub faults: Vec<&'static str>,
    /// Mean time of a request, once the group has had time to replace faulty primaries; none if
    /// there were too few.
    pub late_mean_us: Option<Micros>,
    /// How often trusted counters of production were compared with the simulated ones.
    pub compared: Compared,
    /// Simulated time.
    pub simulated_ms: u64,
    /// The hash of all that happened.
    pub audit: Fingerprint,
}

impl fmt::Display for Summary {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { seed, n, f, requests, executed, slots, stable, view, transfers, .. } = self;
        write!(out, "seed {seed:#x} n={n} f={f} requests={requests} executed={executed} ")?;
        write!(out, "slots={slots} stable={} view={} transfers={transfers} ", stable.0, view.0)?;
        write!(out, "told={} missed={} ", self.told, self.missed)?;
        write!(out, "messages={} rejected={} ", self.messages, self.rejected)?;
        write!(out, "lies={} found={:?} undecided={} ", self.lies, self.found, self.undecided)?;
        write!(out, "restarts={} resumed={} ", self.restarts, self.resumed)?;
        write!(out, "rewound={} ", self.rewound)?;
        write!(out, "crash_points={:?} epochs={} ", self.crash_points, self.epochs)?;
        let Compared { asked, judged } = self.compared;
        write!(out, "devices_asked={asked} seals_judged={judged} ")?;
        write!(out, "crashed={} adversaries={:?} ", self.crashed, self.adversaries)?;
        write!(out, "hostile={:?} faults={:?} ", self.hostile, self.faults)?;
        write!(out, "simulated={}ms audit={}", self.simulated_ms, self.audit)
    }
}
