//! One client's connection: reads requests, hands them on, writes replies in order.
//!
//! The replicas have one operation of a connection at a time. Commands that arrive meanwhile go
//! together with the next one, so that they are executed in the order in which they were sent,
//! whatever happens to messages and primaries, and share the cost of agreement.

use super::backend::Backend;
use super::budget::Share;
use super::hub::Hub;
use super::inbox::{Closing, Inbox};
use super::local::Session;
use super::parser::{Parser, ProtocolError};
use super::shared::Shared;
use super::sizes::Sizes;
use super::work::{Expected, Flight, Settled, Work};
use bytes::{Buf, BytesMut};
use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, Interest, Ready};
use tokio::net::TcpStream;
use tokio::time::Instant;

/// Bytes that one read asks for.
const READ_BYTES: usize = 16 << 10;

/// The largest buffer that a connection keeps while there is nothing in it.
const IDLE_BYTES: usize = 64 << 10;

/// Bytes of replies that are rendered before they are written. A read's worth of requests fits.
pub(crate) const WRITE_BYTES: usize = 256 << 10;

/// Ready when the client sends no more, and not when there is something to read.
#[cfg(target_os = "linux")]
const END_OF_INPUT: Interest = Interest::PRIORITY;
#[cfg(not(target_os = "linux"))]
const END_OF_INPUT: Interest = Interest::ERROR;

/// What a client may still send, and for how long, after it was told why no more is read: whoever
/// closes on unread bytes resets the connection, and a reset may overtake that reply.
const PARTING_BYTES: usize = 4 << 20;
const PARTING_TIME: Duration = Duration::from_secs(1);

/// How long a client may take to say its password.
const AUTH_TIME: Duration = Duration::from_secs(10);

/// How long the answer to a wrong password takes. Meanwhile its connection has nothing else done
/// and keeps its place among those that have not said their password.
const GUESS_TIME: Duration = Duration::from_secs(1);

/// Why reading has stopped for now or for good.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Intake {
    /// It has not: whatever comes is read.
    Open,
    /// Enough of this connection's commands or replies wait.
    Full,
    /// The client sent its last, or something that cannot be read.
    Closed,
}

pub(crate) struct Connection<B: Backend> {
    stream: TcpStream,
    pub backend: B,
    pub hub: Arc<Hub<B>>,
    pub shared: Arc<Shared>,
    pub session: Session,
    pub inbox: Arc<Inbox>,
    parser: Parser,
    input: BytesMut,
    pub operations: BytesMut,
    pub output: BytesMut,
    pub intake: Intake,
    /// The client said that it sends no more.
    ended: bool,
    /// The client was told that no more is read, though it may be sending.
    cut_off: bool,
    /// The connection ends at once, and nothing more is said or done for it.
    hung_up: bool,
    /// Work that is not settled, in order. What the replicas have is at the front.
    pub work: VecDeque<Work>,
    pub flight: Option<Flight>,
    /// Bytes of results that the next operation needs a share of the budget for.
    pub wanted: Option<usize>,
    /// A share of the budget for what comes next.
    pub share: Option<Share>,
    /// Since when there was no share.
    pub starved_since: Option<Instant>,
    /// When the current round of work began.
    pub now: Instant,
    /// Its place among those that have not said their password, and until when it has it.
    stranger: Option<(StrangerGuard, Instant)>,
    pub sizes: Sizes,
    pub expected: VecDeque<Expected>,
    /// Bytes of work and of replies made here in `expected`.
    pub pending_bytes: usize,
    /// What came of work, in order, not rendered yet.
    pub settled: VecDeque<Settled>,
    /// Bytes of replies in `settled`.
    pub settled_bytes: usize,
}

impl<B: Backend> Connection<B> {
    pub fn new(
        stream: TcpStream,
        hub: Arc<Hub<B>>,
        backend: B,
        shared: Arc<Shared>,
        session: Session,
        inbox: Arc<Inbox>,
    ) -> Self {
        Self {
            stream,
            backend,
            hub,
            shared,
            session,
            inbox,
            parser: Parser::default(),
            input: BytesMut::new(),
            operations: BytesMut::new(),
            output: BytesMut::new(),
            intake: Intake::Open,
            ended: false,
            cut_off: false,
            hung_up: false,
            work: VecDeque::new(),
            flight: None,
            wanted: None,
            share: None,
            starved_since: None,
            now: Instant::now(),
            stranger: None,
            sizes: Sizes::default(),
            expected: VecDeque::new(),
            pending_bytes: 0,
            settled: VecDeque::new(),
            settled_bytes: 0,
        }
    }

    /// Serves until the client leaves and its last reply is written.
    pub async fn serve(mut self) -> io::Result<()> {
        let (shared, inbox) = (self.shared.clone(), self.inbox.clone());
        let mut timer = std::pin::pin!(tokio::time::sleep_until(self.now));
        let mut armed = None;
        loop {
            self.now = Instant::now();
            self.work()?;
            if std::mem::take(&mut self.session.guessed_wrong) {
                // Also for one who has left: it would come again at once and guess on.
                tokio::time::sleep(GUESS_TIME).await;
                // It gets its answer before the next guess is read.
                self.render();
                self.write()?;
                continue;
            }
            if self.is_over() {
                return self.part().await;
            }
            let interest = self.interest();
            let waiting = interest.unwrap_or(Interest::READABLE);
            let deadline = self.deadline();
            if armed != deadline
                && let Some(deadline) = deadline
            {
                timer.as_mut().reset(deadline);
            }
            armed = deadline;
            let wanted = self.wanted;
            tokio::select! {
                () = inbox.ready() => {}
                granted = shared.budget.take(wanted.unwrap_or(0)), if wanted.is_some() => {
                    self.share = granted;
                }
                () = &mut timer, if armed.is_some() => armed = None,
                ready = self.stream.ready(waiting), if interest.is_some() => self.read(ready?)?,
            }
        }
    }

    /// Says that nothing more is sent, and waits within bounds until the client has heard it.
    async fn part(&mut self) -> io::Result<()> {
        if self.ended || !self.cut_off {
            return Ok(());
        }
        self.stream.shutdown().await?;
        let rest = async {
            let mut left = PARTING_BYTES;
            let mut noise = [0; 4 << 10];
            while left > 0 {
                match self.stream.read(&mut noise).await? {
                    0 => break,
                    length => left = left.saturating_sub(length),
                }
            }
            Ok(())
        };
        tokio::time::timeout(PARTING_TIME, rest).await.unwrap_or(Ok(()))
    }

    /// What of the socket to wait for. Also while nothing is read, that the client is gone.
    fn interest(&self) -> Option<Interest> {
        let reads = match self.intake {
            Intake::Open => Some(Interest::READABLE),
            Intake::Full | Intake::Closed if !self.ended => Some(END_OF_INPUT),
            Intake::Full | Intake::Closed => None,
        };
        let writes = (!self.output.is_empty()).then_some(Interest::WRITABLE);
        match (reads, writes) {
            (Some(reads), Some(writes)) => Some(reads | writes),
            (one, other) => one.or(other),
        }
    }

    fn is_over(&self) -> bool {
        let said = self.expected.is_empty() && self.output.is_empty();
        // Who left gets no element; it would be lost.
        self.intake == Intake::Closed && said || self.ended && self.is_blocked()
    }

    /// Does all that can be done without waiting.
    fn work(&mut self) -> io::Result<()> {
        self.close_if_told()?;
        loop {
            self.take_requests();
            if self.hung_up {
                return Err(io::ErrorKind::ConnectionAborted.into());
            }
            self.check_stranger()?;
            if self.session.guessed_wrong {
                return Ok(());
            }
            self.advance();
            give_back(&mut self.input);
            let rendered = self.render();
            let filled = self.output.len() >= WRITE_BYTES;
            let written = self.write()?;
            // Replies that left may have made room for more of them, and for requests that were
            // read already.
            let room = self.intake == Intake::Full && !self.is_full();
            if !(room || filled && written || rendered && self.flight.is_none() && self.is_ready())
            {
                return Ok(());
            }
        }
    }

    /// Whether there is work that nothing holds up.
    fn is_ready(&self) -> bool {
        !self.work.is_empty() && self.wanted.is_none()
    }

    /// Who does not say its password in time must go.
    fn check_stranger(&mut self) -> io::Result<()> {
        if self.session.authenticated {
            self.stranger = None;
            return Ok(());
        }
        let now = self.now;
        let (_, until) = self
            .stranger
            .get_or_insert_with(|| (StrangerGuard::new(&self.shared), now + AUTH_TIME));
        if *until <= now { Err(io::ErrorKind::TimedOut.into()) } else { Ok(()) }
    }

    /// Until when the client must have said its password.
    pub fn auth_deadline(&self) -> Option<Instant> {
        self.stranger.as_ref().map(|(_, until)| *until)
    }

    fn close_if_told(&mut self) -> io::Result<()> {
        match self.inbox.closing() {
            None => Ok(()),
            Some(Closing::Killed) => Err(io::ErrorKind::ConnectionAborted.into()),
            Some(Closing::Overflowed) => {
                tracing::warn!(client = self.session.id, "closed: it reads messages too slowly");
                Err(io::Error::other("too many bytes of messages wait"))
            }
            Some(Closing::Lost) => {
                self.end_once(
                    "ERR published messages may have been lost between the replicas and the \
                     gateway; subscribe again",
                );
                Ok(())
            }
            Some(Closing::Refused) => {
                self.end_once(
                    "ERR the replicas refused a subscription, as too much is watched, waited for \
                     or subscribed to",
                );
                Ok(())
            }
        }
    }

    /// [`Self::end_with`], unless the connection is at its end already.
    fn end_once(&mut self, line: &str) {
        if self.intake != Intake::Closed || !self.expected.is_empty() {
            self.end_with(line);
        }
    }

    /// Says one last thing and takes no more requests.
    pub fn end_with(&mut self, line: &str) {
        self.expected.clear();
        self.settled.clear();
        self.settled_bytes = 0;
        self.work.clear();
        self.abandon();
        self.reply_here(|_, out| out.error(line));
        self.cut_off();
    }

    /// Ends the connection, and with it all that it asked for and that was not handed on: what
    /// comes is what a browser sends when a web page leads it here.
    pub fn hang_up(&mut self, seen: &str) {
        tracing::warn!(
            client = self.session.id,
            seen,
            "possible attack: this is no client of Redis, but perhaps a browser that a web page \
             has speak to this gateway; the connection is closed"
        );
        self.intake = Intake::Closed;
        self.hung_up = true;
    }

    /// Takes no more requests, whatever the client still sends.
    fn cut_off(&mut self) {
        self.intake = Intake::Closed;
        self.cut_off = true;
    }

    fn read(&mut self, ready: Ready) -> io::Result<()> {
        if ready.is_read_closed() && self.intake != Intake::Open {
            // There may be requests before the end, which are read when there is room.
            self.ended = true;
        }
        if !ready.is_readable() || self.intake != Intake::Open {
            return Ok(());
        }
        self.input.reserve(READ_BYTES);
        match self.stream.try_read_buf(&mut self.input) {
            Ok(0) => {
                self.intake = Intake::Closed;
                self.ended = true;
            }
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        Ok(())
    }

    fn is_full(&self) -> bool {
        let config = &self.shared.config;
        self.expected.len() >= config.pipeline_max
            || self.pending_bytes >= config.pending_bytes_max
            || self.output.len() >= WRITE_BYTES
    }

    /// Takes requests out of the input as far as the bounds allow.
    fn take_requests(&mut self) {
        while self.intake != Intake::Closed && !self.session.guessed_wrong {
            if self.is_full() {
                self.intake = Intake::Full;
                return;
            }
            self.intake = Intake::Open;
            self.parser.untrusted = !self.session.authenticated;
            let length = match self.parser.parse(&self.input) {
                Ok(None) => {
                    self.input.advance(self.parser.take_skipped());
                    return;
                }
                Ok(Some(length)) => length,
                Err(ProtocolError::Mistake(line)) => {
                    self.reply_here(|_, out| out.error(&line));
                    self.cut_off();
                    return;
                }
                Err(ProtocolError::Foreign(what)) => return self.hang_up(what),
            };
            let request = self.input.split_to(length);
            if self.parser.is_too_large() {
                self.parser.reset();
                self.refuse_unread();
                continue;
            }
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

/// Counts a connection among those that have not said their password.
struct StrangerGuard(Arc<Shared>);

impl StrangerGuard {
    fn new(shared: &Arc<Shared>) -> Self {
        shared.counters.strangers.fetch_add(1, Relaxed);
        Self(shared.clone())
    }
}

impl Drop for StrangerGuard {
    fn drop(&mut self) {
        self.0.counters.strangers.fetch_sub(1, Relaxed);
    }
}

impl<B: Backend> Drop for Connection<B> {
    fn drop(&mut self) {
        self.abandon();
        self.hub.leave(self.session.id);
        let names = self.session.subscriptions();
        if !names.is_empty() {
            let changes = names.into_iter().map(|(topic, name)| (topic, name, false));
            let changes: Vec<_> = changes.collect();
            self.hub.subscribe(self.session.id, &changes, None, &self.inbox);
        }
        self.shared.forget(self.session.id);
    }
}

/// Lets go of a large buffer with nothing in it, so that idle connections cost little.
fn give_back(buffer: &mut BytesMut) {
    if buffer.is_empty() && buffer.try_reclaim(IDLE_BYTES + 1) {
        *buffer = BytesMut::new();
    }
}
