//! Primaries that are slow or lie.

use super::*;

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
/// nobody objects to one that is not, or that is so for one second.
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

/// One replica that finds the primary slow deposes nobody, and keeps no idle group awake.
#[test]
fn one_replica_that_objects_changes_nothing() {
    let mut group = Group::new(1);
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
    assert_eq!(group.replicas[1].core.status().reason, "the primary was too slow");
    group.repair();
    for id in ALL {
        assert_eq!(group.view(id), 0);
        let resends = |timer: &Timer| *timer == Timer::Resend;
        assert!(!group.replicas[usize::from(id)].timers.iter().any(resends), "r{id} is awake");
    }
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
