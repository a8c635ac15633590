//! Files and folders that hold a node's secrets and configuration.

use crate::error::ConfigError;
use pentarchy_crypto::secret_file::sync_directory_of;
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// Makes a folder that only its owner can enter. Parents must exist.
///
/// # Errors
/// [`ConfigError`] naming the folder; also if it exists.
pub fn make_private_folder(path: &Path) -> Result<(), ConfigError> {
    DirBuilder::new()
        .mode(0o700)
        .create(path)
        .map_err(|error| ConfigError::whole(path, format!("cannot make this folder: {error}")))
}

/// Writes a file that must not exist yet; `mode` are its permission bits.
///
/// # Errors
/// [`ConfigError`] naming the file; one that was begun is removed.
pub fn write_new(path: &Path, mode: u32, contents: &[u8]) -> Result<(), ConfigError> {
    write_new_with(path, mode, |file| file.write_all(contents))
}

fn write_new_with(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), ConfigError> {
    let cannot = |error| ConfigError::whole(path, format!("cannot write this file: {error}"));
    let mut options = OpenOptions::new();
    let file = options.write(true).create_new(true).mode(mode).open(path);
    let mut file = file.map_err(cannot)?;
    write(&mut file).and_then(|()| file.sync_all()).map_err(|error| {
        // Best effort: the error that matters is the first one.
        let _ = std::fs::remove_file(path);
        cannot(error)
    })
}

/// Writes a file that must not exist yet, so that after a crash it is there as a whole or not at
/// all; `mode` are its permission bits.
///
/// # Errors
/// [`ConfigError`] naming the file.
pub fn write_whole(path: &Path, mode: u32, contents: &[u8]) -> Result<(), ConfigError> {
    write_whole_with(path, mode, |file| file.write_all(contents))
}

/// The same for whoever writes it piece by piece.
///
/// # Errors
/// As [`write_whole`]; whatever `write` gives too.
pub fn write_whole_with(
    path: &Path,
    mode: u32,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> Result<(), ConfigError> {
    let unfinished = unfinished(path);
    write_new_with(&unfinished, mode, write)?;
    place(&unfinished, path, |from, to| std::fs::hard_link(from, to))
        .and_then(|()| sync_directory_of(path))
        .map_err(|error| ConfigError::whole(path, format!("cannot write this file: {error}")))
}

/// Writes a file, or one that takes the place of an earlier one of this name: after a crash either
/// is there as a whole. `mode` are its permission bits.
///
/// # Errors
/// [`ConfigError`] naming the file.
pub fn replace(path: &Path, mode: u32, contents: &[u8]) -> Result<(), ConfigError> {
    let unfinished = unfinished(path);
    // One that a crash left: no process of this number is writing it now.
    let _ = std::fs::remove_file(&unfinished);
    write_new(&unfinished, mode, contents)?;
    let placed = std::fs::rename(&unfinished, path).and_then(|()| sync_directory_of(path));
    placed.map_err(|error| {
        // Best effort: the error that matters is the first one.
        let _ = std::fs::remove_file(&unfinished);
        ConfigError::whole(path, format!("cannot write this file: {error}"))
    })
}

/// The name of a file that is not yet written as a whole.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

/// Gives a finished file its name, if nobody has it: by a link, which unlike a renaming takes
/// nobody's place. A file system without links has to have a renaming that does not.
fn place(
    unfinished: &Path,
    path: &Path,
    link: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> io::Result<()> {
    let placed = match link(unfinished, path) {
        Ok(()) => return std::fs::remove_file(unfinished),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Err(error),
        Err(_) => renameat_with(CWD, unfinished, CWD, path, RenameFlags::NOREPLACE)
            .map_err(io::Error::from),
    };
    if placed.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = std::fs::remove_file(unfinished);
    }
    placed
}

/// Reads a text file of at most `bytes_max` bytes.
///
/// # Errors
/// [`ConfigError`] naming the file.
pub fn read_bounded(path: &Path, bytes_max: u64) -> Result<String, ConfigError> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(bytes_max + 1).read_to_end(&mut bytes));
    read.map_err(|error| ConfigError::whole(path, format!("cannot read this file: {error}")))?;
    if bytes.len() as u64 > bytes_max {
        return Err(ConfigError::whole(path, format!("larger than {bytes_max} bytes")));
    }
    String::from_utf8(bytes).map_err(|_| ConfigError::whole(path, "not UTF-8 text"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_gets_its_name_where_there_are_no_links_and_takes_nobodys_place() {
        let folder = tempfile::tempdir().expect("a folder");
        let (unfinished, path) = (folder.path().join("a.new"), folder.path().join("a"));
        for (text, is_free) in [("first", true), ("second", false)] {
            std::fs::write(&unfinished, text).expect("ours");
            let no_links = |_: &Path, _: &Path| Err(io::Error::from_raw_os_error(1));
            assert_eq!(place(&unfinished, &path, no_links).is_ok(), is_free);
            assert_eq!(std::fs::read_to_string(&path).expect("it is there"), "first");
            assert!(!unfinished.exists());
        }
    }
}
