//! A checker that has never caught anything is not a checker: devices with one bug each, and the
//! law that finds it.

use crate::contract::{Broken, contract};
use crate::{REPLICAS, SECRET, member, membership};
use hmac::{Hmac, KeyInit, Mac};
use pentarchy_core::counter::{
    Certificate, Instance, Memory, Position, Refused, Statement, Ui, Usig,
};
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, MemberId, ReplicaId};
use pentarchy_core::membership::Membership;
use pentarchy_trusted::usig::{Claim, REPEATABLE, START, context_of, statement};
use sha2::Sha256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// Certifies a position again for another message.
    AllowsRepeats,
    /// Goes back after a view.
    OrdersByIndexAlone,
    /// Remembers commitments of the present view only.
    ForgetsOnLeaving,
    /// Remembers nothing.
    ForgetsCommitted,
    /// Takes the opening of a view for a commitment.
    CountsOpenings,
    /// Names the position itself as committed before it.
    NamesItself,
    /// A refused call uses up the next position.
    MovesWhenRefused,
    /// Never answers the same twice.
    NeverRepeats,
    /// Answers the same for ever.
    RepeatsForever,
    /// Names the present commitment when it repeats an old certificate.
    RepeatsWithNewMemory,
    /// Opens view 0 itself.
    StartsBelow,
    /// Leaves the member out of what it seals.
    ForgetsReplica,
    /// Leaves the commitment out of what it seals.
    SealsNoMemory,
    /// Leaves its life out of what it seals.
    SealsNoLife,
    /// Believes everything.
    Gullible,
    /// Opens an earlier epoch again.
    GoesBack,
    /// Begins anew in the epoch in which it is.
    BeginsAgain,
    /// Goes on counting in a new epoch where it was in the old one.
    NeverBegins,
    /// Leaves the epoch out of what it seals.
    SealsNoEpoch,
    /// Leaves the configuration out of what it seals.
    SealsNoConfiguration,
    /// Goes to another configuration within an epoch.
    SwapsConfigurations,
    /// Stays under its first configuration in all epochs.
    KeepsConfiguration,
    /// Goes to no other configuration.
    RefusesConfigurations,
    /// Takes the place of a replica for its number.
    CountsPlaces,
    /// Keeps to the places that members had first.
    KeepsPlaces,
    /// Also believes what was said under its first configuration.
    BelievesFirstConfiguration,
    /// Leaves the group out of what it seals.
    SealsNoGroup,
    /// Goes over to another group.
    SwapsGroups,
    /// Takes a memory and goes on from the beginning.
    RestoresNothing,
    /// Takes over where it was and not what it had committed to.
    RestoresNoCommitment,
    /// Takes over what it would repeat only as far as its place goes.
    RestoresNoRepetitions,
    /// Goes to wherever it is told, at any time.
    RestoresAnyTime,
    /// Believes any memory.
    RestoresAnything,
    /// Tells a memory without the last commitment.
    TellsNoCommitment,
    /// Tells no memory, and takes one.
    TellsNothing,
}

/// The reference once more, written independently and with a place for each bug.
struct Mutant {
    bug: Bug,
    member: MemberId,
    incarnation: Incarnation,
    first: EpochId,
    epoch: EpochId,
    members: Vec<MemberId>,
    last: Position,
    committed: Position,
    granted: Vec<(Claim, Digest)>,
}

impl Mutant {
    fn new(bug: Bug, group: &Membership, member: MemberId, incarnation: Incarnation) -> Self {
        let last = if bug == Bug::StartsBelow { Position::default() } else { START };
        let first = group.epoch_id();
        Self {
            bug,
            member,
            incarnation,
            first,
            epoch: first,
            members: numbers(group),
            last,
            committed: START,
            granted: Vec::new(),
        }
    }

    fn seal(&self, member: MemberId, claim: &Claim, digest: &Digest) -> [u8; 32] {
        self.seal_in(self.epoch, member, claim, digest)
    }

    fn seal_in(
        &self,
        mut epoch: EpochId,
        member: MemberId,
        claim: &Claim,
        digest: &Digest,
    ) -> [u8; 32] {
        let mut sealed = *claim;
        let mut by = member;
        match self.bug {
            Bug::ForgetsReplica => by = MemberId(0),
            Bug::SealsNoMemory => sealed.committed = START,
            Bug::SealsNoLife => sealed.incarnation = Incarnation(0),
            _ => {}
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).unwrap();
        match self.bug {
            Bug::SealsNoEpoch => epoch.epoch = Epoch(0),
            Bug::SealsNoConfiguration => epoch.configuration = Digest::default(),
            Bug::SealsNoGroup => epoch.group = GroupId([0; 16]),
            _ => {}
        }
        let context = context_of(&epoch);
        mac.update(&statement(&context, by, &sealed, digest));
        mac.finalize().into_bytes().into()
    }

    fn certify(&self, claim: &Claim, digest: &Digest) -> Ui {
        let Claim { incarnation, position, committed } = *claim;
        let certificate = Certificate::Mac(self.seal(self.member, claim, digest));
        let instance = Instance::FIRST;
        Ui { incarnation, instance, position, committed, certificate }
    }

    fn is_fresh(&self, position: Position) -> bool {
        match self.bug {
            Bug::OrdersByIndexAlone => position.index > self.last.index,
            _ => position > self.last,
        }
    }

    fn repeat(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        let window = match self.bug {
            Bug::NeverRepeats => 0,
            Bug::RepeatsForever => usize::MAX,
            _ => REPEATABLE,
        };
        let any = self.bug == Bug::AllowsRepeats;
        let mut recent = self.granted.iter().rev().take(window);
        let found = recent.find(|(claim, of)| claim.position == position && (any || of == digest));
        match found {
            Some((claim, _)) => {
                let mut claim = *claim;
                if self.bug == Bug::RepeatsWithNewMemory {
                    claim.committed = self.committed;
                }
                Ok(self.certify(&claim, digest))
            }
            None => {
                if self.bug == Bug::MovesWhenRefused {
                    self.last.index = self.last.index.saturating_add(1);
                }
                Err(Refused::Spent)
            }
        }
    }
}

impl Usig for Mutant {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn begin_epoch(&mut self, membership: &Membership) -> Result<(), Refused> {
        let (mut epoch, now) = (membership.epoch_id(), self.epoch);
        if self.bug == Bug::KeepsConfiguration && epoch.epoch > now.epoch {
            epoch.configuration = now.configuration;
        }
        let is_changed = epoch.configuration != now.configuration;
        let is_refused = is_changed && self.bug == Bug::RefusesConfigurations;
        let is_elsewhere = epoch.group != now.group && self.bug != Bug::SwapsGroups;
        if is_refused || is_elsewhere {
            return Err(Refused::Spent);
        }
        let is_back = epoch.epoch < now.epoch && self.bug != Bug::GoesBack;
        let is_other = epoch.epoch == now.epoch && epoch != now;
        if is_back || is_other && self.bug != Bug::SwapsConfigurations {
            return Err(Refused::Spent);
        }
        if epoch != self.epoch || self.bug == Bug::BeginsAgain {
            self.epoch = epoch;
            if self.bug != Bug::KeepsPlaces {
                self.members = numbers(membership);
            }
            if self.bug != Bug::NeverBegins {
                (self.last, self.committed) = (START, START);
                self.granted.clear();
            }
        }
        Ok(())
    }

    fn create(&mut self, position: Position, digest: &Digest) -> Result<Ui, Refused> {
        if !self.is_fresh(position) {
            return self.repeat(position, digest);
        }
        let committed = match self.bug {
            Bug::ForgetsOnLeaving if position.view != self.last.view => START,
            Bug::ForgetsCommitted => START,
            Bug::NamesItself => position,
            _ => self.committed,
        };
        self.committed = committed;
        let claim = Claim { incarnation: self.incarnation, position, committed };
        let first = if self.bug == Bug::CountsOpenings { 1 } else { Position::COMMITMENT };
        if position.index >= first {
            self.committed = position;
        }
        self.last = position;
        self.granted.push((claim, *digest));
        Ok(self.certify(&claim, digest))
    }

    fn memory(&self) -> Option<Memory> {
        let recent = self.granted.iter().rev().take(REPEATABLE).map(|(claim, digest)| {
            let Claim { position, committed, .. } = *claim;
            Statement { position, committed, digest: *digest }
        });
        let hides = self.bug == Bug::TellsNoCommitment;
        let committed = if hides { START } else { self.committed };
        let last = if self.bug == Bug::StartsBelow { self.last.max(START) } else { self.last };
        let memory = Memory { last, committed, recent: recent.collect() };
        (self.bug != Bug::TellsNothing).then_some(memory)
    }

    fn restore(&mut self, memory: &Memory) -> Result<(), Refused> {
        if !self.granted.is_empty() && self.bug != Bug::RestoresAnyTime {
            return Err(Refused::Spent);
        }
        // Written another way than the reference: what leads to this memory, step by step.
        let mut way = (START, memory.recent.last().map_or(START, |oldest| oldest.committed));
        let mut possible = way.1 >= START && memory.recent.len() <= REPEATABLE;
        for Statement { position, committed, .. } in memory.recent.iter().rev() {
            possible &= *position > way.0 && *committed == way.1 && *committed < *position;
            way.0 = *position;
            if position.index >= Position::COMMITMENT {
                way.1 = *position;
            }
        }
        possible &= way == (memory.last, memory.committed);
        if !possible && self.bug != Bug::RestoresAnything {
            return Err(Refused::Spent);
        }
        if self.bug == Bug::RestoresNothing {
            return Ok(());
        }
        (self.last, self.committed) = (memory.last, memory.committed);
        if self.bug == Bug::RestoresNoCommitment {
            self.committed = START;
        }
        let kept = if self.bug == Bug::RestoresNoRepetitions { 0 } else { REPEATABLE };
        self.granted = memory
            .recent
            .iter()
            .take(kept)
            .rev()
            .map(|statement| {
                let Statement { position, committed, digest } = *statement;
                (Claim { incarnation: self.incarnation, position, committed }, digest)
            })
            .collect();
        Ok(())
    }

    fn verify(&self, replica: ReplicaId, ui: &Ui, digest: &Digest) -> bool {
        let by = match self.bug {
            Bug::CountsPlaces => Some(member(replica)),
            _ => self.members.get(usize::from(replica.0)).copied(),
        };
        let Some(by) = by else { return self.bug == Bug::Gullible };
        let seal = self.seal(by, &Claim::of(ui), digest);
        let is_good = ui.instance == Instance::FIRST && ui.certificate == Certificate::Mac(seal);
        let has_moved = self.epoch.configuration != self.first.configuration;
        if self.bug == Bug::BelievesFirstConfiguration && has_moved {
            let seal = self.seal_in(self.first, by, &Claim::of(ui), digest);
            return is_good || ui.certificate == Certificate::Mac(seal);
        }
        self.bug == Bug::Gullible || is_good
    }
}

fn numbers(group: &Membership) -> Vec<MemberId> {
    group.members.iter().map(|member| member.id).collect()
}

/// The law, and what was seen.
fn broken_by(bug: Bug) -> Option<Broken> {
    let make = |group: &Membership, replica, life| -> Box<dyn Usig> {
        Box::new(Mutant::new(bug, group, member(replica), life))
    };
    contract(&make, &membership(&[[0; 32]; REPLICAS as usize])).err()
}

#[test]
fn the_mutant_without_a_bug_keeps_the_contract() {
    assert!(broken_by(Bug::None).is_none());
}

#[test]
fn every_bug_is_found_by_the_law_that_is_there_for_it() {
    let expected = [
        (Bug::AllowsRepeats, "spent"),
        (Bug::OrdersByIndexAlone, "ascending"),
        (Bug::ForgetsOnLeaving, "ascending"),
        (Bug::ForgetsCommitted, "ascending"),
        (Bug::CountsOpenings, "memory"),
        (Bug::NamesItself, "start"),
        (Bug::MovesWhenRefused, "refusal"),
        (Bug::NeverRepeats, "repetition"),
        (Bug::RepeatsForever, "repetition"),
        (Bug::RepeatsWithNewMemory, "repetition"),
        (Bug::StartsBelow, "start"),
        (Bug::ForgetsReplica, "binding"),
        (Bug::SealsNoMemory, "binding"),
        (Bug::SealsNoLife, "binding"),
        (Bug::Gullible, "binding"),
        (Bug::GoesBack, "epochs"),
        (Bug::BeginsAgain, "epochs"),
        (Bug::NeverBegins, "epochs"),
        (Bug::SealsNoEpoch, "epochs"),
        (Bug::SealsNoConfiguration, "configurations"),
        (Bug::SwapsConfigurations, "epochs"),
        (Bug::KeepsConfiguration, "configurations"),
        (Bug::RefusesConfigurations, "configurations"),
        (Bug::BelievesFirstConfiguration, "configurations"),
        (Bug::CountsPlaces, "places"),
        (Bug::KeepsPlaces, "places"),
        (Bug::SealsNoGroup, "groups"),
        (Bug::SwapsGroups, "groups"),
        (Bug::RestoresNothing, "restoring"),
        (Bug::RestoresNoCommitment, "restoring"),
        (Bug::RestoresNoRepetitions, "restoring"),
        (Bug::RestoresAnyTime, "restoring"),
        (Bug::RestoresAnything, "possible memory"),
        (Bug::TellsNoCommitment, "restoring"),
        (Bug::TellsNothing, "restoring"),
    ];
    for (bug, law) in expected {
        let broken = broken_by(bug).unwrap_or_else(|| panic!("{bug:?} was not found"));
        assert_eq!(broken.0, law, "{bug:?}: {broken}");
    }
}
