use super::*;
use crate::limits::{CLIENT_EVENTS_BYTES_MAX, CLIENT_EVENTS_MAX, EVENT_HEADER_BYTES};
use alloc::vec;

fn client(id: u8) -> ClientId {
    ClientId([id; 32])
}

fn run(table: &mut Sessions, number: u64, slot: u64) -> (Outcome, bool) {
    let mut ran = false;
    let outcome = table.desk(&client(1)).settle(number, || {
        ran = true;
        vec![slot as u8]
    });
    (outcome, ran)
}

#[test]
fn each_number_runs_once_in_any_order() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    let first = Outcome::Done(Bytes::from_static(&[1]));
    assert_eq!(run(&mut table, 5, 1), (first.clone(), true));
    assert_eq!(run(&mut table, 5, 2), (first, false));
    assert_eq!(run(&mut table, 3, 2), (Outcome::Done(Bytes::from_static(&[2])), true));
    table.begin(client(1), 6, None, Slot(3));
    assert_eq!(run(&mut table, 5, 3), (Outcome::Overtaken, false));
    assert_eq!(run(&mut table, 6 + CLIENT_WINDOW, 3), (Outcome::Refused, false));
    assert_eq!(table.known(&client(1)).lookup(6), Lookup::New);
}

#[test]
fn a_number_that_is_given_up_first_never_runs_and_one_that_ran_has_its_result() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    let first = Outcome::Done(Bytes::from_static(&[1]));
    assert_eq!(run(&mut table, 4, 1).0, first);
    assert_eq!(table.desk(&client(1)).give_up(4), first, "it had run");
    assert_eq!(table.desk(&client(1)).give_up(6), Outcome::GivenUp);
    assert_eq!(run(&mut table, 6, 2), (Outcome::GivenUp, false));
    assert!(run(&mut table, 5, 2).1, "those beside it are open");
    let beyond = table.desk(&client(1)).give_up(CLIENT_WINDOW);
    assert_eq!(beyond, Outcome::Refused, "and nothing is known of it");
    let mut copy = Sessions::default();
    for index in 0..SESSION_SECTIONS {
        copy.restore_section(index, &table.section(index)).unwrap();
    }
    assert_eq!(run(&mut copy, 6, 3), (Outcome::GivenUp, false), "also at who fetched the table");
    table.begin(client(1), 7, None, Slot(3));
    assert_eq!(table.desk(&client(1)).give_up(6), Outcome::Overtaken);
}

#[test]
fn old_replies_give_way_but_are_never_run_again() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    let kept = (CLIENT_REPLIES_BYTES_MAX / RESULT_BYTES_MAX) as u64;
    for number in 0..kept + 2 {
        table.desk(&client(1)).settle(number, || vec![0; RESULT_BYTES_MAX]);
    }
    assert_eq!(run(&mut table, 1, 9), (Outcome::Forgotten, false));
    assert!(matches!(run(&mut table, 2, 9), (Outcome::Done(_), false)));
}

#[test]
fn a_result_too_large_to_send_is_forgotten_and_takes_no_other_with_it() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    run(&mut table, 1, 1);
    let large = || vec![0; RESULT_BYTES_MAX + 1];
    assert_eq!(table.desk(&client(1)).settle(2, large), Outcome::Forgotten);
    assert_eq!(run(&mut table, 2, 2), (Outcome::Forgotten, false));
    assert_eq!(run(&mut table, 1, 2), (Outcome::Done(Bytes::from_static(&[1])), false));
}

#[test]
fn the_idlest_clients_lose_their_replies_first_and_restored_tables_agree() {
    let mut table = Sessions { bytes_max: 100, ..Sessions::default() };
    let mut copy = Sessions { bytes_max: 100, ..Sessions::default() };
    for id in 1..=4 {
        table.begin(client(id), 0, None, Slot(u64::from(id)));
        table.desk(&client(id)).settle(0, || vec![id; 30]);
    }
    for index in 0..SESSION_SECTIONS {
        copy.restore_section(index, &table.section(index)).unwrap();
    }
    for table in [&mut table, &mut copy] {
        table.begin(client(1), 0, None, Slot(5));
        let kept =
            |id| matches!(table.known(&client(id)).lookup(0), Lookup::Settled(Outcome::Done(_)));
        assert_eq!([1, 2, 3, 4].map(kept), [false, false, false, true]);
        assert_eq!(table.bytes, 30);
    }
}

/// The order in which clients must give way is that of their last activity, then of their names,
/// however the table came about: replicas that fetched it must not differ from those that did not.
#[test]
fn the_idlest_client_gives_way_whatever_happened_before() {
    let mut table = Sessions::with_capacity(8);
    let mut expected = BTreeMap::new();
    let mut state = 7u64;
    for slot in 1..2_000 {
        for _ in 0..4 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            let id = ((state >> 33) % 20) as u8;
            if expected.len() == 8 && !expected.contains_key(&id) {
                let idlest = expected.iter().map(|(id, slot)| (*slot, *id)).min().unwrap().1;
                expected.remove(&idlest);
            }
            expected.insert(id, slot);
            table.begin(client(id), 0, None, Slot(slot));
            assert!(
                table.sessions.keys().eq(expected
                    .keys()
                    .map(|id| client(*id))
                    .collect::<Vec<_>>()
                    .iter())
            );
        }
        if slot % 50 == 0 {
            let mut copy = Sessions::with_capacity(8);
            for index in 0..SESSION_SECTIONS {
                copy.restore_section(index, &table.section(index)).unwrap();
            }
            table = copy;
        }
    }
}

#[test]
fn a_known_client_may_jump_ahead_of_its_window_with_a_new_floor() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    let far = 10 * CLIENT_WINDOW;
    assert_eq!(table.known(&client(1)).lookup(far), Lookup::New, "the floor is in the envelope");
    assert_eq!(run(&mut table, far, 1), (Outcome::Refused, false));
    table.begin(client(1), far, None, Slot(2));
    assert!(run(&mut table, far, 2).1);
}

#[test]
fn sections_restore_to_an_equal_table() {
    let mut table = Sessions::with_capacity(3);
    for id in [1, 1, 200, 7, 9] {
        table.begin(client(id), 2, None, Slot(u64::from(id)));
        table.desk(&client(id)).settle(4, || vec![id; 3]);
    }
    assert_eq!(table.len(), 3, "the idlest client gave way");
    let mut copy = Sessions::with_capacity(3);
    for index in 0..SESSION_SECTIONS {
        copy.restore_section(index, &table.section(index)).unwrap();
    }
    (table.changed, copy.changed) = (0, 0);
    assert_eq!(copy, table);
    assert_eq!(copy.restore_section(9, &table.section(50)), Err(Malformed));
}

fn told(table: &Sessions, id: u8, from: u64) -> (u64, u64, usize) {
    match table.events(&client(id), from) {
        ToClient::Events { oldest, first, events } => (oldest, first, events.len()),
        other => panic!("{other:?}"),
    }
}

fn body(bytes: usize) -> Bytes {
    Bytes::from(vec![7; bytes])
}

/// An event's body that counts half of what is kept for a client.
fn half() -> Bytes {
    body(CLIENT_EVENTS_BYTES_MAX / 2 - EVENT_HEADER_BYTES)
}

#[test]
fn events_are_numbered_and_kept_until_they_are_acknowledged() {
    let mut table = Sessions::default();
    assert_eq!(table.emit(&client(1), body(1)), None, "nobody knows this client");
    table.begin(client(1), 0, Some(1), Slot(1));
    assert_eq!([1, 2, 3].map(|_| table.emit(&client(1), body(5))), [1, 2, 3].map(Some));
    assert_eq!(told(&table, 1, 0), (1, 1, 3));
    assert_eq!(told(&table, 1, 3), (1, 3, 1));
    assert_eq!(told(&table, 1, 99), (1, 4, 0), "there is no such number yet");
    table.begin(client(1), 0, Some(3), Slot(2));
    table.begin(client(1), 0, Some(1), Slot(3));
    assert_eq!(told(&table, 1, 1), (3, 3, 1), "an old envelope takes nothing back");
    table.begin(client(1), 0, Some(u64::MAX), Slot(4));
    assert_eq!(table.emit(&client(1), body(5)), Some(4), "nobody acknowledges the future");
    assert_eq!(told(&table, 1, 1), (4, 4, 1));
    table.begin(client(1), 0, None, Slot(5));
    assert_eq!((told(&table, 1, 1), table.event_bytes), ((5, 5, 0), 0));
}

#[test]
fn the_oldest_events_of_a_client_give_way_and_a_gap_shows() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, Some(1), Slot(1));
    for number in 1..=CLIENT_EVENTS_MAX as u64 + 2 {
        assert_eq!(table.emit(&client(1), body(1)), Some(number));
    }
    assert_eq!(told(&table, 1, 0), (3, 3, CLIENT_EVENTS_MAX));
    let next = CLIENT_EVENTS_MAX as u64 + 3;
    assert_eq!(
        [0, 1, 2].map(|_| table.emit(&client(1), half())),
        [0, 1, 2].map(|i| Some(next + i))
    );
    assert_eq!(told(&table, 1, 0), (next + 1, next + 1, 2));
    assert_eq!(table.event_bytes, CLIENT_EVENTS_BYTES_MAX);
    assert_eq!(table.emit(&client(1), body(CLIENT_EVENTS_BYTES_MAX)), None, "too large");
    assert_eq!(told(&table, 1, 0), (next + 4, next + 4, 0), "but it has a number");
}

#[test]
fn the_idlest_clients_lose_their_events_first_and_restored_tables_agree() {
    let max = 4 * (EVENT_HEADER_BYTES + 30);
    let mut table = Sessions { event_bytes_max: max, ..Sessions::default() };
    let mut copy = Sessions { event_bytes_max: max, ..Sessions::default() };
    for id in 1..=4 {
        table.begin(client(id), 0, Some(1), Slot(u64::from(id)));
        table.emit(&client(id), body(30));
    }
    for index in 0..SESSION_SECTIONS {
        copy.restore_section(index, &table.section(index)).unwrap();
    }
    for table in [&mut table, &mut copy] {
        table.begin(client(1), 0, Some(1), Slot(5));
        assert_eq!(table.emit(&client(2), body(30)), Some(2));
        let kept = [1, 2, 3, 4].map(|id| told(table, id, 0));
        assert_eq!(kept, [(1, 1, 1), (3, 3, 0), (2, 2, 0), (1, 1, 1)]);
        assert_eq!(table.event_bytes, max / 2);
    }
    assert!((0..SESSION_SECTIONS).all(|index| copy.section(index) == table.section(index)));
}

#[test]
fn no_number_comes_twice_to_a_client_that_was_forgotten() {
    let mut table = Sessions::with_capacity(1);
    table.begin(client(1), 0, Some(1), Slot(1));
    for _ in 0..3 {
        table.emit(&client(1), body(1));
    }
    table.begin(client(200), 0, Some(1), Slot(2));
    assert_eq!((table.len(), table.event_bytes), (1, 0));
    assert_eq!(told(&table, 1, 1), (4, 4, 0), "everything below is gone");
    assert_eq!(table.emit(&client(200), body(1)), Some(4));
    let mut copy = Sessions::with_capacity(1);
    for index in 0..SESSION_SECTIONS {
        copy.restore_section(index, &table.section(index)).unwrap();
    }
    (table.changed, copy.changed) = (0, 0);
    assert_eq!(copy, table);
    table.begin(client(1), 0, Some(4), Slot(3));
    assert_eq!(table.changed_sections(), [0, 50], "the first number and the one that went");
    assert_eq!(table.emit(&client(1), body(1)), Some(5));
}

#[test]
fn events_beyond_the_limits_are_not_restored() {
    let mut table = Sessions::default();
    table.begin(client(0), 0, Some(1), Slot(1));
    let last = |table: &Sessions| table.section(0).len() - 12;
    let at = last(&table);
    let mut section = table.section(0);
    section[at..at + 8].fill(u8::MAX);
    table.restore_section(0, &section).unwrap();
    section[at + 8] = 1;
    section.extend_from_slice(&[0; 4]);
    assert_eq!(table.restore_section(0, &section), Err(Malformed), "no number is left for it");
}

#[test]
fn a_section_with_its_clients_in_another_order_is_refused() {
    let only = |id| {
        let mut table = Sessions::default();
        table.begin(client(id), 0, None, Slot(1));
        table.section(1)
    };
    let mut table = Sessions::default();
    let ordered = [only(4), only(5)].concat();
    assert_eq!(table.restore_section(1, &ordered), Ok(()));
    assert_eq!(table.section(1), ordered);
    assert_eq!(table.restore_section(1, &[only(5), only(4)].concat()), Err(Malformed));
    assert_eq!(table.restore_section(1, &[only(4), only(4)].concat()), Err(Malformed));
}
