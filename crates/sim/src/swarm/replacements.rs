//! Worlds in which administrators replace members by other machines while the group runs.

use super::refreshes::WAYS_MAX;
use super::{Disturbance, Options, Target};
use crate::device::DeviceFault;
use crate::network::Parts;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::ReplicaId;

/// A change takes two seconds if a member does not become ready, and a machine that joins needs
/// some time to fetch the state.
const EACH: Micros = 3_000_000;

impl Options {
    /// Whether administrators may change more than keys in this world.
    pub(super) fn may_change(&self) -> bool {
        let is_other = self.twins().next().is_some() || self.is_slow() || self.heal_at == 0;
        let is_told_apart = self.device != DeviceFault::None;
        let is_kept = self.hearing > 0 || self.late_checkpoints > 0;
        !(is_other || is_told_apart || is_kept || self.f == 0)
    }

    /// Administrators need so long for what they do.
    pub(super) fn make_time_for(&mut self, changes: Micros) {
        self.has_administrators = true;
        self.has_real_devices = false;
        self.heal_at = self.heal_at.max(changes);
        // Agreed time, for which a configuration waits, passes only while clients want something.
        self.think_us = self.think_us.max(self.heal_at / self.requests_each);
    }

    /// Something may happen to a replica soon after this time, for so long at most.
    pub(super) fn trouble_one(&mut self, at: Micros, longest: Micros, rng: &mut Rng) {
        let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
        let then = at + rng.below(1_500_000);
        let trouble = match rng.below(4) {
            0 => {
                let lasts = rng.range(500_000, longest);
                Disturbance::Isolate { target, hears: false, clients: true, lasts }
            }
            1 => Disturbance::Restart(target, rng.range(1, 800_000)),
            2 => Disturbance::Crash(target),
            _ => return,
        };
        self.disturbances.push((then, trouble));
    }

    /// Has administrators replace members, once or a few times, whatever else goes wrong but a slow
    /// network. From a stream of its own, so that all other worlds stay as they are.
    pub(super) fn draw_replacements(&mut self, rng: &mut Rng, percent: u32) {
        if !self.may_change() || !rng.percent(percent) {
            return;
        }
        let count = rng.range(1, 3).min((Parts::PLACES_MAX - self.n) as u64);
        if count == 0 {
            return;
        }
        self.make_time_for(count * EACH);
        for number in 0..count {
            let at = number * EACH + rng.below(EACH / 2);
            if rng.percent(30) {
                let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
                self.disturbances.push((rng.below(at + 1), Disturbance::Crash(target)));
            }
            self.disturbances.push((at, Disturbance::Replace(rng.range(0, WAYS_MAX))));
            if rng.percent(40) {
                let target = Target::Replica(ReplicaId(rng.below(self.n as u64) as u16));
                let lasts = rng.range(500_000, EACH);
                let isolate = Disturbance::Isolate { target, hears: false, clients: true, lasts };
                self.disturbances.push((at + rng.below(1_500_000), isolate));
            }
        }
    }
}
