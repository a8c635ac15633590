//! How far ordering goes on side by side, in replicas whose parts have a thread each.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`ordering`] | one replica's ordering on this machine's processors: `bench ordering` |
//! | [`model`] | whole groups on more processors than are here, in virtual time: `bench model` |

pub mod model;
pub mod ordering;

use super::conditions::unsplit;
use super::files::json;
use super::grid::Grid;
use super::machine::{Machine, Program};
use super::report::table::origin;
use pentarchy_cluster::protocols;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use pentarchy_console::say;
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_core::membership::PillarConfig;
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::parts::Blueprint;
use pentarchy_protocols::{EXAMPLES, Examples};
use rustix::time::{ClockId, clock_gettime};
use std::sync::LazyLock;
use std::time::Duration;

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
        Self { format: 2, machine, program: Program::this(), rows }
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
        _ => at_least_one(1000)(text).map(Batches::Of),
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

impl Batches {
    fn tuning(self) -> Tuning {
        let usual = Tuning::default();
        match self {
            Self::Of(batch_requests) => Tuning { batch_requests, ..usual },
            Self::Adaptive => usual,
        }
    }
}

/// Two protocols whose order can be split, as after `--protocol`: one trusts devices, the other
/// none.
static SPLIT: LazyLock<String> = LazyLock::new(|| {
    let Examples { split, signed, .. } = EXAMPLES;
    format!("{},{}", split.rules.name, signed.rules.name)
});

/// A number of pillars. Whether a protocol can have so many depends on it.
fn parse_pillars(text: &str) -> Result<u8, String> {
    let pillars = text.parse().ok().filter(|pillars| (1..=PILLARS_MAX).contains(pillars));
    pillars.ok_or_else(|| format!("{text:?} is not a number from 1 to {PILLARS_MAX}"))
}

/// What replicas of this protocol are made of, with so many pillars and one that may lie.
fn blueprint(protocol: &str, pillars: u8, batch: Batches) -> Outcome<Blueprint> {
    unsplit(protocol, 1)?;
    let lane = PillarConfig { pillars, ..PillarConfig::default() };
    protocols::check_lane(protocol, lane).map_err(Failure::Usage)?;
    let gone = || Failure::Internal(format!("protocol {protocol} is gone"));
    Blueprint::new(protocol, 1, pillars, batch.tuning()).ok_or_else(gone)
}

/// The processor time of this thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec as u32)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_protocols::DEFAULT;

    #[test]
    fn a_group_has_a_part_for_each_pillar_and_one_beside_them() {
        let (split, whole) = (EXAMPLES.split.rules.name, DEFAULT.rules.name);
        for (protocol, pillars, cells) in [(split, 1, 0), (split, 4, 4), (whole, 1, 0)] {
            let group = blueprint(protocol, pillars, Batches::Of(3)).unwrap_or_else(|_| panic!());
            assert_eq!((group.pillar_cores(), group.tuning.batch_requests), (cells, 3));
        }
        let already = format!("{split}:2");
        for (protocol, pillars) in [(whole, 2), (split, 9), (&already, 1), ("none", 1)] {
            let refused = blueprint(protocol, pillars, Batches::Adaptive);
            assert!(matches!(refused, Err(Failure::Usage(_))), "{protocol} {pillars}");
        }
        assert!(parse_pillars("8").is_ok() && parse_pillars("9").is_err());
        assert!(parse_pillars("0").is_err());
    }
}
