//! How operations are executed that are more than one command, and what follows from a change.

use super::super::command::{self, Args};
use super::super::command_info::CommandInfo;
use super::super::error::Error;
use super::super::glob;
use super::super::reply::{ERROR_TAG, Reply, ReplyWriter};
use super::super::{KEY_BYTES_MAX, Kv};
use super::blocking::Blocking;
use super::operation::{Answer, Notice, Request, Topic, read_commands, write_replies};
use super::registry::Run;
use super::table::{Sessions, Waiter, key_cost};
use super::{PACK_REPLIES_BYTES, TRANSACTION_COMMANDS_MAX, TRANSACTION_REPLIES_BYTES_MAX, pubsub};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use bytes::Bytes;
use pentarchy_core::service::Context;

/// Milliseconds in a second, and microseconds in a millisecond.
const THOUSAND: i64 = 1000;

impl Kv {
    /// Executes the commands of a pack until their replies are many bytes.
    pub(crate) fn run_pack(&mut self, context: &Context, bytes: &[u8]) -> Vec<u8> {
        let Ok(commands) = read_commands(bytes) else { return Reply::from(&MALFORMED).encode() };
        let (mut replies, mut length) = (Vec::new(), 0);
        for args in &commands {
            if length >= PACK_REPLIES_BYTES {
                break;
            }
            let reply = self.run_one(context, args);
            if self.store.work.has_refused() && !replies.is_empty() {
                // It changed nothing, and has an operation of its own when it is sent again.
                break;
            }
            self.settle(context);
            length += reply.len();
            replies.push(reply);
        }
        let mut result = Vec::with_capacity(length + 4 * replies.len() + 4);
        write_replies(&replies, &mut result);
        result
    }

    /// Executes all commands of a transaction, or none if a watched key changed.
    pub(crate) fn run_transaction(&mut self, context: &Context, bytes: &[u8]) -> Vec<u8> {
        let Ok((watch, commands)) = read_transaction(bytes) else {
            return Reply::from(&MALFORMED).encode();
        };
        if let Some((instance, token)) = watch {
            let now = context.time.0;
            let renewed = self.sessions.renew(&context.client, instance, now);
            self.purge(context, &self.sessions.watched_keys(&context.client, token));
            let watch = self.sessions.unwatch(&context.client, token, &mut self.store);
            // Without its watch nobody knows whether a key changed.
            if !renewed || watch.is_none_or(|watch| watch.broken) {
                return [1].into();
            }
        }
        let mut result = Vec::from([0]);
        let (mut replies, mut length) = (Vec::new(), 0);
        let too_large = Reply::from(&Error::TRANSACTION_REPLIES).encode();
        let short = Reply::from(&Error::NO_ROOM).encode();
        for (args, following) in commands.iter().zip((0..commands.len()).rev()) {
            let mut reply = self.run_one(context, args);
            // Each of those that follow has room for the shortest error at least.
            let room = TRANSACTION_REPLIES_BYTES_MAX - length - following * short.len();
            if reply.len() > room {
                let failed = reply.first() == Some(&ERROR_TAG);
                let error = if failed || too_large.len() > room { &short } else { &too_large };
                reply.clone_from(error);
            }
            length += reply.len();
            replies.push(reply);
        }
        self.settle(context);
        write_replies(&replies, &mut result);
        result
    }

    /// Executes one command of whatever kind without waiting.
    pub(crate) fn run_one(&mut self, context: &Context, args: &Args<'_>) -> Vec<u8> {
        let bytes = args.iter().map(|arg| arg.len()).sum();
        if let Err(error) = self.store.work.begin_command(bytes) {
            return Reply::from(&error).encode();
        }
        let mut out = ReplyWriter::default();
        let outcome = match super::entry(args[0]) {
            None => self.run(context, args, &mut out),
            Some(entry) => match check(&entry.info, args) {
                Err(error) => Err(error),
                Ok(()) if entry.run == Run::Block => return self.run_blocking(context, args),
                Ok(()) if entry.run == Run::Once => {
                    let reply = self.run_once(context, args);
                    self.store.work.note(reply.len() as u64);
                    return reply;
                }
                Ok(()) => self.run_special(context, entry.run, args, &mut out),
            },
        };
        self.store.work.note(out.len() as u64);
        out.finish(outcome)
    }

    fn run_special(
        &mut self,
        context: &Context,
        run: Run,
        args: &Args<'_>,
        out: &mut ReplyWriter,
    ) -> Result<(), Error> {
        match run {
            Run::Publish => pubsub::publish(&mut self.sessions, &self.store.work, args, out),
            Run::Pubsub => pubsub::pubsub(&self.sessions, &self.store.work, args, out),
            Run::Time | Run::Block | Run::Once => {
                let millis = i64::try_from(context.time.0).unwrap_or(i64::MAX);
                let micros = millis % THOUSAND * THOUSAND;
                out.array(2);
                out.bulk(super::super::number::Spelled::new(millis / THOUSAND).as_bytes());
                out.bulk(super::super::number::Spelled::new(micros).as_bytes());
                Ok(())
            }
        }
    }

    fn run_blocking(&mut self, context: &Context, args: &Args<'_>) -> Vec<u8> {
        let blocking = match Blocking::parse(args) {
            Ok(blocking) => blocking,
            Err(error) => return Reply::from(&error).encode(),
        };
        let missing = if blocking.misses_array() { Reply::NilArray } else { Reply::Nil };
        self.try_blocking(context, &blocking).unwrap_or_else(|| missing.encode())
    }

    /// Executes a blocking command on the first of its keys that has something.
    fn try_blocking(&mut self, context: &Context, blocking: &Blocking<'_>) -> Option<Vec<u8>> {
        let key = blocking.keys.iter().find(|key| self.store.get(key).is_some())?;
        Some(self.take_from(context, blocking, key))
    }

    fn take_from(&mut self, context: &Context, blocking: &Blocking<'_>, key: &[u8]) -> Vec<u8> {
        let mut out = ReplyWriter::default();
        let outcome = self.run(context, &blocking.plain(key), &mut out);
        blocking.reply(key, out.finish(outcome))
    }

    /// Does what follows from the keys that changed: watches break, and who waited is served.
    pub(crate) fn settle(&mut self, context: &Context) {
        let mut touched = VecDeque::from(self.store.interest.take());
        while let Some(key) = touched.pop_front() {
            self.sessions.break_watches(&key);
            self.serve(context, &key);
            touched.extend(self.store.interest.take());
        }
    }

    /// Serves those who wait for a key, in the order in which they came, while it has something.
    fn serve(&mut self, context: &Context, key: &Bytes) {
        let mut after = 0;
        loop {
            let Some(value) = self.store.get(key) else { return };
            let next = self.sessions.next_waiting(key, value.type_name(), after);
            let Some((place, waiter)) = next else { return };
            after = place;
            let waiter = waiter.clone();
            let Ok((args, _)) = Args::split(&waiter.command) else { continue };
            let Ok(blocking) = Blocking::parse(&args) else { continue };
            let reply = self.take_from(context, &blocking, key).into();
            self.sessions.forget_waiter(&waiter.client, waiter.token, &mut self.store);
            let session = self.sessions.by_client.get(&waiter.client);
            let instance = session.map_or(0, |session| session.instance);
            let body = Notice::Served { instance, token: waiter.token, reply }.encode();
            self.sessions.tell(waiter.client, body);
        }
    }

    /// Removes those of the keys that ended, with all that follows from it.
    fn purge(&mut self, context: &Context, keys: &[Bytes]) {
        keys.iter().for_each(|key| self.store.purge(key));
        self.settle(context);
    }

    /// Answers what a gateway asks of its session.
    pub(crate) fn run_session(&mut self, context: &Context, bytes: &[u8]) -> Vec<u8> {
        let answer = match Request::read(bytes) {
            Err(_) => Answer::error(&MALFORMED),
            Ok((_, Request::Open)) => {
                let now = context.time.0;
                match self.sessions.open(context.client, now, &mut self.store) {
                    // Counted from 1.
                    Ok(instance) => Answer::of(&Reply::Int(instance as i64)),
                    Err(error) => Answer::error(&error),
                }
            }
            Ok((instance, request)) => {
                if self.sessions.renew(&context.client, instance, context.time.0) {
                    self.run_request(context, request).unwrap_or_else(|e| Answer::error(&e))
                } else {
                    Answer::NoSession
                }
            }
        };
        self.settle(context);
        answer.encode()
    }

    fn run_request(&mut self, context: &Context, request: Request) -> Result<Answer, Error> {
        let client = context.client;
        match request {
            Request::Open => Err(MALFORMED),
            Request::Update { version, subscriptions, watches, waiters } => {
                for token in watches {
                    self.sessions.unwatch(&client, token, &mut self.store);
                }
                for token in waiters {
                    self.sessions.forget_waiter(&client, token, &mut self.store);
                }
                let Some(session) = self.sessions.by_client.get_mut(&client) else {
                    return Ok(Answer::NoSession);
                };
                if version > session.version {
                    session.version = version;
                    self.sessions.mark_changed();
                    check_keys(subscriptions.iter().map(|subscription| &subscription.name[..]))?;
                    for pattern in subscriptions.iter().filter(|s| s.topic == Topic::Pattern) {
                        glob::pattern(&pattern.name)?;
                    }
                    self.sessions.set_counts(&client, &subscriptions)?;
                }
                Ok(Answer::of(&Reply::Ok))
            }
            Request::Watch { token, keys } => {
                check_keys(keys.iter().map(|key| &key[..]))?;
                let more: u64 = keys.iter().map(|key| key_cost(key)).sum();
                self.sessions.check_room(&client, more + super::ENTRY_COST)?;
                // One that ended before is not a change.
                self.purge(context, &keys);
                for key in &keys {
                    self.sessions.watch(client, token, key, &mut self.store);
                }
                if keys.is_empty() { Err(MALFORMED) } else { Ok(Answer::of(&Reply::Ok)) }
            }
            Request::Block { token, command } => self.block(context, token, &command),
            Request::Close => {
                self.sessions.end(&client, &mut self.store);
                Ok(Answer::of(&Reply::Ok))
            }
            Request::Cancel { token } => {
                let found = self.sessions.forget_waiter(&client, token, &mut self.store);
                Ok(Answer::of(&Reply::Int(found.into())))
            }
        }
    }

    /// Executes a blocking command, or has it wait.
    fn block(
        &mut self,
        context: &Context,
        token: u64,
        command: &command::Command,
    ) -> Result<Answer, Error> {
        let args: Args<'_> = command.args.iter().map(|arg| &arg[..]).collect();
        let entry = super::entry(args[0]).filter(|entry| entry.run == Run::Block);
        check(&entry.ok_or(MALFORMED)?.info, &args)?;
        let blocking = Blocking::parse(&args)?;
        check_keys(blocking.keys.iter().copied())?;
        if let Some(reply) = self.try_blocking(context, &blocking) {
            return Ok(Answer::Reply(reply.into()));
        }
        let client = context.client;
        // Tagged; a waiter's command is kept without its tag.
        let command = command.to_operation().slice(1..);
        let (keys, takes) = (blocking.owned_keys(), blocking.takes);
        let waiter = Waiter { client, token, command, keys, takes };
        self.sessions.check_room(&client, Sessions::waiter_cost(&waiter))?;
        self.sessions.forget_waiter(&client, token, &mut self.store);
        self.sessions.wait(waiter, &mut self.store);
        Ok(Answer::Waits)
    }
}

const MALFORMED: Error = Error::MALFORMED;

fn check(info: &CommandInfo, args: &Args<'_>) -> Result<(), Error> {
    if !info.takes(args.len()) {
        return Err(Error::wrong_arity(info.name));
    }
    check_keys(info.keys_of(args))
}

fn check_keys<'a>(mut keys: impl Iterator<Item = &'a [u8]>) -> Result<(), Error> {
    if keys.any(|key| key.len() > KEY_BYTES_MAX) { Err(Error::KEY_TOO_LONG) } else { Ok(()) }
}

type Transaction<'a> = (Option<(u64, u64)>, Vec<Args<'a>>);

fn read_transaction(bytes: &[u8]) -> Result<Transaction<'_>, pentarchy_core::wire::Malformed> {
    let malformed = pentarchy_core::wire::Malformed;
    let (watched, rest) = bytes.split_first().ok_or(malformed)?;
    let (watch, rest) = match watched {
        0 => (None, rest),
        1 => {
            let (instance, rest) = rest.split_first_chunk().ok_or(malformed)?;
            let (token, rest) = rest.split_first_chunk().ok_or(malformed)?;
            (Some((u64::from_le_bytes(*instance), u64::from_le_bytes(*token))), rest)
        }
        _ => return Err(malformed),
    };
    let commands = read_commands(rest)?;
    if commands.len() > TRANSACTION_COMMANDS_MAX {
        return Err(malformed);
    }
    Ok((watch, commands))
}
