//! One crash with its disk at a bad moment of a view change, after which another replica is silent
//! for good: those who are left must come to a view that works.

use crate::hand::{Group, Spoken, envelope};
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Protocol as _, Tuning};
use pentarchy_protocols::hybster::{self, Hybster};
use pentarchy_protocols::minbft::MinBft;
use pentarchy_protocols::minzyzzyva::MinZyzzyva;
use pentarchy_protocols::modsmart::{self, CrashModSmart, ModSmart};
use pentarchy_protocols::pbft::{self, Pbft};
use pentarchy_protocols::zyzzyva::Zyzzyva;
use pentarchy_sim::checker::moving_on;
use std::collections::VecDeque;
use std::fmt::Debug;

fn tuning() -> Tuning {
    Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() }
}

/// The view and the phase of a correct replica.
fn stands<P: Spoken>(group: &Group<P>, id: u16) -> (View, &'static str) {
    let core = group.nodes[usize::from(id)].core.as_ref().expect("it is correct");
    (core.status().view, core.status().phase)
}

/// Whether those that still have a core execute something within half a minute.
fn goes_on<P: Spoken>(group: &mut Group<P>) -> bool {
    group.drops = Box::new(|_, _, _| false);
    let last = envelope(2, 1, &[1], 8);
    group.insist(&last, 30);
    group.all_executed(&last)
}

/// r2 is the only one that hears how r1 opens view 1, and lacks a batch that the view takes over.
/// By what it adopts it keeps again how far it has come, and crashes. It comes back, r1 does not.
/// Where r2 stands before and afterwards, and whether the group goes on.
fn joined_and_crashed<P: Spoken>() -> ([(View, &'static str); 2], bool) {
    let mut group: Group<P> = Group::new(None, tuning());
    group.drops = Box::new(|_, to, kind| to == 2 && matches!(kind, "checkpoint" | "stable"));
    for number in 1..=4 {
        group.request(0, &envelope(1, 1, &[number], 8));
        group.run(10);
    }
    group.drops = Box::new(|from, to, kind| match (from, to) {
        (0 | 1 | 3, 2) => kind != "new_view",
        (1, 0 | 3) => matches!(kind, "new_view" | "view_change" | "acknowledge"),
        _ => false,
    });
    group.request(0, &envelope(1, 1, &[5], 8));
    group.run(10);
    let all: Vec<u16> = (0..P::N as u16).collect();
    let but = |left_out: u16| all.iter().copied().filter(|id| *id != left_out).collect::<Vec<_>>();
    group.say(1, &but(2), P::ask(View(1)));
    group.say(2, &but(1), P::ask(View(1)));
    group.settle_all();
    for id in but(1).into_iter().filter(|id| *id != 2) {
        assert_eq!(stands(&group, id), (View(1), "changing"));
    }
    let joined = stands(&group, 2);
    group.nodes[1].core = None;
    group.queue.clear();
    group.start(2);
    let came_back = stands(&group, 2);
    ([joined, came_back], goes_on(&mut group))
}

/// What an assertion of a core or of its host says with a seeded bug, long before anybody could see
/// that the group stands still.
fn asserted<R: Debug>(mutant: &str, schedule: impl Fn() -> R + std::panic::UnwindSafe) -> String {
    let stopped = std::panic::catch_unwind(|| mutant::with(Some(mutant), schedule));
    let text = stopped.expect_err("an assertion fails").downcast::<String>();
    *text.expect("the panic has a message")
}

#[test]
fn who_joined_a_view_and_crashed_can_move_on() {
    fn moves_on<P: Spoken>(stands: [(u64, &'static str); 2]) {
        let name = P::RULES.name;
        let stands = stands.map(|(view, phase)| (View(view), phase));
        assert_eq!(joined_and_crashed::<P>(), (stands, true), "{name}");
        let untimed = asserted("frame.waits-untimed-for-a-quorum", joined_and_crashed::<P>);
        assert!(untimed.contains("nothing leads on"), "{name}: {untimed}");
        // The replica believes that its timer runs, and its host has none.
        let trusted = asserted("frame.trusts-new-primary", joined_and_crashed::<P>);
        assert!(trusted.contains(moving_on::PROPERTY), "{name}: {trusted}");
    }
    // It lacks the batch of slot 5. Its log says that it left view 0.
    moves_on::<MinBft>([(1, "changing"); 2]);
    moves_on::<MinZyzzyva>([(1, "changing"); 2]);
    // It enters the view at once, and asks for the batch afterwards.
    moves_on::<Pbft>([(1, "normal"); 2]);
    // It has confirmed nothing in the view and said nothing there, so its log has nothing of it.
    moves_on::<Zyzzyva>([(1, "entering"), (0, "normal")]);
}

/// r2 wants view 5 when it hears how r1 opened view 4, and crashes when its log has that it
/// accepted this, and not yet that it left by it. r0, which wanted view 5 too, is silent from then
/// on. It may crash again before anybody hears from it.
fn accepted_late_and_crashed(times: usize) -> bool {
    let mut group: Group<Hybster> = Group::new(None, tuning());
    // r2 hears that all ask, and nothing else.
    group.drops = Box::new(|from, to, kind| {
        let lost = to == 2 && from != 2 || to == 0 && from == 1 && kind == "new_view";
        lost && kind != "request_view_change"
    });
    for id in 0..3 {
        group.say(id, &[0, 1, 2], Hybster::ask(View(4)));
    }
    group.settle_all();
    assert_eq!(stands(&group, 1), (View(4), "normal"));
    assert_eq!(stands(&group, 2).0, View(4));
    for id in [0, 2] {
        group.say(id, &[2], Hybster::ask(View(5)));
    }
    group.settle_all();
    assert_eq!(stands(&group, 2), (View(5), "leaving"));
    group.nodes[0].core = None;
    group.nodes[2].disk_is_slow = true;
    group.drops = Box::new(|_, to, kind| to == 2 && kind != "new_view");
    let is_accepted = |record: &hybster::Record| matches!(record, hybster::Record::Acknowledge(_));
    let opened = group.nodes[1].log.iter().find_map(|record| match record {
        hybster::Record::Enter(opening) => Some(opening.clone()),
        _ => None,
    });
    let opened = opened.expect("r1 entered view 4");
    group.queue.push_back((opened.author, ReplicaId(2), opened));
    group.settle_all();
    let accepted = group.nodes[2].log.iter().position(is_accepted).expect("it accepted view 4");
    group.nodes[2].log.truncate(accepted + 1);
    (0..times).for_each(|_| group.start(2));
    goes_on(&mut group)
}

#[test]
fn who_accepted_a_view_late_and_crashed_can_move_on() {
    for times in 1..=3 {
        assert!(accepted_late_and_crashed(times));
    }
    let lost = asserted("hybster.comes-back-on-its-way", || accepted_late_and_crashed(1));
    assert!(lost.contains("cannot say why"), "{lost}");
    let wants_more = Some("hybster.comes-back-wanting-more");
    assert!(mutant::with(wants_more, || accepted_late_and_crashed(1)));
    asserted("hybster.comes-back-wanting-more", || accepted_late_and_crashed(2));
}

/// A batch is ordered in view 0 and decided nowhere, and view 1 takes it over. The power of all
/// fails when their logs have that they entered that view, and not yet that they voted there.
/// Whether they decide the batch, with no client that asks for it again.
fn entered_and_lost_power<P: Spoken>(
    decides: &'static [&'static str],
    is_entry: fn(&P::Record) -> bool,
) -> bool {
    let mut group: Group<P> = Group::new(None, tuning());
    let batch = envelope(1, 1, &[1], 8);
    group.loses = decides;
    group.request(0, &batch);
    group.run(10);
    let all: Vec<u16> = (0..P::N as u16).collect();
    for id in [1, 2] {
        group.say(id, &all, P::ask(View(1)));
    }
    group.settle_all();
    for id in &all {
        assert_eq!(stands(&group, *id), (View(1), "normal"));
        let log = &mut group.nodes[usize::from(*id)].log;
        let entry = log.iter().position(is_entry).expect("it entered view 1");
        log.truncate(entry + 1);
    }
    (group.loses, group.queue) = (&[], VecDeque::new());
    all.iter().for_each(|id| group.start(*id));
    group.run(2_000);
    group.all_executed(&batch)
}

#[test]
fn who_lost_power_on_entering_a_view_votes_there() {
    fn votes<P: Spoken>(decides: &'static [&'static str], is_entry: fn(&P::Record) -> bool) {
        let run = move || entered_and_lost_power::<P>(decides, is_entry);
        assert!(run(), "{}", P::RULES.name);
        let bug = Some("frame.votes-not-resumed");
        assert!(!mutant::with(bug, run), "{}", P::RULES.name);
    }
    let is_entry = |record: &_| matches!(record, pbft::Record::Enter(_));
    votes::<Pbft>(&["commit"], is_entry);
    let is_entry = |record: &_| matches!(record, modsmart::Record::Enter(_));
    votes::<ModSmart>(&["accept"], is_entry);
}

/// r0 proposes slot 17, and only r1 gets the batch, from r0 when r1 opens view 1, which takes it
/// over. r1 loses power before it has entered that view, maybe with the state at slot 16 still
/// missing, and r0 does not come back. Then r2 is all that r1 can order with, and r1 must still
/// have the batch.
fn opened_and_lost_power(lags: bool, keeps_again: bool) -> bool {
    let mut group: Group<CrashModSmart> = Group::new(None, tuning());
    let is_unheard = move |to, kind| {
        let is_order = matches!(kind, "propose" | "accept" | "decided");
        lags && to == 1 && (is_order || matches!(kind, "checkpoint" | "stable"))
    };
    group.drops = Box::new(move |_, to, kind| is_unheard(to, kind));
    for number in 1..=16 {
        group.request(0, &envelope(1, 1, &[number], 8));
        group.run(10);
    }
    let stable = if lags { Slot(0) } else { Slot(16) };
    let core = group.nodes[1].core.as_ref().expect("it is correct");
    assert_eq!(core.status().stable, stable);
    group.drops = Box::new(move |from, to, kind| match kind {
        "propose" | "accept" | "new_view" | "decided" => true,
        "view_change" => from == 2,
        _ => is_unheard(to, kind),
    });
    group.request(0, &envelope(1, 1, &[17], 8));
    group.run(10);
    group.nodes[1].disk_is_slow = true;
    group.fetches_nothing = true;
    for id in [0, 2] {
        group.say(id, &[0, 1, 2], CrashModSmart::ask(View(1)));
    }
    // Its NEW-VIEW waits for the disk.
    let opened = (0..40).find_map(|_| {
        group.run(5);
        let mut log = group.nodes[1].log.iter();
        let opened = log.position(|record| matches!(record, modsmart::Record::Open(_)));
        opened.is_none().then(|| group.sync(1));
        opened
    });
    let opened = opened.expect("it opened view 1");
    if keeps_again {
        group.log_again(1);
    } else {
        group.nodes[1].log.truncate(opened + 1);
    }
    group.fetches_nothing = false;
    group.nodes[0].core = None;
    group.queue.clear();
    group.start(1);
    goes_on(&mut group)
}

#[test]
fn who_opened_a_view_and_lost_power_has_its_batches() {
    for (lags, keeps_again) in [(false, false), (true, false), (false, true), (true, true)] {
        assert!(opened_and_lost_power(lags, keeps_again), "{lags}, {keeps_again}");
    }
    let is_lost = |bug, (lags, keeps_again)| {
        !mutant::with(Some(bug), || opened_and_lost_power(lags, keeps_again))
    };
    assert!(is_lost("modsmart-cft.opened-from-memory", (false, false)));
    assert!(is_lost("modsmart-cft.opens-outside-its-window", (true, false)));
    assert!(is_lost("modsmart-cft.cut-bound-batches", (false, true)));
}

/// Views end one after the other, and each has ordered something. How many milliseconds it then
/// takes until a primary that stops is gone, and the next one too, which nobody hears.
fn patience_after(views: u64) -> u64 {
    let mut group: Group<MinBft> = Group::new(None, Tuning::default());
    for view in 1..=views {
        group.insist(&envelope(1, view, &[view], 8), 1);
        group.say(0, &[0, 1, 2], MinBft::ask(View(view)));
        group.say(1, &[0, 1, 2], MinBft::ask(View(view)));
        group.run(100);
        assert_eq!(stands(&group, 2), (View(view), "normal"));
    }
    group.drops = Box::new(|_, _, kind| kind == "new_view");
    let (primary, backup) = (views % 3, (views as u16 + 1) % 3);
    group.nodes[primary as usize].core = None;
    (0..3).for_each(|id| group.request(id, &envelope(2, 1, &[1], 8)));
    let mut millis = 0;
    while stands(&group, backup).0 < View(views + 2) && millis < 100_000 {
        group.run(1);
        millis += 1;
    }
    millis
}

/// A group with few requests takes no checkpoint for days.
#[test]
fn a_view_that_worked_leaves_the_next_its_time() {
    let one = patience_after(1);
    let twelve = patience_after(12);
    assert!(twelve <= one, "{one} ms after one view, {twelve} ms after twelve");
    let bug = Some("frame.views-that-worked-failed");
    let six = mutant::with(bug, || patience_after(6));
    assert!(six > 8 * one, "{one} ms after one view, {six} ms after six");
}
