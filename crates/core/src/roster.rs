//! The part of the replicated state that is about the group itself: which lives of the members'
//! devices count, and which configuration is to be the next one. It changes by ordered requests of
//! members and administrators only, and with agreed time.

mod admitted;
mod proposals;
mod refusal;
mod rules;

use crate::change::{Answer, Change, Petition, Ready, Shown};
use crate::configuration::Configuration;
use crate::digest::Digest;
use crate::epochs::Admission;
use crate::ids::{ClientId, Epoch, MemberId, Millis};
use crate::limits::REPLICAS_MAX;
use crate::membership::{Life, Member, Membership};
use crate::mutant;
use crate::protocol::Authority;
use crate::request::Request;
use crate::service::Context;
use crate::wire::{Malformed, Reader, Wire, Writer};
use admitted::Admitted;
use alloc::collections::BTreeMap;
use alloc::string::ToString as _;
use alloc::sync::Arc;
use alloc::vec::Vec;
use proposals::{Pending, Proposals};
use refusal::Refusal;

/// What an epoch ends with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ending {
    /// The lives of the next epoch's devices, by member.
    pub lives: Vec<Life>,
    /// The next configuration, if it is another one.
    pub next: Option<Arc<Configuration>>,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Roster {
    /// Of the epoch in which slots are executed.
    membership: Arc<Membership>,
    /// What the epoch ends with; none as long as it goes on.
    ending: Option<Ending>,
    /// Of members that were admitted since the group began.
    admitted: BTreeMap<MemberId, Admitted>,
    proposals: Proposals,
    /// Whether the members or a service decide which lives count. If a service does, the roster is
    /// no part of the state, so a state is the same in every epoch.
    authority: Authority,
}

impl Roster {
    pub fn new(membership: Arc<Membership>) -> Self {
        Self {
            membership,
            ending: None,
            admitted: BTreeMap::new(),
            proposals: Proposals::default(),
            authority: Authority::Members,
        }
    }

    pub const fn set_authority(&mut self, authority: Authority) {
        self.authority = authority;
    }

    pub const fn membership(&self) -> &Arc<Membership> {
        &self.membership
    }

    /// Whether the last slot of the epoch was executed.
    pub const fn is_ending(&self) -> bool {
        self.ending.is_some()
    }

    /// What the epoch ends with, if it does.
    pub const fn ending(&self) -> Option<&Ending> {
        self.ending.as_ref()
    }

    /// How often what was proposed for this configuration was withdrawn.
    pub const fn withdrawn(&self) -> u32 {
        self.proposals.withdrawn()
    }

    /// The change that waits for its members, and its digest.
    pub fn pending(&self) -> Option<(&Arc<Change>, Digest)> {
        self.proposals.pending().map(|pending| (&pending.change, pending.digest))
    }

    /// As what this member of the pending configuration is counted as ready, if it is.
    pub fn ready_as(&self, member: &ClientId) -> Option<&Ready> {
        self.proposals.ready_as(member)
    }

    /// The configuration, if the members can change it.
    fn changing(&self) -> Option<Arc<Configuration>> {
        let stated = self.membership.stated.clone();
        stated.filter(|_| self.authority == Authority::Members)
    }

    /// Whether what this client has ordered is to the group itself: it is a member, an
    /// administrator, or a member of the pending configuration.
    pub fn governs(&self, client: &ClientId) -> bool {
        self.membership.governs(client) || self.proposals.invited(client).is_some()
    }

    /// A slot with this agreed time begins.
    pub fn begin_slot(&mut self, now: Millis) {
        self.proposals.expire(now);
    }

    /// A slot with this agreed time ends, and with it perhaps the epoch.
    pub fn end_slot(&mut self, now: Millis) {
        let Some(current) = &self.membership.stated else { return };
        if self.proposals.is_due(now, current) {
            let lives = self.next_lives();
            if let Some((next, lives)) = self.proposals.assemble(&self.membership, &lives) {
                self.ending = Some(Ending { lives, next: Some(Arc::new(next)) });
            }
        }
    }

    /// Executes a request to the group. The answer is for people: what counts is the epoch that
    /// follows.
    pub fn execute(&mut self, context: &Context, request: &Request) -> Vec<u8> {
        let (client, now) = (&context.client, context.time);
        let answer = match Petition::from_bytes(&request.operation) {
            Ok(Petition::Admit(admission)) => self.admit(client, now, admission),
            Ok(Petition::Show) => match self.show(client, now, request.number) {
                Ok(shown) => return shown.to_bytes().to_vec(),
                Err(refusal) => Err(refusal),
            },
            Ok(petition) => self.govern(client, now, request.number, petition),
            Err(Malformed) => Err(Refusal::Unknown),
        };
        let answer = answer.map_or_else(|refusal| refusal.to_string(), |it| it.text().into());
        answer.into_bytes()
    }

    /// How the group is, for an administrator.
    fn show(&mut self, client: &ClientId, time: Millis, number: u64) -> Result<Shown, Refusal> {
        let current = self.changing().filter(|_| self.membership.has_administrator(client));
        let current = current.ok_or(Refusal::NoAdministrator)?;
        if !self.proposals.begin(client, number) {
            return Err(Refusal::OldRequest);
        }
        Ok(Shown {
            epoch: self.membership.epoch,
            time,
            // The first addresses each host has from its own file.
            configuration: current.agreed(),
            withdrawn: self.proposals.withdrawn(),
            pending: self.proposals.pending().map(Pending::shown),
            proposed: self.proposals.proposed(),
        })
    }

    /// Executes a petition that is about the next configuration.
    fn govern(
        &mut self,
        client: &ClientId,
        now: Millis,
        number: u64,
        petition: Petition,
    ) -> Result<Answer, Refusal> {
        let current = self.changing().ok_or(Refusal::NoAdministrator)?;
        let (epoch, named) = (self.membership.epoch, self.membership.configuration);
        let is_administrator = self.membership.has_administrator(client);
        // The number of a member's request means nothing: a member names the epoch.
        let has_number = is_administrator && !matches!(petition, Petition::Ready(_));
        if has_number && !self.proposals.begin(client, number) {
            return Err(Refusal::OldRequest);
        }
        match (petition, is_administrator) {
            // Readiness counts for one epoch, and an admission in this slot has ended that: the
            // member may have said so as the life that it has lost.
            (Petition::Ready(_), _)
                if self.ending.is_some() && !mutant!("roster.ready-behind-the-end") =>
            {
                Err(Refusal::OtherEpoch)
            }
            (Petition::Ready(ready), _) => self.proposals.ready(client, ready, (epoch, &current)),
            (Petition::Propose(change), true) => {
                self.proposals.propose(client, &change, (named, &current), now)
            }
            (Petition::Withdraw(asked), true) => {
                self.proposals.withdraw(client, &asked, (named, &current))
            }
            _ => Err(Refusal::NoAdministrator),
        }
    }

    /// Whether executing a request to the group could change anything, at this agreed time or
    /// later. One that cannot need not be ordered: old ones can be sent again by anybody, at any
    /// time.
    pub fn is_open(&self, client: &ClientId, request: &Request, now: Millis) -> bool {
        let Ok(petition) = Petition::from_bytes(&request.operation) else { return false };
        if let Petition::Admit(asked) = &petition {
            let is_open = |index| self.refuses_admission(index, asked).is_none();
            return self.member(client).is_some_and(is_open);
        }
        let Some(current) = self.changing() else { return false };
        let (epoch, current) = (self.membership.epoch, &*current);
        let named = self.membership.configuration;
        let is_later = self.proposals.is_later(client, request.number);
        match (petition, self.membership.has_administrator(client) && is_later) {
            // Also if it is counted: nothing else may move the agreed time of an idle group.
            (Petition::Ready(asked), _) => {
                self.proposals.refuses_ready(client, &asked, (epoch, current)).is_none()
            }
            // In an idle group the agreed time is far behind, until this is ordered.
            (Petition::Propose(asked), true) => {
                let refusal =
                    self.proposals.refuses_proposal(client, &asked, (named, current), now);
                refusal.is_none_or(|refusal| refusal == Refusal::TooFarAhead)
            }
            (Petition::Withdraw(asked), true) => {
                self.proposals.refuses_withdrawal(client, &asked, named).is_none()
            }
            (Petition::Show, true) => true,
            _ => false,
        }
    }

    fn member(&self, client: &ClientId) -> Option<usize> {
        self.membership.member(client).map(|member| usize::from(member.0))
    }

    /// Which life of a member's device counts from the next epoch on, as far as that is the same
    /// group as now.
    fn life(&self, index: usize) -> Life {
        let next = self.ending.as_ref().and_then(|ending| ending.lives.get(index)).copied();
        next.unwrap_or_else(|| self.membership.members[index].life())
    }

    /// Which lives count from the next epoch on; the same as now as long as this one goes on.
    fn next_lives(&self) -> Vec<Life> {
        let ending = self.ending.as_ref().map(|ending| ending.lives.clone());
        ending.unwrap_or_else(|| lives_of(&self.membership))
    }

    /// Why an admission is refused in this epoch, whenever it is asked for.
    fn refuses_admission(&self, index: usize, asked: &Admission) -> Option<Refusal> {
        let life = self.life(index);
        if self.authority == Authority::Service {
            Some(Refusal::ByService)
        } else if self.ending.as_ref().is_some_and(|ending| ending.next.is_some()) {
            Some(Refusal::Ended)
        } else if asked.epoch != self.membership.epoch {
            Some(Refusal::OtherEpoch)
        } else if asked.configuration != self.membership.configuration {
            Some(Refusal::OtherConfiguration)
        } else if life == asked.life {
            Some(Refusal::AdmittedAlready)
        } else if !(life.is_mac() && asked.life.is_mac()) {
            // Nothing says yet that a key lies in a device and not in a liar's memory.
            Some(Refusal::NotAttested)
        } else {
            None
        }
    }

    fn admit(
        &mut self,
        client: &ClientId,
        now: Millis,
        asked: Admission,
    ) -> Result<Answer, Refusal> {
        let index = self.member(client).ok_or(Refusal::NoMember)?;
        let life = asked.life;
        self.refuses_admission(index, &asked).map_or(Ok(()), Err)?;
        let member = self.membership.members[index].id;
        let admitted = self.admitted.get(&member).copied().unwrap_or_default();
        if !admitted.has_waited(now) {
            return Err(Refusal::TooSoon);
        }
        let mut lives = self.next_lives();
        lives[index] = life;
        if mutant!("roster.admits-another") {
            let other = (index + 1) % lives.len();
            lives[other] = life;
        }
        let is_new = lives != lives_of(&self.membership);
        self.ending = is_new.then_some(Ending { lives, next: None });
        self.admitted.insert(member, admitted.next(now));
        self.proposals.is_admitted_anew(member);
        Ok(Answer::Admitted)
    }

    /// The next epoch.
    pub fn begin(&mut self, membership: Arc<Membership>) {
        if membership.configuration != self.membership.configuration {
            let stays = |id: &MemberId| membership.members.iter().any(|member| member.id == *id);
            self.admitted.retain(|id, _| stays(id));
            self.proposals = Proposals::default();
        }
        self.ending = None;
        self.membership = membership;
    }

    /// The epoch and the configuration in the roster of any snapshot.
    pub fn group_in(from: &mut Reader<'_>) -> Result<(Epoch, Option<Configuration>), Malformed> {
        let epoch = Epoch::decode(from)?;
        from.sequence::<(Life, Admitted)>(REPLICAS_MAX)?;
        Ok((epoch, from.option()?))
    }

    /// The roster of a snapshot, which must be of the epoch in which it is installed, or the one
    /// with which that epoch ends.
    pub fn restored(&self, from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let epoch = Epoch::decode(from)?;
        let entries: Vec<(Life, Admitted)> = from.sequence(REPLICAS_MAX)?;
        if self.authority == Authority::Service {
            return (entries.is_empty() && epoch == Epoch(0))
                .then(|| self.clone())
                .ok_or(Malformed);
        }
        let stated: Option<Configuration> = from.option()?;
        let proposals = Proposals::decode(from)?;
        let (lives, admitted): (Vec<_>, Vec<_>) = entries.into_iter().unzip();
        let now = &self.membership;
        let is_same = stated == now.stated.as_deref().map(Configuration::agreed);
        let next = stated.filter(|_| !is_same).map(Arc::new);
        let ids = ids(now, next.as_deref());
        if next.as_ref().is_some_and(|next| next.check().is_err()) {
            return Err(Malformed);
        }
        let goes_on = is_same && lives == lives_of(now);
        let fits = if goes_on { epoch == now.epoch } else { epoch == now.epoch.next() };
        if !fits || lives.len() != ids.len() {
            return Err(Malformed);
        }
        let admitted = ids.into_iter().zip(admitted).filter(|(_, it)| *it != Admitted::default());
        let admitted = admitted.collect();
        let ending = (!goes_on).then_some(Ending { lives, next });
        Ok(Self { membership: now.clone(), ending, admitted, proposals, ..*self })
    }

    /// As the next slot will find it: if the epoch is ending, as the next one begins.
    pub fn encode(&self, to: &mut Writer) {
        if self.authority == Authority::Service {
            Epoch(0).encode(to);
            to.sequence::<(Life, Admitted)>(&[]);
            return;
        }
        let now = &self.membership;
        let (epoch, lives, next) = match &self.ending {
            None => (now.epoch, lives_of(now), None),
            Some(Ending { lives, next }) => (now.epoch.next(), lives.clone(), next.as_deref()),
        };
        epoch.encode(to);
        let admitted = |id| self.admitted.get(&id).copied().unwrap_or_default();
        let admitted = ids(now, next).into_iter().map(admitted);
        to.sequence(&lives.into_iter().zip(admitted).collect::<Vec<_>>());
        to.option(next.or(now.stated.as_deref()).map(Configuration::agreed).as_ref());
        match next {
            None => self.proposals.encode(to),
            Some(_) => Proposals::default().encode(to),
        }
    }
}

/// The members of the next configuration, or else of this one.
fn ids(now: &Membership, next: Option<&Configuration>) -> Vec<MemberId> {
    match next {
        None => now.members.iter().map(|member| member.id).collect(),
        Some(next) => next.members.iter().map(|member| member.id).collect(),
    }
}

fn lives_of(membership: &Membership) -> Vec<Life> {
    membership.members.iter().map(Member::life).collect()
}
