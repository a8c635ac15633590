//! What one liar or one hostile client may not be able to do, by hand: each of these once worked.

use crate::net::{Net, SLOW, Trusting, envelope};
use pentarchy_core::auth::AuthTag;
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Erased, ReplicaCore};
use pentarchy_core::ids::{ClientId, GroupId, Incarnation, Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::{Life, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::{Input, Output};
use pentarchy_core::protocol::{Finding, Memory, Protocol, Reject, Setup, Tuning};
use pentarchy_protocols::common::message::{Report, Shared};
use pentarchy_protocols::minbft::{self, MinBft, Order};
use pentarchy_protocols::pbft::{self, Certified, Pbft};
use std::collections::BTreeMap;
use std::sync::Arc;

fn proposal(now: u64, client: u8, number: u64) -> Arc<Proposal> {
    Arc::new(Proposal::new(Millis(now), vec![Item::Whole(envelope(client, number, 8))]))
}

/// What a replica said comes to its core from itself alone: a PREPARE that a peer sends back would
/// be counted as another one, and the next VIEW-CHANGE would leave out one that was certified.
#[test]
fn nobody_is_told_by_others_what_it_said_itself() {
    let members = [([0; 32], Life::mac(Incarnation(0))); 3];
    let membership = Arc::new(Membership::of_keys(GroupId([7; 16]), 1, members));
    let setup = |me| Setup {
        me: ReplicaId(me),
        membership: membership.clone(),
        fetch: None,
        memory: Memory::Volatile,
        tuning: Tuning::default(),
    };
    let mut out = Vec::new();
    let mut primary = Erased::<MinBft>::start(setup(0), &mut out);
    let backup = Erased::<MinBft>::start(setup(1), &mut Vec::new());
    let (settled, passed_on) = (Vec::new(), false);
    let request = Input::Request { envelope: envelope(1, 1, 8), settled, passed_on };
    primary.step(CoreEvent::Input(request), &mut out);
    primary.step(CoreEvent::Input(Input::Round { now: Millis(1) }), &mut out);
    let prepared = out.iter().find_map(|effect| match effect {
        CoreEffect::Send { outgoing, .. } if outgoing.kind == "prepare" => Some(outgoing.clone()),
        _ => None,
    });
    let prepared = prepared.expect("it proposes at the end of the round");
    let mut net = Net::<MinBft>::new(3, &[0, 1, 2], Tuning::default());
    let message = minbft::Message::Order(Order::Prepare {
        view: View(0),
        slot: Slot(1),
        proposal: Arc::new(Proposal::new(Millis(1), vec![Item::Whole(envelope(1, 1, 8))])),
    });
    let AuthTag::Usig(ui) = net.authentic(0, message).tag else { panic!("it is certified") };
    let (wire, _) = primary.seal(&prepared, AuthTag::Usig(ui));
    let [me, peer, liar] = [0, 1, 2].map(ReplicaId);
    assert!(backup.open_new(&Trusting, me, &wire).is_ok_and(|opened| opened.is_some()));
    assert!(backup.open(&Trusting, liar, &wire).is_ok(), "others may pass it on to others");
    for from in [peer, liar] {
        assert_eq!(primary.open(&Trusting, from, &wire).err(), Some(Reject::WrongAuthor));
        assert_eq!(primary.open_new(&Trusting, from, &wire).err(), Some(Reject::WrongAuthor));
    }
    assert!(primary.open(&Trusting, me, &wire).is_ok(), "what it says again after a crash");
}

/// Who passes proposals and openings on to whoever lacks them leaves out their authors.
#[test]
fn nobody_is_sent_what_it_said_itself() {
    let mut net = Net::<MinBft>::new(3, &[0], Tuning::default());
    let message = minbft::Message::Order(Order::Prepare {
        view: View(0),
        slot: Slot(1),
        proposal: proposal(net.now, 1, 1),
    });
    net.say(0, &[1, 2], message);
    net.settle();
    let report = Report { entered: true, ..Report::default() };
    for _ in 0..3 {
        net.say(0, &[1], minbft::Message::Shared(Shared::Report(report)));
        net.say(2, &[1], minbft::Message::Shared(Shared::Report(report)));
    }
    net.deliver();
    let sent = |to: u16| {
        let of_r1 = net.queue.iter().filter(|(from, it, _)| (from.0, it.0) == (1, to));
        let mut authors: Vec<u16> = of_r1.map(|(.., verified)| verified.author.0).collect();
        authors.sort_unstable();
        authors.dedup();
        authors
    };
    assert_eq!((sent(0), sent(2)), (vec![1], vec![0, 1]));
}

/// A hostile client that keeps its share full at the primary and gives each backup something else.
/// Gives the views that the backups are in after three seconds of load by others.
fn share_kept_full<P: Protocol<Input = Input, Output = Output>>(
    n: usize,
    bytes: usize,
) -> Vec<u64> {
    const CLIENTS: u8 = 40;
    let evil = ClientId([200; 32]);
    let mut net = Net::<P>::new(n, &[], SLOW);
    let mut next = [1_u64; CLIENTS as usize];
    let (mut evil_next, mut evil_out, mut seen) = (1, 0, 0);
    let mut due: Vec<u8> = (0..CLIENTS).flat_map(|client| [client; 8]).collect();
    for backup in 1..n as u64 {
        for number in 0..8 {
            net.request(backup as u16, &envelope(200, 3_000 + 10 * backup + number, bytes));
        }
    }
    for _ in 0..3_000 {
        for client in std::mem::take(&mut due) {
            let number = next[usize::from(client)];
            next[usize::from(client)] += 1;
            net.request(0, &envelope(client, number, 500));
        }
        while evil_out < 32 {
            net.request(0, &envelope(200, evil_next, bytes));
            (evil_next, evil_out) = (evil_next + 1, evil_out + 1);
        }
        net.millisecond();
        let executed = &net.nodes[1].executed;
        for envelope in executed[seen..].iter().flat_map(|(_, batch)| &batch.envelopes) {
            match envelope.client {
                client if client != evil => due.push(client.0[0]),
                _ => evil_out -= i64::from(envelope.range().0 < 3_000),
            }
        }
        seen = executed.len();
    }
    let ran: usize = net.nodes[1].executed.iter().map(|(_, batch)| batch.envelopes.len()).sum();
    assert!(ran > 5_000, "there is no load: {ran}");
    (1..n as u16).map(|id| net.status(id).view.0).collect()
}

#[test]
fn a_client_that_keeps_its_share_full_deposes_nobody() {
    assert_eq!(share_kept_full::<Pbft>(4, 8), [0, 0, 0]);
    assert_eq!(share_kept_full::<MinBft>(3, 8), [0, 0]);
    assert_eq!(share_kept_full::<Pbft>(4, 8_000), [0, 0, 0], "few of them make a turn");
    let behind = || share_kept_full::<Pbft>(4, 8);
    assert_ne!(mutant::with(Some("frame.passed-on-has-no-place"), behind), [0, 0, 0]);
}

fn lacks_all() -> pbft::Message {
    let (prepared, more) = (Slot(u64::MAX), Certified(Slot(u64::MAX)));
    pbft::Message::Shared(Shared::Report(Report {
        entered: true,
        prepared,
        more,
        ..Report::default()
    }))
}

/// However often a liar says that it lacks everything, between two ticks it is sent as much as
/// somebody may need who does.
#[test]
fn reports_draw_a_bounded_number_of_answers() {
    let mut net = Net::<Pbft>::new(4, &[3], Tuning::default());
    for number in 1..=60 {
        net.order(0, &envelope(1, number, 8));
    }
    net.nodes[1].sent.clear();
    for _ in 0..1_000 {
        net.say(3, &[1], lacks_all());
    }
    net.deliver();
    let commits = net.nodes[1].sent.get("commit").copied().unwrap_or_default();
    assert!((60..=5 * 60).contains(&commits), "{commits} COMMITs");
    let large = envelope(5, 1, 1 << 19);
    net.request(1, &large);
    net.nodes[1].sent.clear();
    for _ in 0..500 {
        let envelope = large.digest;
        net.say(3, &[1], pbft::Message::Shared(Shared::AskEnvelope { envelope }));
    }
    net.deliver();
    assert_eq!(net.nodes[1].sent.get("envelope"), Some(&1));
}

/// A primary that shows one replica something else than everybody else: it is found out, and the
/// one gets on as the others do.
#[test]
fn who_is_shown_something_else_finds_out_and_gets_on() {
    let mut net = Net::<Pbft>::new(4, &[0], Tuning::default());
    for slot in 1..=20 {
        let [all, one] = [1, 2].map(|client| proposal(net.now, client, slot));
        let (view, slot, batch) = (View(0), Slot(slot), all.digest());
        net.say(0, &[1, 2], pbft::Message::PrePrepare { view, slot, proposal: all });
        net.say(0, &[3], pbft::Message::PrePrepare { view, slot, proposal: one });
        net.say(0, &[1, 2, 3], pbft::Message::Commit { view, slot, batch });
        net.run(20);
    }
    net.run(2_000);
    let lied = |finding: &Finding| matches!(finding, Finding::TwoProposals { .. });
    let found = net.nodes[3].findings.iter();
    let found = found.filter(|it| it.author == ReplicaId(0) && lied(&it.finding)).count();
    assert!(found >= 20, "{found} findings");
    assert_eq!([1, 2, 3].map(|id| net.status(id).committed), [Slot(20); 3]);
    let digests = |id: usize| -> Vec<Digest> {
        net.nodes[id].executed.iter().map(|(_, batch)| batch.digest).collect()
    };
    assert_eq!(digests(3), digests(1));
}

/// A backup that votes for two things is found out too.
#[test]
fn a_second_vote_of_one_replica_is_found() {
    let mut net = Net::<Pbft>::new(4, &[2], Tuning::default());
    let (view, slot) = (View(0), Slot(1));
    for batch in [Digest::of(b"one"), Digest::of(b"one"), Digest::of(b"two")] {
        net.say(2, &[1], pbft::Message::Prepare { view, slot, batch });
    }
    net.deliver();
    let found: Vec<_> = net.nodes[1].findings.iter().map(|it| (it.author, it.finding)).collect();
    assert_eq!(found, [(ReplicaId(2), Finding::TwoVotes { view, slot })]);
}

/// A liar votes for something else first. Its later vote completes a quorum, and no other comes
/// behind it.
#[test]
fn the_later_of_two_votes_can_complete_a_quorum() {
    let run = || {
        let mut net = Net::<Pbft>::new(4, &[0, 3], Tuning::default());
        net.loses = |to, message| to == 1 && matches!(message, pbft::Message::Prepare { .. });
        let (view, slot, proposal) = (View(0), Slot(1), proposal(net.now, 1, 1));
        let batch = proposal.digest();
        net.say(0, &[1, 2], pbft::Message::PrePrepare { view, slot, proposal });
        net.settle();
        net.loses = |_, _| false;
        for batch in [Digest::of(b"another"), batch] {
            net.say(3, &[1], pbft::Message::Prepare { view, slot, batch });
        }
        net.settle();
        net.nodes[1].sent.clone()
    };
    let sent = run();
    assert!(sent.contains_key("commit"), "{sent:?}");
    let bug = Some("pbft.later-votes-prepare-nothing");
    assert!(!mutant::with(bug, run).contains_key("commit"));
}

/// COMMITs to one slot that are lost once are sent again while load goes on.
fn lost_once<P: Protocol<Input = Input, Output = Output>>(
    n: usize,
    loses: fn(u16, &P::Message) -> bool,
) -> Slot {
    let mut net = Net::<P>::new(n, &[], Tuning::default());
    let last = n as u16 - 1;
    for number in 1..=50 {
        net.loses = if number == 5 { loses } else { |_, _| false };
        net.request(0, &envelope(1, number, 8));
        net.run(5);
    }
    net.status(last).committed
}

#[test]
fn what_was_lost_once_comes_again_under_load() {
    let pbft = |to, message: &pbft::Message| {
        to == 3 && matches!(message, pbft::Message::Commit { slot: Slot(5), .. })
    };
    let minbft = |to, message: &minbft::Message| {
        to == 2 && matches!(message, minbft::Message::Order(Order::Prepare { slot: Slot(5), .. }))
    };
    assert!(lost_once::<Pbft>(4, pbft) >= Slot(45));
    assert!(lost_once::<MinBft>(3, minbft) >= Slot(45));
    let idle = || lost_once::<Pbft>(4, pbft);
    assert_eq!(mutant::with(Some("frame.stuck-only-if-idle"), idle), Slot(4));
}

/// A vote for a slot ahead that is repeated has an idle backup ask for what it lacks once.
#[test]
fn a_repeated_vote_is_no_gap() {
    let mut net = Net::<Pbft>::new(4, &[2], Tuning::default());
    let reports = |net: &Net<Pbft>| net.nodes[1].sent.get("report").copied().unwrap_or_default();
    let (view, slot, batch) = (View(0), Slot(9), Digest::of(b"nothing"));
    let vote = net.authentic(2, pbft::Message::Prepare { view, slot, batch });
    net.pass_on(2, &[1], &vote);
    net.run(30);
    let before = reports(&net);
    for _ in 0..15 {
        net.pass_on(2, &[1], &vote);
        net.run(2);
    }
    let more = reports(&net) - before;
    assert!(more <= 3, "{more} reports, which are for ticks of 50 ms");
}

/// What is redundant, counted: nothing that a peer repeats is checked a second time.
#[test]
fn what_is_repeated_is_moot() {
    let mut net = Net::<Pbft>::new(4, &[3], Tuning::default());
    let slot = Slot(1);
    let all = proposal(net.now, 1, 1);
    let batch = all.digest();
    let says = |view| -> BTreeMap<&str, pbft::Message> {
        [
            ("proposal", pbft::Message::PrePrepare { view, slot, proposal: all.clone() }),
            ("vote", pbft::Message::Prepare { view, slot, batch }),
        ]
        .into()
    };
    for (name, author) in [("proposal", 0), ("vote", 2)] {
        let message = &says(View(0))[name];
        let redundant =
            |net: &Net<Pbft>, message| net.core(1).is_redundant(ReplicaId(author), message);
        assert!(!redundant(&net, message), "{name} is new");
        let said = net.authentic(author, message.clone());
        net.pass_on(3, &[1], &said);
        net.deliver();
        assert!(redundant(&net, message), "{name} is known");
        assert!(redundant(&net, &says(View(1))[name]), "{name} is of another view");
    }
    let other = pbft::Message::Prepare { view: View(0), slot, batch: Digest::of(b"other") };
    assert!(!net.core(1).is_redundant(ReplicaId(2), &other), "it proves a lie");
    let ask = |view| pbft::Message::Shared(Shared::RequestViewChange { view });
    assert!(net.core(1).is_redundant(ReplicaId(2), &ask(View(0))));
    assert!(!net.core(1).is_redundant(ReplicaId(2), &ask(View(1))));
}
