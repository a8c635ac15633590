//! What goes wrong in a world, and how it ends.

use super::log::{Deed, Place, What};
use super::{
    Address, Cut, Disturbance, Failure, Happening, Replica, ReplicaId, ReplicaSet, Target, World,
};
use crate::checker::Verdict;
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::ids::Epoch;

/// An end of a connection that is cut notices it within so long.
const NOTICED: Micros = 400_000;

/// A connection is there again so long after a cut, at most.
const AGAIN: Micros = 100_000;

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
            Disturbance::CounterDies(target) => self.lose_counter(target),
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
            Disturbance::Deafen(target, lasts) => {
                let index = self.resolve(target);
                self.replicas[index].deaf_until = self.now + lasts;
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
            Disturbance::Partition { parts, lasts } => {
                self.network.partition(index as u64, parts);
                self.schedule(self.now + lasts, Happening::Mend(index as u64));
            }
            Disturbance::Refresh(way) => self.refresh(way),
            Disturbance::Replace(way) => self.replace(way),
            Disturbance::Reshape(way) => self.reshape(way),
            Disturbance::Switch(way) => self.switch(way),
            Disturbance::ClockJump(target, ms) => {
                let index = self.resolve(target);
                self.replicas[index].clock.jump(ms);
            }
        }
    }

    fn cut(&mut self, name: u64, cut: Cut, lasts: u64) {
        self.network.cut(name, cut);
        self.schedule(self.now + lasts, Happening::Mend(name));
        // Otherwise those that are cut off lose messages, and their connections live on.
        if cut.both_ways && cut.clients {
            // A stream of its own, so that nothing else of a world depends on it.
            let mut rng = Rng::new(!(self.now ^ name) ^ self.seed.rotate_left(32));
            self.break_links(cut, lasts, &mut rng);
        }
    }

    /// What cuts a replica off from everybody breaks its connections. Each end notices that after a
    /// while, if the cut lasts so long: until then the connection is half open. It is made anew
    /// some time after the cut.
    fn break_links(&mut self, cut: Cut, lasts: Micros, rng: &mut Rng) {
        let ids = |set: ReplicaSet, n: usize| {
            (0..n as u16).map(ReplicaId).filter(move |id| set.contains(*id))
        };
        for inside in ids(cut.from, self.options.n) {
            for outside in ids(cut.to, self.options.n) {
                self.break_link(inside, Address::Replica(outside), lasts, rng);
                self.break_link(outside, Address::Replica(inside), lasts, rng);
            }
            for client in 0..self.clients.len() {
                self.break_link(inside, Address::Client(client as u16), lasts, rng);
            }
        }
    }

    fn break_link(&mut self, at: ReplicaId, whom: Address, lasts: Micros, rng: &mut Rng) {
        let (noticed, again) = (rng.below(NOTICED), rng.below(AGAIN));
        if noticed < lasts {
            let link = |is_up| Happening::Link { replica: usize::from(at.0), whom, is_up };
            self.schedule(self.now + noticed, link(false));
            self.schedule(self.now + lasts + again, link(true));
        }
    }

    /// An end of a connection notices that it is over, or that it is there again.
    pub(super) fn link(&mut self, index: usize, whom: Address, is_up: bool) -> Verdict {
        let replica = &mut self.replicas[index];
        if replica.crashed || (self.healed && !is_up) {
            return Ok(());
        }
        let end = Address::Replica(ReplicaId(index as u16));
        if is_up && self.network.parts(end, whom) {
            // Another cut has begun since, and may last longer: it is tried again until then.
            self.schedule(self.now + AGAIN, Happening::Link { replica: index, whom, is_up });
            return Ok(());
        }
        replica.node.on_link(whom, is_up);
        let (id, client) = (replica.id, whom);
        if let (Address::Client(client), true) = (client, is_up)
            && let Some(connected) = self.clients.get_mut(usize::from(client))
        {
            let mut acts = core::mem::take(&mut self.client_acts);
            connected.node.on_connected(id, &mut acts);
            return self.carry_out_client(usize::from(client), acts);
        }
        Ok(())
    }

    /// All connections are there again.
    fn connect_all(&mut self) -> Verdict {
        for index in 0..self.replicas.len() {
            let down: Vec<Address> = self.replicas[index].node.disconnected().collect();
            down.into_iter().try_for_each(|whom| self.link(index, whom, true))?;
        }
        Ok(())
    }

    /// At most `f` replicas are ever faulty, crashed ones included. True if this one crashes.
    pub(super) fn crash(&mut self, index: usize) -> bool {
        let crashes = self.may_fail(index);
        self.replicas[index].crashed |= crashes;
        if crashes {
            self.note(self.place(index), |_| What::Does(Deed::Crashes, "crashes".to_owned()));
        }
        crashes
    }

    /// Whether this replica is correct, and may be faulty beside those that are.
    fn may_fail(&self, index: usize) -> bool {
        let replica = &self.replicas[index];
        self.faulty().len() < self.options.f && !replica.is_faulty() && !replica.has_left
    }

    /// The replicas that count as faulty now: also one that has left and lost the state, as long as
    /// those that stay may need it from there.
    pub(super) fn faulty(&self) -> ReplicaSet {
        let newest = self.newest_epoch();
        let is_needed = !self.is_state_among_members(newest);
        let counts = |replica: &&Replica<'_>| {
            let is_to_forget = replica.crashed && replica.returns && replica.has_left;
            let forgot = replica.forgot.is_some() && replica.forgot == newest;
            replica.is_faulty() || (is_needed && (is_to_forget || forgot))
        };
        let faulty = self.replicas.iter().filter(counts);
        faulty.map(|replica| replica.id).chain(self.faulty_joiners()).collect()
    }

    /// The latest epoch that a correct replica has begun.
    pub(super) fn newest_epoch(&self) -> Option<Epoch> {
        self.correct().map(|(_, replica)| replica.node.epoch()).max()
    }

    /// Whether more than `f` correct members of the newest epoch have the state that it began with.
    fn is_state_among_members(&self, newest: Option<Epoch>) -> bool {
        let has_it = |replica: &Replica<'_>| {
            Some(replica.node.epoch()) == newest && replica.node.is_level() && !replica.has_left
        };
        self.correct().filter(|(_, replica)| has_it(replica)).count() > self.options.f
    }

    /// The machines that are going to lie once they have joined.
    pub(super) fn faulty_joiners(&self) -> impl Iterator<Item = ReplicaId> + '_ {
        let joins = |id: &ReplicaId| usize::from(id.0) >= self.replicas.len();
        self.options.byzantine.iter().map(|(id, _)| *id).filter(joins)
    }

    /// The counters of a replica do not answer any more. It counts as faulty, though it works until
    /// it notices.
    fn lose_counter(&mut self, target: Target) {
        let index = self.resolve(target);
        if self.factories.rules.counter.is_some() && self.may_fail(index) {
            let replica = &mut self.replicas[index];
            replica.has_no_counter = true;
            replica.node.lose_counter();
        }
    }

    /// Whom it hits.
    fn disturbed(&self, disturbance: Disturbance) -> Place {
        match disturbance {
            Disturbance::Crash(target)
            | Disturbance::CounterDies(target)
            | Disturbance::Restart(target, _)
            | Disturbance::Stop { target, .. }
            | Disturbance::Pause(target, _)
            | Disturbance::Deafen(target, _)
            | Disturbance::Isolate { target, .. }
            | Disturbance::ClockJump(target, _) => self.place(self.resolve(target)),
            Disturbance::Split { .. }
            | Disturbance::Partition { .. }
            | Disturbance::Refresh(_)
            | Disturbance::Replace(_)
            | Disturbance::Reshape(_)
            | Disturbance::Switch(_)
            | Disturbance::Blackout { .. } => Place::World,
        }
    }

    pub(super) fn resolve(&self, target: Target) -> usize {
        let place = match target {
            Target::Replica(place) => place,
            Target::Primary => {
                let nodes = self.correct().map(|(_, replica)| &replica.node);
                let statuses = nodes.map(|node| (node.epoch(), node.core().status(), node));
                let top = statuses.max_by_key(|(epoch, status, _)| (*epoch, status.view));
                top.and_then(|(_, top, node)| node.place_of(top.primary)).unwrap_or(ReplicaId(0))
            }
        };
        usize::from(place.0)
    }

    pub(super) fn heal(&mut self) -> Verdict {
        self.note(Place::World, |_| What::Heals);
        self.network.heal();
        let (now, skew) = (self.now, self.options.skew_ms);
        let clocks = self.replicas.iter_mut().map(|replica| &mut replica.clock);
        let clocks = clocks.chain(self.clients.iter_mut().map(|client| &mut client.clock));
        clocks.for_each(|clock| clock.discipline(now, skew));
        let disks = self.replicas.iter().filter_map(|replica| replica.node.kept());
        disks.for_each(|mut disk| disk.make_room());
        self.healed = true;
        (0..self.replicas.len()).for_each(|index| self.release(index));
        self.connect_all()
    }
}
