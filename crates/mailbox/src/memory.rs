//! Memory that two processes share: a file without a name, mapped by both.

use memmap2::{MmapOptions, MmapRaw};
use rustix::fs::{MemfdFlags, SealFlags};
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::sync::atomic::AtomicU32;

/// Whole pages of shared words, all 0 in the beginning.
#[derive(Debug)]
pub struct Memory {
    /// Of a file that cannot shrink, and never unmapped before this is dropped.
    map: MmapRaw,
}

impl Memory {
    /// Makes memory of so many words, and the file by which another process finds it.
    ///
    /// # Errors
    /// What the system says.
    pub fn create(words: usize) -> io::Result<(Self, OwnedFd)> {
        let flags = MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING;
        let file = rustix::fs::memfd_create("pentarchy", flags)?;
        rustix::fs::ftruncate(&file, 4 * words as u64)?;
        rustix::fs::fcntl_add_seals(&file, size_seals() | SealFlags::SEAL)?;
        Ok((Self::open(&file)?, file))
    }

    /// Maps memory that another process made.
    ///
    /// # Errors
    /// What the system says; [`io::ErrorKind::InvalidInput`] for a file whose size may change, as
    /// whoever touches what is no longer there dies of it.
    pub fn open(file: impl AsFd) -> io::Result<Self> {
        let file = file.as_fd();
        let seals = rustix::fs::fcntl_get_seals(file).unwrap_or(SealFlags::empty());
        if !seals.contains(size_seals()) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(Self { map: MmapOptions::new().map_raw(file.as_raw_fd())? })
    }

    /// The words. Another process may change each of them at any time.
    #[must_use]
    #[expect(unsafe_code, reason = "there is no other way to see memory that is shared")]
    pub fn words(&self) -> &[AtomicU32] {
        let count = self.map.len() / size_of::<AtomicU32>();
        // SAFETY: the pointer is that of `count` words which are mapped for reading and writing as
        // long as `self` lives, which the slice borrows. It is aligned, as mappings begin with a
        // page. The pages stay: the file is sealed against shrinking, which `open` has checked.
        // Every bit pattern is an `AtomicU32`. Nobody has another reference to these words than as
        // atomics: this process reaches them by this function alone, and what the other one does to
        // them is, whatever it does, a change of shared memory, which atomics allow for.
        unsafe { std::slice::from_raw_parts(self.map.as_mut_ptr().cast::<AtomicU32>(), count) }
    }
}

fn size_seals() -> SealFlags {
    SealFlags::SHRINK | SealFlags::GROW
}
