//! `bench recovery`: how long a replica that was away takes to catch up, what that moves, and
//! what the group does meanwhile.

use super::args::{PrimaryFault, RecoveryArgs};
use super::cluster::Cluster;
use super::count::{Counters, Load, Verdict};
use super::fill::fill;
use super::record::Record;
use super::{check_writable, millis, write_json};
use crate::disk::DiskReport;
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::stats::{Spread, mebibytes};
use pentarchy_cluster::config::Durability;
use pentarchy_console::failure::Outcome;
use pentarchy_console::progress;
use pentarchy_console::status::report::ReplicaReport;
use pentarchy_console::{say, table};
use serde::Serialize;
use std::time::Duration;

/// Bytes of a value that is written before.
const VALUE_BYTES: usize = 100;

/// How long the group is watched before a replica leaves.
const BEFORE: Duration = Duration::from_secs(3);

/// The group is watched for at least so long from the moment at which the replica comes back.
const AFTER: Duration = Duration::from_secs(2);

/// One time that a replica was away.
#[derive(Serialize, Clone, Copy)]
struct Run {
    /// Which one: a backup.
    replica: u32,
    /// For how long, in seconds.
    away_s: f64,
    /// Keys that were written before.
    keys: u64,
    /// Bytes of its log on its disk before it left; 0 if it has none.
    log_bytes: u64,
    /// From the command that brought it back until it had executed what the others had when it
    /// first answered.
    level_ms: f64,
    /// Bytes that came to it from its peers in that time; of a new process, since its start.
    bytes: u64,
    /// Of those, the bytes of state.
    state_bytes: u64,
    /// Operations in a second, medians over intervals of 100 ms: before, while it was away, and
    /// from its return until it had caught up, or for two seconds if that is longer.
    before_ops: f64,
    away_ops: f64,
    return_ops: f64,
}

impl Run {
    /// What the group did when it came back, as a part of what it did before.
    fn kept(&self) -> f64 {
        self.return_ops / self.before_ops
    }
}

#[derive(Serialize)]
struct Recovery {
    fault: &'static str,
    durability: &'static str,
    protocol: String,
    f: usize,
    clients: usize,
    outstanding: usize,
    disk: Option<DiskReport>,
    runs: Vec<Run>,
    verdict: Option<Verdict>,
    complete: bool,
}

/// Runs the command. What was measured until a failure is printed and written.
pub fn run(args: &RecoveryArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), None])?;
    let machine = Machine::here();
    let durability = Durability::from(args.durability);
    let disk = (durability != Durability::Memory).then(DiskReport::measure).transpose()?;
    let load = Load { clients: args.load.clients, outstanding: args.load.outstanding, counters: 1 };
    let (mut runs, mut sum) = (Vec::new(), Verdict::default());
    let mut verdict = Ok(());
    let mut measured = Ok(());
    for keys in &args.keys {
        let cluster = Cluster::start(&args.group, durability)?;
        fill(&cluster.config, *keys, VALUE_BYTES, interrupt)?;
        let counters = Counters::start(&cluster.config, load)?;
        measured = away_often(args, *keys, &cluster, &counters.record, interrupt, &mut runs);
        verdict = counters.finish().map(|verdict| sum.add(&verdict));
        if measured.is_err() || verdict.is_err() {
            break;
        }
    }
    let verdict = verdict.map(|()| sum);
    let report = Recovery {
        fault: args.fault.name(),
        durability: durability.name(),
        protocol: args.group.label(),
        f: args.group.f,
        clients: load.clients,
        outstanding: load.outstanding,
        disk,
        complete: runs.len() == args.runs * args.away.len() * args.keys.len(),
        runs,
        verdict: verdict.as_ref().ok().cloned(),
    };
    say(&render(&report));
    write_json(args.json.as_deref(), machine, &report)?;
    verdict?.check()?;
    measured
}

fn away_often(
    args: &RecoveryArgs,
    keys: u64,
    cluster: &Cluster,
    record: &Record,
    interrupt: &Interrupt,
    runs: &mut Vec<Run>,
) -> Outcome {
    let progress = progress::spinner();
    for away in &args.away {
        for number in 1..=args.runs {
            let seconds = away.as_secs_f64();
            progress.set_message(format!("{seconds} s away, run {number} of {}", args.runs));
            let run = away_once(args.fault, (*away, keys), cluster, record, interrupt)?;
            progress.suspend(|| {
                say(&format!(
                    "{keys} keys, replica {} away for {seconds} s: caught up after {:.0} ms, \
                     {:.1} MiB, of which {:.1} MiB state; {:.0} ops/s before, {:.0} meanwhile, \
                     {:.0} on its return",
                    run.replica,
                    run.level_ms,
                    mebibytes(run.bytes),
                    mebibytes(run.state_bytes),
                    run.before_ops,
                    run.away_ops,
                    run.return_ops
                ));
            });
            runs.push(run);
        }
    }
    Ok(())
}

fn away_once(
    fault: PrimaryFault,
    (away, keys): (Duration, u64),
    cluster: &Cluster,
    record: &Record,
    interrupt: &Interrupt,
) -> Outcome<Run> {
    let replica = cluster.after(cluster.level_primary()?);
    let start = record.now();
    interrupt.sleep(BEFORE)?;
    let before = cluster.replica(replica)?;
    let left = record.now();
    cluster.harm(replica, fault.harm())?;
    interrupt.sleep(away)?;
    let back = record.now();
    let after = cluster.heal(replica)?;
    let level = record.now();
    interrupt.sleep((back + AFTER).saturating_sub(level))?;
    let rate = |from, to| {
        let rates = record.rates(from, to).into_iter().map(|(_, rate)| rate);
        Spread::of(rates).map_or(0.0, |spread| spread.median)
    };
    let moved = |path: &[&str]| moved(&before, &after, path);
    Ok(Run {
        replica,
        away_s: away.as_secs_f64(),
        keys,
        log_bytes: before.answer["durability"]["log_bytes"].as_u64().unwrap_or_default(),
        level_ms: millis(level - back),
        bytes: moved(&["traffic", "peers", "bytes_in"]),
        state_bytes: moved(&["messages", "transfer", "bytes_in"]),
        before_ops: rate(start, left),
        away_ops: rate(left, back),
        return_ops: rate(back, level.max(back + AFTER)),
    })
}

/// How much a count of a replica's rose; another process counts from 0.
fn moved(before: &ReplicaReport, after: &ReplicaReport, path: &[&str]) -> u64 {
    let (Some((first, rest)), process) = (path.split_first(), "pid") else { return 0 };
    let count = |report: &ReplicaReport| {
        let found = rest.iter().try_fold(report.answer.get(*first)?, |at, name| at.get(name));
        found?.as_u64()
    };
    let same = before.answer.get(process) == after.answer.get(process);
    let then = count(before).filter(|_| same).unwrap_or(0);
    count(after).unwrap_or(0).saturating_sub(then)
}

/// A line for each time away.
fn render(report: &Recovery) -> String {
    let heads = [
        "keys",
        "away, s",
        "runs",
        "log, MiB",
        "caught up after, ms",
        "MiB",
        "MiB of state",
        "throughput kept, %",
    ];
    let mut table = table::new(&heads);
    let mut kinds: Vec<(u64, f64)> = report.runs.iter().map(|run| (run.keys, run.away_s)).collect();
    kinds.dedup();
    for (keys, away) in kinds {
        let is_one = |run: &&Run| (run.keys, run.away_s) == (keys, away);
        let runs: Vec<_> = report.runs.iter().filter(is_one).collect();
        let cell = |figure: &dyn Fn(&Run) -> f64, digits: usize| {
            let spread = Spread::of(runs.iter().map(|run| figure(run)));
            spread.map_or_else(String::new, |Spread { median, min, max, .. }| {
                format!("{median:.digits$} [{min:.digits$} .. {max:.digits$}]")
            })
        };
        table.add_row([
            keys.to_string(),
            away.to_string(),
            runs.len().to_string(),
            cell(&|run| mebibytes(run.log_bytes), 0),
            cell(&|run| run.level_ms, 0),
            cell(&|run| mebibytes(run.bytes), 1),
            cell(&|run| mebibytes(run.state_bytes), 1),
            cell(&|run| 100.0 * run.kept(), 0),
        ]);
    }
    let (fault, durability) = (report.fault, report.durability);
    let mut text = format!("\n{fault}, durability {durability}\n{}\n", table::text(&table));
    if let Some(verdict) = &report.verdict {
        text.push_str(&verdict.sentence());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(pid: u32, bytes: u64) -> ReplicaReport {
        let json = format!(r#"{{"pid": {pid}, "traffic": {{"peers": {{"bytes_in": {bytes}}}}}}}"#);
        ReplicaReport::new(1, "a:1", Ok(json.as_bytes()))
    }

    #[test]
    fn a_new_process_counts_from_nought() {
        let path = ["traffic", "peers", "bytes_in"];
        assert_eq!(moved(&report(7, 100), &report(7, 130), &path), 30);
        assert_eq!(moved(&report(7, 100), &report(8, 130), &path), 130);
        assert_eq!(moved(&report(7, 100), &report(7, 130), &["traffic", "other"]), 0);
    }
}
