//! What happened, in numbers.

use pentarchy_core::protocol::Reject;
use serde::Serialize;
use std::collections::BTreeMap;

/// What the host refused or lost, beside what peers' messages were refused for. Zeroes at the
/// start.
#[derive(Clone, Default, Debug, Serialize)]
pub struct Counters {
    /// Connections that ended before the other side had said who it is: strangers, other groups,
    /// wrong keys, port scanners.
    pub handshakes_failed: u64,
    /// Connections whose other side claimed to be someone it is not, or someone without access.
    pub hellos_refused: u64,
    /// Connections that were closed because there were too many.
    pub connections_refused: u64,
    /// Messages of clients that could not be decoded.
    pub client_malformed: u64,
    /// Envelopes of someone else than the client that sent them.
    pub client_wrong_author: u64,
    /// Envelopes whose authentication is wrong.
    pub client_bad_auth: u64,
    /// Envelopes that were not taken because too many wait.
    pub client_busy: u64,
    /// Queries of clients that were executed.
    pub client_queries: u64,
    /// Queries that were not executed because too much waits for the client, or not answered
    /// because the result is too large. The client has them ordered.
    pub client_queries_dropped: u64,
    /// Times that a client asked for events and was sent what is kept, be it nothing.
    pub client_resumes: u64,
    /// Times that it was not, because too much waits for it. It asks again.
    pub client_resumes_dropped: u64,
    /// Results, events and messages that were dropped because the client has too many. It asks again.
    pub client_dropped: u64,
    /// Clients that were disconnected, after they had been silent, to make room for another.
    pub clients_evicted: u64,
    /// Clients that were disconnected because they did not read.
    pub clients_too_slow: u64,
    /// Messages to peers that were dropped because too much waited for the peer.
    pub peer_dropped: u64,
    /// Messages to peers that were dropped because the peer was not connected.
    pub peer_unconnected: u64,
    /// Questions about state that were dropped because too much waited for the peer.
    pub transfer_dropped: u64,
    /// Messages of peers that were in another epoch.
    pub other_epoch: u64,
    /// Epochs that began here.
    pub epochs: u64,
    /// Records that the core asked to keep, and that nobody keeps in this host.
    pub records: u64,
    /// What the core reported about others.
    pub findings: u64,
    /// Times that this replica's own state was found to be wrong.
    pub diverged: u64,
}

/// Peers' messages that were refused, by reason.
#[derive(Clone, Default, Debug)]
pub struct Rejects([u64; Reject::ALL.len()]);

impl Rejects {
    /// Counts one.
    pub fn add(&mut self, reject: Reject) {
        let index = Reject::ALL.iter().position(|known| *known == reject);
        if let Some(count) = index.and_then(|index| self.0.get_mut(index)) {
            *count += 1;
        }
    }

    /// The counts by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        Reject::ALL.iter().map(|reject| reject.name()).zip(self.0).collect()
    }
}
