//! What waits for what: the rule "persist before send", between a core and whoever writes to the
//! disk.
//!
//! What is to be kept is handed to a [`Backing`], which writes it in its own time. Messages wait,
//! in order, until all that was to be kept before them is durable; so do answers to queries behind
//! what was executed. States are saved one after the other, and what rests on one is done when it
//! is saved. Everything else goes on. Why just these: `docs/decisions/0005-durability.md`.
//!
//! The replica runs this over threads ([`Writer`](super::Writer)), the simulator over a disk whose
//! time it makes up ([`Stepped`](super::Stepped)).

use super::{Certificates, Entry};
use crate::error::StorageError;
use pentarchy_core::auth::Auth;
use pentarchy_core::counter::{Instance, Memory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::{Handover, Proof};
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::ids::{ClientId, Slot};
use pentarchy_core::membership::{Base, Membership};
use pentarchy_core::mutant;
use pentarchy_core::ports::client::{Outcome, Reply, ToClient};
use pentarchy_core::ports::replica::Output;
use pentarchy_core::snapshot::Snapshot;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

/// Who writes what a [`Keeper`] hands over.
pub trait Backing {
    /// Keeps an entry and gives its number. What depends on it may leave when
    /// [`durable`](Self::durable) is above that. May wait while too much waits for the disk.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError>;

    /// Begins another epoch: see [`Kept::begin_epoch`](super::Kept::begin_epoch).
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn begin_epoch(
        &mut self,
        membership: Arc<Membership>,
        proof: Option<Proof>,
    ) -> Result<u64, StorageError>;

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

    /// A quorum vouches for a state that was handed over to be saved; the log says that it is
    /// stable when that is done. See [`Kept::stable`](super::Kept::stable).
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn stable(&mut self, slot: Slot, needed: u64) -> Result<(), StorageError>;

    /// The number of the next entry: none that is handed over from now on has a lower one.
    fn next(&self) -> u64;

    /// All entries below this are durable.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed: nothing more will be durable, and nothing that depends
    /// on it may leave.
    fn durable(&self) -> Result<u64, StorageError>;

    /// The bound of the log in bytes, if that is reached, and entries wait until a checkpoint makes
    /// room.
    fn full(&self) -> Option<u64>;

    /// Whether the disk has to catch up before more is read. It will without anything being read.
    fn is_behind(&self) -> bool;
}

/// What a message counts beside its bytes.
const HEADER_BYTES: usize = 256;

/// Bytes that wait when the log is full before the replica ends. Until then it reads, and says
/// nothing: what it reads may prove a checkpoint, which makes room.
const FULL_WAITING_BYTES_MAX: usize = 8 << 20;

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

/// Something that must not be seen before what was kept before it is durable.
struct Waiting<T> {
    /// All entries below this one have to be durable.
    behind: u64,
    bytes: usize,
    what: T,
}

/// What one replica keeps.
pub struct Keeper<B> {
    writer: B,
    /// Number of the next entry.
    next: u64,
    /// All entries below this were durable at the last look.
    durable: u64,
    /// Messages, in the order in which the core sent them.
    messages: VecDeque<Waiting<CoreEffect>>,
    /// Answers to queries, in the order in which they were asked.
    answers: VecDeque<Waiting<(ClientId, ToClient)>>,
    /// Bytes of both, and of the entries before them.
    waiting_bytes: usize,
    /// Bytes of entries behind the last message.
    entry_bytes: usize,
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
    /// What the device had certified before this process began.
    certified: Certificates,
    /// The epoch's base is to be fetched: what is needed beside it.
    fetching: Option<u64>,
    /// Own certified messages on their way back to the core: each with the number of its event.
    unheard: VecDeque<(u64, Ui, Digest)>,
    /// A state that just became stable, and the lowest entry that is needed beside it.
    cut: Option<(Slot, u64)>,
    /// The slot of the state that was installed last, until that is durable and the core knows.
    installing: Option<Slot>,
}

impl<B: Backing> Keeper<B> {
    /// Goes on from what was kept, or begins to keep things. `newest` is the newest state there,
    /// `certified` what the device had certified before this process began.
    pub fn new(writer: B, newest: Option<Base>, certified: Certificates) -> Self {
        Self {
            next: writer.next(),
            // Whoever cannot write says so at the first look.
            durable: writer.durable().unwrap_or_default(),
            writer,
            messages: VecDeque::new(),
            answers: VecDeque::new(),
            waiting_bytes: 0,
            entry_bytes: 0,
            answer_bytes: BTreeMap::new(),
            executed_behind: 0,
            when_saved: VecDeque::new(),
            newest,
            newest_number: 0,
            certified,
            fetching: None,
            unheard: VecDeque::new(),
            cut: None,
            installing: None,
        }
    }

    /// Who writes.
    pub const fn backing(&self) -> &B {
        &self.writer
    }

    /// Who writes, to have it go on.
    pub const fn backing_mut(&mut self) -> &mut B {
        &mut self.writer
    }

    /// Keeps what is to be kept, and has wait what must not be seen before. Gives back what is to
    /// be carried out now.
    pub fn hold(&mut self, effect: CoreEffect) -> Result<Option<CoreEffect>, StorageError> {
        let bytes = match &effect {
            CoreEffect::Persist(record) => {
                self.append(Entry::Record(record.clone()), record.len())?;
                return Ok(None);
            }
            CoreEffect::Send { outgoing, .. } => {
                if let Auth::Usig(instance, position) = outgoing.auth {
                    self.certifies(instance, position, outgoing.digest)?;
                }
                outgoing.body.len()
            }
            CoreEffect::Relay { wire, .. } => wire.len(),
            _ => return Ok(Some(effect)),
        };
        let early = mutant!("kept.sends-before-durable");
        if early || (self.messages.is_empty() && self.next <= self.durable) {
            return Ok(Some(effect));
        }
        let bytes = std::mem::take(&mut self.entry_bytes) + HEADER_BYTES + bytes;
        self.waiting_bytes += bytes;
        self.messages.push_back(Waiting { behind: self.next, bytes, what: effect });
        Ok(None)
    }

    fn append(&mut self, entry: Entry, bytes: usize) -> Result<(), StorageError> {
        // The writer has entries of its own, so this is not always one more.
        self.next = self.writer.append(entry)? + 1;
        self.entry_bytes += bytes;
        Ok(())
    }

    /// Writes down what the device is about to certify, if it did not do so before the crash.
    fn certifies(
        &mut self,
        instance: Instance,
        position: Position,
        digest: Digest,
    ) -> Result<(), StorageError> {
        match self.certified(instance, position, &digest) {
            Some(_) => Ok(()),
            None => self.append(Entry::Certified { instance, position, digest }, 0),
        }
    }

    /// The certificate that the device gave to this before the crash.
    pub fn certified(&self, instance: Instance, position: Position, digest: &Digest) -> Option<Ui> {
        self.certified.get(instance, position, digest)
    }

    /// Something was executed: whoever learns of it by a query must not do so before this replica's
    /// log says how far it may have come.
    pub const fn executed(&mut self) {
        self.executed_behind = self.next;
    }

    /// Has an answer to a query wait, if it must. Gives it back if it may leave.
    pub fn hold_answer(&mut self, client: ClientId, answer: ToClient) -> Option<ToClient> {
        let early = mutant!("kept.answers-before-durable");
        if early || (self.answers.is_empty() && self.executed_behind <= self.durable) {
            return Some(answer);
        }
        let bytes = HEADER_BYTES
            + match &answer {
                ToClient::Answer { result, .. } => result.len(),
                ToClient::Speculative { replies, .. } => {
                    let result = |reply: &Reply| match &reply.outcome {
                        Outcome::Done(result) => HEADER_BYTES + result.len(),
                        Outcome::Forgotten | Outcome::Refused => HEADER_BYTES,
                    };
                    replies.iter().map(result).sum()
                }
                _ => 0,
            };
        self.waiting_bytes += bytes;
        *self.answer_bytes.entry(client).or_default() += bytes;
        let behind = self.executed_behind;
        self.answers.push_back(Waiting { behind, bytes, what: (client, answer) });
        None
    }

    /// Looks how far the disk has come.
    pub fn look(&mut self) -> Result<(), StorageError> {
        self.durable = self.writer.durable()?;
        if self.next <= self.durable {
            // No message came that waits behind them.
            self.entry_bytes = 0;
        }
        match self.writer.full() {
            Some(bytes_max) if self.waiting_bytes() > FULL_WAITING_BYTES_MAX => {
                Err(StorageError::Full { bytes_max })
            }
            _ => Ok(()),
        }
    }

    /// The next message that may leave.
    pub fn next_message(&mut self) -> Option<CoreEffect> {
        if self.messages.is_empty() {
            // What was said before the crash has been said again.
            self.certified = Certificates::default();
        }
        take(&mut self.messages, self.durable, &mut self.waiting_bytes)
    }

    /// The next answer that may leave.
    pub fn next_answer(&mut self) -> Option<(ClientId, ToClient)> {
        let before = self.waiting_bytes;
        let next = take(&mut self.answers, self.durable, &mut self.waiting_bytes)?;
        if let Some(bytes) = self.answer_bytes.get_mut(&next.0) {
            *bytes -= before - self.waiting_bytes;
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

    /// Entries that are not durable yet.
    pub const fn lag_entries(&self) -> u64 {
        self.next.saturating_sub(self.durable)
    }

    /// Messages and answers that wait for the disk.
    pub fn waiting_messages(&self) -> usize {
        self.messages.len() + self.answers.len()
    }

    /// Whether the disk has to catch up before more is read, however few bytes wait for it.
    pub fn is_behind(&self) -> bool {
        self.writer.is_behind()
    }

    /// Whether the log is full, and nothing is said until a checkpoint makes room.
    pub fn is_full(&self) -> bool {
        self.writer.full().is_some()
    }

    /// Bytes that wait for the disk.
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes + self.entry_bytes
    }

    /// Saves a state, and has something done when that is durable, with all that was kept before.
    pub fn save(&mut self, snapshot: &Snapshot, then: Then) -> Result<(), StorageError> {
        let base = base_of(snapshot);
        if self.newest.replace(base) != Some(base) {
            self.newest_number = self.writer.save(snapshot.clone())?;
            // It may be an entry of the log: then what comes behind it waits for it too.
            self.next = self.next.max(self.writer.next());
            // Nobody is to hear of a state that turned out to be wrong.
            self.when_saved.retain(|(_, slot, _)| *slot < base.slot);
        }
        if let Then::Installed { slot } = then {
            self.installing = Some(slot);
            if let Some(needed) = self.fetching.take() {
                self.writer.stable(slot, needed)?;
            }
        }
        self.when_saved.push_back((self.newest_number, base.slot, then));
        Ok(())
    }

    /// What is to be done because a state was saved.
    pub fn next_saved(&mut self) -> Result<Option<Then>, StorageError> {
        while let Some((number, ..)) = self.when_saved.front() {
            if self.writer.saved()? < *number && !mutant!("kept.vouches-before-saved") {
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
        let executes = matches!(
            output,
            Output::Execute { .. }
                | Output::Checkpoint { .. }
                | Output::Speculate { .. }
                | Output::Answer { .. }
                | Output::Commit { .. }
                | Output::Rollback { .. }
        );
        let executes = executes && !mutant!("kept.executes-while-installing");
        self.installing.is_some() && (executes || matches!(output, Output::Fetch { .. }))
    }

    /// Whether the state with which an epoch ends is not durable yet.
    pub fn is_ending(&self) -> bool {
        self.when_saved.iter().any(|(.., then)| matches!(then, Then::Ended(_)))
    }

    /// An own certified message goes back to the core, as this event.
    pub fn loops(&mut self, event: u64, ui: Ui, digest: Digest) {
        self.unheard.push_back((event, ui, digest));
    }

    /// A quorum vouches for the state of a slot, which is being saved. The core goes on to write
    /// what it needs beside it. So does this, for the device, and for own messages that the core
    /// has not got back: those of events from `taken` on, and those that wait.
    pub fn stable(
        &mut self,
        slot: Slot,
        devices: Vec<(Instance, Memory)>,
        taken: u64,
    ) -> Result<(), StorageError> {
        self.cut = Some((slot, self.writer.next()));
        self.writer.begin_cut();
        while self.unheard.front().is_some_and(|(event, ..)| *event < taken) {
            self.unheard.pop_front();
        }
        let issued =
            |(_, ui, digest): &(u64, Ui, Digest)| Entry::Issued { ui: *ui, digest: *digest };
        let waiting = self.messages.iter().filter_map(|waiting| self.announced(&waiting.what));
        let forgets = mutant!("kept.device-memory-not-kept-again");
        let devices = devices.into_iter().filter(|_| !forgets);
        let unheard = if mutant!("kept.unheard-not-kept-again") { 0 } else { usize::MAX };
        let unheard = self.unheard.iter().take(unheard).map(issued);
        let waiting = waiting.filter(|_| !mutant!("kept.waiting-not-kept-again"));
        let entries = devices.map(|(instance, memory)| Entry::Memory(instance, memory));
        let entries: Vec<Entry> = entries.chain(unheard).chain(waiting).collect();
        entries.into_iter().try_for_each(|entry| self.append(entry, 0))
    }

    /// The entry by which a waiting message's certificate is found again.
    fn announced(&self, effect: &CoreEffect) -> Option<Entry> {
        let CoreEffect::Send { outgoing, .. } = effect else { return None };
        let Auth::Usig(instance, position) = outgoing.auth else { return None };
        let digest = outgoing.digest;
        Some(match self.certified(instance, position, &digest) {
            Some(ui) => Entry::Issued { ui, digest },
            None => Entry::Certified { instance, position, digest },
        })
    }

    /// The core has written all that it needs: what came before may go.
    pub fn end_of_step(&mut self) -> Result<(), StorageError> {
        match self.cut.take() {
            Some((slot, needed)) => {
                let early = mutant!("kept.log-cut-too-early");
                self.writer.stable(slot, if early { self.writer.next() } else { needed })
            }
            None => Ok(()),
        }
    }

    /// Another epoch begins. What waits belongs to the one before, and nobody wants it any more.
    pub fn begin_epoch(
        &mut self,
        membership: Arc<Membership>,
        proof: Option<Proof>,
        fetches: bool,
    ) -> Result<(), StorageError> {
        self.messages.clear();
        self.answers.clear();
        self.answer_bytes.clear();
        (self.waiting_bytes, self.entry_bytes) = (0, 0);
        self.certified = Certificates::default();
        let base = membership.base.slot;
        let begun = self.writer.begin_epoch(membership, proof)?;
        self.next = begun + 1;
        self.when_saved.clear();
        self.unheard.clear();
        (self.cut, self.installing) = (None, None);
        self.fetching = fetches.then_some(begun);
        if !fetches {
            self.writer.stable(base, begun)?;
        }
        Ok(())
    }
}

fn take<T>(
    waiting: &mut VecDeque<Waiting<T>>,
    durable: u64,
    waiting_bytes: &mut usize,
) -> Option<T> {
    if waiting.front()?.behind > durable {
        return None;
    }
    let next = waiting.pop_front()?;
    *waiting_bytes -= next.bytes;
    Some(next.what)
}

const fn base_of(snapshot: &Snapshot) -> Base {
    Base { slot: snapshot.slot, state: snapshot.digest }
}
