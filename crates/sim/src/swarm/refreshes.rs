//! Worlds in which administrators change the group while it runs.

use super::{Disturbance, Failure, Options, Target};
use crate::adversary::Behaviour;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::ReplicaId;

/// Of how many worlds, in percent.
const WORLDS_PERCENT: u32 = 15;

/// The ways to go about it are numbered from 1 to this.
pub(super) const WAYS_MAX: u64 = 1_000_000;

impl Options {
    /// Has administrators renew the members' keys a few times, whatever else goes wrong but a slow
    /// network, in which a group has enough to do with what it is asked for anyway. From a stream
    /// of its own, so that all other worlds stay as they are.
    pub(super) fn draw_refreshes(&mut self, rng: &mut Rng, may_lie: bool) {
        let has_twins = self.places().len() > self.n;
        let is_slow = self.network.latency_us >= self.timeouts.request_ms * 1_000 / 8;
        let is_other = has_twins || is_slow || self.heal_at == 0;
        if is_other || !rng.percent(WORLDS_PERCENT) {
            return;
        }
        let has_disks = self.is_durable() || rng.percent(60);
        self.has_administrators = true;
        if may_lie && self.f > 0 && self.byzantine.is_empty() && rng.percent(40) {
            let liar = ReplicaId(rng.below(self.n as u64) as u16);
            self.byzantine.push((liar, vec![Behaviour::Usurp { rate_ppm: 400_000 }]));
        }
        for _ in 0..rng.range(1, 3) {
            let at = rng.below(self.heal_at);
            self.disturbances.push((at, Disturbance::Refresh(rng.range(1, WAYS_MAX))));
            let cut_at = at + rng.below(1_500_000);
            if cut_at < self.heal_at && rng.percent(50) {
                let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
                let lasts = rng.range(1_000_000, 5_000_000).min(self.heal_at - cut_at);
                let isolate = Disturbance::Isolate { target, hears: false, clients: false, lasts };
                self.disturbances.push((cut_at, isolate));
            }
            if has_disks {
                self.draw_stops_after(at, rng);
            }
        }
    }

    /// Has replicas with disks lose power at whatever step they are on their way to the next
    /// configuration.
    fn draw_stops_after(&mut self, at: Micros, rng: &mut Rng) {
        for _ in 0..rng.range(1, 4) {
            let stop = Disturbance::Stop {
                target: Target::Replica(ReplicaId(rng.below(self.n as u64) as u16)),
                failure: Failure::Power,
                points: rng.below(12),
                lasts: rng.below(600_000),
            };
            self.disturbances.push((at + rng.below(2_500_000), stop));
        }
    }
}
