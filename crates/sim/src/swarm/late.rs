//! Worlds in which one replica hears of checkpoints at other times than of the rest.
//!
//! *Late checkpoints:* it hears of them only while it changes views, so that it has voted above a
//! checkpoint, and has left the view in which it did, when it cuts its log there. The power fails
//! then, before all is durable that it writes once more.
//!
//! *Deafened:* for a while it hears of checkpoints alone, and disks are slow to save states. So a
//! state that it fetches is there long after it has heard of several newer ones.

use super::{DiskOptions, Disturbance, Failure, Options, Target};
use crate::adversary::Behaviour;
use crate::device::DeviceFault;
use crate::network::NetworkOptions;
use crate::rng::Rng;
use pentarchy_core::ids::ReplicaId;

impl Options {
    /// Makes a world one of these, now and then. From a stream of its own, so that all other worlds
    /// stay as they are.
    pub(super) fn draw_late(&mut self, rng: &mut Rng) {
        let twins = self.byzantine.iter().any(|(_, it)| it.contains(&Behaviour::Twin));
        if self.device != DeviceFault::None || self.is_steady() || twins || self.hearing > 0 {
            return;
        }
        match rng.below(100) {
            0..4 => self.draw_late_checkpoints(rng),
            4..8 => self.draw_deafened(rng),
            _ => {}
        }
    }

    fn draw_late_checkpoints(&mut self, rng: &mut Rng) {
        self.begin_anew();
        let id = rng.below(self.n as u64) as u16;
        self.late_checkpoints = id + 1;
        self.disk.sync_us = *rng.pick(&[500, 2_000, 10_000]);
        self.disk.stop_at_stable_ppm = *rng.pick(&[300_000, 1_000_000]);
        self.draw_plain_late_world(rng, ReplicaId(id));
        self.tuning.window_slots = self.tuning.checkpoint_slots * 4;
        self.heal_at += 2_000_000;
        for _ in 0..rng.range(6, 12) {
            let (at, lasts) = (rng.below(self.heal_at), rng.range(300_000, 800_000));
            self.disturbances.push((at, Disturbance::Pause(Target::Primary, lasts)));
        }
    }

    fn draw_deafened(&mut self, rng: &mut Rng) {
        self.begin_anew();
        let id = ReplicaId(rng.below(self.n as u64) as u16);
        self.disk = DiskOptions {
            sync_us: 50,
            slow_ppm: *rng.pick(&[300_000, 1_000_000]),
            slow_us: *rng.pick(&[200_000, 800_000, 1_500_000]),
            ..DiskOptions::default()
        };
        self.draw_plain_late_world(rng, id);
        for _ in 0..rng.range(1, 4) {
            let (at, lasts) = (rng.below(self.heal_at / 2), rng.range(200_000, 1_500_000));
            self.disturbances.push((at, Disturbance::Deafen(Target::Replica(id), lasts)));
        }
    }

    /// Checkpoints are close together, slots small, and the replica loses power once.
    fn draw_plain_late_world(&mut self, rng: &mut Rng, id: ReplicaId) {
        let latency_us = *rng.pick(&[500, 2_000, 5_000]);
        self.network =
            NetworkOptions { latency_us, jitter_us: latency_us / 2, ..NetworkOptions::default() };
        self.tuning.checkpoint_slots = rng.range(1, 5);
        self.tuning.window_slots = self.tuning.checkpoint_slots * rng.range(2, 4);
        self.tuning.batch_requests = *rng.pick(&[1, 4]);
        self.heal_at = rng.range(2_000_000, 5_000_000);
        self.think_us = self.heal_at / self.requests_each.max(1);
        let (at, points) = (rng.below(self.heal_at), rng.below(40));
        let (target, failure) = (Target::Replica(id), Failure::Power);
        self.disturbances.push((at, Disturbance::Stop { target, failure, points, lasts: 1_000 }));
    }
}
