//! The state of a connection and the commands that change it.

use super::super::encoder::{Encoder, Resp};
use super::super::inbox::Message;
use super::super::shared::Shared;
use super::{Entry, fail, is};
use bytes::Bytes;
use pentarchy_services::kv::number::parse_i64;
use pentarchy_services::kv::session::{Topic, key_cost};
use pentarchy_services::kv::{Error, database};
use std::collections::BTreeSet;
use std::net::SocketAddr;

/// Bytes of a name that a client gives itself or its library.
const NAME_BYTES_MAX: usize = 256;

/// The version of Redis whose commands and errors are spoken. Clients choose features by it.
pub(super) const REDIS_VERSION: &str = "7.0.15";

/// A command of a transaction that is not executed yet.
pub(crate) enum Queued {
    /// As it is encoded.
    Replicas(Bytes),
    /// With its words.
    Here(&'static Entry, Vec<Vec<u8>>),
    /// There is nothing to forget by then.
    Unwatch,
}

/// What came since `MULTI`.
#[derive(Default)]
pub(crate) struct Transaction {
    pub queued: Vec<Queued>,
    pub bytes: usize,
    /// A command was refused, so none will be executed.
    pub aborted: bool,
}

/// Which replies a client wants to see.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub(super) enum Replies {
    #[default]
    All,
    None,
    /// All but the one to the next command.
    SkipNext,
    /// All but the one to this command.
    SkipThis,
}

/// What a client said about itself, and what it has begun.
pub(crate) struct Session {
    pub id: u64,
    pub resp: Resp,
    /// It may do everything.
    pub authenticated: bool,
    /// It has just said a wrong password.
    pub guessed_wrong: bool,
    /// It said good-bye.
    pub quits: bool,
    pub transaction: Option<Transaction>,
    /// It watches something.
    pub watches: bool,
    /// What that costs at the replicas.
    pub watched_bytes: u64,
    pub(super) replies: Replies,
    subscriptions: BTreeSet<(Topic, Bytes)>,
    pub(super) name: Vec<u8>,
    pub(super) client_library: Vec<u8>,
    pub(super) client_version: Vec<u8>,
    peer: SocketAddr,
    local: SocketAddr,
}

impl Session {
    pub fn new(id: u64, (peer, local): (SocketAddr, SocketAddr), shared: &Shared) -> Self {
        Self {
            id,
            resp: Resp::Two,
            authenticated: shared.config.password.is_none(),
            guessed_wrong: false,
            quits: false,
            transaction: None,
            watches: false,
            watched_bytes: 0,
            replies: Replies::All,
            subscriptions: BTreeSet::new(),
            name: Vec::new(),
            client_library: Vec::new(),
            client_version: Vec::new(),
            peer,
            local,
        }
    }

    /// As `CLIENT LIST` shows it.
    pub fn line(&self) -> String {
        let text = String::from_utf8_lossy;
        format!(
            "id={} addr={} laddr={} name={} db=0 sub={} psub={} \
             user=default lib-name={} lib-ver={} \
             resp={}\n",
            self.id,
            self.peer,
            self.local,
            text(&self.name),
            self.count(Topic::Channel),
            self.count(Topic::Pattern),
            text(&self.client_library),
            text(&self.client_version),
            self.resp.number(),
        )
    }

    /// The address at which the client has found the gateway.
    pub const fn local(&self) -> SocketAddr {
        self.local
    }

    fn count(&self, wanted: Topic) -> usize {
        self.subscriptions.iter().filter(|(topic, _)| *topic == wanted).count()
    }

    /// What its subscriptions cost at the replicas.
    pub fn subscribed_bytes(&self) -> u64 {
        self.subscriptions.iter().map(|(_, name)| key_cost(name)).sum()
    }

    /// Begins anew.
    pub fn reset(&mut self, shared: &Shared) {
        self.resp = Resp::Two;
        self.authenticated = shared.config.password.is_none();
        self.replies = Replies::All;
        self.name.clear();
        shared.describe(self.id, self.line());
    }

    /// A command begins: the one before may have asked not to see its reply.
    pub fn skip_next(&mut self) {
        self.replies = match self.replies {
            Replies::SkipNext => Replies::SkipThis,
            Replies::SkipThis => Replies::All,
            other => other,
        };
    }

    /// Whether the client does not want to see the reply to this command.
    pub fn is_silent(&self) -> bool {
        matches!(self.replies, Replies::None | Replies::SkipThis)
    }

    /// Whether it is subscribed in version 2, in which messages cannot be told from replies.
    pub fn is_restricted(&self) -> bool {
        self.resp == Resp::Two && !self.subscriptions.is_empty()
    }

    /// Channels and patterns.
    pub fn subscriptions_len(&self) -> usize {
        self.subscriptions.len()
    }

    /// All of them.
    pub fn subscriptions(&self) -> Vec<(Topic, Bytes)> {
        self.subscriptions.iter().cloned().collect()
    }

    /// Says whether it is new.
    pub fn begin_subscription(&mut self, topic: Topic, name: &Bytes) -> bool {
        self.subscriptions.insert((topic, name.clone()))
    }

    /// Says whether there was one.
    pub fn end_subscription(&mut self, topic: Topic, name: &Bytes) -> bool {
        self.subscriptions.remove(&(topic, name.clone()))
    }

    /// Whether it still wants a message.
    pub fn is_subscribed(&self, message: &Message) -> bool {
        let entry = match &message.pattern {
            Some(pattern) => (Topic::Pattern, pattern.clone()),
            None => (Topic::Channel, message.channel.clone()),
        };
        self.subscriptions.contains(&entry)
    }

    /// Takes a name if it fits on a line without spaces.
    pub(super) fn set_name(&mut self, name: &[u8], shared: &Shared) -> Result<(), Error> {
        self.name = checked_name(name, "Client names")?;
        shared.describe(self.id, self.line());
        Ok(())
    }

    /// Takes the name or the version of the client's library.
    pub(super) fn set_library(
        &mut self,
        what: &[u8],
        value: &[u8],
        shared: &Shared,
    ) -> Result<(), Error> {
        if is(what, "LIB-NAME") {
            self.client_library = checked_name(value, "lib-name")?;
        } else if is(what, "LIB-VER") {
            self.client_version = checked_name(value, "lib-ver")?;
        } else {
            let what = String::from_utf8_lossy(&what[..what.len().min(64)]).into_owned();
            return Err(Error::other(format!("Unrecognized option '{what}'")));
        }
        shared.describe(self.id, self.line());
        Ok(())
    }
}

fn checked_name(name: &[u8], what: &str) -> Result<Vec<u8>, Error> {
    if !name.iter().all(u8::is_ascii_graphic) {
        let rule = "cannot contain spaces, newlines or special characters.";
        return Err(Error::other(format!("{what} {rule}")));
    }
    if name.len() > NAME_BYTES_MAX {
        return Err(Error::other(format!("{what} cannot be longer than {NAME_BYTES_MAX} bytes.")));
    }
    Ok(name.to_vec())
}

pub fn ping(session: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match args {
        // A subscriber of version 2 reads nothing but arrays.
        [_, rest @ ..] if rest.len() < 2 && session.is_restricted() => {
            out.array(2);
            out.text("pong");
            out.bulk(rest.first().copied().unwrap_or_default());
        }
        [_] => out.status("PONG"),
        [_, message] => out.bulk(message),
        _ => fail(out, &Error::wrong_arity("ping")),
    }
}

pub fn echo(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    out.bulk(args[1]);
}

pub fn quit(session: &mut Session, _: &Shared, _: &[&[u8]], out: &mut Encoder<'_>) {
    session.quits = true;
    out.ok();
}

pub fn select(_: &mut Session, _: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match database(args[1]) {
        Ok(0) => out.ok(),
        Ok(_) => fail(out, &Error::other("DB index is out of range")),
        Err(error) => fail(out, &error),
    }
}

pub fn wait(_: &mut Session, shared: &Shared, args: &[&[u8]], out: &mut Encoder<'_>) {
    match (parse_i64(args[1]), parse_i64(args[2])) {
        (Some(_), Some(timeout)) if timeout < 0 => {
            fail(out, &Error::other("timeout is negative"));
        }
        (Some(_), Some(_)) => out.int(shared.config.copies.into()),
        (Some(_), None) => fail(out, &Error::other("timeout is not an integer or out of range")),
        (None, _) => fail(out, &Error::other("value is not an integer or out of range")),
    }
}
