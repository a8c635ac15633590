//! `bench failover`: how long clients wait when the primary dies or freezes.

use super::args::FailoverArgs;
use super::cluster::Cluster;
use super::count::{Counters, Load, Verdict};
use super::record::Record;
use super::{await_answers, check_writable, millis, write_json};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::stats::Spread;
use pentarchy_cluster::config::Durability;
use pentarchy_console::failure::Outcome;
use pentarchy_console::progress;
use pentarchy_console::say;
use serde::Serialize;
use std::time::{Duration, Instant};

/// Load before each fault.
const SETTLE: Duration = Duration::from_millis(500);

/// Runs in one group, for each of its members. A group that keeps its state in memory admits a
/// member that is killed again and again at ever longer intervals, and that is not measured here.
const RUNS_OF_A_MEMBER: usize = 3;

/// One time that the primary was broken.
#[derive(Serialize, Clone, Copy)]
struct Run {
    /// Which replica was primary.
    primary: u32,
    /// The longest time without a completed operation, until it was healed.
    gap_ms: f64,
    /// The longest from then on until all had caught up.
    healing_gap_ms: f64,
    /// From the command to heal it until all had caught up.
    level_ms: f64,
}

#[derive(Serialize)]
struct Failover {
    fault: &'static str,
    protocol: String,
    f: usize,
    clients: usize,
    outstanding: usize,
    gap_ms: Option<Spread>,
    healing_gap_ms: Option<Spread>,
    runs: Vec<Run>,
    verdict: Verdict,
    complete: bool,
}

/// Runs the command, which prints and writes what it measured, also until a failure.
pub fn run(args: &FailoverArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), None])?;
    let machine = Machine::here();
    let load = Load { clients: args.load.clients, outstanding: args.load.outstanding, counters: 1 };
    let (mut runs, mut counted, mut result) = (Vec::new(), Verdict::default(), Ok(()));
    while runs.len() < args.runs && result.is_ok() {
        result = break_group(args, load, interrupt, &mut runs, &mut counted);
    }
    if runs.is_empty() {
        return result;
    }
    let report = Failover {
        fault: args.fault.name(),
        protocol: args.group.label(),
        f: args.group.f,
        clients: load.clients,
        outstanding: load.outstanding,
        gap_ms: Spread::of(runs.iter().map(|run| run.gap_ms)),
        healing_gap_ms: Spread::of(runs.iter().map(|run| run.healing_gap_ms)),
        complete: runs.len() == args.runs,
        runs,
        verdict: counted,
    };
    conclude(&report);
    write_json(args.json.as_deref(), machine, &report)?;
    report.verdict.check()?;
    result
}

/// Breaks the primary of a fresh group, as often as that group lets it return soon.
fn break_group(
    args: &FailoverArgs,
    load: Load,
    interrupt: &Interrupt,
    runs: &mut Vec<Run>,
    counted: &mut Verdict,
) -> Outcome {
    let cluster = Cluster::start(&args.group, Durability::Memory)?;
    let counters = Counters::start(&cluster.config, load)?;
    let last = args.runs.min(runs.len() + RUNS_OF_A_MEMBER * cluster.config.replicas.len());
    let broken = break_often(args, last, &cluster, &counters.record, interrupt, runs);
    let verdict = counters.finish();
    verdict.as_ref().ok().into_iter().for_each(|verdict| counted.add(verdict));
    broken.and(verdict.map(|_| ()))
}

fn break_often(
    args: &FailoverArgs,
    last: usize,
    cluster: &Cluster,
    record: &Record,
    interrupt: &Interrupt,
    runs: &mut Vec<Run>,
) -> Outcome {
    let progress = progress::spinner();
    for number in runs.len() + 1..=last {
        progress.set_message(format!("run {number} of {}", args.runs));
        let run = break_once(args, cluster, record, interrupt)?;
        progress.suspend(|| {
            say(&format!(
                "run {number}: primary {}, longest wait {:.0} ms; while it was healed {:.0} ms; \
                 caught up after {:.0} ms",
                run.primary, run.gap_ms, run.healing_gap_ms, run.level_ms
            ));
        });
        runs.push(run);
    }
    Ok(())
}

fn break_once(
    args: &FailoverArgs,
    cluster: &Cluster,
    record: &Record,
    interrupt: &Interrupt,
) -> Outcome<Run> {
    let primary = cluster.level_primary()?;
    interrupt.sleep(SETTLE)?;
    record.watch();
    cluster.harm(primary, args.fault.harm())?;
    interrupt.sleep(args.watch)?;
    await_answers(record, interrupt)?;
    let gap_ms = millis(record.longest_gap());
    record.watch();
    let begun = Instant::now();
    cluster.heal(primary)?;
    cluster.level_primary()?;
    let level_ms = millis(begun.elapsed());
    Ok(Run { primary, gap_ms, healing_gap_ms: millis(record.longest_gap()), level_ms })
}

fn conclude(report: &Failover) {
    if let (Some(gap), Some(healing)) = (&report.gap_ms, &report.healing_gap_ms) {
        say(&format!(
            "\n{} of the primary, {} runs; longest wait: worst {:.0} ms, median {:.0} ms; while it \
             was healed: worst {:.0} ms, median {:.0} ms",
            report.fault,
            report.runs.len(),
            gap.max,
            gap.median,
            healing.max,
            healing.median
        ));
    }
    say(&report.verdict.sentence());
}
