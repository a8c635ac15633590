//! What a search found: JSON, table, plot, page.

use super::args::Increase;
use super::search::{Search, Step};
use crate::case::{Case, System};
use crate::chart::{Panel, draw};
use crate::grid::{self, Grid, Part};
use crate::machine::{Machine, Program};
use crate::report::Conditions;
use crate::report::table::{cell, number, optional, origin};
use crate::sample::Sample;
use crate::stats::Spread;
use serde::Serialize;
use std::fmt::Write as _;

/// Everything that was found.
#[derive(Serialize)]
pub struct Saturation {
    /// Changes with the meaning of any field.
    pub format: u32,
    /// Where.
    pub machine: Machine,
    /// With what.
    pub program: Program,
    /// How.
    pub settings: Settings,
    /// Whether all of it was measured.
    pub complete: bool,
    /// One for each set of conditions.
    pub cases: Vec<CaseReport>,
}

/// How it was measured.
#[derive(Serialize)]
pub struct Settings {
    /// `rate` or `outstanding`.
    pub increase: &'static str,
    /// The latency that 99 % of the operations may have.
    pub p99_bound_ms: f64,
    /// Measurements of each load.
    pub repeats: usize,
    /// Seconds of each.
    pub seconds: f64,
    /// Seconds of load before each.
    pub warmup_seconds: f64,
    /// What latency is.
    pub latency: &'static str,
}

/// What was found under one set of conditions.
#[derive(Serialize)]
pub struct CaseReport {
    #[serde(flatten)]
    pub conditions: Conditions,
    /// The replicated system first, then the baseline.
    pub systems: Vec<SystemReport>,
}

/// What was found of one system.
#[derive(Serialize)]
pub struct SystemReport {
    /// The protocol's name.
    pub protocol: String,
    /// Faults tolerated.
    pub f: usize,
    /// Replicas.
    pub n: usize,
    /// By ascending load.
    pub steps: Vec<StepReport>,
    /// The load at the knee, as in `steps`; none if no load was borne.
    pub knee: Option<u64>,
}

/// What came of one load.
#[derive(Serialize)]
pub struct StepReport {
    /// Operations offered in a second, or operations that each client keeps outstanding.
    pub load: u64,
    /// Operations completed in a second.
    pub throughput_ops: Spread,
    /// Latency in microseconds, as the settings say.
    pub p50_us: Spread,
    /// 99 % were faster.
    pub p99_us: Spread,
    /// 99.9 % were faster.
    pub p999_us: Spread,
    /// Of offered operations: by how much 99 % were submitted too late at most.
    pub late_p99_us: Option<Spread>,
    /// Processor time of everyone for one operation, in microseconds.
    pub cpu_us_per_op: Spread,
    /// Operations that came to another end, in all repeats.
    pub errors: u64,
    /// Whether the bounds were kept.
    pub borne: bool,
}

impl StepReport {
    /// From the repeats with one load; none if there are none.
    pub fn new(load: u64, samples: &[Sample], search: &Search) -> Option<Self> {
        let over = |figure: &dyn Fn(&Sample) -> f64| Spread::of(samples.iter().map(figure));
        let mut report = Self {
            load,
            throughput_ops: over(&Sample::throughput)?,
            p50_us: over(&|sample| sample.latency.p50)?,
            p99_us: over(&|sample| sample.latency.p99)?,
            p999_us: over(&|sample| sample.latency.p999)?,
            late_p99_us: Spread::of_all(samples, |sample| Some(sample.late?.p99)),
            cpu_us_per_op: over(&Sample::cpu_us_per_op)?,
            errors: samples.iter().flat_map(|sample| sample.errors.values()).sum(),
            borne: false,
        };
        report.borne = search.is_borne(&report.step());
        Some(report)
    }

    /// What the search is to know.
    pub const fn step(&self) -> Step {
        Step {
            load: self.load,
            throughput: self.throughput_ops.median,
            p99_ms: self.p99_us.median / 1e3,
        }
    }
}

impl SystemReport {
    /// From all loads that were tried.
    pub fn new(system: &System, mut steps: Vec<StepReport>, search: &Search) -> Self {
        steps.sort_by_key(|step| step.load);
        let (protocol, knee) = (system.protocol.clone(), search.knee().map(|knee| knee.load));
        Self { protocol, f: system.f, n: system.n, steps, knee }
    }

    fn name(&self) -> String {
        format!("{} f={} n={}", self.protocol, self.f, self.n)
    }
}

impl CaseReport {
    /// Of this case.
    pub fn new(case: &Case, systems: Vec<SystemReport>) -> Self {
        Self { conditions: Conditions::new(case), systems }
    }

    fn grid(&self, increase: Increase) -> Grid {
        let load = match increase {
            Increase::Rate => "offered, ops/s",
            Increase::Outstanding => "outstanding each",
        };
        let heads = ["", load, "throughput, ops/s", "p50, µs", "p99, µs", "p99.9, µs"];
        let heads = heads.into_iter().chain(["late p99, µs", "cpu, µs/op", ""]);
        let mut grid = Grid { heads: heads.map(str::to_owned).collect(), rows: Vec::new() };
        for system in &self.systems {
            for step in &system.steps {
                let mark = match (step.borne, system.knee == Some(step.load)) {
                    (_, true) => "knee",
                    (true, false) => "",
                    (false, false) => "too much",
                };
                grid.rows.push(vec![
                    system.name(),
                    number(step.load as f64, 0),
                    cell(&step.throughput_ops, 1.0, 0),
                    number(step.p50_us.median, 0),
                    number(step.p99_us.median, 0),
                    number(step.p999_us.median, 0),
                    optional(step.late_p99_us.as_ref(), 0),
                    number(step.cpu_us_per_op.median, 2),
                    mark.to_owned(),
                ]);
            }
        }
        grid
    }

    /// The knees, and their ratio.
    fn conclusion(&self) -> String {
        let mut text = String::new();
        for system in &self.systems {
            let knee = system.steps.iter().find(|step| Some(step.load) == system.knee);
            let _ = match knee {
                Some(step) => writeln!(
                    text,
                    "knee of {}: {} ops/s, p99 {} ms",
                    system.name(),
                    number(step.throughput_ops.median, 0),
                    number(step.p99_us.median / 1e3, 2)
                ),
                None => {
                    writeln!(text, "knee of {}: below all loads that were tried", system.name())
                }
            };
        }
        text
    }

    fn panel(&self) -> Panel {
        let mut lines = Vec::new();
        for system in &self.systems {
            let line = |latency: fn(&StepReport) -> f64| {
                let point = |step: &StepReport| (step.throughput_ops.median, latency(step) / 1e3);
                system.steps.iter().map(point).collect::<Vec<_>>()
            };
            lines.push((format!("{} p50", system.protocol), line(|step| step.p50_us.median)));
            lines.push((format!("{} p99", system.protocol), line(|step| step.p99_us.median)));
        }
        let points = lines.iter().flat_map(|(_, points)| points);
        let end = points.map(|(throughput, _)| *throughput).fold(1.0, f64::max);
        Panel {
            title: format!("{}", self.conditions),
            unit: "latency, ms",
            unit_across: "operations/s completed",
            end,
            logarithmic: true,
            fault: None,
            level: None,
            lines,
        }
    }
}

impl Saturation {
    /// For a terminal.
    pub fn text(&self, increase: Increase) -> String {
        let mut text = self.head();
        for case in &self.cases {
            let _ = write!(
                text,
                "\n{}\n{}\n{}",
                case.conditions,
                case.grid(increase).text(),
                case.conclusion()
            );
        }
        if !self.complete {
            text.push_str("\nNot all was measured.");
        }
        text.trim_end().to_owned()
    }

    fn head(&self) -> String {
        let Settings { repeats, seconds, warmup_seconds, p99_bound_ms, latency, .. } =
            &self.settings;
        format!(
            "{}measured  each load {repeats} x {seconds} s after {warmup_seconds} s of load, \
             systems in turn, a fresh group each time\nborne     p99 of at most {p99_bound_ms} ms, \
             and 95 % of what is offered\nlatency   {latency}\n",
            origin(&self.machine, &self.program)
        )
    }

    /// Latency against throughput, as SVG.
    pub fn svg(&self) -> String {
        draw(&self.cases.iter().map(CaseReport::panel).collect::<Vec<_>>())
    }

    /// For a browser.
    pub fn html(&self, increase: Increase) -> String {
        let mut parts = vec![Part::Text(self.head()), Part::Plot(self.svg())];
        for case in &self.cases {
            parts.push(Part::Heading(case.conditions.to_string()));
            parts.push(Part::Table(case.grid(increase)));
            parts.push(Part::Text(case.conclusion()));
        }
        grid::page("pentarchy bench saturate", &parts)
    }
}
