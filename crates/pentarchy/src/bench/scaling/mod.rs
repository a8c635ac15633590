//! How far ordering goes on side by side, for protocols whose pillars share nothing.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`ordering`] | one replica's ordering on this machine's processors: `bench ordering` |
//! | [`model`] | whole groups on more processors than are here, in virtual time: `bench model` |

pub mod model;
pub mod ordering;

use super::conditions::unsplit;
use super::grid::Grid;
use super::json;
use super::machine::{Machine, Program};
use super::report::table::origin;
use crate::cli::failure::{Failure, Outcome};
use crate::cli::say;
use pentarchy::protocols;
use pentarchy_protocols::Entry;
use rustix::time::{ClockId, clock_gettime};
use std::time::Duration;

/// Pillars that can be asked for.
const PILLARS_MAX: usize = 64;

/// How results are printed.
#[derive(clap::Args)]
pub struct Form {
    /// Print one JSON object
    #[arg(long, conflicts_with = "markdown")]
    json: bool,
    /// Print a table for a document in Markdown
    #[arg(long)]
    markdown: bool,
}

/// What was found, and where.
#[derive(serde::Serialize)]
struct Report<Row> {
    format: u32,
    machine: Machine,
    program: Program,
    rows: Vec<Row>,
}

impl<Row: serde::Serialize> Report<Row> {
    /// Of a machine as it was before anything ran.
    fn new(machine: Machine, rows: Vec<Row>) -> Self {
        Self { format: 1, machine, program: Program::this(), rows }
    }

    fn print(&self, form: &Form, heads: &[&str], cells: impl Fn(&Row) -> Vec<String>) -> Outcome {
        let heads = heads.iter().map(|head| (*head).to_owned()).collect();
        let grid = || Grid { heads, rows: self.rows.iter().map(cells).collect() };
        if form.json {
            say(&json(self)?);
        } else if form.markdown {
            say(&grid().markdown());
        } else {
            say(&format!("{}\n{}", origin(&self.machine, &self.program), grid().text()));
        }
        Ok(())
    }
}

/// How many requests of one envelope are a batch, or that batches hold what waits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batches {
    /// At most so many, of which each comes alone.
    Of(usize),
    /// What waits.
    Adaptive,
}

fn parse_batches(text: &str) -> Result<Batches, String> {
    match text {
        "adaptive" => Ok(Batches::Adaptive),
        _ => super::at_least_one(1000)(text).map(Batches::Of),
    }
}

impl std::fmt::Display for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Of(requests) => write!(f, "{requests}"),
            Self::Adaptive => f.write_str("adaptive"),
        }
    }
}

fn entry(protocol: &str) -> Outcome<&'static Entry> {
    unsplit(protocol, 1)?;
    let gone = || Failure::Internal(format!("protocol {protocol} is gone"));
    protocols::find(protocol).ok_or_else(gone)
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}
