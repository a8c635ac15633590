//! Worlds in which a replica enters a view alone. First the group falls apart for about as long as
//! replicas wait for a primary: the primary and just enough others for a later view to take over
//! what they execute, and the rest. Then one replica is first to enter a new view, and is [left
//! alone](crate::world) there: the others begin a later one without what it took over, and of that
//! one it hears nothing but checkpoints. In the end another one may stop for good, so that the
//! lonely one counts.

use super::{DiskOptions, Disturbance, Options, Target};
use crate::device::DeviceFault;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};

/// Of a hundred worlds, how many are like this.
const PERCENT: u32 = 4;

impl Options {
    /// Makes a world such a one, now and then. From a stream of its own, so that all other worlds
    /// stay as they are.
    pub(super) fn draw_alone(&mut self, rng: &mut Rng, liveness_timeouts: u64) {
        if self.device != DeviceFault::None || self.is_steady() || !rng.percent(PERCENT) {
            return;
        }
        self.begin_anew();
        self.liveness_timeouts = liveness_timeouts;
        (self.hearing, self.hears_late_us, self.late_checkpoints) = (0, 0, 0);
        self.left_alone_us = rng.range(400_000, 1_500_000);
        self.tuning.checkpoint_slots = rng.range(1, 3);
        self.tuning.window_slots = self.tuning.checkpoint_slots * rng.range(2, 4);
        self.tuning.batch_requests = *rng.pick(&[1, 4]);
        if rng.percent(50) {
            self.disk = DiskOptions {
                sync_us: 50,
                slow_log_ppm: *rng.pick(&[0, 200_000]),
                slow_us: 300_000,
                stop_at_saved_ppm: *rng.pick(&[0, 300_000, 1_000_000]),
                ..DiskOptions::default()
            };
        }
        self.draw_parted_primaries(rng);
        self.clients = self.clients.min(3);
        self.outstanding = 1;
        self.requests_each = self.requests_each.min(40);
        self.think_us = self.heal_at / self.requests_each.max(1);
    }

    fn draw_parted_primaries(&mut self, rng: &mut Rng) {
        let patience = self.timeouts.request_ms * 1_000;
        let mut at = rng.range(20_000, 200_000);
        for round in 0..rng.range(1, 3) {
            let first = if round == 0 { 0 } else { rng.below(self.n as u64) };
            let part = self.draw_part(rng, ReplicaId(first as u16));
            let lasts: Micros = patience * rng.range(6, 16) / 10;
            let one_way = rng.percent(20);
            self.disturbances.push((at, Disturbance::Split { part, one_way, lasts }));
            at += lasts + rng.range(500_000, 2_500_000);
        }
        if rng.percent(60) {
            let stops = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
            self.disturbances.push((at, Disturbance::Crash(stops)));
        }
        self.heal_at = at + rng.range(1, 500_000);
    }

    /// This replica and, most often, `f` others.
    fn draw_part(&self, rng: &mut Rng, first: ReplicaId) -> ReplicaSet {
        let others = if rng.percent(70) { self.f as u64 } else { rng.range(1, self.n as u64 - 2) };
        let mut ids: Vec<ReplicaId> =
            (0..self.n as u16).map(ReplicaId).filter(|id| *id != first).collect();
        let drawn = (0..others).map(|_| ids.swap_remove(rng.below(ids.len() as u64) as usize));
        drawn.chain([first]).collect()
    }
}
