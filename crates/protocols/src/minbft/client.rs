//! MinZyzzyva's client: it decides when a result can be relied upon (section 5).
//!
//! * All replicas gave the same result for the same place, which is a view and a slot with what
//!   that orders: every later view takes it over, so the request is complete.
//! * Only `f + 1` did, and the others do not come soon: asks all to make that final. It is done
//!   when `f + 1` say that it is; one of them is correct.
//! * `f + 1` replicas say that the result is final. This is how requests complete that were asked
//!   for again.
//!
//! Everything else is as for other protocols, so the core of those is inside.
//!
//! How long to wait for the slowest replicas is learned: as long as they took when they came too
//! late, and not at all once they did not come, or much too late.
//!
//! Of a long result one replica tells all, the others its digest ([`pentarchy_core::telling`]). A
//! client that can rely on a digest and lacks the result asks everyone for it.
//!
//! Memory: for each outstanding number one vote per replica, and of results what the core inside
//! holds.

use super::message::Message;
use crate::common::voting_client::{Fingerprint, VotingClient};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Place, Reply, ToClient};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::telling::ResultDigest;
use pentarchy_core::wire::Wire;

/// The longest wait for the slowest replicas.
const PATIENCE_MAX_MS: u64 = 50;

/// After which a client says again that it waits for a slot.
const AGAIN_MS: u64 = 25;

/// A place for which enough answered alike, and not all.
struct Settling {
    /// The numbers that complete with it, and what came of them.
    results: BTreeMap<u64, Fingerprint>,
    /// When enough had answered.
    since: Millis,
    /// When to ask again; none if that was not asked yet.
    asked: Option<Millis>,
    /// Who says that it is final.
    settled: ReplicaSet,
}

/// A client that takes part: see the top of this file.
pub struct MinZyzzyvaClient {
    inner: VotingClient,
    replicas: ReplicaSet,
    weak: usize,
    /// So many say that a place is final before it is believed: in a large group more than `weak`,
    /// so that whoever reads later hears of it.
    settles: usize,
    now: Millis,
    /// Each one's last word.
    answers: BTreeMap<u64, BTreeMap<ReplicaId, (Place, Fingerprint)>>,
    settling: BTreeMap<Place, Settling>,
    /// How long to wait for the slowest replicas.
    patience_ms: u64,
}

impl MinZyzzyvaClient {
    /// A client around what all clients do, for a group of this size.
    #[must_use]
    pub fn new(group: Quorums, inner: VotingClient) -> Self {
        Self {
            inner,
            replicas: (0..group.n as u16).map(ReplicaId).collect(),
            weak: group.weak(),
            settles: group.replies(),
            now: Millis(0),
            answers: BTreeMap::new(),
            settling: BTreeMap::new(),
            patience_ms: 0,
        }
    }

    fn on_speculative(
        &mut self,
        from: ReplicaId,
        place: Place,
        replies: Vec<Reply>,
        out: &mut Vec<Effect>,
    ) {
        for reply in replies.into_iter().filter(|it| it.outcome != Outcome::Refused) {
            if self.inner.awaits(reply.number) {
                let told = (reply.number, Fingerprint::of(&reply.outcome));
                self.on_answer(from, place, told, Some(reply), out);
            }
        }
    }

    /// Another replica tells the results.
    fn on_digests(
        &mut self,
        from: ReplicaId,
        place: Place,
        digests: Vec<ResultDigest>,
        out: &mut Vec<Effect>,
    ) {
        for ResultDigest { number, digest } in digests {
            if self.inner.awaits(number) {
                self.on_answer(from, place, (number, Fingerprint::Long(digest)), None, out);
            }
        }
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
        let answers = self.answers.entry(number).or_default();
        answers.insert(from, (place, print));
        let same = |(at, what): &&(Place, Fingerprint)| {
            (*at == place || mutant!("minzyzzyva.client-ignores-places")) && *what == print
        };
        let equal = answers.values().filter(same).count();
        let few = mutant!("minzyzzyva.client-believes-f-and-one");
        if equal >= if few { self.weak } else { self.replicas.len() } {
            mark!("minzyzzyva/client_fast");
            self.learn(place);
            match told {
                Some(reply) => self.complete(number, reply.outcome, out),
                None => self.establish(number, print, out),
            }
            return;
        }
        let is_confirmed = equal >= self.weak;
        told.iter().for_each(|reply| self.inner.note_result(from, reply, print, is_confirmed));
        if is_confirmed {
            let since = self.now;
            let settling = self.settling.entry(place).or_insert_with(|| Settling {
                results: BTreeMap::new(),
                since,
                asked: None,
                settled: ReplicaSet::EMPTY,
            });
            settling.results.insert(number, print);
        }
    }

    /// All have answered after all. If that was too late, waits as long the next time, unless that
    /// is too long.
    fn learn(&mut self, place: Place) {
        if let Some(Settling { since, asked: Some(_), .. }) = self.settling.get(&place) {
            let took = self.now.0.saturating_sub(since.0) + 1;
            self.patience_ms = if took > PATIENCE_MAX_MS { 0 } else { took };
        }
    }

    fn complete(&mut self, number: u64, outcome: Outcome, out: &mut Vec<Effect>) {
        self.inner.complete(number, outcome, out);
        self.forget(number);
    }

    /// What came of a number can be relied on, whether the result is here or not.
    fn establish(&mut self, number: u64, print: Fingerprint, out: &mut Vec<Effect>) {
        self.inner.establish(number, print, out);
        self.forget(number);
    }

    fn forget(&mut self, number: u64) {
        self.answers.remove(&number);
        self.settling.retain(|_, settling| {
            settling.results.remove(&number);
            !settling.results.is_empty()
        });
    }

    /// A replica says that a place is final.
    fn on_settled(&mut self, from: ReplicaId, place: Place, out: &mut Vec<Effect>) {
        let Some(settling) = self.settling.get_mut(&place) else { return };
        settling.settled.insert(from);
        let enough = if mutant!("minzyzzyva.client-believes-one") { 1 } else { self.settles };
        if settling.settled.len() >= enough {
            mark!("minzyzzyva/client_settled");
            self.patience_ms = 0;
            let results = core::mem::take(&mut settling.results);
            results.into_iter().for_each(|(number, print)| self.establish(number, print, out));
        }
    }

    fn on_round(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        let mut wake_at = None;
        for (place, settling) in &mut self.settling {
            let due = settling.asked.unwrap_or(Millis(settling.since.0 + self.patience_ms));
            let mut at = due;
            if due <= self.now {
                at = Millis(self.now.0 + AGAIN_MS);
                settling.asked = Some(at);
                let message = Message::Settle { view: place.view, slot: place.slot }.to_bytes();
                out.push(Effect::Protocol { to: self.replicas, message });
            }
            wake_at = Some(wake_at.map_or(at, |earlier: Millis| earlier.min(at)));
        }
        out.extend(wake_at.map(Effect::WakeAt));
    }
}

impl ClientCore for MinZyzzyvaClient {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        let before = out.len();
        match event {
            Event::Message { from, .. } if !self.replicas.contains(from) => {}
            Event::Message { from, message: ToClient::Speculative { primary, place, replies } } => {
                self.inner.note_hint(from, u64::from(primary.0));
                self.on_speculative(from, place, replies, out);
            }
            Event::Message {
                from,
                message: ToClient::SpeculativeDigests { primary, place, digests },
            } => {
                self.inner.note_hint(from, u64::from(primary.0));
                self.on_digests(from, place, digests, out);
            }
            Event::Message { from, message: ToClient::Committed(place) } => {
                self.on_settled(from, place, out);
            }
            Event::Round { now } => {
                self.inner.step(Event::Round { now }, out);
                self.on_round(now, out);
            }
            other => self.inner.step(other, out),
        }
        // What completed otherwise need not be settled any more.
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
