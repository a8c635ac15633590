//! Operations that are more than one command, what they result in, and what a gateway is told
//! unasked. All integers are little-endian; `command` is `count:u32 (length:u32 bytes){count}`.
//!
//! ```text
//! operation := 0x01 count:u32 command{count}                              pack
//!            | 0x02 watch? count:u32 command{count}                       transaction
//!            | 0x03 instance:u64 request                                  session
//! watch?    := 0 | 1 instance:u64 token:u64
//!
//! pack's result        := count:u32 (length:u32 reply){count}
//! transaction's result := 0 count:u32 (length:u32 reply){count} | 1       1: a watched key changed
//! session's result     := 0 reply | 1 | 2                                 1: waits, 2: no session
//! event                := 1 instance:u64 token:u64 reply | 2 channel payload
//! ```

use super::super::command::{Args, Command};
use super::super::error::Error;
use super::super::reply::Reply;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

pub(crate) const PACK: u8 = 1;
pub(crate) const TRANSACTION: u8 = 2;
pub(crate) const SESSION: u8 = 3;

/// Bytes of an encoded pack before its commands.
pub const PACK_HEADER_BYTES: usize = 5;

/// Bytes of an encoded transaction before its commands, at most.
pub const TRANSACTION_HEADER_BYTES: usize = 22;

/// Several commands of one connection, executed one after the other in this order. Each is what
/// [`Command::to_operation`] gives, without its first byte. The replicas stop early, after at
/// least one command, when the replies are many bytes already; what has no reply was not executed.
#[must_use]
pub fn pack<'a>(commands: impl ExactSizeIterator<Item = &'a [u8]>) -> Bytes {
    let mut to = Writer::default();
    to.u8(PACK);
    write_commands(commands, &mut to);
    to.into_bytes()
}

/// Several commands executed at once or, if a key watched under the given instance and token
/// changed, not at all. Commands as in [`pack`].
#[must_use]
pub fn transaction<'a>(
    watch: Option<(u64, u64)>,
    commands: impl ExactSizeIterator<Item = &'a [u8]>,
) -> Bytes {
    let mut to = Writer::default();
    to.u8(TRANSACTION);
    match watch {
        None => to.u8(0),
        Some((instance, token)) => {
            to.u8(1);
            to.u64(instance);
            to.u64(token);
        }
    }
    write_commands(commands, &mut to);
    to.into_bytes()
}

fn write_commands<'a>(commands: impl ExactSizeIterator<Item = &'a [u8]>, to: &mut Writer) {
    to.u32(u32::try_from(commands.len()).expect("commands of ours fit their limit"));
    commands.for_each(|command| to.array(command));
}

/// The commands behind a count.
pub(crate) fn read_commands(bytes: &[u8]) -> Result<Vec<Args<'_>>, Malformed> {
    let (count, mut rest) = bytes.split_first_chunk().ok_or(Malformed)?;
    let count = u32::from_le_bytes(*count) as usize;
    // A command takes nine bytes at least, so a count beyond that is a lie.
    if count > rest.len() / 9 {
        return Err(Malformed);
    }
    let mut commands = Vec::with_capacity(count);
    for _ in 0..count {
        let (args, after) = Args::split(rest)?;
        commands.push(args);
        rest = after;
    }
    if rest.is_empty() { Ok(commands) } else { Err(Malformed) }
}

/// The replies of a pack or of a transaction.
pub(crate) fn write_replies(replies: &[Vec<u8>], to: &mut Vec<u8>) {
    // As many as commands, and together below the largest result.
    to.extend_from_slice(&(replies.len() as u32).to_le_bytes());
    for reply in replies {
        to.extend_from_slice(&(reply.len() as u32).to_le_bytes());
        to.extend_from_slice(reply);
    }
}

/// The replies in a pack's result.
///
/// # Errors
/// [`Malformed`] if the bytes are no such result.
pub fn pack_replies(result: &Bytes) -> Result<Vec<Bytes>, Malformed> {
    let mut from = Reader::new(result);
    let replies = from.sequence(OPERATION_BYTES_MAX)?;
    from.finish().map(|()| replies)
}

/// The replies in a transaction's result; `None` if a watched key changed, so that nothing was
/// executed.
///
/// # Errors
/// [`Malformed`] if the bytes are no such result.
pub fn transaction_replies(result: &Bytes) -> Result<Option<Vec<Bytes>>, Malformed> {
    match result.first() {
        Some(0) => pack_replies(&result.slice(1..)).map(Some),
        Some(1) if result.len() == 1 => Ok(None),
        _ => Err(Malformed),
    }
}

/// What kind of name a subscription is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Topic {
    /// A channel of exactly this name.
    Channel,
    /// All channels whose name matches, see [`super::super::glob`].
    Pattern,
}

/// How many connections of a gateway are subscribed to a name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Subscription {
    /// What kind of name it is.
    pub topic: Topic,
    /// The name.
    pub name: Bytes,
    /// How many there are; 0 forgets the name.
    pub count: u32,
}

impl Wire for Subscription {
    fn encode(&self, to: &mut Writer) {
        to.u8(u8::from(self.topic == Topic::Pattern));
        to.bytes(&self.name);
        to.u32(self.count);
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        let topic = match from.u8()? {
            0 => Topic::Channel,
            1 => Topic::Pattern,
            _ => return Err(Malformed),
        };
        Ok(Self { topic, name: from.bytes(OPERATION_BYTES_MAX)?, count: from.u32()? })
    }
}

/// What a gateway asks of its session.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Request {
    /// Begin a new session, and forget all of an earlier one. The reply is the new instance, an
    /// integer. The instance of the operation itself is not looked at.
    Open,
    /// Renew the lease; set the counts of subscriptions, unless an update with a higher version
    /// came before; forget the watches and the waiters of these tokens.
    Update {
        /// Ascending.
        version: u64,
        /// What ends and what is known already is set first. Then what is new, all of it or, if
        /// there would be too much, none. A name too long refuses all.
        subscriptions: Vec<Subscription>,
        /// Watches to forget.
        watches: Vec<u64>,
        /// Waiters to forget.
        waiters: Vec<u64>,
    },
    /// Remember from now on whether one of these keys changes.
    Watch {
        /// Of the connection.
        token: u64,
        /// More of them may follow under the same token.
        keys: Vec<Bytes>,
    },
    /// Execute a blocking command now, or wait until it can be.
    Block {
        /// Used once.
        token: u64,
        /// The command.
        command: Command,
    },
    /// End the session. All that it registered is gone.
    Close,
    /// Do not wait any more. The reply is 1 if it still waited, else 0; then it was served, and an
    /// event says so.
    Cancel {
        /// Of the waiter.
        token: u64,
    },
}

impl Request {
    /// The operation of a session.
    #[must_use]
    pub fn to_operation(&self, instance: u64) -> Bytes {
        let mut to = Writer::default();
        to.u8(SESSION);
        to.u64(instance);
        match self {
            Self::Open => to.u8(0),
            Self::Update { version, subscriptions, watches, waiters } => {
                to.u8(1);
                to.u64(*version);
                to.sequence(subscriptions);
                write_tokens(watches, &mut to);
                write_tokens(waiters, &mut to);
            }
            Self::Watch { token, keys } => {
                to.u8(2);
                to.u64(*token);
                to.sequence(keys);
            }
            Self::Block { token, command } => {
                to.u8(3);
                to.u64(*token);
                command.encode(&mut to);
            }
            Self::Cancel { token } => {
                to.u8(4);
                to.u64(*token);
            }
            Self::Close => to.u8(5),
        }
        to.into_bytes()
    }

    /// Reads an operation behind its tag: the instance, and what is asked.
    pub(crate) fn read(bytes: &[u8]) -> Result<(u64, Self), Malformed> {
        let bytes = Bytes::copy_from_slice(bytes);
        let mut from = Reader::new(&bytes);
        let instance = from.u64()?;
        let request = match from.u8()? {
            0 => Self::Open,
            1 => Self::Update {
                version: from.u64()?,
                subscriptions: from.sequence(OPERATION_BYTES_MAX)?,
                watches: read_tokens(&mut from)?,
                waiters: read_tokens(&mut from)?,
            },
            2 => Self::Watch { token: from.u64()?, keys: from.sequence(OPERATION_BYTES_MAX)? },
            3 => Self::Block { token: from.u64()?, command: Command::decode(&mut from)? },
            4 => Self::Cancel { token: from.u64()? },
            5 => Self::Close,
            _ => return Err(Malformed),
        };
        from.finish().map(|()| (instance, request))
    }
}

fn write_tokens(tokens: &[u64], to: &mut Writer) {
    to.u32(u32::try_from(tokens.len()).expect("tokens of ours fit their limit"));
    tokens.iter().for_each(|token| to.u64(*token));
}

fn read_tokens(from: &mut Reader<'_>) -> Result<Vec<u64>, Malformed> {
    let count = from.u32()? as usize;
    if count > from.remaining() / 8 {
        return Err(Malformed);
    }
    (0..count).map(|_| from.u64()).collect()
}

/// What came of a session's request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Answer {
    /// An encoded reply.
    Reply(Bytes),
    /// It waits; an event follows.
    Waits,
    /// There is no such session, or not any more. Nothing was done.
    NoSession,
}

impl Answer {
    pub(crate) fn of(reply: &Reply) -> Self {
        Self::Reply(reply.encode().into())
    }

    pub(crate) fn error(error: &Error) -> Self {
        Self::of(&Reply::from(error))
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Reply(reply) => [&[0], &reply[..]].concat(),
            Self::Waits => [1].into(),
            Self::NoSession => [2].into(),
        }
    }

    /// Reads a session's result.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no such result.
    pub fn read(result: &Bytes) -> Result<Self, Malformed> {
        match &result[..] {
            [0, ..] => Ok(Self::Reply(result.slice(1..))),
            [1] => Ok(Self::Waits),
            [2] => Ok(Self::NoSession),
            _ => Err(Malformed),
        }
    }
}

/// What a gateway is told unasked.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Notice {
    /// A waiter was served.
    Served {
        /// Of the session in which it waited.
        instance: u64,
        /// Of the waiter.
        token: u64,
        /// Its encoded reply.
        reply: Bytes,
    },
    /// Something was published on a channel to which, or to a pattern of which, the gateway is
    /// subscribed.
    Message {
        /// The channel.
        channel: Bytes,
        /// What was published.
        payload: Bytes,
    },
}

impl Notice {
    pub(crate) fn encode(&self) -> Bytes {
        let mut to = Writer::default();
        match self {
            Self::Served { instance, token, reply } => {
                to.u8(1);
                to.u64(*instance);
                to.u64(*token);
                to.bytes(reply);
            }
            Self::Message { channel, payload } => {
                to.u8(2);
                to.bytes(channel);
                to.bytes(payload);
            }
        }
        to.into_bytes()
    }

    /// Reads the body of an event.
    ///
    /// # Errors
    /// [`Malformed`] if the bytes are no such event.
    pub fn read(body: &Bytes) -> Result<Self, Malformed> {
        let mut from = Reader::new(body);
        let notice = match from.u8()? {
            1 => Self::Served {
                instance: from.u64()?,
                token: from.u64()?,
                reply: from.bytes(2 * OPERATION_BYTES_MAX)?,
            },
            2 => Self::Message {
                channel: from.bytes(OPERATION_BYTES_MAX)?,
                payload: from.bytes(OPERATION_BYTES_MAX)?,
            },
            _ => return Err(Malformed),
        };
        from.finish().map(|()| notice)
    }
}
