//! One client's connection: reads requests, hands them on, writes replies in order.

use super::backend::{Backend, BackendError, Completion};
use super::budget::Share;
use super::encoder::{Encoder, Resp};
use super::local::{self, Session};
use super::parser::Parser;
use super::replies::{Overflowed, Replies};
use super::server::Shared;
use super::sizes::{Sizes, faded};
use bytes::{Buf, Bytes, BytesMut};
use pentarchy_core::limits::OPERATION_BYTES_MAX;
use pentarchy_services::kv::command::{self, Args};
use pentarchy_services::kv::{CommandInfo, Error, registry};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use tokio::io::{Interest, Ready};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Bytes that one read asks for.
const READ_BYTES: usize = 16 << 10;

/// The largest buffer that a connection keeps while there is nothing in it.
const IDLE_BYTES: usize = 64 << 10;

/// Bytes of replies that are rendered before they are written. A read's worth of requests fits.
const WRITE_BYTES: usize = 256 << 10;

/// Commands that may be under way before it is known how large their replies are.
const WINDOW_MIN: usize = 16;

/// Operations share allocations of this size.
const OPERATIONS_BYTES: usize = 16 << 10;

/// What the next reply will be.
enum Expected {
    /// Made here, but behind others.
    Local(Bytes),
    /// The next result of the backend.
    Result(Submitted),
}

/// What is known of an operation while the backend has it.
#[derive(Clone, Copy)]
struct Submitted {
    command: &'static CommandInfo,
    /// The version that its result is rendered for.
    resp: Resp,
    /// Its size in bytes.
    length: usize,
}

/// An operation for which there is no share of the budget yet. No command is read behind it.
struct Parked {
    command: &'static CommandInfo,
    operation: Bytes,
}

/// Why reading has stopped for now or for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Intake {
    /// It has not: whatever comes is read.
    Open,
    /// Enough of this connection's commands or replies wait.
    Full,
    /// Enough of all connections' commands wait, and one of this connection's is parked.
    Starved,
    /// The client sent its last, or something that cannot be read.
    Closed,
}

pub(crate) struct Connection<B> {
    stream: TcpStream,
    backend: B,
    shared: Arc<Shared>,
    session: Session,
    parser: Parser,
    input: BytesMut,
    operations: BytesMut,
    output: BytesMut,
    intake: Intake,
    parked: Option<Parked>,
    /// A share of the budget for what is parked.
    share: Option<Share>,
    /// Since when there was no share for any command of this connection.
    starved_since: Option<Instant>,
    /// When the current round of work began.
    now: Instant,
    sizes: Sizes,
    expected: VecDeque<Expected>,
    /// Bytes of operations and of replies made here in `expected`.
    pending_bytes: usize,
    replies: Arc<Replies>,
    /// Enough replies wait behind one that is missing.
    replies_full: bool,
    /// Bytes of the largest result of late. Large at first, so that a burst of large results is met
    /// with few commands under way.
    result_bytes: usize,
    /// Results whose turn it is.
    results: VecDeque<Result<Bytes, BackendError>>,
}

impl<B: Backend> Connection<B> {
    pub fn new(stream: TcpStream, backend: B, shared: Arc<Shared>, session: Session) -> Self {
        let replies = Arc::new(Replies::new(shared.config.output_bytes_max));
        Self {
            stream,
            backend,
            shared,
            session,
            parser: Parser::default(),
            input: BytesMut::new(),
            operations: BytesMut::new(),
            output: BytesMut::new(),
            intake: Intake::Open,
            parked: None,
            share: None,
            starved_since: None,
            now: Instant::now(),
            sizes: Sizes::default(),
            expected: VecDeque::new(),
            pending_bytes: 0,
            replies,
            replies_full: false,
            result_bytes: OPERATION_BYTES_MAX,
            results: VecDeque::new(),
        }
    }

    /// Serves until the client leaves and its last reply is written.
    pub async fn serve(mut self) -> io::Result<()> {
        let shared = self.shared.clone();
        let mut timer = std::pin::pin!(tokio::time::sleep_until(self.now));
        let mut armed = false;
        loop {
            self.now = Instant::now();
            self.work()?;
            if self.intake == Intake::Closed && self.expected.is_empty() && self.output.is_empty() {
                return Ok(());
            }
            let interest = match (self.intake == Intake::Open, !self.output.is_empty()) {
                (true, true) => Some(Interest::READABLE | Interest::WRITABLE),
                (true, false) => Some(Interest::READABLE),
                (false, true) => Some(Interest::WRITABLE),
                (false, false) => None,
            };
            let waiting = interest.unwrap_or(Interest::READABLE);
            // Deadlines only ever get later, so one that is set is never too late.
            if !armed && let Some(deadline) = self.deadline() {
                timer.as_mut().reset(deadline);
                armed = true;
            }
            let bytes = self.parked.as_ref().map(|parked| self.sizes.expect(parked.command));
            tokio::select! {
                () = self.replies.ready() => {}
                granted = shared.budget.take(bytes.unwrap_or(0)), if bytes.is_some() => {
                    self.share = granted;
                }
                () = &mut timer, if armed => {
                    armed = false;
                    self.replies.expire(Instant::now(), self.shared.config.reply_timeout);
                }
                ready = self.stream.ready(waiting), if interest.is_some() => self.read(ready?)?,
            }
        }
    }

    /// When the first of the commands under way has to be given up.
    fn deadline(&self) -> Option<Instant> {
        let parked = self.starved_since.filter(|_| self.parked.is_some());
        let oldest = [self.replies.oldest(), parked].into_iter().flatten().min()?;
        oldest.checked_add(self.shared.config.reply_timeout)
    }

    /// Does all that can be done without waiting.
    fn work(&mut self) -> io::Result<()> {
        loop {
            self.submit_while_allowed();
            give_back(&mut self.input);
            self.render()?;
            let filled = self.output.len() >= WRITE_BYTES;
            let written = self.write()?;
            // Replies that left may have made room for more of them, and for requests that were
            // read already.
            let room = self.intake == Intake::Full && !self.is_full();
            if !(room || filled && written) {
                return Ok(());
            }
        }
    }

    fn read(&mut self, ready: Ready) -> io::Result<()> {
        if !ready.is_readable() || self.intake != Intake::Open {
            return Ok(());
        }
        self.input.reserve(READ_BYTES);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => self.intake = Intake::Closed,
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let config = &self.shared.config;
        let window = config.output_bytes_max / 2 / self.result_bytes.max(1);
        self.replies_full
            || self.expected.len() >= window.max(WINDOW_MIN).min(config.pipeline_max)
            || self.pending_bytes >= config.pending_bytes_max
            || self.output.len() >= WRITE_BYTES
    }

    /// Takes requests out of the input as far as the bounds allow.
    fn submit_while_allowed(&mut self) {
        if let Some(Parked { command, operation }) = self.parked.take() {
            self.submit(command, operation);
        }
        while self.intake != Intake::Closed {
            if self.parked.is_some() {
                self.intake = Intake::Starved;
                return;
            }
            if self.is_full() {
                self.intake = Intake::Full;
                return;
            }
            self.intake = Intake::Open;
            let length = match self.parser.parse(&self.input) {
                Ok(None) => return,
                Ok(Some(length)) => length,
                Err(error) => {
                    self.reply_here(|_, out| out.error(&error.0));
                    self.intake = Intake::Closed;
                    return;
                }
            };
            let request = self.input.split_to(length);
            let parser = std::mem::take(&mut self.parser);
            let args = parser.args(&request);
            if !args.is_empty() {
                self.answer(&args);
            }
            drop(args);
            self.parser = parser;
            self.parser.reset();
        }
    }

    /// Answers one command here, or hands it to the backend.
    fn answer(&mut self, args: &Args<'_>) {
        self.shared.counters.commands.fetch_add(1, Relaxed);
        if let Some(info) = registry::lookup(args[0]) {
            return match wrong_arity(info, args) {
                Some(error) => self.reply_here(|_, out| out.error(&error.to_string())),
                None => self.hand_on(info, args),
            };
        }
        let shared = self.shared.clone();
        match local::lookup(args[0]) {
            None => {
                let error = Error::unknown_command(args).to_string();
                self.reply_here(|_, out| out.error(&error));
            }
            Some(entry) => match wrong_arity(&entry.info, args) {
                Some(error) => self.reply_here(|_, out| out.error(&error.to_string())),
                None => self.reply_here(|session, out| (entry.run)(session, &shared, args, out)),
            },
        }
        if self.session.quits {
            self.intake = Intake::Closed;
        }
    }

    fn hand_on(&mut self, command: &'static CommandInfo, args: &Args<'_>) {
        let length = command::HEADER_BYTES
            + args.iter().map(|arg| command::ARGUMENT_HEADER_BYTES + arg.len()).sum::<usize>();
        if self.operations.capacity() < length {
            self.operations.reserve(length.max(OPERATIONS_BYTES));
        }
        command::encode(args.iter().copied(), &mut self.operations);
        let operation = self.operations.split().freeze();
        self.submit(command, operation);
    }

    /// Hands an operation to the backend if there is a share of the budget for it. Parks it
    /// otherwise, or refuses it once there has been none for too long.
    fn submit(&mut self, command: &'static CommandInfo, operation: Bytes) {
        let bytes = self.sizes.expect(command);
        let share = self.share.take().or_else(|| self.shared.budget.try_take(bytes));
        let Some(share) = share else {
            let since = *self.starved_since.get_or_insert(self.now);
            if self.now.saturating_duration_since(since) < self.shared.config.reply_timeout {
                self.parked = Some(Parked { command, operation });
            } else {
                self.shared.counters.failures.fetch_add(1, Relaxed);
                self.reply_here(|_, out| out.error(BackendError::Busy.line()));
            }
            return;
        };
        self.starved_since = None;
        let (resp, length) = (self.session.resp, operation.len());
        self.pending_bytes += length;
        self.expected.push_back(Expected::Result(Submitted { command, resp, length }));
        let (number, waiting) = self.replies.open(self.now);
        self.note_waiting(waiting);
        let done = Completion::new(self.replies.clone(), share, number);
        self.backend.submit(operation, done);
    }

    /// Makes a reply here; it leaves after those that are expected before it.
    fn reply_here(&mut self, make: impl FnOnce(&mut Session, &mut Encoder<'_>)) {
        let resp = self.session.resp;
        if self.expected.is_empty() {
            make(&mut self.session, &mut Encoder::new(&mut self.output, resp));
            return;
        }
        let mut reply = BytesMut::new();
        make(&mut self.session, &mut Encoder::new(&mut reply, resp));
        self.pending_bytes += reply.len();
        self.expected.push_back(Expected::Local(reply.freeze()));
    }

    /// Renders replies whose turn it is, all of them or until the output is full.
    fn render(&mut self) -> io::Result<()> {
        while self.output.len() < WRITE_BYTES {
            match self.expected.front() {
                None => break,
                Some(Expected::Local(reply)) => {
                    self.pending_bytes -= reply.len();
                    self.output.extend_from_slice(reply);
                }
                Some(Expected::Result(submitted)) => {
                    let submitted = *submitted;
                    let Some(result) = self.next_result()? else { break };
                    self.pending_bytes -= submitted.length;
                    self.render_result(submitted, result);
                }
            }
            self.expected.pop_front();
        }
        Ok(())
    }

    /// The next result, if it is there.
    fn next_result(&mut self) -> io::Result<Option<Result<Bytes, BackendError>>> {
        if self.results.is_empty() {
            let taken = self.replies.take(WRITE_BYTES, &mut self.results);
            let waiting = taken.map_err(|Overflowed| {
                tracing::warn!(client = self.session.id, "closed: too many bytes of replies wait");
                io::Error::other("too many bytes of replies wait")
            })?;
            self.note_waiting(waiting);
        }
        Ok(self.results.pop_front())
    }

    fn note_waiting(&mut self, bytes: usize) {
        self.replies_full = bytes > self.shared.config.output_bytes_max / 8;
    }

    fn render_result(&mut self, submitted: Submitted, result: Result<Bytes, BackendError>) {
        let mut out = Encoder::new(&mut self.output, submitted.resp);
        match result {
            Ok(result) => {
                self.result_bytes = faded(self.result_bytes).max(result.len());
                self.sizes.note(submitted.command, result.len());
                out.result(&result);
            }
            Err(error) => {
                self.shared.counters.failures.fetch_add(1, Relaxed);
                out.error(error.line());
            }
        }
    }

    /// Writes what the socket takes. Says whether it took all.
    fn write(&mut self) -> io::Result<bool> {
        while !self.output.is_empty() {
            match self.stream.try_write(&self.output) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => self.output.advance(written),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        give_back(&mut self.output);
        Ok(true)
    }
}

impl<B> Drop for Connection<B> {
    fn drop(&mut self) {
        self.shared.forget(self.session.id);
    }
}

/// Lets go of a large buffer with nothing in it, so that idle connections cost little.
fn give_back(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.try_reclaim(IDLE_BYTES + 1) {
        *buffer = BytesMut::new();
    }
}

fn wrong_arity(info: &CommandInfo, args: &Args<'_>) -> Option<Error> {
    (!info.takes(args.len())).then(|| Error::wrong_arity(info.name))
}
