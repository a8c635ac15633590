//! The service.
//!
//! All that is executed between two checkpoints is one write transaction, which stays open; queries
//! read in it too, as they are to see what was executed. It is committed when a checkpoint is
//! taken, and in between when much was written, so that the store keeps no long list of what the
//! transaction did. A commit costs no sync: see [`crate::scratch`].
//!
//! There are two tables: the pairs by section, so that a section is one run of the first, and the
//! keys in their order, for scans.

use crate::operation::{
    Answer, KEY_BYTES_MAX, Operation, Pair, Refusal, SCAN_BYTES_MAX, SCAN_PAIRS_MAX,
    VALUE_BYTES_MAX,
};
use crate::scratch::Scratch;
use crate::section::{self, SECTION_BYTES_MAX, SECTIONS};
use pentarchy_core::Bytes;
use pentarchy_core::service::{Context, Service};
use pentarchy_core::wire::{Malformed, Wire, Writer};
use redb::{
    Builder, Database, ReadableTable, StorageBackend, Table, TableDefinition, WriteTransaction,
};
use std::collections::BTreeSet;
use std::ops::Bound;
use std::path::Path;
use std::sync::OnceLock;

/// Section and key, and the value.
const PAIRS: TableDefinition<&[u8], &[u8]> = TableDefinition::new("pairs");
/// Keys.
const KEYS: TableDefinition<&[u8], ()> = TableDefinition::new("keys");

/// Bytes that are written before there is a commit, at most.
const COMMIT_BYTES: u64 = 16 << 20;

/// Bounds of a store.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Bytes of keys and values, and 8 for each pair, above which a put is refused. **Must be the
    /// same on all replicas.**
    pub state_bytes_max: u64,
    /// Bytes of the store that are kept in memory. Each replica's own affair.
    pub cache_bytes: usize,
}

impl Default for Limits {
    /// A TiB of state, and 64 MiB in memory.
    fn default() -> Self {
        Self { state_bytes_max: 1 << 40, cache_bytes: 64 << 20 }
    }
}

/// See the [module](self).
pub struct Store {
    database: Database,
    /// None once something has failed.
    open: Option<WriteTransaction>,
    limits: Limits,
    /// Bytes of each section and of all.
    sizes: Vec<u64>,
    bytes: u64,
    changed: BTreeSet<u32>,
    /// Since the last commit.
    written: u64,
    failure: OnceLock<String>,
}

/// What the service works on.
struct Tables<'a> {
    pairs: Table<'a, &'static [u8], &'static [u8]>,
    keys: Table<'a, &'static [u8], ()>,
}

fn place(key: &[u8]) -> Vec<u8> {
    [&section::of(key).to_be_bytes(), key].concat()
}

impl Tables<'_> {
    fn open(transaction: &WriteTransaction) -> Result<Tables<'_>, redb::Error> {
        let (pairs, keys) = (transaction.open_table(PAIRS)?, transaction.open_table(KEYS)?);
        Ok(Tables { pairs, keys })
    }

    fn get(&self, key: &[u8]) -> Result<Option<Vec<u8>>, redb::Error> {
        Ok(self.pairs.get(&*place(key))?.map(|value| value.value().to_vec()))
    }

    /// Gives how many bytes the value has that stood there.
    fn put(&mut self, key: &[u8], value: &[u8]) -> Result<Option<usize>, redb::Error> {
        let before = self.pairs.insert(&*place(key), value)?.map(|value| value.value().len());
        if before.is_none() {
            self.keys.insert(key, ())?;
        }
        Ok(before)
    }

    fn delete(&mut self, key: &[u8]) -> Result<Option<usize>, redb::Error> {
        let before = self.pairs.remove(&*place(key))?.map(|value| value.value().len());
        if before.is_some() {
            self.keys.remove(key)?;
        }
        Ok(before)
    }

    fn value_bytes(&self, key: &[u8]) -> Result<Option<usize>, redb::Error> {
        Ok(self.pairs.get(&*place(key))?.map(|value| value.value().len()))
    }

    fn scan(&self, start: &[u8], end: Option<&[u8]>, limit: u32) -> Result<Answer, redb::Error> {
        let (mut pairs, mut bytes): (Vec<Pair>, usize) = (Vec::new(), 0);
        let count = (limit as usize).min(SCAN_PAIRS_MAX);
        let behind = end.map_or(Bound::Unbounded, Bound::Excluded);
        if end.is_some_and(|end| end <= start) {
            return Ok(Answer::Pairs { pairs, next: None });
        }
        for found in self.keys.range::<&[u8]>((Bound::Included(start), behind))? {
            let key = found?.0.value().to_vec();
            let Some(value) = self.get(&key)? else { continue };
            bytes += key.len() + value.len();
            if pairs.len() == count || (bytes > SCAN_BYTES_MAX && !pairs.is_empty()) {
                return Ok(Answer::Pairs { pairs, next: Some(key) });
            }
            pairs.push((key, value));
        }
        Ok(Answer::Pairs { pairs, next: None })
    }

    /// The bytes of a section, one key after the other.
    fn section(&self, index: u32) -> Result<Vec<u8>, redb::Error> {
        let mut to = Writer::default();
        let (from, behind) = (index.to_be_bytes(), (index + 1).to_be_bytes());
        for found in self.pairs.range::<&[u8]>(&from[..]..&behind[..])? {
            let (key, value) = found?;
            section::encode(&key.value()[from.len()..], value.value(), &mut to);
        }
        Ok(to.into_vec())
    }

    /// Removes all of a section.
    fn clear(&mut self, index: u32) -> Result<(), redb::Error> {
        let (from, behind) = (index.to_be_bytes(), (index + 1).to_be_bytes());
        let gone = self.pairs.extract_from_if::<&[u8], _>(&from[..]..&behind[..], |_, _| true)?;
        for found in gone {
            self.keys.remove(&found?.0.value()[from.len()..])?;
        }
        Ok(())
    }
}

impl Store {
    /// An empty store with its file in this folder, which must exist and belong to this replica
    /// alone.
    ///
    /// # Errors
    /// What the system or the store says.
    pub fn create(folder: &Path, limits: Limits) -> Result<Self, redb::Error> {
        Self::over(Scratch::create(folder).map_err(redb::Error::Io)?, limits)
    }

    /// An empty store over something else, which is empty.
    ///
    /// # Errors
    /// What the store says.
    pub fn over(file: impl StorageBackend, limits: Limits) -> Result<Self, redb::Error> {
        let mut builder = Builder::new();
        builder.set_cache_size(limits.cache_bytes);
        let database = builder.create_with_backend(file)?;
        let open = Some(database.begin_write()?);
        Ok(Self {
            database,
            open,
            limits,
            sizes: vec![0; SECTIONS as usize],
            bytes: 0,
            changed: BTreeSet::new(),
            written: 0,
            failure: OnceLock::new(),
        })
    }

    /// Bytes of keys and values, and 8 for each pair.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Does something with the tables. None, and nothing any more, if the store fails.
    fn with<T>(&self, act: impl FnOnce(&mut Tables<'_>) -> Result<T, redb::Error>) -> Option<T> {
        if self.failure.get().is_some() {
            return None;
        }
        let open = self.open.as_ref()?;
        let done = Tables::open(open).and_then(|mut tables| act(&mut tables));
        done.map_err(|error| self.fail(&error)).ok()
    }

    fn fail(&self, error: &redb::Error) {
        self.failure.get_or_init(|| format!("the store's file cannot be used: {error}"));
    }

    /// Gives back what the store keeps for the transaction, and begins the next one.
    fn commit(&mut self) {
        self.written = 0;
        if self.failure.get().is_some() {
            return;
        }
        let Some(open) = self.open.take() else { return };
        let begun = open.commit().map_err(redb::Error::from);
        match begun.and_then(|()| Ok(self.database.begin_write()?)) {
            Ok(open) => self.open = Some(open),
            Err(error) => self.fail(&error),
        }
    }

    /// Executes a decoded operation. None if the store fails.
    fn run(&mut self, operation: &Operation) -> Option<Answer> {
        match operation {
            Operation::Put(key, value) => self.put(key, value),
            Operation::Delete(key) => {
                let Some(value_bytes) = self.with(|tables| tables.delete(key))? else {
                    return Some(Answer::Absent);
                };
                self.note(key, 0, section::size(key, value_bytes));
                Some(Answer::Done)
            }
            reading => self.read(reading),
        }
    }

    fn put(&mut self, key: &[u8], value: &[u8]) -> Option<Answer> {
        if key.is_empty() || key.len() > KEY_BYTES_MAX || value.len() > VALUE_BYTES_MAX {
            return Some(Answer::Refused(Refusal::Size));
        }
        let before = self.with(|tables| tables.value_bytes(key))?;
        let before = before.map_or(0, |bytes| section::size(key, bytes));
        let after = section::size(key, value.len());
        let full = |bytes: u64, max: u64| after > before && bytes - before + after > max;
        let in_section = self.sizes[section::of(key) as usize];
        if full(self.bytes, self.limits.state_bytes_max) || full(in_section, SECTION_BYTES_MAX) {
            return Some(Answer::Refused(Refusal::Full));
        }
        self.with(|tables| tables.put(key, value))?;
        self.note(key, after, before);
        Some(Answer::Done)
    }

    /// What stands under a key takes so many bytes now, and took so many before.
    fn note(&mut self, key: &[u8], after: u64, before: u64) {
        let section = section::of(key);
        let size = &mut self.sizes[section as usize];
        *size = *size + after - before;
        self.bytes = self.bytes + after - before;
        self.changed.insert(section);
        self.written += after + before;
        if self.written > COMMIT_BYTES {
            self.commit();
        }
    }

    fn read(&self, operation: &Operation) -> Option<Answer> {
        Some(match operation {
            Operation::Get(key) => {
                self.with(|tables| tables.get(key))?.map_or(Answer::Absent, Answer::Value)
            }
            Operation::Scan { start, end, limit } => {
                self.with(|tables| tables.scan(start, end.as_deref(), *limit))?
            }
            Operation::Put(..) | Operation::Delete(_) => Answer::Refused(Refusal::ReadOnly),
        })
    }

    fn restore(&mut self, index: u32, bytes: &Bytes) -> Result<(), Malformed> {
        let size = self.sizes.get_mut(index as usize).ok_or(Malformed)?;
        let before = std::mem::replace(size, bytes.len() as u64);
        self.bytes = self.bytes + bytes.len() as u64 - before;
        self.changed.insert(index);
        self.written += before + bytes.len() as u64;
        let mut is_malformed = false;
        self.with(|tables| {
            tables.clear(index)?;
            for pair in section::decode(index, bytes) {
                let Ok((key, value)) = pair else {
                    is_malformed = true;
                    break;
                };
                tables.put(&key, &value)?;
            }
            Ok(())
        });
        if self.written > COMMIT_BYTES {
            self.commit();
        }
        if is_malformed { Err(Malformed) } else { Ok(()) }
    }
}

fn decoded(operation: &[u8]) -> Result<Operation, Answer> {
    let malformed = |Malformed| Answer::Refused(Refusal::Malformed);
    Operation::from_bytes(&Bytes::copy_from_slice(operation)).map_err(malformed)
}

/// What is told; nothing at all if the store failed, which the host looks at before it tells it.
fn told(answer: Option<Answer>) -> Vec<u8> {
    answer.map(|answer| answer.to_bytes().to_vec()).unwrap_or_default()
}

impl Service for Store {
    fn execute(&mut self, _context: &Context, operation: &[u8]) -> Vec<u8> {
        told(match decoded(operation) {
            Ok(operation) => self.run(&operation),
            Err(refused) => Some(refused),
        })
    }

    fn query(&self, operation: &[u8]) -> Vec<u8> {
        told(match decoded(operation) {
            Ok(operation) => self.read(&operation),
            Err(refused) => Some(refused),
        })
    }

    fn sections(&self) -> u32 {
        SECTIONS
    }

    fn section(&self, index: u32) -> Vec<u8> {
        self.with(|tables| tables.section(index)).unwrap_or_default()
    }

    fn changed_sections(&mut self) -> Vec<u32> {
        self.commit();
        std::mem::take(&mut self.changed).into_iter().collect()
    }

    fn restore_section(&mut self, index: u32, bytes: &[u8]) -> Result<(), Malformed> {
        self.restore(index, &Bytes::copy_from_slice(bytes))
    }

    fn failure(&self) -> Option<String> {
        self.failure.get().cloned()
    }
}
