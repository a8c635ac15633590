//! TrInX devices with one bug each, and the law that finds it.

use crate::contract::Broken;
use crate::process::behind_mailboxes;
use crate::trinx_contract::{CHANGED, contract};
use crate::{EPOCH, SECRET, in_epoch};
use hmac::{Hmac, KeyInit, Mac};
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{Epoch, Incarnation, MemberId};
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::trinx::{
    self, Ask, COUNTERS, Certificate, Certified, Claim, InstanceId, Kind, Memory, Reading, Value,
    statement,
};
use pentarchy_trusted::usig::REPEATABLE;
use sha2::Sha256;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bug {
    None,
    /// Certifies nothing about no counter.
    EmptyAsks,
    /// An independent certificate may have the value that stands.
    IndependentOfEqual,
    /// A continuing certificate may go back.
    ContinuingFalls,
    /// Names the new value as the one before.
    NamesItself,
    /// Names what was before by the last continuing certificate only.
    ForgetsIndependent,
    /// A continuing certificate has to move.
    NoEqualValues,
    /// What moves nothing is remembered too, in place of what did.
    RemembersMacs,
    /// Looks at the first counter only.
    ChecksFirstCounter,
    /// A refusal moves the counter by one.
    MovesWhenRefused,
    /// All instances share their counters.
    SharesCounters,
    /// An instance that is not there is the first.
    AnyInstance,
    /// Leaves the instance out of what it seals.
    SealsNoInstance,
    /// Leaves the member out of what it seals.
    SealsNoReplica,
    /// Leaves its life out of what it seals.
    SealsNoLife,
    /// Leaves the kind out of what it seals.
    SealsNoKind,
    /// Leaves out what was before.
    SealsNoPrevious,
    /// Leaves out which counter it is.
    SealsNoCounter,
    /// Leaves the epoch out of what it seals.
    SealsNoEpoch,
    /// Believes everything.
    Gullible,
    /// Never answers the same twice.
    NeverRepeats,
    /// Answers the same for ever.
    RepeatsForever,
    /// Repeats for any digest.
    RepeatsForAny,
    /// Opens an earlier epoch again.
    GoesBack,
    /// Begins anew in the epoch in which it is.
    BeginsAgain,
    /// Only the first instance goes over to a new epoch.
    FirstBegins,
    /// All instances go over to an epoch with any one.
    AllBegin,
    /// All seal the epoch of the first, and count for themselves.
    SealsEpochOfFirst,
    /// Seals the same under every configuration.
    SealsNoConfiguration,
    /// Goes to another configuration within an epoch.
    SwapsConfigurations,
    /// Stays under its first configuration in all epochs.
    KeepsConfiguration,
    /// Goes to no other configuration.
    RefusesConfigurations,
    /// Goes over to another group.
    SwapsGroups,
    /// Keeps its values in a new epoch.
    KeepsValues,
    /// Takes a memory and goes on from the beginning.
    RestoresNothing,
    /// Goes to wherever it is told, at any time.
    RestoresAnyTime,
    /// Believes any memory.
    RestoresAnything,
    /// Tells no memory, and takes one.
    TellsNothing,
}

#[derive(Clone, Default)]
struct Counters {
    epoch: EpochId,
    values: [Value; COUNTERS],
    /// What the last continuing certificate left.
    continued: [Value; COUNTERS],
    said: Vec<Certified>,
}

/// The reference once more, written independently and with a place for each bug.
struct Mutant {
    bug: Bug,
    member: MemberId,
    incarnation: Incarnation,
    instances: [Counters; 2],
}

/// Where an instance begins in an epoch.
fn fresh(epoch: EpochId) -> Counters {
    Counters { epoch, ..Counters::default() }
}

impl Mutant {
    fn new(bug: Bug, member: MemberId, incarnation: Incarnation) -> Self {
        Self { bug, member, incarnation, instances: [fresh(EPOCH), fresh(EPOCH)] }
    }

    fn seal(&self, context: &Digest, by: InstanceId, claim: &Claim, digest: &Digest) -> [u8; 32] {
        let (mut by, mut claim, mut context) = (by, *claim, *context);
        match self.bug {
            Bug::SealsNoInstance => by.number = 0,
            Bug::SealsNoReplica => by.member = MemberId(0),
            Bug::SealsNoLife => claim.incarnation = Incarnation(0),
            Bug::SealsNoKind => claim.kind = Kind::Continuing,
            Bug::SealsNoPrevious => {
                claim.readings.iter_mut().flatten().for_each(|it| it.previous = None);
            }
            Bug::SealsNoCounter => claim.readings.sort_by_key(|it| it.map(|it| it.value)),
            Bug::SealsNoEpoch => context = trinx::context(&in_epoch(Epoch(0))),
            // The contract asks under this one.
            Bug::SealsNoConfiguration if context == trinx::context(&CHANGED) => {
                context = trinx::context(&EPOCH);
            }
            _ => {}
        }
        let mut mac = Hmac::<Sha256>::new_from_slice(&SECRET).unwrap();
        mac.update(statement(&context, by, &claim, digest).as_bytes());
        mac.finalize().into_bytes().into()
    }

    fn answer(&self, number: u16, it: &Certified) -> Certificate {
        let named = |counter: usize| match self.bug {
            Bug::NamesItself => it.ask.values[counter].unwrap_or_default(),
            _ => it.before[counter],
        };
        let continuing = it.ask.kind == Kind::Continuing;
        let reading = |counter: usize| {
            let previous = continuing.then(|| named(counter));
            it.ask.values[counter].map(|value| Reading { value, previous })
        };
        let readings = std::array::from_fn(reading);
        let claim = Claim { incarnation: self.incarnation, kind: it.ask.kind, readings };
        let by = InstanceId { member: self.member, number };
        let of = if self.bug == Bug::SealsEpochOfFirst { 0 } else { usize::from(number) };
        let epoch = self.instances.get(of).map_or(EPOCH, |own| own.epoch);
        let context = trinx::context(&epoch);
        Certificate { claim, seal: self.seal(&context, by, &claim, &it.digest) }
    }

    fn may(&self, ask: &Ask, values: &[Value; COUNTERS]) -> bool {
        let looked_at = if self.bug == Bug::ChecksFirstCounter { 1 } else { COUNTERS };
        let fine = (0..looked_at).all(|counter| match ask.values[counter] {
            None => true,
            Some(value) => match ask.kind {
                Kind::Continuing if self.bug == Bug::ContinuingFalls => true,
                Kind::Continuing if self.bug == Bug::NoEqualValues => value > values[counter],
                Kind::Continuing => value >= values[counter],
                Kind::Independent if self.bug == Bug::IndependentOfEqual => {
                    value >= values[counter]
                }
                Kind::Independent => value > values[counter],
            },
        });
        let some = ask.values.iter().any(Option::is_some) || self.bug == Bug::EmptyAsks;
        some && fine
    }
}

impl Trinx for Mutant {
    fn incarnation(&self) -> Incarnation {
        self.incarnation
    }

    fn instances(&self) -> u16 {
        2
    }

    fn begin_epoch(&mut self, number: u16, epoch: &EpochId) -> Result<(), Refused> {
        let bug = self.bug;
        let number = if bug == Bug::AnyInstance { number % 2 } else { number };
        let own = self.instances.get_mut(usize::from(number)).ok_or(Refused::Unavailable)?;
        let now = own.epoch;
        let is_back = epoch.epoch < now.epoch && bug != Bug::GoesBack;
        let is_other = epoch.epoch == now.epoch && *epoch != now && bug != Bug::SwapsConfigurations;
        let is_elsewhere = epoch.group != now.group && bug != Bug::SwapsGroups;
        let is_changed = epoch.configuration != now.configuration;
        let is_refused = is_changed && bug == Bug::RefusesConfigurations;
        if is_back || is_other || is_elsewhere || is_refused {
            return Err(Refused::Spent);
        }
        let mut epoch = *epoch;
        if bug == Bug::KeepsConfiguration {
            epoch.configuration = now.configuration;
        }
        if epoch != own.epoch || bug == Bug::BeginsAgain {
            match bug {
                Bug::FirstBegins if number > 0 => {}
                Bug::KeepsValues => own.epoch = epoch,
                Bug::AllBegin => self.instances.fill(fresh(epoch)),
                _ => *own = fresh(epoch),
            }
        }
        Ok(())
    }

    fn certify(&mut self, number: u16, ask: &Ask, digest: &Digest) -> Result<Certificate, Refused> {
        let number = if self.bug == Bug::AnyInstance { number % 2 } else { number };
        let shared = if self.bug == Bug::SharesCounters { 0 } else { usize::from(number) };
        let own = self.instances.get(shared).ok_or(Refused::Unavailable)?.clone();
        let window = match self.bug {
            Bug::NeverRepeats => 0,
            Bug::RepeatsForever => usize::MAX,
            _ => REPEATABLE,
        };
        let any = self.bug == Bug::RepeatsForAny;
        let mut recent = own.said.iter().rev().take(window);
        if let Some(it) = recent.find(|it| it.ask == *ask && (any || it.digest == *digest)) {
            return Ok(self.answer(number, &Certified { digest: *digest, ..*it }));
        }
        let mut next = own.clone();
        if !self.may(ask, &own.values) {
            if self.bug == Bug::MovesWhenRefused {
                next.values[0].0 = next.values[0].0.saturating_add(1);
                self.instances[shared] = next;
            }
            return Err(Refused::Spent);
        }
        let forgets = self.bug == Bug::ForgetsIndependent;
        let before = if forgets { own.continued } else { own.values };
        let it = Certified { ask: *ask, before, digest: *digest };
        for (counter, value) in ask.values.iter().enumerate() {
            next.values[counter] = value.unwrap_or(next.values[counter]);
            if ask.kind == Kind::Continuing {
                next.continued[counter] = next.values[counter];
            }
        }
        if next.values != own.values || self.bug == Bug::RemembersMacs {
            next.said.push(it);
        }
        self.instances[shared] = next;
        Ok(self.answer(number, &it))
    }

    fn memory(&self, instance: u16) -> Option<Memory> {
        let own = self.instances.get(usize::from(instance))?;
        let mut recent = [None; REPEATABLE];
        for (place, it) in recent.iter_mut().zip(own.said.iter().rev()) {
            *place = Some(*it);
        }
        (self.bug != Bug::TellsNothing).then_some(Memory { values: own.values, recent })
    }

    fn restore(&mut self, instance: u16, memory: &Memory) -> Result<(), Refused> {
        let bug = self.bug;
        let own = self.instances.get_mut(usize::from(instance)).ok_or(Refused::Unavailable)?;
        let is_fresh = own.values == [Value::default(); COUNTERS];
        if !is_fresh && bug != Bug::RestoresAnyTime {
            return Err(Refused::Spent);
        }
        // Written another way than the reference: what leads to this memory, step by step.
        let said: Vec<Certified> = memory.recent.iter().rev().flatten().copied().collect();
        let places = memory.recent.iter().take_while(|it| it.is_some()).count();
        let first = said.first().map_or([Value::default(); COUNTERS], |it| it.before);
        let begins = said.len() == REPEATABLE || first == [Value::default(); COUNTERS];
        let (mut stands, mut possible) = (first, begins && places == said.len());
        for it in &said {
            let then = std::array::from_fn(|at| it.ask.values[at].unwrap_or(stands[at]));
            let ascends = (0..COUNTERS).all(|at| match it.ask.kind {
                Kind::Continuing => then[at] >= stands[at],
                Kind::Independent => it.ask.values[at].is_none() || then[at] > stands[at],
            });
            possible &= it.before == stands && ascends && then != stands;
            stands = then;
        }
        if !(possible && stands == memory.values) && bug != Bug::RestoresAnything {
            return Err(Refused::Spent);
        }
        if bug != Bug::RestoresNothing {
            *own = Counters { values: memory.values, said, ..fresh(own.epoch) };
        }
        Ok(())
    }

    fn verify(&self, context: &Digest, by: InstanceId, it: &Certificate, digest: &Digest) -> bool {
        self.bug == Bug::Gullible || self.seal(context, by, &it.claim, digest) == it.seal
    }
}

/// The law, and what was seen.
fn broken_by(bug: Bug) -> Option<Broken> {
    let make = |member, life| -> Box<dyn Trinx> { Box::new(Mutant::new(bug, member, life)) };
    contract(&make).err()
}

#[test]
fn the_trinx_without_a_bug_keeps_the_contract() {
    assert!(broken_by(Bug::None).is_none(), "{:?}", broken_by(Bug::None));
}

/// Each bug, and the law that is there for it.
const EXPECTED: [(Bug, &str); 37] = [
    (Bug::EmptyAsks, "start"),
    (Bug::IndependentOfEqual, "start"),
    (Bug::ContinuingFalls, "order"),
    (Bug::NamesItself, "start"),
    (Bug::ForgetsIndependent, "uniqueness"),
    (Bug::NoEqualValues, "attribution"),
    (Bug::RemembersMacs, "attribution"),
    (Bug::ChecksFirstCounter, "several counters"),
    (Bug::MovesWhenRefused, "start"),
    (Bug::SharesCounters, "instances"),
    (Bug::AnyInstance, "instances"),
    (Bug::SealsNoInstance, "instances"),
    (Bug::SealsNoReplica, "binding"),
    (Bug::SealsNoLife, "binding"),
    (Bug::SealsNoKind, "binding"),
    (Bug::SealsNoPrevious, "binding"),
    (Bug::SealsNoCounter, "binding"),
    (Bug::SealsNoEpoch, "binding"),
    (Bug::SealsNoConfiguration, "binding"),
    (Bug::SwapsConfigurations, "epochs"),
    (Bug::Gullible, "instances"),
    (Bug::NeverRepeats, "attribution"),
    (Bug::RepeatsForever, "repetition"),
    (Bug::RepeatsForAny, "uniqueness"),
    (Bug::GoesBack, "epochs"),
    (Bug::BeginsAgain, "epochs"),
    (Bug::FirstBegins, "epochs"),
    (Bug::AllBegin, "epochs"),
    (Bug::SealsEpochOfFirst, "epochs"),
    (Bug::KeepsConfiguration, "epochs"),
    (Bug::RefusesConfigurations, "epochs"),
    (Bug::SwapsGroups, "epochs"),
    (Bug::KeepsValues, "epochs"),
    (Bug::RestoresNothing, "restoring"),
    (Bug::RestoresAnyTime, "restoring"),
    (Bug::RestoresAnything, "restoring"),
    (Bug::TellsNothing, "restoring"),
];

/// What was found otherwise than it should be.
fn wrong(broken_by: impl Fn(Bug) -> Option<Broken>) -> Vec<String> {
    let mut wrong = Vec::new();
    for (bug, law) in EXPECTED {
        match broken_by(bug) {
            Some(broken) if broken.0 == law => {}
            broken => wrong.push(format!("{bug:?} should break {law}: {broken:?}")),
        }
    }
    wrong
}

#[test]
fn every_bug_of_a_trinx_is_found_by_the_law_that_is_there_for_it() {
    let wrong = wrong(broken_by);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What goes through shared memory hides no bug and adds none, but for one: an instance that is not
/// there has no mailbox in which it could be the first.
#[test]
fn bugs_are_found_through_mailboxes_as_well() {
    let broken_by = |bug| {
        let make = |member, life| -> Box<dyn Trinx> {
            Box::new(behind_mailboxes(Mutant::new(bug, member, life)))
        };
        contract(&make).err()
    };
    assert!(broken_by(Bug::None).is_none(), "{:?}", broken_by(Bug::None));
    assert_eq!(wrong(broken_by), ["AnyInstance should break instances: None"]);
}
