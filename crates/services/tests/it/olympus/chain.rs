//! The chain of a world: what its correct replicas do, and what an epoch begins with.

use super::support::{WINDOW, life, sign, state_after};
use super::world::{Broken, World, broken, index};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, ReplicaId, Slot};
use pentarchy_core::membership::{Base, Life, Membership};
use pentarchy_core::ports::replica::wedging::History;
use pentarchy_core::succession::{Mark, MarkCertificate, Report, empty_history, longer_history};
use pentarchy_services::olympus::{Answer, Link, Operation, Proposal, Stage, Status};
use std::collections::BTreeMap;

/// The epoch that was begun last.
pub struct Chain {
    pub membership: Membership,
    /// The slots before its base, and what it inherited behind it.
    pub base: usize,
    pub inherits: Vec<Digest>,
    /// All that every correct member has ordered: clients may believe it.
    pub believed: Vec<Digest>,
    /// What led to each state that a correct replica ever had.
    pub states: BTreeMap<Digest, Vec<Digest>>,
}

impl Chain {
    pub fn first(membership: Membership) -> Self {
        let states = BTreeMap::from([(Digest::default(), Vec::new())]);
        Self { membership, base: 0, inherits: Vec::new(), believed: Vec::new(), states }
    }

    pub fn epoch(&self) -> Epoch {
        self.membership.epoch
    }

    pub fn members(&self) -> Vec<usize> {
        self.membership.members.iter().map(|it| index(it.id)).collect()
    }

    pub fn place(&self, member: usize) -> Option<usize> {
        self.members().iter().position(|it| *it == member)
    }

    pub fn tail(&self) -> usize {
        *self.members().last().expect("an epoch has members")
    }

    pub fn life(&self, place: usize) -> Life {
        self.membership.members[place].life()
    }

    /// What names a history of this epoch.
    pub fn history(&self, ordered: &[Digest]) -> Digest {
        let next = |history: Digest, batch: &Digest| longer_history(&history, batch);
        ordered[self.base..].iter().fold(empty_history(self.membership.base), next)
    }
}

impl World {
    /// Whether it is a member in this life, and works.
    pub fn takes_part(&self, member: usize) -> bool {
        let replica = &self.replicas[member];
        let place = self.chain.place(member);
        place.is_some_and(|place| self.chain.life(place) == life(replica.life))
            && !replica.is_dead
            && !replica.lies
    }

    /// What a correct replica does in a step.
    pub fn work(&mut self, member: usize) -> Result<(), Broken> {
        let status = self.status();
        self.register(member, &status)?;
        if let Some(proposal) = self.status().proposal {
            self.get_hold_of(member, &proposal)?;
        }
        if !self.takes_part(member) {
            return self.report_nothing(member);
        }
        // The last holder has it issued.
        let status = self.status();
        match status.stage {
            Stage::Wedging { .. } => self.report(member),
            _ => {
                self.order(member);
                self.checkpoint(member);
                self.suspect(member, &status)?;
                self.renew(member)
            }
        }
    }

    fn order(&mut self, member: usize) {
        let place = self.chain.place(member).expect("a member");
        let replica = &self.replicas[member];
        let (length, bound) = (replica.ordered.len(), replica.stable.max(self.chain.base));
        if replica.has_stopped || length >= bound + WINDOW as usize {
            return;
        }
        let before = self.chain.members()[..place].to_vec();
        let before: Vec<_> = before.into_iter().filter(|it| !self.replicas[*it].lies).collect();
        let batch = match before.first() {
            None => self.new_batch(),
            Some(_) if before.iter().any(|it| self.replicas[*it].ordered.len() <= length) => return,
            Some(first) => self.replicas[*first].ordered[length],
        };
        let replica = &mut self.replicas[member];
        replica.ordered.push(batch);
        replica.bodies.insert(batch);
        replica.told = replica.told.max(replica.ordered.len());
        let ordered = replica.ordered.clone();
        let correct = self.chain.members().into_iter().filter(|it| !self.replicas[*it].lies);
        let all = correct.map(|it| self.replicas[it].told).min().unwrap_or(0);
        if all > self.chain.believed.len() && all <= ordered.len() {
            self.chain.believed = ordered[..all].to_vec();
        }
    }

    /// All full replicas sign a state that all members have come to; some learn of it.
    fn checkpoint(&mut self, member: usize) {
        let members = self.chain.members();
        let full = members[..=self.f].to_vec();
        let slot = self.chain.believed.len();
        let can = |it: &&usize| {
            let replica = &self.replicas[**it];
            replica.lies || (self.takes_part(**it) && !replica.has_stopped)
        };
        let is_due = slot > self.replicas[member].stable.max(self.chain.base);
        let all_sign = full.iter().filter(can).count() > self.f;
        if !is_due || !all_sign || self.dice.roll(3) > 0 {
            return;
        }
        let state = state_after(&self.chain.believed).state;
        self.chain.states.insert(state, self.chain.believed.clone());
        for it in full {
            self.replicas[it].states.insert(state);
        }
        for it in members {
            if it == member || (self.takes_part(it) && self.dice.roll(3) == 0) {
                self.replicas[it].stable = slot;
            }
        }
    }

    /// The certificate of a state of this epoch.
    pub fn certificate(&self, ordered: &[Digest], by: &[usize]) -> MarkCertificate {
        let history = self.chain.history(ordered);
        let mark = Mark { base: state_after(ordered), history };
        let statement = mark.statement(&self.chain.membership.domain());
        let sign = |place: &usize| {
            let key = self.chain.membership.members[*place].signing;
            (ReplicaId(*place as u16), sign(&key, &statement))
        };
        MarkCertificate { history, signatures: by.iter().map(sign).collect() }
    }

    fn report(&mut self, member: usize) -> Result<(), Broken> {
        self.replicas[member].has_stopped = true;
        let (history, certificate) = self.truth_of(member);
        let place = self.chain.place(member).expect("a member");
        let report = self.report_of(place, history);
        match self.ask_as(member, &Operation::Report { report, certificate })? {
            Answer::Done => Ok(()),
            other => broken("reports", format!("a correct report is answered by {other:?}")),
        }
    }

    /// What a correct member has to report.
    pub fn truth_of(&self, member: usize) -> (History, Option<MarkCertificate>) {
        let replica = &self.replicas[member];
        let from = replica.stable.max(self.chain.base);
        let (before, behind) = replica.ordered.split_at(from);
        let batches = behind.to_vec();
        if replica.stable <= self.chain.base {
            return (History { base: self.chain.membership.base, batches }, None);
        }
        let full: Vec<_> = (0..=self.f).collect();
        let certificate = self.certificate(before, &full);
        (History { base: state_after(before), batches }, Some(certificate))
    }

    /// One that lost its log says what it knows: what Olympus says with what the epoch began.
    fn report_nothing(&mut self, member: usize) -> Result<(), Broken> {
        let Some(place) = self.chain.place(member) else { return Ok(()) };
        let base = self.chain.membership.base;
        let batches = self.chain.inherits.clone();
        let life = life(self.replicas[member].life);
        let report = Report { life, ..self.report_of(place, History { base, batches }) };
        self.ask_as(member, &Operation::Report { report, certificate: None })?;
        Ok(())
    }

    pub fn report_of(&self, place: usize, history: History) -> Report {
        let (epoch, author) = (self.chain.epoch(), ReplicaId(place as u16));
        Report { epoch, author, life: self.chain.life(place), history }
    }

    /// A replica accuses, now and then, and always one that does not work.
    fn suspect(&mut self, member: usize, status: &Status) -> Result<(), Broken> {
        let members = self.chain.members();
        let broken_down = members.iter().position(|it| {
            let replica = &self.replicas[*it];
            !replica.lies && !self.takes_part(*it)
        });
        let any = self.dice.roll(members.len() as u64) as usize;
        let at_random = (!self.is_calm && self.dice.roll(40) == 0).then_some(any);
        let Some(about) = broken_down.or(at_random) else { return Ok(()) };
        if status.stage == Stage::Active {
            self.accuse(member, about)?;
        }
        Ok(())
    }

    pub fn accuse(&mut self, member: usize, about: usize) -> Result<(), Broken> {
        self.accused = true;
        let (epoch, about) = (self.chain.epoch(), ReplicaId(about as u16));
        self.ask_as(member, &Operation::Accuse { epoch, about, why: "suspected".to_owned() })?;
        Ok(())
    }

    fn renew(&mut self, member: usize) -> Result<(), Broken> {
        if member == self.chain.tail() && !self.replicas[member].has_stopped {
            let epoch = self.chain.epoch();
            if let Answer::Lease(until) = self.ask_as(member, &Operation::Renew { epoch })? {
                self.lease = until.0;
            }
        }
        Ok(())
    }

    /// Fetches what a proposal names from whoever can be reached, and says what came of it.
    fn get_hold_of(&mut self, member: usize, proposal: &Proposal) -> Result<(), Broken> {
        let membership = proposal.link.membership();
        let place = membership.members.iter().position(|it| index(it.id) == member);
        let Some(place) = place else { return Ok(()) };
        let named = membership.members[place].life();
        if named != life(self.replicas[member].life) {
            return Ok(());
        }
        let (attempt, link) = (proposal.attempt, proposal.link.digest());
        let succession = &proposal.link.succession;
        let batches = &succession.inherits;
        let lacked = batches.iter().position(|batch| !self.can_get(member, batch));
        if let Some(at) = lacked {
            let slot = Slot(succession.handover.base.slot.0 + 1 + at as u64);
            self.ask_as(member, &Operation::Lacks { attempt, link, slot })?;
            return Ok(());
        }
        let state = succession.handover.base.state;
        if place <= self.f && !self.can_get_state(member, &state) {
            return Ok(());
        }
        let replica = &mut self.replicas[member];
        replica.bodies.extend(batches);
        if place <= self.f {
            replica.states.insert(state);
        }
        self.ask_as(member, &Operation::Holds { attempt, link, life: named })?;
        Ok(())
    }

    fn sources(&self, member: usize) -> impl Iterator<Item = &super::world::Replica> {
        let (all, own) = (self.replicas.iter().enumerate(), member);
        let reached = move |(id, it): &(usize, &super::world::Replica)| {
            *id == own || !(it.lies || it.is_dead || it.is_away)
        };
        all.filter(reached).map(|(_, it)| it)
    }

    fn can_get(&self, member: usize, batch: &Digest) -> bool {
        let is_invented = || !self.replicas.iter().any(|it| it.bodies.contains(batch));
        self.sources(member).any(|it| it.bodies.contains(batch))
            || (self.mode.lies() && self.liars_serve && is_invented())
    }

    fn can_get_state(&self, member: usize, state: &Digest) -> bool {
        let is_invented = || !self.chain.states.contains_key(state);
        *state == Digest::default()
            || self.sources(member).any(|it| it.states.contains(state))
            || (self.mode.lies() && self.liars_serve && is_invented())
    }

    /// A configuration is issued: what has to hold of it, and how its members begin.
    pub fn begin(&mut self, link: &Link) -> Result<(), Broken> {
        let handover = &link.succession.handover;
        if handover.epoch != self.chain.epoch() {
            return broken("once", format!("{:?} ended twice", handover.epoch));
        }
        let inherits = &link.succession.inherits;
        if inherits.len() > WINDOW as usize {
            return broken("bounds", format!("{} batches are inherited", inherits.len()));
        }
        let Some(before) = self.chain.states.get(&handover.base.state) else {
            return broken("bases", "no correct replica had the state");
        };
        if Slot(before.len() as u64) != handover.base.slot {
            return broken("bases", "the state is of another slot");
        }
        let ordered: Vec<_> = before.iter().chain(inherits).copied().collect();
        if !ordered.starts_with(&self.chain.believed) {
            return broken("acceptance", format!("{:?} is lost", self.chain.believed));
        }
        let base = before.len();
        let membership = link.membership();
        self.check_holders(&membership, inherits, handover.base)?;
        for replica in &mut self.replicas {
            (replica.ordered, replica.told) = (Vec::new(), 0);
            (replica.stable, replica.has_stopped) = (0, false);
        }
        for member in &*membership.members {
            let replica = &mut self.replicas[index(member.id)];
            replica.told = ordered.len();
            if member.life() == life(replica.life) {
                replica.ordered.clone_from(&ordered);
            }
        }
        let states = core::mem::take(&mut self.chain.states);
        let inherits = inherits.clone();
        self.chain = Chain { membership, base, inherits, believed: ordered, states };
        self.lease = 0;
        let epoch = self.status().epoch;
        if epoch == self.chain.epoch() {
            Ok(())
        } else {
            broken("once", "it is issued and not begun")
        }
    }

    /// Members of the life that is named hold all that they begin with, and there is one.
    fn check_holders(
        &self,
        membership: &Membership,
        inherits: &[Digest],
        base: Base,
    ) -> Result<(), Broken> {
        let mut holders = 0;
        for (place, member) in membership.members.iter().enumerate() {
            let replica = &self.replicas[index(member.id)];
            if replica.lies || replica.life != member.incarnation.0 {
                continue;
            }
            let has_bodies = inherits.iter().all(|it| replica.bodies.contains(it));
            let has_state = base == Base::default() || replica.states.contains(&base.state);
            if !has_bodies || (place <= self.f && !has_state) {
                return broken("executable", format!("{:?} does not hold it", member.id));
            }
            holders += 1;
        }
        if holders == 0 { broken("executable", "nobody holds it") } else { Ok(()) }
    }
}
