//! A group of replica processes that lives as long as one measurement.

use super::case::{Case, System};
use super::counting::{Counting, Counts};
use crate::files::temporary_folder;
use pentarchy_client::{Client, ClientConfig};
use pentarchy_cluster::config::ClusterConfig;
use pentarchy_cluster::generate::{GroupOptions, NewCluster};
use pentarchy_cluster::node;
use pentarchy_console::failure::{Failure, Outcome};
use pentarchy_console::folder::Part;
use pentarchy_console::supervisor::{Death, Supervisor, last_line, take_ports};
use pentarchy_crypto::keys::KeyPair;
use pentarchy_io::ports::Taken;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tempfile::TempDir;

/// Fresh processes with fresh keys, on this machine. They are stopped when it is dropped.
pub struct Group {
    /// What clients must know.
    pub config: ClusterConfig,
    /// Replicas that run: the first ones.
    pub running: usize,
    // In this order: the processes end before their ports are given back.
    supervisor: Supervisor,
    _ports: Taken,
    logs: Vec<PathBuf>,
    folder: TempDir,
}

impl Group {
    /// Starts the processes. Does not wait until they answer.
    pub fn start(system: &System, case: &Case) -> Outcome<Self> {
        let folder = temporary_folder("pentarchy-bench-")?;
        let ports = take_ports(system.n)?;
        let addresses: Vec<_> = ports.numbers().map(|port| format!("127.0.0.1:{port}")).collect();
        let options = GroupOptions {
            protocol: system.name().to_owned(),
            f: system.f,
            lane: system.lane,
            request_auth: case.request_auth,
            durability: case.durability,
            ..GroupOptions::default()
        };
        let cluster = NewCluster::generate(&addresses, &options);
        cluster.write(folder.path())?;
        // Replicas are told that by an argument, and clients go by the same configuration.
        let mut config = cluster.config;
        config.tuning.batch_requests = case.batch.unwrap_or(config.tuning.batch_requests);
        let mut group = Self {
            config,
            running: system.n,
            supervisor: Supervisor::default(),
            _ports: ports,
            logs: Vec::new(),
            folder,
        };
        for (id, address) in addresses.into_iter().enumerate() {
            group.start_replica(id, address, case)?;
        }
        Ok(group)
    }

    fn start_replica(&mut self, id: usize, address: String, case: &Case) -> Outcome {
        let root = self.folder.path();
        let folder = root.join(format!("replica-{id}"));
        let log = folder.join("replica.log");
        let config = root.join("cluster.toml");
        let (id, service) = (id.to_string(), case.service.name());
        let arguments = ["replica", "--leash", "--service", service, "--config", text(&config)?];
        let mut arguments = [&arguments[..], &["--id", &id, "--keys", text(&folder)?]].concat();
        let batch = case.batch.map(|requests| requests.to_string());
        arguments.extend(batch.iter().flat_map(|requests| ["--batch-requests", requests]));
        let name = format!("replica {id}");
        let part = Part { name, pid: 0, address, metrics: None, folder: folder.clone() };
        self.logs.push(log.clone());
        self.supervisor.start(part, log, &arguments)
    }

    /// What one more client is connected with, under a new key. What it sends is added to the
    /// counts.
    pub fn client(&self, counts: &Arc<Counts>) -> Outcome<ClientConfig> {
        let mut config = node::client_config(&self.config, KeyPair::generate()).map_err(cannot)?;
        config.core = Box::new(Counting::new(config.core, counts.clone()));
        Ok(config)
    }

    /// Connects one more client.
    pub fn connect(&self, counts: &Arc<Counts>) -> Outcome<Client> {
        Client::connect(self.client(counts)?).map_err(|error| cannot(error.into()))
    }

    /// Kills the last replica, a backup of the first view.
    pub fn crash_last(&mut self) {
        self.supervisor.kill_last();
        self.running -= 1;
    }

    /// Fails if a replica has ended otherwise.
    pub fn check(&mut self) -> Outcome {
        match self.supervisor.deaths().into_iter().next() {
            Some(Death { what, last_words: Some(words), .. }) => {
                Err(Failure::Unwell(format!("{what}; it said: {words}")))
            }
            Some(Death { what, .. }) => Err(Failure::Unwell(what)),
            None => Ok(()),
        }
    }

    /// The last thing that any replica said, for messages.
    pub fn last_words(&self) -> String {
        let words = self.logs.iter().find_map(|log| last_line(log));
        words.map_or_else(String::new, |words| format!("; a replica said: {words}"))
    }

    /// Stops the processes and waits for them.
    pub fn stop(self) {
        let killed = self.supervisor.stop();
        if !killed.is_empty() {
            eprintln!("pentarchy: had to kill {}", killed.join(", "));
        }
    }
}

fn cannot(error: node::StartError) -> Failure {
    Failure::Internal(format!("cannot connect a client: {error}"))
}

/// A path for a command line.
pub fn text(path: &Path) -> Outcome<&str> {
    path.to_str().ok_or_else(|| {
        Failure::Usage(format!("{} is not UTF-8; set TMPDIR to another folder", path.display()))
    })
}
