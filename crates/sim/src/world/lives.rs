//! Replicas that start again with nothing, and epochs.

use super::log::{Deed, What};
use super::{
    Act, Behaviour, CoreEffect, Fault, Happening, Incarnation, Journal, Outsider, Parts,
    ReplicaCore, ReplicaId, ReplicaNode, Rot, Setup, SharedDevice, SimDevice, Target, World,
};
use crate::checker::Verdict;
use crate::node::{Beginning, Lying, NewCore};
use crate::run::Factories;
use crate::time::Micros;
use pentarchy_core::counter::Usig;
use pentarchy_core::protocol::Tuning;
use std::sync::{Arc, Mutex};

impl World<'_> {
    /// A replica as it starts: with the group's first membership and nothing else.
    pub(super) fn node(
        &self,
        id: ReplicaId,
        device: SharedDevice,
        faulty: Option<Fault>,
        acts: &mut Vec<Act>,
    ) -> ReplicaNode {
        let journal = Journal::default();
        let mut service = (self.factories.service)(journal.clone());
        for behaviour in self.behaviours(id) {
            if let Behaviour::Rot { every } = behaviour {
                service = Box::new(Rot::new(service, every));
            }
        }
        let membership = self.membership.clone();
        let life = device.lock().expect("a device does not panic").incarnation();
        let admitted = membership.members[usize::from(id.0)].incarnation == life;
        let first = Beginning { membership: membership.clone(), fetch: None, admitted };
        let core = start_core(id, first, &self.factories, self.options.tuning);
        let (crypto, clients) = (self.crypto.clone(), self.ids.clone());
        let parts =
            Parts { id, membership, crypto, clients, service, journal, core, device, faulty };
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

    /// A crashed replica starts again: with its key, and a new life of its device.
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
        let device = SimDevice::reborn(id, life, self.crypto.clone());
        let mut acts = Vec::new();
        let node = self.node(id, Arc::new(Mutex::new(device)), None, &mut acts);
        self.oracle.restarted(id);
        let timers_from = self.sequence + 1;
        let replica = &mut self.replicas[index];
        replica.node = node;
        replica.timers.clear();
        replica.timers_from = timers_from;
        (replica.crashed, replica.returns, replica.behind) = (false, false, true);
        (replica.round_at, replica.paused_until) = (None, 0);
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
        if replica.behind && replica.node.is_level() {
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
    let Beginning { membership, fetch, admitted } = beginning;
    let mut effects = Vec::new();
    if !admitted {
        return (Box::new(Outsider { rules: factories.rules }), effects);
    }
    let core = (factories.replica)(Setup { me: id, membership, fetch, tuning }, &mut effects);
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
