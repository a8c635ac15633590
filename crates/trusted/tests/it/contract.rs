//! The contract of a trusted counter, law by law. Returns the law that a device breaks, so that the
//! suite itself can be tested with broken devices.

use pentarchy_core::counter::{
    Certificate, Instance, Memory, Position, Refused, Statement, Ui, Usig,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, GroupId, Incarnation, ReplicaId, View};
use pentarchy_core::membership::Membership;
use pentarchy_trusted::usig::{REPEATABLE, START};

/// Makes the device of a replica in one life, in the epoch of a membership.
pub type Factory<'a> = &'a dyn Fn(&Membership, ReplicaId, Incarnation) -> Box<dyn Usig>;
/// The same in one group.
type Member<'a> = &'a dyn Fn(ReplicaId, Incarnation) -> Box<dyn Usig>;

/// The law that was broken, and what was seen.
#[derive(Debug)]
pub struct Broken(pub &'static str, pub String);

impl std::fmt::Display for Broken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the law of {} is broken: {}", self.0, self.1)
    }
}

type Verdict = Result<(), String>;
type Law = fn(Member, &Membership) -> Verdict;

const LAWS: [(&str, Law); 13] = [
    ("start", |make, _| start(make)),
    ("ascending", |make, _| ascending(make)),
    ("spent", |make, _| spent(make)),
    ("refusal", |make, _| refusal(make)),
    ("repetition", |make, _| repetition(make)),
    ("memory", |make, _| memory(make)),
    ("binding", |make, _| binding(make)),
    ("epochs", epochs),
    ("configurations", configurations),
    ("places", places),
    ("model", |make, _| model(make)),
    ("restoring", restoring),
    ("possible memory", |make, _| possible(make)),
];

/// Runs every law. `group` is the membership in whose epoch the devices are made.
pub fn contract(make: Factory, group: &Membership) -> Result<(), Broken> {
    let member = |replica, life| make(group, replica, life);
    let check = |(law, check): &(&'static str, Law)| {
        check(&member, group).map_err(|what| Broken(law, what))
    };
    LAWS.iter().try_for_each(check)?;
    groups(make, group).map_err(|what| Broken("groups", what))
}

const ME: ReplicaId = ReplicaId(1);
const LIFE: Incarnation = Incarnation(77);

fn at(view: u64, index: u64) -> Position {
    Position::new(View(view), index)
}

fn digest(number: u64) -> Digest {
    Digest::of(&number.to_le_bytes())
}

fn hold(condition: bool, what: impl FnOnce() -> String) -> Verdict {
    if condition { Ok(()) } else { Err(what()) }
}

/// Certifies and checks everything that the identifier says.
fn grant(
    usig: &mut dyn Usig,
    position: Position,
    of: u64,
    committed: Position,
) -> Result<Ui, String> {
    let ui =
        usig.create(position, &digest(of)).map_err(|error| format!("{position:?}: {error}"))?;
    hold(ui.incarnation == LIFE, || format!("{position:?}: says {:?}", ui.incarnation))?;
    hold(ui.position == position, || format!("{position:?}: says {:?}", ui.position))?;
    hold(ui.committed == committed, || {
        format!("{position:?}: says committed {:?}, was {committed:?}", ui.committed)
    })?;
    hold(usig.verify(ME, &ui, &digest(of)), || format!("{position:?}: does not verify"))?;
    Ok(ui)
}

fn refuse(usig: &mut dyn Usig, position: Position, of: u64) -> Verdict {
    let answer = usig.create(position, &digest(of));
    hold(answer == Err(Refused::Spent), || format!("{position:?} was granted: {answer:?}"))
}

fn start(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    hold(usig.incarnation() == LIFE, || format!("is in {:?}", usig.incarnation()))?;
    for position in [at(0, 0), at(0, 1), START] {
        refuse(&mut *make(ME, LIFE), position, 1)?;
    }
    grant(&mut *usig, at(0, 3), 1, START).map(|_| ())
}

fn ascending(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    let positions = [at(0, 3), at(0, 4), at(0, 9), at(4, 2), at(5, 2), at(5, u64::MAX), at(6, 2)];
    let mut committed = START;
    for (of, position) in (0..).zip(positions) {
        grant(&mut *usig, position, of, committed)?;
        committed = position;
    }
    grant(&mut *usig, at(u64::MAX, u64::MAX), 9, committed).map(|_| ())
}

fn spent(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    grant(&mut *usig, at(2, 0), 1, START)?;
    grant(&mut *usig, at(2, 7), 2, START)?;
    for position in [at(2, 7), at(2, 6), at(2, 0), at(1, u64::MAX), at(0, 3), at(0, 0)] {
        refuse(&mut *usig, position, 3)?;
    }
    // At the very end there is nowhere left to go, and nothing wraps around.
    let last = at(u64::MAX, u64::MAX);
    grant(&mut *usig, last, 4, at(2, 7))?;
    refuse(&mut *usig, last, 5)?;
    refuse(&mut *usig, at(0, 3), 5)
}

fn refusal(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    grant(&mut *usig, at(0, 5), 1, START)?;
    for index in 0..5 {
        refuse(&mut *usig, at(0, index), 2)?;
    }
    grant(&mut *usig, at(0, 6), 3, at(0, 5)).map(|_| ())
}

fn repetition(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    let mut granted = Vec::new();
    let mut committed = START;
    for index in 3..3 + REPEATABLE as u64 + 2 {
        granted.push(grant(&mut *usig, at(0, index), index, committed)?);
        committed = at(0, index);
    }
    // Asking again must not renew anything, so the window is walked twice.
    for _ in 0..2 {
        for (age, ui) in granted.iter().rev().enumerate() {
            let position = ui.position;
            refuse(&mut *usig, position, position.index + 1)?;
            if age < REPEATABLE {
                let again = usig.create(position, &digest(position.index));
                hold(again == Ok(*ui), || format!("{position:?} again: {again:?}"))?;
            } else {
                refuse(&mut *usig, position, position.index)?;
            }
        }
    }
    grant(&mut *usig, at(1, 0), 99, committed).map(|_| ())
}

fn memory(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    // Position, and the commitment that its certificate must name.
    let story = [
        (at(0, 5), START),
        // Views that fail before anyone commits in them hide nothing.
        (at(1, 0), at(0, 5)),
        (at(2, 0), at(0, 5)),
        (at(2, 1), at(0, 5)),
        (at(3, 0), at(0, 5)),
        (at(3, 1), at(0, 5)),
        (at(3, 2), at(0, 5)),
        (at(3, 3), at(3, 2)),
        (at(9, 1), at(3, 3)),
        (at(10, 0), at(3, 3)),
    ];
    for (of, (position, committed)) in (0..).zip(story) {
        grant(&mut *usig, position, of, committed)?;
    }
    Ok(())
}

fn binding(make: Member) -> Verdict {
    let mut usig = make(ME, LIFE);
    grant(&mut *usig, at(0, 3), 1, START)?;
    let ui = grant(&mut *usig, at(1, 4), 2, at(0, 3))?;
    let other_replica = make(ReplicaId(0), LIFE);
    hold(other_replica.verify(ME, &ui, &digest(2)), || "others cannot check".to_owned())?;
    for verifier in [&*usig, &*other_replica] {
        for replica in [ReplicaId(0), ReplicaId(2), ReplicaId(3), ReplicaId(u16::MAX)] {
            let holds = verifier.verify(replica, &ui, &digest(2));
            hold(!holds, || format!("verifies for {replica}"))?;
        }
        hold(!verifier.verify(ME, &ui, &digest(3)), || "verifies for another digest".to_owned())?;
        for changed in changes(&ui) {
            let holds = verifier.verify(ME, &changed, &digest(2));
            hold(!holds, || format!("verifies though changed: {changed:?}"))?;
        }
    }
    // The same story in another life is another story.
    let mut reborn = make(ME, Incarnation(78));
    let theirs = reborn.create(at(0, 3), &digest(1)).map_err(|error| error.to_string())?;
    let posing = Ui { incarnation: LIFE, ..theirs };
    hold(!usig.verify(ME, &posing, &digest(1)), || "verifies for another life".to_owned())
}

fn epochs(make: Member, group: &Membership) -> Verdict {
    let later = |epochs: u64| {
        let epoch = Epoch(group.epoch.0 + epochs);
        Membership { epoch, ..group.clone() }
    };
    let begin = |usig: &mut dyn Usig, epochs: u64| usig.begin_epoch(&later(epochs));
    let mut usig = make(ME, LIFE);
    let old = grant(&mut *usig, at(3, 9), 1, START)?;
    hold(begin(&mut *usig, 0) == Ok(()), || "refuses the epoch it is in".to_owned())?;
    refuse(&mut *usig, at(3, 9), 2)?;
    hold(begin(&mut *usig, 2) == Ok(()), || "refuses a later epoch".to_owned())?;
    hold(!usig.verify(ME, &old, &digest(1)), || "believes an epoch that is over".to_owned())?;
    refuse(&mut *usig, START, 2)?;
    let new = grant(&mut *usig, at(0, 3), 2, START)?;
    hold(!make(ME, LIFE).verify(ME, &new, &digest(2)), || "seals no epoch".to_owned())?;
    for epochs in [0, 1] {
        hold(begin(&mut *usig, epochs).is_err(), || format!("goes back to epoch + {epochs}"))?;
    }
    let changed = Membership { configuration: Digest([9; 32]), ..later(2) };
    let swapped = usig.begin_epoch(&changed);
    hold(swapped == Err(Refused::Spent), || format!("{swapped:?} under another configuration"))?;
    hold(begin(&mut *usig, 3) == Ok(()), || "refuses a later epoch".to_owned())?;
    grant(&mut *usig, at(0, 3), 4, START)?;
    hold(begin(&mut *usig, 2).is_err(), || "goes back".to_owned())?;
    grant(&mut *usig, at(0, 4), 5, at(0, 3)).map(|_| ())
}

/// A later epoch may have another configuration. What was said under the one before means nothing
/// in it, nor does what is said in it mean anything in an epoch of the same number that kept its
/// configuration.
fn configurations(make: Member, group: &Membership) -> Verdict {
    let next = Membership { epoch: Epoch(group.epoch.0 + 1), ..group.clone() };
    let changed = Membership { configuration: Digest([9; 32]), ..next.clone() };
    let [mut usig, mut other, mut unchanged] = [ME, ReplicaId(0), ME].map(|who| make(who, LIFE));
    let old = grant(&mut *usig, at(3, 9), 1, START)?;
    for (usig, to) in [(&mut usig, &changed), (&mut other, &changed), (&mut unchanged, &next)] {
        let begun = usig.begin_epoch(to);
        hold(begun == Ok(()), || format!("{begun:?} at {:?}", to.epoch_id()))?;
    }
    for usig in [&usig, &other] {
        let holds = usig.verify(ME, &old, &digest(1));
        hold(!holds, || "believes a configuration that is over".to_owned())?;
    }
    let new = grant(&mut *usig, at(0, 3), 2, START)?;
    hold(other.verify(ME, &new, &digest(2)), || "others do not come along".to_owned())?;
    hold(!unchanged.verify(ME, &new, &digest(2)), || "seals no configuration".to_owned())?;
    let stays = grant(&mut *unchanged, at(0, 3), 2, START)?;
    hold(!other.verify(ME, &stays, &digest(2)), || "seals no configuration".to_owned())
}

/// A member that stays is believed as the replica that it is in the next configuration, and as no
/// other one.
fn places(make: Member, group: &Membership) -> Verdict {
    let (epoch, members) = (Epoch(group.epoch.0 + 1), group.members[1..].into());
    let next = Membership { epoch, members, configuration: Digest([9; 32]), ..group.clone() };
    let [mut usig, mut other] = [ME, ReplicaId(2)].map(|who| make(who, LIFE));
    for usig in [&mut usig, &mut other] {
        let begun = usig.begin_epoch(&next);
        hold(begun == Ok(()), || format!("{begun:?} when another one has left"))?;
    }
    let said = usig.create(at(0, 3), &digest(1)).map_err(|refused| refused.to_string())?;
    for judge in [&usig, &other] {
        for (place, is_its) in [(0, true), (1, false), (2, false), (u16::MAX, false)] {
            let holds = judge.verify(ReplicaId(place), &said, &digest(1));
            hold(holds == is_its, || format!("believes it of replica {place}: {holds}"))?;
        }
    }
    Ok(())
}

/// Nothing that is said in one group means anything in another one that shares its secret, its
/// configuration and the number of its epoch, and no device goes from one to the other.
fn groups(make: Factory, group: &Membership) -> Verdict {
    let theirs = Membership { group: GroupId([8; 16]), ..group.clone() };
    let mut here = make(group, ME, LIFE);
    let mut there = make(&theirs, ME, LIFE);
    let said = grant(&mut *there, at(0, 3), 1, START)?;
    hold(!here.verify(ME, &said, &digest(1)), || "believes another group".to_owned())?;
    let ours = grant(&mut *here, at(0, 3), 1, START)?;
    hold(!there.verify(ME, &ours, &digest(1)), || "is believed in another group".to_owned())?;
    for epochs in [0, 1] {
        let to = Membership { epoch: Epoch(group.epoch.0 + epochs), ..theirs.clone() };
        let begun = here.begin_epoch(&to);
        hold(begun == Err(Refused::Spent), || format!("{begun:?} in epoch + {epochs} of others"))?;
    }
    grant(&mut *here, at(0, 4), 2, at(0, 3)).map(|_| ())
}

/// Identifiers that differ from this one in one number or one bit.
fn changes(ui: &Ui) -> Vec<Ui> {
    let Position { view, index } = ui.position;
    let Position { view: committed_view, index: committed_index } = ui.committed;
    let mut all = vec![
        Ui { incarnation: ui.incarnation.next(), ..*ui },
        Ui { instance: Instance(ui.instance.0 ^ 1), ..*ui },
        Ui { position: Position { view: view.next(), index }, ..*ui },
        Ui { position: Position { view, index: index + 1 }, ..*ui },
        Ui { committed: Position { view: committed_view.next(), index: committed_index }, ..*ui },
        Ui { committed: Position { view: committed_view, index: committed_index - 1 }, ..*ui },
        Ui { position: ui.committed, committed: ui.position, ..*ui },
    ];
    let flip = |bytes: &mut [u8], bit: usize| bytes[bit / 8] ^= 1 << (bit % 8);
    match ui.certificate {
        Certificate::Mac(bytes) => {
            all.push(Ui { certificate: Certificate::Signature([0; 64]), ..*ui });
            for bit in 0..8 * bytes.len() {
                let mut bytes = bytes;
                flip(&mut bytes, bit);
                all.push(Ui { certificate: Certificate::Mac(bytes), ..*ui });
            }
        }
        Certificate::Signature(bytes) => {
            all.push(Ui { certificate: Certificate::Mac([0; 32]), ..*ui });
            for bit in 0..8 * bytes.len() {
                let mut bytes = bytes;
                flip(&mut bytes, bit);
                all.push(Ui { certificate: Certificate::Signature(bytes), ..*ui });
            }
        }
    }
    all
}

/// What a device should answer: all that it ever granted, in order.
#[derive(Default)]
struct Model {
    granted: Vec<(Position, u64, Ui)>,
}

impl Model {
    fn committed(&self) -> Position {
        let mut commitments = self.granted.iter().map(|(position, ..)| *position);
        commitments.rfind(|position| position.index >= Position::COMMITMENT).unwrap_or(START)
    }

    fn check(&mut self, usig: &mut dyn Usig, position: Position, of: u64) -> Verdict {
        let last = self.granted.last().map_or(START, |(last, ..)| *last);
        if position > last {
            let ui = grant(usig, position, of, self.committed())?;
            self.granted.push((position, of, ui));
            return Ok(());
        }
        let window = self.granted.iter().rev().take(REPEATABLE);
        match window.clone().find(|(at, what, _)| (*at, *what) == (position, of)) {
            Some((_, _, ui)) => {
                let again = usig.create(position, &digest(of));
                hold(again == Ok(*ui), || format!("{position:?} again: {again:?}"))
            }
            None => refuse(usig, position, of),
        }
    }
}

fn model(make: Member) -> Verdict {
    for seed in 1..=40 {
        let mut random = Random(seed);
        let mut usig = make(ME, LIFE);
        let mut model = Model::default();
        for step in 0..60 {
            let last = model.granted.last().map_or(START, |(last, ..)| *last);
            let position = match random.below(4) {
                0 => at(last.view.0, last.index + 1 + random.below(2)),
                1 => at(last.view.0 + 1 + random.below(2), random.below(4)),
                2 => at(last.view.0.saturating_sub(random.below(3)), random.below(6)),
                _ => model.granted.get(random.below(70) as usize).map_or(last, |(at, ..)| *at),
            };
            // Few different messages, so that repetitions happen.
            let of = random.below(3);
            model
                .check(&mut *usig, position, of)
                .map_err(|what| format!("seed {seed}, step {step}: {what}"))?;
        }
    }
    Ok(())
}

/// Somewhere near where the device is, or where it was.
fn wander(random: &mut Random, usig: &dyn Usig, granted: &[Position]) -> Position {
    let last = usig.memory().map_or(START, |memory| memory.last);
    match random.below(5) {
        0 | 1 => at(last.view.0, last.index + 1 + random.below(2)),
        2 => at(last.view.0 + 1 + random.below(2), random.below(4)),
        3 => at(last.view.0.saturating_sub(random.below(3)), random.below(6)),
        _ => granted.get(random.below(70) as usize).copied().unwrap_or(last),
    }
}

/// Nobody can tell a device that was given the memory of another one from that one. A device that
/// keeps its memory itself takes none from outside.
fn restoring(make: Member, group: &Membership) -> Verdict {
    let empty = Memory { last: START, committed: START, recent: Vec::new() };
    let mut kept = make(ME, LIFE);
    if kept.memory().is_none() {
        return hold(kept.restore(&empty).is_err(), || "takes a memory, and has one".to_owned());
    }
    hold(kept.memory() == Some(empty), || format!("begins with {:?}", kept.memory()))?;
    let later = Membership { epoch: Epoch(group.epoch.0 + 1), ..group.clone() };
    for seed in 1..=60 {
        let mut random = Random(seed);
        let (mut before, mut after) = (make(ME, LIFE), make(ME, LIFE));
        if seed % 3 == 0 {
            let begun = before.begin_epoch(&later).and_then(|()| after.begin_epoch(&later));
            begun.map_err(|error| error.to_string())?;
        }
        let mut granted = Vec::new();
        for _ in 0..random.below(30) {
            let position = wander(&mut random, &*before, &granted);
            let of = random.below(3);
            granted.extend(before.create(position, &digest(of)).map(|ui| ui.position));
        }
        let memory = before.memory().ok_or("has no memory any more")?;
        after.restore(&memory).map_err(|error| format!("seed {seed}: {memory:?}: {error}"))?;
        // Not a second time, and not to where it was before.
        if !granted.is_empty() {
            for memory in [&memory, &Memory { last: START, committed: START, recent: Vec::new() }] {
                let again = after.restore(memory);
                hold(again.is_err(), || format!("seed {seed}: goes to {memory:?}"))?;
            }
        }
        for step in 0..60 {
            let position = wander(&mut random, &*before, &granted);
            let of = digest(random.below(3));
            let answers = (before.create(position, &of), after.create(position, &of));
            hold(answers.0 == answers.1, || {
                format!("seed {seed}, step {step}: {position:?} after {memory:?}: {answers:?}")
            })?;
            granted.extend(answers.0.map(|ui| ui.position));
        }
        hold(before.memory() == after.memory(), || format!("seed {seed}: remembers otherwise"))?;
    }
    Ok(())
}

/// What no device could remember is not taken over, and changes nothing.
fn possible(make: Member) -> Verdict {
    if make(ME, LIFE).memory().is_none() {
        return Ok(());
    }
    let said = |position, committed| Statement { position, committed, digest: digest(1) };
    let newest = vec![said(at(4, 0), at(3, 9)), said(at(3, 9), START)];
    let memory = Memory { last: at(4, 0), committed: at(3, 9), recent: newest };
    let with = |change: &dyn Fn(&mut Memory)| {
        let mut changed = memory.clone();
        change(&mut changed);
        changed
    };
    let impossible = [
        with(&|it| it.last = at(4, 1)),
        with(&|it| it.last = at(3, 9)),
        with(&|it| it.committed = START),
        with(&|it| it.committed = at(3, 8)),
        with(&|it| it.recent.clear()),
        with(&|it| it.recent.reverse()),
        with(&|it| it.recent[1].committed = at(3, 9)),
        with(&|it| it.recent[0].committed = at(4, 0)),
        with(&|it| it.recent[1].committed = at(0, 0)),
        with(&|it| it.recent.push(said(at(5, 0), START))),
        with(&|it| it.recent = vec![said(at(4, 0), at(3, 9)); REPEATABLE + 1]),
    ];
    for wrong in impossible {
        let mut usig = make(ME, LIFE);
        hold(usig.restore(&wrong).is_err(), || format!("takes over {wrong:?}"))?;
        grant(&mut *usig, at(0, 3), 1, START)?;
    }
    let mut usig = make(ME, LIFE);
    hold(usig.restore(&memory).is_ok(), || format!("does not take over {memory:?}"))?;
    grant(&mut *usig, at(4, 1), 1, at(3, 9)).map(|_| ())
}

/// Marsaglia's xorshift: enough to wander about.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % bound
    }
}
