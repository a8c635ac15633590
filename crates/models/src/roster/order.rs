//! The order inside an epoch, and the roster that every slot changes.
//!
//! The order is one list for each epoch: that a protocol agrees on it is not the question here. It
//! grows only while a quorum of members that run the epoch is at its tip.

use super::action::Action;
use super::rules::Rule;
use super::values::{
    Change, ChangeId, Configuration, ConfigurationId, Entry, Epoch, Handover, HandoverId, Life,
    MemberId, Pending, Ready, Request, Roster, THRESHOLD, WAIT,
};
use super::world::{World, broken};
use crate::Broken;
use std::collections::BTreeMap;

/// What an executed request does to the epoch.
enum Effect {
    None,
    /// A member counts by another life from the next epoch on.
    Admits(MemberId, Life),
}

impl World {
    /// Whether a member's core votes: it runs the last epoch, has executed everything, and its
    /// device is the one that the epoch admits.
    pub(super) fn votes_in_order(&self, id: MemberId) -> bool {
        let last = self.epochs.len() - 1;
        let machine = &self.machines[id.0];
        let configuration = self.configuration_of(last);
        let Some(index) = configuration.index(id) else { return false };
        machine.is_correct()
            && machine.runs(last)
            && machine.memory.state == Some(self.epochs[last].tip())
            && (!configuration.devices
                || machine.disk.device.is_some() && machine.disk.device == self.lives(last, index))
    }

    fn lives(&self, epoch: usize, index: usize) -> Option<Life> {
        self.epochs[epoch].lives[index]
    }

    /// Has the members order a request, if they are a quorum together with those of the adversary.
    /// Chance says which of them log it, and how much agreed time passes: a faulty primary may let
    /// it run.
    pub(super) fn order(&mut self, request: Request, faulty_vote: bool) -> Result<bool, Broken> {
        let Some((mut voters, least)) = self.voters(request, faulty_vote) else {
            return Ok(false);
        };
        self.rng.shuffle(&mut voters);
        voters.truncate(self.rng.usize(least..=voters.len()));
        let time = if self.rng.u8(0..20) == 0 { WAIT } else { self.rng.u32(0..3) };
        self.apply(&Action::Order { request, voters, time })
    }

    /// The correct members that can vote for a request now, and how many of them are needed; none
    /// if they are no quorum together with those of the adversary.
    pub(super) fn voters(
        &self,
        request: Request,
        faulty_vote: bool,
    ) -> Option<(Vec<MemberId>, usize)> {
        let last = self.epochs.len() - 1;
        if self.is_settled_request(request) {
            return None;
        }
        let configuration = self.configuration_of(last);
        let quorum = configuration.quorum();
        let can_vote = |(index, entry): &(usize, &Entry)| {
            self.machines[entry.id.0].is_faulty()
                && (!configuration.devices || self.lives(last, *index).is_some())
        };
        let members = &configuration.members;
        let faulty = members.iter().enumerate().filter(can_vote).count();
        let faulty = if faulty_vote { faulty } else { 0 };
        let voters = members.iter().map(|it| it.id).filter(|id| self.votes_in_order(*id));
        let voters: Vec<MemberId> = voters.collect();
        let is_quorum = !voters.is_empty() && voters.len() + faulty >= quorum;
        is_quorum.then(|| (voters, quorum.saturating_sub(faulty).max(1)))
    }

    /// The next slot. Those whose votes are needed log it before they vote.
    pub(super) fn fill_slot(
        &mut self,
        request: Request,
        voters: &[MemberId],
        time: u32,
    ) -> Result<(), Broken> {
        let last = self.epochs.len() - 1;
        self.pass_time(time);
        self.execute(request)?;
        let tip = self.epochs[last].tip();
        for id in voters {
            self.machines[id.0].disk.logged = tip;
        }
        Ok(())
    }

    /// Whether it would be executed a second time, or changes nothing any more.
    fn is_settled_request(&self, request: Request) -> bool {
        match request {
            Request::Operation(number) => self.executed[number].is_some(),
            Request::Admission { epoch, .. } => epoch + 1 != self.epochs.len(),
            Request::Ready(_) => self.roster().pending.is_none(),
            Request::Change(_) | Request::Withdraw { .. } => false,
        }
    }

    fn is_timed_out(&self, change: ChangeId) -> bool {
        self.now >= self.changes[change.0].expires
    }

    /// Agreed time passes. In calm runs every `Ready` of a member that is willing is ordered within
    /// the wait.
    fn pass_time(&mut self, by: u32) {
        let mut latest = u32::MAX;
        if let (true, Some(pending)) = (self.calm, &self.roster().pending) {
            let late =
                |id: &MemberId| self.machines[id.0].is_correct() && !pending.ready.contains_key(id);
            if self.changes[pending.change.0].members.iter().any(late) {
                latest = pending.enough.map_or(u32::MAX, |since| since + WAIT - 1);
            }
        }
        self.now = self.now.max((self.now + by).min(latest));
    }

    /// One slot of the last epoch.
    fn execute(&mut self, request: Request) -> Result<(), Broken> {
        let mut roster = Roster { now: self.now, ..self.roster().clone() };
        if roster.pending.as_ref().is_some_and(|pending| self.is_timed_out(pending.change)) {
            roster.pending = None;
        }
        let attempt = roster.attempt;
        let effect = self.amend(&mut roster, request);
        if roster.attempt > attempt {
            self.void(attempt);
        }
        if let Request::Operation(number) = request {
            let last = self.epochs.last().expect("there is a first epoch");
            self.executed[number] = Some(last.tip() + 1);
        }
        self.end_slot(roster, effect)
    }

    /// What a request does to the roster, and to the epoch.
    fn amend(&self, roster: &mut Roster, request: Request) -> Effect {
        match request {
            Request::Operation(_) => {}
            Request::Change(change) => self.propose(roster, change),
            Request::Withdraw { expects, attempt } => {
                if (expects, attempt) == (self.current(), roster.attempt) {
                    roster.attempt += 1;
                    roster.pending = None;
                }
            }
            Request::Ready(ready) => self.count_ready(roster, ready),
            Request::Admission { member, life, .. } => {
                if self.configurations[self.current().0].has(member) {
                    if let Some(pending) = &mut roster.pending {
                        pending.ready.remove(&member);
                    }
                    return Effect::Admits(member, life);
                }
            }
        }
        Effect::None
    }

    /// Whether a slot with this request would change more than the agreed time.
    pub(super) fn has_effect(&self, request: Request) -> bool {
        let before = self.roster();
        let mut after = before.clone();
        let effect = self.amend(&mut after, request);
        let is_operation = matches!(request, Request::Operation(_));
        is_operation || matches!(effect, Effect::Admits(..)) || after != *before
    }

    /// A-R6, compare and swap, and A-R7, one change at a time.
    fn propose(&self, roster: &mut Roster, id: ChangeId) {
        let change = &self.changes[id.0];
        let current = &self.configurations[self.current().0];
        let leaves = current.members.iter().any(|entry| !change.members.contains(&entry.id));
        let is_known = self.keeps(Rule::SecretChanges)
            && change.secret == current.secret
            && (leaves || self.keeps(Rule::JoinerSecret));
        let refused = self.keeps(Rule::Expected) && change.expects != self.current()
            || self.keeps(Rule::AttemptCompared) && change.attempt != roster.attempt
            || self.keeps(Rule::OneAtATime) && roster.pending.is_some()
            || self.keeps(Rule::Threshold) && change.signers < THRESHOLD
            || self.now >= change.expires
            || is_known;
        if refused {
            return;
        }
        // Without the rule that a second change waits, what was said of the first one is kept.
        let ready = roster.pending.take().map_or_else(BTreeMap::new, |pending| pending.ready);
        roster.pending = Some(Pending { change: id, ready, enough: None });
    }

    /// Changes that name this count of withdrawals, or an earlier one, are void from now on,
    /// whether or not they were pending.
    fn void(&mut self, attempt: u32) {
        let is_void =
            |change: &Change| change.expects == self.current() && change.attempt <= attempt;
        let ids = (0..self.changes.len()).filter(|id| is_void(&self.changes[*id]));
        let ids: Vec<ChangeId> = ids.map(ChangeId).collect();
        self.withdrawn.extend(ids);
    }

    fn count_ready(&self, roster: &mut Roster, ready: Ready) {
        let Some(pending) = &mut roster.pending else { return };
        let change = &self.changes[pending.change.0];
        let current = &self.configurations[self.current().0];
        let of_another = pending
            .ready
            .values()
            .any(|other| other.member != ready.member && other.signing == ready.signing);
        let of_a_card =
            change.cards.iter().any(|(id, key)| *id != ready.member && *key == ready.signing);
        let is_old = ready.epoch + 1 != self.epochs.len() && self.keeps(Rule::ReadyNamesEpoch);
        if pending.change == ready.change
            && !is_old
            && change.members.contains(&ready.member)
            && !current.owns(ready.signing)
            && !of_another
            && !of_a_card
            && change.devices == ready.life.is_some()
        {
            pending.ready.insert(ready.member, ready);
        }
    }

    /// A-R8: the epoch ends when all are ready, or when enough have been for as long as the wait.
    fn end_slot(&mut self, mut roster: Roster, effect: Effect) -> Result<(), Broken> {
        let mut ends = false;
        if let Some(pending) = &mut roster.pending {
            let enough = self.is_enough(pending);
            if enough {
                pending.enough = pending.enough.or(Some(self.now));
            } else if self.keeps(Rule::EnoughIsUnset) {
                pending.enough = None;
            }
            let wait = if self.keeps(Rule::ReadyWait) { WAIT } else { 0 };
            let waited = pending.enough.is_some_and(|since| self.now >= since + wait);
            let all = pending.ready.len() == self.changes[pending.change.0].members.len();
            ends = waited || enough && all || !self.keeps(Rule::TwoSteps);
        }
        let last = self.epochs.last_mut().expect("there is a first epoch");
        last.rosters.push(roster);
        let mut lives = last.lives.clone();
        if let Effect::Admits(member, life) = effect {
            let index = self.configuration_of(self.epochs.len() - 1).index(member);
            lives[index.expect("it was checked")] = Some(life);
            if !ends {
                self.begin(None, lives);
                return Ok(());
            }
        }
        if ends { self.end_with_change(&lives) } else { Ok(()) }
    }

    /// Whether so many, and those that have to be, are ready. Where devices count, these are also
    /// all that have no device yet with which they could go on: the next epoch could not admit
    /// them if one of the others is silent.
    fn is_enough(&self, pending: &Pending) -> bool {
        let change = &self.changes[pending.change.0];
        let current = &self.configurations[self.current().0];
        let lifeless = |id: MemberId| {
            change.devices && self.keeps(Rule::LifeNeeded) && !(current.devices && current.has(id))
        };
        let is_needed = |id: &MemberId| change.needed.contains(id) || lifeless(*id);
        let missing =
            change.members.iter().any(|id| is_needed(id) && !pending.ready.contains_key(id));
        !missing && pending.ready.len() >= change.members.len() - change.f
    }

    /// The epoch ends with the pending change.
    fn end_with_change(&mut self, lives: &[Option<Life>]) -> Result<(), Broken> {
        let pending = self.roster().pending.clone().expect("a change is pending");
        self.check_change(&pending)?;
        let change = self.changes[pending.change.0].clone();
        let current = self.configurations[self.current().0].clone();
        let next_number = current.number + 1;
        let mut members = Vec::new();
        let mut next_lives = Vec::new();
        for id in change.members.iter().copied() {
            let ready = pending.ready.get(&id);
            let card = change.cards.iter().find(|(owner, _)| *owner == id).map(|(_, key)| *key);
            let signing = ready.map(|it| it.signing).or(current.key_of(id)).or(card);
            // Without the change's number, a card of an earlier change may be missing.
            let signing = signing.unwrap_or(self.machines[id.0].card);
            members.push(Entry { id, signing });
            let kept = current.index(id).filter(|_| current.devices).and_then(|at| lives[at]);
            let fallback = if !self.keeps(Rule::Fallback) {
                None
            } else if !self.keeps(Rule::RandomLife) {
                Some(Life::Named(next_number, id))
            } else {
                kept
            };
            let life = ready.and_then(|it| it.life).or(fallback);
            next_lives.push(life.filter(|_| change.devices));
        }
        let Change { devices, f, secret, .. } = change;
        let next = Configuration { number: next_number, devices, f, members, secret };
        self.configurations.push(next);
        let id = ConfigurationId(self.configurations.len() - 1);
        self.chain.push(id);
        self.applied.push(pending.change);
        self.begin(Some(id), next_lives);
        self.join_faulty(id);
        Ok(())
    }

    /// The last epoch ends here, and the next one begins.
    fn begin(&mut self, next: Option<ConfigurationId>, lives: Vec<Option<Life>>) {
        let epoch = self.epochs.len() - 1;
        let configuration = self.epochs[epoch].configuration;
        self.handovers.push(Handover { epoch, configuration, next, genuine: true });
        let mut roster = self.roster().clone();
        if next.is_some() {
            roster = Roster { now: self.now, attempt: 0, pending: None };
        }
        let last = &mut self.epochs[epoch];
        last.end = Some(HandoverId(self.handovers.len() - 1));
        let base = last.tip();
        let configuration = next.unwrap_or(configuration);
        self.epochs.push(Epoch { configuration, lives, base, rosters: vec![roster], end: None });
    }

    /// Whether a change may take effect, said once more and not as the roster's code says it.
    fn check_change(&self, pending: &Pending) -> Result<(), Broken> {
        let Pending { change: id, ready, .. } = pending;
        let change = &self.changes[id.0];
        let fails = |how: &str| Err(broken("configuration", format!("change {}: {how}", id.0)));
        if change.expects != self.current() {
            return fails("changes another configuration than the one it was made for");
        }
        if change.signers < THRESHOLD {
            return fails("too few administrators signed it");
        }
        if self.withdrawn.contains(id) {
            return fails("takes effect although it was withdrawn");
        }
        if ready.iter().any(|(_, ready)| ready.change != *id) {
            return fails("counts members that are ready for another change");
        }
        if self.keeps(Rule::TwoSteps) && ready.len() < change.members.len() - change.f {
            return fails("takes effect although too few are ready");
        }
        let current = &self.configurations[self.current().0];
        let late = |id: &MemberId| !ready.contains_key(id) && current.has(*id);
        if self.calm && self.keeps(Rule::TwoSteps) && change.members.iter().any(late) {
            return fails("leaves out a member whose request came in time");
        }
        Ok(())
    }
}
