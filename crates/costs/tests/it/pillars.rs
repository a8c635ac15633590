//! What a protocol of two phases costs with pillars, exactly; without them, see
//! [`two_phases`](crate::two_phases).

use crate::formulas::{Batch, OPERATION, PRIMARY, alone, backups, sum};
use crate::ledger::{Ledger, Spent};
use crate::two_phases::COMMIT;
use pentarchy_core::protocol::Tuning;
use pentarchy_costs::Unwatched;
use pentarchy_costs::group::Traffic;
use pentarchy_costs::real::split;
use pentarchy_protocols::{EXAMPLES, in_pillars};

/// A row has a slot of each pillar, empty or not, whoever of them has the clients.
#[test]
fn with_pillars_a_row_costs_a_slot_of_each() {
    let _alone = alone();
    for (pillars, f, e) in [(2, 1, 1), (2, 1, 10), (2, 2, 1), (2, 3, 1), (4, 1, 1), (4, 3, 1)] {
        let batch = Batch { f, envelopes: e, each: 1 };
        let entry = in_pillars(EXAMPLES.split.rules.name).expect("it can be split");
        let mut group = split(entry, f, pillars, e, Tuning::default());
        group.level(&mut Unwatched);
        group.take_traffic();
        let mut ledger = Ledger::default();
        group.submit(1, OPERATION);
        group.settle(1, &mut ledger);
        let seen = group.take_traffic();

        let (slots, others) = (u64::from(pillars), usize::from(pillars) - 1);
        let alone = batch.two_phases(0);
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
