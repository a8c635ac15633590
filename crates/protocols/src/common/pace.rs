//! Whether the primary is fast enough: what a backup expects of it, after Aardvark (Clement et al.,
//! *Making Byzantine Fault Tolerant Systems Tolerate Byzantine Faults*, NSDI 2009) and Prime (Amir
//! et al., *Byzantine Replication Under Attack*). `docs/decisions/0004-slow-primaries.md` argues.
//!
//! * Clients show everyone a few of their envelopes, and the primary cannot tell which. What a
//!   backup knows of and still waits for a moment later, it passes on to the primary: it *demands*
//!   it. The time from there to execution is the primary's *turnaround*; of what came before it
//!   had to be demanded, 0. A client that leaves the primary out does not make it look slow.
//! * Under load, waiting is nobody's fault. So a turnaround is divided by the full batches that
//!   were executed meanwhile, if there was more than one.
//! * Each window, of each client the mean counts, and of the clients the median: the mean is what
//!   throughput comes from, and half of the clients together cannot make a primary look slow.
//! * Slots that other cores wait for ([`super::fill_demands`]) have turnarounds too, of which the
//!   mean counts. They take turns with all that is executed, in whichever core.
//! * A primary that is beyond what is tolerated in two windows in a row is suspected. Its
//!   successor is tolerated for twice as long, and as long again as the best of `f + 1` others
//!   took: where everything is slow, changing the primary soon stops.
//!
//! Any protocol with a primary and a [`super::request_queue`] can use it. Memory: one record for
//! each replica, and a sum for each of at most [`CLIENTS_JUDGED_MAX`] clients.

use alloc::collections::BTreeMap;
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::batch::Batch;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId};
use pentarchy_core::limits::{
    BATCH_BYTES_MAX, BATCH_ENVELOPES_MAX, BATCH_INLINE_BYTES, CLIENTS_JUDGED_MAX,
    TURNAROUND_MILLIS, TURNAROUND_MILLIS_MAX,
};
use pentarchy_core::mutant;

/// Between two looks at what waits: the head start that a request from a client gets.
pub const LOOK_MILLIS: u32 = 5;

/// Length of a window.
const WINDOW_MILLIS: u64 = 1_000;

/// Windows in a row in which a primary must be slow to be suspected: a stall is not slowness.
const STRIKES: u8 = 2;

/// After so much time without an objection, half of the patience that earlier ones left is gone.
const CALM_MILLIS: u64 = 60_000;

/// How long what another primary achieved is worth comparing with.
const RECORD_MILLIS: u64 = 600_000;

/// How much has been executed, in parts of a full batch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Work(u64);

/// A full batch.
const FULL: u64 = 1 << 20;

impl Work {
    /// Adds a batch: the part that it fills of the bound that it comes nearest to.
    pub fn add(&mut self, batch: &Batch, batch_requests: usize) {
        let part = |amount: usize, most: usize| amount as u64 * FULL / most.max(1) as u64;
        let inline = batch.envelopes.iter().filter(|it| !it.is_large()).map(|it| it.len()).sum();
        let filled = part(batch.requests(), batch_requests)
            .max(part(batch.envelopes.len(), BATCH_ENVELOPES_MAX))
            .max(part(inline, BATCH_INLINE_BYTES))
            .max(part(batch.bytes(), BATCH_BYTES_MAX));
        self.0 = self.0.wrapping_add(filled);
    }
}

/// From when on, and behind how much work, the primary can order an envelope or fill a slot.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Demand {
    /// When the envelope was passed on; for a slot, when the primary can have heard of it.
    pub since: Millis,
    /// What had been executed when this replica demanded it: of a slot that may be a moment before
    /// `since`, so that its turnaround is divided by a little more.
    pub work: Work,
}

impl Demand {
    /// Milliseconds until now, for each full batch that was executed meanwhile.
    fn turnaround(self, now: Millis, work: Work) -> u64 {
        let took = now.0.saturating_sub(self.since.0).min(TURNAROUND_MILLIS_MAX);
        took * FULL / work.0.wrapping_sub(self.work.0).max(FULL)
    }
}

/// What came of a window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Opinion {
    /// The primary is as fast as can be expected, or nothing is known of it.
    Content,
    /// It is not.
    Slow,
}

/// See the [module](self).
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pace {
    f: usize,
    work: Work,
    /// The same, with what cores beside this one did.
    all_work: Work,
    /// Sums and numbers of turnarounds in this window.
    clients: BTreeMap<ClientId, (u64, u64)>,
    /// The same of slots that other cores waited for.
    filled: (u64, u64),
    /// When the window began; none until the clock was heard.
    window: Option<Millis>,
    strikes: u8,
    slow: bool,
    /// What is tolerated of anybody.
    patience: u64,
    /// When patience last changed.
    changed: Millis,
    /// The last window's turnaround of each primary, and when that was.
    records: Vec<Option<(u64, Millis)>>,
}

impl Pace {
    /// Nothing is known yet, in a group of `n` of which `f` may be faulty.
    #[must_use]
    pub fn new(n: usize, f: usize) -> Self {
        Self {
            f,
            work: Work::default(),
            all_work: Work::default(),
            clients: BTreeMap::new(),
            filled: (0, 0),
            window: None,
            strikes: 0,
            slow: false,
            patience: TURNAROUND_MILLIS,
            changed: Millis(0),
            records: vec![None; n],
        }
    }

    /// What has been executed so far.
    #[must_use]
    pub const fn work(&self) -> Work {
        self.work
    }

    /// What has been executed so far here and in cores beside this one.
    #[must_use]
    pub const fn all_work(&self) -> Work {
        self.all_work
    }

    /// A batch is executed.
    pub fn executed(&mut self, batch: &Batch, batch_requests: usize) {
        self.work.add(batch, batch_requests);
        self.all_work.add(batch, batch_requests);
    }

    /// A batch is executed in a core beside this one.
    pub fn executed_beside(&mut self, batch: &Batch, batch_requests: usize) {
        self.all_work.add(batch, batch_requests);
    }

    /// An envelope of a client waits no longer, or has not come although it was demanded.
    pub fn note(&mut self, client: ClientId, demand: Option<Demand>, now: Millis) {
        let turnaround = demand.map_or(0, |demand| demand.turnaround(now, self.work));
        let room = self.clients.len() < CLIENTS_JUDGED_MAX;
        if room || self.clients.contains_key(&client) {
            let (sum, count) = self.clients.entry(client).or_default();
            (*sum, *count) = (*sum + turnaround, *count + 1);
        }
    }

    /// A slot that other cores waited for is there, or has not come although it was demanded.
    pub fn note_filled(&mut self, demand: Demand, now: Millis) {
        let (sum, count) = self.filled;
        let turnaround = demand.turnaround(now, self.all_work);
        self.filled = (sum + turnaround, count + 1);
    }

    /// Nothing was open for a while. The primary is found slow again if it is in the next window.
    pub fn pause(&mut self) {
        self.slow = false;
        self.strikes = self.strikes.min(STRIKES - 1);
    }

    /// Whether the primary is suspected.
    #[must_use]
    pub const fn is_slow(&self) -> bool {
        self.slow
    }

    /// At the end of which window something was last seen of a primary's pace.
    #[must_use]
    pub fn seen_at(&self, primary: ReplicaId) -> Option<Millis> {
        self.records[usize::from(primary.0)].map(|(_, at)| at)
    }

    /// Whether it is time to judge.
    #[must_use]
    pub fn is_due(&self, now: Millis) -> bool {
        self.window.is_some_and(|began| now.0 >= began.0 + WINDOW_MILLIS)
    }

    /// Begins the first window, if none is under way.
    pub fn begin(&mut self, now: Millis) {
        self.window.get_or_insert(now);
    }

    /// Ends a window of this primary's and begins the next.
    pub fn judge(&mut self, primary: ReplicaId, now: Millis) -> Opinion {
        self.window = Some(now);
        let clients = core::mem::take(&mut self.clients);
        let mut means: Vec<u64> = clients.values().map(|(sum, count)| sum / count).collect();
        means.sort_unstable();
        let median = means.get(means.len().saturating_sub(1) / 2).copied();
        let (sum, count) = core::mem::take(&mut self.filled);
        if let Some(turnaround) = median.max(sum.checked_div(count)) {
            let slow =
                turnaround > self.tolerated(primary, now) || mutant!("pace.deposes-at-random");
            self.strikes = if slow { (self.strikes + 1).min(STRIKES) } else { 0 };
            self.records[usize::from(primary.0)] = Some((turnaround, now));
        }
        if now.0 >= self.changed.0 + CALM_MILLIS && self.strikes == 0 {
            self.be_patient((self.patience / 2).max(TURNAROUND_MILLIS), now);
        }
        self.slow = self.strikes >= STRIKES && !mutant!("pace.slow-primary-kept");
        if self.slow { Opinion::Slow } else { Opinion::Content }
    }

    /// The turnaround that this primary may have: the patience that is left, or twice what the best
    /// of others achieved lately, if enough of them have been seen that one is correct.
    fn tolerated(&self, primary: ReplicaId, now: Millis) -> u64 {
        let ids = (0u16..).map(ReplicaId).zip(&self.records);
        let others = ids.filter(|(id, _)| *id != primary).filter_map(|(_, record)| *record);
        let fresh = others.filter(|(_, at)| now.0 < at.0 + RECORD_MILLIS);
        let (mut count, mut best) = (0, u64::MAX);
        for (turnaround, _) in fresh {
            (count, best) = (count + 1, best.min(turnaround));
        }
        if count > self.f { self.patience.max(2 * best) } else { self.patience }
    }

    /// The view is over. If that was wished for, the next primary is given twice the time.
    pub fn view_ended(&mut self, now: Millis) {
        if core::mem::take(&mut self.slow) {
            self.be_patient((2 * self.patience).min(TURNAROUND_MILLIS_MAX), now);
        }
        self.strikes = 0;
        self.clients.clear();
        self.filled = (0, 0);
        self.window = None;
    }

    const fn be_patient(&mut self, patience: u64, now: Millis) {
        (self.patience, self.changed) = (patience, now);
    }

    /// Asserts that it stays bounded.
    pub fn assert_invariants(&self) {
        assert!(self.clients.len() <= CLIENTS_JUDGED_MAX);
        assert!((TURNAROUND_MILLIS..=TURNAROUND_MILLIS_MAX).contains(&self.patience));
        assert!(!self.slow || self.strikes >= STRIKES);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P0: ReplicaId = ReplicaId(0);
    const P1: ReplicaId = ReplicaId(1);
    const P2: ReplicaId = ReplicaId(2);

    fn client(name: u8) -> ClientId {
        ClientId([name; 32])
    }

    /// What came of windows in each of which filling a slot took so long, with so much else done.
    fn filling(took: u64, beside: u64) -> Opinion {
        let (mut pace, mut now) = (Pace::new(4, 1), 10_000);
        let mut opinion = Opinion::Content;
        for _ in 0..STRIKES {
            pace.begin(Millis(now));
            now += WINDOW_MILLIS;
            let demand = Demand { since: Millis(now - took), work: pace.all_work() };
            pace.all_work.0 += beside * FULL;
            pace.note_filled(demand, Millis(now));
            opinion = pace.judge(P0, Millis(now));
        }
        opinion
    }

    #[test]
    fn a_slot_that_is_filled_late_makes_the_primary_slow_unless_much_else_is_done() {
        let most = TURNAROUND_MILLIS;
        assert_eq!((filling(most, 0), filling(most + 1, 0)), (Opinion::Content, Opinion::Slow));
        assert_eq!(filling(3 * most, 3), Opinion::Content, "there was much else to do");
    }

    /// Windows in which each of these clients had one turnaround; what came of the last.
    fn windows(pace: &mut Pace, primary: ReplicaId, now: &mut u64, turns: &[&[u64]]) -> Opinion {
        let mut opinion = Opinion::Content;
        for turns in turns {
            pace.begin(Millis(*now));
            *now += WINDOW_MILLIS;
            for (name, turn) in (0u8..).zip(*turns) {
                let demand = Demand { since: Millis(*now - turn), work: pace.work() };
                pace.note(client(name), Some(demand), Millis(*now));
            }
            assert!(pace.is_due(Millis(*now)));
            opinion = pace.judge(primary, Millis(*now));
            pace.assert_invariants();
        }
        opinion
    }

    #[test]
    fn a_stall_is_forgiven_and_slowness_is_not() {
        let (mut pace, mut now) = (Pace::new(3, 1), 0);
        let quick: &[u64] = &[1, 2];
        let stall: &[u64] = &[300, 300];
        assert_eq!(windows(&mut pace, P0, &mut now, &[quick, stall, quick]), Opinion::Content);
        assert_eq!(windows(&mut pace, P0, &mut now, &[stall, &[], quick]), Opinion::Content);
        let just = TURNAROUND_MILLIS;
        assert_eq!(windows(&mut pace, P0, &mut now, &[&[just], &[just]]), Opinion::Content);
        assert_eq!(windows(&mut pace, P0, &mut now, &[&[just + 1], &[just + 1]]), Opinion::Slow);
        assert!(pace.is_slow());
        assert_eq!(windows(&mut pace, P0, &mut now, &[quick]), Opinion::Content);
        assert!(!pace.is_slow());
    }

    #[test]
    fn half_of_the_clients_cannot_make_a_primary_look_slow() {
        let (mut pace, mut now) = (Pace::new(3, 1), 0);
        let half: &[u64] = &[0, 900];
        let more: &[u64] = &[0, 900, 900];
        assert_eq!(windows(&mut pace, P0, &mut now, &[half, half, half]), Opinion::Content);
        assert_eq!(windows(&mut pace, P0, &mut now, &[more, more]), Opinion::Slow);
    }

    /// It is the mean of each client's requests that counts: a primary that lets one in four wait
    /// costs that client nearly as much as one that lets all wait.
    #[test]
    fn a_client_whose_requests_wait_now_and_then_counts() {
        let mut pace = Pace::new(3, 1);
        for second in 1..=2u64 {
            let now = Millis(second * WINDOW_MILLIS);
            pace.begin(Millis(0));
            for turn in 0..40 {
                let since = Millis(now.0 - 200);
                let demand = (turn % 4 == 0).then_some(Demand { since, work: pace.work() });
                pace.note(client(0), demand, now);
            }
            pace.judge(P0, now);
        }
        assert!(pace.is_slow());
    }

    #[test]
    fn what_is_executed_meanwhile_excuses() {
        let mut pace = Pace::new(3, 1);
        let demand = Demand { since: Millis(0), work: pace.work() };
        pace.work.0 += FULL;
        assert_eq!(demand.turnaround(Millis(100), pace.work()), 100, "one batch is no load");
        pace.work.0 += 9 * FULL;
        assert_eq!(demand.turnaround(Millis(100), pace.work()), 10);
    }

    /// Where everything is slow, `f + 1` primaries are tried and the next one stays.
    #[test]
    fn where_everything_is_slow_changes_stop() {
        let (mut pace, mut now) = (Pace::new(3, 1), 0);
        let slow: &[u64] = &[500];
        for primary in [P0, P1] {
            assert_eq!(windows(&mut pace, primary, &mut now, &[slow, slow]), Opinion::Slow);
            pace.view_ended(Millis(now));
        }
        let long: Vec<&[u64]> = vec![slow; 300];
        assert_eq!(windows(&mut pace, P2, &mut now, &long), Opinion::Content);
        let worse: &[u64] = &[1_001];
        assert_eq!(windows(&mut pace, P2, &mut now, &[worse, worse]), Opinion::Slow);
    }

    /// `f` faulty primaries that are as slow as each other do not excuse one another.
    #[test]
    fn f_records_excuse_nobody() {
        let (mut pace, mut now) = (Pace::new(3, 1), 0);
        let slow: &[u64] = &[500];
        assert_eq!(windows(&mut pace, P0, &mut now, &[slow, slow]), Opinion::Slow);
        pace.view_ended(Millis(now));
        assert_eq!(windows(&mut pace, P1, &mut now, &[slow, slow]), Opinion::Slow);
    }

    #[test]
    fn patience_doubles_with_each_objection_and_wears_off() {
        let (mut pace, mut now) = (Pace::new(3, 1), 0);
        let turn = [TURNAROUND_MILLIS + 1];
        let slow: &[u64] = &turn;
        windows(&mut pace, P0, &mut now, &[slow, slow]);
        pace.view_ended(Millis(now));
        assert_eq!(pace.patience, 2 * TURNAROUND_MILLIS);
        assert_eq!(windows(&mut pace, P1, &mut now, &[slow, slow]), Opinion::Content);
        pace.view_ended(Millis(now));
        assert_eq!(pace.patience, 2 * TURNAROUND_MILLIS, "nobody suspects it");
        let quick: &[u64] = &[0];
        let minute: Vec<&[u64]> = vec![quick; (CALM_MILLIS / WINDOW_MILLIS) as usize];
        windows(&mut pace, P1, &mut now, &minute);
        assert_eq!(pace.patience, TURNAROUND_MILLIS);
    }
}
