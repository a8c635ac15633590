//! Files and folders of the operating system.

use crate::disk::{DiskError, File, Folder};
use std::fs;
use std::io;
use std::os::unix::fs::{DirBuilderExt as _, FileExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The file in a data folder whose lock says that a process uses the folder.
const LOCK: &str = "lock";

/// A folder of the operating system. The standard library opens everything so that child processes
/// do not inherit it.
pub struct OsFolder {
    path: PathBuf,
    /// Kept for as long as something in the data folder is open.
    lock: Option<Arc<fs::File>>,
}

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
        Ok(Self { path: path.to_owned(), lock: Some(Arc::new(file)) })
    }

    /// Opens a folder to look at, also while a process uses it. What would change it fails.
    ///
    /// # Errors
    /// [`DiskError`]
    pub fn read_only(path: &Path) -> Result<Self, DiskError> {
        fs::read_dir(path).map_err(|error| failed("open", path, error))?;
        Ok(Self { path: path.to_owned(), lock: None })
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

/// Makes a folder that is missing, durably.
fn make(path: &Path) -> Result<(), DiskError> {
    match fs::DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => {
            let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
            sync_folder(parent.unwrap_or(Path::new(".")))
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(failed("create", path, error)),
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
        let file = writable().create(true).truncate(true).open(&path);
        let file = file.map_err(|error| failed("create", &path, error))?;
        Ok(Box::new(OsFile { file, path, _lock: self.lock.clone() }))
    }

    fn open(&self, name: &str) -> Result<Box<dyn File>, DiskError> {
        let path = self.path.join(name);
        let file = match self.lock {
            Some(_) => writable().open(&path),
            None => fs::File::open(&path),
        };
        let file = file.map_err(|error| failed("open", &path, error))?;
        Ok(Box::new(OsFile { file, path, _lock: self.lock.clone() }))
    }

    fn rename(&mut self, from: &str, to: &str) -> Result<(), DiskError> {
        let path = self.at("rename", from)?;
        fs::rename(&path, self.path.join(to)).map_err(|error| failed("rename", &path, error))
    }

    fn remove(&mut self, name: &str) -> Result<(), DiskError> {
        let path = self.at("remove", name)?;
        fs::remove_file(&path).map_err(|error| failed("remove", &path, error))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        sync_folder(&self.path)
    }

    fn folder(&mut self, name: &str) -> Result<Box<dyn Folder>, DiskError> {
        let path = self.path.join(name);
        if self.lock.is_some() {
            make(&path)?;
        }
        Ok(Box::new(Self { path, lock: self.lock.clone() }))
    }
}

/// A file of the operating system.
struct OsFile {
    file: fs::File,
    path: PathBuf,
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
        reserve(&self.file, size).map_err(self.failed("reserve room for"))
    }

    fn sync(&mut self) -> Result<(), DiskError> {
        self.file.sync_data().map_err(self.failed("sync"))
    }
}

#[cfg(target_os = "linux")]
fn reserve(file: &fs::File, size: u64) -> io::Result<()> {
    let length = i64::try_from(size).map_err(io::Error::other)?;
    nix::fcntl::posix_fallocate(file, 0, length).map_err(io::Error::from)
}

/// Elsewhere the only portable way is to write the zeros.
#[cfg(not(target_os = "linux"))]
fn reserve(file: &fs::File, size: u64) -> io::Result<()> {
    const STEP: usize = 1 << 20;
    let zeros = vec![0; STEP];
    for offset in (0..size).step_by(STEP) {
        let length = STEP.min((size - offset) as usize);
        file.write_all_at(&zeros[..length], offset)?;
    }
    Ok(())
}
