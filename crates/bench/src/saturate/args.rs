//! The options of `bench saturate`.

use crate::case::{OUTSTANDING_MAX, Workload};
use crate::conditions::{ConditionArgs, Load, PlannedCase};
use crate::plan::{CLIENTS_MAX, Timing, parse_seconds};
use clap::{Args, ValueEnum};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use std::path::PathBuf;
use std::time::Duration;

/// What is increased.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Increase {
    /// Operations offered in a second, whether or not earlier ones have completed. Latency counts
    /// from when an operation was to be submitted
    Rate,
    /// Operations that each client keeps outstanding. Latency counts from the submission
    Outstanding,
}

impl Increase {
    /// The word on the command line and in results.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rate => "rate",
            Self::Outstanding => "outstanding",
        }
    }

    /// What latency means, for whoever reads the figures.
    pub const fn latency(self) -> &'static str {
        match self {
            Self::Rate => {
                "from when an operation was to be submitted, be it late, to its result: what a \
                 stall holds up has waited (no coordinated omission)"
            }
            Self::Outstanding => {
                "from the submission to the result; while the group stalls nothing new is \
                 submitted, so waits are understated (coordinated omission): see --increase rate"
            }
        }
    }
}

/// `bench saturate`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy bench saturate --html saturation.html\n  \
    pentarchy bench saturate --increase outstanding --request-auth mac --json > knee.json\n\n\
    Doubles the load until the 99th percentile of the latency is above --p99-ms, until less than\n\
    95 % of the offered load is completed, or until throughput no longer grows; then looks\n\
    closer.\nExit code 1 if something failed or was interrupted; what was measured until then is \
    printed.")]
pub struct SaturateArgs {
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// What is increased
    #[arg(long, value_enum, default_value = "rate", value_name = "WHAT")]
    pub increase: Increase,
    /// Clients
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = at_least_one(CLIENTS_MAX))]
    pub clients: usize,
    /// The first load: operations in a second, or operations outstanding [default: 1000 or 1]
    #[arg(long, value_name = "N", value_parser = at_least_one(100_000_000))]
    pub from: Option<usize>,
    /// The latency that 99 % of the operations may have, in milliseconds
    #[arg(long, default_value_t = 20.0, value_name = "MS")]
    pub p99_ms: f64,
    /// Loads between the last that was borne and the first that was not
    #[arg(long, default_value_t = 3, value_name = "N")]
    pub refine: u32,
    /// Seconds of each measurement
    #[arg(long, default_value = "1", value_name = "S", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Seconds under load before each measurement
    #[arg(long, default_value = "0.5", value_name = "S", value_parser = parse_seconds)]
    pub warmup: Duration,
    /// Measurements of each load; medians decide
    #[arg(long, default_value_t = 3, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    /// One short measurement each, at most four loads: says whether it works
    #[arg(long, conflicts_with_all = ["seconds", "warmup", "repeats", "refine"])]
    pub quick: bool,
    /// Print one JSON object
    #[arg(long)]
    pub json: bool,
    /// Also draw latency against throughput to this file
    #[arg(long, value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Also write a page for a browser to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

impl SaturateArgs {
    /// The conditions, with a load that is still to be filled in.
    pub fn cases(&self) -> Outcome<Vec<PlannedCase>> {
        if !(0.001..=60_000.0).contains(&self.p99_ms) {
            return Err(Failure::Usage("--p99-ms is from 0.001 to 60000".to_owned()));
        }
        let (workload, rate) = match self.increase {
            Increase::Rate => (Workload::Open, Some(1)),
            Increase::Outstanding => (Workload::Pipelined, None),
        };
        let load = Load { workload, clients: self.clients, outstanding: 1, rate };
        self.conditions.cases(&[load])
    }

    /// The first load, and the most that is tried with so many keys of so many sessions.
    pub fn range(&self, keys: usize) -> (u64, u64) {
        let (from, to) = match self.increase {
            Increase::Rate => (1000, 100_000_000),
            Increase::Outstanding => (1, OUTSTANDING_MAX * keys / self.clients),
        };
        (self.from.unwrap_or(from) as u64, to as u64)
    }

    /// How long and how often each load is measured.
    pub const fn timing(&self) -> Timing {
        if self.quick {
            let (warmup, measured) = (Duration::from_millis(200), Duration::from_millis(400));
            return Timing { warmup, measured, repeats: 1 };
        }
        Timing { warmup: self.warmup, measured: self.seconds, repeats: self.repeats }
    }

    /// The most loads that are tried, if there is such a bound, and how many of them between the
    /// last one that was borne and the first that was not.
    pub const fn effort(&self) -> (u32, u32) {
        if self.quick { (4, 1) } else { (u32::MAX, self.refine) }
    }
}
