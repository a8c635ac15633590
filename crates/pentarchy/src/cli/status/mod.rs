//! `status`: asks every replica how it is, over an authenticated channel to each.

mod report;
mod show;

use super::args::StatusArgs;
use super::failure::{Failure, Outcome};
use super::{folder, say};
use pentarchy::config::ClusterConfig;
use pentarchy::{Client, KeyPair, ReplicaId, RequestError, node};

use report::{ClusterReport, ReplicaReport};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// How long a replica may take to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Between two questions with `--watch`.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run(args: &StatusArgs) -> Outcome {
    let config = config(args)?;
    // A key of its own for each run, where that is allowed: replicas serve one connection per key.
    let keys = match &args.key {
        Some(path) => KeyPair::load(path).map_err(|error| Failure::Usage(error.to_string()))?,
        None => KeyPair::generate(),
    };
    let client = node::connect(&config, keys).map_err(|error| Failure::Usage(error.to_string()))?;
    loop {
        let report = ask(&config, &client);
        if !args.watch {
            say(&if args.json { report.to_json_pretty() } else { show::table(&report) });
            return if report.level { Ok(()) } else { Err(Failure::NotWell) };
        }
        if args.json {
            say(&report.to_json_line());
        } else {
            let clear = if std::io::stdout().is_terminal() { "\x1b[2J\x1b[H" } else { "" };
            say(&format!("{clear}{}", show::table(&report)));
        }
        std::thread::sleep(PERIOD);
    }
}

fn config(args: &StatusArgs) -> Outcome<ClusterConfig> {
    if let Some(path) = &args.config {
        return Ok(ClusterConfig::load(path)?);
    }
    if folder::running(&args.data)?.is_none() {
        return Err(Failure::Unwell(format!(
            "the cluster in {0} is stopped; start it with: pentarchy up --data {0}",
            args.data.display()
        )));
    }
    Ok(ClusterConfig::load(&args.data.join("cluster.toml"))?)
}

/// Asks all replicas at once.
fn ask(config: &ClusterConfig, client: &Client) -> ClusterReport {
    let deadline = Instant::now() + LIMIT;
    let asked: Vec<_> = (0..).map(ReplicaId).take(config.replicas.len()).collect();
    let asked: Vec<_> = asked.into_iter().map(|id| (id, client.status(id))).collect();
    let replicas = asked.into_iter().zip(&config.replicas).map(|((id, pending), entry)| {
        let left = deadline.saturating_duration_since(Instant::now());
        let answer = pending.wait_timeout(left).map_err(|error| match error {
            RequestError::TimedOut => format!("no answer within {} s", LIMIT.as_secs()),
            error => error.to_string(),
        });
        ReplicaReport::new(id.0, &entry.address, answer.as_deref())
    });
    ClusterReport::new(config, replicas.collect())
}
