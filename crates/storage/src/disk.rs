//! Files and folders, as small as they can be, so that a simulated disk can stand in for them.
//!
//! What a caller may rely on is little, as on any disk. What was written survives only if a later
//! [`File::sync`] of that file succeeded; until then any part of it may be there after a crash, in
//! any order. A new name, a rename and a removal survive only if a later [`Folder::sync`] of that
//! folder succeeded. After a sync that failed nothing says what is on the disk, and a second one
//! that succeeds says nothing either: the system may have dropped what it could not write.

use pentarchy_core::mutant;
use std::fmt;
use std::io;

/// A folder with files, and folders, in it.
pub trait Folder: Send {
    /// The names of the files in it, in order.
    ///
    /// # Errors
    /// [`DiskError`]
    fn list(&self) -> Result<Vec<String>, DiskError>;

    /// Makes a new, empty file. Takes the place of one with that name.
    ///
    /// # Errors
    /// [`DiskError`]
    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError>;

    /// Says that a new file of this name will soon be [made](Self::create) and
    /// [made this long](File::preallocate). Whoever can has it ready by then, or learns then why
    /// not.
    fn expect(&mut self, _name: &str, _size: u64) {}

    /// Opens a file that exists.
    ///
    /// # Errors
    /// [`DiskError`]
    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError>;

    /// Gives a file another name, and takes the place of one that has it, in one step.
    ///
    /// # Errors
    /// [`DiskError`]
    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`DiskError`]
    fn remove(&mut self, name: &str) -> Result<(), DiskError>;

    /// Makes names durable.
    ///
    /// # Errors
    /// [`DiskError`]; the caller must not go on.
    fn sync(&mut self) -> Result<(), DiskError>;

    /// A folder in this one, made durably if it does not exist.
    ///
    /// # Errors
    /// [`DiskError`]
    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError>;
}

/// An open file. What is in it can be read for as long as it is open, also when its name is gone.
pub trait File: Send + Sync {
    /// Its length in bytes.
    ///
    /// # Errors
    /// [`DiskError`]
    fn size(&self) -> Result<u64, DiskError>;

    /// Fills the buffer from this offset on.
    ///
    /// # Errors
    /// [`DiskError`], also if the file ends before.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError>;

    /// Writes all of it.
    ///
    /// # Errors
    /// [`DiskError`]; any part of it may have been written.
    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError>;

    /// Makes the file this long, of zeros, with its place on the disk reserved. To write there
    /// later changes nothing but content, so that a sync has only that to make durable.
    ///
    /// # Errors
    /// [`DiskError`]
    fn preallocate(&mut self, size: u64) -> Result<(), DiskError>;

    /// Makes content and length durable.
    ///
    /// # Errors
    /// [`DiskError`]; the caller must not go on.
    fn sync(&mut self) -> Result<(), DiskError>;
}

/// An operation on a file or a folder failed.
#[derive(Debug)]
pub struct DiskError {
    /// What was tried: `write`, `sync`, …
    pub operation: &'static str,
    /// On what.
    pub path: String,
    /// What the system says.
    pub source: io::Error,
}

impl fmt::Display for DiskError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot {} {}: {}", self.operation, self.path, self.source)
    }
}

impl std::error::Error for DiskError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// All bytes of a file that is at most this large.
///
/// # Errors
/// [`DiskError`], also if the file is larger.
pub fn read_all(folder: &dyn Folder, name: &str, size_max: u64) -> Result<Vec<u8>, DiskError> {
    let file = folder.open(name)?;
    let size = file.size()?;
    if size > size_max {
        let source = io::Error::new(
            io::ErrorKind::FileTooLarge,
            format!("it has {size} bytes, of at most {size_max}"),
        );
        return Err(DiskError { operation: "read", path: name.to_owned(), source });
    }
    let mut bytes = vec![0; size as usize];
    file.read_at(&mut bytes, 0)?;
    Ok(bytes)
}

/// Ending of the name of a file that is not whole yet. Whoever opens a folder removes those.
pub const UNFINISHED: &str = ".new";

/// Says that a file of this name and size will soon be written as a whole.
pub fn expect_whole(folder: &mut dyn Folder, name: &str, size: u64) {
    folder.expect(&format!("{name}{UNFINISHED}"), size);
}

/// Writes a file so that after a crash it is there as a whole or not at all.
///
/// # Errors
/// [`DiskError`], or why it could not be written.
pub fn write_whole<E: From<DiskError>>(
    folder: &mut dyn Folder,
    name: &str,
    write: impl FnOnce(&mut dyn File) -> Result<(), E>,
) -> Result<Box<dyn File>, E> {
    let unfinished = format!("{name}{UNFINISHED}");
    let mut file = folder.create(&unfinished)?;
    write(&mut *file)?;
    if !mutant!("disk.named-before-whole") {
        file.sync()?;
    }
    folder.rename(&unfinished, name)?;
    folder.sync()?;
    Ok(file)
}

/// Removes what a crash left unfinished.
///
/// # Errors
/// [`DiskError`]
pub fn remove_unfinished(folder: &mut dyn Folder) -> Result<(), DiskError> {
    for name in folder.list()?.iter().filter(|name| name.ends_with(UNFINISHED)) {
        folder.remove(name)?;
    }
    Ok(())
}
