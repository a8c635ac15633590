//! `bench overload`: what a group does when more is asked of it than it can do. It is measured at a
//! load that it can just serve; at twice, ten times and a hundred times as much; with a thousand
//! clients; beside one that floods, and beside one that does not read.

mod flooder;
mod table;

use super::case::{Case, Connections, Drivers, Payload, Service, System, Workload};
use super::faults::sleep;
use super::files::write_json;
use super::group::Group;
use super::interrupt::Interrupt;
use super::load::{Signals, Tally, Window, error_name, offer};
use super::machine::Machine;
use super::measure::wait_until_it_answers;
use super::operations::Recipe;
use super::progress::spinner;
use super::status;
use crate::cli::args::AuthChoice;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::say;
use bytes::Bytes;
use clap::Args;
use flooder::Flooder;
use pentarchy::config::Durability;
use pentarchy::{node, protocols};
use pentarchy_client::{Client, Completions};
use pentarchy_core::ids::ReplicaId;
use pentarchy_crypto::keys::KeyPair;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Results that the client which does not read has asked for.
const UNREAD: usize = 2048;

/// Bytes of each of them.
const UNREAD_BYTES: u32 = 4096;

/// `bench overload`.
#[derive(Args)]
#[command(after_help = "Example:\n  pentarchy bench overload --request-auth mac --json o.json\n\n\
    Each condition has a group of its own. The hundredfold one starts 800 clients with a thread \
    each.")]
pub struct OverloadArgs {
    /// How clients convince replicas
    #[arg(long, value_enum, default_value = "signature", value_name = "HOW")]
    pub request_auth: AuthChoice,
    /// Bytes of request and reply
    #[arg(long, default_value = "0/0", value_name = "REQUEST/REPLY")]
    pub payload: Payload,
    /// Seconds of each measurement, after two that do not count
    #[arg(long, default_value = "5", value_name = "S",
        value_parser = super::args::parse_seconds)]
    pub seconds: Duration,
    /// Only the conditions whose name contains this; the first is always measured
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

const CONDITIONS: [Condition; 8] = [
    condition("peak", (8, 256), Guest::Nobody, "peak"),
    condition("twice", (16, 256), Guest::Nobody, "peak"),
    condition("ten times", (80, 256), Guest::Nobody, "peak"),
    condition("a hundred times", (800, 256), Guest::Nobody, "peak"),
    condition("a thousand clients", (1000, 2), Guest::Nobody, "peak"),
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
    /// Of the one that floods.
    flooder_ops: f64,
    /// Jain's fairness index of the completions of the clients that are counted: 1 if all are
    /// equal, `1/n` if one has all.
    jain: f64,
    /// The least that a client completed, as a part of the mean.
    least: f64,
    /// Latency in milliseconds of one more client that waits for each result.
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
    let spinner = spinner();
    let mut found = Vec::new();
    for condition in &CONDITIONS {
        let wanted = args.only.as_deref().is_none_or(|word| condition.name.contains(word));
        if wanted || condition.name == condition.beside {
            spinner.set_message(condition.name);
            found.push(measure(condition, args, interrupt)?);
        }
    }
    spinner.finish_and_clear();
    say(&table::render(&found));
    write_json(args.json.as_deref(), machine, serde_json::json!({ "conditions": found }))
}

fn measure(condition: &Condition, args: &OverloadArgs, interrupt: &Interrupt) -> Outcome<Found> {
    let n = protocols::replicas_needed("minbft", 1).unwrap_or_default();
    let system = System { protocol: "minbft".to_owned(), f: 1, n };
    let mut group = Group::start(&system, &probe_case(args))?;
    let result = measure_group(&mut group, condition, args, interrupt);
    let result = group.check().and(result);
    group.stop();
    result
}

/// The load of the client whose latency is measured.
fn probe_case(args: &OverloadArgs) -> Case {
    Case {
        workload: Workload::Closed,
        payload: args.payload,
        request_auth: args.request_auth.into(),
        durability: Durability::Memory,
        clients: 1,
        outstanding: 1,
        connections: Connections::PerClient,
        drivers: Drivers::Own,
        service: Service::Null,
        reads: 0,
        rate: None,
    }
}

fn measure_group(
    group: &mut Group,
    condition: &Condition,
    args: &OverloadArgs,
    interrupt: &Interrupt,
) -> Outcome<Found> {
    let recipe = Recipe::new(&probe_case(args));
    let control = group.connect(&Arc::default())?;
    if !wait_until_it_answers(group, &control, &recipe, interrupt)? {
        return Err(Failure::Unwell("interrupted".to_owned()));
    }
    let clients: Vec<Client> =
        (0..condition.clients).map(|_| group.connect(&Arc::default())).collect::<Outcome<_>>()?;
    let (stop, flooded) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicU64::new(0)));
    let guest = invite(group, condition.guest, args.payload, &stop, &flooded)?;
    let start = Instant::now() + Duration::from_secs(2);
    let window = Window::starting(start, args.seconds);
    let signals = Signals::default();
    signals.window.get_or_init(|| window);
    let (tally, shares, flooder) = std::thread::scope(|scope| {
        let probe = scope.spawn(|| offer(&control, recipe.client(0), 1, &signals));
        let outstanding = condition.outstanding;
        let driver = scope.spawn({
            let (clients, stop) = (&clients, &stop);
            move || drive(clients, outstanding, args.payload, window, stop)
        });
        let result = sleep(interrupt, start - Instant::now()).and_then(|()| {
            let before = flooded.load(Ordering::Relaxed);
            sleep(interrupt, args.seconds)?;
            Ok(flooded.load(Ordering::Relaxed) - before)
        });
        stop.store(true, Ordering::Relaxed);
        signals.stop.store(true, Ordering::Relaxed);
        let (probe, driver) = (probe.join(), driver.join());
        let lost = |_| Failure::Internal("a thread that offers load panicked".to_owned());
        Ok::<_, Failure>((probe.map_err(lost)?, driver.map_err(lost)?, result?))
    })?;
    drop((clients, guest));
    let reports = status::ask(&control, group.config.replicas.len())?;
    Ok(found(condition, args.seconds, &tally, shares, flooder, &reports))
}

fn found(
    condition: &Condition,
    time: Duration,
    probe: &Tally,
    shares: Shares,
    flooder: u64,
    reports: &[status::Report],
) -> Found {
    let mut errors = shares.errors;
    for (error, count) in &probe.errors {
        *errors.entry(error).or_default() += count;
    }
    let done: Vec<f64> = shares.done.iter().map(|done| *done as f64).collect();
    let sum: f64 = done.iter().sum();
    let squares: f64 = done.iter().map(|done| done * done).sum();
    let quantiles = probe.latencies.quantiles();
    Found {
        condition: condition.name,
        beside: condition.beside,
        clients: condition.clients,
        outstanding: condition.outstanding,
        throughput_ops: sum / time.as_secs_f64(),
        flooder_ops: flooder as f64 / time.as_secs_f64(),
        jain: if sum > 0.0 { sum * sum / (done.len() as f64 * squares) } else { 0.0 },
        least: done.iter().copied().fold(f64::INFINITY, f64::min) * done.len() as f64 / sum,
        p50_ms: quantiles.p50 / 1e3,
        p99_ms: quantiles.p99 / 1e3,
        peak_memory_bytes: reports.iter().map(status::Report::peak_bytes).collect(),
        view_changes: reports.iter().map(status::Report::view_changes).max().unwrap_or_default(),
        errors,
    }
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

/// What each client completed within the window.
struct Shares {
    done: Vec<u64>,
    errors: BTreeMap<&'static str, u64>,
}

/// Keeps so many operations of each client outstanding until told to stop. One thread does it for
/// all, as they would otherwise be in each other's way.
fn drive(
    clients: &[Client],
    outstanding: usize,
    payload: Payload,
    window: Window,
    stop: &AtomicBool,
) -> Shares {
    let operation: Bytes = payload.operation();
    let completions = Completions::new();
    let mut shares = Shares { done: vec![0; clients.len()], errors: BTreeMap::new() };
    let mut due = vec![outstanding; clients.len()];
    let mut touched: Vec<usize> = (0..clients.len()).collect();
    let mut results = Vec::new();
    while !stop.load(Ordering::Relaxed) {
        for index in touched.drain(..) {
            let count = std::mem::take(&mut due[index]);
            let operations = (0..count).map(|_| (index as u64, operation.clone()));
            if clients[index].submit_all(operations, &completions).is_err() {
                *shares.errors.entry("closed").or_default() += 1;
            }
        }
        completions.wait(Duration::from_millis(50), &mut results);
        let counts = window.holds(Instant::now());
        for (tag, outcome) in results.drain(..) {
            let index = tag as usize;
            match outcome {
                Ok(_) => shares.done[index] += u64::from(counts),
                Err(error) => *shares.errors.entry(error_name(error)).or_default() += 1,
            }
            if due[index] == 0 {
                touched.push(index);
            }
            due[index] += 1;
        }
    }
    shares
}
