//! `bench protocols`: all protocols beside each other and one unreplicated server, in one run on
//! one machine under the same loads.
//!
//! | module | what it holds |
//! | --- | --- |
//! | [`table`] | tables with a row for each protocol |

mod table;

use super::case::{Case, Payload, System, Workload};
use super::conditions::{PlannedCase, drivers, replicated};
use super::files::{check_writable, json, write_file};
use super::plan::{CLIENTS_MAX, Plan, Timing, parse_seconds};
use super::series::{Measured, measure_all};
use clap::{Args, ValueEnum};
use pentarchy_cluster::RequestMode;
use pentarchy_cluster::limits::BATCH_REQUESTS_MAX;
use pentarchy_cluster::protocols;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::{AuthChoice, at_least_one};
use pentarchy_console::say;
use pentarchy_protocols::{EXAMPLES, Examples};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

/// Operations that each of the clients keeps outstanding that want throughput.
const OUTSTANDING: usize = 256;

/// How many of these there are.
const PIPELINED_CLIENTS: usize = 8;

fn after_help() -> String {
    let Examples { split, signed, speculative, .. } = EXAMPLES;
    let (split, signed) = (split.rules.name, signed.rules.name);
    let speculative = speculative.rules.name;
    format!(
        "Examples:\n  pentarchy bench protocols --quick\n  \
         pentarchy bench protocols --markdown > protocols.md\n  \
         pentarchy bench protocols --protocol {signed},{speculative} --batch 1,10,adaptive \
         --load many\n  \
         pentarchy bench protocols --protocol {split},{split}:2,{signed},{signed}:2 --load many\n  \
         pentarchy bench protocols --crash-backup --json > crashed.json\n\n\
         Groups are measured in turn, so that whatever drifts on this machine drifts for all of \
         them.\ndocs/benchmarks.md says what each figure means; --json has the shape of \
         `bench --json`, and\n`bench compare` reads it.\nExit code 1 if something failed or was \
         interrupted; it prints what it measured until then."
    )
}

/// `bench protocols`.
#[derive(Args)]
#[command(after_help = after_help())]
pub struct ProtocolsArgs {
    /// The protocols to measure, with a number of pillars behind a colon if there are to be
    /// several: hybster:2, or hybster:2:rotate if each begins with another primary [default: all on
    /// which a service may run, without pillars]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    pub protocol: Vec<String>,
    /// Faulty replicas to tolerate
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub f: usize,
    /// How clients convince replicas
    #[arg(long, value_enum, default_value = "signature", value_name = "HOW")]
    pub request_auth: AuthChoice,
    /// Requests that a batch may hold: numbers, for the many clients only; `adaptive` is all that
    /// waits
    #[arg(long, value_delimiter = ',', default_value = "adaptive", value_name = "N|adaptive,...")]
    pub batch: Vec<Batch>,
    /// What is offered
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "pipelined,many,one",
        value_name = "LOAD,..."
    )]
    pub load: Vec<LoadChoice>,
    /// Clients of the load `many`
    #[arg(long, default_value_t = 200, value_name = "N", value_parser = at_least_one(CLIENTS_MAX))]
    pub clients: usize,
    /// Bytes of request and reply
    #[arg(long, default_value = "0/0", value_name = "REQUEST/REPLY")]
    pub payload: Payload,
    /// Kill one backup of each group before it is measured; the unreplicated server has none
    #[arg(long)]
    pub crash_backup: bool,
    /// Do not measure the unreplicated server
    #[arg(long)]
    pub no_baseline: bool,
    /// Seconds of each measurement
    #[arg(long, default_value = "3", value_name = "S", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Seconds under load before each measurement
    #[arg(long, default_value = "1", value_name = "S", value_parser = parse_seconds)]
    pub warmup: Duration,
    /// Measurements of each group under each load
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    /// One short measurement each: says whether it works, not how fast it is
    #[arg(long, conflicts_with_all = ["seconds", "warmup", "repeats"])]
    pub quick: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "markdown")]
    pub json: bool,
    /// Print tables for a document in Markdown
    #[arg(long)]
    pub markdown: bool,
    /// Also write a page for a browser to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
}

/// What is offered.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum LoadChoice {
    /// Eight clients with 256 operations outstanding each
    Pipelined,
    /// --clients clients with one operation outstanding each
    Many,
    /// One client with one operation outstanding
    One,
}

impl LoadChoice {
    /// With so many clients where there are many.
    pub fn case(self, clients: usize) -> Case {
        let (workload, clients, outstanding) = match self {
            Self::Pipelined => (Workload::Pipelined, PIPELINED_CLIENTS, OUTSTANDING),
            Self::Many => (Workload::Closed, clients, 1),
            Self::One => (Workload::Closed, 1, 1),
        };
        let case = Case { workload, clients, outstanding, ..Case::PLAIN };
        Case { drivers: drivers(case.keys().0, false), ..case }
    }
}

/// How many requests a batch may hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Batch {
    /// All that waits.
    Adaptive,
    /// So many.
    AtMost(usize),
}

impl FromStr for Batch {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "adaptive" {
            return Ok(Self::Adaptive);
        }
        let at_most = at_least_one(BATCH_REQUESTS_MAX)(text).map(Self::AtMost);
        at_most.map_err(|_| {
            format!("{text:?} is neither `adaptive` nor a number from 1 to {BATCH_REQUESTS_MAX}")
        })
    }
}

/// Runs the command.
pub fn run(args: &ProtocolsArgs) -> Outcome {
    let plan = args.plan()?;
    check_writable([args.html.as_deref()])?;
    let Measured { report, result, .. } = measure_all(&plan)?;
    if report.cases.is_empty() {
        return result;
    }
    write_file(args.html.as_deref(), || table::page(&report))?;
    if args.json {
        say(&json(&report)?);
    } else if args.markdown {
        say(&table::markdown(&report));
    } else {
        say(&table::text(&report));
    }
    result
}

impl ProtocolsArgs {
    /// Checks what the parser cannot.
    fn plan(&self) -> Outcome<Plan> {
        let systems = self.systems()?;
        let mut cases: Vec<PlannedCase> = Vec::new();
        for batch in &self.batch {
            for load in &self.load {
                let case = match (batch, load) {
                    (Batch::Adaptive, load) => self.case(*load),
                    (Batch::AtMost(requests), LoadChoice::Many) => {
                        Case { batch: Some(*requests), ..self.case(*load) }
                    }
                    // An envelope is never cut, and one client's batches hold one request anyway.
                    (Batch::AtMost(_), LoadChoice::Pipelined | LoadChoice::One) => continue,
                };
                if !cases.iter().any(|(known, _)| *known == case) {
                    cases.push((case, systems.clone()));
                }
            }
        }
        if cases.is_empty() {
            let what = "batches of a fixed size are for the load `many`";
            return Err(Failure::Usage(what.to_owned()));
        }
        Ok(Plan { cases, timing: self.timing() })
    }

    fn systems(&self) -> Outcome<Vec<System>> {
        let all = || protocols::names().map(str::to_owned).collect();
        let names = if self.protocol.is_empty() { all() } else { self.protocol.clone() };
        let baseline = System::baseline();
        let mut systems: Vec<System> = Vec::new();
        for name in names.iter().filter(|name| **name != baseline.protocol) {
            let system = replicated(name, self.f)?;
            let is_session = RequestMode::from(self.request_auth) == RequestMode::Session;
            if is_session && !protocols::takes_sessions(system.name()) {
                return Err(Failure::Usage(format!(
                    "{name} has no trusted devices, which --request-auth session needs; take \
                     signature or mac, or name protocols that have them with --protocol"
                )));
            }
            if !systems.contains(&system) {
                systems.push(system);
            }
        }
        if !self.no_baseline && !self.crash_backup {
            systems.push(baseline);
        }
        if systems.is_empty() {
            let what = "no protocol is left to measure: name one with --protocol";
            return Err(Failure::Usage(what.to_owned()));
        }
        Ok(systems)
    }

    fn case(&self, load: LoadChoice) -> Case {
        let request_auth = self.request_auth.into();
        let (payload, crash) = (self.payload, self.crash_backup);
        Case { payload, request_auth, crash, ..load.case(self.clients) }
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
