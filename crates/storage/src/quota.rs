//! A folder with room for so many bytes: to try out what a full disk does. It is for tests only.

use crate::disk::{DiskError, File, Folder};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A folder that fills up. What is removed gives no room back, as somebody else may have taken it.
pub struct Quota {
    behind: Box<dyn Folder>,
    left: Arc<AtomicU64>,
}

impl Quota {
    /// In front of a folder, in which files may grow by so many bytes.
    #[must_use]
    pub fn new(behind: Box<dyn Folder>, bytes: u64) -> Self {
        Self { behind, left: Arc::new(AtomicU64::new(bytes)) }
    }

    fn file(&self, behind: Box<dyn File>, name: &str) -> Box<dyn File> {
        Box::new(Measured { behind, name: name.to_owned(), left: self.left.clone() })
    }
}

impl Folder for Quota {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        self.behind.list()
    }

    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let behind = self.behind.create(name)?;
        Ok(self.file(behind, name))
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        Ok(self.file(self.behind.open(name)?, name))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        self.behind.rename(from, to)
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        self.behind.remove(name)
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.behind.sync()
    }

    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        let behind = self.behind.folder(name)?;
        Ok(Box::new(Self { behind, left: self.left.clone() }))
    }
}

struct Measured {
    behind: Box<dyn File>,
    name: String,
    left: Arc<AtomicU64>,
}

impl Measured {
    /// Takes the room for a file of this size.
    fn grow(&self, operation: &'static str, size: u64) -> Result<(), DiskError> {
        let more = size.saturating_sub(self.behind.size()?);
        let less = |left: u64| left.checked_sub(more);
        match self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less) {
            Ok(_) => Ok(()),
            Err(_) => {
                let source = io::ErrorKind::StorageFull.into();
                Err(DiskError { operation, path: self.name.clone(), source })
            }
        }
    }
}

impl File for Measured {
    fn size(&self) -> Result<u64, DiskError> {
        self.behind.size()
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError> {
        self.behind.read_at(buffer, offset)
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.grow("write", offset + bytes.len() as u64)?;
        self.behind.write_at(bytes, offset)
    }

    fn preallocate(&mut self, size: u64) -> Result<(), DiskError> {
        self.grow("reserve room for", size)?;
        self.behind.preallocate(size)
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.behind.sync()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::folder::OsFolder;

    #[test]
    fn files_grow_until_there_is_no_room_left() {
        let parent = tempfile::tempdir().unwrap();
        let behind = OsFolder::open(&parent.path().join("data")).unwrap();
        let mut folder = Quota::new(Box::new(behind), 100);
        let mut one = folder.create("one").unwrap();
        one.preallocate(60).unwrap();
        one.write_at(&[1; 60], 0).unwrap();
        let mut other = folder.folder("inner").unwrap().create("other").unwrap();
        other.write_at(&[1; 40], 0).unwrap();
        other.write_at(&[2; 40], 0).unwrap();
        let full = other.write_at(&[1; 2], 39).unwrap_err();
        assert_eq!(full.source.kind(), io::ErrorKind::StorageFull);
        assert!(one.preallocate(61).is_err());
        drop((one, other));
        folder.remove("one").unwrap();
        assert!(folder.create("two").unwrap().write_at(b"x", 0).is_err());
    }
}
