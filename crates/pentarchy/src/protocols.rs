//! The protocols that can be run, by name.

use crate::config::ClusterConfig;
use pentarchy_core::ids::ClientId;
use pentarchy_core::limits::REPLICAS_MAX;
use pentarchy_core::ports::client::ClientCore;
use pentarchy_core::quorum::Quorums;
use pentarchy_protocols::{ClientStart, Entry, PROTOCOLS};
use std::hash::BuildHasher as _;

/// The names of those on which a service may run, as after `--protocol`.
pub fn names() -> impl Iterator<Item = &'static str> {
    PROTOCOLS.iter().filter(|entry| entry.for_users).map(|entry| entry.rules.name)
}

/// The protocol of this name, also if it is one to measure others against, and no service should
/// run on it. Not one that is known to be unsafe: that can be simulated, and nothing else.
#[must_use]
pub fn find(name: &str) -> Option<&'static Entry> {
    pentarchy_protocols::find(name).filter(|entry| !entry.in_museum)
}

/// How many replicas a protocol needs to tolerate `f` faults. `None` if there is no such protocol,
/// or no group of that size.
#[must_use]
pub fn replicas_needed(name: &str, f: usize) -> Option<usize> {
    let entry = find(name)?;
    // One that serves as a baseline tolerates nothing.
    let least = usize::from(entry.for_users);
    (least..=REPLICAS_MAX)
        .contains(&f)
        .then(|| entry.rules.replicas(f))
        .filter(|n| *n <= REPLICAS_MAX)
}

/// Whether clients of this protocol may authenticate by session keys, which trusted devices check:
/// only where it has such devices.
#[must_use]
pub fn takes_sessions(name: &str) -> bool {
    find(name).is_some_and(|entry| entry.rules.trusts_devices())
}

/// The client side of the configured protocol.
pub(crate) fn client_core(config: &ClusterConfig, client: ClientId) -> Box<dyn ClientCore> {
    let group = Quorums { n: config.replicas.len(), f: config.f };
    // Not above the first number that the client's host gives out, which is the same clock, later.
    let start_floor = pentarchy_io::clock::wall_micros();
    // Its keys are the operating system's randomness.
    let seed = Some(std::hash::RandomState::new().hash_one(client.0));
    let entry = find(&config.protocol).expect("a configuration names a protocol that exists");
    (entry.client)(ClientStart { client, group, timeouts: config.timeouts, start_floor, seed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_known_to_be_unsafe_cannot_be_run() {
        let unsafe_ones: Vec<&str> = PROTOCOLS
            .iter()
            .filter(|entry| entry.in_museum)
            .map(|entry| entry.rules.name)
            .collect();
        assert_eq!(unsafe_ones, ["zyzzyva-2009", "minzyzzyva-2010"]);
        for name in unsafe_ones {
            assert!(find(name).is_none() && replicas_needed(name, 1).is_none(), "{name}");
            assert!(names().all(|it| it != name), "{name}");
        }
    }
}
