//! Waiting for readiness.

use crate::calls;
use mio::event::Source;
use mio::{Events, Interest, Poll};
use std::io;
use std::time::Duration;

pub use mio::event::Event;
pub use mio::net::{TcpListener, TcpStream};
#[cfg(unix)]
pub use mio::unix::SourceFd;
pub use mio::{Token, Waker};

/// Events taken from the system at a time.
const EVENTS_MAX: usize = 1024;

/// Edge-triggered readiness of many sources. A source must be used until it would block before it
/// is reported again.
pub struct Poller {
    poll: Poll,
    events: Events,
}

impl Poller {
    /// A poller without sources.
    ///
    /// # Errors
    /// What the system says.
    pub fn new() -> io::Result<Self> {
        Ok(Self { poll: Poll::new()?, events: Events::with_capacity(EVENTS_MAX) })
    }

    /// Reports reads and writes of a source under this token.
    ///
    /// # Errors
    /// What the system says.
    pub fn register(&self, source: &mut impl Source, token: Token) -> io::Result<()> {
        self.poll.registry().register(source, token, Interest::READABLE | Interest::WRITABLE)
    }

    /// Reports reads of a source that is only read, such as a listener.
    ///
    /// # Errors
    /// What the system says.
    pub fn register_readable(&self, source: &mut impl Source, token: Token) -> io::Result<()> {
        self.poll.registry().register(source, token, Interest::READABLE)
    }

    /// Forgets a source. Closing it does the same.
    pub fn deregister(&self, source: &mut impl Source) {
        // Fails only for a source that is not registered, which is what is wanted.
        let _ = self.poll.registry().deregister(source);
    }

    /// Something that ends [`Self::wait`] from another thread.
    ///
    /// # Errors
    /// What the system says.
    pub fn waker(&self, token: Token) -> io::Result<Waker> {
        Waker::new(self.poll.registry(), token)
    }

    /// Waits until something is ready or the time is over. A signal ends the wait early.
    ///
    /// # Errors
    /// What the system says.
    pub fn wait(&mut self, timeout: Duration) -> io::Result<impl Iterator<Item = &Event>> {
        calls::waited();
        match self.poll.poll(&mut self.events, Some(timeout)) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => self.events.clear(),
            other => other?,
        }
        Ok(self.events.iter())
    }
}
