//! What a replica keeps across a crash: the entries of its epoch in the log, how the epoch began,
//! and the state to go on from.
//!
//! [`Kept`] does one thing after the other; [`Writer`] puts it on threads of its own, so that the
//! replica goes on while the disk writes; and a [`DurableStore`] releases what depends on an entry
//! when that is durable. What has to be kept, and why: `docs/decisions/0005-durability.md`.

mod absent;
mod barrier;
mod certificates;
mod chain;
mod delta;
mod deltas;
mod describe;
mod durable_store;
mod entry;
mod links;
mod look;
mod queue;
mod stepped;
mod writer;

pub use barrier::{Barrier, EntryLog};
pub use certificates::Certificates;
pub use describe::{Described, describe};
pub use durable_store::{Backing, DurableStore, Then};
pub use entry::{Entry, Mark, Needed};
pub use links::{CHAIN, EpochStart, read_chain};
pub use look::{Newest, newest_state};
pub use queue::Scrubs;
pub use stepped::{Job, Stepped};
pub use writer::{Group, LogHandle, Measured, Writer};

use crate::disk::Folder;
use crate::error::StorageError;
use crate::identity::Identity;
use crate::log::{self, Log, Options, Recovered};
use crate::snapshots::Snapshots;
use chain::{Chain, Root};
use delta::Delta;
use entry::Opened;
use links::Links;
use pentarchy_core::epochs::Proof;
use pentarchy_core::ids::{Epoch, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::protocol::Memory;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::wire::Malformed;
use queue::Queue;
use std::sync::Arc;

/// The folder of the log in a data folder.
pub const LOG: &str = "log";
/// The folder of the snapshots in a data folder.
pub const SNAPSHOTS: &str = "snapshots";
/// What was there when a replica started again.
pub struct Past {
    /// The epoch that was going on.
    pub membership: Arc<Membership>,
    /// How the one before ended, unless it was the first under its configuration.
    pub proof: Option<Proof>,
    /// How each configuration before the present one ended, from the group's first one on.
    pub links: Vec<Proof>,
    /// The states that can be read, oldest first: from the last that a quorum vouches for on, or
    /// the newest before that. The last one is the one to go on from; the others are for those who
    /// fetch them. Empty if there was no checkpoint yet, in which case the group's first state is
    /// meant.
    pub snapshots: Vec<Snapshot>,
    /// What was kept in this epoch and is needed beside the last of these states, oldest first,
    /// with the numbers that were given.
    pub entries: Vec<(u64, Entry)>,
    /// About the log.
    pub recovered: Recovered,
    /// Snapshots that are damaged and were passed over.
    pub damaged: Vec<StorageError>,
}

impl Past {
    /// The state to go on from.
    #[must_use]
    pub fn snapshot(&self) -> Option<&Snapshot> {
        self.snapshots.last()
    }

    /// Whether there is a state of this epoch to go on from. If not, the replica had not come to
    /// fetch the one with which the epoch began.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let base = self.membership.base.slot;
        base == Slot(0) || self.snapshot().is_some_and(|snapshot| snapshot.slot >= base)
    }

    /// Up to where it had executed, as far as that is durable.
    #[must_use]
    pub fn executed(&self) -> Base {
        let newest = self.snapshot();
        newest.map_or(self.membership.base, |it| Base { slot: it.slot, state: it.digest })
    }

    /// What a core is started with.
    #[must_use]
    pub fn memory(&self) -> Memory {
        let records = self.entries.iter().filter_map(|(_, entry)| match entry {
            Entry::Record(record) => Some(record.clone()),
            _ => None,
        });
        Memory::Durable { executed: self.executed(), records: records.collect() }
    }
}

/// What a replica keeps, one thing after the other.
pub struct Kept {
    entries: Entries,
    states: States,
    /// The newest state, if what changed since may be kept in the log.
    tip: Option<Snapshot>,
    /// The slot of the newest state.
    newest: Option<Slot>,
}

/// The part of [`Kept`] that is in the log.
struct Entries {
    log: Log,
    links: Links,
    membership: Arc<Membership>,
    proof: Option<Proof>,
    /// The last state that a quorum vouches for, and what is needed beside it.
    mark: Option<Mark>,
    /// The log says so, and that is not durable yet: with the one before it.
    marked: Option<(Mark, Option<Mark>)>,
    /// What it says is what it said before, of the same state.
    is_again: bool,
    /// What is appended belongs to a checkpoint.
    is_cutting: bool,
    /// Which states are durable, here and in files.
    chain: Chain,
}

/// The part of [`Kept`] that is in snapshots.
struct States(Snapshots);

impl Entries {
    /// In the epoch that has begun like this.
    fn new(log: Log, links: Links, begun: EpochStart, mark: Option<Mark>) -> Self {
        let EpochStart { membership, proof, .. } = begun;
        let (marked, is_again, is_cutting, chain) = (None, false, false, Chain::default());
        Self { log, links, membership, proof, mark, marked, is_again, is_cutting, chain }
    }

    fn append(&mut self, entry: &Entry) -> Result<u64, StorageError> {
        let (kind, body) = entry.seal(self.membership.epoch);
        match self.is_cutting {
            true => self.log.append_beyond(kind, &body),
            false => self.log.append(kind, &body),
        }
    }

    /// The chain first: whoever reads that the epoch has begun can lead others to it.
    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        let is_late = mutant!("chain.written-after-epoch") && !start.links.is_empty();
        if !is_late {
            self.links.keep(&start)?;
        }
        (self.membership, self.proof) = (start.membership.clone(), start.proof.clone());
        let (kind, body) = entry::seal_epoch(&self.membership, self.proof.as_ref(), None);
        let number = self.log.append_beyond(kind, &body)?;
        if is_late {
            self.log.commit()?;
            self.links.keep(&start)?;
        }
        Ok(number)
    }

    /// Says that a state is stable and, behind all that goes with the next one, how the epoch
    /// began.
    fn stable(&mut self, mark: Mark) -> Result<u64, StorageError> {
        let before = self.mark.replace(mark);
        assert!(
            before.is_none_or(|it| {
                it.slot <= mark.slot && it.needed.lowest() <= mark.needed.lowest()
            }),
            "what was given up is not needed again"
        );
        self.is_again = before.is_some_and(|before| before.slot == mark.slot);
        self.marked = Some((mark, before.filter(|before| before.slot < mark.slot)));
        self.is_cutting = false;
        let (kind, body) = entry::seal_epoch(&self.membership, self.proof.as_ref(), Some(mark));
        self.log.append_beyond(kind, &body)
    }

    /// Keeps a state as what makes it of the one before.
    fn append_state(&mut self, delta: &Delta) -> Result<u64, StorageError> {
        let (kind, body) = entry::seal_state(self.membership.epoch, delta);
        let number = match self.is_cutting {
            true => self.log.append_beyond(kind, &body),
            false => self.log.append(kind, &body),
        }?;
        self.chain.add_delta(number, delta.state.slot);
        Ok(number)
    }

    /// Makes durable what was appended, and gives up what only a state before the last stable one
    /// needs; if the log is full all the same, or no newer one became stable while it filled, also
    /// what the one before that needs. Files of states below the slot that it gives may go.
    fn commit(&mut self) -> Result<Option<Slot>, StorageError> {
        self.log.commit()?;
        let Some((mark, before)) = self.marked.take() else { return Ok(None) };
        let mut below = None;
        if let Some(before) = before
            && let Some((slot, floor)) = self.chain.forget(mark.slot, before.slot)
        {
            let early = mutant!("kept.cut-above-states");
            let needed = before.needed.lowest();
            let floor = if early { needed } else { needed.min(floor) };
            self.log.truncate_below(floor)?;
            below = Some(slot);
        }
        let fills = self.is_again && self.log.is_nearly_full();
        if (self.log.is_full() || fills)
            && let Some((slot, floor)) = self.chain.forget_all(mark.slot)
        {
            self.log.truncate_below(mark.needed.lowest().min(floor))?;
            below = Some(slot);
        }
        Ok(below)
    }
}

impl States {
    /// Saves a state. All entries below `behind` must be durable.
    fn save(&mut self, snapshot: &Snapshot, behind: u64) -> Result<(), StorageError> {
        self.0.save(snapshot, &behind.to_le_bytes()).map(drop)
    }

    /// Which states are there, and behind which entry each was saved.
    fn roots(&self) -> impl Iterator<Item = Root> {
        let behind = |slot: Slot| {
            let note = self.0.note(slot)?.as_ref().try_into().ok()?;
            Some(Root { slot, behind: u64::from_le_bytes(note) })
        };
        self.0.list().filter_map(move |stored| behind(stored.slot))
    }

    /// Behind which entry a log ends that fits these states, whether they can be read or not.
    fn behind(&self) -> u64 {
        self.roots().map(|root| root.behind).max().unwrap_or(1)
    }

    /// Reads the states in files from the newest one down to one that is not newer than the last
    /// stable state, and gives each with the entry behind which it was saved. Those that cannot be
    /// read are given up.
    fn load(
        &mut self,
        stable: Option<Slot>,
        damaged: &mut Vec<StorageError>,
    ) -> Vec<(u64, Snapshot)> {
        let roots: Vec<Root> = self.roots().collect();
        let mut loaded: Vec<(u64, Snapshot)> = Vec::new();
        for Root { slot, behind } in roots.into_iter().rev() {
            if loaded.last().is_some_and(|(_, last)| stable.is_some_and(|it| last.slot <= it)) {
                break;
            }
            match self.0.load(slot, loaded.last().map(|(_, snapshot)| snapshot)) {
                Ok(snapshot) => loaded.push((behind, snapshot)),
                Err(problem) => {
                    damaged.push(problem);
                    self.0.give_up(slot);
                }
            }
        }
        loaded
    }
}

/// Of these states, oldest first, those from the last stable one on, or the newest before it.
fn from_stable(mut states: Vec<Snapshot>, stable: Option<Slot>) -> Vec<Snapshot> {
    let older = states.iter().filter(|state| stable.is_some_and(|it| state.slot < it)).count();
    states.drain(..older.min(states.len().saturating_sub(1)));
    states
}

impl Kept {
    /// Begins to keep things, in a data folder without any. `membership` is the group as it began.
    /// Whoever calls this knows that this life of the device has certified nothing yet.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn create(
        data: &mut dyn Folder,
        identity: Identity,
        membership: Arc<Membership>,
        options: Options,
    ) -> Result<Self, StorageError> {
        Self::create_in(data, identity, EpochStart::within(membership, None), options)
    }

    /// The same for a replica that joins a group when its epoch begins like this. It has no state
    /// yet, so it is to be [opened](Self::open) before anything is kept.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn create_in(
        data: &mut dyn Folder,
        identity: Identity,
        start: EpochStart,
        options: Options,
    ) -> Result<Self, StorageError> {
        let (snapshots, damaged) = open_snapshots(data, identity, &options)?;
        if let Some(there) = snapshots.list().next() {
            return Err(StorageError::Unexpected { file: format!("snapshot {}", there.slot) });
        }
        if let Some(damaged) = damaged.into_iter().next() {
            return Err(damaged);
        }
        remove_unused(&mut *data.folder(LOG)?, &identity)?;
        let links = Links::create(data.folder(CHAIN)?, start.membership.group)?;
        let log = Log::create(data.folder(LOG)?, identity, of_parts(options, &start.membership))?;
        let mut entries = Entries::new(log, links, start.clone(), None);
        entries.begin_epoch(start)?;
        entries.log.commit()?;
        Ok(Self { entries, states: States(snapshots), tip: None, newest: None })
    }

    /// Goes on from what was kept.
    ///
    /// # Errors
    /// [`StorageError`]; the replica must not go on as whom it was.
    pub fn open(
        data: &mut dyn Folder,
        identity: Identity,
        first: &Arc<Membership>,
        options: Options,
    ) -> Result<(Self, Past), StorageError> {
        let (snapshots, mut damaged) = open_snapshots(data, identity, &options)?;
        let mut states = States(snapshots);
        let behind = states.behind();
        let mut found = Found::default();
        let options = of_parts(options, first);
        let (log, recovered) = Log::open(data.folder(LOG)?, identity, options, None, |record| {
            found.note(record.number, entry::open(record.kind, &record.body, first));
        })?;
        if let Some(number) = found.bad {
            let what = format!("a version of this program that knows record {number} of the log");
            return Err(StorageError::Missing { what });
        }
        let lacking = || StorageError::Missing { what: "the epoch in the log".to_owned() };
        let (membership, proof) = found.epoch.take().ok_or_else(lacking)?;
        if membership.lane != first.lane {
            return Err(StorageError::Split { found: membership.lane, asked: first.lane });
        }
        // Of later configurations the log knows more than anybody's file.
        let is_first = membership.stated.as_ref().is_none_or(|stated| stated.number == 0);
        if is_first && membership.configuration != first.configuration {
            let (found, asked) = (membership.configuration, first.configuration);
            return Err(StorageError::OtherConfiguration { found, asked });
        }
        let (chain, links) = Links::open(data.folder(CHAIN)?, &membership)?;
        let mark = found.marks.last().copied();
        let stable = mark.map(|mark| mark.slot);
        let files = states.load(stable, &mut damaged);
        let snapshots = from_stable(chain::assemble(files, &found.states), stable);
        if snapshots.is_empty() && !damaged.is_empty() {
            return Err(damaged.remove(0));
        }
        let needed = found.needed(snapshots.last());
        let first_entry = recovered.first.max(found.dropped);
        if first_entry > needed.lowest() || recovered.next < behind {
            let (from, upto) = (needed.lowest(), behind.max(first_entry));
            let what = format!("a part of the log, from record {from} to {upto},");
            return Err(StorageError::Missing { what });
        }
        let of_epoch = |(number, of, entry)| {
            let is_needed = needed.has(number, &entry, membership.lane);
            (of == membership.epoch && is_needed).then_some((number, entry))
        };
        let entries = found.entries.into_iter().filter_map(of_epoch).collect();
        let begun = EpochStart::within(membership.clone(), proof.clone());
        let mut entries_of_log = Entries::new(log, chain, begun, mark);
        entries_of_log.chain = chain_of(&states, &found.states);
        let newest = snapshots.last().map(|newest| newest.slot);
        // The next state goes into files, as what is damaged goes then.
        let tip = snapshots.last().filter(|_| damaged.is_empty()).cloned();
        let kept = Self { entries: entries_of_log, states, tip, newest };
        Ok((kept, Past { membership, proof, links, snapshots, entries, recovered, damaged }))
    }

    /// What waits to be written, at the start: nothing.
    fn queue(&self) -> Queue {
        let stable = self.mark().map(|mark| mark.slot);
        let membership = &self.entries.membership;
        Queue::new(membership, self.newest, stable, self.tip.clone(), &self.entries.log)
    }

    /// Keeps an entry of the present epoch and gives its number. Durable with the next
    /// [commit](Self::commit).
    ///
    /// # Errors
    /// [`StorageError`]; with [`StorageError::Full`] too the replica cannot go on.
    pub fn append(&mut self, entry: &Entry) -> Result<u64, StorageError> {
        self.entries.append(entry)
    }

    /// What follows, up to the next [`stable`](Self::stable), belongs to a checkpoint, which makes
    /// room: if the log is full, it may use the [reserve](Options::reserve_bytes).
    pub const fn begin_cut(&mut self) {
        self.entries.is_cutting = true;
    }

    /// Makes durable what was appended. All entries below the number that it gives are durable.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn commit(&mut self) -> Result<u64, StorageError> {
        if let Some(slot) = self.entries.commit()? {
            self.states.0.remove_below(slot)?;
        }
        Ok(self.entries.log.durable())
    }

    /// Begins another epoch: what follows belongs to it. What was before is not needed as soon as
    /// the state with which it begins is saved; the caller then says that it is
    /// [stable](Self::stable), with the number that this gives.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError> {
        self.entries.begin_epoch(start)
    }

    /// Keeps a state, durably, with all that was appended before. A replica vouches for a state
    /// only behind this. Later states, if there are any, were wrong and are given up.
    ///
    /// # Errors
    /// [`StorageError`]
    pub fn save(&mut self, snapshot: &Snapshot) -> Result<(), StorageError> {
        let behind = self.commit()?;
        self.states.save(snapshot, behind)?;
        self.entries.chain.add_root(Root { slot: snapshot.slot, behind });
        let cooled = self.states.0.cooled(snapshot);
        (self.newest, self.tip) = (Some(snapshot.slot), cooled.or_else(|| Some(snapshot.clone())));
        Ok(())
    }

    /// A quorum vouches for a state that was saved, and of the log only entries from `needed` on
    /// are needed beside it: among them what the core wanted kept again when it heard of that
    /// ([`pentarchy_core::ports::replica::Output::Stable`]). With the next
    /// [commit](Self::commit) the states before the last stable one go, and what only they
    /// need; that one stays, with its part of the log, in case this one gets damaged, unless the
    /// log is full all the same.
    ///
    /// # Errors
    /// [`StorageError`]
    ///
    /// # Panics
    /// If entries are needed that were not needed before, or the state was not saved.
    pub fn stable(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<u64, StorageError> {
        let is_there = slot == Slot(0) || self.newest >= Some(slot);
        assert!(is_there, "a state is saved before it is needed");
        self.entries.stable(Mark { slot, needed: needed.into() })
    }

    /// The number of the next entry.
    #[must_use]
    pub const fn next(&self) -> u64 {
        self.entries.log.next()
    }

    /// The epoch that goes on.
    #[must_use]
    pub const fn membership(&self) -> &Arc<Membership> {
        &self.entries.membership
    }

    /// The slot of the newest state that was saved, and was not found damaged at the start.
    #[must_use]
    pub const fn newest(&self) -> Option<Slot> {
        self.newest
    }

    /// The last state that a quorum vouches for, and what is needed beside it.
    #[must_use]
    pub const fn mark(&self) -> Option<Mark> {
        self.entries.mark
    }

    /// All entries below this are durable.
    #[must_use]
    pub const fn durable(&self) -> u64 {
        self.entries.log.durable()
    }
}

/// Of a log for a core in as many parts: each has a window of its own to keep again.
fn of_parts(options: Options, membership: &Membership) -> Options {
    let parts = u64::from(membership.lane.pillars.max(1));
    Options { reserve_bytes: options.reserve_bytes.saturating_mul(parts), ..options }
}

fn open_snapshots(
    data: &mut dyn Folder,
    identity: Identity,
    options: &Options,
) -> Result<(Snapshots, Vec<StorageError>), StorageError> {
    let (snapshots, damaged) = Snapshots::open(data.folder(SNAPSHOTS)?, identity)?;
    let snapshots = if options.cold_states { snapshots.keep_cold() } else { snapshots };
    Ok((snapshots, damaged))
}

/// What stands in a log.
#[derive(Default)]
struct Found {
    epoch: Option<(Arc<Membership>, Option<Proof>)>,
    /// Oldest first.
    marks: Vec<Mark>,
    entries: Vec<(u64, Epoch, Entry)>,
    /// Entries below this are left out: nothing that can be gone on from needs them.
    dropped: u64,
    /// States, oldest first.
    states: Vec<chain::Read>,
    /// The first record that makes no sense.
    bad: Option<u64>,
}

impl Found {
    fn note(&mut self, number: u64, record: Result<Opened, Malformed>) {
        match record {
            Ok(Opened::Entry(of, entry)) => self.entries.push((number, of, entry)),
            Ok(Opened::Epoch(membership, proof, mark)) => {
                self.epoch = Some((membership, proof));
                self.marks.extend(mark);
                if let (Some(_), [.., before, _, _]) = (mark, &self.marks[..]) {
                    self.dropped = before.needed.lowest();
                    let kept = self.entries.partition_point(|(number, ..)| *number < self.dropped);
                    self.entries.drain(..kept);
                }
            }
            Ok(Opened::State(encoded)) => self.states.push((number, encoded)),
            Err(Malformed) => self.bad = self.bad.or(Some(number)),
        }
    }

    /// What is needed beside this state, or the group's first one.
    fn needed(&self, newest: Option<&Snapshot>) -> Needed {
        let newest = newest.map_or(Slot(0), |newest| newest.slot);
        let reached = |mark: &&Mark| mark.slot <= newest;
        self.marks.iter().rev().find(reached).map_or(Needed::from(1), |mark| mark.needed)
    }
}

/// What is durable of states: those in files, and those in the log.
fn chain_of(files: &States, log: &[chain::Read]) -> Chain {
    let mut chain = Chain::default();
    let mut roots: Vec<Root> = files.roots().collect();
    roots.sort_by_key(|root| (root.behind, root.slot));
    for (number, encoded) in log {
        if let Ok((_, state)) = delta::heads(encoded) {
            chain.add_delta(*number, state.slot);
        }
    }
    roots.into_iter().for_each(|root| chain.add_root(root));
    chain
}

/// Removes a log without entries: a crash came between its making and its use.
fn remove_unused(folder: &mut dyn Folder, identity: &Identity) -> Result<(), StorageError> {
    let mut used = false;
    match log::read(folder, Some(identity), |record| used |= record.kind != entry::EPOCH) {
        Ok(_) if !used => Ok(log::remove(folder)?),
        Ok(_) => Err(StorageError::Unexpected { file: LOG.to_owned() }),
        Err(StorageError::Missing { .. }) => Ok(()),
        Err(other) => Err(other),
    }
}
