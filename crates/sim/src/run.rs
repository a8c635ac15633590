//! Runs worlds: one seed, or many on all cores.

use crate::audit::Fingerprint;
use crate::checker::Broken;
use crate::quiet;
use crate::rng::Rng;
use crate::service::{Journal, Registers};
use crate::swarm::{Options, SimConfig};
use crate::time::Micros;
use crate::world::{Log, World};
use core::fmt;
use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::forge::MakeForger;
use pentarchy_core::ids::{ClientId, Slot, View};
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::protocol::{Rules, Setup, Timeouts};
use pentarchy_core::service::Service;
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// What a client core is started with.
#[derive(Clone, Copy, Debug)]
pub struct ClientSetup {
    /// Who.
    pub client: ClientId,
    /// Replicas.
    pub n: usize,
    /// Faults that are tolerated.
    pub f: usize,
    /// The numbers behind delays.
    pub timeouts: Timeouts,
    /// Every number below is settled.
    pub start_floor: u64,
}

/// Starts a replica core; its first effects are appended.
pub type StartReplica<'a> = dyn Fn(Setup, &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> + Sync + 'a;
/// Starts a client core.
pub type StartClient<'a> = dyn Fn(ClientSetup) -> Box<dyn ClientCore> + Sync + 'a;
/// Makes a service that notes in the journal what it runs.
pub type StartService<'a> = dyn Fn(Journal) -> Box<dyn Service> + Sync + 'a;

/// What is put to the test.
#[derive(Clone, Copy)]
pub struct Factories<'a> {
    /// The protocol's rules.
    pub rules: Rules,
    /// Its replicas.
    pub replica: &'a StartReplica<'a>,
    /// Its clients.
    pub client: &'a StartClient<'a>,
    /// What it replicates.
    pub service: &'a StartService<'a>,
    /// Its liars, if somebody wrote down how to lie in it.
    pub forger: Option<MakeForger>,
}

impl<'a> Factories<'a> {
    /// A protocol with the simulator's own service.
    #[must_use]
    pub const fn new(
        rules: Rules,
        replica: &'a StartReplica<'a>,
        client: &'a StartClient<'a>,
    ) -> Self {
        let service = &|journal| Box::new(Registers::new(journal)) as Box<dyn Service>;
        Self { rules, replica, client, service, forger: None }
    }

    /// The same, with liars of this make.
    #[must_use]
    pub const fn with_forger(self, forger: Option<MakeForger>) -> Self {
        Self { forger, ..self }
    }
}

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
        write!(out, "crashed={} adversaries={:?} ", self.crashed, self.adversaries)?;
        write!(out, "hostile={:?} faults={:?} ", self.hostile, self.faults)?;
        write!(out, "simulated={}ms audit={}", self.simulated_ms, self.audit)
    }
}

/// A world in which a property does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The seed that shows it again.
    pub seed: u64,
    /// What does not hold.
    pub broken: Broken,
    /// The options of the world, as [`Options`] are written.
    pub world: String,
    /// When it was found.
    pub at: Micros,
    /// The hash of all that happened until then.
    pub audit: Fingerprint,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {:#x} breaks {}\n  in {}", self.seed, self.broken, self.world)
    }
}

impl std::error::Error for Violation {}

/// The name of the property that nothing panics: invariants of cores, contracts of devices and of
/// the executor.
pub const PANIC: &str = "panic";

/// Runs the world of one seed.
///
/// # Errors
/// The property that it breaks.
pub fn run_seed(
    seed: u64,
    config: &SimConfig,
    factories: &Factories<'_>,
) -> Result<Summary, Violation> {
    let mut rng = Rng::new(seed);
    let options = Options::draw(&mut rng, config, &factories.rules);
    run_options(seed, options, factories, rng, None)
}

/// Runs the world of one seed, with a line for each thing that happens in it.
///
/// # Errors
/// The property that it breaks.
pub fn watch_seed(
    seed: u64,
    config: &SimConfig,
    factories: &Factories<'_>,
    log: Log,
) -> Result<Summary, Violation> {
    let mut rng = Rng::new(seed);
    let options = Options::draw(&mut rng, config, &factories.rules);
    run_options(seed, options, factories, rng, Some(log))
}

/// Runs a world with these options.
///
/// # Errors
/// The property that it breaks.
pub fn run_options(
    seed: u64,
    options: Options,
    factories: &Factories<'_>,
    rng: Rng,
    log: Option<Log>,
) -> Result<Summary, Violation> {
    time_options(seed, options, factories, rng, log).map(|(summary, _)| summary)
}

/// The same, and how long each request took, in the order in which clients believed the results.
///
/// # Errors
/// The property that it breaks.
pub fn time_options(
    seed: u64,
    options: Options,
    factories: &Factories<'_>,
    rng: Rng,
    log: Option<Log>,
) -> Result<(Summary, Vec<Micros>), Violation> {
    let world = options.to_string();
    let mut place = None;
    let run = || place.insert(World::new(seed, options, factories, rng, log)).run();
    let outcome = quiet::catch(run).unwrap_or_else(|text| Err(Broken::new(PANIC, text)));
    let reached = place.as_ref().map(World::reached);
    match outcome {
        Ok(summary) => {
            let took = place.map_or_else(Vec::new, |world| world.took().to_vec());
            Ok((Summary { seed, ..summary }, took))
        }
        Err(broken) => {
            let (at, audit) = reached.unwrap_or_default();
            Err(Violation { seed, broken, world, at, audit })
        }
    }
}

/// Runs the worlds of many seeds on this many threads. `progress` is told of each as it ends, in no
/// particular order; when it returns false, no further seed is begun.
pub fn run_many(
    seeds: Range<u64>,
    jobs: usize,
    config: &SimConfig,
    factories: &Factories<'_>,
    progress: impl FnMut(&Result<Summary, Violation>) -> bool + Send,
) {
    for_each(seeds, jobs, |seed| run_seed(seed, config, factories), progress);
}

/// Runs something for each number of a range, as [`run_many`] does for seeds.
pub(crate) fn for_each(
    numbers: Range<u64>,
    jobs: usize,
    run: impl Fn(u64) -> Result<Summary, Violation> + Sync,
    progress: impl FnMut(&Result<Summary, Violation>) -> bool + Send,
) {
    let next = AtomicU64::new(numbers.start);
    let progress = Mutex::new(progress);
    let work = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= numbers.end {
                break;
            }
            let outcome = run(number);
            let mut progress = progress.lock().expect("progress does not panic");
            if !progress(&outcome) {
                next.store(numbers.end, Ordering::Relaxed);
                break;
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..jobs.max(1) {
            scope.spawn(work);
        }
    });
}
