//! What liars tell Olympus.

use super::support::{ask_bytes, identity, life, state_after};
use super::world::{Broken, World};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::succession::MarkCertificate;
use pentarchy_core::wire::Wire;
use pentarchy_services::olympus::{Operation, Stage};

impl World {
    /// What a liar does in a step, whether or not it is a member.
    pub fn lie(&mut self, member: usize) -> Result<(), Broken> {
        if self.is_calm && self.liars_are_subtle {
            return self.accuse_only(member);
        }
        let status = self.status();
        if self.dice.roll(3) == 0 {
            self.register(member, &status)?;
        }
        if self.dice.roll(60) == 0 {
            self.replicas[member].life += 1;
        }
        if self.dice.roll(20) == 0 {
            self.babble(member)?;
        }
        if let Some(proposal) = &status.proposal {
            let (attempt, link) = (proposal.attempt, proposal.link.digest());
            let life = life(self.replicas[member].life);
            let slot = Slot(proposal.link.succession.handover.base.slot.0 + 1 + self.dice.roll(4));
            match self.dice.roll(6) {
                0 => drop(self.ask_as(member, &Operation::Holds { attempt, link, life })?),
                1 => drop(self.ask_as(member, &Operation::Lacks { attempt, link, slot })?),
                _ => {}
            }
        }
        let place = self.chain.place(member);
        match status.stage {
            Stage::Wedging { .. } => self.lie_of_history(member),
            Stage::Active if place.is_some() && (self.is_calm || self.dice.roll(20) == 0) => {
                let about = self.dice.roll(self.chain.members().len() as u64) as usize;
                if Some(about) == place { Ok(()) } else { self.accuse(member, about) }
            }
            _ => Ok(()),
        }
    }

    /// Does all that a correct member does, and accuses all the time.
    fn accuse_only(&mut self, member: usize) -> Result<(), Broken> {
        let status = self.status();
        self.register(member, &status)?;
        if let Some(proposal) = &status.proposal {
            let (attempt, link) = (proposal.attempt, proposal.link.digest());
            let life = life(self.replicas[member].life);
            self.ask_as(member, &Operation::Holds { attempt, link, life })?;
        }
        let Some(place) = self.chain.place(member) else { return Ok(()) };
        let members = self.chain.members();
        let correct: Vec<_> = members.iter().filter(|it| self.takes_part(**it)).collect();
        let of = **correct.first().expect("a member is correct");
        let (history, certificate) = self.truth_of(of);
        let report = self.report_of(place, history);
        self.ask_as(member, &Operation::Report { report, certificate })?;
        if status.stage == Stage::Active {
            let about =
                (place + 1 + self.dice.roll(members.len() as u64 - 1) as usize) % members.len();
            self.accuse(member, about)?;
        }
        Ok(())
    }

    /// Bytes that mean nothing, or almost something.
    fn babble(&mut self, member: usize) -> Result<(), Broken> {
        let about = ReplicaId(self.dice.roll(70) as u16);
        let why = "noise".to_owned();
        let accusation = Operation::Accuse { epoch: self.chain.epoch(), about, why };
        let mut bytes = accusation.to_bytes().to_vec();
        let at = self.dice.roll(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << self.dice.roll(8);
        bytes.truncate(1 + self.dice.roll(bytes.len() as u64) as usize);
        ask_bytes(&mut self.olympus, identity(member), self.time, &bytes);
        self.hear()
    }

    /// A history that is not so, in its own name or another's.
    fn lie_of_history(&mut self, member: usize) -> Result<(), Broken> {
        let members = self.chain.members();
        let any = self.dice.roll(members.len() as u64) as usize;
        let own = self.chain.place(member).filter(|_| self.dice.roll(3) > 0);
        let place = own.unwrap_or(any);
        let longest = members.iter().map(|it| &self.replicas[*it].ordered);
        let mut ordered = longest.max_by_key(|it| it.len()).cloned().unwrap_or_default();
        let least = self.chain.base;
        if ordered.len() < least {
            return Ok(());
        }
        if self.dice.roll(2) == 0 {
            let kept = least + self.dice.roll((ordered.len() - least) as u64 + 1) as usize;
            ordered.truncate(kept);
        }
        for _ in 0..self.dice.roll(4) {
            ordered.push(self.new_batch());
        }
        let (history, certificate) = self.with_a_base(place, &ordered);
        let report = self.report_of(place, history);
        drop(self.ask_as(member, &Operation::Report { report, certificate })?);
        Ok(())
    }

    /// On the base of the epoch, or on a state that it alone signs for.
    fn with_a_base(
        &mut self,
        place: usize,
        ordered: &[Digest],
    ) -> (History, Option<MarkCertificate>) {
        let (began, longer) = (self.chain.base, ordered.len() - self.chain.base);
        if longer == 0 || self.dice.roll(2) == 0 {
            let base: Base = self.chain.membership.base;
            return (History { base, batches: ordered[began..].to_vec() }, None);
        }
        let slot = began + 1 + self.dice.roll(longer as u64) as usize;
        let liars = (0..=self.f).filter(|it| self.replicas[self.chain.members()[*it]].lies);
        let mut signers: Vec<_> = liars.collect();
        if self.chain.believed.starts_with(&ordered[..slot]) && self.dice.roll(2) == 0 {
            // Correct replicas signed this one too, perhaps: then it is a real one, and known.
            let state = state_after(&ordered[..slot]).state;
            let is_real = self.chain.states.contains_key(&state);
            signers = if is_real { (0..=self.f).collect() } else { vec![place.min(self.f)] };
        }
        let history =
            History { base: state_after(&ordered[..slot]), batches: ordered[slot..].to_vec() };
        let certificate = self.certificate(&ordered[..slot], &signers);
        (history, Some(certificate))
    }
}
