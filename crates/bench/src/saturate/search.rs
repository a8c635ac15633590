//! Which load is tried next, and where the knee is. Nothing is measured here.

/// Of the offered load so much is completed, or it is not borne.
const COMPLETED: f64 = 0.95;

/// Throughput has grown if it is this much above the best so far.
const GROWTH: f64 = 1.03;

/// Loads without growth after which no more are tried.
const FLAT: u32 = 2;

/// Throughput that is this near to the best counts as the best where load costs only latency.
const NEARLY: f64 = 0.95;

/// What came of one load.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Step {
    /// The load: operations offered in a second, or outstanding.
    pub load: u64,
    /// Operations completed in a second.
    pub throughput: f64,
    /// Milliseconds that 1 % of the operations exceeded.
    pub p99_ms: f64,
}

/// One system's search.
#[derive(Clone, Debug)]
pub struct Search {
    is_rate: bool,
    p99_ms: f64,
    to: u64,
    next: Option<u64>,
    steps: Vec<Step>,
    /// Loads that may still be tried, and of them those between.
    left: u32,
    refine: u32,
    flat: u32,
}

impl Search {
    /// From the first load up to the last one. `is_rate` says whether loads are operations in a
    /// second, of which a system can be behind.
    pub const fn new(
        is_rate: bool,
        p99_ms: f64,
        (from, to): (u64, u64),
        (tries, refine): (u32, u32),
    ) -> Self {
        let next = Some(if from > to { to } else { from });
        Self { is_rate, p99_ms, to, next, steps: Vec::new(), left: tries, refine, flat: 0 }
    }

    /// The load to try now; none if the search is over.
    pub const fn next(&self) -> Option<u64> {
        if self.left == 0 { None } else { self.next }
    }

    /// Whether a load was borne.
    pub fn is_borne(&self, step: &Step) -> bool {
        let is_behind = self.is_rate && step.throughput < COMPLETED * step.load as f64;
        step.p99_ms <= self.p99_ms && !is_behind
    }

    /// Takes note of what came of the load that was tried.
    pub fn take(&mut self, step: Step) {
        let best = self.steps.iter().map(|step| step.throughput).fold(0.0, f64::max);
        self.flat = if step.throughput > GROWTH * best { 0 } else { self.flat + 1 };
        self.steps.push(step);
        self.left -= 1;
        let highest_borne = self.borne().map(|step| step.load).max();
        let unborne = self.steps.iter().filter(|step| !self.is_borne(step));
        let lowest_unborne = unborne.map(|step| step.load).min();
        self.next = match (highest_borne, lowest_unborne) {
            (Some(borne), None) => {
                let is_flat = !self.is_rate && self.flat >= FLAT;
                (borne < self.to && !is_flat).then(|| borne.saturating_mul(2).min(self.to))
            }
            (Some(borne), Some(unborne)) => self.between(borne, unborne),
            // Even the first is too much.
            (None, Some(unborne)) => (unborne > 1).then_some(unborne / 2),
            (None, None) => None,
        };
    }

    fn between(&mut self, borne: u64, unborne: u64) -> Option<u64> {
        let middle = ((borne as f64 * unborne as f64).sqrt()).round() as u64;
        // A step of less than 2 % is within what repeats differ by.
        let is_worth_it =
            middle > borne && middle < unborne && unborne as f64 > 1.02 * borne as f64;
        let left = self.refine;
        self.refine = left.saturating_sub(1);
        (left > 0 && is_worth_it).then_some(middle)
    }

    fn borne(&self) -> impl Iterator<Item = &Step> {
        self.steps.iter().filter(|step| self.is_borne(step))
    }

    /// The knee: of offered rates the highest that was borne; of outstanding operations the fewest
    /// that bring nearly the best throughput of those that were borne. None if none was.
    pub fn knee(&self) -> Option<Step> {
        if self.is_rate {
            return self.borne().max_by_key(|step| step.load).copied();
        }
        let best = self.borne().map(|step| step.throughput).fold(0.0, f64::max);
        let good = self.borne().filter(|step| step.throughput >= NEARLY * best);
        good.min_by_key(|step| step.load).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A server that completes at most so much, and whose latency grows as it gets near to that.
    fn open(load: u64, capacity: f64) -> Step {
        let share = load as f64 / capacity;
        let p99_ms = if share < 1.0 { 0.1 / (1.0 - share) } else { 500.0 };
        Step { load, throughput: (load as f64).min(capacity), p99_ms }
    }

    fn run(mut search: Search, server: impl Fn(u64) -> Step) -> (Search, Vec<u64>) {
        let mut tried = Vec::new();
        while let Some(load) = search.next() {
            tried.push(load);
            assert!(tried.len() < 100, "it never ends: {tried:?}");
            search.take(server(load));
        }
        (search, tried)
    }

    #[test]
    fn offered_load_doubles_until_it_is_too_much_then_closes_in() {
        let search = Search::new(true, 20.0, (1000, 100_000_000), (u32::MAX, 5));
        let (search, tried) = run(search, |load| open(load, 50_000.0));
        assert_eq!(tried[..7], [1000, 2000, 4000, 8000, 16_000, 32_000, 64_000]);
        let knee = search.knee().unwrap();
        assert!((47_000..50_000).contains(&knee.load), "{knee:?} of {tried:?}");
        assert!(knee.p99_ms <= 20.0);
    }

    #[test]
    fn a_system_that_falls_behind_does_not_bear_the_load_however_fast_it_answers() {
        let search = Search::new(true, 20.0, (1000, 8000), (u32::MAX, 0));
        let half = |load| Step { load, throughput: load as f64 / 2.0, p99_ms: 0.1 };
        let (search, _) = run(search, half);
        assert_eq!(search.knee(), None);
    }

    #[test]
    fn a_first_load_that_is_too_much_is_halved() {
        let search = Search::new(true, 20.0, (64_000, 100_000_000), (u32::MAX, 0));
        let (search, tried) = run(search, |load| open(load, 10_000.0));
        assert_eq!(tried, [64_000, 32_000, 16_000, 8000]);
        assert_eq!(search.knee().unwrap().load, 8000);
        let search = Search::new(true, 20.0, (4, 8), (u32::MAX, 0));
        let (_, tried) = run(search, |load| open(load, 0.5));
        assert_eq!(tried, [4, 2, 1], "and not for ever");
    }

    /// Little's law: throughput is what is outstanding, divided by the latency.
    #[test]
    fn outstanding_operations_double_until_they_cost_only_latency() {
        let server = |load: u64| {
            let throughput = (load as f64 * 10_000.0).min(100_000.0);
            Step { load, throughput, p99_ms: 1e3 * load as f64 / throughput }
        };
        let search = Search::new(false, 20.0, (1, 2048), (u32::MAX, 3));
        let (search, tried) = run(search, server);
        assert_eq!(tried, [1, 2, 4, 8, 16, 32, 64], "two more without growth");
        assert_eq!(search.knee().unwrap().load, 16);
        let search = Search::new(false, 20.0, (1, 8), (u32::MAX, 3));
        assert_eq!(run(search, server).1, [1, 2, 4, 8], "no more than allowed");
    }

    #[test]
    fn a_bound_on_latency_ends_the_search_also_with_outstanding_operations() {
        let server = |load: u64| {
            let throughput = 1000.0 * (load as f64);
            Step { load, throughput, p99_ms: load as f64 }
        };
        let search = Search::new(false, 20.0, (1, 2048), (u32::MAX, 2));
        let (search, tried) = run(search, server);
        assert_eq!(tried, [1, 2, 4, 8, 16, 32, 23, 19]);
        assert_eq!(search.knee().unwrap().load, 19);
    }

    #[test]
    fn quick_searches_end_soon() {
        let search = Search::new(true, 20.0, (1000, 100_000_000), (4, 1));
        let (_, tried) = run(search, |load| open(load, 1e9));
        assert_eq!(tried, [1000, 2000, 4000, 8000]);
    }
}
