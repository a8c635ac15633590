//! Machines that join the group while it runs, and members that leave it.

use super::lives::Keeping;
use super::log::{Deed, What};
use super::{Happening, Replica, ReplicaId, SimDevices, World, is_sound};
use crate::administration::Invitation;
use crate::checker::Verdict;
use crate::crypto::{INCARNATION, member_id};
use crate::packet::{joins_later, member_at, member_of};
use crate::rng::Rng;
use crate::time::Micros;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::membership::Membership;
use std::sync::{Arc, Mutex};

/// Between two times that a machine looks whether it is to join.
const AGAIN: Micros = 200_000;

/// It does so for so long after everything has healed.
const PATIENCE: Micros = 5_000_000;

impl World<'_> {
    /// The group in which the replica at a place began, and how the configurations before had ended
    /// by then.
    pub(super) fn begins_with(&self, id: ReplicaId) -> (Arc<Membership>, Vec<Proof>) {
        let late = self.begun_late.get(&id).cloned();
        late.unwrap_or_else(|| (self.membership.clone(), Vec::new()))
    }

    /// An operator has a newer file for a replica that lost everything, if all members have left
    /// with which it would begin otherwise.
    pub(super) fn look_for_newer_file(&mut self, index: usize) {
        let id = self.replicas[index].id;
        let known = self.begins_with(id).0;
        let is_left = |(other, replica): (ReplicaId, &Replica<'_>)| {
            other != id && !replica.has_left && member_of(&known, other).is_some()
        };
        if self.correct().any(is_left) {
            return;
        }
        let newest = self.correct().map(|(_, replica)| replica.node.chain());
        let newest = newest.max_by_key(|(membership, _)| membership.epoch);
        if let Some(newest) = newest.filter(|(newest, _)| member_of(newest, id).is_some()) {
            self.begun_late.insert(id, newest);
        }
    }

    /// A replica that begins with nothing is in a later epoch, if it joined in that.
    pub(super) fn begins_late(&mut self, id: ReplicaId) {
        if self.begun_late.contains_key(&id) {
            let epoch = self.begins_with(id).0.epoch;
            self.oracle.resumed(id, (epoch, View(0)), Slot(0));
        }
    }

    /// A machine looks whether a change is pending that names it, and says that it is ready for
    /// that.
    pub(super) fn join(&mut self, place: usize) {
        let (id, now) = (ReplicaId(place as u16), self.now);
        if place < self.replicas.len() || now > self.options.heal_at + PATIENCE {
            return;
        }
        self.schedule(now + AGAIN, Happening::Join(place));
        let invitation = self.correct().find_map(|(_, replica)| Invitation::of(&replica.node, id));
        if let Some(invitation) = invitation {
            let ring = &self.rings[usize::from(id.0)];
            let ready = invitation.accept(id, &self.crypto, ring);
            let envelope = self.petition(member_id(id), now, &ready);
            self.ask_all(envelope);
        }
    }

    /// A correct replica begins an epoch. Machines that are members for the first time start as
    /// replicas, and no replica relies any more on those that are members no more.
    pub(super) fn look_who_joins_and_leaves(
        &mut self,
        index: usize,
        membership: &Arc<Membership>,
    ) -> Verdict {
        // A replica that was away begins an epoch again in which others have yet to join.
        for replica in &mut self.replicas {
            let is_member = member_of(membership, replica.id).is_some();
            if !is_member && !joins_later(membership, replica.id) {
                (replica.has_left, replica.behind, replica.put_back) = (true, false, None);
            }
        }
        let is_new =
            |place: usize| membership.index_of(member_at(ReplicaId(place as u16))).is_some();
        while self.replicas.len() < self.options.machines().count() && is_new(self.replicas.len()) {
            let (_, links) = self.replicas[index].node.chain();
            let id = ReplicaId(self.replicas.len() as u16);
            self.begun_late.insert(id, (membership.clone(), links));
            self.start_joined(membership)?;
        }
        Ok(())
    }

    fn start_joined(&mut self, membership: &Arc<Membership>) -> Verdict {
        let place = self.replicas.len();
        let id = ReplicaId(place as u16);
        let mut device = SimDevices::new(id, membership.lane.pillars, &self.crypto);
        device.begin_epoch(membership).expect("it is in an earlier one");
        let mut acts = Vec::new();
        let mut rng = self.rng.fork();
        let behaviours = self.behaviours(id);
        let (faulty, adversary) = self.adversary(&behaviours, id, &mut rng);
        let keeping = match adversary {
            Some(_) => Keeping::afresh(None),
            None => self.keeping(id, INCARNATION),
        };
        let node = self.node(id, Arc::new(Mutex::new(device)), faulty, keeping, &mut acts);
        let fate = Rng::new(rng.clone().next_u64().rotate_left(37));
        let mut replica = self.correct_replica(id, node, rng);
        (replica.adversary, replica.sound) = (adversary, is_sound(&behaviours));
        replica.behind = replica.adversary.is_none();
        if self.healed {
            replica.clock.discipline(self.now, self.options.skew_ms);
        }
        self.replicas.push(replica);
        self.begins_late(id);
        self.last_completion = self.now;
        self.carry_out(place, acts)?;
        self.want_round(place);
        self.fail_early(place, fate);
        Ok(())
    }

    /// A machine that has just become a member may crash for good, or lose its memory, if that does
    /// not make more than `f` faulty ones. It counts as one of them already: it lacks the state.
    fn fail_early(&mut self, index: usize, mut fate: Rng) {
        let is_due = !self.healed && fate.chance(self.options.joins_badly_ppm / 2);
        let replica = &mut self.replicas[index];
        let is_correct = replica.adversary.is_none() && !replica.crashed;
        if !is_due || !is_correct || self.faulty().len() > self.options.f {
            return;
        }
        let (returns, after) = (fate.percent(50), fate.range(1, 800_000));
        let replica = &mut self.replicas[index];
        (replica.crashed, replica.returns) = (true, returns);
        self.note(self.place(index), |_| What::Does(Deed::Crashes, "crashes".to_owned()));
        if returns {
            self.schedule(self.now + after, Happening::Restart(index));
        }
    }

    /// A replica was shown that the group goes on without it, and ends.
    pub(super) fn leave(&mut self, index: usize) {
        let replica = &mut self.replicas[index];
        (replica.crashed, replica.has_left) = (true, true);
        (replica.returns, replica.behind, replica.put_back) = (false, false, None);
    }
}
