//! How administrators and members change a group's configuration, through the executor that carries
//! it out.

use crate::toy;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::batch::Batch;
use pentarchy_core::change::{
    Awaiting, Change, GROUP, Petition, Proposed, Ready, Shown, Withdrawal,
};
use pentarchy_core::configuration::{
    Access, Administrators, BadConfiguration, Configuration, Facts, MemberEntry, RequestMeans,
    SealedSecret,
};
use pentarchy_core::counter::Counter;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Handover};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, GroupId, Incarnation, MemberId, Millis, Slot, View};
use pentarchy_core::limits::{CHANGE_MILLIS_MAX, CONFIGURATIONS_MAX, READY_WAIT_MILLIS};
use pentarchy_core::membership::{Life, PillarConfig};
use pentarchy_core::ports::client::{Outcome, Place};
use pentarchy_core::protocol::{Authority, FaultModel, Tuning};
use pentarchy_core::quorum::{Count, QuorumRule, ReadRule};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::sessions::Lookup;
use pentarchy_core::wire::Wire;
use std::sync::Arc;

/// Agreed time when the first change is proposed.
const NOW: u64 = 1_000_000;

const PENDING: &str = "pending; its members have to say that they are ready";

fn administrator(number: u8) -> ClientId {
    ClientId([90 + number; 32])
}

/// The key by which a member opens channels.
pub fn identity(member: u32) -> ClientId {
    ClientId([200 + member as u8; 32])
}

/// The key by which a member signs in the configuration of a number.
fn signing(member: u32, number: u8) -> [u8; 32] {
    [10 * number + member as u8; 32]
}

fn entry(member: u32) -> MemberEntry {
    MemberEntry {
        id: MemberId(member),
        identity: identity(member).0,
        signing: signing(member, 1),
        sealed: None,
        address: format!("host-{member}:7000"),
    }
}

pub fn life(incarnation: u64) -> Life {
    Life::mac(Incarnation(incarnation))
}

/// Three members with trusted devices, of which one may be faulty; two of three administrators have
/// to agree.
pub fn first() -> Configuration {
    Configuration {
        group: GroupId([5; 16]),
        number: 0,
        protocol: "toy".to_owned(),
        facts: Facts {
            fault_model: FaultModel::Hybrid,
            group_size: Count::per_fault_and_one(2),
            quorum: QuorumRule::Majority,
            replies: Count::per_fault_and_one(1),
            reads: ReadRule::AllButFaulty,
            pillars: false,
            speculative: false,
            replies_itself: false,
            authority: Authority::Members,
            counter: Some(Counter::Usig),
        },
        f: 1,
        lane: PillarConfig::default(),
        tuning: Tuning::default(),
        requests: RequestMeans::Signature,
        secret: None,
        administrators: Administrators {
            threshold: 2,
            keys: [0, 1, 2].map(|number| administrator(number).0).to_vec(),
        },
        access: Access::Open,
        members: [0, 1, 2].map(entry).to_vec(),
        next_member: MemberId(3),
    }
}

/// The same without devices, for which one more member is needed.
fn without_devices() -> Configuration {
    let mut configuration = first();
    let facts = &mut configuration.facts;
    (facts.fault_model, facts.counter) = (FaultModel::Byzantine, None);
    (facts.group_size, facts.quorum) = (Count::per_fault_and_one(3), QuorumRule::Byzantine);
    configuration.members.push(entry(3));
    configuration.next_member = MemberId(4);
    configuration
}

/// A change of this configuration that alters it like that.
fn change_of(current: &Configuration, alter: impl FnOnce(&mut Configuration)) -> Change {
    let mut next = current.clone();
    next.number += 1;
    next.secret = Some(Digest::of(&next.number.to_le_bytes()));
    alter(&mut next);
    if next.secret != current.secret {
        let sealed = Some(SealedSecret([next.number as u8; SealedSecret::BYTES]));
        next.members.iter_mut().for_each(|member| member.sealed = sealed);
    }
    let expires = Millis(NOW + 60_000);
    Change { expects: current.digest(), attempt: 0, expires, next, needed: Vec::new() }
}

/// A fourth member joins.
pub fn adding(current: &Configuration) -> Change {
    let joins = |next: &mut Configuration| {
        next.members.push(entry(3));
        next.next_member = MemberId(4);
    };
    let needed = vec![MemberId(3)];
    Change { needed, ..change_of(current, joins) }
}

/// An executor of a group, with what the last slots answered.
struct Group {
    executor: Executor,
    time: u64,
    asked: u64,
}

impl Group {
    fn of(configuration: &Configuration) -> Self {
        let lives = vec![life(1); configuration.members.len()];
        let membership = Arc::new(configuration.begin(&lives));
        let executor = Executor::new(membership, toy::Toy::boxed());
        Self { executor, time: NOW, asked: 0 }
    }

    /// One slot with one request for each of these. Gives the answers.
    fn slot(&mut self, asked: &[(ClientId, Petition)]) -> Vec<String> {
        let requests: Vec<_> = asked.iter().map(|(by, it)| (*by, it.to_bytes())).collect();
        self.raw(&requests)
    }

    fn raw(&mut self, asked: &[(ClientId, Bytes)]) -> Vec<String> {
        let text = |answer: Bytes| String::from_utf8(answer.to_vec()).unwrap();
        self.answers(asked).into_iter().map(text).collect()
    }

    fn answers(&mut self, asked: &[(ClientId, Bytes)]) -> Vec<Bytes> {
        let batch = self.batch(asked);
        let answer = |outcome| match outcome {
            Outcome::Done(bytes) => bytes,
            other => panic!("{other:?}"),
        };
        toy::run(&mut self.executor, &batch).into_iter().map(answer).collect()
    }

    /// One slot that may be taken back.
    fn speculate(&mut self, asked: &[(ClientId, Petition)]) {
        let requests: Vec<_> = asked.iter().map(|(by, it)| (*by, it.to_bytes())).collect();
        let batch = Arc::new(self.batch(&requests));
        let slot = self.executor.executed().next();
        let place = Place { view: View(0), slot, history: Digest::default() };
        self.executor.speculate(place, &batch, true, |_, _| {});
    }

    fn batch(&mut self, asked: &[(ClientId, Bytes)]) -> Batch {
        let envelope = |(client, operation): &(ClientId, Bytes)| {
            self.asked += 1;
            let requests = vec![Request { number: self.asked, operation: operation.clone() }];
            let draft = Draft { client: *client, floor: 0, events: None, requests };
            Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
        };
        let envelopes: Vec<_> = asked.iter().map(envelope).collect();
        Batch { time: Millis(self.time), envelopes, digest: Digest::default() }
    }

    fn show(&mut self) -> Shown {
        let answers = self.answers(&[(administrator(1), Petition::Show.to_bytes())]);
        Shown::from_bytes(&answers[0]).expect("an administrator is shown")
    }

    fn pass(&mut self, millis: u64) {
        self.time += millis;
        toy::pass(&mut self.executor, self.time);
    }

    /// Two administrators propose the change.
    fn propose(&mut self, change: &Change) -> Vec<String> {
        let change = Arc::new(change.clone());
        let by = |number| (administrator(number), Petition::Propose(change.clone()));
        self.slot(&[by(0), by(2)])
    }

    fn pend(&mut self, change: &Change) {
        assert_eq!(self.propose(change)[1], PENDING);
    }

    fn ready(&mut self, change: &Change, members: &[u32]) -> Vec<String> {
        let ready: Vec<_> = members.iter().map(|member| ready(change, *member)).collect();
        self.slot(&ready)
    }

    fn is_open(&self, (client, petition): &(ClientId, Petition)) -> bool {
        let number = self.asked + 1;
        let requests = vec![Request { number, operation: petition.to_bytes() }];
        let draft = Draft { client: *client, floor: 0, events: None, requests };
        let envelope = draft.seal(RequestAuth::Signature([0; 64]));
        let lookups: Vec<Lookup> = self.executor.lookups(&envelope).collect();
        matches!(lookups[..], [Lookup::New])
    }

    /// Goes on in the next epoch, and gives how the last one ended.
    fn next_epoch(&mut self) -> (Handover, Option<Arc<Configuration>>) {
        let handover = self.executor.handover().expect("the epoch ends");
        let next = self.executor.next_configuration();
        let next_configuration = next.clone().expect("with another configuration");
        self.executor.begin_epoch(Arc::new(next_configuration.after(&handover)));
        (handover, next)
    }
}

/// A member brings its next key, and the second life of its device.
pub fn ready(change: &Change, member: u32) -> (ClientId, Petition) {
    let signing = signing(member, change.next.number as u8 + 1);
    let (epoch, change) = (Epoch(0), change.digest());
    // Replicas check it before they order the request.
    let possession = Signature([0; 64]);
    (identity(member), Petition::Ready(Ready { epoch, change, signing, life: life(2), possession }))
}

/// The same in a later epoch.
fn ready_in(epoch: u64, change: &Change, member: u32) -> (ClientId, Petition) {
    let (client, Petition::Ready(asked)) = ready(change, member) else { panic!() };
    (client, Petition::Ready(Ready { epoch: Epoch(epoch), ..asked }))
}

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

/// Nor does that of a former member or administrator, or of somebody who comes too early.
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
