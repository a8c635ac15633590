//! A folder that forgets, when its process is killed, what was not synced: to try out on one
//! machine what a power failure does. Nothing of it is for use.
//!
//! What is written waits in memory until a sync hands it on, to the folder behind this one. So do
//! new names, renames and removals.

use crate::disk::{DiskError, File, Folder};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Begins the name of a file whose name was not synced.
const NAMELESS: char = '~';

/// A folder that forgets.
pub struct Forgetful {
    behind: Box<dyn Folder>,
    /// The files as they are seen.
    seen: BTreeMap<String, Shared>,
    /// Names that are durable.
    durable: BTreeSet<String>,
    nameless: u64,
    lies: Option<Arc<AtomicU64>>,
}

type Shared = Arc<Mutex<Content>>;

struct Content {
    behind: Box<dyn File>,
    /// Its name there.
    name: String,
    size: u64,
    /// Since the last sync, oldest first.
    writes: Vec<(u64, Vec<u8>)>,
    /// Syncs that are still done, if the others are not.
    lies: Option<Arc<AtomicU64>>,
}

impl Forgetful {
    /// In front of a folder of which nothing else is open. What an earlier process left there
    /// without a name is removed.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn new(behind: Box<dyn Folder>) -> Result<Self, DiskError> {
        Self::lying(behind, None)
    }

    /// A folder whose disk forgets more: after so many syncs of files it says that they are done
    /// and does nothing.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn lying_after(behind: Box<dyn Folder>, syncs: u64) -> Result<Self, DiskError> {
        Self::lying(behind, Some(Arc::new(AtomicU64::new(syncs))))
    }

    fn lying(mut behind: Box<dyn Folder>, lies: Option<Arc<AtomicU64>>) -> Result<Self, DiskError> {
        let (lost, durable): (BTreeSet<String>, BTreeSet<String>) =
            behind.list()?.into_iter().partition(|name| name.starts_with(NAMELESS));
        lost.iter().try_for_each(|name| behind.remove(name))?;
        let open = |name: &String| {
            let file = behind.open(name)?;
            Ok((name.clone(), Content::shared(file, name.clone(), &lies)?))
        };
        let seen = durable.iter().map(open).collect::<Result<_, DiskError>>()?;
        Ok(Self { behind, seen, durable, nameless: 0, lies })
    }

    fn missing(operation: &'static str, name: &str) -> DiskError {
        let source = std::io::ErrorKind::NotFound.into();
        DiskError { operation, path: name.to_owned(), source }
    }
}

impl Content {
    fn shared(
        behind: Box<dyn File>,
        name: String,
        lies: &Option<Arc<AtomicU64>>,
    ) -> Result<Shared, DiskError> {
        let (size, writes, lies) = (behind.size()?, Vec::new(), lies.clone());
        Ok(Arc::new(Mutex::new(Self { behind, name, size, writes, lies })))
    }

    fn is_lying(&self) -> bool {
        let Some(left) = &self.lies else { return false };
        let one_less = |left: u64| left.checked_sub(1);
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_less).is_err()
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        if self.is_lying() {
            return Ok(());
        }
        if self.size > self.behind.size()? {
            self.behind.preallocate(self.size)?;
        }
        for (offset, bytes) in self.writes.drain(..) {
            self.behind.write_at(&bytes, offset)?;
        }
        Ok(())
    }

    fn read(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError> {
        let end = offset + buffer.len() as u64;
        if end > self.size {
            let source = std::io::ErrorKind::UnexpectedEof.into();
            return Err(DiskError { operation: "read", path: self.name.clone(), source });
        }
        buffer.fill(0);
        let there = self.behind.size()?.saturating_sub(offset).min(buffer.len() as u64) as usize;
        self.behind.read_at(&mut buffer[..there], offset)?;
        for (at, bytes) in &self.writes {
            let (from, to) = (offset.max(*at), end.min(at + bytes.len() as u64));
            if from < to {
                let source = &bytes[(from - at) as usize..(to - at) as usize];
                buffer[(from - offset) as usize..(to - offset) as usize].copy_from_slice(source);
            }
        }
        Ok(())
    }
}

impl Folder for Forgetful {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        Ok(self.seen.keys().cloned().collect())
    }

    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError> {
        self.nameless += 1;
        let nameless = format!("{NAMELESS}{}", self.nameless);
        let content = Content::shared(self.behind.create(&nameless)?, nameless, &self.lies)?;
        self.seen.insert(name.to_owned(), content.clone());
        Ok(Box::new(Handle(content)))
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let content = self.seen.get(name).ok_or_else(|| Self::missing("open", name))?;
        Ok(Box::new(Handle(content.clone())))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let content = self.seen.remove(from).ok_or_else(|| Self::missing("rename", from))?;
        self.seen.insert(to.to_owned(), content);
        Ok(())
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.seen.remove(name).map(drop).ok_or_else(|| Self::missing("remove", name))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        for (name, content) in &self.seen {
            let mut content = lock(content);
            if content.name != *name {
                self.behind.rename(&content.name, name)?;
                self.durable.remove(&content.name);
                self.durable.insert(name.clone());
                content.name.clone_from(name);
            }
        }
        for name in self.durable.iter().filter(|name| !self.seen.contains_key(*name)) {
            self.behind.remove(name)?;
        }
        self.durable = self.seen.keys().cloned().collect();
        Ok(())
    }

    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        Ok(Box::new(Self::lying(self.behind.folder(name)?, self.lies.clone())?))
    }
}

fn lock(content: &Shared) -> MutexGuard<'_, Content> {
    content.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Handle(Shared);

impl File for Handle {
    fn size(&self) -> Result<u64, DiskError> {
        Ok(lock(&self.0).size)
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError> {
        lock(&self.0).read(buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        let mut content = lock(&self.0);
        content.size = content.size.max(offset + bytes.len() as u64);
        content.writes.push((offset, bytes.to_vec()));
        Ok(())
    }

    fn preallocate(&mut self, size: u64) -> Result<(), DiskError> {
        let mut content = lock(&self.0);
        content.size = content.size.max(size);
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        lock(&self.0).sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::OsFolder;

    fn opened(path: &std::path::Path) -> Forgetful {
        Forgetful::new(Box::new(OsFolder::open(path).unwrap())).unwrap()
    }

    fn content(folder: &dyn Folder, name: &str) -> Vec<u8> {
        crate::disk::read_all(folder, name, 100).unwrap()
    }

    #[test]
    fn what_was_not_synced_is_gone_with_the_process() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let mut folder = opened(&path);
        let mut kept = folder.create("kept").unwrap();
        kept.write_at(b"one", 0).unwrap();
        kept.sync().unwrap();
        folder.create("old").unwrap();
        folder.sync().unwrap();
        kept.write_at(b"two", 3).unwrap();
        folder.create("nameless").unwrap().sync().unwrap();
        folder.remove("old").unwrap();
        folder.rename("kept", "moved").unwrap();
        assert_eq!(content(&folder, "moved"), b"onetwo");
        assert_eq!(folder.list().unwrap(), ["lock", "moved", "nameless"]);
        drop((kept, folder));
        let mut folder = opened(&path);
        assert_eq!(folder.list().unwrap(), ["kept", "lock", "old"]);
        assert_eq!(content(&folder, "kept"), b"one");
        folder.rename("kept", "moved").unwrap();
        folder.remove("old").unwrap();
        folder.sync().unwrap();
        drop(folder);
        assert_eq!(opened(&path).list().unwrap(), ["lock", "moved"]);
    }

    #[test]
    fn a_disk_that_lies_forgets_what_it_said_it_had_synced() {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().join("data");
        let behind = Box::new(OsFolder::open(&path).unwrap());
        let mut folder = Forgetful::lying_after(behind, 1).unwrap();
        let mut file = folder.create("file").unwrap();
        folder.sync().unwrap();
        for (number, word) in [b"one", b"two"].into_iter().enumerate() {
            file.write_at(word, 3 * number as u64).unwrap();
            file.sync().unwrap();
        }
        drop((file, folder));
        assert_eq!(content(&opened(&path), "file"), b"one");
    }
}
