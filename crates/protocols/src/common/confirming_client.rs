//! The client of protocols whose replicas execute before anything is final: it decides when a
//! result can be relied upon.
//!
//! * So many gave the same result for the same place as the protocol says: the request is complete.
//! * Fewer did, but enough, and the others do not come soon: the client has the place confirmed, in
//!   the protocol's way, and is done when enough replicas say that it is.
//! * Enough replicas say that the result is final. This is how requests complete that were asked
//!   for again, and it needs nothing from the client.
//!
//! Everything else is as for other protocols, so the core of those is inside.
//!
//! How long to wait for the slowest replicas is learned (Zyzzyva, section 4): as long as they took
//! when they came too late, also if that was after their place was confirmed, and hardly at all
//! while they do not come, or come so late that to have a place confirmed takes far less: who is
//! always that late costs no more than who is gone. Replicas that know that not all answer may say
//! with their answers that the place is confirmed. Then there is nothing to wait for, or to learn.
//!
//! One replica sends a long result, and the others send its digest
//! ([`pentarchy_core::designated_replier`]). A client that can rely on a digest and lacks the
//! result asks all replicas for it.
//!
//! Memory: for each outstanding number one vote per replica, and the places that these rest on; the
//! last [`CLIENT_LATE_MAX`] places that were confirmed before all had answered; and of results what
//! the core inside holds.

use super::voting_client::{Fingerprint, VotingClient};
use alloc::collections::{BTreeMap, VecDeque};
use alloc::vec::Vec;
use pentarchy_core::Bytes;
use pentarchy_core::auth::Signature;
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet};
use pentarchy_core::limits::CLIENT_LATE_MAX;
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Place, Reply, ToClient};

/// The wait for the slowest replicas before anything is known of them. None at all would have every
/// place confirmed that answers came for one by one.
const PATIENCE_FIRST_MS: u64 = 1;

/// The wait while they do not come, where replicas may confirm places by themselves: a client that
/// asked at once would do so before it hears of that, and for nothing.
const PATIENCE_LEAST_MS: u64 = 1;

/// The longest wait for the slowest replicas.
const PATIENCE_MAX_MS: u64 = 50;

/// Waiting may take so many times as long as to have a place confirmed: that takes signatures.
const PATIENCE_WORTH: u64 = 4;

/// After which a client says again what it needs for a place.
const AGAIN_MS: u64 = 25;

/// What the client of a protocol does in its own way.
pub trait Confirms: Send {
    /// What it collects for a place.
    type Collected: Default + Send;

    /// So many equal answers can be relied on.
    fn fast(&self) -> usize;

    /// So many can be once their place is confirmed.
    fn enough(&self) -> usize;

    /// So many replicas confirm a place.
    fn confirming(&self) -> usize;

    /// Whether it waits for the slowest replicas as long as that helped lately, or never.
    fn learns(&self) -> bool {
        true
    }

    /// Whether replicas that know that not all answer confirm places that nobody asked about.
    fn unasked(&self) -> bool {
        false
    }

    /// What all are told to have a place confirmed, also when that takes long.
    fn ask(&self, place: Place, collected: &mut Self::Collected) -> Vec<Bytes>;

    /// A replica signs what it answered: what all are told, if that makes a difference.
    fn on_vouched(
        &self,
        from: ReplicaId,
        (place, signature): (Place, Signature),
        collected: &mut Self::Collected,
    ) -> Option<Bytes> {
        let _ = (from, place, signature, collected);
        None
    }
}

/// What a replica answered last for a number.
struct Answer {
    place: Place,
    print: Fingerprint,
}

/// A place that answers rest on.
#[derive(Default)]
struct Standing {
    /// How many do.
    answers: usize,
    /// Who says that it is confirmed.
    confirmed: ReplicaSet,
}

/// A place for which enough answered alike, and not all.
struct Awaited<T> {
    /// The numbers that complete with it, and what came of them.
    results: BTreeMap<u64, Fingerprint>,
    /// When enough had answered.
    since: Millis,
    /// Since when that is asked for.
    asked: Option<Asked>,
    collected: T,
}

/// That replicas are asked to confirm a place.
struct Asked {
    /// When they were at first.
    first: Millis,
    /// When they are to be again.
    again: Millis,
}

/// A place that was confirmed before all had answered.
struct Late {
    place: Place,
    /// When enough had.
    since: Millis,
    /// Whether it was waited for in vain before it was confirmed.
    in_vain: bool,
    /// Who has answered by now.
    answered: ReplicaSet,
}

/// See the [module](self).
pub struct ConfirmingClient<R: Confirms> {
    rules: R,
    inner: VotingClient,
    replicas: ReplicaSet,
    now: Millis,
    /// Each one's last word.
    answers: BTreeMap<u64, BTreeMap<ReplicaId, Answer>>,
    /// What these rest on.
    places: BTreeMap<Place, Standing>,
    awaited: BTreeMap<Place, Awaited<R::Collected>>,
    /// Places that were confirmed before all had answered, the latest last.
    late: VecDeque<Late>,
    /// How long to wait for the slowest replicas.
    patience_ms: u64,
    /// How long it took lately to have a place confirmed.
    confirming_ms: u64,
}

impl<R: Confirms> ConfirmingClient<R> {
    /// A client of `n` replicas around what all clients do.
    #[must_use]
    pub fn new(rules: R, n: usize, inner: VotingClient) -> Self {
        Self {
            rules,
            inner,
            replicas: (0..n as u16).map(ReplicaId).collect(),
            now: Millis(0),
            answers: BTreeMap::new(),
            places: BTreeMap::new(),
            awaited: BTreeMap::new(),
            late: VecDeque::new(),
            patience_ms: PATIENCE_FIRST_MS,
            confirming_ms: PATIENCE_MAX_MS,
        }
    }

    fn on_message(&mut self, from: ReplicaId, message: ToClient, out: &mut Vec<Effect>) {
        match message {
            ToClient::Speculative { primary, place, replies } => {
                self.note_hint(from, primary, place);
                self.note_late(from, place);
                for reply in replies.into_iter().filter(|it| it.outcome != Outcome::Refused) {
                    if self.inner.awaits(reply.number) {
                        let told = (reply.number, Fingerprint::of(&reply.outcome));
                        self.on_answer(from, place, told, Some(reply), out);
                    }
                }
            }
            ToClient::SpeculativeDigests { primary, place, digests } => {
                self.note_hint(from, primary, place);
                self.note_late(from, place);
                for told in digests {
                    if self.inner.awaits(told.number) {
                        let told = (told.number, Fingerprint::Long(told.digest));
                        self.on_answer(from, place, told, None, out);
                    }
                }
            }
            ToClient::Vouched { place, signature } => {
                let Some(awaited) = self.awaited.get_mut(&place) else { return };
                let vouched = (place, signature);
                let message = self.rules.on_vouched(from, vouched, &mut awaited.collected);
                let to = self.replicas;
                out.extend(message.map(|message| Effect::Protocol { to, message }));
            }
            ToClient::Committed(place) => self.on_confirmed(from, place, out),
            message => self.inner.step(Event::Message { from, message }, out),
        }
    }

    fn note_hint(&mut self, from: ReplicaId, primary: ReplicaId, place: Place) {
        let by_view = mutant!("client.takes-views-for-primaries");
        self.inner.note_hint(from, if by_view { place.view.0 } else { u64::from(primary.0) });
    }

    fn on_answer(
        &mut self,
        from: ReplicaId,
        place: Place,
        (number, print): (u64, Fingerprint),
        told: Option<Reply>,
        out: &mut Vec<Effect>,
    ) {
        if self.inner.is_established(number) {
            told.into_iter().for_each(|reply| self.inner.offer(print, reply, out));
            return;
        }
        self.places.entry(place).or_default().answers += 1;
        let answers = self.answers.entry(number).or_default();
        let before = answers.insert(from, Answer { place, print });
        let same = |it: &&Answer| {
            (it.place == place || mutant!("client.ignores-places")) && it.print == print
        };
        let equal = answers.values().filter(same).count();
        before.into_iter().for_each(|answer| self.release(answer.place));
        if equal >= self.rules.fast() {
            mark!("client/fast");
            self.learn(place);
            match told {
                Some(reply) => self.inner.complete(number, reply.outcome, out),
                None => self.inner.establish(number, print, out),
            }
            self.forget(number);
            return;
        }
        let is_confirmed = equal >= self.rules.enough();
        told.iter().for_each(|reply| self.inner.note_result(from, reply, print, is_confirmed));
        if is_confirmed {
            let since = self.now;
            let awaited = self.awaited.entry(place).or_insert_with(|| Awaited {
                results: BTreeMap::new(),
                since,
                asked: None,
                collected: R::Collected::default(),
            });
            awaited.results.insert(number, print);
            self.check_confirmed(place, out);
        }
    }

    /// All have answered after all. If that was too late, waits as long the next time, unless that
    /// is too long.
    fn learn(&mut self, place: Place) {
        let Some(Awaited { since, asked, .. }) = self.awaited.get(&place) else { return };
        let patience = self.patience_for(*since);
        let is_too_long = patience == 0 && !mutant!("client.waits-whatever-it-takes");
        if asked.is_some() || is_too_long {
            self.patience_ms = patience;
        }
    }

    /// What would have been waited for; 0 if that is not worth it.
    fn patience_for(&self, since: Millis) -> u64 {
        let took = self.took(since);
        let most = PATIENCE_MAX_MS.min(PATIENCE_WORTH * self.confirming_ms);
        if took > most || !self.rules.learns() { 0 } else { took }
    }

    /// Milliseconds that have begun.
    const fn took(&self, since: Millis) -> u64 {
        self.now.0.saturating_sub(since.0) + 1
    }

    /// A place was confirmed before all had answered: whether the others do says how long to wait
    /// for them the next time.
    fn await_late(&mut self, place: Place, awaited: (Millis, bool), number: Option<&u64>) {
        let answers = number.and_then(|number| self.answers.get(number));
        let there = answers.into_iter().flatten().filter(|(_, answer)| answer.place == place);
        let answered = there.map(|(from, _)| *from).collect();
        let (since, in_vain) = awaited;
        self.late.retain(|late| late.place != place);
        self.late.push_back(Late { place, since, in_vain, answered });
        if self.late.len() > CLIENT_LATE_MAX {
            self.late.pop_front();
        }
    }

    /// A replica answers for a place that was confirmed without it. If all have now, nobody is
    /// gone: to have places confirmed costs more than to wait for the slowest. While nobody waits
    /// for it, it may fall behind by any time, and catches up when it is waited for.
    fn note_late(&mut self, from: ReplicaId, place: Place) {
        let Some(index) = self.late.iter().position(|late| late.place == place) else { return };
        let late = &mut self.late[index];
        late.answered.insert(from);
        if late.answered.len() >= self.rules.fast() && !mutant!("client.late-answers-teach-nothing")
        {
            mark!("client/late");
            let (since, in_vain) = (late.since, late.in_vain);
            self.late.remove(index);
            let is_endless = !in_vain && self.rules.learns() && self.patience_for(since) == 0;
            let took = if is_endless { PATIENCE_MAX_MS } else { self.patience_for(since) };
            self.patience_ms = self.patience_ms.max(took);
        }
    }

    /// What came of a number can be relied on, whether the result is here or not.
    fn forget(&mut self, number: u64) {
        let answers = self.answers.remove(&number).unwrap_or_default();
        answers.values().for_each(|answer| self.release(answer.place));
        self.awaited.retain(|_, awaited| {
            awaited.results.remove(&number);
            !awaited.results.is_empty()
        });
    }

    /// One answer less rests on a place.
    fn release(&mut self, place: Place) {
        let Some(standing) = self.places.get_mut(&place) else { return };
        standing.answers -= 1;
        if standing.answers == 0 {
            self.places.remove(&place);
        }
    }

    /// A replica says that a place is confirmed, maybe before enough have answered for it.
    fn on_confirmed(&mut self, from: ReplicaId, place: Place, out: &mut Vec<Effect>) {
        let early = !self.awaited.contains_key(&place);
        let Some(standing) = self.places.get_mut(&place) else { return };
        if !early || !mutant!("client.forgets-what-was-confirmed") {
            standing.confirmed.insert(from);
        }
        self.check_confirmed(place, out);
    }

    /// Enough say that a place is confirmed for which enough answered alike.
    fn check_confirmed(&mut self, place: Place, out: &mut Vec<Effect>) {
        let confirmed = self.places.get(&place).map_or(0, |standing| standing.confirmed.len());
        let Some(awaited) = self.awaited.get_mut(&place) else { return };
        if confirmed < self.rules.confirming() {
            return;
        }
        mark!("client/confirmed");
        let (since, results) = (awaited.since, core::mem::take(&mut awaited.results));
        let asked = awaited.asked.as_ref().map(|asked| asked.first);
        let in_vain = asked.is_some();
        if let Some(first) = asked {
            self.patience_ms /= 2;
            self.confirming_ms = self.took(first);
        }
        self.await_late(place, (since, in_vain), results.keys().next());
        for (number, print) in results {
            self.inner.establish(number, print, out);
            self.forget(number);
        }
    }

    fn on_round(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        let (to, mut wake_at) = (self.replicas, None);
        let least_ms = if self.rules.unasked() { PATIENCE_LEAST_MS } else { 0 };
        let patience_ms = self.patience_ms.max(least_ms);
        for (place, awaited) in &mut self.awaited {
            let patience_ends = Millis(awaited.since.0 + patience_ms);
            let mut at = awaited.asked.as_ref().map_or(patience_ends, |asked| asked.again);
            if at <= self.now {
                at = Millis(self.now.0 + AGAIN_MS);
                let first = awaited.asked.take().map_or(self.now, |asked| asked.first);
                awaited.asked = Some(Asked { first, again: at });
                let messages = self.rules.ask(*place, &mut awaited.collected).into_iter();
                out.extend(messages.map(|message| Effect::Protocol { to, message }));
            }
            wake_at = Some(wake_at.map_or(at, |earlier: Millis| earlier.min(at)));
        }
        out.extend(wake_at.map(Effect::WakeAt));
    }
}

impl<R: Confirms> ClientCore for ConfirmingClient<R> {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        let before = out.len();
        match event {
            Event::Message { from, .. } if !self.replicas.contains(from) => {}
            Event::Message { from, message } => self.on_message(from, message, out),
            Event::Round { now } => {
                self.inner.step(Event::Round { now }, out);
                self.on_round(now, out);
            }
            other => self.inner.step(other, out),
        }
        // What completed otherwise need not be confirmed any more.
        let completed = |effect: &Effect| match effect {
            Effect::Completed { number, .. } => Some(*number),
            _ => None,
        };
        let done: Vec<u64> = out.iter().skip(before).filter_map(completed).collect();
        done.into_iter().for_each(|number| self.forget(number));
    }

    fn outstanding(&self) -> usize {
        self.inner.outstanding()
    }
}
