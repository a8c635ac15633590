//! Replicas that start again with nothing, and epochs.

use super::confirms::Looked;
use super::log::{Deed, What};
use super::{
    Act, Behaviour, Failure, Fault, Happening, Incarnation, Replica, ReplicaId, ReplicaNode,
    ReplicaSet, SharedDevice, SimDevices, Target, World,
};
use crate::adversary::Rot;
use crate::checker::moving_on::MovingOn;
use crate::checker::{Verdict, durability, retirement};
use crate::node::{Kept, NodeStart, SharedKept};
use crate::observation::Observation;
use crate::packet::member_of;
use crate::service::Journal;
use crate::shadowed::Shadowed;
use crate::time::Micros;
use pentarchy_core::ids::{Epoch, Slot};
use pentarchy_core::service::Service;
use pentarchy_storage::identity::Identity;
use pentarchy_storage::kept::{EpochStart, Past};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::{Arc, Mutex};

impl<'a> World<'a> {
    /// A replica as it starts: with the group in which it has a place first and nothing else, or
    /// with what it kept.
    pub(super) fn node(
        &self,
        id: ReplicaId,
        device: SharedDevice,
        faulty: Option<Fault>,
        Keeping { kept, past }: Keeping,
        acts: &mut Vec<Act>,
    ) -> ReplicaNode<'a> {
        let journal = Journal::default();
        let start = NodeStart {
            id,
            crypto: self.crypto.clone(),
            clients: self.ids.clone(),
            factories: self.factories,
            tuning: self.options.tuning,
            device,
            ring: self.rings[usize::from(id.0)].clone(),
            chain: self.begins_with(id),
            service: (self.service(id, &journal), journal),
            faulty,
            kept,
            past,
        };
        start.start(self.now / 1_000, acts)
    }

    /// What a replica replicates.
    fn service(&self, id: ReplicaId, journal: &Journal) -> Box<dyn Service> {
        let mut service = (self.factories.service)(journal.clone());
        if self.options.has_store {
            service = Box::new(Shadowed::new(service));
        }
        for behaviour in self.behaviours(id) {
            if let Behaviour::Rot { every } = behaviour {
                service = Box::new(Rot::new(service, every));
            }
        }
        service
    }

    /// Of at most `f` replicas is ever one faulty, crashed, or without the memory that it lost: a
    /// replica loses its memory only if all others who did are level again. The promise of the
    /// protocols reaches no further, since what a replica that forgets had promised may have
    /// counted.
    pub(super) fn lose(&mut self, target: Target, after: Micros) {
        let index = self.resolve(target);
        if self.crash(index) {
            self.replicas[index].returns = true;
            self.forget_what_others_said();
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
        self.look_for_newer_file(index);
        // No order among lives may be relied upon.
        let life = Incarnation(2 + (self.rng.next_u64() >> 1));
        let device = SimDevices::reborn(id, self.membership.lane.pillars, life, &self.crypto);
        let mut acts = Vec::new();
        let keeping = self.keeping(id, life);
        let node = self.node(id, Arc::new(Mutex::new(device)), None, keeping, &mut acts);
        self.oracle.restarted(id);
        self.begins_late(id);
        let newest = self.newest_epoch();
        let replica = &mut self.replicas[index];
        (replica.behind, replica.behind_until) = (!replica.has_left, Slot(0));
        replica.forgot = newest.filter(|_| replica.has_left);
        (replica.put_back, replica.doubtful) = (None, false);
        replica.has_no_counter = false;
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
        let (membership, links) = self.begins_with(replica);
        let start = EpochStart { membership, proof: None, links };
        has.then(|| Kept::new(start, identity, large, self.rng.fork()))
    }

    /// What a correct replica keeps that begins with nothing. The disk of one that joined says so,
    /// and lacks the state with which its epoch began.
    pub(super) fn keeping(&mut self, id: ReplicaId, life: Incarnation) -> Keeping {
        let kept = self.disk(id, life, true);
        let past = |kept: &mut Kept| kept.recover(false).map(|(_, past)| past);
        match kept {
            Some(mut kept) if self.begun_late.contains_key(&id) => {
                let past = past(&mut kept);
                Keeping { kept: Some(Rc::new(RefCell::new(kept))), past }
            }
            kept => Keeping::afresh(kept),
        }
    }

    /// A replica's power or disk is about to fail, a few writes and sends from now.
    pub(super) fn stop(&mut self, index: usize, failure: Failure, points: u64, lasts: Micros) {
        self.has_fail(index, lasts, |kept| kept.fail_after(points, failure));
    }

    /// Has power or disk of a replica fail, if they may now; then it is gone for so long.
    pub(super) fn has_fail(&mut self, index: usize, lasts: Micros, how: impl FnOnce(&mut Kept)) {
        let replica = &mut self.replicas[index];
        let may_fail = !replica.is_faulty() && replica.node.is_admitted();
        let kept = replica.node.kept().filter(|kept| may_fail && !kept.is_dead());
        if let Some(mut kept) = kept {
            how(&mut kept);
            replica.stops_for = lasts;
        }
    }

    /// Looks whether power or disk have failed.
    pub(super) fn look_whether_dead(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        if !replica.node.is_dead() || replica.crashed {
            return;
        }
        if replica.put_back.is_some() {
            return self.forget_what_others_said();
        }
        (replica.crashed, replica.returns) = (true, true);
        let at = self.now + replica.stops_for;
        let point = replica.node.kept().and_then(|kept| kept.died_at());
        let fetches = replica.node.kept().is_some_and(|kept| !kept.is_whole());
        let fetches = fetches.then_some("fetching");
        let points = point.into_iter().chain(fetches);
        points.for_each(|point| *self.crash_points.entry(point).or_default() += 1);
        self.forget_what_others_said();
        self.note(self.place(index), |_| What::Does(Deed::Crashes, "ends".to_owned()));
        self.schedule(at.min(self.options.heal_at.max(self.now + 1)), Happening::Resume(index));
    }

    /// A replica that ends forgets what it saw of the others: so nobody need tell those whose disks
    /// were put back, and they come back as other lives.
    fn forget_what_others_said(&mut self) {
        for index in 0..self.replicas.len() {
            if self.replicas[index].put_back.is_some() {
                self.end_life(index);
            }
        }
    }

    /// Whether a replica may find that it cannot go on as whom it was. Who ended and comes back
    /// with all that it had remembers. Who has no counter any more, and has not noticed, is going
    /// to forget.
    fn may_forget(&self, index: usize) -> bool {
        let forget = |replica: &&Replica<'_>| {
            replica.adversary.is_some()
                || replica.behind
                || replica.has_no_counter
                || (replica.crashed && !replica.node.is_dead())
        };
        let others = self.replicas.iter().filter(forget).map(|replica| replica.id);
        let mut others: ReplicaSet = others.chain(self.faulty_joiners()).collect();
        others.remove(self.replicas[index].id);
        others.len() < self.options.f
    }

    /// A replica starts again with what it had synced, as whom it was. If it cannot read that, it
    /// is somebody else.
    pub(super) fn resume(&mut self, index: usize) -> Verdict {
        if self.replicas[index].has_no_counter {
            return self.restart(index);
        }
        let id = self.replicas[index].id;
        let life = self.replicas[index].node.life();
        let may_rot = self.may_forget(index);
        let Some(kept) = self.replicas[index].node.take_kept() else { return Ok(()) };
        let recovered = kept.borrow_mut().recover(may_rot);
        let Some((found, past)) = recovered else { return self.restart(index) };
        let device = SimDevices::reborn(id, self.membership.lane.pillars, life, &self.crypto);
        let device = Arc::new(Mutex::new(device));
        let (epoch, has) = (past.membership.epoch, past.executed().slot);
        let at = if past.is_whole() { has } else { Slot(0) };
        if !found.is_old && !found.rots && !self.replicas[index].has_left {
            let member = member_of(&past.membership, id).expect("it was a member");
            // One that this epoch has not admitted signs nothing in it.
            let has_key = self.rings[usize::from(id.0)].lock().has(&member.signing);
            retirement::goes_on(id, epoch, has_key || member.incarnation != life)?;
        }
        let mut acts = Vec::new();
        let keeping = Keeping { kept: Some(kept), past: Some(past) };
        let node = self.node(id, device.clone(), None, keeping, &mut acts);
        let known_in = self.others_know(index, epoch, &device).filter(|_| found.is_old);
        if found.is_old && known_in.is_none() {
            return self.restart(index);
        }
        self.oracle.saw(id, false, &Observation::Found(found), self.now, &mut self.audit)?;
        self.resumed += 1;
        self.last_completion = self.now;
        self.audit.note(self.now, 14, index as u64, &[]);
        self.note(self.place(index), |_| {
            What::Does(Deed::Other, "starts again with its disk".to_owned())
        });
        // Others may rely on it to have what it vouched for.
        let replica = &mut self.replicas[index];
        if may_rot && !replica.has_left && (has < found.had || found.is_old) {
            (replica.behind, replica.behind_until) = (true, found.had);
        }
        (replica.doubtful, replica.put_back) = (found.rots, known_in);
        self.oracle.resumed(id, (epoch, node.core().status().view), at);
        self.take_up(index, node, acts)
    }

    /// In which epoch all others can tell a replica whose disk was put back from a copy of `epoch`
    /// that its device has certified more than the copy knows: in the one that they are all in, if
    /// that admits its life, none of them is faulty, and none has forgotten. None if some cannot.
    /// The world goes by what their cores were handed, not by what they noted of that.
    fn others_know(&self, index: usize, epoch: Epoch, device: &SharedDevice) -> Option<Epoch> {
        let (id, life) = (self.replicas[index].id, self.replicas[index].node.life());
        let is_other = |(other, it): &(usize, &Replica<'_>)| *other != index && !it.has_left;
        let others = || self.replicas.iter().enumerate().filter(is_other);
        let theirs = others().map(|(_, other)| other.node.epoch()).max()?;
        // In a later epoch the device has certified nothing that is in the copy.
        let memories = device.lock().expect("a panic ends the world").memories();
        let lasts = memories.into_iter().map(|(_, memory)| memory.last);
        let last = lasts.max().filter(|_| theirs == epoch);
        let knows = |(_, replica): (usize, &Replica<'_>)| {
            let node = &replica.node;
            let is_well = !replica.is_faulty() && node.epoch() == theirs && !node.is_ending();
            is_well && node.admits(id, life) && node.was_handed(id) > last
        };
        (theirs >= epoch && others().all(knows)).then_some(theirs)
    }

    /// A replica that went on from its disk speaks from now on. If its disk was put back, it is not
    /// answered in the epoch in which others know of that, and nobody else is in an earlier one.
    pub(super) fn on_resumed(&mut self, index: usize, epoch: Epoch, is_answered: bool) -> Verdict {
        let replica = &mut self.replicas[index];
        if replica.was_answered {
            return Err(durability::asks_again(replica.id, epoch));
        }
        replica.was_answered = is_answered;
        match replica.put_back {
            Some(of) if epoch <= of && is_answered => Err(durability::spoke(replica.id)),
            // It was cut off for too long: that nobody told it is nobody's fault.
            Some(of) if epoch == of => {
                self.end_life(index);
                Ok(())
            }
            // It asks again in the epoch that the others are in.
            Some(of) if epoch < of => Ok(()),
            // What it promised was of an epoch that is over.
            _ => {
                replica.put_back = None;
                Ok(())
            }
        }
    }

    /// Others have seen more of a replica than its disk has, which is damaged or old.
    pub(super) fn on_rewound(&mut self, index: usize) {
        self.rewound += u64::from(self.replicas[index].put_back.is_some());
        self.end_life(index);
    }

    /// A replica's disk is of no use any more: it ends, and comes back as another life.
    pub(super) fn end_life(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        (replica.crashed, replica.returns, replica.behind) = (true, true, !replica.has_left);
        replica.put_back = None;
        self.note(self.place(index), |_| What::Does(Deed::Crashes, "ends".to_owned()));
        self.schedule(self.now + 1, Happening::Restart(index));
    }

    /// Puts a replica that starts again into its place.
    fn take_up(&mut self, index: usize, node: ReplicaNode<'a>, acts: Vec<Act>) -> Verdict {
        let id = self.replicas[index].id;
        let from = self.sequence + 1;
        let replica = &mut self.replicas[index];
        (replica.members, replica.node) = (node.chain().0, node);
        replica.timers.clear();
        (replica.timers_from, replica.disk_from) = (from, from);
        (replica.crashed, replica.returns, replica.was_answered) = (false, false, false);
        (replica.round_at, replica.paused_until) = (None, 0);
        (replica.looked, replica.moving_on) = (Looked::default(), MovingOn::default());
        replica.pauses.clear();
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
        let is_told = replica.put_back.is_none();
        if replica.behind && is_told && replica.node.is_level() && executed >= replica.behind_until
        {
            replica.behind = false;
            self.last_completion = now;
            self.note(self.place(index), |_| What::Does(Deed::Other, "is level".to_owned()));
        }
    }
}

/// A replica's disk, and what was there when the replica started again.
pub(super) struct Keeping {
    kept: Option<SharedKept>,
    past: Option<Past>,
}

impl Keeping {
    /// Nothing was there.
    pub(super) fn afresh(kept: Option<Kept>) -> Self {
        Self { kept: kept.map(|kept| Rc::new(RefCell::new(kept))), past: None }
    }
}
