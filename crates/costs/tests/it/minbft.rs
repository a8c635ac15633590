//! MinBFT's costs, exactly. `docs/costs.md` derives the formulas and compares them with the
//! paper's; whoever adds a message or a check has to change both.

use crate::real::{Ledger, Spent, group};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_SLOTS;
use pentarchy_core::protocol::Delay;
use pentarchy_costs::group::{Group, Sum, Traffic};
use pentarchy_costs::{Node, Unwatched};
use pentarchy_protocols::find;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Bytes of an operation and of its result.
const OPERATION: usize = 64;
/// Bytes of a message between replicas before its body: which kind of message, epoch, author, and
/// how it convinces: by a counter's MAC, a signature or the channel.
const HEAD: usize = 1 + 8 + 2;
const USIG: usize = 1 + 8 + 16 + 16 + 1 + 32;
const SIGNATURE: usize = 1 + 64;
const CHANNEL: usize = 1;
/// An envelope without its requests, signed, of a client that does not listen; a request and a
/// result without their bytes.
const ENVELOPE: usize = 32 + 8 + 1 + 4 + 1 + 64;
const REQUEST: usize = 8 + 4;
const RESULT: usize = 8 + 1 + 4;

/// One batch: so many envelopes, each of so many requests.
#[derive(Clone, Copy, Debug)]
struct Batch {
    f: usize,
    envelopes: usize,
    each: usize,
}

impl Batch {
    /// Every mix of group and batch that is counted: one request of each of many clients, as in the
    /// paper, and many requests of one client.
    fn all() -> impl Iterator<Item = Self> {
        let sizes = [(1, 1), (10, 1), (100, 1), (1, 10), (1, 100)];
        let of = move |f| sizes.map(move |(envelopes, each)| Self { f, envelopes, each });
        (1..=3).flat_map(of)
    }

    fn n(self) -> usize {
        2 * self.f + 1
    }

    fn envelope_bytes(self) -> usize {
        ENVELOPE + self.each * (REQUEST + OPERATION)
    }

    /// What every replica checks and makes, whatever its part.
    fn replica(self, frames_opened: usize) -> Spent {
        let (f, e) = (self.f as u64, self.envelopes as u64);
        Spent {
            signatures_verified: e,
            usigs_created: 1,
            usigs_verified: f,
            frames_sealed: 2 * f + e,
            frames_opened: frames_opened as u64,
            hashes: 3 * e + f + 2,
            ..Spent::default()
        }
    }

    fn client(self) -> Spent {
        Spent {
            signatures_made: 1,
            frames_sealed: 1,
            frames_opened: self.n() as u64,
            hashes: 2 + (self.f as u64 + 1) * self.each as u64,
            ..Spent::default()
        }
    }

    fn prepare(self) -> usize {
        HEAD + USIG + 1 + 8 + 8 + 8 + 4 + self.envelopes * (1 + self.envelope_bytes())
    }

    fn requests(self, count: usize) -> (&'static str, Sum) {
        ("request", sum(count, 1 + self.envelope_bytes()))
    }

    fn replies(self, count: usize) -> (&'static str, Sum) {
        ("replies", sum(count, 1 + 8 + 4 + self.each * (RESULT + OPERATION)))
    }
}

const COMMIT: usize = HEAD + USIG + 1 + 8 + 8 + 32;

fn sum(messages: usize, bytes_each: usize) -> Sum {
    Sum { messages: messages as u64, bytes: (messages * bytes_each) as u64 }
}

fn traffic<const A: usize, const B: usize>(
    came: [(&'static str, Sum); A],
    left: [(&'static str, Sum); B],
) -> Traffic {
    let nonzero = |sums: &[(&'static str, Sum)]| {
        sums.iter().copied().filter(|(_, sum)| sum.messages > 0).collect()
    };
    Traffic { came: nonzero(&came), left: nonzero(&left) }
}

const PRIMARY: Node = Node::Replica(ReplicaId(0));

fn backups(f: usize) -> impl Iterator<Item = Node> {
    (1..=2 * f as u16).map(|id| Node::Replica(ReplicaId(id)))
}

/// The counts are the process's: one group at a time.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A group that has begun, and whose replicas know that they are level.
fn level(f: usize, clients: usize) -> Group {
    let mut group = group(find("minbft").expect("it is a protocol"), f, clients);
    group.level(&mut Unwatched);
    group.take_traffic();
    group
}

#[test]
fn a_batch_costs_what_the_formulas_say() {
    let _alone = alone();
    for batch in Batch::all() {
        let Batch { f, envelopes: e, each } = batch;
        let mut group = level(f, e);
        let mut ledger = Ledger::default();
        group.submit(each, OPERATION);
        let steps = group.settle(each, &mut ledger);
        let seen = group.take_traffic();

        // With two commitments to reach, a backup's own is the second.
        assert_eq!(steps, if f == 1 { 3 } else { 4 }, "{batch:?}");

        assert_eq!(ledger.0[&PRIMARY], batch.replica(e + 2 * f), "{batch:?}");
        let (prepares, commits) = (sum(2 * f, batch.prepare()), sum(2 * f, COMMIT));
        let came = [batch.requests(e), ("commit", commits)];
        let left = [("prepare", prepares), batch.replies(e)];
        assert_eq!(seen[&PRIMARY], traffic(came, left), "{batch:?}");

        for backup in backups(f) {
            assert_eq!(ledger.0[&backup], batch.replica(2 * f), "{batch:?}");
            let of_others = sum(2 * f - 1, COMMIT);
            let came = [("prepare", sum(1, batch.prepare())), ("commit", of_others)];
            let left = [("commit", commits), batch.replies(e)];
            assert_eq!(seen[&backup], traffic(came, left), "{batch:?}");
        }
        for client in (0..e).map(Node::Client) {
            assert_eq!(ledger.0[&client], batch.client(), "{batch:?}");
            let (came, left) = ([batch.replies(batch.n())], [batch.requests(1)]);
            assert_eq!(seen[&client], traffic(came, left), "{batch:?}");
        }
    }
}

#[test]
fn the_primary_does_most_and_a_large_batch_brings_that_down_to_two_macs() {
    let _alone = alone();
    for f in 1..=3 {
        for b in [1, 10, 100] {
            let mut group = level(f, b);
            let mut ledger = Ledger::default();
            group.submit(1, OPERATION);
            group.settle(1, &mut ledger);
            let macs = |node: Node| {
                let spent = ledger.0[&node];
                let counters = spent.usigs_created + spent.usigs_verified;
                counters + spent.macs + spent.frames_sealed + spent.frames_opened
            };
            let (f, b) = (f as u64, b as u64);
            // 2 + (5f + 1)/b for each request of the batch.
            assert_eq!(macs(PRIMARY), 2 * b + 5 * f + 1);
            for backup in backups(f as usize) {
                assert_eq!(macs(backup), b + 5 * f + 1);
            }
        }
    }
}

#[test]
fn a_checkpoint_costs_a_signature_and_a_check_for_each_fault() {
    let _alone = alone();
    for f in 1..=3 {
        let mut group = level(f, 1);
        let mut ledger = Ledger::default();
        // The second one: only what changed since the first is hashed.
        for slot in 1..=2 * CHECKPOINT_SLOTS {
            ledger = Ledger::default();
            group.take_traffic();
            group.submit(1, OPERATION);
            group.settle(slot as usize, &mut ledger);
        }
        let seen = group.take_traffic();
        let checkpoints = sum(2 * f, HEAD + SIGNATURE + 1 + 8 + 32);
        for (node, is_primary) in backups(f).map(|node| (node, false)).chain([(PRIMARY, true)]) {
            assert_eq!(seen[&node].came["checkpoint"], checkpoints);
            assert_eq!(seen[&node].left["checkpoint"], checkpoints);
            let came = if is_primary { "request" } else { "prepare" };
            let mut expected = ["checkpoint", "commit", came];
            expected.sort_unstable();
            assert!(seen[&node].came.keys().eq(&expected), "{:?}", seen[&node].came);

            let f = f as u64;
            let (batch, spent) = (Batch { f: f as usize, envelopes: 1, each: 1 }, ledger.0[&node]);
            let more = Spent {
                signatures_made: 1,
                signatures_verified: 1 + f,
                // Statements, and what is remembered of them; in the tree, the leaves of header,
                // client and service, the two nodes above them, and the state as a whole.
                hashes: batch.replica(0).hashes + 1 + 2 * f + 6,
                frames_sealed: spent.frames_sealed,
                frames_opened: spent.frames_opened,
                ..batch.replica(0)
            };
            assert_eq!(spent, more, "{node:?}");
        }
    }
}

#[test]
fn between_batches_replicas_report_twice_and_fall_silent() {
    let _alone = alone();
    for f in 1..=3 {
        let mut group = level(f, 1);
        group.submit(1, OPERATION);
        group.settle(1, &mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        assert_eq!(group.level(&mut ledger), 2);
        let reports = sum(2 * (2 * f), HEAD + CHANNEL + 1 + 8 + 1 + 3 * 8 + 3 * 8 + 8);
        for (node, seen) in group.take_traffic() {
            assert_eq!(seen, traffic([("report", reports)], [("report", reports)]), "{node:?}");
            let frames = reports.messages;
            let spent = Spent { frames_sealed: frames, frames_opened: frames, ..Spent::default() };
            assert_eq!(ledger.0[&node], spent, "{node:?}");
        }
        for id in 0..=2 * f as u16 {
            assert_eq!(group.delays(ReplicaId(id)), Vec::<Delay>::new());
        }
    }
}
