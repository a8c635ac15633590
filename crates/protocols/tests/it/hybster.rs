//! Hybster by hand: what only liars or unlucky links bring about.

use crate::net::{Net, Trusting, envelope};
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::counter::Position;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, Slot, View};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Protocol as _, Reject, Tuning};
use pentarchy_core::request::Envelope;
use pentarchy_protocols::common::certificate::CheckpointProof;
use pentarchy_protocols::common::message::Shared;
use pentarchy_protocols::hybster::{
    CertifiedViewChange, Entry, Hybster, Message, NewView, Order, Prepared, ViewChange, ViewChanges,
};
use std::sync::Arc;

type Sent = (ReplicaId, ReplicaId, Verified<Message>);

/// Everybody asks for a view, and everybody hears of it.
fn ask_for(net: &mut Net<Hybster>, view: u64) {
    for id in 0..3 {
        let ask = Message::Shared(Shared::RequestViewChange { view: View(view) });
        let ask = net.authentic(id, ask);
        net.pass_on(id, &[0, 1, 2], &ask);
    }
}

/// Time passes; what does not pass the filter is lost.
fn run(net: &mut Net<Hybster>, millis: u64, passes: impl Fn(&Sent) -> bool) {
    for _ in 0..millis {
        net.queue.retain(&passes);
        net.millisecond();
    }
}

fn executed(net: &Net<Hybster>, id: u16) -> Vec<Arc<Envelope>> {
    let batches = net.nodes[usize::from(id)].executed.iter();
    batches.flat_map(|(_, batch)| batch.envelopes.iter().cloned()).collect()
}

/// The lengths of the VIEW-CHANGEs that are under way.
fn longest(net: &Net<Hybster>) -> usize {
    let changes =
        net.queue.iter().filter(|(.., it)| matches!(&*it.message, Message::ViewChange(_)));
    changes.map(|(.., it)| it.wire.len()).max().unwrap_or_default()
}

/// For 300 views no primary gets the VIEW-CHANGEs by which it could open its view in time. What is
/// said and kept in the last is no more than in the first, and then the group goes on with all that
/// it had ordered.
#[test]
fn nothing_grows_with_the_views_that_fail() {
    let mut net = Net::<Hybster>::new(3, &[], Tuning::default());
    for number in 1..=3 {
        net.order(0, &envelope(1, number, 8));
    }
    // One more, which only its primary and r1 hear of.
    net.request(0, &envelope(1, 4, 8));
    net.round(0);
    run(&mut net, 3, |(_, to, _)| to.0 != 2);
    let mut lengths = Vec::new();
    for view in 1..=300 {
        ask_for(&mut net, view);
        let mut most = 0;
        for _ in 0..150 {
            net.queue.retain(|(_, to, it)| match &*it.message {
                Message::ViewChange(change) => to.0 as u64 != change.view.0 % 3,
                _ => true,
            });
            most = most.max(longest(&net));
            net.millisecond();
        }
        for id in 0..3 {
            let status = net.status(id);
            assert!(status.view == View(view) && status.phase != "normal", "{status:?}");
        }
        lengths.push(most);
    }
    assert!(lengths.iter().all(|length| *length > 0), "each view is left: {lengths:?}");
    // The third replica shows from the second view on what it was shown.
    assert!(lengths[2..].iter().all(|length| *length <= lengths[1]), "{lengths:?}");
    ask_for(&mut net, 301);
    run(&mut net, 2_000, |_| true);
    for id in 0..3 {
        assert_eq!(executed(&net, id).len(), 4, "r{id}: {:?}", net.status(id));
    }
    net.order(301 % 3, &envelope(2, 1, 8));
    assert!((0..3).all(|id| executed(&net, id).len() == 5));
}

/// The paper's figure 3, from step 5 on, with nobody lying: only r1 gets its own NEW-VIEW for view
/// 1 in time, and r2, which is to open view 2, does not get r0's VIEW-CHANGE. It can open that view
/// only once it has accepted the NEW-VIEW that it had missed.
fn missed_new_view() -> bool {
    let mut net = Net::<Hybster>::new(3, &[], Tuning::default());
    net.order(0, &envelope(1, 1, 8));
    ask_for(&mut net, 1);
    run(&mut net, 10, |(_, to, it)| {
        to.0 == 1
            || !matches!(&*it.message, Message::NewView(_) | Message::Order(Order::Prepare { .. }))
    });
    assert!((0..3).all(|id| net.status(id).view == View(1)));
    assert_eq!(net.status(1).phase, "normal");
    ask_for(&mut net, 2);
    net.request(2, &envelope(2, 1, 8));
    run(&mut net, 300, |(_, to, it)| match &*it.message {
        Message::ViewChange(change) => (it.author.0, to.0, change.view) != (0, 2, View(2)),
        Message::Acknowledge { .. } => it.author.0 == to.0,
        _ => true,
    });
    let entered = (0..3).all(|id| net.status(id).view == View(2));
    entered && (0..3).all(|id| executed(&net, id).len() == 2)
}

#[test]
fn who_accepts_a_new_view_late_says_so() {
    assert!(missed_new_view());
    assert!(!mutant::with(Some("hybster.never-acknowledges"), missed_new_view));
    assert!(!mutant::with(Some("hybster.new-view-not-passed-on"), missed_new_view));
}

fn view_change(view: u64, entry: Option<Entry>) -> ViewChange {
    let signed = |id: u16| (ReplicaId(id), (View(view), Signature([id as u8; 64])));
    let checkpoint = CheckpointProof::initial(Base::default());
    let requests = vec![signed(1), signed(2)];
    ViewChange { view: View(view), requests, checkpoint, entry, prepares: Vec::new() }
}

/// r1, the primary of view 1, lies: with it r0 executed a request, of which r2 hears when view 0 is
/// left. Then r0 is all but cut off. r1 never opened view 1, but it says that it comes from there,
/// with nothing, and its counter has nothing against it. Gives what r2 and r0 have executed.
fn origin_that_never_was() -> [Vec<Arc<Envelope>>; 2] {
    let mut net = Net::<Hybster>::new(3, &[1], Tuning::default());
    net.request(0, &envelope(1, 1, 8));
    net.round(0);
    let proposal = net.queue.iter().find_map(|(.., it)| match &*it.message {
        Message::Order(Order::Prepare { proposal, .. }) => Some(proposal.clone()),
        _ => None,
    });
    let (view, batch) = (View(0), proposal.expect("it proposes").digest());
    net.say(1, &[0], Message::Order(Order::Commit { view, slot: Slot(1), batch }));
    run(&mut net, 10, |(_, to, _)| to.0 != 2);
    ask_for(&mut net, 1);
    run(&mut net, 200, |_| true);
    assert_eq!(net.status(2).view, View(1));
    let nothing = ViewChanges { view: View(1), members: Vec::new() };
    let bogus = NewView { changes: nothing, acknowledgements: Vec::new() };
    let said = net.authentic(1, Message::NewView(Arc::new(bogus.clone())));
    let domain = net.membership.domain();
    let entry = bogus.entry(*said.tag.ui().expect("a certificate"), &domain);
    ask_for(&mut net, 2);
    net.say(1, &[2], Message::ViewChange(Arc::new(view_change(2, Some(entry)))));
    net.request(2, &envelope(2, 1, 8));
    for _ in 0..200 {
        net.queue.retain(|(from, to, it)| match &*it.message {
            // What r0 showed for view 1 can be had from it.
            Message::Shared(Shared::AskBody { .. } | Shared::Body(_)) => true,
            _ => from.0 != 0 && to.0 != 0,
        });
        go_along(&mut net);
        net.millisecond();
    }
    [2, 0].map(|id| executed(&net, id))
}

/// The liar r1 commits to whatever r2 opens and proposes.
fn go_along(net: &mut Net<Hybster>) {
    let said: Vec<Verified<Message>> =
        net.queue.iter().filter(|(_, to, _)| to.0 == 1).map(|(.., it)| it.clone()).collect();
    for verified in said {
        match &*verified.message {
            Message::NewView(opening) => {
                let (view, opening) = (opening.view(), verified.digest);
                net.say(1, &[2], Message::Enter { view, opening });
            }
            Message::Order(Order::Prepare { view, slot, proposal }) if *view > View(0) => {
                let (view, slot, batch) = (*view, *slot, proposal.digest());
                net.say(1, &[2], Message::Order(Order::Commit { view, slot, batch }));
            }
            _ => {}
        }
    }
}

#[test]
fn a_view_that_was_never_opened_is_no_origin() {
    let first = envelope(1, 1, 8);
    let [r2, r0] = origin_that_never_was();
    assert_eq!(r0, std::slice::from_ref(&first));
    assert!(r2.is_empty() || r2[0] == first, "{r2:?}");
    // Worth checking: believed, it would have taken the place of what r0 has executed.
    let believed = mutant::with(Some("hybster.acknowledged-by-none"), origin_that_never_was);
    assert_eq!(believed[1], std::slice::from_ref(&first));
    assert!(!believed[0].is_empty() && believed[0][0] != first, "{believed:?}");
}

/// Whether others take this from r1, as its device certifies it.
fn is_taken(net: &mut Net<Hybster>, change: ViewChange) -> bool {
    let said = net.authentic(1, Message::ViewChange(Arc::new(change)));
    let checked =
        Hybster::validate(&net.membership, &Trusting, said.author, &said.tag, &said.message);
    checked.is_ok()
}

/// A group in which r1 lies, after r1 has committed to slot 1 of view 0, and the header of that.
fn committed() -> (Net<Hybster>, Prepared) {
    let mut net = Net::<Hybster>::new(3, &[0, 1], Tuning::default());
    let items = vec![Item::Whole(envelope(1, 1, 8))];
    let proposal = Arc::new(Proposal::new(Millis(1), items));
    let (view, slot, batch) = (View(0), Slot(1), proposal.digest());
    let proposed = net.authentic(0, Message::Order(Order::Prepare { view, slot, proposal }));
    net.authentic(1, Message::Order(Order::Commit { view, slot, batch }));
    let ui = *proposed.tag.ui().expect("a certificate");
    (net, Prepared { slot, batch, ui })
}

#[test]
fn a_view_change_that_leaves_out_what_its_counter_says_is_refused() {
    let (mut net, prepared) = committed();
    assert!(is_taken(&mut net, ViewChange { prepares: vec![prepared], ..view_change(1, None) }));
    let (mut net, _) = committed();
    assert!(!is_taken(&mut net, view_change(1, None)), "it hides its commitment");
    let (mut net, prepared) = committed();
    let wrong = Prepared { batch: Digest::of(b"another"), ..prepared };
    assert!(!is_taken(&mut net, ViewChange { prepares: vec![wrong], ..view_change(1, None) }));
    let (mut net, prepared) = committed();
    let high = CheckpointProof { slot: Slot(100), ..CheckpointProof::initial(Base::default()) };
    let claims = ViewChange { checkpoint: high, ..view_change(1, None) };
    assert!(!is_taken(&mut net, claims), "a low mark without proof");
    // Who leaves twice hides what was before; others do not follow such a one without a quorum.
    let (mut net, shown) = (net, ViewChange { prepares: vec![prepared], ..view_change(2, None) });
    assert!(is_taken(&mut net, shown) && is_taken(&mut net, view_change(3, None)));
}

#[test]
fn who_spoke_in_a_view_comes_from_there() {
    let opened = || {
        let mut net = Net::<Hybster>::new(3, &[0, 1], Tuning::default());
        let nothing = ViewChanges { view: View(1), members: Vec::new() };
        let bogus = NewView { changes: nothing, acknowledgements: Vec::new() };
        let said = net.authentic(1, Message::NewView(Arc::new(bogus.clone())));
        let ui = *said.tag.ui().expect("a certificate");
        let entry = bogus.entry(ui, &net.membership.domain());
        (net, entry)
    };
    let (mut net, entry) = opened();
    assert!(is_taken(&mut net, view_change(2, Some(entry))));
    let (mut net, _) = opened();
    assert!(!is_taken(&mut net, view_change(2, None)), "it spoke in view 1");
    let (mut net, mut entry) = opened();
    entry.header.start.list = vec![Digest::of(b"another")];
    let other = view_change(2, Some(entry));
    assert!(!is_taken(&mut net, other), "another list than it certified");
    let (mut net, mut entry) = opened();
    entry.header.view = View(2);
    let later = view_change(2, Some(entry));
    assert!(!is_taken(&mut net, later), "it comes from where it goes");
}

/// What the ingress says of a message.
fn validated(net: &Net<Hybster>, said: &Verified<Message>) -> Result<(), Reject> {
    Hybster::validate(&net.membership, &Trusting, said.author, &said.tag, &said.message)
}

/// A replica that leaves for view 2 as if it had never left view 0.
fn leaves_from_view_0(net: &mut Net<Hybster>, id: u16) -> CertifiedViewChange {
    let signed = |id: u16| (ReplicaId(id), (View(2), Signature([id as u8; 64])));
    let change = Arc::new(ViewChange {
        view: View(2),
        requests: vec![signed(1), signed(2)],
        checkpoint: CheckpointProof::initial(Base::default()),
        entry: None,
        prepares: Vec::new(),
    });
    let said = net.authentic(id, Message::ViewChange(change.clone()));
    CertifiedViewChange {
        author: ReplicaId(id),
        ui: *said.tag.ui().expect("it is certified"),
        change,
    }
}

/// The counter names the view in which its owner spoke last, so that it cannot hide what it said
/// there: not in a VIEW-CHANGE, and not as a member of what others rest on.
#[test]
fn nobody_leaves_from_below_the_view_in_which_it_spoke() {
    let mut net = Net::<Hybster>::new(3, &[0, 1], Tuning::default());
    let spoke = Position::new(View(1), Position::OPEN);
    net.certify(1, spoke, &Digest::of(b"what it said in view 1"));
    let members = [0, 1].map(|id| leaves_from_view_0(&mut net, id)).to_vec();
    let alone: Vec<Verified<Message>> = members
        .iter()
        .map(|it| net.authentic(it.author.0, Message::ViewChange(it.change.clone())))
        .collect();
    let changes = ViewChanges { view: View(2), members };
    let together = net.authentic(0, Message::ViewChanges(Arc::new(changes)));
    let judged = || [&alone[0], &alone[1], &together].map(|said| validated(&net, said).is_ok());
    assert_eq!(judged(), [true, false, false]);
    let believed = |mutant| mutant::with(Some(mutant), judged);
    assert_eq!(believed("hybster.from-not-checked"), [true, true, true]);
    assert_eq!(believed("hybster.members-not-checked"), [true, false, true]);
}

/// A primary tells one backup alone what it orders, and falls silent. Whether the other one hears
/// of it from the first.
fn told_by_who_was_told() -> bool {
    let mut net = Net::<Hybster>::new(3, &[0], Tuning::default());
    let items = vec![Item::Whole(envelope(1, 1, 8))];
    let proposal = Arc::new(Proposal::new(Millis(net.now), items));
    let prepare = Order::Prepare { view: View(0), slot: Slot(1), proposal };
    net.say(0, &[1], Message::Order(prepare));
    net.run(3_000);
    assert_eq!(executed(&net, 1).len(), 1, "two commitments decide");
    executed(&net, 2).len() == 1
}

#[test]
fn who_was_left_out_is_shown_what_its_primary_told_others() {
    assert!(told_by_who_was_told());
    assert!(!mutant::with(Some("hybster.only-authors-repeat"), told_by_who_was_told));
}
