//! The options of `bench`.

use super::case::{OUTSTANDING_MAX, Workload};
use super::compare::CompareArgs;
use super::conditions::{ConditionArgs, Load};
use super::faults::args::FaultBench;
use super::paper::PaperArgs;
use super::plan::{CLIENTS_MAX, Plan, Timing, parse_rate, parse_seconds};
use super::protocols::ProtocolsArgs;
use super::saturate::args::SaturateArgs;
use super::scaling::model::ModelArgs;
use super::scaling::ordering::OrderingArgs;
use super::wan::WanArgs;
use clap::{Args, Subcommand};
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::options::at_least_one;
use std::path::PathBuf;
use std::time::Duration;

/// `bench`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  pentarchy bench --quick\n  \
    pentarchy bench --workload pipelined --payload 0/0,0/4096,4096/0 --json > all.json\n  \
    pentarchy bench --workload closed --clients 200 --connections per-client,shared\n  \
    pentarchy bench --service kv --reads 95 --key-choice zipf --f 1,2 --html kv.html\n\n\
    Starts the group, the clients and the baseline on this machine. docs/benchmarks.md says what \
    each figure means.\nExit code 1 if something failed or was interrupted; what was measured \
    until then is printed.")]
pub struct BenchArgs {
    /// What is done instead
    #[command(subcommand)]
    pub command: Option<BenchCommand>,
    /// Under which conditions
    #[command(flatten)]
    pub conditions: ConditionArgs,
    /// How clients offer load
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "closed,pipelined",
        value_name = "HOW,..."
    )]
    pub workload: Vec<Workload>,
    /// Clients; by default 1 for closed and 8 for the others
    #[arg(long, value_name = "N", value_parser = at_least_one(CLIENTS_MAX))]
    pub clients: Option<usize>,
    /// Operations that a pipelined client keeps outstanding
    #[arg(long, default_value_t = 256, value_name = "N",
        value_parser = at_least_one(OUTSTANDING_MAX))]
    pub outstanding: usize,
    /// Operations in a second that an open workload offers; several are measured one by one
    #[arg(long, value_delimiter = ',', value_name = "OPS,...", value_parser = parse_rate)]
    pub rate: Vec<u64>,
    /// Seconds of each measurement
    #[arg(long, default_value = "5", value_name = "S", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Seconds under load before each measurement
    #[arg(long, default_value = "1", value_name = "S", value_parser = parse_seconds)]
    pub warmup: Duration,
    /// Measurements of each system under each set of conditions
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    /// One short measurement each: says whether it works, not how fast it is
    #[arg(long, conflicts_with_all = ["seconds", "warmup", "repeats"])]
    pub quick: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Also write a page for a browser to this file
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Print one line of CSV for each measurement
    #[arg(long)]
    pub csv: bool,
}

/// What `bench` does beside its plain measurements.
#[derive(Subcommand)]
pub enum BenchCommand {
    #[command(flatten)]
    Fault(FaultBench),
    /// Find the load that a protocol bears: throughput against latency, up to the knee
    Saturate(Box<SaturateArgs>),
    /// Measure all protocols beside each other and one unreplicated server
    Protocols(ProtocolsArgs),
    /// Show a paper's tables and figures beside what this machine gives
    Paper(PaperArgs),
    /// Compute the latency of all protocols over links of 1 to 50 ms, in virtual time
    Wan(WanArgs),
    /// How much one replica orders, on one processor and on several, fed from memory
    Ordering(OrderingArgs),
    /// What groups with more processors would do, in virtual time with measured work
    Model(ModelArgs),
    /// Tell whether a later result of `bench --json` differs from an earlier one
    Compare(CompareArgs),
}

impl BenchArgs {
    /// Checks what the parser cannot.
    pub fn plan(&self) -> Outcome<Plan> {
        let mut loads = Vec::new();
        for workload in &self.workload {
            let (clients, outstanding, rates) = match workload {
                Workload::Closed => (1, 1, vec![None]),
                Workload::Pipelined => (8, self.outstanding, vec![None]),
                Workload::Open => (8, 0, self.rate.iter().copied().map(Some).collect()),
            };
            if rates.is_empty() {
                let what = "an open workload needs --rate, or `bench saturate` to find one";
                return Err(Failure::Usage(what.to_owned()));
            }
            let clients = self.clients.unwrap_or(clients);
            let load = |rate| Load { workload: *workload, clients, outstanding, rate };
            loads.extend(rates.into_iter().map(load));
        }
        Ok(Plan { cases: self.conditions.cases(&loads)?, timing: self.timing() })
    }

    const fn timing(&self) -> Timing {
        if self.quick {
            return Timing::QUICK;
        }
        Timing { warmup: self.warmup, measured: self.seconds, repeats: self.repeats }
    }
}

#[cfg(test)]
mod tests {
    use super::super::case::{Connections, Drivers, Service, System};
    use super::*;
    use clap::Parser;
    use pentarchy_protocols::{BASELINE, DEFAULT};

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn args(words: &[&str]) -> Result<BenchArgs, clap::Error> {
        Line::try_parse_from([&["bench"], words].concat()).map(|line| line.args)
    }

    fn plan(words: &[&str]) -> Outcome<Plan> {
        args(words).unwrap_or_else(|error| panic!("{error}")).plan()
    }

    #[test]
    fn by_default_both_workloads_and_the_baseline() {
        let plan = plan(&[]).unwrap();
        let cases: Vec<_> = plan
            .cases
            .iter()
            .map(|(case, _)| (case.to_string(), case.clients, case.outstanding))
            .collect();
        let expected = [
            ("closed 0/0, signature".to_owned(), 1, 1),
            ("pipelined 0/0, signature".to_owned(), 8, 256),
        ];
        assert_eq!(cases, expected);
        let systems: Vec<_> = plan.cases[0].1.iter().map(System::to_string).collect();
        let replicated = format!("{} f=1 n=3", DEFAULT.rules.name);
        assert_eq!(systems, [replicated, System::baseline().to_string()]);
        let second = Duration::from_secs(1);
        assert_eq!(plan.timing, Timing { warmup: second, measured: 5 * second, repeats: 5 });
    }

    #[test]
    fn lists_are_multiplied() {
        let words = ["--workload", "pipelined", "--payload", "0/0,4096/0", "--request-auth"];
        let plan = plan(&[&words[..], &["mac,signature", "--clients", "3"]].concat()).unwrap();
        let cases: Vec<_> = plan.cases.iter().map(|(case, _)| case.to_string()).collect();
        let expected = [
            "pipelined 0/0, mac",
            "pipelined 4096/0, mac",
            "pipelined 0/0, signature",
            "pipelined 4096/0, signature",
        ];
        assert_eq!(cases, expected);
        assert!(plan.cases.iter().all(|(case, _)| case.clients == 3));
    }

    #[test]
    fn one_repeat_when_quick_and_no_comparison_with_itself() {
        assert_eq!(plan(&["--quick"]).unwrap().timing.repeats, 1);
        let baseline = plan(&["--protocol", BASELINE.rules.name]).unwrap();
        assert_eq!(baseline.cases[0].1, [System::baseline()]);
        assert_eq!(plan(&["--no-baseline"]).unwrap().cases[0].1.len(), 1);
    }

    #[test]
    fn each_f_has_its_group_and_many_clients_share_threads() {
        let words = ["--workload", "closed", "--f", "1,2", "--clients", "200"];
        let words = [&words[..], &["--connections", "per-client,shared"]].concat();
        let cases = plan(&words).unwrap().cases;
        let n: Vec<_> = cases.iter().map(|(_, systems)| systems[0].n).collect();
        assert_eq!(n, [3, 3, 5, 5]);
        assert!(matches!(cases[0].0.drivers, Drivers::Loops(threads) if threads > 0));
        assert_eq!(cases[1].0.connections, Connections::Shared);
        assert_eq!((cases[1].0.keys(), cases[1].0.drivers), ((1, 200), Drivers::Own));
        let two = plan(&[&words[..], &["--client-threads", "2"]].concat()).unwrap().cases;
        assert!(two.iter().all(|(case, _)| case.drivers == Drivers::Loops(2)));
    }

    #[test]
    fn the_store_has_values_and_an_open_workload_has_rates() {
        let words = ["--service", "kv", "--value-bytes", "100", "--reads", "95", "--workload"];
        let plan = plan(&[&words[..], &["open", "--rate", "1000,2000"]].concat()).unwrap();
        let (case, _) = plan.cases[1].clone();
        assert_eq!((case.payload.request, case.payload.reply, case.reads), (100, 100, 95));
        assert_eq!(case.rate, Some(2000));
        assert!(matches!(case.service, Service::Kv { keys: 10_000, .. }));
        assert_eq!(plan.cases.len(), 2);
    }

    #[test]
    fn nonsense_is_a_usage_error() {
        for words in [
            &["--payload", "1"][..],
            &["--clients", "0"],
            &["--outstanding", "5000"],
            &["--seconds", "0"],
            &["--seconds", "nan"],
            &["--quick", "--repeats", "3"],
            &["--json", "--csv"],
            &["--workload", "ajar"],
            &["--reads", "101"],
            &["--client-threads", "0"],
            &["--rate", "0"],
        ] {
            assert!(args(words).is_err(), "{words:?}");
        }
        for words in [
            &["--protocol", "raft"][..],
            &["--f", "0"],
            &["--f", "1,99"],
            &["--workload", "open"],
            &["--workload", "open", "--rate", "5", "--client-threads", "own"],
            &["--service", "kv", "--payload", "0/0"],
            &["--service", "kv", "--keys", "1000000", "--value-bytes", "1000"],
            &["--connections", "shared", "--clients", "9"],
        ] {
            assert!(matches!(plan(words), Err(Failure::Usage(_))), "{words:?}");
        }
    }
}
