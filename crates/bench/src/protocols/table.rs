//! A row for each protocol: how fast it is, and what that costs its busiest replica.

use crate::grid::{self, Grid, Part};
use crate::report::table::{foot, head, number, summary};
use crate::report::{BottleneckReport, CaseReport, Report, SystemReport};
use crate::stats::Spread;
use std::fmt::Write as _;

/// For a terminal.
pub fn text(report: &Report) -> String {
    write(report, |title| title.to_owned(), Grid::text)
}

/// For a document.
pub fn markdown(report: &Report) -> String {
    write(report, |title| format!("**{title}**\n"), Grid::markdown)
}

/// For a browser.
pub fn page(report: &Report) -> String {
    let mut parts = vec![Part::Text(head(report))];
    for (title, grid) in grids(report) {
        parts.extend([Part::Heading(title), Part::Table(grid)]);
    }
    parts.push(Part::Text(foot(report).to_owned()));
    grid::page("pentarchy bench protocols", &parts)
}

fn write(report: &Report, title: fn(&str) -> String, table: fn(&Grid) -> String) -> String {
    let mut text = head(report);
    for (name, grid) in grids(report) {
        let _ = write!(text, "\n{}\n{}\n", title(&name), table(&grid));
    }
    text.push('\n');
    text + foot(report)
}

/// One table over all loads, and one for each load.
fn grids(report: &Report) -> Vec<(String, Grid)> {
    let speed = ("Speed".to_owned(), speed(report));
    let costs = report.cases.iter().map(|case| {
        (format!("At the replica that uses most processor time, per request: {}", summary(case)), {
            costs(case)
        })
    });
    [speed].into_iter().chain(costs).collect()
}

type Figure = fn(&SystemReport) -> &Spread;

/// What is of interest under a load: throughput, and latency where clients wait for each answer.
fn figures(case: &CaseReport) -> Vec<(String, Figure)> {
    let clients = case.conditions.clients;
    let latency = |title: &str| -> [(String, Figure); 2] {
        [(title.to_owned(), |s| &s.latency_us.p50), ("p99, µs".to_owned(), |s| &s.latency_us.p99)]
    };
    if clients == 1 {
        return latency("one client, p50, µs").into();
    }
    let batch = case.conditions.batch_requests;
    let batch = batch.map_or_else(String::new, |most| format!(", batches of {most}"));
    let outstanding = case.outstanding;
    let title = format!("{clients} clients x {outstanding}{batch}, ops/s");
    let mut figures: Vec<(String, Figure)> = vec![(title, |s| &s.throughput_ops)];
    if outstanding == 1 {
        figures.extend(latency("p50, µs"));
    }
    figures
}

fn speed(report: &Report) -> Grid {
    let columns: Vec<_> = report
        .cases
        .iter()
        .flat_map(|case| figures(case).into_iter().map(move |column| (case, column)))
        .collect();
    let heads = columns.iter().map(|(_, (head, _))| head.clone());
    let heads = ["", "n"].map(str::to_owned).into_iter().chain(heads).collect();
    let first = report.cases.first().map_or(&[][..], |case| &case.systems);
    let row = |(index, system): (usize, &SystemReport)| {
        // Every case has the same systems in the same order.
        let cells = columns.iter().map(|(case, (_, figure))| both(figure(&case.systems[index]), 0));
        let name = [system.protocol.clone(), system.n.to_string()];
        name.into_iter().chain(cells).collect()
    };
    Grid { heads, rows: first.iter().enumerate().map(row).collect() }
}

type Column = (&'static str, fn(&BottleneckReport) -> &Spread, usize);

const COSTS: [Column; 7] = [
    ("cpu, µs", |b| &b.cpu_us, 2),
    ("messages", |b| &b.messages, 3),
    ("bytes", |b| &b.bytes, 0),
    ("MACs", |b| &b.macs, 3),
    ("signatures", |b| &b.signatures, 3),
    ("hashes", |b| &b.hashes, 3),
    ("counter", |b| &b.counters, 3),
];

fn costs(case: &CaseReport) -> Grid {
    let heads = COSTS.iter().map(|(head, ..)| *head);
    let heads = [""].into_iter().chain(heads).chain(["requests per batch", "errors"]);
    let row = |system: &SystemReport| {
        let cell = |(_, figure, digits): &Column| {
            let bottleneck = system.bottleneck_per_op.as_ref();
            bottleneck.map_or_else(String::new, |it| number(figure(it).median, *digits))
        };
        let batch = system.requests_per_batch.as_ref();
        let errors: u64 = system.errors.values().sum();
        let mut row = vec![system.protocol.clone()];
        row.extend(COSTS.iter().map(cell));
        row.push(batch.map_or_else(String::new, |spread| number(spread.median, 1)));
        row.push(errors.to_string());
        row
    };
    Grid { heads: heads.map(str::to_owned).collect(), rows: case.systems.iter().map(row).collect() }
}

/// A median above its spread.
fn both(spread: &Spread, digits: usize) -> String {
    let median = number(spread.median, digits);
    if spread.relative.is_none() {
        return median;
    }
    format!("{median}\n[{} .. {}]", number(spread.min, digits), number(spread.max, digits))
}
