//! The client of every protocol whose replicas answer for themselves: it believes a result that
//! enough replicas report, so that at least one of them is correct.
//!
//! How many are enough for a result and for the answer to a query, the protocol's rules say
//! ([`ClientQuorums`]). Some correct replica is among both, or a query might miss what was
//! acknowledged: together they are more than `n + f`.
//!
//! * One replica sends a long result, and the others send its digest
//!   ([`pentarchy_core::designated_replier`]); see `told.rs`.
//! * Requests go to the primary first and to everyone when the answer is late, so that a faulty
//!   primary can delay but not silence a client. A large envelope goes to everyone at once, because
//!   the primary orders it by digest only.
//! * At most [`CLIENT_ENVELOPES_MAX`] envelopes are under way; what is submitted meanwhile goes
//!   into one. So the more there is to do, the fewer envelopes there are for each request, and a
//!   client cannot fill the replicas' tables. How long an answer may take follows from how long
//!   answers took lately, so that clients of a busy group do not add to its load by asking again.
//! * A request is signed once: what is sent again is the same draft, so that no replica ever sees
//!   two envelopes with different bodies and equal numbers from a correct client, but for fences.
//! * What the application gives up is fenced: see `fences.rs`.
//! * Now and then, at moments that a replica cannot foresee, a request goes to everyone at once:
//!   by these the backups judge how fast the primary is ([`super::pace`]).
//! * A query asks all replicas. Where it does not find enough equal answers, it is ordered as a
//!   request with the same number.
//! * The host may judge replies itself: see `judged.rs`.
//! * Events, which the service tells unasked, are believed like results, and given to the
//!   application in the order of their numbers: see `inbox.rs`.
//!
//! Memory: for each of at most [`CLIENT_WINDOW`] outstanding numbers, the operation and one
//! fingerprint per replica; and of long results, told before enough digests were, at most
//! [`CLIENT_HELD_BYTES_MAX`](pentarchy_core::limits::CLIENT_HELD_BYTES_MAX).

use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec;
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, ReplicaSet};
use pentarchy_core::limits::{
    CLIENT_ENVELOPES_MAX, CLIENT_WINDOW, ENVELOPE_BYTES_MAX, ENVELOPE_INLINE_BYTES,
    ENVELOPE_REQUESTS_MAX, OPERATION_BYTES_MAX,
};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Reply, ToClient};
use pentarchy_core::protocol::Timeouts;
use pentarchy_core::quorum::{ClientQuorums, Quorums};
use pentarchy_core::request::{Draft, Request};

mod ballot;
mod fences;
mod inbox;
mod judged;
#[cfg(test)]
mod tests;
mod told;

use ballot::Ballot;
pub use ballot::Fingerprint;
use inbox::Inbox;

/// How long a query waits for the last of the `n` answers before it is ordered.
pub const QUERY_WAIT_MS: u64 = 20;

/// After a query waited in vain, how long queries are ordered at once: a replica that is down would
/// otherwise cost every read [`QUERY_WAIT_MS`].
pub const QUERY_PAUSE_MS: u64 = 1_000;

/// A client shows everyone a request at most this long after the one before, on average after half
/// of it: often enough that a few clients are judged by within a second, and seldom enough not to
/// matter where there are many.
const SHOW_MS: u64 = 250;

/// And behind fewer drafts than this, on average half of them: a group with too much to do answers
/// each client a few times in a second only, and would be sent everything by everyone.
const SHOW_DRAFTS: u64 = 16;

/// A retransmission interval is doubled at most this many times.
const DOUBLINGS_MAX: u32 = 3;

/// The first interval is at most this many times [`Timeouts::client_retry_ms`], however long
/// answers took, so that a primary that becomes slower and slower and then silent gains little.
const PATIENCE_MAX: u64 = 5;

/// One outstanding number.
enum Pending {
    /// Not in any draft yet.
    Waiting(Bytes),
    /// In the draft of this key, and, once it is given up, in that of `fence`. The result may be
    /// here before enough replicas confirm it, or be known by its fingerprint before it is here.
    Sent {
        draft: u64,
        fence: Option<u64>,
        ballot: Ballot,
        told: Option<(Digest, Bytes)>,
        known: Option<Fingerprint>,
    },
    /// Asked of all replicas, not ordered. `deadline` is none until the first round.
    Asked { operation: Bytes, ballot: Ballot, deadline: Option<Millis> },
}

/// A draft with at least one request that has not completed.
struct Sent {
    draft: Draft,
    /// Requests in it that have not completed.
    open: usize,
    /// Who was sent it so far.
    to: ReplicaSet,
    /// When it was sent first.
    sent_at: Millis,
    /// When to send it again.
    deadline: Millis,
    /// How often it was sent.
    attempts: u32,
    /// The replica that got it first has said that it is full; taken back when it is sent again.
    busy: bool,
    /// It gives up numbers of other drafts.
    is_fence: bool,
}

/// See the [module](self).
pub struct VotingClient {
    client: ClientId,
    replicas: ReplicaSet,
    n: usize,
    f: usize,
    /// So many equal replies are believed.
    replies: usize,
    /// So many equal answers to a query are.
    answers: usize,
    timeouts: Timeouts,
    now: Millis,
    /// Above every number so far.
    next: u64,
    pending: BTreeMap<u64, Pending>,
    /// Numbers that are [`Pending::Waiting`], in the order in which they are to run.
    waiting: Vec<u64>,
    /// An earlier core of this client may have sent every number below this one.
    sent_below: u64,
    /// Numbers that were given up and are in no fence yet, in the order in which they were.
    given_up: VecDeque<u64>,
    /// Drafts of fences.
    fences: usize,
    /// Queries that are to be sent in this round.
    fresh_queries: Vec<u64>,
    /// By an ever growing key.
    drafts: BTreeMap<u64, Sent>,
    next_draft: u64,
    /// Who is primary, as each replica said last: an id, as a number modulo the group's size.
    hints: Vec<u64>,
    /// What results that are held take.
    held_bytes: usize,
    /// Replicas whose channel was opened since the last round.
    reconnected: ReplicaSet,
    /// No deadline is earlier than this.
    next_deadline: Millis,
    /// When the last draft was sent first of those that were completed since the last round. Also
    /// of those that were sent again: a group that is always late would never be seen to be.
    answered: Option<Millis>,
    /// How long answers took lately, in eighths of a millisecond; a moving average.
    latency: u64,
    /// Queries are ordered at once until then.
    queries_paused_until: Millis,
    /// What chooses the requests that are shown to everyone; none if none are.
    chance: Option<u64>,
    /// When the next one is, at the earliest.
    show_at: Millis,
    /// Drafts that are not shown before it.
    unshown: u64,
    /// What the service tells unasked; none if the application does not want to know.
    inbox: Option<Inbox>,
    /// Numbers of which the host judges the replies, and who replied so far.
    judged: BTreeMap<u64, ReplicaSet>,
}

impl VotingClient {
    /// A client of a group that goes by this. Its first number is at least `start_floor`, and it
    /// declares every lower number settled.
    #[must_use]
    pub fn new(
        client: ClientId,
        quorums: ClientQuorums,
        timeouts: Timeouts,
        start_floor: u64,
    ) -> Self {
        let ClientQuorums { group: Quorums { n, f }, replies, answers } = quorums;
        Self {
            client,
            replicas: (0..n as u16).map(ReplicaId).collect(),
            n,
            f,
            replies,
            answers,
            timeouts,
            now: Millis(0),
            next: start_floor,
            pending: BTreeMap::new(),
            waiting: Vec::new(),
            sent_below: 0,
            given_up: VecDeque::new(),
            fences: 0,
            fresh_queries: Vec::new(),
            drafts: BTreeMap::new(),
            next_draft: 0,
            hints: vec![0; n],
            held_bytes: 0,
            reconnected: ReplicaSet::EMPTY,
            next_deadline: Millis(u64::MAX),
            answered: None,
            latency: 0,
            queries_paused_until: Millis(0),
            chance: None,
            show_at: Millis(0),
            unshown: 0,
            inbox: None,
            judged: BTreeMap::new(),
        }
    }

    /// The same, and it lets backups judge the primary. The seed is to be known to no replica: a
    /// primary that can tell by which requests it is judged can let all others wait.
    #[must_use]
    pub const fn showing(mut self, seed: u64) -> Self {
        self.chance = Some(seed);
        self
    }

    /// Whether the next draft goes to everyone.
    fn shows(&mut self) -> bool {
        let is_due = self.now >= self.show_at && self.unshown == 0;
        self.unshown = self.unshown.saturating_sub(1);
        let (Some(chance), true) = (&mut self.chance, is_due) else { return false };
        *chance = u64::from_le_bytes(first_bytes(&Digest::of(&chance.to_le_bytes())));
        self.show_at = Millis(self.now.0 + *chance % SHOW_MS);
        self.unshown = (*chance >> 32) % SHOW_DRAFTS;
        true
    }

    /// Every number below is settled: the lowest outstanding one, or the next if there is none.
    #[must_use]
    pub fn floor(&self) -> u64 {
        let lowest = self.pending.first_key_value().filter(|_| !mutant!("client.gives-up-early"));
        lowest.map_or(self.next, |(number, _)| *number)
    }

    /// The primary, as replicas say: the highest that `f + 1` name or exceed. If all correct ones
    /// name the same that is it, as there are more of them than liars on either side.
    #[must_use]
    pub fn primary(&self) -> ReplicaId {
        let mut hints = self.hints.clone();
        hints.sort_unstable_by(|a, b| b.cmp(a));
        let hint = hints.get(self.f).copied().unwrap_or_default();
        ReplicaId((hint % self.n as u64) as u16)
    }

    /// Takes note of a new number.
    ///
    /// # Panics
    /// If the number is not above every number before: the host is broken.
    fn admit(&mut self, number: u64, operation: &Bytes, out: &mut Vec<Effect>) -> bool {
        assert!(number >= self.next, "numbers ascend");
        self.next = number + 1;
        let full = self.pending.len() as u64 >= CLIENT_WINDOW;
        if full || operation.len() > OPERATION_BYTES_MAX {
            out.push(Effect::Completed { number, outcome: Outcome::Refused });
            return false;
        }
        true
    }

    fn on_submit(&mut self, number: u64, operation: Bytes, out: &mut Vec<Effect>) {
        if self.admit(number, &operation, out) {
            self.pending.insert(number, Pending::Waiting(operation));
            self.waiting.push(number);
        }
    }

    fn on_query(&mut self, number: u64, operation: Bytes, out: &mut Vec<Effect>) {
        if self.admit(number, &operation, out) {
            let asked = Pending::Asked { operation, ballot: Ballot::default(), deadline: None };
            self.pending.insert(number, asked);
            self.fresh_queries.push(number);
        }
    }

    fn on_message(&mut self, from: ReplicaId, message: ToClient, out: &mut Vec<Effect>) {
        if !self.replicas.contains(from) {
            return;
        }
        match message {
            ToClient::Replies { view, replies } => {
                self.note_hint(from, view.0);
                replies.into_iter().for_each(|reply| self.on_reply(from, reply, out));
            }
            ToClient::Digests { view, digests } => {
                self.note_hint(from, view.0);
                digests.into_iter().for_each(|told| self.on_digest(from, told, out));
            }
            ToClient::Answer { number, result } if self.judged.contains_key(&number) => {
                self.hand_answer_on(from, number, result, out);
            }
            ToClient::Answer { number, result } => self.on_answer(from, number, result, out),
            ToClient::Busy { number } => self.on_busy(from, number),
            ToClient::Status(_)
            | ToClient::Standing(_)
            | ToClient::Begun(_)
            | ToClient::State(_) => {}
            ToClient::Events { oldest, first, events } => {
                if let Some(inbox) = &mut self.inbox {
                    inbox.on_events(from, (oldest, first, events), out);
                }
            }
            // Replicas that answer for themselves say nothing that is not final.
            ToClient::Speculative { .. }
            | ToClient::SpeculativeDigests { .. }
            | ToClient::Vouched { .. }
            | ToClient::Committed(_)
            | ToClient::Protocol(_) => {}
        }
    }

    /// Whether this number was sent and has no result.
    #[must_use]
    pub fn awaits(&self, number: u64) -> bool {
        matches!(self.pending.get(&number), Some(Pending::Sent { .. }))
    }

    /// A replica says who is primary. Its last word counts, as anyone may come after anyone.
    pub fn note_hint(&mut self, from: ReplicaId, primary: u64) {
        if let Some(known) = self.hints.get_mut(usize::from(from.0)) {
            *known = primary;
        }
    }

    /// Completes a request: the protocol's own client may find otherwise that it can rely on a
    /// result.
    pub fn complete(&mut self, number: u64, outcome: Outcome, out: &mut Vec<Effect>) {
        if self.settle(number) {
            out.push(Effect::Completed { number, outcome });
        }
    }

    /// A number that was sent is outstanding no more. False if it was not.
    fn settle(&mut self, number: u64) -> bool {
        let Some(Pending::Sent { draft, fence, told, .. }) = self.pending.get(&number) else {
            return false;
        };
        let (draft, fence) = (*draft, *fence);
        self.held_bytes -= told.as_ref().map_or(0, |(_, result)| result.len());
        self.pending.remove(&number);
        for key in [Some(draft), fence].into_iter().flatten() {
            let Some(sent) = self.drafts.get_mut(&key) else { continue };
            sent.open -= 1;
            if sent.open == 0 {
                self.answered = self.answered.max(Some(sent.sent_at));
                self.fences -= usize::from(sent.is_fence);
                self.drafts.remove(&key);
            }
        }
        true
    }

    /// Enough equal answers, or the query is ordered.
    fn on_answer(&mut self, from: ReplicaId, number: u64, result: Bytes, out: &mut Vec<Effect>) {
        let Some(Pending::Asked { ballot, .. }) = self.pending.get_mut(&number) else {
            return;
        };
        let outcome = Outcome::Done(result);
        let equal = ballot.cast(from, Fingerprint::of(&outcome));
        let few = mutant!("client.reads-from-a-quorum");
        let enough = if few { self.f + 1 } else { self.answers };
        if equal >= enough {
            self.pending.remove(&number);
            out.push(Effect::Completed { number, outcome });
        } else if ballot.largest() + self.n - ballot.len() < enough {
            self.order_query(number);
        }
    }

    fn order_query(&mut self, number: u64) {
        let Some(pending) = self.pending.get_mut(&number) else { return };
        if let Pending::Asked { operation, .. } = pending {
            *pending = Pending::Waiting(core::mem::take(operation));
            self.waiting.push(number);
            self.judge_anew(number);
        }
    }

    /// A full primary gets one more interval before the draft goes to everyone and starts the
    /// backups' clocks. Only one, or a faulty primary could stall a client by claiming to be full.
    fn on_busy(&mut self, from: ReplicaId, number: u64) {
        let Some(Pending::Sent { draft, .. }) = self.pending.get(&number) else { return };
        if let Some(sent) = self.drafts.get_mut(draft) {
            let is_first = sent.attempts == 1 || mutant!("client.busy-primary-is-waited-for");
            sent.busy |= is_first && sent.to.len() == 1 && sent.to.contains(from);
        }
    }

    fn on_round(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        if let Some(sent_at) = self.answered.take() {
            // An answer that took long once, as when a primary failed, says little of the next one:
            // it counts as one that took twice as long as the others.
            let most = self.timeouts.client_retry_ms.max(self.latency / 4);
            let took = (self.now.0 - sent_at.0).min(most);
            self.latency = self.latency - self.latency / 8 + took;
        }
        if let Some(inbox) = &mut self.inbox {
            let wake_at = inbox.on_round(self.now, self.reconnected, self.replicas, out);
            out.push(Effect::WakeAt(wake_at));
        }
        self.greet(out);
        self.ask(out);
        if self.now >= self.next_deadline {
            self.next_deadline = Millis(u64::MAX);
            self.expire_queries();
            self.retransmit(out);
        }
        self.send_fences(out);
        self.send_waiting(out);
        // What an earlier core sent and was given up is fenced as soon as this one has sent it.
        self.send_fences(out);
        if self.next_deadline != Millis(u64::MAX) {
            out.push(Effect::WakeAt(self.next_deadline));
        }
    }

    /// What was under way on a channel that broke is lost: says it again on the new one.
    fn greet(&mut self, out: &mut Vec<Effect>) {
        for replica in core::mem::take(&mut self.reconnected).iter() {
            let to = ReplicaSet::from_iter([replica]);
            for sent in self.drafts.values().filter(|sent| sent.to.contains(replica)) {
                out.push(Effect::Request { to, draft: sent.draft.clone() });
            }
            for (number, pending) in &self.pending {
                if let Pending::Asked { operation, deadline: Some(_), .. } = pending {
                    let (number, operation) = (*number, operation.clone());
                    out.push(Effect::Query { to, number, operation });
                }
            }
        }
    }

    fn ask(&mut self, out: &mut Vec<Effect>) {
        let until = Millis(self.now.0 + QUERY_WAIT_MS);
        for number in core::mem::take(&mut self.fresh_queries) {
            if self.now < self.queries_paused_until {
                self.order_query(number);
                continue;
            }
            let Some(Pending::Asked { operation, deadline, .. }) = self.pending.get_mut(&number)
            else {
                continue;
            };
            *deadline = Some(until);
            self.next_deadline = self.next_deadline.min(until);
            let operation = operation.clone();
            out.push(Effect::Query { to: self.replicas, number, operation });
        }
    }

    /// Orders the queries that waited too long, and notes when the others will have.
    fn expire_queries(&mut self) {
        let mut late = Vec::new();
        for (number, pending) in &self.pending {
            if let Pending::Asked { deadline: Some(deadline), .. } = pending {
                if *deadline <= self.now {
                    late.push(*number);
                } else {
                    self.next_deadline = self.next_deadline.min(*deadline);
                }
            }
        }
        if !late.is_empty() {
            self.queries_paused_until = Millis(self.now.0 + QUERY_PAUSE_MS);
        }
        late.into_iter().for_each(|number| self.order_query(number));
    }

    /// How long to wait for an answer after this many attempts: twice as long as answers took, and
    /// longer after each attempt.
    fn interval(&self, attempts: u32) -> u64 {
        let retry_ms = self.timeouts.client_retry_ms;
        let first = (self.latency / 4).clamp(retry_ms, retry_ms * PATIENCE_MAX);
        first << attempts.saturating_sub(1).min(DOUBLINGS_MAX)
    }

    fn retransmit(&mut self, out: &mut Vec<Effect>) {
        let primary = ReplicaSet::from_iter([self.primary()]);
        let (now, replicas) = (self.now, self.replicas);
        let intervals: [u64; 5] = core::array::from_fn(|attempts| self.interval(attempts as u32));
        for sent in self.drafts.values_mut() {
            if sent.deadline <= now && !mutant!("client.never-retries") {
                let patient = sent.busy || mutant!("client.trusts-primary");
                let to = if patient { primary } else { replicas };
                sent.busy = false;
                sent.attempts += 1;
                sent.to = ReplicaSet(sent.to.0 | to.0);
                sent.deadline = Millis(now.0 + intervals[sent.attempts.min(4) as usize]);
                out.push(Effect::Request { to, draft: sent.draft.clone() });
            }
            self.next_deadline = self.next_deadline.min(sent.deadline);
        }
    }

    /// Puts all that waits, as far as the window allows, into as few drafts as the limits allow.
    fn send_waiting(&mut self, out: &mut Vec<Effect>) {
        let floor = self.floor();
        let mut held_back = Vec::new();
        let mut requests = Vec::new();
        let header_bytes = Draft::header_bytes(self.events());
        let mut bytes = header_bytes;
        let mut waiting = core::mem::take(&mut self.waiting);
        // A query that became a request comes behind younger numbers.
        waiting.sort_unstable();
        for number in waiting {
            let Some(Pending::Waiting(operation)) = self.pending.get_mut(&number) else { continue };
            let operation = core::mem::take(operation);
            let size = Draft::REQUEST_HEADER_BYTES + operation.len();
            if bytes + size > ENVELOPE_BYTES_MAX || requests.len() == ENVELOPE_REQUESTS_MAX {
                self.send_draft(core::mem::take(&mut requests), bytes, out);
                bytes = header_bytes;
            }
            let full = self.drafts.len() - self.fences >= CLIENT_ENVELOPES_MAX;
            if full || number - floor >= CLIENT_WINDOW {
                self.pending.insert(number, Pending::Waiting(operation));
                held_back.push(number);
                continue;
            }
            bytes += size;
            requests.push(Request { number, operation });
        }
        self.send_draft(requests, bytes, out);
        self.waiting = held_back;
    }

    /// What envelopes acknowledge.
    fn events(&self) -> Option<u64> {
        self.inbox.as_ref().map(Inbox::next)
    }

    fn send_draft(&mut self, requests: Vec<Request>, bytes: usize, out: &mut Vec<Effect>) {
        if requests.is_empty() {
            return;
        }
        let draft = self.next_draft;
        for request in &requests {
            let (ballot, told, known) = (Ballot::default(), None, None);
            let sent = Pending::Sent { draft, fence: None, ballot, told, known };
            self.pending.insert(request.number, sent);
        }
        let large = bytes > ENVELOPE_INLINE_BYTES;
        let all = large || self.shows();
        let to = if all { self.replicas } else { ReplicaSet::from_iter([self.primary()]) };
        self.send_to(to, requests, false, out);
    }

    /// Sends requests under the next key.
    fn send_to(
        &mut self,
        to: ReplicaSet,
        requests: Vec<Request>,
        is_fence: bool,
        out: &mut Vec<Effect>,
    ) {
        let (client, floor, key) = (self.client, self.floor(), self.next_draft);
        self.next_draft += 1;
        let deadline = Millis(self.now.0 + self.interval(1));
        self.next_deadline = self.next_deadline.min(deadline);
        let open = requests.len();
        let draft = Draft { client, floor, events: self.events(), requests };
        out.push(Effect::Request { to, draft: draft.clone() });
        let sent_at = self.now;
        let (attempts, busy) = (1, false);
        let sent = Sent { draft, open, to, sent_at, deadline, attempts, busy, is_fence };
        self.drafts.insert(key, sent);
    }
}

/// Of a digest, as much as a number holds.
fn first_bytes(digest: &Digest) -> [u8; 8] {
    core::array::from_fn(|index| digest.0[index])
}

impl ClientCore for VotingClient {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        match event {
            Event::Submit { number, operation } => self.on_submit(number, operation, out),
            Event::Query { number, operation } => self.on_query(number, operation, out),
            Event::SubmitJudged { number, operation, fast } => {
                self.on_submit_judged(number, operation, fast, out);
            }
            Event::Settled { number } => self.on_settled(number),
            Event::Unheard { number, from } => self.on_unheard(number, from),
            Event::GiveUp { number } => self.on_give_up(number, out),
            Event::Resumed { below } => self.sent_below = below,
            Event::Message { from, message } => self.on_message(from, message, out),
            Event::Connected(replica) => {
                if self.replicas.contains(replica) {
                    self.reconnected.insert(replica);
                }
            }
            Event::Listen => {
                let (f, retry_ms) = (self.f, self.timeouts.client_retry_ms);
                self.inbox.get_or_insert_with(|| Inbox::new(self.n, f, retry_ms));
            }
            Event::Round { now } => self.on_round(now, out),
        }
    }

    fn outstanding(&self) -> usize {
        self.pending.len()
    }

    fn hands_on(&self) -> bool {
        true
    }
}
