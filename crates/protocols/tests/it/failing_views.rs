//! Views fail one after the other, and no checkpoint becomes stable, which would cut the logs: the
//! hosts have their cores keep again what they need, and cut there.
//!
//! Or a checkpoint becomes stable between views. What is to stay is written once more, and power
//! fails before all of that is durable: wherever the log ends, the replica can go on with it.

use crate::hand::{Group, Spoken, envelope};
use pentarchy_core::ids::View;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;
use pentarchy_protocols::hybster::Hybster;
use pentarchy_protocols::minbft::MinBft;
use pentarchy_protocols::minzyzzyva::MinZyzzyva;
use pentarchy_protocols::modsmart::{CrashModSmart, ModSmart};
use pentarchy_protocols::pbft::Pbft;
use pentarchy_protocols::zyzzyva::Zyzzyva;

const LOG_BYTES_MAX: usize = 64 << 10;

/// Three slots are decided, and one more that only its primary and one backup hear of.
fn begun<P: Spoken>() -> Group<P> {
    let mut group: Group<P> = Group::new(None, Tuning::default());
    for number in 1..=3 {
        group.insist(&envelope(1, number, &[number], 200), 1);
    }
    let last = P::N as u16 - 1;
    group.cut.extend((0..last).map(|other| (other, last)));
    group.request(0, &envelope(1, 4, &[4], 200));
    group.run(50);
    group.cut.clear();
    group
}

fn fail<P: Spoken>(group: &mut Group<P>, view: u64) {
    let primary = (view % P::N as u64) as u16;
    group.drops = Box::new(move |_, to, kind| (to, kind) == (primary, "view_change"));
    for id in 0..P::N as u16 {
        let others: Vec<u16> = (0..P::N as u16).collect();
        group.say(id, &others, P::ask(View(view)));
    }
    group.run(60);
}

/// The most bytes in a log while so many views fail and a replica crashes in each, or None if the
/// group does not go on afterwards with all that it had ordered.
fn most_bytes<P: Spoken>(views: u64, log_bytes_max: usize) -> Option<usize> {
    let mut group: Group<P> = begun();
    group.log_bytes_max = log_bytes_max;
    let mut most = 0;
    for view in 1..=views {
        fail(&mut group, view);
        let views = group.nodes.iter().flat_map(|node| &node.core).map(|core| core.status().view);
        assert!(views.clone().all(|it| it >= View(view)), "{:?}", views.collect::<Vec<_>>());
        most = group.nodes.iter().map(|node| node.log_bytes()).fold(most, usize::max);
        // Each of them where each of the first records is the last that is durable.
        let (id, records) = (view % P::N as u64, view / P::N as u64 % 16);
        if log_bytes_max < usize::MAX {
            group.crash_keeping_again(id as u16, records as usize);
        } else {
            group.start(id as u16);
        }
    }
    group.drops = Box::new(|_, _, _| false);
    let last = envelope(2, 1, &[1], 8);
    group.insist(&last, 60);
    let all = (1..=4).all(|number| group.all_executed(&envelope(1, number, &[number], 200)));
    (all && group.all_executed(&last)).then_some(most)
}

fn is_bounded<P: Spoken>(views: u64) {
    let most = |log_bytes_max| {
        let most = most_bytes::<P>(views, log_bytes_max);
        most.unwrap_or_else(|| panic!("a group of {} does not go on", P::RULES.name))
    };
    let bounded = most(LOG_BYTES_MAX);
    assert!(bounded < LOG_BYTES_MAX + LOG_BYTES_MAX / 8, "{}: {bounded}", P::RULES.name);
    // Worth keeping again: it would grow with the views.
    let grows = most(usize::MAX);
    assert!(grows > 2 * LOG_BYTES_MAX, "{}: {grows}", P::RULES.name);
}

#[test]
fn logs_are_bounded_however_many_views_fail() {
    is_bounded::<MinBft>(300);
    is_bounded::<Hybster>(300);
    is_bounded::<Pbft>(300);
    is_bounded::<ModSmart>(300);
    // Without signatures, what it keeps is a third of that.
    is_bounded::<CrashModSmart>(600);
}

/// r2 has left view 0, in which it voted for slots 5 and 6, when it hears that the checkpoint at
/// slot 4 is stable. The group, and how much its log had before.
fn leaves_and_cuts<P: Spoken>() -> (Group<P>, usize) {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    let mut group: Group<P> = Group::new(None, tuning);
    group.drops = Box::new(|_, to, kind| to == 2 && matches!(kind, "checkpoint" | "stable"));
    for number in 1..=6 {
        group.request(0, &envelope(1, 1, &[number], 8));
        group.run(10);
    }
    let all: Vec<u16> = (0..P::N as u16).collect();
    group.drops = Box::new(|_, to, kind| match to {
        2 => kind != "request_view_change",
        _ => matches!(kind, "view_change" | "new_view"),
    });
    for id in all.iter().copied().filter(|id| *id != 2) {
        let others: Vec<u16> = all.iter().copied().filter(|other| *other != id).collect();
        group.say(id, &others, P::ask(View(1)));
    }
    group.settle_all();
    let status = group.nodes[2].core.as_ref().expect("it is correct").status();
    assert!(status.view == View(1) && status.phase != "normal", "{status:?}");
    let before = group.nodes[2].log.len();
    group.drops = Box::new(|_, to, kind| match to {
        2 => !matches!(kind, "checkpoint" | "stable"),
        _ => matches!(kind, "view_change" | "new_view"),
    });
    group.run(200);
    (group, before)
}

/// Comes back from the log up to each of these records, and has what it needs to go on.
fn comes_back<P: Spoken>() {
    let (group, before) = leaves_and_cuts::<P>();
    let after = group.nodes[2].log.len();
    assert!(after > before + 2, "{}: it writes what is to stay once more", P::RULES.name);
    for length in before..=after {
        let (mut group, _) = leaves_and_cuts::<P>();
        let node = &mut group.nodes[2];
        node.log.truncate(length);
        // What is below goes only once all of that is durable.
        node.cut = 0;
        group.queue.clear();
        group.start(2);
        group.drops = Box::new(|_, _, _| false);
        let last = envelope(2, 1, &[1], 8);
        group.insist(&last, 30);
        assert!(group.all_executed(&last), "{}, {length} of {after} records", P::RULES.name);
    }
}

#[test]
fn wherever_a_log_breaks_off_that_is_cut_between_views() {
    comes_back::<MinBft>();
    comes_back::<MinZyzzyva>();
    comes_back::<Hybster>();
    comes_back::<Pbft>();
    comes_back::<Zyzzyva>();
    comes_back::<ModSmart>();
}

#[test]
fn what_was_said_in_a_view_that_was_left_is_not_said_again() {
    fn says_it<P: Spoken>(bug: &str) {
        let stopped = std::panic::catch_unwind(|| mutant::with(Some(bug), comes_back::<P>));
        let text = stopped.expect_err("its device refuses").downcast::<String>();
        let text = *text.expect("the panic has a message");
        assert!(text.contains("has passed"), "{text}");
    }
    says_it::<MinBft>("usig.says-what-it-left");
    says_it::<Hybster>("hybster.says-what-it-left");
}
