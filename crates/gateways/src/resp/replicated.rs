//! The backend that the gateway is for: a client of the replicas.

use super::backend::{Backend, BackendError, Completion, EventSink, GatewayEvent};
use bytes::Bytes;
use pentarchy_client::{
    Client, ClientConfig, ClientEvent, ConnectError, GIVE_UP_TIME, RequestError,
};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// A client of the replicas. Every command is ordered, reads too.
#[derive(Clone)]
pub struct Replicated {
    client: Client,
    /// Known only once there is a gateway, after the client.
    sink: Arc<OnceLock<EventSink>>,
}

impl Replicated {
    /// Connects. Give the client an `outstanding_max` above the gateway's, so that it never has to
    /// block the gateway. Whatever the configuration has as `on_event` is replaced.
    ///
    /// # Errors
    /// [`ConnectError`]
    pub fn connect(mut config: ClientConfig) -> Result<Self, ConnectError> {
        let sink = Arc::new(OnceLock::<EventSink>::new());
        let told = sink.clone();
        config.on_event = Some(Box::new(move |event| {
            // Before there is a gateway nothing was asked for, so nothing is lost.
            if let Some(sink) = told.get() {
                sink(match event {
                    ClientEvent::Event(body) => GatewayEvent::Event(body),
                    ClientEvent::Lost => GatewayEvent::Lost,
                });
            }
        }));
        Ok(Self { client: Client::connect(config)?, sink })
    }

    /// The client itself, to ask it how the replicas are.
    #[must_use]
    pub const fn client(&self) -> &Client {
        &self.client
    }
}

impl Backend for Replicated {
    fn submit(&self, operation: Bytes, within: Duration, done: Completion) {
        self.client.submit_within(operation, within, move |result| {
            done.complete(result.map_err(BackendError::from));
        });
    }

    fn grace(&self) -> Duration {
        // A bit more, so that it is the client that says how it stands.
        GIVE_UP_TIME + GIVE_UP_TIME / 2
    }

    fn on_event(&self, sink: EventSink) {
        // A second gateway over one client would be told nothing; each has a client of its own.
        let _ = self.sink.set(sink);
    }
}

impl From<RequestError> for BackendError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Forgotten => Self::Forgotten,
            RequestError::Refused | RequestError::Full | RequestError::Unreachable => Self::Busy,
            RequestError::TooLarge => Self::TooLarge,
            RequestError::TimedOut => Self::TimedOut,
            RequestError::GivenUp => Self::GivenUp,
            RequestError::Overtaken => Self::Overtaken,
            // A gateway judges and cancels nothing.
            RequestError::Closed | RequestError::Cancelled | RequestError::JudgedByProtocol => {
                Self::Closed
            }
        }
    }
}
