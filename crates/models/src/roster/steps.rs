//! What a correct machine does: follow the order, vote for the end of an epoch, and begin the next
//! one in steps that are durable one by one. Each method says whether it changed anything.

use super::machine::{Machine, Prepared, Stage};
use super::rules::Rule;
use super::values::{ChangeId, HandoverId, Key, MemberId, Proof, ProofId, Ready, Request, Roster};
use super::world::World;
use crate::Broken;

impl World {
    /// Executes the next slot of its epoch, if some machine in that epoch has it.
    pub(super) fn follow(&mut self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        let (Some(epoch), Some(state)) = (machine.disk.epoch, machine.memory.state) else {
            return false;
        };
        let has_it = |other: &&Machine| {
            let memory = other.memory.state.filter(|_| other.is_up);
            other.is_correct()
                && other.disk.epoch == Some(epoch)
                && (other.id == id || other.is_up)
                && (memory.is_some_and(|it| it > state) || other.disk.logged > state)
        };
        let is_there = state < self.epochs[epoch].tip()
            && self.configuration_of(epoch).has(id)
            && self.machines.iter().any(|other| has_it(&other));
        if is_there {
            self.machines[id.0].memory.state = Some(state + 1);
        }
        is_there
    }

    /// Makes its state durable.
    pub(super) fn save(&mut self, id: MemberId) -> bool {
        let machine = &mut self.machines[id.0];
        let is_behind = machine.disk.saved != machine.memory.state;
        machine.disk.saved = machine.memory.state;
        is_behind
    }

    /// Fetches the base of its epoch, or a later state of it, from any correct machine. A machine
    /// that is not in an epoch yet learns the last one.
    pub(super) fn fetch(&mut self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        let epoch = machine.disk.epoch.unwrap_or(self.epochs.len() - 1);
        let (base, tip) = (self.epochs[epoch].base, self.epochs[epoch].tip());
        if machine.memory.state.is_some() || !self.may_speak_of(id, epoch) {
            return false;
        }
        let fits = |other: &Machine| {
            let state = other.memory.state.filter(|_| other.works());
            state.filter(|state| (base..=tip).contains(state))
        };
        let found = self.machines.iter().filter_map(fits).max();
        self.machines[id.0].memory.state = found;
        found.is_some()
    }

    /// Removed members need no state.
    fn may_speak_of(&self, id: MemberId, epoch: usize) -> bool {
        self.machines[id.0].disk.epoch.is_none() || self.configuration_of(epoch).has(id)
    }

    /// Makes keys, a life and an opened secret for the pending change, and says that it is ready;
    /// removes what it made for a change that is void.
    pub(super) fn prepare(&mut self, id: MemberId) -> bool {
        let Some((number, roster)) = self.roster_at(id) else { return false };
        let pending = roster.pending.as_ref().map(|pending| pending.change);
        let made = &self.machines[id.0].disk.prepared;
        let void = made.iter().position(|it| self.is_void(it.change, pending, number, roster));
        if let Some(at) = void {
            self.machines[id.0].disk.prepared.remove(at);
            return true;
        }
        let Some(change) = pending.filter(|it| self.changes[it.0].members.contains(&id)) else {
            return false;
        };
        let (devices, secret) = (self.changes[change.0].devices, self.changes[change.0].secret);
        let made = &self.machines[id.0].disk.prepared;
        let at = made.iter().position(|it| it.change == change);
        let is_new = at.is_none_or(|at| made[at].life.is_some() != devices);
        if is_new {
            // The key stays if only the life was lost.
            let key = at.map(|at| made[at].key).unwrap_or_else(|| self.fresh_key());
            let life = devices.then(|| self.fresh_life());
            let prepared = &mut self.machines[id.0].disk.prepared;
            prepared.retain(|it| it.change != change);
            prepared.push(Prepared { change, key, life, secret });
        }
        is_new | self.say_ready(id)
    }

    /// Whether a change can never take effect any more, as a member in this configuration knows
    /// that has executed to this roster. That it is not pending does not say so: after a crash, a
    /// member executes again what was ordered before the change.
    fn is_void(
        &self,
        id: ChangeId,
        pending: Option<ChangeId>,
        number: usize,
        roster: &Roster,
    ) -> bool {
        let change = &self.changes[id.0];
        if pending == Some(id) || self.applied.contains(&id) {
            return false;
        }
        let expected = self.configurations[change.expects.0].number;
        let is_over = roster.now >= change.expires || roster.attempt > change.attempt;
        expected < number || expected == number && is_over || !self.keeps(Rule::FolderStays)
    }

    /// What it sees: a member what it executed, others are told.
    fn roster_at(&self, id: MemberId) -> Option<(usize, &Roster)> {
        let machine = &self.machines[id.0];
        let state = machine.memory.state?;
        let number = self.number_at(id);
        match machine.disk.epoch {
            // A member of the last configuration first begins its epoch.
            None if self.configurations[self.current().0].has(id) => None,
            None => Some((self.chain.len() - 1, self.roster())),
            Some(at) => {
                let epoch = &self.epochs[at];
                let slot = state.checked_sub(epoch.base)? as usize;
                Some((number, epoch.rosters.get(slot)?))
            }
        }
    }

    /// Sends `Ready` again if the last order does not count it.
    fn say_ready(&mut self, id: MemberId) -> bool {
        let Some(pending) = &self.roster().pending else { return false };
        let machine = &self.machines[id.0];
        let made = machine.disk.prepared.iter().find(|it| it.change == pending.change);
        let Some(Prepared { change, key, life, .. }) = made.copied() else { return false };
        let epoch = self.epochs.len() - 1;
        let ready = Request::Ready(Ready { member: id, epoch, change, signing: key, life });
        let is_new = !self.requests.contains(&ready);
        if is_new {
            self.requests.push(ready);
        }
        is_new
    }

    /// Whether its device is not the one that its epoch admits.
    pub(super) fn lacks_life(&self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        let Some(epoch) = machine.disk.epoch else { return false };
        let configuration = self.configuration_of(epoch);
        let index = configuration.index(id).filter(|_| configuration.devices);
        let device = machine.disk.device;
        index.is_some_and(|at| device.is_none() || device != self.epochs[epoch].lives[at])
    }

    /// Asks to be admitted under another life, if its device is not the one that its epoch admits.
    pub(super) fn ask_admission(&mut self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        let Some(epoch) = machine.disk.epoch else { return false };
        let asks = |request: &Request| {
            matches!(*request, Request::Admission { member, epoch: of, .. }
                if member == id && of == epoch)
        };
        let can_ask = self.lacks_life(id) && machine.memory.state.is_some();
        if !can_ask || self.requests.iter().any(asks) {
            return false;
        }
        let life = self.fresh_life();
        self.machines[id.0].disk.device = Some(life);
        self.requests.push(Request::Admission { member: id, epoch, life });
        true
    }

    /// Signs the end of its epoch, once the state after it is durable.
    pub(super) fn vote(&mut self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        let Some(epoch) = machine.disk.epoch else { return false };
        let Some(end) = self.epochs[epoch].end else { return false };
        let Some(index) = self.configuration_of(epoch).index(id) else { return false };
        let key = self.configuration_of(epoch).members[index].signing;
        let tip = Some(self.epochs[epoch].tip());
        let durable = machine.disk.saved == tip || !self.keeps(Rule::DurableVotes);
        let may = machine.memory.state == tip
            && machine.memory.stage == Stage::Running
            && durable
            && !machine.memory.voted
            && machine.holds(key);
        if may {
            let memory = &mut self.machines[id.0].memory;
            memory.voted = true;
            memory.votes.insert(index, end);
            if !self.signatures.contains(&(key, end)) {
                self.signatures.push((key, end));
            }
            self.assemble(id, end);
        }
        may
    }

    /// Counts a vote if it is for the end of the machine's epoch and a member signed it.
    pub(super) fn hear_vote(&mut self, id: MemberId, (key, handover): (Key, HandoverId)) -> bool {
        let machine = &self.machines[id.0];
        let Some(epoch) = machine.disk.epoch else { return false };
        let configuration = self.configuration_of(epoch);
        let said = &self.handovers[handover.0];
        let names = said.configuration == self.epochs[epoch].configuration;
        let at = configuration.members.iter().position(|entry| entry.signing == key);
        let Some(index) = at.filter(|_| names && said.epoch == epoch) else { return false };
        let machine = &mut self.machines[id.0];
        let memory = &machine.memory;
        if memory.stage != Stage::Running || memory.votes.contains_key(&index) {
            return false;
        }
        machine.memory.votes.insert(index, handover);
        self.assemble(id, handover);
        true
    }

    /// `f + 1` equal votes are a proof.
    fn assemble(&mut self, id: MemberId, handover: HandoverId) {
        let machine = &self.machines[id.0];
        let epoch = machine.disk.epoch.expect("it counts votes of its epoch");
        let configuration = self.configuration_of(epoch);
        let votes = machine.memory.votes.iter().filter(|(_, of)| **of == handover);
        let mut keys: Vec<_> =
            votes.map(|(index, _)| configuration.members[*index].signing).collect();
        // As many as a proof needs: fewer different proofs, and the same meaning.
        keys.truncate(configuration.f + 1);
        if keys.len() > configuration.f && machine.memory.stage == Stage::Running {
            let attached = self.handovers[handover.0].next;
            let proof = self.keep_proof(Proof { handover, keys, attached });
            self.leave(id, proof);
        }
    }

    /// Takes a proof of its epoch's end, or of a later one's in its configuration (A-R3).
    pub(super) fn hear_proof(&mut self, id: MemberId, at: ProofId) -> Result<bool, Broken> {
        let machine = &self.machines[id.0];
        let proof = &self.proofs[at.0];
        let number = self.number_at(id);
        let ended = self.handovers[proof.handover.0].epoch;
        if machine.memory.stage != Stage::Running
            || machine.disk.epoch.is_some_and(|epoch| ended < epoch)
            || machine.disk.epoch.is_some_and(|epoch| !self.configuration_of(epoch).has(id))
            || !self.convinces(proof, self.chain[number])
        {
            return Ok(false);
        }
        let believed = proof.attached.unwrap_or(self.chain[number]);
        if machine.disk.epoch.is_none() && !self.configurations[believed.0].has(id) {
            // One that waits to be let in only follows the chain.
            self.check_place(id, proof.handover, believed)?;
            let follows = proof.attached.is_some();
            let number = self.configurations[believed.0].number;
            let disk = &mut self.machines[id.0].disk;
            disk.chain = number;
            disk.erased = disk.chain;
            return Ok(follows);
        }
        self.leave(id, at);
        Ok(true)
    }
}
