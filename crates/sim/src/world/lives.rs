//! Replicas that start again with nothing, and epochs.

use super::confirms::Looked;
use super::log::{Deed, What};
use super::{
    Act, Behaviour, CoreEffect, Failure, Fault, Happening, Incarnation, Journal, Outsider, Parts,
    Replica, ReplicaCore, ReplicaId, ReplicaNode, ReplicaSet, Rot, Setup, SharedDevice, SimDevices,
    Target, World,
};
use crate::checker::Verdict;
use crate::node::{Beginning, Kept, Lying, NewCore, Observation};
use crate::run::Factories;
use crate::time::Micros;
use pentarchy_core::ids::Slot;
use pentarchy_core::protocol::{Memory, Tuning};
use pentarchy_storage::identity::Identity;
use std::sync::{Arc, Mutex};

impl World<'_> {
    /// A replica as it starts: with the group's first membership and nothing else, or with what it
    /// kept.
    pub(super) fn node(
        &self,
        id: ReplicaId,
        device: SharedDevice,
        faulty: Option<Fault>,
        kept: Option<Kept>,
        acts: &mut Vec<Act>,
    ) -> ReplicaNode {
        let journal = Journal::default();
        let mut service = (self.factories.service)(journal.clone());
        for behaviour in self.behaviours(id) {
            if let Behaviour::Rot { every } = behaviour {
                service = Box::new(Rot::new(service, every));
            }
        }
        let membership = kept.as_ref().map_or(&self.membership, Kept::membership).clone();
        let memory = kept.as_ref().map_or(Memory::Volatile, Kept::memory);
        let life = device.lock().expect("a device does not panic").incarnation();
        let admitted = membership.members[usize::from(id.0)].incarnation == life;
        let fetch = kept.as_ref().and_then(Kept::fetch);
        let first = Beginning { membership: membership.clone(), fetch, admitted, memory };
        let core = start_core(id, first, &self.factories, self.options.tuning);
        let (crypto, clients) = (self.crypto.clone(), self.ids.clone());
        let parts =
            Parts { id, membership, crypto, clients, service, journal, core, device, faulty, kept };
        ReplicaNode::new(parts, acts)
    }

    /// Of at most `f` replicas is ever one faulty, crashed, or without the memory that it lost: a
    /// replica loses its memory only if all others who did are level again. The promise of the
    /// protocols reaches no further, since what a replica that forgets had promised may have
    /// counted.
    pub(super) fn lose(&mut self, target: Target, after: Micros) {
        let index = self.resolve(target);
        if self.crash(index) {
            self.replicas[index].returns = true;
            let at = (self.now + after).min(self.options.heal_at.max(self.now + 1));
            self.schedule(at, Happening::Restart(index));
        }
    }

    /// A crashed replica starts again: with its key, and a new incarnation of its device.
    pub(super) fn restart(&mut self, index: usize) -> Verdict {
        let id = self.replicas[index].id;
        self.restarts += 1;
        self.last_completion = self.now;
        self.audit.note(self.now, 13, index as u64, &[]);
        self.note(self.place(index), |_| {
            What::Does(Deed::Other, "starts again with nothing".to_owned())
        });
        // No order among lives may be relied upon.
        let life = Incarnation(2 + (self.rng.next_u64() >> 1));
        let device = SimDevices::reborn(id, self.membership.lane.pillars, life, &self.crypto);
        let kept = self.disk(id, life, true);
        let mut acts = Vec::new();
        let node = self.node(id, Arc::new(Mutex::new(device)), None, kept, &mut acts);
        self.oracle.restarted(id);
        (self.replicas[index].behind, self.replicas[index].behind_until) = (true, Slot(0));
        self.take_up(index, node, acts)
    }

    /// A disk for a replica that begins, in worlds that have disks; not if its host may do
    /// anything.
    pub(super) fn disk(
        &mut self,
        replica: ReplicaId,
        incarnation: Incarnation,
        sound: bool,
    ) -> Option<Kept> {
        let has = self.options.is_durable() && sound;
        let identity = Identity { group: self.membership.group, replica, incarnation };
        let large = self.options.workload.large_ppm > 0;
        has.then(|| Kept::new(self.membership.clone(), identity, large, self.rng.fork()))
    }

    /// A replica's power or disk is about to fail, a few writes and sends from now.
    pub(super) fn stop(&mut self, index: usize, failure: Failure, points: u64, lasts: Micros) {
        let replica = &mut self.replicas[index];
        let may_fail = !replica.is_faulty() && replica.node.is_admitted();
        if let Some(kept) = replica.node.kept().filter(|kept| may_fail && !kept.is_dead()) {
            kept.fail_after(points, failure);
            replica.stops_for = lasts;
        }
    }

    /// Looks whether power or disk have failed.
    pub(super) fn look_whether_dead(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if !replica.node.is_dead() || replica.crashed {
            return;
        }
        (replica.crashed, replica.returns) = (true, true);
        let at = self.now + replica.stops_for;
        let point = replica.node.kept().and_then(|kept| kept.died_at());
        let fetches = replica.node.kept().is_some_and(|kept| !kept.is_whole());
        let fetches = fetches.then_some("fetching");
        let points = point.into_iter().chain(fetches);
        points.for_each(|point| *self.crash_points.entry(point).or_default() += 1);
        self.note(self.place(index), |_| What::Does(Deed::Crashes, "ends".to_owned()));
        self.schedule(at.min(self.options.heal_at.max(self.now + 1)), Happening::Resume(index));
    }

    /// Whether a replica may find that it cannot go on as whom it was. Who ended and comes back
    /// with all that it had remembers.
    fn may_forget(&self, index: usize) -> bool {
        let forget = |replica: &&Replica| {
            replica.adversary.is_some()
                || replica.behind
                || (replica.crashed && !replica.node.is_dead())
        };
        let mut others: ReplicaSet =
            self.replicas.iter().filter(forget).map(|replica| replica.id).collect();
        others.remove(self.replicas[index].id);
        others.len() < self.options.f
    }

    /// A replica starts again with what it had synced, as whom it was. If it cannot read that, it
    /// is somebody else.
    pub(super) fn resume(&mut self, index: usize) -> Verdict {
        let id = self.replicas[index].id;
        let life = self.replicas[index].node.life();
        let may_rot = self.may_forget(index);
        let Some(mut kept) = self.replicas[index].node.take_kept() else { return Ok(()) };
        let Some(found) = kept.recover(may_rot) else { return self.restart(index) };
        self.oracle.saw(id, false, &Observation::Found(found), self.now, &mut self.audit)?;
        self.resumed += 1;
        self.last_completion = self.now;
        self.audit.note(self.now, 14, index as u64, &[]);
        self.note(self.place(index), |_| {
            What::Does(Deed::Other, "starts again with its disk".to_owned())
        });
        let mut device = SimDevices::reborn(id, self.membership.lane.pillars, life, &self.crypto);
        let epoch = device.begin_epoch(kept.membership());
        epoch.expect("a fresh device goes to any epoch");
        let epoch = kept.membership().epoch;
        for (ui, digest) in kept.take_up(&mut device) {
            let seen = Observation::Certified { epoch, ui, digest };
            self.oracle.saw(id, false, &seen, self.now, &mut self.audit)?;
        }
        let has = kept.executed().slot;
        let at = if kept.fetch().is_some() { Slot(0) } else { has };
        // Others may rely on it to have what it vouched for.
        let replica = &mut self.replicas[index];
        if may_rot && has < found.had {
            (replica.behind, replica.behind_until) = (true, found.had);
        }
        self.oracle.resumed(id, kept.membership().epoch, at);
        let mut acts = Vec::new();
        let node = self.node(id, Arc::new(Mutex::new(device)), None, Some(kept), &mut acts);
        self.take_up(index, node, acts)
    }

    /// Puts a replica that starts again into its place.
    fn take_up(&mut self, index: usize, node: ReplicaNode, acts: Vec<Act>) -> Verdict {
        let id = self.replicas[index].id;
        let from = self.sequence + 1;
        let replica = &mut self.replicas[index];
        replica.node = node;
        replica.timers.clear();
        (replica.timers_from, replica.disk_from) = (from, from);
        (replica.crashed, replica.returns) = (false, false);
        (replica.round_at, replica.paused_until) = (None, 0);
        replica.looked = Looked::default();
        self.carry_out(index, acts)?;
        self.want_round(index);
        for client in 0..self.clients.len() {
            let mut acts = core::mem::take(&mut self.client_acts);
            self.clients[client].node.on_connected(id, &mut acts);
            self.carry_out_client(client, acts)?;
        }
        Ok(())
    }

    /// Looks whether a replica has its memory again.
    pub(super) fn look_whether_level(&mut self, index: usize) {
        let now = self.now;
        let replica = &mut self.replicas[index];
        let executed = replica.node.executor().executed();
        if replica.behind && replica.node.is_level() && executed >= replica.behind_until {
            replica.behind = false;
            self.last_completion = now;
            self.note(self.place(index), |_| What::Does(Deed::Other, "is level".to_owned()));
        }
    }

    /// An epoch ended at a replica: the worst moment to lose one's memory.
    pub(super) fn on_ended(&mut self, index: usize) {
        if self.healed || !self.rng.chance(self.options.restart_at_end_ppm) {
            return;
        }
        let target = match self.rng.percent(50) {
            true => Target::Replica(self.replicas[index].id),
            false => Target::Primary,
        };
        let after = self.rng.range(1, 300_000);
        self.lose(target, after);
    }
}

/// The core of an epoch, or what stands in for it where the device is not admitted.
fn start_core(
    id: ReplicaId,
    beginning: Beginning,
    factories: &Factories<'_>,
    tuning: Tuning,
) -> (Box<dyn ReplicaCore>, Vec<CoreEffect>) {
    let Beginning { membership, fetch, admitted, memory } = beginning;
    let mut effects = Vec::new();
    if !admitted {
        return (Box::new(Outsider { rules: factories.rules }), effects);
    }
    let core =
        (factories.replica)(Setup { me: id, membership, fetch, memory, tuning }, &mut effects);
    (core, effects)
}

/// Goes over to the next epoch, and to the one after it, as far as their beginnings are proved.
pub(super) fn go_on(
    id: ReplicaId,
    node: &mut ReplicaNode,
    factories: &Factories<'_>,
    tuning: Tuning,
    acts: &mut Vec<Act>,
) {
    while let Some(beginning) = node.next_epoch() {
        let membership = beginning.membership.clone();
        let (core, effects) = start_core(id, beginning, factories, tuning);
        let lying = node.take_lying().and_then(|lying| {
            factories.forger.map(|make| Lying { forger: make(id, &membership), ..lying })
        });
        node.begin_epoch(membership, NewCore { core, effects, lying }, acts);
    }
}
