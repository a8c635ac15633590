//! The keys by which one member signs: its identity key in the configuration with which its group
//! began, and from then on one for each configuration, which it makes while the change is pending.
//!
//! Each is in a file of its own, beside the change for which it was made, so that a replica that
//! starts again still has it. Once the group has gone on for good, the files of earlier
//! configurations are overwritten and removed: whoever gets hold of the machine afterwards cannot
//! sign what the member might have said in those.

use crate::keys::KeyPair;
use crate::secret_file::{self, SecretFileError, sync_directory_of};
use pentarchy_core::Bytes;
use pentarchy_core::change::Change;
use pentarchy_core::wire::Wire as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The ending of a file with the change for which a key was made.
const CHANGE: &str = "change";

/// The longest of these files in bytes.
const CHANGE_BYTES_MAX: u64 = 1 << 20;

/// See the [module](self).
#[derive(Debug)]
pub struct SigningKeys {
    /// None if nothing outlives the process.
    folder: Option<PathBuf>,
    identity: KeyPair,
    /// By which the member signs.
    current: KeyPair,
    /// The others that are not erased.
    others: Vec<Made>,
}

/// A key that was made for a change.
#[derive(Debug)]
struct Made {
    key: KeyPair,
    change: Change,
    /// The member signed by it, and does not any more.
    is_former: bool,
}

/// The keys of one member, for all threads of its replica.
#[derive(Clone, Debug)]
pub struct SharedSigningKeys(Arc<Mutex<SigningKeys>>);

impl SharedSigningKeys {
    /// The keys, for as long as somebody looks at them.
    pub fn lock(&self) -> MutexGuard<'_, SigningKeys> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl SigningKeys {
    /// Of a member whose keys end with its process.
    #[must_use]
    pub fn in_memory(identity: KeyPair) -> SharedSigningKeys {
        Self { folder: None, current: identity.clone(), identity, others: Vec::new() }.shared()
    }

    /// Of a member with this identity, as they are in a folder. There need be none yet.
    ///
    /// # Errors
    /// [`SecretFileError`] naming the file that cannot be read, or is none of these.
    pub fn open(folder: &Path, identity: KeyPair) -> Result<SharedSigningKeys, SecretFileError> {
        let others = match fs::read_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(SecretFileError::system(folder, error)),
            Ok(entries) => {
                let paths = entries.map(|entry| entry.map(|entry| entry.path()));
                let paths = paths.collect::<io::Result<Vec<_>>>();
                let paths = paths.map_err(|error| SecretFileError::system(folder, error))?;
                // The change is written before its key. Other files are what a crash left behind.
                let changes =
                    paths.iter().filter(|path| path.extension().is_some_and(|it| it == CHANGE));
                let made = changes.filter_map(|path| Made::load(path).transpose());
                made.collect::<Result<_, _>>()?
            }
        };
        let folder = Some(folder.to_owned());
        Ok(Self { folder, current: identity.clone(), identity, others }.shared())
    }

    fn shared(self) -> SharedSigningKeys {
        SharedSigningKeys(Arc::new(Mutex::new(self)))
    }

    /// By which the member signs.
    #[must_use]
    pub const fn current(&self) -> &KeyPair {
        &self.current
    }

    /// The public key for a change: of a key that is made now, durably, unless it was before.
    ///
    /// # Errors
    /// [`SecretFileError`] if it cannot be written.
    pub fn prepare(&mut self, change: &Change) -> Result<[u8; 32], SecretFileError> {
        if let Some(known) = self.others.iter().find(|made| made.change == *change) {
            return Ok(known.key.public());
        }
        let (key, change) = (KeyPair::generate(), change.clone());
        let made = Made { key, change, is_former: false };
        if let Some(folder) = &self.folder {
            made.save(folder)?;
        }
        let public = made.key.public();
        self.others.push(made);
        Ok(public)
    }

    /// The key of this public key, if the member has it.
    #[must_use]
    pub fn get(&self, public: &[u8; 32]) -> Option<&KeyPair> {
        let made = self.others.iter().map(|made| &made.key);
        let mut all = [&self.current, &self.identity].into_iter().chain(made);
        all.find(|key| key.public() == *public)
    }

    /// From now on the member signs by the key of this public key; none if it does not have it.
    pub fn adopt(&mut self, public: &[u8; 32]) -> Option<KeyPair> {
        let key = self.get(public)?.clone();
        let before = std::mem::replace(&mut self.current, key.clone()).public();
        for made in &mut self.others {
            let its = made.key.public();
            made.is_former = its != *public && (made.is_former || its == before);
        }
        Some(key)
    }

    /// Erases the keys for changes that are void, but not those by which the member has signed.
    ///
    /// # Errors
    /// What the system says. Then it is tried again the next time.
    pub fn forget(&mut self, is_void: &dyn Fn(&Change) -> bool) -> io::Result<()> {
        let current = self.current.public();
        self.erase(&|made| !made.is_former && made.key.public() != current && is_void(&made.change))
    }

    /// Erases the keys by which the member signed in earlier configurations, but for its identity.
    ///
    /// # Errors
    /// As [`Self::forget`].
    pub fn erase_former(&mut self) -> io::Result<()> {
        self.erase(&|made| made.is_former)
    }

    /// Whether one of those is still there.
    #[must_use]
    pub fn has_former(&self) -> bool {
        self.others.iter().any(|made| made.is_former)
    }

    fn erase(&mut self, goes: &dyn Fn(&Made) -> bool) -> io::Result<()> {
        if let Some(folder) = &self.folder {
            for made in self.others.iter().filter(|made| goes(made)) {
                made.erase(folder)?;
            }
        }
        self.others.retain(|made| !goes(made));
        Ok(())
    }
}

impl Made {
    /// Where the key is. Its change is beside it.
    fn path(&self, folder: &Path) -> PathBuf {
        folder.join(secret_file::to_hex(&self.change.digest().0).as_str())
    }

    fn save(&self, folder: &Path) -> Result<(), SecretFileError> {
        let path = self.path(folder);
        let bytes = self.change.to_bytes();
        let change = path.with_extension(CHANGE);
        let written = fs::create_dir_all(folder).and_then(|()| {
            let mut file = File::create(&change)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            sync_directory_of(folder)
        });
        written.map_err(|error| SecretFileError::system(&change, error))?;
        // Of an attempt whose key no longer counts: nobody was told of it.
        let _ = fs::remove_file(&path);
        self.key.save(&path)
    }

    /// The key beside a change. None if a crash came before it was written, or while it was erased.
    fn load(beside: &Path) -> Result<Option<Self>, SecretFileError> {
        let read =
            |path: &Path| read_bounded(path).map_err(|error| SecretFileError::system(path, error));
        let path = beside.with_extension("");
        // It is overwritten from its beginning on.
        if !path.exists() || Zeroizing::new(read(&path)?).first().is_none_or(|byte| *byte == 0) {
            return Ok(None);
        }
        let change = Change::from_bytes(&Bytes::from(read(beside)?));
        let change = change.map_err(|_| SecretFileError::malformed(beside, CHANGE))?;
        Ok(Some(Self { key: KeyPair::load(&path)?, change, is_former: false }))
    }

    /// Overwrites what is in the file before it removes it. On flash storage the old bytes may
    /// survive that.
    fn erase(&self, folder: &Path) -> io::Result<()> {
        let path = self.path(folder);
        if path.exists() {
            let mut file = OpenOptions::new().write(true).open(&path)?;
            let length = file.metadata()?.len();
            file.write_all(&vec![0; usize::try_from(length).unwrap_or(0)])?;
            file.sync_all()?;
            fs::remove_file(&path)?;
        }
        match fs::remove_file(path.with_extension(CHANGE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => sync_directory_of(&path),
        }
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    File::open(path)?.take(CHANGE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
