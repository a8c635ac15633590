//! What a connection has yet to do, and what it has yet to say.

use super::backend::BackendError;
use super::encoder::Resp;
use super::inbox::Outcome;
use bytes::Bytes;
use pentarchy_services::kv::session::{Topic, pack_replies, transaction_replies};
use pentarchy_services::kv::{Command, CommandInfo, Reply};
use tokio::time::Instant;

/// One command's work for the replicas.
pub(crate) enum Work {
    /// A command as it is encoded, tag and all.
    Command(&'static CommandInfo, Bytes),
    /// Commands to execute at once, each encoded, and whether something is watched.
    Exec(Vec<Bytes>, bool),
    /// Keys to watch.
    Watch(Vec<Bytes>),
    /// Forget what is watched.
    Unwatch,
    /// A command that may wait, and for how many milliseconds.
    Block(Command, Option<u64>),
    /// Begin (`true`) or end subscriptions.
    Subscribe(Vec<(Topic, Bytes, bool)>),
}

impl Work {
    /// Bytes that it holds.
    pub fn length(&self) -> usize {
        match self {
            Self::Command(_, operation) => operation.len(),
            Self::Exec(commands, _) => commands.iter().map(Bytes::len).sum(),
            Self::Watch(keys) => keys.iter().map(Bytes::len).sum(),
            Self::Unwatch => 0,
            Self::Block(command, _) => command.args.iter().map(Bytes::len).sum(),
            Self::Subscribe(changes) => changes.iter().map(|(_, name, _)| name.len()).sum(),
        }
    }
}

/// What the replicas have of this connection's work.
pub(crate) struct Flight {
    pub stage: Stage,
    /// When something must be done about it.
    pub deadline: Option<Instant>,
}

/// How far it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// So many commands at the front of the work, as one operation.
    Pack(usize),
    /// The operation at the front of the work.
    Single,
    /// A command that may wait, since when and for how long, was handed over.
    Blocking(u64, Option<Instant>),
    /// It waits.
    Waiting(u64),
    /// It is to wait no more.
    Cancelling(u64),
}

/// What the next reply will be.
pub(crate) enum Expected {
    /// Made here, but behind others.
    Local(Bytes),
    /// The next settled work, rendered for a version.
    Result {
        render: Render,
        resp: Resp,
        /// The client does not want to see it.
        silent: bool,
        /// Of the work, in bytes.
        length: usize,
    },
}

/// How a settled work becomes a reply.
pub(crate) enum Render {
    /// The reply to one command.
    Reply,
    /// The replies to the commands of a transaction; those that were made here are there already.
    Exec(Vec<Option<Bytes>>),
    /// What was written in advance, or the error in its place.
    Written(Bytes),
    /// The same for subscriptions. An error ends the connection.
    Subscribed(Bytes),
}

impl Render {
    /// Bytes of what was made in advance.
    pub fn length(&self) -> usize {
        match self {
            Self::Reply => 0,
            Self::Exec(slots) => slots.iter().flatten().map(Bytes::len).sum(),
            Self::Written(reply) | Self::Subscribed(reply) => reply.len(),
        }
    }
}

/// What came of a work.
pub(crate) enum Settled {
    Reply(Bytes),
    /// Of a transaction; `None` if it was not executed.
    Replies(Option<Vec<Bytes>>),
    Failed(&'static str),
}

/// What the replicas sent makes no sense.
const NONSENSE: &str = "ERR the replicas run a service that is not the key-value store";

impl Settled {
    pub const fn failed(error: BackendError) -> Self {
        Self::Failed(error.line())
    }

    /// Of one command or a session's request.
    pub fn single(outcome: Outcome) -> Self {
        match outcome {
            Outcome::Result(Ok(reply)) => Self::Reply(reply),
            Outcome::Result(Err(error)) => Self::failed(error),
            Outcome::Refused(line) => Self::Failed(line),
            Outcome::Waits => Self::Failed(NONSENSE),
        }
    }

    /// Of a transaction.
    pub fn transaction(outcome: Outcome, count: usize) -> Self {
        match outcome {
            Outcome::Result(Ok(result)) => match transaction_replies(&result) {
                Ok(Some(replies)) if replies.len() != count => Self::Failed(NONSENSE),
                Ok(replies) => Self::Replies(replies),
                Err(_) => Self::Reply(result),
            },
            other => Self::single(other),
        }
    }

    /// Of the commands of a pack, those that were executed.
    pub fn pack(outcome: Outcome, count: usize) -> Vec<Self> {
        match outcome {
            Outcome::Result(Ok(result)) => match pack_replies(&result) {
                Ok(replies) if (1..=count).contains(&replies.len()) => {
                    replies.into_iter().map(Self::Reply).collect()
                }
                _ => (0..count).map(|_| Self::Failed(NONSENSE)).collect(),
            },
            other => {
                let Self::Failed(line) = Self::single(other) else { return Vec::new() };
                (0..count).map(|_| Self::Failed(line)).collect()
            }
        }
    }

    /// Why there is no reply, if there is none.
    pub const fn failure(&self) -> Option<&'static str> {
        match self {
            Self::Failed(line) => Some(line),
            Self::Reply(_) | Self::Replies(_) => None,
        }
    }

    /// Bytes that it holds.
    pub fn length(&self) -> usize {
        match self {
            Self::Reply(reply) => reply.len(),
            Self::Replies(replies) => replies.iter().flatten().map(Bytes::len).sum(),
            Self::Failed(_) => 0,
        }
    }

    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        match self {
            Self::Failed(_) => true,
            Self::Reply(reply) => matches!(Reply::decode(reply), Ok(Reply::Error(..)) | Err(_)),
            Self::Replies(_) => false,
        }
    }
}
