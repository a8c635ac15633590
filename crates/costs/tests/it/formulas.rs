//! What the formulas of several protocols share.

use crate::ledger::Spent;
use pentarchy_core::ids::ReplicaId;
use pentarchy_costs::group::{Group, Sum, Traffic};
use pentarchy_costs::real::group;
use pentarchy_costs::{Node, Unwatched};
use pentarchy_protocols::find;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of an operation and of its result.
pub const OPERATION: usize = 64;
/// Bytes of a message between replicas before its body: which kind of message, epoch, author, and
/// how it convinces: by a signature, a trusted MAC or the channel.
pub const HEAD: usize = 1 + 8 + 2;
pub const SIGNATURE: usize = 1 + 64;
pub const TRUSTED_MAC: usize = 1 + 32;
pub const CHANNEL: usize = 1;
/// An envelope without its requests, signed, of a client that does not listen; a request and a
/// result without their bytes.
const ENVELOPE: usize = 32 + 8 + 1 + 4 + 1 + 64;
const REQUEST: usize = 8 + 4;
pub const RESULT: usize = 8 + 1 + 4;

/// Who is primary.
pub const HINT: usize = 2;

/// View, slot and history.
pub const PLACE: usize = 8 + 8 + 32;

/// One batch: so many envelopes, each of so many requests.
#[derive(Clone, Copy, Debug)]
pub struct Batch {
    pub f: usize,
    pub envelopes: usize,
    pub each: usize,
}

impl Batch {
    /// Every mix of group and batch that is counted: one request of each of many clients, as in the
    /// paper, and many requests of one client.
    pub fn all() -> impl Iterator<Item = Self> {
        let sizes = [(1, 1), (10, 1), (100, 1), (1, 10), (1, 100)];
        let of = move |f| sizes.map(move |(envelopes, each)| Self { f, envelopes, each });
        (1..=3).flat_map(of)
    }

    pub fn envelope_bytes(self) -> usize {
        ENVELOPE + self.each * (REQUEST + OPERATION)
    }

    /// What a proposal has behind its authentication.
    pub fn proposal_bytes(self) -> usize {
        1 + 8 + 8 + 8 + 4 + self.envelopes * (1 + self.envelope_bytes())
    }

    /// What a client does in a group of so many, that believes so many equal replies.
    pub fn client(self, n: usize, replies: usize) -> Spent {
        Spent {
            signatures_made: 1,
            frames_sealed: 1,
            frames_opened: n as u64,
            hashes: 2 + (replies * self.each) as u64,
            ..Spent::default()
        }
    }

    pub fn requests(self, count: usize) -> (&'static str, Sum) {
        ("request", sum(count, 1 + self.envelope_bytes()))
    }

    pub fn speculative(self, count: usize) -> (&'static str, Sum) {
        ("speculative", sum(count, 1 + HINT + PLACE + 4 + self.each * (RESULT + OPERATION)))
    }

    pub fn replies(self, count: usize) -> (&'static str, Sum) {
        ("replies", sum(count, 1 + 8 + 4 + self.each * (RESULT + OPERATION)))
    }
}

pub fn sum(messages: usize, bytes_each: usize) -> Sum {
    Sum { messages: messages as u64, bytes: (messages * bytes_each) as u64 }
}

pub fn traffic<const A: usize, const B: usize>(
    came: [(&'static str, Sum); A],
    left: [(&'static str, Sum); B],
) -> Traffic {
    let nonzero = |sums: &[(&'static str, Sum)]| {
        sums.iter().copied().filter(|(_, sum)| sum.messages > 0).collect()
    };
    Traffic { came: nonzero(&came), left: nonzero(&left) }
}

pub const PRIMARY: Node = Node::Replica(ReplicaId(0));

/// All but the primary, of so many.
pub fn backups(n: usize) -> impl Iterator<Item = Node> {
    (1..n as u16).map(|id| Node::Replica(ReplicaId(id)))
}

/// A group that has begun. The first batch alone marks the state to which the group would go back.
pub fn begun(protocol: &str, f: usize, clients: usize, each: usize) -> Group {
    let mut group = level(protocol, f, clients);
    group.submit(each, OPERATION);
    group.settle(each, &mut Unwatched);
    group.take_traffic();
    group
}

/// The counts are the process's: one group at a time.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group that has begun, and whose replicas know that they are level.
pub fn level(protocol: &str, f: usize, clients: usize) -> Group {
    let mut group = group(find(protocol).expect("it is a protocol"), f, clients);
    group.level(&mut Unwatched);
    group.take_traffic();
    group
}
