//! What goes wrong in a world, and how it ends.

use super::{Cut, Disturbance, Happening, ReplicaId, ReplicaSet, Target, World};

impl World {
    pub(super) fn disturb(&mut self, index: usize) {
        let (_, disturbance) = self.options.disturbances[index];
        self.audit.note(self.now, 12, index as u64, &[]);
        self.note("world", |_| format!("{disturbance:?}"));
        match disturbance {
            Disturbance::Crash(target) => self.crash(target),
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
        }
    }

    fn cut(&mut self, name: u64, cut: Cut, lasts: u64) {
        self.network.cut(name, cut);
        self.schedule(self.now + lasts, Happening::Mend(name));
    }

    /// At most `f` replicas are ever faulty, crashed ones included.
    fn crash(&mut self, target: Target) {
        let index = self.resolve(target);
        let faulty = |replica: &&super::Replica| replica.crashed || replica.adversary.is_some();
        let budget = self.replicas.iter().filter(faulty).count() < self.options.f;
        let replica = &mut self.replicas[index];
        if budget && replica.adversary.is_none() {
            replica.crashed = true;
        }
    }

    fn resolve(&self, target: Target) -> usize {
        let id = match target {
            Target::Replica(id) => id,
            Target::Primary => {
                let statuses = self.correct().map(|(_, replica)| replica.node.core().status());
                statuses.max_by_key(|status| status.view).map_or(ReplicaId(0), |top| top.primary)
            }
        };
        usize::from(id.0)
    }

    pub(super) fn heal(&mut self) {
        self.note("world", |_| "heals".to_owned());
        self.network.heal();
        self.healed = true;
    }
}
