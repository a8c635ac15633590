//! Worlds in which histories part. Where replicas execute what is not final, most of what can go
//! wrong needs a primary that orders two things, replicas that execute either, and views that
//! change while some of them are away; or, with trusted devices, a backup that answers clients what
//! it does not show to the next view. Faults that are drawn one by one seldom meet like that.

use super::{DiskOptions, Disturbance, Failure, Options, Target};
use crate::adversary::Behaviour;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::network::{NetworkOptions, Parts};
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::{ReplicaId, ReplicaSet};

/// How long one state of the network lasts: some of them for longer than a view change takes.
const PHASES: [Micros; 5] = [20_000, 60_000, 150_000, 500_000, 900_000];

impl Options {
    /// Makes a world such a one, now and then: a replica exists twice, and the network falls into
    /// other parts again and again, or lets some be heard and not speak. Little is asked for at a
    /// time, so that what parts is the end of the history.
    pub(super) fn draw_fork(&mut self, rng: &mut Rng) {
        if self.device != DeviceFault::None || rng.percent(70) {
            return;
        }
        self.network = NetworkOptions { latency_us: 50, jitter_us: 100, ..Default::default() };
        (self.drift_ppm, self.busy_ppm, self.restart_at_end_ppm) = (0, 0, 0);
        self.skew_ms = *rng.pick(&[0, 20, 400]);
        self.means = Means::Signature;
        self.hostile.clear();
        let copied = self.draw_copied(rng);
        self.byzantine = vec![(ReplicaId(copied), vec![Behaviour::Twin])];
        self.draw_phases(rng);
        self.disk = DiskOptions::default();
        if rng.percent(40) {
            self.draw_crashes(rng);
        }
        self.clients = self.clients.min(3);
        self.outstanding = *rng.pick(&[1, 1, 2]);
        self.requests_each = self.requests_each.min(40);
        self.think_us = self.heal_at / self.requests_each.max(1);
        self.tuning.batch_requests = *rng.pick(&[1, 4]);
    }

    /// Who exists twice: most often the first primary. With `2f + 1` replicas the copies share a
    /// device, so a primary can order but one thing, and has to show that. A backup can answer what
    /// it shows to nobody.
    fn draw_copied(&self, rng: &mut Rng) -> u16 {
        let n = self.n as u64;
        let backup = self.n <= 3 * self.f;
        match rng.percent(70) {
            true if backup => 1 + rng.below(n - 1) as u16,
            true => 0,
            false => rng.below(n) as u16,
        }
    }

    /// One state of the network after the other, until everything heals.
    pub(super) fn draw_phases(&mut self, rng: &mut Rng) {
        self.disturbances.clear();
        let places = self.places().len();
        let mut at = 0;
        for _ in 0..rng.range(4, 12) {
            let lasts = *rng.pick(&PHASES);
            let count = match rng.below(4) {
                0 => 0,
                1 => {
                    let parts = rng.range(2, 3);
                    let parts = Parts::draw(rng, places, parts);
                    self.disturbances.push((at, Disturbance::Partition { parts, lasts }));
                    0
                }
                _ => rng.range(1, 3),
            };
            for _ in 0..count {
                let part = ReplicaSet(rng.range(1, (1 << places) - 2));
                let one_way = rng.percent(60);
                self.disturbances.push((at, Disturbance::Split { part, one_way, lasts }));
            }
            at += lasts;
        }
        self.heal_at = at;
    }

    /// Some lose power meanwhile, and go on with what they had synced.
    pub(super) fn draw_crashes(&mut self, rng: &mut Rng) {
        self.disk.sync_us = *rng.pick(&[50, 500, 2_000]);
        for _ in 0..rng.range(2, 8) {
            let (at, points) = (rng.below(self.heal_at), rng.below(20));
            let lasts = *rng.pick(&[1, 1_000, 100_000]);
            let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
            let failure = Failure::Power;
            self.disturbances.push((at, Disturbance::Stop { target, failure, points, lasts }));
        }
    }
}
