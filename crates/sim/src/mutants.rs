//! Looks for seeded bugs ([`pentarchy_core::mutant`]) as for any other: in random worlds, of which
//! none was made for one bug. How many worlds that takes says what the checkers are worth.

use crate::guided::{Corpus, Trial};
use crate::run::{Factories, Violation};
use crate::swarm::SimConfig;
use pentarchy_core::mutant;
use pentarchy_core::mutant::{Finder, MUTANTS, Mutant};
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// In which world each bug was found last.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Known(BTreeMap<String, u64>);

impl Known {
    /// Reads what [`Self::to_text`] wrote.
    ///
    /// # Errors
    /// The line that is none of it.
    pub fn from_text(text: &str) -> Result<Self, String> {
        let world = |line: &str| {
            let (name, seed) = line.split_once(' ')?;
            Some((name.to_owned(), u64::from_str_radix(seed.strip_prefix("0x")?, 16).ok()?))
        };
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines
            .map(|line| world(line).ok_or_else(|| line.to_owned()))
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// One line for each bug.
    #[must_use]
    pub fn to_text(&self) -> String {
        let lines = self.0.iter().map(|(name, seed)| format!("{name} {seed:#x}\n"));
        format!("{HEAD}{}", lines.collect::<String>())
    }

    /// The worlds in which the first hunt for each bug ended.
    #[must_use]
    pub fn of(hunted: &[Hunted]) -> Self {
        let found = |it: &Hunted| {
            let shown = it.trails.first()?.caught.as_ref()?;
            shown.options.is_none().then(|| (it.mutant.name.to_owned(), shown.seed))
        };
        Self(hunted.iter().filter_map(found).collect())
    }
}

/// The first line of a list of worlds.
const HEAD: &str = "# Worlds in which seeded bugs were found: `sim mutants --known FILE --note`\n";

/// Worlds are drawn from seeds this far apart, one row of them for each hunt for a bug.
const ROW: u64 = 1 << 32;

/// How bugs are hunted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hunt<'a> {
    /// Hunts for each bug, each through seeds of its own.
    pub starts: u64,
    /// Seeds after which a hunt is given up.
    pub seeds_max: u64,
    /// Time after which a hunt begins no other world.
    pub lasts_max: Duration,
    /// Requests in a world: few, so that a world is cheap and its windows are still passed.
    pub requests: u64,
    /// Hunts at the same time.
    pub jobs: usize,
    /// Where the first hunt for a bug looks first.
    pub known: Option<&'a Known>,
    /// Whether half of the worlds are variations of those that covered something new, in the same
    /// hunt: [`crate::guided`].
    pub guided: bool,
}

/// A world that breaks a property.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct BreakingWorld {
    /// The property.
    pub property: &'static str,
    /// The seed of the world.
    pub seed: u64,
    /// Its options, if the seed alone does not draw them.
    pub options: Option<String>,
}

/// How one hunt ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trail {
    /// Worlds that were run.
    pub seeds: u64,
    /// What showed the bug, if anything did.
    pub caught: Option<BreakingWorld>,
    /// Worlds in which a replica or client came to the code of the bug: if there are none, it is
    /// the worlds that must change, and otherwise the checkers.
    pub reached: u64,
    /// Worlds that break a property without the bug too, so that they show nothing about it.
    pub broken: Vec<BreakingWorld>,
    /// How long it took.
    pub took: Duration,
}

/// Every hunt for one bug.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Hunted {
    /// The bug.
    pub mutant: Mutant,
    /// One for each start.
    pub trails: Vec<Trail>,
}

impl Hunted {
    /// How many hunts found it.
    #[must_use]
    pub fn catches(&self) -> usize {
        self.trails.iter().filter(|trail| trail.caught.is_some()).count()
    }

    /// Whether one did.
    #[must_use]
    pub fn is_caught(&self) -> bool {
        self.catches() > 0
    }

    /// Seeds until it was caught, or given up: in half of the hunts at most so many.
    #[must_use]
    pub fn median_seeds(&self) -> u64 {
        let mut seeds: Vec<u64> = self.trails.iter().map(|trail| trail.seeds).collect();
        seeds.sort_unstable();
        seeds.get(seeds.len().saturating_sub(1) / 2).copied().unwrap_or_default()
    }

    /// Worlds of all hunts, and how many of them came to the code of the bug.
    #[must_use]
    pub fn reached(&self) -> (u64, u64) {
        let worlds = self.trails.iter().map(|trail| trail.seeds).sum();
        (worlds, self.trails.iter().map(|trail| trail.reached).sum())
    }

    /// Time of all hunts.
    #[must_use]
    pub fn took(&self) -> Duration {
        self.trails.iter().map(|trail| trail.took).sum()
    }

    /// Which properties showed it, each once, the one that did so most often first.
    #[must_use]
    pub fn properties(&self) -> Vec<&'static str> {
        let mut counts: Vec<(&'static str, usize)> = Vec::new();
        for shown in self.trails.iter().filter_map(|trail| trail.caught.as_ref()) {
            let property = shown.property;
            match counts.iter_mut().find(|(known, _)| *known == property) {
                Some((_, count)) => *count += 1,
                None => counts.push((property, 1)),
            }
        }
        counts.sort_by_key(|(name, count)| (core::cmp::Reverse(*count), *name));
        counts.into_iter().map(|(name, _)| name).collect()
    }
}

/// The bugs that random worlds are to find.
pub fn swarm_mutants() -> impl Iterator<Item = &'static Mutant> {
    MUTANTS.iter().filter(|mutant| mutant.is_real() && mutant.finder == Finder::Swarm)
}

/// Where seeds of a hunt are counted from.
const fn first_seed(start: u64) -> u64 {
    (start + 1) * ROW
}

/// The worlds of a hunt: in every eighth nothing goes wrong but what hostile clients send, as some
/// bugs make a group do things for no reason, which elsewhere does not stand out. Most groups are
/// of the smallest size, as their worlds cost least.
fn config(seed: u64, requests: u64) -> SimConfig {
    let f = (!seed.is_multiple_of(4)).then_some(1);
    SimConfig { requests, f, hostile_only: seed % 8 == 7, ..SimConfig::default() }
}

/// The worlds of a hunt, in the order in which they are looked at.
fn worlds(name: &str, start: u64, hunt: &Hunt<'_>) -> impl Iterator<Item = u64> + use<> {
    let first = first_seed(start);
    let known = hunt.known.filter(|_| start == 0).and_then(|known| known.0.get(name).copied());
    let others = (first..first + hunt.seeds_max).filter(move |seed| known != Some(*seed));
    known.into_iter().chain(others)
}

fn shown(violation: Violation) -> BreakingWorld {
    let Violation { seed, broken, world, is_varied, .. } = violation;
    BreakingWorld { property: broken.property, seed, options: is_varied.then_some(world) }
}

/// Runs worlds with this bug until one breaks a property that it does not break without the bug.
fn follow(
    name: &str,
    start: u64,
    hunt: &Hunt<'_>,
    factories: &Factories<'_>,
    stop: &AtomicBool,
) -> Trail {
    let begun = Instant::now();
    let mut trail =
        Trail { seeds: 0, caught: None, reached: 0, broken: Vec::new(), took: Duration::ZERO };
    let mut corpus = hunt.guided.then(Corpus::default);
    for seed in worlds(name, start, hunt) {
        if stop.load(Ordering::Relaxed) || begun.elapsed() >= hunt.lasts_max {
            break;
        }
        trail.seeds += 1;
        let config = config(seed, hunt.requests);
        let trial = Trial::next(seed, &config, &factories.rules, corpus.as_mut());
        let run = |bug| mutant::with(bug, || trial.run(factories));
        let before = mutant::times_reached();
        let (outcome, coverage) = run(Some(name));
        trail.reached += u64::from(mutant::times_reached() > before);
        if let (Some(corpus), Some(coverage)) = (&mut corpus, &coverage) {
            corpus.learn(&trial.case, coverage);
        }
        let Err(violation) = outcome else { continue };
        if let (Err(without), _) = run(None) {
            trail.broken.push(shown(without));
        } else {
            trail.caught = Some(shown(violation));
            break;
        }
    }
    trail.took = begun.elapsed();
    trail
}

/// Hunts for these bugs. `done` is told of each as its last hunt ends; when it returns false, the
/// others are given up.
pub fn hunt(
    mutants: &[&'static Mutant],
    hunt: &Hunt<'_>,
    factories: &Factories<'_>,
    done: impl FnMut(&Hunted) -> bool + Send,
) -> Vec<Hunted> {
    let starts = hunt.starts.max(1) as usize;
    let trails: Vec<Mutex<BTreeMap<u64, Trail>>> =
        mutants.iter().map(|_| Mutex::default()).collect();
    let (next, stop, done) = (AtomicUsize::new(0), AtomicBool::new(false), Mutex::new(done));
    let finished = |index: usize, trails: &BTreeMap<u64, Trail>| {
        let hunted = Hunted { mutant: *mutants[index], trails: trails.values().cloned().collect() };
        if !done.lock().expect("a report does not panic")(&hunted) {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let work = || {
        loop {
            let job = next.fetch_add(1, Ordering::Relaxed);
            let (index, start) = (job / starts, job % starts);
            if index >= mutants.len() || stop.load(Ordering::Relaxed) {
                break;
            }
            let trail = follow(mutants[index].name, start as u64, hunt, factories, &stop);
            let mut trails = trails[index].lock().expect("nobody panics with it");
            trails.insert(start as u64, trail);
            if trails.len() == starts {
                finished(index, &trails);
            }
        }
    };
    std::thread::scope(|scope| (0..hunt.jobs.max(1)).for_each(|_| drop(scope.spawn(work))));
    let all = mutants.iter().zip(trails);
    all.map(|(mutant, trails)| Hunted {
        mutant: **mutant,
        trails: trails.into_inner().expect("nobody panicked").into_values().collect(),
    })
    .collect()
}
