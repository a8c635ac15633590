//! How much of a replica's time queries may take. They are answered by the thread that does
//! everything else, they are small, and the service may need long for one: without a bound, one
//! client could keep all replicas from listening to each other.

use pentarchy_core::ids::ClientId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long the queries of one client may take in a round, ...
pub const CLIENT_QUERIES_TIME: Duration = Duration::from_millis(4);

/// ... and those of all clients.
pub const QUERIES_TIME: Duration = Duration::from_millis(16);

/// What a query took beyond that is owed. One millisecond of it is forgiven in this many, ...
const CLIENT_SHARE: u32 = 10;

/// ... and in this many of what all took.
const SHARE: u32 = 4;

/// What queries took lately.
#[derive(Default)]
pub struct QueryTime {
    clients: BTreeMap<ClientId, Duration>,
    all: Duration,
    round_ms: u64,
}

impl QueryTime {
    /// Another round begins. Clients that owe nothing are forgotten.
    pub fn begin_round(&mut self, now_ms: u64) {
        let elapsed = Duration::from_millis(now_ms.saturating_sub(self.round_ms));
        self.round_ms = now_ms;
        self.clients.retain(|_, owed| {
            *owed = remains(*owed, CLIENT_QUERIES_TIME, elapsed / CLIENT_SHARE);
            !owed.is_zero()
        });
        self.all = remains(self.all, QUERIES_TIME, elapsed / SHARE);
    }

    /// Whether something may be done for a client: not if enough was done for queries.
    pub fn may_spend(&self, client: &ClientId) -> bool {
        let owed = self.clients.get(client).copied().unwrap_or_default();
        owed < CLIENT_QUERIES_TIME && self.all < QUERIES_TIME
    }

    /// What was done for a client took so long.
    pub fn spent(&mut self, client: ClientId, took: Duration) {
        *self.clients.entry(client).or_default() += took;
        self.all += took;
    }
}

/// What remains of this in the next round.
fn remains(owed: Duration, of_round: Duration, forgiven: Duration) -> Duration {
    if owed < of_round { Duration::ZERO } else { owed.saturating_sub(forgiven) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ClientId = ClientId([1; 32]);
    const B: ClientId = ClientId([2; 32]);

    fn owing(owed: &[(ClientId, u64)]) -> QueryTime {
        let clients = owed.iter().map(|(id, ms)| (*id, Duration::from_millis(*ms))).collect();
        let all = owed.iter().map(|(_, ms)| Duration::from_millis(*ms)).sum();
        QueryTime { clients, all, round_ms: 1_000 }
    }

    #[test]
    fn a_client_that_took_its_share_waits_for_the_next_round_and_others_do_not() {
        let time = owing(&[(A, 4)]);
        assert!(!time.may_spend(&A));
        assert!(time.may_spend(&B));
        let mut time = owing(&[(A, 3)]);
        assert!(time.may_spend(&A));
        time.begin_round(1_000);
        assert!(time.clients.is_empty(), "what is below the share is not owed");
        assert!(time.may_spend(&A));
    }

    #[test]
    fn what_a_long_query_took_is_paid_for() {
        let mut time = owing(&[(A, 200)]);
        assert!(!time.may_spend(&B), "all together took too long");
        time.begin_round(1_750);
        assert!(time.may_spend(&B));
        assert!(!time.may_spend(&A), "it owes more than that");
        time.begin_round(2_990);
        assert!(time.may_spend(&A));
    }
}
