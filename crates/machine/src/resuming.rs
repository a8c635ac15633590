//! The question before a replica speaks again: how far had it come, as others saw it?
//!
//! A data folder that was restored from a copy is whole, and older than what its owner has said
//! since. A replica that went on from it would certify again, and otherwise, what it has certified.
//! So a replica that goes on from its folder asks its peers first for the last statement of its
//! device that each has seen, with the device's certificate. If one of these is beyond its own log,
//! it ends. A peer can hide what it saw, and cannot invent it. A life that the group has not
//! admitted yet has said nothing, so it does not ask: what peers know is of the life before.
//!
//! It asks in the epoch in which it resumes and in each later one, until in one of them `f + 1`
//! others have answered that are in that epoch themselves. A peer that is in another epoch does not
//! answer: it shows how the epochs between them ended, or asks for that. After those answers the
//! replica need not ask in any later epoch. A correct peer that answered in an epoch had noted
//! nothing of any later one; whatever it notes there from then on, the replica says after it asked,
//! as the process that wrote the folder has ended. To ask that peer again would show nothing more.
//!
//! Peers know what came since they were started. So this finds a folder that is put back while the
//! others go on, and not one that is put back while all are stopped. And they know what they looked
//! at: statements of which nothing follows any more when they come are dropped unread, so a backup
//! that was always the last to commit may go unnoticed. Nor is told of what waits unread when the
//! question comes, in a socket of a pillar, say, if its thread is late.

use crate::halt::Halt;
use crate::seen::Seen;
use pentarchy_core::counter::{Instance, Memory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Epoch, MemberId, ReplicaId};
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_core::mutant;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::collections::BTreeSet;

/// First byte of a peer's message: a `Message` follows.
pub const RESUMING: u8 = 3;

/// Milliseconds between two questions to a peer that has not answered.
const ASK_EVERY_MS: u64 = 100;

/// Milliseconds after the first answer after which it goes on although fewer than `f + 1` others
/// have answered: they may be gone, and the group must be able to go on with those that are left.
const ASK_FOR_MS: u64 = 2_000;

/// Milliseconds after which it goes on although nobody has answered: on a busy machine it takes a
/// while until others are connected again.
const ASK_NOBODY_FOR_MS: u64 = 10_000;

/// Question and answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Message {
    /// What did you see of mine last?
    Ask {
        /// In this epoch.
        epoch: Epoch,
    },
    /// This, or nothing.
    Seen {
        /// In this epoch, in which the peer that answers is itself.
        epoch: Epoch,
        /// Of each counter, the statement's digest and its certificate.
        lasts: Vec<(Digest, Ui)>,
    },
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Ask { epoch } => {
                to.u8(0);
                epoch.encode(to);
            }
            Self::Seen { epoch, lasts } => {
                to.u8(1);
                epoch.encode(to);
                to.sequence(lasts);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => Ok(Self::Ask { epoch: Epoch::decode(from)? }),
            1 => Ok(Self::Seen {
                epoch: Epoch::decode(from)?,
                lasts: from.sequence(usize::from(PILLARS_MAX))?,
            }),
            _ => Err(Malformed),
        }
    }
}

/// What this replica knows of others' statements, and what it wants to know of its own.
#[derive(Default)]
pub struct Resuming {
    pub(crate) seen: Seen,
    /// What pillars with threads of their own have seen.
    of_pillars: Vec<Seen>,
    /// Whether to ask in the next epoch too: this process went on from a folder, and has not had
    /// answers of `f + 1` others in one epoch yet.
    asks: bool,
    /// What its devices remember that speak in other threads, before they speak.
    pub(crate) elsewhere: Vec<(Instance, Memory)>,
    /// Since when it waits for answers before it speaks.
    since: Option<u64>,
    /// When the first one came.
    first_ms: Option<u64>,
    asked_ms: Option<u64>,
    pub(crate) answered: BTreeSet<MemberId>,
}

/// What a replica that waits for answers is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Ask these, if any.
    Ask(Vec<MemberId>),
    /// Speak: enough others have answered.
    Speak,
    /// Speak: too few others have answered for too long.
    SpeakAnyway,
}

impl Resuming {
    /// Of a replica that goes on from what it had kept, or not. Its devices that speak in other
    /// threads remember this.
    #[must_use]
    pub fn new(asks: bool, elsewhere: Vec<(Instance, Memory)>) -> Self {
        Self { asks, elsewhere, ..Self::default() }
    }

    /// For one more pillar with a thread of its own, which notes there what others said.
    pub fn add_pillar(&mut self) -> Seen {
        let seen = Seen::default();
        self.of_pillars.push(seen.clone());
        seen
    }

    /// Another epoch begins: its devices have said nothing in it.
    pub(crate) fn begin_epoch(&mut self) {
        self.elsewhere.iter_mut().for_each(|(_, memory)| *memory = Memory::default());
    }

    /// Another epoch has begun, or the process has.
    pub(crate) fn begin(&mut self, is_admitted: bool, now_ms: u64) {
        self.since = (self.asks && is_admitted).then_some(now_ms);
        (self.first_ms, self.asked_ms) = (None, None);
        self.answered.clear();
    }

    /// Whether it waits for answers, before it speaks.
    pub(crate) const fn is_waiting(&self) -> bool {
        self.since.is_some()
    }

    /// What it does about its question at this time; nothing if it has none. `wanted` of the others
    /// are enough.
    pub(crate) fn next(
        &mut self,
        others: impl Iterator<Item = MemberId>,
        wanted: usize,
        now_ms: u64,
    ) -> Option<Next> {
        let (since, others) = (self.since?, others.collect::<Vec<_>>());
        if self.answered.len() >= wanted.min(others.len()) || mutant!("resuming.asks-nobody") {
            self.since = None;
            self.asks &= mutant!("resuming.asks-for-ever");
            return Some(Next::Speak);
        }
        let first_late = self.first_ms.is_some_and(|at| now_ms >= at + ASK_FOR_MS);
        if first_late || now_ms >= since + ASK_NOBODY_FOR_MS {
            self.since = None;
            return Some(Next::SpeakAnyway);
        }
        if self.asked_ms.is_some_and(|asked| now_ms < asked + ASK_EVERY_MS) {
            return Some(Next::Ask(Vec::new()));
        }
        self.asked_ms = Some(now_ms);
        let has_not = |peer: &MemberId| !self.answered.contains(peer);
        Some(Next::Ask(others.into_iter().filter(has_not).collect()))
    }

    /// When it wants to be [asked](Self::next) again what to do, if it has a question.
    pub(crate) fn wake_at(&self) -> Option<u64> {
        self.since.map(|since| self.asked_ms.map_or(since, |asked| asked + ASK_EVERY_MS))
    }

    /// What a replica in epoch `mine` answers a peer that asks in epoch `asked`; nothing if that is
    /// another one, or if the peer, whose place in its own epoch is told by `place`, has none.
    pub(crate) fn answer(
        &self,
        mine: Epoch,
        asked: Epoch,
        place: impl FnOnce() -> Option<ReplicaId>,
    ) -> Option<Message> {
        if asked != mine && !mutant!("resuming.any-epoch-counts") {
            return None;
        }
        Some(Message::Seen { epoch: asked, lasts: self.seen_of(asked, place()?) })
    }

    /// A peer has seen these statements, which are to be this replica's own; its devices remember
    /// that. A peer that is not asked is not believed: a replica that speaks is beyond what it knew
    /// before.
    pub(crate) fn on_seen(
        &mut self,
        peer: MemberId,
        lasts: &[(Digest, Ui)],
        memories: &[(Instance, Memory)],
        is_mine: impl Fn(&Digest, &Ui) -> bool,
        now_ms: u64,
    ) -> Result<Result<(), Reject>, Halt> {
        if self.since.is_none() || memories.is_empty() {
            return Ok(Ok(()));
        }
        for (digest, ui) in lasts {
            let its = memories.iter().find(|(instance, _)| *instance == ui.instance);
            let Some((_, memory)) = its.filter(|_| is_mine(digest, ui)) else {
                return Ok(Err(Reject::BadAuth));
            };
            if is_beyond(memory, digest, ui.position) {
                return Err(Halt::Rewound { peer, seen: ui.position, kept: memory.last });
            }
        }
        self.answered.insert(peer);
        self.first_ms.get_or_insert(now_ms);
        Ok(Ok(()))
    }

    /// The last statements of a replica's counters that this one saw.
    fn seen_of(&self, epoch: Epoch, replica: ReplicaId) -> Vec<(Digest, Ui)> {
        let seen = [&self.seen].into_iter().chain(&self.of_pillars);
        let lasts = seen.flat_map(|seen| seen.of(epoch, replica));
        lasts.take(usize::from(PILLARS_MAX)).collect()
    }
}

/// Whether a device with this memory cannot have certified this: it comes later than all that it
/// did, or is something else than what it repeats at that position.
fn is_beyond(memory: &Memory, digest: &Digest, position: Position) -> bool {
    let mut recent = memory.recent.iter();
    position > memory.last || recent.any(|it| it.position == position && it.digest != *digest)
}

#[cfg(test)]
mod tests;
