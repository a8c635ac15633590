//! Secrets as files: one line of text, readable by their owner alone, never overwritten.
//!
//! The line is a label with a version, then fields separated by single spaces:
//! `pentarchy-key-1 9d61b1…`. Permissions are checked on the file that was opened, not on its name.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use zeroize::Zeroizing;

/// The longest secret file in bytes.
pub const SECRET_FILE_BYTES_MAX: u64 = 1024;

/// A secret file that cannot be used, with what to do about it.
#[derive(Debug)]
pub struct SecretFileError {
    /// Which file.
    pub path: PathBuf,
    /// What is wrong with it.
    pub problem: Problem,
}

/// What is wrong with a secret file.
#[derive(Debug)]
pub enum Problem {
    /// There is none.
    Missing,
    /// It would be overwritten.
    Exists,
    /// Others than its owner may use it; these are its permission bits.
    Exposed(u32),
    /// It is not one line that begins with this label and goes on as the label demands.
    Malformed(&'static str),
    /// The system refused.
    Io(io::Error),
}

impl SecretFileError {
    fn new(path: &Path, problem: Problem) -> Self {
        Self { path: path.to_owned(), problem }
    }

    pub(crate) fn system(path: &Path, error: io::Error) -> Self {
        Self::new(path, Problem::Io(error))
    }

    pub(crate) fn malformed(path: &Path, label: &'static str) -> Self {
        Self::new(path, Problem::Malformed(label))
    }

    fn reading(path: &Path, error: io::Error) -> Self {
        let problem = match error.kind() {
            ErrorKind::NotFound => Problem::Missing,
            _ => Problem::Io(error),
        };
        Self::new(path, problem)
    }

    fn creating(path: &Path, error: io::Error) -> Self {
        let problem = match error.kind() {
            ErrorKind::AlreadyExists => Problem::Exists,
            _ => Problem::Io(error),
        };
        Self::new(path, problem)
    }
}

impl fmt::Display for SecretFileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = self.path.display();
        match &self.problem {
            Problem::Missing => {
                write!(f, "{path} does not exist: create it, or correct the path and mount it here")
            }
            Problem::Exists => {
                write!(
                    f,
                    "{path} exists and is not overwritten: move it away or choose another name"
                )
            }
            Problem::Exposed(mode) => write!(
                f,
                "{path} is open to others than its owner (mode {mode:04o}): run \
                 `chmod 600 {path}`, and replace the secret if someone may have read it"
            ),
            Problem::Malformed(label) => write!(
                f,
                "{path} is not a `{label}` file: take the one that was made with the \
                 configuration, or make both anew"
            ),
            Problem::Io(error) => write!(f, "{path}: {error}"),
        }
    }
}

impl std::error::Error for SecretFileError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match &self.problem {
            Problem::Io(error) => Some(error),
            _ => None,
        }
    }
}

/// Creates the file with mode 0600 and makes it durable. After a power failure it is there as a
/// whole or not at all.
///
/// # Errors
/// [`SecretFileError`] if the file exists or cannot be written; a file that was begun is removed.
pub fn create(path: &Path, label: &'static str, fields: &[&str]) -> Result<(), SecretFileError> {
    create_and(path, label, fields, place)
}

/// The same; `place` gives the written file its name.
fn create_and(
    path: &Path,
    label: &'static str,
    fields: &[&str],
    place: impl FnOnce(&Path, &Path) -> io::Result<()>,
) -> Result<(), SecretFileError> {
    let mut line = Zeroizing::new(String::with_capacity(SECRET_FILE_BYTES_MAX as usize));
    line.push_str(label);
    for field in fields {
        line.push(' ');
        line.push_str(field);
    }
    line.push('\n');
    let unfinished = unfinished(path);
    // Left behind by a crash, by a process that had this one's number.
    let _ = std::fs::remove_file(&unfinished);
    let mut file = options_for_new_secret()
        .open(&unfinished)
        .map_err(|error| SecretFileError::creating(path, error))?;
    file.write_all(line.as_bytes())
        .and_then(|()| file.sync_all())
        .and_then(|()| place(&unfinished, path))
        .and_then(|()| sync_directory_of(path))
        .map_err(|error| {
            // Best effort: the error that matters is the first one.
            let _ = std::fs::remove_file(&unfinished);
            SecretFileError::creating(path, error)
        })
}

/// The name of a file that is not whole yet: this process's own, as another one may be about to
/// create the same file.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(format!(".{}.new", std::process::id()));
    PathBuf::from(name)
}

/// Gives a file its name, and never takes the place of another one.
fn place(unfinished: &Path, path: &Path) -> io::Result<()> {
    match std::fs::hard_link(unfinished, path) {
        Ok(()) => std::fs::remove_file(unfinished),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Err(error),
        // A file system without links.
        Err(_) if !path.try_exists()? => std::fs::rename(unfinished, path),
        Err(_) => Err(ErrorKind::AlreadyExists.into()),
    }
}

/// Reads a file with this label and gives its fields to `parse`.
///
/// # Errors
/// [`SecretFileError`] if the file is missing, open to others than its owner, too long, differently
/// labelled, or if `parse` finds its fields wanting.
pub fn read<T>(
    path: &Path,
    label: &'static str,
    parse: impl FnOnce(&[&str]) -> Option<T>,
) -> Result<T, SecretFileError> {
    let malformed = || SecretFileError::new(path, Problem::Malformed(label));
    let file = File::open(path).map_err(|error| SecretFileError::reading(path, error))?;
    refuse_exposed(path, &file)?;
    let mut bytes = Zeroizing::new(Vec::with_capacity(SECRET_FILE_BYTES_MAX as usize + 1));
    file.take(SECRET_FILE_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| SecretFileError::reading(path, error))?;
    if bytes.len() as u64 > SECRET_FILE_BYTES_MAX {
        return Err(malformed());
    }
    let line = std::str::from_utf8(&bytes).map_err(|_| malformed())?;
    // Only the end of the line may be missing, which is what editors and templates do.
    let mut words = line.strip_suffix('\n').unwrap_or(line).split(' ');
    if words.next() != Some(label) {
        return Err(malformed());
    }
    let fields: Vec<&str> = words.collect();
    parse(&fields).ok_or_else(malformed)
}

/// Makes renames and new names in the file's directory durable.
///
/// # Errors
/// What the system says.
pub fn sync_directory_of(path: &Path) -> io::Result<()> {
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    if cfg!(unix) { File::open(parent)?.sync_all() } else { Ok(()) }
}

/// Bytes as lower-case hexadecimal digits.
#[must_use]
pub fn to_hex(bytes: &[u8]) -> Zeroizing<String> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = Zeroizing::new(String::with_capacity(2 * bytes.len()));
    for byte in bytes {
        text.push(char::from(DIGITS[usize::from(byte >> 4)]));
        text.push(char::from(DIGITS[usize::from(byte & 15)]));
    }
    text
}

/// Exactly 32 bytes from 64 hexadecimal digits of either case.
#[must_use]
pub fn from_hex(text: &str) -> Option<[u8; 32]> {
    let digits: &[u8; 64] = text.as_bytes().try_into().ok()?;
    let value = |digit: u8| char::from(digit).to_digit(16).map(|value| value as u8);
    let mut bytes = [0; 32];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = value(pair[0])? << 4 | value(pair[1])?;
    }
    Some(bytes)
}

#[cfg(unix)]
fn options_for_new_secret() -> OpenOptions {
    use std::os::unix::fs::OpenOptionsExt;
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600);
    options
}

#[cfg(not(unix))]
fn options_for_new_secret() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true);
    options
}

#[cfg(unix)]
fn refuse_exposed(path: &Path, file: &File) -> Result<(), SecretFileError> {
    use std::os::unix::fs::MetadataExt;
    let metadata = file.metadata().map_err(|error| SecretFileError::reading(path, error))?;
    match metadata.mode() & 0o777 {
        mode if mode & 0o077 != 0 => Err(SecretFileError::new(path, Problem::Exposed(mode))),
        _ => Ok(()),
    }
}

/// Where there are no permission bits, the directory's access list has to protect the file.
#[cfg(not(unix))]
fn refuse_exposed(_: &Path, _: &File) -> Result<(), SecretFileError> {
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_its_name_only_as_a_whole() {
        let folder = std::env::temp_dir().join(format!("pentarchy-secret-{}", std::process::id()));
        std::fs::create_dir(&folder).expect("a folder of its own");
        let (path, label) = (folder.join("device"), "pentarchy-test-1");
        // The power fails when all is written.
        let failed = create_and(&path, label, &["1"], |unfinished, path| {
            assert!(!path.exists(), "not under its name yet");
            assert_eq!(std::fs::read(unfinished)?, b"pentarchy-test-1 1\n");
            Err(io::Error::other("no power"))
        });
        assert!(failed.is_err() && !path.exists());
        std::fs::write(unfinished(&path), "pentar").expect("what a crash leaves");
        create(&path, label, &["2"]).expect("it is begun anew");
        let again = create(&path, label, &["3"]);
        assert!(matches!(again.err().map(|it| it.problem), Some(Problem::Exists)));
        let field = |fields: &[&str]| fields.first().map(|field| (*field).to_owned());
        assert_eq!(read(&path, label, field).expect("whole").as_str(), "2");
        assert_eq!(std::fs::read_dir(&folder).expect("there").count(), 1, "nothing is left over");
        std::fs::remove_dir_all(&folder).expect("it is there");
    }
}
