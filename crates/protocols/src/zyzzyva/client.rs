//! The client: it decides when a result can be relied upon (sections 3.2 to 3.4).
//!
//! * All replicas (of Zyzzyva5 all but `f`) gave the same result on the same history in the same
//!   view: every later view takes that over, so the request is complete.
//! * Only a quorum did, and the others do not come soon: asks them to sign what they answered,
//!   shows all replicas the signatures, and is done when a quorum keeps them.
//! * `f + 1` replicas say that the result is final. One of them is correct. This is how requests
//!   complete that were asked for again, and it needs nothing from the client.
//!
//! Everything else is as for other protocols, so the core of those is inside.
//!
//! How long to wait for the slowest replicas is learned (section 4): as long as they took when they
//! came too late, and not at all once they did not come, or much too late. Where replicas, once
//! asked, keep certificates by themselves, a client gives them a moment before it asks again.
//!
//! Of a long result one replica tells all, the others its digest ([`pentarchy_core::telling`]). A
//! client that can rely on a digest and lacks the result asks everyone for it.
//!
//! Memory: for each outstanding number one vote per replica, and of results what the core inside
//! holds.

use super::certificate::Committed;
use super::message::Message;
use super::table::Table;
use crate::common::voting_client::{Fingerprint, VotingClient};
use alloc::collections::BTreeMap;
use alloc::sync::Arc;
use alloc::vec::Vec;
use pentarchy_core::auth::Signature;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Millis, ReplicaId, ReplicaSet};
use pentarchy_core::mark;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{ClientCore, Effect, Event, Outcome, Place, Reply, ToClient};
use pentarchy_core::quorum::Quorums;
use pentarchy_core::telling::ResultDigest;
use pentarchy_core::wire::Wire;

/// The longest wait for the slowest replicas.
const PATIENCE_MAX_MS: u64 = 50;

/// The wait for replicas that keep certificates without being shown any.
const COMMITTING_MS: u64 = 5;

/// After which a client says again what it needs for a slot.
const AGAIN_MS: u64 = 25;

/// What replicas answered to one number; each one's last word.
type Answers = Vec<(ReplicaId, Place, Fingerprint)>;

/// A slot in which a quorum answered alike, and not all.
struct Proving {
    /// The numbers that complete with it, and what came of them.
    results: BTreeMap<u64, Fingerprint>,
    /// When a quorum had answered.
    since: Millis,
    /// When to say again what is needed; none if that was not said yet.
    asked: Option<Millis>,
    /// How often it was said.
    attempts: u64,
    signatures: BTreeMap<ReplicaId, Signature>,
    /// Who keeps them.
    kept: ReplicaSet,
}

/// A client that takes part: see the top of this file.
pub struct ZyzzyvaClient {
    inner: VotingClient,
    table: Table,
    replicas: ReplicaSet,
    now: Millis,
    answers: BTreeMap<u64, Answers>,
    proving: BTreeMap<Place, Proving>,
    /// How long to wait for the slowest replicas.
    patience_ms: u64,
}

impl ZyzzyvaClient {
    /// A client around what all clients do, for a group of this size under the rules of
    /// [`super::Zyzzyva`]'s parameter.
    #[must_use]
    pub fn new(kind: usize, group: Quorums, inner: VotingClient) -> Self {
        Self {
            inner,
            table: Table::new(kind, group),
            replicas: (0..group.n as u16).map(ReplicaId).collect(),
            now: Millis(0),
            answers: BTreeMap::new(),
            proving: BTreeMap::new(),
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
        if !self.replicas.contains(from) {
            return;
        }
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
        if !self.replicas.contains(from) {
            return;
        }
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
        let answer = (from, place, print);
        match answers.iter_mut().find(|(who, ..)| *who == from) {
            Some(known) => *known = answer,
            None => answers.push(answer),
        }
        let same = |(_, at, what): &&(ReplicaId, Place, Fingerprint)| {
            (*at == place || mutant!("zyzzyva.client-ignores-history")) && *what == answer.2
        };
        let equal = answers.iter().filter(same).count();
        let fast = if mutant!("zyzzyva.client-believes-a-quorum") {
            self.table.quorum
        } else {
            self.table.fast
        };
        if equal >= fast {
            mark!("zyzzyva/client_fast");
            self.learn(place);
            match told {
                Some(reply) => self.complete(number, reply.outcome, out),
                None => self.establish(number, print, out),
            }
            return;
        }
        let is_confirmed = equal >= self.table.quorum;
        told.iter().for_each(|reply| self.inner.note_result(from, reply, print, is_confirmed));
        if is_confirmed {
            let since = self.now;
            let proving = self.proving.entry(place).or_insert_with(|| Proving {
                results: BTreeMap::new(),
                since,
                asked: None,
                attempts: 0,
                signatures: BTreeMap::new(),
                kept: ReplicaSet::EMPTY,
            });
            proving.results.insert(number, print);
        }
    }

    /// All have answered after all. If that was too late, waits as long the next time, unless that
    /// is too long.
    fn learn(&mut self, place: Place) {
        if let Some(Proving { since, asked: Some(_), .. }) = self.proving.get(&place) {
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
        self.proving.retain(|_, proving| {
            proving.results.remove(&number);
            !proving.results.is_empty()
        });
    }

    /// A replica signs what it answered.
    fn on_vouched(
        &mut self,
        from: ReplicaId,
        place: Place,
        signature: Signature,
        out: &mut Vec<Effect>,
    ) {
        let quorum = self.table.quorum;
        let Some(proving) = self.proving.get_mut(&place) else { return };
        if self.replicas.contains(from) && !proving.signatures.contains_key(&from) {
            proving.signatures.insert(from, signature);
            if proving.signatures.len() == quorum {
                mark!("zyzzyva/client_certificate_made");
                let message = proving.certificate(place, quorum);
                out.push(Effect::Protocol { to: self.replicas, message });
            }
        }
    }

    /// A replica keeps proof.
    fn on_kept(&mut self, from: ReplicaId, place: Place, out: &mut Vec<Effect>) {
        let quorum = self.table.quorum;
        let Some(proving) = self.proving.get_mut(&place) else { return };
        if self.replicas.contains(from) {
            proving.kept.insert(from);
        }
        let enough = if mutant!("zyzzyva.client-trusts-one-keeper") { 1 } else { quorum };
        if proving.kept.len() >= enough {
            mark!("zyzzyva/client_committed");
            // Having been asked once, they do so for a while by themselves.
            self.patience_ms = if self.table.commits { COMMITTING_MS } else { 0 };
            let results = core::mem::take(&mut proving.results);
            results.into_iter().for_each(|(number, print)| self.establish(number, print, out));
        }
    }

    fn on_round(&mut self, now: Millis, out: &mut Vec<Effect>) {
        self.now = self.now.max(now);
        let quorum = self.table.quorum;
        let mut wake_at = None;
        for (place, proving) in &mut self.proving {
            let due = proving.asked.unwrap_or(Millis(proving.since.0 + self.patience_ms));
            let mut at = due;
            if due <= self.now {
                at = Millis(self.now.0 + AGAIN_MS);
                proving.asked = Some(at);
                proving.attempts += 1;
                let (view, slot) = (place.view, place.slot);
                let to = self.replicas;
                let message = Message::Vouch { view, slot }.to_bytes();
                out.push(Effect::Protocol { to, message });
                if proving.signatures.len() >= quorum {
                    let message = proving.certificate(*place, quorum);
                    out.push(Effect::Protocol { to, message });
                }
            }
            wake_at = Some(wake_at.map_or(at, |earlier: Millis| earlier.min(at)));
        }
        out.extend(wake_at.map(Effect::WakeAt));
    }
}

impl Proving {
    /// A commit certificate. The client cannot tell which signatures are good; if some are not, it
    /// tries others.
    fn certificate(&self, place: Place, quorum: usize) -> pentarchy_core::Bytes {
        let mut signatures: Vec<(ReplicaId, Signature)> =
            self.signatures.iter().map(|(id, signature)| (*id, *signature)).collect();
        let order = |(id, _): &(ReplicaId, Signature)| {
            let seed = [self.attempts.to_le_bytes(), u64::from(id.0).to_le_bytes()].concat();
            if self.attempts <= 1 { Digest::default() } else { Digest::of(&seed) }
        };
        signatures.sort_by_key(order);
        signatures.truncate(quorum);
        Message::Certificate(Arc::new(Committed { place, signatures })).to_bytes()
    }
}

impl ClientCore for ZyzzyvaClient {
    fn step(&mut self, event: Event, out: &mut Vec<Effect>) {
        let before = out.len();
        match event {
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
            Event::Message { from, message: ToClient::Vouched { place, signature } } => {
                self.on_vouched(from, place, signature, out);
            }
            Event::Message { from, message: ToClient::Committed(place) } => {
                self.on_kept(from, place, out);
            }
            Event::Round { now } => {
                self.inner.step(Event::Round { now }, out);
                self.on_round(now, out);
            }
            other => self.inner.step(other, out),
        }
        // What completed otherwise needs no proof any more.
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
