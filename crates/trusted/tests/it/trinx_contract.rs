//! The contract of TrInX, law by law. Returns the law that a device breaks, so that the suite
//! itself can be tested with broken devices.

use crate::contract::Broken;
use crate::{EPOCH, in_epoch};
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, MemberId, ReplicaId};
use pentarchy_trusted::backend::Trinx;
use pentarchy_trusted::trinx::{
    Ask, COUNTERS, Certificate, Claim, InstanceId, Kind, Memory, Reading, Value, context,
};
use pentarchy_trusted::usig::REPEATABLE;

/// Makes the device of a replica in one life, with two instances. Devices of one factory belong to
/// one group.
pub type Factory<'a> = &'a dyn Fn(MemberId, Incarnation) -> Box<dyn Trinx>;

type Verdict = Result<(), String>;
type Law = fn(Factory) -> Verdict;

const LAWS: [(&str, Law); 11] = [
    ("start", start),
    ("uniqueness", uniqueness),
    ("order", order),
    ("continuity", continuity),
    ("attribution", attribution),
    ("several counters", several),
    ("instances", instances),
    ("repetition", repetition),
    ("binding", binding),
    ("epochs", epochs),
    ("restoring", restoring),
];

/// Runs every law.
pub fn contract(make: Factory) -> Result<(), Broken> {
    LAWS.iter().try_for_each(|(law, check)| check(make).map_err(|what| Broken(law, what)))
}

pub const ME: MemberId = MemberId(1);
/// Which replica that is.
pub const MINE: ReplicaId = ReplicaId(1);
/// The same epoch under another configuration.
pub const CHANGED: EpochId = EpochId { configuration: Digest([9; 32]), ..EPOCH };

pub const LIFE: Incarnation = Incarnation(77);

pub fn digest(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

/// Asks that these counters go to these values.
pub fn ask(kind: Kind, values: &[(usize, u128)]) -> Ask {
    let mut all = [None; COUNTERS];
    for (counter, value) in values {
        all[*counter] = Some(Value(*value));
    }
    Ask { kind, values: all }
}

fn hold(condition: bool, what: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(what()) }
}

/// Certifies, and checks that the certificate says this of these counters (value, previous).
fn grant(
    device: &mut dyn Trinx,
    kind: Kind,
    wanted: &[(usize, u128, u128)],
    of: u64,
) -> Result<Certificate, String> {
    let values: Vec<_> = wanted.iter().map(|(counter, value, _)| (*counter, *value)).collect();
    let said = device
        .certify(0, &ask(kind, &values), &digest(of))
        .map_err(|error| format!("{kind:?} {values:?}: {error}"))?;
    let mut readings = [None; COUNTERS];
    for (counter, value, previous) in wanted {
        let previous = (kind == Kind::Continuing).then_some(Value(*previous));
        readings[*counter] = Some(Reading { value: Value(*value), previous });
    }
    let right = Claim { incarnation: LIFE, kind, readings };
    hold(said.claim == right, || format!("says {:?}, not {right:?}", said.claim))?;
    hold(believes(device, EPOCH.epoch, 0, &said, of), || format!("{values:?}: does not verify"))?;
    Ok(said)
}

/// Whether this instance of the replica is believed in this epoch.
fn believes(device: &dyn Trinx, epoch: Epoch, number: u16, said: &Certificate, of: u64) -> bool {
    let by = InstanceId { member: ME, number };
    device.verify(&context(&in_epoch(epoch)), by, said, &digest(of))
}

fn refuse(device: &mut dyn Trinx, kind: Kind, values: &[(usize, u128)], of: u64) -> Verdict {
    let answer = device.certify(0, &ask(kind, values), &digest(of));
    hold(answer == Err(Refused::Spent), || format!("{kind:?} {values:?} was granted: {answer:?}"))
}

use Kind::{Continuing, Independent};

fn start(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    hold(device.incarnation() == LIFE, || format!("is in {:?}", device.incarnation()))?;
    refuse(&mut *device, Continuing, &[], 1)?;
    refuse(&mut *device, Independent, &[], 1)?;
    refuse(&mut *device, Independent, &[(0, 0)], 1)?;
    grant(&mut *device, Continuing, &[(0, 5, 0)], 1)?;
    grant(&mut *device, Independent, &[(1, u128::MAX, 0)], 1).map(|_| ())
}

fn uniqueness(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    grant(&mut *device, Independent, &[(0, 7, 0)], 1)?;
    refuse(&mut *device, Independent, &[(0, 7)], 2)?;
    grant(&mut *device, Continuing, &[(0, 9, 7)], 1)?;
    refuse(&mut *device, Independent, &[(0, 9)], 2)?;
    // The other kind, at the value where one stands, is no repetition either.
    refuse(&mut *device, Independent, &[(0, 9)], 1)
}

fn order(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    grant(&mut *device, Independent, &[(0, 7, 0)], 1)?;
    for kind in [Continuing, Independent] {
        for value in [0, 1, 6] {
            refuse(&mut *device, kind, &[(0, value)], 2)?;
        }
    }
    // A refusal moves nothing, and at the very end nothing wraps around.
    grant(&mut *device, Independent, &[(0, 8, 7)], 2)?;
    grant(&mut *device, Independent, &[(0, u128::MAX, 8)], 3)?;
    refuse(&mut *device, Independent, &[(0, u128::MAX)], 4)?;
    refuse(&mut *device, Continuing, &[(0, 0)], 4)
}

fn continuity(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    grant(&mut *device, Continuing, &[(0, 3, 0)], 1)?;
    grant(&mut *device, Independent, &[(0, 6, 3)], 2)?;
    grant(&mut *device, Continuing, &[(0, 1 << 64, 6)], 3)?;
    grant(&mut *device, Continuing, &[(0, 2 << 64, 1 << 64)], 4)?;
    grant(&mut *device, Independent, &[(0, (2 << 64) + 9, 0)], 5)?;
    grant(&mut *device, Continuing, &[(0, 9 << 64, (2 << 64) + 9)], 6).map(|_| ())
}

fn attribution(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    // As often as one likes, and nothing else is used up by it.
    for of in 0..2 * REPEATABLE as u64 {
        grant(&mut *device, Continuing, &[(1, 0, 0)], of)?;
    }
    grant(&mut *device, Independent, &[(1, 4, 0)], 1)?;
    for of in 0..2 * REPEATABLE as u64 {
        grant(&mut *device, Continuing, &[(1, 4, 4)], of)?;
    }
    let again = device.certify(0, &ask(Independent, &[(1, 4)]), &digest(1));
    hold(again.is_ok(), || "what moves nothing drives out what did".to_owned())
}

fn several(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    grant(&mut *device, Independent, &[(0, 5, 0)], 1)?;
    grant(&mut *device, Continuing, &[(1, 2, 0)], 1)?;
    // One that may not move holds all of them.
    refuse(&mut *device, Continuing, &[(0, 4), (2, 9)], 2)?;
    refuse(&mut *device, Continuing, &[(0, 9), (1, 1)], 2)?;
    refuse(&mut *device, Independent, &[(0, 6), (1, 2)], 2)?;
    grant(&mut *device, Continuing, &[(0, 5, 5), (1, 3, 2), (2, 1, 0)], 2)?;
    grant(&mut *device, Independent, &[(0, 6, 5), (COUNTERS - 1, 1, 0)], 3)?;
    grant(&mut *device, Continuing, &[(0, 6, 6), (1, 3, 3), (2, 1, 1), (3, 1, 1)], 4).map(|_| ())
}

fn instances(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    hold(device.instances() == 2, || format!("has {} instances", device.instances()))?;
    let wanted = ask(Independent, &[(0, 5)]);
    let first = device.certify(0, &wanted, &digest(1)).map_err(|error| error.to_string())?;
    let second = device.certify(1, &wanted, &digest(2)).map_err(|error| error.to_string())?;
    for (number, certificate, of) in [(0, &first, 1), (1, &second, 2)] {
        for claimed in [0, 1, 2, u16::MAX] {
            let holds = believes(&*device, EPOCH.epoch, claimed, certificate, of);
            hold(holds == (claimed == number), || format!("{number} passes for {claimed}"))?;
        }
    }
    let none = device.certify(2, &wanted, &digest(1));
    hold(none == Err(Refused::Unavailable), || format!("an instance too many says {none:?}"))?;
    let restored = device.restore(2, &Memory::default());
    hold(restored == Err(Refused::Unavailable), || format!("and {restored:?}"))?;
    let begun = device.begin_epoch(2, &EPOCH);
    hold(begun == Err(Refused::Unavailable), || format!("and begins an epoch: {begun:?}"))
}

fn repetition(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    let mut granted = Vec::new();
    for value in 1..REPEATABLE as u128 + 3 {
        let kind = if value % 2 == 0 { Continuing } else { Independent };
        let said = grant(&mut *device, kind, &[(0, value, value - 1)], value as u64)?;
        granted.push((kind, value, said));
    }
    // Asking again must not renew anything, so the window is walked twice.
    for _ in 0..2 {
        for (age, (kind, value, said)) in granted.iter().rev().enumerate() {
            let wanted = ask(*kind, &[(0, *value)]);
            let again = device.certify(0, &wanted, &digest(*value as u64));
            if age < REPEATABLE {
                hold(again == Ok(*said), || format!("{value} again: {again:?}"))?;
            } else {
                hold(again.is_err(), || format!("{value} again, late: {again:?}"))?;
            }
            let (other, last) = (digest(99), granted.len() as u128);
            if *kind == Independent || *value < last {
                let changed = device.certify(0, &wanted, &other);
                hold(changed.is_err(), || format!("{value} for another: {changed:?}"))?;
            }
        }
    }
    Ok(())
}

fn binding(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    let other = make(MemberId(0), LIFE);
    let by = InstanceId { member: ME, number: 0 };
    let here = context(&EPOCH);
    grant(&mut *device, Independent, &[(0, 4, 0)], 1)?;
    let said = [
        grant(&mut *device, Continuing, &[(0, 5, 4), (1, 1, 0)], 2)?,
        grant(&mut *device, Independent, &[(0, 6, 5)], 2)?,
    ];
    for said in said {
        hold(other.verify(&here, by, &said, &digest(2)), || "others cannot check".to_owned())?;
        for member in [0, 2, u32::MAX].map(MemberId) {
            let by = InstanceId { member, number: 0 };
            let holds = other.verify(&here, by, &said, &digest(2));
            hold(!holds, || format!("verifies for {member}"))?;
        }
        let holds = other.verify(&here, by, &said, &digest(3));
        hold(!holds, || "verifies for another digest".to_owned())?;
        let elsewhere = [EpochId { group: GroupId([6; 16]), ..EPOCH }, CHANGED, in_epoch(Epoch(9))];
        for there in elsewhere {
            let holds = other.verify(&context(&there), by, &said, &digest(2));
            hold(!holds, || format!("verifies in {there:?}"))?;
        }
        for changed in changes(&said) {
            let holds = other.verify(&here, by, &changed, &digest(2));
            hold(!holds, || format!("verifies though changed: {changed:?}"))?;
        }
    }
    let mut reborn = make(ME, Incarnation(78));
    let theirs = reborn.certify(0, &ask(Independent, &[(0, 4)]), &digest(1));
    let theirs = theirs.map_err(|error| error.to_string())?;
    let claim = Claim { incarnation: LIFE, ..theirs.claim };
    let posing = Certificate { claim, ..theirs };
    let holds = device.verify(&here, by, &posing, &digest(1));
    hold(!holds, || "verifies for another life".to_owned())
}

/// Certificates that differ from this one in one thing.
fn changes(said: &Certificate) -> Vec<Certificate> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Certificate)| {
        let mut changed = *said;
        change(&mut changed);
        all.push(changed);
    };
    with(&|it| it.claim.incarnation = Incarnation(78));
    with(&|it| {
        it.claim.kind = if it.claim.kind == Continuing { Independent } else { Continuing };
    });
    for counter in 0..COUNTERS {
        match said.claim.readings[counter] {
            None => with(&|it| {
                let (value, previous) = (Value::default(), None);
                it.claim.readings[counter] = Some(Reading { value, previous });
            }),
            Some(Reading { value, previous }) => {
                let put = |value, previous| {
                    move |it: &mut Certificate| {
                        it.claim.readings[counter] = Some(Reading { value, previous });
                    }
                };
                with(&|it| it.claim.readings[counter] = None);
                with(&put(Value(value.0 + 1), previous));
                with(&put(Value(value.0 | 1 << 100), previous));
                let other = match previous {
                    Some(Value(0)) | None => Some(Value(1)),
                    Some(_) => Some(Value::default()),
                };
                with(&put(value, other));
                // Nothing said, and zero said, are two things.
                let other = if previous.is_none() { Some(Value::default()) } else { None };
                with(&put(value, other));
            }
        }
    }
    with(&|it| it.claim.readings.swap(0, 1));
    for bit in 0..256 {
        with(&|it| it.seal[bit / 8] ^= 1 << (bit % 8));
    }
    all
}

/// An instance goes over by itself, and what it certifies names the epoch in which it is.
fn epochs(make: Factory) -> Verdict {
    let mut device = make(ME, LIFE);
    let later = |epochs| Epoch(EPOCH.epoch.0 + epochs);
    grant(&mut *device, Independent, &[(0, 9, 0)], 1)?;
    order_in(&mut *device, 1, EPOCH.epoch, 7)?;
    let to = |device: &mut dyn Trinx, number, epochs| {
        let begun = device.begin_epoch(number, &in_epoch(later(epochs)));
        hold(begun.is_ok(), || format!("{number} does not come to epoch + {epochs}: {begun:?}"))
    };
    to(&mut *device, 0, 0)?;
    refuse(&mut *device, Independent, &[(0, 9)], 2)?;
    to(&mut *device, 0, 2)?;
    order_in(&mut *device, 0, later(2), 1)?;
    // The other one has not come along: it stands where it stood, in the epoch in which it was.
    let spent = device.certify(1, &ask(Independent, &[(0, 7)]), &digest(2));
    hold(spent == Err(Refused::Spent), || format!("the second instance begins anew: {spent:?}"))?;
    order_in(&mut *device, 1, EPOCH.epoch, 8)?;
    to(&mut *device, 1, 1)?;
    order_in(&mut *device, 1, later(1), 1)?;
    to(&mut *device, 1, 2)?;
    order_in(&mut *device, 1, later(2), 1)?;
    for (number, epochs) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
        let back = device.begin_epoch(number, &in_epoch(later(epochs)));
        hold(back.is_err(), || format!("{number} goes back to epoch + {epochs}"))?;
    }
    let same = EpochId { epoch: later(2), ..CHANGED };
    let again = device.begin_epoch(0, &same);
    hold(again == Err(Refused::Spent), || format!("{again:?} under another configuration"))?;
    let stranger = EpochId { group: GroupId([6; 16]), ..in_epoch(later(3)) };
    let strange = device.begin_epoch(0, &stranger);
    hold(strange == Err(Refused::Spent), || format!("{strange:?} in another group"))?;
    order_in(&mut *device, 0, later(2), 2)?;
    changes_configuration(&mut *device, EpochId { epoch: later(3), ..CHANGED })
}

/// The first instance, which stands at 2, goes over to a later epoch under another configuration.
fn changes_configuration(device: &mut dyn Trinx, to: EpochId) -> Verdict {
    let (before, by) = (Epoch(to.epoch.0 - 1), InstanceId { member: ME, number: 0 });
    let old = device.certify(0, &ask(Independent, &[(0, 3)]), &digest(3));
    let old = old.map_err(|error| error.to_string())?;
    let begun = device.begin_epoch(0, &to);
    hold(begun == Ok(()), || format!("{begun:?} under the next configuration"))?;
    let new = device.certify(0, &ask(Independent, &[(0, 1)]), &digest(1));
    let new = new.map_err(|error| error.to_string())?;
    let holds = device.verify(&context(&to), by, &old, &digest(3));
    hold(!holds, || "believes a configuration that is over".to_owned())?;
    hold(device.verify(&context(&to), by, &new, &digest(1)), || "does not come along".to_owned())?;
    for epoch in [before, to.epoch] {
        let holds = believes(device, epoch, 0, &new, 1);
        hold(!holds, || format!("is believed in {epoch:?} under the configuration before"))?;
    }
    Ok(())
}

/// The instance certifies at this value, which is believed in this epoch alone.
fn order_in(device: &mut dyn Trinx, number: u16, epoch: Epoch, value: u64) -> Verdict {
    let said = device.certify(number, &ask(Independent, &[(0, value.into())]), &digest(value));
    let said = said.map_err(|error| format!("{number} at {value} of {epoch:?}: {error}"))?;
    for other in (EPOCH.epoch.0..EPOCH.epoch.0 + 3).map(Epoch) {
        let is_believed = believes(device, other, number, &said, value);
        let what = || format!("{number} in {epoch:?}: believed in {other:?}: {is_believed}");
        hold(is_believed == (other == epoch), what)?;
    }
    Ok(())
}

/// Nobody can tell a device that was given the memory of another one from that one, and what no
/// device could remember is not taken over.
fn restoring(make: Factory) -> Verdict {
    let mut random = 88_172_645_463_325_252_u64;
    let mut below = |bound: u64| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random >> 11) % bound
    };
    for story in 0..40 {
        let (mut before, mut after) = (make(ME, LIFE), make(ME, LIFE));
        let mut step = || {
            let kind = if below(2) == 0 { Continuing } else { Independent };
            let (counter, more) = (below(2) as usize, below(3));
            let mut values = vec![(counter, u128::from(below(12)))];
            values.extend((more == 0).then(|| (2, u128::from(below(6)))));
            (ask(kind, &values), digest(below(2)))
        };
        for _ in 0..story {
            let (ask, digest) = step();
            let _ = before.certify(0, &ask, &digest);
        }
        let Some(memory) = before.memory(0) else {
            let taken = after.restore(0, &Memory::default());
            return hold(taken.is_err(), || "takes a memory, and has one".to_owned());
        };
        for wrong in impossible(&memory) {
            let taken = after.restore(0, &wrong);
            hold(taken.is_err(), || format!("takes over {wrong:?}"))?;
        }
        after.restore(0, &memory).map_err(|error| format!("{memory:?}: {error}"))?;
        if memory != Memory::default() {
            for memory in [&memory, &Memory::default()] {
                let again = after.restore(0, memory);
                hold(again.is_err(), || format!("goes to {memory:?}"))?;
            }
        }
        for _ in 0..40 {
            let (ask, digest) = step();
            let said = (before.certify(0, &ask, &digest), after.certify(0, &ask, &digest));
            hold(said.0 == said.1, || format!("{ask:?} after {memory:?}: {said:?}"))?;
        }
        hold(before.memory(0) == after.memory(0), || format!("{memory:?}: remembers otherwise"))?;
    }
    Ok(())
}

/// What nobody can have come to who remembers this, or nothing.
fn impossible(memory: &Memory) -> Vec<Memory> {
    let mut all = Vec::new();
    let mut with = |change: &dyn Fn(&mut Memory)| {
        let mut changed = *memory;
        change(&mut changed);
        if changed != *memory {
            all.push(changed);
        }
    };
    with(&|it| it.values[0].0 += 1);
    with(&|it| it.values[3].0 += 1);
    with(&|it| it.recent[0] = None);
    with(&|it| it.recent.reverse());
    with(&|it| {
        if let Some(newest) = &mut it.recent[0] {
            newest.before = it.values;
        }
    });
    with(&|it| it.recent.swap(0, 1));
    all
}
