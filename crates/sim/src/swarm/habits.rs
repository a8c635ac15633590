//! Worlds about one thing that goes wrong all the time, each in a few of a hundred.
//!
//! *Slow networks:* nothing is wrong but that messages take about as long as replicas wait for a
//! primary, also after everything has healed. The group makes progress only because replicas give
//! each view more time than the one before. In half of these worlds one request is ordered at a
//! time, and many wait.
//!
//! *Parrots:* a faulty replica repeats what others say under its own name, with other bytes.
//!
//! *Full:* a faulty replica, most often the first primary, tells all clients that it is full.
//!
//! *Sources:* a faulty replica sends false parts of states to those that fetch them. Others lose
//! their memory, or their connections until others have dropped what they missed; disks are slow to
//! save states.
//!
//! *Large requests:* most requests are too large to be part of a batch, which names them. All
//! replicas lose power, again and again.

use super::{DiskOptions, Disturbance, Options, Target};
use crate::adversary::Behaviour;
use crate::device::DeviceFault;
use crate::network::NetworkOptions;
use crate::rng::Rng;
use pentarchy_core::ids::ReplicaId;

impl Options {
    /// Makes a world one of these, now and then. From a stream of its own, so that all other worlds
    /// stay as they are.
    pub(super) fn draw_habits(&mut self, rng: &mut Rng) {
        let has_twins = self.places().len() > self.n;
        let is_plain = self.device == DeviceFault::None && self.hearing == 0 && !has_twins;
        if !is_plain || self.heal_at == 0 {
            return;
        }
        match rng.below(100) {
            0..3 => self.draw_slow_network(rng),
            3..7 => self.draw_parrot(rng),
            7..9 => self.draw_full(rng),
            9..13 => self.draw_sources(rng),
            13..17 => self.draw_large_requests(rng),
            _ => {}
        }
    }

    fn draw_slow_network(&mut self, rng: &mut Rng) {
        self.begin_anew();
        let request_us = self.timeouts.request_ms * 1_000;
        let latency_us = rng.range(request_us / 8, request_us);
        self.network = NetworkOptions { latency_us, jitter_us: 1_000, ..Default::default() };
        if rng.percent(50) {
            let at = rng.below(self.heal_at);
            self.disturbances.push((at, Disturbance::Crash(Target::Primary)));
        }
        self.requests_each = self.requests_each.min(12);
        if rng.percent(50) {
            // Whoever waits behind many others waits for as many slots, each of which takes longer
            // than a request is given.
            (self.tuning.batch_requests, self.tuning.proposals_in_flight) = (1, 1);
            self.outstanding = 12;
        }
    }

    fn draw_parrot(&mut self, rng: &mut Rng) {
        let habit = Behaviour::Parrot {
            alone: rng.percent(60),
            rate_ppm: *rng.pick(&[20_000, 300_000, 1_000_000]),
        };
        self.make_faulty(rng, habit);
        if rng.percent(50) {
            let at = rng.below(self.heal_at);
            self.disturbances.push((at, Disturbance::Crash(Target::Primary)));
        }
    }

    fn draw_full(&mut self, rng: &mut Rng) {
        self.byzantine.clear();
        let id = if rng.percent(70) { 0 } else { rng.below(self.n as u64) as u16 };
        self.byzantine.push((ReplicaId(id), vec![Behaviour::Busy]));
    }

    fn draw_sources(&mut self, rng: &mut Rng) {
        self.begin_anew();
        let rate_ppm = *rng.pick(&[300_000, 1_000_000]);
        self.make_faulty(rng, Behaviour::Poison { rate_ppm });
        self.disk = DiskOptions {
            sync_us: *rng.pick(&[50, 2_000]),
            slow_ppm: *rng.pick(&[0, 100_000, 300_000]),
            slow_log_ppm: 0,
            slow_us: *rng.pick(&[200_000, 1_500_000]),
            ..DiskOptions::default()
        };
        self.heal_at *= 2;
        self.think_us *= 2;
        for _ in 0..rng.range(2, 6) {
            let at = rng.below(self.heal_at);
            let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
            let lasts = rng.range(300_000, 1_200_000);
            self.disturbances.push((
                at,
                match rng.below(3) {
                    0 => Disturbance::Restart(target, *rng.pick(&[1, 100_000])),
                    1 => Disturbance::Isolate { target, hears: false, clients: true, lasts },
                    _ => Disturbance::Pause(target, lasts),
                },
            ));
        }
        if rng.percent(60) {
            self.draw_blackout(rng);
        }
    }

    fn draw_large_requests(&mut self, rng: &mut Rng) {
        self.begin_anew();
        self.workload.large_ppm = *rng.pick(&[300_000, 900_000]);
        self.requests_each = self.requests_each.min(40);
        self.disk.sync_us = *rng.pick(&[0, 500, 2_000]);
        for _ in 0..rng.range(1, 4) {
            self.draw_blackout(rng);
        }
    }

    fn draw_blackout(&mut self, rng: &mut Rng) {
        let (at, points) = (rng.below(self.heal_at), rng.below(40));
        let lasts = *rng.pick(&[1, 1_000, 100_000]);
        self.disturbances.push((at, Disturbance::Blackout { points, lasts }));
    }

    /// Gives the first faulty replica this habit in place of its own; if none is faulty, one
    /// becomes so, and the world lets fewer others crash.
    fn make_faulty(&mut self, rng: &mut Rng, habit: Behaviour) {
        match self.byzantine.first_mut() {
            Some((_, habits)) => *habits = vec![habit],
            None => {
                let id = ReplicaId(rng.below(self.n as u64) as u16);
                self.byzantine.push((id, vec![habit]));
            }
        }
    }
}
