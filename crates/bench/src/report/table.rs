//! The table that people read.

use super::super::stats::Spread;
use super::{CaseReport, Effort, Report, SystemReport};
use crate::grid::{self, Grid, Part};
use crate::machine::{Machine, Program};
use pentarchy_cluster::config::Durability;
use std::fmt::Write as _;

/// The whole report as text.
pub fn render(report: &Report) -> String {
    let mut text = head(report);
    for case in &report.cases {
        text.push('\n');
        text.push_str(&render_case(case));
    }
    for line in kept(report) {
        let _ = writeln!(text, "\n{line}");
    }
    text.push('\n');
    text.push_str(foot(report));
    text
}

/// The whole report as a page.
pub fn page(report: &Report) -> String {
    let mut parts = vec![Part::Text(head(report))];
    for case in &report.cases {
        parts.push(Part::Heading(summary(case)));
        parts.push(Part::Table(figures(case)));
        parts.extend(render_ratio(case).map(Part::Text));
    }
    parts.push(Part::Text(foot(report).to_owned()));
    grid::page("pentarchy bench", &parts)
}

/// Where and with what was measured, in two lines.
pub fn origin(machine: &Machine, program: &Program) -> String {
    let mut text = String::new();
    let _ = write!(
        text,
        "machine   {}, {} cores, {:.1} GiB, {}",
        if machine.processor.is_empty() { "unknown processor" } else { &machine.processor },
        machine.cores,
        machine.memory_bytes as f64 / f64::from(1 << 30),
        machine.kernel
    );
    if let Some(load) = machine.load_before {
        let _ = write!(text, "; load before: {load:.2}");
    }
    let build = if program.release { "release build" } else { "DEBUG BUILD: slow" };
    let _ = write!(text, "\nprogram   pentarchy {}, {build}", program.version);
    let named = [("commit", program.commit), ("", program.rustc)];
    for (name, value) in named.into_iter().filter_map(|(name, value)| Some((name, value?))) {
        let _ = write!(text, ", {name}{}{value}", if name.is_empty() { "" } else { " " });
    }
    text.push('\n');
    text
}

/// Where, how and with what was measured.
pub fn head(report: &Report) -> String {
    let Report { machine, program, settings, .. } = report;
    let mut text = origin(machine, program);
    let _ = writeln!(
        text,
        "measured  {} x {} s after {} s of load, systems in turn, a fresh group each time\n\
         network   {}\nbatches   {}\nreplies   {}",
        settings.repeats,
        settings.seconds,
        settings.warmup_seconds,
        settings.network,
        settings.batch_policy,
        settings.reply_policy,
    );
    if let Some(disk) = &report.disk {
        let _ = writeln!(
            text,
            "disk      alone, 4 KiB and a sync: {}/s, p50 {} µs, p99 {} µs, most {} µs",
            number(disk.syncs_per_second, 0),
            number(disk.p50_us, 0),
            number(disk.p99_us, 0),
            number(disk.max_us, 0),
        );
    }
    text
}

/// What is to be known of the figures.
pub fn foot(report: &Report) -> &'static str {
    match (report.complete, report.settings.repeats) {
        (false, _) => "Not all was measured.",
        (true, 1) => "One repeat: there is no spread, so these figures say little.",
        (true, _) => {
            "Each figure: median [smallest .. largest] of the repeats, and their distance \
                      in % of the median."
        }
    }
}

/// What keeping things costs: each case that does, beside the one that differs in nothing else.
fn kept(report: &Report) -> Vec<String> {
    let memory = Durability::Memory.name();
    let keeps = report.cases.iter().filter(|case| case.conditions.durability != memory);
    let lines = keeps.filter_map(|case| {
        let without = summary(case).replace(&format!(", {}:", case.conditions.durability), ":");
        let beside = report.cases.iter().find(|other| summary(other) == without)?;
        let rate = |case: &CaseReport| Some(case.systems.first()?.throughput_ops.median);
        let (with, without) = (rate(case)?, rate(beside)?);
        let percent = number(100.0 * with / without, 1);
        Some(format!("{}: {percent} % of the throughput with {memory}", summary(case)))
    });
    lines.collect()
}

/// What was done, in a line.
pub fn summary(case: &CaseReport) -> String {
    let CaseReport { workload, conditions, outstanding, .. } = case;
    let load = match case.offered_ops {
        Some(rate) => format!("{} ops/s offered", number(rate as f64, 0)),
        None if conditions.clients == 1 => format!("{outstanding} outstanding"),
        None => format!("{outstanding} outstanding each"),
    };
    format!("{workload} {conditions}, {load}")
}

fn figures(case: &CaseReport) -> Grid {
    let names = case.systems.iter().map(|s| format!("{} f={} n={}", s.protocol, s.f, s.n));
    let heads = [String::new()].into_iter().chain(names).collect();
    let row = |(name, figure): &Row| {
        let figures: Vec<String> = case.systems.iter().map(figure).collect();
        let is_shown = figures.iter().any(|figure| !figure.is_empty());
        is_shown.then(|| [(*name).to_owned()].into_iter().chain(figures).collect())
    };
    Grid { heads, rows: ROWS.iter().filter_map(row).collect() }
}

fn render_case(case: &CaseReport) -> String {
    let mut text = format!("{}\n{}\n", summary(case), figures(case).text());
    text.push_str(&render_ratio(case).unwrap_or_default());
    text
}

/// The ratios, each beside what it is a ratio of.
fn render_ratio(case: &CaseReport) -> Option<String> {
    let (ratio, [replicated, baseline]) = (case.ratio.as_ref()?, case.systems.as_slice()) else {
        return None;
    };
    let total = |system: &SystemReport| {
        let cpu = &system.cpu_us_per_op;
        cpu.clients.median + cpu.replicas.iter().map(|spread| spread.median).sum::<f64>()
    };
    let figures = [
        ("throughput", &ratio.throughput, replicated.us_per_op.median, baseline.us_per_op.median),
        (
            "latency p50",
            &ratio.latency_p50,
            replicated.latency_us.p50.median,
            baseline.latency_us.p50.median,
        ),
        ("processor", &ratio.cpu, total(replicated), total(baseline)),
    ];
    let mut text = String::new();
    for (name, spread, ours, theirs) in figures {
        let _ = writeln!(
            text,
            "{name} ratio {} ({} µs against {} µs per operation)",
            cell(spread, 1.0, 2),
            number(ours, 2),
            number(theirs, 2)
        );
    }
    Some(text)
}

type Row = (&'static str, fn(&SystemReport) -> String);

/// The rows of a case's table.
const ROWS: &[Row] = &[
    ("throughput, ops/s", |s| cell(&s.throughput_ops, 1.0, 0)),
    ("latency p50, µs", |s| cell(&s.latency_us.p50, 1.0, 1)),
    ("latency p99, µs", |s| cell(&s.latency_us.p99, 1.0, 1)),
    ("latency p99.9, µs", |s| cell(&s.latency_us.p999, 1.0, 1)),
    ("replicas' cpu, µs/op", |s| medians(&s.cpu_us_per_op.replicas, 1.0, 2)),
    ("clients' cpu, µs/op", |s| cell(&s.cpu_us_per_op.clients, 1.0, 2)),
    ("late submissions p99, µs", |s| optional(s.late_p99_us.as_ref(), 1)),
    ("replicas' system calls, per op", |s| replicas(s, |effort| effort.system_calls.as_ref())),
    ("clients' system calls, per op", |s| {
        optional(s.effort_per_op.clients.system_calls.as_ref(), 3)
    }),
    ("replicas' context switches, per op", |s| switches(&s.effort_per_op.replicas)),
    ("clients' context switches, per op", |s| {
        switches(std::slice::from_ref(&s.effort_per_op.clients))
    }),
    ("replicas' allocations, per op", |s| replicas(s, |effort| effort.allocations.as_ref())),
    ("clients' allocations, per op", |s| optional(s.effort_per_op.clients.allocations.as_ref(), 3)),
    ("busiest replica, bytes per op", |s| optional(s.busiest_bytes_per_op.as_ref(), 0)),
    ("busiest replica, messages per op", |s| optional(s.busiest_messages_per_op.as_ref(), 3)),
    ("a replica's log syncs, per s", |s| optional(s.log_syncs.as_ref(), 0)),
    ("a replica's log sync, mean µs", |s| optional(s.log_sync_us.as_ref(), 0)),
    ("threads of a replica", |s| optional(s.replica_threads.as_ref(), 0)),
    ("replicas' peak memory, MiB", |s| medians(&s.peak_memory_bytes, f64::from(1 << 20), 1)),
    ("requests per batch", |s| s.requests_per_batch.as_ref().map_or(String::new(), short)),
    ("requests per envelope", |s| s.requests_per_envelope.as_ref().map_or(String::new(), short)),
    ("replicas' cryptography, per 1,000 ops", crypto),
    ("completed", |s| number(s.completed as f64, 0)),
    ("errors", errors),
    ("sent again, view changes", |s| format!("{}, {}", s.resent_envelopes, s.view_changes)),
];

/// A median, if there is one.
pub fn optional(spread: Option<&Spread>, digits: usize) -> String {
    spread.map_or_else(String::new, |spread| number(spread.median, digits))
}

/// One figure of each replica.
fn replicas(system: &SystemReport, part: fn(&Effort) -> Option<&Spread>) -> String {
    let each: Option<Vec<_>> = system.effort_per_op.replicas.iter().map(part).collect();
    let each = each.unwrap_or_default().into_iter().map(|spread| number(spread.median, 3));
    each.collect::<Vec<_>>().join(" + ")
}

/// Voluntary and involuntary ones.
fn switches(efforts: &[Effort]) -> String {
    let both = |effort: &Effort| {
        let (voluntary, involuntary) =
            (effort.voluntary_switches.as_ref()?, effort.involuntary_switches.as_ref()?);
        Some(format!("{}/{}", number(voluntary.median, 3), number(involuntary.median, 3)))
    };
    let each: Vec<_> = efforts.iter().filter_map(both).collect();
    each.join(" + ")
}

fn short(spread: &Spread) -> String {
    cell(spread, 1.0, 1)
}

fn errors(system: &SystemReport) -> String {
    if system.errors.is_empty() {
        return "none".to_owned();
    }
    let counts = system.errors.iter().map(|(error, count)| format!("{count} {error}"));
    counts.collect::<Vec<_>>().join(", ")
}

/// Cryptographic operations that happen at all.
fn crypto(system: &SystemReport) -> String {
    let some = system.crypto_per_op.iter().filter(|(_, spread)| spread.max > 0.0);
    let each = some.map(|(name, spread)| {
        format!("{} {}", number(1000.0 * spread.median, 1), name.replace('_', " "))
    });
    each.collect::<Vec<_>>().join("\n")
}

fn medians(spreads: &[Spread], unit: f64, digits: usize) -> String {
    let medians = spreads.iter().map(|spread| number(spread.median / unit, digits));
    medians.collect::<Vec<_>>().join(" + ")
}

/// A median, with its spread if there is one.
pub fn cell(spread: &Spread, unit: f64, digits: usize) -> String {
    let median = number(spread.median / unit, digits);
    let Some(relative) = spread.relative else { return median };
    let (min, max) = (number(spread.min / unit, digits), number(spread.max / unit, digits));
    format!("{median} [{min} .. {max}] {:.1} %", relative * 100.0)
}

/// A number with this many digits behind the point, and its thousands apart.
pub fn number(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
    let mut apart = String::new();
    for (index, digit) in whole.chars().enumerate() {
        if index > 0 && (whole.len() - index) % 3 == 0 && !apart.ends_with('-') {
            apart.push(',');
        }
        apart.push(digit);
    }
    apart + rest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thousands_are_apart() {
        let cases = [(0.0, 0, "0"), (999.4, 0, "999"), (1234.56, 1, "1,234.6")];
        for (value, digits, text) in cases {
            assert_eq!(number(value, digits), text);
        }
        assert_eq!(number(1_234_567.0, 0), "1,234,567");
        assert_eq!(number(-123_456.0, 0), "-123,456");
    }

    #[test]
    fn a_cell_shows_the_spread_only_where_there_is_one() {
        let spread = Spread::of([1000.0, 1100.0, 1200.0]).unwrap();
        assert_eq!(cell(&spread, 1.0, 0), "1,100 [1,000 .. 1,200] 18.2 %");
        assert_eq!(cell(&Spread::of([5.0]).unwrap(), 1.0, 1), "5.0");
    }
}
