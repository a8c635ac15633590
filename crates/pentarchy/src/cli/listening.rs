//! Ports that a process listens on.

use pentarchy_console::failure::{Failure, Outcome};
use std::net::{SocketAddr, TcpListener};

/// Takes the port of a replica.
pub fn bind(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Usage(format!("cannot listen on {address}: {error}; name another with --listen"))
    })
}

/// Takes the port for metrics, before anything that cannot be taken back.
pub fn bind_metrics(address: SocketAddr) -> Outcome<TcpListener> {
    TcpListener::bind(address).map_err(|error| {
        Failure::Usage(format!("cannot serve metrics on {address}: {error}; name another port"))
    })
}

/// Metrics cannot be served although the port was there.
pub fn no_metrics(error: std::io::Error) -> Failure {
    Failure::Internal(format!("cannot serve metrics: {error}"))
}
