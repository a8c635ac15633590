//! Hybster's costs, exactly, alone and with pillars. `docs/costs.md` derives the formulas; whoever
//! adds a message or a check has to change both.

use crate::formulas::{
    Batch, CHANNEL, HEAD, OPERATION, PRIMARY, SIGNATURE, alone, backups, level, sum, traffic,
};
use crate::ledger::{Ledger, Spent};
use crate::minbft::USIG;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_SLOTS;
use pentarchy_core::protocol::Delay;
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::group::Traffic;
use pentarchy_costs::real::split;
use pentarchy_costs::{Node, Unwatched};
use pentarchy_protocols::find;

const COMMIT: usize = HEAD + USIG + 1 + 8 + 8 + 32;

impl Batch {
    /// What every replica checks and makes, whatever its part.
    fn hybster_replica(self, frames_opened: usize) -> Spent {
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
}

#[test]
fn a_batch_costs_what_the_formulas_say() {
    let _alone = alone();
    for batch in Batch::all() {
        let Batch { f, envelopes: e, each } = batch;
        let mut group = level("hybster", f, e);
        let mut ledger = Ledger::default();
        group.submit(each, OPERATION);
        let steps = group.settle(each, &mut ledger);
        let seen = group.take_traffic();

        // With two commitments to reach, a backup's own is the second.
        assert_eq!(steps, if f == 1 { 3 } else { 4 }, "{batch:?}");

        assert_eq!(ledger.0[&PRIMARY], batch.hybster_replica(e + 2 * f), "{batch:?}");
        let (prepares, commits) = (sum(2 * f, batch.prepare()), sum(2 * f, COMMIT));
        let came = [batch.requests(e), ("commit", commits)];
        let left = [("prepare", prepares), batch.replies(e)];
        assert_eq!(seen[&PRIMARY], traffic(came, left), "{batch:?}");

        for backup in backups(2 * f + 1) {
            assert_eq!(ledger.0[&backup], batch.hybster_replica(2 * f), "{batch:?}");
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
fn a_checkpoint_costs_a_signature_and_a_check_for_each_fault() {
    let _alone = alone();
    for f in 1..=3 {
        let mut group = level("hybster", f, 1);
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
        for node in backups(2 * f + 1).chain([PRIMARY]) {
            assert_eq!(seen[&node].came["checkpoint"], checkpoints);
            assert_eq!(seen[&node].left["checkpoint"], checkpoints);
            let f = f as u64;
            let (batch, spent) = (Batch { f: f as usize, envelopes: 1, each: 1 }, ledger.0[&node]);
            let more = Spent {
                signatures_made: 1,
                signatures_verified: 1 + f,
                // As in MinBFT's case.
                hashes: batch.hybster_replica(0).hashes + 1 + 2 * f + 6,
                frames_sealed: spent.frames_sealed,
                frames_opened: spent.frames_opened,
                ..batch.hybster_replica(0)
            };
            assert_eq!(spent, more, "{node:?}");
        }
    }
}

#[test]
fn between_batches_replicas_report_twice_and_fall_silent() {
    let _alone = alone();
    for f in 1..=3 {
        let mut group = level("hybster", f, 1);
        group.submit(1, OPERATION);
        group.settle(1, &mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        assert_eq!(group.level(&mut ledger), 2);
        // The last three: from which view, how far it left others, and who has entered.
        let length = HEAD + CHANNEL + 1 + 8 + 1 + 8 + 3 * 8 + 8 + 8 + 8 + 8;
        let reports = sum(2 * (2 * f), length);
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

/// A row has a slot of each pillar, empty or not, whoever of them has the clients.
#[test]
fn with_pillars_a_row_costs_a_slot_of_each() {
    let _alone = alone();
    for (pillars, f, e) in [(2, 1, 1), (2, 1, 10), (2, 2, 1), (2, 3, 1), (4, 1, 1), (4, 3, 1)] {
        let batch = Batch { f, envelopes: e, each: 1 };
        let entry = find("hybster-pillars").expect("it is a protocol");
        let mut group = split(entry, f, pillars, e, Tuning::default());
        group.level(&mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        group.settle(1, &mut ledger);
        let seen = group.take_traffic();

        let (slots, others) = (u64::from(pillars), usize::from(pillars) - 1);
        let alone = batch.hybster_replica(0);
        let expected = |frames_opened: usize| Spent {
            usigs_created: slots * alone.usigs_created,
            usigs_verified: slots * alone.usigs_verified,
            // Beside what it is without pillars, the domain of each statement.
            hashes: 3 * e as u64 + slots * (2 * f as u64 + 3),
            frames_opened: frames_opened as u64,
            ..alone
        };
        assert_eq!(ledger.0[&PRIMARY], expected(e + 2 * f), "{pillars} {batch:?}");
        // Each says its pillar.
        let empty = Batch { envelopes: 0, ..batch }.prepare() + 1;
        let prepares = batch.prepare() + 1 + others * empty;
        let Traffic { came, left } = &seen[&PRIMARY];
        let slots = usize::from(pillars);
        let commits = sum(2 * f * slots, COMMIT + 1);
        assert_eq!((came["commit"], left["prepare"].bytes), (commits, (2 * f * prepares) as u64));
        assert_eq!(left["prepare"].messages, (2 * f * slots) as u64);
        for backup in backups(2 * f + 1) {
            assert_eq!(ledger.0[&backup], expected(2 * f), "{pillars} {batch:?}");
            assert_eq!(seen[&backup].left["commit"], commits);
        }
    }
}
