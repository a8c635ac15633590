//! The world with a naive protocol: it runs, it repeats itself, and each bug is named by the
//! checker whose business it is.

mod client;
mod epochs;
mod explore;
pub mod naive;
mod services;

use crate::adversary::Behaviour;
use crate::checker::{
    acceptance, agreement, at_most_once, bounds, checkpoint, events, evidence, linearizability,
    liveness, validity,
};
use crate::rng::Rng;
use crate::run::{Factories, PANIC, Summary, Violation, run_many, run_options, run_seed};
use crate::service::{Journal, Registers};
use crate::swarm::{Options, SimConfig};
use crate::workload::WorkloadOptions;
use client::{Flaw, NaiveClient};
use naive::Naive;
use pentarchy_core::erased::{CoreEffect, Erased, ReplicaCore};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::{Protocol, Setup};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

fn start<const BUG: u8>(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    Box::new(Erased::<Naive<BUG>>::start(setup, out))
}

/// A replica without a bug.
pub fn start_correct(setup: Setup, out: &mut Vec<CoreEffect>) -> Box<dyn ReplicaCore> {
    start::<{ naive::CORRECT }>(setup, out)
}

pub fn factories<const BUG: u8>() -> Factories<'static> {
    Factories::new(Naive::<BUG>::RULES, &start::<BUG>, &|setup| {
        Box::new(NaiveClient::new(setup, Flaw::None))
    })
}

fn perfect() -> SimConfig {
    SimConfig { faults: false, byzantine: false, requests: 300, ..SimConfig::default() }
}

fn run<const BUG: u8>(seed: u64) -> Result<Summary, Violation> {
    run_seed(seed, &perfect(), &factories::<BUG>())
}

/// The properties that the first seeds break.
fn named(factories: &Factories<'_>, seeds: u64) -> BTreeSet<&'static str> {
    let violations = (0..seeds).filter_map(|seed| run_seed(seed, &perfect(), factories).err());
    violations.map(|violation| violation.broken.property).collect()
}

#[test]
fn a_correct_protocol_breaks_nothing() {
    for seed in 0..40 {
        let summary =
            run::<{ naive::CORRECT }>(seed).unwrap_or_else(|violation| panic!("{violation}"));
        assert!(summary.requests >= 300 && summary.slots > 0, "{summary}");
        assert_eq!((summary.n, summary.rejected), (2 * summary.f + 1, 0), "{summary}");
    }
}

#[test]
fn equal_seeds_give_equal_worlds() {
    for seed in 0..5 {
        let (a, b) = (run::<{ naive::CORRECT }>(seed), run::<{ naive::CORRECT }>(seed));
        assert_eq!(a, b);
    }
    assert_ne!(
        run::<{ naive::CORRECT }>(1).unwrap().audit,
        run::<{ naive::CORRECT }>(2).unwrap().audit
    );
}

#[test]
fn each_bug_of_a_protocol_is_named() {
    let only = |property| BTreeSet::from([property]);
    assert_eq!(named(&factories::<{ naive::WITHOUT_AGREEMENT }>(), 5), only(agreement::PROPERTY));
    assert_eq!(named(&factories::<{ naive::SLOT_TWICE }>(), 5), only(PANIC));
    assert_eq!(named(&factories::<{ naive::FORGES }>(), 5), only(validity::PROPERTY));
    assert_eq!(named(&factories::<{ naive::STOPS }>(), 5), only(liveness::PROPERTY));
    assert_eq!(named(&factories::<{ naive::COUNTER_TWICE }>(), 5), only(PANIC));
    assert_eq!(named(&factories::<{ naive::REFUSES }>(), 5), only(acceptance::PROPERTY));
    assert_eq!(named(&factories::<{ naive::UNBOUNDED }>(), 5), only(bounds::PROPERTY));
    assert_eq!(named(&factories::<{ naive::ACCUSES }>(), 5), only(evidence::PROPERTY));
}

#[test]
fn applications_that_think_for_long_hold_nothing_up() {
    let factories = factories::<{ naive::CORRECT }>();
    let mut rng = Rng::new(1);
    let mut options = Options::draw(&mut rng, &perfect(), &factories.rules);
    // Between some requests more time passes than may without anything moving.
    (options.clients, options.requests_each, options.think_us) = (1, 8, 8_000_000);
    let ran = run_options(1, options, &factories, rng, None);
    let summary = ran.unwrap_or_else(|violation| panic!("{violation}"));
    assert!(summary.simulated_ms > 30_000, "{summary}");
}

#[test]
fn a_violation_says_seed_property_and_what_differed() {
    let text = run::<{ naive::WITHOUT_AGREEMENT }>(0x1f).unwrap_err().to_string();
    assert!(text.starts_with("seed 0x1f breaks agreement: "), "{text}");
    assert!(text.contains("r1"), "{text}");
}

#[test]
fn a_client_that_believes_one_answer_is_found_by_its_history() {
    let credulous: &crate::run::StartClient<'_> =
        &|setup| Box::new(NaiveClient::new(setup, Flaw::Credulous));
    let factories = Factories { client: credulous, ..factories::<{ naive::CORRECT }>() };
    let mut rng = Rng::new(1);
    let mut options = Options::draw(&mut rng, &perfect(), &factories.rules);
    // Replicas are level only after a while, and everyone reads what everyone writes.
    options.network.jitter_us = 20_000;
    options.workload = WorkloadOptions { keys: 1, queries_percent: 100, ..options.workload };
    (options.workload.reads_percent, options.clients) = (50, 3);
    let violation = run_options(1, options, &factories, rng, None).unwrap_err();
    assert_eq!(violation.broken.property, linearizability::PROPERTY, "{violation}");
}

/// What the checkers say to a world in which much is told, to clients with a flaw, with a replica
/// that lies to them.
fn told(flaw: Flaw) -> Result<Summary, Violation> {
    let client: &crate::run::StartClient<'_> = &|setup| Box::new(NaiveClient::new(setup, flaw));
    let factories = Factories { client, ..factories::<{ naive::CORRECT }>() };
    let mut rng = Rng::new(1);
    let config = SimConfig { f: Some(1), ..perfect() };
    let mut options = Options::draw(&mut rng, &config, &factories.rules);
    options.network.jitter_us = 20_000;
    options.workload.tells_percent = 50;
    options.byzantine = vec![(ReplicaId(2), vec![Behaviour::Liar])];
    run_options(1, options, &factories, rng, None)
}

#[test]
fn each_flaw_of_a_client_that_is_told_things_is_named() {
    let summary = told(Flaw::None).unwrap_or_else(|violation| panic!("{violation}"));
    assert!(summary.told > 100 && summary.missed == 0, "{summary}");
    for flaw in [Flaw::Gullible, Flaw::Unordered, Flaw::Repeating, Flaw::Impatient] {
        let violation = told(flaw).unwrap_err();
        assert_eq!(violation.broken.property, events::PROPERTY, "{flaw:?}: {violation}");
    }
    let violation = told(Flaw::Deaf).unwrap_err();
    assert_eq!(violation.broken.property, liveness::PROPERTY, "{violation}");
}

#[test]
fn services_that_tell_twice_or_differ_in_what_they_tell_are_found() {
    let made = AtomicU64::new(0);
    let twice = |journal: Journal| -> Box<dyn pentarchy_core::service::Service> {
        Box::new(services::TellsTwice(Registers::new(journal)))
    };
    let otherwise = |journal: Journal| -> Box<dyn pentarchy_core::service::Service> {
        let odd = made.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        Box::new(services::TellsOtherwise(Registers::new(journal), odd))
    };
    let services: [&crate::run::StartService<'_>; 2] = [&twice, &otherwise];
    for service in services {
        let factories = Factories { service, ..factories::<{ naive::CORRECT }>() };
        let mut rng = Rng::new(1);
        let config = SimConfig { f: Some(1), ..perfect() };
        let mut options = Options::draw(&mut rng, &config, &factories.rules);
        options.workload.tells_percent = 50;
        let violation = run_options(1, options, &factories, rng, None).unwrap_err();
        assert_eq!(violation.broken.property, events::PROPERTY, "{violation}");
    }
}

#[test]
fn a_service_that_runs_requests_twice_is_found() {
    let service: &crate::run::StartService<'_> =
        &|journal| Box::new(services::Twice(Registers::new(journal)));
    let factories = Factories { service, ..factories::<{ naive::CORRECT }>() };
    assert_eq!(named(&factories, 3), BTreeSet::from([at_most_once::PROPERTY]));
}

#[test]
fn a_service_that_differs_between_replicas_is_found() {
    let made = AtomicU64::new(0);
    let service = |journal: Journal| -> Box<dyn pentarchy_core::service::Service> {
        let odd = made.fetch_add(1, Ordering::Relaxed) % 3 == 2;
        Box::new(services::Odd(Registers::new(journal), odd))
    };
    let factories = Factories { service: &service, ..factories::<{ naive::CORRECT }>() };
    let config = SimConfig { f: Some(1), ..perfect() };
    let violation = run_seed(1, &config, &factories).unwrap_err();
    assert_eq!(violation.broken.property, checkpoint::PROPERTY, "{violation}");
}

#[test]
fn many_seeds_run_on_many_threads_each_once() {
    let mut seeds = BTreeSet::new();
    run_many(10..20, 2, &perfect(), &factories::<{ naive::CORRECT }>(), |outcome| {
        seeds.insert(outcome.as_ref().map_or(0, |summary| summary.seed))
    });
    assert_eq!(seeds, (10..20).collect());
}
