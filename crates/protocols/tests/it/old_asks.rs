//! A replica asks for another view and thinks better of it. A liar keeps what it signed, and plays
//! it when it likes.

use crate::hand::{Group, Spoken, envelope};
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::ids::{ReplicaId, View};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::hybster::Hybster;
use pentarchy_protocols::minbft::{self, MinBft};
use pentarchy_protocols::pbft::Pbft;
use pentarchy_protocols::zyzzyva::Zyzzyva;
use std::sync::Arc;

/// The last replica lies. r1 asked for view 1, and does not any more. Gives what it had signed.
fn withdrawn<P: Spoken>() -> (Group<P>, Verified<P::Message>) {
    let mut group: Group<P> = Group::new(Some(liar::<P>()), Tuning::default());
    let asked = group.say(1, &all::<P>(), P::ask(View(1)));
    group.run(200);
    assert_eq!(views(&group), vec![View(0); P::N - 1], "one ask deposes nobody");
    // What it waits for comes.
    group.insist(&envelope(1, 1, &[1], 8), 3);
    assert!(group.all_executed(&envelope(1, 1, &[1], 8)));
    (group, asked)
}

fn liar<P: Spoken>() -> u16 {
    P::N as u16 - 1
}

fn all<P: Spoken>() -> Vec<u16> {
    (0..P::N as u16).collect()
}

fn views<P: Spoken>(group: &Group<P>) -> Vec<View> {
    group.nodes.iter().flat_map(|node| &node.core).map(|core| core.status().view).collect()
}

/// The liar passes on what r1 had signed, and asks for the same view. Where that leads.
fn played<P: Spoken>() -> Vec<View> {
    let (mut group, asked) = withdrawn::<P>();
    // The ingress takes what its replica said from nobody else.
    for id in (0..liar::<P>()).filter(|id| *id != asked.author.0) {
        group.queue.push_back((ReplicaId(liar::<P>()), ReplicaId(id), asked.clone()));
    }
    group.say(liar::<P>(), &all::<P>(), P::ask(View(1)));
    group.run(1_000);
    views(&group)
}

#[test]
fn an_ask_that_was_withdrawn_deposes_nobody() {
    fn deposes_nobody<P: Spoken>() {
        assert_eq!(played::<P>(), vec![View(0); P::N - 1], "{}", P::RULES.name);
        let old = mutant::with(Some("frame.old-asks-count"), played::<P>);
        assert!(old.iter().all(|view| *view > View(0)), "{}: {old:?}", P::RULES.name);
    }
    deposes_nobody::<MinBft>();
    deposes_nobody::<Hybster>();
    deposes_nobody::<Pbft>();
    deposes_nobody::<Zyzzyva>();
}

/// Nothing is open in a group, so no replica has a reason to tick. r1 asks for a view, once, and r2
/// four seconds later. Where that leads.
fn asked_in_quiet_times<P: Spoken>() -> Vec<View> {
    let mut group: Group<P> = Group::new(None, Tuning::default());
    group.insist(&envelope(1, 1, &[1], 8), 3);
    for id in [1, 2] {
        let others: Vec<u16> = all::<P>().into_iter().filter(|other| *other != id).collect();
        group.say(id, &others, P::ask(View(1)));
        group.run(4_000);
    }
    views(&group)
}

#[test]
fn an_ask_expires_in_quiet_times_too() {
    fn expires<P: Spoken>() {
        assert_eq!(asked_in_quiet_times::<P>(), vec![View(0); P::N], "{}", P::RULES.name);
        let kept = mutant::with(Some("frame.asks-outlast-quiet"), asked_in_quiet_times::<P>);
        assert_eq!(kept, vec![View(1); P::N], "{}", P::RULES.name);
    }
    expires::<MinBft>();
    expires::<Hybster>();
    expires::<Pbft>();
    expires::<Zyzzyva>();
}

/// The liar leaves, by its own ask and what r1 had signed. It may be a correct replica that left in
/// time, was cut off, and cannot come back. So it is followed, but only if it goes on saying so for
/// two seconds, in which it takes no part. Gives after how many milliseconds.
fn left_by_old_asks() -> u64 {
    let (mut group, asked) = withdrawn::<MinBft>();
    let (liar, view) = (liar::<MinBft>(), View(1));
    let mine = group.authenticated(liar, MinBft::ask(view));
    let signed = |it: &Verified<minbft::Message>| {
        (it.author, (view, Signature(*it.tag.signature().expect("an ask is signed"))))
    };
    let change = minbft::ViewChange {
        view,
        requests: vec![signed(&asked), signed(&mine)],
        checkpoint: CheckpointProof::initial(Base::default()),
        entry: None,
        prepares: Vec::new(),
    };
    let change = group.authenticated(liar, minbft::Message::ViewChange(Arc::new(change)));
    for millis in (0..10_000).step_by(50) {
        for id in 0..liar {
            group.queue.push_back((ReplicaId(liar), ReplicaId(id), change.clone()));
        }
        group.run(50);
        if views(&group) != [View(0), View(0)] {
            return millis;
        }
    }
    panic!("nobody follows");
}

#[test]
fn who_left_by_asks_that_were_withdrawn_is_followed_after_two_seconds() {
    let millis = left_by_old_asks();
    assert!((1_900..=3_000).contains(&millis), "{millis}");
    assert_eq!(mutant::with(Some("frame.old-asks-count"), left_by_old_asks), 0);
}

/// r1 leaves for view 1, of which it is the primary, waits for r0 in vain, and asks for view 2.
/// Then r0 hears of that, and view 1 begins. Long after that the liar asks for view 2. Where that
/// leads.
fn asked_before_it_entered<P: Spoken>() -> Vec<View> {
    let mut group: Group<P> = Group::new(Some(liar::<P>()), Tuning::default());
    group.cut = (0..P::N as u16).flat_map(|id| [(0, id), (id, 0)]).collect();
    for id in 1..P::N as u16 {
        group.say(id, &all::<P>(), P::ask(View(1)));
    }
    group.run(3_000);
    assert!(group.nodes[1].said.contains_key("request_view_change"), "it asks for view 2");
    group.cut.clear();
    for _ in 0..20 {
        group.say(liar::<P>(), &[0], P::ask(View(1)));
        group.run(50);
    }
    assert_eq!(views(&group), vec![View(1); P::N - 1], "all come to the view that it leads");
    group.insist(&envelope(1, 1, &[1], 8), 3);
    assert!(group.all_executed(&envelope(1, 1, &[1], 8)));
    group.say(liar::<P>(), &all::<P>(), P::ask(View(2)));
    group.run(1_000);
    views(&group)
}

#[test]
fn who_enters_its_view_late_asks_for_no_other() {
    assert_eq!(asked_before_it_entered::<MinBft>(), vec![View(1); 2]);
    assert_eq!(asked_before_it_entered::<Hybster>(), vec![View(1); 2]);
    let bug = Some("frame.ask-outlives-entry");
    let broken = || mutant::with(bug, asked_before_it_entered::<MinBft>);
    assert!(std::panic::catch_unwind(broken).is_err(), "it asks on, and an assertion fails");
}
