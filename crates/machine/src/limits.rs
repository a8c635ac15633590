//! What a replica has room for.

use pentarchy_core::limits::{PENDING_ENVELOPES_MAX, REPLY_WHOLE_BYTES};

/// Bounds of one host. The defaults are for one replica on one machine.
#[derive(Clone, Copy, Debug)]
pub struct HostLimits {
    /// Clients connected at a time; for a further one, the one that was silent for longest gives
    /// way, unless that is less than a second.
    pub clients_max: usize,
    /// Connections whose other side has not said yet who it is, or says to be a member of which the
    /// replica has not heard. The oldest of those that
    /// come from the place that most come from gives way, so that strangers who connect and stay
    /// silent cannot keep others out.
    pub unknown_max: usize,
    /// Milliseconds that a stranger has to say who it is, or to show how the group has changed.
    pub hello_ms: u64,
    /// Milliseconds for a client to end what it has begun to send: what arrived of it waits.
    pub frame_ms: u64,
    /// Bytes read from one client in one round before the others get their turn.
    pub client_round_bytes: usize,
    /// Bytes read from all clients in one round, before the peers get their turn again.
    pub clients_round_bytes: usize,
    /// Bytes read from one peer in one round.
    pub peer_round_bytes: usize,
    /// Bytes that wait for a client before what else there is to say to it is dropped. If it reads
    /// next to nothing for five seconds, it is then disconnected. Also the bytes of results that
    /// one round collects for it. Above what is kept for a client
    /// ([`CLIENT_REPLIES_BYTES_MAX`](pentarchy_core::limits::CLIENT_REPLIES_BYTES_MAX)), or it
    /// never gets all of that when it asks again.
    pub client_queue_bytes: usize,
    /// Bytes that wait for a client above which its queries are not answered, and it is not sent
    /// again the events that it asks for; it has queries ordered, and asks for events again.
    pub query_queue_bytes: usize,
    /// Bytes that wait for all clients together; above it only those clients get more for which
    /// less than an equal share of it waits.
    pub clients_queue_bytes: usize,
    /// Bytes that wait for a peer before new messages to it are dropped.
    pub peer_queue_bytes: usize,
    /// Bytes that wait for a peer above which its questions about state are dropped.
    pub transfer_queue_bytes: usize,
    /// Results of up to so many bytes every replica tells its client; of a longer one, one replica
    /// tells the result and the others its digest. At least
    /// [`REPLY_WHOLE_BYTES_MIN`](pentarchy_core::limits::REPLY_WHOLE_BYTES_MIN); `usize::MAX` has
    /// every replica tell every result. Replicas of a group need not agree on it.
    pub whole_result_bytes: usize,
    /// Bytes of large buffers that are kept to be used again.
    pub spare_bytes: usize,
    /// Bytes that wait for the disk above which nothing is read.
    pub disk_queue_bytes: usize,
    /// Envelopes that wait in the core above which clients are told to come back later.
    pub waiting_max: usize,
}

impl HostLimits {
    /// Of [`Self::clients_queue_bytes`] what every client may use, whatever waits for the others.
    #[must_use]
    pub const fn client_share_bytes(&self) -> usize {
        self.clients_queue_bytes / if self.clients_max == 0 { 1 } else { self.clients_max }
    }
}

impl Default for HostLimits {
    fn default() -> Self {
        Self {
            clients_max: 1024,
            unknown_max: 64,
            hello_ms: 3_000,
            frame_ms: 60_000,
            client_round_bytes: 256 << 10,
            clients_round_bytes: 4 << 20,
            peer_round_bytes: 4 << 20,
            client_queue_bytes: 6 << 20,
            query_queue_bytes: 1 << 20,
            clients_queue_bytes: 16 << 20,
            peer_queue_bytes: 16 << 20,
            transfer_queue_bytes: 4 << 20,
            whole_result_bytes: REPLY_WHOLE_BYTES,
            spare_bytes: 8 << 20,
            disk_queue_bytes: 16 << 20,
            waiting_max: PENDING_ENVELOPES_MAX,
        }
    }
}
