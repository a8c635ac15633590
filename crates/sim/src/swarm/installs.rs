//! Worlds in which states come apart from their proofs. A replica that was cut off, most often with
//! a history of its own, hears that others are elsewhere, fetches a state, and loses power at that
//! moment, again and again. Its disk is slow now and then, so it may come back with the state and
//! without anything that says why it has it: in the view that it was cut off in, with all that was
//! ordered there. Checkpoints are close to each other, by slots or by bytes, so that one window has
//! several.

use super::{DiskOptions, Disturbance, Failure, Options, Target};
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::network::NetworkOptions;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_BYTES;

impl Options {
    /// Makes a world such a one, now and then.
    pub(super) fn draw_installs(&mut self, rng: &mut Rng, liveness_timeouts: u64) {
        if self.device != DeviceFault::None || rng.percent(88) {
            return;
        }
        // A proof may arrive, and what says that the view has changed may not.
        let loss_ppm = *rng.pick(&[0, 300_000, 500_000]);
        let (latency_us, jitter_us) = (50, 100);
        self.network = NetworkOptions { latency_us, jitter_us, loss_ppm, ..Default::default() };
        (self.drift_ppm, self.busy_ppm, self.restart_at_end_ppm) = (0, 0, 0);
        self.skew_ms = *rng.pick(&[0, 20]);
        self.means = Means::Signature;
        self.hostile.clear();
        self.liveness_timeouts = liveness_timeouts;
        if rng.percent(60) {
            self.byzantine.clear();
        }
        let checkpoint_slots = rng.range(2, 4);
        self.tuning.checkpoint_slots = checkpoint_slots;
        self.tuning.checkpoint_bytes = *rng.pick(&[600, CHECKPOINT_BYTES, CHECKPOINT_BYTES]);
        self.tuning.window_slots = checkpoint_slots * rng.range(8, 16);
        // What comes one by one to who is alone comes together to those who go on without it, and
        // takes fewer slots there.
        self.tuning.batch_requests = *rng.pick(&[1, 4, 16]);
        self.tuning.proposals_in_flight = 16;
        self.disk = DiskOptions {
            sync_us: *rng.pick(&[50, 500]),
            slow_ppm: 0,
            slow_log_ppm: *rng.pick(&[50_000, 200_000, 500_000]),
            slow_us: *rng.pick(&[300_000, 800_000]),
            stop_at_saved_ppm: *rng.pick(&[0, 300_000, 1_000_000]),
            ..DiskOptions::default()
        };
        self.draw_cuts(rng);
        // Most of what clients want comes while the first primary is alone: then the others end
        // at a checkpoint that lies within what it ordered.
        self.clients = rng.range(2, 4) as usize;
        self.outstanding = 8;
        self.think_us = rng.range(10_000, 120_000);
        self.requests_each = rng.range(4, 20);
    }

    /// One replica after the other is cut off, most often the primary, and loses power several
    /// times while it catches up.
    fn draw_cuts(&mut self, rng: &mut Rng) {
        self.disturbances.clear();
        let (mut at, mut next) = (rng.range(20_000, 150_000), 0);
        for _ in 0..rng.range(1, 3) {
            let any = rng.below(self.n as u64);
            let id = if rng.percent(70) { next } else { any };
            next = (id + 1) % self.n as u64;
            let target = Target::Replica(ReplicaId(id as u16));
            if self.network.loss_ppm == 0 || rng.percent(40) {
                at += self.draw_deaf_cut(rng, at, target);
                continue;
            }
            let lasts = rng.range(400_000, 1_000_000);
            let (hears, clients) = (rng.percent(20), rng.percent(20));
            self.disturbances.push((at, Disturbance::Isolate { target, hears, clients, lasts }));
            at += lasts;
            for _ in 0..rng.range(2, 6) {
                let (failure, points) = (Failure::Power, rng.below(4));
                let stop = Disturbance::Stop { target, failure, points, lasts: 1_000 };
                self.disturbances.push((at + rng.range(50_000, 800_000), stop));
            }
            at += rng.range(700_000, 1_200_000);
        }
        self.heal_at = at;
    }

    /// Nobody hears the replica but clients, and of what others do without it, it hears of their
    /// checkpoints alone, one after the other. The first takes it back; it fetches the last one
    /// when others hear it again, and still does not hear that they have left its view. Gives for
    /// how long.
    fn draw_deaf_cut(&mut self, rng: &mut Rng, at: Micros, target: Target) -> Micros {
        let (lasts, deaf) = (rng.range(700_000, 1_500_000), rng.range(300_000, 900_000));
        let cut = Disturbance::Isolate { target, hears: true, clients: false, lasts };
        self.disturbances.push((at, cut));
        self.disturbances.push((at, Disturbance::Deafen(target, lasts + deaf)));
        let (failure, points) = (Failure::Power, rng.below(4));
        let stop = Disturbance::Stop { target, failure, points, lasts: 1_000 };
        let until = lasts + deaf + rng.range(200_000, 700_000);
        self.disturbances.push((at + until, stop));
        until
    }
}
