//! Listens, and starts a task for each connection.

use super::backend::Backend;
use super::config::{GatewayConfig, GatewayError};
use super::connection::Connection;
use super::hub::{Hub, TICK};
use super::inbox::Inbox;
use super::local::Session;
use super::shared::{Peer, Shared};
use super::watch::Watch;
use socket2::{SockRef, TcpKeepalive};
use std::future::Future;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::{Duration, Instant};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::MissedTickBehavior;

/// How long to wait after a connection could not be accepted, which is mostly for want of file
/// descriptors and would otherwise be tried again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// How long a gateway that ends waits for its session to end.
const CLOSING_TIME: Duration = Duration::from_secs(2);

/// Connections that have not said their password. They could keep out all others.
const STRANGERS_MAX: u64 = 256;

/// Silence after which the system asks a client's host whether it is still there, and between such
/// questions. One that is gone would otherwise keep its connection for ever.
const KEEPALIVE: (Duration, Duration) = (Duration::from_secs(60), Duration::from_secs(10));

/// Between two warnings that connections cannot be accepted.
const ACCEPT_WARNING: Duration = Duration::from_secs(60);

/// A gateway that listens.
pub struct Gateway<B> {
    listener: TcpListener,
    backend: B,
    hub: Arc<Hub<B>>,
    shared: Arc<Shared>,
}

impl<B: Backend> Gateway<B> {
    /// Listens, but accepts nothing yet.
    ///
    /// # Errors
    /// [`GatewayError`], also for an address beyond loopback.
    pub async fn bind(config: GatewayConfig, backend: B) -> Result<Self, GatewayError> {
        config.check()?;
        let listen = config.listen;
        let failed = |error| GatewayError::Listen(listen, error);
        let listener = TcpListener::bind(listen).await.map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        let shared = Arc::new(Shared::new(config, address));
        let hub = Hub::new(backend.clone(), shared.config.reply_timeout);
        Ok(Self { listener, backend, hub, shared })
    }

    /// Where it listens.
    #[must_use]
    pub fn local_addr(&self) -> SocketAddr {
        self.shared.address
    }

    /// A window on this gateway for others.
    #[must_use]
    pub fn watch(&self) -> Watch {
        Watch(self.shared.clone())
    }

    /// Serves until `shutdown` comes, then ends what connections registered with the replicas and
    /// closes all connections. What they had submitted may still be executed.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        tracing::info!(address = %self.shared.address, "Redis gateway listens");
        let mut connections = JoinSet::new();
        let mut next = 1;
        let mut warned = None::<Instant>;
        let mut shutdown = std::pin::pin!(shutdown);
        self.hub.start();
        let mut ticks = tokio::time::interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = ticks.tick() => self.hub.tick(),
                () = &mut shutdown => break,
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection's task failed");
                    }
                }
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, peer)) => {
                        if let Some(connection) = self.accept(stream, peer, next) {
                            connections.spawn(serve(connection, peer));
                        }
                        next += 1;
                    }
                    Err(error) => {
                        if warned.is_none_or(|at| at.elapsed() >= ACCEPT_WARNING) {
                            warned = Some(Instant::now());
                            let what = "cannot accept connections; raise the limit of open files";
                            tracing::warn!(%error, "{what} (ulimit -n)");
                        }
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        tracing::info!("Redis gateway ends");
        if tokio::time::timeout(CLOSING_TIME, self.hub.close()).await.is_err() {
            tracing::warn!("the replicas did not end the session in time; its lease will expire");
        }
    }

    /// The new connection, unless there are too many.
    fn accept(&self, stream: TcpStream, peer: SocketAddr, id: u64) -> Option<Connection<B>> {
        let counters = &self.shared.counters;
        counters.connections.fetch_add(1, Relaxed);
        let full = self.shared.connected() >= self.shared.config.connections_max;
        if full || counters.strangers.load(Relaxed) >= STRANGERS_MAX {
            counters.rejected.fetch_add(1, Relaxed);
            // The client may be gone already, and would get nothing else anyway.
            let _ = stream.into_std().and_then(|mut stream| {
                std::io::Write::write_all(&mut stream, b"-ERR max number of clients reached\r\n")
            });
            return None;
        }
        // Replies leave as soon as they are made. Without it they leave later, which is no error.
        let _ = stream.set_nodelay(true);
        let keepalive = TcpKeepalive::new().with_time(KEEPALIVE.0).with_interval(KEEPALIVE.1);
        if let Err(error) = SockRef::from(&stream).set_tcp_keepalive(&keepalive) {
            tracing::debug!(%peer, %error, "no keepalive");
        }
        let inbox = Arc::new(Inbox::new(self.shared.config.output_bytes_max));
        let local = stream.local_addr().unwrap_or(self.shared.address);
        let session = Session::new(id, (peer, local), &self.shared);
        let line = session.line().into();
        self.shared.register(id, Peer { address: peer, local, inbox: inbox.clone(), line });
        let (hub, backend) = (self.hub.clone(), self.backend.clone());
        Some(Connection::new(stream, hub, backend, self.shared.clone(), session, inbox))
    }
}

async fn serve<B: Backend>(connection: Connection<B>, peer: SocketAddr) {
    if let Err(error) = connection.serve().await {
        tracing::debug!(%peer, %error, "connection ended");
    }
}
