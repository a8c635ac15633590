//! The store beside a map.

use crate::support::{ask, put, run, state, store};
use pentarchy_core::service::Service;
use pentarchy_core::wire::Malformed;
use pentarchy_store::operation::{KEY_BYTES_MAX, SCAN_BYTES_MAX, SCAN_PAIRS_MAX, VALUE_BYTES_MAX};
use pentarchy_store::{Answer, Limits, Operation, Refusal, Store};
use std::collections::BTreeMap;

type Model = BTreeMap<Vec<u8>, Vec<u8>>;

/// A small generator of pseudo-random numbers.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % sides
    }

    fn key(&mut self) -> Vec<u8> {
        format!("key {}", self.roll(300)).into_bytes()
    }
}

fn scanned(model: &Model, start: &[u8], end: Option<&[u8]>, limit: usize) -> Answer {
    let in_range = |key: &[u8]| key >= start && end.is_none_or(|end| key < end);
    let mut found = model.iter().filter(|(key, _)| in_range(key));
    let pairs = found.by_ref().take(limit).map(|(key, value)| (key.clone(), value.clone()));
    let pairs = pairs.collect();
    Answer::Pairs { pairs, next: found.next().map(|(key, _)| key.clone()) }
}

fn expected(model: &mut Model, operation: &Operation) -> Answer {
    let found =
        |value: Option<&Vec<u8>>| value.map_or(Answer::Absent, |it| Answer::Value(it.clone()));
    match operation {
        Operation::Get(key) => found(model.get(key)),
        Operation::Put(key, value) => {
            model.insert(key.clone(), value.clone());
            Answer::Done
        }
        Operation::Delete(key) => model.remove(key).map_or(Answer::Absent, |_| Answer::Done),
        Operation::Scan { start, end, limit } => {
            scanned(model, start, end.as_deref(), *limit as usize)
        }
    }
}

fn operation(dice: &mut Dice) -> Operation {
    match dice.roll(8) {
        0 => Operation::Get(dice.key()),
        1 | 2 => Operation::Delete(dice.key()),
        3 => {
            let end = (dice.roll(3) > 0).then(|| dice.key());
            Operation::Scan { start: dice.key(), end, limit: dice.roll(40) as u32 }
        }
        _ => {
            let length = dice.roll(60);
            Operation::Put(dice.key(), vec![dice.roll(256) as u8; length as usize])
        }
    }
}

#[test]
fn it_does_what_a_map_does_and_its_sections_are_all_of_it() {
    let mut dice = Dice(7);
    let (mut ours, mut other, mut model) =
        (store(Limits::default()), store(Limits::default()), Model::new());
    for round in 0..30 {
        for _ in 0..200 {
            let operation = operation(&mut dice);
            let wanted = expected(&mut model, &operation);
            assert_eq!(run(&mut ours, &operation), wanted, "{operation:?}");
        }
        let (all, changed) = (state(&ours), ours.changed_sections());
        for index in changed {
            other.restore_section(index, &ours.section(index)).expect("it is a section");
        }
        assert_eq!(state(&other), all, "round {round}: what changed was told");
        let bytes: usize = all.iter().map(|(_, bytes)| bytes.len()).sum();
        assert_eq!((ours.bytes(), other.bytes()), (bytes as u64, bytes as u64));
        let all = Operation::Scan { start: Vec::new(), end: None, limit: u32::MAX };
        assert_eq!(ask(&other, &all), scanned(&model, b"", None, SCAN_PAIRS_MAX));
    }
    for (index, _) in state(&other) {
        other.restore_section(index, b"").expect("nothing is a section too");
    }
    assert_eq!((state(&other), other.bytes()), (Vec::new(), 0));
}

#[test]
fn equal_pairs_are_equal_bytes_however_they_came() {
    let (mut one, mut two) = (store(Limits::default()), store(Limits::default()));
    let keys: Vec<Vec<u8>> = (0..2_000u32).map(|number| number.to_be_bytes().to_vec()).collect();
    keys.iter().for_each(|key| drop(put(&mut one, key, key)));
    keys.iter().rev().for_each(|key| drop(put(&mut two, key, b"before")));
    keys.iter().rev().for_each(|key| drop(put(&mut two, key, key)));
    assert_eq!(state(&one), state(&two));
}

#[test]
fn what_is_no_section_is_refused() {
    let mut ours = store(Limits::default());
    put(&mut ours, b"here", b"value");
    let (index, bytes) = state(&ours).remove(0);
    let mut twice = bytes.clone();
    twice.extend_from_slice(&bytes);
    let other = (index + 1) % ours.sections();
    for (index, bytes) in [(other, &bytes[..]), (index, &bytes[1..]), (index, &twice)] {
        assert_eq!(store(Limits::default()).restore_section(index, bytes), Err(Malformed));
    }
    assert_eq!(ours.restore_section(ours.sections(), &bytes), Err(Malformed));
}

#[test]
fn answers_and_pairs_are_bounded() {
    let mut ours = store(Limits { state_bytes_max: 3 << 20, ..Limits::default() });
    let large = vec![1; VALUE_BYTES_MAX];
    let long = vec![1; KEY_BYTES_MAX + 1];
    let size = Answer::Refused(Refusal::Size);
    assert_eq!(put(&mut ours, b"", b"value"), size);
    assert_eq!(put(&mut ours, &long, b"value"), size);
    assert_eq!(put(&mut ours, b"key", &[&large[..], b"1"].concat()), size);
    for key in 0..5u8 {
        assert_eq!(put(&mut ours, &[key], &large), Answer::Done);
    }
    let full = Answer::Refused(Refusal::Full);
    assert_eq!(put(&mut ours, b"key", &large), full);
    assert_eq!(put(&mut ours, &[0], &large), Answer::Done, "it takes no more than before");
    assert_eq!(run(&mut ours, &Operation::Delete(vec![0])), Answer::Done);
    assert_eq!(put(&mut ours, b"key", &large), Answer::Done);
    let mut start = Some(Vec::new());
    let mut found = Vec::new();
    while let Some(from) = start {
        let scan = Operation::Scan { start: from, end: None, limit: 10 };
        let Answer::Pairs { pairs, next } = ask(&ours, &scan) else { panic!("it is a scan") };
        let bytes: usize = pairs.iter().map(|(key, value)| key.len() + value.len()).sum();
        assert!(pairs.len() == 1 || bytes <= SCAN_BYTES_MAX);
        found.extend(pairs.into_iter().map(|(key, _)| key));
        start = next;
    }
    assert_eq!(found, [&[1][..], &[2], &[3], &[4], b"key"]);
}

#[test]
fn a_query_changes_nothing_and_nonsense_is_refused() {
    let ours = store(Limits::default());
    let put = Operation::Put(b"key".to_vec(), b"value".to_vec());
    assert_eq!(ask(&ours, &put), Answer::Refused(Refusal::ReadOnly));
    assert_eq!(ask(&ours, &Operation::Get(b"key".to_vec())), Answer::Absent);
    assert_eq!(told(&ours, &[9]), Answer::Refused(Refusal::Malformed));
    assert_eq!(told(&ours, &[0, 1, 0, 0, 0, 7, 7]), Answer::Refused(Refusal::Malformed));
}

fn told(store: &Store, bytes: &[u8]) -> Answer {
    use pentarchy_core::wire::Wire;
    Answer::from_bytes(&store.query(bytes).into()).expect("answers decode")
}
