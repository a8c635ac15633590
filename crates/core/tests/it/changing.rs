//! How administrators change a group's configuration: what they propose and withdraw, and which
//! changes are refused.

use crate::governed::{
    Group, NOW, PENDING, adding, administrator, change_of, entry, first, identity, life, ready,
    signing, without_devices,
};
use crate::toy;
use pentarchy_core::Bytes;
use pentarchy_core::change::{Awaiting, Change, GROUP, Petition, Proposed, Withdrawal};
use pentarchy_core::configuration::{
    Access, Administrators, BadConfiguration, Configuration, MemberEntry,
};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Admission;
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Millis, Slot};
use pentarchy_core::limits::{CHANGE_MILLIS_MAX, CONFIGURATIONS_MAX};
use pentarchy_core::ports::client::Outcome;
use pentarchy_core::protocol::Authority;
use pentarchy_core::sessions::Lookup;
use std::sync::Arc;

#[test]
fn as_many_administrators_as_the_configuration_asks_for_have_to_propose_the_same() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    let by = |who, change: &Change| (who, Petition::Propose(Arc::new(change.clone())));
    let other = Change { needed: Vec::new(), ..change.clone() };
    let alone = "proposed; other administrators have to propose the same";
    assert_eq!(group.slot(&[by(administrator(0), &change)]), [alone]);
    assert!(!group.is_open(&by(administrator(0), &change)), "it said so");
    assert_eq!(
        group.slot(&[by(administrator(0), &change)])[0],
        "you have said so before; others have not yet"
    );
    assert_eq!(group.slot(&[by(administrator(1), &other)]), [alone]);
    let stranger = "only an administrator of this group can ask for that";
    assert_eq!(group.slot(&[by(identity(1), &change)]), [stranger]);
    assert!(group.executor.pending_change().is_none());
    assert_eq!(group.slot(&[by(administrator(1), &change)]), [PENDING]);
    let (pending, digest) = group.executor.pending_change().expect("two of three");
    assert_eq!((&**pending, digest), (&change, change.digest()));
    let refused = group.slot(&[by(administrator(2), &other)]);
    assert_eq!(refused, ["another change is pending; wait for it, or withdraw it"]);
    assert!(!group.executor.is_ending(), "nobody is ready");
}

/// Devices share what all members know: nobody comes or goes, so they need no other secret.
#[test]
fn members_that_stay_can_get_other_keys_and_keep_their_secret() {
    let mut group = Group::of(&first());
    let change = change_of(&first(), |it| it.secret = None);
    group.pend(&change);
    group.ready(&change, &[0, 1, 2]);
    let (_, next) = group.next_epoch();
    assert_eq!(next.expect("another one").secret, None);
}

#[test]
fn an_administrator_is_shown_what_is_and_what_is_to_be() {
    let mut group = Group::of(&first());
    let change = change_of(&first(), |it| it.f = 1);
    let begun = group.show();
    // Each host has the first addresses from its own file.
    assert_eq!(begun.configuration, first().agreed());
    assert_eq!((begun.epoch, begun.time, begun.withdrawn), (Epoch(0), Millis(NOW), 0));
    assert_eq!((begun.pending, begun.proposed.len()), (None, 0));
    for by in [0, 2] {
        group.slot(&[(administrator(by), Petition::Propose(Arc::new(change.clone())))]);
        let shown = group.show();
        let proposed = Proposed { change: change.clone(), by: vec![administrator(0)] };
        let pending = Awaiting { change: change.clone(), ready: Vec::new() };
        let expected = if by == 0 { (None, vec![proposed]) } else { (Some(pending), vec![]) };
        assert_eq!((shown.pending, shown.proposed), expected);
    }
    group.ready(&change, &[2]);
    assert_eq!(group.show().pending.expect("it waits").ready, [MemberId(2)]);
    group.ready(&change, &[0, 1]);
    group.next_epoch();
    let after = group.show();
    assert_eq!((after.epoch, after.configuration.number, after.pending), (Epoch(1), 1, None));
    // Nobody else is, and nobody twice by one request: that would be work for nothing.
    let stranger = group.slot(&[(identity(1), Petition::Show)]);
    assert_eq!(stranger, ["only an administrator of this group can ask for that"]);
    assert!(group.is_open(&(administrator(1), Petition::Show)));
    group.asked = 0;
    assert!(!group.is_open(&(administrator(1), Petition::Show)));
    let again = group.slot(&[(administrator(1), Petition::Show)]);
    assert_eq!(again, ["you have asked something else since"]);
}

#[test]
fn once_others_are_administrators_those_before_are_none() {
    let mut group = Group::of(&first());
    let keys = [1, 3].map(|number| administrator(number).0).to_vec();
    let appointed = Administrators::by_majority(keys);
    assert_eq!(appointed.threshold, 2, "more than half");
    let change = change_of(&first(), |it| it.administrators = appointed);
    let proposed = |change: &Change| Petition::Propose(Arc::new(change.clone()));
    let stranger = "only an administrator of this group can ask for that";
    assert_eq!(group.slot(&[(administrator(3), proposed(&change))]), [stranger], "not yet");
    group.pend(&change);
    group.ready(&change, &[0, 1, 2]);
    let (_, next) = group.next_epoch();
    let next = change_of(&next.expect("another configuration"), |_| {});
    for former in [0, 2] {
        assert_eq!(group.slot(&[(administrator(former), proposed(&next))]), [stranger]);
        assert_eq!(group.slot(&[(administrator(former), Petition::Show)]), [stranger]);
    }
    assert!(group.slot(&[(administrator(1), proposed(&next))])[0].starts_with("proposed"));
    assert_eq!(group.slot(&[(administrator(3), proposed(&next))]), [PENDING]);
}

/// Whoever has an old request ordered again brings no proposal back that its author gave up, or
/// that was refused.
#[test]
fn of_each_administrator_the_last_request_counts() {
    let mut group = Group::of(&first());
    let (one, two) = (adding(&first()), change_of(&first(), |it| it.f = 1));
    let by =
        |who, change: &Change| (administrator(who), Petition::Propose(Arc::new(change.clone())));
    let soon = Change { expires: Millis(NOW + CHANGE_MILLIS_MAX + 1), ..one.clone() };
    assert_eq!(
        group.slot(&[by(0, &soon)]),
        ["a change can be pending for at most a day; make it anew"]
    );
    group.slot(&[by(0, &one)]);
    group.slot(&[by(0, &two)]);
    group.pass(1);
    group.asked = 0;
    assert!(!group.is_open(&by(0, &soon)));
    for old in [&soon, &one] {
        assert_eq!(group.slot(&[by(0, old)]), ["you have asked something else since"]);
    }
    group.asked = 10;
    group.slot(&[by(1, &one)]);
    assert!(group.executor.pending_change().is_none(), "the first one proposes another change");
    assert_eq!(group.slot(&[by(1, &two)]), [PENDING]);
}

#[test]
fn what_expired_or_was_withdrawn_is_void() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    group.pend(&change);
    group.time = change.expires.0;
    let refused = "no such change is pending";
    assert_eq!(group.ready(&change, &[0]), [refused]);
    assert!(group.executor.pending_change().is_none());
    assert_eq!(group.propose(&change)[0], "it has expired; make it anew");
    let asked = (administrator(0), Petition::Propose(Arc::new(change.clone())));
    assert!(!group.is_open(&asked));

    let mut group = Group::of(&first());
    group.pend(&change);
    let withdrawal = Withdrawal { expects: first().digest(), attempt: 0 };
    let by = |number| (administrator(number), Petition::Withdraw(withdrawal));
    assert_eq!(group.slot(&[by(1)]), ["noted; other administrators have to withdraw it, too"]);
    assert!(!group.is_open(&by(1)));
    assert_eq!(group.slot(&[by(1)]), ["you have said so before; others have not yet"]);
    assert!(group.executor.pending_change().is_some());
    assert_eq!(group.slot(&[by(2)]), ["withdrawn"]);
    assert!(group.executor.pending_change().is_none());
    assert_eq!(group.executor.withdrawn_changes(), 1);
    assert!(group.propose(&change)[0].contains("was withdrawn; make it anew"));
    assert!(group.slot(&[by(1)])[0].contains("make it anew"), "nor is it withdrawn twice");
    // Whoever withdraws has no part any more in what it proposed.
    let mut other = Group::of(&first());
    let proposes = |number| (administrator(number), Petition::Propose(Arc::new(change.clone())));
    other.slot(&[proposes(0), by(0), proposes(2)]);
    assert!(other.executor.pending_change().is_none());
    let mut other = Group::of(&first());
    other.slot(&[proposes(0), by(0), proposes(0), by(2)]);
    assert_eq!(other.executor.withdrawn_changes(), 0, "one has changed its mind");
    assert_eq!(other.slot(&[by(0), proposes(1)])[0], "withdrawn");
    group.pend(&Change { attempt: 1, ..change });
}

#[test]
fn a_change_is_settled_once_nothing_takes_it_back() {
    let mut group = Group::of(&first());
    let change = Arc::new(adding(&first()));
    let by = |number| (administrator(number), Petition::Propose(change.clone()));
    let is_settled = |group: &Group| group.executor.settled_change().is_some();
    group.speculate(&[by(0)]);
    group.speculate(&[by(1)]);
    assert!(group.executor.pending_change().is_some() && !is_settled(&group));
    group.executor.commit(Slot(1), |_, _| {});
    assert!(!is_settled(&group), "one of two proposed it");
    group.executor.rollback(Slot(1));
    assert!(group.executor.pending_change().is_none());
    group.speculate(&[by(1)]);
    group.executor.commit(Slot(2), |_, _| {});
    group.speculate(&[]);
    assert!(group.executor.is_speculative() && is_settled(&group));
    let withdrawal = Withdrawal { expects: first().digest(), attempt: 0 };
    let withdraw = |number| (administrator(number), Petition::Withdraw(withdrawal));
    group.speculate(&[withdraw(0), withdraw(1)]);
    assert!(group.executor.pending_change().is_none() && is_settled(&group));
    group.executor.commit(Slot(4), |_, _| {});
    assert!(!is_settled(&group));
}

/// A group that was lost can have two configurations of one number: that to which it came itself,
/// and that with which its administrators had it go on. A change states the whole next
/// configuration. If it was made for one of the two, it takes back what only the other one has.
#[test]
fn a_change_is_for_one_configuration_and_for_no_other_of_its_number() {
    let meant = Configuration { number: 1, ..first() };
    let present = Configuration { access: Access::only([ClientId([1; 32])]), ..meant.clone() };
    let change = change_of(&meant, |_| {});
    let said = || Group::of(&present).propose(&change).remove(1);
    assert!(said().starts_with("it was made for another configuration"), "{}", said());
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.change-without-expected");
        let said = pentarchy_core::mutant::with(bug, said);
        assert_eq!(said, PENDING, "anyone may be a client again");
    }
}

/// Its members may have made keys for it, and some of them may count as ready.
#[test]
fn a_pending_change_does_not_give_way_to_another_one() {
    let next_members = || {
        let mut group = Group::of(&first());
        let (one, other) = (adding(&first()), change_of(&first(), |it| it.f = 1));
        group.pend(&one);
        group.ready(&one, &[0, 1, 2]);
        group.propose(&other);
        group.ready(&one, &[3]);
        group.executor.next_configuration().map(|next| next.members.len())
    };
    assert_eq!(next_members(), Some(4));
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.second-change-replaces");
        assert_eq!(pentarchy_core::mutant::with(bug, next_members), None);
    }
}

/// Why a change is refused.
fn refusal(current: &Configuration, alter: impl FnOnce(&mut Change)) -> String {
    let mut change = adding(current);
    alter(&mut change);
    Group::of(current).propose(&change).remove(0)
}

/// Whoever leaves while the group needs no devices has the secret that they share, and whoever
/// joins lacks it.
#[test]
fn devices_get_another_secret_where_members_come_or_go_also_if_they_are_not_needed() {
    let accepted = "proposed; other administrators have to propose the same";
    let now = without_devices();
    let said = |alter: &dyn Fn(&mut Configuration)| {
        let mut change = change_of(&now, |_| {});
        alter(&mut change.next);
        Group::of(&now).propose(&change).remove(0)
    };
    let returns = |it: &mut Configuration| {
        (it.protocol, it.facts, it.secret) = ("toy".to_owned(), first().facts, None);
    };
    assert_eq!(said(&returns), accepted, "all members have the secret");
    let joins = |it: &mut Configuration| {
        it.members.push(MemberEntry { sealed: it.members[0].sealed, ..entry(4) });
        it.next_member = MemberId(5);
    };
    assert_eq!(said(&joins), accepted);
    let keeps = |it: &mut Configuration| {
        joins(it);
        it.secret = None;
    };
    assert!(said(&keeps).contains("secret"));
    let forgets_one = |it: &mut Configuration| {
        joins(it);
        it.members[2].sealed = None;
    };
    assert!(said(&forgets_one).contains("secret"));
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.secret-stays");
        let taken = pentarchy_core::mutant::with(bug, || said(&keeps));
        assert!(!taken.contains("secret"), "{taken}");
    }
}

#[test]
fn a_change_that_no_group_should_take_is_refused() {
    let now = first();
    let accepted = "proposed; other administrators have to propose the same";
    assert_eq!(refusal(&now, |_| {}), accepted);
    assert_eq!(refusal(&now, |it| it.expires.0 = NOW + CHANGE_MILLIS_MAX), accepted);
    let refused = |part: &str, alter: &dyn Fn(&mut Change)| {
        let said = refusal(&now, alter);
        assert!(said.contains(part), "{said}, and not: {part}");
    };
    refused("make it anew", &|it| it.expects = Digest::of(b"another"));
    refused("was withdrawn", &|it| it.attempt = 1);
    refused("at most a day", &|it| it.expires.0 = NOW + CHANGE_MILLIS_MAX + 1);
    refused("has expired", &|it| it.expires.0 = NOW);
    refused("not the next", &|it| it.next.number = 2);
    refused("not the next", &|it| it.next.group.0[0] ^= 1);
    refused("number of pillars", &|it| it.next.lane.pillars = 2);
    refused("no service", &|it| it.next.facts.authority = Authority::Service);
    let given = Configuration { next_member: MemberId(4), ..first() };
    assert!(refusal(&given, |_| {}).contains("needs a number that no member had"));
    let other_number = |it: &mut Change| {
        it.next.members.remove(0);
        it.next.next_member = MemberId(2);
    };
    refused("given", &other_number);
    refused("keeps its signing key", &|it| it.next.members[1].signing = [77; 32]);
    refused("needs keys", &|it| it.next.members[3].identity = identity(1).0);
    refused("needs keys", &|it| it.next.members[3].signing = signing(0, 1));
    // Two of three are new: the one that stays may be faulty.
    refused("more members have to stay", &|it| {
        it.next.members.drain(..2);
        it.next.members.push(entry(4));
        it.next.next_member = MemberId(5);
    });
    refused("secret", &|it| it.next.secret = None);
    refused("has to be ready", &|it| it.needed = vec![MemberId(4)]);
    let bad = BadConfiguration::Administrators.to_string();
    refused(&bad, &|it| it.next.administrators.threshold = 0);
    refused("cannot tolerate", &|it| it.next.f = 2);
    let last = Configuration { number: CONFIGURATIONS_MAX - 1, ..first() };
    assert!(refusal(&last, |_| {}).contains("as many configurations"));
    let same_secret = Configuration { secret: Some(Digest::of(b"old")), ..first() };
    let keeps = |it: &mut Change| it.next.secret = Some(Digest::of(b"old"));
    assert!(refusal(&same_secret, keeps).contains("secret"));
    #[cfg(feature = "mutants")]
    {
        let bug = Some("roster.secret-stays");
        let refused = pentarchy_core::mutant::with(bug, || refusal(&same_secret, keeps));
        assert!(!refused.contains("secret"), "{refused}");
    }
    let nobody = Configuration { administrators: Administrators::default(), ..first() };
    let mut group = Group::of(&nobody);
    let outcomes = toy::run(&mut group.executor, &toy::batch(90, &[(1, vec![0])]));
    assert_eq!(outcomes, [Outcome::Done(Bytes::from_static(b"bad"))], "it is the service's");
}

/// Whether a former member or administrator asks it, or somebody who comes too early.
#[test]
fn what_a_stranger_asks_of_the_group_never_reaches_the_service() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    let stranger = ClientId([1; 32]);
    let admission = Admission { epoch: Epoch(0), configuration: first().digest(), life: life(9) };
    let withdrawal = Withdrawal { expects: first().digest(), attempt: 0 };
    let asked = [
        (Petition::Admit(admission), "only members are admitted"),
        (Petition::Propose(Arc::new(change.clone())), "only an administrator of this group"),
        (Petition::Withdraw(withdrawal), "only an administrator of this group"),
        (ready(&change, 3).1, "no such change is pending"),
    ];
    for (petition, part) in asked {
        let asked = (stranger, petition);
        assert!(!group.is_open(&asked), "it need not be ordered");
        let said = group.slot(&[asked]).remove(0);
        assert!(said.contains(part), "{said}");
    }
    let nonsense = [&GROUP[..], &[9]].concat();
    assert_eq!(group.raw(&[(stranger, nonsense.into())]), ["that is nothing that a group does"]);
    assert_eq!(group.executor.clients(), 0, "nobody of them has a place in the client table");
    // The toy would take most of these for bad operations, and this one for a write.
    let outcomes = toy::run(&mut group.executor, &toy::batch(1, &[(1, toy::write(0, 1, 1))]));
    assert_eq!(outcomes, [Outcome::Done(Bytes::from_static(&[1, 0, 0, 0, 0, 0, 0, 0]))]);
}

/// Operations of many users may stand in one envelope of a gateway.
#[test]
fn what_a_stranger_asks_of_the_group_takes_nothing_else_along() {
    let mut group = Group::of(&first());
    let nonsense = [&GROUP[..], &[9]].concat();
    let requests = [(1, toy::write(0, 1, 1)), (2, nonsense), (3, toy::write(0, 1, 2))];
    let batch = toy::batch(1, &requests);
    let settled = Lookup::Settled(Outcome::Forgotten);
    let lookups: Vec<Lookup> = group.executor.lookups(&batch.envelopes[0]).collect();
    assert_eq!(lookups, [Lookup::New, settled, Lookup::New]);
    let refused = Outcome::Done(Bytes::from_static(b"that is nothing that a group does"));
    let outcomes = toy::run(&mut group.executor, &batch);
    assert_eq!(outcomes, [toy::done(1), refused, toy::done(2)]);
    // Each is executed once.
    let again = toy::run(&mut group.executor, &batch);
    assert_eq!((&again[0], &again[2]), (&toy::done(1), &toy::done(2)));
}

/// States are compared by their digests, whoever made them and when.
#[test]
fn a_state_brings_all_of_it() {
    let mut group = Group::of(&first());
    let change = adding(&first());
    let alone = Arc::new(change_of(&first(), |it| it.f = 1));
    group.slot(&[(administrator(1), Petition::Propose(alone))]);
    let mut other = copy(&mut group);
    for group in [&mut group, &mut other] {
        group.pend(&change);
        group.ready(&change, &[0, 1]);
    }
    let mut other = copy(&mut group);
    for group in [&mut group, &mut other] {
        group.pass(1);
        group.ready(&change, &[2, 3]);
    }
    let mut third = copy(&mut other);
    let [first, second, third] = [&mut group, &mut other, &mut third].map(Group::next_epoch);
    assert_eq!((&first, &first), (&second, &third));
    let (slot, digest) = (group.executor.executed(), first.0.base.state);
    assert_eq!(digest, group.executor.checkpoint(), "the next epoch finds the same state");
    let fetched = group.executor.snapshot(slot).unwrap().clone();
    let next = Arc::new(first.1.unwrap().after(&first.0));
    let mut joined = Executor::new(next, toy::Toy::boxed());
    joined.install(fetched).expect("who joins is in that epoch already");
    assert_eq!(joined.checkpoint(), digest);
}

/// Another executor of the first epoch with the same state.
fn copy(of: &mut Group) -> Group {
    let digest = of.executor.checkpoint();
    let snapshot = of.executor.latest().unwrap().clone();
    let mut copy = Group::of(&first());
    copy.executor.install(snapshot).expect("it is of this epoch");
    assert_eq!(copy.executor.checkpoint(), digest);
    (copy.time, copy.asked) = (of.time, of.asked);
    copy
}
