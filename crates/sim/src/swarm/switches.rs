//! Worlds in which administrators have the group switch to other protocols while it runs.

use super::refreshes::{AS_IT_SHOULD_BE, WAYS_MAX};
use super::{Disturbance, Options};
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::ReplicaId;

/// A change takes two seconds if a member does not become ready.
const EACH: Micros = 2_500_000;

impl Options {
    /// Has administrators switch protocols, once or a few times, whatever else goes wrong but a
    /// slow network. From a stream of its own, so that all other worlds stay as they are.
    pub(super) fn draw_switches(&mut self, rng: &mut Rng, percent: u32) {
        let may = self.may_change() && self.joiners() == 0;
        if !may || !rng.percent(percent) {
            return;
        }
        self.has_administrators = true;
        self.has_real_devices = false;
        // Clients that read all the time what others write are soon done.
        if self.workload.values > 0 && rng.percent(70) {
            self.workload.follow_late_ms = *rng.pick(&[0, 200, 2_000]);
            self.draw_laggards(rng);
            for at in [rng.below(20_000), rng.range(50_000, 150_000)] {
                self.disturbances.push((at, Disturbance::Switch(AS_IT_SHOULD_BE)));
            }
            return;
        }
        self.workload.follow_late_ms = *rng.pick(&[0, 0, 30, 200, 1_000]);
        let count = rng.range(1, 3);
        self.make_time_for(count * EACH);
        for number in 0..count {
            let at = number * EACH + rng.below(EACH / 2);
            self.disturbances.push((at, Disturbance::Switch(rng.range(0, WAYS_MAX))));
            self.trouble_one(at, EACH, rng);
        }
    }

    /// Has two correct replicas at least hear late what others say, if there are so many: then a
    /// faulty one and they can say together what is over.
    fn draw_laggards(&mut self, rng: &mut Rng) {
        let lag = |options: &Self| {
            let late = |id: &ReplicaId| options.network.hears_late_us(*id) > 0;
            let faulty = |id: &ReplicaId| options.byzantine.iter().any(|(liar, _)| liar == id);
            (0..options.n as u16).map(ReplicaId).filter(|id| late(id) && !faulty(id)).count()
        };
        self.network.slow_link_us = self.network.slow_link_us.max(2_000);
        for _ in 0..20 {
            if lag(self) >= 2 {
                return;
            }
            self.network.slow_links = rng.range(1, 1_000_000);
        }
    }
}
