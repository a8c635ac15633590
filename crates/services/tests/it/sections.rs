//! Snapshots: sections are canonical, complete, and changed ones are reported.

use crate::support::{Dice, context, random_command, run, run_at};
use pentarchy_core::digest::Digest;
use pentarchy_core::service::Service;
use pentarchy_services::kv::{Command, Kv, SECTIONS};

fn sections(kv: &Kv) -> Vec<Vec<u8>> {
    (0..SECTIONS).map(|index| kv.section(index)).collect()
}

#[test]
fn equal_operations_give_equal_states_and_a_snapshot_is_the_state() {
    let (mut one, mut two) = (Kv::default(), Kv::default());
    let mut dice = Dice(1);
    for _ in 0..5000 {
        let command = random_command(&mut dice);
        assert_eq!(run(&mut one, &command), run(&mut two, &command));
    }
    assert!(!one.is_empty());
    let saved = sections(&one);
    assert_eq!(saved, sections(&two));

    let mut fresh = Kv::default();
    run(&mut fresh, &[b"SET", b"old", b"state"]);
    for (index, bytes) in (0..).zip(&saved) {
        fresh.restore_section(index, bytes).unwrap();
    }
    assert_eq!(sections(&fresh), saved);
    assert_eq!(fresh.len(), one.len());
    assert_eq!(fresh.state_bytes(), one.state_bytes());
    for _ in 0..1000 {
        let command = random_command(&mut dice);
        assert_eq!(run(&mut fresh, &command), run(&mut one, &command));
    }
    assert_eq!(sections(&fresh), sections(&one));
}

#[test]
fn the_state_does_not_depend_on_how_it_came_about() {
    let (mut one, mut two) = (Kv::default(), Kv::default());
    (0..500).for_each(|i| drop(run(&mut one, &[b"SET", format!("k{i}").as_bytes(), b"v"])));
    for i in (0..500).rev() {
        run(&mut two, &[b"RPUSH", format!("k{i}").as_bytes(), b"x"]);
        run(&mut two, &[b"SET", format!("k{i}").as_bytes(), b"v"]);
        run(&mut two, &[b"SET", b"gone", b"v"]);
    }
    run(&mut two, &[b"DEL", b"gone"]);
    assert_eq!(sections(&one), sections(&two));
    assert_eq!(one.state_bytes(), two.state_bytes());
}

#[test]
fn every_changed_section_is_reported_and_reads_report_none() {
    let mut kv = Kv::default();
    assert_eq!(kv.changed_sections(), (0..SECTIONS).collect::<Vec<_>>());
    assert_eq!(kv.changed_sections(), [] as [u32; 0]);
    let mut dice = Dice(2);
    let mut before = sections(&kv);
    for round in 0..300 {
        for _ in 0..dice.roll(8) {
            run(&mut kv, &random_command(&mut dice));
        }
        if round % 50 == 49 {
            run(&mut kv, &[b"FLUSHALL"]);
        }
        let changed = kv.changed_sections();
        let after = sections(&kv);
        for index in 0..SECTIONS as usize {
            let same = before[index] == after[index];
            assert!(same || changed.contains(&(index as u32)), "section {index} is missing");
        }
        assert!(changed.len() <= 48, "few keys change few sections");
        before = after;
    }
    run(&mut kv, &[b"SET", b"a", b"1"]);
    kv.changed_sections();
    for command in [&[b"GET".as_slice(), b"a"][..], &[b"DBSIZE"], &[b"INCR", b"a", b"no"]] {
        run(&mut kv, command);
        assert_eq!(kv.changed_sections(), [] as [u32; 0]);
    }
    run(&mut kv, &[b"INCR", b"a"]);
    assert_eq!(kv.changed_sections().len(), 1);
}

#[test]
fn damaged_sections_are_refused() {
    let mut kv = Kv::default();
    (0..3000).for_each(|i| drop(run(&mut kv, &[b"SET", i.to_string().as_bytes(), b"v"])));
    run(&mut kv, &[b"RPUSH", b"list", b"x"]);
    let index = (0..SECTIONS).find(|index| kv.section(*index).len() > 20).unwrap();
    let bytes = kv.section(index);
    let mut other = Kv::default();
    for cut in 0..bytes.len() {
        assert!(other.restore_section(index, &bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(other.restore_section(index, &[&bytes[..], &[0]].concat()).is_err());
    assert!(other.restore_section(index + 1, &bytes).is_err(), "keys of another section");
    assert!(other.restore_section(SECTIONS, &[0, 0, 0, 0]).is_err());
    assert!(other.restore_section(index, &[255; 64]).is_err());
    let twice = [&2u32.to_le_bytes()[..], &bytes[4..17], &bytes[4..17]].concat();
    assert!(other.restore_section(index, &twice).is_err(), "a key twice");
    assert!(other.restore_section(index, &bytes).is_ok());
}

#[test]
fn damaged_operations_always_get_a_reply() {
    let mut kv = Kv::default();
    let mut dice = Dice(3);
    let valid = Command::new(&["SET", "key", "value"]).to_operation();
    for _ in 0..20_000 {
        let mut operation = valid.to_vec();
        for _ in 0..=dice.roll(3) {
            let at = dice.roll(operation.len() as u64) as usize;
            operation[at] = dice.roll(256) as u8;
        }
        operation.truncate(dice.roll(operation.len() as u64 + 1) as usize);
        let result = kv.execute(&context(1), &operation);
        pentarchy_services::kv::Reply::decode(&result).expect("a reply in any case");
        kv.query(&operation);
    }
}

#[test]
fn the_encoding_of_a_section_has_not_moved() {
    let mut kv = Kv::default();
    run(&mut kv, &[b"SET", b"counter", b"41"]);
    run(&mut kv, &[b"INCR", b"counter"]);
    run(&mut kv, &[b"RPUSH", b"list", b"a", b"", b"ccc"]);
    run(&mut kv, &[b"HSET", b"hash", b"field", b"value", b"other", b""]);
    run(&mut kv, &[b"SADD", b"set", b"a", b"b", b""]);
    run(&mut kv, &[b"ZADD", b"sorted", b"1.5", b"a", b"-inf", b"b"]);
    run_at(&mut kv, 5, &[b"SET", b"ends", b"x", b"PX", b"1000"]);
    let all: Vec<u8> = sections(&kv).concat();
    assert_eq!(Digest::of(&all).to_string(), FORMAT);
}

/// First bytes of the hash of the sections above. If it changes, so did the snapshot's format, and
/// replicas of the two versions cannot serve each other.
const FORMAT: &str = "9b990672";
