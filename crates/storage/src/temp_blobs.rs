//! Content of states that nobody needs after this process, in files without names: what was cut or
//! fetched and is not in a snapshot's files yet, when states are not to be in memory. It is never
//! synced. A file goes when no leaf has its bytes there any more.

use crate::disk::{DiskError, File, Folder, UNFINISHED, remove_unfinished};
use pentarchy_core::blobs::{self, BlobReader, BlobRef};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// The folder of these files in a data folder.
pub const SPOOL: &str = "spool";

/// What is put into one file before the next one is begun.
const FILE_BYTES: u64 = 256 << 20;

/// See the [module](self).
pub struct TempBlobs {
    inner: Mutex<Inner>,
    failures: Arc<AtomicU64>,
}

struct Inner {
    folder: Box<dyn Folder>,
    /// The file that is being filled, and how far.
    open: Option<(Arc<Spooled>, u64)>,
    files: u64,
    /// Nothing more is put there.
    has_ended: bool,
}

struct Spooled {
    file: RwLock<Box<dyn File>>,
    failures: Arc<AtomicU64>,
}

impl BlobReader for Spooled {
    fn read(&self, offset: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut buffer = vec![0; bytes];
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let read = file.read_at(&mut buffer, offset).ok();
        if read.is_none() {
            self.spoiled(offset);
        }
        read.map(|()| buffer)
    }

    fn spoiled(&self, _offset: u64) {
        self.failures.fetch_add(1, Ordering::Relaxed);
    }
}

impl TempBlobs {
    /// Files in this folder, in which nothing else is.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn open(mut folder: Box<dyn Folder>) -> Result<Self, DiskError> {
        remove_unfinished(&mut *folder)?;
        let inner = Inner { folder, open: None, files: 0, has_ended: false };
        Ok(Self { inner: Mutex::new(inner), failures: Arc::default() })
    }

    /// Takes nothing more; what is there can be read. False if that was so before.
    pub fn end(&self) -> bool {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        inner.open = None;
        !std::mem::replace(&mut inner.has_ended, true)
    }

    /// How often something could not be put there, or could not be read again as what it was.
    #[must_use]
    pub fn failures(&self) -> u64 {
        self.failures.load(Ordering::Relaxed)
    }
}

impl Inner {
    fn put(&mut self, bytes: &[u8], failures: &Arc<AtomicU64>) -> Result<BlobRef, DiskError> {
        let (spooled, offset) = match self.open.take() {
            Some(open) => open,
            None => {
                self.files += 1;
                let name = format!("{:016x}{UNFINISHED}", self.files);
                let file = RwLock::new(self.folder.create(&name)?);
                self.folder.remove(&name)?;
                (Arc::new(Spooled { file, failures: failures.clone() }), 0)
            }
        };
        let mut file = spooled.file.write().unwrap_or_else(PoisonError::into_inner);
        let written = file.write_at(bytes, offset);
        drop(file);
        if let Err(error) = written {
            // Another file would do no better than one that is new.
            self.open = (offset == 0).then_some((spooled, 0));
            return Err(error);
        }
        let end = offset + bytes.len() as u64;
        if end < FILE_BYTES {
            self.open = Some((spooled.clone(), end));
        }
        // A leaf has at most a chunk in one piece.
        Ok(BlobRef { shelf: spooled, offset, bytes: bytes.len() as u32 })
    }
}

impl blobs::TempBlobs for TempBlobs {
    fn put(&self, bytes: &[u8]) -> Option<BlobRef> {
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        if inner.has_ended {
            return None;
        }
        let put = inner.put(bytes, &self.failures);
        if put.is_err() {
            self.failures.fetch_add(1, Ordering::Relaxed);
        }
        put.ok()
    }
}
