//! MinZyzzyva by hand: what is executed before it is final, and what becomes of it.

use crate::net::{Net, envelope};
use crate::swarm::factories;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;
use pentarchy_core::request::Envelope;
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::minzyzzyva::{Message, MinZyzzyva, Order};
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::run_options;
use std::sync::Arc;

fn ask_for(net: &mut Net<MinZyzzyva>, view: u64) {
    for id in 0..3 {
        let ask = Message::Shared(Shared::RequestViewChange { view: View(view) });
        let ask = net.authentic(id, ask);
        net.pass_on(id, &[0, 1, 2], &ask);
    }
}

fn executed(net: &Net<MinZyzzyva>, id: u16) -> Vec<Arc<Envelope>> {
    let batches = net.nodes[usize::from(id)].executed.iter();
    batches.flat_map(|(_, batch)| batch.envelopes.iter().cloned()).collect()
}

fn is_commit(message: &Message) -> bool {
    matches!(message, Message::Order(Order::Commit { .. }))
}

/// All have executed a request, and nobody has committed to it: its client is done with three equal
/// answers. Then the view changes, without the primary. Whether all have it still, and had it all
/// the time.
fn all_executed() -> bool {
    let mut net = Net::<MinZyzzyva>::new(3, &[], Tuning::default());
    net.loses = |_, message| is_commit(message);
    net.request(0, &envelope(1, 1, 8));
    net.round(0);
    (0..3).for_each(|_| net.millisecond());
    assert!((0..3).all(|id| executed(&net, id).len() == 1), "all answered");
    assert!((1..3).all(|id| !net.nodes[id].sent.contains_key("commit")), "nobody committed");
    ask_for(&mut net, 1);
    for _ in 0..100 {
        net.queue.retain(|(from, to, _)| from.0 != 0 && to.0 != 0);
        net.millisecond();
    }
    net.loses = |_, _| false;
    net.run(1_000);
    assert!((0..3).all(|id| net.status(id).view >= View(1)));
    assert!((0..3).all(|id| executed(&net, id).first() == Some(&envelope(1, 1, 8))));
    net.nodes.iter().all(|node| node.taken_back == 0)
}

#[test]
fn what_all_executed_stays_though_nobody_committed_to_it() {
    assert!(all_executed());
    assert!(!mutant::with(Some("usig.shows-commitments-only"), all_executed));
}

/// Only the primary executed what it ordered. The others go on without it, and it takes that back.
/// What it took back waits again, though nobody asks again. How much is ordered in the end.
fn executed_alone() -> usize {
    let mut net = Net::<MinZyzzyva>::new(3, &[], Tuning::default());
    net.order(0, &envelope(1, 1, 8));
    net.request(0, &envelope(2, 1, 8));
    net.round(0);
    assert_eq!(executed(&net, 0).len(), 2, "it executes at once");
    ask_for(&mut net, 1);
    net.request(1, &envelope(3, 1, 8));
    for _ in 0..200 {
        net.queue.retain(|(from, to, _)| from.0 != 0 && to.0 != 0);
        net.millisecond();
    }
    assert_eq!(executed(&net, 1), [envelope(1, 1, 8), envelope(3, 1, 8)]);
    net.run(2_000);
    for id in 0..3 {
        assert_eq!(executed(&net, id), executed(&net, 1), "r{id}: {:?}", net.status(id));
        assert_eq!(net.status(id).committed.0, executed(&net, id).len() as u64, "final at rest");
    }
    executed(&net, 1).len()
}

#[test]
fn what_one_executed_alone_is_taken_back_and_waits_again() {
    assert_eq!(executed_alone(), 3);
    assert_eq!(mutant::with(Some("frame.taken-back-and-forgotten"), executed_alone), 2);
}

/// With f + 1 of 2f + 1 replicas everything becomes final that a tick finds at rest.
#[test]
fn what_rests_becomes_final_without_the_third() {
    let run = || {
        let mut net = Net::<MinZyzzyva>::new(3, &[2], Tuning::default());
        net.request(0, &envelope(1, 1, 8));
        net.round(0);
        net.run(1_000);
        (0..2).map(|id| net.status(id).committed.0).collect::<Vec<_>>()
    };
    assert_eq!(run(), [1, 1]);
    assert_eq!(mutant::with(Some("minzyzzyva.rests-unsettled"), run), [0, 0]);
}

/// A replica has a state from elsewhere, and nobody has told it yet that it is stable, when the
/// view changes. What a state holds is final, so the view takes none of it back, though this
/// replica cannot tell what the slots up to there ordered.
#[test]
fn a_state_from_elsewhere_stays_when_the_view_changes() {
    let tuning = Tuning { checkpoint_slots: 4, window_slots: 16, ..Tuning::default() };
    let mut net = Net::<MinZyzzyva>::new(3, &[], tuning);
    net.loses = |to, message| {
        let is_vote = matches!(message, Message::Shared(Shared::Checkpoint { .. }));
        to == 2 || is_vote
    };
    for number in 1..=4 {
        net.order(0, &envelope(1, number, 8));
    }
    net.loses = |_, message| is_proof(message);
    net.installed(2, Slot(4));
    ask_for(&mut net, 1);
    net.run(1_000);
    assert!((0..3).all(|id| net.status(id).view == View(1)));
    net.request(1, &envelope(1, 5, 8));
    net.run(200);
    assert_eq!(executed(&net, 2), [envelope(1, 5, 8)], "{:?}", net.status(2));
    assert!((0..3).all(|id| net.status(id).committed == Slot(5)));
}

const fn is_proof(message: &Message) -> bool {
    matches!(message, Message::Shared(Shared::Checkpoint { .. } | Shared::Stable(_)))
}

/// A replica that lags is told of one proven state after the other, and gets the second while it
/// knows of the third. What it executes behind that has to be shown when the view changes, so its
/// window begins there at once.
#[test]
fn a_state_that_was_asked_for_is_proven() {
    let run = || {
        let tuning = Tuning { checkpoint_slots: 4, window_slots: 16, ..Tuning::default() };
        let mut net = Net::<MinZyzzyva>::new(3, &[], tuning);
        for number in 1..=12 {
            net.loses = |to, _| to == 2;
            net.order(0, &envelope(1, number, 8));
            if number % 4 == 0 {
                net.loses = |to, message| to == 2 && matches!(message, Message::Order(_));
                net.run(400);
            }
        }
        assert_eq!(net.status(2).stable, Slot(4), "it waits for that state");
        net.installed(2, Slot(8));
        net.status(2).stable
    };
    assert_eq!(run(), Slot(8));
    assert_eq!(mutant::with(Some("frame.installed-without-proof"), run), Slot(4));
}

/// A replica came back to a state that nobody proves to it. It executes nothing behind that which
/// it could not show, until somebody does.
#[test]
fn nothing_is_executed_behind_a_hole() {
    let run = || {
        let tuning = Tuning { checkpoint_slots: 4, window_slots: 16, ..Tuning::default() };
        let mut net = Net::<MinZyzzyva>::new(3, &[], tuning);
        net.loses = |to, message| to == 2 || is_proof(message);
        for number in 1..=4 {
            net.order(0, &envelope(1, number, 8));
        }
        net.loses = |_, message| is_proof(message);
        net.installed(2, Slot(4));
        net.order(0, &envelope(1, 5, 8));
        let before = executed(&net, 2).len();
        net.loses = |_, _| false;
        net.run(1_000);
        assert_eq!(net.status(2).committed, Slot(5), "{:?}", net.status(2));
        before
    };
    assert_eq!(run(), 0);
    assert_eq!(mutant::with(Some("minzyzzyva.executes-behind-a-hole"), run), 1);
}

/// A replica is dead, so that clients say to the others what makes results final. Now and then one
/// does so in the very round in which the next configuration begins.
#[test]
fn what_a_client_said_before_a_switch_goes_to_no_core_of_another_protocol() {
    let world = "n=3 f=1 clients=8 requests_each=400 think_us=8000 checkpoint=64 window=256 \
        batch=1 in_flight=4 latency_us=20 jitter_us=50 round_us=150 keys=1 values=2 writers=1 \
        heal_at_us=4000000 administrators=1 at=10:crash(r2) at=1000:switch(0)";
    let run = |seed| {
        let options = world.parse().expect("a world");
        run_options(seed, options, &factories("minzyzzyva"), Rng::new(seed), None)
    };
    let switched =
        |seed| run(seed).unwrap_or_else(|violation| panic!("{violation}")).configurations;
    assert!((0..8).map(switched).sum::<u64>() >= 3);
}
