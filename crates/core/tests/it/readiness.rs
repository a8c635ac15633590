//! When a change takes effect: what members say when they are ready for it, and how many the group
//! waits for.

use crate::governed::{
    Group, adding, administrator, change_of, entry, first, identity, life, ready, signing,
    without_devices,
};
use pentarchy_core::Bytes;
use pentarchy_core::change::{Change, Petition, Ready};
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Admission;
use pentarchy_core::ids::{ClientId, Epoch, MemberId};
use pentarchy_core::limits::READY_WAIT_MILLIS;
use pentarchy_core::membership::Life;
use std::sync::Arc;

/// The same in a later epoch.
fn ready_in(epoch: u64, change: &Change, member: u32) -> (ClientId, Petition) {
    let (client, Petition::Ready(asked)) = ready(change, member) else { panic!() };
    (client, Petition::Ready(Ready { epoch: Epoch(epoch), ..asked }))
}

#[test]
fn the_epoch_ends_with_the_next_configuration_once_all_its_members_are_ready() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    group.pend(&change);
    assert_eq!(group.ready(&change, &[0, 1, 3]), ["ready"; 3]);
    assert!(!group.executor.is_ending());
    assert_eq!(group.ready(&change, &[2]), ["ready"]);
    assert!(group.executor.is_ending());
    let (handover, next) = group.next_epoch();
    let next = next.expect("another one");
    assert_eq!((handover.epoch, handover.next), (Epoch(0), Some(next.digest())));
    assert_eq!(handover.lives, [life(2); 4]);
    let signed: Vec<_> = next.members.iter().map(|member| member.signing).collect();
    assert_eq!(signed, [0, 1, 2, 3].map(|member| signing(member, 2)));
    let said = Configuration { members: change.next.members.clone(), ..(*next).clone() };
    assert_eq!(said, change.next, "nothing but keys is another than what was proposed");
    // In it, what changed the one before is void.
    assert!(group.propose(&change)[0].starts_with("it was made for another configuration"));
    assert!(group.executor.pending_change().is_none());
    let again = change_of(&next, |it| it.f = 1);
    group.pend(&again);
}

/// Else the group could stand in a configuration in which one member has no device and no state. If
/// another member were silent then, nobody could order a way back.
#[test]
fn a_change_ends_no_epoch_before_its_members_are_ready() {
    let lives = || {
        let mut group = Group::of(&first());
        group.propose(&adding(&first()));
        group.executor.handover().map(|handover| handover.lives)
    };
    assert_eq!(lives(), None);
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.change-ends-epoch");
        let without = vec![life(1), life(1), life(1), Life::default()];
        assert_eq!(pentarchy_core::mutant::with(bug, lives), Some(without));
    }
}

#[test]
fn the_epoch_waits_for_the_last_ones_and_not_for_ever() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    group.pend(&change);
    group.ready(&change, &[0, 1, 2]);
    group.pass(READY_WAIT_MILLIS);
    assert!(!group.executor.is_ending(), "the new member has to be ready");
    group.ready(&change, &[3]);
    assert!(group.executor.is_ending());

    let mut group = Group::of(&first());
    group.pend(&change);
    group.ready(&change, &[0, 1, 3]);
    group.pass(READY_WAIT_MILLIS - 1);
    assert!(!group.executor.is_ending());
    // Members repeat it, so that agreed time passes in a group that is idle.
    assert!(group.is_open(&ready(&change, 0)));
    group.pass(1);
    let (handover, next) = group.next_epoch();
    let left_out = &next.expect("another one").members[2];
    assert_eq!(left_out.signing, signing(2, 1), "one that is not ready keeps its key");
    assert_eq!(handover.lives, [life(2), life(2), life(1), life(2)], "and its running device");
}

/// It said that it is ready as a life that it has lost meanwhile.
#[test]
fn a_member_that_is_admitted_anew_has_to_say_again_that_it_is_ready() {
    let mut group = Group::of(&first());
    let change = change_of(&first(), |it| it.f = 1);
    group.pend(&change);
    group.ready(&change, &[0, 1]);
    group.time += READY_WAIT_MILLIS - 1;
    let (epoch, configuration) = (Epoch(0), first().digest());
    let asked = Petition::Admit(Admission { epoch, configuration, life: life(7) });
    // A faulty primary has both ordered in one slot, the one that is out of date behind the other.
    let answers = group.slot(&[(identity(1), asked), ready(&change, 1)]);
    assert_eq!(answers, ["admitted", "asked of another epoch"]);
    let handover = group.executor.handover().expect("the epoch ends");
    assert_eq!((handover.next, group.executor.next_configuration()), (None, None));
    let membership = first().begin(&[life(1); 3]);
    group.executor.begin_epoch(Arc::new(membership.after(&handover)));
    assert!(group.executor.pending_change().is_some(), "it goes on in the next epoch");
    group.pass(READY_WAIT_MILLIS);
    assert!(!group.executor.is_ending(), "one is too few");
    // What it said as the life that it lost means nothing any more, whoever has it ordered again.
    assert!(!group.is_open(&ready(&change, 1)));
    assert_eq!(group.ready(&change, &[1]), ["asked of another epoch"]);
    let later = |member| ready_in(1, &change, member);
    assert_eq!(group.slot(&[later(1)]), ["ready"]);
    group.pass(READY_WAIT_MILLIS - 1);
    assert!(!group.executor.is_ending(), "the wait begins again");
    group.pass(1);
    assert!(group.executor.next_configuration().is_some());
}

/// A faulty primary has the readiness of a member ordered behind the admission that made it out of
/// date. If it counted, the configuration would begin with a device that is gone.
#[test]
fn what_a_member_said_as_the_life_that_it_lost_makes_nobody_ready() {
    let begins_with = || {
        let mut group = Group::of(&first());
        let change = change_of(&first(), |it| it.f = 1);
        group.pend(&change);
        group.ready(&change, &[0]);
        let (epoch, configuration) = (Epoch(0), first().digest());
        let asked = Petition::Admit(Admission { epoch, configuration, life: life(7) });
        group.slot(&[(identity(1), asked), ready(&change, 1)]);
        let handover = group.executor.handover().expect("the epoch ends");
        let membership = first().begin(&[life(1); 3]);
        group.executor.begin_epoch(Arc::new(membership.after(&handover)));
        group.pass(READY_WAIT_MILLIS);
        group.executor.handover().map(|handover| handover.lives)
    };
    assert_eq!(begins_with(), None, "one is too few");
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.ready-behind-the-end");
        let gone = vec![life(2), life(2), life(1)];
        assert_eq!(pentarchy_core::mutant::with(bug, begins_with), Some(gone));
    }
}

/// Else the group could stand still: if one of the others falls silent, nobody could admit them.
#[test]
fn where_devices_certify_all_who_have_none_have_to_be_ready() {
    let mut group = Group::of(&without_devices());
    let devices = first().facts;
    let change = change_of(&without_devices(), |it| it.facts = devices);
    group.pend(&change);
    group.ready(&change, &[0, 1, 2]);
    group.pass(READY_WAIT_MILLIS);
    assert!(!group.executor.is_ending());
    group.ready(&change, &[3]);
    assert!(group.executor.is_ending());
    // Without devices enough are enough.
    let mut group = Group::of(&without_devices());
    let change = change_of(&without_devices(), |it| it.protocol = "other".to_owned());
    group.pend(&change);
    group.ready(&change, &[0, 1, 2]);
    group.pass(READY_WAIT_MILLIS);
    assert!(group.executor.is_ending());
}

/// Nor could anybody admit a new member then, if it runs nothing that counts.
#[test]
fn without_devices_new_members_have_to_be_ready_too() {
    let ends = || {
        let mut group = Group::of(&without_devices());
        let replaces = |next: &mut Configuration| {
            next.members[0] = entry(4);
            next.next_member = MemberId(5);
        };
        let change = change_of(&without_devices(), replaces);
        group.pend(&change);
        group.ready(&change, &[1, 2, 3]);
        group.pass(READY_WAIT_MILLIS);
        let is_early = group.executor.is_ending();
        if !is_early {
            group.ready(&change, &[4]);
        }
        (is_early, group.executor.is_ending())
    };
    assert_eq!(ends(), (false, true));
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.new-ones-not-needed");
        assert_eq!(pentarchy_core::mutant::with(bug, ends), (true, true));
    }
}

/// Three come, so that two faults are tolerated: five of seven have to be ready.
#[test]
fn a_group_that_grows_waits_for_enough_of_its_next_size() {
    let ends = || {
        let mut group = Group::of(&without_devices());
        let change = change_of(&without_devices(), |next| {
            next.members.extend([4, 5, 6].map(entry));
            (next.f, next.next_member) = (2, MemberId(7));
        });
        group.pend(&change);
        group.ready(&change, &[0, 4, 5, 6]);
        group.pass(READY_WAIT_MILLIS);
        let is_early = group.executor.is_ending();
        if !is_early {
            group.ready(&change, &[1]);
            group.pass(READY_WAIT_MILLIS);
        }
        (is_early, group.executor.is_ending())
    };
    assert_eq!(ends(), (false, true));
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.ready-by-former-size");
        assert_eq!(pentarchy_core::mutant::with(bug, ends), (true, true));
    }
}

#[test]
fn who_is_not_ready_as_it_says_does_not_count() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    assert_eq!(group.ready(&change, &[0]), ["no such change is pending"]);
    group.pend(&change);
    let mut says = |by: u32, alter: &dyn Fn(&mut Ready)| {
        let (client, Petition::Ready(mut asked)) = ready(&change, by) else { panic!() };
        alter(&mut asked);
        let petition = (client, Petition::Ready(asked));
        let is_open = group.is_open(&petition);
        let said = group.slot(&[petition]).remove(0);
        assert_eq!(is_open, said == "ready", "{said}");
        said
    };
    assert_eq!(says(1, &|it| it.change = Digest::of(b"another")), "no such change is pending");
    let in_use = "that signing key is in use; bring a new one";
    for taken in [signing(0, 1), signing(1, 1), identity(2).0, entry(3).signing] {
        assert_eq!(says(1, &|it| it.signing = taken), in_use, "{taken:?}");
    }
    let of_device = "a device with a key of its own has to be attested";
    assert_eq!(says(1, &|it| it.life.device_key = [1; 32]), of_device);
    assert_eq!(says(0, &|_| {}), "ready");
    assert_eq!(says(1, &|it| it.signing = signing(0, 2)), in_use, "another member's next one");
    assert_eq!(says(3, &|it| it.signing = entry(3).signing), "ready", "that of its own card");
    let stranger = (administrator(0), ready(&change, 1).1);
    let refused = "only members of the pending configuration can be ready for it";
    assert_eq!(group.slot(&[stranger]), [refused]);
    let nonsense = group.raw(&[(administrator(0), Bytes::from_static(b"\x09"))]);
    assert_eq!(nonsense, ["that is nothing that a group does"]);
}
