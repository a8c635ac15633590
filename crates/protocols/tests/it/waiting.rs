//! Waiting for what was executed to become final, by hand, in protocols that execute before that.

use crate::net::{Net, envelope};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Epoch, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Place;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Protocol, Timeouts, Tuning};
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::minzyzzyva::{Message, MinZyzzyva, Order};
use pentarchy_protocols::pbft::TentativePbft;
use pentarchy_protocols::zyzzyva::{self, Zyzzyva};

/// The same is ordered in slot 2 and view 0 by an epoch that ordered something before it, and by
/// the next epoch, which began behind slot 1. On what clients are told that results of it rest.
fn in_two_epochs<P: Protocol<Input = Input, Output = Output>>() -> [Place; 2] {
    let base = Base { slot: Slot(1), state: Digest::of(b"the last state") };
    [(Epoch(0), Base::default()), (Epoch(1), base)].map(|begins| {
        let mut net = Net::<P>::in_epoch(begins, 4, &[], Tuning::default());
        let primary = begins.0.0 as u16;
        if begins.0 == Epoch(0) {
            net.order(primary, &envelope(2, 1, 8));
        }
        net.order(primary, &envelope(1, 1, 8));
        *net.nodes[3].places.last().expect("it told a client")
    })
}

/// A client that added up an answer of one epoch and others of the next would rely on something
/// that fewer replicas executed than it takes. Zyzzyva's histories begin with the epoch's base.
#[test]
fn a_place_names_its_epoch() {
    let bug = Some("frame.places-of-any-epoch");
    for run in [in_two_epochs::<MinZyzzyva>, in_two_epochs::<TentativePbft>] {
        let [first, second] = run();
        assert_eq!((first.view, first.slot), (second.view, second.slot));
        assert_ne!(first, second);
        let [first, second] = mutant::with(bug, run);
        assert_eq!(first, second);
    }
    let [first, second] = in_two_epochs::<Zyzzyva>();
    assert_eq!((first.view, first.slot), (second.view, second.slot));
    assert_ne!(first, second);
}

const fn is_commit(message: &Message) -> bool {
    matches!(message, Message::Order(Order::Commit { .. }))
}

fn ask_for(net: &mut Net<MinZyzzyva>, from: &[u16], view: u64) {
    for id in from {
        let ask = Message::Shared(Shared::RequestViewChange { view: View(view) });
        net.say(*id, &[0, 1, 2, 3, 4], ask);
    }
}

fn asks(net: &Net<MinZyzzyva>, id: usize) -> usize {
    net.nodes[id].sent.get("request_view_change").copied().unwrap_or_default()
}

/// A backup does not hear in time that what a client waits for is final, and asks for another view.
/// Then it hears it. Seconds later another one asks, for its own reasons: whether the two get what
/// neither wants any more.
#[test]
fn what_becomes_final_late_is_no_reason_to_leave_later() {
    let run = || {
        let mut net = Net::<MinZyzzyva>::new(5, &[], Tuning::default());
        net.loses = |to, message| to == 1 && is_commit(message);
        let request = envelope(1, 1, 8);
        net.order(0, &request);
        net.says(&request, 1, Message::Settle { view: View(0), slot: Slot(1) });
        net.run(Timeouts::default().request_ms + 10);
        assert_eq!((asks(&net, 1), net.status(1).committed), (4, Slot(0)));
        net.loses = |_, _| false;
        for number in 2..60 {
            // What others asked is forgotten by ticks, which there are while something goes on.
            net.order(0, &envelope(1, number, 8));
            net.run(60);
        }
        assert!(net.status(1).committed >= Slot(50));
        ask_for(&mut net, &[2], 1);
        net.run(200);
        net.status(1).view
    };
    assert_eq!(run(), View(0));
    let broken = || mutant::with(Some("frame.objection-outlives-reason"), run);
    assert!(std::panic::catch_unwind(broken).is_err(), "it asks on, and an assertion fails");
}

/// Something is waited for in vain for almost as long as a view has for it. Then the next view
/// begins, and has as long again.
#[test]
fn the_next_view_has_time_to_make_final_what_is_waited_for() {
    let run = || {
        let mut net = Net::<MinZyzzyva>::new(5, &[], Tuning::default());
        net.loses = |to, message| {
            to == 2 && (is_commit(message) || matches!(message, Message::Enter { .. }))
        };
        let request = envelope(1, 1, 8);
        net.order(0, &request);
        net.says(&request, 2, Message::Settle { view: View(0), slot: Slot(1) });
        net.run(Timeouts::default().request_ms - 20);
        assert_eq!(asks(&net, 2), 0);
        ask_for(&mut net, &[0, 1], 1);
        net.run(60);
        assert_eq!((net.status(2).view, net.status(2).phase), (View(1), "normal"));
        (asks(&net, 2) > 0, net.status(2).committed)
    };
    assert_eq!(run(), (false, Slot(0)), "it heard of nobody who entered");
    assert!(mutant::with(Some("frame.waits-on-over-views"), run).0);
    assert_eq!(mutant::with(Some("minzyzzyva.taken-over-is-final"), run).1, Slot(1));
}

/// Clients with something in a slot, and with nothing there, want a backup of MinZyzzyva to make it
/// final, and one of Zyzzyva to sign it. For whom they do.
#[test]
fn who_has_nothing_in_a_slot_cannot_wait_for_it() {
    let settled = |client: u8| {
        let mut net = Net::<MinZyzzyva>::new(3, &[], Tuning::default());
        net.order(0, &envelope(1, 1, 8));
        let settle = Message::Settle { view: View(0), slot: Slot(1) };
        net.says(&envelope(client, 1, 8), 1, settle);
        net.settle();
        net.nodes[1].sent.contains_key("commit") && !net.nodes[1].told.is_empty()
    };
    let vouched = |client: u8| {
        let mut net = Net::<Zyzzyva>::new(4, &[], Tuning::default());
        net.order(0, &envelope(1, 1, 8));
        let vouch = zyzzyva::Message::Vouch { view: View(0), slot: Slot(1) };
        net.says(&envelope(client, 1, 8), 1, vouch);
        !net.nodes[1].told.is_empty()
    };
    assert_eq!([1, 2].map(settled), [true, false]);
    assert_eq!([1, 2].map(vouched), [true, false]);
    let bug = Some("frame.anybody-may-wait");
    assert!(mutant::with(bug, || settled(2)) && mutant::with(bug, || vouched(2)));
}

/// Four clients have something in a slot, and so many of them find that not all answer; then others
/// do of whom that slot has nothing. Whether a backup executes the next slot, of `clients`, without
/// telling them at once, and who is told behind it that it keeps a certificate.
fn doubted(by: &[u8], clients: &[u8], tuning: Tuning) -> (bool, Vec<ClientId>) {
    let mut net = Net::<Zyzzyva>::new(4, &[], tuning);
    (1..=4).for_each(|client| net.request(0, &envelope(client, 1, 8)));
    net.round(0);
    net.settle();
    assert_eq!((net.nodes[1].executed.len(), &net.nodes[1].answered[..]), (1, &[Slot(1)][..]));
    for client in by {
        let vouch = zyzzyva::Message::Vouch { view: View(0), slot: Slot(1) };
        (0..4).for_each(|id| net.says(&envelope(*client, 1, 8), id, vouch.clone()));
    }
    net.settle();
    net.nodes[1].told.clear();
    clients.iter().for_each(|client| net.request(0, &envelope(*client, 2, 8)));
    net.round(0);
    while net.nodes[1].executed.len() < 2 {
        net.deliver();
    }
    let is_late = net.nodes[1].answered.len() < 2;
    net.settle();
    assert_eq!(net.nodes[1].answered, [Slot(1), Slot(2)]);
    (is_late, net.nodes[1].told.clone())
}

/// Replicas certify what they execute, before they tell its clients, while clients find that not
/// all answer: half of those of a slot. One alone, or clients that the slot has nothing of, have
/// them do nothing.
#[test]
fn replicas_commit_by_themselves_if_half_of_the_clients_doubt() {
    let told_behind = |by: &[u8], tuning| {
        let (is_late, told) = doubted(by, &[1, 2], tuning);
        assert_eq!(told.len(), if is_late { 2 } else { 0 });
        let (is_late_alone, told_alone) = doubted(by, &[1], tuning);
        assert!(!is_late_alone, "all may answer a client that is alone");
        assert_eq!(told_alone.len(), usize::from(is_late));
        is_late
    };
    let told = |by: &[u8]| told_behind(by, Tuning::default());
    assert_eq!(
        [told(&[1]), told(&[1, 1]), told(&[1, 2]), told(&[5, 6])],
        [false, false, true, false]
    );
    // Clients that are far away find it when the slot is behind a stable checkpoint.
    let late = |by: &[u8]| told_behind(by, Tuning { checkpoint_slots: 1, ..Tuning::default() });
    assert_eq!(
        [late(&[1]), late(&[1, 1]), late(&[1, 2]), late(&[5, 6])],
        [false, false, true, false]
    );
    assert!(mutant::with(Some("zyzzyva.one-doubt-is-enough"), || told(&[1])));
    assert!(mutant::with(Some("frame.anybody-may-wait"), || told(&[5, 6])));
}

/// As above, and all votes for the next slot are lost: its clients are told without a certificate.
#[test]
fn nobody_waits_for_a_certificate_that_does_not_come() {
    let mut net = Net::<Zyzzyva>::new(4, &[], Tuning::default());
    net.order(0, &envelope(1, 1, 8));
    let vouch = zyzzyva::Message::Vouch { view: View(0), slot: Slot(1) };
    (0..4).for_each(|id| net.says(&envelope(1, 1, 8), id, vouch.clone()));
    net.settle();
    net.loses = |_, message| matches!(message, zyzzyva::Message::Vote(_));
    net.request(0, &envelope(2, 1, 8));
    net.order(0, &envelope(1, 2, 8));
    assert_eq!((net.nodes[1].executed.len(), &net.nodes[1].answered[..]), (2, &[Slot(1)][..]));
    net.run(60);
    assert_eq!(net.nodes[1].answered, [Slot(1), Slot(2)]);
}

/// A replica executed up to a checkpoint, and told clients. It hears that the state there is stable
/// and not what became final, so it goes back to fetch it. Until it is as far again its state is no
/// answer to a query: a client may rely on what it told.
#[test]
fn who_goes_back_answers_no_query_from_before() {
    let run = || {
        let tuning = Tuning { checkpoint_slots: 4, window_slots: 16, ..Tuning::default() };
        let mut net = Net::<MinZyzzyva>::new(5, &[], tuning);
        net.loses = |to, message| to == 2 && is_commit(message);
        for number in 1..=4 {
            net.order(0, &envelope(1, number, 8));
        }
        assert_eq!(net.nodes[2].executed.len(), 4);
        net.run(400);
        (net.nodes[2].executed.len(), net.nodes[2].answers_from)
    };
    assert_eq!(run(), (0, Slot(4)), "it went back to where it knows that all is final");
    assert_eq!(mutant::with(Some("frame.answers-having-gone-back"), run), (0, Slot(0)));
    assert_eq!(mutant::with(Some("minzyzzyva.own-state-taken-for-stable"), run).0, 4);
}

/// A client asks one backup of four to settle its slot. The others commit as it does, at once.
#[test]
fn others_commit_with_who_is_asked() {
    let run = || {
        let mut net = Net::<MinZyzzyva>::new(5, &[], Tuning::default());
        let request = envelope(1, 1, 8);
        net.order(0, &request);
        net.says(&request, 1, Message::Settle { view: View(0), slot: Slot(1) });
        net.settle();
        net.nodes[1].told.len()
    };
    assert_eq!(run(), 1);
    assert_eq!(mutant::with(Some("minzyzzyva.commits-alone"), run), 0);
}

/// Two of five are down. A backup that waits behind a checkpoint until that is final hears that
/// another one committed to a later slot, and only then what that slot orders. Nobody else is going
/// to commit, and the other one committed to the checkpoint's slot by this.
#[test]
fn an_order_that_comes_behind_a_commitment_to_it_makes_it_count() {
    let run = || {
        let tuning = Tuning { checkpoint_slots: 2, window_slots: 8, ..Tuning::default() };
        let mut net = Net::<MinZyzzyva>::new(5, &[3, 4], tuning);
        net.loses = |to, message| to == 1 && is_commit(message);
        (1..3).for_each(|number| net.order(0, &envelope(1, number, 8)));
        assert_eq!((net.status(1).committed, net.status(2).committed), (Slot(0), Slot(2)));
        net.loses =
            |to, message| to == 1 && matches!(message, Message::Order(Order::Prepare { .. }));
        let third = envelope(1, 3, 8);
        net.order(0, &third);
        net.says(&third, 2, Message::Settle { view: View(0), slot: Slot(3) });
        net.settle();
        assert_eq!(net.status(1).committed, Slot(0));
        net.loses = |_, _| false;
        net.run(Timeouts::default().request_ms * 4);
        net.status(1).committed
    };
    assert_eq!(run(), Slot(3));
    let bug = Some("minzyzzyva.late-orders-complete-nothing");
    assert_eq!(mutant::with(bug, run), Slot(0));
}

/// Two of five committed, and a liar did to something else.
#[test]
fn a_commitment_to_something_else_makes_nothing_final() {
    let run = || {
        let mut net = Net::<MinZyzzyva>::new(5, &[4], Tuning::default());
        net.loses = |to, message| {
            let other = |batch: &Digest| *batch != Digest::default();
            let Message::Order(Order::Commit { batch, .. }) = message else { return false };
            to == 1 && other(batch)
        };
        let request = envelope(1, 1, 8);
        net.order(0, &request);
        net.says(&request, 1, Message::Settle { view: View(0), slot: Slot(1) });
        let (view, slot, batch) = (View(0), Slot(1), Digest::default());
        net.say(4, &[1], Message::Order(Order::Commit { view, slot, batch }));
        net.settle();
        net.status(1).committed
    };
    assert_eq!(run(), Slot(0));
    assert_eq!(mutant::with(Some("minzyzzyva.commitments-to-anything-count"), run), Slot(1));
}
