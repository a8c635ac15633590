//! PBFT's costs, exactly. `docs/costs.md` derives the formulas and compares them with what the
//! papers say; whoever adds a message or a check has to change both.

use crate::formulas::{
    Batch, CHANNEL, HEAD, OPERATION, PRIMARY, SIGNATURE, TRUSTED_MAC, alone, backups, begun, level,
    sum, traffic,
};
use crate::ledger::{Ledger, Spent};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_SLOTS;
use pentarchy_core::protocol::Delay;
use pentarchy_costs::group::{Group, Sum};
use pentarchy_costs::{Node, Unwatched};

/// Behind its authentication.
const PREPARE: usize = 1 + 8 + 8 + 32;
const COMMIT: usize = HEAD + CHANNEL + 1 + 8 + 8 + 32;

/// By what votes convince.
#[derive(Clone, Copy, PartialEq)]
enum Votes {
    Signed,
    Maced,
}

impl Votes {
    fn bytes(self) -> usize {
        match self {
            Self::Signed => SIGNATURE,
            Self::Maced => TRUSTED_MAC,
        }
    }
}

impl Batch {
    /// What every replica checks and makes, whatever its part.
    fn pbft_replica(self, votes: Votes, frames_opened: usize) -> Spent {
        let (f, e) = (self.f as u64, self.envelopes as u64);
        let usual = Spent {
            signatures_verified: e,
            frames_sealed: 6 * f + e,
            frames_opened: frames_opened as u64,
            hashes: 3 * e + 2 * f + 2,
            ..Spent::default()
        };
        match votes {
            // What is found good is remembered, which takes a digest.
            Votes::Signed => Spent {
                signatures_made: 1,
                signatures_verified: e + 2 * f,
                hashes: usual.hashes + 2 * f,
                ..usual
            },
            Votes::Maced => Spent { usigs_created: 1, usigs_verified: 2 * f, ..usual },
        }
    }

    fn pre_prepare(self, votes: Votes) -> usize {
        HEAD + votes.bytes() + self.proposal_bytes()
    }
}

#[test]
fn a_batch_costs_what_the_formulas_say() {
    let _alone = alone();
    for batch in Batch::all() {
        let mut group = level("pbft", batch.f, batch.envelopes);
        a_batch_costs(&mut group, batch, Votes::Signed, (0, 5, 0), Batch::replies);
    }
}

/// A trusted MAC in the place of each signature of a vote, and nothing else.
#[test]
fn trusted_macs_stand_where_signatures_of_votes_stood() {
    let _alone = alone();
    for batch in Batch::all() {
        let mut group = level("hybrid-pbft", batch.f, batch.envelopes);
        a_batch_costs(&mut group, batch, Votes::Maced, (0, 5, 0), Batch::replies);
    }
}

/// The same, and who tells a client tells it one step earlier, on what the result rests; a digest
/// names that.
#[test]
fn tentative_execution_saves_a_step_and_costs_a_digest() {
    let _alone = alone();
    for batch in Batch::all() {
        let mut group = begun("pbft-tentative", batch.f, batch.envelopes, batch.each);
        let (signed, takes) = (Votes::Signed, (batch.each, 4, 1));
        a_batch_costs(&mut group, batch, signed, takes, Batch::speculative);
    }
}

/// The next batch, in a group whose clients have so many results already, takes so many steps, and
/// so many digests more than usual.
fn a_batch_costs(
    group: &mut Group,
    batch: Batch,
    votes: Votes,
    (before, takes, more): (usize, usize, u64),
    answers: fn(Batch, usize) -> (&'static str, Sum),
) {
    let Batch { f, envelopes: e, each } = batch;
    let mut ledger = Ledger::default();
    group.submit(each, OPERATION);
    let steps = group.settle(before + each, &mut ledger);
    let seen = group.take_traffic();
    assert_eq!(steps, takes, "{batch:?}");

    let n = 3 * f + 1;
    let spent = |frames_opened| {
        let usual = batch.pbft_replica(votes, frames_opened);
        Spent { hashes: usual.hashes + more, ..usual }
    };
    let (prepare, pre_prepare) = (HEAD + votes.bytes() + PREPARE, batch.pre_prepare(votes));
    let commits = ("commit", sum(3 * f, COMMIT));
    assert_eq!(ledger.0[&PRIMARY], spent(e + 6 * f), "{batch:?}");
    let came = [batch.requests(e), ("prepare", sum(3 * f, prepare)), commits];
    let left = [("pre_prepare", sum(3 * f, pre_prepare)), commits, answers(batch, e)];
    assert_eq!(seen[&PRIMARY], traffic(came, left), "{batch:?}");

    for backup in backups(n) {
        assert_eq!(ledger.0[&backup], spent(6 * f), "{batch:?}");
        let proposal = ("pre_prepare", sum(1, pre_prepare));
        let came = [proposal, ("prepare", sum(3 * f - 1, prepare)), commits];
        let left = [("prepare", sum(3 * f, prepare)), commits, answers(batch, e)];
        assert_eq!(seen[&backup], traffic(came, left), "{batch:?}");
    }
    for client in (0..e).map(Node::Client) {
        assert_eq!(ledger.0[&client], batch.client(n, 2 * f + 1), "{batch:?}");
        let (came, left) = ([answers(batch, n)], [batch.requests(1)]);
        assert_eq!(seen[&client], traffic(came, left), "{batch:?}");
    }
}

#[test]
fn a_large_batch_brings_the_primary_down_to_two_macs() {
    let _alone = alone();
    for f in 1..=3 {
        for b in [1, 10, 100] {
            let mut group = level("pbft", f, b);
            let mut ledger = Ledger::default();
            group.submit(1, OPERATION);
            group.settle(1, &mut ledger);
            let frames = |node: Node| {
                let spent = ledger.0[&node];
                assert_eq!((spent.macs, spent.usigs_created + spent.usigs_verified), (0, 0));
                spent.frames_sealed + spent.frames_opened
            };
            let (f, b) = (f as u64, b as u64);
            // 2 + 12f/b for each request of the batch, beside (2f + 1)/b signatures.
            assert_eq!(frames(PRIMARY), 2 * b + 12 * f);
            for backup in backups(3 * f as usize + 1) {
                assert_eq!(frames(backup), b + 12 * f);
            }
        }
    }
}

#[test]
fn a_checkpoint_costs_a_signature_and_a_check_for_each_other_that_proves_it() {
    let _alone = alone();
    for f in 1..=3 {
        let n = 3 * f + 1;
        let mut group = level("pbft", f, 1);
        let mut ledger = Ledger::default();
        // The second one: only what changed since the first is hashed.
        for slot in 1..=2 * CHECKPOINT_SLOTS {
            ledger = Ledger::default();
            group.take_traffic();
            group.submit(1, OPERATION);
            group.settle(slot as usize, &mut ledger);
        }
        let seen = group.take_traffic();
        let checkpoints = sum(3 * f, HEAD + SIGNATURE + 1 + 8 + 32);
        for node in backups(n).chain([PRIMARY]) {
            assert_eq!(seen[&node].came["checkpoint"], checkpoints);
            assert_eq!(seen[&node].left["checkpoint"], checkpoints);
            let (batch, spent) = (Batch { f, envelopes: 1, each: 1 }, ledger.0[&node]);
            let f = f as u64;
            let usual = batch.pbft_replica(Votes::Signed, 0);
            let more = Spent {
                signatures_made: 2,
                signatures_verified: usual.signatures_verified + 2 * f,
                // Statements, and what is remembered of those of others; in the tree, the leaves of
                // header, client and service, the two nodes above them, and the state as a whole.
                hashes: usual.hashes + 1 + 4 * f + 6,
                frames_sealed: spent.frames_sealed,
                frames_opened: spent.frames_opened,
                ..usual
            };
            assert_eq!(spent, more, "{node:?}");
        }
    }
}

#[test]
fn between_batches_replicas_report_twice_and_fall_silent() {
    let _alone = alone();
    for f in 1..=3 {
        let mut group = level("pbft", f, 1);
        group.submit(1, OPERATION);
        group.settle(1, &mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        assert_eq!(group.level(&mut ledger), 2);
        let report = HEAD + CHANNEL + 1 + 8 + 1 + 8 + 3 * 8 + 8 + 8;
        let reports = sum(2 * (3 * f), report);
        for (node, seen) in group.take_traffic() {
            assert_eq!(seen, traffic([("report", reports)], [("report", reports)]), "{node:?}");
            let frames = reports.messages;
            let spent = Spent { frames_sealed: frames, frames_opened: frames, ..Spent::default() };
            assert_eq!(ledger.0[&node], spent, "{node:?}");
        }
        for id in 0..=3 * f as u16 {
            assert_eq!(group.delays(ReplicaId(id)), Vec::<Delay>::new());
        }
    }
}
