//! What waits to be written, and in which order: the part of writing that is neither disk nor
//! thread.
//!
//! Two jobs go on side by side. One writes the log: all tasks that wait when it begins become
//! durable together when it ends, so the slower the disk, the larger the groups. Among them are
//! states of which little changed. The other one tends the states in files: it saves one at a time,
//! behind the entries that come before it in the log, and removes those that nobody needs any
//! more. [`Writer`](super::Writer) gives each a thread;
//! [`Stepped`](super::Stepped) leaves it to its caller when a job ends.
//!
//! When the log has reached its bound, entries wait, until a checkpoint is under way: that may use
//! the log's reserve, with all that waited, and makes room.

use super::absent::Absences;
use super::chain::Root;
use super::delta::Delta;
use super::deltas::Deltas;
use super::{Entries, Entry, EpochStart, Mark, States};
use crate::error::StorageError;
use crate::log::Log;
use crate::snapshots::{ABSENT_MAX, Scrubbed};
use pentarchy_core::ids::{Epoch, Slot};
use pentarchy_core::membership::Membership;
use pentarchy_core::snapshot::Snapshot;
use pentarchy_core::tree::Leaf;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Marks that wait for their states. Of more, the last takes the place of the one before it.
const MARKS_MAX: usize = 8;

/// States that may wait to be saved before nothing more is to be read: there is one at a time,
/// unless the disk is slower than the group.
const SAVES_WAITING_MAX: usize = 2;

/// What there is to do for the log.
pub(super) enum Task {
    Entry(Entry),
    Epoch(EpochStart),
    Stable(Mark),
    State(Delta),
}

impl Task {
    /// What it adds to the bytes that wait.
    fn bytes(&self) -> usize {
        match self {
            Self::Entry(Entry::Record(record)) => record.len(),
            Self::State(delta) => 64 + delta.bytes(),
            _ => 64,
        }
    }

    /// Whether it belongs to a checkpoint, or to the beginning of an epoch.
    const fn makes_room(&self) -> bool {
        !matches!(self, Self::Entry(_))
    }
}

/// Tasks that are written together.
pub(super) struct Tasks {
    tasks: Vec<Task>,
    /// They may use the reserve.
    is_cutting: bool,
    /// States that have come into files since.
    roots: Vec<Root>,
}

/// What became of tasks.
pub(super) struct Written {
    /// States below this slot may go.
    below: Option<Slot>,
    /// The log says of a state that it is stable.
    is_marked: bool,
    /// Those for which there was no room.
    left: Vec<Task>,
}

/// A state to be saved.
pub(super) struct Save {
    number: u64,
    snapshot: Snapshot,
    /// Entries below this one have to be durable before.
    behind: u64,
    /// Whether a state in the log rests on it.
    is_base: bool,
}

impl Save {
    const fn root(&self) -> Root {
        Root { slot: self.snapshot.slot, behind: self.behind }
    }
}

/// What there is to do for the states.
pub(super) enum Chore {
    Save(Save),
    /// The same for a state that is in the log: nothing waits for it.
    Copy(Save),
    RemoveBelow(Slot),
    /// Writes damaged pieces anew, from a state that may have them.
    Repair(Snapshot),
    /// Removes the states before the newest whole one that is not newer than this stable one.
    RemoveBeforeWhole(Slot),
    /// Reads one more piece, to see whether it is what it was.
    Scrub,
}

/// What came of a chore.
pub(super) enum Done {
    /// The state of this number is durable, in files; and the same with its content there, if it is
    /// not to be in memory.
    Saved(u64, Root, Option<Snapshot>),
    /// A state that is in the log is in files too.
    Copied(Root, Option<Snapshot>),
    /// Sections of a state that was to be saved are in files only, and cannot be read there.
    Unread(Save, Vec<u32>),
    /// The same of a state that is in the log.
    Uncopied(Slot, Vec<u32>),
    /// Some are gone; so many damaged pieces are left.
    Removed(usize),
    /// So many pieces were written anew, and so many damaged ones are left; and the state with its
    /// content where it is now, if it is not to be in memory.
    Repaired(usize, usize, Option<Snapshot>),
    /// None if there is nothing to read; and the lists of states that were written anew.
    Scrubbed(Option<Scrubbed>, Vec<StorageError>),
}

impl Chore {
    /// Does it.
    pub(super) fn carry_out(self, states: &mut States) -> Result<Done, StorageError> {
        Ok(match self {
            Self::Save(save) => match states.save(&save.snapshot, save.behind) {
                Err(StorageError::Absent { sections }) => Done::Unread(save, sections),
                saved => {
                    saved?;
                    let cooled = states.0.cooled(&save.snapshot);
                    Done::Saved(save.number, save.root(), cooled)
                }
            },
            Self::Copy(save) => match states.save(&save.snapshot, save.behind) {
                Err(StorageError::Absent { sections }) => {
                    Done::Uncopied(save.snapshot.slot, sections)
                }
                saved => {
                    saved?;
                    Done::Copied(save.root(), states.0.cooled(&save.snapshot))
                }
            },
            Self::RemoveBelow(slot) => {
                states.0.remove_below(slot)?;
                Done::Removed(states.0.spoiled())
            }
            Self::Repair(snapshot) => {
                let repaired = states.0.repair(&snapshot)?;
                let cooled = (repaired > 0).then(|| states.0.cooled(&snapshot)).flatten();
                Done::Repaired(repaired, states.0.spoiled(), cooled)
            }
            Self::RemoveBeforeWhole(slot) => {
                states.0.remove_before_whole(slot)?;
                Done::Removed(states.0.spoiled())
            }
            Self::Scrub => {
                let scrubbed = states.0.scrub_next();
                let ends_round = scrubbed.as_ref().is_some_and(|scrubbed| scrubbed.ends_round);
                let lists = if ends_round { states.0.mend_lists()? } else { Vec::new() };
                Done::Scrubbed(scrubbed, lists)
            }
        })
    }
}

/// What scrubbing came to since the start.
#[derive(Clone, Default, Debug)]
pub struct Scrubs {
    /// Pieces that were read.
    pub pieces: u64,
    /// Rounds through all of them.
    pub rounds: u64,
    /// Pieces, and lists of them, that were found to be damaged.
    pub damaged: u64,
    /// Pieces that were written anew, or gave way to those of a newer state.
    pub repaired: u64,
    /// What was found since the last look, oldest first.
    pub problems: Vec<StorageError>,
    /// The first and the last of the sections that may have been in each of those.
    pub sections: Vec<(u32, u32)>,
}

impl Scrubs {
    fn note(&mut self, scrubbed: Scrubbed, lists: Vec<StorageError>) {
        self.pieces += 1;
        self.rounds += u64::from(scrubbed.ends_round);
        self.damaged += u64::from(scrubbed.problem.is_some()) + lists.len() as u64;
        self.repaired += lists.len() as u64;
        let room = PROBLEMS_MAX.saturating_sub(self.problems.len());
        self.problems.extend(scrubbed.problem.into_iter().chain(lists).take(room));
        self.note_sections(scrubbed.sections);
    }

    fn note_sections(&mut self, sections: Option<(u32, u32)>) {
        if self.sections.len() < SECTIONS_MAX {
            self.sections.extend(sections);
        }
    }

    /// A state cannot be saved because of these sections. Gives those that there was room for.
    fn note_unread(&mut self, sections: &[u32]) -> Vec<u32> {
        self.damaged += sections.len() as u64;
        if self.problems.len() < PROBLEMS_MAX {
            self.problems.push(StorageError::Absent { sections: sections.to_vec() });
        }
        let room = SECTIONS_MAX.saturating_sub(self.sections.len());
        let noted: Vec<u32> = sections.iter().take(room).copied().collect();
        self.sections.extend(noted.iter().map(|section| (*section, *section)));
        noted
    }
}

/// Damaged pieces that wait to be told of; further ones are counted.
const PROBLEMS_MAX: usize = 64;

/// Sections that wait to be told of; of further ones it is told when they are found again.
const SECTIONS_MAX: usize = PROBLEMS_MAX + ABSENT_MAX;

impl Entries {
    /// Writes tasks and makes them durable, as far as there is room.
    pub(super) fn write(&mut self, tasks: Tasks) -> Result<Written, StorageError> {
        self.is_cutting = tasks.is_cutting;
        tasks.roots.into_iter().for_each(|root| self.chain.add_root(root));
        let (mut tasks, mut left) = (tasks.tasks.into_iter(), Vec::new());
        for task in tasks.by_ref() {
            match self.carry_out(&task) {
                Err(StorageError::Full { .. }) if !self.is_cutting => {
                    left.push(task);
                    break;
                }
                done => done?,
            };
        }
        left.extend(tasks);
        let is_marked = self.marked.is_some();
        Ok(Written { below: self.commit()?, is_marked, left })
    }

    fn carry_out(&mut self, task: &Task) -> Result<u64, StorageError> {
        match task {
            Task::Entry(entry) => self.append(entry),
            Task::Epoch(start) => self.begin_epoch(start.clone()),
            Task::Stable(mark) => self.stable(*mark),
            Task::State(delta) => self.append_state(delta),
        }
    }
}

/// See the [module](self).
pub(super) struct Queue {
    tasks: Vec<Task>,
    /// Bytes of those.
    pub waiting_bytes: usize,
    /// The states that wait to be saved, oldest first: no more than unstable checkpoints.
    saves: VecDeque<Save>,
    /// Whether one is being saved, or others are being removed.
    busy: bool,
    /// The number of the one that is being saved.
    saving: Option<u64>,
    /// Those that are in the log.
    deltas: Deltas,
    /// One of those that is to go into files too.
    copy: Option<Save>,
    /// Those that have come into files, for the log to know.
    roots: Vec<Root>,
    /// The number of the last one that was handed over.
    last: u64,
    /// All up to this number are durable, or were superseded by one that is.
    saved: u64,
    /// The newest state that is durable, and not known to be wrong.
    newest: Option<Slot>,
    /// What is stable and waits for its state to be saved, oldest first.
    marks: VecDeque<Mark>,
    /// A state has become stable, and what is needed beside it is being handed over.
    is_cutting: bool,
    /// The log has no room for the first of the tasks, but in its reserve.
    is_full: bool,
    /// The log has not much room left.
    is_nearly_full: bool,
    /// How far the log was, in bytes, when it last said of a state that it is stable.
    marked_at: u64,
    /// The core was asked to keep again what it needs beside the last stable state.
    is_asked: bool,
    /// The slot with whose state the epoch begins.
    base: Slot,
    /// States below this slot may go.
    superfluous: Option<Slot>,
    /// The last state that a quorum vouches for and that is durable.
    stable: Option<Slot>,
    /// States in memory that may have what is damaged on the disk.
    repairs: Vec<Snapshot>,
    /// None of those had all of it.
    is_beyond_repair: bool,
    /// Damaged pieces that none of those had.
    spoiled: usize,
    /// Whether the oldest of the states that wait to be saved lacks sections until they are mended,
    /// and which that are.
    is_stuck: bool,
    absent: Absences,
    /// The last state in the log that could not be written into files too, and what it lacked.
    uncopied: Option<(Slot, Vec<u32>)>,
    /// The last state of which the content is in files now, for whoever has it in memory.
    cooled: Option<Snapshot>,
    pub scrubs: Scrubs,
    /// Number of the next entry.
    next: u64,
    durable: u64,
    /// What comes is of this one.
    epoch: Epoch,
    failed: Option<StorageError>,
    /// Nothing more comes.
    pub ending: bool,
}

impl Queue {
    /// Nothing waits; `newest` is the newest state that is there, `stable` the last one that a
    /// quorum vouches for, `tip` the one on which others may rest.
    pub(super) fn new(
        membership: &Membership,
        newest: Option<Slot>,
        stable: Option<Slot>,
        tip: Option<Snapshot>,
        log: &Log,
    ) -> Self {
        Self {
            tasks: Vec::new(),
            waiting_bytes: 0,
            saves: VecDeque::new(),
            busy: false,
            saving: None,
            deltas: Deltas::new(log, tip),
            copy: None,
            roots: Vec::new(),
            last: 0,
            saved: 0,
            newest,
            marks: VecDeque::new(),
            is_cutting: false,
            is_full: false,
            is_nearly_full: log.is_nearly_full(),
            marked_at: log.position().saturating_sub(log.bytes()),
            is_asked: false,
            base: membership.base.slot,
            superfluous: None,
            stable,
            repairs: Vec::new(),
            is_beyond_repair: false,
            spoiled: 0,
            is_stuck: false,
            absent: Absences::default(),
            uncopied: None,
            cooled: None,
            scrubs: Scrubs::default(),
            next: log.next(),
            durable: log.durable(),
            epoch: membership.epoch,
            failed: None,
            ending: false,
        }
    }

    /// Fails if anything failed before.
    pub(super) fn check(&self) -> Result<(), StorageError> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    /// Something failed: nothing more is written.
    pub(super) fn fail(&mut self, error: StorageError) {
        self.failed.get_or_insert(error);
        self.tasks.clear();
        self.saves.clear();
        self.repairs.clear();
        (self.is_beyond_repair, self.is_stuck) = (false, false);
        self.marks.clear();
        self.deltas.clear();
        (self.superfluous, self.copy, self.saving, self.busy) = (None, None, None, false);
        self.ending = true;
    }

    /// Whether a state is being saved, or waits to be.
    pub(super) fn is_saving(&self) -> bool {
        self.busy || !self.saves.is_empty()
    }

    /// Adds a task, and gives the number of its entry.
    pub(super) fn push(&mut self, task: Task) -> u64 {
        let number = self.next;
        self.next += 1;
        if let Task::Epoch(EpochStart { membership, .. }) = &task {
            (self.epoch, self.base) = (membership.epoch, membership.base.slot);
            // What had become stable before does not matter any more.
            (self.is_cutting, self.is_asked) = (false, false);
        }
        self.waiting_bytes += task.bytes();
        self.tasks.push(task);
        number
    }

    /// Adds an entry of this epoch, unless that is over: then what depends on it is not needed, and
    /// waits no longer than for what comes next.
    pub(super) fn push_in(&mut self, epoch: Epoch, entry: Entry) -> u64 {
        if epoch == self.epoch { self.push(Task::Entry(entry)) } else { self.next }
    }

    /// Adds a state that is to be saved, and gives its number. Those that are not older were wrong.
    pub(super) fn save(&mut self, snapshot: Snapshot) -> u64 {
        let slot = snapshot.slot;
        self.saves.retain(|save| save.snapshot.slot < slot);
        if self.saves.is_empty() {
            self.unstick();
        }
        self.uncopied = self.uncopied.take().filter(|(uncopied, _)| *uncopied < slot);
        self.copy = self.copy.take().filter(|copy| copy.snapshot.slot < slot);
        self.deltas.give_up(slot);
        self.newest = self.newest.filter(|newest| *newest < slot);
        self.last += 1;
        // Files need no room in the log, and make some.
        let has_room = !self.is_nearly_full && !self.is_full;
        match self.deltas.take(self.last, self.next, &snapshot, has_room) {
            Some(delta) => {
                if let Some(base) = self.saves.back_mut() {
                    base.is_base = true;
                }
                self.push(Task::State(delta));
            }
            None => {
                // It will take the place of that.
                self.copy = None;
                self.deltas.rest();
                let (number, behind) = (self.last, self.next);
                self.saves.push_back(Save { number, snapshot, behind, is_base: false });
            }
        }
        self.last
    }

    /// What is handed over from now on, up to the next mark, belongs to a checkpoint.
    pub(super) const fn begin_cut(&mut self) {
        self.is_cutting = true;
    }

    /// A quorum vouches for a state that was handed over; the log says so when it is saved, unless
    /// it says so of a later one. Older ones are not needed any more.
    pub(super) fn stable(&mut self, mark: Mark) {
        self.is_cutting = false;
        if self.stable > Some(mark.slot) {
            // That one was damaged, and what goes with this one is still there.
            self.is_asked = false;
            return;
        }
        self.drop_saves_before(mark.slot);
        // The group's first state is there without being saved.
        if mark.slot == Slot(0) || self.newest >= Some(mark.slot) {
            self.marks.clear();
            self.say_stable(mark);
            return;
        }
        // The older ones make room sooner.
        self.marks.truncate(MARKS_MAX - 1);
        self.marks.push_back(mark);
    }

    /// Of the states that wait to be saved, only the newest of those up to a slot is needed, and
    /// those on which states in the log rest.
    fn drop_saves_before(&mut self, stable: Slot) {
        let reached = self.saves.iter().rposition(|save| save.snapshot.slot <= stable);
        let base = self.saves.iter().position(|save| save.is_base).unwrap_or(usize::MAX);
        if self.saves.drain(..reached.unwrap_or(0).min(base)).next().is_some() {
            self.unstick();
        }
    }

    /// The oldest of the states that wait to be saved is another one now.
    fn unstick(&mut self) {
        (self.is_stuck, self.absent) = (false, Absences::default());
    }

    /// Has the log say that a state is stable, which is durable; it may have to go into files.
    fn say_stable(&mut self, mark: Mark) {
        let is_again = self.stable == Some(mark.slot);
        self.stable = self.stable.max(Some(mark.slot));
        self.push(Task::Stable(mark));
        let makes_room = is_again && self.is_nearly_full && self.may_copy();
        let copy = self.deltas.stable(mark, makes_room.then_some(self.durable));
        self.copy_soon(copy);
    }

    fn may_copy(&self) -> bool {
        self.copy.is_none() && self.saves.is_empty() && self.saving.is_none()
    }

    /// The log has not much room left, has grown since it last said of a state that it is stable,
    /// and no newer one is about to be: then what the core needs beside that is to be kept again,
    /// so that the log can be cut. Gives its slot, once.
    pub(super) fn asks_again(&mut self) -> Option<Slot> {
        let stable = self.stable.unwrap_or_default();
        let is_there = stable == Slot(0) || self.newest >= Some(stable);
        let waits = !self.marks.is_empty() || !self.saves.is_empty() || self.is_cutting;
        let grown = self.deltas.grown_since(self.marked_at);
        let is_due = grown >= self.deltas.growth_bytes_max() / 2 || (self.is_full && grown > 0);
        let is_due = is_due && self.is_nearly_full && !self.is_asked && self.failed.is_none();
        let asks = is_due && is_there && stable >= self.base && !waits;
        self.is_asked |= asks;
        asks.then_some(stable)
    }

    /// Has a state that is in the log, as this entry, written into files too.
    fn copy_soon(&mut self, state: Option<(u64, Snapshot)>) {
        if let Some((entry, snapshot)) = state.filter(|_| self.may_copy()) {
            self.deltas.copy(snapshot.slot);
            let behind = entry + 1;
            self.copy = Some(Save { number: 0, snapshot, behind, is_base: false });
        }
    }

    /// Whether the log may use its reserve: a checkpoint is under way, or a state that waits to be
    /// saved behind what is to be written.
    fn may_use_reserve(&self) -> bool {
        let is_saving = !self.saves.is_empty() || (self.busy && !self.marks.is_empty());
        self.is_cutting || is_saving || self.tasks.iter().any(Task::makes_room)
    }

    /// The tasks for the log, as many as there are.
    pub(super) fn take_tasks(&mut self) -> Tasks {
        let is_cutting = self.is_full && self.may_use_reserve();
        self.waiting_bytes = 0;
        let roots = std::mem::take(&mut self.roots);
        Tasks { tasks: std::mem::take(&mut self.tasks), is_cutting, roots }
    }

    /// The tasks that were taken are written, into this log. Says whether some had no room.
    pub(super) fn written(&mut self, done: Result<Written, StorageError>, log: &Log) -> bool {
        self.durable = log.durable();
        self.is_nearly_full = log.is_nearly_full();
        self.deltas.note_position(log.position());
        match done {
            Ok(Written { below, is_marked, left }) => {
                if is_marked {
                    (self.marked_at, self.is_asked) = (log.position(), false);
                }
                self.superfluous = below.or(self.superfluous);
                self.is_full = !left.is_empty() && log.is_full();
                self.waiting_bytes += left.iter().map(Task::bytes).sum::<usize>();
                let is_left = !left.is_empty();
                self.tasks.splice(..0, left);
                self.settle();
                is_left
            }
            Err(error) => {
                self.fail(error);
                false
            }
        }
    }

    /// What to do next for the states, if there is anything. Removing comes first: where states
    /// always wait to be saved, the disk would fill up.
    pub(super) fn take_chore(&mut self) -> Option<Chore> {
        let is_due = |save: &Save| save.behind <= self.durable;
        // At the end nobody mends anything any more.
        let waits = self.is_stuck && !self.ending;
        let ready = !waits && self.saves.front().is_some_and(is_due);
        let chore = match self.superfluous.take() {
            Some(slot) => Some(Chore::RemoveBelow(slot)),
            None if ready => self.saves.pop_front().map(Chore::Save),
            None => None,
        };
        if let Some(Chore::Save(save)) = &chore {
            self.saving = Some(save.number);
        }
        let chore = chore.or_else(|| self.copy.take().map(Chore::Copy));
        let chore = chore.or_else(|| self.repairs.pop().map(Chore::Repair));
        let chore = chore.or_else(|| self.give_up_what_no_state_has());
        self.busy |= chore.is_some();
        chore
    }

    /// No state in memory has what is damaged: a newer one takes the place of those that need it.
    /// It is written into files if it is in the log only.
    fn give_up_what_no_state_has(&mut self) -> Option<Chore> {
        if !self.is_beyond_repair || !self.saves.is_empty() {
            return None;
        }
        let newer = self.deltas.newer(self.durable);
        let is_newer = |slot| self.uncopied.as_ref().is_none_or(|(uncopied, _)| *uncopied < slot);
        if newer.as_ref().is_some_and(|(_, state)| !is_newer(state.slot)) {
            // It needs what is damaged too: the next stable one may not.
            return None;
        }
        self.is_beyond_repair = false;
        if newer.is_none() {
            return self.stable.map(Chore::RemoveBeforeWhole);
        }
        self.copy_soon(newer);
        self.copy.take().map(Chore::Copy)
    }

    /// The chore that was taken is done.
    pub(super) fn tended(&mut self, done: Result<Done, StorageError>) {
        (self.busy, self.saving) = (false, None);
        match done {
            Ok(_) if self.failed.is_some() => {}
            Ok(Done::Saved(number, root, cooled)) => {
                self.unstick();
                self.cool(cooled);
                self.roots.push(root);
                self.saved(number, root.slot);
                self.settle();
            }
            Ok(Done::Unread(save, sections)) => self.unread(save, &sections),
            Ok(Done::Uncopied(slot, sections)) => {
                self.scrubs.note_unread(&sections);
                self.deltas.uncopied(slot);
                self.uncopied = Some((slot, sections));
                self.is_beyond_repair = self.spoiled > 0;
            }
            Ok(Done::Copied(root, cooled)) => {
                self.cool(cooled);
                self.roots.push(root);
                self.is_beyond_repair = false;
                if self.spoiled > 0 {
                    // What is damaged in older ones is of no use any more.
                    self.superfluous = self.superfluous.max(Some(root.slot));
                }
            }
            Ok(Done::Scrubbed(None, _)) => {}
            Ok(Done::Removed(left)) => {
                self.scrubs.repaired += self.spoiled.saturating_sub(left) as u64;
                self.spoiled = left;
            }
            Ok(Done::Repaired(pieces, left, cooled)) => {
                self.cool(cooled);
                self.scrubs.repaired += pieces as u64;
                self.spoiled = left;
                self.is_beyond_repair = left > 0 && self.repairs.is_empty();
            }
            Ok(Done::Scrubbed(Some(scrubbed), lists)) => self.scrubs.note(scrubbed, lists),
            Err(error) => self.fail(error),
        }
    }

    /// A state that was to be saved lacks these sections.
    fn unread(&mut self, save: Save, sections: &[u32]) {
        let number = save.number;
        // Unless it turned out to be wrong meanwhile, or not to be needed.
        if self.saves.front().is_none_or(|next| next.snapshot.slot > save.snapshot.slot) {
            self.saves.push_front(save);
        }
        if let Some(mark) = self.marks.back() {
            self.drop_saves_before(mark.slot);
        }
        let noted = self.scrubs.note_unread(sections);
        if self.saves.front().is_none_or(|next| next.number != number) {
            return;
        }
        self.is_stuck = true;
        let nowhere = self.absent.find(&noted);
        if self.ending || !nowhere.is_empty() {
            let sections = if nowhere.is_empty() { sections.to_vec() } else { nowhere };
            self.fail(StorageError::Absent { sections });
        }
    }

    /// What scrubbing, and reading for saving, came to is being told.
    pub(super) fn tell(&mut self) -> Scrubs {
        self.absent.tell();
        let problems = std::mem::take(&mut self.scrubs.problems);
        let sections = std::mem::take(&mut self.scrubs.sections);
        Scrubs { problems, sections, ..self.scrubs }
    }

    /// Has damaged pieces written anew from these states. What can be mended of what was told so
    /// far is in memory in them.
    pub(super) fn repair(&mut self, states: impl Iterator<Item = Snapshot>) {
        let states: Vec<Snapshot> = states.collect();
        let (mut sections, is_all) = self.absent.mend();
        self.is_stuck &= !is_all;
        sections.extend(self.uncopied.iter().flat_map(|(_, sections)| sections));
        for state in &states {
            let warm = |section: &u32| {
                let leaf = state.tree.within(*section..=*section).next()?;
                (!leaf.is_cold()).then(|| (*section, leaf.clone()))
            };
            let warm: BTreeMap<u32, Arc<Leaf>> = sections.iter().filter_map(warm).collect();
            for save in self.saves.iter_mut().chain(&mut self.copy) {
                save.snapshot.tree = save.snapshot.tree.replaced_with(&warm);
            }
            self.deltas.mend(&warm);
        }
        if self.failed.is_none() && self.repairs.is_empty() {
            self.repairs = states;
        }
    }

    /// The content of a state is in files: those that wait need not have it in memory.
    fn cool(&mut self, cooled: Option<Snapshot>) {
        let Some(cooled) = cooled else { return };
        for save in self.saves.iter_mut().chain(&mut self.copy) {
            save.snapshot.tree = save.snapshot.tree.with_content_of(&cooled.tree);
        }
        self.deltas.cool(&cooled.tree);
        self.cooled = Some(cooled);
    }

    /// The last state of which the content is in files now; told once.
    pub(super) const fn take_cooled(&mut self) -> Option<Snapshot> {
        self.cooled.take()
    }

    /// Looks which states in the log are durable, with what they rest on.
    fn settle(&mut self) {
        let waits_for = self.saving.or_else(|| self.saves.front().map(|save| save.number));
        while let Some(logged) = self.deltas.next_durable(self.durable, waits_for) {
            self.saved(logged.number, logged.slot);
        }
    }

    /// A state is durable: the log may say that it is stable.
    fn saved(&mut self, number: u64, slot: Slot) {
        self.saved = self.saved.max(number);
        if self.saves.iter().any(|save| save.snapshot.slot <= slot) {
            // Meanwhile it turned out to be wrong.
            return;
        }
        self.newest = Some(slot);
        let reached = self.marks.iter().take_while(|mark| mark.slot <= slot).count();
        let newest = self.marks.drain(..reached).next_back();
        if let Some(mark) = newest {
            self.say_stable(mark);
        }
    }

    /// Whether there is nothing to be written into the log, or no room for it.
    pub(super) fn is_written(&self) -> bool {
        self.tasks.is_empty() || self.is_full()
    }

    /// Whether entries wait until a checkpoint makes room.
    pub(super) fn is_full(&self) -> bool {
        self.is_full && !self.may_use_reserve()
    }

    /// Whether the disk has to catch up before more is read: it will, whatever others do.
    pub(super) fn is_behind(&self) -> bool {
        let is_cutting = self.is_saving() && !self.marks.is_empty();
        self.saves.len() > SAVES_WAITING_MAX || (self.is_nearly_full && is_cutting)
    }

    /// Whether there is little room, and a checkpoint is under way that will make some: what is
    /// read until then would take of the reserve what others keep again.
    pub(super) const fn is_short(&self) -> bool {
        self.is_nearly_full && self.is_cutting
    }

    /// Whether no state waits to be saved.
    pub(super) fn has_no_saves(&self) -> bool {
        self.saves.is_empty()
    }

    /// Whether a state waits to be written into the log.
    pub(super) fn has_state_for_log(&self) -> bool {
        self.deltas.is_waiting(self.durable)
    }

    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    pub(super) fn durable(&self) -> Result<u64, StorageError> {
        self.check().map(|()| self.durable)
    }

    pub(super) fn saved_upto(&self) -> Result<u64, StorageError> {
        self.check().map(|()| self.saved)
    }

    pub(super) const fn newest(&self) -> Option<Slot> {
        self.newest
    }
}
