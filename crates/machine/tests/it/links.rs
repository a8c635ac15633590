//! Links that go down, and peers that send more than their share.

use crate::bench::{Bench, client, request};
use bytes::Bytes;
use pentarchy_core::ids::{MemberId, Node};
use pentarchy_machine::HostLimits;

/// A client of which only one half of the connection works asks again over another one.
#[test]
fn a_result_that_was_lost_with_its_link_is_told_again_and_executed_once() {
    let (mut bench, id) = (Bench::new(HostLimits::default()), client(1));
    let sent = [(id, request(id, 1, true))];
    // What it sent comes; no answer can leave.
    bench.round(1, &sent).unwrap();
    assert!(bench.take_results().is_empty());
    assert_eq!(bench.status().requests, 1);
    bench.connect(id);
    bench.round(1, &[]).unwrap();
    assert!(bench.take_results().is_empty(), "nobody asked over this one");
    bench.round(1, &sent).unwrap();
    assert_eq!(bench.take_results(), [(id, 1)]);
    assert_eq!(bench.status().requests, 1, "it was executed once");
    bench.machine.on_link_down(Node::Client(id));
    bench.round(1, &sent).unwrap();
    assert!(bench.take_results().is_empty());
}

#[test]
fn a_peer_that_sends_much_waits_and_the_others_do_not() {
    let mut bench = Bench::new(HostLimits::default());
    // Two looks at the clock for each message, of a millisecond each.
    bench.driver.look_ms = 1;
    let (flood, few) = (MemberId(1), MemberId(2));
    let garbage = |count| std::iter::repeat_n(Bytes::from_static(&[9]), count);
    bench.machine.on_peer(flood, garbage(20), false);
    bench.machine.on_peer(few, garbage(1), false);
    bench.round(1, &[]).unwrap();
    assert!(bench.machine.has_waiting(flood) && !bench.machine.has_waiting(few));
    let refused = bench.status().messages["refused"].messages_in;
    assert!((2..20).contains(&refused), "{refused}");
    // A new connection takes the place of what came over the one before.
    bench.machine.on_peer(flood, garbage(1), true);
    bench.round(1, &[]).unwrap();
    assert!(!bench.machine.has_inbound());
    assert_eq!(bench.status().messages["refused"].messages_in, refused + 1);
}

#[test]
fn connected_peers_are_those_whose_link_is_up() {
    let mut bench = Bench::new(HostLimits::default());
    let peer = Node::Member(MemberId(2));
    bench.machine.on_link_up(peer);
    assert_eq!(bench.status().peers, [2]);
    bench.machine.on_link_down(peer);
    assert!(bench.status().peers.is_empty());
}
