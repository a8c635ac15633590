//! MinZyzzyva's costs, exactly. `docs/costs.md` derives the formulas and compares them with the
//! paper's; whoever adds a message or a check has to change both.

use crate::formulas::{Batch, OPERATION, PRIMARY, alone, backups, begun, sum, traffic};
use crate::ledger::{Ledger, Spent};
use crate::two_phases::COMMIT;
use pentarchy_core::ids::ReplicaId;
use pentarchy_costs::{Node, Unwatched};

impl Batch {
    /// What the primary does, or a backup.
    fn minzyzzyva(self, is_primary: bool) -> Spent {
        let (others, e) = (2 * self.f as u64, self.envelopes as u64);
        let usual = Spent { signatures_verified: e, hashes: 3 * e + 3, ..Spent::default() };
        match is_primary {
            true => {
                Spent { usigs_created: 1, frames_sealed: others + e, frames_opened: e, ..usual }
            }
            false => Spent { usigs_verified: 1, frames_sealed: e, frames_opened: 1, ..usual },
        }
    }
}

#[test]
fn a_batch_costs_what_the_formulas_say() {
    let _alone = alone();
    for batch in Batch::all() {
        let Batch { f, envelopes: e, each } = batch;
        let n = 2 * f + 1;
        let mut group = begun("minzyzzyva", f, e, each);
        let mut ledger = Ledger::default();
        group.submit(each, OPERATION);
        let steps = group.settle(2 * each, &mut ledger);
        let seen = group.take_traffic();
        assert_eq!(steps, 3, "{batch:?}");

        assert_eq!(ledger.0[&PRIMARY], batch.minzyzzyva(true), "{batch:?}");
        let left = [("prepare", sum(n - 1, batch.prepare())), batch.speculative(e)];
        assert_eq!(seen[&PRIMARY], traffic([batch.requests(e)], left), "{batch:?}");
        for backup in backups(n) {
            assert_eq!(ledger.0[&backup], batch.minzyzzyva(false), "{batch:?}");
            let came = [("prepare", sum(1, batch.prepare()))];
            assert_eq!(seen[&backup], traffic(came, [batch.speculative(e)]), "{batch:?}");
        }
        for client in (0..e).map(Node::Client) {
            assert_eq!(ledger.0[&client], batch.client(n, n), "{batch:?}");
            let (came, left) = ([batch.speculative(n)], [batch.requests(1)]);
            assert_eq!(seen[&client], traffic(came, left), "{batch:?}");
        }
    }
}

/// `2 + (2f + 1)/b` frames and certificates for a request at the primary.
#[test]
fn the_primary_does_a_mac_for_each_backup_and_one_certificate_for_a_batch() {
    let _alone = alone();
    for (f, b) in (1..=3).flat_map(|f| [1, 10, 100].map(|b| (f, b))) {
        let mut group = begun("minzyzzyva", f, b, 1);
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        group.settle(2, &mut ledger);
        let macs = |node: Node| {
            let spent = ledger.0[&node];
            let counters = spent.usigs_created + spent.usigs_verified;
            (counters + spent.macs + spent.frames_sealed + spent.frames_opened) as usize
        };
        assert_eq!(macs(PRIMARY), 2 * b + 2 * f + 1, "{f} {b}");
        for backup in backups(2 * f + 1) {
            assert_eq!(macs(backup), b + 2, "{f} {b}");
        }
    }
}

/// With `f` backups gone a client has the slot settled: it asks all, the others commit, and `f + 1`
/// tell it that the slot is final.
#[test]
fn without_some_backups_a_request_takes_six_steps() {
    let _alone = alone();
    for f in 1..=3 {
        let batch = Batch { f, envelopes: 1, each: 1 };
        let (n, answer) = (2 * f + 1, f + 1);
        let mut group = begun("minzyzzyva", f, 1, 1);
        (answer..n).for_each(|id| group.crash(ReplicaId(id as u16)));
        group.submit(1, OPERATION);
        let steps = group.settle(2, &mut Unwatched);
        let seen = group.take_traffic();
        // With one fault a backup's own COMMIT makes the slot final to it, one step earlier; but
        // the other one to say so is the primary.
        assert_eq!(steps, 6, "{f}");
        let settle = sum(n, 1 + 4 + 1 + 8 + 8);
        let committed = sum(answer, 1 + crate::formulas::PLACE);
        let came = [batch.speculative(answer), ("committed", committed)];
        let left = [batch.requests(1), ("client_protocol", settle)];
        assert_eq!(seen[&Node::Client(0)], traffic(came, left), "{f}");
        for backup in backups(answer) {
            assert_eq!(seen[&backup].left["commit"], sum(n - 1, COMMIT), "{f}");
        }
    }
}
