//! The costs of Zyzzyva and Zyzzyva5, exactly. `docs/costs.md` derives the formulas and compares
//! them with what the papers say; whoever adds a message or a check has to change both.

use crate::formulas::{
    Batch, CHANNEL, HEAD, OPERATION, PLACE, PRIMARY, SIGNATURE, alone, backups, begun, level, sum,
    traffic,
};
use crate::ledger::{Ledger, Spent};
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::limits::CHECKPOINT_SLOTS;
use pentarchy_core::protocol::Delay;
use pentarchy_costs::group::Sum;
use pentarchy_costs::{Node, Unwatched};

const VOTE: usize = HEAD + SIGNATURE + 1 + PLACE;
const COMMIT: usize = HEAD + CHANNEL + 1 + PLACE;
const CHECKPOINT: usize = HEAD + SIGNATURE + 1 + 8 + 32 + 32;

/// Zyzzyva or Zyzzyva5.
#[derive(Clone, Copy, Debug)]
struct Kind {
    name: &'static str,
    /// Replicas for each fault.
    factor: usize,
}

const BOTH: [Kind; 2] = [Kind { name: "zyzzyva", factor: 3 }, Kind { name: "zyzzyva5", factor: 5 }];

impl Kind {
    const fn n(self, f: usize) -> usize {
        self.factor * f + 1
    }

    /// Equal answers with which a client is done at once.
    const fn fast(self, f: usize) -> usize {
        if self.factor == 5 { self.n(f) - f } else { self.n(f) }
    }

    /// Signatures of a commit certificate.
    const fn quorum(self, f: usize) -> usize {
        self.factor.div_ceil(2) * f + 1
    }
}

impl Batch {
    /// What the primary does.
    fn zyzzyva_primary(self, kind: Kind) -> Spent {
        let (others, e) = ((kind.n(self.f) - 1) as u64, self.envelopes as u64);
        Spent {
            signatures_made: 1,
            signatures_verified: e,
            frames_sealed: others + e,
            frames_opened: e,
            hashes: 3 * e + 4,
            ..Spent::default()
        }
    }

    /// What a backup does.
    fn zyzzyva_backup(self) -> Spent {
        let e = self.envelopes as u64;
        Spent {
            signatures_verified: e + 1,
            frames_sealed: e,
            frames_opened: 1,
            hashes: 3 * e + 4,
            ..Spent::default()
        }
    }

    fn order(self) -> usize {
        HEAD + SIGNATURE + 32 + self.proposal_bytes()
    }
}

#[test]
fn a_batch_costs_what_the_formulas_say() {
    let _alone = alone();
    for (kind, batch) in BOTH.into_iter().flat_map(|kind| Batch::all().map(move |b| (kind, b))) {
        let Batch { f, envelopes: e, each } = batch;
        let n = kind.n(f);
        let mut group = begun(kind.name, f, e, each);
        let mut ledger = Ledger::default();
        group.submit(each, OPERATION);
        let steps = group.settle(2 * each, &mut ledger);
        let seen = group.take_traffic();
        assert_eq!(steps, 3, "{kind:?} {batch:?}");

        assert_eq!(ledger.0[&PRIMARY], batch.zyzzyva_primary(kind), "{kind:?} {batch:?}");
        let left = [("order", sum(n - 1, batch.order())), batch.speculative(e)];
        assert_eq!(seen[&PRIMARY], traffic([batch.requests(e)], left), "{kind:?} {batch:?}");

        for backup in backups(n) {
            assert_eq!(ledger.0[&backup], batch.zyzzyva_backup(), "{kind:?} {batch:?}");
            let came = [("order", sum(1, batch.order()))];
            assert_eq!(seen[&backup], traffic(came, [batch.speculative(e)]), "{kind:?} {batch:?}");
        }
        for client in (0..e).map(Node::Client) {
            assert_eq!(ledger.0[&client], batch.client(n, kind.fast(f)), "{kind:?} {batch:?}");
            let (came, left) = ([batch.speculative(n)], [batch.requests(1)]);
            assert_eq!(seen[&client], traffic(came, left), "{kind:?} {batch:?}");
        }
    }
}

/// The paper's table, with one frame for each of its MACs.
#[test]
fn the_primary_does_as_many_macs_as_the_paper_says() {
    let _alone = alone();
    for kind in BOTH {
        for f in 1..=3 {
            for b in [1, 10, 100] {
                let mut group = level(kind.name, f, b);
                let mut ledger = Ledger::default();
                group.submit(1, OPERATION);
                group.settle(1, &mut ledger);
                let frames = |node: Node| {
                    let spent = ledger.0[&node];
                    assert_eq!((spent.macs, spent.usigs_created + spent.usigs_verified), (0, 0));
                    (spent.frames_sealed + spent.frames_opened) as usize
                };
                // 2 + 3f/b for each request of the batch, or 2 + 5f/b, beside its signatures.
                assert_eq!(frames(PRIMARY), 2 * b + kind.factor * f, "{kind:?} {f} {b}");
                for backup in backups(kind.n(f)) {
                    assert_eq!(frames(backup), b + 1, "{kind:?} {f} {b}");
                }
            }
        }
    }
}

/// With as many backups gone as may be, a client of Zyzzyva makes a certificate and has it kept;
/// one of Zyzzyva5 has enough answers.
#[test]
fn without_some_backups_zyzzyva_takes_seven_steps_and_zyzzyva5_three() {
    let _alone = alone();
    for (kind, f) in BOTH.into_iter().flat_map(|kind| [1, 2, 3].map(|f| (kind, f))) {
        let batch = Batch { f, envelopes: 1, each: 1 };
        let (n, answer) = (kind.n(f), kind.n(f) - f);
        let mut group = begun(kind.name, f, 1, 1);
        (answer..n).for_each(|id| group.crash(ReplicaId(id as u16)));
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        let steps = group.settle(2, &mut ledger);
        let client = group.take_traffic().remove(&Node::Client(0)).unwrap_or_default();
        let (spent, usual) = (ledger.0[&Node::Client(0)], batch.client(answer, answer));
        if kind.factor == 5 {
            assert_eq!((steps, spent), (3, usual), "{kind:?} {f}");
            assert_eq!(ledger.0[&PRIMARY], batch.zyzzyva_primary(kind), "{kind:?} {f}");
            continue;
        }
        assert_eq!(steps, 7, "{kind:?} {f}");
        let vouched = ("vouched", sum(answer, 1 + PLACE + 64));
        let committed = ("committed", sum(answer, 1 + PLACE));
        // To all, as it does not know who is gone: sign this, and keep what you signed.
        let vouch = 1 + 4 + 1 + 8 + 8;
        let certificate = 1 + 4 + 1 + PLACE + 4 + kind.quorum(f) * (2 + 64);
        let asks = sum(n, vouch + certificate);
        let asks = ("client_protocol", Sum { messages: 2 * asks.messages, ..asks });
        let came = [batch.speculative(answer), vouched, committed];
        assert_eq!(client, traffic(came, [batch.requests(1), asks]), "{kind:?} {f}");
        let (frames_sealed, frames_opened) = (1 + 2 * n as u64, 3 * answer as u64);
        assert_eq!(spent, Spent { frames_sealed, frames_opened, ..usual }, "{kind:?} {f}");
    }
}

/// What was executed last becomes final when nothing else is to be done, and then there is silence.
#[test]
fn between_batches_what_rests_becomes_final_and_replicas_fall_silent() {
    let _alone = alone();
    for (kind, f) in BOTH.into_iter().flat_map(|kind| [1, 2, 3].map(|f| (kind, f))) {
        let mut group = level(kind.name, f, 1);
        group.submit(1, OPERATION);
        group.settle(1, &mut Unwatched);
        group.take_traffic();
        assert_eq!(group.level(&mut Unwatched), 4, "{kind:?} {f}");
        let others = kind.n(f) - 1;
        for (node, seen) in group.take_traffic() {
            let kinds: Vec<_> = seen.left.keys().copied().collect();
            assert_eq!(kinds, ["commit", "report", "vote"], "{kind:?} {f} {node:?}");
            assert_eq!(seen.left["report"].messages as usize, 4 * others, "{kind:?} {f} {node:?}");
            for (name, bytes) in [("commit", COMMIT), ("vote", VOTE)] {
                // Once, and once more to whoever had reported twice meanwhile.
                let Sum { messages, bytes: all } = seen.left[name];
                assert_eq!(all, messages * bytes as u64, "{kind:?} {f} {node:?}");
                let most = 2 * others;
                assert!((others..=most).contains(&(messages as usize)), "{kind:?} {f} {seen:?}");
            }
        }
        for id in 0..kind.n(f) as u16 {
            assert!(!group.delays(ReplicaId(id)).contains(&Delay::Resend), "{kind:?} {f}");
        }
    }
}

#[test]
fn a_checkpoint_is_voted_for_committed_and_signed() {
    let _alone = alone();
    for (kind, f) in BOTH.into_iter().flat_map(|kind| [(kind, 1), (kind, 2)]) {
        let mut group = level(kind.name, f, 1);
        let mut ledger = Ledger::default();
        // The second one: only what changed since the first is hashed.
        for slot in 1..=2 * CHECKPOINT_SLOTS {
            ledger = Ledger::default();
            group.take_traffic();
            group.submit(1, OPERATION);
            group.settle(slot as usize, &mut ledger);
        }
        let (seen, others) = (group.take_traffic(), kind.n(f) - 1);
        let batch = Batch { f, envelopes: 1, each: 1 };
        for node in backups(kind.n(f)).chain([PRIMARY]) {
            let left = &seen[&node].left;
            assert_eq!(left["checkpoint"], sum(others, CHECKPOINT), "{kind:?} {f}");
            assert_eq!(left["vote"], sum(others, VOTE), "{kind:?} {f}");
            assert_eq!(left["commit"], sum(others, COMMIT), "{kind:?} {f}");
            let usual =
                if node == PRIMARY { batch.zyzzyva_primary(kind) } else { batch.zyzzyva_backup() };
            let spent = ledger.0[&node];
            assert_eq!(spent.signatures_made, usual.signatures_made + 2, "{kind:?} {f}");
            let checked = spent.signatures_verified - usual.signatures_verified;
            // Signed states beyond a quorum's are redundant.
            assert_eq!(checked as usize, others + kind.quorum(f) - 1, "{kind:?} {f}");
            let hashes = usual.hashes + 6 + 2 * (others + kind.quorum(f)) as u64;
            assert_eq!(spent.hashes, hashes, "{kind:?} {f}");
        }
    }
}
