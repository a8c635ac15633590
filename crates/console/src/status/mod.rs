//! How a cluster is: what each replica says of itself, over an authenticated channel, and what
//! follows from that.

mod replica_report;
pub mod report;
pub mod verdict;

use crate::failure::{Failure, Outcome};
use crate::folder::{self, Running};
use bytes::Bytes;
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::following::Follower;
use pentarchy_cluster::{Client, KeyPair, RequestError, node};
use pentarchy_core::configuration::MemberEntry;
use pentarchy_core::membership::Membership;
use report::{ClusterReport, ReplicaReport};
use std::path::Path;
use std::time::{Duration, Instant};

/// How long a replica may take to answer.
const LIMIT: Duration = Duration::from_secs(2);

/// The cluster's configuration, and what runs of it if `up` started it.
pub fn cluster(file: Option<&Path>, data: &Path) -> Outcome<(ClusterConfig, Option<Running>)> {
    if let Some(path) = file {
        return Ok((ClusterConfig::load_present(path)?, None));
    }
    let running = folder::running(data)?.ok_or_else(|| {
        Failure::Unwell(format!(
            "the cluster in {0} is stopped; start it with: pentarchy up --data {0}",
            data.display()
        ))
    })?;
    Ok((ClusterConfig::load_present(&data.join("cluster.toml"))?, Some(running)))
}

/// The group as it is now, if administrators have changed it since its file was written and a
/// replica that the file names says so in time.
pub fn present(config: ClusterConfig, key: Option<&Path>) -> Outcome<ClusterConfig> {
    if config.administrators.keys.is_empty() {
        return Ok(config);
    }
    let present = Follower::new(config, keys(key)?).and_then(Follower::present);
    present.map_err(|error| Failure::Usage(error.to_string()))
}

/// A client to ask with. It has a key of its own for each run, unless one is given: replicas serve
/// one connection per key.
pub fn connect(config: &ClusterConfig, key: Option<&Path>) -> Outcome<Client> {
    node::connect(config, keys(key)?).map_err(|error| Failure::Usage(error.to_string()))
}

/// The key of a client that was given, or a new one.
pub fn keys(key: Option<&Path>) -> Outcome<KeyPair> {
    match key {
        Some(path) => KeyPair::load(path).map_err(|error| Failure::Usage(error.to_string())),
        None => Ok(KeyPair::generate()),
    }
}

/// Asks all members at once. If the client learns meanwhile that the group has others, it asks
/// these.
pub fn ask(client: &Client) -> ClusterReport {
    let asked = client.membership();
    let report = ask_members(client, &asked);
    let present = client.membership();
    if present.configuration == asked.configuration {
        return report;
    }
    ask_members(client, &present)
}

fn ask_members(client: &Client, membership: &Membership) -> ClusterReport {
    let deadline = Instant::now() + LIMIT;
    let group = membership.stated.as_deref().expect("a client of a configured group");
    let asked: Vec<_> = membership.ids().map(|place| client.status(place)).collect();
    let replicas = asked.into_iter().zip(&group.members).map(|(pending, member)| {
        let left = deadline.saturating_duration_since(Instant::now());
        report_of(member, pending.wait_timeout(left))
    });
    ClusterReport::new(group, replicas.collect())
}

/// What a member's replica said, or why it said nothing.
pub fn report_of(member: &MemberEntry, answer: Result<Bytes, RequestError>) -> ReplicaReport {
    let (id, address) = (member.id.0, &member.address);
    let problem = match answer {
        Ok(json) => return ReplicaReport::new(id, address, Ok(&json)),
        Err(RequestError::Overtaken) => return ReplicaReport::not_asked(id, address),
        Err(RequestError::TimedOut) => format!("no answer within {} s", LIMIT.as_secs()),
        Err(error) => error.to_string(),
    };
    ReplicaReport::new(id, address, Err(&problem))
}
