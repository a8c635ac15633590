//! A channel over a non-blocking TCP stream, with a bounded outbound queue.

use crate::buffers;
use crate::calls;
use crate::channel::{CHUNK_BYTES_MAX, Channel, ChannelError, Identity};
use crate::frame::LENGTH_BYTES;
use bytes::Bytes;
use mio::net::TcpStream;
use pentarchy_core::wire::Writer;
use socket2::{SockRef, TcpKeepalive};
use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::mem::{replace, take};
use std::net::SocketAddr;
use std::time::Duration;

/// Capacity that an idle connection's buffers may keep. There may be a thousand connections.
const IDLE_BYTES_MAX: usize = 16 << 10;

/// Room that a queue asks for once it holds so much.
const ROOM_BYTES: usize = 1 << 20;

/// After so long without a sign of the other machine the connection is given up, or a network that
/// came back would not be noticed for minutes.
const SILENCE: Duration = Duration::from_secs(5);
/// Between two probes of a machine that is silent.
const PROBE: Duration = Duration::from_secs(1);

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Closed {
    /// The other side closed it.
    Remote,
    /// The system says so.
    Io(ErrorKind),
    /// The channel on it failed.
    Channel(ChannelError),
}

impl fmt::Display for Closed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Remote => f.write_str("closed by the peer"),
            Self::Io(kind) => write!(f, "{kind}"),
            Self::Channel(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for Closed {}

impl From<ChannelError> for Closed {
    fn from(error: ChannelError) -> Self {
        Self::Channel(error)
    }
}

/// The outbound queue holds as much as it may; the message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Full;

/// Sizes that a connection keeps to, in bytes.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionLimits {
    /// The largest message that the other side may send.
    pub message_bytes_max: usize,
    /// What may wait to be sent. At least a largest message of ours.
    pub queue_bytes_max: usize,
}

/// One encrypted connection. Messages are collected by [`Self::queue_with`], and encrypted and
/// written together by [`Self::flush`]. After [`Closed`] it must be dropped.
pub struct Connection {
    stream: TcpStream,
    channel: Channel,
    limits: ConnectionLimits,
    /// Messages behind their lengths, in frames that end at these places.
    plain: Vec<u8>,
    frame_ends: Vec<usize>,
    /// Behind these of them, the channel goes over to another key.
    rekeys: Vec<usize>,
    frame_start: usize,
    /// Encrypted bytes, of which so many are written.
    wire: Vec<u8>,
    written: usize,
    /// The system has not said `WouldBlock` since it reported readiness.
    readable: bool,
    writable: bool,
    /// The system reported the end of the stream, so a short read is not the last.
    ending: bool,
}

impl Connection {
    /// Begins to dial; `remote` is the X25519 key that the other side must have. What is queued
    /// meanwhile leaves when the channel is open.
    ///
    /// # Errors
    /// What the system says, or the keys being unusable.
    pub fn dial(
        address: SocketAddr,
        identity: &Identity,
        remote: &[u8; 32],
        limits: ConnectionLimits,
    ) -> io::Result<Self> {
        let mut wire = Vec::new();
        let channel = Channel::initiator(identity, remote, limits.message_bytes_max, &mut wire)
            .map_err(io::Error::other)?;
        Self::new(TcpStream::connect(address)?, channel, wire, limits)
    }

    /// Takes over an accepted stream.
    ///
    /// # Errors
    /// What the system says, or the keys being unusable.
    pub fn accepted(
        stream: TcpStream,
        identity: &Identity,
        limits: ConnectionLimits,
    ) -> io::Result<Self> {
        let channel =
            Channel::responder(identity, limits.message_bytes_max).map_err(io::Error::other)?;
        Self::new(stream, channel, Vec::new(), limits)
    }

    fn new(
        stream: TcpStream,
        channel: Channel,
        wire: Vec<u8>,
        limits: ConnectionLimits,
    ) -> io::Result<Self> {
        // The buffers' sizes are left to the system, which grows them with the traffic; a fixed
        // size would be a smaller bound than that.
        stream.set_nodelay(true)?;
        let socket = SockRef::from(&stream);
        socket.set_tcp_keepalive(&TcpKeepalive::new().with_time(SILENCE).with_interval(PROBE))?;
        #[cfg(any(target_os = "linux", target_os = "android"))]
        socket.set_tcp_user_timeout(Some(SILENCE))?;
        Ok(Self {
            stream,
            channel,
            limits,
            plain: Vec::new(),
            frame_ends: Vec::new(),
            rekeys: Vec::new(),
            frame_start: 0,
            wire,
            written: 0,
            readable: false,
            writable: false,
            ending: false,
        })
    }

    /// The stream, to register it.
    pub const fn stream(&mut self) -> &mut TcpStream {
        &mut self.stream
    }

    /// The channel's other end, once it is known.
    #[must_use]
    pub const fn remote(&self) -> Option<&[u8; 32]> {
        self.channel.remote()
    }

    /// What names the channel to both ends, once it is open.
    #[must_use]
    pub const fn binding(&self) -> Option<&[u8; 32]> {
        self.channel.binding()
    }

    /// The channel encrypts under another key what is queued from now on. Once it has encrypted
    /// what was queued before, it forgets the key for that.
    pub fn rekey(&mut self) {
        let end = self.plain.len();
        if end > self.frame_start {
            self.frame_ends.push(end);
            self.frame_start = end;
        }
        self.rekeys.push(end);
    }

    /// Changes the sizes, for instance when the other side has said who it is.
    pub const fn set_limits(&mut self, limits: ConnectionLimits) {
        self.limits = limits;
        self.channel.allow(limits.message_bytes_max);
    }

    /// Takes note of what the poller reported.
    pub fn on_event(&mut self, event: &mio::event::Event) {
        self.ending |= event.is_read_closed() || event.is_error();
        self.readable |= event.is_readable() || self.ending;
        self.writable |= event.is_writable() || event.is_write_closed();
    }

    /// Whether there may be more to read.
    #[must_use]
    pub const fn is_readable(&self) -> bool {
        self.readable
    }

    /// Reads until nothing is left or `budget` bytes were read, and appends the messages. `scratch`
    /// is any buffer; its size is what one system call reads at most.
    ///
    /// # Errors
    /// [`Closed`]; messages that came before are appended.
    pub fn receive(
        &mut self,
        scratch: &mut [u8],
        budget: usize,
        messages: &mut Vec<Bytes>,
    ) -> Result<usize, Closed> {
        let mut total = 0;
        while self.readable && total < budget {
            let room = scratch.len();
            calls::read();
            match self.stream.read(scratch) {
                Ok(0) => return Err(Closed::Remote),
                Ok(count) => {
                    total += count;
                    // Less than there was room for: the stream is empty, and the next arrival will
                    // be reported.
                    self.readable = count == room || self.ending;
                    self.channel.read(&scratch[..count], messages, &mut self.wire)?;
                }
                Err(error) => self.readable = !would_block(&error)?,
            }
        }
        Ok(total)
    }

    /// Appends one message to the queue, in place, and gives its length.
    ///
    /// # Errors
    /// [`Full`] if too much waits already, or if the message is larger than any receiver accepts.
    pub fn queue_with(&mut self, encode: impl FnOnce(&mut Writer)) -> Result<usize, Full> {
        if self.queued_bytes() >= self.limits.queue_bytes_max {
            return Err(Full);
        }
        if self.plain.len() >= IDLE_BYTES_MAX {
            self.make_room();
        }
        let start = self.plain.len();
        let mut writer = Writer::onto(take(&mut self.plain));
        writer.u32(0);
        encode(&mut writer);
        self.plain = writer.into_vec();
        let length = self.plain.len() - start - LENGTH_BYTES;
        if length > pentarchy_core::limits::FRAME_BYTES_MAX {
            self.plain.truncate(start);
            return Err(Full);
        }
        let header = (length as u32).to_le_bytes();
        self.plain[start..start + LENGTH_BYTES].copy_from_slice(&header);
        if self.plain.len() - self.frame_start > CHUNK_BYTES_MAX && start > self.frame_start {
            self.frame_ends.push(start);
            self.frame_start = start;
        }
        Ok(length)
    }

    /// Goes on in a spare buffer, if there is one, rather than in ever larger new ones.
    fn make_room(&mut self) {
        if self.plain.capacity() < ROOM_BYTES {
            let mut room = buffers::empty(ROOM_BYTES);
            if room.capacity() > 0 {
                room.extend_from_slice(&self.plain);
                buffers::give(replace(&mut self.plain, room));
            }
        }
    }

    /// Bytes that wait to be sent.
    #[must_use]
    pub const fn queued_bytes(&self) -> usize {
        self.plain.len() + self.wire.len() - self.written
    }

    /// Bytes that have arrived of a frame that is not whole yet.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.channel.pending_bytes()
    }

    /// Encrypts what waits, in as few frames as possible, and writes until nothing is left or the
    /// system takes no more.
    ///
    /// # Errors
    /// [`Closed`]
    pub fn flush(&mut self) -> Result<(), Closed> {
        if self.channel.is_open() && !self.plain.is_empty() {
            self.seal()?;
        }
        while self.writable && self.written < self.wire.len() {
            calls::written();
            match self.stream.write(&self.wire[self.written..]) {
                Ok(0) => return Err(Closed::Remote),
                Ok(count) => self.written += count,
                Err(error) => self.writable = !would_block(&error)?,
            }
        }
        if self.written == self.wire.len() {
            self.written = 0;
            clear(&mut self.wire);
        }
        Ok(())
    }

    fn seal(&mut self) -> Result<(), Closed> {
        // What is written already makes room, so that the buffer does not grow for ever behind a
        // reader that is always a little too slow.
        if self.written > self.wire.len() / 2 {
            self.wire.drain(..take(&mut self.written));
        }
        if self.wire.is_empty() && self.wire.capacity() < self.plain.len() {
            let room = buffers::empty(self.plain.len() + self.plain.len() / 16);
            if room.capacity() > 0 {
                buffers::give(replace(&mut self.wire, room));
            }
        }
        let mut start = 0;
        self.frame_ends.push(self.plain.len());
        for end in self.frame_ends.drain(..) {
            self.channel.write(&self.plain[start..end], &mut self.wire)?;
            start = end;
            for _ in self.rekeys.extract_if(.., |at| *at <= end) {
                self.channel.rekey(&mut self.wire)?;
            }
        }
        self.frame_start = 0;
        clear(&mut self.plain);
        Ok(())
    }
}

/// Empties a buffer and gives back what an idle connection need not keep.
fn clear(buffer: &mut Vec<u8>) {
    buffer.clear();
    if buffer.capacity() > IDLE_BYTES_MAX {
        buffers::give(take(buffer));
    }
}

/// Whether to wait for readiness; false to try again at once.
fn would_block(error: &io::Error) -> Result<bool, Closed> {
    match error.kind() {
        // A stream that is still being dialled is not connected, which is no failure yet.
        ErrorKind::WouldBlock | ErrorKind::NotConnected => Ok(true),
        ErrorKind::Interrupted => Ok(false),
        kind => Err(Closed::Io(kind)),
    }
}
