//! How a machine begins the next epoch, in steps that are durable one by one, and how a removed
//! member ends. Each method says whether it changed anything.

use super::machine::{Memory, Prepared, Stage};
use super::rules::Rule;
use super::values::{MemberId, Proof, ProofId};
use super::world::{World, broken};
use crate::Broken;

impl World {
    /// It has the proof of its epoch's end, in memory only. Without the rule, it erases its keys
    /// now.
    pub(super) fn leave(&mut self, id: MemberId, at: ProofId) {
        let next = self.proofs[at.0].attached;
        let key = next.and_then(|next| self.configurations[next.0].key_of(id));
        let machine = &mut self.machines[id.0];
        machine.memory.stage = Stage::Proved(at);
        if self.without == Some(Rule::EraseLast as usize) && next.is_some() {
            machine.disk.current = machine.disk.current.filter(|current| Some(*current) == key);
            machine.disk.secrets.clear();
        }
    }

    /// The next step on the way into the epoch behind a proof. Each is durable before the next.
    pub(super) fn begin_step(&mut self, id: MemberId) -> Result<bool, Broken> {
        match self.machines[id.0].memory.stage {
            Stage::Running => return Ok(false),
            Stage::Proved(at) => self.append_link(id, at)?,
            Stage::Linked(at) => self.begin_epoch(id, at)?,
            Stage::Logged => self.adopt_keys(id),
            Stage::Adopted => {
                let number = self.number_at(id);
                let machine = &mut self.machines[id.0];
                if self.without != Some(Rule::ChannelsRekeyed as usize) {
                    machine.memory.channels.clear();
                }
                machine.memory.channels.insert(number);
                machine.memory.stage = Stage::Rekeyed;
            }
            Stage::Rekeyed => {
                self.erase(id);
                self.machines[id.0].memory.stage = Stage::Running;
            }
        }
        Ok(true)
    }

    /// First, the link becomes durable. The proof is checked against what really happened here,
    /// because from here on it is what the machine believes.
    fn append_link(&mut self, id: MemberId, at: ProofId) -> Result<(), Broken> {
        let proof = self.proofs[at.0].clone();
        let believed = proof.attached.unwrap_or(self.chain[self.number_at(id)]);
        self.check_place(id, proof.handover, believed)?;
        let machine = &mut self.machines[id.0];
        if proof.attached.is_some() {
            machine.disk.chain = self.configurations[believed.0].number;
            machine.disk.link = Some(at);
        }
        machine.memory.stage = Stage::Linked(at);
        Ok(())
    }

    /// Then the log names the epoch, and forgets the slots of the one before. The core starts.
    fn begin_epoch(&mut self, id: MemberId, at: ProofId) -> Result<(), Broken> {
        let handover = self.proofs[at.0].handover;
        let epoch = self.handovers[handover.0].epoch + 1;
        let base = self.epochs[epoch].base;
        let configuration = self.configuration_of(epoch).clone();
        let index = configuration.index(id);
        let admits = index.and_then(|index| self.epochs[epoch].lives[index]);
        let machine = &mut self.machines[id.0];
        let disk = &mut machine.disk;
        let is_new = disk.epoch.is_none_or(|_| configuration.number > disk.erased);
        disk.link = None;
        disk.epoch = Some(epoch);
        disk.logged = 0;
        // A learner may have a state of this epoch already.
        disk.saved = disk.saved.filter(|saved| *saved >= base);
        if index.is_some() && !disk.secrets.contains(&configuration.secret) {
            disk.secrets.push(configuration.secret);
        }
        machine.start_device(admits, configuration.devices, is_new);
        let memory = std::mem::take(&mut machine.memory);
        machine.memory = Memory {
            state: memory.state.filter(|state| *state >= base),
            stage: if is_new { Stage::Logged } else { Stage::Running },
            channels: memory.channels,
            ..Memory::default()
        };
        for word in memory.early {
            self.count_word(id, word)?;
        }
        Ok(())
    }

    /// Then the folder of prepared keys becomes the folder of current ones.
    fn adopt_keys(&mut self, id: MemberId) {
        let number = self.number_at(id);
        let key = self.configurations[self.chain[number].0].key_of(id);
        let disk = &mut self.machines[id.0].disk;
        let is_prepared = |it: &Prepared| Some(it.key) == key;
        if let Some(at) = disk.prepared.iter().position(is_prepared) {
            disk.old.extend(disk.current);
            disk.current = Some(disk.prepared.remove(at).key);
        }
        self.machines[id.0].memory.stage = Stage::Adopted;
    }

    /// Last, the machine erases what could speak for an earlier configuration, and everything if
    /// it is no member of this one.
    fn erase(&mut self, id: MemberId) {
        let number = self.number_at(id);
        let configuration = &self.configurations[self.chain[number].0];
        let (secret, key) = (configuration.secret, configuration.key_of(id));
        let keeps_keys = !self.keeps(Rule::KeysErased);
        let disk = &mut self.machines[id.0].disk;
        disk.erased = number;
        disk.secrets.retain(|it| key.is_some() && *it == secret);
        if keeps_keys {
            return;
        }
        disk.old.clear();
        disk.prepared.clear();
        if disk.current != key {
            disk.current = None;
        }
    }

    /// A removed member exits when members of the next configuration hold the base: when so many
    /// said so that one of them is correct, or when their configuration has itself ended (its end
    /// takes a vote of a correct member that holds a later state).
    pub(super) fn retire(&mut self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        let Some(epoch) = machine.disk.epoch else { return false };
        let configuration = self.configuration_of(epoch);
        if configuration.has(id) || machine.memory.stage != Stage::Running {
            return false;
        }
        let settled = &machine.memory.settled;
        let is_held = settled.len() >= configuration.members.len() - configuration.f;
        let has_ended = |proof: &Proof| {
            self.handovers[proof.handover.0].epoch >= epoch
                && self.convinces(proof, self.epochs[epoch].configuration)
        };
        let released = is_held
            || self.keeps(Rule::ReleasedByProof) && self.proofs.iter().any(has_ended)
            || !self.keeps(Rule::RetireSettled);
        if released {
            let machine = &mut self.machines[id.0];
            machine.is_gone = true;
            machine.is_up = false;
            machine.memory.state = None;
            machine.disk.saved = None;
        }
        released
    }

    /// A removed member hears that another one holds the base, or a later state, durably.
    pub(super) fn hear_settled(&mut self, id: MemberId, from: MemberId) -> bool {
        let Some(epoch) = self.machines[id.0].disk.epoch else { return false };
        let base = self.epochs[epoch].base;
        let other = &self.machines[from.0];
        let holds = other.works()
            && other
                .disk
                .epoch
                .is_some_and(|at| at >= epoch && self.configuration_of(at).has(from))
            && other.disk.saved.is_some_and(|saved| saved >= base);
        let counts = self.configuration_of(epoch).has(from)
            && !self.configuration_of(epoch).has(id)
            && (holds || other.is_faulty());
        counts && self.machines[id.0].memory.settled.insert(from)
    }

    /// The process ends, and its device may lose its life with it.
    pub(super) fn lose_power(&mut self, id: MemberId, loses: bool) -> bool {
        let machine = &self.machines[id.0];
        if !machine.is_up {
            return false;
        }
        let has_newer = machine.disk.epoch.is_some() && self.number_at(id) > machine.disk.erased;
        let machine = &mut self.machines[id.0];
        machine.crash(has_newer);
        if loses {
            machine.lose_life();
        }
        true
    }

    /// The process starts again.
    pub(super) fn restart(&mut self, id: MemberId) -> Result<(), Broken> {
        self.machines[id.0].is_up = true;
        let disk = &self.machines[id.0].disk;
        if !self.keeps(Rule::LogIsTruth) && disk.epoch.is_some() && disk.file != self.number_at(id)
        {
            let how = format!("member {} starts in the configuration of its file", id.0);
            return Err(broken("configuration", how));
        }
        Ok(())
    }
}
