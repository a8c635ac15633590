//! Primaries that are slow or lie.

use super::*;
use crate::common::view_requests::ASK_AGE_MAX;

/// A second in which each request is `late` milliseconds under way, as both backups see it; time
/// begins with `from`.
fn second(group: &mut Group, from: u64, late: u64) {
    for number in 0..10 {
        let begun = from + 100 * number;
        group.request(&ALL, 1, begun, b"x");
        for id in [1, 2] {
            for at in [5, 10, 10 + late] {
                group.round_at(id, begun + at);
            }
        }
        group.settle();
    }
}

/// A primary that is slower than tolerated for two seconds is replaced, long before a timeout;
/// nobody suspects one that is not, or that is so for one second.
#[test]
fn a_slow_primary_is_replaced() {
    let mut group = Group::new(1);
    for (second_number, late) in [1, 80, 1, 4, 4].into_iter().enumerate() {
        second(&mut group, 2_000 + 1_000 * second_number as u64, late);
        assert_eq!((group.view(1), group.view(2)), (0, 0), "late by {late} ms");
    }
    for from in [7_000, 8_000] {
        second(&mut group, from, 30);
    }
    for id in [1, 2] {
        group.round_at(id, 9_100);
    }
    group.settle();
    for id in ALL {
        assert_eq!(group.view(id), 1);
    }
    assert_eq!(group.replicas[1].core.status().reason, "the primary was too slow");
    assert!(group.rejects.is_empty(), "{:?}", group.rejects);
}

/// r1 finds the primary slow.
fn with_one_that_objects() -> Group {
    let mut group = Group::new(1);
    slow_seconds(&mut group);
    assert_eq!(group.replicas[1].core.status().reason, "the primary was too slow");
    group
}

/// Seconds in which r1 sees a slow primary.
fn slow_seconds(group: &mut Group) {
    for from in [2_000, 3_000, 4_000] {
        for number in 0..10 {
            let begun = from + 100 * number;
            group.request(&[0, 1], 1, begun, b"x");
            for at in [5, 10, 60] {
                group.round_at(1, begun + at);
            }
            group.settle();
        }
    }
}

fn asks(group: &Group) -> bool {
    let frame = &group.replicas[1].core.frame;
    assert_eq!(frame.view_requests.is_asking(), frame.view_requests.of(ReplicaId(1)).is_some());
    frame.view_requests.is_asking()
}

/// One replica that finds the primary slow deposes nobody, and keeps no idle group awake.
#[test]
fn one_replica_that_objects_changes_nothing() {
    let mut group = with_one_that_objects();
    group.repair();
    for id in ALL {
        assert_eq!(group.view(id), 0);
        let resends = |timer: &Timer| *timer == Timer::Resend;
        assert!(!group.replicas[usize::from(id)].timers.iter().any(resends), "r{id} is awake");
    }
}

/// A replica that found the primary slow does so no longer when nothing was ordered for a while,
/// even if a peer keeps it ticking. One slow second more, and it does again.
#[test]
fn an_objection_does_not_outlast_a_quiet_time() {
    let mut group = with_one_that_objects();
    for _ in 0..6 {
        assert!(asks(&group));
        group.step(1, Event::Timeout(Timer::Resend));
        group.fire(1, |timer| *timer == Timer::Asks);
        group.settle();
    }
    assert!(!asks(&group));
    for number in 0..10 {
        let begun = 60_000 + 100 * number;
        group.request(&[0, 1], 1, begun, b"x");
        for at in [5, 10, 60] {
            group.round_at(1, begun + at);
        }
        group.settle();
    }
    group.round_at(1, 61_100);
    group.settle();
    assert!(asks(&group));
}

/// The same if the group orders on, but only large requests, which say nothing of the primary's
/// pace.
#[test]
fn an_objection_does_not_outlast_what_shows_that_the_primary_is_slow() {
    let mut group = with_one_that_objects();
    let large: &'static [u8] = &[0; 16 << 10];
    for number in 0..6 {
        assert!(asks(&group));
        group.request(&ALL, 1, 100 + number, large);
        group.settle();
        group.fire(1, |timer| *timer == Timer::Asks);
        group.settle();
    }
    assert!(!asks(&group));
}

/// r1 finds the primary slow, and meanwhile a request that the primary leaves out is overdue. Then
/// the primary is fast, with all other requests. The overdue one gets its time anew: r1 must go on
/// asking because of it.
#[test]
fn a_request_is_timed_again_when_an_objection_ends() {
    let mut group = with_one_that_objects();
    group.cut.insert((1, 0));
    group.request(&[1], 2, 1, b"left out");
    group.fire(1, request_timer);
    assert!(asks(&group));
    for from in [5_000, 6_000, 7_000] {
        second(&mut group, from, 1);
    }
    assert!(!asks(&group), "the primary is no longer slow");
    assert_eq!(group.replicas[1].core.frame.requests.len(), 1);
    assert!(group.replicas[1].timers.iter().any(request_timer), "nothing leads on");
}

/// r1 asks for another view because a request is overdue, and then finds the primary slow as well.
/// When the request is executed after all, and nothing more is ordered, r1 must stop asking.
#[test]
fn an_objection_of_a_replica_that_asked_already_ends_too() {
    let mut group = Group::new(1);
    group.cut.insert((1, 0));
    group.request(&[1], 2, 1, b"left out");
    group.fire(1, request_timer);
    group.settle();
    assert!(asks(&group));
    slow_seconds(&mut group);
    assert!(group.replicas[1].core.frame.monitor.is_slow());
    group.cut.clear();
    group.request(&[0], 2, 1, b"left out");
    group.settle();
    assert!(group.replicas[1].core.frame.requests.is_empty());
    for _ in 0..6 {
        assert!(asks(&group));
        group.fire(1, |timer| *timer == Timer::Asks);
        group.settle();
    }
    assert!(!asks(&group));
}

/// r1 asks for another view, and nothing is open there, so it does not tick. A peer that ticks
/// hears its ask again after ten ticks, if the first answer was lost.
#[test]
fn a_quiet_replica_repeats_its_ask_to_one_that_ticks() {
    let mut group = with_one_that_objects();
    group.repair();
    for _ in 0..=ASK_AGE_MAX {
        assert!(is_heard(&group, 1, 2));
        group.fire(2, |timer| *timer == Timer::Asks);
    }
    assert!(!is_heard(&group, 1, 2));
    group.cut.insert((1, 2));
    tick(&mut group, 2);
    group.cut.clear();
    tick(&mut group, 2);
    assert!(!is_heard(&group, 1, 2), "it answers once in ten ticks");
    group.fire(1, |timer| *timer == Timer::Asks);
    tick(&mut group, 2);
    assert!(is_heard(&group, 1, 2));
}

/// r2 is in no working view and forgets no ask. When view 1 begins, an old ask for view 2 must not
/// add up with one that r2 makes there.
#[test]
fn a_replica_that_enters_a_view_forgets_old_asks_for_a_later_one() {
    let mut group = Group::new(1);
    group.leave(&[2], View(1), true);
    let mut out = Effects::default();
    let core = &mut group.replicas[2].core;
    core.frame.view_requests.hear(ReplicaId(0), View(2), Signature([0; 64]));
    core.try_leave(&mut out);
    group.carry_out(ReplicaId(2), out);
    for _ in 0..=ASK_AGE_MAX {
        group.fire(2, |timer| *timer == Timer::Asks);
    }
    assert!(is_heard(&group, 0, 2));
    group.leave(&[0, 1], View(1), false);
    group.settle();
    assert!(group.replicas[2].core.frame.is_entered() && group.view(2) == 1);
    assert!(!is_heard(&group, 0, 2));
}

/// Whether an ask of one replica counts at another.
fn is_heard(group: &Group, of: u16, at: usize) -> bool {
    group.replicas[at].core.frame.view_requests.of(ReplicaId(of)).is_some()
}

fn tick(group: &mut Group, id: u16) {
    group.step(id, Event::Timeout(Timer::Resend));
    group.settle();
}

/// Who signs another state than the group's does not lead, neither now nor when its turn comes.
#[test]
fn a_liar_does_not_lead() {
    let mut group = Group::new(1);
    group.liar = Some(0);
    for number in 0..4 {
        group.request(&[0], 1, number, b"x");
        group.settle();
    }
    assert_eq!((group.view(1), group.view(2)), (1, 1));
    assert_eq!(group.replicas[2].core.status().reason, "the primary was proven to lie");
    group.leave(&[1, 2], View(3), false);
    group.settle();
    assert_eq!((group.view(1), group.view(2)), (4, 4), "view 3 is led by the liar");
    assert!(group.rejects.is_empty(), "{:?}", group.rejects);
}
