//! What all connections of a gateway share: its setup, its counters, and how they see each other.

use super::backend::BackendError;
use super::backend_error::MAY_TAKE;
use super::budget::Budget;
use super::config::GatewayConfig;
use super::inbox::Inbox;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

/// The group will never answer this gateway again.
const NEVER: u64 = u64::MAX;

/// How long a gateway tells clients to look for another one after the group has not answered.
const UNANSWERED_MS: u64 = 5_000;

/// See the [module](self).
pub(crate) struct Shared {
    pub config: GatewayConfig,
    pub address: SocketAddr,
    pub started: Instant,
    /// What every command that waits for the backend has a share of.
    pub budget: Budget,
    pub counters: Counters,
    /// Milliseconds from the start to the last command that the group failed to answer, and one
    /// more; 0 if it has answered one since, and [`NEVER`] if it never will again.
    unanswered: AtomicU64,
    clients: Mutex<BTreeMap<u64, Peer>>,
}

/// A connection, as others see it.
#[derive(Clone)]
pub(crate) struct Peer {
    pub address: SocketAddr,
    pub local: SocketAddr,
    pub inbox: Arc<Inbox>,
    /// As `CLIENT LIST` shows it.
    pub line: Bytes,
}

/// What happened so far.
#[derive(Default)]
pub(crate) struct Counters {
    pub connections: AtomicU64,
    pub rejected: AtomicU64,
    pub commands: AtomicU64,
    pub failures: AtomicU64,
    /// Connections that have not said their password.
    pub strangers: AtomicU64,
    /// Connections whose command waits for an element now.
    pub blocked: AtomicU64,
}

impl Shared {
    /// Of a gateway that listens there, and to which nobody is connected yet.
    pub fn new(config: GatewayConfig, address: SocketAddr) -> Self {
        let budget = Budget::new(config.outstanding_max, config.results_bytes_max);
        Self {
            config,
            address,
            started: Instant::now(),
            budget,
            counters: Counters::default(),
            unanswered: AtomicU64::new(0),
            clients: Mutex::default(),
        }
    }

    /// The group answered a command, or the gateway answered with this line.
    pub fn note(&self, failure: Option<&'static str>) {
        let unanswered = self.unanswered.load(Relaxed);
        let Some(line) = failure else {
            if unanswered != 0 && unanswered != NEVER {
                self.unanswered.store(0, Relaxed);
            }
            return;
        };
        self.counters.failures.fetch_add(1, Relaxed);
        let [ended, overtaken] =
            [BackendError::Closed, BackendError::Overtaken].map(|it| it.line());
        let late = [BackendError::TimedOut.line(), BackendError::GivenUp.line(), MAY_TAKE];
        if line == ended || line == overtaken {
            self.unanswered.store(NEVER, Relaxed);
        } else if late.contains(&line) && unanswered != NEVER {
            self.unanswered.store(self.elapsed_ms() + 1, Relaxed);
        }
    }

    /// Whether clients may expect answers: the group answered the last command, or that was a while
    /// ago, so that somebody has to try.
    pub fn serves(&self) -> bool {
        let unanswered = self.unanswered.load(Relaxed);
        unanswered == 0 || self.elapsed_ms() >= unanswered.saturating_add(UNANSWERED_MS)
    }

    fn elapsed_ms(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Peer>> {
        self.clients.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many clients are connected.
    pub fn connected(&self) -> usize {
        self.lock().len()
    }

    pub fn register(&self, id: u64, peer: Peer) {
        self.lock().insert(id, peer);
    }

    /// Keeps the line that describes a client.
    pub fn describe(&self, id: u64, line: String) {
        if let Some(peer) = self.lock().get_mut(&id) {
            peer.line = line.into();
        }
    }

    pub fn forget(&self, id: u64) {
        self.lock().remove(&id);
    }

    /// The lines that describe clients.
    pub fn descriptions(&self, wanted: impl Fn(u64) -> bool) -> Vec<Bytes> {
        let clients = self.lock();
        let wanted = clients.iter().filter(|(id, _)| wanted(**id));
        wanted.map(|(_, peer)| peer.line.clone()).collect()
    }

    /// All connections.
    pub fn peers(&self) -> Vec<(u64, Peer)> {
        self.lock().iter().map(|(id, peer)| (*id, peer.clone())).collect()
    }
}
