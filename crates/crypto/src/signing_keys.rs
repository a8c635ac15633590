//! The keys by which one member signs, one for each configuration, and the secrets that the
//! devices of the members share.
//!
//! The first key is made with the member's identity; where it was not, the identity key takes its
//! place. From then on the member makes a key while a change is pending. If the change brings the
//! devices another secret, it is sealed to the key that the member has then, and the member opens
//! it. Key and secret are in files beside the change for which they are, so that a replica that
//! starts again still has them. Once the group has gone on for good, the files of earlier
//! configurations are overwritten and removed: whoever gets hold of the machine afterwards cannot
//! sign what the member might have said in those, nor certify what its device might have.

use crate::keys::{GroupSecret, KeyPair};
use crate::sealed::Receiver;
use crate::secret_file::{self, SecretFileError, sync_directory_of};
use pentarchy_core::Bytes;
use pentarchy_core::change::Change;
use pentarchy_core::configuration::Configuration;
use pentarchy_core::digest::Digest;
use pentarchy_core::wire::Wire as _;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use zeroize::Zeroizing;

/// The ending of a file with the change for which a key was made.
const CHANGE: &str = "change";

/// The ending of a file with the secret that the devices share from the change on.
const SECRET: &str = "secret";

/// The file with the key by which the member signs first.
const FIRST: &str = "first";

/// The file that says that the member has retired.
const RETIRED: &str = "retired";

/// The longest of these files in bytes.
const CHANGE_BYTES_MAX: u64 = 1 << 20;

/// See the [module](self).
#[derive(Debug)]
pub struct SigningKeys {
    /// None if nothing outlives the process.
    folder: Option<PathBuf>,
    identity: KeyPair,
    /// By which the member signed first. None if that is its identity key, or erased.
    first: Option<KeyPair>,
    /// What the devices shared first. None if this process is not to know it, or it is erased.
    first_secret: Option<GroupSecret>,
    /// Where that is.
    first_secret_path: Option<PathBuf>,
    /// By which the member signs.
    current: KeyPair,
    /// The others that are not erased.
    others: Vec<Made>,
    /// The group goes on without the member.
    is_retired: bool,
}

/// A key that was made for a change.
#[derive(Debug)]
struct Made {
    key: KeyPair,
    change: Change,
    /// What the devices share from then on; none if that is what they shared first, or if the
    /// member could not read it.
    secret: Option<GroupSecret>,
    /// The member signed by it, and does not any more.
    is_former: bool,
}

/// The configuration in which a replica is. One that starts again may come through earlier ones
/// than that for which it has its key.
#[derive(Clone, Copy, Debug, Default)]
pub struct Present {
    /// Its number.
    pub number: u64,
    /// Names what the devices share in it; none if that is what they shared first.
    pub secret: Option<Digest>,
}

impl Present {
    /// The configuration of a group whose members state it.
    #[must_use]
    pub const fn of(configuration: &Configuration) -> Self {
        Self { number: configuration.number, secret: configuration.secret }
    }

    /// Whether the devices share another secret than this.
    fn has_other(&self, secret: &GroupSecret) -> bool {
        self.secret.is_some_and(|name| secret.name() != name)
    }

    /// Whether a key is of an earlier configuration, in which the devices shared another secret.
    fn is_behind(&self, made: &Made) -> bool {
        let is_other = made.secret.as_ref().is_some_and(|secret| self.has_other(secret));
        made.change.next.number < self.number && is_other
    }
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
    /// Of a member whose keys end with its process: its identity key, the one by which it signs
    /// first, and the secret that the devices share first, if it is to know that.
    #[must_use]
    pub fn in_memory(
        identity: KeyPair,
        first: KeyPair,
        first_secret: Option<GroupSecret>,
    ) -> SharedSigningKeys {
        Self {
            folder: None,
            identity,
            first_secret,
            first_secret_path: None,
            current: first.clone(),
            first: Some(first),
            others: Vec::new(),
            is_retired: false,
        }
        .shared()
    }

    /// Of a member with this identity, as they are in a folder. There need be none yet. The file of
    /// the secret that the devices shared first is read if it is named, and there.
    ///
    /// # Errors
    /// [`SecretFileError`] naming the file that cannot be read, or is none of these.
    pub fn open(
        folder: &Path,
        identity: KeyPair,
        first_secret: Option<&Path>,
    ) -> Result<SharedSigningKeys, SecretFileError> {
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
                let made = made.collect::<Result<Vec<_>, _>>()?;
                erase_stray(&paths, &made.iter().map(|it| it.path(folder)).collect::<Vec<_>>())?;
                made
            }
        };
        let first = load(&folder.join(FIRST), KeyPair::load)?;
        let secret = first_secret.map(|path| load(path, GroupSecret::load)).transpose()?;
        Ok(Self {
            folder: Some(folder.to_owned()),
            current: first.as_ref().unwrap_or(&identity).clone(),
            identity,
            first,
            first_secret: secret.flatten(),
            first_secret_path: first_secret.map(Path::to_owned),
            others,
            is_retired: folder.join(RETIRED).exists(),
        }
        .shared())
    }

    /// Writes the key by which the member signs first into its folder.
    ///
    /// # Errors
    /// [`SecretFileError`] if the file exists or cannot be written.
    pub fn save_first(&self, folder: &Path) -> Result<(), SecretFileError> {
        let made = fs::create_dir_all(folder);
        made.map_err(|error| SecretFileError::system(folder, error))?;
        self.first.as_ref().map_or(Ok(()), |first| first.save(&folder.join(FIRST)))
    }

    fn shared(self) -> SharedSigningKeys {
        SharedSigningKeys(Arc::new(Mutex::new(self)))
    }

    /// By which the member signs.
    #[must_use]
    pub const fn current(&self) -> &KeyPair {
        &self.current
    }

    /// The public key for a change: of a key that is made now, durably, unless it was before. If
    /// the change has another secret for the devices, that is kept with it.
    ///
    /// # Errors
    /// [`SecretFileError`] if it cannot be written.
    pub fn prepare(&mut self, change: &Change) -> Result<[u8; 32], SecretFileError> {
        if let Some(known) = self.others.iter().find(|made| made.change == *change) {
            return Ok(known.key.public());
        }
        let is_named = change.next.secret.is_some();
        let secret = is_named.then(|| self.secret_of(&change.next)).flatten();
        let (key, change) = (KeyPair::generate(), change.clone());
        let made = Made { key, change, secret, is_former: false };
        if let Some(folder) = &self.folder {
            made.save(folder)?;
        }
        let public = made.key.public();
        self.others.push(made);
        Ok(public)
    }

    /// What the devices share in a configuration; none if this member cannot know it.
    #[must_use]
    pub fn secret_of(&self, configuration: &Configuration) -> Option<GroupSecret> {
        let Some(name) = &configuration.secret else { return self.first_secret.clone() };
        let known = self.others.iter().filter_map(|made| made.secret.as_ref());
        let mut known = known.chain(&self.first_secret);
        if let Some(known) = known.find(|secret| secret.name() == *name) {
            return Some(known.clone());
        }
        let identity = self.identity.public();
        let entry = configuration.members.iter().find(|member| member.identity == identity)?;
        let (sealed, receiver) =
            (entry.sealed?, Receiver { group: configuration.group, member: entry.id });
        self.all().find_map(|key| receiver.open(&sealed, name, key))
    }

    /// Whether the member may have erased what it had for the configuration of this number: it has
    /// a key for a later one, and none for this.
    #[must_use]
    pub fn has_left(&self, number: u64) -> bool {
        let numbers = || self.others.iter().map(|made| made.change.next.number);
        let has = if number == 0 { self.first.is_some() } else { numbers().any(|it| it == number) };
        !has && numbers().any(|later| later > number)
    }

    /// All keys that are not erased.
    fn all(&self) -> impl Iterator<Item = &KeyPair> {
        let made = self.others.iter().map(|made| &made.key);
        [&self.current, &self.identity].into_iter().chain(&self.first).chain(made)
    }

    /// The key of this public key, if the member has it.
    #[must_use]
    pub fn get(&self, public: &[u8; 32]) -> Option<&KeyPair> {
        self.all().find(|key| key.public() == *public)
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

    /// Erases the keys by which the member signed in earlier configurations, but for its identity,
    /// and what the devices shared in those.
    ///
    /// # Errors
    /// As [`Self::forget`].
    pub fn erase_former(&mut self, present: &Present) -> io::Result<()> {
        if self.has_former_first() {
            if let Some(folder) = &self.folder {
                erase_file(&folder.join(FIRST))?;
            }
            self.first = None;
        }
        if self.first_secret.as_ref().is_some_and(|first| present.has_other(first)) {
            if let Some(path) = &self.first_secret_path {
                erase_file(path)?;
            }
            self.first_secret = None;
        }
        // It was not ready for a change that brought another one, so its key stays.
        for made in self.others.iter_mut().filter(|made| present.is_behind(made)) {
            if let Some(folder) = &self.folder {
                erase_file(&made.path(folder).with_extension(SECRET))?;
            }
            made.secret = None;
        }
        self.erase(&|made| made.is_former)
    }

    /// Erases all that the member had to sign and to certify, but for its identity: the group goes
    /// on without it. It is noted in the folder that it did.
    ///
    /// # Errors
    /// What the system says. The files that it could not erase are still there.
    pub fn retire(&mut self) -> io::Result<()> {
        (self.first, self.first_secret) = (None, None);
        (self.current, self.is_retired) = (self.identity.clone(), true);
        let secret = self.first_secret_path.as_deref().map_or(Ok(()), erase_file);
        let Some(folder) = &self.folder else {
            self.others.clear();
            return secret;
        };
        let noted = fs::create_dir_all(folder)
            .and_then(|()| File::create(folder.join(RETIRED))?.sync_all());
        let first = erase_file(&folder.join(FIRST));
        let others: Vec<_> = self.others.drain(..).map(|made| made.erase(folder)).collect();
        [noted, secret, first].into_iter().chain(others).collect()
    }

    /// Whether the member has [retired](Self::retire).
    #[must_use]
    pub const fn is_retired(&self) -> bool {
        self.is_retired
    }

    /// Whether one of those is still there.
    #[must_use]
    pub fn has_former(&self, present: &Present) -> bool {
        self.others.iter().any(|made| made.is_former || present.is_behind(made))
            || self.has_former_first()
            || self.first_secret.as_ref().is_some_and(|first| present.has_other(first))
    }

    fn has_former_first(&self) -> bool {
        self.first.as_ref().is_some_and(|first| first.public() != self.current.public())
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
        if let Some(secret) = &self.secret {
            let path = path.with_extension(SECRET);
            erase_file(&path).map_err(|error| SecretFileError::system(&path, error))?;
            secret.save(&path)?;
        }
        self.key.save(&path)
    }

    /// The key beside a change. None if a crash came before it was written, or while it was erased.
    fn load(beside: &Path) -> Result<Option<Self>, SecretFileError> {
        let path = beside.with_extension("");
        let Some(key) = load(&path, KeyPair::load)? else { return Ok(None) };
        let read = read_bounded(beside);
        let bytes = read.map_err(|error| SecretFileError::system(beside, error))?;
        let change = Change::from_bytes(&Bytes::from(bytes));
        let change = change.map_err(|_| SecretFileError::malformed(beside, CHANGE))?;
        let secret = load(&path.with_extension(SECRET), GroupSecret::load)?;
        Ok(Some(Self { key, change, secret, is_former: false }))
    }

    fn erase(&self, folder: &Path) -> io::Result<()> {
        let path = self.path(folder);
        // The key goes last: it says that the others are there.
        erase_file(&path.with_extension(SECRET))?;
        erase_file(&path)?;
        match fs::remove_file(path.with_extension(CHANGE)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
            _ => sync_directory_of(&path),
        }
    }
}

/// Reads a secret file. Gives none if there is no such file, or the member crashed while it erased
/// it.
fn load<T>(
    path: &Path,
    load: impl FnOnce(&Path) -> Result<T, SecretFileError>,
) -> Result<Option<T>, SecretFileError> {
    if !path.exists() {
        return Ok(None);
    }
    let read = read_bounded(path).map_err(|error| SecretFileError::system(path, error))?;
    // It is overwritten from its beginning on.
    if Zeroizing::new(read).first().is_none_or(|byte| *byte == 0) {
        return Ok(None);
    }
    load(path).map(Some)
}

/// Erases secrets that have no key beside them: a crash came before that was written.
fn erase_stray(paths: &[PathBuf], keys: &[PathBuf]) -> Result<(), SecretFileError> {
    let secrets = paths.iter().filter(|path| path.extension().is_some_and(|it| it == SECRET));
    let mut stray = secrets.filter(|path| !keys.contains(&path.with_extension("")));
    stray
        .try_for_each(|path| erase_file(path).map_err(|error| SecretFileError::system(path, error)))
}

/// Overwrites what is in the file, if there is one, before it removes it. On flash storage the old
/// bytes may survive that.
fn erase_file(path: &Path) -> io::Result<()> {
    if path.exists() {
        let mut file = OpenOptions::new().write(true).open(path)?;
        let length = file.metadata()?.len();
        file.write_all(&vec![0; usize::try_from(length).unwrap_or(0)])?;
        file.sync_all()?;
        fs::remove_file(path)?;
        sync_directory_of(path)?;
    }
    Ok(())
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    use io::Read as _;
    let mut bytes = Vec::new();
    File::open(path)?.take(CHANGE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}
