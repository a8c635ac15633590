//! What goes wrong in a world, and how it ends.

use super::log::{Deed, Place, What};
use super::{Cut, Disturbance, Failure, Happening, ReplicaId, ReplicaSet, Target, World};

impl World<'_> {
    pub(super) fn disturb(&mut self, index: usize) {
        let (_, disturbance) = self.options.disturbances[index];
        self.audit.note(self.now, 12, index as u64, &[]);
        self.note(self.disturbed(disturbance), |_| What::Disturbed(disturbance));
        match disturbance {
            Disturbance::Crash(target) => {
                let index = self.resolve(target);
                self.crash(index);
            }
            Disturbance::Restart(target, after) => self.lose(target, after),
            Disturbance::Stop { target, failure, points, lasts } => {
                let index = self.resolve(target);
                self.stop(index, failure, points, lasts);
            }
            Disturbance::Blackout { points, lasts } => {
                let all = 0..self.options.n;
                all.for_each(|index| self.stop(index, Failure::Power, points, lasts));
            }
            Disturbance::Pause(target, lasts) => {
                let until = (self.now + lasts).min(self.options.heal_at);
                let index = self.resolve(target);
                let replica = &mut self.replicas[index];
                replica.paused_until = replica.paused_until.max(until);
            }
            Disturbance::Isolate { target, hears, clients, lasts } => {
                let id = ReplicaId(self.resolve(target) as u16);
                let from = ReplicaSet::from_iter([id]);
                let to = ReplicaSet(!from.0);
                let cut = Cut { from, to, both_ways: !hears, clients };
                self.cut(index as u64, cut, lasts);
            }
            Disturbance::Split { part, one_way, lasts } => {
                let to = ReplicaSet(!part.0);
                let cut = Cut { from: part, to, both_ways: !one_way, clients: false };
                self.cut(index as u64, cut, lasts);
            }
            Disturbance::Partition { pillar_cores, lasts } => {
                self.network.partition(index as u64, pillar_cores);
                self.schedule(self.now + lasts, Happening::Mend(index as u64));
            }
            Disturbance::ClockJump(target, ms) => {
                let index = self.resolve(target);
                self.replicas[index].clock.jump(ms);
            }
        }
    }

    fn cut(&mut self, name: u64, cut: Cut, lasts: u64) {
        self.network.cut(name, cut);
        self.schedule(self.now + lasts, Happening::Mend(name));
    }

    /// At most `f` replicas are ever faulty, crashed ones included. True if this one crashes.
    pub(super) fn crash(&mut self, index: usize) -> bool {
        let faulty = self.replicas.iter().filter(|replica| replica.is_faulty());
        let budget =
            faulty.map(|replica| replica.id).collect::<ReplicaSet>().len() < self.options.f;
        let replica = &mut self.replicas[index];
        let crashes = budget && !replica.is_faulty();
        replica.crashed |= crashes;
        if crashes {
            self.note(self.place(index), |_| What::Does(Deed::Crashes, "crashes".to_owned()));
        }
        crashes
    }

    /// Whom it hits.
    fn disturbed(&self, disturbance: Disturbance) -> Place {
        match disturbance {
            Disturbance::Crash(target)
            | Disturbance::Restart(target, _)
            | Disturbance::Stop { target, .. }
            | Disturbance::Pause(target, _)
            | Disturbance::Isolate { target, .. }
            | Disturbance::ClockJump(target, _) => self.place(self.resolve(target)),
            Disturbance::Split { .. }
            | Disturbance::Partition { .. }
            | Disturbance::Blackout { .. } => Place::World,
        }
    }

    pub(super) fn resolve(&self, target: Target) -> usize {
        let id = match target {
            Target::Replica(id) => id,
            Target::Primary => {
                let nodes = self.correct().map(|(_, replica)| &replica.node);
                let statuses = nodes.map(|node| (node.epoch(), node.core().status()));
                let top = statuses.max_by_key(|(epoch, status)| (*epoch, status.view));
                top.map_or(ReplicaId(0), |(_, top)| top.primary)
            }
        };
        usize::from(id.0)
    }

    pub(super) fn heal(&mut self) {
        self.note(Place::World, |_| What::Heals);
        self.network.heal();
        let (now, skew) = (self.now, self.options.skew_ms);
        let clocks = self.replicas.iter_mut().map(|replica| &mut replica.clock);
        let clocks = clocks.chain(self.clients.iter_mut().map(|client| &mut client.clock));
        clocks.for_each(|clock| clock.discipline(now, skew));
        let disks = self.replicas.iter().filter_map(|replica| replica.node.kept());
        disks.for_each(|mut disk| disk.make_room());
        self.healed = true;
    }
}
