//! The conditions of a measurement, apart from how much load there was.

use crate::case::{Case, Connections};
use pentarchy_cluster::config::{Durability, request_mode_name};
use serde::Serialize;
use std::fmt;

/// In words and numbers, as a part of `--json`.
#[derive(Serialize, PartialEq, Eq, Debug)]
pub struct Conditions {
    /// Bytes that a request carries, or a value that is written.
    pub request_bytes: usize,
    /// Bytes of a reply, or of a value that is read.
    pub reply_bytes: usize,
    /// How clients convince replicas, by the name of the option.
    pub request_auth: &'static str,
    /// What outlives the replicas' processes.
    pub durability: &'static str,
    /// Clients.
    pub clients: usize,
    /// `per-client` or `shared`.
    pub connections: &'static str,
    /// What the replicas run.
    pub service: &'static str,
    /// Keys of the store; none for the null service.
    pub keys: Option<usize>,
    /// How keys are chosen.
    pub key_choice: Option<&'static str>,
    /// Percentage of operations that are reads.
    pub reads_percent: u8,
    /// Requests that a batch may hold; none if as many as usual.
    pub batch_requests: Option<usize>,
    /// Backups that were killed before anything was measured.
    pub crashed_backups: usize,
    /// Event loops that drive the clients; 0 if each has threads of its own.
    pub client_loops: usize,
}

impl Conditions {
    /// Those of a case.
    pub fn new(case: &Case) -> Self {
        Self {
            request_bytes: case.payload.request,
            reply_bytes: case.payload.reply,
            request_auth: request_mode_name(case.request_auth),
            durability: case.durability.name(),
            clients: case.clients,
            connections: case.connections.name(),
            service: case.service.name(),
            keys: case.service.keys().map(|(keys, _)| keys),
            key_choice: case.service.keys().map(|(_, choice)| choice.name()),
            reads_percent: case.reads,
            batch_requests: case.batch,
            crashed_backups: usize::from(case.crash),
            client_loops: case.drivers.loops(),
        }
    }
}

/// `s` behind a word that counts other than one.
pub const fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}

impl fmt::Display for Conditions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { request_bytes, reply_bytes, request_auth, clients, .. } = self;
        write!(f, "{request_bytes}/{reply_bytes}, {request_auth}")?;
        if self.durability != Durability::Memory.name() {
            write!(f, ", {}", self.durability)?;
        }
        write!(f, ": {clients} client")?;
        f.write_str(plural(*clients))?;
        if self.connections == Connections::Shared.name() {
            f.write_str(", sessions of one key over one connection to each replica")?;
        }
        if self.client_loops > 0 {
            write!(f, ", {} event loop{}", self.client_loops, plural(self.client_loops))?;
        }
        write!(f, ", service {}", self.service)?;
        if let (Some(keys), Some(choice)) = (self.keys, self.key_choice) {
            write!(f, " ({keys} keys, {choice})")?;
        }
        if self.reads_percent > 0 {
            write!(f, ", {} % reads", self.reads_percent)?;
        }
        if let Some(requests) = self.batch_requests {
            write!(f, ", batches of at most {requests} request{}", plural(requests))?;
        }
        if self.crashed_backups > 0 {
            f.write_str(", a backup crashed")?;
        }
        Ok(())
    }
}
