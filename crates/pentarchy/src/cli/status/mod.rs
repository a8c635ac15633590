//! `status`: asks every replica how it is, over an authenticated channel to each.

pub mod report;
mod show;
pub mod verdict;

use super::args::StatusArgs;
use super::failure::{Failure, Outcome};
use super::folder::{self, Running};
use super::say;
use pentarchy::config::ClusterConfig;
use pentarchy::{Client, KeyPair, ReplicaId, RequestError, node};

use report::{ClusterReport, ReplicaReport};
use std::io::IsTerminal as _;
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a replica may take to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// Between two questions with `--watch`.
const PERIOD: Duration = Duration::from_secs(1);

/// Runs the command.
pub fn run(args: &StatusArgs) -> Outcome {
    let (config, running) = cluster(args.config.as_deref(), &args.data)?;
    let client = connect(&config, args.key.as_deref())?;
    loop {
        let mut report = ask(&config, &client);
        if let Some(running) = &running {
            report.locate(running);
        }
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

/// The cluster's configuration, and what runs of it if `up` started it.
pub fn cluster(file: Option<&Path>, data: &Path) -> Outcome<(ClusterConfig, Option<Running>)> {
    if let Some(path) = file {
        return Ok((ClusterConfig::load(path)?, None));
    }
    let running = folder::running(data)?.ok_or_else(|| {
        Failure::Unwell(format!(
            "the cluster in {0} is stopped; start it with: pentarchy up --data {0}",
            data.display()
        ))
    })?;
    Ok((ClusterConfig::load(&data.join("cluster.toml"))?, Some(running)))
}

/// A client to ask with. It has a key of its own for each run, unless one is given: replicas serve
/// one connection per key.
pub fn connect(config: &ClusterConfig, key: Option<&Path>) -> Outcome<Client> {
    let keys = match key {
        Some(path) => KeyPair::load(path).map_err(|error| Failure::Usage(error.to_string()))?,
        None => KeyPair::generate(),
    };
    node::connect(config, keys).map_err(|error| Failure::Usage(error.to_string()))
}

/// Asks all replicas at once.
pub fn ask(config: &ClusterConfig, client: &Client) -> ClusterReport {
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
