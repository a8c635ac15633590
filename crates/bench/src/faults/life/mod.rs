//! `bench life`: ten minutes of a group, under load, in which a machine joins, the primary crashes
//! and returns, and a member leaves. After figure 8 of *State Machine Replication for the Masses
//! with BFT-SMaRt*.

mod lists;

use super::args::LifeArgs;
use super::changing::ChangingGroup;
use super::record::Record;
use super::{check_writable, millis, write_file, write_json};
use crate::chart::{Panel, draw};
use crate::interrupt::Interrupt;
use crate::machine::Machine;
use crate::stats::Spread;
use lists::{Owners, Verdict};
use pentarchy_console::failure::Outcome;
use pentarchy_console::progress;
use pentarchy_console::{say, table};
use serde::Serialize;
use std::time::Duration;

/// When the paper's run ends, in seconds.
const END: f64 = 600.0;

/// What happens.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum Kind {
    /// Nothing: clients begin.
    Begin,
    /// A fifth machine becomes a member.
    Join,
    /// The primary's process is killed.
    Crash,
    /// It is started again.
    Return,
    /// The last of the members that began leaves.
    Leave,
}

impl Kind {
    const ALL: [Self; 5] = [Self::Begin, Self::Join, Self::Crash, Self::Return, Self::Leave];

    /// When it happens in the paper, in seconds.
    const fn at(self) -> f64 {
        match self {
            Self::Begin => 0.0,
            Self::Join => 120.0,
            Self::Crash => 240.0,
            Self::Return => 370.0,
            Self::Leave => 510.0,
        }
    }

    const fn words(self) -> &'static str {
        match self {
            Self::Begin => "clients begin",
            Self::Join => "a machine joins",
            Self::Crash => "the primary is killed",
            Self::Return => "it is started again",
            Self::Leave => "a member leaves",
        }
    }
}

/// Something that happened, and how the group was until the next.
#[derive(Serialize)]
struct Event {
    kind: Kind,
    /// Seconds since the start of the load.
    at: f64,
    /// How long it took until the group was so: until the machine is a member, all have caught up,
    /// or the member is none any more. None of what just happens.
    took_ms: Option<f64>,
    /// The longest time without a completed operation, until the next event.
    gap_ms: f64,
    /// Operations in a second: the median over the time from when the group was so.
    ops: Option<f64>,
}

#[derive(Serialize)]
struct Life {
    protocol: String,
    f: usize,
    durability: &'static str,
    clients: usize,
    /// Of the paper's ten minutes.
    scale: f64,
    events: Vec<Event>,
    /// Seconds, and operations in a second, for each second.
    rates: Vec<(f64, f64)>,
    verdict: Verdict,
    complete: bool,
}

/// Runs the command, which prints and writes what it measured, also until a failure.
pub fn run(args: &LifeArgs, interrupt: &Interrupt) -> Outcome {
    check_writable([args.json.as_deref(), args.svg.as_deref()])?;
    let machine = Machine::here();
    let mut group = ChangingGroup::start(&args.group, args.durability.into(), 1)?;
    let owners = Owners::start(&group.config, args.clients)?;
    let record = owners.record.clone();
    let begun = record.now();
    let mut events = Vec::new();
    let result = live(args, &mut group, &record, &mut events, interrupt);
    let rates = by_second(&record, begun, record.now());
    let verdict = owners.finish();
    let report = Life {
        protocol: args.group.label(),
        f: args.group.f,
        durability: pentarchy_cluster::config::Durability::from(args.durability).name(),
        clients: args.clients,
        scale: args.scale,
        complete: result.is_ok() && verdict.is_ok(),
        events,
        rates,
        verdict: verdict.as_ref().cloned().unwrap_or_default(),
    };
    conclude(&report);
    write_json(args.json.as_deref(), machine, &report)?;
    write_file(args.svg.as_deref(), || draw(&[panel(&report)]))?;
    result?;
    verdict?.check()?;
    group.assert_level()
}

/// All that happens, each at its time, or when what happened before is over.
fn live(
    args: &LifeArgs,
    group: &mut ChangingGroup,
    record: &Record,
    events: &mut Vec<Event>,
    interrupt: &Interrupt,
) -> Outcome {
    let progress = progress::spinner();
    let begun = record.now();
    let time_of = |seconds: f64| begun + Duration::from_secs_f64(seconds * args.scale);
    let ends = Kind::ALL.iter().skip(1).map(|kind| kind.at()).chain([END]);
    for (kind, end) in Kind::ALL.into_iter().zip(ends) {
        progress.set_message(kind.words());
        record.watch();
        let at = record.now();
        let is_over = happen(kind, group, interrupt)?;
        let settled = record.now();
        interrupt.sleep(time_of(end).saturating_sub(record.now()))?;
        let rates = record.rates(settled, record.now()).into_iter().map(|(_, rate)| rate);
        events.push(Event {
            kind,
            at: (at - begun).as_secs_f64(),
            took_ms: is_over.then(|| millis(settled - at)),
            gap_ms: millis(record.longest_gap()),
            ops: Spread::of(rates).map(|spread| spread.median),
        });
    }
    Ok(())
}

/// Makes it happen, and waits until the group is so. False if there is nothing to wait for.
fn happen(kind: Kind, group: &mut ChangingGroup, interrupt: &Interrupt) -> Outcome<bool> {
    let change = match kind {
        Kind::Begin => return Ok(false),
        Kind::Join => group.joined()?,
        Kind::Crash => {
            group.kill_primary()?;
            return Ok(false);
        }
        Kind::Return => {
            group.revive(interrupt)?;
            return Ok(true);
        }
        Kind::Leave => group.left_by_last()?,
    };
    group.make(change, interrupt)?;
    Ok(true)
}

/// The mean of each whole second.
fn by_second(record: &Record, from: Duration, to: Duration) -> Vec<(f64, f64)> {
    let seconds = (to.saturating_sub(from)).as_secs();
    let mean = |second: u64| {
        let begin = from + Duration::from_secs(second);
        let rates = record.rates(begin, begin + Duration::from_secs(1));
        let sum: f64 = rates.iter().map(|(_, rate)| rate).sum();
        (second as f64 + 0.5, sum / rates.len().max(1) as f64)
    };
    (0..seconds).map(mean).collect()
}

fn conclude(report: &Life) {
    let Life { protocol, f, durability, clients, .. } = report;
    say(&format!("{protocol}, f = {f}, {durability}, {clients} clients with one operation each"));
    let heads = ["what happens", "at, s", "until it was so, ms", "longest wait, ms", "then, ops/s"];
    let mut table = table::new(&heads);
    for event in &report.events {
        let number = |figure: Option<f64>| figure.map_or("-".to_owned(), |it| format!("{it:.0}"));
        table.add_row([
            event.kind.words().to_owned(),
            format!("{:.1}", event.at),
            number(event.took_ms),
            number(Some(event.gap_ms)),
            number(event.ops),
        ]);
    }
    say(&table::text(&table));
    say(&report.verdict.sentence());
}

fn panel(report: &Life) -> Panel {
    let at = |kind: Kind| report.events.iter().find(|event| event.kind == kind).map(|it| it.at);
    Panel {
        title: format!("{}: {} clients that keep lists", report.protocol, report.clients),
        unit: "operations/s",
        unit_across: "seconds",
        end: report.rates.last().map_or(1.0, |(at, _)| at + 0.5),
        logarithmic: false,
        fault: at(Kind::Crash).zip(at(Kind::Return)),
        level: at(Kind::Leave),
        lines: vec![("all clients".to_owned(), report.rates.clone())],
    }
}
