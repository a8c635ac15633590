//! What the host judges itself.

use super::*;
use pentarchy_core::ports::client::ResultDigest;

impl Bench {
    fn submit_judged(&mut self, number: u64, fast: bool) {
        let operation = Bytes::from_static(b"get");
        assert_eq!(self.step(Event::SubmitJudged { number, operation, fast }), vec![]);
    }
}

fn told(from: u16, result: &'static [u8], ordered: bool, needed: usize) -> Effect {
    Effect::Told { number: 1, from: ReplicaId(from), outcome: done(result), ordered, needed }
}

#[test]
fn each_reply_is_handed_on_once_until_the_host_needs_no_more() {
    let mut bench = Bench::new(1);
    assert!(bench.core.hands_on());
    bench.submit_judged(1, false);
    assert_eq!(bench.sent(0), [(set(&[0]), 1, vec![1])]);
    assert_eq!(bench.reply(0, 1, done(b"a")), vec![told(0, b"a", true, 2)]);
    assert_eq!(bench.reply(0, 1, done(b"b")), vec![], "a replica tells once");
    assert_eq!(bench.reply(2, 1, done(b"a")), vec![told(2, b"a", true, 2)], "nothing is believed");
    assert_eq!(bench.sent(RETRY), [(set(&[0, 1, 2]), 1, vec![1])], "it is sent again");
    for number in [1, 2] {
        assert_eq!(bench.step(Event::Unheard { number, from: ReplicaId(2) }), vec![]);
    }
    assert_eq!(bench.reply(0, 1, done(b"a")), vec![], "this one was heard");
    assert_eq!(bench.reply(2, 1, done(b"a")), vec![told(2, b"a", true, 2)], "it was not heard");
    assert_eq!((bench.step(Event::Settled { number: 1 }), bench.core.outstanding()), (vec![], 0));
    assert_eq!(bench.reply(1, 1, done(b"a")), vec![]);
    assert_eq!(bench.sent(10_000), [], "nothing is sent again");
    bench.submit(2);
    assert_eq!(bench.sent(10_001), [(set(&[0]), 2, vec![2])], "the floor is above it");
}

#[test]
fn a_digest_is_no_reply_and_has_everyone_asked_soon() {
    let mut bench = Bench::new(1);
    bench.submit_judged(1, false);
    bench.round(0);
    let digests = vec![ResultDigest { number: 1, digest: Digest::of(b"long") }];
    let message = ToClient::Digests { view: View(0), digests };
    assert_eq!(bench.step(Event::Message { from: ReplicaId(1), message }), vec![]);
    assert_eq!(bench.sent(told::TELL_WAIT_MS), [(set(&[0, 1, 2]), 1, vec![1])]);
}

#[test]
fn a_fast_read_that_is_ordered_has_replies_of_its_own() {
    let mut bench = Bench::new(1);
    bench.submit_judged(1, true);
    bench.round(0);
    assert_eq!(bench.answer(0, 1, b"a"), vec![told(0, b"a", false, 3)]);
    assert_eq!(bench.answer(0, 1, b"b"), vec![]);
    assert_eq!(bench.reply(1, 1, done(b"a")), vec![], "it is not ordered yet");
    assert_eq!(bench.sent(QUERY_WAIT_MS), [(set(&[0]), 1, vec![1])]);
    assert_eq!(bench.answer(2, 1, b"a"), vec![], "it comes too late");
    assert_eq!(bench.reply(0, 1, done(b"a")), vec![told(0, b"a", true, 2)]);
    bench.submit_judged(2, true);
    bench.step(Event::Settled { number: 2 });
    bench.step(Event::Settled { number: 1 });
    assert_eq!(bench.core.outstanding(), 0);
}
