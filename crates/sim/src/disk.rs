//! A disk in memory that does what real ones do on a bad day, decided by a seed.
//!
//! It keeps what is durable apart from what was only written. A crash makes of everything that was
//! not synced what it likes: each sector of each write is there, is not, or is there up to some
//! byte, whatever came before or after it; so is each change of a folder, as a whole. A sync that
//! fails, fails for good: what it was to write is dropped, although it can be read until the crash,
//! and the next sync says that all is well.

use crate::rng::Rng;
use pentarchy_storage::disk::{DiskError, File, Folder};
use std::collections::{BTreeMap, VecDeque};
use std::io::{Error, ErrorKind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What a disk writes as a whole, unless it tears.
const SECTOR_BYTES: usize = 512;

/// What goes wrong by chance. In parts of a million operations.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Faults {
    /// A write stops somewhere and fails.
    pub write_fails: u32,
    /// A sync fails, and what it was to write is lost.
    pub sync_fails: u32,
    /// A sync of a file says that it is done and does nothing.
    pub sync_lies: u32,
    /// A sync of a folder does.
    pub folder_sync_lies: u32,
    /// A write goes to another place, of the same file or of another one.
    pub write_misdirected: u32,
    /// Whether a crash tears inside of sectors too.
    pub tears_sectors: bool,
    /// Microseconds that a sync takes, around this.
    pub sync_us: u64,
    /// Bytes that fit on it; 0 for as many as one likes.
    pub capacity: u64,
}

/// A kind of operation that can be counted and be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// Writing, and reserving room.
    Write,
    /// Syncing a file.
    Sync,
    /// Creating, renaming and removing.
    Name,
    /// Syncing a folder.
    FolderSync,
}

/// What happens at an operation that was chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fate {
    /// It fails, as by chance.
    Fails,
    /// It, and everything from then on, fails: the process is gone.
    Stops,
    /// It does nothing and says that it is done.
    Lies,
}

/// The disk. Clones are the same one.
#[derive(Clone)]
pub struct SimDisk(Arc<Mutex<State>>);

struct State {
    rng: Rng,
    faults: Faults,
    files: Vec<Content>,
    /// By full path: what is seen.
    names: BTreeMap<String, usize>,
    /// What is durable of that.
    durable_names: BTreeMap<String, usize>,
    /// Changes of names that are not durable, oldest first.
    changes: Vec<Change>,
    /// Operations so far.
    count: u64,
    by_kind: BTreeMap<Kind, u64>,
    chosen: BTreeMap<u64, Fate>,
    /// In the middle of what the process has ended.
    stopped: Option<Kind>,
    busy_us: u64,
    /// What was written lately and is durable, oldest first.
    recent: VecDeque<Written>,
}

/// A write that was made durable.
struct Written {
    file: usize,
    offset: usize,
    bytes: Vec<u8>,
    /// What was there before.
    before: Vec<u8>,
}

/// Writes that a disk remembers, one of which it may turn out to have misdirected.
const RECENT_MAX: usize = 8;

#[derive(Default)]
struct Content {
    /// What is read.
    seen: Vec<u8>,
    durable: Vec<u8>,
    /// Since the last sync, oldest first.
    writes: Vec<Write>,
}

struct Write {
    offset: usize,
    bytes: Vec<u8>,
}

#[derive(Clone)]
struct Change {
    folder: String,
    remove: Option<String>,
    insert: Option<(String, usize)>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, usize>) {
        if let Some(name) = &self.remove {
            names.remove(name);
        }
        if let Some((name, file)) = &self.insert {
            names.insert(name.clone(), *file);
        }
    }
}

impl Content {
    fn write(bytes: &mut Vec<u8>, write: &[u8], offset: usize) {
        if bytes.len() < offset + write.len() {
            bytes.resize(offset + write.len(), 0);
        }
        bytes[offset..offset + write.len()].copy_from_slice(write);
    }
}

impl SimDisk {
    /// An empty disk.
    #[must_use]
    pub fn new(seed: u64, faults: Faults) -> Self {
        Self(Arc::new(Mutex::new(State {
            rng: Rng::new(seed),
            faults,
            files: Vec::new(),
            names: BTreeMap::new(),
            durable_names: BTreeMap::new(),
            changes: Vec::new(),
            count: 0,
            by_kind: BTreeMap::new(),
            chosen: BTreeMap::new(),
            stopped: None,
            busy_us: 0,
            recent: VecDeque::new(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Its root folder.
    #[must_use]
    pub fn root(&self) -> Box<dyn Folder> {
        Box::new(SimFolder { disk: self.clone(), path: String::new() })
    }

    /// Operations that changed or synced something, so far.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().count
    }

    /// How many of them were of a kind.
    #[must_use]
    pub fn operations_of(&self, kind: Kind) -> u64 {
        self.state().by_kind.get(&kind).copied().unwrap_or(0)
    }

    /// Decides what happens at an operation, counted from 0.
    pub fn choose(&self, operation: u64, fate: Fate) {
        self.state().chosen.insert(operation, fate);
    }

    /// Replaces what goes wrong by chance.
    pub fn set_faults(&self, faults: Faults) {
        self.state().faults = faults;
    }

    /// Bytes of all files.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.state().used()
    }

    /// Microseconds for which syncs have kept their callers waiting.
    #[must_use]
    pub fn busy_us(&self) -> u64 {
        self.state().busy_us
    }

    /// The process ends and another begins: what was written is still to be read.
    pub fn restart(&self) {
        let mut state = self.state();
        state.stopped = None;
        state.chosen.clear();
    }

    /// In the middle of what kind of operation the process ended, if it was one.
    #[must_use]
    pub fn stopped_in(&self) -> Option<Kind> {
        self.state().stopped
    }

    /// Whether anything in a folder was written and is not durable.
    #[must_use]
    pub fn is_dirty(&self, folder: &str) -> bool {
        let state = self.state();
        let is_in = |path: &str| path.starts_with(folder);
        let mut files = state.names.iter().filter(|(path, _)| is_in(path));
        files.any(|(_, file)| !state.files[*file].writes.is_empty())
            || state.changes.iter().any(|change| is_in(&change.folder))
    }

    /// One of the last durable writes turns out to have gone to another place, of its own file or
    /// of another one: there it is, and not where it should be. False if there was none.
    pub fn misdirect(&self) -> bool {
        let mut state = self.state();
        let State { rng, files, names, recent, .. } = &mut *state;
        let there: Vec<usize> = names.values().copied().collect();
        let known: Vec<&Written> = recent.iter().filter(|it| there.contains(&it.file)).collect();
        if known.is_empty() {
            return false;
        }
        let Written { file, offset, bytes, before } = *rng.pick(&known);
        // What the last write of a file is, nobody can tell from there: it stays in its file.
        let last = known.iter().rev().find(|it| it.file == *file);
        let stays = last.is_some_and(|it| it.offset == *offset) || rng.percent(50);
        let target = if stays { *file } else { *rng.pick(&there) };
        let sectors = (files[target].durable.len() / SECTOR_BYTES) as u64;
        let place = rng.below(sectors + 1) as usize * SECTOR_BYTES;
        Content::write(&mut files[*file].durable, before, *offset);
        Content::write(&mut files[target].durable, bytes, place);
        for file in [*file, target] {
            files[file].seen = files[file].durable.clone();
        }
        true
    }

    /// The power fails and comes back.
    pub fn lose_power(&self) {
        let mut state = self.state();
        let State { rng, faults, files, names, durable_names, changes, .. } = &mut *state;
        let (in_order, kept) = (rng.percent(50), rng.below(changes.len() as u64 + 1) as usize);
        for (place, change) in changes.drain(..).enumerate() {
            if if in_order { place < kept } else { rng.percent(50) } {
                change.apply(durable_names);
            }
        }
        names.clone_from(durable_names);
        for file in files {
            for Write { offset, bytes } in file.writes.drain(..) {
                lose(rng, faults.tears_sectors, &mut file.durable, offset, &bytes);
            }
            file.seen.clone_from(&file.durable);
        }
        (state.stopped, state.count) = (None, 0);
        state.chosen.clear();
    }

    /// The paths of all files.
    #[must_use]
    pub fn paths(&self) -> Vec<String> {
        self.state().names.keys().cloned().collect()
    }

    /// What is in a file; empty if there is none.
    #[must_use]
    pub fn content(&self, path: &str) -> Vec<u8> {
        let state = self.state();
        state.names.get(path).map(|file| state.files[*file].seen.clone()).unwrap_or_default()
    }

    /// Changes a file behind everyone's back, durably: rot, or somebody's hand. No content takes
    /// the file away.
    pub fn tamper(&self, path: &str, content: Option<Vec<u8>>) {
        let mut state = self.state();
        let Some(bytes) = content else {
            state.names.remove(path);
            state.durable_names.remove(path);
            return;
        };
        let file = state.files.len();
        state.files.push(Content { seen: bytes.clone(), durable: bytes, writes: Vec::new() });
        state.names.insert(path.to_owned(), file);
        state.durable_names.insert(path.to_owned(), file);
    }

    /// A bit of a file flips, durably, also for whoever has it open. False if there is none.
    pub fn decay(&self, path: &str, at: usize) -> bool {
        let mut state = self.state();
        let Some(file) = state.names.get(path).copied() else { return false };
        let content = &mut state.files[file];
        let flip = |bytes: &mut Vec<u8>| bytes.get_mut(at).map(|byte| *byte ^= 1).is_some();
        flip(&mut content.durable) & flip(&mut content.seen)
    }

    /// Another disk with the same durable content, where nothing goes wrong.
    #[must_use]
    pub fn copy(&self) -> Self {
        let copy = Self::new(0, Faults::default());
        for path in self.paths() {
            copy.tamper(&path, Some(self.content(&path)));
        }
        copy
    }
}

/// What a crash makes of one write.
fn lose(rng: &mut Rng, tears: bool, durable: &mut Vec<u8>, offset: usize, bytes: &[u8]) {
    // Mostly a crash takes all or nothing, or all from some byte on; the mixtures are what has to
    // be survived.
    let mode = rng.below(5);
    let (mut at, end) = (offset, offset + bytes.len());
    if mode == 4 {
        let sectors = rng.below((bytes.len() / SECTOR_BYTES) as u64 + 1) as usize * SECTOR_BYTES;
        let torn = rng.below(bytes.len() as u64 + 1) as usize;
        Content::write(durable, &bytes[..if tears { torn } else { sectors }], offset);
        return;
    }
    while at < end {
        let next = end.min((at / SECTOR_BYTES + 1) * SECTOR_BYTES);
        let whole = &bytes[at - offset..next - offset];
        let kept = match mode {
            0 => 0,
            1 => whole.len(),
            _ if tears && rng.percent(20) => rng.below(whole.len() as u64 + 1) as usize,
            _ => whole.len() * usize::from(rng.percent(60)),
        };
        if kept > 0 {
            Content::write(durable, &whole[..kept], at);
        }
        at = next;
    }
}

impl State {
    fn error(operation: &'static str, path: &str, source: Error) -> DiskError {
        DiskError { operation, path: path.to_owned(), source }
    }

    /// Counts an operation, and says whether it lies; an error if the process is gone, or if it was
    /// chosen to fail.
    fn begin(
        &mut self,
        kind: Kind,
        operation: &'static str,
        path: &str,
    ) -> Result<Fated, DiskError> {
        let gone = || Self::error(operation, path, Error::other("the process has stopped"));
        if self.stopped.is_some() {
            return Err(gone());
        }
        let fate = self.chosen.remove(&self.count);
        self.count += 1;
        *self.by_kind.entry(kind).or_default() += 1;
        let (fails, lies) = match kind {
            Kind::Write => (self.faults.write_fails, 0),
            Kind::Sync => (self.faults.sync_fails, self.faults.sync_lies),
            Kind::FolderSync => (self.faults.sync_fails, self.faults.folder_sync_lies),
            Kind::Name => (0, 0),
        };
        match fate {
            Some(Fate::Stops) => {
                self.stopped = Some(kind);
                Ok(Fated::Stops)
            }
            Some(Fate::Fails) => Ok(Fated::Fails),
            Some(Fate::Lies) => Ok(Fated::Lies),
            None if fails > 0 && self.rng.chance(fails) => Ok(Fated::Fails),
            None if lies > 0 && self.rng.chance(lies) => Ok(Fated::Lies),
            None => Ok(Fated::Works),
        }
    }

    fn broken(operation: &'static str, path: &str) -> DiskError {
        Self::error(operation, path, Error::other("input/output error"))
    }

    fn used(&self) -> u64 {
        self.names.values().map(|file| self.files[*file].seen.len() as u64).sum()
    }

    fn write(
        &mut self,
        file: usize,
        path: &str,
        bytes: &[u8],
        offset: usize,
    ) -> Result<(), DiskError> {
        let fated = self.begin(Kind::Write, "write", path)?;
        let grows = (offset + bytes.len()).saturating_sub(self.files[file].seen.len()) as u64;
        let is_full = self.faults.capacity > 0 && self.used() + grows > self.faults.capacity;
        let (mut bytes, mut offset, mut file) = (bytes.to_vec(), offset, file);
        if fated != Fated::Works || is_full {
            bytes.truncate(self.rng.below(bytes.len() as u64 + 1) as usize);
            offset = offset.min(self.files[file].seen.len());
        } else if self.rng.chance(self.faults.write_misdirected) {
            if self.rng.percent(50) {
                let there: Vec<usize> = self.names.values().copied().collect();
                file = *self.rng.pick(&there);
            }
            let places = self.files[file].seen.len() / SECTOR_BYTES;
            offset = self.rng.below(places as u64 + 1) as usize * SECTOR_BYTES;
        }
        let content = &mut self.files[file];
        Content::write(&mut content.seen, &bytes, offset);
        content.writes.push(Write { offset, bytes });
        if is_full {
            return Err(Self::error("write", path, Error::from(ErrorKind::StorageFull)));
        }
        fated.outcome("write", path)
    }

    fn sync(&mut self, file: usize, path: &str) -> Result<(), DiskError> {
        let fated = self.begin(Kind::Sync, "sync", path)?;
        let mean = self.faults.sync_us;
        self.busy_us += if mean > 0 { self.rng.around(mean) } else { 0 };
        let content = &mut self.files[file];
        match fated {
            Fated::Works => {
                for Write { offset, bytes } in content.writes.drain(..) {
                    let there = content.durable.get(offset..).unwrap_or_default();
                    let mut before = there[..there.len().min(bytes.len())].to_vec();
                    before.resize(bytes.len(), 0);
                    Content::write(&mut content.durable, &bytes, offset);
                    if bytes.is_empty() {
                        continue;
                    }
                    if self.recent.len() == RECENT_MAX {
                        self.recent.pop_front();
                    }
                    self.recent.push_back(Written { file, offset, bytes, before });
                }
            }
            // Some of it made it, the rest counts as written from now on.
            Fated::Fails => {
                for Write { offset, bytes } in content.writes.drain(..) {
                    lose(&mut self.rng, false, &mut content.durable, offset, &bytes);
                }
            }
            Fated::Stops | Fated::Lies => {}
        }
        fated.outcome("sync", path)
    }

    fn change(&mut self, operation: &'static str, change: Change) -> Result<(), DiskError> {
        let fated = self.begin(Kind::Name, operation, &change.folder)?;
        if fated == Fated::Works {
            change.apply(&mut self.names);
            self.changes.push(change);
        }
        fated.outcome(operation, "a name")
    }
}

/// What an operation is to do.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fated {
    Works,
    Fails,
    Stops,
    Lies,
}

impl Fated {
    fn outcome(self, operation: &'static str, path: &str) -> Result<(), DiskError> {
        match self {
            Self::Works | Self::Lies => Ok(()),
            Self::Fails | Self::Stops => Err(State::broken(operation, path)),
        }
    }
}

struct SimFolder {
    disk: SimDisk,
    /// Ends in a slash, unless it is the root.
    path: String,
}

impl SimFolder {
    fn path(&self, name: &str) -> String {
        format!("{}{name}", self.path)
    }

    fn change(
        &self,
        operation: &'static str,
        remove: Option<String>,
        insert: Option<(String, usize)>,
    ) -> Result<(), DiskError> {
        let folder = self.path.clone();
        self.disk.state().change(operation, Change { folder, remove, insert })
    }

    fn find(&self, operation: &'static str, name: &str) -> Result<usize, DiskError> {
        let (state, path) = (self.disk.state(), self.path(name));
        let found = state.names.get(&path).copied();
        found.ok_or_else(|| State::error(operation, &path, Error::from(ErrorKind::NotFound)))
    }
}

impl Folder for SimFolder {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        let state = self.disk.state();
        let inside = state.names.keys().filter_map(|path| path.strip_prefix(&self.path));
        Ok(inside.filter(|name| !name.contains('/')).map(str::to_owned).collect())
    }

    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let path = self.path(name);
        let file = {
            let mut state = self.disk.state();
            state.files.push(Content::default());
            state.files.len() - 1
        };
        self.change("create", None, Some((path.clone(), file)))?;
        Ok(Box::new(SimFile { disk: self.disk.clone(), file, path }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let file = self.find("open", name)?;
        Ok(Box::new(SimFile { disk: self.disk.clone(), file, path: self.path(name) }))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let file = self.find("rename", from)?;
        self.change("rename", Some(self.path(from)), Some((self.path(to), file)))
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.find("remove", name)?;
        self.change("remove", Some(self.path(name)), None)
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        let mut state = self.disk.state();
        let fated = state.begin(Kind::FolderSync, "sync", &self.path)?;
        if fated == Fated::Works {
            let State { changes, durable_names, .. } = &mut *state;
            for change in changes.extract_if(.., |change| change.folder == self.path) {
                change.apply(durable_names);
            }
        }
        fated.outcome("sync", &self.path)
    }

    /// Folders need not be made here: they are part of a file's path.
    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        Ok(Box::new(Self { disk: self.disk.clone(), path: format!("{}/", self.path(name)) }))
    }
}

struct SimFile {
    disk: SimDisk,
    file: usize,
    path: String,
}

impl File for SimFile {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(self.disk.state().files[self.file].seen.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let state = self.disk.state();
        let seen = &state.files[self.file].seen;
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let found = start.checked_add(buffer.len()).and_then(|end| seen.get(start..end));
        let ended = || State::error("read", &self.path, Error::from(ErrorKind::UnexpectedEof));
        buffer.copy_from_slice(found.ok_or_else(ended)?);
        Ok(())
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.disk.state().write(self.file, &self.path, bytes, offset as usize)
    }

    fn preallocate(&mut self, size: u64) -> Result<(), DiskError> {
        // Nothing, written behind the end: zeros up to there.
        let end = self.size()?.max(size);
        self.disk.state().write(self.file, &self.path, &[], end as usize)
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.disk.state().sync(self.file, &self.path)
    }
}
