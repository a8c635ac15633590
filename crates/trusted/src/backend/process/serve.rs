//! The other side: a process that is a device, and nothing else.
//!
//! Its standard input is a pipe that ends with whoever started it, and so does the process. Its
//! standard output is the memory that both share. The first question says whose device it is; from
//! then on there is no way to make another one of it.

use super::harden;
use super::question::{Answer, Device, Initialise, Question};
use super::{CHECK_MAILBOXES, instances, words};
use crate::backend::Trinx;
use crate::backend::trinx_in_process::TrinxInProcess;
use crate::session::Sessions;
use crate::trinx;
use crate::usig::{self, GroupKey};
use pentarchy_core::Bytes;
use pentarchy_core::counter::Refused;
use pentarchy_core::digest::{Domain, EpochId};
use pentarchy_core::wire::Wire;
use pentarchy_crypto::keys::GroupSecret;
use pentarchy_crypto::secret_file::SecretFileError;
use pentarchy_crypto::verifier::{SessionCheck as _, TaggedRequest};
use pentarchy_mailbox::{Answerer, BYTES_MAX, Closed, Memory};
use std::fmt;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;
use std::thread;

/// Why a process cannot be a device, or is none any more.
#[derive(Debug)]
pub enum ServeError {
    /// The system refuses.
    System(io::Error),
    /// The secret cannot be read.
    Secret(SecretFileError),
    /// Whoever started this does not say what it has to.
    Closed,
}

impl fmt::Display for ServeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::System(error) => write!(f, "cannot be a trusted counter: {error}"),
            Self::Secret(error) => fmt::Display::fmt(error, f),
            Self::Closed => f.write_str("this is started by a replica, which says whose it is"),
        }
    }
}

impl std::error::Error for ServeError {}

impl From<io::Error> for ServeError {
    fn from(error: io::Error) -> Self {
        Self::System(error)
    }
}

impl From<Closed> for ServeError {
    fn from(Closed: Closed) -> Self {
        Self::Closed
    }
}

/// Is a device under the secret in this file, until standard input ends.
///
/// # Errors
/// [`ServeError`].
pub fn serve(secret: &Path) -> Result<(), ServeError> {
    harden::close_memory()?;
    let memory = Arc::new(Memory::open(io::stdout()).map_err(|_| ServeError::Closed)?);
    let secret = GroupSecret::load(secret).map_err(ServeError::Secret)?;
    let mut first = Answerer::new(memory.clone(), 0).ok_or(ServeError::Closed)?;
    let whose = {
        let mut text = [0; BYTES_MAX];
        match question(first.next(&mut text)?) {
            Some(Question::Initialise(whose)) => whose,
            _ => return Err(ServeError::Closed),
        }
    };
    if memory.words().len() != words(instances(whose.device)) {
        return Err(ServeError::Closed);
    }
    let mut desks = Desk::all(&secret, &whose).into_iter();
    drop(secret);
    let desk = desks.next().ok_or(ServeError::Closed)?;
    first.answer(&Answer::Done.to_bytes());
    spawn(first, desk)?;
    for (number, desk) in (1..).zip(desks) {
        spawn(Answerer::new(memory.clone(), number).ok_or(ServeError::Closed)?, desk)?;
    }
    harden::close_doors()?;
    // Nothing is ever written there; the pipe ends with the other side.
    let _ = io::stdin().read(&mut [0]);
    Ok(())
}

fn question(text: &[u8]) -> Option<Question> {
    Question::from_bytes(&Bytes::copy_from_slice(text)).ok()
}

/// Ends the process with the thread, also if that ends by a panic: half a device is none.
struct EndsAll;

impl Drop for EndsAll {
    fn drop(&mut self) {
        std::process::exit(1);
    }
}

fn spawn(answerer: Answerer, desk: Desk) -> io::Result<()> {
    thread::Builder::new().spawn(move || {
        let _ends = EndsAll;
        let Closed = desk.serve(answerer);
    })?;
    Ok(())
}

/// What answers in one mailbox.
pub struct Desk {
    serving: Serving,
    checks: Option<Checks>,
    /// Whose device it is, and in which epoch, if it can become one of another kind.
    whose: Option<Initialise>,
}

/// A device, if there is one here.
enum Serving {
    Nothing,
    Usig(Box<usig::Device>),
    /// And which instance of it.
    Trinx(Box<dyn Trinx>, u16),
}

impl Desk {
    /// Whoever answers in each mailbox: the instances, and then those who only check.
    #[must_use]
    pub fn all(secret: &GroupSecret, whose: &Initialise) -> Vec<Self> {
        let key = GroupKey::new(secret.as_bytes());
        let sessions = Sessions::new(&key, Domain::of_group(&whose.epoch.group));
        let checks = Checks { key: key.clone(), sessions: Arc::new(sessions) };
        let count = instances(whose.device);
        let instances = (0..count).map(|number| {
            let whose_alone = (count == 1).then_some(*whose);
            (Serving::instance(whose, &key, number), whose_alone)
        });
        let only_checks = (0..CHECK_MAILBOXES).map(|_| (Serving::Nothing, None));
        let desk = |(serving, whose)| Self { serving, checks: Some(checks.clone()), whose };
        instances.chain(only_checks).map(desk).collect()
    }

    /// One instance of a device of any kind, that checks by itself.
    #[must_use]
    pub fn over(device: Box<dyn Trinx>, instance: u16) -> Self {
        Self { serving: Serving::Trinx(device, instance), checks: None, whose: None }
    }

    /// Answers for as long as the other side keeps to the rules of the mailbox.
    pub fn serve(mut self, mut mailbox: Answerer) -> Closed {
        let mut text = [0; BYTES_MAX];
        loop {
            let answer = match mailbox.next(&mut text) {
                Ok(text) => self.reply(text),
                Err(closed) => return closed,
            };
            mailbox.answer(&answer);
        }
    }

    /// The answer to whatever stood in the mailbox. What nobody can answer, and what is no
    /// question, has one answer.
    pub fn reply(&mut self, text: &[u8]) -> Bytes {
        let answer = question(text).and_then(|question| self.answer(question));
        answer.unwrap_or(Answer::Refused(Refused::Unavailable)).to_bytes()
    }

    fn answer(&mut self, question: Question) -> Option<Answer> {
        match question {
            Question::BeginEpoch(epoch) => return Some(done(self.begin_epoch(epoch))),
            Question::Become(device, epoch) => return Some(done(self.become_in(device, epoch))),
            _ => {}
        }
        match &mut self.serving {
            Serving::Usig(device) => answer_usig(device, &question),
            Serving::Trinx(device, number) => answer_trinx(&mut **device, *number, &question),
            Serving::Nothing => None,
        }
        .or_else(|| self.checks.as_ref()?.answer(&question))
    }
}

impl Desk {
    fn begin_epoch(&mut self, epoch: EpochId) -> Result<(), Refused> {
        self.serving.begin_epoch(&epoch)?;
        if let Some(whose) = &mut self.whose {
            whose.epoch = epoch;
        }
        Ok(())
    }

    /// Goes over to an epoch behind all in which this was a device, as a fresh one of this kind. So
    /// in each epoch it is of one kind.
    fn become_in(&mut self, device: Device, epoch: EpochId) -> Result<(), Refused> {
        let (Some(whose), Some(checks)) = (self.whose, &self.checks) else {
            return Err(Refused::Unavailable);
        };
        let is_later = epoch.epoch > whose.epoch.epoch;
        if instances(device) != 1 || !is_later {
            return Err(Refused::Spent);
        }
        self.serving.begin_epoch(&epoch)?;
        let whose = Initialise { device, epoch, ..whose };
        self.serving = Serving::instance(&whose, &checks.key, 0);
        self.whose = Some(whose);
        Ok(())
    }
}

impl Serving {
    /// An instance of a device that has certified nothing.
    fn instance(whose: &Initialise, key: &GroupKey, number: u16) -> Self {
        let Initialise { device, epoch, member, incarnation } = *whose;
        match device {
            Device::Usig => {
                let key = usig::Key::Group(key.clone());
                Self::Usig(Box::new(usig::Device::new(epoch, member, incarnation, key)))
            }
            Device::Trinx(_) => {
                let one = TrinxInProcess::one(key, epoch, member, incarnation, number);
                Self::Trinx(Box::new(one), number)
            }
        }
    }

    /// Goes over to a later epoch.
    fn begin_epoch(&mut self, epoch: &EpochId) -> Result<(), Refused> {
        match self {
            Self::Nothing => Err(Refused::Unavailable),
            Self::Usig(device) => device.begin_epoch(epoch),
            Self::Trinx(device, number) => device.begin_epoch(*number, epoch),
        }
    }
}

fn answer_usig(device: &mut usig::Device, question: &Question) -> Option<Answer> {
    Some(match question {
        Question::Create(position, digest) => {
            device.create(*position, digest).map_or_else(Answer::Refused, Answer::Ui)
        }
        Question::RecallUsig => Answer::UsigMemory(device.memory()),
        Question::RestoreUsig(memory) => done(device.restore(memory)),
        _ => return None,
    })
}

fn answer_trinx(device: &mut dyn Trinx, number: u16, question: &Question) -> Option<Answer> {
    Some(match question {
        Question::Certify(ask, digest) => {
            device.certify(number, ask, digest).map_or_else(Answer::Refused, Answer::Certificate)
        }
        Question::Recall => Answer::Memory(device.memory(number).map(Box::new)),
        Question::Restore(memory) => done(device.restore(number, memory)),
        Question::CheckTrinx(context, by, certificate, digest) => {
            Answer::Is(device.verify(context, *by, certificate, digest))
        }
        _ => return None,
    })
}

fn done(outcome: Result<(), Refused>) -> Answer {
    outcome.map_or_else(Answer::Refused, |()| Answer::Done)
}

/// What a device checks that others made.
#[derive(Clone)]
struct Checks {
    key: GroupKey,
    sessions: Arc<Sessions>,
}

impl Checks {
    fn answer(&self, question: &Question) -> Option<Answer> {
        Some(match question {
            Question::CheckTrinx(context, by, certificate, digest) => {
                Answer::Is(trinx::is_certified(&self.key, context, *by, certificate, digest))
            }
            Question::CheckUsig(context, member, ui, digest) => {
                Answer::Is(usig::is_certified(&self.key, context, *member, ui, digest))
            }
            Question::CheckTag(client, statement, tag) => {
                let request = TaggedRequest { client, statement: *statement, tag };
                Answer::Is(self.sessions.check(&[request]))
            }
            Question::SessionKey => Answer::Key(self.sessions.public_key()),
            _ => return None,
        })
    }
}
