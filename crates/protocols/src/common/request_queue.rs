//! Envelopes that clients sent here and that are not executed yet: what a primary proposes from,
//! and by what a backup judges the primary.
//!
//! A request is settled when *its number* executes, with whatever content, so a client that gives
//! the primary one operation and the backups another under the same number cannot make a correct
//! primary look silent. Of two envelopes that claim one number, the first stays.
//!
//! Clients take turns (deficit round robin, Shreedhar and Varghese, SIGCOMM 1995): in its turn a
//! client has proposed what a fixed cost pays for, and saves what it could not use for a dearer
//! envelope. So one that sends more than its share waits behind itself only. And no client may
//! hold more of the table than is left for all others, so that whoever has nothing here finds room.
//!
//! A backup also *demands* what waits: it passes it on to the primary, and from then on takes the
//! time ([`super::pace`]). What was passed on comes before whatever else its client has waiting at
//! the primary, and takes its place if there is no room for both: a client that keeps its share
//! full there could else have the primary deposed, for not ordering in time what the backups wait
//! for. For the same reason a backup passes on of one client no more at a time than one turn pays
//! for: as many backups as there are have as many turns' worth ahead of each other, and no more.

use super::pace::{Demand, Work};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::batch::{Batch, Item};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis};
use pentarchy_core::limits::{
    BATCH_BYTES_MAX, BATCH_ENVELOPES_MAX, BATCH_INLINE_BYTES, PENDING_BYTES_MAX,
    PENDING_CLIENT_BYTES_MAX, PENDING_CLIENT_ENVELOPES_MAX, PENDING_ENVELOPES_MAX,
};
use pentarchy_core::mutant;
use pentarchy_core::request::Envelope;

/// What a client's turn pays for, counted as [`cost`] does. Small beside a batch, so that several
/// clients share each; an envelope of a few hundred short requests fits.
const TURN_COST: usize = 16 << 10;

/// What an envelope costs beside its bytes, in bytes that cost about as much time: its
/// authentication, and for each request its execution and its reply.
const ENVELOPE_COST: usize = 1 << 10;
const REQUEST_COST: usize = 64;

fn cost(envelope: &Envelope) -> usize {
    ENVELOPE_COST + REQUEST_COST * envelope.requests.len() + envelope.len()
}

/// One waiting envelope.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
struct Waiting {
    envelope: Arc<Envelope>,
    /// Order of arrival.
    arrival: u64,
    /// Its numbers that are not settled, if some are; nearly always none is.
    open: Option<Vec<u64>>,
    /// Rounds of retransmission that it has been waiting for.
    ticks: u8,
    /// This primary has proposed it in this view.
    is_proposed: bool,
    /// A backup passed it on in this view.
    is_passed_on: bool,
    /// Whether it was waiting at the last look, and since when the primary has been known to have
    /// it.
    stand: Stand,
}

/// How far a backup is with an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Stand {
    /// It came since the last look: the primary may be just about to order it.
    New,
    /// It was here at the last look.
    Seen,
    /// It was passed on to the primary.
    Demanded(Demand),
}

/// What waits of one client. Never empty.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
struct Line {
    /// Those that were proposed, those that were passed on, all others; these by arrival. Each is
    /// proposed in this order.
    waiting: Vec<Waiting>,
    bytes: usize,
    /// What it may still have proposed before it is the next one's turn.
    credit: usize,
    /// Where it stands in [`RequestQueue::turns`].
    turn: Option<u64>,
}

/// What became of an envelope.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Added {
    /// It waits.
    New,
    /// It is here already, or claims no number that is not claimed here.
    Known,
    /// There is no room for it. Its client is to try again later.
    Full,
}

/// What to do about the request timer: it is of one envelope at a time, by arrival number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Retime {
    /// The timer to disarm.
    pub disarm: Option<u64>,
    /// The timer to arm.
    pub arm: Option<u64>,
}

/// The table. Bounded in envelopes and in bytes, together and for each client.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct RequestQueue {
    clients: BTreeMap<ClientId, Line>,
    /// The same envelopes by digest.
    by_digest: BTreeMap<Digest, Arc<Envelope>>,
    /// Arrival order; entries whose envelope is gone are skipped.
    arrivals: VecDeque<(u64, Digest)>,
    /// Clients with something that was not proposed in this view, in the order of their turns.
    /// Some may have nothing left.
    turns: BTreeMap<u64, ClientId>,
    next_turn: u64,
    next_arrival: u64,
    bytes: usize,
    /// The arrival number for which the request timer runs.
    timer: Option<u64>,
}

impl RequestQueue {
    /// Takes an envelope that a backup passed on; gives also what had to make room for it, whose
    /// client is to try again later.
    pub fn add_passed_on(
        &mut self,
        envelope: Arc<Envelope>,
        settled: Vec<u64>,
    ) -> (Added, Vec<Arc<Envelope>>) {
        let (client, len) = (envelope.client, envelope.len());
        let mut displaced = Vec::new();
        if !self.is_known(&envelope) && self.could_have_room(&client, len) {
            while !self.has_room(&client, len)
                && let Some(last) = self.displace(&client)
            {
                displaced.push(last);
            }
        }
        let added = self.add(envelope.clone(), settled);
        if let Some(line) = self.clients.get_mut(&client) {
            line.promote(&envelope);
        }
        (added, displaced)
    }

    /// Whether an envelope is here, or claims no number that is not claimed here.
    fn is_known(&self, envelope: &Envelope) -> bool {
        let is_claimed = |line: &Line| is_claimed(envelope, &line.waiting);
        self.by_digest.contains_key(&envelope.digest)
            || self.clients.get(&envelope.client).is_some_and(is_claimed)
    }

    /// Whether a client may add so many bytes once nothing of it waits but what may not be
    /// displaced.
    fn could_have_room(&self, client: &ClientId, len: usize) -> bool {
        let line = self.clients.get(client);
        let (mut held, mut bytes) = line.map_or((0, 0), |line| (line.waiting.len(), line.bytes));
        let (all, all_bytes) = (self.by_digest.len() - held, self.bytes - bytes);
        for waiting in line.iter().flat_map(|line| &line.waiting) {
            if waiting.may_be_displaced() {
                held -= 1;
                bytes -= waiting.envelope.len();
            }
        }
        is_share((held, bytes), (all + held, all_bytes + bytes), len)
    }

    /// Drops the envelope that a client sent here last, if it was not proposed or passed on.
    fn displace(&mut self, client: &ClientId) -> Option<Arc<Envelope>> {
        let line = self.clients.get_mut(client)?;
        let last = line.waiting.pop_if(|waiting| waiting.may_be_displaced())?.envelope;
        line.bytes -= last.len();
        self.bytes -= last.len();
        self.by_digest.remove(&last.digest);
        self.forget_if_idle(client);
        self.trim();
        Some(last)
    }

    /// Takes an envelope, some of whose numbers may be settled already.
    pub fn add(&mut self, envelope: Arc<Envelope>, settled: Vec<u64>) -> Added {
        let (digest, client, len) = (envelope.digest, envelope.client, envelope.len());
        if self.is_known(&envelope) {
            return Added::Known;
        }
        if !self.has_room(&client, len) {
            return Added::Full;
        }
        let arrival = self.next_arrival;
        self.next_arrival += 1;
        self.by_digest.insert(digest, envelope.clone());
        self.arrivals.push_back((arrival, digest));
        self.bytes += len;
        let open = (!settled.is_empty()).then(|| {
            let numbers = envelope.requests.iter().map(|request| request.number);
            numbers.filter(|number| !settled.contains(number)).collect()
        });
        let line = self.clients.entry(client).or_default();
        line.bytes += len;
        let (ticks, is_proposed, is_passed_on, stand) = (0, false, false, Stand::New);
        let waiting = Waiting { envelope, arrival, open, ticks, is_proposed, is_passed_on, stand };
        line.waiting.push(waiting);
        if line.turn.is_none() {
            line.credit = TURN_COST;
            line.turn = Some(self.next_turn);
            self.turns.insert(self.next_turn, client);
            self.next_turn += 1;
        }
        Added::New
    }

    /// Whether a client may add so many bytes.
    fn has_room(&self, client: &ClientId, len: usize) -> bool {
        let line = self.clients.get(client);
        let own = line.map_or((0, 0), |line| (line.waiting.len(), line.bytes));
        is_share(own, (self.by_digest.len(), self.bytes), len)
    }

    /// The envelope of this digest.
    #[must_use]
    pub fn find(&self, digest: &Digest) -> Option<Arc<Envelope>> {
        self.by_digest.get(digest).cloned()
    }

    /// Settles every number of an executed batch. `gone` is told of each envelope that waits no
    /// longer: its client, and what was demanded of the primary for it.
    pub fn executed(&mut self, batch: &Batch, mut gone: impl FnMut(ClientId, Option<Demand>)) {
        for envelope in &batch.envelopes {
            self.settle(envelope, &mut gone);
        }
        self.trim();
    }

    /// Settles the numbers of an envelope that is executed later than it was decided here; whether
    /// anything waits no longer because of it.
    pub fn executed_late(&mut self, envelope: &Envelope) -> bool {
        let before = self.by_digest.len();
        self.settle(envelope, &mut |_, _| {});
        self.trim();
        self.by_digest.len() < before
    }

    /// Drops entries of the order of arrival whose envelope is gone: those in front at once, those
    /// behind an envelope that stays once they are the larger part.
    fn trim(&mut self) {
        let by_digest = &self.by_digest;
        while self.arrivals.front().is_some_and(|(_, digest)| !by_digest.contains_key(digest)) {
            self.arrivals.pop_front();
        }
        if self.arrivals.len() > 2 * by_digest.len() + 64 {
            self.arrivals.retain(|(_, digest)| by_digest.contains_key(digest));
        }
    }

    fn settle(&mut self, executed: &Envelope, tell: &mut impl FnMut(ClientId, Option<Demand>)) {
        let Some(line) = self.clients.get_mut(&executed.client) else { return };
        line.waiting.retain_mut(|w| {
            let by_number = !mutant!("pending.waits-for-digest") && w.settle(executed);
            let done = w.envelope.digest == executed.digest || by_number;
            if done {
                self.by_digest.remove(&w.envelope.digest);
                self.bytes -= w.envelope.len();
                line.bytes -= w.envelope.len();
                if !w.envelope.is_large() {
                    tell(executed.client, w.stand.demand());
                }
            }
            !done
        });
        self.forget_if_idle(&executed.client);
    }

    fn forget_if_idle(&mut self, client: &ClientId) {
        if let Some(line) = self.clients.get(client).filter(|line| line.waiting.is_empty()) {
            if let Some(turn) = line.turn {
                self.turns.remove(&turn);
            }
            self.clients.remove(client);
        }
    }

    /// Forgets everything: after a state transfer nobody here knows what was executed. Clients
    /// send again what they still want.
    pub fn clear(&mut self) {
        *self = Self { next_arrival: self.next_arrival, timer: self.timer, ..Self::default() };
    }

    /// Takes a look: envelopes that were here at the last one too are to be passed on to the
    /// primary now, at most `max` of them, and count as demanded from now on. Not large ones: their
    /// client sends them to everyone at once, and twice would be dear.
    pub fn demand(&mut self, max: usize, now: Millis, work: Work) -> Vec<Arc<Envelope>> {
        let due = oldest_first(&mut self.clients, |waiting| match waiting.stand {
            Stand::New => {
                waiting.stand = Stand::Seen;
                false
            }
            Stand::Seen => !waiting.envelope.is_large(),
            Stand::Demanded(_) => false,
        });
        let demand = |waiting: &mut Waiting| {
            waiting.stand = Stand::Demanded(Demand { since: now, work });
            waiting.envelope.clone()
        };
        due.into_iter().take(max).map(demand).collect()
    }

    /// What is demanded of the primary and has not come.
    pub fn demanded(&self) -> impl Iterator<Item = (ClientId, Demand)> {
        let waiting =
            self.clients.iter().flat_map(|(id, all)| all.waiting.iter().map(|w| (*id, w)));
        waiting.filter_map(|(client, waiting)| Some((client, waiting.stand.demand()?)))
    }

    /// Everything may be proposed again, the client who waits for longest first, and has been
    /// demanded of nobody: a new view began.
    pub fn unpropose(&mut self) {
        self.turns.clear();
        for (client, line) in &mut self.clients {
            for waiting in &mut line.waiting {
                (waiting.is_proposed, waiting.is_passed_on) = (false, false);
                waiting.stand = Stand::New;
            }
            line.waiting.sort_unstable_by_key(|waiting| waiting.arrival);
            // By arrival of what waits for longest; each arrival has a number of its own.
            let first = line.waiting.first().map(|first| first.arrival);
            (line.credit, line.turn) = (TURN_COST, first);
            self.turns.extend(first.map(|first| (first, *client)));
        }
        self.next_turn = self.next_arrival;
    }

    /// Takes the next batch's items within the limits of a batch: clients in turn, each client's
    /// oldest first.
    pub fn propose(&mut self, requests_max: usize) -> Vec<Item> {
        let mut load = Load::default();
        let mut items = Vec::new();
        while let Some(turn) = self.turns.first_entry() {
            let Some(line) = self.clients.get_mut(turn.get()) else { break };
            let Some(waiting) = line.next() else {
                line.turn = None;
                turn.remove();
                continue;
            };
            let envelope = waiting.envelope.clone();
            let Some(credit) = line.credit.checked_sub(cost(&envelope)) else {
                line.credit += TURN_COST;
                line.turn = Some(self.next_turn);
                let client = turn.remove();
                self.turns.insert(self.next_turn, client);
                self.next_turn += 1;
                continue;
            };
            if !load.takes(&envelope, requests_max) && !items.is_empty() {
                break;
            }
            line.credit = credit;
            line.next().into_iter().for_each(|waiting| waiting.is_proposed = true);
            items.push(if envelope.is_large() {
                Item::Named(envelope.digest)
            } else {
                Item::Whole(envelope)
            });
        }
        items
    }

    /// Whether something waits to be proposed.
    #[must_use]
    pub fn has_unproposed(&self) -> bool {
        self.turns.values().filter_map(|client| self.clients.get(client)).any(Line::has_unproposed)
    }

    /// The arrival number of the next envelope.
    #[must_use]
    pub const fn next_arrival(&self) -> u64 {
        self.next_arrival
    }

    /// Arrival number of the oldest envelope.
    #[must_use]
    pub fn oldest(&self) -> Option<u64> {
        self.arrivals
            .iter()
            .find(|(_, d)| self.by_digest.contains_key(d))
            .map(|(arrival, _)| *arrival)
    }

    /// The request timer is to run for the oldest envelope, on a replica that `judges` the primary.
    /// None if it does already.
    pub fn retime(&mut self, judges: bool) -> Option<Retime> {
        let arm = if judges { self.oldest() } else { None };
        let disarm = core::mem::replace(&mut self.timer, arm);
        (disarm != arm).then_some(Retime { disarm, arm })
    }

    /// The time of the oldest envelope begins anew. Gives the timer to disarm.
    pub const fn stop_timer(&mut self) -> Option<u64> {
        self.timer.take()
    }

    /// Whether the request timer runs, or has run out and its envelope still waits.
    #[must_use]
    pub const fn is_timed(&self) -> bool {
        self.timer.is_some()
    }

    /// Envelopes that have waited for a tick, and again at every fourth: time to pass them on to
    /// the primary, whom their client may have left out. Large ones come later: their client sends
    /// them to everyone at once, so that the primary was left out is not likely.
    pub fn tick(&mut self, max: usize, bytes_max: usize) -> Vec<Arc<Envelope>> {
        let (mut due, mut bytes) = (Vec::new(), 0);
        let candidates = oldest_first(&mut self.clients, |waiting| {
            let is_due = waiting.ticks % 4 == if waiting.envelope.is_large() { 3 } else { 1 };
            if !is_due {
                waiting.ticks = waiting.ticks.wrapping_add(1);
            }
            is_due
        });
        for waiting in candidates {
            let len = waiting.envelope.len();
            if due.len() < max && (bytes == 0 || bytes + len <= bytes_max) {
                bytes += len;
                waiting.ticks = waiting.ticks.wrapping_add(1);
                due.push(waiting.envelope.clone());
            }
        }
        due
    }

    /// How many envelopes wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_digest.len()
    }

    /// Whether none waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_digest.is_empty()
    }

    /// Asserts that the parts agree.
    pub fn assert_invariants(&self) {
        let waiting = || self.clients.values().flat_map(|line| &line.waiting);
        assert_eq!(waiting().count(), self.by_digest.len());
        assert!(waiting().all(|w| self.by_digest.contains_key(&w.envelope.digest)));
        assert_eq!(waiting().map(|w| w.envelope.len()).sum::<usize>(), self.bytes);
        assert!(self.bytes <= PENDING_BYTES_MAX && self.by_digest.len() <= PENDING_ENVELOPES_MAX);
        for (client, line) in &self.clients {
            assert!(!line.waiting.is_empty());
            assert_eq!(line.bytes, line.waiting.iter().map(|w| w.envelope.len()).sum::<usize>());
            assert!(line.waiting.is_sorted_by_key(|w| match (w.is_proposed, w.is_passed_on) {
                (true, _) => (0, 0),
                (false, true) => (1, 0),
                (false, false) => (2, w.arrival),
            }));
            assert!(line.turn.is_some() || !line.has_unproposed());
            assert!(line.turn.is_none_or(|turn| self.turns.get(&turn) == Some(client)));
        }
        let turns = self.clients.values().filter(|line| line.turn.is_some()).count();
        assert_eq!(turns, self.turns.len());
        assert!(self.turns.keys().all(|turn| *turn < self.next_turn));
        assert!(waiting().all(|w| w.arrival < self.next_arrival));
        assert!(self.arrivals.len() <= 2 * self.by_digest.len() + 64 + PENDING_ENVELOPES_MAX);
    }
}

/// What is due of all that waits, the oldest first: that is what a primary is judged by, so that is
/// what has to reach it, whoever else sends how much.
fn oldest_first(
    clients: &mut BTreeMap<ClientId, Line>,
    mut is_due: impl FnMut(&mut Waiting) -> bool,
) -> Vec<&mut Waiting> {
    let mut due = Vec::new();
    for waiting in clients.values_mut().flat_map(Line::first_turn) {
        if is_due(waiting) {
            due.push(waiting);
        }
    }
    due.sort_unstable_by_key(|waiting| waiting.arrival);
    due
}

/// Whether a client that has `own` envelopes and bytes waiting, among `all`, may add so many bytes:
/// it holds no more than is left for everyone else (dynamic thresholds, Choudhury and Hahne, 1998).
fn is_share(own: (usize, usize), all: (usize, usize), len: usize) -> bool {
    let (envelopes_left, bytes_left) = (PENDING_ENVELOPES_MAX - all.0, PENDING_BYTES_MAX - all.1);
    own.0 < PENDING_CLIENT_ENVELOPES_MAX.min(envelopes_left)
        && own.1 + len <= PENDING_CLIENT_BYTES_MAX.min(bytes_left)
}

impl Line {
    /// The first that wait, as many as one turn pays for.
    fn first_turn(&mut self) -> impl Iterator<Item = &mut Waiting> {
        let mut paid = 0;
        self.waiting.iter_mut().take_while(move |waiting| {
            let before = paid;
            paid += cost(&waiting.envelope);
            before == 0 || paid <= TURN_COST
        })
    }

    /// Puts what settles numbers of an envelope before all that no backup has passed on.
    fn promote(&mut self, envelope: &Envelope) {
        let first = self.waiting.partition_point(|waiting| !waiting.may_be_displaced());
        for waiting in &mut self.waiting[first..] {
            let mut numbers = envelope.requests.iter().map(|request| request.number);
            waiting.is_passed_on = numbers.any(|number| waiting.envelope.asks(number));
        }
        self.waiting[first..].sort_by_key(|waiting| !waiting.is_passed_on);
    }

    fn next(&mut self) -> Option<&mut Waiting> {
        let proposed = self.waiting.partition_point(|waiting| waiting.is_proposed);
        self.waiting.get_mut(proposed)
    }

    fn has_unproposed(&self) -> bool {
        self.waiting.last().is_some_and(|waiting| !waiting.is_proposed)
    }
}

/// What a batch holds so far.
#[derive(Default)]
struct Load {
    envelopes: usize,
    requests: usize,
    bytes: usize,
    inline: usize,
}

impl Load {
    /// Adds an envelope; says whether the batch keeps to its limits.
    fn takes(&mut self, envelope: &Envelope, requests_max: usize) -> bool {
        self.envelopes += 1;
        self.requests += envelope.requests.len();
        self.bytes += envelope.len();
        self.inline += if envelope.is_large() { 0 } else { envelope.len() };
        self.envelopes <= BATCH_ENVELOPES_MAX
            && self.requests <= requests_max
            && self.bytes <= BATCH_BYTES_MAX
            && self.inline <= BATCH_INLINE_BYTES
    }
}

impl Stand {
    const fn demand(self) -> Option<Demand> {
        match self {
            Self::Demanded(demand) => Some(demand),
            Self::New | Self::Seen => None,
        }
    }
}

impl Waiting {
    /// Whether only its client has sent it here, and nothing was done about it.
    const fn may_be_displaced(&self) -> bool {
        !self.is_proposed && !self.is_passed_on
    }

    /// Settles the numbers that another envelope executed or its client has given up; true if
    /// none is left.
    fn settle(&mut self, executed: &Envelope) -> bool {
        let (low, high) = self.envelope.range();
        let (first, last) = executed.range();
        if executed.floor <= low && (last < low || high < first) {
            return false;
        }
        let envelope = &self.envelope;
        let open = self.open.get_or_insert_with(|| {
            envelope.requests.iter().map(|request| request.number).collect()
        });
        open.retain(|number| *number >= executed.floor && !executed.asks(*number));
        open.is_empty()
    }
}

/// Whether each of its numbers is claimed by an envelope that waits already.
fn is_claimed(envelope: &Envelope, waiting: &[Waiting]) -> bool {
    let (low, high) = envelope.range();
    let near = |w: &&Waiting| {
        let (first, last) = w.envelope.range();
        first <= high && low <= last
    };
    let rivals: Vec<&Waiting> = waiting.iter().filter(near).collect();
    let claims = |number: u64| rivals.iter().any(|w| w.envelope.asks(number));
    !rivals.is_empty() && envelope.requests.iter().all(|request| claims(request.number))
}

#[cfg(test)]
mod tests;
