//! What comes late, and is waited for elsewhere.

use super::*;

/// A NEW-VIEW takes over a batch that this replica lacks. It comes with a PREPARE of the view that
/// is being left, so nobody is asked for it again, and the copy that was asked for is redundant.
#[test]
fn a_late_prepare_brings_what_a_new_view_waits_for() {
    let mut group = Group::new(1);
    group.request(&[0], 1, 0, b"x");
    let late = group.queue.iter().find(|(_, to, wire)| {
        *to == ReplicaId(2)
            && matches!(&*group.verified(wire).message, Message::Order(Order::Prepare { .. }))
    });
    let late = late.expect("the primary proposes").2.clone();
    group.cut.insert((0, 2));
    group.settle();
    group.isolate(0);
    group.leave(&[1, 2], View(1), false);
    group.settle_without(|message| matches!(message, Message::Shared(Shared::AskBody { .. })));
    assert_eq!(group.replicas[2].core.status().phase, "changing");
    group.deliver(ReplicaId(2), &late);
    group.settle();
    for id in [1, 2] {
        let status = group.replicas[usize::from(id)].core.status();
        assert_eq!((status.view, status.phase), (View(1), "normal"), "r{id}");
        assert_eq!(group.operations(id).len(), 1, "r{id}");
    }
}
