//! Worlds about what a replica must not go on without.
//!
//! *Old copies:* nothing is wrong, but disks are put back from copies that were made before that;
//! in some worlds other replicas lose their memory meanwhile, so that a copy is of an epoch that is
//! over.
//!
//! *Counters:* beside all else, the trusted counters of some replicas stop to answer.
//!
//! *Connections:* beside all else, one replica after the other loses its connections to everybody,
//! for long enough that both ends notice. The world may heal before it is the turn of all.

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
            let mut points = rng.range(60, 400);
            let target = self.draw_target(rng);
            if rng.percent(40) {
                // Time for another replica to be admitted again, and for this one to speak then.
                points += 100;
                let (other, soon) = (self.draw_target(rng), at + rng.range(1_000, 50_000));
                self.disturbances.push((soon, Disturbance::Restart(other, 1)));
            }
            let failure = Failure::PutBack;
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
        let (first, mut at) = (rng.below(self.n as u64), rng.below(self.heal_at / 4));
        for turn in 0..self.n as u64 {
            let lasts = rng.range(450_000, 1_000_000);
            if at >= self.heal_at {
                break;
            }
            let target = Target::Replica(ReplicaId(((first + turn) % self.n as u64) as u16));
            let lost = Disturbance::Isolate { target, hears: false, clients: true, lasts };
            self.disturbances.push((at, lost));
            // Its connections are there again before the next one loses its own.
            at += lasts + rng.range(100_000, 300_000);
        }
    }

    fn draw_target(&self, rng: &mut Rng) -> Target {
        match rng.percent(60) {
            true => Target::Primary,
            false => Target::Replica(ReplicaId(rng.below(self.n as u64) as u16)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::SimConfig;
    use crate::tests::naive::Naive;
    use pentarchy_core::protocol::Protocol as _;
    use std::collections::BTreeSet;

    #[test]
    fn connections_are_lost_by_one_replica_after_the_other() {
        let rules = Naive::<{ crate::tests::naive::CORRECT }>::RULES;
        let mut most = 0;
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let mut options = Options::draw(&mut rng, &SimConfig::default(), &rules);
            if options.heal_at == 0 {
                continue;
            }
            options.disturbances.clear();
            options.draw_connections(&mut rng);
            let (mut free_at, mut whose) = (0, BTreeSet::new());
            for (at, it) in &options.disturbances {
                let Disturbance::Isolate { target: Target::Replica(id), clients, lasts, .. } = it
                else {
                    panic!("{it:?}")
                };
                assert!(*clients && *at >= free_at && *at < options.heal_at);
                assert!(whose.insert(*id), "{id} once");
                free_at = at + lasts + 100_000;
            }
            most = most.max(whose.len());
        }
        assert!(most > 2, "at most {most} in a world");
    }
}
