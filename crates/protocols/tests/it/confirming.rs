//! Clients that decide when to rely on a result: what they take for enough, and for the primary.

use crate::swarm::factories;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::limits::CLIENT_LATE_MAX;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Place, Reply, ToClient};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::quorum::Quorums;
use pentarchy_protocols::ClientStart;
use pentarchy_sim::wide::Wide;

/// A client of four replicas that waits for the result of a request.
struct Bench {
    core: Box<dyn ClientCore>,
    out: Vec<Effect>,
    number: u64,
}

impl Bench {
    fn new(protocol: &str) -> Self {
        let group = Quorums { n: 4, f: 1 };
        let entry = pentarchy_protocols::find(protocol).expect("it is one");
        let (client, timeouts) = (ClientId([1; 32]), Timeouts::default());
        let core =
            (entry.client)(ClientStart { client, group, timeouts, start_floor: 1, seed: None });
        Self { core, out: Vec::new(), number: 1 }
    }

    fn asks(&mut self) -> Option<ReplicaSet> {
        self.asks_at(1)
    }

    /// Whether, by then, it asks replicas to confirm a place.
    fn has_it_confirmed(&mut self, now: u64) -> bool {
        self.core.step(Event::Round { now: Millis(now) }, &mut self.out);
        self.out.drain(..).any(|effect| matches!(effect, Effect::Protocol { .. }))
    }

    fn asks_at(&mut self, now: u64) -> Option<ReplicaSet> {
        let number = self.number;
        self.core.step(Event::Submit { number, operation: "op".into() }, &mut self.out);
        self.core.step(Event::Round { now: Millis(now) }, &mut self.out);
        self.out.drain(..).find_map(|effect| match effect {
            Effect::Request { to, .. } => Some(to),
            _ => None,
        })
    }

    fn says(&mut self, from: u16, message: ToClient) {
        self.core.step(Event::Message { from: ReplicaId(from), message }, &mut self.out);
    }

    fn answers(&mut self, from: u16, slot: u64) {
        self.answers_at(from, place(slot));
    }

    fn answers_at(&mut self, from: u16, place: Place) {
        let replies = vec![Reply { number: self.number, outcome: Outcome::Done("yes".into()) }];
        self.says(from, ToClient::Speculative { primary: ReplicaId(1), place, replies });
    }

    fn is_done(&self) -> bool {
        self.core.outstanding() == 0
    }
}

fn place(slot: u64) -> Place {
    Place { view: View(0), slot: Slot(slot), history: Digest::default() }
}

/// In the second epoch, in view 0, another replica is primary than in the first, and all say so
/// with what they answer.
#[test]
fn clients_know_the_primary_of_later_epochs() {
    let run = |protocol| {
        let mut bench = Bench::new(protocol);
        (0..4).for_each(|from| bench.answers(from, 9));
        bench.asks()
    };
    for protocol in ["minzyzzyva", "zyzzyva", "pbft-tentative"] {
        assert_eq!(run(protocol), Some([ReplicaId(1)].into_iter().collect()));
        let by_view = mutant::with(Some("client.takes-views-for-primaries"), || run(protocol));
        assert_eq!(by_view, Some([ReplicaId(0)].into_iter().collect()));
    }
}

/// The last of four replicas is late, and the others confirm the place. How long after them the
/// client has a place confirmed the next time: the wait that would have done; and the time after
/// that, when the last one says nothing any more.
#[test]
fn a_client_waits_for_who_is_late_and_not_for_who_is_gone() {
    let run = |protocol| {
        let mut bench = Bench::new(protocol);
        // Says in the millisecond after how many the client wants the place confirmed.
        let mut request = |number: u64, late: Option<u64>| {
            let begun = 100 * number;
            bench.number = number;
            bench.core.step(Event::Round { now: Millis(begun) }, &mut bench.out);
            bench.asks_at(begun);
            (0..3).for_each(|from| bench.answers(from, number));
            let waited = (0..60).find(|after| bench.has_it_confirmed(begun + after));
            let confirmed = Millis(begun + waited.expect("it does not wait for ever") + 10);
            bench.core.step(Event::Round { now: confirmed }, &mut bench.out);
            (0..3).for_each(|from| bench.says(from, ToClient::Committed(place(number))));
            assert!(bench.is_done());
            if let Some(late) = late {
                bench.core.step(Event::Round { now: Millis(begun + late) }, &mut bench.out);
                bench.answers(3, number);
            }
            waited
        };
        [request(1, Some(30)), request(2, None), request(3, None), request(4, None)]
    };
    let waited = run("minzyzzyva");
    assert_eq!(waited, [Some(1), Some(31), Some(15), Some(7)]);
    let forgetful = || run("minzyzzyva");
    let forgetful = mutant::with(Some("client.late-answers-teach-nothing"), forgetful);
    assert_eq!(forgetful, [Some(1), Some(0), Some(0), Some(0)]);
    // Its replicas confirm by themselves for a while, so it always gives them a millisecond.
    assert_eq!(run("zyzzyva"), [Some(1), Some(31), Some(15), Some(7)]);
    let forgetful = |bugs| mutant::with(Some(bugs), || run("zyzzyva"));
    assert_eq!(forgetful("client.late-answers-teach-nothing"), [Some(1); 4]);
}

/// A backup is gone, and the client has learned that nobody else is to be waited for. Replicas
/// confirm the place of the next request by themselves, and say so in the round after the one in
/// which they answered, or in the next millisecond. Whether it asked them for it.
#[test]
fn a_client_hears_that_replicas_confirm_by_themselves() {
    let asks = |protocol, after| {
        let mut bench = Bench::new(protocol);
        let mut asks = false;
        for number in 1..=2 {
            let begun = 100 * number;
            bench.number = number;
            bench.asks_at(begun);
            (0..3).for_each(|from| bench.answers(from, number));
            let confirmed = if number == 1 { 1 } else { after };
            asks = (0..=confirmed).any(|after| bench.has_it_confirmed(begun + after));
            (0..3).for_each(|from| bench.says(from, ToClient::Committed(place(number))));
            assert!(bench.is_done());
        }
        asks
    };
    let all = |after| ["zyzzyva", "zyzzyva-hasty", "zyzzyva-plain"].map(|it| asks(it, after));
    assert_eq!([all(0), all(1)], [[false, true, true], [true; 3]]);
}

/// The last of four replicas always answers 40 ms after the others, and to have a place confirmed
/// takes one. How long the client waits in all for ten results, of which the second is confirmed
/// without being asked for, so that it is tempted to wait for all as long as it ever does.
#[test]
fn a_client_does_not_wait_for_who_is_always_late() {
    let run = || {
        let mut bench = Bench::new("zyzzyva");
        let mut waited = 0;
        for number in 1..=10 {
            let begun = 100 * number;
            let now = |bench: &mut Bench, after: u64| {
                bench.core.step(Event::Round { now: Millis(begun + after) }, &mut bench.out);
            };
            bench.number = number;
            now(&mut bench, 0);
            bench.asks_at(begun);
            (0..3).for_each(|from| bench.answers(from, number));
            let asked = match number {
                2 => Some(0),
                _ => (0..40).find(|after| bench.has_it_confirmed(begun + after)),
            };
            if let Some(asked) = asked {
                if number != 2 {
                    now(&mut bench, asked + 1);
                }
                (0..3).for_each(|from| bench.says(from, ToClient::Committed(place(number))));
                assert!(bench.is_done());
                waited += asked;
            }
            now(&mut bench, 40);
            bench.answers(3, number);
            assert!(bench.is_done());
            waited += if asked.is_none() { 40 } else { 0 };
        }
        waited
    };
    assert_eq!(run(), 40 + 8, "the third in vain, and a millisecond for each but that");
    assert!(mutant::with(Some("client.waits-whatever-it-takes"), run) > 8 * 40 - 1);
}

/// A place was confirmed without being asked for, and then the last replica answers, so many
/// milliseconds later. How long the client waits for it the next time: as long as that took, or as
/// long as it waits at all. Who is not waited for may be behind by any time, and catch up.
#[test]
fn who_is_behind_while_nobody_waits_gets_the_longest_wait() {
    let waited = |late: u64| {
        let mut bench = Bench::new("zyzzyva");
        bench.asks_at(100);
        for from in 0..3 {
            bench.answers(from, 1);
            bench.says(from, ToClient::Committed(place(1)));
        }
        assert!(bench.is_done());
        bench.core.step(Event::Round { now: Millis(100 + late) }, &mut bench.out);
        bench.answers(3, 1);
        bench.number = 2;
        bench.asks_at(300);
        (0..3).for_each(|from| bench.answers(from, 2));
        (0..60).find(|after| bench.has_it_confirmed(300 + after))
    };
    assert_eq!([30, 49, 80].map(waited), [Some(31), Some(50), Some(50)]);
}

/// Three of four replicas say with their answers that the place is confirmed: there is nothing to
/// wait for. What two of them say, and one of another place, is not enough.
#[test]
fn what_is_confirmed_as_it_is_told_has_no_client_ask() {
    let run = |places: [u64; 3]| {
        let mut bench = Bench::new("zyzzyva");
        bench.asks();
        for (from, at) in (0..).zip(places) {
            bench.answers(from, 1);
            bench.says(from, ToClient::Committed(place(at)));
        }
        (bench.is_done(), bench.has_it_confirmed(2))
    };
    assert_eq!(run([1, 1, 1]), (true, false));
    for places in [[2, 1, 1], [1, 1, 2]] {
        assert_eq!(run(places), (false, true));
    }
    let early = || run([1, 1, 1]);
    assert_eq!(mutant::with(Some("client.forgets-what-was-confirmed"), early), (false, true));
}

/// Three of four replicas keep a certificate for a place, and two of them said so before they say
/// again what came of it.
#[test]
fn who_answers_again_has_not_forgotten_that_it_confirmed() {
    let mut bench = Bench::new("zyzzyva");
    bench.asks();
    for from in 0..2 {
        bench.answers(from, 1);
        bench.says(from, ToClient::Committed(place(1)));
        bench.answers(from, 1);
    }
    bench.answers(2, 1);
    bench.says(2, ToClient::Committed(place(1)));
    assert!(bench.is_done());
}

/// A client has two requests in a slot. One is told by all, the other by three; in between replicas
/// say that the place is confirmed. Whether both are done.
#[test]
fn a_place_is_confirmed_for_all_that_rests_on_it() {
    let mut bench = Bench::new("zyzzyva");
    for number in [1, 2] {
        bench.number = number;
        bench.asks();
    }
    for (from, number) in [(0, 1), (1, 1), (2, 1), (0, 2), (1, 2)] {
        bench.number = number;
        bench.answers(from, 1);
    }
    (0..2).for_each(|from| bench.says(from, ToClient::Committed(place(1))));
    bench.number = 1;
    bench.answers(3, 1);
    assert_eq!(bench.core.outstanding(), 1, "all told the first");
    bench.says(2, ToClient::Committed(place(1)));
    bench.number = 2;
    bench.answers(2, 1);
    assert!(bench.is_done(), "three told the second, and three keep a certificate");
}

/// More places than are remembered were confirmed without the last replica, in one epoch. In the
/// next one, whose views begin again, it is late once: whether that is noticed.
#[test]
fn later_epochs_teach_patience_too() {
    let mut bench = Bench::new("zyzzyva");
    let mut confirmed = |number: u64, place: Place| {
        bench.number = number;
        bench.asks_at(100 * number);
        for from in 0..3 {
            bench.answers_at(from, place);
            bench.says(from, ToClient::Committed(place));
        }
        assert!(bench.is_done());
    };
    for number in 1..=CLIENT_LATE_MAX as u64 {
        confirmed(number, Place { view: View(1), ..place(number) });
    }
    let number = CLIENT_LATE_MAX as u64 + 1;
    confirmed(number, place(number));
    bench.core.step(Event::Round { now: Millis(100 * number + 30) }, &mut bench.out);
    bench.answers(3, number);
    bench.number = number + 1;
    bench.asks_at(100 * bench.number);
    (0..3).for_each(|from| bench.answers(from, number + 1));
    assert!(!bench.has_it_confirmed(100 * (number + 1) + 30));
    assert!(bench.has_it_confirmed(100 * (number + 1) + 31));
}

/// The last of four answers rests on another place than those before it.
#[test]
fn answers_from_different_places_do_not_add_up() {
    for protocol in ["minzyzzyva", "zyzzyva", "pbft-tentative"] {
        let run = || {
            let mut bench = Bench::new(protocol);
            bench.asks();
            (0..4).for_each(|from| bench.answers(from, 1 + u64::from(from) / 2));
            let before = bench.is_done();
            (0..2).for_each(|from| bench.answers(from, 2));
            (before, bench.is_done())
        };
        assert_eq!(run(), (false, true), "{protocol}");
        let added_up = mutant::with(Some("client.ignores-places"), run);
        assert_eq!(added_up, (true, true), "{protocol}");
    }
}

/// Three of four answered alike. How many have to confirm the place.
#[test]
fn a_place_is_confirmed_by_enough() {
    let run = |protocol| {
        let mut bench = Bench::new(protocol);
        bench.asks();
        (0..3).for_each(|from| bench.answers(from, 1));
        (1..=4).find(|count| {
            bench.says(0, ToClient::Committed(place(2)));
            bench.says(9, ToClient::Committed(place(1)));
            bench.says(count - 1, ToClient::Committed(place(1)));
            bench.is_done()
        })
    };
    let bugs = [
        ("minzyzzyva", "minzyzzyva.client-believes-one", 2),
        ("zyzzyva", "zyzzyva.client-trusts-one-keeper", 3),
    ];
    for (protocol, bug, enough) in bugs {
        assert_eq!(run(protocol), Some(enough));
        assert_eq!(mutant::with(Some(bug), || run(protocol)), Some(1));
    }
}

/// On slow links clients that show requests to all have primaries replaced, until it is known that
/// all are as slow. Nothing is lost, so nobody should have to ask again for what a view change
/// takes back, or for what stands in another view since.
#[test]
fn a_view_change_has_no_client_wait_until_it_asks_again() {
    let cases = [
        ("frame.taken-back-and-forgotten", "minzyzzyva", 50, 1),
        ("executor.other-view-not-told", "minzyzzyva", 50, 14),
        ("executor.other-view-not-told", "zyzzyva", 50, 7),
        ("pbft-tentative.not-told-again", "pbft-tentative", 30, 16),
        ("pbft-tentative.not-told-again", "pbft-tentative", 30, 36),
    ];
    for (bug, protocol, link_ms, seed) in cases {
        let (link_us, deviation_us) = (link_ms * 1_000, link_ms * 100);
        let wide = Wide { f: 1, link_us, deviation_us, requests: 300 };
        let retry_us = wide.options(&factories(protocol)).timeouts.client_retry_ms * 1_000;
        let slowest = |seed| {
            let took = wide.latencies(seed, &factories(protocol)).expect("nothing goes wrong");
            took.into_iter().max().expect("there were some")
        };
        // The first of these worlds in which the bug shows.
        let found = (seed..seed + 40).find(|seed| {
            let (usual, slow) = (slowest(*seed), mutant::with(Some(bug), || slowest(*seed)));
            assert!(usual < retry_us / 10, "{bug} {protocol} {seed}: {usual} {slow}");
            slow > retry_us
        });
        assert!(found.is_some(), "{bug} {protocol}");
    }
}
