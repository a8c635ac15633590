//! `replica`: one replica in the foreground.

use super::args::{ReplicaArgs, ServiceChoice};
use super::descriptors;
use super::failure::{Failure, Outcome};
use super::stop::stop_signal;
use pentarchy::Service;
use pentarchy::config::ClusterConfig;
use pentarchy::node;
use pentarchy::services::kv::{Kv, STATE_BYTES_DEFAULT};
use pentarchy::services::null::Null;
use pentarchy_replica::Listen;
use std::net::{SocketAddr, TcpListener};
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// How often a replica that ended by itself is noticed.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the command.
pub fn run(args: &ReplicaArgs) -> Outcome {
    let config = ClusterConfig::load(&args.config)?;
    descriptors::raise();
    let stop = stop_signal(args.leash)?;
    let addresses = node::addresses(&config).map_err(usage)?;
    let own = addresses.get(usize::from(args.id)).copied().ok_or_else(|| {
        usage(node::StartError::NoSuchReplica { id: args.id, last: addresses.len() - 1 })
    })?;
    // Names and port before the secrets: what may go better next time must not use up the
    // device's only life.
    let listen = Listen::Bound(bind(args.listen.unwrap_or(own))?);
    let (secrets, group_secret) =
        node::take_secrets(&config, args.id, &args.keys).map_err(usage)?;
    let service: Box<dyn Service> = match args.service {
        ServiceChoice::Kv => Box::new(Kv::new(STATE_BYTES_DEFAULT)),
        ServiceChoice::Null => Box::new(Null::new()),
    };
    let replica =
        node::replica(&config, args.id, secrets, &group_secret, addresses, listen, service);
    let running = replica.map_err(usage)?.spawn().map_err(|error| {
        Failure::Internal(format!("cannot start the replica's thread: {error}"))
    })?;
    while !running.is_finished() {
        match stop.recv_timeout(LOOK) {
            Err(RecvTimeoutError::Timeout) => {}
            Ok(()) | Err(RecvTimeoutError::Disconnected) => break,
        }
    }
    running.stop().map_err(|fatal| Failure::Internal(fatal.to_string()))
}

fn bind(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Usage(format!("cannot listen on {address}: {error}; name another with --listen"))
    })
}

fn usage(error: node::StartError) -> Failure {
    Failure::Usage(error.to_string())
}
