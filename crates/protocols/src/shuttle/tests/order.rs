//! Down the chain and up again, with replicas that lie.

use super::super::log::UNDER_WAY_MAX;
use super::super::statements::order_statement;
use super::super::{Checksums, Trusting};
use super::{Group, Keys, Macs, Message, Mode, Order, S1, S2, Timer, all, client_port, macs};
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::auth::{AuthTag, Verified};
use pentarchy_core::batch::{Item, Proposal};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, Millis, ReplicaId, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::Outcome;
use pentarchy_core::protocol::{Protocol as _, Reject};
use pentarchy_core::request::{Draft, Envelope, Request, RequestAuth};
use pentarchy_core::succession::{empty_history, longer_history};

/// A batch of no request, one of many.
pub fn batch(time: u64) -> Arc<Proposal> {
    Arc::new(Proposal::new(Millis(time), Vec::new()))
}

/// The first slot, as a liar orders it.
pub fn first<M: Mode>(proposal: &Arc<Proposal>, tags: Vec<M::Tag>) -> Order<M> {
    let history = longer_history(&empty_history(Base::default()), &proposal.digest());
    let results = Some(super::super::statements::digest_of(&[]));
    Order { slot: S1, proposal: proposal.clone(), history, results, tags }
}

/// The next slot behind another.
fn next<M: Mode>(before: &Order<M>, proposal: &Arc<Proposal>) -> Order<M> {
    let history = longer_history(&before.history, &proposal.digest());
    let slot = before.slot.next();
    Order { slot, history, proposal: proposal.clone(), ..before.clone() }
}

fn orders_and_answers<M: Mode>(n: usize, f: usize) {
    let mut group = Group::<M>::new(n, f, &[]);
    group.order(1..=10, all);
    assert_eq!(group.ordered(), vec![10; n]);
    assert_eq!(group.done(), vec![10; n]);
    let results: Vec<u64> = group.results.keys().copied().collect();
    assert_eq!(results, (1..=10).collect::<Vec<_>>(), "{n} replicas");
    let counted = |number: u64| Outcome::Done(Vec::from(number.to_le_bytes()).into());
    assert_eq!(group.results[&7], counted(6), "each was executed once, in this order");
    for id in 0..n as u16 {
        let executed = if usize::from(id) <= f { 10 } else { 0 };
        assert_eq!(group.host(id).executed(), Slot(executed), "{id} of {n}");
        assert_eq!(group.host(id).slots(), &group.host(0).slots()[..executed as usize]);
        assert!(group.accused(id).is_empty());
        let armed = &group.host(id).armed;
        assert!(armed.keys().all(|timer| *timer == Timer::Tick), "nothing is waited for");
    }
}

#[test]
fn chains_of_every_length_and_mode_order_and_answer() {
    for f in 0..4 {
        orders_and_answers::<Macs>(2 * f + 1, f);
        orders_and_answers::<Checksums>(f + 1, f);
        orders_and_answers::<Trusting>(f + 1, f);
    }
}

/// What waits at the end of a round is one batch.
#[test]
fn requests_that_wait_share_a_slot() {
    let mut group = Group::three(&[]);
    (1..=5).for_each(|number| group.submit(number));
    group.round();
    group.run(all);
    assert_eq!((group.ordered(), group.results.len()), (vec![1; 3], 5));
}

/// The tail is cut off.
#[test]
fn a_head_has_no_more_under_way_than_it_may() {
    let mut group = Group::three(&[]);
    let cut = |_: ReplicaId, to: ReplicaId, _: &Message<Macs>| to != ReplicaId(2);
    group.order(1..=12, cut);
    assert_eq!(group.ordered(), [UNDER_WAY_MAX, UNDER_WAY_MAX, 0]);
    assert_eq!((group.done(), group.results.len()), (vec![0; 3], 0));
    group.ticks(all);
    assert_eq!(group.done(), vec![group.ordered()[0]; 3], "and then it goes on");
    assert_eq!(group.results.len(), 12);
}

/// What a client asks for that chooses who gets it.
pub fn request() -> Arc<Envelope> {
    let requests = vec![Request { number: 1, operation: vec![1].into() }];
    let draft = Draft { client: super::CLIENT, floor: 0, events: None, requests };
    Arc::new(draft.seal(RequestAuth::Signature([0; 64])))
}

/// A client leaves the head out.
#[test]
fn whoever_is_given_a_request_passes_it_on_to_the_head() {
    for id in 1..3 {
        let mut group = Group::three(&[]);
        group.receive(ReplicaId(id), &request());
        group.ticks(all);
        assert_eq!(group.done(), [1; 3], "by {id}");
    }
}

/// What others would name travels whole: nobody has to ask for it.
#[test]
fn large_requests_travel_in_the_order() {
    let mut group = Group::three(&[]);
    let operation = Vec::from([7; 100_000]).into();
    group.client_step(client_port::Event::Submit { number: 1, operation });
    group.client_round();
    group.ticks(all);
    assert_eq!((group.done(), group.results.len()), (vec![1; 3], 1));
    let refused = |items| {
        let mut group = Group::three(&[0]);
        let proposal = Arc::new(Proposal::new(Millis(1), items));
        group.say(0, 1, Message::Order(Arc::new(first(&proposal, Vec::new()))));
        group.run(all);
        (group.ordered()[0], group.refused.first().map(|(_, why)| *why))
    };
    let named = vec![Item::Named(Digest([1; 32]))];
    assert_eq!(refused(named), (0, Some(Reject::OutOfBounds)), "what it names nobody has");
    assert_eq!(refused(Vec::new()), (1, None));
}

/// A head's clock is ahead of ours.
#[test]
fn an_order_waits_for_the_clock() {
    let mut group = Group::three(&[0]);
    let order = first(&batch(group.now + 501), Vec::new());
    group.say(0, 1, Message::Order(Arc::new(order)));
    group.run(all);
    assert_eq!((group.ordered(), group.core(1).held.len()), (vec![0, 0], 1));
    group.now += 1;
    group.round();
    group.run(all);
    assert_eq!((group.ordered(), group.accused(1)), (vec![1, 1], vec![]));
}

/// Two orders overtake each other.
#[test]
fn slots_are_ordered_one_after_the_other() {
    let ordered = || {
        let mut group = Group::three(&[0]);
        let one = first(&batch(1), Vec::new());
        let two = next(&one, &batch(2));
        group.say(0, 1, Message::Order(Arc::new(two)));
        group.run(all);
        let before = group.ordered();
        group.say(0, 1, Message::Order(Arc::new(one)));
        group.run(all);
        (before, group.ordered(), group.accused(1))
    };
    assert_eq!(ordered(), (vec![0, 0], vec![2, 2], vec![]));
    let (_, after, accused) = mutant::with(Some("shuttle.executes-on-arrival"), ordered);
    assert!(after != [2, 2] && accused == [0]);
}

#[test]
fn no_more_is_held_than_a_correct_head_has_under_way() {
    let mut group = Group::three(&[0]);
    let mut order = first(&batch(1), Vec::new());
    for time in 2..40 {
        order = next(&order, &batch(time));
        group.say(0, 1, Message::Order(Arc::new(order.clone())));
    }
    group.run(all);
    assert_eq!(group.core(1).held.len(), UNDER_WAY_MAX as usize - 1);
}

/// A head that orders one thing and then another has one history at correct replicas.
#[test]
fn who_orders_two_histories_is_accused() {
    let mut group = Group::three(&[0]);
    let (one, other) = (first(&batch(1), Vec::new()), first(&batch(2), Vec::new()));
    group.say(0, 1, Message::Order(Arc::new(one)));
    group.run(all);
    group.say(0, 1, Message::Order(Arc::new(other)));
    group.run(all);
    assert_eq!((group.ordered(), group.accused(1)), (vec![1, 1], vec![0]));
}

#[test]
fn a_history_has_to_follow_from_the_batch() {
    let mut group = Group::three(&[0]);
    let order = Order { proposal: batch(2), ..first(&batch(1), Vec::new()) };
    group.say(0, 1, Message::Order(Arc::new(order)));
    group.run(all);
    assert_eq!((group.ordered(), group.accused(1)), (vec![0, 0], vec![0]));
}

/// The middle has no tag of the head over what it passes on: it made that up.
#[test]
fn nobody_orders_what_one_before_has_not() {
    let tail = || {
        let mut group = Group::three(&[1]);
        let made_up = first::<Macs>(&batch(9), Vec::new());
        let domain = group.membership.domain();
        let digest = order_statement(&domain, S1, &made_up.history);
        // Under its own keys, as it has no others.
        let tags = vec![macs(ReplicaId(1), 3, &digest)];
        group.say(1, 2, Message::Order(Arc::new(Order { tags, ..made_up })));
        group.run(all);
        (group.ordered()[1], group.refused.clone())
    };
    assert_eq!(tail(), (0, vec![(ReplicaId(2), Reject::BadCertificate)]));
    assert_eq!(mutant::with(Some("shuttle.tags-of-one"), tail), (1, vec![]));
}

/// Fewer tags, or more, than there are replicas before the author; results where there are none.
#[test]
fn an_order_has_one_tag_of_each_replica_before_its_author() {
    let refused = |from: u16, change: &dyn Fn(&mut Order<Macs>)| {
        let mut group = Group::three(&[0, 1]);
        let mut order = first::<Macs>(&batch(1), Vec::new());
        let digest = order_statement(&group.membership.domain(), S1, &order.history);
        order.tags = (0..from).map(|by| macs(ReplicaId(by), 3, &digest)).collect();
        change(&mut order);
        group.say(from, 2, Message::Order(Arc::new(order)));
        group.run(all);
        (group.ordered()[0], group.refused.first().map(|(_, why)| *why))
    };
    let bad = (0, Some(Reject::BadCertificate));
    assert_eq!(refused(1, &|_| {}), (1, None));
    assert_eq!(refused(1, &|order| order.tags.clear()), bad);
    assert_eq!(refused(1, &|order| order.tags.push(order.tags[0].clone())), bad);
    assert_eq!(refused(1, &|order| order.results = None), (1, None), "it has restarted");
    assert_eq!(refused(1, &|order| order.slot = Slot(0)), (0, Some(Reject::OutOfBounds)));
    assert_eq!(refused(0, &|_| {}), (0, None), "from the predecessor of somebody else");
}

#[test]
fn the_tail_passes_nothing_on() {
    let mut group = Group::three(&[0, 2]);
    group.say(2, 1, Message::Order(Arc::new(first(&batch(1), Vec::new()))));
    group.run(all);
    assert_eq!(group.refused, [(ReplicaId(1), Reject::WrongRole)]);
}

/// What a replica tagged in one configuration means nothing in another.
#[test]
fn tags_count_in_their_configuration_only() {
    let tail = || {
        let group = Group::<Macs>::three(&[]);
        let order = first::<Macs>(&batch(1), Vec::new());
        let old = order_statement(&group.membership.domain(), S1, &order.history);
        let order = Order { tags: vec![macs(ReplicaId(0), 3, &old)], ..order };
        let later = Membership { epoch: Epoch(1), ..Membership::clone(&group.membership) };
        let author = ReplicaId(1);
        let message = Message::Order(Arc::new(order));
        let tag = AuthTag::Channel;
        let verified = Verified::recalled(author, tag, &later.domain(), message);
        let keys = Keys { me: ReplicaId(2), n: 3 };
        super::Shuttle::<Macs>::validate(&later, &keys, author, &verified.tag, &verified.message)
    };
    assert_eq!(tail(), Err(Reject::BadCertificate));
    let anywhere = Some("shuttle.statement-without-configuration");
    assert_eq!(mutant::with(anywhere, tail), Ok(()));
}

/// The head says that something else came of a slot.
#[test]
fn who_has_other_results_passes_nothing_on() {
    let ordered = || {
        let mut group = Group::three(&[0]);
        let order = Order { results: Some(Digest([9; 32])), ..first(&batch(1), Vec::new()) };
        group.say(0, 1, Message::Order(Arc::new(order)));
        group.run(all);
        (group.ordered(), group.accused(1))
    };
    assert_eq!(ordered(), (vec![1, 0], vec![0]));
    let passed_on = mutant::with(Some("shuttle.results-not-compared"), ordered);
    assert_eq!(passed_on, (vec![1, 1], vec![]));
}

/// The second of three full replicas says that something else came of a slot. The head did not: it
/// would be accused in each epoch, and the liar would stay.
#[test]
fn other_results_are_the_fault_of_who_says_so() {
    let accused = || {
        let mut group = Group::<Macs>::new(5, 2, &[0, 1]);
        let order = Order { results: Some(Digest([9; 32])), ..first(&batch(1), Vec::new()) };
        let digest = order_statement(&group.membership.domain(), S1, &order.history);
        let tags = vec![macs(ReplicaId(0), 5, &digest)];
        group.say(1, 2, Message::Order(Arc::new(Order { tags, ..order })));
        group.run(all);
        group.accused(2)
    };
    assert_eq!(accused(), [1]);
    assert_eq!(mutant::with(Some("shuttle.blames-head-for-results"), accused), [0, 1]);
}

/// A replica restarts with two slots that it has not executed, and has other results of the first.
#[test]
fn what_is_behind_other_results_is_not_passed_on_either() {
    let heard = || {
        let mut group = Group::three(&[0, 2]);
        let one = first(&batch(1), Vec::new());
        let two = next(&one, &batch(2));
        let one = Order { results: Some(Digest([9; 32])), ..one };
        for order in [one, two] {
            let order = group.authentic(ReplicaId(0), Message::Order(Arc::new(order)));
            group.deliver(ReplicaId(1), order);
        }
        group.restart(1);
        group.run(all);
        let orders = |it: &&(_, Verified<Message<_>>)| matches!(*it.1.message, Message::Order(_));
        (group.host(1).executed(), group.heard.iter().filter(orders).count())
    };
    assert_eq!(heard(), (S2, 0));
    assert_eq!(mutant::with(Some("shuttle.refuses-one-slot-alone"), heard), (S2, 1));
}

/// The second of three full replicas tells the head that a slot is done, and passes nothing on.
#[test]
fn done_is_what_all_behind_have_ordered() {
    let done = |tags: &dyn Fn(Digest) -> Vec<pentarchy_core::mac_vector::MacVector>| {
        let mut group = Group::three(&[1]);
        group.order([1], |_, _, _| false);
        let history = group.core(0).log.history();
        let digest = order_statement(&group.membership.domain(), S1, &history);
        group.say(1, 0, Message::Done { upto: S1, history, tags: tags(digest) });
        group.run(all);
        group.done()[0]
    };
    let invented = |digest| vec![macs(ReplicaId(1), 3, &digest)];
    let genuine = |digest| vec![macs(ReplicaId(2), 3, &digest)];
    let (none, forged) = (|| done(&|_| vec![]), || done(&invented));
    assert_eq!([none(), forged(), done(&genuine)], [0, 0, 1]);
    assert_eq!(mutant::with(Some("shuttle.done-not-checked"), forged), 1);
    assert_eq!(mutant::with(Some("shuttle.done-of-one"), none), 1);
}

#[test]
fn who_says_done_of_what_it_was_not_sent_is_accused() {
    for upto in [S1, S2] {
        let mut group = Group::three(&[1, 2]);
        group.order([1], |_, _, _| false);
        let history = Digest([5; 32]);
        let digest = order_statement(&group.membership.domain(), upto, &history);
        let tags = vec![macs(ReplicaId(2), 3, &digest)];
        group.say(1, 0, Message::Done { upto, history, tags });
        group.run(all);
        assert_eq!((group.done(), group.accused(0)), (vec![0], vec![1]));
    }
}
