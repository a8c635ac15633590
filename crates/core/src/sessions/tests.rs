use super::*;
use alloc::vec;

fn client(id: u8) -> ClientId {
    ClientId([id; 32])
}

fn run(table: &mut Sessions, number: u64, slot: u64) -> (Outcome, bool) {
    let mut ran = false;
    let outcome = table.settle(&client(1), number, || {
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
    assert_eq!(run(&mut table, 5, 3), (Outcome::Forgotten, false));
    assert_eq!(run(&mut table, 6 + CLIENT_WINDOW, 3), (Outcome::Refused, false));
    assert_eq!(table.lookup(&client(1), 6), Lookup::New);
}

#[test]
fn old_replies_give_way_but_are_never_run_again() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    for number in 0..4 {
        table.settle(&client(1), number, || vec![0; CLIENT_REPLIES_BYTES_MAX / 2]);
    }
    assert_eq!(run(&mut table, 1, 9), (Outcome::Forgotten, false));
    assert!(matches!(run(&mut table, 2, 9), (Outcome::Done(_), false)));
}

#[test]
fn a_result_too_large_to_send_is_forgotten_and_takes_no_other_with_it() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    run(&mut table, 1, 1);
    let large = || vec![0; CLIENT_REPLIES_BYTES_MAX + 1];
    assert_eq!(table.settle(&client(1), 2, large), Outcome::Forgotten);
    assert_eq!(run(&mut table, 2, 2), (Outcome::Forgotten, false));
    assert_eq!(run(&mut table, 1, 2), (Outcome::Done(Bytes::from_static(&[1])), false));
}

#[test]
fn the_idlest_clients_lose_their_replies_first_and_restored_tables_agree() {
    let mut table = Sessions { bytes_max: 100, ..Sessions::default() };
    let mut copy = Sessions { bytes_max: 100, ..Sessions::default() };
    for id in 1..=4 {
        table.begin(client(id), 0, None, Slot(u64::from(id)));
        table.settle(&client(id), 0, || vec![id; 30]);
    }
    for index in 0..SESSION_SECTIONS {
        copy.restore_section(index, &table.section(index)).unwrap();
    }
    for table in [&mut table, &mut copy] {
        table.begin(client(1), 0, None, Slot(5));
        let kept = |id| matches!(table.lookup(&client(id), 0), Lookup::Settled(Outcome::Done(_)));
        assert_eq!([1, 2, 3, 4].map(kept), [false, false, false, true]);
        assert_eq!(table.bytes, 30);
    }
}

#[test]
fn a_known_client_may_jump_ahead_of_its_window_with_a_new_floor() {
    let mut table = Sessions::default();
    table.begin(client(1), 0, None, Slot(1));
    let far = 10 * CLIENT_WINDOW;
    assert_eq!(table.lookup(&client(1), far), Lookup::New, "the floor is in the envelope");
    assert_eq!(run(&mut table, far, 1), (Outcome::Refused, false));
    table.begin(client(1), far, None, Slot(2));
    assert!(run(&mut table, far, 2).1);
}

#[test]
fn sections_restore_to_an_equal_table() {
    let mut table = Sessions::with_capacity(3);
    for id in [1, 1, 200, 7, 9] {
        table.begin(client(id), 2, None, Slot(u64::from(id)));
        table.settle(&client(id), 4, || vec![id; 3]);
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
