//! How an epoch is brought to its end: accusations, evidence, leases, and reports.

use super::answer::{Accusation, Answer, Refusal};
use super::operation::Conviction;
use super::reports::Judge;
use super::signatures::CheckSignatures;
use super::state::{Phase, State};
use super::terms::{GATHER_MILLIS, LEASE_MILLIS, score};
use alloc::string::String;
use pentarchy_core::ids::{ClientId, Epoch, Millis, ReplicaId};
use pentarchy_core::limits::CLOCK_SKEW_MILLIS;
use pentarchy_core::mutant;
use pentarchy_core::succession::{MarkCertificate, Report};

impl State {
    /// Which member of the epoch that works, or ends, asks.
    fn asking_member(&self, client: &ClientId, epoch: Epoch) -> Result<ReplicaId, Refusal> {
        let index = self.membership.member(client).ok_or(Refusal::NotYours)?;
        if epoch == self.membership.epoch { Ok(index) } else { Err(Refusal::NotNow) }
    }

    fn blame(&mut self, index: ReplicaId, by: u32) {
        if let Some(member) = self.member_at(index) {
            self.pool.blame(member, by);
        }
    }

    /// The first accusation ends the epoch. Who lies is unknown, so both come last in the next
    /// choice of members.
    pub fn accuse(
        &mut self,
        client: &ClientId,
        epoch: Epoch,
        about: ReplicaId,
        why: String,
    ) -> Result<Answer, Refusal> {
        let by = self.asking_member(client, epoch)?;
        if !self.membership.contains(about) {
            return Err(Refusal::NotYours);
        }
        if self.phase == Phase::Active {
            self.blame(about, score::ACCUSED);
            if !mutant!("olympus.keeps-accuser") {
                self.blame(by, score::ACCUSER);
            }
            self.end(Accusation { by: Some(by), about, why });
        }
        Ok(Answer::Done)
    }

    /// Signatures convince Olympus of what a member said. MACs do not: whoever can check one can
    /// make it.
    pub fn convict(
        &mut self,
        conviction: &Conviction,
        signatures: &dyn CheckSignatures,
    ) -> Result<Answer, Refusal> {
        let Conviction { epoch, by, one, other } = *conviction;
        if epoch != self.membership.epoch {
            return Err(Refusal::NotNow);
        }
        let domain = self.membership.domain();
        let Some(member) = self.membership.members.get(usize::from(by.0)) else {
            return Err(Refusal::NoContradiction);
        };
        let signed = [one, other].iter().all(|(mark, signature)| {
            signatures.signed(&member.signing, &mark.statement(&domain), signature)
        });
        if !conviction.contradicts() || !signed {
            return Err(Refusal::NoContradiction);
        }
        if self.convicted.insert(by) {
            self.blame(by, score::CONVICTED);
            self.end(Accusation { by: None, about: by, why: String::from("signed two states") });
        }
        Ok(Answer::Done)
    }

    /// The tail may read for a while from now on, unless its epoch is being ended. The lease runs
    /// from the agreed time at which this is executed: a primary that stamps it late gives a lease
    /// that is over early.
    pub fn renew(&mut self, client: &ClientId, epoch: Epoch) -> Result<Answer, Refusal> {
        let by = self.asking_member(client, epoch)?;
        if !self.terms.leases || by != self.tail() {
            return Err(Refusal::NotYours);
        }
        if self.wedge().is_some() {
            return Err(Refusal::NotNow);
        }
        self.lease = Millis(self.clock.0.saturating_add(LEASE_MILLIS));
        Ok(Answer::Lease(self.lease))
    }

    fn tail(&self) -> ReplicaId {
        ReplicaId((self.n() - 1) as u16)
    }

    /// Whether no tail reads any more in the epoch that ends: it has stopped, or its lease is over
    /// by every clock.
    pub fn lease_is_over(&self) -> bool {
        let over = self.lease.0.saturating_add(2 * CLOCK_SKEW_MILLIS);
        !self.terms.leases
            || self.reports.contains_key(&self.tail())
            || self.clock.0 > over
            || mutant!("olympus.issues-under-lease")
    }

    /// Of each member the first report counts, until the next configuration is issued.
    pub fn report(
        &mut self,
        client: &ClientId,
        report: Report,
        certificate: Option<&MarkCertificate>,
        signatures: &dyn CheckSignatures,
    ) -> Result<Answer, Refusal> {
        let Report { epoch, author, life, history } = report;
        let asks = self.asking_member(client, epoch);
        let is_heard = asks == Ok(author) || mutant!("olympus.hears-strangers");
        if !is_heard || !self.membership.contains(author) {
            return Err(asks.err().unwrap_or(Refusal::NotYours));
        }
        if self.wedge().is_none() {
            return Err(Refusal::NotNow);
        }
        if self.reports.contains_key(&author) {
            return Ok(Answer::Done);
        }
        let own = self.membership.members[usize::from(author.0)].life();
        let is_own = life == own && !self.failed.contains(author);
        if !is_own && !mutant!("olympus.takes-any-incarnation") {
            return Err(Refusal::OtherLife);
        }
        let configuration = self.configuration();
        let judge = Judge {
            membership: &self.membership,
            configuration: &configuration,
            inherits: &self.inherits,
            signatures,
        };
        let reported = judge.admit(history, certificate).ok_or(Refusal::Unfounded)?;
        self.reports.insert(author, reported);
        self.note_report(author);
        Ok(Answer::Done)
    }

    /// Whether it is time to choose: all members that can have reported, or had the time for it.
    /// One that reported and then lost its log does not stand for another: that one is not silent.
    pub fn has_gathered(&self) -> bool {
        let Some(wedge) = self.wedge() else { return false };
        let is_over = self.clock.0 >= wedge.since.0.saturating_add(GATHER_MILLIS);
        if mutant!("olympus.who-failed-is-two") {
            return is_over || self.reports.len() >= self.n() - self.failed.len();
        }
        let can = |id: &ReplicaId| !self.failed.contains(*id) && !self.reports.contains_key(id);
        is_over || !self.membership.ids().any(|id| can(&id))
    }

    /// Members that did not report come last for the next configuration.
    pub fn blame_the_silent(&mut self) {
        let Some(wedge) = self.wedge_mut() else { return };
        if !core::mem::replace(&mut wedge.has_blamed, true) {
            let silent = self.membership.ids().filter(|id| !self.reports.contains_key(id));
            silent.collect::<alloc::vec::Vec<_>>().into_iter().for_each(|id| {
                self.blame(id, score::SILENT);
            });
        }
    }
}
