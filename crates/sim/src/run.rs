//! Runs worlds: one seed, or many on all cores.

use crate::audit::Fingerprint;
use crate::checker::Broken;
use crate::quiet;
use crate::rng::Rng;
use crate::swarm::{Options, SimConfig};
use crate::time::Micros;
use crate::world::{Log, World};
use core::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::factories::{
    ClientSetup, Factories, ProtocolParts, StartClient, StartReplica, StartService,
};
pub use crate::summary::{FINDINGS, Summary};

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
    /// Whether the world is a variation of another one ([`crate::guided`]), which the seed alone
    /// does not say: it takes the options too.
    pub is_varied: bool,
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
    let (outcome, world) = run_world(seed, options, factories, rng, (log, false));
    let took = world.map_or_else(Vec::new, |world| world.took().to_vec());
    outcome.map(|summary| (summary, took))
}

/// Runs a world, which takes note of where its replicas come if it `covers`, and gives what is left
/// of it: nothing if it could not be made.
pub(crate) fn run_world<'a>(
    seed: u64,
    options: Options,
    factories: &Factories<'a>,
    rng: Rng,
    (log, covers): (Option<Log>, bool),
) -> (Result<Summary, Violation>, Option<World<'a>>) {
    let text = options.to_string();
    let mut place = None;
    let run = || {
        let world = place.insert(World::new(seed, options, factories, rng, log));
        if covers {
            world.take_note();
        }
        world.run()
    };
    let outcome = quiet::catch(run).unwrap_or_else(|text| Err(Broken::new(PANIC, text)));
    let outcome = outcome.map(|summary| Summary { seed, ..summary }).map_err(|broken| {
        let (at, audit) = place.as_ref().map(World::reached).unwrap_or_default();
        Violation { seed, broken, world: text, at, audit, is_varied: false }
    });
    (outcome, place)
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
