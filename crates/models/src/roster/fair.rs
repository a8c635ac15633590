//! The end of a run: the adversary is silent, all correct machines run, and everything that they
//! say arrives. Then all that is under way has to come to its end.

use super::machine::{Control, Stage};
use super::rules::Rule;
use super::values::{HandoverId, Key, MemberId, Pending, ProofId, Ready, Request, WAIT};
use super::world::{World, broken};
use crate::Broken;

/// Rounds that are enough for whatever can be under way.
const ROUNDS: u32 = 30 + 4 * WAIT;

impl World {
    /// Runs to the end, and checks that nobody is stuck.
    pub(super) fn finish(&mut self) -> Result<(), Broken> {
        let current = &self.configurations[self.current().0];
        let in_bounds = self.missing(current) <= current.f;
        assert!(in_bounds || self.without.is_some(), "the adversary keeps to its bound");
        if self.is_early {
            return Ok(());
        }
        for machine in 0..self.machines.len() {
            let id = MemberId(machine);
            let starts = !self.machines[machine].is_up && !self.machines[machine].is_gone;
            if starts && self.machines[machine].is_correct() {
                self.restart(id)?;
            }
        }
        self.settle()?;
        self.check_pending()?;
        for at in 0..self.clients.len() {
            self.ask(at);
        }
        self.settle()?;
        self.check_stuck()
    }

    /// Rounds, until one changes nothing.
    fn settle(&mut self) -> Result<(), Broken> {
        let sent = self.requests.clone();
        let operations = sent.into_iter().filter(|it| matches!(it, Request::Operation(_)));
        let mut open: Vec<Request> = operations.collect();
        for _ in 0..ROUNDS {
            let mut changed = false;
            for id in (0..self.machines.len()).map(MemberId) {
                while self.machines[id.0].works() && self.advance(id)? {
                    changed = true;
                }
            }
            open.extend(self.sent_again());
            for request in std::mem::take(&mut open) {
                let order = self.order(request, false)?;
                changed |= order;
                self.follow_all();
            }
            for at in 0..self.clients.len() {
                changed |= self.serve(at)?;
            }
            if !changed {
                break;
            }
            open = self.unexecuted();
        }
        Ok(())
    }

    fn unexecuted(&self) -> Vec<Request> {
        let waits = |number: &usize| self.executed[*number].is_none();
        (0..self.executed.len()).filter(waits).map(Request::Operation).collect()
    }

    fn follow_all(&mut self) {
        for id in (0..self.machines.len()).map(MemberId) {
            while self.machines[id.0].works() && self.follow(id) {}
        }
    }

    /// What correct members say again as long as it is not settled. A member says that it is ready
    /// while the change is pending, counted or not: agreed time passes only with slots.
    fn sent_again(&mut self) -> Vec<Request> {
        let mut again = Vec::new();
        let last = self.epochs.len() - 1;
        let of_epoch = |request: &&Request| {
            matches!(request, Request::Admission { member, epoch, .. }
                if *epoch == last && self.machines[member.0].works())
        };
        again.extend(self.requests.iter().filter(of_epoch));
        let Some(pending) = &self.roster().pending else { return again };
        let epoch = self.epochs.len() - 1;
        for machine in self.machines.iter().filter(|machine| machine.works()) {
            let counted = pending.ready.contains_key(&machine.id);
            if counted && !self.keeps(Rule::ReadyRepeated) {
                continue;
            }
            let made = machine.disk.prepared.iter().find(|it| it.change == pending.change);
            again.extend(made.map(|it| {
                let (member, change, signing, life) = (machine.id, it.change, it.key, it.life);
                Request::Ready(Ready { member, epoch, change, signing, life })
            }));
        }
        again
    }

    /// One thing that a correct machine can do, with what others that run say now.
    fn advance(&mut self, id: MemberId) -> Result<bool, Broken> {
        if self.begin_step(id)? || self.follow(id) || self.fetch(id) || self.save(id) {
            return Ok(true);
        }
        if self.vote(id) || self.hear_others(id)? {
            return Ok(true);
        }
        let rests = self.machines[id.0].memory.stage == Stage::Running;
        Ok(rests && (self.prepare(id) || self.ask_admission(id) || self.retire(id)))
    }

    /// Votes, proofs and words about the base of all machines that run.
    fn hear_others(&mut self, id: MemberId) -> Result<bool, Broken> {
        for from in (0..self.machines.len()).map(MemberId) {
            if from == id || !self.machines[from.0].works() {
                continue;
            }
            if let Some(vote) = self.vote_of(from)
                && self.hear_vote(id, vote)
            {
                return Ok(true);
            }
            if let Some(proof) = self.proof_for(id, from)
                && self.hear_proof(id, proof)?
            {
                return Ok(true);
            }
            if self.hear_settled(id, from) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The vote that a member repeats until the next epoch begins.
    fn vote_of(&self, from: MemberId) -> Option<(Key, HandoverId)> {
        let machine = &self.machines[from.0];
        let epoch = machine.disk.epoch.filter(|_| machine.memory.voted)?;
        let key = self.configuration_of(epoch).key_of(from)?;
        Some((key, self.epochs[epoch].end?))
    }

    /// The proof that a machine shows to one that is behind: the next link of the chain, or the
    /// last end in the configuration of both.
    fn proof_for(&self, to: MemberId, from: MemberId) -> Option<ProofId> {
        let (own, other) = (self.number_at(to), self.machines[from.0].disk.chain);
        let reached = self.machines[from.0].disk.epoch?;
        let has_link = if self.keeps(Rule::WholeChain) { other > own } else { other == own + 1 };
        let of = |at: &usize| {
            let proof = &self.proofs[*at];
            let handover = &self.handovers[proof.handover.0];
            let is_link = handover.next.is_some();
            let under = self.chain[own];
            handover.genuine
                && handover.configuration == under
                && handover.next == proof.attached
                && self.convinces(proof, under)
                && if other > own {
                    has_link && is_link
                } else {
                    !is_link && handover.epoch < reached
                }
        };
        let known = (0..self.proofs.len()).filter(of);
        known.max_by_key(|at| self.handovers[self.proofs[*at].handover.0].epoch).map(ProofId)
    }

    /// A client hears what all machines say to it.
    fn serve(&mut self, at: usize) -> Result<bool, Broken> {
        let mut changed = false;
        for from in (0..self.machines.len()).map(MemberId) {
            if !self.machines[from.0].works() {
                continue;
            }
            let number = self.clients[at].number;
            if self.machines[from.0].disk.chain > number {
                let link = (0..self.proofs.len()).find(|it| {
                    let proof = &self.proofs[*it];
                    let handover = &self.handovers[proof.handover.0];
                    let next = self.chain.get(number + 1).copied();
                    handover.genuine
                        && proof.attached == next
                        && next == handover.next
                        && self.convinces(proof, self.chain[number])
                });
                if let Some(link) = link {
                    changed |= self.follow_chain(at, ProofId(link))?;
                }
            }
            changed |= self.hear_answer(at, from)?;
        }
        Ok(changed)
    }

    /// Whether all of those that a pending change still needs could be ready.
    fn could_end(&self, pending: &Pending) -> bool {
        let change = &self.changes[pending.change.0];
        let current = &self.configurations[self.current().0];
        let willing = |id: &MemberId| {
            let machine = &self.machines[id.0];
            machine.is_correct() && !machine.is_gone
                || machine.is_faulty() && pending.ready.contains_key(id)
        };
        let is_needed = |id: &MemberId| {
            change.needed.contains(id) || change.devices && !(current.devices && current.has(*id))
        };
        let all = change.members.iter().filter(|id| is_needed(id)).all(willing);
        let count = change.members.iter().filter(|id| willing(id)).count();
        all && count >= change.members.len() - change.f && change.expires == u32::MAX
    }

    /// Every pending change with enough willing members has ended.
    fn check_pending(&self) -> Result<(), Broken> {
        match &self.roster().pending {
            Some(pending) if self.could_end(pending) => {
                let how = format!("change {} stays pending for ever", pending.change.0);
                Err(broken("liveness", how))
            }
            _ => Ok(()),
        }
    }

    /// Every correct member is in the last epoch with its state, removed ones are gone, and clients
    /// have their answers.
    fn check_stuck(&self) -> Result<(), Broken> {
        let last = self.epochs.len() - 1;
        let tip = self.epochs[last].tip();
        let fails = |how: String| Err(broken("liveness", how));
        if let Some(at) = self.clients.iter().position(|client| client.operation.is_some()) {
            return fails(format!("client {at} waits for ever"));
        }
        for machine in &self.machines {
            let is_member = self.configuration_of(last).has(machine.id);
            let was_member = machine.disk.epoch.is_some();
            if machine.control != Control::Rules || !(is_member || was_member) {
                continue;
            }
            let there = machine.runs(last)
                && machine.memory.state == Some(tip)
                && machine.memory.stage == Stage::Running;
            if is_member && !there {
                return fails(format!("member {} never gets to epoch {last}", machine.id.0));
            }
            if !is_member && !machine.is_gone {
                return fails(format!("member {} was removed and never ends", machine.id.0));
            }
        }
        Ok(())
    }
}
