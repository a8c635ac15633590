//! What one replica keeps: the entries of its core, behind a [`Barrier`], and states.
//!
//! Answers to queries wait behind what was executed. States are saved one after the other, and what
//! rests on one is done when it is saved. Everything else goes on. Why just these:
//! `docs/decisions/0005-durability.md`.
//!
//! The replica runs this over threads ([`Writer`](super::Writer)), the simulator over a disk whose
//! time it makes up ([`Stepped`](super::Stepped)).

use super::barrier::{HEADER_BYTES, Waiting, take};
use super::{Barrier, Certificates, EntryLog, EpochStart, Needed};
use crate::error::StorageError;
use pentarchy_core::counter::{Instance, Memory};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::membership::Base;
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::ports::replica::Output;
use pentarchy_core::snapshot::Snapshot;
use std::collections::{BTreeMap, VecDeque};

/// Who writes what a [`DurableStore`] hands over.
pub trait Backing: EntryLog {
    /// Begins another epoch: see [`Kept::begin_epoch`](super::Kept::begin_epoch).
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn begin_epoch(&mut self, start: EpochStart) -> Result<u64, StorageError>;

    /// Keeps a state, and gives a number to it, counting from 1. The replica may vouch for it when
    /// [`saved`](Self::saved) has reached that. Those that were handed over before and are not
    /// older were wrong.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn save(&mut self, snapshot: Snapshot) -> Result<u64, StorageError>;

    /// All states up to this number are durable, or were superseded by one that is.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    fn saved(&self) -> Result<u64, StorageError>;

    /// What is appended from now on, up to the next call of [`stable`](Self::stable), belongs to a
    /// checkpoint: if the log is full, it may use the reserve.
    fn begin_cut(&mut self);

    /// The log fills up, and no newer state becomes stable: the slot of the last stable one, if the
    /// core is to keep again what it needs beside that. Says so once, until it has.
    fn asks_again(&mut self) -> Option<Slot>;

    /// A quorum vouches for a state that was handed over to be saved; the log says that it is
    /// stable when that is done. See [`Kept::stable`](super::Kept::stable).
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn stable(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<(), StorageError>;
}

/// What is done when a state is saved.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Then {
    /// The core is told that it may vouch for it.
    Checkpointed {
        /// Of which slot.
        slot: Slot,
        /// Its digest.
        state: Digest,
    },
    /// The core is told that it is installed.
    Installed {
        /// Of which slot.
        slot: Slot,
    },
    /// This replica says that the epoch ends with it.
    Ended(Handover),
}

/// A state became stable, and the parts of the core write again what they need beside it.
struct Cut {
    /// Its slot, if this replica has that state.
    slot: Option<Slot>,
    /// From which entry on each part has done so.
    parts: Vec<Option<u64>>,
}

/// What one replica keeps.
pub struct DurableStore<B> {
    barrier: Barrier<B>,
    /// Answers to queries, and what else clients are told that waits, in order.
    answers: VecDeque<Waiting<(ClientId, ToClient)>>,
    /// Bytes of those.
    answers_bytes: usize,
    /// Bytes of answers that wait, of each client.
    answer_bytes: BTreeMap<ClientId, usize>,
    /// Answers to queries wait until all entries below this one are durable.
    executed_behind: u64,
    /// What is to be done when a state is saved, in the order of saving: each with the number and
    /// the slot of the state.
    when_saved: VecDeque<(u64, Slot, Then)>,
    /// The state that was handed over last, and its number. The one from the start has none.
    newest: Option<Base>,
    newest_number: u64,
    /// The entry that says how the present epoch began, unless it was there from the start.
    begun: u64,
    /// The epoch's base is to be fetched: what is needed beside it.
    fetching: Option<u64>,
    /// A state that just became stable, and the lowest entry that is needed beside it.
    cut: Option<(Slot, u64)>,
    /// The same where the core has parts, each of which has yet to write, oldest first.
    cuts: VecDeque<Cut>,
    /// Parts that write what they need, and from which entry on.
    keeping: BTreeMap<u8, u64>,
    /// The slot of the state that was installed last, until that is durable and the core knows.
    installing: Option<Slot>,
}

impl<B: Backing> DurableStore<B> {
    /// Goes on from what was kept, or begins to keep things. `newest` is the newest state there,
    /// `certified` what the device had certified before this process began.
    pub fn new(writer: B, newest: Option<Base>, certified: Certificates) -> Self {
        Self {
            barrier: Barrier::new(writer, certified),
            answers: VecDeque::new(),
            answers_bytes: 0,
            answer_bytes: BTreeMap::new(),
            executed_behind: 0,
            when_saved: VecDeque::new(),
            newest,
            newest_number: 0,
            begun: 0,
            fetching: None,
            cut: None,
            cuts: VecDeque::new(),
            keeping: BTreeMap::new(),
            installing: None,
        }
    }

    /// Behind which the core's messages wait.
    pub const fn barrier(&self) -> &Barrier<B> {
        &self.barrier
    }

    /// The same, to have things wait there.
    pub const fn barrier_mut(&mut self) -> &mut Barrier<B> {
        &mut self.barrier
    }

    /// Who writes.
    pub const fn backing(&self) -> &B {
        self.barrier.log()
    }

    /// Who writes, to have it go on.
    pub const fn backing_mut(&mut self) -> &mut B {
        self.barrier.log_mut()
    }

    /// What clients are told from now on must not leave before all that was handed over is durable.
    /// When something was executed, for one: whoever learns of it by a query must not do so before
    /// this replica's log says how far it may have come.
    pub fn executed(&mut self) {
        self.executed_behind = self.backing().next();
    }

    /// Has something that a client is told wait, if it must: an answer to a query, or what a core
    /// says of results. Gives it back if it may leave.
    pub fn hold_answer(&mut self, client: ClientId, answer: ToClient) -> Option<ToClient> {
        let early = mutant!("kept.answers-before-durable");
        let is_durable = self.executed_behind <= self.barrier.durable();
        if early || (self.answers.is_empty() && is_durable) {
            return Some(answer);
        }
        let bytes = HEADER_BYTES
            + match &answer {
                ToClient::Answer { result, .. } => result.len(),
                ToClient::Protocol(message) => message.len(),
                ToClient::Replies { replies, .. } | ToClient::Speculative { replies, .. } => {
                    let result = |reply: &Reply| match &reply.outcome {
                        Outcome::Done(result) => HEADER_BYTES + result.len(),
                        _ => HEADER_BYTES,
                    };
                    replies.iter().map(result).sum()
                }
                _ => 0,
            };
        self.answers_bytes += bytes;
        *self.answer_bytes.entry(client).or_default() += bytes;
        let behind = self.executed_behind;
        self.answers.push_back(Waiting { behind, bytes, what: (client, answer) });
        None
    }

    /// Looks how far the disk has come.
    pub fn look(&mut self) -> Result<(), StorageError> {
        self.barrier.look()?;
        self.barrier.check_room(self.waiting_bytes())
    }

    /// The next answer that may leave.
    pub fn next_answer(&mut self) -> Option<(ClientId, ToClient)> {
        let before = self.answers_bytes;
        let next = take(&mut self.answers, self.barrier.durable(), &mut self.answers_bytes)?;
        if let Some(bytes) = self.answer_bytes.get_mut(&next.0) {
            *bytes -= before - self.answers_bytes;
            if *bytes == 0 {
                self.answer_bytes.remove(&next.0);
            }
        }
        Some(next)
    }

    /// Bytes of a client's answers that wait for the disk.
    pub fn answer_bytes(&self, client: &ClientId) -> usize {
        self.answer_bytes.get(client).copied().unwrap_or_default()
    }

    /// Messages and answers that wait for the disk.
    pub fn waiting_messages(&self) -> usize {
        self.barrier.waiting_messages() + self.answers.len()
    }

    /// Bytes that wait for the disk.
    pub const fn waiting_bytes(&self) -> usize {
        self.barrier.waiting_bytes() + self.answers_bytes
    }

    /// Saves a state, and has something done when that is durable, with all that was kept before.
    pub fn save(&mut self, snapshot: &Snapshot, then: Then) -> Result<(), StorageError> {
        let base = base_of(snapshot);
        if self.newest.replace(base) != Some(base) {
            self.newest_number = self.backing_mut().save(snapshot.clone())?;
            // It may be an entry of the log: then what comes behind it waits for it too.
            self.barrier.wait_for(self.backing().next());
            // Nobody is to hear of a state that turned out to be wrong.
            self.when_saved.retain(|(_, slot, _)| *slot < base.slot);
        }
        if let Then::Installed { slot } = then {
            self.installing = Some(slot);
            if let Some(needed) = self.fetching.take() {
                self.backing_mut().stable(slot, needed)?;
            }
        }
        self.when_saved.push_back((self.newest_number, base.slot, then));
        Ok(())
    }

    /// What is to be done because a state was saved.
    pub fn next_saved(&mut self) -> Result<Option<Then>, StorageError> {
        while let Some((number, ..)) = self.when_saved.front() {
            if self.backing().saved()? < *number && !mutant!("kept.vouches-before-saved") {
                break;
            }
            match self.when_saved.pop_front() {
                // Another one was installed meanwhile.
                Some((.., Then::Installed { slot })) if self.installing != Some(slot) => {}
                Some((.., Then::Installed { slot })) => {
                    self.installing = None;
                    return Ok(Some(Then::Installed { slot }));
                }
                then => return Ok(then.map(|(.., then)| then)),
            }
        }
        Ok(None)
    }

    /// Whether to drop an output, because a state was installed that is not durable yet. The core
    /// does not know of it, so it is not where execution is. It goes on from the installed state,
    /// and orders or wants this again, as soon as it is told. Nothing else is fetched meanwhile: if
    /// states can be fetched faster than saved, the core would never be told of one.
    pub fn drops(&self, output: &Output) -> bool {
        let executes =
            || output.needs_execution_in_step() && !mutant!("kept.executes-while-installing");
        self.installing.is_some() && (executes() || matches!(output, Output::Fetch { .. }))
    }

    /// Whether the state with which an epoch ends is not durable yet.
    pub fn is_ending(&self) -> bool {
        self.when_saved.iter().any(|(.., then)| matches!(then, Then::Ended(_)))
    }

    /// A quorum vouches for the state of a slot, which is being saved. The core goes on to write
    /// what it needs beside the state, and so does this store: see [`Barrier::compact`].
    pub fn stable(
        &mut self,
        slot: Slot,
        devices: Vec<(Instance, Memory)>,
        taken: u64,
    ) -> Result<(), StorageError> {
        self.backing_mut().begin_cut();
        let needed = self.barrier.compact(None, devices, taken)?;
        self.cut = Some((slot, needed));
        Ok(())
    }

    /// The log fills up, and no newer state becomes stable: as many views fail, say. Gives the slot
    /// of the last one that did. The caller then does as if it had just become so
    /// ([`stable`](Self::stable), [`stable_in_parts`](Self::stable_in_parts)), and has the core
    /// keep again what it needs, in its next step. Nothing then stays in case that state gets
    /// damaged.
    pub fn asks_again(&mut self) -> Option<Slot> {
        let waits = self.fetching.is_some() || self.installing.is_some() || self.is_ending();
        if waits || !self.cuts.is_empty() || mutant!("kept.log-fills-up") {
            return None;
        }
        self.backing_mut().asks_again()
    }

    /// The core has written all that it needs: what came before may go.
    pub fn end_of_step(&mut self) -> Result<(), StorageError> {
        match self.cut.take() {
            Some((slot, needed)) => self.cut(slot, needed),
            None => Ok(()),
        }
    }

    fn cut(&mut self, slot: Slot, needed: impl Into<Needed>) -> Result<(), StorageError> {
        let early = mutant!("kept.log-cut-too-early");
        let needed = if early { self.backing().next().into() } else { needed.into() };
        self.backing_mut().stable(slot, needed)?;
        // So that somebody has it written, although nothing else may come for long.
        self.barrier.wait_for(self.backing().next());
        Ok(())
    }

    /// The same of a core with so many parts, each of which will write what it needs. None if this
    /// replica does not have that state.
    pub fn stable_in_parts(&mut self, slot: Option<Slot>, parts: u8) {
        if slot.is_some() {
            self.backing_mut().begin_cut();
        }
        self.cuts.push_back(Cut { slot, parts: vec![None; usize::from(parts)] });
    }

    /// Of a core whose parts all wait behind this barrier: one says where what it needs begins, or
    /// ends ([`Compacting`](pentarchy_core::ports::replica::pillar::Output)).
    pub fn keeps_again(
        &mut self,
        part: u8,
        is_done: bool,
        devices: Vec<(Instance, Memory)>,
        taken: u64,
    ) -> Result<(), StorageError> {
        if !is_done {
            let begins = self.barrier.compact(Some(part), devices, taken)?;
            self.keeping.insert(part, begins);
            return Ok(());
        }
        self.keeping.remove(&part).map_or(Ok(()), |begins| self.compacted(part, begins))
    }

    /// A part has written all that it needs, from this entry on: the answer to the first cut to
    /// which it has not answered. When all have, what came before may go. An answer to a question
    /// of which nothing was said here, as it came behind the end of the epoch, may count for a
    /// later cut: it begins earlier, so that more than is needed stays.
    pub fn compacted(&mut self, part: u8, begins: u64) -> Result<(), StorageError> {
        let part = usize::from(part);
        let mut answers = self.cuts.iter_mut().filter_map(|cut| cut.parts.get_mut(part));
        if let Some(answer) = answers.find(|answer| answer.is_none()) {
            *answer = Some(begins);
        }
        while let Some(Cut { slot, parts }) = self.cuts.front() {
            let early = mutant!("pillars.cut-before-all-kept-again");
            let ready = parts.iter().copied().filter(|part| !early || part.is_some());
            let Some(ready) = ready.collect::<Option<Vec<u64>>>() else { break };
            let slot = *slot;
            self.cuts.pop_front();
            if let Some(slot) = slot {
                let for_all = mutant!("pillars.last-answer-for-all");
                let needed = if for_all { Needed::from(begins) } else { Needed::of_parts(&ready) };
                self.cut(slot, needed)?;
            }
        }
        if self.cuts.iter().any(|cut| cut.slot.is_some()) {
            self.backing_mut().begin_cut();
        }
        Ok(())
    }

    /// Whether it is durable that the present epoch has begun.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed.
    pub fn is_epoch_durable(&self) -> Result<bool, StorageError> {
        Ok(self.backing().durable()? > self.begun)
    }

    /// The group goes on without this replica, which drops the messages and answers that wait for
    /// the disk.
    pub fn leave(&mut self) {
        self.answers.clear();
        self.answer_bytes.clear();
        self.answers_bytes = 0;
        self.barrier.begin_epoch();
    }

    /// Another epoch begins. The store drops what waits, which the replica wanted for the last one.
    pub fn begin_epoch(&mut self, start: EpochStart, fetches: bool) -> Result<(), StorageError> {
        let base = start.membership.base.slot;
        let begun = self.backing_mut().begin_epoch(start)?;
        self.leave();
        self.when_saved.clear();
        self.cuts.clear();
        self.keeping.clear();
        (self.cut, self.installing) = (None, None);
        self.begun = begun;
        self.fetching = fetches.then_some(begun);
        if !fetches {
            self.backing_mut().stable(base, begun)?;
        }
        Ok(())
    }
}

const fn base_of(snapshot: &Snapshot) -> Base {
    Base { slot: snapshot.slot, state: snapshot.digest }
}
