//! Worlds in which administrators change the group while it runs.

use super::{Disturbance, Failure, Options, Target};
use crate::adversary::Behaviour;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::ReplicaId;

/// In how many of those with disks, in percent, one member is away for long.
const LAGGARDS_PERCENT: u32 = 25;

/// When administrators want something of a group in which a member is away: a configuration waits
/// for two seconds for that one.
const BEHIND_ITS_BACK: [Micros; 2] = [200_000, 4_200_000];

/// When the others lose power then, and when it is back.
const OTHERS_STOP: Micros = 7_500_000;
const LAGGARD_RETURNS: Micros = 9_000_000;

/// The ways to go about it are numbered from 1 to this: in most something is done badly.
pub(super) const WAYS_MAX: u64 = 1_000_000;

/// The way in which nothing is.
pub(crate) const AS_IT_SHOULD_BE: u64 = 0;

impl Options {
    /// Has administrators renew the members' keys a few times, whatever else goes wrong but a slow
    /// network, in which a group has enough to do with what it is asked for anyway. From a stream
    /// of its own, so that all other worlds stay as they are.
    pub(super) fn draw_refreshes(&mut self, rng: &mut Rng, may_lie: bool, percent: u32) {
        let has_twins = self.places().len() > self.n;
        let is_other = has_twins || self.is_slow() || self.heal_at == 0;
        if is_other || !rng.percent(percent) {
            return;
        }
        let has_disks = self.is_durable() || rng.percent(60);
        self.has_administrators = true;
        if has_disks {
            self.stop_at_end_ppm = *rng.pick(&[0, 300_000, 900_000]);
        }
        if may_lie && self.f > 0 && self.byzantine.is_empty() && rng.percent(40) {
            let liar = ReplicaId(rng.below(self.n as u64) as u16);
            self.byzantine.push((liar, vec![Behaviour::Usurp { rate_ppm: 400_000 }]));
        }
        if has_disks && rng.percent(LAGGARDS_PERCENT) {
            return self.draw_laggard(rng);
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

    /// Has one member be away while the group goes through more than one configuration, and all
    /// others lose power behind that: what they can lead it on with, they have from their disks.
    fn draw_laggard(&mut self, rng: &mut Rng) {
        self.stop_at_end_ppm = 0;
        self.heal_at = self.heal_at.max(LAGGARD_RETURNS + 500_000);
        // Agreed time, for which a configuration waits, passes only while clients want something.
        self.think_us = self.think_us.max(self.heal_at / self.requests_each);
        let laggard = ReplicaId(rng.below(self.n as u64) as u16);
        let target = Target::Replica(laggard);
        let isolate =
            Disturbance::Isolate { target, hears: false, clients: true, lasts: LAGGARD_RETURNS };
        self.disturbances.push((0, isolate));
        for at in BEHIND_ITS_BACK {
            self.disturbances.push((at, Disturbance::Refresh(AS_IT_SHOULD_BE)));
        }
        for other in (0..self.n as u16).map(ReplicaId).filter(|other| *other != laggard) {
            let stop = Disturbance::Stop {
                target: Target::Replica(other),
                failure: Failure::Power,
                points: rng.below(12),
                lasts: rng.below(300_000),
            };
            self.disturbances.push((OTHERS_STOP + rng.below(700_000), stop));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::swarm::SimConfig;
    use crate::tests::naive::Naive;
    use pentarchy_core::protocol::Protocol as _;

    #[test]
    fn whoever_was_away_finds_only_guides_that_started_again() {
        let rules = Naive::<{ crate::tests::naive::CORRECT }>::RULES;
        for seed in 0..40 {
            let mut rng = Rng::new(seed);
            let mut options = Options::draw(&mut rng, &SimConfig::default(), &rules);
            options.disturbances.clear();
            options.draw_laggard(&mut rng);
            assert!(options.is_durable() && options.heal_at > LAGGARD_RETURNS);
            let mut laggard = None;
            let (mut stopped, mut changes) = (Vec::new(), Vec::new());
            for (at, it) in &options.disturbances {
                match it {
                    Disturbance::Isolate { target: Target::Replica(id), lasts, .. } => {
                        assert_eq!((*at, laggard.replace(*id)), (0, None));
                        assert_eq!(*lasts, LAGGARD_RETURNS);
                    }
                    Disturbance::Refresh(_) => changes.push(*at),
                    Disturbance::Stop { target: Target::Replica(id), .. } => {
                        assert!((OTHERS_STOP..LAGGARD_RETURNS).contains(at));
                        stopped.push(*id);
                    }
                    other => panic!("{other:?}"),
                }
            }
            assert_eq!(changes, BEHIND_ITS_BACK);
            assert!(stopped.len() + 1 == options.n && !stopped.contains(&laggard.unwrap()));
        }
    }
}
