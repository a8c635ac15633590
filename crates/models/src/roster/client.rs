//! A client: it follows the chain, and believes an answer that `f + 1` members of one configuration
//! gave.

use super::rules::Rule;
use super::values::{MemberId, ProofId, Request};
use super::world::{World, broken};
use crate::Broken;

impl World {
    /// Sends the next operation.
    pub(super) fn ask(&mut self, at: usize) -> bool {
        let asks = self.clients[at].operation.is_none();
        if asks {
            let number = self.executed.len();
            self.executed.push(None);
            self.requests.push(Request::Operation(number));
            self.clients[at].operation = Some(number);
            self.clients[at].answers.clear();
        }
        asks
    }

    /// A member answers what it executed, as a member of the configuration that it is in.
    pub(super) fn hear_answer(&mut self, at: usize, from: MemberId) -> Result<bool, Broken> {
        let client = &self.clients[at];
        let machine = &self.machines[from.0];
        let (Some(epoch), Some(operation)) = (machine.disk.epoch, client.operation) else {
            return Ok(false);
        };
        let configuration = self.configuration_of(epoch);
        let done = self.executed[operation]
            .is_some_and(|slot| machine.memory.state.is_some_and(|state| state >= slot));
        let counts = machine.works()
            && configuration.has(from)
            && configuration.number == client.number
            && done;
        if counts { self.count_answer(at, from, true) } else { Ok(false) }
    }

    /// Counts an answer that came on the channel of a member of the client's configuration.
    pub(super) fn count_answer(
        &mut self,
        at: usize,
        from: MemberId,
        is_true: bool,
    ) -> Result<bool, Broken> {
        let f = self.configurations[self.chain[self.clients[at].number].0].f;
        let client = &mut self.clients[at];
        if client.operation.is_none() || client.answers.iter().any(|(other, _)| *other == from) {
            return Ok(false);
        }
        client.answers.push((from, is_true));
        let equal = client.answers.iter().filter(|(_, it)| *it == is_true).count();
        if equal > f {
            if !is_true {
                let how = format!(
                    "client {at} believes an answer in configuration {} that no member gave",
                    client.number
                );
                return Err(broken("acceptance", how));
            }
            client.operation = None;
        }
        Ok(true)
    }

    /// Follows a link of the chain, whoever sends it. Answers of two configurations never count
    /// together (A-R10): `f` bounds the liars of one of them.
    pub(super) fn follow_chain(&mut self, at: usize, proof: ProofId) -> Result<bool, Broken> {
        let proof = &self.proofs[proof.0];
        let number = self.clients[at].number;
        let named = self.handovers[proof.handover.0].configuration;
        let under = if self.keeps(Rule::ClientChain) { self.chain[number] } else { named };
        let Some(attached) = proof.attached.filter(|_| self.convinces(proof, under)) else {
            return Ok(false);
        };
        let next = self.configurations[attached.0].number;
        if next <= number {
            return Ok(false);
        }
        if self.chain.get(next) != Some(&attached) {
            let how = format!("client {at} follows a link to a configuration that never was");
            return Err(broken("configuration", how));
        }
        let clears = self.keeps(Rule::ClientCounts);
        let client = &mut self.clients[at];
        client.number = next;
        if clears {
            client.answers.clear();
        }
        Ok(true)
    }
}
