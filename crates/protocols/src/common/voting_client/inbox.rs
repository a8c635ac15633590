//! What the service tells a client unasked. Replicas number a client's events alike, so the client
//! votes on each number, and gives the application what `f + 1` replicas say, in order.
//!
//! Copies get lost: a replica was not connected, fell behind and fetched a state, or dropped what a
//! slow client did not read. So the client asks all replicas for what they keep, from the lowest
//! number that it has not delivered: on each new connection, when a number waits for copies, and
//! now and then although nothing seems to be missing, as it cannot know of an event of which no
//! copy came. When `f + 1` replicas say that there are no copies any more, one of them is correct:
//! the number is lost, and the application is told that.
//!
//! Memory: numbers count only in a window of [`CLIENT_EVENTS_MAX`] above what was delivered. For
//! each of them, one fingerprint per replica, and the body once `f + 1` vouch for it, so liars
//! cannot make it grow; of such bodies no more than [`CLIENT_EVENTS_BYTES_MAX`], the lowest first.

use super::ballot::{Ballot, Fingerprint};
use super::{Bytes, Effect, Millis, Outcome, ReplicaId, ReplicaSet, Vec, mutant, vec};
use alloc::collections::BTreeMap;
use pentarchy_core::limits::{CLIENT_EVENTS_BYTES_MAX, CLIENT_EVENTS_MAX, EVENT_HEADER_BYTES};

#[cfg(test)]
mod tests;

/// The longest time between two questions for events, in milliseconds.
const ASK_MS_MAX: u64 = 5_000;

/// One number that was not delivered.
enum Candidate {
    /// What replicas say it is.
    Open(Ballot),
    /// What it is; numbers below are missing.
    Known(Bytes),
}

/// See the [module](self).
pub struct Inbox {
    f: usize,
    /// The lowest number that was not delivered and is not lost.
    next: u64,
    candidates: BTreeMap<u64, Candidate>,
    /// What the [`Candidate::Known`] count.
    known_bytes: usize,
    /// Below which each replica says that it keeps nothing.
    oldest: Vec<u64>,
    retry_ms: u64,
    /// How long to wait after the next question.
    interval_ms: u64,
    ask_at: Millis,
    /// Something changed: [`Self::ask_at`] is to be no later than a retry from now.
    hurry: bool,
}

impl Inbox {
    /// Nothing was delivered. Copies that are missing are asked for after `retry_ms`.
    pub fn new(n: usize, f: usize, retry_ms: u64) -> Self {
        Self {
            f,
            next: 1,
            candidates: BTreeMap::new(),
            known_bytes: 0,
            oldest: vec![0; n],
            retry_ms,
            interval_ms: retry_ms,
            ask_at: Millis(0),
            hurry: false,
        }
    }

    /// The lowest number that was not delivered and is not lost.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// A replica says that it has these events, from `first` on, and none below `oldest`.
    pub fn on_events(
        &mut self,
        from: ReplicaId,
        (oldest, first, events): (u64, u64, Vec<Bytes>),
        out: &mut Vec<Effect>,
    ) {
        let Some(known) = self.oldest.get_mut(usize::from(from.0)) else { return };
        let is_news = oldest > *known;
        *known = oldest.max(*known);
        let was_waiting = !self.candidates.is_empty();
        let next = self.next;
        for (index, body) in (0..).zip(events) {
            // A liar's numbers may have no successor.
            let Some(number) = first.checked_add(index) else { break };
            self.cast(from, number, &body, out);
        }
        if is_news {
            self.skip_lost(out);
        }
        if self.next > next {
            self.interval_ms = self.retry_ms;
        }
        // A liar can make something wait, but not again and again without end.
        self.hurry |= self.next > next || (!was_waiting && !self.candidates.is_empty());
    }

    fn cast(&mut self, from: ReplicaId, number: u64, body: &Bytes, out: &mut Vec<Effect>) {
        let ahead = number.checked_sub(self.next);
        if ahead.is_none_or(|ahead| ahead >= CLIENT_EVENTS_MAX as u64) {
            return;
        }
        let candidate =
            self.candidates.entry(number).or_insert_with(|| Candidate::Open(Ballot::default()));
        let Candidate::Open(ballot) = candidate else { return };
        let enough = if mutant!("client.believes-f-about-events") { self.f } else { self.f + 1 };
        if ballot.cast(from, Fingerprint::of(&Outcome::Done(body.clone()))) < enough {
            return;
        }
        if ahead == Some(0) {
            self.candidates.remove(&number);
            self.deliver(body.clone(), out);
            self.deliver_known(out);
        } else {
            // A copy, or a body of a few bytes would keep the frame in which it came.
            *candidate = Candidate::Known(Bytes::copy_from_slice(body));
            self.known_bytes += bytes_of(body);
            self.trim();
        }
    }

    fn deliver(&mut self, body: Bytes, out: &mut Vec<Effect>) {
        out.push(Effect::Event { number: self.next, body });
        self.next += 1;
    }

    fn deliver_known(&mut self, out: &mut Vec<Effect>) {
        while let Some(Candidate::Known(_)) = self.candidates.get(&self.next) {
            if let Some(Candidate::Known(body)) = self.candidates.remove(&self.next) {
                self.known_bytes -= bytes_of(&body);
                self.deliver(body, out);
            }
        }
    }

    /// Forgets the highest numbers while bodies take too much; they are asked for again.
    fn trim(&mut self) {
        while self.known_bytes > CLIENT_EVENTS_BYTES_MAX
            && let Some((_, candidate)) = self.candidates.pop_last()
        {
            if let Candidate::Known(body) = candidate {
                self.known_bytes -= bytes_of(&body);
            }
        }
    }

    /// Below which one correct replica at least says that it keeps nothing.
    fn gone_below(&self) -> u64 {
        let mut oldest = self.oldest.clone();
        oldest.sort_unstable_by(|a, b| b.cmp(a));
        oldest.get(self.f).copied().unwrap_or_default()
    }

    /// Passes over what nobody has to give any more, and delivers what is known in between.
    fn skip_lost(&mut self, out: &mut Vec<Effect>) {
        let gone_below = self.gone_below();
        while self.next < gone_below {
            let known = |(number, candidate): (&u64, &Candidate)| {
                matches!(candidate, Candidate::Known(_)).then_some(*number)
            };
            let upto = self.candidates.range(..gone_below).find_map(known).unwrap_or(gone_below);
            self.candidates = self.candidates.split_off(&upto);
            self.next = upto;
            out.push(Effect::EventsLost { upto });
            self.deliver_known(out);
        }
    }

    /// Asks who was connected again, or everyone when it is time; says when that will be next.
    pub fn on_round(
        &mut self,
        now: Millis,
        connected: ReplicaSet,
        replicas: ReplicaSet,
        out: &mut Vec<Effect>,
    ) -> Millis {
        let is_due = self.ask_at <= now;
        let to = if is_due { replicas } else { connected };
        if to != ReplicaSet::EMPTY {
            out.push(Effect::Resume { to, from: self.next });
        }
        if is_due {
            self.ask_at = Millis(now.0 + self.interval_ms);
            self.interval_ms = (2 * self.interval_ms).min(ASK_MS_MAX.max(self.retry_ms));
        } else if self.hurry {
            self.ask_at = Millis(now.0 + self.retry_ms);
        }
        self.hurry = false;
        self.ask_at
    }
}

fn bytes_of(body: &Bytes) -> usize {
    EVENT_HEADER_BYTES + body.len()
}
