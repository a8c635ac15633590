//! The adversary: it takes members, has what they still have, and says what it likes under every
//! key that it holds.

use super::action::Scheme;
use super::machine::Control;
use super::rules::Rule;
use super::values::{
    Configuration, ConfigurationId, Entry, Handover, HandoverId, Key, Life, MemberId, Proof,
    ProofId, Ready, Request,
};
use super::world::{World, broken};
use crate::Broken;
use std::collections::BTreeSet;

impl World {
    /// What the adversary does. Whether it could.
    pub(super) fn carry_out(&mut self, scheme: Scheme) -> Result<bool, Broken> {
        match scheme {
            Scheme::Possess(id) => return Ok(self.possess(id)),
            Scheme::ClaimReady(id) => return Ok(self.claim_ready(id)),
            Scheme::ClaimAdmission(id) => self.claim_admission(id),
            Scheme::Sign(id) => {
                self.sign_all(id);
                self.prove(id)?;
            }
            Scheme::ForgeEnd(epoch) => self.forge_end(epoch)?,
            Scheme::AlterProof(at) => self.alter_proof(at),
            Scheme::InventLink(number) => self.invent_link(number),
            Scheme::ForgeDevices => self.forge_devices()?,
            Scheme::StartTwice => self.start_twice()?,
            Scheme::Tell { to, epoch, liar } => self.tell(to, epoch, liar)?,
            Scheme::Answer { client, liar } => return self.answer_falsely(client, liar),
        }
        Ok(true)
    }

    /// Takes a member if no more than `f` of any configuration fail by that.
    fn possess(&mut self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        if self.calm || !machine.is_correct() {
            return false;
        }
        let freed: BTreeSet<usize> =
            (0..self.chain.len()).filter(|number| self.is_free_of(id, *number)).collect();
        let may_fail = self.may_fail(id, &freed);
        if may_fail {
            self.machines[id.0].freed = freed;
            self.take(id);
        }
        may_fail
    }

    /// Whether a member does not count for a configuration any more, because it erased its keys of
    /// it: it began a later one, and not with the same key. That is all for safety. Unless the
    /// adversary is early, the base with which that configuration ended must also be held by so
    /// many members of the next one that one of them is correct: until then its members are the
    /// only ones that have it.
    fn is_free_of(&self, id: MemberId, number: usize) -> bool {
        let erased = self.machines[id.0].disk.erased;
        let key_in = |number: usize| self.configurations[self.chain[number].0].key_of(id);
        let has_erased =
            number < erased && (key_in(erased).is_none() || key_in(erased) != key_in(number));
        let in_number = |epoch: &usize| self.configuration_of(*epoch).number > number;
        let Some(next) = (0..self.epochs.len()).find(in_number) else { return false };
        has_erased && (self.is_early || !self.keeps(Rule::CountsUntilHeld) || self.is_held(next))
    }

    /// Whether `n - f` members of an epoch hold its base durably, as far as anyone can tell, or
    /// the epochs behind it have been proved to have ended.
    fn is_held(&self, epoch: usize) -> bool {
        let configuration = self.configuration_of(epoch);
        let base = self.epochs[epoch].base;
        let holds = |entry: &&Entry| {
            let machine = &self.machines[entry.id.0];
            let begun = machine.disk.epoch.is_some_and(|at| at >= epoch);
            machine.is_faulty() || begun && machine.disk.saved.is_some_and(|it| it >= base)
        };
        let holders = configuration.members.iter().filter(holds).count();
        holders >= configuration.members.len() - configuration.f
    }

    /// All that a machine has is the adversary's from now on. A device still protects what belongs
    /// to configurations for which its member counts.
    pub(super) fn take(&mut self, id: MemberId) {
        let machine = &mut self.machines[id.0];
        machine.control = Control::Adversary;
        let keys: Vec<Key> = machine.keys().collect();
        let channels: Vec<usize> = machine.memory.channels.iter().copied().collect();
        self.stolen.extend(keys);
        if self.machines[id.0].is_up {
            self.taken_channels.extend(channels.into_iter().map(|number| (id, number)));
        }
    }

    /// A new configuration: its faulty members have their keys and what their devices need.
    pub(super) fn join_faulty(&mut self, id: ConfigurationId) {
        let Configuration { secret, members, .. } = self.configurations[id.0].clone();
        for entry in members {
            let machine = &mut self.machines[entry.id.0];
            if machine.is_faulty() {
                machine.disk.secrets.push(secret);
            }
        }
    }

    /// A member of the adversary says that it is ready, with a key that the adversary has.
    fn claim_ready(&mut self, member: MemberId) -> bool {
        let Some(pending) = &self.roster().pending else { return false };
        let change = pending.change;
        let devices = self.changes[change.0].devices;
        let signing = self.fresh_key();
        let life = devices.then(|| self.fresh_life());
        self.stolen.insert(signing);
        let epoch = self.epochs.len() - 1;
        self.requests.push(Request::Ready(Ready { member, epoch, change, signing, life }));
        true
    }

    /// A member of the adversary has the epoch ended for a new life of its device.
    fn claim_admission(&mut self, member: MemberId) {
        let epoch = self.epochs.len() - 1;
        let life = self.fresh_life();
        self.requests.push(Request::Admission { member, epoch, life });
    }

    /// Signs what was said about an end, be it true or not.
    fn sign_all(&mut self, id: HandoverId) {
        for key in self.stolen.iter().copied() {
            if !self.signatures.contains(&(key, id)) {
                self.signatures.push((key, id));
            }
        }
    }

    /// Makes a proof for every configuration that would be convinced. One of what never happened
    /// is a breach in itself.
    fn prove(&mut self, id: HandoverId) -> Result<(), Broken> {
        let Handover { next, genuine, configuration, epoch } = self.handovers[id.0];
        let signed: Vec<Key> =
            self.signatures.iter().filter(|(_, of)| *of == id).map(|(key, _)| *key).collect();
        for under in self.chain.clone() {
            let of = &self.configurations[under.0];
            let keys: Vec<Key> = signed.iter().copied().filter(|key| of.owns(*key)).collect();
            let proof = Proof { handover: id, keys, attached: next };
            if !self.convinces(&proof, under) {
                continue;
            }
            if !genuine && under == configuration {
                let how = format!("two different ends of epoch {epoch} are proved");
                return Err(broken("second proof", how));
            }
            self.keep_proof(proof);
        }
        Ok(())
    }

    /// Another end of an epoch, with a configuration that belongs to the adversary alone.
    fn forge_end(&mut self, epoch: usize) -> Result<(), Broken> {
        let configuration = self.epochs[epoch].configuration;
        let number = self.configurations[configuration.0].number + 1;
        let next = Some(self.own_configuration(number));
        let handover = Handover { epoch, configuration, next, genuine: false };
        let at = self
            .handovers
            .iter()
            .position(|it| !it.genuine && it.epoch == epoch && it.configuration == configuration);
        let id = HandoverId(at.unwrap_or_else(|| {
            self.handovers.push(handover);
            self.handovers.len() - 1
        }));
        self.sign_all(id);
        self.prove(id)
    }

    /// A configuration of which the adversary has all keys.
    fn own_configuration(&mut self, number: usize) -> ConfigurationId {
        let is_own = |it: &Configuration| {
            it.number == number
                && it.members.iter().all(|entry| self.stolen.contains(&entry.signing))
        };
        if let Some(at) = self.configurations.iter().position(is_own)
            && !self.chain.contains(&ConfigurationId(at))
        {
            return ConfigurationId(at);
        }
        let secret = self.fresh_secret();
        let mut members = Vec::new();
        for id in 0..3 {
            let signing = self.fresh_key();
            self.stolen.insert(signing);
            members.push(Entry { id: MemberId(id), signing });
        }
        self.configurations.push(Configuration { number, devices: true, f: 1, members, secret });
        ConfigurationId(self.configurations.len() - 1)
    }

    /// Whether the adversary can speak as a member of a configuration where no signature is asked
    /// for: a channel counts for a configuration once its signing key signed for it.
    pub(super) fn can_pose(&self, id: MemberId, number: usize, by_signing: Rule) -> bool {
        let configuration = &self.configurations[self.chain[number].0];
        let Some(key) = configuration.key_of(id) else { return false };
        self.stolen.contains(&key)
            || self.taken_channels.contains(&(id, number))
            || !self.keeps(by_signing) && self.machines[id.0].is_faulty()
    }

    /// Whether a machine is a replica to which something false can be told.
    pub(super) fn listens(&self, id: MemberId) -> bool {
        let machine = &self.machines[id.0];
        machine.works() && machine.disk.epoch.is_some() && machine.memory.state.is_some()
    }

    /// Tells a replica something false about a slot of an epoch, if the adversary can speak as that
    /// member. Replicas believe `f + 1`.
    fn tell(&mut self, to: MemberId, epoch: usize, liar: MemberId) -> Result<(), Broken> {
        let Some(own) = self.machines[to.0].disk.epoch else { return Ok(()) };
        let number = self.configuration_of(epoch).number;
        if !self.can_pose(liar, number, Rule::PeersBySigning) {
            return Ok(());
        }
        let early = self.configuration_of(own).index(liar);
        let early = early.filter(|_| !self.keeps(Rule::EpochFirst));
        self.count_word(to, (epoch, early, liar))
    }

    /// Counts a false word that a channel brought, or keeps it until its epoch begins.
    pub(super) fn count_word(
        &mut self,
        to: MemberId,
        word: (usize, Option<usize>, MemberId),
    ) -> Result<(), Broken> {
        let (epoch, early, liar) = word;
        let Some(own) = self.machines[to.0].disk.epoch else { return Ok(()) };
        let configuration = self.configuration_of(own);
        let (f, n) = (configuration.f, configuration.members.len());
        let index = early.filter(|at| *at < n).or_else(|| configuration.index(liar));
        let counts = configuration.has(to);
        let has_ended = self.machines[to.0].memory.state
            == self.epochs[own].end.map(|_| self.epochs[own].tip());
        let memory = &mut self.machines[to.0].memory;
        if epoch > own {
            if !memory.early.contains(&word) {
                memory.early.push(word);
            }
            return Ok(());
        }
        if epoch < own || !counts || has_ended {
            return Ok(());
        }
        memory.heard.extend(index);
        if memory.heard.len() > f {
            let how = format!("member {} believes a false slot of epoch {epoch}", to.0);
            return Err(broken("agreement", how));
        }
        Ok(())
    }

    /// Gives a client a false answer, if the adversary can speak as that member.
    fn answer_falsely(&mut self, client: usize, liar: MemberId) -> Result<bool, Broken> {
        let number = self.clients[client].number;
        let can_pose = self.can_pose(liar, number, Rule::WelcomeBySigning);
        if can_pose { self.count_answer(client, liar, false) } else { Ok(false) }
    }

    /// With the secret of devices, the adversary certifies as every device of the configuration,
    /// and has a replica that is still in it execute whatever it likes.
    fn forge_devices(&mut self) -> Result<(), Broken> {
        for machine in self.machines.iter().filter(|machine| machine.works()) {
            let Some(epoch) = machine.disk.epoch else { continue };
            let configuration = self.configuration_of(epoch);
            let has_ended =
                machine.memory.state == self.epochs[epoch].end.map(|_| self.epochs[epoch].tip());
            if !configuration.devices || !configuration.has(machine.id) || has_ended {
                continue;
            }
            if let Some(thief) = self.knows_secret(configuration) {
                let how = format!(
                    "member {} executes in epoch {epoch} what member {} forged as all devices",
                    machine.id.0, thief.0
                );
                return Err(broken("agreement", how));
            }
        }
        Ok(())
    }

    /// Which member of the adversary gave away a configuration's secret. A device protects what it
    /// holds if its member counts in all configurations that use it.
    fn knows_secret(&self, configuration: &Configuration) -> Option<MemberId> {
        let secret = configuration.secret;
        let counts = |id: MemberId| {
            self.chain.iter().map(|at| &self.configurations[at.0]).all(|it| {
                it.secret != secret || it.has(id) && !self.machines[id.0].freed.contains(&it.number)
            })
        };
        let was_sealed = |id: MemberId| {
            !self.keeps(Rule::SealedToPassing) && configuration.number > 0 && configuration.has(id)
        };
        let knows = |id: MemberId| {
            let machine = &self.machines[id.0];
            let opened = machine.disk.prepared.iter().any(|it| it.secret == secret);
            machine.is_faulty()
                && (machine.disk.secrets.contains(&secret) || opened || was_sealed(id))
                && !counts(id)
        };
        (0..self.machines.len()).map(MemberId).find(|id| knows(*id))
    }

    /// Attaches another configuration to a proof.
    fn alter_proof(&mut self, at: ProofId) {
        let mut proof = self.proofs[at.0].clone();
        if let Some(next) = self.handovers[proof.handover.0].next {
            let number = self.configurations[next.0].number;
            proof.attached = Some(self.own_configuration(number));
            self.keep_proof(proof);
        }
    }

    /// A link between two configurations of the adversary, under its own keys.
    fn invent_link(&mut self, number: usize) {
        let configuration = self.own_configuration(number);
        let next = self.own_configuration(number + 1);
        let known = |it: &Handover| it.configuration == configuration && it.next == Some(next);
        if self.handovers.iter().any(known) {
            return;
        }
        let epoch = self.epochs.len() - 1;
        let handover = Handover { epoch, configuration, next: Some(next), genuine: false };
        self.handovers.push(handover);
        let id = HandoverId(self.handovers.len() - 1);
        let keys = self.configurations[configuration.0].members.iter().map(|it| it.signing);
        let proof = Proof { handover: id, keys: keys.collect(), attached: Some(next) };
        self.keep_proof(proof);
    }

    /// A device that starts under a life which its host can name starts twice: then two devices
    /// give two statements one counter value.
    fn start_twice(&mut self) -> Result<(), Broken> {
        let last = self.epochs.len() - 1;
        let configuration = self.configuration_of(last);
        for (entry, life) in configuration.members.iter().zip(&self.epochs[last].lives) {
            if self.machines[entry.id.0].is_faulty() && matches!(life, Some(Life::Named(..))) {
                let how = format!("member {} runs two devices of one incarnation", entry.id.0);
                return Err(broken("agreement", how));
            }
        }
        Ok(())
    }
}
