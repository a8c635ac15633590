//! `bench soak`: the memory of replicas under load while one of them is frozen, or each now and
//! then.

use super::args::SoakArgs;
use super::cluster::Cluster;
use super::count::{Counters, Load, Verdict};
use super::pauses::{Pause, Pauses};
use super::record::{Gap, Record};
use super::slope::Slope;
use super::{check_writable, write_file, write_json};
use crate::chart::{Panel, draw};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::process::resident_bytes;
use crate::stats::mebibytes;
use pentarchy_cluster::config::Durability;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::Part;
use pentarchy_console::patient::Harm;
use pentarchy_console::progress;
use pentarchy_console::{say, table};
use rustix::process::Signal;
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
    replica: u32,
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
    /// The options, and the time from which on the bench keeps one replica frozen.
    seconds: f64,
    frozen_at: Option<f64>,
    operations_per_second: f64,
    replicas: Vec<Memory>,
    /// When which replica was frozen at random.
    pauses: Vec<Pause>,
    /// Times of 450 ms and more without a completed operation.
    gaps: Vec<Explained>,
    verdict: Option<Verdict>,
    complete: bool,
}

/// A time without a completed operation, with who was frozen then or shortly before.
#[derive(Serialize)]
struct Explained {
    #[serde(flatten)]
    gap: Gap,
    frozen: Vec<Pause>,
}

/// Runs the command. What was measured until a failure is printed and written.
pub fn run(args: &SoakArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), args.svg.as_deref()])?;
    let machine = Machine::here();
    let cluster = Cluster::start(&args.group, Durability::Memory)?;
    let victim = cluster.after(cluster.level_primary()?);
    let n = cluster.config.replicas.len() as u32;
    let mut pauses = args.pauses.map(|seed| Pauses::new(seed, n, args.group.f));
    let (clients, outstanding) = (args.clients, args.outstanding);
    let load = Load { clients, outstanding, counters: COUNTERS };
    let counters = Counters::start(&cluster.config, load)?;
    let frozen = pauses.is_none().then_some(victim);
    let mut replicas: Vec<_> = (0..n).map(|id| Memory::new(id, frozen == Some(id))).collect();
    let record = counters.record.clone();
    let harm = match &mut pauses {
        Some(pauses) => Freezing::AtRandom(pauses),
        None => Freezing::ForGood(victim),
    };
    let watched = watch(args.minutes, &cluster, harm, &record, interrupt, &mut replicas);
    let seconds = record.now().as_secs_f64();
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
        frozen_at: frozen.map(|_| pause_at(args.minutes).as_secs_f64()),
        operations_per_second: acknowledged as f64 / seconds,
        replicas,
        gaps: explained(&record, pauses.as_ref()),
        pauses: pauses.map_or_else(Vec::new, |pauses| pauses.done),
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

/// Who is frozen.
enum Freezing<'a> {
    /// This one, once it is time.
    ForGood(u32),
    AtRandom(&'a mut Pauses),
}

fn explained(record: &Record, pauses: Option<&Pauses>) -> Vec<Explained> {
    let frozen = |gap: &Gap| pauses.map_or_else(Vec::new, |pauses| pauses.beside(gap));
    record.gaps().into_iter().map(|gap| Explained { frozen: frozen(&gap), gap }).collect()
}

/// Looks each second at how much memory every replica has.
fn watch(
    whole: Duration,
    cluster: &Cluster,
    mut freezing: Freezing<'_>,
    record: &Record,
    interrupt: &Interrupt,
    replicas: &mut [Memory],
) -> Outcome {
    let progress = progress::spinner();
    let parts = cluster.replicas()?;
    let (mut frozen, mut sample_at) = (None, Duration::ZERO);
    loop {
        let now = record.now();
        if now >= whole {
            break;
        }
        let next = match &mut freezing {
            Freezing::ForGood(victim) if frozen.is_none() && now >= pause_at(whole) => {
                cluster.harm(*victim, Harm::Pause)?;
                frozen = Some(*victim);
                None
            }
            Freezing::ForGood(_) => None,
            Freezing::AtRandom(pauses) => {
                pauses.go_on(now, |id, signal| cluster.signal(&parts[id as usize], signal))?;
                pauses.next()
            }
        };
        if now >= sample_at {
            sample(now, replicas, &parts)?;
            sample_at = now + PERIOD;
            let (minute, of) = (now.as_secs_f64() / 60.0, whole.as_secs_f64() / 60.0);
            progress.set_message(format!("minute {minute:.1} of {of:.1}"));
        }
        let wake_at = sample_at.min(whole).min(next.unwrap_or(Duration::MAX));
        interrupt.sleep(wake_at.saturating_sub(record.now()))?;
    }
    for part in &parts {
        cluster.signal(part, Signal::CONT)?;
    }
    frozen.map_or(Ok(()), |victim| cluster.heal(victim).map(drop))
}

fn sample(now: Duration, replicas: &mut [Memory], parts: &[Part]) -> Outcome {
    for (memory, part) in replicas.iter_mut().zip(parts) {
        let bytes = resident_bytes(part.pid).ok_or_else(|| {
            Failure::Unwell(format!("{} (pid {}) has ended", part.name, part.pid))
        })?;
        memory.samples.push((now.as_secs_f64(), bytes));
    }
    Ok(())
}

impl Memory {
    const fn new(replica: u32, frozen: bool) -> Self {
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
    if !report.pauses.is_empty() {
        text.push_str(&format!("\n\n{} times a replica was frozen", report.pauses.len()));
    }
    for Explained { gap, frozen } in &report.gaps {
        let Gap { from, ms } = gap;
        text.push_str(&format!("\nnothing for {ms:.0} ms from {from:.3} s on"));
        for Pause { replica, from, to } in frozen {
            let to = to.map_or("the end".to_owned(), |to| format!("{to:.3} s"));
            text.push_str(&format!("; replica {replica} frozen from {from:.3} s to {to}"));
        }
    }
    text
}

fn panel(report: &Soak) -> Panel {
    let line = |memory: &Memory| {
        let state = if memory.frozen { " (frozen)" } else { "" };
        let points = memory.samples.iter().map(|(at, bytes)| (*at, mebibytes(*bytes)));
        (format!("replica {}{state}", memory.replica), points.collect())
    };
    let harm = match report.frozen_at {
        Some(at) => format!("replica frozen from {at:.0} s on"),
        None => "replicas frozen at random".to_owned(),
    };
    Panel {
        title: format!("resident memory, {harm}, {:.0} operations/s", report.operations_per_second),
        unit: "MiB",
        unit_across: "seconds",
        end: report.seconds,
        logarithmic: false,
        fault: report.frozen_at.map(|at| (at, report.seconds)),
        level: None,
        lines: report.replicas.iter().map(line).collect(),
    }
}
