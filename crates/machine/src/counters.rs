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
    /// Attempts to connect to a peer that were ended by the process that listens at its address.
    pub dials_refused: u64,
    /// Times that a connection could not be accepted, mostly for want of file descriptors.
    pub accepts_failed: u64,
    /// Connections of known clients and peers that were closed because what came over them was too
    /// large, not authentic (changed, repeated, of another session) or no list of messages.
    pub frames_refused: u64,
    /// Clients that were disconnected because they began to send something and did not end it.
    pub frames_unfinished: u64,
    /// Messages of clients that could not be decoded.
    pub client_malformed: u64,
    /// Envelopes of someone else than the client that sent them.
    pub client_wrong_author: u64,
    /// Envelopes that were not authentic.
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
    /// Results, events and messages that were dropped because the client has too many. It asks
    /// again.
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
    /// Times that a peer said that it has another configuration than this replica.
    pub other_configuration: u64,
    /// What was said in the authority's name about epochs and was not its word, or was incomplete.
    pub authority_refused: u64,
    /// Epochs that began here.
    pub epochs: u64,
    /// Records that the core asked to keep, and that nobody keeps in this host.
    pub records: u64,
    /// What the core reported about others.
    pub findings: u64,
    /// The same, by the member that is to blame.
    pub findings_about: BTreeMap<u32, u64>,
    /// Times that this replica's own state was found to be wrong.
    pub diverged: u64,
}

impl Counters {
    /// Adds what another thread, or the links, have counted.
    pub fn add(&mut self, other: &Self) {
        self.handshakes_failed += other.handshakes_failed;
        self.hellos_refused += other.hellos_refused;
        self.connections_refused += other.connections_refused;
        self.dials_refused += other.dials_refused;
        self.accepts_failed += other.accepts_failed;
        self.frames_refused += other.frames_refused;
        self.frames_unfinished += other.frames_unfinished;
        self.client_malformed += other.client_malformed;
        self.client_wrong_author += other.client_wrong_author;
        self.client_bad_auth += other.client_bad_auth;
        self.client_busy += other.client_busy;
        self.client_queries += other.client_queries;
        self.client_queries_dropped += other.client_queries_dropped;
        self.client_resumes += other.client_resumes;
        self.client_resumes_dropped += other.client_resumes_dropped;
        self.client_dropped += other.client_dropped;
        self.clients_evicted += other.clients_evicted;
        self.clients_too_slow += other.clients_too_slow;
        self.peer_dropped += other.peer_dropped;
        self.peer_unconnected += other.peer_unconnected;
        self.transfer_dropped += other.transfer_dropped;
        self.other_epoch += other.other_epoch;
        self.other_configuration += other.other_configuration;
        self.authority_refused += other.authority_refused;
        self.epochs += other.epochs;
        self.records += other.records;
        self.findings += other.findings;
        self.diverged += other.diverged;
        for (member, findings) in &other.findings_about {
            *self.findings_about.entry(*member).or_default() += findings;
        }
    }
}

/// What went over the sockets.
#[derive(Clone, Copy, Default, Serialize, Debug)]
pub struct Traffic {
    /// To and from the other replicas.
    pub peers: Flow,
    /// To and from clients.
    pub clients: Flow,
}

/// One side of [`Traffic`]. Bytes that leave are counted before encryption adds its few.
#[derive(Clone, Copy, Default, Serialize, Debug)]
pub struct Flow {
    /// Bytes that were read.
    pub bytes_in: u64,
    /// Bytes that were written.
    pub bytes_out: u64,
    /// Messages that were read.
    pub messages_in: u64,
    /// Messages that were queued to be written.
    pub messages_out: u64,
}

impl Traffic {
    /// The side that peers or that others are on.
    pub const fn of(&mut self, is_peer: bool) -> &mut Flow {
        if is_peer { &mut self.peers } else { &mut self.clients }
    }
}

impl Flow {
    /// Adds what was counted elsewhere.
    pub const fn add(&mut self, other: &Self) {
        self.bytes_in += other.bytes_in;
        self.bytes_out += other.bytes_out;
        self.messages_in += other.messages_in;
        self.messages_out += other.messages_out;
    }

    /// These came.
    pub const fn came(&mut self, bytes: usize, messages: usize) {
        self.bytes_in += bytes as u64;
        self.messages_in += messages as u64;
    }
}

/// [`Traffic`] by kind of message. Kinds are words in the code, so there are few. Bytes are those
/// of the messages alone, without their lengths and frames.
#[derive(Clone, Default, Debug)]
pub struct Messages(BTreeMap<&'static str, Flow>);

impl Messages {
    /// One came.
    pub fn came(&mut self, kind: &'static str, bytes: usize) {
        self.0.entry(kind).or_default().came(bytes, 1);
    }

    /// One was queued to be written.
    pub fn left(&mut self, kind: &'static str, bytes: usize) {
        let flow = self.0.entry(kind).or_default();
        flow.bytes_out += bytes as u64;
        flow.messages_out += 1;
    }

    /// Adds what was counted elsewhere.
    pub fn add(&mut self, other: &Self) {
        for (kind, flow) in &other.0 {
            self.0.entry(kind).or_default().add(flow);
        }
    }

    /// The counts so far.
    #[must_use]
    pub fn by_kind(&self) -> BTreeMap<&'static str, Flow> {
        self.0.clone()
    }
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

    /// Adds what was counted elsewhere.
    pub fn add_all(&mut self, other: &Self) {
        self.0.iter_mut().zip(other.0).for_each(|(count, more)| *count += more);
    }

    /// The counts by name.
    #[must_use]
    pub fn by_name(&self) -> BTreeMap<&'static str, u64> {
        Reject::ALL.iter().map(|reject| reject.name()).zip(self.0).collect()
    }
}
