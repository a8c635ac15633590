//! MinZyzzyva by hand: a replica installs a state that says nothing of the view that it is in.

use crate::net::{Net, envelope};
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Tuning;
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::minzyzzyva::{Message, MinZyzzyva, Order, ViewChange};
use std::sync::Arc;

/// Six large batches make a checkpoint, and twelve small ones make none.
const TUNING: Tuning = Tuning {
    checkpoint_slots: 64,
    checkpoint_bytes: 12_000,
    window_slots: 256,
    batch_requests: 16,
    proposals_in_flight: 1,
    interleaving: 0,
};

/// A checkpoint behind eight slots.
const FEW: Tuning = Tuning { checkpoint_slots: 8, window_slots: 32, ..TUNING };

const LARGE: usize = 2_000;
const SMALL: usize = 8;

fn state_after(slot: u64) -> Digest {
    Digest::of(&slot.to_le_bytes())
}

/// The proof of a state, signed by r0 and r2.
fn stable(slot: u64) -> Message {
    let signatures = [0, 2].map(|id| (ReplicaId(id), Signature([id as u8; 64]))).to_vec();
    let proof = CheckpointProof { slot: Slot(slot), state: state_after(slot), signatures };
    Message::Shared(Shared::Stable(proof))
}

/// r1 and r2 hear nothing of each other for so long.
fn apart(net: &mut Net<MinZyzzyva>, millis: u64) {
    for _ in 0..millis {
        net.queue.retain(|(from, to, _)| from.0 == 0 || to.0 == 0);
        net.millisecond();
    }
    net.queue.retain(|(from, to, _)| from.0 == 0 || to.0 == 0);
}

/// r0 and the primary of a view, which is not connected to the third replica, open that view, which
/// takes nothing over: r0 shows that it committed to nothing.
fn open(net: &mut Net<MinZyzzyva>, view: u64) {
    let primary = view as u16;
    for id in [0, primary] {
        let ask =
            net.authentic(id, Message::Shared(Shared::RequestViewChange { view: View(view) }));
        net.pass_on(id, &[primary], &ask);
    }
    let asked = |id: u16| (ReplicaId(id), (View(view), Signature([id as u8; 64])));
    let change = ViewChange {
        view: View(view),
        requests: vec![asked(0), asked(primary)],
        checkpoint: CheckpointProof::initial(Base::default()),
        entry: None,
        prepares: Vec::new(),
    };
    net.say(0, &[primary], Message::ViewChange(Arc::new(change)));
    let mut opening = None;
    for _ in 0..5 {
        // What the primary asks comes back to it.
        net.queue.retain(|(from, to, _)| from.0 == 0 || to.0 == 0 || from == to);
        let sent = net.queue.iter().find(|(.., it)| matches!(&*it.message, Message::NewView(_)));
        opening = opening.or(sent.map(|(.., it)| it.digest));
        net.millisecond();
    }
    let opening = opening.expect("the primary opens its view");
    net.say(0, &[primary], Message::Acknowledge { view: View(view), opening });
    apart(net, 3);
    assert_eq!((net.status(primary).view, net.status(primary).phase), (View(view), "normal"));
    if view == 2 {
        net.say(0, &[2], Message::Enter { view: View(2), opening });
    }
}

/// r1 leads view 1 and executes twelve small batches, of which r0 commits to nothing. r2 leads view
/// 2, which has nothing of them, and 36 large ones become final there, with a checkpoint after each
/// six. r1 hears of the first checkpoint, goes back, and wants the state of it.
fn two_views_in_the_same_slots() -> Net<MinZyzzyva> {
    let mut net = Net::<MinZyzzyva>::durable(3, &[0], TUNING);
    open(&mut net, 1);
    for number in 1..=12 {
        net.request(1, &envelope(1, number, SMALL));
        apart(&mut net, 2);
    }
    assert_eq!(net.nodes[1].executed.len(), 12);
    open(&mut net, 2);
    for number in 1..=36 {
        net.request(2, &envelope(2, number, LARGE));
        apart(&mut net, 2);
        if number % 6 == 0 {
            let (slot, batch) = net.nodes[2].executed.last().expect("it executes").clone();
            let (view, batch) = (View(2), batch.digest);
            net.say(0, &[2], Message::Order(Order::Commit { view, slot, batch }));
            let state = state_after(slot.0);
            net.say(0, &[2], Message::Shared(Shared::Checkpoint { slot, state }));
            apart(&mut net, 2);
        }
    }
    assert_eq!((net.status(2).committed, net.status(2).stable), (Slot(36), Slot(36)));
    assert!((1..=12).all(|slot| batch(&net, 1, slot) != batch(&net, 2, slot)));
    net.say(0, &[1], stable(6));
    apart(&mut net, 200);
    assert_eq!((net.status(1).stable, net.nodes[1].executed.len()), (Slot(6), 0));
    net
}

fn batch(net: &Net<MinZyzzyva>, id: usize, slot: usize) -> Digest {
    net.nodes[id].executed[slot - 1].1.digest
}

/// How often r1 says that what view 1 has in slot 8 is final.
fn confirmed(mut net: Net<MinZyzzyva>) -> usize {
    assert_eq!((net.status(1).view, net.status(1).stable), (View(1), Slot(6)));
    assert_eq!(net.status(1).phase, "normal", "it does not know that view 1 was left");
    for _ in 0..3 {
        let settle = Message::Settle { view: View(1), slot: Slot(8) };
        net.says(&envelope(1, 8, SMALL), 1, settle);
        apart(&mut net, 20);
    }
    net.nodes[1].confirmed.len()
}

/// r0 tells r1 of one later checkpoint after the other, so that r1 drops the proof of the second
/// one, and then has it install that one.
fn proof_is_dropped() -> usize {
    let mut net = two_views_in_the_same_slots();
    for slot in [12, 18, 24, 30, 36] {
        net.say(0, &[1], stable(slot));
        apart(&mut net, 1);
    }
    net.installed(1, Slot(12));
    confirmed(net)
}

/// r1 has saved the state after slot 12, and crashes before it has logged who vouches for that.
fn proof_is_not_logged() -> usize {
    let mut net = two_views_in_the_same_slots();
    net.resume(1, Base { slot: Slot(12), state: state_after(12) }, TUNING);
    confirmed(net)
}

/// The state is final. What view 1 ordered in its slots is not: view 2 ordered something else.
#[test]
fn a_state_does_not_make_final_what_an_older_view_ordered() {
    let bug = Some("minzyzzyva.installed-state-proves-order");
    assert_eq!([proof_is_dropped(), proof_is_not_logged()], [0, 0]);
    assert_eq!([proof_is_dropped, proof_is_not_logged].map(|run| mutant::with(bug, run)), [3, 3]);
}

const fn is_proof(message: &Message) -> bool {
    matches!(message, Message::Shared(Shared::Checkpoint { .. } | Shared::Stable(_)))
}

const fn is_commit(message: &Message) -> bool {
    matches!(message, Message::Order(Order::Commit { .. }))
}

/// r2 was away while eight slots were ordered. It installs the state behind them, and is shown the
/// PREPAREs. Nobody proves the state to it.
fn is_shown_the_order(loses: fn(u16, &Message) -> bool) -> Net<MinZyzzyva> {
    let mut net = Net::<MinZyzzyva>::new(3, &[], FEW);
    net.loses = |to, message| to == 2 || is_proof(message);
    (1..=8).for_each(|number| net.order(0, &envelope(1, number, SMALL)));
    net.loses = loses;
    net.installed(2, Slot(8));
    net.run(400);
    assert_eq!((net.status(2).stable, net.status(2).committed), (Slot(0), Slot(8)));
    net
}

/// It commits as the others do. When the view changes it shows that, or nobody would go on with it.
fn goes_on_without_the_primary() -> bool {
    let mut net = is_shown_the_order(|_, message| is_proof(message));
    assert!(net.nodes[2].sent.contains_key("commit"));
    leaves_without_the_primary(&mut net)
}

/// r1 and r2 ask for view 1, and hear nothing of r0. Whether they come to work there.
fn leaves_without_the_primary(net: &mut Net<MinZyzzyva>) -> bool {
    for id in 1..3 {
        let ask = net.authentic(id, Message::Shared(Shared::RequestViewChange { view: View(1) }));
        net.pass_on(id, &[1, 2], &ask);
    }
    for _ in 0..300 {
        net.queue.retain(|(from, to, _)| from.0 != 0 && to.0 != 0);
        net.millisecond();
    }
    (1..3).all(|id| (net.status(id).view, net.status(id).phase) == (View(1), "normal"))
}

#[test]
fn what_is_committed_to_below_an_installed_state_is_shown() {
    assert!(goes_on_without_the_primary());
    let bug = Some("minzyzzyva.commits-to-what-it-hides");
    let hides = move || mutant::with(bug, goes_on_without_the_primary);
    let is_well = std::thread::spawn(hides).join();
    assert!(!is_well.unwrap_or(false), "it stops at the assertion, or nobody goes on with it");
}

/// r2 executes another slot behind the state, commits to it, and crashes. Then the others need it
/// to come to view 1 without the primary.
fn goes_on_after_a_crash_behind_a_state() -> bool {
    let mut net = Net::<MinZyzzyva>::durable(3, &[], FEW);
    net.loses = |to, message| to == 2 || is_proof(message);
    (1..=8).for_each(|number| net.order(0, &envelope(1, number, SMALL)));
    // It is shown the PREPAREs, and has no reason yet to commit to them.
    net.loses = |_, message| is_proof(message) || is_commit(message);
    net.installed(2, Slot(8));
    net.run(70);
    assert!(!net.nodes[2].sent.contains_key("commit"));
    net.loses = |_, message| is_proof(message);
    net.order(0, &envelope(1, 9, SMALL));
    net.run(100);
    assert_eq!(net.nodes[2].executed.last().map(|(slot, _)| *slot), Some(Slot(9)));
    assert!(net.nodes[2].sent.contains_key("commit"), "it commits to slot 9");
    net.resume(2, Base { slot: Slot(8), state: state_after(8) }, FEW);
    leaves_without_the_primary(&mut net)
}

#[test]
fn what_led_to_an_installed_state_is_kept_before_more_is_executed() {
    assert!(goes_on_after_a_crash_behind_a_state());
    let bug = Some("minzyzzyva.executes-before-taking-up");
    let forgets = move || mutant::with(bug, goes_on_after_a_crash_behind_a_state);
    let is_well = std::thread::spawn(forgets).join();
    assert!(!is_well.unwrap_or(false), "nobody goes on with what it can show");
}

/// A client asks whether what was ordered below the state is final. It is told as soon as enough
/// have committed to that in this view: r2 does, as it is asked, and its primary did.
#[test]
fn below_an_installed_state_commitments_of_its_view_prove_the_order() {
    let mut net = is_shown_the_order(|_, message| is_proof(message) || is_commit(message));
    let settle = Message::Settle { view: View(0), slot: Slot(5) };
    net.says(&envelope(1, 5, SMALL), 2, settle);
    let slots: Vec<Slot> = net.nodes[2].confirmed.iter().map(|place| place.slot).collect();
    assert_eq!(slots, [Slot(5)]);
}
