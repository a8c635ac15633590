//! Zyzzyva by hand: a stable checkpoint contradicts what a replica's view began with, or what it
//! has proof of; and replicas whose votes differ.

use crate::hand::{Group, Spoken as _, envelope};
use pentarchy_core::auth::{AuthTag, Signature};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::protocol::{Protocol as _, Status, Tuning};
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::zyzzyva::{Message, Reached, Record, Stable, ViewChange, Zyzzyva};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

type Net = Group<Zyzzyva>;

/// Which seeded bug undoes what these schedules are for.
const BUG: Option<&str> = Some("zyzzyva.contradiction-not-shown");

fn cut_off(group: &mut Net, id: u16) {
    group.cut = (0..4).flat_map(|other| [(id, other), (other, id)]).collect();
}

fn ask(group: &mut Net, ids: &[u16], view: u64) {
    for id in ids {
        group.say(*id, &[0, 1, 2, 3], Zyzzyva::ask(View(view)));
    }
}

fn status(group: &Net, id: usize) -> Status {
    group.nodes[id].core.as_ref().expect("it runs").status()
}

/// A group in which r0 and r1 alone executed x in slot 4, behind which a checkpoint is due.
fn with_x_at_two() -> Net {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    let mut group: Net = Group::new(None, tuning);
    for number in 1..=3 {
        group.insist(&envelope(1, number, &[number], 8), 1);
    }
    group.drops = Box::new(|_, to, kind| kind == "order" && to >= 2);
    group.request(0, &envelope(2, 1, &[1], 8));
    group.round(0);
    group.run(20);
    assert_eq!([0, 1, 2, 3].map(|id| group.nodes[id].executed.len()), [4, 4, 3, 3]);
    group
}

/// r3 is away for seven checkpoints, of each of which it hears, and is sent no state. Then that of
/// the second one comes, the proof of which it has dropped for those of later ones. Which states it
/// wants next.
fn wants_behind_a_late_state() -> Vec<Slot> {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    let mut group: Net = Group::new(None, tuning);
    group.fetches_nothing = true;
    for checkpoint in 0..7 {
        group.drops = Box::new(|_, to, _| to == 3);
        for number in 4 * checkpoint + 1..=4 * checkpoint + 4 {
            group.insist(&envelope(1, number, &[number], 8), 1);
        }
        group.drops = Box::new(|_, to, kind| to == 3 && kind != "stable");
        group.run(1_000);
    }
    assert_eq!(status(&group, 3).stable, Slot(4));
    group.drops = Box::new(|_, to, _| to == 3);
    group.nodes[3].wished.clear();
    group.came(3, Slot(8));
    group.nodes[3].wished.clone()
}

/// It does not go back to the first one, to which its window has moved.
#[test]
fn a_state_that_came_late_is_not_left_for_an_earlier_one() {
    assert_eq!(wants_behind_a_late_state(), [Slot(28)]);
    let bug = Some("frame.installs-what-is-older");
    assert_eq!(mutant::with(bug, wants_behind_a_late_state), [Slot(4), Slot(28)]);
}

/// Slot 4, behind which a checkpoint is due, is x at r0 and r1 only. View 1 begins with x, and only
/// r1 gets to know that a quorum confirmed it. The others open view 2 without r1 and without x,
/// order y in slot 4, and make that stable. Then r2 stops, and the others need r1.
fn goes_on_after_a_checkpoint_contradicts_an_entry() -> bool {
    let mut group = with_x_at_two();

    cut_off(&mut group, 3);
    let is_agreement = |kind: &str| kind == "confirm" || kind == "confirmed";
    group.drops = Box::new(move |_, to, kind| is_agreement(kind) && (to == 0 || to == 2));
    ask(&mut group, &[0, 1], 1);
    group.run(30);
    let phase = |group: &Net, id| (status(group, id).view, status(group, id).phase);
    assert_eq!(phase(&group, 0), (View(1), "entering"));
    assert_eq!(phase(&group, 1), (View(1), "normal"));
    assert_eq!(phase(&group, 2), (View(1), "entering"));

    cut_off(&mut group, 1);
    group.drops = Box::new(|_, _, _| false);
    group.request(2, &envelope(3, 1, &[1], 8));
    ask(&mut group, &[0, 2], 2);
    group.run(30);
    assert_eq!([0, 2, 3].map(|id| phase(&group, id)), [(View(2), "normal"); 3]);
    assert_eq!([0, 2, 3].map(|id| status(&group, id).stable), [Slot(4); 3]);
    assert_ne!(group.nodes[0].executed[3].1.digest, group.nodes[1].executed[3].1.digest);

    group.nodes[2].core = None;
    ask(&mut group, &[0, 3], 3);
    group.run(20);
    group.cut.clear();
    let last = envelope(4, 1, &[1], 8);
    group.insist(&last, 20);
    assert_eq!(status(&group, 1).stable, Slot(4));
    group.all_executed(&last)
}

#[test]
fn a_checkpoint_that_contradicts_an_entry_stops_nobody() {
    assert!(goes_on_after_a_checkpoint_contradicts_an_entry());
    assert!(!mutant::with(BUG, goes_on_after_a_checkpoint_contradicts_an_entry));
}

/// Slot 4 is x at r0 and r1 only. The others open view 2 without r1 and without x, order y in slot
/// 4, and make that stable. r1 fetched that state and saved it, and crashes before it keeps the
/// proof: in its log is x. It hears of view 2 before it hears of the proof.
fn goes_on_from_a_saved_state_to_which_its_log_does_not_lead() -> bool {
    let mut group = with_x_at_two();

    cut_off(&mut group, 1);
    group.drops = Box::new(|_, _, _| false);
    group.request(2, &envelope(3, 1, &[1], 8));
    ask(&mut group, &[0, 2, 3], 2);
    group.run(30);
    assert_eq!([0, 2, 3].map(|id| status(&group, id).stable), [Slot(4); 3]);
    assert_ne!(group.nodes[0].executed[3].1.digest, group.nodes[1].executed[3].1.digest);

    let [saved, executed] = [group.nodes[2].saved, group.nodes[1].saved];
    assert_eq!((saved.map(|base| base.slot), executed), (Some(Slot(4)), None));
    group.nodes[1].saved = saved;
    group.nodes[1].executed = group.nodes[2].executed.clone();
    group.start(1);
    group.cut.clear();
    group.drops = Box::new(|_, to, kind| to == 1 && matches!(kind, "stable" | "checkpoint"));
    group.run(300);
    assert_eq!(status(&group, 1).view, View(2));
    group.drops = Box::new(|_, _, _| false);
    let last = envelope(4, 1, &[1], 8);
    group.insist(&last, 20);
    group.all_executed(&last)
}

#[test]
fn a_saved_state_to_which_the_log_does_not_lead_stops_nobody() {
    assert!(goes_on_from_a_saved_state_to_which_its_log_does_not_lead());
    let broken = || {
        let bug = Some("zyzzyva.any-saved-state-is-own");
        mutant::with(bug, goes_on_from_a_saved_state_to_which_its_log_does_not_lead)
    };
    assert!(!std::panic::catch_unwind(broken).unwrap_or(false));
}

/// The history behind these batches, from the first slot on.
fn history(batches: Vec<Digest>) -> Digest {
    let change = showing(batches, Vec::new());
    change.histories().last().expect("at least the first").1
}

fn showing(batches: Vec<Digest>, requests: Vec<(ReplicaId, (View, Signature))>) -> ViewChange {
    let stable = Stable::initial(Base::default());
    let (entry, certificate, contradicted) = (None, None, None);
    ViewChange { view: View(2), requests, stable, entry, certificate, contradicted, batches }
}

fn place(view: u64, slot: u64, history: Digest) -> Place {
    Place { view: View(view), slot: Slot(slot), history }
}

/// The lying primary r0 orders two small batches at r1 and r2, and votes for both at r1, which has
/// proof of them from then on.
fn certified(group: &mut Net) -> [Digest; 2] {
    group.drops = Box::new(|_, to, kind| kind == "order" && to == 3);
    let mut digests = Vec::new();
    for number in 1..=2 {
        let items = vec![Item::Whole(envelope(2, number, &[number], 8))];
        let proposal = Arc::new(Proposal::new(Millis(group.now), items));
        let (view, slot, parent) = (View(0), Slot(number), history(digests.clone()));
        digests.push(proposal.digest());
        group.say(0, &[1, 2], Message::Order { view, slot, parent, proposal });
    }
    let [first, second] = digests[..] else { panic!("two batches") };
    group.say(0, &[1], Message::Vote(place(0, 2, history(vec![first, second]))));
    group.run(150);
    assert_eq!([1, 2, 3].map(|id| group.nodes[id].executed.len()), [2, 2, 0]);
    let said = |id: usize| group.nodes[id].said.contains_key("commit");
    assert_eq!([1, 2].map(said), [true, false]);
    [first, second]
}

/// r2 and r3 open view 2 with the liar, who shows nothing, and without r1. They order one large
/// batch in slot 1, behind which a checkpoint is due for its bytes, and the liar helps to make that
/// stable.
fn contradicted(group: &mut Net) {
    cut_off(group, 1);
    group.drops = Box::new(|_, _, _| false);
    group.request(2, &envelope(3, 1, &[1], 2_000));
    ask(group, &[2, 3], 2);
    let asked = |id: u16, group: &mut Net| {
        let asked = group.authenticated(id, Zyzzyva::ask(View(2)));
        let AuthTag::Signature(signature) = asked.tag else { panic!("asks are signed") };
        (ReplicaId(id), (View(2), Signature(signature)))
    };
    let requests = vec![asked(2, group), asked(3, group)];
    group.say(0, &[2], Message::ViewChange(Arc::new(showing(Vec::new(), requests))));
    group.say(0, &[2, 3], Message::Confirm(place(2, 0, history(Vec::new()))));
    group.run(30);
    let executed = |id: usize| group.nodes[id].executed.iter().map(|(_, it)| it.digest).collect();
    let large: Vec<Digest> = executed(2);
    assert_eq!((large.len(), executed(3)), (1, large.clone()));
    let there = place(2, 1, history(large));
    group.say(0, &[2, 3], Message::Vote(there));
    group.say(0, &[2, 3], Message::Commit(there));
    let state = Reached { history: there.history, state: Digest::of(&1u64.to_le_bytes()) };
    group.say(0, &[2, 3], Message::Shared(Shared::Checkpoint { slot: Slot(1), state }));
    group.run(30);
    assert_eq!([2, 3].map(|id| status(group, id).stable), [Slot(1); 2]);
}

/// As above, r1 hears of the checkpoint alone, and crashes. Then the liar falls silent, and the
/// others need r1.
fn goes_on_after_a_checkpoint_contradicts_a_recalled_certificate() -> bool {
    let tuning = Tuning {
        checkpoint_slots: 4,
        window_slots: 8,
        checkpoint_bytes: 1_000,
        ..Tuning::default()
    };
    let mut group: Net = Group::new(Some(0), tuning);
    certified(&mut group);
    contradicted(&mut group);
    group.cut.clear();
    group.fetches_nothing = true;
    group.drops = Box::new(|_, to, kind| to == 1 && kind != "stable");
    group.run(150);
    let stands = |group: &Net| (status(group, 1).view, status(group, 1).stable);
    assert_eq!(stands(&group), (View(0), Slot(1)));
    group.start(1);
    assert_eq!(stands(&group), (View(0), Slot(1)));
    // It leaves by what it has, before it hears what came of the views between.
    ask(&mut group, &[2, 3], 3);
    group.drops = Box::new(|_, to, kind| to == 1 && kind != "request_view_change");
    group.settle_all();
    group.fetches_nothing = false;
    group.drops = Box::new(|_, _, _| false);
    let last = envelope(4, 1, &[1], 8);
    group.insist(&last, 20);
    group.all_executed(&last)
}

#[test]
fn a_checkpoint_that_contradicts_a_recalled_certificate_stops_nobody() {
    assert!(goes_on_after_a_checkpoint_contradicts_a_recalled_certificate());
    assert!(!mutant::with(BUG, goes_on_after_a_checkpoint_contradicts_a_recalled_certificate));
}

/// How many orders r1 passes on to the liar r3, which votes for histories that it made up, in 20
/// slots in each of so many ticks.
fn orders_for_votes(ticks: u64) -> usize {
    let mut group: Net = Group::new(Some(3), Tuning::default());
    for number in 1..=40 {
        group.request(0, &envelope(1, number, &[number], 8));
        group.run(10);
    }
    assert_eq!(group.nodes[1].executed.len(), 40);
    let passed_on = Rc::new(Cell::new(0));
    let counter = passed_on.clone();
    group.drops = Box::new(move |from, to, kind| {
        counter.set(counter.get() + usize::from((from, to, kind) == (1, 3, "order")));
        false
    });
    for tick in 0..ticks {
        for slot in 21..=40u64 {
            let made_up = Digest::of(&[tick, slot].map(u64::to_le_bytes).concat());
            group.say(3, &[1], Message::Vote(place(0, slot, made_up)));
        }
        group.settle_all();
        group.run(50);
    }
    passed_on.get()
}

#[test]
fn a_vote_that_a_liar_made_up_draws_one_order_in_a_tick() {
    assert_eq!([1, 10].map(orders_for_votes), [1, 10]);
    assert!(mutant::with(Some("zyzzyva.disputes-all"), || orders_for_votes(1)) >= 20);
}

/// The lying primary r0 orders one thing in slot 1 at r1 and r3, and another at r2, and the same on
/// both in slot 2. No client waits for anything.
#[test]
fn the_orders_of_one_slot_convict_who_gave_several_in_slots_before() {
    let mut group: Net = Group::new(Some(0), Tuning::default());
    group.drops = Box::new(|from, _, kind| from != 0 && kind == "report");
    for (first, to) in [(2, &[1, 3][..]), (3, &[2][..])] {
        let mut before = Vec::new();
        for (client, slot) in [(first, 1), (4, 2)] {
            let items = vec![Item::Whole(envelope(client, 1, &[1], 8))];
            let proposal = Arc::new(Proposal::new(Millis(1_000), items));
            let (view, slot, parent) = (View(0), Slot(slot), history(before.clone()));
            before.push(proposal.digest());
            group.say(0, to, Message::Order { view, slot, parent, proposal });
        }
    }
    group.run(300);
    let said = |id: usize| group.nodes[id].said.contains_key("misbehaviour");
    assert!([1, 2, 3].iter().any(|id| said(*id)));
    assert!([1, 2, 3].iter().all(|id| status(&group, *id).view > View(0)));
}

/// The primary r0 orders x in slot 4, and is cut off. The others open view 1 without x, order y in
/// slot 4, and make that stable. r0 hears of the checkpoint alone, crashes, perhaps when it has
/// kept again what it needs, and fetches the state. Whether it orders on that in view 0: it has
/// signed another order for slot 4, and the two would convict it.
fn orders_on_what_overruled_it(keeps_again: bool) -> bool {
    let mut group = with_x_at_two();
    cut_off(&mut group, 0);
    group.drops = Box::new(|_, _, _| false);
    ask(&mut group, &[1, 2, 3], 1);
    group.request(1, &envelope(3, 1, &[1], 8));
    group.run(300);
    assert!([1, 2, 3].iter().all(|id| status(&group, *id).stable >= Slot(4)));
    assert_ne!(group.nodes[0].executed[3].1.digest, group.nodes[1].executed[3].1.digest);

    group.cut.clear();
    group.fetches_nothing = true;
    group.drops = Box::new(|_, to, kind| to == 0 && kind != "stable");
    group.run(150);
    assert_eq!((status(&group, 0).view, status(&group, 0).stable), (View(0), Slot(4)));
    if keeps_again {
        group.log_again(0);
    }
    group.start(0);
    group.fetches_nothing = false;
    group.run(30);
    assert_eq!((status(&group, 0).view, status(&group, 0).phase), (View(0), "normal"));
    group.request(0, &envelope(4, 1, &[1], 8));
    group.run(30);
    let in_next =
        |record: &Record| matches!(record, Record::Propose { view: View(0), slot: Slot(5), .. });
    group.nodes[0].log.iter().any(in_next)
}

#[test]
fn a_primary_that_a_checkpoint_overrules_orders_nothing_more() {
    let bug = Some("zyzzyva.orders-when-overruled");
    for keeps_again in [false, true] {
        assert!(!orders_on_what_overruled_it(keeps_again));
        assert!(mutant::with(bug, || orders_on_what_overruled_it(keeps_again)));
    }
}

/// Two slots are final, and an epoch could end there: r1 saves the state, and crashes before
/// anybody begins the next epoch. r3 stops, so the others need r1 to order more.
fn goes_on_from_a_state_between_checkpoints() -> bool {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    let mut group: Net = Group::new(None, tuning);
    for number in 1..=2 {
        group.insist(&envelope(1, number, &[number], 8), 1);
    }
    assert_eq!([0, 1, 2, 3].map(|id| status(&group, id).committed), [Slot(2); 4]);
    group.nodes[1].saved = Some(Base { slot: Slot(2), state: Digest::of(&2u64.to_le_bytes()) });
    group.fetches_nothing = true;
    group.start(1);
    group.nodes[3].core = None;
    let last = envelope(4, 1, &[1], 8);
    group.insist(&last, 20);
    group.all_executed(&last)
}

#[test]
fn a_saved_state_of_any_final_slot_is_gone_on_from() {
    assert!(goes_on_from_a_state_between_checkpoints());
    let bug = Some("zyzzyva.ends-not-kept");
    assert!(!mutant::with(bug, goes_on_from_a_state_between_checkpoints));
}

/// A slot is final at all but r3 when view 1 begins. For a while the others hear votes of view 1 of
/// nobody, or of r3 alone, and r3 hears nothing that helps. Then r0 stops. Whether the slot becomes
/// final at r3.
fn what_is_final_elsewhere_becomes_final(hear_r3: bool) -> bool {
    let mut group: Net = Group::new(None, Tuning::default());
    group.drops = Box::new(|_, to, kind| to == 3 && matches!(kind, "commit" | "report"));
    group.request(0, &envelope(1, 1, &[1], 8));
    group.round(0);
    group.run(300);
    assert_eq!([0, 1, 2, 3].map(|id| status(&group, id).committed.0), [1, 1, 1, 0]);
    group.drops = Box::new(move |from, to, kind| match kind {
        "vote" => from != 3 || !hear_r3,
        _ => to == 3 && matches!(kind, "commit" | "report"),
    });
    ask(&mut group, &[0, 1, 2], 1);
    group.run(300);
    assert_eq!([0, 1, 2, 3].map(|id| status(&group, id).view), [View(1); 4]);
    assert_eq!(status(&group, 3).committed, Slot(0));
    group.drops = Box::new(|_, _, _| false);
    group.nodes[0].core = None;
    group.run(1000);
    status(&group, 3).committed == Slot(1)
}

#[test]
fn what_was_final_before_a_view_becomes_final_everywhere_in_it() {
    let bugs = [("zyzzyva.votes-for-who-lacks-them-only", false), (CERTIFIED_ONLY, true)];
    for (bug, hear_r3) in bugs {
        assert!(what_is_final_elsewhere_becomes_final(hear_r3));
        assert!(
            !mutant::with(Some(bug), || what_is_final_elsewhere_becomes_final(hear_r3)),
            "{bug}"
        );
    }
}

/// COMMITs are sent again for slots with a certificate only.
const CERTIFIED_ONLY: &str = "zyzzyva.commits-if-certified-only";

/// A checkpoint is due behind slot 4, which is final at all but r3. There r1 has no certificate,
/// and the others make slot 5 final, which r3 cannot execute before slot 4 is final. Then r2 stops.
/// Whether both slots become final at r3, in the same view.
fn a_replica_that_waits_at_a_checkpoint_goes_on() -> bool {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    let mut group: Net = Group::new(None, tuning);
    for number in 1..=3 {
        group.insist(&envelope(1, number, &[number], 8), 1);
    }
    let committed = |group: &Net| [0, 1, 2, 3].map(|id| status(group, id).committed.0);
    assert_eq!(committed(&group), [3; 4]);
    let is_quiet = |kind: &str| matches!(kind, "report" | "checkpoint" | "stable");
    group.drops = Box::new(move |from, to, kind| {
        let to_r1 = kind == "vote" && to == 1 && from != 3;
        is_quiet(kind) || to_r1 || (from, to, kind) == (2, 3, "commit")
    });
    group.request(0, &envelope(2, 1, &[1], 8));
    group.round(0);
    group.run(20);
    assert_eq!(committed(&group), [4, 4, 4, 3]);
    group.drops = Box::new(move |_, _, kind| is_quiet(kind));
    group.request(0, &envelope(3, 1, &[1], 8));
    group.round(0);
    group.run(300);
    assert_eq!(committed(&group), [5, 5, 5, 3]);
    group.nodes[2].core = None;
    group.drops = Box::new(|_, _, _| false);
    group.run(1000);
    let goes_on = |id: &usize| {
        let Status { view, committed, stable, .. } = status(&group, *id);
        (view, committed, stable) == (View(0), Slot(5), Slot(4))
    };
    [0, 1, 3].iter().all(goes_on)
}

#[test]
fn a_replica_that_waits_at_a_checkpoint_hears_that_its_slot_is_final() {
    assert!(a_replica_that_waits_at_a_checkpoint_goes_on());
    assert!(!mutant::with(Some(CERTIFIED_ONLY), a_replica_that_waits_at_a_checkpoint_goes_on));
}

/// In view 0 all execute slot 4, and it is final nowhere. In view 1, which r3 does not enter, it
/// is, and r3 is shown the checkpoint. How often r3 takes the slot for final without the
/// checkpoint, over all ends that a crash can give its log.
fn logs_that_say_final_without_a_checkpoint() -> usize {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
    let mut group: Net = Group::new(None, tuning);
    for number in 1..=3 {
        group.insist(&envelope(1, number, &[number], 8), 1);
    }
    group.drops = Box::new(|_, _, kind| matches!(kind, "vote" | "commit" | "report"));
    group.request(0, &envelope(2, 1, &[1], 8));
    group.round(0);
    group.run(20);
    assert_eq!([0, 1, 2, 3].map(|id| status(&group, id).committed), [Slot(3); 4]);
    group.drops = Box::new(|from, to, _| from == 3 || to == 3);
    ask(&mut group, &[0, 1, 2], 1);
    group.run(300);
    assert_eq!([0, 1, 2].map(|id| status(&group, id).stable), [Slot(4); 3]);
    group.drops = Box::new(|_, to, kind| to == 3 && kind != "stable");
    group.run(300);
    assert_eq!((status(&group, 3).view, status(&group, 3).stable), (View(0), Slot(4)));
    let log = group.nodes[3].log.clone();
    let status_of = |records: usize| group.restarted(3, &log[..records]).0.status();
    (0..=log.len())
        .map(status_of)
        .filter(|it| it.committed == Slot(4) && it.stable < Slot(4))
        .count()
}

#[test]
fn a_replica_that_starts_again_takes_nothing_of_a_later_view_for_final() {
    assert_eq!(logs_that_say_final_without_a_checkpoint(), 0);
    let bug = Some("zyzzyva.final-before-stable");
    assert_ne!(mutant::with(bug, logs_that_say_final_without_a_checkpoint), 0);
}
