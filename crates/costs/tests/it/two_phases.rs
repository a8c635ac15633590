//! The costs of MinBFT and of Hybster, exactly: they differ in reports only. `docs/costs.md`
//! derives the formulas and compares them with the paper's; whoever adds a message or a check
//! has to change both.

use crate::formulas::{
    Batch, CHANNEL, HEAD, OPERATION, PRIMARY, SIGNATURE, alone, backups, level, sum, traffic,
};
use crate::ledger::{Ledger, Spent};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_SLOTS;
use pentarchy_core::protocol::Delay;
use pentarchy_costs::{Node, Unwatched};
use pentarchy_protocols::{DEFAULT, EXAMPLES};

/// The protocols, and what a report of each has beside what all have: MinBFT whether the view was
/// opened, and who acknowledged and entered it; Hybster from which view it comes, how far it left
/// others, and who has entered.
const PROTOCOLS: [(&str, usize); 2] =
    [(DEFAULT.rules.name, 1 + 2 * 8), (EXAMPLES.split.rules.name, 8 + 8 + 8)];

pub const USIG: usize = 1 + 8 + 16 + 16 + 1 + 32;
pub const COMMIT: usize = HEAD + USIG + 1 + 8 + 8 + 32;

impl Batch {
    /// What every replica checks and makes, whatever its part.
    pub fn two_phases(self, frames_opened: usize) -> Spent {
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

    pub fn prepare(self) -> usize {
        HEAD + USIG + self.proposal_bytes()
    }
}

/// Each protocol with up to so many faults.
fn each() -> impl Iterator<Item = (&'static str, usize)> {
    PROTOCOLS.into_iter().flat_map(|(protocol, _)| (1..=3).map(move |f| (protocol, f)))
}

#[test]
fn a_batch_costs_what_the_formulas_say() {
    let _alone = alone();
    let all = |protocol| Batch::all().map(move |batch| (protocol, batch));
    for (protocol, batch) in PROTOCOLS.into_iter().flat_map(|(protocol, _)| all(protocol)) {
        let Batch { f, envelopes: e, each } = batch;
        let mut group = level(protocol, f, e);
        let mut ledger = Ledger::default();
        group.submit(each, OPERATION);
        let steps = group.settle(each, &mut ledger);
        let seen = group.take_traffic();

        // With two commitments to reach, a backup's own is the second.
        assert_eq!(steps, if f == 1 { 3 } else { 4 }, "{batch:?}");

        assert_eq!(ledger.0[&PRIMARY], batch.two_phases(e + 2 * f), "{batch:?}");
        let (prepares, commits) = (sum(2 * f, batch.prepare()), sum(2 * f, COMMIT));
        let came = [batch.requests(e), ("commit", commits)];
        let left = [("prepare", prepares), batch.replies(e)];
        assert_eq!(seen[&PRIMARY], traffic(came, left), "{batch:?}");

        for backup in backups(2 * f + 1) {
            assert_eq!(ledger.0[&backup], batch.two_phases(2 * f), "{batch:?}");
            let of_others = sum(2 * f - 1, COMMIT);
            let came = [("prepare", sum(1, batch.prepare())), ("commit", of_others)];
            let left = [("commit", commits), batch.replies(e)];
            assert_eq!(seen[&backup], traffic(came, left), "{batch:?}");
        }
        for client in (0..e).map(Node::Client) {
            assert_eq!(ledger.0[&client], batch.client(2 * f + 1, f + 1), "{batch:?}");
            let (came, left) = ([batch.replies(2 * f + 1)], [batch.requests(1)]);
            assert_eq!(seen[&client], traffic(came, left), "{batch:?}");
        }
    }
}

#[test]
fn the_primary_does_most_and_a_large_batch_brings_that_down_to_two_macs() {
    let _alone = alone();
    for (protocol, f) in each() {
        for b in [1, 10, 100] {
            let mut group = level(protocol, f, b);
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
            for backup in backups(2 * f as usize + 1) {
                assert_eq!(macs(backup), b + 5 * f + 1);
            }
        }
    }
}

#[test]
fn a_checkpoint_costs_a_signature_and_a_check_for_each_fault() {
    let _alone = alone();
    for (protocol, f) in each() {
        let mut group = level(protocol, f, 1);
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
        for (node, is_primary) in
            backups(2 * f + 1).map(|node| (node, false)).chain([(PRIMARY, true)])
        {
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
                hashes: batch.two_phases(0).hashes + 1 + 2 * f + 6,
                frames_sealed: spent.frames_sealed,
                frames_opened: spent.frames_opened,
                ..batch.two_phases(0)
            };
            assert_eq!(spent, more, "{node:?}");
        }
    }
}

#[test]
fn between_batches_replicas_report_twice_and_fall_silent() {
    let _alone = alone();
    for ((protocol, more), f) in PROTOCOLS.into_iter().flat_map(|it| (1..=3).map(move |f| (it, f)))
    {
        let mut group = level(protocol, f, 1);
        group.submit(1, OPERATION);
        group.settle(1, &mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        assert_eq!(group.level(&mut ledger), 2);
        let reports = sum(2 * (2 * f), HEAD + CHANNEL + 1 + 8 + 1 + 8 + 3 * 8 + 8 + more);
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
