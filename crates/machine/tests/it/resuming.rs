//! A replica that goes on from a data folder asks its peers first, and is silent until then.

use crate::bench::{Bench, client, pass, request};
use pentarchy_core::ids::ReplicaId;
use pentarchy_machine::HostLimits;

fn of(id: u16, resumes: bool) -> Bench {
    Bench::of(ReplicaId(id), HostLimits::default(), resumes)
}

#[test]
fn a_resuming_replica_serves_when_enough_peers_have_answered() {
    let (mut resumed, mut one, mut two) = (of(0, true), of(1, false), of(2, false));
    let id = client(1);
    resumed.connect(id);
    let sent = [(id, request(id, 1, true))];
    resumed.round(1, &sent).unwrap();
    assert_eq!(resumed.status().phase, "resuming");
    assert!(resumed.take_results().is_empty());
    for (peer, number) in [(&mut one, 1), (&mut two, 2)] {
        assert_eq!(resumed.status().phase, "resuming", "one answer is not enough");
        assert_eq!(pass(&mut resumed, 0, peer, number), 1, "it asks");
        peer.round(1, &[]).unwrap();
        assert_eq!(pass(peer, number, &mut resumed, 0), 1, "the peer answers");
        resumed.round(1, &[]).unwrap();
    }
    resumed.round(1, &sent).unwrap();
    assert_eq!(resumed.status().phase, "normal");
    assert_eq!(resumed.take_results(), [(id, 1)]);
}

/// The group must be able to go on with those that are left.
#[test]
fn a_resuming_replica_does_not_wait_for_ever() {
    let mut resumed = of(0, true);
    resumed.round(1, &[]).unwrap();
    resumed.round(9_000, &[]).unwrap();
    assert_eq!(resumed.status().phase, "resuming");
    resumed.round(1_001, &[]).unwrap();
    assert_eq!(resumed.status().phase, "normal");
}
