//! Members that ask to be admitted, through the executor that carries it out.

use crate::toy::{self, membership};
use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Admission, Handover};
use pentarchy_core::executor::Executor;
use pentarchy_core::ids::{ClientId, Epoch, Incarnation, Millis, ReplicaId, Slot};
use pentarchy_core::limits::{ADMISSION_DOUBLINGS_MAX, ADMISSION_INTERVAL_MILLIS};
use pentarchy_core::membership::{Base, Life, Member, Membership};
use pentarchy_core::ports::client::Outcome;
use pentarchy_core::protocol::Authority;
use pentarchy_core::request::{Draft, Request, RequestAuth};
use pentarchy_core::wire::Malformed;
use std::ops::Range;
use std::sync::Arc;

fn life(incarnation: u64) -> Life {
    Life { incarnation: Incarnation(incarnation), device_key: [0; 32] }
}

/// A batch in which members ask something.
fn batch(time: u64, asked: &[(u8, u64, Bytes)]) -> Batch {
    let envelope = |(member, number, operation): &(u8, u64, Bytes)| {
        let requests = vec![Request { number: *number, operation: operation.clone() }];
        let client = ClientId([200 + member; 32]);
        let draft = Draft { client, floor: 0, events: None, requests };
        Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
    };
    let envelopes: Vec<_> = asked.iter().map(envelope).collect();
    let digest = envelopes[0].digest;
    Batch { time: Millis(time), envelopes, digest }
}

fn ask(member: u8, incarnation: u64) -> (u8, u64, Bytes) {
    ask_in(0, member, incarnation)
}

fn ask_in(epoch: u64, member: u8, incarnation: u64) -> (u8, u64, Bytes) {
    let asked = Admission {
        epoch: Epoch(epoch),
        configuration: Digest::default(),
        life: life(incarnation),
    };
    (member, incarnation, asked.to_operation())
}

fn answers(executor: &mut Executor, batch: &Batch) -> Vec<String> {
    let text = |outcome| match outcome {
        Outcome::Done(bytes) => String::from_utf8(bytes.to_vec()).unwrap(),
        other => panic!("{other:?}"),
    };
    toy::run(executor, batch).into_iter().map(text).collect()
}

fn fresh() -> Executor {
    toy::fresh(toy::Toy::boxed())
}

/// An executor that goes on in the epoch behind the admission of a life of replica 2.
fn in_second_epoch(time: u64) -> (Executor, Handover) {
    let mut executor = fresh();
    answers(&mut executor, &batch(time, &[ask(2, 5)]));
    let handover = executor.handover().unwrap();
    executor.begin_epoch(Arc::new(membership().after(&handover)));
    (executor, handover)
}

#[test]
fn an_admission_ends_the_epoch_and_the_handover_names_the_new_life() {
    let mut executor = fresh();
    assert!(!executor.is_ending() && executor.handover().is_none());
    assert_eq!(answers(&mut executor, &batch(10, &[ask(2, 5)])), ["admitted"]);
    assert!(executor.is_ending());
    let handover = executor.handover().unwrap();
    let expected: Vec<Life> = vec![life(1), life(1), life(5)];
    assert_eq!((handover.epoch, &handover.lives), (Epoch(0), &expected));
    assert_eq!(handover.base.slot, Slot(1));
    let kept = executor.snapshot(Slot(1)).unwrap();
    assert_eq!(kept.digest, handover.base.state, "the next epoch begins with it");
    assert_eq!(executor.handover().unwrap(), handover, "asked again, the same");
}

#[test]
#[should_panic(expected = "behind the end of its epoch")]
fn nothing_is_executed_behind_the_end() {
    let mut executor = fresh();
    answers(&mut executor, &batch(10, &[ask(2, 5)]));
    toy::run(&mut executor, &toy::batch(1, &[(1, toy::write(0, 1, 1))]));
}

#[test]
fn several_are_admitted_in_one_slot_and_the_rest_of_the_batch_is_executed() {
    let mut executor = fresh();
    let mut both = batch(10, &[ask(2, 5), ask(0, 6)]);
    both.envelopes.extend(toy::batch(1, &[(1, toy::write(0, 9, 1))]).envelopes);
    let outcomes = toy::run(&mut executor, &both);
    assert_eq!(outcomes[2], toy::done(1));
    assert_eq!(executor.handover().unwrap().lives, [life(6), life(1), life(5)]);
}

#[test]
fn what_is_no_new_life_of_the_same_kind_changes_nothing() {
    let mut executor = fresh();
    let signing = Life { device_key: [3; 32], ..life(5) };
    let configuration = Digest::default();
    let signing = Admission { epoch: Epoch(0), configuration, life: signing };
    let configuration = Digest::of(b"another");
    let elsewhere = Admission { epoch: Epoch(0), configuration, life: life(5) };
    let asked = [
        ask(2, 1),
        (2, 2, signing.to_operation()),
        (2, 3, Bytes::from_static(b"let me in")),
        (2, 4, Bytes::new()),
        ask_in(1, 2, 5),
        (2, 6, elsewhere.to_operation()),
    ];
    let said = answers(&mut executor, &batch(10, &asked));
    assert_eq!(said[0], "admitted already");
    assert_eq!(said[1], "a device with a key of its own has to be attested");
    assert_eq!(said[2..4], ["that is nothing that a group does"; 2]);
    assert_eq!(said[4..], ["asked of another epoch", "asked under another configuration"]);
    assert!(!executor.is_ending());
    toy::run(&mut executor, &toy::batch(1, &[(1, toy::write(0, 1, 1))]));
}

#[test]
fn a_request_of_a_stranger_is_the_services() {
    let mut executor = fresh();
    let asked = toy::batch(1, &[(1, vec![0])]);
    let outcomes = toy::run(&mut executor, &asked);
    assert_eq!(outcomes, [Outcome::Done(Bytes::from_static(b"bad"))]);
    assert!(!executor.is_ending());
}

#[test]
fn lives_follow_each_other_only_after_a_while_by_agreed_time() {
    let (mut executor, _) = in_second_epoch(10);
    let too_soon = 10 + ADMISSION_INTERVAL_MILLIS - 1;
    let said = answers(&mut executor, &batch(too_soon, &[ask_in(1, 2, 6)]));
    assert_eq!(
        (&said[..], executor.is_ending()),
        (&["admitted too recently; ask again".into()][..], false)
    );
    assert_eq!(answers(&mut executor, &batch(too_soon + 1, &[ask_in(1, 2, 7)])), ["admitted"]);
    let (mut executor, _) = in_second_epoch(10);
    assert_eq!(
        answers(&mut executor, &batch(11, &[ask_in(1, 1, 6)])),
        ["admitted"],
        "another member"
    );
}

/// Executes in epoch after epoch.
struct Long {
    executor: Executor,
    membership: Arc<Membership>,
}

impl Long {
    fn new() -> Self {
        Self { executor: fresh(), membership: membership() }
    }

    /// A member asks for a new incarnation every second in these. Gives the seconds in which it was
    /// let in.
    fn admitted_in(&mut self, member: u8, seconds: Range<u64>) -> Vec<u64> {
        let asks = |second: &u64| {
            let asked = ask_in(self.membership.epoch.0, member, 100 + second);
            let said = answers(&mut self.executor, &batch(1_000 * second, &[asked]));
            if let Some(handover) = self.executor.handover() {
                self.membership = Arc::new(self.membership.after(&handover));
                self.executor.begin_epoch(self.membership.clone());
            }
            said == ["admitted"]
        };
        seconds.filter(asks).collect()
    }
}

/// A faulty member that has itself admitted as often as it may. It was every five seconds.
#[test]
fn with_each_admission_a_member_waits_twice_as_long_for_the_next() {
    let mut group = Long::new();
    let first_hour = [0, 5, 15, 35, 75, 155, 315, 635, 1275, 1915, 2555, 3195];
    assert_eq!(group.admitted_in(2, 0..3_600), first_hour);
    assert_eq!(group.admitted_in(1, 3_600..3_602), [3_600], "another member has not asked before");
}

/// A member that crashed often for a while gets in as soon as before when it has not for longer.
#[test]
fn admissions_are_forgiven_one_after_the_other() {
    let longest = (ADMISSION_INTERVAL_MILLIS / 1_000) << ADMISSION_DOUBLINGS_MAX;
    let mut group = Long::new();
    assert_eq!(group.admitted_in(2, 0..60), [0, 5, 15, 35], "four");
    // Two are forgiven, so the third one from here on counts as the fifth would have.
    let later = 35 + 2 * longest;
    let expected = [later, later + 20, later + 60];
    assert_eq!(group.admitted_in(2, later..later + 100), expected);
    let much_later = later + 60 + 9 * longest;
    let expected = [0, 5, 15].map(|after| much_later + after);
    assert_eq!(group.admitted_in(2, much_later..much_later + 30), expected);
}

#[test]
fn the_interval_outlives_a_transfer_of_the_state() {
    let (executor, handover) = in_second_epoch(10);
    let next = Arc::new(membership().after(&handover));
    let mut learner = fresh();
    learner.begin_epoch(next);
    learner.install(executor.snapshot(Slot(1)).unwrap().clone()).unwrap();
    assert_eq!(
        answers(&mut learner, &batch(11, &[ask_in(1, 2, 6)])),
        ["admitted too recently; ask again"]
    );
}

#[test]
fn so_does_the_number_of_admissions() {
    let mut group = Long::new();
    assert_eq!(group.admitted_in(2, 0..20), [0, 5, 15]);
    let mut learner = Long { membership: group.membership.clone(), ..Long::new() };
    learner.executor.begin_epoch(learner.membership.clone());
    group.executor.checkpoint();
    learner.executor.install(group.executor.latest().unwrap().clone()).unwrap();
    for mut each in [group, learner] {
        assert_eq!(each.admitted_in(2, 20..60), [35]);
    }
}

#[test]
fn a_snapshot_is_installed_in_its_epoch_or_at_the_end_of_the_one_before() {
    let (mut executor, handover) = in_second_epoch(10);
    let next = Arc::new(membership().after(&handover));
    let base = executor.snapshot(Slot(1)).unwrap().clone();
    let mut ending = fresh();
    ending.install(base.clone()).unwrap();
    assert!(ending.is_ending(), "who stopped there goes on there");
    assert_eq!(ending.handover().as_ref(), Some(&handover));
    let mut learner = fresh();
    learner.begin_epoch(next.clone());
    learner.install(base).unwrap();
    assert_eq!((learner.executed(), learner.is_ending()), (Slot(1), false));
    // Both go on alike.
    for each in [&mut executor, &mut learner] {
        toy::run(each, &toy::batch(1, &[(1, toy::write(0, 1, 1))]));
    }
    assert_eq!(executor.checkpoint(), learner.checkpoint());
    let (old, slot, _) = toy::executor(&[(0, 9, 1)]);
    let mut learner = fresh();
    learner.begin_epoch(next);
    assert_eq!(learner.install(old.snapshot(slot).unwrap().clone()), Err(Malformed));
}

#[test]
fn members_are_known_by_their_keys_in_every_epoch() {
    let (_, handover) = in_second_epoch(10);
    let next = membership().after(&handover);
    assert_eq!(next.member(&ClientId([202; 32])), Some(ReplicaId(2)));
    assert_eq!(next.member(&ClientId([1; 32])), None);
    assert!(next.members.iter().map(Member::life).eq(handover.lives));
}

/// A service outside says who the members are: nothing that is ordered changes that, and a state
/// means the same in every epoch.
#[test]
fn where_a_service_ends_epochs_members_are_no_part_of_the_state() {
    let under_a_service = || {
        let mut executor = fresh();
        executor.set_authority(Authority::Service);
        executor
    };
    let mut executor = under_a_service();
    let asked = answers(&mut executor, &batch(10, &[ask(2, 5)]));
    assert_eq!(asked, ["the members do not say who they are"]);
    assert!(!executor.is_ending() && executor.handover().is_none());
    executor.checkpoint();
    let state = executor.snapshot(Slot(1)).unwrap().clone();
    let lives = vec![life(7); membership().n()];
    let base = Base { slot: Slot(1), state: state.digest };
    for epoch in [0, 1, 4] {
        let handover = Handover { epoch: Epoch(epoch), base, lives: lives.clone(), next: None };
        let mut learner = under_a_service();
        learner.begin_epoch(Arc::new(membership().after(&handover)));
        learner.install(state.clone()).unwrap();
        assert!(!learner.is_ending());
        assert_eq!(learner.checkpoint(), state.digest, "in the epoch behind {epoch}");
    }
    // A state of a group whose members say it themselves is another one.
    assert_eq!(fresh().install(state), Err(Malformed));
    let (old, slot, _) = toy::executor(&[(0, 9, 1)]);
    let state = old.snapshot(slot).unwrap().clone();
    assert_eq!(under_a_service().install(state), Err(Malformed));
}
