//! `bench overload`: what a group does when more is asked of it than it can do. It is measured at a
//! load that it can just serve; at twice, ten times and a hundred times as much; with a thousand
//! clients; beside one that floods, and beside one that does not read.

mod flooder;
mod table;

use super::case::{Case, Drivers, Payload, Workload};
use super::conditions::replicated;
use super::drive::{announced, jobs};
use super::files::write_json;
use super::group::Group;
use super::interrupt::{Interrupt, interrupted};
use super::load::Tally;
use super::machine::Machine;
use super::measure::{Run, process_cpu, run as offer_all, wait_until_it_answers};
use super::operations::Recipe;
use super::plan::Timing;
use super::status;
use clap::Args;
use flooder::Flooder;
use pentarchy_client::Client;
use pentarchy_cluster::node;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::AuthChoice;
use pentarchy_console::progress::spinner;
use pentarchy_console::say;
use pentarchy_core::ids::ReplicaId;
use pentarchy_crypto::keys::KeyPair;
use pentarchy_protocols::DEFAULT;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Results that the client which does not read has asked for.
const UNREAD: usize = 2048;

/// Bytes of each of them.
const UNREAD_BYTES: u32 = 4096;

/// Operations in a second of the client whose latency is measured: so few that they are no load.
const PROBE_RATE: u64 = 200;

/// Load before what counts.
const WARMUP: Duration = Duration::from_secs(2);

/// `bench overload`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy bench overload --request-auth mac --json o.json\n\n\
    Each condition has a group of its own. One event loop drives all clients but the probe.")]
pub struct OverloadArgs {
    /// How clients convince replicas
    #[arg(long, value_enum, default_value = "signature", value_name = "HOW")]
    pub request_auth: AuthChoice,
    /// Bytes of request and reply
    #[arg(long, default_value = "0/0", value_name = "REQUEST/REPLY")]
    pub payload: Payload,
    /// Seconds of each measurement, after two that do not count
    #[arg(long, default_value = "5", value_name = "S",
        value_parser = super::plan::parse_seconds)]
    pub seconds: Duration,
    /// Only the conditions whose name contains this, and those that they are compared to
    #[arg(long, value_name = "WORD")]
    pub only: Option<String>,
    /// Also write all figures to this file
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Who is there beside the clients that are counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Guest {
    Nobody,
    /// Sends without limit.
    Flooder,
    /// Asks for large results and reads none.
    Deaf,
}

/// Clients, the operations that each keeps outstanding, and who else is there.
struct Condition {
    name: &'static str,
    clients: usize,
    outstanding: usize,
    guest: Guest,
    /// The condition to whose throughput this one's is compared.
    beside: &'static str,
}

const fn condition(
    name: &'static str,
    (clients, outstanding): (usize, usize),
    guest: Guest,
    beside: &'static str,
) -> Condition {
    Condition { name, clients, outstanding, guest, beside }
}

const CONDITIONS: [Condition; 9] = [
    condition("peak", (8, 256), Guest::Nobody, "peak"),
    condition("twice", (16, 256), Guest::Nobody, "peak"),
    condition("ten times", (80, 256), Guest::Nobody, "peak"),
    condition("a hundred times", (800, 256), Guest::Nobody, "peak"),
    condition("a hundred clients", (100, 2), Guest::Nobody, "a hundred clients"),
    condition("a thousand clients", (1000, 2), Guest::Nobody, "a hundred clients"),
    condition("peak, one is deaf", (8, 256), Guest::Deaf, "peak"),
    condition("forty clients", (40, 1), Guest::Nobody, "forty clients"),
    condition("forty, one floods", (40, 1), Guest::Flooder, "forty clients"),
];

/// What was found under one condition.
#[derive(Serialize)]
struct Found {
    condition: &'static str,
    beside: &'static str,
    clients: usize,
    outstanding: usize,
    /// Of the clients that are counted.
    throughput_ops: f64,
    /// Processor time of all replicas together for each of these operations.
    replica_cpu_us_per_op: f64,
    /// The part of this machine's processor time that all replicas together used.
    replica_cpu_share: f64,
    /// The same of this process, with all clients.
    client_cpu_share: f64,
    /// Of the one that floods.
    flooder_ops: f64,
    /// Jain's fairness index of the completions of the clients that are counted: 1 if all are
    /// equal, `1/n` if one has all.
    jain: f64,
    /// The least that a client completed, as a part of the mean.
    least: f64,
    /// Latency in milliseconds of the operations of one more client, from when each was due.
    p50_ms: f64,
    p99_ms: f64,
    /// By replica.
    peak_memory_bytes: Vec<u64>,
    view_changes: u64,
    errors: BTreeMap<&'static str, u64>,
}

/// Runs the command.
pub fn run(args: &OverloadArgs, interrupt: &Interrupt) -> Outcome {
    let machine = Machine::here();
    let cores = machine.cores;
    let spinner = spinner();
    let mut found = Vec::new();
    for condition in CONDITIONS.iter().filter(|condition| args.wants(condition)) {
        spinner.set_message(condition.name);
        found.push(measure(condition, args, cores, interrupt)?);
    }
    spinner.finish_and_clear();
    say(&table::render(&found));
    write_json(args.json.as_deref(), machine, serde_json::json!({ "conditions": found }))
}

impl OverloadArgs {
    /// Whether this is measured: by its name, or because another is compared to it.
    fn wants(&self, condition: &Condition) -> bool {
        let Some(word) = self.only.as_deref() else { return true };
        CONDITIONS.iter().any(|other| {
            other.name.contains(word) && [other.name, other.beside].contains(&condition.name)
        })
    }

    /// Of these clients, driven in this way.
    fn case(&self, (clients, outstanding): (usize, usize), drivers: Drivers) -> Case {
        Case {
            workload: Workload::Pipelined,
            payload: self.payload,
            request_auth: self.request_auth.into(),
            clients,
            outstanding,
            drivers,
            ..Case::PLAIN
        }
    }
}

fn measure(
    condition: &Condition,
    args: &OverloadArgs,
    cores: usize,
    interrupt: &Interrupt,
) -> Outcome<Found> {
    let system = replicated(DEFAULT.rules.name, 1)?;
    let mut group = Group::start(&system, &args.case((1, 1), Drivers::Own))?;
    let result = measure_group(&mut group, condition, args, cores, interrupt);
    let result = group.check().and(result);
    group.stop();
    result
}

/// What is read at both ends of the window.
struct Reading {
    reports: Outcome<Vec<status::Report>>,
    cpu: Duration,
    /// Of the one that floods.
    flooded: u64,
}

fn measure_group(
    group: &mut Group,
    condition: &Condition,
    args: &OverloadArgs,
    cores: usize,
    interrupt: &Interrupt,
) -> Outcome<Found> {
    let case = args.case((condition.clients, condition.outstanding), Drivers::Loops(1));
    let (recipe, counts) = (Recipe::new(&case), Arc::default());
    let control = group.connect(&counts)?;
    if !wait_until_it_answers(group, &control, &recipe, interrupt)? {
        return Err(interrupted());
    }
    let probe = Case {
        workload: Workload::Open,
        rate: Some(PROBE_RATE),
        ..args.case((1, 1), Drivers::Loops(1))
    };
    let mut all = jobs(group, &probe, &recipe, &counts)?;
    all.extend(jobs(group, &case, &recipe, &counts)?);
    let (stop, flooded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let guest = invite(group, condition.guest, args.payload, &stop, &flooded)?;
    let replicas = group.config.replicas.len();
    let read = || Reading {
        reports: status::ask(&control, replicas),
        cpu: process_cpu(),
        flooded: flooded.load(Ordering::Relaxed),
    };
    let timing = Timing { warmup: WARMUP, measured: args.seconds, repeats: 1 };
    let announced = announced(&probe) + announced(&case);
    let run = offer_all(all, announced, timing, interrupt, || (), read);
    stop.store(true, Ordering::Relaxed);
    drop(guest);
    found(condition, args.seconds, cores, run?.ok_or_else(interrupted)?)
}

fn found(condition: &Condition, time: Duration, cores: usize, run: Run<Reading>) -> Outcome<Found> {
    let Run { before, after, tallies } = run;
    let (earlier, reports) = (before.reports?, after.reports?);
    let Some((probe, others)) = tallies.split_first() else {
        return Err(Failure::Internal("there was no probe".to_owned()));
    };
    let mut tally = Tally::new();
    others.iter().for_each(|one| tally.add(one));
    let done: Vec<f64> = tally.shares.iter().map(|done| *done as f64).collect();
    let sum: f64 = done.iter().sum();
    let squares: f64 = done.iter().map(|done| done * done).sum();
    let spent = reports.iter().zip(&earlier).map(|(now, then)| now.since(then).cpu_us as f64);
    let replicas_us: f64 = spent.sum();
    let available_us = time.as_secs_f64() * 1e6 * cores as f64;
    let probe = probe.latencies.quantiles();
    Ok(Found {
        condition: condition.name,
        beside: condition.beside,
        clients: condition.clients,
        outstanding: condition.outstanding,
        throughput_ops: sum / time.as_secs_f64(),
        replica_cpu_us_per_op: replicas_us / sum,
        replica_cpu_share: replicas_us / available_us,
        client_cpu_share: (after.cpu - before.cpu).as_secs_f64() * 1e6 / available_us,
        flooder_ops: (after.flooded - before.flooded) as f64 / time.as_secs_f64(),
        jain: if sum > 0.0 { sum * sum / (done.len() as f64 * squares) } else { 0.0 },
        least: done.iter().copied().fold(f64::INFINITY, f64::min) * done.len() as f64 / sum,
        p50_ms: probe.p50 / 1e3,
        p99_ms: probe.p99 / 1e3,
        peak_memory_bytes: reports.iter().map(status::Report::peak_bytes).collect(),
        view_changes: reports.iter().map(status::Report::view_changes).max().unwrap_or_default(),
        errors: tally.errors,
    })
}

/// Lets in who is there beside the others, if anyone.
fn invite(
    group: &Group,
    guest: Guest,
    payload: Payload,
    stop: &Arc<AtomicBool>,
    flooded: &Arc<AtomicU64>,
) -> Outcome<Option<Client>> {
    let cannot = |error: node::StartError| Failure::Internal(format!("cannot connect: {error}"));
    match guest {
        Guest::Nobody => Ok(None),
        Guest::Flooder => {
            let mut config =
                node::client_config(&group.config, KeyPair::generate()).map_err(cannot)?;
            let replicas = (0..group.config.replicas.len() as u16).map(ReplicaId).collect();
            let (id, operation) = (config.keys.client_id(), payload.operation());
            config.core = Box::new(Flooder::new(id, replicas, operation, flooded.clone()));
            Client::connect(config).map_err(|error| cannot(error.into())).map(Some)
        }
        Guest::Deaf => {
            let client = group.connect(&Arc::default())?;
            let operation = Payload { request: 0, reply: UNREAD_BYTES as usize }.operation();
            // The callback runs on the thread that reads its sockets.
            for _ in 0..UNREAD {
                let stop = stop.clone();
                client.submit_with(operation.clone(), move |_| {
                    while !stop.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                });
            }
            Ok(Some(client))
        }
    }
}
