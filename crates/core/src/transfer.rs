//! State transfer: how a replica that is too far behind gets the state of a checkpoint.
//!
//! One machine for all protocols, and it speaks to replicas in messages of its own. It needs no
//! signatures: the protocol hands in a digest that a quorum vouches for, and the state is built
//! from the top of its tree down: each node must have the digest that the node above it lists. So
//! bytes may come from anyone, and a liar costs time only. Subtrees that are held already, because
//! nothing changed in them or because an earlier transfer was overtaken, are not moved.
//!
//! Who asks says of which slot it holds the state. A source that knows what changed since lists
//! only the children that did, and the asker adds the digests of the others from its own tree: so
//! what is moved is what changed and the paths to it, and is checked at once all the same. If the
//! two do not fit, that source is asked for full lists from then on. What is below a node comes
//! with it as far as it fits into the answer, unless the asker may have most of it; so the number
//! of round trips does not grow with the height of the tree.
//!
//! A group that is busy has a newer state several times in the time that one is moved. So a state
//! that is being fetched is fetched to its end, and the source keeps it for the asker meanwhile; a
//! newer one takes its place only if nothing comes of it any more.
//!
//! The host calls [`Transfer::on_round`] at least as often as [`Transfer::wake_at`] asks, carries
//! out each [`Step`], and bounds how fast a peer may ask.

mod build;
mod message;

pub use message::{Message, Part};

use crate::blobs::TempBlobs;
use crate::digest::Digest;
use crate::ids::{MemberId, Millis, Slot};
use crate::limits::{TRANSFER_CHUNKS_IN_FLIGHT, TRANSFER_NODES_MAX, TRANSFER_PIN_MILLIS};
use crate::mutant;
use crate::snapshot::{Held, Snapshot};
use crate::tree::Place;
use alloc::collections::{BTreeMap, BTreeSet};
use alloc::sync::Arc;
use alloc::vec::Vec;
use build::{Build, Item, Refused, Scraps};
use bytes::Bytes;

/// After this many milliseconds in which nothing came from a source that was asked, another one is.
/// A late answer is still taken, so a slow link makes progress.
const ASK_TIMEOUT_MS: u64 = 400;

/// Milliseconds without progress after which a state is given up if a newer one is to be had, and
/// is asked of every member if not. Much longer than [`ASK_TIMEOUT_MS`], for slow links.
const STALL_MS: u64 = 2_000;

/// Milliseconds for which a source is left alone after its first failure; doubled by each failure
/// in a row.
const SKIP_MS: u64 = 500;

/// Milliseconds after its last question for which a replica can go on fetching the state that it
/// began with, although newer ones are stable here; all in all no longer than
/// [`TRANSFER_PIN_MILLIS`].
const PIN_MS: u64 = 2_000;

/// Times that [`SKIP_MS`] is doubled at most: no source is left alone for longer than 16 seconds.
const SKIP_DOUBLINGS_MAX: u32 = 5;

/// What the host is to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Send a message over the channel to a member.
    Send {
        /// Who gets it.
        to: MemberId,
        /// What it says.
        message: Message,
    },
    /// This is the state that was wanted: a replica's executor is to install it, then its core is
    /// told.
    Install(Snapshot),
}

/// Nodes in a question, at least, if so many are to be asked for and nothing comes with them.
const NODES_MIN: usize = 16;

/// Milliseconds after which a newer state is fetched instead of one that few sources have.
const RARE_MS: u64 = 30_000;

/// Milliseconds for which the scraps of a transfer that was given up are kept for the next one.
const SCRAPS_MS: u64 = 60_000;

/// How far a transfer has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Progress {
    /// The slot whose state is wanted.
    pub slot: Slot,
    /// Leaves of that state's tree, that is sections that are not empty; 0 until the top node has
    /// come.
    pub chunks_total: usize,
    /// Those of them that are here.
    pub chunks_have: usize,
    /// Bytes that were moved for this state.
    pub bytes: u64,
}

/// Fetches one state at a time for this replica and serves its own snapshots to others.
pub struct Transfer {
    me: MemberId,
    /// The other members of the epoch.
    others: BTreeSet<MemberId>,
    /// Where what is fetched is put, if it is not to be in memory.
    spool: Option<Arc<dyn TempBlobs>>,
    /// A state that this machine fetched before it was a member.
    learned: Option<Snapshot>,
    now: Millis,
    goal: Option<Goal>,
    /// A newer state than the goal's, in case that cannot be had.
    next: Option<Wish>,
    /// What is left of the goal that was given up last, and until when it is kept.
    scraps: Option<(Scraps, Millis)>,
    failures: BTreeMap<MemberId, Failures>,
    /// What others are fetching from here: one state each, which shares with newer ones what has
    /// not changed since.
    pinned: BTreeMap<MemberId, Pinned>,
}

/// A state that a replica is fetching from here.
#[derive(Debug)]
struct Pinned {
    snapshot: Snapshot,
    /// Unless it asks again.
    until: Millis,
    /// Even if it asks again: a replica that is not honest must not hold an old state for ever.
    ends: Millis,
}

/// A state that is worth fetching.
#[derive(Debug)]
struct Wish {
    slot: Slot,
    state: Digest,
    sources: BTreeSet<MemberId>,
    /// The newest state that is here.
    base: Option<Snapshot>,
}

/// The state that is wanted.
struct Goal {
    slot: Slot,
    state: Digest,
    sources: BTreeSet<MemberId>,
    /// Sources that do not have it any more, as they say.
    gone: BTreeSet<MemberId>,
    /// Sources that did not answer in time, and from which nothing has come since.
    silent: BTreeSet<MemberId>,
    /// Whether the one before was given up because some had it no more and all others were silent:
    /// then this one is not, as those may be slow, and are to have their time at least every second
    /// time.
    is_patient: bool,
    /// Whether all sources of this one had it no more or were silent, so that the replica asks all
    /// members; until something comes.
    was_deserted: bool,
    /// When it is given up, or asked of every member, unless something comes; set at the end of the
    /// round in which it was wanted, or something came.
    stalls: Option<Millis>,
    /// When it is given up although something comes; set while so few sources say that they still
    /// have it that all of them may be faulty.
    drops: Option<Millis>,
    /// Sources that are to send full lists.
    full: BTreeSet<MemberId>,
    /// Sources that are to send what they are asked for only: they do not know what changed, as
    /// after a restart.
    plain: BTreeSet<MemberId>,
    /// The source that was asked last; the next one after it is asked next.
    last: MemberId,
    build: Build,
    /// At most [`TRANSFER_CHUNKS_IN_FLIGHT`].
    asked: Vec<Ask>,
    /// Questions so far.
    asks: u64,
    bytes: u64,
}

/// A question that waits for its answer.
#[derive(Debug)]
struct Ask {
    number: u64,
    to: MemberId,
    items: Vec<Item>,
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
    pub const fn new(me: MemberId) -> Self {
        Self {
            me,
            others: BTreeSet::new(),
            spool: None,
            learned: None,
            now: Millis(0),
            goal: None,
            next: None,
            scraps: None,
            failures: BTreeMap::new(),
            pinned: BTreeMap::new(),
        }
    }

    /// An epoch of these members begins: this replica fetches nothing any more that its core wanted
    /// in the one before.
    pub fn begin_epoch(&mut self, members: impl IntoIterator<Item = MemberId>) {
        self.forgive();
        self.give_up();
        self.others = members.into_iter().filter(|member| *member != self.me).collect();
    }

    /// Has what is fetched from now on be put there, and not kept in memory.
    pub fn set_spool(&mut self, spool: Arc<dyn TempBlobs>) {
        self.spool = Some(spool);
    }

    /// Takes an earlier state of this group for something from which the next state that is wanted
    /// differs little. Nobody need vouch for it: what does not fit is fetched.
    pub fn learned(&mut self, state: Snapshot) {
        self.learned = Some(state);
    }

    /// Fetches the state of a slot that a quorum vouches for: from whoever does, and if nothing
    /// comes of that, from any member. If another one is being fetched, and something comes of
    /// that, it is fetched to its end: so what is installed may be older than what was wanted last.
    pub fn want(
        &mut self,
        slot: Slot,
        state: Digest,
        from: BTreeSet<MemberId>,
        held: &impl Held,
        out: &mut Vec<Step>,
    ) {
        let mut sources = from;
        sources.remove(&self.me);
        if let Some(same) = held.snapshot(slot).filter(|it| it.digest == state) {
            out.push(Step::Install(same.clone()));
            self.forget();
            return;
        }
        let now = self.now;
        let bases = held.latest().into_iter().chain(&self.learned);
        let base = bases.max_by_key(|it| it.slot).cloned();
        let wish = |sources| Wish { slot, state, sources, base };
        match &mut self.goal {
            Some(goal) if goal.slot == slot && goal.state == state => goal.sources.extend(sources),
            Some(goal) if !goal.is_stalled(now) => {
                if slot > self.next.as_ref().map_or(goal.slot, |next| next.slot) {
                    self.next = Some(wish(sources));
                }
            }
            _ => self.begin(wish(sources)),
        }
        self.go_on();
        self.ask(out);
    }

    /// Fetches this state from one more replica, if it is the one that is being fetched.
    pub fn want_also_from(
        &mut self,
        (slot, state): (Slot, Digest),
        source: MemberId,
        out: &mut Vec<Step>,
    ) {
        if let Some(goal) = &mut self.goal
            && (goal.slot, goal.state) == (slot, state)
            && source != self.me
            && goal.sources.insert(source)
        {
            self.ask(out);
        }
    }

    /// Fetches this, and nothing else any more.
    fn begin(&mut self, wish: Wish) {
        self.forgive();
        let is_deserted = |goal: &Goal| goal.is_deserted() || goal.was_deserted;
        let is_patient = self.goal.as_ref().is_some_and(is_deserted);
        self.give_up();
        let scraps = self.scraps.take().map(|(scraps, _)| scraps).unwrap_or_default();
        let build = Build::new(wish.slot, wish.state, wish.base, scraps);
        let build = build.with_spool(self.spool.clone());
        let goal = Goal::new((wish.slot, wish.state), wish.sources, self.me, build);
        self.goal = Some(Goal { is_patient, ..goal });
    }

    /// A new checkpoint is a new chance: who had nothing at the old one may have this. But who was
    /// silent comes last: while it is waited for, the others might go on to the next one.
    fn forgive(&mut self) {
        if let Some(goal) = &self.goal {
            self.failures.retain(|source, _| !goal.gone.contains(source));
        }
    }

    /// If nothing comes of the state that is being fetched, goes on with a newer one, or else asks
    /// all members: all that vouched for it may have lost it or left, and others have fetched it.
    /// Until something comes of that, a newer one is welcome as before.
    fn go_on(&mut self) {
        let Some(goal) = self.goal.as_mut().filter(|goal| goal.is_stalled(self.now)) else {
            return;
        };
        match self.next.take() {
            Some(next) => self.begin(next),
            None if mutant!("transfer.asks-vouchers-only") => {}
            None => {
                goal.was_deserted |= goal.is_deserted();
                goal.sources.extend(&self.others);
                goal.stalls = Some(self.now);
            }
        }
    }

    /// A replica spoke: answers its question, or goes on with its answer.
    pub fn on_message(
        &mut self,
        from: MemberId,
        message: Message,
        held: &impl Held,
        out: &mut Vec<Step>,
    ) {
        if message.is_question() {
            let answer = self.answer(from, &message, held);
            out.push(Step::Send { to: from, message: answer });
        } else if self.wants(message.slot(), from) {
            match message {
                Message::Nodes { sections, leaves, nodes, .. } => {
                    self.on_nodes(from, (sections, leaves), nodes);
                }
                Message::Chunk { section, chunk, bytes, .. } => {
                    self.on_chunk(from, section, chunk, bytes);
                }
                _ => self.on_gone(from),
            }
        }
        self.install(out);
        self.go_on();
        self.ask(out);
    }

    /// Answers a question of a member, or of a machine that is to be one.
    pub fn answer(&mut self, from: MemberId, question: &Message, held: &impl Held) -> Message {
        question.answer(self.pin(from, question.slot(), held))
    }

    /// The state that somebody asks about, which is there for them until it asks about another one,
    /// or asks no more, or has asked for too long.
    fn pin(&mut self, from: MemberId, slot: Slot, held: &impl Held) -> Option<&Snapshot> {
        let after = |millis| Millis(self.now.0.saturating_add(millis));
        let until = after(PIN_MS);
        match self.pinned.get_mut(&from) {
            Some(pinned) if pinned.snapshot.slot == slot => pinned.until = until,
            _ => {
                let (snapshot, ends) = (held.snapshot(slot)?.clone(), after(TRANSFER_PIN_MILLIS));
                self.pinned.insert(from, Pinned { snapshot, until, ends });
            }
        }
        self.pinned.get(&from).map(|pinned| &pinned.snapshot)
    }

    /// This replica has a new channel to a member. The one before lost what this replica had asked,
    /// so it asks again in the next round.
    pub fn connected(&mut self, source: MemberId) {
        self.take_back(source);
    }

    /// Time has passed: gives up on answers that are overdue and asks others.
    pub fn on_round(&mut self, now: Millis, out: &mut Vec<Step>) {
        self.now = self.now.max(now);
        self.pinned.retain(|_, pinned| pinned.until.min(pinned.ends) > self.now);
        self.scraps.take_if(|(_, until)| *until <= self.now);
        let Some(goal) = &self.goal else { return };
        let mut overdue = BTreeSet::new();
        for ask in &goal.asked {
            let late = ask.deadline.is_some_and(|deadline| deadline <= self.now);
            if late && !mutant!("transfer.waits-for-ever") {
                overdue.insert(ask.to);
            }
        }
        for source in overdue {
            self.blame(source);
            if let Some(goal) = &mut self.goal {
                goal.silent.insert(source);
            }
        }
        self.go_on();
        self.ask(out);
        let Some(goal) = &mut self.goal else { return };
        goal.stalls.get_or_insert(Millis(self.now.0.saturating_add(STALL_MS)));
        let drops = goal.drops.unwrap_or(Millis(self.now.0.saturating_add(RARE_MS)));
        goal.drops = goal.is_rare().then_some(drops);
        let deadline = Millis(self.now.0.saturating_add(ASK_TIMEOUT_MS));
        for ask in &mut goal.asked {
            ask.deadline.get_or_insert(deadline);
        }
    }

    /// When [`Self::on_round`] is to be called at the latest; `None` while nothing is wanted.
    #[must_use]
    pub fn wake_at(&self) -> Option<Millis> {
        let goal = self.goal.as_ref()?;
        let answers = goal.asked.iter().map(|ask| ask.deadline.unwrap_or(self.now));
        let pauses = self.failures.values().map(|failures| failures.until);
        let drops = goal.drops.filter(|_| self.next.is_some());
        let ends = goal.stalls.into_iter().chain(drops);
        answers.chain(pauses.chain(ends).filter(|until| *until > self.now)).min()
    }

    /// How far the transfer has come; `None` while nothing is wanted.
    #[must_use]
    pub fn progress(&self) -> Option<Progress> {
        let goal = self.goal.as_ref()?;
        let (total, have) = goal.build.leaves();
        let (chunks_total, chunks_have) = (total as usize, have as usize);
        Some(Progress { slot: goal.slot, chunks_total, chunks_have, bytes: goal.bytes })
    }

    fn wants(&self, slot: Slot, from: MemberId) -> bool {
        let goal = self.goal.as_ref();
        goal.is_some_and(|goal| goal.slot == slot && goal.sources.contains(&from))
    }

    fn on_nodes(&mut self, from: MemberId, shape: (u32, u32), nodes: Vec<(Place, Part)>) {
        let Some(goal) = &mut self.goal else { return };
        let Some((first, _)) = nodes.first() else { return };
        let is_top = goal.build.wants(Item::Top);
        let ask = goal.answered(from, if is_top { Item::Top } else { Item::Node(*first) });
        let (mut good, mut wrong, mut needless) = (0, false, 0);
        for (place, part) in nodes {
            let bytes = part.size() as u64;
            let taken = if goal.build.wants(Item::Top) {
                goal.build.on_top(shape, place, part)
            } else {
                goal.build.on_node(place, part)
            };
            match taken {
                Ok(()) => {
                    goal.bytes += bytes;
                    good += 1;
                }
                Err(Refused::NotWanted) => needless += 1,
                Err(Refused::OtherBase) if !goal.full.contains(&from) => {
                    goal.full.insert(from);
                    break;
                }
                Err(Refused::OtherBase | Refused::Wrong) => {
                    wrong = true;
                    break;
                }
            }
        }
        if needless > good {
            goal.plain.insert(from);
        }
        self.settle(from, ask.as_ref(), good > 0, wrong);
    }

    fn on_chunk(&mut self, from: MemberId, section: u32, chunk: u32, bytes: Bytes) {
        let Some(goal) = &mut self.goal else { return };
        let moved = bytes.len() as u64;
        let ask = goal.answered(from, Item::Chunk(section, chunk));
        let taken = goal.build.on_chunk(section, chunk, bytes);
        if taken.is_ok() {
            goal.bytes += moved;
        }
        self.settle(from, ask.as_ref(), taken.is_ok(), taken == Err(Refused::Wrong));
    }

    fn on_gone(&mut self, from: MemberId) {
        let Some(goal) = &mut self.goal else { return };
        if goal.asked.iter().any(|ask| ask.to == from) {
            goal.gone.insert(from);
            self.blame(from);
        }
    }

    /// An answer was taken in, or not. What it was to bring and did not is asked for again, and
    /// who was not asked is not blamed.
    fn settle(&mut self, source: MemberId, ask: Option<&Ask>, good: bool, wrong: bool) {
        let Some(goal) = &mut self.goal else { return };
        if let Some(ask) = ask {
            goal.build.take_back(ask.number, &ask.items);
        }
        // Others may have been asked for the same when this was late.
        let build = &goal.build;
        goal.asked.retain(|ask| build.waits_for(ask.number, &ask.items));
        if wrong && ask.is_some() {
            self.blame(source);
        } else if good {
            goal.gone.remove(&source);
            goal.silent.remove(&source);
            (goal.stalls, goal.was_deserted) = (None, false);
            // What it was asked besides is on its way behind this.
            for ask in goal.asked.iter_mut().filter(|ask| ask.to == source) {
                ask.deadline = None;
            }
            self.failures.remove(&source);
        }
    }

    /// Leaves a source alone for a while and takes back what it was asked.
    fn blame(&mut self, source: MemberId) {
        let failures = self.failures.entry(source).or_default();
        let pause = SKIP_MS << failures.in_a_row.min(SKIP_DOUBLINGS_MAX);
        failures.in_a_row = failures.in_a_row.saturating_add(1);
        failures.until = Millis(self.now.0.saturating_add(pause));
        self.take_back(source);
    }

    /// What a source was asked has to be asked again.
    fn take_back(&mut self, source: MemberId) {
        let Some(goal) = &mut self.goal else { return };
        for ask in goal.asked.extract_if(.., |ask| ask.to == source) {
            goal.build.take_back(ask.number, &ask.items);
        }
    }

    /// Asks as much as may be asked at a time, of whoever is waited for least.
    fn ask(&mut self, out: &mut Vec<Step>) {
        let Some(goal) = &mut self.goal else { return };
        let (now, failures) = (self.now, &self.failures);
        let usable = |id: &MemberId| failures.get(id).is_none_or(|failed| failed.until <= now);
        let sources: BTreeSet<MemberId> = goal.sources.iter().copied().filter(usable).collect();
        let failed = |id| failures.get(&id).map_or(0, |failed| failed.in_a_row);
        while let Some(to) = goal.next_source(&sources, failed) {
            let Some(message) = goal.next_question(to) else { break };
            out.push(Step::Send { to, message });
        }
    }

    /// Hands over the state if all of it is here.
    fn install(&mut self, out: &mut Vec<Step>) {
        let Some(goal) = &mut self.goal else { return };
        let Some(tree) = goal.build.take_done() else { return };
        out.push(Step::Install(Snapshot { slot: goal.slot, digest: goal.state, tree }));
        self.forget();
    }

    /// Wants nothing any more, for now: what was fetched may be part of what is wanted next.
    pub fn give_up(&mut self) {
        self.next = None;
        if let Some(goal) = self.goal.take() {
            let until = Millis(self.now.0.saturating_add(SCRAPS_MS));
            self.scraps = Some((goal.build.into_scraps(), until));
        }
    }

    fn forget(&mut self) {
        self.goal = None;
        self.next = None;
        self.scraps = None;
        self.learned = None;
        self.failures.clear();
    }
}

impl Goal {
    const fn new(
        (slot, state): (Slot, Digest),
        sources: BTreeSet<MemberId>,
        last: MemberId,
        build: Build,
    ) -> Self {
        Self {
            slot,
            state,
            sources,
            gone: BTreeSet::new(),
            silent: BTreeSet::new(),
            is_patient: false,
            was_deserted: false,
            stalls: None,
            drops: None,
            full: BTreeSet::new(),
            plain: BTreeSet::new(),
            last,
            build,
            asked: Vec::new(),
            asks: 0,
            bytes: 0,
        }
    }

    /// Whether nothing comes of it: nobody has it, or nothing came for a while.
    fn is_stalled(&self, now: Millis) -> bool {
        let gone = self.sources.iter().all(|source| self.gone.contains(source));
        gone || self.is_deserted()
            || [self.stalls, self.drops].into_iter().flatten().any(|at| at <= now)
    }

    /// Whether some have it no more, as they say, and no other has answered in time: they may have
    /// stopped, and who has it no more has a newer one.
    fn is_deserted(&self) -> bool {
        let is_lost =
            |source: &MemberId| self.gone.contains(source) || self.silent.contains(source);
        !self.is_patient && !self.gone.is_empty() && self.sources.iter().all(is_lost)
    }

    /// Whether at most half of its sources still have it, as they say: no correct one need be among
    /// them, and faulty ones could give it piece by piece for ever.
    fn is_rare(&self) -> bool {
        // A member that has the state no more may have ceased to be a source.
        let have = self.sources.difference(&self.gone).count();
        2 * have <= self.sources.len()
    }

    /// The source with the fewest open questions; among equals the one that failed least of late,
    /// and among those the one whose turn it is.
    fn next_source(
        &self,
        sources: &BTreeSet<MemberId>,
        failed: impl Fn(MemberId) -> u32,
    ) -> Option<MemberId> {
        if self.asked.len() >= TRANSFER_CHUNKS_IN_FLIGHT {
            return None;
        }
        let open = |id: MemberId| self.asked.iter().filter(|ask| ask.to == id).count();
        sources.iter().copied().min_by_key(|id| (open(*id), failed(*id), *id <= self.last, *id))
    }

    /// What to ask a source, if there is something to ask.
    fn next_question(&mut self, to: MemberId) -> Option<Message> {
        let since = self.build.since().filter(|_| !self.full.contains(&to));
        let below = self.build.is_blank(since) && !self.plain.contains(&to);
        let share = self.build.waiting().div_ceil(TRANSFER_CHUNKS_IN_FLIGHT);
        let nodes_max = share.clamp(if below { 1 } else { NODES_MIN }, TRANSFER_NODES_MAX);
        let number = self.asks;
        let items = self.build.next(number, nodes_max);
        let slot = self.slot;
        let message = match items.first()? {
            Item::Chunk(section, chunk) => {
                Message::AskChunk { slot, section: *section, chunk: *chunk }
            }
            _ => {
                let place = |item: &Item| match item {
                    Item::Node(place) => Some(*place),
                    Item::Top | Item::Chunk(..) => None,
                };
                let places = items.iter().filter_map(place).collect();
                Message::AskNodes { slot, since, below, places }
            }
        };
        self.asks += 1;
        self.last = to;
        self.asked.push(Ask { number, to, items, deadline: None });
        Some(message)
    }

    /// The question that a source answered, by what it asks for first, if there is one.
    fn answered(&mut self, from: MemberId, first: Item) -> Option<Ask> {
        let asked = |ask: &Ask| ask.to == from && ask.items.first() == Some(&first);
        let at = self.asked.iter().position(asked)?;
        Some(self.asked.swap_remove(at))
    }
}
