//! `bench soak`: the memory of replicas under load while one of them is frozen.

use super::args::SoakArgs;
use super::cluster::Cluster;
use super::count::{Counters, Load, Verdict};
use super::record::Record;
use super::slope::Slope;
use super::{check_writable, sleep, write_file, write_json};
use crate::bench::chart::{Panel, draw};
use crate::bench::interrupt::Interrupt;
use crate::bench::machine::{self, Machine};
use crate::bench::progress;
use crate::cli::args::DurabilityChoice;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::faults::Harm;
use crate::cli::{say, table};
use serde::Serialize;
use std::time::Duration;

/// Between two samples.
const PERIOD: Duration = Duration::from_secs(1);

/// Counters of each client: a state that soon grows no more, so that what grows then is something
/// else.
const COUNTERS: u64 = 1000;

/// When a replica is frozen, unless a tenth of the time is less.
const PAUSE_AT: Duration = Duration::from_secs(60);

/// The part of the time before the slope is taken.
const SETTLING: f64 = 0.2;

/// One replica's memory.
#[derive(Serialize)]
struct Memory {
    replica: u16,
    frozen: bool,
    /// The most that was resident when it was looked at, in bytes.
    peak_bytes: u64,
    /// Bytes per second over the last 80 % of the time; null if there are too few samples.
    bytes_per_second: Option<Slope>,
    /// Seconds and bytes.
    samples: Vec<(f64, u64)>,
}

#[derive(Serialize)]
struct Soak {
    protocol: String,
    f: usize,
    clients: usize,
    outstanding: usize,
    /// What was asked for, and from when on a replica was frozen.
    seconds: f64,
    frozen_at: f64,
    operations_per_second: f64,
    replicas: Vec<Memory>,
    verdict: Option<Verdict>,
    complete: bool,
}

/// Runs the command. What was measured until a failure is printed and written.
pub fn run(args: &SoakArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), args.svg.as_deref()])?;
    let machine = Machine::here();
    let cluster = Cluster::start(&args.group, DurabilityChoice::Memory)?;
    let victim = cluster.after(cluster.level_primary()?);
    let (clients, outstanding) = (args.clients, args.outstanding);
    let load = Load { clients, outstanding, counters: COUNTERS };
    let counters = Counters::start(&cluster.config, load)?;
    let mut replicas: Vec<_> =
        (0..cluster.config.replicas.len() as u16).map(|id| Memory::new(id, id == victim)).collect();
    let watched = watch(args, &cluster, victim, &counters.record, interrupt, &mut replicas);
    let seconds = counters.record.now().as_secs_f64();
    let verdict = counters.finish();
    for memory in &mut replicas {
        memory.conclude(args.minutes);
    }
    let acknowledged = verdict.as_ref().map_or(0, |verdict| verdict.acknowledged);
    let report = Soak {
        protocol: args.group.label(),
        f: args.group.f,
        clients,
        outstanding,
        seconds: args.minutes.as_secs_f64(),
        frozen_at: pause_at(args.minutes).as_secs_f64(),
        operations_per_second: acknowledged as f64 / seconds,
        replicas,
        verdict: verdict.as_ref().ok().cloned(),
        complete: watched.is_ok(),
    };
    say(&render(&report));
    write_json(args.json.as_deref(), machine, &report)?;
    write_file(args.svg.as_deref(), || draw(&[panel(&report)]))?;
    verdict?.check()?;
    watched
}

fn pause_at(whole: Duration) -> Duration {
    PAUSE_AT.min(whole / 10)
}

/// Looks each second at how much memory every replica has.
fn watch(
    args: &SoakArgs,
    cluster: &Cluster,
    victim: u16,
    record: &Record,
    interrupt: &Interrupt,
    replicas: &mut [Memory],
) -> Outcome {
    let progress = progress::spinner();
    let parts = cluster.replicas()?;
    let mut frozen = false;
    while record.now() < args.minutes {
        if !frozen && record.now() >= pause_at(args.minutes) {
            cluster.harm(victim, Harm::Pause)?;
            frozen = true;
        }
        let now = record.now().as_secs_f64();
        for (memory, part) in replicas.iter_mut().zip(&parts) {
            let bytes = machine::resident_bytes(part.pid).ok_or_else(|| {
                Failure::Unwell(format!("{} (pid {}) has ended", part.name, part.pid))
            })?;
            memory.samples.push((now, bytes));
        }
        let (minute, of) = (now / 60.0, args.minutes.as_secs_f64() / 60.0);
        progress.set_message(format!("minute {minute:.1} of {of:.1}"));
        let left = args.minutes.saturating_sub(record.now());
        sleep(interrupt, PERIOD.min(left))?;
    }
    if frozen { cluster.heal(victim).map(drop) } else { Ok(()) }
}

impl Memory {
    const fn new(replica: u16, frozen: bool) -> Self {
        Self { replica, frozen, peak_bytes: 0, bytes_per_second: None, samples: Vec::new() }
    }

    fn conclude(&mut self, whole: Duration) {
        self.peak_bytes = self.samples.iter().map(|(_, bytes)| *bytes).max().unwrap_or(0);
        let from = whole.as_secs_f64() * SETTLING;
        let settled = self.samples.iter().filter(|(at, _)| *at >= from);
        let points: Vec<_> = settled.map(|(at, bytes)| (*at, *bytes as f64)).collect();
        self.bytes_per_second = Slope::of(&points);
    }
}

fn render(report: &Soak) -> String {
    let heads = [
        "replica",
        "",
        "peak, MiB",
        "slope, KiB/min",
        "95 %, as if independent",
        "95 %, ten blocks",
        "autocorrelation",
    ];
    let mut table = table::new(&heads);
    for memory in &report.replicas {
        let state = if memory.frozen { "frozen" } else { "at work" };
        let peak = format!("{:.1}", mebibytes(memory.peak_bytes));
        let mut row = vec![memory.replica.to_string(), state.to_owned(), peak];
        if let Some(slope) = &memory.bytes_per_second {
            let per_minute = |bytes: f64| bytes * 60.0 / 1024.0;
            let block = slope.block_half_width;
            row.extend([
                format!("{:.1}", per_minute(slope.slope)),
                format!("± {:.1}", per_minute(slope.half_width)),
                block.map_or("-".to_owned(), |block| format!("± {:.1}", per_minute(block))),
                format!("{:.2}", slope.autocorrelation),
            ]);
        }
        table.add_row(row);
    }
    let mut text = table::text(&table);
    text.push_str(&format!("\n\n{:.0} operations/s", report.operations_per_second));
    if let Some(verdict) = &report.verdict {
        text.push_str(&format!("; {}", verdict.sentence()));
    }
    text
}

fn panel(report: &Soak) -> Panel {
    let line = |memory: &Memory| {
        let state = if memory.frozen { " (frozen)" } else { "" };
        let points = memory.samples.iter().map(|(at, bytes)| (*at, mebibytes(*bytes)));
        (format!("replica {}{state}", memory.replica), points.collect())
    };
    Panel {
        title: format!(
            "resident memory, replica frozen from {:.0} s on, {:.0} operations/s",
            report.frozen_at, report.operations_per_second
        ),
        unit: "MiB",
        unit_across: "seconds",
        end: report.seconds,
        logarithmic: false,
        fault: Some((report.frozen_at, report.seconds)),
        level: None,
        lines: report.replicas.iter().map(line).collect(),
    }
}

fn mebibytes(bytes: u64) -> f64 {
    bytes as f64 / f64::from(1 << 20)
}
