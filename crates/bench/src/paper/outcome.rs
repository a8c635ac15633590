//! A paper's figures beside those that were measured. This is also the shape of `--json`.

use super::item::{Figure, Item, Measured, Row, Shown};
use super::registry::Paper;
use crate::case::System;
use crate::machine::{Machine, Program};
use crate::plan::Timing;
use crate::report::{Conditions, FORMAT, Report, Settings, SystemReport};
use crate::stats::Spread;
use serde::Serialize;

/// What was found of a paper.
#[derive(Serialize)]
pub struct PaperReport {
    /// Changes with the meaning of any field.
    format: u32,
    /// Its number.
    pub paper: &'static str,
    /// Its title.
    pub title: &'static str,
    /// Where.
    pub machine: Machine,
    /// With what.
    pub program: Program,
    /// How.
    pub settings: Settings,
    /// Tables and figures, in the paper's order.
    pub items: Vec<Found>,
}

/// What was found of a table or a figure.
#[derive(Serialize)]
pub struct Found {
    /// As `--only` takes it.
    pub name: &'static str,
    /// What it shows.
    pub title: String,
    /// What was measured.
    pub measured: Option<FoundRows>,
    /// The command that shows it instead.
    pub command: Option<String>,
    /// The document that shows it instead.
    pub page: Option<String>,
    /// Why nothing shows it.
    pub missing: Option<String>,
}

/// The rows of a table or a figure.
#[derive(Serialize)]
pub struct FoundRows {
    /// What they are figures of.
    pub figure: Figure,
    /// In which unit.
    pub unit: &'static str,
    /// In the paper's order.
    pub rows: Vec<FoundRow>,
    /// Why the paper's figures and those of this machine differ.
    pub differs: String,
}

/// One figure.
#[derive(Serialize)]
pub struct FoundRow {
    /// What it is the figure of.
    pub what: String,
    /// As it was measured; none if the system is not built here.
    pub protocol: Option<String>,
    /// What the paper has, if its text gives it.
    pub paper: Option<f64>,
    /// What this machine gives; none if that was not measured.
    pub here: Option<Spread>,
    /// `here / paper`.
    pub ratio: Option<f64>,
    /// The median divided by that of the unreplicated server in the same run.
    pub to_baseline: Option<f64>,
}

impl PaperReport {
    /// Nothing is measured yet.
    pub fn of(paper: &Paper, timing: Timing) -> Self {
        Self {
            format: FORMAT,
            paper: paper.number,
            title: paper.title(),
            machine: Machine::here(),
            program: Program::this(),
            settings: Settings::new(timing),
            items: Vec::new(),
        }
    }
}

impl Found {
    /// With what was measured for it, if something was.
    pub fn new(name: &'static str, item: &Item, report: Option<&Report>) -> Self {
        let nothing = Self {
            name,
            title: item.title.clone(),
            measured: None,
            command: None,
            page: None,
            missing: None,
        };
        match &item.shown {
            Shown::Measured(measured) => {
                Self { measured: Some(FoundRows::new(measured, report)), ..nothing }
            }
            Shown::Command(it) => Self { command: Some(it.command.clone()), ..nothing },
            Shown::Page(it) => Self { page: Some(it.page.clone()), ..nothing },
            Shown::Missing(it) => Self { missing: Some(it.why.clone()), ..nothing },
        }
    }
}

impl FoundRows {
    fn new(measured: &Measured, report: Option<&Report>) -> Self {
        let figure = measured.figure;
        let rows = measured.rows.iter().map(|row| FoundRow::new(measured, row, report)).collect();
        Self { figure, unit: figure.unit(), rows, differs: measured.differs.clone() }
    }
}

impl FoundRow {
    fn new(measured: &Measured, row: &Row, report: Option<&Report>) -> Self {
        let systems = report.and_then(|it| systems(measured, row, it));
        let figure = |system: &SystemReport| match measured.figure {
            Figure::Throughput => system.throughput_ops.clone(),
            Figure::Latency => system.latency_us.p50.clone(),
        };
        let of = |protocol: &str, f: usize| {
            let is_it = |it: &&SystemReport| it.protocol == protocol && it.f == f;
            systems?.iter().find(is_it).map(figure)
        };
        let system = row.system().ok().flatten();
        let here = system.as_ref().and_then(|it| of(&it.protocol, it.f));
        let alone = System::baseline();
        let alone = of(&alone.protocol, alone.f);
        let over = |figure: Option<f64>| Some(here.as_ref()?.median / figure?);
        Self {
            what: row.what.clone(),
            protocol: system.as_ref().map(ToString::to_string),
            paper: row.paper,
            ratio: over(row.paper),
            to_baseline: over(alone.map(|it| it.median)),
            here,
        }
    }
}

/// What was measured under the conditions of a row.
fn systems<'a>(measured: &Measured, row: &Row, report: &'a Report) -> Option<&'a [SystemReport]> {
    let wanted = Conditions::new(&measured.case(row));
    let case = report.cases.iter().find(|case| case.conditions == wanted)?;
    Some(&case.systems)
}
