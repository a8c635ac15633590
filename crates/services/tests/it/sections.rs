//! Snapshots: sections are canonical, complete, and changed ones are reported.

use crate::support::{Dice, context, random_command, run, run_at};
use pentarchy_core::digest::Digest;
use pentarchy_core::service::Service;
use pentarchy_services::kv::{Command, Kv, SECTIONS};
use std::collections::BTreeMap;

/// All sections that are not empty.
fn sections(kv: &Kv) -> BTreeMap<u32, Vec<u8>> {
    kv.filled_sections().map(|index| (index, kv.section(index))).collect()
}

/// A section of keys, one of the first that hold something.
fn a_section(kv: &Kv, bytes_min: usize) -> u32 {
    kv.filled_sections().find(|index| kv.section(*index).len() > bytes_min).expect("there are keys")
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
    let old: Vec<u32> = fresh.filled_sections().collect();
    for index in old.into_iter().chain(saved.keys().copied()) {
        fresh.restore_section(index, &one.section(index)).unwrap();
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
    assert_eq!(kv.changed_sections(), kv.filled_sections().collect::<Vec<_>>());
    assert_eq!(kv.changed_sections(), [] as [u32; 0]);
    let filled: Vec<u32> = (0..SECTIONS).filter(|index| !kv.section(*index).is_empty()).collect();
    assert_eq!(filled, [SECTIONS - 2, SECTIONS - 1], "the clock and the sessions");
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
        for index in before.keys().chain(after.keys()) {
            let same = before.get(index) == after.get(index);
            assert!(same || changed.contains(index), "section {index} is missing");
        }
        assert_eq!(after.keys().filter(|index| after[index].is_empty()).count(), 0);
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
    let index = a_section(&kv, 12);
    let bytes = kv.section(index);
    let mut other = Kv::default();
    for cut in 1..bytes.len() {
        assert!(other.restore_section(index, &bytes[..cut]).is_err(), "cut at {cut}");
    }
    assert!(other.restore_section(index, &[&bytes[..], &[0]].concat()).is_err());
    assert!(other.restore_section(index + 1, &bytes).is_err(), "keys of another section");
    assert!(other.restore_section(SECTIONS, &[0, 0, 0, 0]).is_err());
    assert!(other.restore_section(index, &[255; 64]).is_err());
    let twice = [&2u32.to_le_bytes()[..], &bytes[4..], &bytes[4..]].concat();
    assert!(other.restore_section(index, &twice).is_err(), "a key twice");
    assert!(other.restore_section(index, &bytes).is_ok());
}

#[test]
fn members_in_another_order_and_scores_that_are_none_are_refused() {
    let mut kv = Kv::default();
    run(&mut kv, &[b"SADD", b"k", b"a", b"b"]);
    let index = a_section(&kv, 4);
    let text = |bytes: &[u8]| [&(bytes.len() as u32).to_le_bytes()[..], bytes].concat();
    let mut refused = 0;
    for (kind, value) in [(2u8, &b"\x01\0\0\0v"[..]), (3, b""), (4, &1.5f64.to_le_bytes())] {
        for members in [["a", "b"], ["b", "a"], ["a", "a"]] {
            let items: Vec<u8> = members
                .iter()
                .flat_map(|member| [&text(member.as_bytes())[..], value].concat())
                .collect();
            let head = [&1u32.to_le_bytes()[..], &text(b"k"), &[kind], &2u32.to_le_bytes()];
            let section = [&head.concat()[..], &items].concat();
            match kv.restore_section(index, &section) {
                Ok(()) => assert_eq!(kv.section(index), section, "one encoding of a section"),
                Err(_) => refused += 1,
            }
        }
    }
    assert_eq!(refused, 6);
    for score in [f64::NAN, -0.0] {
        let head = [&1u32.to_le_bytes()[..], &text(b"k"), &[4], &1u32.to_le_bytes(), &text(b"a")];
        let section = [&head.concat()[..], &score.to_le_bytes()].concat();
        assert!(kv.restore_section(index, &section).is_err(), "{score}");
    }
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
        // Other forms of operations have results of their own.
        if !matches!(operation.first(), Some(1..=3)) {
            pentarchy_services::kv::Reply::decode(&result).expect("a reply in any case");
        }
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
    let all: Vec<u8> = sections(&kv).into_values().flatten().collect();
    assert_eq!(Digest::of(&all).to_string(), FORMAT);
}

/// First bytes of the hash of the sections above. If it changes, so did the snapshot's format, and
/// replicas of the two versions cannot serve each other.
const FORMAT: &str = "b8d6e0b0";
