//! A failing run made smaller: delta debugging over [`Options`]. Whatever can be left out, or be
//! less, is tried; what still breaks the same property is kept. Smaller options draw other chances
//! from a seed, so a few seeds are tried for each.

use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, run_options};
use crate::swarm::{Options, Target};
use crate::world::Log;
use pentarchy_core::protocol::Rules;

/// Seeds that are tried for each smaller world.
const SEEDS: u64 = 4;

/// A world that can be run again and again.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// The seed of all chances in it.
    pub seed: u64,
    /// Everything else.
    pub options: Options,
}

impl Case {
    /// Runs it.
    ///
    /// # Errors
    /// The property that it breaks.
    pub fn run(&self, factories: &Factories<'_>, log: Option<Log>) -> Result<Summary, Violation> {
        run_options(self.seed, self.options.clone(), factories, Rng::new(self.seed), log)
    }
}

/// What shrinking came to.
#[derive(Clone, Debug)]
pub struct Shrunk {
    /// The smallest world that was found.
    pub case: Case,
    /// What it breaks.
    pub violation: Violation,
    /// Worlds that were run on the way.
    pub runs: u64,
}

/// Looks for smaller worlds that break `property`, until there are none or `goes_on`, which is told
/// how many were run, says no. None if no smaller one breaks it.
pub fn shrink(
    from: Case,
    property: &str,
    factories: &Factories<'_>,
    mut goes_on: impl FnMut(u64) -> bool,
) -> Option<Shrunk> {
    let (mut best, mut runs) = (from, 0);
    let mut found = None;
    loop {
        let before = best.options.clone();
        let mut index = 0;
        while let Some(options) = smaller(&best.options, &factories.rules).into_iter().nth(index) {
            let mut fails = None;
            for seed in (0..SEEDS).map(|more| best.seed.wrapping_add(more)) {
                if !goes_on(runs) {
                    return found.map(|violation| Shrunk { case: best, violation, runs });
                }
                runs += 1;
                let case = Case { seed, options: options.clone() };
                let violation = case.run(factories, None).err();
                if let Some(violation) = violation.filter(|it| it.broken.property == property) {
                    fails = Some((case, violation));
                    break;
                }
            }
            match fails {
                // What could be left out at this place has moved up.
                Some((case, violation)) => (best, found) = (case, Some(violation)),
                None => index += 1,
            }
        }
        if best.options == before {
            return found.map(|violation| Shrunk { case: best, violation, runs });
        }
    }
}

/// Smaller worlds, those first that leave out most.
fn smaller(options: &Options, rules: &Rules) -> Vec<Options> {
    let mut all = Vec::new();
    fewer_replicas(options, rules, &mut all);
    fewer_requests(options, &mut all);
    fewer_faults(options, &mut all);
    fewer_numbers(options, &mut all);
    all.retain(|other| other != options);
    all
}

fn with(options: &Options, all: &mut Vec<Options>, change: impl FnOnce(&mut Options)) {
    let mut other = options.clone();
    change(&mut other);
    // Of machines that joined none may be left.
    let machines = other.machines().count();
    other.byzantine.retain(|(id, _)| usize::from(id.0) < machines);
    all.push(other);
}

fn fewer_requests(options: &Options, all: &mut Vec<Options>) {
    let less = |number: u64| [1, number / 4, number / 2, number * 3 / 4, number - 1];
    for requests in less(options.requests_each).into_iter().filter(|it| *it > 0) {
        with(options, all, |other| other.requests_each = requests);
    }
    for clients in less(options.clients as u64).into_iter().filter(|it| *it > 0) {
        with(options, all, |other| other.clients = clients as usize);
    }
    for outstanding in [1, options.outstanding / 2].into_iter().filter(|it| *it > 0) {
        with(options, all, |other| other.outstanding = outstanding);
    }
    for part in [8, 4, 2] {
        with(options, all, |other| other.heal_at = options.heal_at / part);
    }
}

/// A smaller group, without the faults of those who are gone.
fn fewer_replicas(options: &Options, rules: &Rules, all: &mut Vec<Options>) {
    for f in 1..options.f {
        let n = rules.replicas(f);
        let stays = |target| !matches!(target, Some(Target::Replica(id)) if usize::from(id.0) >= n);
        with(options, all, |other| {
            (other.f, other.n) = (f, n);
            other.byzantine.retain(|(id, _)| usize::from(id.0) < n);
            other.byzantine.truncate(f);
            other.disturbances.retain(|(_, it)| stays(it.target()));
        });
    }
}

fn fewer_faults(options: &Options, all: &mut Vec<Options>) {
    with(options, all, |other| other.disturbances.clear());
    with(options, all, |other| other.byzantine.clear());
    with(options, all, |other| other.hostile.clear());
    for index in 0..options.disturbances.len() {
        with(options, all, |other| {
            other.disturbances.remove(index);
        });
    }
    for index in 0..options.byzantine.len() {
        with(options, all, |other| {
            other.byzantine.remove(index);
        });
        let habits = &options.byzantine[index].1;
        for habit in (0..habits.len()).filter(|_| habits.len() > 1) {
            with(options, all, |other| {
                other.byzantine[index].1.remove(habit);
            });
        }
    }
    for index in 0..options.hostile.len() {
        with(options, all, |other| {
            other.hostile.remove(index);
        });
    }
    for index in 0..options.disturbances.len() {
        let lasts = |other: &mut Options| {
            if let Some(lasts) = other.disturbances[index].1.lasts().filter(|it| **it > 10_000) {
                *lasts /= 2;
            }
        };
        with(options, all, lasts);
    }
}

/// Everything else as in the plainest world, one thing after the other.
fn fewer_numbers(options: &Options, all: &mut Vec<Options>) {
    let calm = Options::calm();
    with(options, all, |other| {
        (other.network, other.workload) = (calm.network.clone(), calm.workload.clone());
        (other.skew_ms, other.drift_ppm, other.busy_ppm, other.stale_timer_ppm) = (0, 0, 0, 0);
    });
    with(options, all, |other| other.network = calm.network.clone());
    with(options, all, |other| other.workload = calm.workload.clone());
    with(options, all, |other| other.tuning = calm.tuning);
    for name in crate::swarm::text::names() {
        with(options, all, |other| other.calm_down(name));
    }
}

#[cfg(test)]
mod tests;
