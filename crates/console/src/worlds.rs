//! A protocol as simulated worlds run it.

use pentarchy_core::ids::ClientId;
use pentarchy_core::quorum::Quorums;
use pentarchy_protocols::{ClientStart, Descriptor};
use pentarchy_sim::run::{ClientSetup, Factories, ProtocolParts, StartClient};

/// The replicas, clients and liars of a protocol. Its clients have these seeds: see
/// [`ClientStart::seed`].
pub fn factories(
    entry: &'static Descriptor,
    seed: fn(&ClientId) -> Option<u64>,
) -> Factories<'static> {
    // There are few protocols, and a process has few of these.
    let client = |entry: &'static Descriptor| -> &'static StartClient<'static> {
        Box::leak(Box::new(move |setup: ClientSetup| {
            let ClientSetup { client, n, f, timeouts, start_floor } = setup;
            let (group, seed) = (Quorums { n, f }, seed(&client));
            (entry.client)(ClientStart { client, group, timeouts, start_floor, seed })
        }))
    };
    let parts = |entry: &'static Descriptor| ProtocolParts {
        rules: entry.rules,
        replica: &entry.start,
        client: client(entry),
    };
    let others: Vec<_> = entry.switches_to().map(parts).collect();
    Factories::new(entry.rules, &entry.start, client(entry))
        .with_forger(entry.forger)
        .with_others(Vec::leak(others))
}
