//! Views fail one after the other, and no checkpoint becomes stable, which would cut the logs: the
//! hosts have their cores keep again what they need, and cut there.

use crate::hand::{Group, Spoken, envelope};
use pentarchy_core::ids::View;
use pentarchy_core::protocol::Tuning;
use pentarchy_protocols::hybster::Hybster;
use pentarchy_protocols::minbft::MinBft;
use pentarchy_protocols::modsmart::{CrashModSmart, ModSmart};
use pentarchy_protocols::pbft::Pbft;

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

/// The most bytes in a log while 300 views fail and a replica crashes in each, or None if the group
/// does not go on afterwards with all that it had ordered.
fn most_bytes<P: Spoken>(log_bytes_max: usize) -> Option<usize> {
    let mut group: Group<P> = begun();
    group.log_bytes_max = log_bytes_max;
    let mut most = 0;
    for view in 1..=300 {
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

fn is_bounded<P: Spoken>() {
    let most = most_bytes::<P>(LOG_BYTES_MAX).expect("the group goes on");
    assert!(most < LOG_BYTES_MAX + LOG_BYTES_MAX / 8, "{}: {most}", P::RULES.name);
    // Worth keeping again: it would grow with the views.
    let grows = most_bytes::<P>(usize::MAX).expect("the group goes on");
    assert!(grows > 2 * LOG_BYTES_MAX, "{}: {grows}", P::RULES.name);
}

#[test]
fn logs_are_bounded_however_many_views_fail() {
    is_bounded::<MinBft>();
    is_bounded::<Hybster>();
    is_bounded::<Pbft>();
    is_bounded::<ModSmart>();
    is_bounded::<CrashModSmart>();
}
