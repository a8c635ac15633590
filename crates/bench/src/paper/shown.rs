//! The list of all tables and figures; what was found, for a terminal and for a browser.

use super::item::Figure;
use super::outcome::{Found, FoundRow, FoundRows, PaperReport};
use super::picture;
use super::registry::Paper;
use crate::grid::{self, Grid, Part};
use crate::report::table::{number, origin};
use crate::stats::Spread;
use pentarchy_console::failure::Outcome;
use serde::Serialize;
use std::fmt::Write as _;

/// A paper in the list.
#[derive(Serialize)]
pub struct Listed {
    paper: &'static str,
    title: &'static str,
    items: Vec<Found>,
}

/// What there is, and nothing measured.
pub fn listed(papers: &[&Paper]) -> Outcome<Vec<Listed>> {
    let listed = |paper: &&Paper| {
        let items = paper.items()?;
        let items = items.iter().map(|(name, item)| Found::new(name, item, None)).collect();
        Ok(Listed { paper: paper.number, title: paper.title(), items })
    };
    papers.iter().map(listed).collect()
}

/// The same for a terminal.
pub fn list(papers: &[&Paper]) -> Outcome<String> {
    let mut text = String::new();
    for Listed { paper, title, items } in listed(papers)? {
        let _ = writeln!(text, "{paper}  {title}");
        for item in items {
            let _ = writeln!(text, "  {:10}  {}", item.name, item.title);
            let _ = writeln!(text, "              {}", by_what(&item, paper));
        }
        text.push('\n');
    }
    Ok(text.trim_end().to_owned())
}

/// What shows it, in one line.
fn by_what(item: &Found, paper: &str) -> String {
    match item {
        Found { command: Some(command), .. } => command.clone(),
        Found { page: Some(page), .. } => format!("see {page}"),
        Found { missing: Some(why), .. } => format!("missing: {why}"),
        Found { name, .. } => format!("pentarchy bench paper {paper} --only {name}"),
    }
}

/// What was found, for a terminal.
pub fn text(report: &PaperReport) -> String {
    let mut text = head(report);
    for item in &report.items {
        let _ = writeln!(text, "\n{}\n", heading(item));
        let _ = match &item.measured {
            Some(rows) => writeln!(text, "{}\n\n{}", table(rows).text(), rows.differs),
            None => writeln!(text, "{}", by_what(item, report.paper)),
        };
    }
    text.trim_end().to_owned()
}

/// What was found, for a browser.
pub fn page(report: &PaperReport) -> String {
    let mut parts = vec![Part::Text(head(report))];
    for item in &report.items {
        parts.push(Part::Heading(heading(item)));
        match &item.measured {
            Some(rows) => parts.extend([
                Part::Plot(picture::bars(rows)),
                Part::Table(table(rows)),
                Part::Text(rows.differs.clone()),
            ]),
            None => parts.push(Part::Text(by_what(item, report.paper))),
        }
    }
    grid::page(&format!("{} ({})", report.title, report.paper), &parts)
}

fn head(report: &PaperReport) -> String {
    let PaperReport { title, machine, program, settings, .. } = report;
    format!(
        "{title}\n\n{}measured  {} x {} s after {} s of load, systems in turn\nnetwork   {}\n",
        origin(machine, program),
        settings.repeats,
        settings.seconds,
        settings.warmup_seconds,
        settings.network
    )
}

fn heading(item: &Found) -> String {
    let name = item.name.replacen('-', " ", 1);
    let unit = item.measured.as_ref().map_or_else(String::new, |it| format!(" ({})", it.unit));
    let (first, rest) = name.split_at(1);
    format!("{}{rest}: {}{unit}", first.to_uppercase(), item.title)
}

/// A row for each figure.
fn table(rows: &FoundRows) -> Grid {
    let heads = ["", "paper", "here", "here / paper", "here / baseline"].map(str::to_owned);
    let cells = |row: &FoundRow| {
        let number_of = |figure: Option<f64>, digits| {
            figure.map_or_else(|| "-".to_owned(), |figure| number(figure, digits))
        };
        let here = match (&row.protocol, &row.here) {
            (None, _) => "not built here".to_owned(),
            (_, None) => "-".to_owned(),
            (_, Some(here)) => spread(here),
        };
        vec![
            row.what.clone(),
            number_of(row.paper, 0),
            here,
            number_of(row.ratio, 2),
            number_of(row.to_baseline, 2),
        ]
    };
    Grid { heads: heads.into(), rows: rows.rows.iter().map(cells).collect() }
}

/// A median, and beside it the smallest and the largest.
fn spread(of: &Spread) -> String {
    let median = number(of.median, 0);
    if of.relative.is_none() {
        return median;
    }
    format!("{median} [{} .. {}]", number(of.min, 0), number(of.max, 0))
}

impl Figure {
    /// Which way is better, for whoever reads a ratio.
    pub const fn better(self) -> &'static str {
        match self {
            Self::Throughput => "longer is better",
            Self::Latency => "shorter is better",
        }
    }
}
