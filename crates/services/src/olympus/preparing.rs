//! How the next configuration begins: it is proposed, held by all of its members, and issued once
//! (the design's rules C-O2 and C-O3).

use super::answer::{Answer, Notice, Refusal};
use super::choice::{Choice, choices};
use super::link::{Link, Proposal};
use super::state::{Phase, Preparing, State};
use super::terms::{PREPARE_DOUBLINGS_MAX, PREPARE_MILLIS, reports_needed, score};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pentarchy_core::configuration::{Configuration, MemberEntry};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::membership::Life;
use pentarchy_core::mutant;
use pentarchy_core::succession::Succession;

impl State {
    /// Goes on with the end of the epoch, as far as reports, holders and the time allow.
    pub fn prepare(&mut self) {
        if self.wedge().is_none() {
            return;
        }
        let Some(preparing) = self.preparing_mut() else {
            if self.has_gathered() {
                self.propose();
            }
            return;
        };
        let deadline = preparing.deadline;
        if preparing.is_held() {
            if self.lease_is_over() {
                self.issue();
            }
        } else if self.clock >= deadline {
            self.give_up();
            self.propose();
        }
    }

    /// Chooses, and asks those who are to be members to get hold of it. Not if no choice can be
    /// made yet, or too few are registered.
    fn propose(&mut self) {
        let Some(choice) = self.choose() else { return };
        self.blame_the_silent();
        let current = self.configuration();
        let Some(picked) = self.pool.pick(self.n(), current.number + 1) else { return };
        let link = self.link(&current, &choice, picked);
        let clock = self.clock;
        let Some(wedge) = self.wedge_mut() else { return };
        let proposal = Proposal { attempt: wedge.attempt, link };
        let doublings = wedge.attempt.min(PREPARE_DOUBLINGS_MAX);
        wedge.attempt = wedge.attempt.saturating_add(1);
        wedge.preparing = Some(Preparing {
            proposal: proposal.clone(),
            choice: choice.key(),
            deadline: Millis(clock.0.saturating_add(PREPARE_MILLIS << doublings)),
            holds: ReplicaSet::EMPTY,
            lacks: BTreeMap::new(),
        });
        let members: Vec<_> = proposal.link.next.members.iter().map(|it| it.identity).collect();
        self.tell(&members, &Notice::Prepare(proposal));
    }

    fn choices(&self) -> Vec<Choice> {
        choices(&self.reports, reports_needed(&self.configuration()))
    }

    /// The choice that failed least often; among equals the longest history, on the highest base,
    /// by those who were least in the way. A choice that failed comes back when all others failed
    /// as often: whatever it lacked may be had by then.
    fn choose(&self) -> Option<Choice> {
        let wedge = self.wedge()?;
        let failures = |choice: &Choice| wedge.failures.get(&choice.key()).copied().unwrap_or(0);
        let score_of = |id: ReplicaId| {
            let candidate = self.member_at(id).and_then(|member| self.pool.get(member));
            candidate.map_or(0, |candidate| u64::from(candidate.score))
        };
        let rank = |choice: &Choice| {
            let (end, digest, base, state) = choice.key();
            let scores: u64 = choice.by.iter().map(score_of).sum();
            let longest = core::cmp::Reverse((end, base));
            (failures(choice), longest, scores, digest, state)
        };
        let all = self.choices().into_iter();
        let left = all.filter(|it| failures(it) == 0 || !mutant!("olympus.drops-choices"));
        left.min_by_key(rank)
    }

    /// The next configuration, of these members, on this choice.
    fn link(
        &self,
        current: &Configuration,
        choice: &Choice,
        picked: Vec<(MemberEntry, Life)>,
    ) -> Link {
        let (members, lives) = picked.into_iter().unzip();
        let next = Configuration {
            number: current.number + 1,
            members,
            next_member: self.pool.next_member(),
            ..current.clone()
        };
        let (epoch, base) = (self.membership.epoch, choice.history.base);
        let handover = Handover { epoch, base, lives, next: Some(next.digest()) };
        let succession = Succession { handover, inherits: choice.history.batches.clone() };
        let link = Link { succession, next };
        debug_assert!(link.is_sound(), "keys and addresses are checked as they come: {link:?}");
        link
    }

    /// Which member of the proposal asks, if it is about that.
    fn asking_holder(
        &mut self,
        client: &ClientId,
        attempt: u32,
        link: &Digest,
    ) -> Result<(ReplicaId, &mut Preparing), Refusal> {
        let preparing = self.preparing_mut().ok_or(Refusal::NotNow)?;
        let proposal = &preparing.proposal;
        if proposal.attempt != attempt || proposal.link.digest() != *link {
            return Err(Refusal::NotNow);
        }
        let mut members = proposal.link.next.members.iter();
        let place = members.position(|it| it.identity == client.0).ok_or(Refusal::NotYours)?;
        Ok((ReplicaId(place as u16), preparing))
    }

    /// A member of the proposal holds all of it.
    pub fn holds(
        &mut self,
        client: &ClientId,
        (attempt, link): (u32, &Digest),
        life: Life,
    ) -> Result<Answer, Refusal> {
        let (index, preparing) = self.asking_holder(client, attempt, link)?;
        let named = preparing.proposal.link.succession.handover.lives[usize::from(index.0)];
        if life != named {
            return Err(Refusal::OtherLife);
        }
        preparing.holds.insert(index);
        Ok(Answer::Done)
    }

    /// A member of the proposal cannot get a batch of it.
    pub fn lacks(
        &mut self,
        client: &ClientId,
        (attempt, link): (u32, &Digest),
        slot: Slot,
    ) -> Result<Answer, Refusal> {
        let (index, preparing) = self.asking_holder(client, attempt, link)?;
        preparing.lacks.entry(index).or_insert(slot);
        Ok(Answer::Done)
    }

    /// The time of an attempt is over. If so many hold what was proposed that one of them is
    /// correct, it can be had, and those are to blame who do not hold it. Otherwise the choice may
    /// be: then nobody is to blame who cannot get what few reports name, but their authors are.
    fn give_up(&mut self) {
        let taken = self.wedge_mut().and_then(|wedge| wedge.preparing.take());
        let Some(Preparing { proposal, choice, holds, lacks, .. }) = taken else { return };
        let current = self.configuration();
        let can_be_had = holds.len() >= reports_needed(&current);
        let chosen = self.choices().into_iter().find(|it| it.key() == choice);
        let doubtful = chosen.and_then(|it| it.doubtful(&self.reports, current.f.into()));
        let doubtful = doubtful.filter(|_| !can_be_had);
        let is_excused = |index: ReplicaId| {
            let doubt = doubtful.as_ref().zip(lacks.get(&index));
            doubt.is_some_and(|((from, _), lacked)| lacked >= from)
        };
        let mut to_blame = Vec::new();
        for (index, entry) in (0..).map(ReplicaId).zip(&proposal.link.next.members) {
            if !holds.contains(index) && !is_excused(index) {
                to_blame.push(entry.id);
            }
        }
        if let Some((_, by)) = doubtful.as_ref().filter(|_| lacks.keys().any(|it| is_excused(*it)))
        {
            to_blame.extend(by.iter().filter_map(|index| self.member_at(index)));
        }
        to_blame.into_iter().for_each(|member| self.pool.blame(member, score::EMPTY_HANDED));
        if let Some(wedge) = self.wedge_mut().filter(|_| !can_be_had) {
            let failures = wedge.failures.entry(choice).or_default();
            *failures = failures.saturating_add(1);
        }
    }

    /// One transition of the replicated state: whatever happens to a replica of Olympus, there is
    /// one next configuration.
    fn issue(&mut self) {
        let taken = self.wedge_mut().and_then(|wedge| wedge.preparing.take());
        let Some(Preparing { proposal: Proposal { link, .. }, .. }) = taken else { return };
        let before = self.membership.members.iter().map(|it| it.identity);
        let begin = link.next.members.iter().map(|it| it.identity);
        let mut told: Vec<_> = begin.chain(before).collect();
        told.sort_unstable();
        told.dedup();
        self.tell(&told, &Notice::Begin(link.clone()));
        if mutant!("olympus.issues-twice") {
            return;
        }
        let is_fruitful = link.succession.handover.base.slot > self.began_at();
        self.fruitless = if is_fruitful { 0 } else { self.fruitless.saturating_add(1) };
        self.forget_keys_of_those_left_out(&link.next);
        self.note_reports_of_all();
        self.reports.clear();
        self.failed = ReplicaSet::EMPTY;
        self.convicted = ReplicaSet::EMPTY;
        self.accusation = None;
        self.phase = Phase::Active;
        self.membership = link.membership();
        self.inherits = link.succession.inherits.clone();
        self.note_link(link.succession.handover.epoch);
        self.links.keep(link);
    }

    /// A member that is left out erases its key, and registers another one.
    fn forget_keys_of_those_left_out(&mut self, next: &Configuration) {
        for member in self.membership.members.iter() {
            let stays = next.members.iter().any(|it| it.id == member.id);
            let registered = self.pool.get(member.id).and_then(|it| it.registered);
            if !stays && registered.is_some_and(|it| it.signing == member.signing) {
                self.pool.register(member.id, None);
            }
        }
    }
}

impl Preparing {
    /// Whether all proposed members hold it. Not some of them: the chain of the next configuration
    /// orders nothing without each of its members.
    fn is_held(&self) -> bool {
        self.holds.len() == self.proposal.link.next.members.len()
            || mutant!("olympus.issues-unheld")
    }
}
