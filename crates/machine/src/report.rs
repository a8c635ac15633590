//! What was counted: by a machine or the instance of a pillar, and by its links.

use crate::counters::{Counters, Flow, Messages, Rejects, Traffic};
use crate::engine::Engine;
use crate::inbound::Inbound;
use crate::status::{AllocationReport, CallReport, CostReport, DurabilityReport, ThreadReport};
use std::collections::BTreeMap;

/// What a driver has counted.
#[derive(Clone, Default, Debug)]
pub struct LinkReport {
    /// What went over the links.
    pub traffic: Traffic,
    /// The messages that were sent, by kind.
    pub messages: Messages,
    /// What was refused or lost at the links.
    pub counters: Counters,
    /// Armed timers.
    pub timers: usize,
    /// Bytes that wait for each connected peer.
    pub peer_queues: BTreeMap<u32, u64>,
    /// Bytes that wait for all clients.
    pub clients_queued_bytes: usize,
    /// Connected clients.
    pub clients: usize,
    /// Connections whose other side has not said who it is.
    pub strangers: usize,
    /// Whether peers sent more than one round reads.
    pub unread: bool,
}

/// What an operator may want to know of the process that a machine runs in.
#[derive(Clone, Copy, Default, Debug)]
pub struct ProcessReport {
    /// Its number.
    pub pid: u32,
    /// The process of the trusted counter; none if that is this process.
    pub counter_process: Option<u32>,
    /// Cryptographic operations.
    pub costs: CostReport,
    /// System calls.
    pub calls: CallReport,
    /// Allocations, if they are counted.
    pub allocations: Option<AllocationReport>,
    /// Processor time in microseconds.
    pub cpu_micros: u64,
    /// Memory in KiB.
    pub rss_kib: u64,
    /// The most memory that it ever had, in KiB.
    pub peak_rss_kib: u64,
}

/// How pillars with threads of their own are; empty if there are none.
#[derive(Default)]
pub struct PillarsReport<'a> {
    /// What each has counted.
    pub reports: Vec<&'a Report>,
    /// How the thread of each is.
    pub threads: Vec<ThreadReport>,
    /// How many messages wait in the fullest mailbox of what pillars are told, and how many may;
    /// and of what they say.
    pub mail: Option<[(usize, usize); 2]>,
}

/// What one thread has counted: the replica's, or a pillar's.
#[derive(Default)]
pub struct Report {
    /// To and from peers.
    pub traffic: Flow,
    /// The messages in it, by kind.
    pub messages: Messages,
    /// Peers' messages that were refused.
    pub rejects: Rejects,
    /// Those of the last seconds, by the peer that sent them.
    pub refused: BTreeMap<u32, u64>,
    /// Findings of the last seconds, by the member that they are about.
    pub found: BTreeMap<u32, u64>,
    /// What was refused or lost otherwise.
    pub counters: Counters,
    /// Armed timers.
    pub timers: usize,
    /// Bytes that wait for each connected peer, ...
    pub queues: BTreeMap<u32, u64>,
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
    /// Of one engine, with its links and what waits to be looked at.
    pub fn new(engine: &Engine, links: &LinkReport, inbound: &Inbound) -> Self {
        let mut messages = engine.messages.clone();
        messages.add(&links.messages);
        let mut counters = engine.counters.clone();
        counters.add(&links.counters);
        Self {
            traffic: links.traffic.peers,
            messages,
            rejects: engine.rejects.clone(),
            refused: engine.refused.counts(engine.now_ms),
            found: engine.found.counts(engine.now_ms),
            counters,
            timers: links.timers,
            fullest: links.peer_queues.values().copied().max().unwrap_or(0),
            queues: links.peer_queues.clone(),
            unread: links.unread || !inbound.is_empty(),
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
        self.counters.add(&other.counters);
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

fn add_all(counts: &mut BTreeMap<u32, u64>, more: &BTreeMap<u32, u64>) {
    for (peer, count) in more {
        *counts.entry(*peer).or_default() += count;
    }
}
