use super::*;
use alloc::vec;
use pentarchy_core::ids::View;

mod digests;
mod fences;
mod judged;

const RETRY: u64 = 200;

struct Bench {
    core: VotingClient,
    out: Vec<Effect>,
}

fn done(result: &'static [u8]) -> Outcome {
    Outcome::Done(Bytes::from_static(result))
}

fn set(ids: &[u16]) -> ReplicaSet {
    ids.iter().copied().map(ReplicaId).collect()
}

impl Bench {
    fn new(f: usize) -> Self {
        Self::of(2 * f + 1, f)
    }

    /// Of `2f + 1` replicas, as hybrid protocols have it; of more, as others do.
    fn of(n: usize, f: usize) -> Self {
        let timeouts = Timeouts { client_retry_ms: RETRY, ..Timeouts::default() };
        let group = Quorums { n, f };
        let quorums = match n == 2 * f + 1 {
            true => ClientQuorums { group, replies: f + 1, answers: n },
            false => ClientQuorums { group, replies: 2 * f + 1, answers: n - f },
        };
        let core = VotingClient::new(ClientId([7; 32]), quorums, timeouts, 1);
        Self { core, out: Vec::new() }
    }

    fn step(&mut self, event: Event) -> Vec<Effect> {
        self.core.step(event, &mut self.out);
        core::mem::take(&mut self.out)
    }

    fn submit(&mut self, number: u64) -> Vec<Effect> {
        self.submit_bytes(number, 4)
    }

    fn submit_bytes(&mut self, number: u64, bytes: usize) -> Vec<Effect> {
        self.step(Event::Submit { number, operation: Bytes::from(vec![1; bytes]) })
    }

    fn query(&mut self, number: u64) {
        let operation = Bytes::from_static(b"get");
        assert_eq!(self.step(Event::Query { number, operation }), vec![]);
    }

    fn round(&mut self, now: u64) -> Vec<Effect> {
        self.step(Event::Round { now: Millis(now) })
    }

    /// The requests that a round sends: to whom, the floor, and the numbers.
    fn sent(&mut self, now: u64) -> Vec<(ReplicaSet, u64, Vec<u64>)> {
        let effects = self.round(now);
        let request = |effect| match effect {
            Effect::Request { to, draft } => {
                let numbers = draft.requests.iter().map(|request| request.number).collect();
                Some((to, draft.floor, numbers))
            }
            _ => None,
        };
        effects.into_iter().filter_map(request).collect()
    }

    fn reply(&mut self, from: u16, number: u64, outcome: Outcome) -> Vec<Effect> {
        self.reply_in(0, from, number, outcome)
    }

    fn reply_in(&mut self, view: u64, from: u16, number: u64, outcome: Outcome) -> Vec<Effect> {
        let replies = vec![Reply { number, outcome }];
        let message = ToClient::Replies { view: View(view), replies };
        self.step(Event::Message { from: ReplicaId(from), message })
    }

    fn answer(&mut self, from: u16, number: u64, result: &'static [u8]) -> Vec<Effect> {
        let message = ToClient::Answer { number, result: Bytes::from_static(result) };
        self.step(Event::Message { from: ReplicaId(from), message })
    }
}

#[test]
fn a_result_is_believed_when_f_plus_1_distinct_replicas_report_it() {
    for f in 1..=3 {
        let mut bench = Bench::new(f);
        bench.submit(1);
        bench.round(0);
        for from in 0..f as u16 {
            assert_eq!(bench.reply(from, 1, done(b"yes")), vec![]);
            assert_eq!(bench.reply(from, 1, done(b"yes")), vec![], "a vote counts once");
        }
        assert_eq!(bench.reply(f as u16, 1, done(b"no")), vec![], "another result");
        assert_eq!(bench.reply(200, 1, done(b"yes")), vec![], "no member");
        let completed = Effect::Completed { number: 1, outcome: done(b"yes") };
        assert_eq!(bench.reply(f as u16 + 1, 1, done(b"yes")), vec![completed]);
        assert_eq!(bench.reply(f as u16 + 1, 1, done(b"yes")), vec![], "once");
        assert_eq!(bench.core.outstanding(), 0);
        assert_eq!(bench.round(10_000), vec![], "nothing is sent again and nothing is awaited");
    }
}

#[test]
fn long_results_are_told_apart_and_delivered_whole() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.round(0);
    let long = |last| Outcome::Done(Bytes::from([vec![0; 999], vec![last]].concat()));
    assert_eq!(bench.reply(0, 1, long(1)), vec![]);
    assert_eq!(bench.reply(1, 1, long(2)), vec![]);
    let completed = Effect::Completed { number: 1, outcome: long(2) };
    assert_eq!(bench.reply(2, 1, long(2)), vec![completed]);
}

#[test]
fn a_short_result_and_its_padded_form_differ() {
    let short = Fingerprint::of(&done(b"a"));
    assert_ne!(short, Fingerprint::of(&done(b"a\0")));
    assert_ne!(Fingerprint::of(&done(b"")), Fingerprint::of(&Outcome::Forgotten));
    assert_ne!(Fingerprint::of(&Outcome::Refused), Fingerprint::of(&Outcome::Forgotten));
}

#[test]
fn a_replica_that_forgets_a_result_still_vouches_for_it() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.round(0);
    bench.reply(0, 1, done(b"result"));
    assert_eq!(bench.reply(0, 1, Outcome::Forgotten), vec![], "asked again before others answered");
    let completed = Effect::Completed { number: 1, outcome: done(b"result") };
    assert_eq!(bench.reply(1, 1, done(b"result")), vec![completed]);
}

#[test]
fn of_a_replicas_results_the_last_one_counts() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.round(0);
    bench.reply(0, 1, done(b"old"));
    assert_eq!(bench.reply(0, 1, done(b"new")), vec![]);
    assert_eq!(bench.reply(1, 1, done(b"old")), vec![], "the first vote was replaced");
    assert_eq!(bench.reply(1, 1, Outcome::Forgotten), vec![]);
    let completed = Effect::Completed { number: 1, outcome: Outcome::Forgotten };
    assert_eq!(bench.reply(2, 1, Outcome::Forgotten), vec![completed]);
}

#[test]
fn what_waits_goes_in_one_draft_to_the_primary_then_the_same_to_all_with_backoff() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.submit(3);
    assert_eq!(bench.sent(1_000), vec![(set(&[0]), 1, vec![1, 3])]);
    bench.submit(4);
    assert_eq!(bench.sent(1_001), vec![(set(&[0]), 1, vec![4])]);
    assert_eq!(bench.sent(1_199), vec![]);
    assert_eq!(bench.sent(1_200), vec![(set(&[0, 1, 2]), 1, vec![1, 3])]);
    assert_eq!(bench.sent(1_201), vec![(set(&[0, 1, 2]), 1, vec![4])]);
    for from in 0..2 {
        bench.reply(from, 4, done(b""));
        bench.reply(from, 1, done(b""));
    }
    let mut times = vec![];
    for now in 1_202..8_000 {
        if let [sent] = bench.sent(now).as_slice() {
            assert_eq!(*sent, (set(&[0, 1, 2]), 1, vec![1, 3]), "the same draft, whole");
            times.push(now);
        }
    }
    let doubled = [1_600, 2_400, 4_000, 5_600, 7_200];
    assert_eq!(times, doubled, "doubling up to eight times the base");
}

#[test]
fn it_asks_to_be_woken_for_the_next_deadline() {
    let mut bench = Bench::new(1);
    assert_eq!(bench.round(5), vec![]);
    bench.submit(1);
    assert!(bench.round(10).contains(&Effect::WakeAt(Millis(10 + RETRY))));
    bench.submit(2);
    assert!(bench.round(50).contains(&Effect::WakeAt(Millis(10 + RETRY))));
    assert!(bench.round(10 + RETRY).contains(&Effect::WakeAt(Millis(50 + RETRY))));
}

#[test]
fn the_floor_is_the_lowest_outstanding_number() {
    let mut bench = Bench::new(1);
    for number in [2, 5, 6] {
        bench.submit(number);
    }
    assert_eq!(bench.sent(0), vec![(set(&[0]), 2, vec![2, 5, 6])]);
    bench.reply(0, 5, done(b""));
    bench.reply(1, 5, done(b""));
    assert_eq!(bench.core.floor(), 2);
    bench.reply(0, 2, done(b""));
    bench.reply(1, 2, done(b""));
    assert_eq!(bench.core.floor(), 6);
    bench.submit(9);
    assert_eq!(bench.sent(1), vec![(set(&[0]), 6, vec![9])]);
    for number in [6, 9] {
        bench.reply(0, number, done(b""));
        bench.reply(1, number, done(b""));
    }
    assert_eq!(bench.core.floor(), 10);
}

#[test]
fn one_liar_cannot_steer_to_another_primary() {
    let mut bench = Bench::new(1);
    bench.reply_in(1, 2, 99, done(b""));
    assert_eq!(bench.core.primary(), ReplicaId(0));
    bench.reply_in(4, 1, 99, done(b""));
    assert_eq!(bench.core.primary(), ReplicaId(1), "both have reached view 1");
    bench.reply_in(1, 0, 99, done(b""));
    bench.reply_in(0, 1, 99, done(b""));
    assert_eq!(bench.core.primary(), ReplicaId(1), "one replica takes nothing back");
    bench.reply_in(u64::MAX, 1, 99, done(b""));
    assert_eq!(bench.core.primary(), ReplicaId(1), "nor does it go ahead alone");
    bench.submit(1);
    assert_eq!(bench.sent(0), vec![(set(&[1]), 1, vec![1])]);
    bench.reply_in(0, 0, 99, done(b""));
    bench.reply_in(0, 2, 99, done(b""));
    assert_eq!(bench.core.primary(), ReplicaId(0), "a new epoch begins with view 0 again");
}

#[test]
fn large_envelopes_go_to_all_at_once_and_the_largest_fits() {
    let mut bench = Bench::new(1);
    let header = Draft::header_bytes(None) + Draft::REQUEST_HEADER_BYTES;
    bench.submit_bytes(1, ENVELOPE_INLINE_BYTES - header);
    assert_eq!(bench.sent(0), vec![(set(&[0]), 1, vec![1])]);
    bench.submit_bytes(2, ENVELOPE_INLINE_BYTES - header + 1);
    assert_eq!(bench.sent(0), vec![(set(&[0, 1, 2]), 1, vec![2])]);
    bench.submit_bytes(3, OPERATION_BYTES_MAX);
    assert_eq!(bench.sent(0), vec![(set(&[0, 1, 2]), 1, vec![3])]);
    let refused = Effect::Completed { number: 4, outcome: Outcome::Refused };
    assert_eq!(bench.submit_bytes(4, OPERATION_BYTES_MAX + 1), vec![refused]);
}

#[test]
fn the_size_is_computed_as_it_comes_out() {
    use pentarchy_core::request::RequestAuth;
    let mut bench = Bench::new(1);
    for number in 1..=3 {
        bench.submit_bytes(number, 1000);
    }
    let Effect::Request { draft, .. } = bench.round(0).remove(0) else { panic!("a request") };
    let bytes = Draft::header_bytes(None) + 3 * (Draft::REQUEST_HEADER_BYTES + 1000);
    assert_eq!(draft.seal(RequestAuth::Signature([0; 64])).len(), bytes);
}

#[test]
fn drafts_are_split_at_the_limits() {
    let mut bench = Bench::new(1);
    for number in 1..=ENVELOPE_REQUESTS_MAX as u64 + 1 {
        bench.submit(number);
    }
    let counts: Vec<_> = bench.sent(0).iter().map(|(_, _, numbers)| numbers.len()).collect();
    assert_eq!(counts, vec![ENVELOPE_REQUESTS_MAX, 1]);
    for number in 1_000..1_005 {
        bench.submit_bytes(number, ENVELOPE_BYTES_MAX / 2 - 100);
    }
    let counts: Vec<_> = bench.sent(0).iter().map(|(_, _, numbers)| numbers.len()).collect();
    assert_eq!(counts, vec![2, 2, 1]);
}

#[test]
fn numbers_beyond_the_window_wait_for_the_floor() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.submit(CLIENT_WINDOW);
    bench.submit(CLIENT_WINDOW + 1);
    assert_eq!(bench.sent(0), vec![(set(&[0]), 1, vec![1, CLIENT_WINDOW])]);
    assert_eq!(bench.core.outstanding(), 3);
    bench.reply(0, 1, done(b""));
    bench.reply(1, 1, done(b""));
    assert_eq!(bench.sent(1), vec![(set(&[0]), CLIENT_WINDOW, vec![CLIENT_WINDOW + 1])]);
}

#[test]
fn more_than_a_window_outstanding_is_refused() {
    let mut bench = Bench::new(1);
    for number in 1..=CLIENT_WINDOW {
        assert_eq!(bench.submit(number), vec![]);
    }
    let number = CLIENT_WINDOW + 1;
    assert_eq!(bench.submit(number), vec![Effect::Completed { number, outcome: Outcome::Refused }]);
    assert_eq!(bench.core.outstanding() as u64, CLIENT_WINDOW);
}

#[test]
fn a_query_is_believed_when_all_answers_are_equal() {
    let mut bench = Bench::new(1);
    bench.query(1);
    let asked =
        Effect::Query { to: set(&[0, 1, 2]), number: 1, operation: Bytes::from_static(b"get") };
    assert_eq!(bench.round(0), vec![asked, Effect::WakeAt(Millis(QUERY_WAIT_MS))]);
    assert_eq!(bench.answer(0, 1, b"x"), vec![]);
    assert_eq!(bench.answer(1, 1, b"x"), vec![]);
    assert_eq!(bench.answer(1, 1, b"x"), vec![], "f + 1 are not enough for a read");
    let completed = Effect::Completed { number: 1, outcome: done(b"x") };
    assert_eq!(bench.answer(2, 1, b"x"), vec![completed]);
}

#[test]
fn a_query_without_agreement_is_ordered_under_its_number() {
    let mut bench = Bench::new(1);
    bench.query(1);
    bench.round(0);
    bench.answer(0, 1, b"old");
    assert_eq!(bench.answer(1, 1, b"new"), vec![]);
    assert_eq!(bench.sent(1), vec![(set(&[0]), 1, vec![1])]);
    assert_eq!(bench.answer(1, 1, b"old"), vec![], "answers no longer count");
    assert_eq!(bench.answer(2, 1, b"old"), vec![]);
    bench.reply(1, 1, done(b"new"));
    let completed = Effect::Completed { number: 1, outcome: done(b"new") };
    assert_eq!(bench.reply(2, 1, done(b"new")), vec![completed]);
}

#[test]
fn a_silent_replica_sends_queries_to_the_order_and_pauses_them() {
    let mut bench = Bench::new(1);
    bench.query(1);
    bench.round(100);
    bench.answer(0, 1, b"x");
    bench.answer(1, 1, b"x");
    assert_eq!(bench.sent(100 + QUERY_WAIT_MS - 1), vec![]);
    assert_eq!(bench.sent(100 + QUERY_WAIT_MS), vec![(set(&[0]), 1, vec![1])]);
    bench.query(2);
    assert_eq!(bench.sent(121), vec![(set(&[0]), 1, vec![2])], "at once");
    bench.query(3);
    let effects = bench.round(120 + QUERY_PAUSE_MS);
    let asked = |effect: &Effect| matches!(effect, Effect::Query { number: 3, .. });
    assert!(effects.iter().any(asked), "the pause is over: {effects:?}");
}

#[test]
fn a_full_primary_gets_one_more_interval() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.round(0);
    let busy = |from| Event::Message { from, message: ToClient::Busy { number: 1 } };
    bench.step(busy(ReplicaId(2)));
    bench.step(busy(ReplicaId(0)));
    assert_eq!(bench.sent(200), vec![(set(&[0]), 1, vec![1])]);
    bench.step(busy(ReplicaId(0)));
    assert_eq!(bench.sent(600), vec![(set(&[0, 1, 2]), 1, vec![1])], "not for ever");
}

#[test]
fn busy_from_one_who_was_not_asked_changes_nothing() {
    let mut bench = Bench::new(1);
    bench.submit(1);
    bench.round(0);
    let message = ToClient::Busy { number: 1 };
    bench.step(Event::Message { from: ReplicaId(2), message });
    assert_eq!(bench.sent(200), vec![(set(&[0, 1, 2]), 1, vec![1])]);
}

#[test]
fn a_new_channel_gets_what_the_old_one_may_have_lost() {
    let mut bench = Bench::new(1);
    bench.step(Event::Connected(ReplicaId(0)));
    bench.submit(1);
    assert_eq!(bench.sent(0), vec![(set(&[0]), 1, vec![1])]);
    bench.step(Event::Connected(ReplicaId(2)));
    assert_eq!(bench.sent(1), vec![], "it was never sent there");
    bench.step(Event::Connected(ReplicaId(0)));
    bench.step(Event::Connected(ReplicaId(9)));
    assert_eq!(bench.sent(2), vec![(set(&[0]), 1, vec![1])]);
    assert_eq!(bench.sent(3), vec![]);
}

#[test]
#[should_panic(expected = "numbers ascend")]
fn a_host_that_reuses_a_number_is_stopped() {
    let mut bench = Bench::new(1);
    bench.submit(5);
    bench.submit(5);
}

#[test]
fn what_is_submitted_while_envelopes_are_under_way_goes_into_one() {
    let mut bench = Bench::new(1);
    let max = CLIENT_ENVELOPES_MAX as u64;
    for number in 1..=max {
        bench.submit(number);
        assert_eq!(bench.sent(0), [(set(&[0]), 1, vec![number])]);
    }
    for number in max + 1..=max + 600 {
        bench.submit(number);
    }
    assert_eq!(bench.sent(0), [], "so many are under way");
    bench.reply(0, 2, done(b""));
    assert_eq!(bench.reply(1, 2, done(b"")).len(), 1);
    let rest: Vec<u64> = (max + 1..=max + 512).collect();
    assert_eq!(bench.sent(0), [(set(&[0]), 1, rest)]);
    assert_eq!(bench.sent(0), [], "the others wait for the next");
    bench.reply(0, 1, done(b""));
    bench.reply(1, 1, done(b""));
    assert_eq!(bench.sent(0), [(set(&[0]), 3, (max + 513..=max + 600).collect())]);
}

#[test]
fn a_client_of_a_slow_group_is_patient_within_bounds() {
    let mut bench = Bench::new(1);
    let answer = |bench: &mut Bench, number: u64, sent: u64, latency: u64| {
        bench.submit(number);
        assert_eq!(bench.sent(sent).len(), 1);
        bench.reply(0, number, done(b""));
        assert_eq!(bench.reply(1, number, done(b"")).len(), 1);
        bench.round(sent + latency);
    };
    for number in 0..40 {
        answer(&mut bench, 1 + number, number * 1_000, 190);
    }
    bench.submit(50);
    assert_eq!(bench.sent(50_000).len(), 1);
    assert_eq!(bench.sent(50_000 + RETRY), [], "answers took nearly as long");
    assert_eq!(bench.sent(50_380), [(set(&[0, 1, 2]), 50, vec![50])]);
    bench.reply(0, 50, done(b""));
    bench.reply(1, 50, done(b""));
    for number in 0..80 {
        answer(&mut bench, 100 + number, 100_000 + number * 1_000, 3);
    }
    bench.submit(200);
    assert_eq!(bench.sent(300_000).len(), 1);
    assert_eq!(bench.sent(300_000 + RETRY).len(), 1, "and forgets slow answers");
}

/// The next primary may fail as soon as the one before has been replaced.
#[test]
fn a_few_late_answers_do_not_make_a_client_patient() {
    let mut bench = Bench::new(1);
    for number in 1..=44 {
        let (sent, took) = (number * 1_000, if number > 40 { 600 } else { 3 });
        bench.submit(number);
        assert_eq!(bench.sent(sent).len(), 1);
        bench.reply(0, number, done(b""));
        assert_eq!(bench.reply(1, number, done(b"")).len(), 1);
        bench.round(sent + took);
    }
    bench.submit(50);
    assert_eq!(bench.sent(50_000).len(), 1);
    assert_eq!(bench.sent(50_000 + RETRY), [(set(&[0, 1, 2]), 50, vec![50])]);
}

/// A group with too much to do would else be sent everything by everyone.
#[test]
fn few_drafts_are_shown_to_backups_however_many_there_are_and_how_slow() {
    let Bench { core, out } = Bench::new(1);
    let mut bench = Bench { core: core.showing(7), out };
    let mut shown_in = |times: core::ops::Range<u64>, interval: u64| {
        let count = times.end - times.start;
        let shown = times.filter(|number| {
            bench.submit(*number);
            let sent = bench.sent(number * interval);
            bench.reply(0, *number, done(b"x"));
            bench.reply(1, *number, done(b"x"));
            sent.iter().any(|(to, _, _)| to.len() == 3)
        });
        (shown.count() as u64, count)
    };
    let (shown, of) = shown_in(1..2_000, 1_000);
    assert!((of / 12..of / 6).contains(&shown), "one in eight or so, not {shown} of {of}");
    let at_once = shown_in(2_000_000..2_004_000, 0).0;
    assert!(at_once <= 1, "none is due while no time passes, but {at_once} were shown");
}
