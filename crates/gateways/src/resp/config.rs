//! How a gateway is set up, and why it may not start.

use super::password::Password;
use std::fmt;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

/// The setup of a gateway, with every bound that it keeps.
#[derive(Clone, Debug)]
pub struct GatewayConfig {
    /// Where to listen. Loopback only, unless there is a password.
    pub listen: SocketAddr,
    /// What a client must say before anything else.
    pub password: Option<Password>,
    /// On how many replicas, beside one, what a reply acknowledges is executed at least. `WAIT`
    /// says so.
    pub copies: u32,
    /// Connections at a time. More are told so and closed.
    pub connections_max: usize,
    /// Commands of one connection that wait for their replies. Further ones are left unread.
    pub pipeline_max: usize,
    /// Commands of all connections that wait for the backend. Further ones wait for their turn.
    /// Keep it below what the backend takes without blocking.
    pub outstanding_max: usize,
    /// Bytes of results of all connections that may be under way, as far as they can be foreseen
    /// from each connection's results of late. Keep it below what replicas keep and queue for one
    /// client, or replies are lost when a replica is down. Results of up to 2 KiB are not counted.
    pub results_bytes_max: usize,
    /// How long a command may take. Then its client gets an error, while the backend may still have
    /// it executed.
    pub reply_timeout: Duration,
    /// Bytes of commands and of replies made here that wait in one connection. Further commands
    /// are left unread.
    pub pending_bytes_max: usize,
    /// Bytes of published messages that wait in one connection. One whose client reads so slowly
    /// that there are more is closed.
    pub output_bytes_max: usize,
}

impl Default for GatewayConfig {
    /// Redis's port on the loopback interface, and bounds for thousands of connections.
    fn default() -> Self {
        Self {
            listen: (Ipv4Addr::LOCALHOST, 6379).into(),
            password: None,
            copies: 0,
            connections_max: 10_000,
            pipeline_max: 1024,
            outstanding_max: 1920,
            results_bytes_max: 3 << 20,
            reply_timeout: Duration::from_secs(30),
            pending_bytes_max: 8 << 20,
            output_bytes_max: 64 << 20,
        }
    }
}

/// Why a gateway does not start.
#[derive(Debug)]
pub enum GatewayError {
    /// The address can be reached from other machines, and the gateway asks for no password.
    NotLoopback(SocketAddr),
    /// A bound is zero.
    ZeroBound(&'static str),
    /// The address cannot be listened on.
    Listen(SocketAddr, io::Error),
}

impl fmt::Display for GatewayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotLoopback(address) => write!(
                f,
                "refusing to listen on {address}: the gateway asks for no password, and whoever \
                 reaches it can read and write everything. Listen on 127.0.0.1 or [::1] and run a \
                 gateway beside each application, or give it a password with --password-file"
            ),
            Self::ZeroBound(name) => write!(f, "{name} must be at least 1"),
            Self::Listen(address, error) => write!(f, "cannot listen on {address}: {error}"),
        }
    }
}

impl std::error::Error for GatewayError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Listen(_, error) => Some(error),
            Self::NotLoopback(_) | Self::ZeroBound(_) => None,
        }
    }
}

impl GatewayConfig {
    pub(crate) fn check(&self) -> Result<(), GatewayError> {
        if !self.listen.ip().is_loopback() && self.password.is_none() {
            return Err(GatewayError::NotLoopback(self.listen));
        }
        let bounds = [
            (self.connections_max, "connections_max"),
            (self.pipeline_max, "pipeline_max"),
            (self.outstanding_max, "outstanding_max"),
            (self.results_bytes_max, "results_bytes_max"),
            (usize::from(!self.reply_timeout.is_zero()), "reply_timeout"),
            (self.pending_bytes_max, "pending_bytes_max"),
            (self.output_bytes_max, "output_bytes_max"),
        ];
        let zero = bounds.iter().find(|(bound, _)| *bound == 0);
        zero.map_or(Ok(()), |(_, name)| Err(GatewayError::ZeroBound(name)))
    }
}
