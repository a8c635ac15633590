//! What of a core's messages waits for what: the rule "persist before send".
//!
//! What is to be kept is handed to an [`EntryLog`], which writes it in its own time. Messages wait,
//! in order, until all that was to be kept before them is durable. A replica whose parts run in
//! threads of their own has one of these for each, all over the same log.

use super::{Certificates, Entry};
use crate::error::StorageError;
use pentarchy_core::auth::Auth;
use pentarchy_core::counter::{Instance, Memory, Position, Ui};
use pentarchy_core::digest::Digest;
use pentarchy_core::erased::CoreEffect;
use pentarchy_core::mutant;
use pentarchy_core::ports::replica::Output;
use std::collections::VecDeque;

/// Who writes the entries that are handed over.
pub trait EntryLog {
    /// Keeps an entry and gives its number. What depends on it may leave when
    /// [`durable`](Self::durable) is above that. May wait while too much waits for the disk.
    ///
    /// # Errors
    /// [`StorageError`] if anything failed before.
    fn append(&mut self, entry: Entry) -> Result<u64, StorageError>;

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
pub(super) const HEADER_BYTES: usize = 256;

/// Bytes that wait when the log is full before the replica ends. Until then it reads, and says
/// nothing: what it reads may prove a checkpoint, which makes room. Each core may have as many, and
/// a reserve of its own that has room for them.
const FULL_WAITING_BYTES_MAX: usize = 8 << 20;

/// Something that must not be seen before what was kept before it is durable.
pub(super) struct Waiting<T> {
    /// All entries below this one have to be durable.
    pub behind: u64,
    pub bytes: usize,
    pub what: T,
}

/// Holds back what a core says until what it kept before that is durable.
pub struct Barrier<L> {
    log: L,
    /// Number of the entry behind the last one of this core.
    next: u64,
    /// All entries below this were durable at the last look.
    durable: u64,
    /// Messages, in the order in which the core sent them.
    messages: VecDeque<Waiting<CoreEffect>>,
    /// Bytes of those, and of the entries before them.
    waiting_bytes: usize,
    /// Bytes of entries behind the last message.
    entry_bytes: usize,
    /// What the devices had certified before this process began.
    certified: Certificates,
    /// Own certified messages on their way back to the core: each with the number of its event.
    awaiting_loopback: VecDeque<(u64, Ui, Digest)>,
}

impl<L: EntryLog> Barrier<L> {
    /// Of a core of which nothing waits. `certified` is what its devices had certified before this
    /// process began.
    pub fn new(log: L, certified: Certificates) -> Self {
        Self {
            next: log.next(),
            // Whoever cannot write says so at the first look.
            durable: log.durable().unwrap_or_default(),
            log,
            messages: VecDeque::new(),
            waiting_bytes: 0,
            entry_bytes: 0,
            certified,
            awaiting_loopback: VecDeque::new(),
        }
    }

    /// Who writes.
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// Who writes, to have it go on.
    pub const fn log_mut(&mut self) -> &mut L {
        &mut self.log
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
            CoreEffect::Output(Output::Wedging(_)) => 0,
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
        // There are others who write, so this is not always one more.
        self.next = self.log.append(entry)? + 1;
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

    /// Looks how far the disk has come.
    pub fn look(&mut self) -> Result<(), StorageError> {
        self.durable = self.log.durable()?;
        if self.next <= self.durable {
            // No message came that waits behind them.
            self.entry_bytes = 0;
        }
        self.check_room(self.waiting_bytes())
    }

    /// Fails if the log is full and so many bytes wait.
    pub(super) fn check_room(&self, waiting_bytes: usize) -> Result<(), StorageError> {
        match self.log.full() {
            Some(bytes_max) if waiting_bytes > FULL_WAITING_BYTES_MAX => {
                Err(StorageError::Full { bytes_max })
            }
            _ => Ok(()),
        }
    }

    /// All entries below this were durable at the last look.
    pub const fn durable(&self) -> u64 {
        self.durable
    }

    /// What comes next has to wait for all entries below this one.
    pub const fn next(&self) -> u64 {
        self.next
    }

    /// Whoever comes next has to wait for another one's entries too, below this one.
    pub(super) fn wait_for(&mut self, next: u64) {
        self.next = self.next.max(next);
    }

    /// The next message that may leave.
    pub fn next_message(&mut self) -> Option<CoreEffect> {
        if self.messages.is_empty() {
            // What was said before the crash has been said again.
            self.certified = Certificates::default();
        }
        take(&mut self.messages, self.durable, &mut self.waiting_bytes)
    }

    /// Entries of this core that are not durable yet, and those of others between them.
    pub const fn lag_entries(&self) -> u64 {
        self.next.saturating_sub(self.durable)
    }

    /// Messages that wait for the disk.
    pub fn waiting_messages(&self) -> usize {
        self.messages.len()
    }

    /// Bytes that wait for the disk.
    pub const fn waiting_bytes(&self) -> usize {
        self.waiting_bytes + self.entry_bytes
    }

    /// An own certified message goes back to the core, as this event.
    pub fn loops(&mut self, event: u64, ui: Ui, digest: Digest) {
        self.awaiting_loopback.push_back((event, ui, digest));
    }

    /// The core writes again what it needs beside a state. So does this, for these devices, and for
    /// own messages that the core has not got back: those of events from `taken` on, and those that
    /// wait. If one of several parts does, only for the device of that number. Gives the number of
    /// the entry from which on that is.
    pub fn compact(
        &mut self,
        part: Option<u8>,
        devices: Vec<(Instance, Memory)>,
        taken: u64,
    ) -> Result<u64, StorageError> {
        let begins = self.log.next();
        while self.awaiting_loopback.front().is_some_and(|(event, ..)| *event < taken) {
            self.awaiting_loopback.pop_front();
        }
        let is_its = |instance: Instance| part.is_none_or(|part| instance.0 == part);
        let forgets = mutant!("kept.device-memory-not-kept-again");
        let devices = devices.into_iter().filter(|(instance, _)| is_its(*instance) && !forgets);
        let issued =
            |(_, ui, digest): &(u64, Ui, Digest)| Entry::Issued { ui: *ui, digest: *digest };
        let awaiting_loopback = if mutant!("kept.awaiting-not-kept") { 0 } else { usize::MAX };
        let awaiting_loopback = self
            .awaiting_loopback
            .iter()
            .filter(|(_, ui, _)| is_its(ui.instance))
            .take(awaiting_loopback);
        let waiting = self.messages.iter().filter_map(|it| self.announced(&it.what, is_its));
        let waiting = waiting.filter(|_| !mutant!("kept.waiting-not-kept-again"));
        let entries = devices.map(|(instance, memory)| Entry::Memory(instance, memory));
        let entries: Vec<Entry> =
            entries.chain(awaiting_loopback.map(issued)).chain(waiting).collect();
        entries.into_iter().try_for_each(|entry| self.append(entry, 0))?;
        Ok(begins)
    }

    /// The entry by which a waiting message's certificate is found again.
    fn announced(&self, effect: &CoreEffect, is_its: impl Fn(Instance) -> bool) -> Option<Entry> {
        let CoreEffect::Send { outgoing, .. } = effect else { return None };
        let Auth::Usig(instance, position) = outgoing.auth else { return None };
        let digest = outgoing.digest;
        is_its(instance).then(|| match self.certified(instance, position, &digest) {
            Some(ui) => Entry::Issued { ui, digest },
            None => Entry::Certified { instance, position, digest },
        })
    }

    /// Whether more is durable than at the last look, of what this core waits for.
    pub fn has_news(&self) -> bool {
        self.lag_entries() > 0 && self.log.durable().is_ok_and(|durable| durable > self.durable)
    }

    /// The core's epoch has ended. What waits belongs to it, and nobody wants it any more. What
    /// comes next waits for all that was handed over.
    pub fn begin_epoch(&mut self) {
        self.messages.clear();
        (self.waiting_bytes, self.entry_bytes) = (0, 0);
        self.certified = Certificates::default();
        self.awaiting_loopback.clear();
        self.next = self.log.next();
    }
}

/// The next of what waits, if it may leave.
pub(super) fn take<T>(
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
