//! Worlds about what a replica must not go on without.
//!
//! *Old copies:* nothing is wrong, but disks are put back from copies that were made before that.
//!
//! *Counters:* beside all else, the trusted counters of some replicas stop to answer.
//!
//! *Connections:* beside all else, one replica after the other loses its connections to everybody,
//! for long enough that both ends notice.

use super::{DiskOptions, Disturbance, Failure, Options, Target};
use crate::adversary::Behaviour;
use crate::device::DeviceFault;
use crate::rng::Rng;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Rules;

impl Options {
    /// Makes a world one of these, now and then. From a stream of its own, so that all other worlds
    /// stay as they are.
    pub(super) fn draw_losses(&mut self, rng: &mut Rng, rules: &Rules) {
        let twins = self.byzantine.iter().any(|(_, it)| it.contains(&Behaviour::Twin));
        if self.device != DeviceFault::None || self.heal_at == 0 || twins {
            return;
        }
        let counts = rules.counter.is_some();
        match rng.below(100) {
            0..8 if counts => self.draw_old_copies(rng),
            8..16 if counts => self.draw_counters(rng),
            16..24 => self.draw_connections(rng),
            _ => {}
        }
    }

    fn draw_old_copies(&mut self, rng: &mut Rng) {
        self.begin_anew();
        self.disk = DiskOptions { sync_us: *rng.pick(&[0, 50, 500]), ..DiskOptions::default() };
        for _ in 0..rng.range(1, 3) {
            let at = rng.below(self.heal_at * 2 / 3);
            let (failure, points) = (Failure::PutBack, rng.range(60, 400));
            let target = self.draw_target(rng);
            self.disturbances
                .push((at, Disturbance::Stop { target, failure, points, lasts: 1_000 }));
        }
    }

    fn draw_counters(&mut self, rng: &mut Rng) {
        for _ in 0..rng.range(1, 3) {
            let at = rng.below(self.heal_at);
            let target = self.draw_target(rng);
            self.disturbances.push((at, Disturbance::CounterDies(target)));
        }
    }

    fn draw_connections(&mut self, rng: &mut Rng) {
        for id in 0..self.n as u16 {
            let (at, lasts) = (rng.below(self.heal_at), rng.range(450_000, 1_000_000));
            let target = Target::Replica(ReplicaId(id));
            let lost = Disturbance::Isolate { target, hears: false, clients: true, lasts };
            self.disturbances.push((at, lost));
        }
    }

    fn draw_target(&self, rng: &mut Rng) -> Target {
        match rng.percent(60) {
            true => Target::Primary,
            false => Target::Replica(ReplicaId(rng.below(self.n as u64) as u16)),
        }
    }
}
