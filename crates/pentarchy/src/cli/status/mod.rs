//! `status`: asks every replica how it is, over an authenticated channel to each.

mod replica_report;
pub mod report;
mod show;
pub mod verdict;

use super::args::StatusArgs;
use super::failure::{Failure, Outcome};
use super::folder::{self, Running};
use super::say;
use bytes::Bytes;
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
        report(id, &entry.address, pending.wait_timeout(left))
    });
    ClusterReport::new(config, replicas.collect())
}

/// What a replica said, or why it said nothing.
fn report(id: ReplicaId, address: &str, answer: Result<Bytes, RequestError>) -> ReplicaReport {
    let problem = match answer {
        Ok(json) => return ReplicaReport::new(id.0, address, Ok(&json)),
        Err(RequestError::Overtaken) => return ReplicaReport::not_asked(id.0, address),
        Err(RequestError::TimedOut) => format!("no answer within {} s", LIMIT.as_secs()),
        Err(error) => error.to_string(),
    };
    ReplicaReport::new(id.0, address, Err(&problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy::generate::{GroupOptions, NewCluster};

    #[test]
    fn a_replica_that_was_not_asked_is_not_called_unreachable() {
        let addresses = ["a:1", "a:2", "a:3"].map(str::to_owned);
        let config = NewCluster::generate(&addresses, &GroupOptions::default()).config;
        let of = |error: RequestError| {
            let replicas = (0..3).map(|id| report(ReplicaId(id), "a:1", Err(error)));
            show::table(&ClusterReport::new(&config, replicas.collect()))
        };
        let overtaken = of(RequestError::Overtaken);
        let begin =
            "serves: unknown, too few replicas answer; tolerates 0 more faults; suspected: none";
        assert!(overtaken.starts_with(begin), "{overtaken}");
        assert!(overtaken.contains("another process uses the key of this command"), "{overtaken}");
        assert!(!overtaken.contains("unreachable"), "{overtaken}");
        let silent = of(RequestError::Unreachable);
        assert!(silent.contains("unreachable") && silent.contains("does not answer"), "{silent}");
    }
}
