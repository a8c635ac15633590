//! Links that lose what is under way.

use super::super::message::Level;
use super::super::{Checksums, Trusting};
use super::order::{batch, first};
use super::{Group, Macs, Message, Mode, Timer, all};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use pentarchy_core::ids::{ReplicaId, Slot};
use pentarchy_core::limits::RESEND_MESSAGES_MAX;
use pentarchy_core::mutant;

/// Of what replicas say to each other, each so manieth message is lost, whatever it is.
fn loses<M: Mode>(each: u32, n: usize, f: usize) {
    let mut group = Group::<M>::new(n, f, &[]);
    let said = Cell::new(0u32);
    let arrives = |_: ReplicaId, _: ReplicaId, _: &Message<M>| {
        said.set(said.get() + 1);
        !said.get().is_multiple_of(each)
    };
    group.order(1..=20, arrives);
    for _ in 0..8 {
        group.ticks(arrives);
        group.ask_again();
        group.run(arrives);
    }
    group.ticks(all);
    assert_eq!(group.results.len(), 20, "one of {each} of {n}");
    let last = group.ordered()[0];
    assert_eq!((group.ordered(), group.done()), (vec![last; n], vec![last; n]));
    assert_eq!(group.stable(), vec![last / 4 * 4; n]);
    assert!((0..n as u16).all(|id| group.accused(id).is_empty()));
}

#[test]
fn what_is_lost_is_sent_again() {
    for each in [2, 3, 4, 5, 7, 11] {
        loses::<Macs>(each, 3, 1);
        loses::<Macs>(each, 5, 2);
        loses::<Checksums>(each, 3, 2);
        loses::<Trusting>(each, 2, 1);
    }
}

/// The middle of a chain loses what the head sent it.
#[test]
fn whoever_lacks_orders_gets_them_from_its_predecessor() {
    let repaired = || {
        let mut group = Group::<Macs>::new(5, 2, &[]);
        group.order(1..=3, |_, to, _| to != ReplicaId(1));
        let before = group.ordered();
        group.ticks(all);
        (before, group.ordered(), group.done())
    };
    assert_eq!(repaired(), (vec![3, 0, 0, 0, 0], vec![3; 5], vec![3; 5]));
    let (_, after, _) = mutant::with(Some("shuttle.nothing-sent-again"), repaired);
    assert_eq!(after, [3, 0, 0, 0, 0]);
}

/// A lying head asks and asks, while the tail lacks what a link has lost.
#[test]
fn who_asks_for_much_takes_no_room_of_the_other_neighbour() {
    let ordered = || {
        let mut group = Group::<Macs>::three(&[0]);
        group.say(0, 1, Message::Order(Arc::new(first(&batch(1), Vec::new()))));
        group.run(|_, to, _| to != ReplicaId(2));
        group.expire(ReplicaId(1), Timer::Tick);
        let level = Level { ordered: Slot(9), done: Slot(0), stable: Slot(0) };
        (0..RESEND_MESSAGES_MAX).for_each(|_| group.say(0, 1, Message::Level(level)));
        group.under_way.rotate_right(RESEND_MESSAGES_MAX);
        group.run(all);
        group.ordered()
    };
    assert_eq!(ordered(), [1, 1]);
    assert_eq!(mutant::with(Some("shuttle.neighbours-share-room"), ordered), [1, 0]);
}

/// Nobody says anything where nothing is under way.
#[test]
fn a_chain_that_is_level_is_quiet() {
    let mut group = Group::<Macs>::new(5, 2, &[]);
    group.order(1..=9, all);
    group.ticks(all);
    assert!((0..5).all(|id| group.host(id).armed.is_empty()));
}
