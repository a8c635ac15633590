use super::*;
use pentarchy_core::limits::{CLIENT_ENVELOPES_MAX, CLIENT_FENCES_MAX};
use pentarchy_core::request::FENCE;

fn give_up(bench: &mut Bench, number: u64) -> Vec<Effect> {
    bench.step(Event::GiveUp { number })
}

fn given_up(number: u64) -> Effect {
    Effect::Completed { number, outcome: Outcome::GivenUp }
}

#[test]
fn what_was_sent_is_fenced_once_at_everyone_and_its_outcome_is_voted_on() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.round(0);
    assert_eq!(give_up(&mut bench, 1), vec![]);
    assert_eq!(give_up(&mut bench, 1), vec![]);
    let Some(Effect::Request { to, draft }) = bench.round(5).first().cloned() else {
        panic!("a fence")
    };
    assert_eq!((to, draft.floor, draft.requests.len()), (set(&[0, 1, 2]), 1, 1));
    assert_eq!((draft.requests[0].number, &draft.requests[0].operation[..]), (1, &FENCE[..]));
    assert_eq!(bench.sent(6), vec![], "once");
    assert_eq!(bench.reply(0, 1, Outcome::GivenUp), vec![], "one may lie");
    assert_eq!(bench.reply(1, 1, Outcome::GivenUp), vec![given_up(1)]);
    assert_eq!(bench.core.outstanding(), 0);
    assert_eq!(bench.round(10_000), vec![], "neither it nor its fence is sent again");
}

#[test]
fn what_ran_before_its_fence_has_its_result() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.submit(2);
    bench.round(0);
    give_up(&mut bench, 1);
    assert_eq!(bench.sent(1), vec![(set(&[0, 1, 2]), 1, vec![1])]);
    bench.reply(0, 1, done(b"yes"));
    let completed = Effect::Completed { number: 1, outcome: done(b"yes") };
    assert_eq!(bench.reply(1, 1, done(b"yes")), vec![completed]);
    assert_eq!(bench.sent(RETRY), vec![(set(&[0, 1, 2]), 1, vec![1, 2])], "2 is open still");
}

#[test]
fn what_was_not_sent_is_given_up_at_once() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    assert_eq!(give_up(&mut bench, 1), vec![given_up(1)]);
    bench.query(2);
    bench.round(0);
    assert_eq!(give_up(&mut bench, 2), vec![given_up(2)]);
    assert_eq!(give_up(&mut bench, 9), vec![], "nobody waits for it");
    assert_eq!(bench.sent(10_000), vec![]);
    assert_eq!(bench.core.outstanding(), 0);
}

/// The application gives up a request and a query that an earlier core may have sent, and a request
/// that none has, before this core has sent anything. Gives what the core sends in its first round,
/// and what it completes by then.
fn given_up_after_another_core() -> (Vec<(u64, bool)>, Vec<Effect>) {
    let mut bench = Bench::new(1);
    bench.step(Event::Resumed { below: 3 });
    bench.submit(1);
    bench.query(2);
    bench.submit(3);
    let given_up = [1, 2, 3].map(|number| give_up(&mut bench, number));
    let sent = bench.round(0).into_iter().filter_map(|effect| match effect {
        Effect::Request { draft, .. } => Some(draft.requests),
        _ => None,
    });
    let numbers = sent.flatten().map(|request| (request.number, request.is_fence())).collect();
    (numbers, given_up.into_iter().flatten().collect())
}

#[test]
fn what_an_earlier_core_may_have_sent_is_fenced() {
    let (sent, complete) = given_up_after_another_core();
    assert_eq!(sent, [(1, false), (2, false), (1, true), (2, true)]);
    assert_eq!(complete, [given_up(3)], "that nobody has sent");
    let bug = Some("client.forgets-what-was-sent");
    let (sent, complete) = mutant::with(bug, given_up_after_another_core);
    assert_eq!((sent, complete.len()), (vec![], 3));
}

#[test]
fn fences_go_beside_what_is_under_way_and_are_bounded() {
    let mut bench = Bench::new(1);
    let sent = CLIENT_ENVELOPES_MAX as u64;
    for number in 1..=sent {
        bench.submit(number);
        assert_eq!(bench.sent(0).len(), 1);
    }
    bench.submit(sent + 1);
    assert_eq!(bench.sent(0), vec![], "all envelopes are under way");
    for number in 1..=sent {
        give_up(&mut bench, number);
        assert_eq!(bench.sent(0), vec![(set(&[0, 1, 2]), 1, vec![number])]);
    }
    assert_eq!(bench.core.fences, CLIENT_FENCES_MAX);
    for number in 1..=sent {
        bench.reply(0, number, Outcome::GivenUp);
        assert_eq!(bench.reply(1, number, Outcome::GivenUp), vec![given_up(number)]);
    }
    assert_eq!(bench.core.fences, 0);
    assert_eq!(bench.sent(0), vec![(set(&[0]), sent + 1, vec![sent + 1])]);
}
