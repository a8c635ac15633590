//! Files and folders of the operating system.

use crate::disk::{DiskError, File, Folder};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The file in a data folder whose lock says that a process uses the folder.
const LOCK: &str = "lock";

/// A folder of the operating system. The standard library opens everything so that child processes
/// do not inherit it.
pub struct OsFolder {
    path: PathBuf,
    /// Kept for as long as something in the data folder is open.
    lock: Option<Arc<fs::File>>,
    expected: Option<Expected>,
    /// Files whose names are gone. Their room is given back when the last handle is.
    removed: Vec<fs::File>,
}

/// A file that is being made by a thread.
struct Expected {
    name: String,
    size: u64,
    /// Somebody waits for it.
    hurry: Arc<AtomicBool>,
    made: JoinHandle<io::Result<fs::File>>,
}

/// Removed files that give their room back together, in a thread: that takes as long as it takes.
/// One that is larger than [`LARGE_BYTES`] waits for no other.
const REMOVED_MAX: usize = 16;
const LARGE_BYTES: u64 = 1 << 20;

impl OsFolder {
    /// Opens a data folder for this process alone, and makes it if it does not exist. Nobody else
    /// but its owner may look into it.
    ///
    /// # Errors
    /// [`DiskError`], also if another process uses the folder.
    pub fn open(path: &Path) -> Result<Self, DiskError> {
        make(path)?;
        let at = path.join(LOCK);
        let file = writable()
            .create(true)
            .truncate(false)
            .open(&at)
            .map_err(|error| failed("open", &at, error))?;
        file.try_lock().map_err(|error| {
            let error = match error {
                fs::TryLockError::WouldBlock => {
                    io::Error::other("another process uses this folder; stop that one first")
                }
                fs::TryLockError::Error(error) => error,
            };
            failed("lock", &at, error)
        })?;
        Ok(Self::at_path(path.to_owned(), Some(Arc::new(file))))
    }

    /// Opens a folder to look at, also while a process uses it. What would change it fails.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn read_only(path: &Path) -> Result<Self, DiskError> {
        fs::read_dir(path).map_err(|error| failed("open", path, error))?;
        Ok(Self::at_path(path.to_owned(), None))
    }

    const fn at_path(path: PathBuf, lock: Option<Arc<fs::File>>) -> Self {
        Self { path, lock, expected: None, removed: Vec::new() }
    }

    /// Whether a process uses a data folder now.
    #[must_use]
    pub fn is_in_use(path: &Path) -> bool {
        let lock = fs::File::open(path.join(LOCK));
        let tried = lock.map(|lock| lock.try_lock_shared());
        matches!(tried, Ok(Err(fs::TryLockError::WouldBlock)))
    }

    /// The path of a name in here, if this may be written to.
    fn at(&self, operation: &'static str, name: &str) -> Result<PathBuf, DiskError> {
        let path = self.path.join(name);
        if self.lock.is_some() {
            return Ok(path);
        }
        let error = io::Error::new(io::ErrorKind::ReadOnlyFilesystem, "opened to be looked at");
        Err(failed(operation, &path, error))
    }
}

fn failed(operation: &'static str, path: &Path, source: io::Error) -> DiskError {
    DiskError { operation, path: path.display().to_string(), source }
}

/// Makes a folder that is missing, durably. One that is there may have been made by a process that
/// ended before its name was durable.
fn make(path: &Path) -> Result<(), DiskError> {
    make_and(path, sync_folder)
}

fn make_and(
    path: &Path,
    sync: impl FnOnce(&Path) -> Result<(), DiskError>,
) -> Result<(), DiskError> {
    let made = match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => true,
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
        Err(error) => return Err(failed("create", path, error)),
    };
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    match sync(parent.unwrap_or(Path::new("."))) {
        // Whoever may not look into the parent did not make the folder.
        Err(error) if !made && error.source.kind() == io::ErrorKind::PermissionDenied => Ok(()),
        synced => synced,
    }
}

fn sync_folder(path: &Path) -> Result<(), DiskError> {
    let synced = fs::File::open(path).and_then(|folder| folder.sync_all());
    synced.map_err(|error| failed("sync", path, error))
}

fn writable() -> fs::OpenOptions {
    let mut options = fs::OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    options
}

impl Folder for OsFolder {
    fn list(&self) -> Result<Vec<String>, DiskError> {
        let list = || {
            let mut names = Vec::new();
            for entry in fs::read_dir(&self.path)? {
                let entry = entry?;
                if let (true, Ok(name)) =
                    (entry.file_type()?.is_file(), entry.file_name().into_string())
                {
                    names.push(name);
                }
            }
            names.sort();
            Ok(names)
        };
        list().map_err(|error| failed("list", &self.path, error))
    }

    fn create(&mut self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let path = self.at("create", name)?;
        let lock = self.lock.clone();
        if let Some((file, ready)) = self.take_expected(name) {
            return Ok(Box::new(OsFile { file, path, ready, _lock: lock }));
        }
        let file = writable().create(true).truncate(true).open(&path);
        let file = file.map_err(|error| failed("create", &path, error))?;
        Ok(Box::new(OsFile { file, path, ready: 0, _lock: lock }))
    }

    fn expect(&mut self, name: &str, size: u64) {
        let Ok(path) = self.at("create", name) else { return };
        if self.expected.is_some() {
            return;
        }
        let hurry = Arc::new(AtomicBool::new(false));
        let seen = hurry.clone();
        let make = move || {
            let file = writable().create(true).truncate(true).open(path)?;
            fill(&file, size, &seen)?;
            Ok(file)
        };
        // Without a thread it is made when it is wanted.
        let made = std::thread::Builder::new().name("prepare".to_owned()).spawn(make);
        let expected = |made| Expected { name: name.to_owned(), size, hurry, made };
        self.expected = made.ok().map(expected);
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let path = self.path.join(name);
        let file = match self.lock {
            Some(_) => writable().open(&path),
            None => fs::File::open(&path),
        };
        let file = file.map_err(|error| failed("open", &path, error))?;
        Ok(Box::new(OsFile { file, path, ready: 0, _lock: self.lock.clone() }))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let path = self.at("rename", from)?;
        fs::rename(&path, self.path.join(to)).map_err(|error| failed("rename", &path, error))
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let path = self.at("remove", name)?;
        let open = fs::File::open(&path).ok();
        fs::remove_file(&path).map_err(|error| failed("remove", &path, error))?;
        let bytes = |file: &fs::File| file.metadata().map_or(0, |metadata| metadata.len());
        let is_large = open.iter().any(|file| bytes(file) > LARGE_BYTES);
        // What is empty has no room to give back. Somebody may fill it yet, who wants that room
        // back when the last handle goes, and not later.
        self.removed.extend(open.filter(|file| bytes(file) > 0));
        if is_large || self.removed.len() >= REMOVED_MAX {
            let removed = std::mem::take(&mut self.removed);
            // Without a thread they are dropped here.
            drop(std::thread::Builder::new().name("remove".to_owned()).spawn(|| drop(removed)));
        }
        Ok(())
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        sync_folder(&self.path)
    }

    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        let path = self.path.join(name);
        if self.lock.is_some() {
            make(&path)?;
        }
        Ok(Box::new(Self::at_path(path, self.lock.clone())))
    }
}

impl OsFolder {
    /// The file of this name if it was expected and could be made, and how many zeros are in it.
    fn take_expected(&mut self, name: &str) -> Option<(fs::File, u64)> {
        let Expected { name: expected, size, hurry, made } = self.expected.take()?;
        hurry.store(true, Ordering::Relaxed);
        let made = made.join().ok()?.ok()?;
        (expected == name).then_some((made, size))
    }
}

impl Drop for OsFolder {
    /// Waits for the thread: the next process must not find it at work.
    fn drop(&mut self) {
        self.take_expected("");
    }
}

/// A file of the operating system.
struct OsFile {
    file: fs::File,
    path: PathBuf,
    /// Bytes that are zeros on the disk since before it was opened.
    ready: u64,
    _lock: Option<Arc<fs::File>>,
}

impl OsFile {
    fn failed(&self, operation: &'static str) -> impl Fn(io::Error) -> DiskError {
        move |error| failed(operation, &self.path, error)
    }
}

impl File for OsFile {
    fn size(&self) -> Result<u64, DiskError> {
        self.file.metadata().map(|metadata| metadata.len()).map_err(self.failed("look at"))
    }

    fn read_at(&self, buffer: &mut [u8], offset: u64) -> Result<(), DiskError> {
        self.file.read_exact_at(buffer, offset).map_err(self.failed("read"))
    }

    fn write_at(&mut self, bytes: &[u8], offset: u64) -> Result<(), DiskError> {
        self.file.write_all_at(bytes, offset).map_err(self.failed("write"))
    }

    fn preallocate(&mut self, size: u64) -> Result<(), DiskError> {
        if std::mem::take(&mut self.ready) == size {
            return Ok(());
        }
        let filled = fill(&self.file, size, &AtomicBool::new(true));
        filled.map_err(self.failed("reserve room for"))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(self.failed("sync"))
    }
}

/// Bytes of zeros that are written at a time, and synced, so that syncs of others do not wait for
/// all of them.
const STEP_BYTES: usize = 1 << 20;

/// The longest that the disk is left alone between two of these.
const PAUSE_MAX: Duration = Duration::from_millis(20);

/// Makes a file of zeros, on the disk. Room that is only reserved would be less work here, and more
/// at each later sync: the system would have to write down each time which part of it is in use.
/// Unless somebody waits for it, the disk is left alone for as long as it was at work on this.
fn fill(file: &fs::File, size: u64, hurry: &AtomicBool) -> io::Result<()> {
    file.set_len(size)?;
    let zeros = vec![0; STEP_BYTES.min(size as usize)];
    for offset in (0..size).step_by(STEP_BYTES) {
        let length = (size - offset).min(STEP_BYTES as u64) as usize;
        let begun = Instant::now();
        file.write_all_at(&zeros[..length], offset)?;
        file.sync_data()?;
        if !hurry.load(Ordering::Relaxed) {
            std::thread::sleep(begun.elapsed().min(PAUSE_MAX));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder() -> (tempfile::TempDir, OsFolder) {
        let parent = tempfile::tempdir().unwrap();
        let folder = OsFolder::open(&parent.path().join("data")).unwrap();
        (parent, folder)
    }

    #[test]
    fn what_was_expected_is_ready_and_of_zeros_and_others_are_made_when_they_are_wanted() {
        let (_parent, mut folder) = folder();
        let size = 3 * STEP_BYTES as u64 + 5;
        folder.expect("expected", size);
        folder.expect("another", size);
        for name in ["expected", "another", "unexpected"] {
            let mut file = folder.create(name).unwrap();
            file.preallocate(size).unwrap();
            assert_eq!(file.size().unwrap(), size);
            file.write_at(b"content", size - 7).unwrap();
            let mut bytes = vec![1; size as usize];
            file.read_at(&mut bytes, 0).unwrap();
            assert!(bytes.ends_with(b"content"));
            assert!(bytes[..bytes.len() - 7].iter().all(|byte| *byte == 0), "{name}");
        }
        // Wanted at another size than expected.
        folder.expect("smaller", size);
        let mut file = folder.create("smaller").unwrap();
        file.preallocate(10).unwrap();
        assert_eq!(file.size().unwrap(), 10);
    }

    #[test]
    fn who_has_a_folder_after_another_finds_nobody_at_work_there() {
        let (parent, mut folder) = folder();
        let path = parent.path().join("data");
        folder.expect("expected", 64 * STEP_BYTES as u64);
        drop(folder);
        let mut again = OsFolder::open(&path).unwrap();
        again.remove("expected").unwrap();
        assert_eq!(again.list().unwrap(), ["lock"]);
    }

    #[test]
    fn a_file_that_is_removed_before_it_is_filled_goes_with_whoever_has_it() {
        let (_parent, mut folder) = folder();
        for name in ["filled", "empty"] {
            let mut file = folder.create(name).unwrap();
            if name == "filled" {
                file.write_at(b"content", 0).unwrap();
            }
            folder.remove(name).unwrap();
        }
        assert_eq!(folder.removed.len(), 1, "only what was filled waits to give its room back");
    }

    #[test]
    fn a_folder_that_is_there_already_is_made_durable_too() {
        let parent = tempfile::tempdir().expect("a folder");
        let path = parent.path().join("log");
        for attempt in 0..2 {
            let mut synced = None;
            let made = make_and(&path, |folder| {
                synced = Some(folder.to_owned());
                sync_folder(folder)
            });
            made.expect("it can be made");
            assert_eq!(synced.as_deref(), Some(parent.path()), "attempt {attempt}");
        }
    }
}
