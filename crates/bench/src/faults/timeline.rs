//! `bench faults`: throughput before, during and after each kind of fault.

use super::args::TimelineArgs;
use super::cluster::Cluster;
use super::count::{Counters, Load, Verdict};
use super::record::Record;
use super::{check_writable, millis, write_file, write_json};
use crate::chart::{Panel, draw};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::stats::Spread;
use pentarchy_cluster::Fault;
use pentarchy_cluster::config::Durability;
use pentarchy_console::failure::Outcome;
use pentarchy_console::patient::Harm;
use pentarchy_console::progress;
use pentarchy_console::{say, table};
use serde::Serialize;
use std::time::Duration;

/// What is broken, and how.
const SCENES: [Scene; 7] = [
    Scene { name: "backup killed", primary: false, harm: Harm::Kill },
    Scene { name: "backup silent", primary: false, harm: Harm::Misbehave(Fault::Silent) },
    Scene { name: "backup corrupts", primary: false, harm: Harm::Misbehave(Fault::Corrupt) },
    Scene { name: "backup 100 ms slow", primary: false, harm: Harm::Misbehave(Fault::Slow(100)) },
    Scene { name: "primary 30 ms slow", primary: true, harm: Harm::Misbehave(Fault::Slow(30)) },
    Scene { name: "primary 100 ms slow", primary: true, harm: Harm::Misbehave(Fault::Slow(100)) },
    Scene { name: "primary equivocates", primary: true, harm: Harm::Misbehave(Fault::Equivocate) },
];

struct Scene {
    name: &'static str,
    primary: bool,
    harm: Harm,
}

/// What one fault did.
#[derive(Serialize)]
struct Timeline {
    fault: &'static str,
    replica: u32,
    /// Medians over intervals of 100 ms; `after` begins when all have caught up again.
    before_ops: Option<f64>,
    during_ops: Option<f64>,
    after_ops: Option<f64>,
    /// The longest time without a completed operation, from the fault to the end.
    gap_ms: f64,
    /// Seconds from the start of the timeline.
    broken_at: f64,
    healed_at: f64,
    level_at: f64,
    /// Views by which the group went on between the fault and its end.
    views: u64,
    /// Seconds and completed operations in a second, for each 100 ms.
    rates: Vec<(f64, f64)>,
}

#[derive(Serialize)]
struct Timelines {
    protocol: String,
    f: usize,
    clients: usize,
    outstanding: usize,
    timelines: Vec<Timeline>,
    verdict: Option<Verdict>,
    complete: bool,
}

/// Runs the command. What was measured until a failure is printed and written.
pub fn run(args: &TimelineArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), args.svg.as_deref()])?;
    let machine = Machine::here();
    let cluster = Cluster::start(&args.group, Durability::Memory)?;
    let (clients, outstanding) = (args.load.clients, args.load.outstanding);
    let load = Load { clients, outstanding, counters: 1 };
    let counters = Counters::start(&cluster.config, load)?;
    let mut timelines = Vec::new();
    let wanted = args.scenes();
    let played = play_all(args, &wanted, &cluster, &counters.record, interrupt, &mut timelines);
    let verdict = counters.finish();
    let report = Timelines {
        protocol: args.group.label(),
        f: args.group.f,
        clients,
        outstanding,
        complete: timelines.len() == wanted.len(),
        timelines,
        verdict: verdict.as_ref().ok().cloned(),
    };
    if !report.timelines.is_empty() {
        say(&render(&report.timelines));
    }
    if let Some(verdict) = &report.verdict {
        say(&verdict.sentence());
    }
    write_json(args.json.as_deref(), machine, &report)?;
    write_file(args.svg.as_deref(), || {
        draw(&report.timelines.iter().map(panel).collect::<Vec<_>>())
    })?;
    verdict?.check()?;
    played
}

impl TimelineArgs {
    fn scenes(&self) -> Vec<&'static Scene> {
        let word = self.only.as_deref().unwrap_or_default();
        SCENES.iter().filter(|scene| scene.name.contains(word)).collect()
    }
}

fn play_all(
    args: &TimelineArgs,
    scenes: &[&Scene],
    cluster: &Cluster,
    record: &Record,
    interrupt: &Interrupt,
    timelines: &mut Vec<Timeline>,
) -> Outcome {
    let progress = progress::spinner();
    for (index, scene) in scenes.iter().enumerate() {
        let (number, of) = (index + 1, scenes.len());
        progress.set_message(format!("fault {number} of {of}: {}", scene.name));
        timelines.push(play(scene, args.seconds_each, cluster, record, interrupt)?);
    }
    Ok(())
}

/// How long the group may complete nothing after the fault before: clients try again ever later.
const IDLE_MAX: Duration = Duration::from_secs(10);

/// Waits until the group completes something, so that it is not taken for slow before the fault.
fn await_completion(record: &Record, interrupt: &Interrupt) -> Outcome {
    let begun = record.now();
    let waited = || record.now().saturating_sub(begun);
    while record.silence() >= waited() && waited() < IDLE_MAX {
        interrupt.sleep(Duration::from_millis(20))?;
    }
    Ok(())
}

/// Looks on, breaks a replica, looks on, heals it, looks on.
fn play(
    scene: &Scene,
    each: Duration,
    cluster: &Cluster,
    record: &Record,
    interrupt: &Interrupt,
) -> Outcome<Timeline> {
    let primary = cluster.level_primary()?;
    let replica = if scene.primary { primary } else { cluster.after(primary) };
    await_completion(record, interrupt)?;
    let start = record.now();
    interrupt.sleep(each)?;
    let view = cluster.view();
    record.watch();
    let broken = record.now();
    cluster.harm(replica, scene.harm)?;
    interrupt.sleep(each.saturating_sub(record.now() - broken))?;
    let views = cluster.view().saturating_sub(view);
    let healed = record.now();
    cluster.heal(replica)?;
    cluster.level_primary()?;
    let level = record.now();
    interrupt.sleep(each)?;
    let end = record.now();
    let median = |from, to| {
        let rates = record.rates(from, to).into_iter().map(|(_, rate)| rate);
        Spread::of(rates).map(|spread| spread.median)
    };
    let since = |at: Duration| at.saturating_sub(start).as_secs_f64();
    let rates = record.rates(start, end);
    Ok(Timeline {
        fault: scene.name,
        replica,
        before_ops: median(start, broken),
        during_ops: median(broken, healed),
        after_ops: median(level, end),
        gap_ms: millis(record.longest_gap()),
        broken_at: since(broken),
        healed_at: since(healed),
        level_at: since(level),
        views,
        rates: rates.into_iter().map(|(at, rate)| (since(at), rate)).collect(),
    })
}

fn render(timelines: &[Timeline]) -> String {
    let heads = [
        "fault",
        "replica",
        "before, ops/s",
        "during",
        "after",
        "longest gap, ms",
        "caught up after, s",
        "views",
    ];
    let mut table = table::new(&heads);
    for timeline in timelines {
        let rate = |rate: Option<f64>| rate.map_or("-".to_owned(), |rate| format!("{rate:.0}"));
        table.add_row([
            timeline.fault.to_owned(),
            timeline.replica.to_string(),
            rate(timeline.before_ops),
            rate(timeline.during_ops),
            rate(timeline.after_ops),
            format!("{:.0}", timeline.gap_ms),
            format!("{:.1}", timeline.level_at - timeline.healed_at),
            timeline.views.to_string(),
        ]);
    }
    table::text(&table)
}

fn panel(timeline: &Timeline) -> Panel {
    Panel {
        title: format!("{} (longest gap {:.0} ms)", timeline.fault, timeline.gap_ms),
        unit: "operations/s",
        unit_across: "seconds",
        end: timeline.rates.last().map_or(1.0, |(at, _)| *at),
        logarithmic: false,
        fault: Some((timeline.broken_at, timeline.healed_at)),
        level: Some(timeline.level_at),
        lines: vec![("all clients".to_owned(), timeline.rates.clone())],
    }
}
