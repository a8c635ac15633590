//! The store's file. Nothing in it outlives the process: it loses its name as soon as it is open,
//! so that the system takes its room back however the process ends, and it is never synced.

use redb::StorageBackend;
use std::fs::{File, OpenOptions, remove_file};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

/// The name that the file has for a moment.
const NAME: &str = "store.scratch";

/// A file without a name.
#[derive(Debug)]
pub struct Scratch(File);

impl Scratch {
    /// Makes one in a folder, which must exist and belong to this process alone.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(folder: &Path) -> io::Result<Self> {
        let path = folder.join(NAME);
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).mode(0o600);
        let file = options.open(&path)?;
        remove_file(&path)?;
        Ok(Self(file))
    }
}

impl StorageBackend for Scratch {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write_all_at(data, offset)
    }
}
