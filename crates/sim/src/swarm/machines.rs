//! What becomes of the machines that join a group and leave it.

use super::Options;
use crate::adversary::Behaviour;
use crate::rng::Rng;
use pentarchy_core::ids::ReplicaId;

impl Options {
    /// Draws it for a world in which machines join, from a stream of its own.
    pub(super) fn draw_machines(&mut self, rng: &mut Rng, may_lie: bool) {
        let joiners = self.joiners();
        if joiners == 0 {
            return;
        }
        self.joins_badly_ppm = *rng.pick(&[0, 300_000]);
        let follows_late_ms = *rng.pick(&[200, 1_000, 3_000]);
        if may_lie && rng.percent(50) {
            self.possesses = true;
            // A client that has not heard yet that a machine has left might believe it.
            self.workload.follow_late_ms = self.workload.follow_late_ms.max(follows_late_ms);
        }
        if may_lie && self.byzantine.len() < self.f && rng.percent(30) {
            let joiner = ReplicaId((self.n as u64 + rng.below(joiners as u64)) as u16);
            let habit = Behaviour::draw(rng, self.n, self.clients, &self.timeouts);
            if habit != Behaviour::Twin {
                self.byzantine.push((joiner, vec![habit]));
            }
        }
    }
}
