//! Worlds about changing the primary.
//!
//! *Hiccups:* correct replicas ask for another primary and think better of it, and a backup
//! keeps what it hears of that and plays it long after. Clients go on until then, and for as long
//! again, or they rest until it has begun; and nothing else goes wrong.
//!
//! *Changeovers:* nobody lies. The network falls into other parts again and again, for about as
//! long as a view change takes, so that one message of it reaches this replica and not that one.
//! Meanwhile replicas lose power and go on with what they had synced, and whoever leads dies.
//!
//! *Minorities:* for each view and each kind of message it is drawn who hears it, so that several
//! views in a row fail, each at another step, with exact minorities on either side. The others
//! never hear it, or late: when they want another view already. Checkpoints are close together, so
//! that they become stable here and not there; some replicas lose power meanwhile, often between
//! two things that they keep in one step, and a few are faulty.

use super::{DiskOptions, Disturbance, Options, SimConfig, Target, Theme};
use crate::adversary::Behaviour;
use crate::crypto::Means;
use crate::device::DeviceFault;
use crate::network::NetworkOptions;
use crate::rng::Rng;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Rules;

impl Options {
    /// Makes a world one of these, now and then, or always if that is wanted. From a stream of its
    /// own, so that all other worlds stay as they are.
    pub(super) fn draw_changes(&mut self, rng: &mut Rng, config: &SimConfig, rules: &Rules) {
        let twins = self.byzantine.iter().any(|(_, it)| it.contains(&Behaviour::Twin));
        if self.device != DeviceFault::None || self.is_steady() || twins {
            return;
        }
        let drawn = match config.theme {
            Some(Theme::Changes) => rng.below(8),
            Some(Theme::Minorities) => 8,
            Some(Theme::Reconfiguration) | None => rng.below(100),
        };
        match drawn {
            0..4 => self.draw_hiccups(rng),
            4..8 => self.draw_changeovers(rng),
            8..14 => self.draw_minorities(rng, config, rules),
            _ => {}
        }
    }

    /// Nothing is wrong so far but what this says.
    pub(super) fn begin_anew(&mut self) {
        self.network = NetworkOptions { latency_us: 50, jitter_us: 100, ..Default::default() };
        (self.skew_ms, self.drift_ppm, self.busy_ppm, self.restart_at_end_ppm) = (0, 0, 0, 0);
        self.means = Means::Signature;
        self.hostile.clear();
        self.byzantine.clear();
        self.disturbances.clear();
        self.disk = DiskOptions::default();
    }

    fn draw_changeovers(&mut self, rng: &mut Rng) {
        self.begin_anew();
        self.draw_phases(rng);
        self.draw_crashes(rng);
        for _ in 0..self.f {
            let at = rng.below(self.heal_at);
            self.disturbances.push((at, Disturbance::Crash(Target::Primary)));
        }
        self.clients = self.clients.min(3);
        self.outstanding = self.outstanding.min(4);
        self.requests_each = self.requests_each.min(100);
        self.think_us = self.heal_at / self.requests_each.max(1);
    }

    fn draw_minorities(&mut self, rng: &mut Rng, config: &SimConfig, rules: &Rules) {
        self.begin_anew();
        let f = *rng.pick(&[1, 1, 2, 2, 3]);
        self.f = config.f.unwrap_or(f);
        self.n = rules.replicas(self.f);
        self.hearing = rng.range(1, 1_000_000);
        // Each view that fails takes longer than the one before.
        self.heal_at = rng.range(2_000_000, 8_000_000);
        if rng.percent(50) {
            self.draw_crashes(rng);
            self.disk.split_steps_ppm = *rng.pick(&[0, 300_000, 1_000_000]);
        }
        self.hears_late_us = *rng.pick(&[0, 0, 100_000, 300_000, 800_000]);
        for _ in 0..rng.range(0, self.f as u64) {
            let id = ReplicaId(rng.below(self.n as u64) as u16);
            if rng.percent(50) {
                let at = rng.below(self.heal_at);
                self.disturbances.push((at, Disturbance::Crash(Target::Primary)));
            } else if self.byzantine.iter().all(|(known, _)| *known != id) {
                let habit = Behaviour::draw(rng, self.n, self.clients, &self.timeouts);
                self.byzantine.push((id, vec![habit]));
            }
        }
        self.tuning.checkpoint_slots = rng.range(1, 4);
        self.tuning.window_slots = self.tuning.checkpoint_slots * rng.range(2, 4);
        self.tuning.batch_requests = *rng.pick(&[1, 4]);
        self.clients = self.clients.min(3);
        self.outstanding = self.outstanding.min(4);
        self.requests_each = self.requests_each.min(60);
        self.think_us = self.heal_at / self.requests_each.max(1);
    }

    fn draw_hiccups(&mut self, rng: &mut Rng) {
        self.begin_anew();
        let liar = 1 + rng.below(self.n as u64 - 1);
        // Somebody correct hears nothing of the primary for longer than it waits for a request.
        let patience = self.timeouts.request_ms * 1_000;
        let mut at = rng.range(100_000, 500_000);
        for _ in 0..rng.range(1, 3) {
            let other = (liar + rng.range(1, self.n as u64 - 1)) % self.n as u64;
            let target = Target::Replica(ReplicaId(other as u16));
            let lasts = patience + rng.range(50_000, patience);
            let (hears, clients) = (false, false);
            self.disturbances.push((at, Disturbance::Isolate { target, hears, clients, lasts }));
            at += lasts + rng.range(0, 500_000);
        }
        self.heal_at = at;
        // Long after what was asked is asked no more.
        let (quiet_ms, rate_ppm) = (at / 1_000 + rng.range(6_000, 10_000), 200_000);
        let habits = vec![Behaviour::Lurk { quiet_ms, rate_ppm }];
        self.byzantine = vec![(ReplicaId(liar as u16), habits)];
        if rng.percent(50) {
            self.rest_us = quiet_ms * 1_000 - at + rng.range(2_000_000, 6_000_000);
        }
        let work_us = at + 20_000_000;
        self.clients = self.clients.min(3);
        self.outstanding = self.outstanding.min(4);
        self.think_us = rng.range(50_000, 100_000);
        self.requests_each = work_us / self.think_us;
    }

    /// From when on nothing goes wrong but what replicas do that are faulty from the start; none if
    /// other things may go wrong too.
    #[must_use]
    pub fn calm_from(&self) -> Option<u64> {
        let mut after = self.clone();
        after.disturbances.retain(|(_, it)| !matches!(it, Disturbance::Isolate { .. }));
        after.heal_at = 0;
        after.is_steady().then_some(self.heal_at)
    }
}
