//! Results that one replica tells and others confirm, and how many must.

use super::*;
use pentarchy_core::designated_replier::{ResultDigest, teller};
use pentarchy_core::limits::CLIENT_HELD_BYTES_MAX;

const LONG: &[u8] = b"a result that is longer than what replicas always tell in full";
const OTHER: &[u8] = b"another result that is longer than what is always told in full";

impl Bench {
    fn digest(&mut self, from: u16, number: u64, result: &[u8]) -> Vec<Effect> {
        let digests = vec![ResultDigest { number, digest: Digest::of(result) }];
        let message = ToClient::Digests { view: View(0), digests };
        self.step(Event::Message { from: ReplicaId(from), message })
    }

    /// A bench of four, one request under way, and its teller and the others.
    fn asked() -> (Self, u16, [u16; 3]) {
        let mut bench = Self::of(4, 1);
        bench.submit(1);
        bench.round(0);
        let told_by = teller(&ClientId([7; 32]), 1, 4).0;
        let mut others = (0..4).filter(|id| *id != told_by);
        let others = core::array::from_fn(|_| others.next().expect("there are three others"));
        (bench, told_by, others)
    }
}

fn completed(result: &'static [u8]) -> Vec<Effect> {
    vec![Effect::Completed { number: 1, outcome: done(result) }]
}

#[test]
fn a_result_is_believed_when_digests_confirm_it_in_whatever_order_they_come() {
    for place in 0..3 {
        let (mut bench, told_by, others) = Bench::asked();
        let mut others = others.into_iter();
        for step in 0..3 {
            let effects = if step == place {
                bench.reply(told_by, 1, done(LONG))
            } else {
                bench.digest(others.next().expect("two of them"), 1, LONG)
            };
            assert_eq!(effects, if step == 2 { completed(LONG) } else { vec![] }, "{place}");
        }
    }
}

#[test]
fn digests_of_another_result_confirm_nothing() {
    let (mut bench, told_by, others) = Bench::asked();
    assert_eq!(bench.reply(told_by, 1, done(OTHER)), vec![], "a lie");
    for id in others {
        assert_eq!(bench.digest(id, 1, LONG), vec![], "{id}");
    }
    // The truth is asked for from everyone, and any of them tells it.
    assert!(bench.round(told::TELL_WAIT_MS - 1).iter().all(|it| matches!(it, Effect::WakeAt(_))));
    assert_eq!(bench.sent(told::TELL_WAIT_MS), vec![(set(&[0, 1, 2, 3]), 1, vec![1])]);
    assert_eq!(bench.reply(others[0], 1, done(LONG)), completed(LONG));
}

/// A liar can have a client hold the results that it is to tell, and no others.
#[test]
fn only_the_teller_s_results_are_held_and_not_without_end() {
    let (mut bench, told_by, others) = Bench::asked();
    assert_eq!(bench.reply(others[0], 1, done(LONG)), vec![]);
    assert_eq!(bench.digest(others[1], 1, LONG), vec![]);
    assert_eq!(bench.digest(others[2], 1, LONG), vec![], "it was not held");
    assert_eq!(bench.reply(told_by, 1, done(LONG)), completed(LONG));

    let (mut bench, told_by, others) = Bench::asked();
    let large = Outcome::Done(Bytes::from(vec![1; CLIENT_HELD_BYTES_MAX + 1]));
    assert_eq!(bench.reply(told_by, 1, large), vec![]);
    let digest = vec![1; CLIENT_HELD_BYTES_MAX + 1];
    others.iter().for_each(|id| assert_eq!(bench.digest(*id, 1, &digest), vec![]));
    assert_eq!(bench.core.outstanding(), 1, "it was not held either");
}

#[test]
fn when_too_much_is_held_the_highest_number_gives_way() {
    let mut bench = Bench::of(4, 1);
    for number in 1..=4 {
        bench.submit(number);
    }
    bench.round(0);
    let large = Bytes::from(vec![1; CLIENT_HELD_BYTES_MAX / 2]);
    let tells = |number| teller(&ClientId([7; 32]), number, 4).0;
    for number in [4, 2, 1, 3] {
        assert_eq!(bench.reply(tells(number), number, Outcome::Done(large.clone())), vec![]);
    }
    for number in [4, 3, 2, 1] {
        let others = (0..4).filter(|id| *id != tells(number)).take(2);
        let effects: Vec<_> = others.flat_map(|id| bench.digest(id, number, &large)).collect();
        assert_eq!(effects.len(), usize::from(number < 3), "{number}: {} effects", effects.len());
    }
}

/// A teller that is behind has the result on its way when the others, asked again, have forgotten
/// it already.
#[test]
fn a_result_that_its_teller_may_still_tell_is_not_given_up() {
    let (mut bench, told_by, others) = Bench::asked();
    for id in others {
        assert_eq!(bench.digest(id, 1, LONG), vec![]);
        assert_eq!(bench.reply(id, 1, Outcome::Forgotten), vec![]);
    }
    assert_eq!(bench.reply(told_by, 1, done(LONG)), completed(LONG));

    let forgotten = vec![Effect::Completed { number: 1, outcome: Outcome::Forgotten }];
    let (mut bench, told_by, others) = Bench::asked();
    others.iter().for_each(|id| assert_eq!(bench.reply(*id, 1, Outcome::Forgotten), vec![]));
    assert_eq!(bench.reply(told_by, 1, Outcome::Forgotten), forgotten, "it has nothing to tell");

    let (mut bench, _, others) = Bench::asked();
    for attempt in 1..told::TELLER_ATTEMPTS {
        others.iter().for_each(|id| assert_eq!(bench.reply(*id, 1, Outcome::Forgotten), vec![]));
        assert_eq!(bench.sent(u64::from(attempt) * 10_000).len(), 1, "asked again");
    }
    assert_eq!(bench.reply(others[0], 1, Outcome::Forgotten), forgotten, "it is faulty or slow");
}

#[test]
fn in_larger_groups_queries_do_without_f_replicas() {
    let mut bench = Bench::of(4, 1);
    bench.query(1);
    bench.round(0);
    assert_eq!(bench.answer(0, 1, b"old"), vec![]);
    assert_eq!(bench.answer(1, 1, b"new"), vec![]);
    assert_eq!(bench.answer(2, 1, b"new"), vec![]);
    assert_eq!(bench.sent(1), vec![], "the fourth may agree with two of them");
    let outcome = done(b"new");
    assert_eq!(bench.answer(3, 1, b"new"), vec![Effect::Completed { number: 1, outcome }]);
}

#[test]
fn a_query_is_ordered_as_soon_as_too_few_can_agree() {
    let mut bench = Bench::of(4, 1);
    bench.query(1);
    bench.round(0);
    bench.answer(0, 1, b"a");
    bench.answer(1, 1, b"b");
    assert_eq!(bench.sent(1), vec![]);
    bench.answer(2, 1, b"c");
    assert_eq!(bench.sent(2), vec![(set(&[0]), 1, vec![1])], "at most two could agree");
}
