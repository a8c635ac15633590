//! What a replica heard, told again to a fresh one, and groups in virtual time.

use crate::formulas::alone;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::mailbox::Stalled;
use pentarchy_costs::model::{Outcome, Plan, record, run};
use pentarchy_costs::ordering::{Heard, Recording, Thread, order};
use pentarchy_costs::parts::Blueprint;
use pentarchy_costs::real::Envelopes;
use pentarchy_protocols::{BASELINE, DEFAULT, EXAMPLES, Examples};
use std::cell::Cell;
use std::sync::Mutex;
use std::time::Duration;

/// Those that can be split.
const SPLIT: [&str; 3] = {
    let Examples { split, signed, macs, .. } = EXAMPLES;
    [split.rules.name, signed.rules.name, macs.rules.name]
};

const PATIENCE: Duration = Duration::from_secs(60);

const PLAN: Plan = Plan {
    cores: 9,
    clients: 12,
    outstanding: 2,
    bytes: 8,
    link: 20_000,
    mail: 50_000,
    per_frame: 0,
    warm_up: 0,
    counted: 0,
};

fn group(name: &str, pillars: u8) -> Blueprint {
    let tuning =
        Tuning { checkpoint_slots: 8, window_slots: 32, batch_requests: 4, ..Tuning::default() };
    Blueprint::new(name, 1, pillars, tuning).expect("it can be split")
}

fn recorded(group: &Blueprint, me: ReplicaId) -> Recording {
    record(group, PLAN, 10_000, me, 500)
}

fn count(heard: &[Heard], wanted: impl Fn(&Heard) -> bool) -> usize {
    heard.iter().filter(|it| wanted(it)).count()
}

/// How many requests a fresh replica orders that hears this, and which threads it has.
fn orders(group: &Blueprint, me: ReplicaId, recording: &Recording) -> (usize, Vec<Thread>) {
    let threads = Mutex::new(Vec::new());
    let around = |thread, work: &mut dyn FnMut()| {
        threads.lock().unwrap().push(thread);
        work();
    };
    let ordered =
        order(group.replica(me), recording, PATIENCE, &around).expect("nobody waits for ever");
    (ordered, threads.into_inner().unwrap())
}

#[test]
fn a_fresh_replica_orders_what_the_recorded_one_did() {
    let _alone = alone();
    for name in SPLIT.into_iter().chain([DEFAULT.rules.name]) {
        for me in [0, 1].map(ReplicaId) {
            let group = group(name, 1);
            let mut recording = recorded(&group, me);
            let cuts = count(&recording.front, |it| matches!(it, Heard::Checkpointed(..)));
            assert!(cuts >= 2, "the window moves");
            let (ordered, threads) = orders(&group, me, &recording);
            assert_eq!((ordered, threads), (recording.requests, vec![Thread::Front]), "{name}");
            assert!(ordered >= 500);
            // Without what the others said it orders nothing to the end.
            recording.front.retain(|it| !matches!(it, Heard::Replica(..)));
            assert_eq!(orders(&group, me, &recording).0, 0, "{name} {me}");
        }
    }
}

/// The merger and each pillar in a thread: what they say to each other they say again.
#[test]
fn so_does_one_of_several_pillars_with_a_thread_for_each_part() {
    let _alone = alone();
    for name in SPLIT {
        for (pillars, me) in [(2, 0), (2, 1), (4, 0)] {
            let (group, me) = (group(name, pillars), ReplicaId(me));
            let recording = recorded(&group, me);
            let cuts = count(&recording.front, |it| matches!(it, Heard::Checkpointed(..)));
            assert!(cuts >= 2, "the window moves");
            let peers = |heard: &[Heard]| count(heard, |it| matches!(it, Heard::Replica(..)));
            assert_eq!(peers(&recording.front), 0, "replicas speak to pillars");
            assert!(recording.pillar_cores.iter().all(|cell| peers(cell) > 0));
            for envelopes in [Envelopes::Checked, Envelopes::Believed] {
                let group = group.clone().with(envelopes);
                let (ordered, threads) = orders(&group, me, &recording);
                assert_eq!(ordered, recording.requests, "{name} {pillars} {me}");
                assert!(ordered >= 500 && threads.contains(&Thread::Front));
                let pillar_cores = (0..pillars.into()).map(Thread::Pillar);
                assert!(pillar_cores.clone().all(|cell| threads.contains(&cell)));
                assert_eq!(threads.len(), 1 + pillar_cores.count());
            }
        }
    }
}

/// What parts say to each other does not come from the recording.
#[test]
fn for_a_pillar_that_hears_no_peers_the_others_wait_and_not_for_ever() {
    let _alone = alone();
    let (group, me) = (group(EXAMPLES.split.rules.name, 2), ReplicaId(0));
    let mut recording = recorded(&group, me);
    recording.pillar_cores[1].retain(|it| !matches!(it, Heard::Replica(..)));
    let patience = Duration::from_millis(100);
    let ordered = order(group.replica(me), &recording, patience, &|_, work| work());
    assert_eq!(ordered, Err(Stalled));
}

/// Every round takes as long, so that what comes out is the order of things alone.
fn modelled(name: &str, (pillars, cores): (u8, usize), link: u64) -> Outcome {
    let tuning = Tuning { batch_requests: 1, ..Tuning::default() };
    let plan = Plan {
        cores,
        clients: 8,
        outstanding: 1,
        bytes: 0,
        link,
        mail: 0,
        warm_up: 1_000_000,
        counted: 4_000_000 + 40 * link,
        ..PLAN
    };
    let (asked, ticks) = (Cell::new(0), 10_000);
    let clock = || {
        asked.set(asked.get() + ticks / 2);
        asked.get()
    };
    run(&Blueprint::new(name, 1, pillars, tuning).expect("it can be split"), plan, &clock)
}

#[test]
fn in_virtual_time_pillars_on_as_many_processors_work_side_by_side() {
    let _alone = alone();
    for name in SPLIT {
        let one = modelled(name, (1, 1), 1_000);
        assert!(one.completed > 0 && one.pillars.is_empty(), "{name}: all is one part");
        let shared = modelled(name, (4, 1), 1_000);
        // One processor is never busier than all the time.
        let busy = shared.pillars.iter().sum::<u64>() + shared.rest;
        assert!(shared.pillars.len() == 4 && busy <= 4_040_000 + 10_000, "{name}: {shared:?}");
        let own = modelled(name, (4, 5), 1_000);
        assert!(2 * own.completed > 3 * shared.completed, "{name}: {own:?} and {shared:?}");
    }
}

/// Where links are slow, what a client waits for are steps: two, three, and five.
#[test]
fn in_virtual_time_speculation_answers_earlier_and_one_server_earliest() {
    let _alone = alone();
    let protocols = [BASELINE, EXAMPLES.speculative, EXAMPLES.signed];
    let completed = |name| modelled(name, (1, 1), 500_000).completed;
    let [alone, early, late] = protocols.map(|protocol| completed(protocol.rules.name));
    assert!(2 * early > 3 * late && late > 0, "{early} with speculation, {late} without");
    assert!(4 * alone > 5 * early, "{alone} of one server, {early} with speculation");
}
