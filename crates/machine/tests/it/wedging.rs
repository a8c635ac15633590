//! An authority outside stops an epoch: replicas order nothing more and say what they had ordered,
//! also after a crash, and members cannot end the epoch themselves.

use crate::bench::{Bench, client, membership, request};
use crate::keys::{Eyes, by_authority};
use crate::stopping::{GOES_ON, HEAD, KEEPS_AGAIN, SOUND, SPECULATES, Stopping, TALKS_ON};
use crate::succession::{Group, begin, reminded, take_reports, tell, wedge};
use bytes::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Handover, Message};
use pentarchy_core::ids::{Epoch, Incarnation, MemberId, ReplicaId, Slot};
use pentarchy_core::membership::{Base, Life};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ToClient, ToReplica};
use pentarchy_core::protocol::{Protocol, Rules};
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::succession::{SignedReport, Succession};
use pentarchy_core::wire::Wire;
use pentarchy_machine::{EPOCHS, HostLimits, ToAuthority};
use std::sync::Arc;

#[test]
fn a_replica_that_is_stopped_orders_nothing_more_and_reports_what_it_had() {
    let mut group = Group::new::<SOUND>();
    (0..2).for_each(|_| group.order(&[1, 2]));
    group.order(&[1]);
    assert_eq!(group.requests(), [3, 3, 2]);
    group.tell(&wedge(1));
    assert!(group.replicas.each_mut().map(take_reports).iter().all(Vec::is_empty), "another epoch");
    group.tell(&wedge(0));
    let reports = group.replicas.each_mut().map(take_reports);
    for ((id, reports), behind) in (0..).zip(&reports).zip([1, 1, 0]) {
        let [signed] = &reports[..] else { panic!("one report") };
        assert!(signed.is_genuine(&membership(), &Eyes(HEAD)));
        let report = &signed.report;
        assert_eq!((report.epoch, report.author), (Epoch(0), ReplicaId(id)));
        let history = &report.history;
        assert_eq!((history.base.slot, history.batches.len()), (Slot(2), behind));
        let third = (behind > 0).then(|| group.ordered[2].digest());
        assert_eq!(history.batch(Slot(3)), third.as_ref());
        assert!(history.agrees_with(&reports[0].report.history, Slot(9)));
        assert_eq!(SignedReport::from_bytes(&signed.to_bytes()).as_ref(), Ok(signed));
    }
    group.order(&[1, 2]);
    assert_eq!(group.requests(), [3, 3, 2]);
    // Asked once more, it says the same.
    group.tell(&wedge(0));
    assert_eq!(group.replicas.each_mut().map(take_reports), reports);
}

#[test]
fn a_report_is_its_authors_word_about_itself() {
    let mut group = Group::new::<SOUND>();
    group.order(&[1, 2]);
    group.tell(&wedge(0));
    let signed = take_reports(&mut group.replicas[1]).remove(0);
    let is_genuine = |change: &dyn Fn(&mut SignedReport)| {
        let mut changed = signed.clone();
        change(&mut changed);
        changed.is_genuine(&membership(), &Eyes(HEAD))
    };
    assert!(is_genuine(&|_| {}));
    assert!(!is_genuine(&|it| it.report.history.batches.clear()));
    assert!(!is_genuine(&|it| it.report.author = ReplicaId(2)));
    assert!(!is_genuine(&|it| it.report.author = ReplicaId(3)));
    assert!(!is_genuine(&|it| it.report.epoch = Epoch(1)));
    assert!(!is_genuine(&|it| it.report.life.incarnation = Incarnation(2)));
    assert!(!is_genuine(&|it| it.signature = by_authority(1, &membership().base.state).1));
}

/// What the authority is told before the disk has come as far, and then.
fn reported_before_and_behind_the_disk() -> [usize; 2] {
    let (mut group, disk) = Group::with_a_disk::<SOUND>();
    group.order(&[1, 2]);
    disk.settle();
    group.tell(&wedge(0));
    let before = take_reports(&mut group.replicas[2]).len();
    disk.settle();
    group.round();
    [before, take_reports(&mut group.replicas[2]).len()]
}

#[test]
fn a_replica_reports_when_it_is_durable_that_it_has_stopped() {
    assert_eq!(reported_before_and_behind_the_disk(), [0, 1]);
    let early = Some("kept.sends-before-durable");
    assert_eq!(mutant::with(early, reported_before_and_behind_the_disk), [1, 0]);
}

#[test]
#[should_panic(expected = "is ordered behind the end of its epoch")]
fn a_core_that_goes_on_behind_its_end_is_stopped() {
    let mut group = Group::new::<GOES_ON>();
    group.round();
    group.tell(&wedge(0));
    group.order(&[1, 2]);
}

#[test]
fn nothing_comes_of_what_a_core_that_has_stopped_says_of_states() {
    let mut group = Group::new::<TALKS_ON>();
    (0..3).for_each(|_| group.order(&[1, 2]));
    group.tell(&wedge(0));
    let base = take_reports(&mut group.replicas[1])[0].report.history.base;
    assert_eq!(base.slot, Slot(2));
    let backup = &mut group.replicas[1];
    backup.round(1, &[]).unwrap();
    let executor = backup.machine.executor();
    assert_eq!(executor.executed(), Slot(3));
    assert_eq!(
        executor.kept().map(|it| (it.slot, it.digest)).collect::<Vec<_>>(),
        [(base.slot, base.state)]
    );
    assert!(backup.driver.to_peers.iter().all(|(_, kind, _)| *kind != "transfer"));
    group.tell(&group.issued(base, 1));
    assert_eq!(group.epochs(), [1; 3]);
    group.assert_equal_states();
}

#[test]
fn a_replica_that_has_stopped_stays_so_when_it_starts_again() {
    let (mut group, disk) = Group::with_a_disk::<SOUND>();
    (0..3).for_each(|_| group.order(&[1, 2]));
    group.tell(&wedge(0));
    disk.settle();
    group.round();
    let reported = take_reports(&mut group.replicas[2]);
    assert_eq!(reported.len(), 1);
    group.restart::<SOUND>(&disk);
    assert_eq!(group.replicas[2].machine.core().status().phase, "wedged");
    assert_eq!(take_reports(&mut group.replicas[2]), reported, "nobody had to ask");
    let executed = group.replicas[2].machine.executor().executed();
    assert_eq!(executed, Slot(3));
    group.order(&[1, 2]);
    assert_eq!(group.replicas[2].machine.executor().executed(), executed);
    tell(&mut group.replicas[2], &wedge(0));
    assert_eq!(take_reports(&mut group.replicas[2]), reported);
}

/// The authority speaks before the replica has begun, or before it is durable once more that the
/// core has stopped.
#[test]
fn a_core_that_has_stopped_is_not_told_so_when_it_starts_again() {
    let (mut group, disk) = Group::with_a_disk::<KEEPS_AGAIN>();
    group.order(&[1, 2]);
    group.tell(&wedge(0));
    disk.settle();
    group.round();
    let reported = take_reports(&mut group.replicas[2]);
    assert_eq!(reported.len(), 1);
    let disk = group.reopen::<KEEPS_AGAIN>(&disk);
    for said in [wedge(0), group.issued(Base::default(), 1)] {
        tell(&mut group.replicas[2], &said);
    }
    group.round();
    tell(&mut group.replicas[2], &wedge(0));
    assert_eq!(take_reports(&mut group.replicas[2]), [], "it is not durable yet");
    disk.settle();
    group.round();
    assert_eq!(take_reports(&mut group.replicas[2]), reported);
}

/// It stops when the authority says so again.
#[test]
fn a_replica_that_crashed_before_its_stop_was_durable_goes_on() {
    let (mut group, disk) = Group::with_a_disk::<SOUND>();
    group.order(&[1, 2]);
    disk.settle();
    group.tell(&wedge(0));
    group.restart::<SOUND>(&disk);
    assert_eq!(group.replicas[2].machine.core().status().phase, "normal");
    assert_eq!(take_reports(&mut group.replicas[2]), []);
}

/// A state says nothing of the members, who are the authority's affair.
#[test]
fn a_replica_that_waits_to_be_let_in_goes_on_from_a_state_of_an_earlier_incarnation() {
    let mut group = Group::new::<SOUND>();
    (0..2).for_each(|_| group.order(&[1, 2]));
    let newest = group.replicas[2].machine.executor().latest().cloned().unwrap();
    assert_eq!((newest.slot, reminded(newest)), (Slot(2), Slot(2)));
}

/// How many queries a replica answered in a round in which a client asks so many.
fn answered(bench: &mut Bench, asks: u64) -> usize {
    let query = |number| ToReplica::Query { number, operation: Bytes::new() }.to_bytes();
    let asked: Vec<_> = (0..asks).map(|number| (client(1), query(number))).collect();
    bench.driver.to_clients.clear();
    bench.round(1, &asked).unwrap();
    let told = bench.driver.to_clients.iter();
    told.filter(|(_, told)| matches!(told, ToClient::Answer { .. })).count()
}

#[test]
fn a_replica_that_has_stopped_answers_no_queries() {
    let mut group = Group::new::<SOUND>();
    group.order(&[1, 2]);
    assert_eq!(answered(&mut group.replicas[2], 2), 2);
    group.tell(&wedge(0));
    assert_eq!(answered(&mut group.replicas[2], 2), 0);
    assert_eq!(group.replicas[2].status().counters.client_queries_dropped, 2);
    group.tell(&group.issued(Base::default(), 1));
    assert_eq!(answered(&mut group.replicas[2], 2), 2);
}

/// What it executed is final again when it goes back, and the next epoch has not begun.
#[test]
fn a_replica_that_has_stopped_answers_no_queries_that_waited() {
    let mut group = Group::new::<SPECULATES>();
    group.order(&[1, 2]);
    let replica = &mut group.replicas[2];
    assert_eq!(answered(replica, 1), 0);
    tell(replica, &wedge(0));
    let ahead = Base { slot: Slot(3), ..Base::default() };
    let lives = membership().members.iter().map(|it| it.life()).collect();
    let handover = Handover { epoch: Epoch(0), base: ahead, lives, next: None };
    tell(replica, &begin(Succession { handover, inherits: Vec::new() }, &[0, 1], Vec::new()));
    assert_eq!(replica.machine.executor().readable(), Some(Slot(0)));
    assert_eq!(answered(replica, 0), 0);
}

fn statuses(bench: &mut Bench) -> usize {
    let told = std::mem::take(&mut bench.driver.to_authority);
    let life = membership().members[0].life();
    let status = ToAuthority::Status { epoch: Epoch(0), life };
    told.iter().filter(|message| **message == status).count()
}

#[test]
fn a_replica_tells_the_authority_now_and_then_where_it_is() {
    let mut group = Group::new::<SOUND>();
    let head = &mut group.replicas[0];
    for (after_ms, told) in [(1, 1), (1, 0), (4_998, 0), (1, 1), (4_000, 0), (1_000, 1)] {
        head.round(after_ms, &[]).unwrap();
        assert_eq!(statuses(head), told, "{after_ms} ms later");
    }
    // A peer is further: at once, and once.
    for told in [1, 0] {
        let ahead = [&[0][..], &7_u64.to_le_bytes(), &[0; 8]].concat();
        head.machine.on_peer(MemberId(1), [Bytes::from(ahead)].into_iter(), false);
        head.round(1, &[]).unwrap();
        assert_eq!(statuses(head), told);
    }
}

#[test]
fn a_core_accuses_to_the_authority() {
    let mut group = Group::new::<SOUND>();
    group.order(&[1]);
    group.order(&[1, 2]);
    let accused = ToAuthority::Accuse { epoch: Epoch(0), about: HEAD, why: "orders out of turn" };
    let told = group.replicas.each_ref().map(|it| it.driver.to_authority.contains(&accused));
    assert_eq!(told, [false, false, true]);
    // No more often than it says where it is.
    for (after_ms, told) in [(1, 1), (1, 1), (5_000, 1), (1, 2), (1, 2)] {
        group.order(&[1, 2]);
        let accuser = &mut group.replicas[2];
        accuser.round(after_ms, &[]).unwrap();
        let accusations = accuser.driver.to_authority.iter().filter(|it| **it == accused);
        assert_eq!(accusations.count(), told);
    }
}

/// Or else a head that lies could end an epoch by what it orders.
#[test]
fn members_have_no_say_in_it() {
    let mut group = Group::new::<SOUND>();
    let member = &membership().members[1];
    let life = Life { incarnation: Incarnation(9), ..member.life() };
    let operation =
        Admission { epoch: Epoch(0), configuration: Digest::default(), life }.to_operation();
    let requests = vec![Request { number: 1, operation }];
    let id = pentarchy_core::ids::ClientId(member.identity);
    let draft = Draft { client: id, floor: 1, events: None, requests };
    let envelope = Arc::new(draft.seal(RequestAuth::Signature([1; 64])));
    // As its own client, and as a member.
    group.replicas[0].connect(id);
    let sent = ToReplica::Request(envelope.clone()).to_bytes();
    group.replicas[0].round(1, &[(id, sent)]).unwrap();
    assert_eq!(group.requests(), [0; 3], "nothing could come of it");
    let handover = Handover {
        epoch: Epoch(0),
        base: Base::default(),
        lives: membership().members.iter().map(|it| it.life()).collect(),
        next: None,
    };
    let signature =
        crate::keys::signature("replica", ReplicaId(1), &handover.statement(&membership()));
    let said = [
        Message::Admit(envelope),
        Message::Vote(handover, signature),
        Message::At { epoch: Epoch(0), configuration: membership().configuration },
    ];
    for message in &said {
        let bytes = [&[EPOCHS][..], &message.to_bytes()].concat();
        group.replicas[0].machine.on_peer(MemberId(1), [Bytes::from(bytes)].into_iter(), false);
        group.replicas[0].round(1, &[]).unwrap();
    }
    assert_eq!(group.replicas[0].status().rejects["wrong_role"], 3);
    assert_eq!(group.epochs(), [0; 3]);
    group.order(&[1, 2]);
    assert_eq!(group.requests(), [1; 3]);
}

#[test]
fn a_group_whose_members_end_their_epochs_listens_to_nobody_else() {
    let mut bench = Bench::new(HostLimits::default());
    tell(&mut bench, &wedge(0));
    assert_eq!(bench.status().counters.authority_refused, 1);
    let id = client(1);
    bench.connect(id);
    bench.round(1, &[(id, request(id, 1, true))]).unwrap();
    assert_eq!(bench.take_results(), [(id, 1)]);
    assert_eq!(bench.driver.to_authority, []);
}

#[test]
#[should_panic(expected = "pillars end their epochs themselves")]
fn no_service_stops_an_order_that_is_split() {
    Rules { pillars: true, ..Stopping::<SOUND>::RULES }.assert_consistent();
}
