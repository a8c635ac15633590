//! `bench paper`: the tables and figures of the five papers, each with what the paper found, what
//! this machine gives, and why they differ.
//!
//! Each table or figure is one file, `papers/<paper>/<name>.toml`. A file that measures says what
//! in the same words as the options of `bench protocols`; another one names the command or page
//! that shows it, or says why nothing does yet.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`registry`] | the papers, and their files |
//! | [`item`] | what a file says |
//! | [`plan`] | what is to be measured for it |
//! | [`outcome`] | the paper's figures beside those that were measured |
//! | [`picture`] | both as bars |
//! | [`shown`] | lists, tables, pages |

mod item;
mod outcome;
mod picture;
mod plan;
mod registry;
mod shown;

use super::files::{check_writable, json, write_file};
use super::plan::{Timing, parse_seconds};
use super::series::measure_all;
use clap::Args;
use outcome::{Found, PaperReport};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use pentarchy_console::say;
use registry::{PAPERS, Paper};
use std::path::PathBuf;
use std::time::Duration;

/// `bench paper`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy bench paper --list\n  \
    pentarchy bench paper 003 --quick\n  \
    pentarchy bench paper 003 --only table-1 --json > table-1.json\n  \
    pentarchy bench paper 000 --html paper-000.html\n\n\
    A paper's figures are of its own machines: compare how the rows stand to each other, and to \
    the\nbaseline, one server without replication, which is measured in turn with \
    them.\nExit code 1 if something failed or was interrupted; it prints what it measured until \
    then.")]
pub struct PaperArgs {
    /// Which paper, as --list numbers them
    #[arg(value_name = "PAPER", required_unless_present = "list")]
    pub paper: Option<String>,
    /// List all tables and figures, and what shows each, or why nothing does
    #[arg(long)]
    pub list: bool,
    /// Only these tables and figures: table-1, figure-6a
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub only: Vec<String>,
    /// Seconds of each measurement
    #[arg(long, default_value = "3", value_name = "S", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Seconds under load before each measurement
    #[arg(long, default_value = "1", value_name = "S", value_parser = parse_seconds)]
    pub warmup: Duration,
    /// Measurements of each row
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    /// One short measurement each: says whether it works, not how fast it is
    #[arg(long, conflicts_with_all = ["seconds", "warmup", "repeats"])]
    pub quick: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Also write a page for a browser, with pictures, to this file
    #[arg(long, value_name = "FILE", conflicts_with = "list")]
    pub html: Option<PathBuf>,
}

/// Runs the command.
pub fn run(args: &PaperArgs) -> Outcome {
    let papers: Vec<&Paper> = match &args.paper {
        None => PAPERS.iter().collect(),
        Some(number) => vec![registry::find(number)?],
    };
    if args.list {
        say(&if args.json { json(&shown::listed(&papers)?)? } else { shown::list(&papers)? });
        return Ok(());
    }
    check_writable([args.html.as_deref()])?;
    let (report, result) = args.report(papers[0])?;
    write_file(args.html.as_deref(), || shown::page(&report))?;
    say(&if args.json { json(&report)? } else { shown::text(&report) });
    result
}

impl PaperArgs {
    /// All tables and figures that are asked for, one after the other, until one fails.
    fn report(&self, paper: &Paper) -> Outcome<(PaperReport, Outcome)> {
        let items = paper.items()?;
        let names: Vec<&str> = items.iter().map(|(name, _)| *name).collect();
        if let Some(other) = self.only.iter().find(|name| !names.contains(&name.as_str())) {
            let names = names.join(", ");
            return Err(Failure::Usage(format!(
                "paper {} has no {other:?}; it has: {names}",
                paper.number
            )));
        }
        let is_asked_for =
            |name: &str| self.only.is_empty() || self.only.iter().any(|it| it == name);
        let mut report = PaperReport::of(paper, self.timing());
        let mut result = Ok(());
        for (name, item) in items.into_iter().filter(|(name, _)| is_asked_for(name)) {
            let measured = match item.plan(self.timing())? {
                None => None,
                Some(plan) => {
                    let measured = measure_all(&plan)?;
                    result = measured.result;
                    Some(measured.report)
                }
            };
            report.items.push(Found::new(name, &item, measured.as_ref()));
            if result.is_err() {
                break;
            }
        }
        Ok((report, result))
    }

    const fn timing(&self) -> Timing {
        if self.quick {
            return Timing::QUICK;
        }
        Timing { warmup: self.warmup, measured: self.seconds, repeats: self.repeats }
    }
}

#[cfg(test)]
mod tests;
