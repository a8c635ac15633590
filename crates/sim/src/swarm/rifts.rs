//! Worlds in which histories part without a liar: messages take about as long as the network stays
//! as it is, so that it changes in the middle of a view change, and what one replica learns others
//! never hear. Checkpoints are close together, and requests few, so that what parts is often a
//! checkpoint's slot; and in the end one replica stops for good, so that every other one counts.

use super::{DiskOptions, Disturbance, Options, Target};
use crate::device::DeviceFault;
use crate::network::NetworkOptions;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};

/// How long messages take, in microseconds.
const LATENCIES: [Micros; 3] = [1_000, 4_000, 15_000];

/// Of a hundred worlds of speculative protocols, how many are like this.
const PERCENT: u32 = 10;

impl Options {
    /// Makes a world such a one, now and then. What is drawn here comes from a stream of its own,
    /// so that all other worlds are what they were.
    pub(super) fn draw_rift(&mut self, rng: &mut Rng) {
        if self.device != DeviceFault::None || !rng.percent(PERCENT) {
            return;
        }
        let latency_us = *rng.pick(&LATENCIES);
        self.network =
            NetworkOptions { latency_us, jitter_us: latency_us / 2, ..NetworkOptions::default() };
        (self.skew_ms, self.drift_ppm, self.busy_ppm, self.restart_at_end_ppm) = (0, 0, 0, 0);
        self.hostile.clear();
        self.byzantine.clear();
        self.disk = DiskOptions::default();
        self.draw_rift_tuning(rng);
        self.draw_rift_phases(rng, latency_us);
        self.clients = self.clients.min(3);
        self.outstanding = 1;
        self.requests_each = self.requests_each.min(60);
        self.think_us = self.heal_at / self.requests_each.max(1);
    }

    fn draw_rift_tuning(&mut self, rng: &mut Rng) {
        self.tuning.checkpoint_slots = rng.range(1, 4);
        self.tuning.window_slots = self.tuning.checkpoint_slots * rng.range(2, 4);
        self.tuning.batch_requests = *rng.pick(&[1, 4]);
    }

    /// The network falls into parts again and again, for about as long as a few messages take, with
    /// one longer pause now and then, in which those who hear each other change views.
    fn draw_rift_phases(&mut self, rng: &mut Rng, latency_us: Micros) {
        self.disturbances.clear();
        let places = self.places().len();
        let mut at = rng.range(1, 200_000);
        for _ in 0..rng.range(8, 30) {
            let lasts = if rng.percent(30) {
                rng.range(300_000, 1_200_000)
            } else {
                latency_us * rng.range(1, 8)
            };
            for _ in 0..rng.range(0, 2) {
                let part = ReplicaSet(rng.range(1, (1 << places) - 2));
                let one_way = rng.percent(60);
                self.disturbances.push((at, Disturbance::Split { part, one_way, lasts }));
            }
            at += lasts;
        }
        let stops = ReplicaId(rng.below(self.n as u64) as u16);
        self.disturbances.push((at, Disturbance::Crash(Target::Replica(stops))));
        self.heal_at = at + 1;
    }
}
