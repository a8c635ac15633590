//! The protocols that can be run, by name.

use crate::config::ClusterConfig;
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_protocols::common::voting_client::VotingClient;

/// The names, as after `--protocol`.
pub fn names() -> impl Iterator<Item = &'static str> {
    ["minbft"].into_iter()
}

/// How many replicas the protocol needs to tolerate `f` faults. `None` if there is no such protocol,
/// or no group of that size.
#[must_use]
pub fn replicas_needed(name: &str, f: usize) -> Option<usize> {
    let n = if name == "minbft" { f.checked_mul(2)?.checked_add(1)? } else { return None };
    (f >= 1 && n <= REPLICAS_MAX).then_some(n)
}

/// The client side of the configured protocol.
pub(crate) fn client_core(config: &ClusterConfig, client: ClientId) -> Option<Box<dyn ClientCore>> {
    let n = config.replicas.len();
    // Not above the first number that the client's host gives out, which is the same clock, later.
    let floor = pentarchy_io::clock::wall_micros();
    Some(Box::new(VotingClient::new(client, n, config.f, config.timeouts, floor)))
}
