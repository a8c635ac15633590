//! Worlds of readers. That a query is answered from too old a state shows only if a value that was
//! overwritten is read after a newer one, or read by one client and not by the next: so one client
//! or two write to few registers and many read them, some replicas hear the others late, and those
//! that lie answer queries with values that the registers had or are to have. Values recur, because
//! a stale value that nobody writes again needs more to be believed.

use super::{DiskOptions, Disturbance, Options, SimConfig, Target};
use crate::adversary::Behaviour;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::network::NetworkOptions;
use crate::rng::Rng;
use crate::workload::WorkloadOptions;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};
use pentarchy_core::protocol::Rules;

/// Of a hundred worlds, how many are of readers.
const PERCENT: u32 = 10;

/// What is added to the stream that the rest of the world is drawn from, to have another one.
const STREAM: u64 = 0x7265_6164;

impl Options {
    /// Makes a world such a one, now and then. It draws from a stream of its own: worlds that are
    /// not of readers are what they were.
    pub(super) fn draw_reads(&mut self, all: &Rng, config: &SimConfig, rules: &Rules) {
        let rng = &mut Rng::new(all.clone().next_u64().wrapping_add(STREAM));
        let may = config.faults && config.byzantine && !config.hostile_only;
        if !may || self.hearing != 0 || self.device != DeviceFault::None || !rng.percent(PERCENT) {
            return;
        }
        self.draw_reading(rng);
        self.draw_misleaders(rng, rules);
        self.network = NetworkOptions {
            latency_us: *rng.pick(&[20, 100]),
            jitter_us: *rng.pick(&[50, 200, 1_000]),
            loss_ppm: *rng.pick(&[0, 0, 0, 10_000]),
            straggle_ppm: *rng.pick(&[0, 0, 0, 50_000]),
            straggle_us: *rng.pick(&[1_000, 5_000]),
            slow_link_us: *rng.pick(&[2_000, 8_000]),
            ..Default::default()
        };
        self.draw_slow_links(rng);
        (self.busy_ppm, self.restart_at_end_ppm) = (0, 0);
        self.hostile.clear();
        self.means = Means::Signature;
        self.tuning.batch_requests = *rng.pick(&[1, 4]);
        self.tuning.proposals_in_flight = rng.range(1, 4);
        self.disk = DiskOptions::default();
        self.draw_lags(rng);
    }

    /// Several clients that read a register or two, and wait for one thing at a time. Few of them
    /// write: what many write at the same time explains nearly everything that others read.
    fn draw_reading(&mut self, rng: &mut Rng) {
        self.clients = rng.range(6, 10) as usize;
        self.outstanding = *rng.pick(&[1, 1, 1, 2]);
        self.think_us = *rng.pick(&[50, 100, 300]);
        self.requests_each = self.requests_each.clamp(60, 200);
        self.workload = WorkloadOptions {
            keys: *rng.pick(&[1, 1, 1, 2]),
            values: *rng.pick(&[2, 2, 2, 3]),
            writers: *rng.pick(&[1, 1, 1, 2]),
            reads_percent: *rng.pick(&[0, 30]),
            queries_percent: 100,
            large_ppm: 0,
            skip_ppm: 0,
            tells_percent: 0,
            floods_ppm: 0,
            gives_up_ppm: 0,
            judged_percent: 0,
            follow_late_ms: 0,
        };
        // Who writes waits for slow links.
        self.heal_at = (self.think_us + 4_000) * self.requests_each;
    }

    /// As many replicas as may be faulty lie to readers, and in some worlds ask to be admitted anew
    /// whenever they may. Where replicas execute early, the first of
    /// them often exists twice, so that some of that is taken back.
    fn draw_misleaders(&mut self, rng: &mut Rng, rules: &Rules) {
        let mut ids: Vec<ReplicaId> = (0..self.n as u16).map(ReplicaId).collect();
        // Epochs end under way, and begin with states that some replicas have to fetch.
        let epochs = rng.percent(25).then_some(Behaviour::Usurp { rate_ppm: 100_000 });
        self.byzantine.clear();
        for count in 0..self.f {
            let is_twin = count == 0 && rules.speculative && rng.percent(50);
            let index = if is_twin { 0 } else { rng.below(ids.len() as u64) as usize };
            let twin = is_twin.then_some(Behaviour::Twin);
            let habits = twin.into_iter().chain([Behaviour::Mislead]).chain(epochs).collect();
            self.byzantine.push((ids.swap_remove(index), habits));
        }
    }

    /// Some replicas hear the others late, but not those that lie, as they would not let that keep
    /// them from lying, nor the first primary, as then all are late.
    fn draw_slow_links(&mut self, rng: &mut Rng) {
        for _ in 0..16 {
            self.network.slow_links = rng.range(1, 1_000_000);
            let mut early = self.byzantine.iter().map(|(id, _)| *id).chain([ReplicaId(0)]);
            if early.all(|id| self.network.hears_late_us(id) == 0) {
                break;
            }
        }
    }

    /// One replica after the other is cut off for some milliseconds, and now and then a primary for
    /// so long that there is another view.
    fn draw_lags(&mut self, rng: &mut Rng) {
        self.disturbances.clear();
        let mut at = 0;
        while at < self.heal_at && self.disturbances.len() < 40 {
            at += rng.range(10_000, 200_000);
            let lasts = *rng.pick(&[2_000, 10_000, 30_000]);
            if self.twins().next().is_some() && rng.percent(50) {
                // Copies that see the same do the same.
                let part = ReplicaSet(rng.range(1, (1 << self.places().len()) - 2));
                let split = Disturbance::Split { part, one_way: rng.percent(40), lasts };
                self.disturbances.push((at, split));
                continue;
            }
            let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
            let (hears, clients) = (rng.percent(30), false);
            self.disturbances.push((at, Disturbance::Isolate { target, hears, clients, lasts }));
        }
        if rng.percent(40) {
            let (target, at) = (Target::Primary, rng.below(self.heal_at));
            let lasts = rng.range(600_000, 1_200_000);
            let (hears, clients) = (rng.percent(50), false);
            self.disturbances.push((at, Disturbance::Isolate { target, hears, clients, lasts }));
            self.heal_at += lasts;
        }
        self.disturbances.sort_by_key(|(at, _)| *at);
    }
}
