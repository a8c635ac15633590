//! What a long result costs: one replica tells it, the others its digest.

use crate::formulas::{HINT, OPERATION, PLACE, RESULT, alone, begun, sum};
use pentarchy_core::counter::Counter;
use pentarchy_core::limits::REPLY_WHOLE_BYTES;
use pentarchy_costs::group::Sum;
use pentarchy_costs::{Node, Unwatched};
use pentarchy_protocols::{Descriptor, PROTOCOLS};

const LONG: usize = 4096;
/// A number and a digest.
const DIGEST: usize = 8 + 32;

/// What comes to a client for one request with a long result, by kind, and in how many steps the
/// result is believed.
fn told(protocol: &Descriptor, f: usize, whole_bytes: usize) -> (Vec<(&'static str, Sum)>, usize) {
    let mut group = begun(protocol.rules.name, f, 1, 1);
    group.tell_whole(whole_bytes);
    group.submit_for(1, OPERATION, LONG);
    let steps = group.settle(2, &mut Unwatched);
    let seen = group.take_traffic().remove(&Node::Client(0)).unwrap_or_default();
    (seen.came.into_iter().collect(), steps)
}

#[test]
fn of_a_long_result_one_replica_tells_all_and_the_others_its_digest() {
    let _alone = alone();
    // The devices in here are USIGs, which are not what Hybster rests on.
    let runs = |it: &&Descriptor| it.is_for_users() && it.rules.device() == Counter::Usig;
    let all = PROTOCOLS.iter().copied().filter(runs);
    for (entry, f) in all.flat_map(|entry| [(entry, 1), (entry, 2)]) {
        let (n, speculative) = (entry.rules.replicas(f), entry.rules.speculative);
        let (names, head) = match speculative {
            true => (("speculative", "speculative_digests"), 1 + HINT + PLACE + 4),
            false => (("replies", "digests"), 1 + 8 + 4),
        };
        let name = entry.rules.name;
        let each = head + RESULT + LONG;
        let (came, usual) = told(entry, f, usize::MAX);
        assert_eq!(came, [(names.0, sum(n, each))], "{name} {f}");
        let (mut came, steps) = told(entry, f, REPLY_WHOLE_BYTES);
        came.sort_by_key(|(kind, _)| *kind != names.0);
        let digests = sum(n - 1, head + DIGEST);
        assert_eq!(came, [(names.0, sum(1, each)), (names.1, digests)], "{name} {f}");
        // MinBFT's client may have had enough before the last one told it.
        assert!(steps == usual || (!speculative && steps == usual + 1), "{name} {f}: {steps}");
        let (came, _) = told(entry, f, LONG);
        assert_eq!(came, [(names.0, sum(n, each))], "{name} {f}: not longer than that");
    }
}
