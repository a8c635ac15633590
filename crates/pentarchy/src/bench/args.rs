//! The options of `bench`.

use super::case::{BASELINE, Case, Payload, System, Workload};
use super::faults::args::FaultBench;
use crate::cli::args::AuthChoice;
use crate::cli::failure::{Failure, Outcome};
use clap::Args;
use pentarchy::limits::{CLIENT_WINDOW, REPLICAS_MAX};
use pentarchy::protocols;
use std::time::Duration;

/// Clients that a group serves at a time; see `HostLimits::clients_max`. One more asks for status.
const CLIENTS_MAX: usize = 1000;

/// Half of what replicas remember of one client: above it, one slow operation holds up the others.
const OUTSTANDING_MAX: usize = CLIENT_WINDOW as usize / 2;

/// `bench`.
#[derive(Args)]
#[command(args_conflicts_with_subcommands = true)]
#[command(after_help = "Examples:\n  pentarchy bench --quick\n  \
    pentarchy bench --workload pipelined --payload 0/0,0/4096,4096/0 --json > all.json\n\n\
    Starts the group, the clients and the baseline on this machine. docs/benchmarks.md says what \
    each figure means.\nExit code 1 if something failed or was interrupted; what was measured \
    until then is printed.")]
pub struct BenchArgs {
    /// What is measured instead, under faults
    #[command(subcommand)]
    pub faults: Option<FaultBench>,
    /// The protocol to measure
    #[arg(long, default_value = "minbft", value_name = "NAME")]
    pub protocol: String,
    /// Faulty replicas to tolerate
    #[arg(long, default_value_t = 1, value_name = "N")]
    pub f: usize,
    /// How clients convince replicas; several are measured one after the other
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "signature",
        value_name = "HOW,..."
    )]
    pub request_auth: Vec<AuthChoice>,
    /// How clients offer load
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "closed,pipelined",
        value_name = "HOW,..."
    )]
    pub workload: Vec<Workload>,
    /// Bytes of request and reply
    #[arg(long, value_delimiter = ',', default_value = "0/0", value_name = "REQUEST/REPLY,...")]
    pub payload: Vec<Payload>,
    /// Clients, each with its own key; by default 1 for closed and 8 for pipelined
    #[arg(long, value_name = "N", value_parser = at_least_one(CLIENTS_MAX))]
    pub clients: Option<usize>,
    /// Operations that a pipelined client keeps outstanding
    #[arg(long, default_value_t = 256, value_name = "N",
        value_parser = at_least_one(OUTSTANDING_MAX))]
    pub outstanding: usize,
    /// Seconds of each measurement
    #[arg(long, default_value = "5", value_name = "S", value_parser = parse_seconds)]
    pub seconds: Duration,
    /// Seconds under load before each measurement
    #[arg(long, default_value = "1", value_name = "S", value_parser = parse_seconds)]
    pub warmup: Duration,
    /// Measurements of each system under each set of conditions
    #[arg(long, default_value_t = 5, value_name = "N", value_parser = at_least_one(1000))]
    pub repeats: usize,
    /// Do not measure the unreplicated baseline
    #[arg(long)]
    pub no_baseline: bool,
    /// One short measurement each: says whether it works, not how fast it is
    #[arg(long, conflicts_with_all = ["seconds", "warmup", "repeats"])]
    pub quick: bool,
    /// Print one JSON object
    #[arg(long, conflicts_with = "csv")]
    pub json: bool,
    /// Print one line of CSV for each measurement
    #[arg(long)]
    pub csv: bool,
}

/// How long and how often is measured.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Timing {
    /// Load before the measurement.
    pub warmup: Duration,
    /// The measurement.
    pub measured: Duration,
    /// How often.
    pub repeats: usize,
}

/// What is to be done, checked.
#[derive(Clone, PartialEq, Debug)]
pub struct Plan {
    /// The conditions, in the order of measurement.
    pub cases: Vec<Case>,
    /// What is measured under each, in turn.
    pub systems: Vec<System>,
    /// How long and how often.
    pub timing: Timing,
}

impl BenchArgs {
    /// Checks what the parser cannot.
    pub fn plan(&self) -> Outcome<Plan> {
        let mut cases = Vec::new();
        for auth in &self.request_auth {
            for workload in &self.workload {
                for payload in &self.payload {
                    let (clients, outstanding) = match workload {
                        Workload::Closed => (1, 1),
                        Workload::Pipelined => (8, self.outstanding),
                    };
                    cases.push(Case {
                        workload: *workload,
                        payload: *payload,
                        request_auth: (*auth).into(),
                        clients: self.clients.unwrap_or(clients),
                        outstanding,
                    });
                }
            }
        }
        Ok(Plan { cases, systems: self.systems()?, timing: self.timing() })
    }

    fn systems(&self) -> Outcome<Vec<System>> {
        if self.protocol == BASELINE {
            return Ok(vec![System::baseline()]);
        }
        let known: Vec<_> = protocols::names().chain([BASELINE]).collect();
        if !known.contains(&self.protocol.as_str()) {
            return Err(Failure::Usage(format!(
                "no protocol {:?}; there is: {}",
                self.protocol,
                known.join(", ")
            )));
        }
        let n = protocols::replicas_needed(&self.protocol, self.f).ok_or_else(|| {
            Failure::Usage(format!(
                "f = {} is out of range: at least 1, and {REPLICAS_MAX} replicas",
                self.f
            ))
        })?;
        let replicated = System { protocol: self.protocol.clone(), f: self.f, n };
        let baseline = (!self.no_baseline).then(System::baseline);
        Ok([replicated].into_iter().chain(baseline).collect())
    }

    const fn timing(&self) -> Timing {
        if self.quick {
            let (warmup, measured) = (Duration::from_millis(300), Duration::from_millis(700));
            return Timing { warmup, measured, repeats: 1 };
        }
        Timing { warmup: self.warmup, measured: self.seconds, repeats: self.repeats }
    }
}

/// A number from 1 to this.
pub fn at_least_one(max: usize) -> impl Fn(&str) -> Result<usize, String> + Clone {
    move |text| {
        let number = text.parse().ok().filter(|number| (1..=max).contains(number));
        number.ok_or_else(|| format!("{text:?} is not a number from 1 to {max}"))
    }
}

/// A time in seconds.
pub fn parse_seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (0.1..=3600.0).contains(seconds));
    seconds
        .map(Duration::from_secs_f64)
        .ok_or_else(|| format!("{text:?} is not a number of seconds from 0.1 to 3600"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

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
            .map(|case| (case.to_string(), case.clients, case.outstanding))
            .collect();
        let expected = [
            ("closed 0/0, signature".to_owned(), 1, 1),
            ("pipelined 0/0, signature".to_owned(), 8, 256),
        ];
        assert_eq!(cases, expected);
        let systems: Vec<_> = plan.systems.iter().map(System::to_string).collect();
        assert_eq!(systems, ["minbft f=1 n=3", "unreplicated f=0 n=1"]);
        let second = Duration::from_secs(1);
        assert_eq!(plan.timing, Timing { warmup: second, measured: 5 * second, repeats: 5 });
    }

    #[test]
    fn lists_are_multiplied() {
        let words = ["--workload", "pipelined", "--payload", "0/0,4096/0", "--request-auth"];
        let plan = plan(&[&words[..], &["mac,signature", "--clients", "3"]].concat()).unwrap();
        let cases: Vec<_> = plan.cases.iter().map(Case::to_string).collect();
        let expected = [
            "pipelined 0/0, mac",
            "pipelined 4096/0, mac",
            "pipelined 0/0, signature",
            "pipelined 4096/0, signature",
        ];
        assert_eq!(cases, expected);
        assert!(plan.cases.iter().all(|case| case.clients == 3));
    }

    #[test]
    fn one_repeat_when_quick_and_no_comparison_with_itself() {
        assert_eq!(plan(&["--quick"]).unwrap().timing.repeats, 1);
        assert_eq!(plan(&["--protocol", "unreplicated"]).unwrap().systems, [System::baseline()]);
        assert_eq!(plan(&["--no-baseline"]).unwrap().systems.len(), 1);
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
            &["--workload", "open"],
        ] {
            assert!(args(words).is_err(), "{words:?}");
        }
        for words in [["--protocol", "raft"], ["--f", "0"], ["--f", "99"]] {
            assert!(matches!(plan(&words), Err(Failure::Usage(_))), "{words:?}");
        }
    }
}
