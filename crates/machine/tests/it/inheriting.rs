//! What an authority outside hands to the next epoch: a state, and batches that not all have
//! executed. Every replica comes to the same, whatever it had executed, also over a crash.

use crate::bench::{Bench, client, member, membership, request};
use crate::keys::CHECKED;
use crate::stopping::{HEAD, Order, SOUND, SPECULATES};
use crate::succession::{Group, begin, take_reports, tell, wedge};
use bytes::Bytes;
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Incarnation, Millis, Slot};
use pentarchy_core::membership::{Base, Member};
use pentarchy_core::ports::client::ToReplica;
use pentarchy_core::succession::{Body, SignedReport, Succession};
use pentarchy_core::wire::Wire;
use pentarchy_machine::FromAuthority;
use std::sync::Arc;

/// The group stops; what its replicas had taken for their last state.
fn stop(group: &mut Group) -> [Base; 3] {
    group.tell(&wedge(0));
    let base = |signed: &SignedReport| signed.report.history.base;
    group.replicas.each_mut().map(|it| take_reports(it).first().map(base).unwrap_or_default())
}

/// Three slots, of which the last replica lacks the last one.
fn behind_by_one() -> (Group, Base) {
    let mut group = Group::new::<SOUND>();
    (0..2).for_each(|_| group.order(&[1, 2]));
    group.order(&[1]);
    let [base, ..] = stop(&mut group);
    assert_eq!(base.slot, Slot(2));
    (group, base)
}

#[test]
fn the_next_epoch_begins_with_all_that_is_inherited() {
    let (mut group, base) = behind_by_one();
    assert_eq!(group.requests(), [3, 3, 2]);
    group.tell(&group.issued(base, 1));
    assert_eq!((group.epochs(), group.requests()), ([1; 3], [3; 3]));
    group.assert_equal_states();
    let begins = group.replicas.each_ref().map(|it| it.machine.membership().base);
    assert_eq!(begins[0].slot, Slot(3));
    assert_eq!((begins[0], begins[0]), (begins[1], begins[2]));
    // What was inherited is not executed again, and the order goes on behind it.
    let again = request(client(1), 3, true);
    group.replicas[2].take_results();
    group.replicas[2].round(1, &[]).unwrap();
    assert_eq!(group.replicas[2].take_results(), [(client(1), 3)], "what it had not told");
    for sent in [again.clone(), again] {
        group.replicas[2].round(1, &[(client(1), sent)]).unwrap();
        assert_eq!(group.replicas[2].take_results(), [(client(1), 3)]);
    }
    group.order(&[1, 2]);
    assert_eq!(group.requests(), [4; 3]);
    assert_eq!(group.states()[0].slot, Slot(4));
    group.assert_equal_states();
    assert_eq!(group.replicas.each_ref().map(|it| it.status().phase), ["normal"; 3]);
    // Said once more, or of the epoch that is over, it means nothing.
    group.tell(&group.issued(base, 1));
    group.tell(&wedge(0));
    assert_eq!(group.epochs(), [1; 3]);
    let refused = group.replicas.each_ref().map(|it| it.status().counters.authority_refused);
    assert_eq!(refused, [0; 3]);
}

#[test]
fn a_replica_that_nobody_told_to_stop_does_so_when_it_hears_how_the_epoch_ended() {
    let mut group = Group::new::<SOUND>();
    group.order(&[1, 2]);
    group.tell(&group.issued(Base::default(), 1));
    assert_eq!((group.epochs(), group.requests()), ([1; 3], [1; 3]));
    group.assert_equal_states();
}

#[test]
fn epochs_follow_on_each_other() {
    let (mut group, base) = behind_by_one();
    group.tell(&group.issued(base, 1));
    group.order(&[1, 2]);
    let lives: Vec<_> = membership().members.iter().map(Member::life).collect();
    let [base, ..] = group.states();
    group.order(&[1]);
    group.tell(&wedge(1));
    group.tell(&group.issued_for(Epoch(1), base, 1, lives));
    assert_eq!((group.epochs(), group.requests()), ([2; 3], [5; 3]));
    group.assert_equal_states();
}

/// Whoever missed an epoch is told of the next one.
#[test]
fn a_replica_may_pass_over_an_epoch() {
    let (mut group, base) = behind_by_one();
    let away = group.issued(base, 1);
    let [one, two, _] = &mut group.replicas;
    [one, two].into_iter().for_each(|it| tell(it, &away));
    group.order(&[1]);
    let base = group.states()[0];
    let lives: Vec<_> = membership().members.iter().map(Member::life).collect();
    group.tell(&group.issued_for(Epoch(1), base, 0, lives));
    assert_eq!(group.epochs(), [2, 2, 0], "it lacks the state");
    (0..20).for_each(|_| group.round());
    assert_eq!(group.epochs(), [2; 3]);
    group.assert_equal_states();
}

#[test]
fn a_replica_without_the_state_fetches_it_and_executes_what_is_behind_it() {
    let mut group = Group::new::<SOUND>();
    (0..2).for_each(|_| group.order(&[1]));
    group.order(&[1]);
    let [base, _, mine] = stop(&mut group);
    assert_eq!((base.slot, mine.slot), (Slot(2), Slot(0)));
    group.tell(&group.issued(base, 1));
    assert_eq!(group.epochs(), [1, 1, 0]);
    (0..20).for_each(|_| group.round());
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
    group.order(&[1, 2]);
    group.assert_equal_states();
}

/// A lie of the head: what one replica executed is not what the others did.
fn misled(replica: &mut Bench, slot: u64) {
    let sent = ToReplica::from_bytes(&request(client(1), 77, true));
    let Ok(ToReplica::Request(envelope)) = sent else { unreachable!() };
    let proposal = Arc::new(Proposal::new(Millis(1), vec![Item::Whole(envelope)]));
    let order = Order { slot: Slot(slot), proposal }.to_bytes();
    let bytes = [&[0; 12], &order[..]].concat();
    replica.machine.on_peer(member(HEAD), [Bytes::from(bytes)].into_iter(), false);
    replica.round(1, &[]).unwrap();
}

#[test]
fn a_replica_that_executed_otherwise_goes_back_to_the_state() {
    let mut group = Group::new::<SOUND>();
    (0..2).for_each(|_| group.order(&[1, 2]));
    group.order(&[1]);
    misled(&mut group.replicas[2], 3);
    assert_eq!(group.requests(), [3; 3]);
    let [base, ..] = stop(&mut group);
    let [right, _, wrong] = group.states();
    assert!(right.slot == wrong.slot && right.state != wrong.state);
    group.tell(&group.issued(base, 1));
    (0..20).for_each(|_| group.round());
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
    assert_eq!(diverged(&group), [0, 0, 1]);
}

fn diverged(group: &Group) -> [u64; 3] {
    group.replicas.each_ref().map(|it| it.status().counters.diverged)
}

/// The authority may have heard only of one before it.
#[test]
fn a_replica_whose_last_state_is_behind_the_chosen_one_goes_on() {
    let mut group = Group::new::<SOUND>();
    (0..3).for_each(|_| group.order(&[1, 2]));
    group.order(&[1]);
    let [ahead, _, chosen] = stop(&mut group);
    assert_eq!((ahead.slot, chosen.slot), (Slot(4), Slot(2)));
    let kept = group.replicas[0].machine.executor().snapshot(chosen.slot);
    assert!(kept.is_none(), "it has let go of the chosen one");
    group.tell(&group.issued(chosen, 2));
    assert_eq!((group.epochs(), diverged(&group)), ([1; 3], [0; 3]));
    assert_eq!(group.states()[0].slot, Slot(4));
    group.assert_equal_states();
}

/// Its core names the state that the others have too, and its service has another one.
#[test]
fn a_replica_that_has_not_the_state_that_its_core_names_fetches_it() {
    let mut other = Group::new::<SOUND>();
    other.order(&[1, 2]);
    misled(&mut other.replicas[2], 2);
    let wrong = other.replicas[2].machine.executor().snapshot(Slot(2)).cloned().unwrap();
    let mut group = Group::new::<SOUND>();
    (0..2).for_each(|_| group.order(&[1, 2]));
    let right = group.replicas[2].machine.executor().snapshot(Slot(2)).unwrap().digest;
    assert_ne!(right, wrong.digest);
    group.replicas[2].machine.executor_mut().install(wrong).unwrap();
    group.order(&[1, 2]);
    let bases = stop(&mut group);
    assert_eq!(bases, [Base { slot: Slot(2), state: right }; 3]);
    (0..2).for_each(|_| group.tell(&group.issued(bases[0], 1)));
    assert_eq!((group.epochs(), diverged(&group)), ([1, 1, 0], [0, 0, 1]), "once");
    (0..20).for_each(|_| group.round());
    assert_eq!((group.epochs(), diverged(&group)), ([1; 3], [0, 0, 1]));
    group.assert_equal_states();
}

/// The authority's word counts more than what the replica itself reported.
#[test]
fn a_replica_that_reported_another_state_of_the_same_slot_takes_the_chosen_one() {
    let mut group = Group::new::<SOUND>();
    group.order(&[1, 2]);
    group.order(&[1]);
    misled(&mut group.replicas[2], 2);
    let [base, _, wrong] = stop(&mut group);
    assert!(base.slot == wrong.slot && base.state != wrong.state);
    group.tell(&group.issued(base, 0));
    (0..20).for_each(|_| group.round());
    assert_eq!((group.epochs(), diverged(&group)), ([1; 3], [0, 0, 1]));
    group.assert_equal_states();
}

/// It does not know whether what it executed came of that state, and goes back.
#[test]
fn a_replica_that_only_lacks_the_state_has_not_diverged() {
    let mut group = Group::new::<SOUND>();
    (0..3).for_each(|_| group.order(&[1, 2]));
    let [base, ..] = stop(&mut group);
    let executor = group.replicas[2].machine.executor_mut();
    executor.stable(Slot(3));
    assert_eq!((executor.executed(), executor.snapshots()), (Slot(3), 0));
    group.tell(&group.issued(base, 1));
    assert_eq!((group.epochs(), diverged(&group)), ([1, 1, 0], [0; 3]));
    (0..20).for_each(|_| group.round());
    assert_eq!((group.epochs(), diverged(&group)), ([1; 3], [0; 3]));
    group.assert_equal_states();
}

#[test]
fn what_was_executed_and_is_not_inherited_is_taken_back() {
    let mut group = Group::new::<SPECULATES>();
    group.order(&[1, 2]);
    group.order(&[1]);
    misled(&mut group.replicas[2], 2);
    let executed = group.replicas.each_ref().map(|it| it.machine.executor().executed());
    assert_eq!(executed, [Slot(2); 3]);
    stop(&mut group);
    group.tell(&group.issued(Base::default(), 1));
    assert_eq!(group.epochs(), [1; 3]);
    assert_eq!(group.states()[2].slot, Slot(1));
    group.assert_equal_states();
    assert_eq!(diverged(&group), [0; 3]);
}

/// A liar hands over what was ordered, with another proof of who made it: the digest is the same.
#[test]
fn bodies_that_do_not_prove_their_clients_are_refused_until_others_come() {
    let mut group = Group::new::<SOUND>();
    group.order(&[1]);
    stop(&mut group);
    let right = group.issued(Base::default(), 1);
    let forged = ToReplica::from_bytes(&request(client(1), 1, false));
    let Ok(ToReplica::Request(envelope)) = forged else { unreachable!() };
    let time = group.ordered[0].time;
    let forged = Arc::new(Proposal::new(time, vec![Item::Whole(envelope)]));
    let ordered = std::mem::replace(&mut group.ordered[0], forged);
    assert_eq!(group.ordered[0].digest(), ordered.digest());
    group.tell(&group.issued(Base::default(), 1));
    assert_eq!((group.epochs(), group.requests()), ([0; 3], [1, 1, 0]));
    let refused = group.replicas.each_ref().map(|it| it.status().counters.authority_refused);
    assert_eq!(refused, [1; 3]);
    group.tell(&right);
    assert_eq!((group.epochs(), group.requests()), ([1; 3], [1; 3]));
    group.assert_equal_states();
}

/// What is changed in the authority's word, and by whom of it the rest is signed.
type Change = (&'static str, fn(&mut Succession, &mut Vec<Body>), &'static [u16]);

#[test]
fn only_the_authoritys_word_with_all_that_it_names_begins_an_epoch() {
    let changes: &[Change] = &[
        ("one of its replicas", |_, _| {}, &[0]),
        ("one of them twice", |_, _| {}, &[0, 0]),
        ("a body too few", |_, bodies| bodies.truncate(2), &[0, 1]),
        ("a body too many", |_, bodies| bodies.push(bodies[0].clone()), &[0, 1]),
        ("bodies in another order", |_, bodies| bodies.reverse(), &[0, 1]),
        ("another batch", |it, _| it.inherits[1] = Digest::of(b"other"), &[0, 1]),
        ("a life too few", |it, _| it.handover.lives.truncate(2), &[0, 1]),
    ];
    let mut group = Group::new::<SPECULATES>();
    (0..3).for_each(|_| group.order(&[1]));
    stop(&mut group);
    let FromAuthority::Begin { issued, bodies } = group.issued(Base::default(), 3) else {
        unreachable!()
    };
    for ((what, change, by), count) in changes.iter().zip(1..) {
        let (mut succession, mut bodies) = (issued.succession.clone(), bodies.clone());
        change(&mut succession, &mut bodies);
        group.tell(&begin(succession, by, bodies));
        assert_eq!(group.epochs(), [0; 3], "{what}");
        let refused = group.replicas.each_ref().map(|it| it.status().counters.authority_refused);
        assert_eq!(refused, [count; 3], "{what}");
    }
    // Signed for something else.
    let FromAuthority::Begin { issued: other, .. } = group.issued(Base::default(), 2) else {
        unreachable!()
    };
    let mut changed = issued.clone();
    changed.signatures.clone_from(&other.signatures);
    let checked = CHECKED.get();
    group.tell(&FromAuthority::Begin { issued: changed, bodies: bodies.clone() });
    assert_eq!((group.epochs(), CHECKED.get()), ([0; 3], checked), "nobody looks at the bodies");
    group.tell(&FromAuthority::Begin { issued, bodies });
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
}

/// The authority takes another life of a member's device into the next epoch.
#[test]
fn a_replica_whose_life_the_next_epoch_does_not_have_takes_no_part_in_it() {
    let (mut group, base) = behind_by_one();
    let mut lives: Vec<_> = membership().members.iter().map(Member::life).collect();
    lives[2].incarnation = Incarnation(2);
    group.tell(&group.issued_for(Epoch(0), base, 1, lives.clone()));
    assert_eq!(group.epochs(), [1; 3]);
    assert_eq!(group.replicas[2].machine.core().status().phase, "joining");
    group.order(&[1, 2]);
    assert_eq!(group.requests(), [4, 4, 3]);
    // It is let in again with the next one, for which it has to fetch a state.
    let [base, ..] = group.states();
    lives[2].incarnation = Incarnation(1);
    group.tell(&wedge(1));
    group.tell(&group.issued_for(Epoch(1), base, 0, lives));
    (0..20).for_each(|_| group.round());
    assert_eq!(group.epochs(), [2; 3]);
    assert_eq!(group.replicas[2].machine.core().status().phase, "normal");
    group.assert_equal_states();
}

/// The last replica has a disk, and lacks the last slot.
fn behind_by_one_with_a_disk() -> (Group, crate::disk::SlowDisk, FromAuthority) {
    let (mut group, disk) = Group::with_a_disk::<SOUND>();
    (0..2).for_each(|_| group.order(&[1, 2]));
    disk.settle();
    group.round();
    group.order(&[1]);
    let [base, ..] = stop(&mut group);
    let issued = group.issued(base, 1);
    group.tell(&issued);
    assert_eq!(group.epochs(), [1, 1, 0], "it is not durable that it has stopped");
    disk.settle();
    group.round();
    assert_eq!(group.epochs(), [1, 1, 0], "nor with what the next epoch begins");
    (group, disk, issued)
}

#[test]
fn the_next_epoch_begins_when_its_state_is_durable_and_outlives_a_crash() {
    let (mut group, disk, _) = behind_by_one_with_a_disk();
    disk.settle();
    group.round();
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
    disk.settle();
    let disk = group.restart::<SOUND>(&disk);
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
    group.order(&[1, 2]);
    disk.settle();
    group.round();
    assert_eq!(group.states()[2].slot, Slot(4));
    group.assert_equal_states();
    group.restart::<SOUND>(&disk);
    group.assert_equal_states();
}

/// The state is durable, and not that the epoch has begun: the replica comes back to the one
/// before, stopped, and hears once more how that ended.
#[test]
fn a_replica_that_crashes_between_two_epochs_hears_again_how_the_first_one_ended() {
    let (mut group, disk, issued) = behind_by_one_with_a_disk();
    disk.settle();
    let disk = group.restart::<SOUND>(&disk);
    assert_eq!(group.epochs(), [1, 1, 0]);
    assert_eq!(group.replicas[2].machine.core().status().phase, "wedged");
    tell(&mut group.replicas[2], &issued);
    for _ in 0..2 {
        disk.settle();
        group.round();
    }
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
}
