//! From what administrators propose to the next configuration.
//!
//! One change at a time is pending, from the slot in which enough administrators have proposed it
//! until it takes effect, expires or is withdrawn. It takes effect in two steps: first its members
//! say that they are ready, and only then the epoch ends. If it ended at once, the group could
//! stand in a configuration whose members do not exist, with nobody left who could order a way
//! back.

use super::refusal::Refusal;
use super::rules::{check, is_same};
use crate::change::{Answer, Awaiting, Change, Proposed, Ready, Withdrawal};
use crate::configuration::{Configuration, MemberEntry};
use crate::digest::Digest;
use crate::ids::{ClientId, Epoch, MemberId, Millis};
use crate::limits::{ADMINISTRATORS_MAX, READY_WAIT_MILLIS, REPLICAS_MAX};
use crate::membership::{Life, Membership};
use crate::mutant;
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;

/// A change that waits for its members.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pending {
    pub change: Arc<Change>,
    /// Names the change.
    pub digest: Digest,
    /// What members of its configuration said last.
    ready: BTreeMap<MemberId, Ready>,
    /// Since when, by agreed time, enough of them are ready.
    enough: Option<Millis>,
}

/// See the module.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Proposals {
    /// How often what was proposed for this configuration was withdrawn.
    withdrawn: u32,
    /// What each administrator proposed last; none of it is pending.
    proposed: BTreeMap<ClientId, Arc<Change>>,
    /// Administrators that want to withdraw.
    withdrawing: BTreeSet<ClientId>,
    /// The number of each administrator's last request.
    numbers: BTreeMap<ClientId, u64>,
    pending: Option<Pending>,
}

impl Proposals {
    /// How often what was proposed for this configuration was withdrawn.
    pub const fn withdrawn(&self) -> u32 {
        self.withdrawn
    }

    /// The change that waits for its members.
    pub const fn pending(&self) -> Option<&Pending> {
        self.pending.as_ref()
    }

    /// What administrators propose, and too few of them the same.
    pub fn proposed(&self) -> Vec<Proposed> {
        let mut all: Vec<Proposed> = Vec::new();
        for (administrator, change) in &self.proposed {
            match all.iter_mut().find(|known| known.change == **change) {
                Some(known) => known.by.push(*administrator),
                None => {
                    let (change, by) = (Change::clone(change), Vec::from([*administrator]));
                    all.push(Proposed { change, by });
                }
            }
        }
        all
    }

    /// Nothing of what has expired counts any more.
    pub fn expire(&mut self, now: Millis) {
        self.proposed.retain(|_, change| now < change.expires);
        self.pending.take_if(|pending| now >= pending.change.expires);
    }

    /// Why a proposal has no effect.
    pub fn refuses_proposal(
        &self,
        administrator: &ClientId,
        change: &Arc<Change>,
        current: (Digest, &Configuration),
        now: Millis,
    ) -> Option<Refusal> {
        if self.pending.is_some() && !mutant!("roster.second-change-replaces") {
            return Some(Refusal::AnotherPending);
        }
        if self.proposed.get(administrator) == Some(change) {
            return Some(Refusal::Repeated);
        }
        check(change, current, self.withdrawn, now).err()
    }

    /// An administrator proposes a change.
    pub fn propose(
        &mut self,
        administrator: &ClientId,
        change: &Arc<Change>,
        current: (Digest, &Configuration),
        now: Millis,
    ) -> Result<Answer, Refusal> {
        if let Some(refusal) = self.refuses_proposal(administrator, change, current, now) {
            return Err(refusal);
        }
        self.proposed.insert(*administrator, change.clone());
        // The administrator took back an earlier proposal, and not this one.
        self.withdrawing.remove(administrator);
        let same = self.proposed.values().filter(|proposed| *proposed == change).count();
        let needed = if mutant!("roster.one-administrator-is-enough") {
            1
        } else {
            usize::from(current.1.administrators.threshold)
        };
        if same < needed {
            return Ok(Answer::Proposed);
        }
        self.proposed.clear();
        let (change, digest) = (change.clone(), change.digest());
        let ready = BTreeMap::new();
        self.pending = Some(Pending { change, digest, ready, enough: None });
        Ok(Answer::Pending)
    }

    /// Why a withdrawal has no effect.
    pub fn refuses_withdrawal(
        &self,
        administrator: &ClientId,
        asked: &Withdrawal,
        current: Digest,
    ) -> Option<Refusal> {
        if (asked.expects, asked.attempt) != (current, self.withdrawn) {
            Some(Refusal::Stale)
        } else if self.withdrawing.contains(administrator) {
            Some(Refusal::Repeated)
        } else {
            None
        }
    }

    /// An administrator takes back what administrators proposed, be it pending or still on its way.
    /// Once enough of them do, replicas refuse every change that names this attempt.
    pub fn withdraw(
        &mut self,
        administrator: &ClientId,
        asked: &Withdrawal,
        current: (Digest, &Configuration),
    ) -> Result<Answer, Refusal> {
        if let Some(refusal) = self.refuses_withdrawal(administrator, asked, current.0) {
            return Err(refusal);
        }
        self.withdrawing.insert(*administrator);
        // Others must not complete what this one no longer wants.
        self.proposed.remove(administrator);
        if self.withdrawing.len() < usize::from(current.1.administrators.threshold) {
            return Ok(Answer::Withdrawing);
        }
        let (withdrawn, numbers) = (self.withdrawn.saturating_add(1), self.numbers.clone());
        *self = Self { withdrawn, numbers, ..Self::default() };
        Ok(Answer::Withdrawn)
    }

    /// Which member of the pending configuration has this identity.
    pub fn invited(&self, client: &ClientId) -> Option<&MemberEntry> {
        let members = &self.pending.as_ref()?.change.next.members;
        members.iter().find(|member| client.has_key(&member.identity))
    }

    /// As what this member of the pending configuration is counted as ready, if it is.
    pub fn ready_as(&self, client: &ClientId) -> Option<&Ready> {
        let member = self.invited(client)?;
        self.pending.as_ref()?.ready.get(&member.id)
    }

    /// Whether an administrator asks this after all that it asked before. Each number counts once,
    /// whatever came of it: old requests can be sent again by anybody.
    pub fn is_later(&self, administrator: &ClientId, number: u64) -> bool {
        self.numbers.get(administrator).is_none_or(|last| number > *last)
    }

    /// A request of an administrator is executed. Whether it counts.
    pub fn begin(&mut self, administrator: &ClientId, number: u64) -> bool {
        let counts = self.is_later(administrator, number);
        if counts {
            self.numbers.insert(*administrator, number);
        }
        counts
    }

    /// Why it does not count that a member is ready, whenever it says so.
    pub fn refuses_ready(
        &self,
        client: &ClientId,
        asked: &Ready,
        (epoch, current): (Epoch, &Configuration),
    ) -> Option<Refusal> {
        if asked.epoch != epoch {
            return Some(Refusal::OtherEpoch);
        }
        let Some(pending) = &self.pending else { return Some(Refusal::NothingPending) };
        let Some(member) = self.invited(client) else { return Some(Refusal::NotInvited) };
        if asked.change != pending.digest {
            return Some(Refusal::NothingPending);
        }
        if !asked.life.is_mac() {
            // Nothing says yet that a key lies in a device and not in a liar's memory.
            return Some(Refusal::NotAttested);
        }
        let others = |id: &MemberId| *id != member.id;
        let of_others = pending.ready.iter().filter(|(id, _)| others(id));
        let of_others = of_others.map(|(_, ready)| ready.signing);
        let next = pending.change.next.members.iter().filter(|it| others(&it.id));
        let of_next = next.flat_map(|it| [it.identity, it.signing]);
        let of_current = current.members.iter().flat_map(|it| [it.identity, it.signing]);
        let mut taken = of_others.chain(of_next).chain(of_current);
        taken.any(|key| key == asked.signing).then_some(Refusal::KeyInUse)
    }

    /// A member of the pending configuration says that it is ready. It may say so again.
    pub fn ready(
        &mut self,
        client: &ClientId,
        asked: Ready,
        current: (Epoch, &Configuration),
    ) -> Result<Answer, Refusal> {
        if let Some(refusal) = self.refuses_ready(client, &asked, current) {
            return Err(refusal);
        }
        let id = self.invited(client).map(|member| member.id);
        if let (Some(id), Some(pending)) = (id, &mut self.pending) {
            pending.ready.insert(id, asked);
        }
        Ok(Answer::Ready)
    }

    /// A member's device is another one from the next epoch on: what it said before is void.
    pub fn is_admitted_anew(&mut self, member: MemberId) {
        if let Some(pending) = &mut self.pending {
            pending.ready.remove(&member);
        }
    }

    /// Whether the pending change takes effect at the end of a slot of this time: all its members
    /// are ready, or enough have been for long enough. A change that took effect as soon as enough
    /// are ready could leave out a correct member whose request is on its way, and together with
    /// the faulty ones too few would be left to order that this one is admitted.
    pub fn is_due(&mut self, now: Millis, current: &Configuration) -> bool {
        let Some(pending) = &mut self.pending else { return false };
        if mutant!("roster.change-ends-epoch") {
            return true;
        }
        if !pending.has_enough(current) {
            pending.enough = None;
            return false;
        }
        let since = *pending.enough.get_or_insert(now);
        let wait = if mutant!("roster.ready-at-once") { 0 } else { READY_WAIT_MILLIS };
        let all = pending.ready.len() == pending.change.next.members.len();
        all || now.0.saturating_sub(since.0) >= wait
    }

    /// The next configuration with the lives of its members' devices, if this is when the pending
    /// change takes effect. `lives` count in the epoch that ends.
    pub fn assemble(
        &self,
        current: &Membership,
        lives: &[Life],
    ) -> Option<(Configuration, Vec<Life>)> {
        let Pending { change, ready, .. } = self.pending.as_ref()?;
        let mut next = change.next.clone();
        let mut next_lives = Vec::with_capacity(next.members.len());
        for member in &mut next.members {
            let mut present = current.members.iter();
            let index = present.position(|it| (it.id, it.identity) == (member.id, member.identity));
            let said = ready.get(&member.id);
            if let Some(ready) = said {
                member.signing = ready.signing;
            }
            // One that is not ready goes on with the device that it runs. A new one that is not
            // ready begins without, and has to ask to be admitted.
            let running = index.map(|at| lives[at]).unwrap_or_default();
            next_lives.push(said.map_or(running, |ready| ready.life));
        }
        Some((next, next_lives))
    }
}

impl Pending {
    /// The change, and who is ready for it.
    pub fn shown(&self) -> Awaiting {
        let ready = self.ready.keys().copied().collect();
        Awaiting { change: Change::clone(&self.change), ready }
    }

    /// Whether so many members are ready that the next epoch has a quorum of living ones, and all
    /// those that have to be. These are all that run nothing yet which counts in it, as new members
    /// and those that need another device: if one of the others falls silent, nobody could admit
    /// them.
    fn has_enough(&self, current: &Configuration) -> bool {
        let Change { next, needed, .. } = &*self.change;
        let has_device =
            next.facts.counter.is_none() || current.facts.counter == next.facts.counter;
        let runs = |member: &MemberEntry| has_device && is_same(member, current);
        let is_needed = |member: &MemberEntry| {
            needed.contains(&member.id) || (!runs(member) && !mutant!("roster.new-ones-not-needed"))
        };
        let mut missing = next.members.iter().filter(|it| !self.ready.contains_key(&it.id));
        let of = if mutant!("roster.ready-by-former-size") { current } else { next };
        !missing.any(is_needed) && self.ready.len() + usize::from(of.f) >= of.members.len()
    }
}

impl Wire for Pending {
    fn encode(&self, to: &mut Writer) {
        self.change.encode(to);
        to.option(self.enough.as_ref());
        let ready: Vec<(MemberId, Ready)> = self.ready.iter().map(|(id, it)| (*id, *it)).collect();
        to.sequence(&ready);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let change = Arc::new(Change::decode(from)?);
        let enough = from.option()?;
        let ready: Vec<(MemberId, Ready)> = from.sequence(REPLICAS_MAX)?;
        let is_sorted = ready.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let digest = change.digest();
        let pending = Self { change, digest, ready: ready.into_iter().collect(), enough };
        is_sorted.then_some(pending).ok_or(Malformed)
    }
}

impl Wire for Proposals {
    fn encode(&self, to: &mut Writer) {
        to.u32(self.withdrawn);
        to.option(self.pending.as_ref());
        let proposed: Vec<_> = self.proposed.iter().map(|(by, it)| (*by, (**it).clone())).collect();
        to.sequence(&proposed);
        to.sequence(&self.withdrawing.iter().copied().collect::<Vec<ClientId>>());
        to.u32(self.numbers.len() as u32);
        for (administrator, number) in &self.numbers {
            administrator.encode(to);
            to.u64(*number);
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let (withdrawn, pending) = (from.u32()?, from.option()?);
        let proposed: Vec<(ClientId, Change)> = from.sequence(ADMINISTRATORS_MAX)?;
        let withdrawing: Vec<ClientId> = from.sequence(ADMINISTRATORS_MAX)?;
        let mut numbers = BTreeMap::new();
        for _ in 0..from.u32()? {
            let (administrator, number) = (ClientId::decode(from)?, from.u64()?);
            let is_next = numbers.last_key_value().is_none_or(|(last, _)| *last < administrator);
            if !is_next || numbers.len() == ADMINISTRATORS_MAX {
                return Err(Malformed);
            }
            numbers.insert(administrator, number);
        }
        let is_sorted = proposed.windows(2).all(|pair| pair[0].0 < pair[1].0)
            && withdrawing.windows(2).all(|pair| pair[0] < pair[1]);
        let proposed = proposed.into_iter().map(|(by, it)| (by, Arc::new(it))).collect();
        let withdrawing = withdrawing.into_iter().collect();
        let proposals = Self { withdrawn, proposed, withdrawing, numbers, pending };
        is_sorted.then_some(proposals).ok_or(Malformed)
    }
}
