//! Who is in the pool, and as whom: what administrators and candidates say.

use super::answer::{Accusation, Answer, Refusal};
use super::operation::Operation;
use super::pool::Registered;
use super::state::State;
use super::terms::{POOL_MAX, score};
use alloc::string::String;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, MemberId};
use pentarchy_core::limits::ADDRESS_BYTES_MAX;
use pentarchy_core::membership::Life;
use pentarchy_core::mutant;
use pentarchy_core::wire::Wire as _;

impl State {
    /// An administrator asks for this. It is done once as many administrators as the configuration
    /// wants have asked for the same, each by a request of its own.
    pub fn govern(&mut self, client: ClientId, operation: &Operation) -> Result<Answer, Refusal> {
        let administrators = &self.configuration().administrators;
        if !administrators.keys.contains(&client.0) {
            return Err(Refusal::NotYours);
        }
        let wanted = Digest::of(&operation.to_bytes());
        self.votes.insert(client, wanted);
        let agree = self.votes.values().filter(|vote| **vote == wanted).count();
        if agree < usize::from(administrators.threshold) {
            return Ok(Answer::Done);
        }
        self.votes.retain(|_, vote| *vote != wanted);
        match operation {
            Operation::Enrol { identity, address } => self.enrol(*identity, address),
            Operation::Dismiss(member) => self.dismiss(*member),
            Operation::Spares(count) => {
                self.spares = *count;
                Ok(Answer::Done)
            }
            _ => Err(Refusal::NotSo),
        }
    }

    fn enrol(&mut self, identity: [u8; 32], address: &str) -> Result<Answer, Refusal> {
        let is_full = self.pool.len() >= POOL_MAX || self.pool.next_member() == MemberId(u32::MAX);
        if is_full {
            return Err(Refusal::PoolFull);
        }
        if !(1..=ADDRESS_BYTES_MAX).contains(&address.len()) {
            return Err(Refusal::Address);
        }
        if self.pool.has_key(&identity, None) {
            return Err(Refusal::KeyTaken);
        }
        self.pool.add(identity, String::from(address));
        Ok(Answer::Done)
    }

    /// A member that is dismissed still reports: only it may have what others cannot miss.
    fn dismiss(&mut self, member: MemberId) -> Result<Answer, Refusal> {
        if self.pool.get(member).is_some() && self.pool.len() <= self.n() {
            return Err(Refusal::TooFew);
        }
        if self.pool.remove(member).is_none() {
            return Ok(Answer::Done);
        }
        self.stop_preparing_with(member);
        if let Some(about) = self.membership.index_of(member) {
            self.end(Accusation { by: None, about, why: String::from("dismissed") });
        }
        Ok(Answer::Done)
    }

    /// A candidate says as whom it can be a member from now on.
    pub fn register(
        &mut self,
        client: &ClientId,
        signing: [u8; 32],
        life: Life,
    ) -> Result<Answer, Refusal> {
        let member = self.pool.of_client(client).ok_or(Refusal::NotYours)?;
        if self.pool.has_key(&signing, Some(member)) {
            return Err(Refusal::KeyTaken);
        }
        let now = Registered { signing, life };
        let before = self.pool.get(member).and_then(|candidate| candidate.registered);
        if before == Some(now) {
            return Ok(Answer::Done);
        }
        self.pool.register(member, Some(now));
        let index = self.membership.index_of(member);
        let lost = index.filter(|it| self.membership.members[usize::from(it.0)].life() != life);
        if let Some(about) = lost {
            self.failed.insert(about);
            self.end(Accusation { by: None, about, why: String::from("lost what it ordered") });
        }
        self.comes_back_as(member, now);
        Ok(Answer::Done)
    }

    /// A proposal names the life that holds what it names. One that lost it since is no member of
    /// it: the attempt ends, and nothing is said against the choice.
    fn comes_back_as(&mut self, member: MemberId, now: Registered) {
        if mutant!("olympus.holds-in-any-life") {
            let Some(preparing) = self.preparing_mut() else { return };
            let link = &mut preparing.proposal.link;
            let place = link.next.members.iter().position(|it| it.id == member);
            place.into_iter().for_each(|at| link.succession.handover.lives[at] = now.life);
        } else {
            self.stop_preparing_with(member);
        }
    }

    fn stop_preparing_with(&mut self, member: MemberId) {
        let Some(wedge) = self.wedge_mut() else { return };
        let is_in = wedge.preparing.take_if(|preparing| {
            preparing.proposal.link.next.members.iter().any(|it| it.id == member)
        });
        if is_in.is_some() {
            self.pool.blame(member, score::EMPTY_HANDED);
        }
    }
}
