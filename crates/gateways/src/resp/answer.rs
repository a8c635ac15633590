//! What is done with one command: answered here, handed on, or kept for a transaction.

use super::backend::{Backend, BackendError};
use super::connection::{Connection, Intake};
use super::encoder::Encoder;
use super::local::{self, Entry, Queued, Run, Special, Transaction};
use super::work::{Render, Work};
use bytes::{Bytes, BytesMut};
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_services::kv::command::{self, Args};
use pentarchy_services::kv::session::{
    TRANSACTION_COMMANDS_MAX, TRANSACTION_HEADER_BYTES, TRANSACTION_REPLIES_BYTES_MAX, Topic,
    is_blocking,
};
use pentarchy_services::kv::{Command, CommandInfo, Error, KEY_BYTES_MAX, glob, registry, session};
use std::sync::atomic::Ordering::Relaxed;

/// Operations share allocations of this size.
const OPERATIONS_BYTES: usize = 16 << 10;

/// Channels and patterns to which one connection may be subscribed.
const SUBSCRIPTIONS_MAX: usize = 4096;

/// What one connection may have watched, be subscribed to, or wait for: each key and name its bytes
/// and 96. All connections of a gateway share 4 MiB at the replicas.
const SHARE_BYTES_MAX: u64 = 256 << 10;

const SHARE_USED: &str = "ERR a connection may watch, be subscribed to or wait for 262144 bytes of \
                          keys and names, each counted as 96 bytes more";

/// What a queued command costs beside its bytes.
const QUEUED_COST: usize = 16;

const TOO_MUCH_HERE: &str = "ERR not executed: the gateway's own replies in one EXEC are more than \
                             1572864 bytes";
const NO_AUTH: &str = "NOAUTH Authentication required.";
const ABORTED: &str = "EXECABORT Transaction discarded because of previous errors.";

/// A command that is known, and whose words can be right.
enum Found {
    Replicas(&'static CommandInfo),
    Here(&'static Entry),
}

/// Whether this is what an HTTP request has where a command's name is expected: no client of Redis
/// sends it, and the lines that follow are whatever a web page wants. Redis looks at the same two.
fn is_of_http(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

fn find(args: &Args<'_>) -> Result<Found, Error> {
    let (info, found) = match (registry::lookup(args[0]), local::lookup(args[0])) {
        (Some(info), _) => (info, Found::Replicas(info)),
        (None, Some(entry)) => (&entry.info, Found::Here(entry)),
        (None, None) => return Err(Error::unknown_command(args)),
    };
    if !info.takes(args.len()) {
        return Err(Error::wrong_arity(info.name));
    }
    local::check_subcommand(args)?;
    Ok(found)
}

impl<B: Backend> Connection<B> {
    /// Answers one command here, or hands it on.
    pub fn answer(&mut self, args: &Args<'_>) {
        if is_of_http(args[0]) {
            return self.hang_up("POST or Host: as a command");
        }
        self.shared.counters.commands.fetch_add(1, Relaxed);
        self.session.skip_next();
        let found = match find(args) {
            Ok(found) => found,
            Err(error) if args[0].eq_ignore_ascii_case(b"exec") => {
                self.session.transaction = None;
                let line = format!("EXECABORT Transaction discarded because of: {}", error.message);
                return self.unwatch(|out| out.error(&line));
            }
            Err(error) => return self.refuse(&error.to_string()),
        };
        let special = match &found {
            Found::Here(Entry { run: Run::Special(special), .. }) => Some(*special),
            _ => None,
        };
        let entry_is_open = matches!(&found, Found::Here(entry) if entry.open);
        if !self.session.authenticated && !entry_is_open {
            return self.refuse(NO_AUTH);
        }
        if self.session.is_restricted() && !matches!(&found, Found::Here(e) if e.subscribed) {
            let name = String::from_utf8_lossy(args[0]).to_ascii_lowercase();
            return self.refuse(&format!(
                "ERR Can't execute '{name}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT \
                 / RESET are allowed in this context"
            ));
        }
        match (found, special) {
            (_, Some(special)) => self.do_special(special, args),
            (found, None) if self.session.transaction.is_some() => self.queue(&found, args),
            (Found::Replicas(info), None) if is_blocking(info) => self.block(args),
            (Found::Replicas(info), None) => {
                let operation = self.encoded(args);
                self.expect(Work::Command(info, operation), Render::Reply);
            }
            (Found::Here(entry), None) => self.run_here(entry, args),
        }
        if self.session.quits {
            self.intake = Intake::Closed;
        }
    }

    fn run_here(&mut self, entry: &'static Entry, args: &[&[u8]]) {
        let shared = self.shared.clone();
        if let Run::Here(run) = entry.run {
            self.reply_here(|session, out| run(session, &shared, args, out));
        }
    }

    /// Refuses a command that was too large to be kept.
    pub fn refuse_unread(&mut self) {
        self.shared.counters.commands.fetch_add(1, Relaxed);
        self.session.skip_next();
        self.refuse(BackendError::TooLarge.line());
    }

    /// Refuses a command, and with it the transaction that it was for.
    fn refuse(&mut self, line: &str) {
        if let Some(transaction) = &mut self.session.transaction {
            transaction.aborted = true;
        }
        self.reply_here(|_, out| out.error(line));
    }

    fn encoded(&mut self, args: &Args<'_>) -> Bytes {
        let length = encoded_length(args);
        if self.operations.capacity() < length {
            self.operations.reserve(length.max(OPERATIONS_BYTES));
        }
        command::encode(args.iter().copied(), &mut self.operations);
        self.operations.split().freeze()
    }

    fn block(&mut self, args: &Args<'_>) {
        match session::timeout_millis(args) {
            Err(error) => self.refuse(&error.to_string()),
            Ok(_) if args.iter().map(|arg| arg.len() as u64).sum::<u64>() > SHARE_BYTES_MAX => {
                self.refuse(SHARE_USED);
            }
            Ok(timeout) => {
                self.expect(Work::Block(Command::new(args), timeout), Render::Reply);
            }
        }
    }

    fn queue(&mut self, found: &Found, args: &Args<'_>) {
        let length = encoded_length(args) + QUEUED_COST;
        let queued = match found {
            Found::Replicas(_) => Queued::Replicas(self.encoded(args)),
            Found::Here(Entry { transacted: false, .. }) => {
                return self.refuse("ERR Command not allowed inside a transaction");
            }
            Found::Here(entry) => {
                Queued::Here(entry, args.iter().map(|arg| arg.to_vec()).collect())
            }
        };
        let Some(transaction) = &mut self.session.transaction else { return };
        transaction.bytes += length;
        if transaction.bytes + TRANSACTION_HEADER_BYTES > OPERATION_BYTES_MAX {
            transaction.queued.clear();
            let line = format!("ERR transaction is larger than {OPERATION_BYTES_MAX} bytes");
            return self.refuse(&line);
        }
        if transaction.queued.len() >= TRANSACTION_COMMANDS_MAX {
            transaction.queued.clear();
            let line = format!("ERR transaction has more than {TRANSACTION_COMMANDS_MAX} commands");
            return self.refuse(&line);
        }
        transaction.queued.push(queued);
        self.reply_here(|_, out| out.status("QUEUED"));
    }

    fn do_special(&mut self, special: Special, args: &Args<'_>) {
        match special {
            Special::Multi if self.session.transaction.is_some() => {
                self.reply_here(|_, out| out.error("ERR MULTI calls can not be nested"));
            }
            Special::Multi => {
                self.session.transaction = Some(Transaction::default());
                self.reply_here(|_, out| out.ok());
            }
            Special::Exec => self.exec(),
            Special::Discard => match self.session.transaction.take() {
                None => self.reply_here(|_, out| out.error("ERR DISCARD without MULTI")),
                Some(_) => self.unwatch(|out| out.ok()),
            },
            Special::Watch if self.session.transaction.is_some() => {
                self.reply_here(|_, out| out.error("ERR WATCH inside MULTI is not allowed"));
            }
            Special::Watch => {
                if args[1..].iter().any(|key| key.len() > KEY_BYTES_MAX) {
                    return self.refuse("ERR key is longer than 65536 bytes");
                }
                let bytes = args[1..].iter().map(|key| session::key_cost(key)).sum::<u64>();
                let before = if self.session.watches { self.session.watched_bytes } else { 0 };
                if before + bytes > SHARE_BYTES_MAX {
                    return self.refuse(SHARE_USED);
                }
                self.session.watched_bytes = before + bytes;
                self.session.watches = true;
                let keys = args[1..].iter().map(|key| Bytes::copy_from_slice(key)).collect();
                let ok = self.made(|_, out| out.ok());
                self.expect(Work::Watch(keys), Render::Written(ok));
            }
            Special::Unwatch if self.session.transaction.is_some() => {
                // It has nothing to forget once the transaction begins.
                self.queue_unwatch();
            }
            Special::Unwatch => self.unwatch(|out| out.ok()),
            Special::Subscribe(_, _) if self.session.transaction.is_some() => {
                self.refuse("ERR Command not allowed inside a transaction");
            }
            Special::Subscribe(topic, true) => self.subscribe(topic, &args[1..]),
            Special::Subscribe(topic, false) => self.unsubscribe(topic, &args[1..]),
            Special::Reset => self.reset(),
        }
    }

    fn queue_unwatch(&mut self) {
        if let Some(transaction) = &mut self.session.transaction {
            transaction.bytes += QUEUED_COST;
            transaction.queued.push(Queued::Unwatch);
            self.reply_here(|_, out| out.status("QUEUED"));
        }
    }

    fn exec(&mut self) {
        let Some(transaction) = self.session.transaction.take() else {
            return self.reply_here(|_, out| out.error("ERR EXEC without MULTI"));
        };
        if transaction.aborted {
            return self.unwatch(|out| out.error(ABORTED));
        }
        let shared = self.shared.clone();
        let (mut commands, mut slots) = (Vec::new(), Vec::new());
        let mut local_bytes = 0;
        for queued in transaction.queued {
            slots.push(match queued {
                Queued::Replicas(operation) => {
                    commands.push(operation);
                    None
                }
                Queued::Unwatch => Some(self.made(|_, out| out.ok())),
                Queued::Here(_, _) if local_bytes > TRANSACTION_REPLIES_BYTES_MAX => {
                    Some(self.made(|_, out| out.error(TOO_MUCH_HERE)))
                }
                Queued::Here(entry, args) => {
                    let args: Vec<&[u8]> = args.iter().map(Vec::as_slice).collect();
                    let Run::Here(run) = entry.run else { continue };
                    let reply = self.made(|session, out| run(session, &shared, &args, out));
                    local_bytes += reply.len();
                    Some(reply)
                }
            });
        }
        let watches = std::mem::take(&mut self.session.watches);
        self.expect(Work::Exec(commands, watches), Render::Exec(slots));
    }

    /// Forgets what is watched, and replies.
    fn unwatch(&mut self, reply: impl FnOnce(&mut Encoder<'_>)) {
        if !std::mem::take(&mut self.session.watches) {
            return self.reply_here(|_, out| reply(out));
        }
        let reply = self.made(|_, out| reply(out));
        self.expect(Work::Unwatch, Render::Written(reply));
    }

    fn reset(&mut self) {
        self.session.transaction = None;
        let mut changes = Vec::new();
        for (topic, name) in self.session.subscriptions() {
            self.session.end_subscription(topic, &name);
            changes.push((topic, name, false));
        }
        let watches = std::mem::take(&mut self.session.watches);
        let shared = self.shared.clone();
        self.session.reset(&shared);
        let reply = self.made(|_, out| out.status("RESET"));
        match (watches, changes.is_empty()) {
            (false, true) => self.reply_here(|_, out| out.written(&reply)),
            (false, false) => self.expect(Work::Subscribe(changes), Render::Subscribed(reply)),
            (true, none) => {
                if !none {
                    self.expect(Work::Subscribe(changes), Render::Subscribed(Bytes::new()));
                }
                self.expect(Work::Unwatch, Render::Written(reply));
            }
        }
    }

    fn subscribe(&mut self, topic: Topic, names: &[&[u8]]) {
        if self.session.subscriptions_len() + names.len() > SUBSCRIPTIONS_MAX {
            return self.refuse(&format!(
                "ERR a connection may be subscribed to {SUBSCRIPTIONS_MAX} channels and patterns"
            ));
        }
        if names.iter().any(|name| name.len() > KEY_BYTES_MAX) {
            return self.refuse("ERR name is longer than 65536 bytes");
        }
        let patterns = topic == Topic::Pattern;
        if patterns && names.iter().any(|name| name.len() > glob::PATTERN_BYTES_MAX) {
            return self.refuse("ERR pattern is longer than 1024 bytes");
        }
        let bytes = names.iter().map(|name| session::key_cost(name)).sum::<u64>();
        if self.session.subscribed_bytes() + bytes > SHARE_BYTES_MAX {
            return self.refuse(SHARE_USED);
        }
        let word = if topic == Topic::Channel { "subscribe" } else { "psubscribe" };
        let mut reply = BytesMut::new();
        let mut changes = Vec::new();
        for name in names {
            let name = Bytes::copy_from_slice(name);
            if self.session.begin_subscription(topic, &name) {
                changes.push((topic, name.clone(), true));
            }
            self.write_subscription(word, Some(&name), &mut reply);
        }
        self.expect(Work::Subscribe(changes), Render::Subscribed(reply.freeze()));
    }

    fn unsubscribe(&mut self, topic: Topic, names: &[&[u8]]) {
        let word = if topic == Topic::Channel { "unsubscribe" } else { "punsubscribe" };
        let mut names: Vec<_> = names.iter().map(|name| Bytes::copy_from_slice(name)).collect();
        if names.is_empty() {
            let all = self.session.subscriptions().into_iter();
            names.extend(all.filter(|(of, _)| *of == topic).map(|(_, name)| name));
        }
        let mut reply = BytesMut::new();
        let mut changes = Vec::new();
        if names.is_empty() {
            self.write_subscription(word, None, &mut reply);
        }
        for name in names {
            if self.session.end_subscription(topic, &name) {
                changes.push((topic, name.clone(), false));
            }
            self.write_subscription(word, Some(&name), &mut reply);
        }
        self.expect(Work::Subscribe(changes), Render::Subscribed(reply.freeze()));
    }

    fn write_subscription(&self, word: &str, name: Option<&Bytes>, to: &mut BytesMut) {
        let mut out = Encoder::new(to, self.session.resp);
        out.push(3);
        out.text(word);
        match name {
            Some(name) => out.bulk(name),
            None => out.nil(),
        }
        out.int(i64::try_from(self.session.subscriptions_len()).unwrap_or(i64::MAX));
    }
}

fn encoded_length(args: &Args<'_>) -> usize {
    command::HEADER_BYTES
        + args.iter().map(|arg| command::ARGUMENT_HEADER_BYTES + arg.len()).sum::<usize>()
}
