//! What a thread has counted: the replica's, or a pillar's.

use crate::counters::{Counters, Flow, Messages, Rejects};
use crate::inbound::Inbound;
use crate::network::Network;
use crate::speaker::Speaker;
use crate::status::{DurabilityReport, ThreadReport};
use pentarchy_core::ids::ReplicaId;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The last that a pillar said of itself and nobody has looked at. Who does not look gets no older
/// ones later.
#[derive(Clone, Default)]
pub struct Latest(Arc<Mutex<Option<(Report, ThreadReport)>>>);

impl Latest {
    /// In the place of the one before.
    pub fn set(&self, report: Report, thread: ThreadReport) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some((report, thread));
    }

    /// None if there was none since the last call.
    pub fn take(&self) -> Option<(Report, ThreadReport)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// See the module.
#[derive(Default)]
pub struct Report {
    /// To and from peers.
    pub traffic: Flow,
    pub messages: Messages,
    pub rejects: Rejects,
    /// Those of the last seconds, by the peer that sent them.
    pub refused: BTreeMap<u16, u64>,
    /// Findings of the last seconds, by the replica that they are about.
    pub found: BTreeMap<u16, u64>,
    pub counters: Counters,
    pub timers: usize,
    /// Bytes that wait for each connected peer, ...
    pub queues: BTreeMap<u16, u64>,
    /// ... and on the fullest of these connections.
    pub fullest: u64,
    /// Whether peers sent more than one round reads.
    pub unread: bool,
    /// Of a pillar: entries of the log that are not durable, ...
    pub lag_entries: u64,
    /// ... and messages that wait for that.
    pub waiting_messages: u64,
}

impl Report {
    /// Of one thread.
    pub fn new(speaker: &Speaker, network: &Network, inbound: &Inbound) -> Self {
        let queued = |id: ReplicaId| (id.0, network.peer_queued_bytes(id) as u64);
        let queues: BTreeMap<u16, u64> = network.peers.connected().map(queued).collect();
        Self {
            traffic: network.traffic.peers,
            messages: network.messages.clone(),
            rejects: speaker.rejects.clone(),
            refused: speaker.refused.counts(speaker.now_ms),
            found: speaker.found.counts(speaker.now_ms),
            counters: network.counters.clone(),
            timers: speaker.timers.len(),
            fullest: queues.values().copied().max().unwrap_or(0),
            queues,
            unread: network.has_unread() || !inbound.is_empty(),
            lag_entries: 0,
            waiting_messages: 0,
        }
    }

    /// How the disk is doing, with what pillars have wait for it.
    pub fn beside(&self, disk: DurabilityReport) -> DurabilityReport {
        DurabilityReport {
            lag_entries: disk.lag_entries.max(self.lag_entries),
            waiting_messages: disk.waiting_messages + self.waiting_messages,
            ..disk
        }
    }

    /// And of another one beside it.
    pub fn add(&mut self, other: &Self) {
        self.traffic.add(&other.traffic);
        self.messages.add(&other.messages);
        self.rejects.add_all(&other.rejects);
        add_all(&mut self.refused, &other.refused);
        add_all(&mut self.found, &other.found);
        self.counters.add_pillar(&other.counters);
        self.timers += other.timers;
        for (peer, bytes) in &other.queues {
            *self.queues.entry(*peer).or_default() += bytes;
        }
        self.fullest = self.fullest.max(other.fullest);
        self.unread |= other.unread;
        // They count those of others between their own.
        self.lag_entries = self.lag_entries.max(other.lag_entries);
        self.waiting_messages += other.waiting_messages;
    }
}

fn add_all(counts: &mut BTreeMap<u16, u64>, more: &BTreeMap<u16, u64>) {
    for (peer, count) in more {
        *counts.entry(*peer).or_default() += count;
    }
}
