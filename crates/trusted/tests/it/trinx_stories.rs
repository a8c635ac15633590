//! Every short story of an instance: questions in any order, repetitions, and a memory that another
//! instance takes over at any point.

use crate::trinx_contract::{LIFE, ME, ask, digest};
use crate::{EPOCH, SECRET};
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::Digest;
use pentarchy_trusted::trinx::{Ask, COUNTERS, Certificate, Instance, InstanceId, Kind, Memory};
use pentarchy_trusted::usig::{GroupKey, REPEATABLE};

/// What an instance was asked and said, in order, and whether that moved it.
#[derive(Clone, Default, Debug)]
struct Story(Vec<Step>);

#[derive(Clone, Copy, Debug)]
struct Step {
    ask: Ask,
    of: Digest,
    said: Certificate,
    moved: bool,
}

fn fresh() -> Instance {
    let id = InstanceId { member: ME, number: 0 };
    Instance::new(EPOCH, id, LIFE, GroupKey::new(&SECRET))
}

impl Story {
    /// The instance that lived through it.
    fn lived(&self) -> Instance {
        let mut instance = fresh();
        for step in &self.0 {
            assert_eq!(instance.certify(&step.ask, &step.of), Ok(step.said), "{self:?}");
        }
        instance
    }

    /// What it repeats.
    fn recent(&self) -> impl Iterator<Item = &Step> {
        self.0.iter().rev().filter(|step| step.moved).take(REPEATABLE)
    }

    /// Whether the last word agrees with those before it.
    fn check(&self, memory: &Memory) {
        let Some((Step { ask, said, of, moved }, before)) = self.0.split_last() else { return };
        let named = said.claim.readings.map(|reading| Some(reading?.value));
        assert_eq!((said.claim.kind, named), (ask.kind, ask.values), "{self:?}");
        let same = |it: &&Step| (it.said, it.of) == (*said, *of);
        if before.iter().any(|it| same(&it)) {
            let again = before.iter().any(|it| same(&it) && !it.moved);
            let repeated = Self(before.to_vec()).recent().any(|it| same(&it));
            assert!(!moved && (again || repeated), "says it again too late: {self:?}");
            return;
        }
        for counter in 0..COUNTERS {
            let Some(reading) = said.claim.readings[counter] else { continue };
            let earlier = before.iter().filter_map(|it| it.said.claim.readings[counter]);
            let stood = earlier.clone().map(|it| it.value).max().unwrap_or_default();
            assert!(reading.value >= stood, "{counter} falls: {self:?}");
            let moves = reading.value > stood;
            let kind = said.claim.kind;
            assert!(moves || kind == Kind::Continuing, "{counter} is used twice: {self:?}");
            match kind {
                Kind::Continuing => assert_eq!(reading.previous, Some(stood), "{self:?}"),
                Kind::Independent => assert_eq!(reading.previous, None, "{self:?}"),
            }
            // Certificates that moved the counter to one value are of one digest.
            let unique = earlier.filter(|it| it.value == reading.value && moves).count() == 0;
            assert!(unique, "{self:?}");
            assert_eq!(memory.values[counter], reading.value, "{self:?}");
        }
    }

    /// Whether whoever takes over the memory at the end of it cannot be told from who lived
    /// through it, and takes no other one any more.
    fn check_memory(&self, memory: &Memory) {
        let mut after = fresh();
        after.restore(memory).expect("an instance came to this");
        assert_eq!(after.memory(), *memory);
        for mut instance in [self.lived(), after] {
            for step in self.recent() {
                assert_eq!(instance.certify(&step.ask, &step.of), Ok(step.said), "{self:?}");
            }
            assert_eq!(instance.memory(), *memory, "a repetition moves nothing: {self:?}");
            if *memory != Memory::default() {
                for other in [*memory, Memory::default()] {
                    assert_eq!(instance.restore(&other), Err(Refused::Spent), "{self:?}");
                }
            }
        }
    }

    /// All stories with one more question.
    fn go_on(&self, asks: &[(Ask, Digest)]) -> Vec<Self> {
        let memory = self.lived().memory();
        let next = |(ask, of): &(Ask, Digest)| {
            let (mut lived, mut after) = (self.lived(), fresh());
            after.restore(&memory).expect("an instance came to this");
            let said = lived.certify(ask, of);
            assert_eq!(after.certify(ask, of), said, "{ask:?} after {self:?}");
            assert_eq!(after.memory(), lived.memory(), "{ask:?} after {self:?}");
            let moved = lived.memory() != memory;
            assert!(!moved || said.is_ok(), "a refusal moves nothing: {ask:?} after {self:?}");
            let step = Step { ask: *ask, of: *of, said: said.ok()?, moved };
            Some(Self(self.0.iter().copied().chain([step]).collect()))
        };
        asks.iter().filter_map(next).collect()
    }

    /// Checks all stories that go on from here with so many questions, and says how many.
    fn explore(self, asks: &[(Ask, Digest)], questions: usize) -> usize {
        let longest = self.0.len() + questions;
        let (mut open, mut count) = (vec![self], 0);
        while let Some(story) = open.pop() {
            count += 1;
            let memory = story.lived().memory();
            story.check(&memory);
            story.check_memory(&memory);
            if story.0.len() < longest {
                open.extend(story.go_on(asks));
            }
        }
        count
    }
}

/// Questions of both kinds about two counters, of two digests.
fn asks(first: &[Option<u128>], second: &[Option<u128>]) -> Vec<(Ask, Digest)> {
    let mut asks = Vec::new();
    for kind in [Kind::Continuing, Kind::Independent] {
        for first in first {
            for second in second {
                let wanted = [(0, first), (1, second)].map(|(at, value)| Some((at, (*value)?)));
                let wanted: Vec<_> = wanted.into_iter().flatten().collect();
                asks.extend([1, 2].map(|of| (ask(kind, &wanted), digest(of))));
            }
        }
    }
    asks
}

/// Every story of three questions about two counters with values up to 2.
#[test]
fn no_short_story_breaks_uniqueness_or_order() {
    let values = [None, Some(0), Some(1), Some(2)];
    let stories = Story::default().explore(&asks(&values, &values), 3);
    assert!(stories > 10_000, "{stories} stories");
}

/// And of three more, behind one that fills what is remembered and has something forgotten: what is
/// repeated last and what is forgotten first may be asked again as well.
#[test]
fn no_story_breaks_them_where_something_is_forgotten() {
    let last = REPEATABLE as u128 + 1;
    let (mut story, walk) = (Story::default(), asks(&[Some(1)], &[None]));
    for value in 1..=last {
        let (kind, of) = (walk[0].0.kind, walk[value as usize % 2].1);
        let kind = if value % 3 == 0 { kind } else { Kind::Independent };
        let longer = story.go_on(&[(ask(kind, &[(0, value)]), of)]);
        story = longer.into_iter().next().expect("it goes up");
    }
    let first = [None, Some(1), Some(2), Some(3), Some(last), Some(last + 1)];
    let stories = story.explore(&asks(&first, &[None, Some(0), Some(1)]), 3);
    assert!(stories > 3_000, "{stories} stories");
}
