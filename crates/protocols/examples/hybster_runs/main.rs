//! Writes runs of Hybster in simulated worlds as steps of its specification, for
//! `cargo xtask spec --runs N`: `hybster_runs FOLDER SEEDS [MUTANT]`.
//!
//! Each file `runs-K.tla` holds runs of groups of one size with the same faulty replicas.

mod project;
mod record;

use pentarchy_core::erased::{CoreEffect, ReplicaCore};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::mutant;
use pentarchy_core::protocol::{Setup, Timeouts, Tuning};
use pentarchy_core::quorum::Quorums;
use pentarchy_protocols::{ClientStart, find};
use pentarchy_sim::network::NetworkOptions;
use pentarchy_sim::rng::Rng;
use pentarchy_sim::run::{ClientSetup, Factories, run_options};
use pentarchy_sim::swarm::{Options, SimConfig};
use project::Run;
use record::{Record, Recorded};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::Path;

/// Slots of each run that are looked at.
const SLOTS: usize = 3;

/// Requests of all clients of a world together: few enough that checkpoints are rare.
const REQUESTS: u64 = 60;

/// Runs of groups of this size, with these faulty replicas.
type Groups = BTreeMap<(usize, BTreeSet<ReplicaId>), Vec<(String, project::Steps)>>;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [folder, seeds, mutant @ ..] = arguments.as_slice() else {
        panic!("hybster_runs FOLDER SEEDS [MUTANT]");
    };
    let seeds: u64 = seeds.parse().expect("a number of seeds");
    let mut groups = Groups::new();
    mutant::with(mutant.first().map(String::as_str), || {
        (0..seeds).for_each(|seed| record(seed, &mut groups));
    });
    for (number, ((n, faulty), runs)) in groups.iter().enumerate() {
        let text = module(*n, faulty, runs);
        fs::write(Path::new(folder).join(format!("runs-{number}.tla")), text).expect("a folder");
    }
    let runs: Vec<_> = groups.values().flatten().collect();
    let steps: usize = runs.iter().map(|(_, it)| it.steps.len()).sum();
    let views = runs.iter().filter(|(_, it)| it.view > 0).count();
    let silent: usize = runs.iter().map(|(_, it)| it.silent).sum();
    println!(
        "{} slots of runs, {steps} steps, {views} with a view change, {silent} silent moves of \
         faulty counters",
        runs.len()
    );
}

/// Runs the world of a seed, and adds what happened in some of its slots.
fn record(seed: u64, groups: &mut Groups) {
    let entry = find("hybster").expect("it is registered");
    let record = Record::default();
    let start = |setup: Setup, effects: &mut Vec<CoreEffect>| -> Box<dyn ReplicaCore> {
        let (me, epoch) = (setup.me, setup.membership.epoch);
        Box::new(Recorded::new((entry.start)(setup, effects), me, epoch, record.clone()))
    };
    let client = |setup: ClientSetup| {
        let ClientSetup { client, n, f, timeouts, start_floor } = setup;
        let (group, seed) = (Quorums { n, f }, Some(u64::from(client.0[0])));
        (entry.client)(ClientStart { client, group, timeouts, start_floor, seed })
    };
    let factories = Factories::new(entry.rules, &start, &client).with_forger(entry.forger);
    let config = SimConfig { requests: REQUESTS, f: Some(1), ..SimConfig::default() };
    let mut rng = Rng::new(seed);
    let options = Options::draw(&mut rng, &config, &entry.rules);
    // A replica that goes on from a disk may have forgotten what it never said aloud.
    if options.is_durable() {
        return;
    }
    let options = Options { tuning: Tuning { batch_requests: 4, ..Tuning::default() }, ..options };
    let options = if seed.is_multiple_of(2) { options } else { rough(options, &mut rng) };
    let (n, faulty) = (options.n, options.byzantine.iter().map(|(id, _)| *id).collect());
    // What the checkers say of it is for those who look for that.
    let _ = run_options(seed, options, &factories, rng, None);
    let events = record.take();
    let run = Run::new(&events, n, &faulty);
    for slot in run.slots().into_iter().take(SLOTS) {
        let name = format!("seed {seed}, slot {}", slot.0);
        groups.entry((n, faulty.clone())).or_default().push((name, run.project(slot)));
    }
}

/// Slow, lossy, and with little patience: a view fails before it has begun, and another one.
fn rough(options: Options, rng: &mut Rng) -> Options {
    let network = NetworkOptions {
        latency_us: rng.range(1_000, 15_000),
        jitter_us: rng.range(1_000, 20_000),
        loss_ppm: rng.range(50_000, 600_000) as u32,
        ..options.network
    };
    let timeouts = Timeouts {
        request_ms: rng.range(20, 100),
        view_change_ms: rng.range(5, 40),
        resend_ms: rng.range(10, 40),
        client_retry_ms: 50,
    };
    Options { network, timeouts, ..options }
}

/// A module of TLA+ with these runs.
fn module(n: usize, faulty: &BTreeSet<ReplicaId>, runs: &[(String, project::Steps)]) -> String {
    let faulty: Vec<String> = faulty.iter().map(|id| id.0.to_string()).collect();
    let views = runs.iter().map(|(_, it)| it.view).max().unwrap_or(0);
    let batches = runs.iter().map(|(_, it)| it.batches).max().unwrap_or(0);
    let mut text = format!(
        "---- MODULE Runs ----\n\\* N = {n}\n\\* Faulty = {{{}}}\n\\* MaxView = {views}\n\
         \\* Values = {{{}}}\n",
        faulty.join(", "),
        (0..batches.max(1)).map(|it| format!("\"b{it}\"")).collect::<Vec<_>>().join(", ")
    );
    let _ = writeln!(text, "Names == <<");
    let names: Vec<String> = runs.iter().map(|(name, _)| format!("  \"{name}\"")).collect();
    let _ = writeln!(text, "{}\n>>\nRuns == <<", names.join(",\n"));
    let all: Vec<String> = runs
        .iter()
        .map(|(_, it)| format!("  <<\n    {}\n  >>", it.steps.join(",\n    ")))
        .collect();
    let _ = writeln!(text, "{}\n>>\n====", all.join(",\n"));
    text
}
