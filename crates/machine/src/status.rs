//! What a replica says of itself, for people and tools. Nothing is decided by it.

use crate::approach::Pace;
use crate::counters::{Counters, Flow, Traffic};
use crate::meter::{Spreads, ViewChange};
use pentarchy_core::transfer::Progress;
use serde::Serialize;
use std::collections::BTreeMap;

/// What a replica says of itself.
#[derive(Clone, Debug, Serialize)]
pub struct StatusReport {
    /// Which replica of the present epoch it is.
    pub replica: u16,
    /// Which member of the group it is, in all epochs. So are others named below with whom it has
    /// to do over links.
    pub member: u32,
    /// The members of the present epoch, by replica.
    pub members: Vec<u32>,
    /// Of its program.
    pub version: &'static str,
    /// Replicas in the group.
    pub n: usize,
    /// Faulty ones that the group tolerates.
    pub f: usize,
    /// Its process.
    pub pid: u32,
    /// The protocol's name.
    pub protocol: String,
    /// Whether each pillar began with another primary.
    pub rotate_leader: bool,
    /// How each pillar is; none if the order is not split.
    pub pillars: Vec<PillarReport>,
    /// The group's name in hexadecimal digits.
    pub group: String,
    /// The group's configuration.
    #[serde(flatten)]
    pub configuration: ConfigurationReport,
    /// Number of the membership.
    pub epoch: u64,
    /// Life of its trusted counter.
    pub incarnation: u64,
    /// The process of its trusted counter; none if that is this process.
    pub counter_process: Option<u32>,
    /// How it misbehaves on command; none if it does not.
    pub fault: Option<String>,
    /// The view it is in or wants to enter; of several pillars the lowest one.
    pub view: u64,
    /// The member that is the primary of that view.
    pub primary: u32,
    /// `primary` if it leads any pillar, `backup`, or `joining` before the group has admitted it.
    pub role: &'static str,
    /// What the core is doing.
    pub phase: &'static str,
    /// Last executed slot.
    pub executed: u64,
    /// Last slot of the contiguous committed order.
    pub committed: u64,
    /// Last stable checkpoint.
    pub stable: u64,
    /// Digest of the state at that checkpoint in hexadecimal digits, the same in all correct
    /// replicas; none before the first checkpoint, and while the state is being fetched.
    pub state: Option<String>,
    /// Slots that `f + 1` others committed and this one has not executed.
    pub behind: u64,
    /// How far the state it fetches has come; none if it fetches none.
    pub catch_up: Option<CatchUp>,
    /// How fast it comes closer; none if it has caught up, or nothing is known of that yet.
    pub approach: Option<Pace>,
    /// Members, this one included, that have lost what they promised and ask the group to admit
    /// them as new incarnations.
    pub asking: Vec<u32>,
    /// Whether these are more than `f`: then too few are left to admit anybody, and the group
    /// cannot go on.
    pub lost: bool,
    /// Milliseconds since something came from each of the others; since the start, if nothing has.
    pub silent_ms: BTreeMap<u32, u64>,
    /// Messages that were refused in the last 10 to 20 seconds, by the peer that sent them.
    pub refused_from: BTreeMap<u32, u64>,
    /// What the core reported about others in the last 10 to 20 seconds, by the member that it is
    /// about.
    pub findings_lately: BTreeMap<u32, u64>,
    /// Envelopes that wait to be ordered.
    pub waiting: usize,
    /// Members it is connected to.
    pub peers: Vec<u32>,
    /// Clients connected.
    pub clients: usize,
    /// Clients in the client table.
    pub sessions: usize,
    /// Requests executed since the start.
    pub requests: u64,
    /// View changes since the start.
    pub view_changes: u64,
    /// Why the last one began.
    pub view_change_reason: &'static str,
    /// View changes since the start, by the reason for which they began.
    pub view_changes_by_reason: BTreeMap<&'static str, u64>,
    /// The last few of them, oldest first.
    pub recent_view_changes: Vec<ViewChange>,
    /// How full everything is that has a bound, by name.
    pub queues: BTreeMap<&'static str, Fill>,
    /// Bytes that wait for each connected peer.
    pub peer_queues: BTreeMap<u32, u64>,
    /// Whether peers sent more than one round reads.
    pub unread: bool,
    /// Milliseconds until it can be told from what peers said whether the replica has caught up:
    /// after the start, after a stall, and after it was cut off. 0 if it can be told now.
    pub settling_ms: u64,
    /// Timers that are armed.
    pub timers: usize,
    /// What went over the sockets.
    pub traffic: Traffic,
    /// The messages in it, by kind.
    pub messages: BTreeMap<&'static str, Flow>,
    /// Rounds of the host in which something happened.
    pub rounds: u64,
    /// Batches executed since the start.
    pub batches: u64,
    /// Durations and sizes, for metrics; too long for a status.
    #[serde(skip)]
    pub spreads: Spreads,
    /// What it keeps across a crash; none if it keeps nothing.
    pub durability: Option<DurabilityReport>,
    /// Where this replica's state was not the group's, the last time that it was not.
    pub diverged_sections: Vec<String>,
    /// Peers' messages that were refused, by reason.
    pub rejects: BTreeMap<&'static str, u64>,
    /// What the host refused or lost.
    pub counters: Counters,
    /// Cryptographic operations of the process.
    pub costs: CostReport,
    /// System calls of the process that moved bytes or waited for some.
    pub calls: CallReport,
    /// Allocations of memory and their bytes, moved ones included; none unless the program was
    /// built to count them (feature `count-allocations`), which makes each dearer.
    pub allocations: Option<AllocationReport>,
    /// Processor time of the process in user mode and in the system, in microseconds.
    pub cpu_micros: u64,
    /// Memory of the process, in KiB.
    pub rss_kib: u64,
    /// The most memory that the process ever had, in KiB.
    pub peak_rss_kib: u64,
    /// Time since the replica was started, in milliseconds.
    pub uptime_ms: u64,
}

/// A configuration, and how far a change of it is.
#[derive(Clone, Debug, Serialize)]
pub struct ConfigurationReport {
    /// Its digest in hexadecimal digits. What a replica under another one signs does not count
    /// here.
    #[serde(rename = "configuration")]
    pub digest: String,
    /// 0 for that with which the group began.
    #[serde(rename = "configuration_number")]
    pub number: u64,
    /// The change that is pending, if one is.
    pub pending_change: Option<PendingReport>,
    /// Whether this replica still has a key by which it signed before the last change, or what the
    /// trusted devices shared then.
    pub has_former_key: bool,
}

/// A change of the configuration that waits for members to be ready.
#[derive(Clone, Debug, Serialize)]
pub struct PendingReport {
    /// Number of the configuration that it makes.
    pub number: u64,
    /// Members that this has.
    pub members: usize,
    /// Those of them that are ready.
    pub ready: usize,
}

/// How one of a replica's pillars is. Slots are those of the whole order.
#[derive(Clone, Debug, Serialize)]
pub struct PillarReport {
    /// The view it is in or wants to enter.
    pub view: u64,
    /// The member that is the primary of that view.
    pub primary: u32,
    /// What it is doing.
    pub phase: &'static str,
    /// Its last slot up to which it has decided all of its own.
    pub committed: u64,
    /// Its last stable checkpoint.
    pub stable: u64,
    /// Envelopes that wait in it to be ordered.
    pub waiting: usize,
    /// How its own thread is.
    pub thread: Option<ThreadReport>,
}

/// How the thread of a pillar is, as it last said.
#[derive(Clone, Default, Debug, Serialize)]
pub struct ThreadReport {
    /// Members to the pillar of the same number of which it is connected.
    pub peers: Vec<u32>,
    /// Rounds in which something happened.
    pub rounds: u64,
    /// Its processor time in microseconds; 0 where the system does not say.
    pub cpu_micros: u64,
    /// Milliseconds since it said so: a tenth of a second or two if it does not stand still.
    pub silent_ms: u64,
}

/// What a replica keeps across a crash, and how its disk is doing.
#[derive(Clone, Default, Debug, Serialize)]
pub struct DurabilityReport {
    /// The mode: `sync`, or `async`, which has no log.
    pub mode: &'static str,
    /// Bytes of the log on the disk.
    pub log_bytes: u64,
    /// Bytes that it may have between two checkpoints.
    pub log_bytes_max: u64,
    /// Whether that is reached: the replica says nothing until a checkpoint makes room.
    pub log_full: bool,
    /// Entries of the log that are not durable yet.
    pub lag_entries: u64,
    /// Messages and answers that wait for that.
    pub waiting_messages: u64,
    /// Entries that became durable since the start.
    pub entries: u64,
    /// Writes, each with a sync, that it took.
    pub syncs: u64,
    /// What all of them took together, in microseconds.
    pub sync_micros: u64,
    /// What the last one took, in microseconds.
    pub last_sync_micros: u64,
    /// Pieces of states on the disk that were read to see whether they are what they were.
    pub scrubbed_pieces: u64,
    /// Rounds through all of them.
    pub scrub_rounds: u64,
    /// Pieces that were found to be damaged.
    pub damaged_pieces: u64,
    /// Of those, how many were written anew.
    pub repaired_pieces: u64,
    /// The slot of the newest state on the disk; none before the first checkpoint.
    pub saved: Option<u64>,
}

/// How full a table or queue is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
pub struct Fill {
    /// What is in it.
    pub used: u64,
    /// What it holds at most.
    pub limit: u64,
}

/// How far a transfer of state has come.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CatchUp {
    /// The slot whose state is fetched.
    pub slot: u64,
    /// Sections in it that are not empty; 0 until that is known.
    pub chunks_total: usize,
    /// Those that are here.
    pub chunks_have: usize,
    /// Bytes moved.
    pub bytes: u64,
}

impl From<Progress> for CatchUp {
    fn from(Progress { slot, chunks_total, chunks_have, bytes }: Progress) -> Self {
        Self { slot: slot.0, chunks_total, chunks_have, bytes }
    }
}

/// What the process has done since it began: operations of `pentarchy_crypto::costs` and
/// `pentarchy_io::costs` under their names there.
#[derive(Clone, Copy, Default, Debug, Serialize)]
#[allow(missing_docs, reason = "the names and their meanings stand there")]
pub struct CostReport {
    pub signatures_made: u64,
    pub signatures_verified: u64,
    pub macs_made: u64,
    pub macs_verified: u64,
    pub session_tags_made: u64,
    pub session_tags_verified: u64,
    pub key_agreements: u64,
    pub usigs_created: u64,
    pub usigs_verified: u64,
    pub frames_sealed: u64,
    pub frames_opened: u64,
    pub hashes: u64,
    pub hashed_bytes: u64,
}

/// System calls of the process that moved bytes or waited for some: see `pentarchy_io::calls`.
#[derive(Clone, Copy, Default, Debug, Serialize)]
pub struct CallReport {
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Waits.
    pub waits: u64,
}

/// Memory that was asked for since the process began, given back or not.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct AllocationReport {
    /// How often.
    pub count: u64,
    /// How many bytes.
    pub bytes: u64,
}
