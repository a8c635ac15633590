//! From epoch to epoch: votes, proofs, who waits for how long.

use crate::toy::membership;
use pentarchy_core::auth::{Signature, Verifier};
use pentarchy_core::counter::{Instance, TrustedMac, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Epochs, Handover, Message, Proof, Step, Witnesses};
use pentarchy_core::ids::{Epoch, Incarnation, MemberId, Millis, ReplicaId, ReplicaSet, Slot};
use pentarchy_core::limits::{EPOCHS_KEPT, HANDOVERS_SENT_MAX};
use pentarchy_core::membership::{Base, Life, Member, Membership};
use pentarchy_core::request::Envelope;
use std::collections::BTreeSet;

const R0: ReplicaId = ReplicaId(0);
const R1: ReplicaId = ReplicaId(1);
const R2: ReplicaId = ReplicaId(2);

/// Keys that need no secret: a signature says whose it is and of what.
struct Keys;

impl Verifier for Keys {
    fn signature(&self, replica: ReplicaId, digest: &Digest, signature: &[u8; 64]) -> bool {
        Signature(*signature) == sign(replica, digest)
    }
    fn usig(&self, _: ReplicaId, _: &Digest, _: &Ui) -> bool {
        false
    }
    fn mac(&self, _: (ReplicaId, Instance), _: &Digest, _: &TrustedMac) -> bool {
        false
    }
    fn envelope(&self, _: &Envelope) -> bool {
        false
    }
}

fn sign(replica: ReplicaId, digest: &Digest) -> Signature {
    let mut signature = [0; 64];
    signature[..32].copy_from_slice(&digest.0);
    signature[32] = replica.0 as u8;
    Signature(signature)
}

fn life(incarnation: u64) -> Life {
    Life { incarnation: Incarnation(incarnation), device_key: [0; 32] }
}

/// How an epoch ends in which replica 2 comes back.
fn handover(of: &Membership) -> Handover {
    let mut lives: Vec<Life> = of.members.iter().map(Member::life).collect();
    lives[2].incarnation.0 += 1;
    let base = Base { slot: Slot(of.base.slot.0 + 5), state: Digest([9; 32]) };
    Handover { epoch: of.epoch, base, lives, next: None }
}

fn vote(by: ReplicaId, of: &Membership, handover: &Handover) -> Message {
    Message::Vote(handover.clone(), sign(by, &handover.statement(of)))
}

fn proof(of: &Membership, signers: &[ReplicaId]) -> Proof {
    let handover = handover(of);
    let statement = handover.statement(of);
    let signatures = signers.iter().map(|by| (*by, sign(*by, &statement))).collect();
    Proof { handover, next: None, by: Witnesses::Members, signatures }
}

/// The first so many ends of epochs.
fn chain(length: usize) -> (Vec<Proof>, Membership) {
    let mut at = (*membership()).clone();
    let next = |_| {
        let proof = proof(&at, &[R0, R1]);
        at = at.after(&proof.handover);
        proof
    };
    let proofs = (0..length).map(next).collect();
    (proofs, at)
}

/// Members have the numbers of their places.
fn member(ReplicaId(place): ReplicaId) -> MemberId {
    MemberId(place.into())
}

fn members<const N: usize>(places: [ReplicaId; N]) -> BTreeSet<MemberId> {
    places.map(member).into()
}

fn hear(epochs: &mut Epochs, from: ReplicaId, message: Message) -> Vec<Step> {
    let mut out = Vec::new();
    epochs.on_message(member(from), message, &Keys, &mut out);
    out
}

fn round(epochs: &mut Epochs, now: u64) -> Vec<Step> {
    let mut out = Vec::new();
    epochs.on_round(Millis(now), &mut out);
    out
}

fn end(epochs: &mut Epochs, me: ReplicaId) -> Vec<Step> {
    let mut out = Vec::new();
    let ending = handover(epochs.membership());
    epochs.on_ended(ending, None, |digest| sign(me, digest), &mut out);
    out
}

fn begun(steps: &[Step]) -> Vec<(Epoch, ReplicaSet)> {
    let begun = |step: &Step| match step {
        Step::Begin { membership, sources } => Some((membership.epoch, *sources)),
        _ => None,
    };
    steps.iter().filter_map(begun).collect()
}

fn replica(me: ReplicaId) -> Epochs {
    Epochs::new(member(me), life(1), membership())
}

fn stranger() -> Epochs {
    Epochs::new(member(R2), life(u64::MAX), membership())
}

/// Somebody is in this epoch of the group.
fn at(epoch: Epoch) -> Message {
    Message::At { epoch, configuration: membership().configuration }
}

#[test]
fn f_plus_1_equal_votes_end_an_epoch() {
    let (first, mut epochs) = (membership(), replica(R0));
    assert!(begun(&end(&mut epochs, R0)).is_empty() && epochs.is_ending());
    let mut other = handover(&first);
    other.base.slot = Slot(6);
    assert!(begun(&hear(&mut epochs, R1, vote(R1, &first, &other))).is_empty());
    let forged = vote(R0, &first, &handover(&first));
    assert!(begun(&hear(&mut epochs, R2, forged)).is_empty(), "another's signature");
    let steps = hear(&mut epochs, R1, vote(R1, &first, &handover(&first)));
    assert_eq!(begun(&steps), [(Epoch(1), ReplicaSet::from_iter([R0, R1]))]);
    assert!(!epochs.is_ending());
    let next = epochs.membership();
    assert_eq!((next.base, next.members[2].incarnation), (handover(&first).base, Incarnation(2)));
    let told = steps.iter().any(|step| {
        matches!(step, Step::Send { to, message: Message::Proofs(proofs) }
            if *to == members([R1, R2]) && proofs[0].is_valid(&first, &Keys))
    });
    assert!(told, "the others are shown the proof");
}

#[test]
fn one_who_votes_twice_is_counted_once() {
    let (first, mut epochs) = (membership(), stranger());
    for slot in [5, 6, 5] {
        let mut ending = handover(&first);
        ending.base.slot = Slot(slot);
        assert!(begun(&hear(&mut epochs, R1, vote(R1, &first, &ending))).is_empty());
    }
    let steps = hear(&mut epochs, R0, vote(R0, &first, &handover(&first)));
    assert_eq!(begun(&steps).len(), 1);
}

#[test]
fn votes_of_other_epochs_and_of_the_wrong_size_do_not_count() {
    let (first, mut epochs) = (membership(), stranger());
    let mut short = handover(&first);
    short.lives.pop();
    let later = Handover { epoch: Epoch(1), ..handover(&first) };
    for by in [R0, R1] {
        assert!(begun(&hear(&mut epochs, by, vote(by, &first, &short))).is_empty());
        assert!(begun(&hear(&mut epochs, by, vote(by, &first, &later))).is_empty());
    }
}

#[test]
fn a_proof_needs_f_plus_1_members_who_signed_it() {
    let first = membership();
    let good = proof(&first, &[R0, R1]);
    assert!(good.is_valid(&first, &Keys));
    assert!(proof(&first, &[R0, R1, R2]).is_valid(&first, &Keys));
    let bad = |change: &dyn Fn(&mut Proof)| {
        let mut proof = good.clone();
        change(&mut proof);
        assert!(!proof.is_valid(&first, &Keys));
        assert!(begun(&hear(&mut stranger(), R0, Message::Proofs(vec![proof]))).is_empty());
    };
    bad(&|it| it.signatures.truncate(1));
    bad(&|it| it.signatures[1] = it.signatures[0]);
    bad(&|it| it.signatures.push(it.signatures[0]));
    bad(&|it| it.signatures[1].0 = R2);
    bad(&|it| it.signatures[1].0 = ReplicaId(3));
    bad(&|it| it.signatures[1].1.0[0] ^= 1);
    bad(&|it| it.handover.base.slot = Slot(6));
    bad(&|it| it.handover.base.state.0[0] ^= 1);
    bad(&|it| it.handover.epoch = Epoch(1));
    bad(&|it| it.handover.lives.truncate(2));
    bad(&|it| it.handover.lives[0] = life(5));
    let second = first.after(&good.handover);
    assert!(!good.is_valid(&second, &Keys), "bound to its epoch");
}

#[test]
fn who_may_get_there_itself_is_given_time() {
    let (first, mut epochs) = (membership(), replica(R2));
    let message = || Message::Proofs(vec![proof(&first, &[R0, R1])]);
    assert!(begun(&hear(&mut epochs, R0, message())).is_empty());
    assert!(begun(&round(&mut epochs, 1_000)).is_empty());
    assert!(epochs.wake_at() <= Millis(1_300));
    assert!(begun(&hear(&mut epochs, R1, message())).is_empty());
    assert!(begun(&round(&mut epochs, 1_299)).is_empty());
    assert_eq!(begun(&round(&mut epochs, 1_300)), [(Epoch(1), ReplicaSet::from_iter([R0, R1]))]);
    assert!(!epochs.is_admitted(), "its life is over");

    let mut epochs = replica(R1);
    hear(&mut epochs, R0, message());
    assert_eq!(begun(&end(&mut epochs, R1)).len(), 1, "it got there");
    assert!(epochs.is_admitted() && !epochs.is_ending());
}

#[test]
fn who_is_not_admitted_goes_on_at_once_and_asks() {
    let (first, mut epochs) = (membership(), stranger());
    let steps = round(&mut epochs, 1_000);
    let everyone_else = members([R0, R1]);
    let tells = Step::Send { to: everyone_else, message: at(Epoch(0)) };
    assert_eq!(steps, [tells, Step::AskAdmission]);
    assert!(round(&mut epochs, 1_199).is_empty());
    assert_eq!(round(&mut epochs, 1_200).len(), 2);
    let steps = hear(&mut epochs, R0, Message::Proofs(vec![proof(&first, &[R0, R1])]));
    assert_eq!(begun(&steps).len(), 1);
}

#[test]
fn votes_are_repeated_until_the_end_is_proved_and_the_idle_say_where_they_are() {
    let mut epochs = replica(R0);
    let said: Vec<usize> = (0..10).map(|i| round(&mut epochs, 1_000 + 200 * i).len()).collect();
    assert_eq!(said, [0, 0, 0, 0, 1, 0, 0, 0, 0, 1]);
    let voted = end(&mut epochs, R0);
    assert_eq!(round(&mut epochs, 3_000), voted);
    assert_eq!(round(&mut epochs, 3_200), voted);
}

#[test]
fn a_long_chain_is_followed_message_by_message() {
    let length = HANDOVERS_SENT_MAX + 7;
    let (proofs, last) = chain(length);
    let mut leader = Epochs::new(member(R0), life(1), membership());
    for proof in proofs {
        hear(&mut leader, R1, Message::Proofs(vec![proof]));
        // Its core never gets there.
        for now in [0, 300] {
            let now = leader.wake_at().0 + now;
            round(&mut leader, now);
        }
    }
    assert_eq!(**leader.membership(), last);
    let mut follower = stranger();
    for rounds in 1..=2 {
        let now = leader.wake_at();
        round(&mut leader, now.0);
        let steps = hear(&mut leader, R2, at(follower.membership().epoch));
        let [Step::Send { to, message }] = &steps[..] else { panic!("{steps:?}") };
        assert_eq!(*to, members([R2]));
        hear(&mut follower, R0, message.clone());
        assert_eq!(follower.membership().epoch.0 as usize, length.min(rounds * HANDOVERS_SENT_MAX));
    }
    assert_eq!(follower.membership(), leader.membership());
}

#[test]
fn of_a_chain_only_the_last_epoch_is_worth_waiting_for() {
    let mut epochs = replica(R1);
    let (proofs, _) = chain(3);
    let steps = hear(&mut epochs, R0, Message::Proofs(proofs));
    let numbers: Vec<u64> = begun(&steps).iter().map(|(epoch, _)| epoch.0).collect();
    assert_eq!(numbers, [1, 2]);
    round(&mut epochs, 1_000);
    assert_eq!(begun(&round(&mut epochs, 1_300))[0].0, Epoch(3));
}

#[test]
fn each_is_answered_once_between_two_reminders() {
    let (proofs, _) = chain(1);
    let mut epochs = stranger();
    hear(&mut epochs, R0, Message::Proofs(proofs.clone()));
    let shown =
        |from| vec![Step::Send { to: members([from]), message: Message::Proofs(proofs.clone()) }];
    assert_eq!(hear(&mut epochs, R0, at(Epoch(0))), shown(R0));
    assert!(hear(&mut epochs, R0, at(Epoch(0))).is_empty());
    assert_eq!(hear(&mut epochs, R1, vote(R1, &membership(), &proofs[0].handover)), shown(R1));
    assert!(hear(&mut epochs, R1, at(Epoch(1))).is_empty(), "the same");
    round(&mut epochs, 1_000);
    let asks = Step::Send { to: members([R0]), message: at(Epoch(1)) };
    assert_eq!(hear(&mut epochs, R0, at(Epoch(9))), [asks]);
}

#[test]
fn another_configuration_is_noticed_in_whatever_epoch() {
    let mut epochs = stranger();
    let other = |epoch| Message::At { epoch, configuration: Digest::of(b"other keys") };
    assert_eq!(hear(&mut epochs, R0, other(Epoch(0))), [Step::OtherConfiguration(member(R0))]);
    assert_eq!(hear(&mut epochs, R0, at(Epoch(0))), []);
    let asks = Step::Send { to: members([R0]), message: at(Epoch(0)) };
    // That may be where this replica is to be led.
    assert_eq!(hear(&mut epochs, R0, other(Epoch(1))), std::slice::from_ref(&asks));
    round(&mut epochs, 1_000);
    assert_eq!(
        hear(&mut epochs, R0, other(Epoch(1))),
        [Step::OtherConfiguration(member(R0)), asks]
    );
}

#[test]
fn the_oldest_ends_are_forgotten() {
    let mut epochs = stranger();
    for proof in chain(EPOCHS_KEPT + 2).0 {
        hear(&mut epochs, R0, Message::Proofs(vec![proof]));
    }
    let steps = hear(&mut epochs, R1, at(Epoch(0)));
    let [Step::Send { message: Message::Proofs(proofs), .. }] = &steps[..] else {
        panic!("{steps:?}")
    };
    assert_eq!((proofs.len(), proofs[0].handover.epoch), (HANDOVERS_SENT_MAX, Epoch(2)));

    // Whoever begins with the first one is led on nevertheless.
    let mut newcomer = stranger();
    hear(&mut newcomer, R0, Message::Proofs(proofs.clone()));
    let reached = 2 + HANDOVERS_SENT_MAX as u64;
    assert_eq!(newcomer.membership().epoch, Epoch(reached));
    let expected = chain(reached as usize).1;
    assert_eq!(**newcomer.membership(), expected);
}

#[test]
fn what_ends_an_epoch_behind_this_one_shows_nothing_of_those_before() {
    let (proofs, third) = chain(2);
    let (first, second) = (membership(), membership().after(&proofs[0].handover));
    assert!(proofs[1].is_valid(&first, &Keys), "members keep their keys");
    assert!(!proofs[0].is_valid(&second, &Keys), "over");
    let mut relabelled = proofs[0].clone();
    relabelled.handover.epoch = Epoch(1);
    assert!(!relabelled.is_valid(&first, &Keys), "signed for its own epoch");
    assert_eq!(first.after(&proofs[1].handover), third);
}
