//! What is dropped unchecked, and what never is.

use super::*;

/// A message that changes nothing need not be checked; one that proves a lie must be.
#[test]
fn what_says_nothing_new_is_moot_and_what_contradicts_is_not() {
    let mut group = Group::new(1);
    let (slot, last) = (Slot(1), ReplicaId(2));
    let is_redundant =
        |group: &Group, message: &Message| group.replicas[0].core.is_redundant(last, message);
    group.request(&[0], 1, 0, b"x");
    let batch = group.replicas[0].core.slots.window.get(slot).and_then(|state| state.batch);
    let batch = batch.expect("it proposed");
    let commit = |batch| Message::Order(Order::Commit { view: View(0), slot, batch });
    assert!(!is_redundant(&group, &commit(batch)), "the first COMMIT decides");
    group.settle();
    assert!(is_redundant(&group, &commit(batch)), "what was decided");
    assert!(!is_redundant(&group, &commit(Digest([9; 32]))), "a COMMIT to another batch is a lie");
    let ahead = Message::Order(Order::Commit { view: View(0), slot: slot.next(), batch });
    assert!(!is_redundant(&group, &ahead), "what is not decided yet");
    let elsewhere = Message::Order(Order::Commit { view: View(1), slot: slot.next(), batch });
    assert!(is_redundant(&group, &elsewhere), "a view that nobody here is about to enter");
    let ask = |view| Message::Shared(Shared::RequestViewChange { view });
    assert!(is_redundant(&group, &ask(View(0))) && !is_redundant(&group, &ask(View(1))));
    for number in 1..4 {
        group.request(&[0], 1, number, b"x");
        group.settle();
    }
    let stable = group.replicas[0].core.frame.stable.slot;
    assert_eq!(stable, Slot(4));
    let state = group.replicas[0].core.frame.stable.state;
    let checkpoint = |slot, state| Message::Shared(Shared::Checkpoint { slot, state });
    assert!(is_redundant(&group, &checkpoint(stable, state)));
    assert!(is_redundant(&group, &checkpoint(slot, state)));
    let false_state = checkpoint(stable, Digest([9; 32]));
    assert!(!is_redundant(&group, &false_state), "another state for a stable slot is a lie");
    assert!(!is_redundant(&group, &checkpoint(Slot(8), state)));
    assert!(!group.replicas[2].core.is_redundant(last, &commit(batch)), "its own are always taken");
}
