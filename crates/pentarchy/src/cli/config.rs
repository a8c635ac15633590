//! `config`: how administrators have changed a group since its `cluster.toml` was written, and a
//! new group of what an older version left.

use super::convert::{self, ConvertArgs};
use super::members::showing::table_of;
use clap::{Args, Subcommand};
use pentarchy::chain_file;
use pentarchy::config::ClusterConfig;
use pentarchy::data::DataFolder;
use pentarchy::following::Follower;
use pentarchy::node::StartError;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::say;
use pentarchy_console::status::keys;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How long replicas may take to answer.
const LIMIT: Duration = Duration::from_secs(5);

/// Between two questions.
const AGAIN: Duration = Duration::from_millis(100);

/// `config`.
#[derive(Args)]
#[command(after_help = "Examples:\n  pentarchy config export --config cluster.toml\n  \
    pentarchy config check --config cluster.toml\n  \
    pentarchy config convert old --out new\n\n\
    cluster.toml describes the group as it began. Clients, and machines that join, learn from its\n\
    replicas what has become of it since. `export` writes that into a file beside it,\n\
    cluster.chain. gateway, status, top, members and replica --join read it first: so they find\n\
    the group also when all members have other addresses.")]
pub struct ConfigArgs {
    #[command(subcommand)]
    command: ConfigCommand,
}

#[derive(Subcommand)]
enum ConfigCommand {
    /// Write how the group has changed into a file beside cluster.toml
    #[command(after_help = "Example:\n  \
        pentarchy config export --config cluster.toml --key client.key")]
    Export {
        /// The cluster's public configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// A client key; needed where only listed clients are admitted
        #[arg(long, value_name = "FILE")]
        key: Option<PathBuf>,
        /// Take it from the data folder of a replica that has stopped
        #[arg(long, value_name = "DIR", conflicts_with = "key")]
        data: Option<PathBuf>,
    },
    /// Check cluster.toml and the file beside it, and show the group that they describe
    #[command(after_help = "Example:\n  pentarchy config check --config cluster.toml --json")]
    Check {
        /// The cluster's public configuration
        #[arg(long, value_name = "FILE")]
        config: PathBuf,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a new group of what a stopped one has that an older version of this program ran
    Convert(ConvertArgs),
}

/// Runs the command.
pub fn run(args: &ConfigArgs) -> Outcome {
    match &args.command {
        ConfigCommand::Export { config, key, data } => {
            export(config, key.as_deref(), data.as_deref())
        }
        ConfigCommand::Check { config, json } => check(config, *json),
        ConfigCommand::Convert(args) => convert::run(args),
    }
}

fn export(path: &Path, key: Option<&Path>, data: Option<&Path>) -> Outcome {
    let config = ClusterConfig::load_present(path)?;
    let config = match data {
        Some(data) => known_to(data, &config)?,
        None => present(config, key)?,
    };
    let number = config.number();
    if number == 0 {
        say("the group is as its file describes it: nothing to write");
        return Ok(());
    }
    let chain = chain_file::beside(path);
    config.write_chain(&chain)?;
    say(&format!(
        "wrote {}: the group is in configuration {number}. Copy it along with {}",
        chain.display(),
        path.display()
    ));
    Ok(())
}

/// The group as a stopped replica knows it.
fn known_to(data: &Path, config: &ClusterConfig) -> Outcome<ClusterConfig> {
    // Opening it would make what it lacks.
    if !DataFolder::is_used(data) {
        let what = "is no data folder of a replica; that is mostly `data` in its folder of keys";
        return Err(Failure::Usage(format!("{} {what}", data.display())));
    }
    let known = DataFolder::open(data).and_then(|mut folder| folder.known(config));
    known.map_err(|error| Failure::Usage(error.to_string()))
}

/// The group as it is now, as one of so many replicas knows it that not all of them can lie.
fn present(config: ClusterConfig, key: Option<&Path>) -> Outcome<ClusterConfig> {
    let usage = |error: StartError| Failure::Usage(error.to_string());
    let mut follower = Follower::new(config, keys(key)?).map_err(usage)?;
    let begun = Instant::now();
    loop {
        let answer = follower.catch_up().map_err(usage)?.len();
        let needed = follower.config().f + 1;
        if answer >= needed {
            return Ok(follower.config().clone());
        }
        if begun.elapsed() > LIMIT {
            return Err(Failure::Unwell(format!(
                "{answer} replicas answer, and the group may have changed without them: at least \
                 {needed} are needed. A group that lists its clients answers them only: --key"
            )));
        }
        std::thread::sleep(AGAIN);
    }
}

fn check(path: &Path, is_json: bool) -> Outcome {
    let config = ClusterConfig::load_present(path)?;
    let configuration = config.configuration();
    let digest = hex::encode(configuration.digest().0);
    let group = hex::encode(configuration.group.0);
    say(&if is_json {
        json!({
            "group": group,
            "configuration": config.number(),
            "digest": digest,
            "protocol": configuration.protocol,
            "f": configuration.f,
            "members": configuration.members.len(),
        })
        .to_string()
    } else {
        format!(
            "group {group}\nconfiguration {}: {} with f = {}\ndigest {digest}\n\n{}",
            config.number(),
            configuration.protocol,
            configuration.f,
            table_of(&configuration)
        )
    });
    Ok(())
}
