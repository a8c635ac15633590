//! What a replica heard, told again to a fresh one, and groups in virtual time.

use crate::formulas::alone;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::Unwatched;
use pentarchy_costs::host::Host;
use pentarchy_costs::model::{Plan, run};
use pentarchy_costs::ordering::{Heard, order};
use pentarchy_costs::real::{keys, membership, tuned};
use pentarchy_protocols::find;
use std::cell::Cell;

const PROTOCOLS: [&str; 3] = ["hybster", "minbft", "pbft"];

#[test]
fn a_fresh_replica_orders_what_the_recorded_one_did() {
    let _alone = alone();
    for name in PROTOCOLS {
        let entry = find(name).unwrap();
        let tuning = Tuning { checkpoint_slots: 4, window_slots: 8, ..Tuning::default() };
        for me in [0, 1].map(ReplicaId) {
            let mut group = tuned(entry, 1, 3, tuning);
            group.record(me);
            for wave in 1..=10 {
                group.submit(2, 8);
                group.settle(2 * wave, &mut Unwatched);
            }
            let recording = group.take_recording();
            let cuts = recording.iter().filter(|it| matches!(it, Heard::Checkpointed(..)));
            assert!(cuts.count() >= 2, "the window moves");
            let members = membership(entry, 1);
            let fresh = || Host::new(me, &members, entry, keys(entry, me, &members), tuning);
            assert_eq!(order(&mut fresh(), &recording), 60, "{name} {me}");
            // Without what the others said it orders nothing to the end.
            let deaf: Vec<_> =
                recording.into_iter().filter(|it| !matches!(it, Heard::Replica(..))).collect();
            assert_eq!(order(&mut fresh(), &deaf), 0, "{name} {me}");
        }
    }
}

/// Every piece of work takes as long, so that what comes out is the order of things alone.
fn modelled(name: &str, (pillars, cores): (usize, usize), link: u64) -> (u64, Vec<u64>) {
    let entry = find(name).unwrap();
    let plan = Plan {
        f: 1,
        pillars,
        cores,
        clients: 4,
        outstanding: 1,
        bytes: 0,
        tuning: Tuning { batch_requests: 1, ..Tuning::default() },
        link,
        per_frame: 0,
        warm_up: 1_000_000,
        counted: 4_000_000 + 40 * link,
    };
    let (asked, ticks) = (Cell::new(0), 10_000);
    let clock = || {
        asked.set(asked.get() + ticks / 2);
        asked.get()
    };
    let outcome = run(entry, plan, &clock);
    (outcome.completed, outcome.busy)
}

#[test]
fn in_virtual_time_pillars_on_as_many_processors_work_side_by_side() {
    let _alone = alone();
    for name in PROTOCOLS {
        let (one, busy) = modelled(name, (1, 1), 1_000);
        assert!(one > 0 && busy.len() == 2, "{name}: a pillar and execution");
        // One processor is never busier than all the time.
        assert!(busy.iter().sum::<u64>() <= 4_040_000 + 10_000, "{name}: {busy:?}");
        let (shared, _) = modelled(name, (4, 1), 1_000);
        let (own, _) = modelled(name, (4, 4), 1_000);
        assert!(2 * own > 3 * shared, "{name}: {own} on four processors, {shared} on one");
        assert!(2 * own > 3 * one, "{name}: {own} with four pillars, {one} with one");
    }
}

/// Where links are slow, what a client waits for are steps: two, three, and five.
#[test]
fn in_virtual_time_speculation_answers_earlier_and_one_server_earliest() {
    let _alone = alone();
    let names = ["unreplicated", "zyzzyva", "pbft"];
    let [alone, early, late] = names.map(|name| modelled(name, (1, 1), 500_000).0);
    assert!(2 * early > 3 * late && late > 0, "{early} of Zyzzyva, {late} of PBFT");
    assert!(4 * alone > 5 * early, "{alone} of one server, {early} of Zyzzyva");
}
