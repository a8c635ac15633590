//! A replica comes back to a state that lies above all that its log says: a state that it fetched,
//! and it crashed before it had written down who vouches for that.

use crate::hand::{Group, Spoken, envelope};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;
use pentarchy_protocols::hybster::Hybster;
use pentarchy_protocols::minbft::MinBft;

const ORDERS: [&str; 2] = ["prepare", "commit"];
const PROOFS: [&str; 2] = ["checkpoint", "stable"];

/// The group orders so many requests, one at a time.
fn order<P: Spoken>(group: &mut Group<P>, numbers: std::ops::RangeInclusive<u64>) {
    for number in numbers {
        group.request(0, &envelope(1, 1, &[number], 8));
        group.run(10);
    }
}

/// r2 lags, is proven one state and wants the next one.
fn wants_a_state<P: Spoken>(drops: fn(u16, u16, &'static str) -> bool) -> Group<P> {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 16, ..Tuning::default() };
    let mut group: Group<P> = Group::new(None, tuning);
    group.fetches_nothing = true;
    let links = [(0, 2), (1, 2)];
    group.cut.extend(links);
    order(&mut group, 1..=4);
    group.cut.clear();
    group.loses = &ORDERS;
    group.run(1_000);
    group.loses = &[];
    group.cut.extend(links);
    group.drops = Box::new(drops);
    order(&mut group, 5..=8);
    group.cut.clear();
    group.loses = &ORDERS;
    group.run(1_000);
    group.queue.clear();
    group
}

/// It fetches that state, and comes back to it with no more than the first one in its log. Nobody
/// proves it anything any more, and it hears of one more request. Then the primary is gone. Gives
/// what r2 said of that, and whether the others go on.
fn comes_back_to_a_state<P: Spoken>() -> ([usize; 2], bool) {
    let mut group: Group<P> = wants_a_state(|_, _, _| false);
    group.loses = &PROOFS;
    assert_eq!(group.crash_with_what_it_wants(2), Slot(8));
    group.run(100);
    order(&mut group, 9..=9);
    group.nodes[0].core = None;
    let before = |kind| group.nodes[2].said.get(kind).copied().unwrap_or_default();
    let committed = before("commit");
    for id in 0..3 {
        group.say(id, &[1, 2], P::ask(View(1)));
    }
    group.run(100);
    let left = group.nodes[2].said.get("view_change").copied().unwrap_or_default();
    let next = envelope(1, 1, &[10], 8);
    group.insist(&next, 20);
    ([committed, left], group.all_executed(&next))
}

/// Its counter would remember a commitment above the state, and nothing that it has leads there:
/// its VIEW-CHANGE could not show all that its counter says, and nobody would take it.
#[test]
fn nobody_commits_above_a_state_that_it_cannot_show() {
    assert_eq!(comes_back_to_a_state::<Hybster>(), ([0, 1], true));
    assert_eq!(comes_back_to_a_state::<MinBft>(), ([0, 1], true));
    // Who did it all the same at least does not say that it left, for nobody would take that.
    let behind = |mutant, run: fn() -> ([usize; 2], bool)| mutant::with(Some(mutant), run);
    let stuck = ([1, 0], false);
    assert_eq!(behind("hybster.commits-behind-a-hole", comes_back_to_a_state::<Hybster>), stuck);
    assert_eq!(behind("usig.commits-behind-a-hole", comes_back_to_a_state::<MinBft>), stuck);
}

/// r1 vouched for that state to r2 alone. r2 fetches it and crashes; so does the primary, which
/// forgets who vouched for what, and then r1 is gone. Whether the two that are left go on.
fn is_shown_what_led_there<P: Spoken>() -> bool {
    let mut group: Group<P> = wants_a_state(|_, to, kind| to == 0 && PROOFS.contains(&kind));
    assert_eq!(group.crash_with_what_it_wants(2), Slot(8));
    group.start(0);
    group.nodes[1].core = None;
    group.queue.clear();
    group.loses = &[];
    group.drops = Box::new(|_, _, _| false);
    let next = envelope(1, 1, &[9], 8);
    group.insist(&next, 20);
    group.all_executed(&next)
}

/// No proof of the state ever comes, and the primary is correct, so nobody else asks for a view.
#[test]
fn who_comes_back_to_a_state_is_shown_what_led_there() {
    assert!(is_shown_what_led_there::<Hybster>());
    assert!(is_shown_what_led_there::<MinBft>());
    let mutant = Some("frame.hole-not-reported");
    assert!(!mutant::with(mutant, is_shown_what_led_there::<Hybster>));
    assert!(!mutant::with(mutant, is_shown_what_led_there::<MinBft>));
}
