//! Which of the things that the adversary can do it does in a run: chance says it.

use super::action::{Action, Scheme};
use super::rules::Rule;
use super::values::{HandoverId, MemberId, ProofId, Request};
use super::world::World;
use crate::Broken;

impl World {
    /// One thing that the adversary does.
    pub(super) fn scheme(&mut self) -> Result<(), Broken> {
        let member = MemberId(self.rng.usize(0..self.machines.len()));
        let scheme = match self.rng.u8(0..22) {
            0..=4 => Some(Scheme::Possess(member)),
            5..=6 => self.draw_claim(),
            7 => self.draw_false_admission(),
            8 => self.draw_handover(),
            9 => Some(Scheme::ForgeEnd(self.rng.usize(0..self.epochs.len()))),
            10..=12 => {
                self.apply(&Action::Scheme(Scheme::ForgeDevices))?;
                return self.speak_to_replica();
            }
            13..=16 => return self.speak_to_client(),
            17 => self.draw_proof(),
            18 => Some(Scheme::InventLink(self.rng.usize(0..self.chain.len()))),
            19..=20 => {
                self.say_old_ready();
                None
            }
            _ => Some(Scheme::StartTwice),
        };
        if let Some(scheme) = scheme {
            self.apply(&Action::Scheme(scheme))?;
        }
        Ok(())
    }

    /// A member of the adversary that is to say that it is ready.
    fn draw_claim(&mut self) -> Option<Scheme> {
        let pending = self.roster().pending.as_ref()?;
        let faulty = |id: &&MemberId| self.machines[id.0].is_faulty();
        let members = self.changes[pending.change.0].members.iter();
        let faulty: Vec<MemberId> = members.filter(faulty).copied().collect();
        self.rng.choice(faulty).map(Scheme::ClaimReady)
    }

    /// A member of the adversary that is to ask to be admitted.
    fn draw_false_admission(&mut self) -> Option<Scheme> {
        let configuration = self.configuration_of(self.epochs.len() - 1);
        let faulty = configuration.members.iter().filter(|it| self.machines[it.id.0].is_faulty());
        let faulty: Vec<MemberId> = faulty.map(|entry| entry.id).collect();
        let devices = configuration.devices;
        let member = self.rng.choice(faulty)?;
        (devices && self.rng.bool()).then_some(Scheme::ClaimAdmission(member))
    }

    fn draw_handover(&mut self) -> Option<Scheme> {
        let count = self.handovers.len();
        (count > 0).then(|| Scheme::Sign(HandoverId(self.rng.usize(0..count))))
    }

    fn draw_proof(&mut self) -> Option<Scheme> {
        let count = self.proofs.len();
        (count > 0).then(|| Scheme::AlterProof(ProofId(self.rng.usize(0..count))))
    }

    /// Sends again what a correct member said of itself for the pending change, in an earlier
    /// epoch.
    fn say_old_ready(&mut self) {
        let Some(pending) = &self.roster().pending else { return };
        let (change, last) = (pending.change, self.epochs.len() - 1);
        let is_old = |request: &&Request| {
            matches!(request, Request::Ready(it) if it.change == change && it.epoch < last
                && self.machines[it.member.0].is_correct())
        };
        let old: Vec<Request> = self.requests.iter().filter(is_old).copied().collect();
        self.requests.extend(self.rng.choice(old));
    }

    /// Tells a replica something false about its epoch, or about the next one.
    fn speak_to_replica(&mut self) -> Result<(), Broken> {
        let all = (0..self.machines.len()).map(MemberId);
        let ids: Vec<MemberId> = all.filter(|id| self.listens(*id)).collect();
        let Some(to) = self.rng.choice(ids) else { return Ok(()) };
        let own = self.machines[to.0].disk.epoch.expect("it was chosen so");
        let epoch = (own + self.rng.usize(0..3) / 2).min(self.epochs.len() - 1);
        for liar in (0..self.machines.len()).map(MemberId) {
            if self.rng.bool() {
                self.apply(&Action::Scheme(Scheme::Tell { to, epoch, liar }))?;
            }
        }
        Ok(())
    }

    /// Gives a client false answers.
    fn speak_to_client(&mut self) -> Result<(), Broken> {
        let client = self.rng.usize(0..self.clients.len());
        let number = self.clients[client].number;
        let members = self.configurations[self.chain[number].0].members.clone();
        for liar in members.into_iter().map(|entry| entry.id) {
            if self.can_pose(liar, number, Rule::WelcomeBySigning) && self.rng.bool() {
                self.apply(&Action::Scheme(Scheme::Answer { client, liar }))?;
            }
        }
        Ok(())
    }
}
