//! Worlds from seeds. `SEEDS=1000 cargo test --release -p pentarchy-protocols --test it swarm` runs
//! more of them, `PROTOCOL=NAME` those of one protocol, `SEED=0x1f` one alone with its summary,
//! and `WATCH=1` with it every single thing that happens there. `PENTARCHY_DEEP=1` runs all that a
//! release must pass, of which every check runs the first third.

use super::registry::every;
use pentarchy_core::counter::Counter;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::protocol::Rules;
use pentarchy_core::quorum::Quorums;
use pentarchy_protocols::{
    ClientStart, DEFAULT, Descriptor, EXAMPLES, PROTOCOLS, Status, in_pillars,
};
use pentarchy_sim::adversary::Behaviour;
use pentarchy_sim::crypto::Means;
use pentarchy_sim::device::DeviceFault;
use pentarchy_sim::real_devices::Compared;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{
    ClientSetup, FINDINGS, Factories, ProtocolParts, StartClient, Summary, Violation, run_many,
    run_options, run_seed, watch_seed,
};
use pentarchy_sim::swarm::{Disturbance, Options, SimConfig, Target};
use pentarchy_sim::twins::{group, rounds_max, run_schedules, schedules};
use pentarchy_sim::world::log::{Event, What};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

pub fn factories(protocol: &str) -> Factories<'static> {
    factories_of(pentarchy_protocols::find(protocol).expect("a registered protocol"))
}

pub fn factories_of(entry: &'static Descriptor) -> Factories<'static> {
    let client = |entry: &'static Descriptor| -> &'static StartClient<'static> {
        Box::leak(Box::new(move |setup: ClientSetup| {
            let ClientSetup { client, n, f, timeouts, start_floor } = setup;
            let (group, seed) = (Quorums { n, f }, Some(u64::from(client.0[0])));
            (entry.client)(ClientStart { client, group, timeouts, start_floor, seed })
        }))
    };
    let parts = |entry: &'static Descriptor| ProtocolParts {
        rules: entry.rules,
        replica: &entry.start,
        client: client(entry),
    };
    let others: Vec<_> = entry.switches_to().map(parts).collect();
    Factories::new(entry.rules, &entry.start, client(entry))
        .with_forger(entry.forger)
        .with_others(Vec::leak(others))
}

/// A number from the environment, decimal or hexadecimal.
fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    Some(parsed.unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// What this run of the tests is to go through, of so much for a release.
pub fn bound(release: u64) -> u64 {
    if std::env::var_os("PENTARCHY_DEEP").is_some() { release } else { release.div_ceil(3) }
}

/// The seeds of a sweep, with so many for a release.
fn seeds(release: u64) -> std::ops::Range<u64> {
    match number("SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("SEEDS").unwrap_or_else(|| bound(release)),
    }
}

pub fn jobs() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Runs the seeds and shows every violation.
fn sweep(protocol: &'static Descriptor, config: &SimConfig, release: u64) -> Vec<Summary> {
    let seeds = seeds(release);
    let alone = seeds.end - seeds.start == 1;
    if alone && std::env::var_os("WATCH").is_some() {
        let log = Box::new(|event: &Event| {
            // What is said stands there already; arrows are for tools.
            if !matches!(event.what, What::Departs { .. }) {
                eprintln!("{event}");
            }
        });
        let outcome = watch_seed(seeds.start, config, &factories_of(protocol), log);
        return outcome.map_or_else(|violation| panic!("{violation}"), |summary| vec![summary]);
    }
    let (mut summaries, mut violations) = (Vec::new(), Vec::<Violation>::new());
    run_many(seeds, jobs(), config, &factories_of(protocol), |outcome| {
        match outcome {
            Ok(summary) => {
                if alone {
                    eprintln!("{summary}");
                }
                summaries.push(summary.clone());
            }
            Err(violation) => violations.push(violation.clone()),
        }
        violations.len() < 20
    });
    violations.sort_by_key(|violation| violation.seed);
    let text: Vec<String> = violations.iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{}:\n{}", protocol.rules.name, text.join("\n"));
    let undecided: Vec<String> =
        summaries.iter().filter(|it| it.undecided > 0).map(ToString::to_string).collect();
    assert!(undecided.is_empty(), "too tangled to decide:\n{}", undecided.join("\n"));
    summaries
}

/// The protocols that worlds are drawn for: those on which a service may run, also in pillars; or
/// the one that is asked for.
pub fn swept() -> impl Iterator<Item = &'static Descriptor> {
    let asked = std::env::var("PROTOCOL").ok();
    let is_asked = move |it: &&Descriptor| asked.as_ref().is_none_or(|name| name == it.rules.name);
    let may_serve = |it: &&Descriptor| matches!(it.status, Status::Stable | Status::Young);
    PROTOCOLS.iter().copied().filter(may_serve).filter(is_asked)
}

/// Worlds of a protocol that a release must pass: the more, the fewer replicas and processor time
/// they take.
fn worlds(protocol: &Descriptor) -> u64 {
    let Rules { pillars, speculative, .. } = protocol.rules;
    let is_small = protocol.rules.replicas(1) == 3;
    match (pillars, is_small && !speculative) {
        (false, true) => 60,
        (false, false) | (true, true) => 30,
        (true, false) => 15,
    }
}

#[test]
fn nothing_goes_wrong_in_a_perfect_network() {
    let config = SimConfig { faults: false, ..SimConfig::default() };
    for entry in swept() {
        for summary in sweep(entry, &config, 20) {
            assert_eq!(
                (summary.view.0, summary.transfers, summary.rejected),
                (0, 0, 0),
                "{summary}"
            );
        }
    }
}

/// What counters of production are asked, and the seals that they judge, are counted; none is left
/// out, or the world would end.
#[test]
fn counters_of_production_stand_beside_the_simulated_ones() {
    let is_made = |counter| matches!(counter, Counter::Usig | Counter::Trinx);
    for entry in swept().filter(|entry| entry.rules.counter.is_some_and(is_made)) {
        let config = SimConfig { faults: false, requests: 100, f: Some(1), ..SimConfig::default() };
        let mut rng = Rng::new(1);
        let mut options = Options::draw(&mut rng, &config, &entry.rules);
        options.has_real_devices = true;
        let ran = run_options(1, options, &factories_of(entry), rng, None);
        let summary = ran.unwrap_or_else(|violation| panic!("{violation}"));
        let Compared { asked, judged } = summary.compared;
        assert!(asked > 0 && judged > 0, "{}: {summary}", entry.rules.name);
    }
}

#[test]
fn every_protocol_survives_faults() {
    for entry in swept() {
        let summaries = survives_faults(entry, worlds(entry));
        let is_rolled_back = summaries.iter().any(|summary| summary.rollbacks > 0);
        let is_due = entry.rules.speculative && summaries.len() >= 30;
        assert!(is_rolled_back || !is_due, "{}: something is taken back", entry.rules.name);
    }
}

/// There is nothing to merge, and no list of what each needs of the log.
#[test]
fn one_pillar_alone_survives_faults() {
    let alone = SimConfig { pillars: Some(1), requests: 300, ..SimConfig::default() };
    sweep(split_in_pillars(), &alone, 40);
}

fn split_in_pillars() -> &'static Descriptor {
    in_pillars(EXAMPLES.split.rules.name).expect("it can be split")
}

fn survives_faults(protocol: &'static Descriptor, seeds: u64) -> Vec<Summary> {
    let summaries = sweep(protocol, &SimConfig::default(), seeds);
    let changed = summaries.iter().filter(|summary| summary.view.0 > 0).count();
    let larger = summaries.iter().filter(|summary| summary.f > 1).count();
    let transfers: u64 = summaries.iter().map(|summary| summary.transfers).sum();
    let told: u64 = summaries.iter().map(|summary| summary.told).sum();
    let missed: u64 = summaries.iter().map(|summary| summary.missed).sum();
    let restarts: u64 = summaries.iter().map(|summary| summary.restarts).sum();
    let epochs: u64 = summaries.iter().map(|summary| summary.epochs).sum();
    eprintln!(
        "{}: {} worlds, {changed} with view changes, {larger} with f > 1, {transfers} transfers, \
         {told} events told and {missed} missed, {restarts} restarts, {epochs} epochs",
        protocol.rules.name,
        summaries.len()
    );
    if summaries.len() >= 30 {
        assert!(changed * 2 >= summaries.len(), "{changed} of {}", summaries.len());
        assert!(larger * 5 >= summaries.len(), "{larger} of {}", summaries.len());
        assert!(transfers > 0, "no state was transferred");
        assert!(restarts > 0 && epochs >= restarts / 2, "{restarts} restarts, {epochs} epochs");
        assert!(told > 0, "no event was told");
    }
    summaries
}

/// Worlds drawn at random have few such clients, so these have nothing else.
#[test]
fn who_is_told_more_than_replicas_keep_learns_that_something_is_missing() {
    for entry in swept() {
        let config = SimConfig { faults: false, requests: 100, f: Some(1), ..SimConfig::default() };
        let mut rng = Rng::new(1);
        let mut options = Options::draw(&mut rng, &config, &entry.rules);
        (options.outstanding, options.think_us, options.workload.values) = (16, 1, 0);
        (options.workload.tells_percent, options.workload.floods_ppm) = (50, 1_000_000);
        let ran = run_options(1, options, &factories_of(entry), rng, None);
        let summary = ran.unwrap_or_else(|violation| panic!("{violation}"));
        assert!(summary.missed > 0 && summary.told > 0, "{}: {summary}", entry.rules.name);
    }
}

#[test]
fn equal_seeds_give_equal_worlds() {
    for seed in 0..3 {
        let run = || run_seed(seed, &SimConfig::default(), &factories_of(DEFAULT));
        assert_eq!(run(), run());
    }
}

/// Watching changes nothing, and everything that happens is in order of time.
#[test]
fn a_world_that_is_watched_is_the_same_world() {
    let config = SimConfig { requests: 200, ..SimConfig::default() };
    for seed in 0..4 {
        let events = Rc::new(RefCell::new(Vec::new()));
        let notes = events.clone();
        let log = Box::new(move |event: &Event| notes.borrow_mut().push(event.clone()));
        let watched = watch_seed(seed, &config, &factories_of(DEFAULT), log).unwrap();
        assert_eq!(watched, run_seed(seed, &config, &factories_of(DEFAULT)).unwrap());
        let events = events.borrow();
        assert!(events.is_sorted_by_key(|event| event.at));
        let heals = events.iter().filter(|event| event.what == What::Heals).count();
        let arrivals = events.iter().map(|event| match event.what {
            What::Departs { arrivals, .. } => arrivals.iter().flatten().count() as u64,
            _ => 0,
        });
        assert_eq!((heals, arrivals.sum::<u64>()), (1, watched.messages));
    }
}

/// The properties that the first seeds break with devices that lie, and with nobody watching the
/// devices themselves.
fn broken_by(device: DeviceFault, seeds: u64) -> BTreeSet<&'static str> {
    let config = SimConfig { device, requests: 300, ..SimConfig::default() };
    let broken = |seed| run_seed(seed, &config, &factories_of(DEFAULT)).err();
    (0..seeds).filter_map(broken).map(|violation| violation.broken.property).collect()
}

#[test]
fn a_device_that_is_copied_or_set_back_breaks_agreement_and_is_noticed() {
    for device in [DeviceFault::Clone, DeviceFault::RollBack] {
        let broken = broken_by(device, 25);
        assert!(broken.contains("agreement"), "{device:?}: {broken:?}");
    }
}

#[test]
fn a_device_that_lies_is_noticed_by_its_own_checker_first() {
    let config = SimConfig { device: DeviceFault::Clone, requests: 300, ..SimConfig::default() };
    let seen = (0..10).filter_map(|seed| {
        let mut rng = Rng::new(seed);
        let factories = factories_of(DEFAULT);
        let mut options = Options::draw(&mut rng, &config, &factories.rules);
        options.watch_devices = true;
        run_options(seed, options, &factories, rng, None).err()
    });
    let seen: BTreeSet<_> = seen.map(|violation| violation.broken.property).collect();
    assert_eq!(seen, BTreeSet::from(["counter_uniqueness"]));
}

/// The properties that worlds with restarts break while a mutant is on. Members that ask to be
/// admitted with any device, and vote for handovers that nobody made, are in all of them.
fn broken_by_mutant(name: Option<&str>, seeds: u64) -> BTreeSet<&'static str> {
    let config = SimConfig { f: Some(2), requests: 300, ..SimConfig::default() };
    let factories = factories_of(DEFAULT);
    let broken = |seed| {
        let mut rng = Rng::new(seed);
        let mut options = Options::draw(&mut rng, &config, &factories.rules);
        let usurp = Behaviour::Usurp { rate_ppm: 100_000 };
        options.byzantine = vec![(ReplicaId(4), vec![usurp])];
        (options.means, options.hostile) = (Means::Signature, Vec::new());
        let lost = Disturbance::Restart(Target::Replica(ReplicaId(1)), 20_000);
        options.disturbances = vec![(options.heal_at / 2, lost)];
        let run = || run_options(seed, options, &factories, rng, None).err();
        pentarchy_core::mutant::with(name, run)
    };
    (0..seeds).filter_map(broken).map(|violation| violation.broken.property).collect()
}

#[test]
fn seeded_bugs_in_the_change_of_epochs_are_named() {
    assert!(broken_by_mutant(None, 8).is_empty());
    for name in ["epochs.handover-of-f", "epochs.begins-elsewhere", "roster.admits-another"] {
        let broken = broken_by_mutant(Some(name), 8);
        assert!(broken.contains("epoch_handover"), "{name}: {broken:?}");
    }
}

/// A replica loses its memory whenever it may have been let in again.
fn who_comes_back_often(seeds: u64) -> BTreeSet<&'static str> {
    let config = SimConfig { f: Some(1), requests: 300, ..SimConfig::default() };
    let factories = factories_of(DEFAULT);
    let broken = |seed| {
        let mut rng = Rng::new(seed);
        let mut options = Options::draw(&mut rng, &config, &factories.rules);
        options.byzantine.clear();
        (options.means, options.hostile) = (Means::Signature, Vec::new());
        (options.heal_at, options.restart_at_end_ppm) = (20_000_000, 0);
        options.think_us = options.heal_at * 7 / 10 / options.requests_each;
        let lost = |at| (at, Disturbance::Restart(Target::Replica(ReplicaId(1)), 20_000));
        options.disturbances = [1_000_000, 6_500_000, 12_000_000].map(lost).into();
        run_options(seed, options, &factories, rng, None).err()
    };
    (0..seeds).filter_map(broken).map(|violation| violation.broken.property).collect()
}

#[test]
fn with_each_life_a_member_waits_longer_for_the_next() {
    assert!(who_comes_back_often(4).is_empty());
    let mutant = Some("roster.wait-stays");
    let broken = pentarchy_core::mutant::with(mutant, || who_comes_back_often(4));
    assert!(broken.contains("epoch_handover"), "{broken:?}");
}

/// Every way to partition two rounds around a replica that exists twice; of three rounds, some.
#[test]
fn twins_break_nothing_unless_their_device_is_copied() {
    let (config, factories) = (SimConfig::default(), factories_of(DEFAULT));
    let all = schedules(2, 3);
    run_schedules(&all, 0..all.len() as u64, jobs(), &config, &factories, |outcome| {
        outcome.as_ref().unwrap_or_else(|violation| panic!("{violation}"));
        true
    });
    let config = SimConfig { device: DeviceFault::Clone, ..config };
    let mut broken = BTreeSet::new();
    run_schedules(&all, 0..all.len() as u64, jobs(), &config, &factories, |outcome| {
        broken.extend(outcome.as_ref().err().map(|violation| violation.broken.property));
        !broken.contains("agreement")
    });
    assert!(broken.contains("agreement"), "{broken:?}");
}

/// With TrInX, too: a counter that names less than a USIG is still one that cannot go back.
#[test]
fn twins_break_nothing_of_other_counters_unless_their_device_is_copied() {
    let (config, factories) = (SimConfig::default(), factories_of(EXAMPLES.split));
    let all = schedules(2, 3);
    run_schedules(&all, 0..all.len() as u64, jobs(), &config, &factories, |outcome| {
        outcome.as_ref().unwrap_or_else(|violation| panic!("{violation}"));
        true
    });
    let config = SimConfig { device: DeviceFault::Clone, ..config };
    let mut broken = BTreeSet::new();
    run_schedules(&all, 0..all.len() as u64, jobs(), &config, &factories, |outcome| {
        broken.extend(outcome.as_ref().err().map(|violation| violation.broken.property));
        !broken.contains("agreement")
    });
    assert!(broken.contains("agreement"), "{broken:?}");
}

/// Some schedules of two rounds, with pillars: each has an instance of its own of the counter, and
/// the copies have the same ones, or each has its own.
#[test]
fn twins_break_nothing_of_pillars_unless_their_devices_are_copied() {
    let (pillars, rotates) = (Some(2), Some(true));
    let config = SimConfig { pillars, rotates, ..SimConfig::default() };
    let factories = factories_of(split_in_pillars());
    let all = schedules(2, 3);
    let some: Vec<_> = all.iter().step_by(all.len().div_ceil(60)).cloned().collect();
    let end = some.len() as u64;
    let mut slots = 0;
    run_schedules(&some, 0..end, jobs(), &config, &factories, |outcome| {
        let summary = outcome.as_ref().unwrap_or_else(|violation| panic!("{violation}"));
        slots += summary.slots;
        true
    });
    assert!(slots > 0);
    let config = SimConfig { device: DeviceFault::Clone, ..config };
    let mut broken = BTreeSet::new();
    run_schedules(&some, 0..end, jobs(), &config, &factories, |outcome| {
        broken.extend(outcome.as_ref().err().map(|violation| violation.broken.property));
        !broken.contains("agreement")
    });
    assert!(broken.contains("agreement"), "{broken:?}");
}

/// Some schedules of one round, in every protocol that tolerates a fault: without a device, too,
/// where the copies can really say two things. What is known to be unsafe may break, but runs.
#[test]
fn twins_break_nothing_in_any_protocol() {
    for entry in every() {
        let name = entry.rules.name;
        let Some(n) = group(&entry.rules) else {
            let bears_liars = entry.rules.tolerates_faults() && entry.rules.fault_model.lies();
            assert!(!bears_liars, "{name}");
            continue;
        };
        assert!(rounds_max(n) >= 2, "{name}");
        let all = schedules(1, n);
        let some: Vec<_> = all.iter().step_by(all.len().div_ceil(30)).cloned().collect();
        let pillars = Some(if entry.rules.pillars { 2 } else { 1 });
        let rotates = Some(entry.rules.pillars);
        let (config, mut slots) = (SimConfig { pillars, rotates, ..SimConfig::default() }, 0);
        run_schedules(&some, 0..30, jobs(), &config, &factories_of(entry), |outcome| {
            match outcome {
                Ok(summary) => {
                    assert_eq!((summary.n, &summary.adversaries[..]), (n.into(), &["twin"][..]));
                    slots += summary.slots;
                }
                Err(violation) => assert!(entry.status == Status::Museum, "{name}: {violation}"),
            }
            true
        });
        assert!(slots > 0, "{name}");
    }
}

/// Lies that replicas report are told, and found, in the first few hundred seeds at the latest.
/// Devices keep MinBFT's replicas from signing two proposals or votes; what clients send here is
/// seldom too much for a batch.
#[test]
fn each_kind_of_lie_that_can_be_found_is_provoked() {
    let rare = ["two_proposals", "two_votes", "oversize_batch"];
    let names: Vec<_> = FINDINGS.into_iter().filter(|name| !rare.contains(name)).collect();
    provokes(DEFAULT, &names);
}

/// The same of PBFT. Its COMMITs accuse nobody, and who forges batches there is found out sooner
/// for two proposals in one slot than for one that is too large.
#[test]
fn each_kind_of_lie_that_can_be_found_without_devices_is_provoked() {
    let names = ["two_proposals", "two_votes", "two_checkpoints", "diverged_state", "future_time"];
    provokes(EXAMPLES.signed, &names);
}

/// Half of the worlds are any, the others those of a first primary that tells whatever comes to it.
/// In half of those it says that in two parts of the group, and each hears only some of it: states
/// that differ, of one slot, are heard by who does not know yet which is right.
fn provokes(protocol: &'static Descriptor, names: &[&'static str]) {
    let factories = factories_of(protocol);
    let n = factories.rules.replicas(1);
    let forgers = [
        format!(
            "n={n} f=1 clients=2 outstanding=32 requests_each=200 think_us=10 heal_at_us=900000 \
             faulty=r0:forge(1,500000)"
        ),
        format!(
            "n={n} f=1 clients=2 outstanding=8 requests_each=200 think_us=4594 jitter_us=1000 \
             heal_at_us=900000 faulty=r0:forge(1,300000) faulty=r0:twin \
             at=100000:partition(001,770000)"
        ),
    ];
    let mut missing: BTreeSet<&str> = names.iter().copied().collect();
    for seed in 0..800 {
        let config = SimConfig { f: Some(1), requests: 400, ..SimConfig::default() };
        let summary = if seed % 2 == 0 {
            run_seed(seed, &config, &factories)
        } else {
            let forger = &forgers[usize::from(seed / 2 % 2 == 1)];
            let forger = forger.parse().expect("a world");
            run_options(seed, forger, &factories, Rng::new(seed), None)
        };
        let summary = summary.unwrap_or_else(|violation| panic!("{violation}"));
        let found = FINDINGS.iter().zip(summary.found).filter(|(_, count)| *count > 0);
        for (name, _) in found {
            if missing.remove(name) {
                eprintln!("seed {seed}: {name}");
            }
        }
        if missing.is_empty() {
            return;
        }
    }
    panic!("{}: not provoked: {missing:?}", protocol.rules.name);
}

/// The checkers are worth something: a client that believes a single replica is caught with the
/// lies that it was told.
#[test]
fn a_client_that_believes_one_replica_is_found() {
    let credulous =
        |setup: ClientSetup| (factories_of(DEFAULT).client)(ClientSetup { f: 0, ..setup });
    let factories = Factories { client: &credulous, ..factories_of(DEFAULT) };
    let found = (0..200).find_map(|seed| run_seed(seed, &SimConfig::default(), &factories).err());
    let violation = found.expect("200 worlds hold a liar");
    let known = ["linearizability", "no_refusal", "events"];
    assert!(known.contains(&violation.broken.property), "{violation}");
}
