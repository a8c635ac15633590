//! The device in a process of its own: the replica's process never holds the group's secret.
//!
//! The replica starts the process and asks it through memory that both share
//! ([`pentarchy_mailbox`]); what they say is in [`question`]. Each instance has a mailbox and a
//! thread, so instances do not wait for each other; checks go through mailboxes beside those. The
//! process reads the secret from its file, and ends when the replica does ([`serve`]).
//!
//! It withstands what shows or spoils the replica's memory. It does not withstand whoever may act
//! as the replica's user: they can read the file and start another process (`docs/trust.md`).
//!
//! A process that ends, does not answer in time, or answers what nobody asked has failed for good:
//! everything is [`Refused::Unavailable`] from then on, and every check is negative. The replica
//! cannot go on; it begins a new incarnation.

mod harden;
pub mod question;
pub mod serve;
mod trinx;
mod usig;

pub use trinx::TrinxProcess;
pub use usig::{ApartCheck, UsigProcess};

use crate::identity::DeviceIdentity;
use crate::trinx as trinx_device;
use pentarchy_core::Bytes;
use pentarchy_core::counter::{Refused, Ui};
use pentarchy_core::digest::{Digest, EpochId};
use pentarchy_core::ids::{Incarnation, MemberId};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::verifier::{SessionCheck, TaggedRequest};
use pentarchy_mailbox::{Asker, BYTES_MAX, MAILBOX_WORDS, Memory};
use question::{Answer, Device, Initialise, Question};
use std::fmt;
use std::io;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Instances in one process.
pub const INSTANCES_MAX: u16 = 16;

/// Mailboxes for checks alone. As many threads check at a time; more wait for each other.
pub const CHECK_MAILBOXES: usize = 2;

/// How long an answer may take. A process that did not get to run for so long has failed, as far as
/// anybody can tell.
pub const ANSWER_LIMIT: Duration = Duration::from_secs(5);

/// Why there is no counter in another process.
#[derive(Debug)]
pub enum BadProcess {
    /// The identity has a key of its own, which would have to be kept in the other process.
    OwnKey,
    /// No process, or no memory to share with it.
    System(io::Error),
    /// It ended, or it said what makes no sense. It said why, where it says things.
    Silent,
}

impl fmt::Display for BadProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::OwnKey => f.write_str(
                "a trusted device with a key of its own cannot run in another process: use one \
                 that certifies with the group's secret",
            ),
            Self::System(error) => write!(f, "cannot start the trusted counter: {error}"),
            Self::Silent => f.write_str(
                "the process of the trusted counter ended before it began; what it said is above",
            ),
        }
    }
}

impl std::error::Error for BadProcess {}

impl From<io::Error> for BadProcess {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

/// The other process, as the replica knows it. Any thread may ask it.
pub struct CounterProcess {
    /// None if somebody else sees to whoever answers.
    child: Option<Mutex<Child>>,
    mailboxes: Vec<Mutex<Asker>>,
    /// The first of them are those of the instances.
    instances: u16,
    incarnation: Incarnation,
    failed: AtomicBool,
    limit: Duration,
}

/// Memory for the mailboxes of so many instances.
#[must_use]
pub fn words(instances: u16) -> usize {
    (usize::from(instances) + CHECK_MAILBOXES) * MAILBOX_WORDS
}

const fn instances(device: Device) -> u16 {
    match device {
        Device::Usig => 1,
        Device::Trinx(instances) => instances,
    }
}

impl CounterProcess {
    /// Starts the program, which has to [`serve`], and initialises the device in it. Gives it no
    /// environment: what it has to know stands among its arguments.
    ///
    /// # Errors
    /// [`BadProcess`].
    pub fn start(
        mut program: Command,
        device: Device,
        epoch: EpochId,
        member: MemberId,
        identity: &DeviceIdentity,
    ) -> Result<Arc<Self>, BadProcess> {
        if identity.seed().is_some() {
            return Err(BadProcess::OwnKey);
        }
        let (memory, file) = Memory::create(words(instances(device)))?;
        let child = program.env_clear().stdin(Stdio::piped()).stdout(file).spawn()?;
        let incarnation = identity.incarnation();
        let life = (instances(device), incarnation);
        let process = Self::over(memory, Some(child), life, ANSWER_LIMIT);
        let whose = Initialise { device, epoch, member, incarnation };
        match process.ask(0, &Question::Initialise(whose)) {
            Ok(Answer::Done) => Ok(Arc::new(process)),
            _ => Err(BadProcess::Silent),
        }
    }

    /// Whoever answers in this fresh memory: so many instances, in this life. Each answer may take
    /// so long.
    #[must_use]
    pub fn over(
        memory: Memory,
        child: Option<Child>,
        (instances, incarnation): (u16, Incarnation),
        limit: Duration,
    ) -> Self {
        let memory = Arc::new(memory);
        let mailboxes = (0..).map_while(|number| Asker::new(memory.clone(), number));
        Self {
            child: child.map(Mutex::new),
            mailboxes: mailboxes.map(Mutex::new).collect(),
            instances,
            incarnation,
            failed: AtomicBool::new(false),
            limit,
        }
    }

    /// The number of the process, if this has started one.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(|child| lock(child).id())
    }

    /// Whether it has not failed. Who does not ask for anything learns of its end here.
    #[must_use]
    pub fn is_well(&self) -> bool {
        let well = !self.failed.load(Ordering::Acquire) && self.is_running();
        if !well {
            self.fail();
        }
        well
    }

    fn is_running(&self) -> bool {
        self.child.as_ref().is_none_or(|child| matches!(lock(child).try_wait(), Ok(None)))
    }

    /// For good.
    fn fail(&self) -> Refused {
        self.failed.store(true, Ordering::Release);
        if let Some(child) = &self.child {
            // It may have ended before.
            let _ = lock(child).kill();
        }
        Refused::Unavailable
    }

    fn ask(&self, mailbox: usize, question: &Question) -> Result<Answer, Refused> {
        let mut asker = lock(self.mailboxes.get(mailbox).ok_or(Refused::Unavailable)?);
        if self.failed.load(Ordering::Acquire) {
            return Err(Refused::Unavailable);
        }
        let mut text = [0; BYTES_MAX];
        let question = question.to_bytes();
        let answer = asker.ask(&question, &mut text, self.limit, || self.is_running());
        let answer = answer.ok().and_then(|text| {
            let text = Bytes::copy_from_slice(text);
            Answer::from_bytes(&text).ok()
        });
        match answer {
            Some(Answer::Refused(refused)) => Err(refused),
            Some(answer) => Ok(answer),
            None => Err(self.fail()),
        }
    }

    /// Asks an instance, and takes what is an answer to that question.
    fn instance<T>(
        &self,
        number: u16,
        question: &Question,
        take: impl FnOnce(Answer) -> Option<T>,
    ) -> Result<T, Refused> {
        if number >= self.instances {
            return Err(Refused::Unavailable);
        }
        take(self.ask(usize::from(number), question)?).ok_or_else(|| self.fail())
    }

    /// Asks whoever has time.
    fn check(&self, question: &Question) -> bool {
        let first = usize::from(self.instances);
        let checks = first..self.mailboxes.len();
        let free = checks.clone().find(|number| self.mailboxes[*number].try_lock().is_ok());
        match self.ask(free.unwrap_or(first), question) {
            Ok(Answer::Is(is)) => is,
            Ok(_) => {
                self.fail();
                false
            }
            Err(_) => false,
        }
    }

    pub(crate) fn check_trinx(
        &self,
        context: &Digest,
        by: trinx_device::InstanceId,
        certificate: trinx_device::Certificate,
        digest: &Digest,
    ) -> bool {
        self.check(&Question::CheckTrinx(*context, by, certificate, *digest))
    }

    fn check_usig(&self, context: &Digest, member: MemberId, ui: &Ui, digest: &Digest) -> bool {
        self.check(&Question::CheckUsig(*context, member, *ui, *digest))
    }

    /// Has the one instance that there is go over to a later epoch, as a device of this kind.
    ///
    /// # Errors
    /// [`Refused`] if it was in that epoch or a later one, or has more than one instance.
    pub fn become_in(&self, device: Device, epoch: EpochId) -> Result<(), Refused> {
        self.instance(0, &Question::Become(device, epoch), |answer| {
            (answer == Answer::Done).then_some(())
        })
    }

    /// The public key with which this group's clients agree on keys with its devices.
    ///
    /// # Errors
    /// [`Refused::Unavailable`].
    pub fn session_key(&self) -> Result<[u8; 32], Refused> {
        self.instance(0, &Question::SessionKey, |answer| match answer {
            Answer::Key(key) => Some(key),
            _ => None,
        })
    }
}

impl SessionCheck for CounterProcess {
    fn check(&self, requests: &[TaggedRequest<'_>]) -> bool {
        requests.iter().all(|TaggedRequest { client, statement, tag }| {
            Self::check(self, &Question::CheckTag(**client, *statement, **tag))
        })
    }
}

impl Drop for CounterProcess {
    fn drop(&mut self) {
        if let Some(child) = &self.child {
            let mut child = lock(child);
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl fmt::Debug for CounterProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CounterProcess({}, {} instances)", self.incarnation, self.instances)
    }
}

/// What is behind these locks is whole between any two of its steps.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
