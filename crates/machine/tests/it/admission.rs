//! Clients that keep to no limit, and those that do.

use crate::bench::{Bench, client, request};
use bytes::Bytes;
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::PENDING_CLIENT_ENVELOPES_MAX;
use pentarchy_core::ports::client::ToClient;
use pentarchy_machine::{HangUp, HostLimits, Pause};

const HONEST: ClientId = client(1);
const LIAR: ClientId = client(2);

fn bench(limits: HostLimits) -> Bench {
    let mut bench = Bench::new(limits);
    [HONEST, LIAR].into_iter().for_each(|id| bench.connect(id));
    bench
}

fn requests(id: ClientId, numbers: impl Iterator<Item = u64>) -> Vec<(ClientId, Bytes)> {
    numbers.map(|number| (id, request(id, number, true))).collect()
}

#[test]
fn a_flood_of_one_client_costs_the_others_nothing() {
    let max = PENDING_CLIENT_ENVELOPES_MAX as u64;
    let mut bench = bench(HostLimits::default());
    let mut sent = requests(LIAR, 1..=max + 10);
    sent.extend(requests(HONEST, 1..=1));
    bench.round(1, &sent).unwrap();
    // The first that is too much is told so; the others are not even decoded.
    assert_eq!(bench.status().messages["excess"].messages_in, 9);
    let busy = |it: &&(ClientId, ToClient)| matches!(it.1, ToClient::Busy { .. });
    let busy: Vec<_> = bench.driver.to_clients.iter().filter(busy).map(|it| it.0).collect();
    assert_eq!(busy, [LIAR]);
    assert_eq!(bench.status().counters.client_busy, 10);
    assert!(bench.driver.paused.contains(&(LIAR, Pause::Flood)));
    assert!(bench.driver.paused.iter().all(|(id, _)| *id == LIAR));
    let results = bench.take_results();
    assert_eq!(results.iter().filter(|(id, _)| *id == LIAR).count() as u64, max);
    assert!(results.contains(&(HONEST, 1)));
}

#[test]
fn what_there_is_no_room_for_is_answered_and_comes_again() {
    let mut bench = bench(HostLimits { waiting_max: 2, ..HostLimits::default() });
    let mut sent = requests(LIAR, 1..=2);
    sent.extend(requests(HONEST, 1..=1));
    bench.round(1, &sent).unwrap();
    assert!(bench.driver.to_clients.contains(&(HONEST, ToClient::Busy { number: 1 })));
    assert_eq!(bench.driver.paused, [(HONEST, Pause::Busy)]);
    bench.take_results();
    bench.round(1, &requests(HONEST, 1..=1)).unwrap();
    assert_eq!(bench.take_results(), [(HONEST, 1)]);
}

#[test]
fn a_client_whose_requests_are_not_authentic_is_hung_up_on_alone() {
    let mut bench = bench(HostLimits::default());
    let sent = [
        (LIAR, request(LIAR, 1, true)),
        (LIAR, request(LIAR, 2, false)),
        (HONEST, request(HONEST, 1, true)),
    ];
    bench.round(1, &sent).unwrap();
    assert_eq!(bench.driver.hung_up, [(LIAR, HangUp::NotAuthentic)]);
    assert_eq!(bench.take_results(), [(HONEST, 1)]);
    assert_eq!(bench.status().counters.client_bad_auth, 1);
}

#[test]
fn nobody_sends_what_another_client_wrote() {
    let mut bench = bench(HostLimits::default());
    bench.round(1, &[(LIAR, request(HONEST, 1, true))]).unwrap();
    bench.round(1, &[(LIAR, Bytes::from_static(b"\xff"))]).unwrap();
    let expected = [(LIAR, HangUp::NotItsOwn), (LIAR, HangUp::Malformed)];
    assert_eq!(bench.driver.hung_up, expected);
    let counters = bench.status().counters;
    assert_eq!((counters.client_wrong_author, counters.client_malformed), (1, 1));
    assert!(bench.take_results().is_empty());
}
