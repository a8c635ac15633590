//! Schedules by hand of one liar, or of one client, against all protocols.

use crate::hand::{Group, Spoken, envelope};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::limits::WINDOW_SLOTS;
use pentarchy_core::protocol::{Protocol as _, Tuning};
use pentarchy_core::quorum::{ClientQuorums, Quorums};
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::Wire as _;
use pentarchy_protocols::minbft::{self, MinBft, Order};
use pentarchy_protocols::pbft::Pbft;
use std::sync::Arc;

/// The same batch with its one envelope inside, and by name.
fn forms(now: u64, envelope: &Arc<Envelope>) -> [Arc<Proposal>; 2] {
    let items = [Item::Whole(envelope.clone()), Item::Named(envelope.digest)];
    items.map(|item| Arc::new(Proposal::new(Millis(now), vec![item])))
}

fn others<P: Spoken>() -> Vec<u16> {
    (1..P::N as u16).collect()
}

/// The liar r0 has others decide a batch, and shows r2 another form of it under the same signature;
/// or it gives r2 that form when r2 lacks the batch. Then it falls silent.
fn another_form_halts_nobody<P: Spoken>(of_the_proposal: bool) {
    let mut group: Group<P> = Group::new(Some(0), Tuning::default());
    let first = envelope(1, 1, &[1], 8);
    let [whole, named] = forms(group.now, &first);
    assert_ne!(whole.digest(), named.digest());
    let others = others::<P>();
    let all_but_r2: Vec<u16> = others.iter().copied().filter(|id| *id != 2).collect();
    let genuine = group.say(0, &all_but_r2, P::propose(Slot(1), &whole));
    if of_the_proposal {
        let forged = group.forged(&genuine, P::propose(Slot(1), &named));
        group.queue.push_front((ReplicaId(0), ReplicaId(2), forged));
    }
    if let Some(commit) = P::commit(Slot(1), whole.digest()) {
        group.say(0, &others, commit);
    }
    for _ in 0..400 {
        if !of_the_proposal {
            group.say(0, &[2], P::body(&named));
        }
        group.run(5);
    }
    let second = envelope(2, 1, &[1], 8);
    group.insist(&second, 60);
    assert!(group.all_executed(&first) && group.all_executed(&second));
}

#[test]
fn another_form_of_a_proposal_halts_nobody() {
    another_form_halts_nobody::<MinBft>(true);
    another_form_halts_nobody::<Pbft>(true);
}

#[test]
fn another_form_of_a_body_halts_nobody() {
    another_form_halts_nobody::<MinBft>(false);
    another_form_halts_nobody::<Pbft>(false);
}

/// A liar names a small envelope that everybody holds; it is executed, and the power fails.
fn small_named_envelopes_survive_a_power_failure<P: Spoken>() {
    let mut group: Group<P> = Group::new(Some(0), Tuning::default());
    let first = envelope(1, 1, &[1], 8);
    let [_, named] = forms(group.now, &first);
    let others = others::<P>();
    group.say(0, &others, P::propose(Slot(1), &named));
    group.say(0, &others, P::envelope(&first));
    if let Some(commit) = P::commit(Slot(1), named.digest()) {
        group.say(0, &others, commit);
    }
    group.run(100);
    assert!(group.all_executed(&first));
    group.queue.clear();
    others.iter().for_each(|id| group.start(*id));
    let second = envelope(2, 1, &[1], 8);
    group.insist(&second, 60);
    assert!(group.all_executed(&first) && group.all_executed(&second));
}

#[test]
fn what_is_named_survives_a_power_failure_whatever_its_size() {
    small_named_envelopes_survive_a_power_failure::<MinBft>();
    small_named_envelopes_survive_a_power_failure::<Pbft>();
}

/// A liar proposes in every slot of the window, and each time names one envelope of a MiB. The last
/// correct replica is shown everything by itself.
fn one_envelope_in_every_slot<P: Spoken>(saves_nothing: bool) -> Group<P> {
    let mut group: Group<P> = Group::new(Some(0), Tuning::default());
    group.saves_nothing = saves_nothing;
    let large = envelope(1, 1, &[1], 1 << 20);
    let others = others::<P>();
    others.iter().for_each(|id| group.request(*id, &large));
    for slot in (1..=WINDOW_SLOTS).map(Slot) {
        let items = vec![Item::Named(large.digest)];
        let proposal = Arc::new(Proposal::new(Millis(group.now + slot.0), items));
        group.say(0, &others, P::propose(slot, &proposal));
        if let Some(commit) = P::commit(slot, proposal.digest()) {
            group.say(0, &others, commit);
        }
    }
    group.run(20);
    group
}

/// A log holds each envelope once, however many slots name it and however often it is cut.
fn a_log_holds_each_envelope_once<P: Spoken>() {
    let group = one_envelope_in_every_slot::<P>(false);
    for node in group.nodes.iter().filter(|node| node.core.is_some()) {
        let last = node.executed.last().expect("it executes").0;
        assert!(last > Slot(64) && node.cut > 0, "checkpoints became stable");
        let (bodies, headers) = (1 << 20, 512 * WINDOW_SLOTS as usize);
        assert!(node.log_bytes() <= 2 * (bodies + headers), "{}", node.log_bytes());
        let all: usize = node.log.iter().map(|record| record.to_bytes().len()).sum();
        let cuts = (last.0 as usize).div_ceil(12);
        assert!(all <= 2 * (cuts * bodies + headers), "{all} bytes in {cuts} logs");
    }
}

#[test]
fn a_primary_cannot_fill_a_log_with_one_envelope() {
    a_log_holds_each_envelope_once::<MinBft>();
    a_log_holds_each_envelope_once::<Pbft>();
}

/// A batch that names an envelope twice is refused by the ingress.
fn nothing_is_ordered_that_names_an_envelope_twice<P: Spoken>() {
    let mut group: Group<P> = Group::new(Some(0), Tuning::default());
    let twice = envelope(1, 1, &[1], 8);
    let others = others::<P>();
    others.iter().for_each(|id| group.request(*id, &twice));
    let items = vec![Item::Whole(twice.clone()), Item::Named(twice.digest)];
    let proposal = Arc::new(Proposal::new(Millis(group.now), items));
    group.say(0, &others, P::propose(Slot(1), &proposal));
    group.run(20);
    let votes = |kind| group.nodes[1].said.get(kind).copied().unwrap_or(0);
    assert_eq!(votes("prepare") + votes("commit"), 0);
    group.insist(&twice, 60);
    assert!(group.all_executed(&twice), "by another primary");
}

#[test]
fn a_batch_names_an_envelope_once() {
    nothing_is_ordered_that_names_an_envelope_twice::<MinBft>();
    nothing_is_ordered_that_names_an_envelope_twice::<Pbft>();
}

/// Nobody votes for more than a correct primary could have proposed before a checkpoint.
fn votes_stay_within_the_window<P: Spoken>(kind: &str) {
    let group = one_envelope_in_every_slot::<P>(true);
    for node in group.nodes.iter().filter(|node| node.core.is_some()) {
        assert_eq!(node.executed.len(), 24, "as many as WINDOW_BYTES are");
        assert_eq!(node.said[kind], 32, "and four batches in flight");
    }
}

#[test]
fn a_faulty_primary_cannot_have_more_voted_for_than_a_correct_one() {
    votes_stay_within_the_window::<MinBft>("commit");
    votes_stay_within_the_window::<Pbft>("prepare");
}

/// A client gives up a number with one request, and then has it proposed by another, a large one
/// that only the primary gets. It is executed before the proposal comes back to the primary.
fn a_client_that_takes_a_request_back_stops_nobody<P: Spoken>() {
    let mut group: Group<P> = Group::new(None, Tuning::default());
    group.nodes[0].disk_is_slow = true;
    group.request(0, &envelope(9, 10, &[10], 8));
    group.round(0);
    group.sync(0);
    let large = envelope(9, 1, &[1], 20_000);
    group.request(0, &large);
    group.round(0);
    group.settle_all();
    group.sync(0);
    group.nodes[0].disk_is_slow = false;
    let other = envelope(2, 1, &[1], 8);
    group.insist(&other, 3);
    assert!(group.all_executed(&other) && group.all_executed(&large));
    for node in &group.nodes {
        assert_eq!(node.core.as_ref().expect("correct").status().view, View(0));
    }
}

#[test]
fn a_request_that_is_taken_back_after_it_was_proposed_stops_nobody() {
    a_client_that_takes_a_request_back_stops_nobody::<MinBft>();
    a_client_that_takes_a_request_back_stops_nobody::<Pbft>();
}

/// The primary of view 1 wants to leave it, but a PREPARE of its own waits for the disk. Meanwhile
/// a checkpoint becomes stable and its log is cut; then it crashes. r0 has not heard of view 1, and
/// r2, who lies, says nothing any more.
#[test]
fn a_primary_that_crashes_while_it_waits_to_leave_goes_on() {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 16, ..Tuning::default() };
    let mut group: Group<MinBft> = Group::new(None, tuning);
    group.cut = [(0, 1), (0, 2), (1, 0), (2, 0)].into();
    group.insist(&envelope(1, 1, &[1], 8), 5);
    let status = |group: &Group<MinBft>, id: usize| {
        let core = group.nodes[id].core.as_ref().expect("it runs");
        (core.status().view, core.status().phase)
    };
    assert_eq!(status(&group, 1), (View(1), "normal"));
    for number in 2..=3 {
        group.request(1, &envelope(1, 1, &[number], 8));
        group.run(20);
    }
    // Nobody hears of the state after slot 4 at first.
    group.loses = &["checkpoint"];
    group.request(1, &envelope(1, 1, &[4], 8));
    group.run(20);
    group.nodes[1].disk_is_slow = true;
    group.request(1, &envelope(1, 1, &[5], 8));
    group.round(1);
    // What r0 asks for gets through, and nothing else that it says.
    group.cut.remove(&(0, 1));
    for id in [0, 2] {
        let ask = group.authenticated(id, MinBft::ask(View(2)));
        group.queue.push_back((ReplicaId(id), ReplicaId(1), ask));
    }
    group.settle_all();
    group.cut.insert((0, 1));
    assert_eq!(status(&group, 1), (View(2), "draining"));
    let before = group.nodes[1].cut;
    group.loses = &[];
    group.run(200);
    assert_eq!(status(&group, 1), (View(2), "draining"));
    assert!(group.nodes[1].cut > before, "the log is cut while it waits");
    group.nodes[2].core = None;
    group.queue.clear();
    group.start(1);
    group.cut.clear();
    let last = envelope(2, 1, &[1], 8);
    group.insist(&last, 60);
    assert!(group.all_executed(&last));
}

/// r2 decides a slot by what others said, and tells the client the result, while its own records of
/// that slot wait for the disk. Power fails there. The liar r1 and a replica that has not decided
/// yet must not be enough to have a query answered from the state before.
fn what_a_client_was_told_is_not_denied_after_a_crash<P: Spoken>(
    votes: &dyn Fn(Slot, Digest) -> Vec<(&'static [u16], P::Message)>,
) {
    let mut group: Group<P> = Group::new(Some(1), Tuning::default());
    let durable = group.nodes[2].log.len();
    group.nodes[2].disk_is_slow = true;
    let write = envelope(1, 1, &[1], 8);
    group.request(0, &write);
    group.round(0);
    group.settle_all();
    let proposal = Proposal::new(Millis(group.now), vec![Item::Whole(write.clone())]);
    for (to, message) in votes(Slot(1), proposal.digest()) {
        group.say(1, to, message);
        group.settle_all();
    }
    let tells = |id: &usize| *id == 1 || !group.nodes[*id].executed.is_empty();
    let (n, f) = (P::N, 1);
    let told = (0..n).filter(tells).count();
    // What was not synced is gone.
    group.nodes[2].log.truncate(durable);
    group.start(2);
    let denies = |id: &usize| {
        let node = &group.nodes[*id];
        *id == 1 || (node.executed.is_empty() && node.answers_from <= Slot(0))
    };
    let denying = (0..n).filter(denies).count();
    let ClientQuorums { replies, answers, .. } = P::RULES.client_quorums(Quorums { n, f });
    assert!(
        told < replies || denying < answers,
        "{told} said that the write is done, {denying} answer a query from before it"
    );
}

#[test]
fn minbft_what_a_client_was_told_is_not_denied_after_a_crash() {
    what_a_client_was_told_is_not_denied_after_a_crash::<MinBft>(&|slot, batch| {
        let commit = minbft::Message::Order(Order::Commit { view: View(0), slot, batch });
        vec![(&[2], commit)]
    });
}

#[test]
fn pbft_what_a_client_was_told_is_not_denied_after_a_crash() {
    use pentarchy_protocols::pbft::Message;
    what_a_client_was_told_is_not_denied_after_a_crash::<Pbft>(&|slot, batch| {
        let view = View(0);
        let vote = Message::Prepare { view, slot, batch };
        vec![(&[0, 2, 3], vote), (&[0, 2], Message::Commit { view, slot, batch })]
    });
}
