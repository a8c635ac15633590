//! Search that is guided by coverage. Every other world is drawn from its seed, as in a sweep. The
//! others are variations of worlds that covered something new: mostly the same faults with other
//! chances. So a search spends its time where replicas seldom come, and less of it on what every
//! world shows.

use crate::coverage::Coverage;
use crate::rng::Rng;
use crate::run::{Factories, Summary, Violation, for_each, run_world};
use crate::shrink::Case;
use crate::swarm::{Options, SimConfig};
use crate::time::Micros;
use crate::world::World;
use pentarchy_core::protocol::Rules;
use std::ops::Range;
use std::sync::Mutex;

/// Worlds that are kept at most: the one that was varied most often gives way.
const KEPT_MAX: usize = 2_000;

/// Of so many kept worlds, drawn at random, the one is varied that covers what is rarest.
const DRAWN: u64 = 6;

/// The most by which a variation has messages vary: a sweep draws no more for its networks.
const JITTER_US_MAX: Micros = 10_000;

/// How worlds that are run one after the other follow from each other.
pub struct Corpus {
    kept: Vec<Kept>,
    /// How many worlds covered each number.
    hits: Vec<u32>,
}

/// A world that covered something new.
struct Kept {
    case: Case,
    /// All that it covered.
    covered: Vec<usize>,
    /// How often it was varied.
    varied: u32,
}

impl Default for Corpus {
    fn default() -> Self {
        Self { kept: Vec::new(), hits: vec![0; Coverage::NUMBERS] }
    }
}

impl Corpus {
    /// Learns what a world covered, and whether that was new.
    pub fn learn(&mut self, case: &Case, coverage: &Coverage) -> bool {
        let covered: Vec<usize> = coverage.covered().collect();
        let is_new = covered.iter().any(|number| self.hits[*number] == 0);
        covered.iter().for_each(|number| self.hits[*number] += 1);
        if is_new {
            if self.kept.len() >= KEPT_MAX {
                let most = (0..self.kept.len()).max_by_key(|index| self.kept[*index].varied);
                most.into_iter().for_each(|index| drop(self.kept.swap_remove(index)));
            }
            self.kept.push(Kept { case: case.clone(), covered, varied: 0 });
        }
        is_new
    }

    /// Different things that worlds covered.
    #[must_use]
    pub fn covered(&self) -> usize {
        self.hits.iter().filter(|hits| **hits > 0).count()
    }

    /// A variation of a world that covered something rare. None before there is any.
    fn vary(&mut self, rng: &mut Rng) -> Option<Case> {
        if self.kept.is_empty() {
            return None;
        }
        let drawn = (0..DRAWN).map(|_| rng.below(self.kept.len() as u64) as usize);
        let rarity = |index: &usize| {
            let Kept { covered, varied, .. } = &self.kept[*index];
            let rarest = covered.iter().map(|number| self.hits[*number]).min();
            rarest.unwrap_or_default().saturating_add(*varied)
        };
        let index = drawn.min_by_key(rarity)?;
        let kept = &mut self.kept[index];
        kept.varied += 1;
        Some(variation(&kept.case, rng))
    }
}

/// The same world with other chances and, in half of all cases, one other thing about it.
fn variation(case: &Case, rng: &mut Rng) -> Case {
    let Case { mut options, .. } = case.clone();
    match rng.below(6) {
        0 if options.hearing > 0 => options.hearing = rng.range(1, 1_000_000),
        1 => move_disturbance(&mut options, rng),
        2 if options.network.jitter_us > 0 => {
            let jitter = options.network.jitter_us * rng.range(1, 8) / 4;
            options.network.jitter_us = jitter.min(JITTER_US_MAX);
        }
        _ => {}
    }
    Case { seed: rng.next_u64(), options }
}

/// Something happens at another time, on the same side of the moment at which all heals.
fn move_disturbance(options: &mut Options, rng: &mut Rng) {
    if options.disturbances.is_empty() {
        return;
    }
    let index = rng.below(options.disturbances.len() as u64) as usize;
    let heal_at = options.heal_at;
    let (at, _) = &mut options.disturbances[index];
    if *at < heal_at {
        let later: Micros = rng.range(0, *at / 2 + 100_000);
        *at = (*at - *at / 4 + later).min(heal_at - 1);
    }
}

/// A world that is to be run.
pub struct Trial {
    /// What it is.
    pub case: Case,
    /// What all chances in it are drawn from.
    rng: Rng,
    /// Whether it is a variation of another one, so that its seed alone does not say what it is.
    pub is_varied: bool,
    /// Whether somebody wants its coverage.
    covers: bool,
}

impl Trial {
    /// The world of a seed, or with `corpus` perhaps a variation of one of those.
    #[must_use]
    pub fn next(seed: u64, config: &SimConfig, rules: &Rules, corpus: Option<&mut Corpus>) -> Self {
        let mut rng = Rng::new(seed);
        let (mut chances, covers) = (Rng::new(!seed), corpus.is_some());
        let varied = corpus.filter(|_| chances.percent(50)).and_then(|it| it.vary(&mut chances));
        match varied {
            Some(case) => Self { rng: Rng::new(case.seed), case, is_varied: true, covers },
            None => {
                let options = Options::draw(&mut rng, config, rules);
                Self { case: Case { seed, options }, rng, is_varied: false, covers }
            }
        }
    }

    /// Runs it, and gives its coverage if somebody wants that.
    pub fn run(&self, factories: &Factories<'_>) -> (Result<Summary, Violation>, Option<Coverage>) {
        let Case { seed, options } = self.case.clone();
        let (outcome, world) =
            run_world(seed, options, factories, self.rng.clone(), (None, self.covers));
        let coverage = world.and_then(World::into_coverage);
        let is_varied = self.is_varied;
        (outcome.map_err(|violation| Violation { is_varied, ..violation }), coverage)
    }
}

/// Runs as many worlds as there are seeds, on this many threads. Half of them are variations of
/// worlds before; on one thread the same seeds give the same worlds. `progress` is told of each as
/// it ends; when it returns false, no further one is begun. Gives what it learned.
pub fn run_guided(
    seeds: Range<u64>,
    jobs: usize,
    config: &SimConfig,
    factories: &Factories<'_>,
    progress: impl FnMut(&Result<Summary, Violation>) -> bool + Send,
) -> Corpus {
    let corpus = Mutex::new(Corpus::default());
    let known = || corpus.lock().expect("nobody panics with it");
    let run = |seed| {
        let trial = Trial::next(seed, config, &factories.rules, Some(&mut known()));
        let (outcome, coverage) = trial.run(factories);
        coverage.iter().for_each(|it| _ = known().learn(&trial.case, it));
        outcome
    };
    for_each(seeds, jobs, run, progress);
    corpus.into_inner().expect("nobody panics with it")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn case(seed: u64) -> Case {
        Case { seed, options: Options::calm() }
    }

    fn covering(what: &[&str]) -> Coverage {
        let mut coverage = Coverage::default();
        what.iter().for_each(|what| coverage.note(what));
        coverage
    }

    #[test]
    fn worlds_that_cover_something_new_are_kept_and_the_rare_ones_varied_most() {
        let mut corpus = Corpus::default();
        assert!(corpus.vary(&mut Rng::new(1)).is_none());
        assert!(corpus.learn(&case(1), &covering(&["executes"])));
        assert!(!corpus.learn(&case(2), &covering(&["executes"])));
        let mut rare = case(3);
        rare.options.clients = 5;
        assert!(corpus.learn(&rare, &covering(&["executes", "two views fail"])));
        for seed in 0..100 {
            assert!(!corpus.learn(&case(seed), &covering(&["executes"])));
        }
        assert_eq!((corpus.covered(), corpus.kept.len()), (2, 2));
        let mut rng = Rng::new(1);
        let varied: Vec<Case> = (0..50).filter_map(|_| corpus.vary(&mut rng)).collect();
        let of_rare = varied.iter().filter(|it| it.options.clients == 5).count();
        assert!((40..50).contains(&of_rare), "{of_rare}");
        assert!(varied.iter().all(|it| it.seed != 3), "their chances are others");
    }

    #[test]
    fn disturbances_stay_on_their_side_of_healing() {
        let mut rng = Rng::new(1);
        let text = "heal_at_us=1000 at=999:crash(primary) at=2000:crash(r1)";
        let before: Options = text.parse().expect("options");
        for _ in 0..100 {
            let mut options = before.clone();
            move_disturbance(&mut options, &mut rng);
            assert!(options.disturbances[0].0 < 1_000);
            assert_eq!(options.disturbances[1].0, 2_000);
        }
    }
}
