//! The question before a replica speaks again: how far had it come, as others saw it?
//!
//! A data folder that was restored from a copy is whole, and older than what its owner has said
//! since. Whoever went on from it would certify again, and otherwise, what it has certified. So a
//! replica that goes on from its folder asks its peers first for the last statement of its device
//! that each has seen, with the device's certificate. If one of these is beyond its own log, it
//! ends. A peer can hide what it saw, and cannot invent it. A life that the group has not admitted
//! yet has said nothing, so it does not ask: what peers know is of the life before.
//!
//! Peers know what came since they were started. So this finds a folder that is put back while the
//! others go on, and not one that is put back while all are stopped. And they know what they looked
//! at: statements of which nothing follows any more when they come are dropped unread, so a backup
//! that was always the last to commit may go unnoticed. Nor is told of what waits unread when the
//! question comes, in a socket of a pillar, say, whose thread is late.

use crate::error::Fatal;
use crate::network::Network;
use crate::speaker::Speaker;
use crate::unit::Unit;
use bytes::Bytes;
use pentarchy_core::counter::{Instance, Memory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::Incoming;
use pentarchy_core::ids::{Epoch, ReplicaId, ReplicaSet};
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_core::protocol::Reject;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tracing::{info, warn};

/// First byte of a peer's message: a [`Message`] follows.
pub const RESUMING: u8 = 3;

/// Milliseconds between two questions to who has not answered.
const ASK_EVERY_MS: u64 = 100;

/// Milliseconds after the first answer after which it goes on although fewer than `f + 1` others
/// have answered: they may be gone, and the group must be able to go on with those that are left.
const ASK_FOR_MS: u64 = 2_000;

/// Milliseconds after which it goes on although nobody has answered: on a busy machine it takes a
/// while until others are connected again.
const ASK_NOBODY_FOR_MS: u64 = 10_000;

/// Question and answer.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Message {
    /// What did you see of mine last?
    Ask {
        /// In this epoch.
        epoch: Epoch,
    },
    /// This, or nothing.
    Seen {
        /// In this epoch.
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

/// Others' statements that a thread has seen in an epoch, for the replica's thread to tell of.
#[derive(Clone, Default)]
pub struct Seen(Arc<Mutex<Lasts>>);

#[derive(Default)]
struct Lasts {
    epoch: Epoch,
    /// The last statement of each counter: no more than members have.
    of: BTreeMap<(ReplicaId, Instance), (Digest, Ui)>,
}

impl Seen {
    /// A message came in this epoch; if a device certified it, it is noted.
    pub fn note(&self, epoch: Epoch, incoming: &Incoming) {
        let Some((author, digest, ui)) = incoming.certified() else { return };
        let mut lasts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if lasts.epoch != epoch {
            *lasts = Lasts { epoch, of: BTreeMap::new() };
        }
        let counter = (*author, ui.instance);
        let known = lasts.of.get(&counter).map(|(_, ui)| ui.position);
        if known < Some(ui.position) {
            lasts.of.insert(counter, (*digest, *ui));
        }
    }

    /// Those of a replica.
    fn of(&self, epoch: Epoch, replica: ReplicaId) -> Vec<(Digest, Ui)> {
        let lasts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let its = (replica, Instance::FIRST)..=(replica, Instance(u8::MAX));
        let its = lasts.of.range(its).filter(|_| lasts.epoch == epoch);
        its.map(|(_, last)| *last).collect()
    }
}

/// What this replica knows of others' statements, and what it wants to know of its own.
#[derive(Default)]
pub struct Resuming {
    pub seen: Seen,
    /// What pillars with threads of their own have seen.
    pub of_pillars: Vec<Seen>,
    /// Whether to ask in each epoch of its life, because this process went on from a folder.
    asks: bool,
    /// What its devices remember that speak in other threads, before they speak.
    elsewhere: Vec<(Instance, Memory)>,
    /// Since when it waits for answers before it speaks.
    since: Option<u64>,
    /// When the first one came.
    first_ms: Option<u64>,
    asked_ms: Option<u64>,
    answered: ReplicaSet,
}

impl Resuming {
    /// Of a replica that goes on from what it had kept, or not. Its devices that speak in other
    /// threads remember this.
    pub fn new(asks: bool, elsewhere: Vec<(Instance, Memory)>) -> Self {
        Self { asks, elsewhere, ..Self::default() }
    }

    /// Another epoch begins: its devices have said nothing in it.
    pub fn begin_epoch(&mut self) {
        self.elsewhere.iter_mut().for_each(|(_, memory)| *memory = Memory::default());
    }

    /// Another epoch has begun, or the process has.
    pub fn begin(&mut self, is_admitted: bool, now_ms: u64) {
        self.since = (self.asks && is_admitted).then_some(now_ms);
        (self.first_ms, self.asked_ms) = (None, None);
        self.answered = ReplicaSet::default();
    }

    /// A peer has seen these statements, which are to be this replica's own; its devices remember
    /// that. Who is not asked is not believed: a replica that speaks is beyond what it knew before.
    fn on_seen(
        &mut self,
        peer: ReplicaId,
        lasts: &[(Digest, Ui)],
        memories: &[(Instance, Memory)],
        is_mine: impl Fn(&Digest, &Ui) -> bool,
        now_ms: u64,
    ) -> Result<Result<(), Reject>, Fatal> {
        if self.since.is_none() || memories.is_empty() {
            return Ok(Ok(()));
        }
        for (digest, ui) in lasts {
            let its = memories.iter().find(|(instance, _)| *instance == ui.instance);
            let Some((_, memory)) = its.filter(|_| is_mine(digest, ui)) else {
                return Ok(Err(Reject::BadAuth));
            };
            if is_beyond(memory, digest, ui.position) {
                return Err(Fatal::Rewound { peer, seen: ui.position, kept: memory.last });
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

impl Unit {
    /// Whether it waits for its peers' answers, and says nothing until then.
    pub const fn is_resuming(&self) -> bool {
        self.resuming.since.is_some()
    }

    /// Asks those who have not answered; goes on when enough have, or have not for long enough.
    pub fn ask_before_resuming(&mut self, network: &mut Network) -> Result<(), Fatal> {
        let Some(since) = self.resuming.since else { return Ok(()) };
        // A device that keeps its own memory cannot be put back with a folder.
        let keeps_itself = self.memories().is_empty();
        let wanted = self.succession.epochs.membership().f + 1;
        let enough = self.resuming.answered.len() >= wanted.min(self.speaker.others.len());
        let first_late =
            self.resuming.first_ms.is_some_and(|at| self.speaker.now_ms >= at + ASK_FOR_MS);
        let is_late = first_late || self.speaker.now_ms >= since + ASK_NOBODY_FOR_MS;
        if keeps_itself || enough || is_late {
            let others = self.resuming.answered.len();
            if is_late && !enough {
                warn!(others, "speaks again, although fewer than f + 1 others said what they saw");
            } else {
                info!(others, "speaks again: nobody saw more of it than it has kept");
            }
            self.resuming.since = None;
            return self.begin_process(network);
        }
        if self.resuming.asked_ms.is_none_or(|asked| self.speaker.now_ms >= asked + ASK_EVERY_MS) {
            self.resuming.asked_ms = Some(self.speaker.now_ms);
            let ask = Message::Ask { epoch: self.speaker.epoch };
            for peer in
                self.speaker.others.iter().filter(|peer| !self.resuming.answered.contains(*peer))
            {
                tell(peer, &ask, network);
            }
        }
        Ok(())
    }

    /// A peer asks, or answers.
    pub fn on_resuming(
        &mut self,
        peer: ReplicaId,
        bytes: &Bytes,
        network: &mut Network,
    ) -> Result<(), Fatal> {
        match Message::from_bytes(bytes) {
            Err(Malformed) => self.speaker.rejects.add(Reject::Malformed),
            Ok(Message::Ask { epoch }) => {
                let is_mine = epoch == self.speaker.epoch;
                let lasts = if is_mine { self.resuming.seen_of(epoch, peer) } else { Vec::new() };
                tell(peer, &Message::Seen { epoch, lasts }, network);
            }
            Ok(Message::Seen { epoch, .. }) if epoch != self.speaker.epoch => {}
            Ok(Message::Seen { lasts, .. }) => return self.on_seen(peer, &lasts),
        }
        Ok(())
    }

    /// What its devices remember, before it speaks.
    fn memories(&self) -> Vec<(Instance, Memory)> {
        let mut memories = self.speaker.authenticator.memories();
        memories.extend(self.resuming.elsewhere.iter().cloned());
        memories
    }

    fn on_seen(&mut self, peer: ReplicaId, lasts: &[(Digest, Ui)]) -> Result<(), Fatal> {
        let memories = self.memories();
        let Speaker { verifier, me, now_ms, rejects, .. } = &mut self.speaker;
        let is_mine = |digest: &Digest, ui: &Ui| verifier.usig(*me, digest, ui);
        if let Err(why) = self.resuming.on_seen(peer, lasts, &memories, is_mine, *now_ms)? {
            rejects.add(why);
        }
        Ok(())
    }
}

/// Whether a device with this memory cannot have certified this: it comes later than all that it
/// did, or is something else than what it repeats at that position.
fn is_beyond(memory: &Memory, digest: &Digest, position: Position) -> bool {
    let mut recent = memory.recent.iter();
    position > memory.last || recent.any(|it| it.position == position && it.digest != *digest)
}

fn tell(peer: ReplicaId, message: &Message, network: &mut Network) {
    network.send_peer(peer, "resuming", |to| {
        to.u8(RESUMING);
        message.encode(to);
    });
}

/// A position, for people.
pub fn text(position: Position) -> String {
    format!("{}:{}", position.view.0, position.index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use pentarchy_core::counter::{Certificate, Statement};
    use pentarchy_core::ids::{Incarnation, View};

    /// Two histories that parted and are as long as each other are told apart.
    #[test]
    fn a_later_statement_or_another_one_is_beyond_a_memory() {
        let at = |index| Position { view: View(1), index };
        let said = |index| Digest([index as u8; 32]);
        let statement =
            |index| Statement { position: at(index), committed: at(index), digest: said(index) };
        let recent = (4..=6).rev().map(statement).collect();
        let memory = Memory { last: at(6), committed: at(6), recent };
        for index in 1..=6 {
            assert!(!is_beyond(&memory, &said(index), at(index)), "{index} is its own");
        }
        assert!(is_beyond(&memory, &said(7), at(7)), "later");
        assert!(is_beyond(&memory, &said(9), at(6)), "something else");
        assert!(is_beyond(&memory, &said(9), at(4)), "something else, before that");
    }

    fn ui(instance: u8, index: u64) -> Ui {
        let position = Position { view: View(1), index };
        Ui {
            incarnation: Incarnation(7),
            instance: Instance(instance),
            position,
            committed: position,
            certificate: Certificate::Mac([5; 32]),
        }
    }

    /// A statement of this replica that is newer than what it remembers from before it spoke, as
    /// any is that it makes from then on.
    fn newer() -> (Digest, Ui) {
        (Digest([9; 32]), ui(1, 9))
    }

    fn resuming(asks: bool) -> Resuming {
        let memory = |index| Memory { last: ui(0, index).position, ..Memory::default() };
        let of_pillars = vec![(Instance(0), memory(5)), (Instance(1), memory(6))];
        let mut resuming = Resuming::new(asks, of_pillars);
        resuming.begin(true, 0);
        resuming
    }

    /// A peer answers; whatever it shows was certified by this replica's devices.
    fn hear(resuming: &mut Resuming, lasts: &[(Digest, Ui)]) -> Result<Result<(), Reject>, Fatal> {
        let memories = resuming.elsewhere.clone();
        resuming.on_seen(ReplicaId(2), lasts, &memories, |_, _| true, 1)
    }

    #[test]
    fn who_was_put_back_learns_of_it_while_it_asks() {
        for lasts in [vec![newer()], vec![(Digest([1; 32]), ui(0, 5)), newer()]] {
            let mut asking = resuming(true);
            let found = hear(&mut asking, &lasts);
            assert!(matches!(found, Err(Fatal::Rewound { .. })), "{found:?}");
            assert!(asking.answered.is_empty());
        }
        let mut asking = resuming(true);
        let unknown = hear(&mut asking, &[(Digest([1; 32]), ui(2, 1))]).unwrap();
        assert!(unknown == Err(Reject::BadAuth) && asking.answered.is_empty());
        assert_eq!(hear(&mut asking, &[(Digest([1; 32]), ui(0, 5))]).unwrap(), Ok(()));
        assert!(asking.answered.contains(ReplicaId(2)) && asking.first_ms == Some(1));
    }

    /// An answer may come late, or be a liar's who was asked nothing.
    #[test]
    fn what_is_said_since_it_speaks_is_no_reason_to_end() {
        let spoke = || {
            let mut resuming = resuming(true);
            resuming.since = None;
            resuming
        };
        let next_epoch = |mut resuming: Resuming, is_admitted| {
            resuming.begin_epoch();
            resuming.begin(is_admitted, 0);
            resuming
        };
        let since = [
            ("it went on from its log, and speaks", spoke()),
            ("it keeps nothing", resuming(false)),
            ("it keeps nothing, in another epoch", next_epoch(resuming(false), true)),
            ("it is not admitted to the next epoch", next_epoch(spoke(), false)),
            ("it speaks in another epoch", {
                let mut next = next_epoch(spoke(), true);
                next.since = None;
                next
            }),
        ];
        for (when, mut resuming) in since {
            let found = hear(&mut resuming, &[newer()]);
            assert!(matches!(found, Ok(Ok(()))), "{when}: {found:?}");
            assert!(resuming.answered.is_empty() && resuming.first_ms.is_none(), "{when}");
        }
    }

    #[test]
    fn messages_are_read_as_they_were_written() {
        let ui = ui(0, 9);
        let epoch = Epoch(2);
        let messages = [
            Message::Ask { epoch },
            Message::Seen { epoch, lasts: Vec::new() },
            Message::Seen { epoch, lasts: vec![(Digest([1; 32]), ui)] },
        ];
        for message in messages {
            let bytes = message.to_bytes();
            assert_eq!(Message::from_bytes(&bytes), Ok(message));
            assert_eq!(Message::from_bytes(&bytes.slice(..bytes.len() - 1)), Err(Malformed));
        }
        assert_eq!(Message::from_bytes(&Bytes::from_static(&[2])), Err(Malformed));
    }
}
