//! Pillars in schedules by hand: what is decided in one waits for another.

use crate::net::{Net, SLOW, envelope};
use pentarchy_core::auth::Signature;
use pentarchy_core::batch::Batch;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::limits::ENVELOPE_INLINE_BYTES;
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use pentarchy_core::protocol::{
    Delay, Effect, Effects, Memory, Protocol as _, Setup, Timeouts, Tuning,
};
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::common::frame::hooks::Framed as _;
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::common::record::Kept;
use pentarchy_protocols::pbft::{Decided, Message, Pbft};
use pentarchy_protocols::pillars::{self, Pillars, Record};
use std::collections::BTreeSet;

type Core = Pillars<Pbft>;
type Said = pillars::Message<Message>;

/// Replica 1 lacks a slot of the first pillar, so what the second one has ordered is not executed
/// there, and its client sends it there again. To the primary it is settled.
#[test]
fn what_is_executed_waits_no_more_however_late_that_is() {
    assert_eq!(waits(), (0, ""));
    let (waiting, reason) = mutant::with(Some("pillars.waits-for-ever"), waits);
    assert!(waiting > 0 && !reason.is_empty(), "{waiting} {reason:?}");
}

/// How many envelopes wait, and why another view is wanted, long after.
fn waits() -> (usize, &'static str) {
    let mut net = Net::<Core>::of_pillars(2, 4, &[], SLOW);
    let request = envelope(1, 1, 8);
    net.loses = |to, said| to == 1 && said.pillar == 0;
    net.order(0, &request);
    assert_eq!((net.status(0).committed, net.status(1).committed), (Slot(2), Slot(0)));
    net.request(1, &request);
    assert_eq!(net.status(1).waiting, 1);
    net.loses = |_, _| false;
    net.run(300);
    assert_eq!(net.status(1).committed, Slot(2));
    let waiting = net.status(1).waiting;
    net.run(3_000);
    (waiting, net.core(1).statuses()[1].reason)
}

/// What a replica says that was restarted with this state after a row, while in pillars, in their
/// order, these states are said to be stable.
fn restarted((row, mine): (u64, Digest), stable: &[(u64, Digest)]) -> Vec<Effect<Core>> {
    let net = Net::<Core>::of_pillars(2, 4, &[], Tuning::default());
    let record = |(pillar, (row, state)): (u8, &(u64, Digest))| {
        let signature = |id: u16| (ReplicaId(id), Signature([id as u8; 64]));
        let signatures = (0..3).map(signature).collect();
        let proof = CheckpointProof { slot: Slot(*row), state: *state, signatures };
        Record { pillar, inner: Pbft::<Decided>::kept(Kept::Stable(proof)) }
    };
    let executed = Base { slot: Slot(2 * row), state: mine };
    let setup = Setup {
        me: ReplicaId(1),
        membership: net.membership.clone(),
        fetch: None,
        memory: Memory::Durable { executed, records: Vec::new() },
        tuning: Tuning::default(),
    };
    let mut out = Effects::default();
    let core = Core::start(setup, &mut (0..).zip(stable).map(record), &mut out);
    core.assert_invariants();
    out.drain().collect()
}

/// The first state that it fetches.
fn fetched(said: Vec<Effect<Core>>) -> Option<(Slot, Digest)> {
    said.into_iter().find_map(|effect| match effect {
        Effect::Output(Output::Fetch { slot, state, .. }) => Some((slot, state)),
        _ => None,
    })
}

#[test]
fn a_state_that_is_not_the_vouched_one_is_fetched_also_after_a_restart() {
    let (mine, vouched) = (Digest([1; 32]), Digest([2; 32]));
    assert_eq!(fetched(restarted((64, vouched), &[(64, vouched)])), None);
    assert_eq!(fetched(restarted((64, mine), &[(64, vouched)])), Some((Slot(128), vouched)));
}

#[test]
fn a_state_that_is_not_here_is_fetched() {
    let (here, vouched) = ((0, Digest::default()), Digest([2; 32]));
    let first = || fetched(restarted(here, &[(64, vouched)]));
    assert_eq!(first(), Some((Slot(128), vouched)));
    assert_eq!(mutant::with(Some("pillars.state-not-here"), first), None);
}

fn stable(said: &[Effect<Core>]) -> Vec<Slot> {
    let slot = |effect: &Effect<Core>| match effect {
        Effect::Output(Output::Stable { slot, .. }) => Some(*slot),
        _ => None,
    };
    said.iter().filter_map(slot).collect()
}

/// Which pillars keep something again behind the last stable state, where the log is cut.
fn log_again(said: &[Effect<Core>]) -> BTreeSet<u8> {
    let is_stable = |effect: &Effect<Core>| matches!(effect, Effect::Output(Output::Stable { .. }));
    let cut = said.iter().rposition(is_stable).expect("one is stable");
    let kept = said[cut..].iter().filter_map(|effect| match effect {
        Effect::Persist(record) => Some(record.pillar),
        _ => None,
    });
    kept.collect()
}

/// Each time the host is told, all pillars write what they need once more.
#[test]
fn after_a_restart_the_host_is_told_of_one_stable_state() {
    let (first, second) = ((64, Digest([1; 32])), (128, Digest([2; 32])));
    assert_eq!(stable(&restarted(second, &[first, second])), [Slot(256)]);
    assert_eq!(stable(&restarted(second, &[second, first])), [Slot(256)]);
    assert_eq!(stable(&restarted(second, &[second, second])), [Slot(256)]);
    let again = || log_again(&restarted(second, &[first, second]));
    assert_eq!(again(), BTreeSet::from([0, 1]));
    assert_eq!(mutant::with(Some("pillars.others-not-kept-again"), again), BTreeSet::from([0]));
}

/// One pillar lags, and goes on behind row 64, so it drops what it was told of later states: it has
/// to be told again, to sign that of row 128 as often as others need it.
#[test]
fn a_pillar_that_lags_after_a_restart_knows_the_state_that_is_here() {
    let (first, second) = ((64, Digest([1; 32])), (128, Digest([2; 32])));
    let said = restarted(second, &[first, second]);
    let signs = |effect: &Effect<Core>| match effect {
        Effect::Send { message, .. } => match &*message.inner {
            Message::Shared(Shared::Checkpoint { slot: Slot(128), .. }) => Some(message.pillar),
            _ => None,
        },
        _ => None,
    };
    let signed: Vec<u8> = said.iter().filter_map(signs).collect();
    assert_eq!(signed, [0, 1, 0, 1], "when it starts, and where it goes on");
}

fn is_checkpoint(said: &Said) -> bool {
    matches!(&*said.inner, Message::Shared(Shared::Checkpoint { .. }))
}

/// Replica 1 lacks the third pillar's slots, and of the first pillar's checkpoints nobody hears.
/// What the second pillar is told to be stable is fetched: then the first one can sign it.
#[test]
fn who_asked_for_a_state_that_was_promised_is_told_when_it_is_here() {
    let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..Tuning::default() };
    let mut net = Net::<Core>::of_pillars(3, 4, &[], tuning);
    net.loses = |to, said| match said.pillar {
        0 => is_checkpoint(said),
        2 => to == 1 && !is_checkpoint(said),
        _ => false,
    };
    for number in 1..=8 {
        net.order(0, &envelope(2, number, 8));
    }
    net.run(500);
    assert_eq!((net.status(0).committed, net.status(1).committed), (Slot(24), Slot(2)));
    net.queue.clear();
    net.installed(1, Slot(24));
    assert_eq!(net.status(1).committed, Slot(24));
    let signed = net.queue.iter().any(|(from, _, said)| {
        let said = &said.message;
        let inner = &*said.inner;
        let is = matches!(inner, Message::Shared(Shared::Checkpoint { slot: Slot(8), .. }));
        *from == ReplicaId(1) && said.pillar == 0 && is
    });
    assert!(signed, "the first pillar signs the state after its slot 8");
}

/// A row that is stable in one pillar makes the others write their windows again, so it is told
/// when all have come to it: nearly always soon. One that does not come holds it up until the next
/// one.
#[test]
fn the_host_is_told_of_a_row_when_it_is_stable_in_all_pillars_or_another_one_is() {
    let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..Tuning::default() };
    let told = |loses, orders: u64| {
        let mut net = Net::<Core>::of_pillars(2, 4, &[], tuning);
        net.loses = loses;
        (1..=orders).for_each(|number| net.order(0, &envelope(1, number, 8)));
        net.nodes[1].stable.clone()
    };
    assert_eq!(told(|_, _| false, 4), [Slot(4), Slot(8)]);
    let one = mutant::with(Some("pillars.one-is-told"), || told(|_, _| false, 4));
    assert_eq!(one, [Slot(8)], "the second pillar was not told of any state");
    let silent: fn(u16, &Said) -> bool = |_, said| said.pillar == 0 && is_checkpoint(said);
    assert_eq!(told(silent, 3), []);
    assert_eq!(told(silent, 4), [Slot(8)]);
}

/// Replica 0 leads the first pillar, and 1 the second. What 0 proposes names an envelope that 1
/// does not get, so it cannot vote for it; but it has heard that others wait for its slot.
#[test]
fn a_primary_fills_what_it_has_heard_of_though_it_cannot_vote_for_it() {
    assert_eq!(fills(), Slot(2));
    assert_eq!(mutant::with(Some("pillars.fills-what-it-voted-for"), fills), Slot(1));
}

/// What others have executed soon after.
fn fills() -> Slot {
    let mut net = Net::<Core>::rotating(2, 4, &[], SLOW);
    net.loses = |to, said| {
        let inner = &*said.inner;
        to == 1 && matches!(inner, Message::Shared(Shared::Envelope(_) | Shared::Forward(_)))
    };
    let large = envelope(2, 1, 2 * ENVELOPE_INLINE_BYTES);
    [0, 2, 3].into_iter().for_each(|id| net.request(id, &large));
    net.run(50);
    assert_eq!(net.status(1).committed, Slot(0), "it lacks the envelope");
    net.status(2).committed
}

/// By the bytes of both pillars a checkpoint is due every second row. Replica 1 goes back to the
/// state after row 4. Replica 3 is silent, so the others need each other's signatures.
#[test]
fn who_goes_back_takes_checkpoints_by_bytes_where_others_do() {
    assert_eq!(goes_back(), [Slot(19), Slot(20)], "row 10");
    let elsewhere = mutant::with(Some("pillars.bytes-go-on"), goes_back);
    assert!(elsewhere[0] < Slot(19), "{elsewhere:?}");
    let stays = mutant::with(Some("pillars.stays-ahead"), goes_back);
    assert_eq!(stays, [], "the fifth row is not executed again");
}

/// What is stable at replica 1 in each pillar long after it went back.
fn goes_back() -> Vec<Slot> {
    let bytes = 600;
    let tuning = Tuning { checkpoint_bytes: 3 * bytes / 2, ..SLOW };
    let mut net = Net::<Core>::of_pillars(2, 4, &[3], tuning);
    let order = |net: &mut Net<Core>, number| {
        net.request(0, &envelope(2, number, bytes / 2));
        net.request(0, &envelope(1, number, bytes / 3));
        net.round(0);
        net.settle();
    };
    (1..=5).for_each(|number| order(&mut net, number));
    let rows = |net: &Net<Core>| -> Vec<Slot> {
        net.core(1).statuses().iter().map(|status| status.stable).collect()
    };
    assert_eq!(rows(&net), [Slot(7), Slot(8)], "row 4");
    net.installed(1, Slot(8));
    if net.status(1).committed < Slot(10) {
        return Vec::new();
    }
    (6..=10).for_each(|number| order(&mut net, number));
    rows(&net)
}

/// How long the second pillar's request takes, if who leads all three is gone, and whether it was
/// executed in so many milliseconds at all.
fn recovers_in(millis: u64) -> Option<u64> {
    let mut net = Net::<Core>::of_pillars(3, 4, &[0], SLOW);
    let request = envelope(2, 1, 8);
    (1..4).for_each(|id| net.request(id, &request));
    let has = |batch: &Batch| batch.envelopes.iter().any(|it| it.client == request.client);
    (1..=millis).find(|_| {
        net.millisecond();
        net.nodes[1].executed.iter().any(|(_, batch)| has(batch))
    })
}

/// All pillars change their views at the same time although nobody asks for anything in the others,
/// and not one after the other.
#[test]
fn the_end_of_a_primary_of_all_pillars_costs_one_timeout() {
    let timeout = Timeouts::default().millis(Delay::Request { doublings: 0 });
    let took = recovers_in(10 * timeout).expect("it is executed");
    assert!((timeout..2 * timeout).contains(&took), "{took} ms");
    let one_by_one = || recovers_in(2 * timeout);
    assert_eq!(mutant::with(Some("pillars.siblings-not-timed"), one_by_one), None);
}

/// Nobody gets what the primary proposes in the first pillar.
fn lacks_a_proposal(millis: u64) -> Slot {
    let mut net = Net::<Core>::of_pillars(2, 4, &[], SLOW);
    net.loses = |_, said| {
        said.pillar == 0 && matches!(&*said.inner, Message::PrePrepare { view: View(0), .. })
    };
    net.order(0, &envelope(1, 1, 8));
    net.run(millis);
    net.status(1).committed
}

#[test]
fn a_primary_that_leaves_a_gap_is_replaced_in_its_pillar() {
    let timeout = Timeouts::default().millis(Delay::Request { doublings: 0 });
    assert_eq!(lacks_a_proposal(2 * timeout), Slot(2));
    let untimed = || lacks_a_proposal(2 * timeout);
    assert_eq!(mutant::with(Some("frame.never-times-gaps"), untimed), Slot(0));
}

#[test]
fn what_nobody_asks_for_is_filled_at_once() {
    let executed = || {
        let mut net = Net::<Core>::of_pillars(3, 4, &[], SLOW);
        net.order(0, &envelope(3, 1, 8));
        net.order(0, &envelope(2, 1, 8));
        net.status(1).committed
    };
    assert_eq!(executed(), Slot(6), "two rows");
    assert_eq!(mutant::with(Some("pillars.gaps-not-filled"), executed), Slot(2));
}

/// Of the first pillar's checkpoints nobody hears, so its window is full when the second one goes
/// on.
#[test]
fn what_waits_for_a_pillar_whose_window_is_full_asks_for_nothing() {
    let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..SLOW };
    let mut net = Net::<Core>::of_pillars(2, 4, &[], tuning);
    net.loses = |_, said| said.pillar == 0 && is_checkpoint(said);
    (1..=9).for_each(|number| net.order(0, &envelope(1, number, 8)));
    assert_eq!(net.status(1).committed, Slot(16));
    net.run(3_000);
    assert_eq!(net.status(1).reason, "", "its primary is not to blame");
    net.loses = |_, _| false;
    net.run(1_000);
    assert_eq!(net.status(1).committed, Slot(18));
}
