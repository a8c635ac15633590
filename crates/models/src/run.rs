//! Runs a model again and again, each time with another seed.

use crate::{Broken, Model};
use fastrand::Rng;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;

/// How many runs a thread takes at a time.
const SHARE: u64 = 64;

/// What came of runs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// The seed of the broken run.
    pub seed: u64,
    /// What broke in it.
    pub broken: Broken,
}

/// What came of all runs of a model.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Summary {
    /// Runs that ended.
    pub runs: u64,
    /// The broken run of lowest seed among those that were found.
    pub first: Option<Outcome>,
}

/// Runs a model with `runs` seeds from `first` on, without the rule of this name, on so many
/// threads, until one run breaks.
///
/// # Panics
/// If a run panics.
#[must_use]
pub fn run_all(
    model: &Model,
    without: Option<&str>,
    first: u64,
    runs: u64,
    threads: usize,
) -> Summary {
    let (next, done) = (AtomicU64::new(0), AtomicU64::new(0));
    let stops = AtomicBool::new(false);
    let work = || {
        let mut found = None;
        while !stops.load(Ordering::Relaxed) {
            let share = next.fetch_add(SHARE, Ordering::Relaxed);
            if share >= runs {
                break;
            }
            for seed in first + share..first + runs.min(share + SHARE) {
                done.fetch_add(1, Ordering::Relaxed);
                if let Err(broken) = (model.run)(Rng::with_seed(seed), without) {
                    stops.store(true, Ordering::Relaxed);
                    found = Some(Outcome { seed, broken });
                    break;
                }
            }
        }
        found
    };
    let found = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.max(1)).map(|_| scope.spawn(work)).collect();
        let found = threads.into_iter().filter_map(|thread| thread.join().expect("a run"));
        found.min_by_key(|outcome| outcome.seed)
    });
    Summary { runs: done.into_inner(), first: found }
}

/// Runs a model without a rule, one seed after the other from 0 on, until a run breaks: the seed,
/// and what broke. None if `runs` did not suffice.
#[must_use]
pub fn run_until_broken(model: &Model, without: &str, runs: u64) -> Option<Outcome> {
    run_all(model, Some(without), 0, runs, 1).first
}
