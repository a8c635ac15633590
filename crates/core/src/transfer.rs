//! State transfer: how a replica that is too far behind gets the state of a checkpoint.
//!
//! One machine for all protocols, and it speaks to replicas in messages of its own. It needs no
//! signatures: the protocol hands in a digest that a quorum vouches for, the manifest must have
//! that digest, and each chunk must have the digest that the manifest lists. So bytes may come from
//! anyone, and a liar costs time only. Chunks that are held already, because little has changed or
//! because an earlier transfer was overtaken, are not moved again.
//!
//! The host calls [`Transfer::on_round`] at least as often as [`Transfer::wake_at`] asks, carries
//! out each [`Step`], and bounds how fast a peer may ask.

use crate::digest::Digest;
use crate::executor::Executor;
use crate::ids::{Millis, ReplicaId, ReplicaSet, Slot};
use crate::limits::{CHUNK_BYTES_MAX, TRANSFER_CHUNKS_IN_FLIGHT};
use crate::mutant;
use crate::snapshot::{Manifest, Section, Snapshot};
use crate::wire::{Malformed, Reader, Wire, Writer};
use alloc::collections::{BTreeMap, BTreeSet, VecDeque};
use alloc::vec::Vec;
use bytes::Bytes;

/// After this many milliseconds without an answer another source is asked. A late answer is still
/// taken, so a slow link makes progress.
const ASK_TIMEOUT_MS: u64 = 400;

/// Milliseconds for which a source is left alone after its first failure; doubled by each failure
/// in a row.
const SKIP_MS: u64 = 500;

/// Milliseconds after its last question for which a replica can go on fetching the state that it
/// began with, although newer ones are stable here. A busy group would else leave it behind for
/// ever: its states change faster than they are moved.
const PIN_MS: u64 = 2_000;

/// Times that [`SKIP_MS`] is doubled at most: no source is left alone for longer than 16 seconds.
const SKIP_DOUBLINGS_MAX: u32 = 5;

/// What replicas say to each other about state.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Message {
    /// Send the manifest of your snapshot at this slot.
    AskManifest {
        /// The slot.
        slot: Slot,
    },
    /// Answer to [`Self::AskManifest`].
    Manifest {
        /// The slot.
        slot: Slot,
        /// The digests of all chunks.
        manifest: Manifest,
    },
    /// Send one chunk of your snapshot at this slot.
    AskChunk {
        /// The slot.
        slot: Slot,
        /// Its place in [`Manifest::chunks`].
        index: u32,
    },
    /// Answer to [`Self::AskChunk`].
    Chunk {
        /// The slot.
        slot: Slot,
        /// Its place in [`Manifest::chunks`].
        index: u32,
        /// At most [`CHUNK_BYTES_MAX`].
        bytes: Bytes,
    },
    /// Answer to either question: there is no such thing here (any more).
    Gone {
        /// The slot.
        slot: Slot,
    },
}

impl Wire for Message {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::AskManifest { slot } => {
                to.u8(0);
                slot.encode(to);
            }
            Self::Manifest { slot, manifest } => {
                to.u8(1);
                slot.encode(to);
                manifest.encode(to);
            }
            Self::AskChunk { slot, index } => {
                to.u8(2);
                slot.encode(to);
                to.u32(*index);
            }
            Self::Chunk { slot, index, bytes } => {
                to.u8(3);
                slot.encode(to);
                to.u32(*index);
                to.bytes(bytes);
            }
            Self::Gone { slot } => {
                to.u8(4);
                slot.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let kind = from.u8()?;
        let slot = Slot::decode(from)?;
        match kind {
            0 => Ok(Self::AskManifest { slot }),
            1 => Ok(Self::Manifest { slot, manifest: Manifest::decode(from)? }),
            2 => Ok(Self::AskChunk { slot, index: from.u32()? }),
            3 => Ok(Self::Chunk { slot, index: from.u32()?, bytes: from.bytes(CHUNK_BYTES_MAX)? }),
            4 => Ok(Self::Gone { slot }),
            _ => Err(Malformed),
        }
    }
}

/// What the host is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send a message over the channel to a replica.
    Send {
        /// Who gets it.
        to: ReplicaId,
        /// What it says.
        message: Message,
    },
    /// Give this to [`Executor::install`], then tell the core. Its digest is the wanted one.
    Install(Snapshot),
}

/// How far a transfer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The slot whose state is wanted.
    pub slot: Slot,
    /// Different chunks in that state; 0 until the manifest has come.
    pub chunks_total: usize,
    /// Those of them that are here.
    pub chunks_have: usize,
    /// Bytes of chunks that were moved for this state.
    pub bytes: u64,
}

/// Fetches one state at a time for this replica and serves its own snapshots to others.
#[derive(Debug)]
pub struct Transfer {
    me: ReplicaId,
    now: Millis,
    goal: Option<Goal>,
    /// Checked chunks by digest. With a manifest at hand only those that it lists.
    chunks: BTreeMap<Digest, Bytes>,
    failures: BTreeMap<ReplicaId, Failures>,
    /// What others are fetching from here: one state each, which shares with newer ones what has
    /// not changed since.
    pinned: BTreeMap<ReplicaId, Pinned>,
}

/// A state that a replica is fetching from here.
#[derive(Debug)]
struct Pinned {
    snapshot: Snapshot,
    until: Millis,
}

/// The state that is wanted.
#[derive(Debug)]
struct Goal {
    slot: Slot,
    state: Digest,
    sources: ReplicaSet,
    /// The source that was asked last; the next one after it is asked next.
    last: ReplicaId,
    manifest: Option<Listing>,
    /// At most [`TRANSFER_CHUNKS_IN_FLIGHT`].
    asked: Vec<Ask>,
    bytes: u64,
}

/// A manifest whose digest is the wanted one, and what is still to be asked for.
#[derive(Debug)]
struct Listing {
    manifest: Manifest,
    /// The digests in the order of [`Manifest::chunks`].
    digests: Vec<Digest>,
    different: usize,
    /// One index for each digest that is neither here nor asked for.
    missing: VecDeque<u32>,
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Ask {
    to: ReplicaId,
    /// A chunk, or else the manifest.
    index: Option<u32>,
    /// Set at the end of the round in which it was asked: between rounds nobody knows the time.
    deadline: Option<Millis>,
}

/// Why a source is left alone for a while.
#[derive(Debug, Default)]
struct Failures {
    in_a_row: u32,
    until: Millis,
}

impl Transfer {
    /// Nothing is wanted yet; others are served.
    #[must_use]
    pub const fn new(me: ReplicaId) -> Self {
        Self {
            me,
            now: Millis(0),
            goal: None,
            chunks: BTreeMap::new(),
            failures: BTreeMap::new(),
            pinned: BTreeMap::new(),
        }
    }

    /// Fetches the state of a slot that a quorum vouches for. Replaces an earlier wish; what was
    /// fetched for that one and is part of this one too is kept.
    pub fn want(
        &mut self,
        slot: Slot,
        state: Digest,
        from: ReplicaSet,
        executor: &Executor,
        out: &mut Vec<Step>,
    ) {
        let mut sources = from;
        sources.remove(self.me);
        if let Some(held) = executor.snapshot(slot).filter(|held| held.digest == state) {
            out.push(Step::Install(held.clone()));
            self.forget();
            return;
        }
        match &mut self.goal {
            Some(goal) if goal.slot == slot && goal.state == state => goal.sources = sources,
            _ => {
                let (last, asked) = (self.me, Vec::new());
                let goal = Goal { slot, state, sources, last, manifest: None, asked, bytes: 0 };
                self.goal = Some(goal);
                // A new checkpoint is a new chance: who had nothing at the old one may have this.
                self.failures.clear();
            }
        }
        self.ask(out);
    }

    /// A replica spoke: answers its question, or goes on with its answer.
    pub fn on_message(
        &mut self,
        from: ReplicaId,
        message: Message,
        executor: &Executor,
        out: &mut Vec<Step>,
    ) {
        match message {
            Message::AskManifest { slot } => {
                let manifest = self.pin(from, slot, executor).map(Snapshot::manifest);
                let found = manifest.map(|manifest| Message::Manifest { slot, manifest });
                out.push(answer(from, slot, found));
            }
            Message::AskChunk { slot, index } => {
                let held = self.pin(from, slot, executor);
                let chunk = held.and_then(|held| held.chunk(index as usize));
                let found = chunk.map(|bytes| Message::Chunk { slot, index, bytes: bytes.clone() });
                out.push(answer(from, slot, found));
            }
            Message::Manifest { slot, manifest } if self.wants(slot, from) => {
                self.on_manifest(from, manifest, executor);
            }
            Message::Chunk { slot, index, bytes } if self.wants(slot, from) => {
                self.on_chunk(from, index, bytes);
            }
            Message::Gone { slot } if self.wants(slot, from) => self.on_gone(from),
            Message::Manifest { .. } | Message::Chunk { .. } | Message::Gone { .. } => {}
        }
        self.install(out);
        self.ask(out);
    }

    /// The state that a replica asks about, which is there for it until it asks about another one
    /// or asks no more.
    fn pin(&mut self, from: ReplicaId, slot: Slot, executor: &Executor) -> Option<&Snapshot> {
        let until = Millis(self.now.0.saturating_add(PIN_MS));
        match self.pinned.get_mut(&from) {
            Some(pinned) if pinned.snapshot.slot == slot => pinned.until = until,
            _ => {
                let snapshot = executor.snapshot(slot)?.clone();
                self.pinned.insert(from, Pinned { snapshot, until });
            }
        }
        self.pinned.get(&from).map(|pinned| &pinned.snapshot)
    }

    /// Time has passed: gives up on answers that are overdue and asks others.
    pub fn on_round(&mut self, now: Millis, out: &mut Vec<Step>) {
        self.now = self.now.max(now);
        self.pinned.retain(|_, pinned| pinned.until > self.now);
        let Some(goal) = &self.goal else { return };
        let mut overdue = ReplicaSet::EMPTY;
        for ask in &goal.asked {
            let late = ask.deadline.is_some_and(|deadline| deadline <= self.now);
            if late && !mutant!("transfer.waits-for-ever") {
                overdue.insert(ask.to);
            }
        }
        for source in overdue.iter() {
            self.blame(source);
        }
        self.ask(out);
        let deadline = Millis(self.now.0.saturating_add(ASK_TIMEOUT_MS));
        for ask in self.goal.iter_mut().flat_map(|goal| &mut goal.asked) {
            ask.deadline.get_or_insert(deadline);
        }
    }

    /// When [`Self::on_round`] is to be called at the latest; `None` while nothing is wanted.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        let goal = self.goal.as_ref()?;
        let answers = goal.asked.iter().map(|ask| ask.deadline.unwrap_or(self.now));
        let pauses = self.failures.values().map(|failures| failures.until);
        answers.chain(pauses.filter(|until| *until > self.now)).min()
    }

    /// How far the transfer has come; `None` while nothing is wanted.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let goal = self.goal.as_ref()?;
        let (chunks_total, chunks_have) = match &goal.manifest {
            Some(listing) => (listing.different, self.chunks.len()),
            None => (0, 0),
        };
        Some(Progress { slot: goal.slot, chunks_total, chunks_have, bytes: goal.bytes })
    }

    fn wants(&self, slot: Slot, from: ReplicaId) -> bool {
        let goal = self.goal.as_ref();
        goal.is_some_and(|goal| goal.slot == slot && goal.sources.contains(from))
    }

    fn on_manifest(&mut self, from: ReplicaId, manifest: Manifest, executor: &Executor) {
        let Some(goal) = self.goal.as_mut().filter(|goal| goal.manifest.is_none()) else { return };
        if manifest.digest() != goal.state && !mutant!("transfer.manifest-not-checked") {
            if goal.asked.iter().any(|ask| ask.to == from) {
                self.blame(from);
            }
            return;
        }
        goal.asked.clear();
        self.failures.remove(&from);
        let digests: Vec<Digest> = manifest.chunks().copied().collect();
        let mut absent: BTreeSet<Digest> = digests.iter().copied().collect();
        let different = absent.len();
        self.chunks.retain(|digest, _| absent.contains(digest));
        for (digest, bytes) in executor.known_chunks() {
            if absent.contains(digest) {
                self.chunks.insert(*digest, bytes.clone());
            }
        }
        absent.retain(|digest| !self.chunks.contains_key(digest));
        let firsts = (0u32..).zip(&digests).filter(|(_, digest)| absent.remove(*digest));
        let missing = firsts.map(|(index, _)| index).collect();
        goal.manifest = Some(Listing { manifest, digests, different, missing });
    }

    fn on_chunk(&mut self, from: ReplicaId, index: u32, bytes: Bytes) {
        let Some(goal) = &mut self.goal else { return };
        let Some(listing) = &mut goal.manifest else { return };
        let Some(digest) = listing.digests.get(index as usize) else { return };
        let asked = goal.asked.iter().position(|ask| ask.index == Some(index));
        let waiting = match asked {
            Some(_) => None,
            None => listing.missing.iter().position(|missing| *missing == index),
        };
        if asked.is_none() && waiting.is_none() {
            return; // Here already, or never to be asked for under this index.
        }
        if Digest::of(&bytes) != *digest && !mutant!("transfer.chunk-not-checked") {
            if asked.is_some_and(|at| goal.asked[at].to == from) {
                self.blame(from);
            }
            return;
        }
        // Whoever was asked for it last: the bytes are the right ones.
        if let Some(at) = asked {
            goal.asked.swap_remove(at);
        }
        if let Some(at) = waiting {
            listing.missing.remove(at);
        }
        goal.bytes += bytes.len() as u64;
        self.chunks.insert(*digest, bytes);
        self.failures.remove(&from);
    }

    fn on_gone(&mut self, from: ReplicaId) {
        let asked = self.goal.iter().flat_map(|goal| &goal.asked).any(|ask| ask.to == from);
        if asked {
            self.blame(from);
        }
    }

    /// Leaves a source alone for a while and takes back what it was asked.
    fn blame(&mut self, source: ReplicaId) {
        let failures = self.failures.entry(source).or_default();
        let pause = SKIP_MS << failures.in_a_row.min(SKIP_DOUBLINGS_MAX);
        failures.in_a_row = failures.in_a_row.saturating_add(1);
        failures.until = Millis(self.now.0.saturating_add(pause));
        let Some(goal) = &mut self.goal else { return };
        for ask in goal.asked.extract_if(.., |ask| ask.to == source) {
            if let (Some(index), Some(listing)) = (ask.index, &mut goal.manifest) {
                listing.missing.push_front(index);
            }
        }
    }

    /// Asks as much as may be asked at a time, of whoever is waited for least.
    fn ask(&mut self, out: &mut Vec<Step>) {
        let Some(goal) = &mut self.goal else { return };
        let (now, failures) = (self.now, &self.failures);
        let usable = |id: &ReplicaId| failures.get(id).is_none_or(|failed| failed.until <= now);
        let sources: ReplicaSet = goal.sources.iter().filter(usable).collect();
        while let Some(to) = goal.next_source(sources) {
            let Some((index, message)) = goal.next_question() else { break };
            goal.last = to;
            goal.asked.push(Ask { to, index, deadline: None });
            out.push(Step::Send { to, message });
        }
    }

    /// Hands over the state if all of it is here.
    fn install(&mut self, out: &mut Vec<Step>) {
        let Some(goal) = &self.goal else { return };
        let Some(listing) = &goal.manifest else { return };
        if self.chunks.len() < listing.different {
            return;
        }
        let section = |digests: &crate::snapshot::SectionDigests| Section {
            digests: digests.clone(),
            chunks: digests.0.iter().map(|digest| self.chunks[digest].clone()).collect(),
        };
        let sections = listing.manifest.0.iter().map(section).collect();
        let snapshot = Snapshot { slot: goal.slot, digest: goal.state, sections };
        out.push(Step::Install(snapshot));
        self.forget();
    }

    /// Wants nothing any more, for now: what was fetched may be part of what is wanted next.
    pub fn give_up(&mut self) {
        self.goal = None;
    }

    fn forget(&mut self) {
        self.goal = None;
        self.chunks.clear();
        self.failures.clear();
    }
}

impl Goal {
    /// The source with the fewest open questions; among equals the one whose turn it is.
    fn next_source(&self, sources: ReplicaSet) -> Option<ReplicaId> {
        if self.asked.len() >= TRANSFER_CHUNKS_IN_FLIGHT {
            return None;
        }
        let open = |id: ReplicaId| self.asked.iter().filter(|ask| ask.to == id).count();
        sources.iter().min_by_key(|id| (open(*id), *id <= self.last, *id))
    }

    /// What to ask next, and the chunk that it is about.
    fn next_question(&mut self) -> Option<(Option<u32>, Message)> {
        let slot = self.slot;
        match &mut self.manifest {
            None if self.asked.is_empty() => Some((None, Message::AskManifest { slot })),
            None => None,
            Some(listing) => {
                let index = listing.missing.pop_front()?;
                Some((Some(index), Message::AskChunk { slot, index }))
            }
        }
    }
}

fn answer(to: ReplicaId, slot: Slot, found: Option<Message>) -> Step {
    Step::Send { to, message: found.unwrap_or(Message::Gone { slot }) }
}
