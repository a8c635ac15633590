//! The backend that the gateway is for: a client of the replicas.

use super::backend::{Backend, BackendError, Completion};
use bytes::Bytes;
use pentarchy_client::{Client, RequestError};

/// Every command is ordered, reads too. Give the client an `outstanding_max` above the gateway's,
/// so that it never has to block the gateway.
impl Backend for Client {
    fn submit(&self, operation: Bytes, done: Completion) {
        self.submit_with(operation, move |result| {
            done.complete(result.map_err(BackendError::from))
        });
    }
}

impl From<RequestError> for BackendError {
    fn from(error: RequestError) -> Self {
        match error {
            RequestError::Forgotten => Self::Forgotten,
            RequestError::Refused | RequestError::Full | RequestError::Unreachable => Self::Busy,
            RequestError::TooLarge => Self::TooLarge,
            RequestError::TimedOut => Self::TimedOut,
            RequestError::Closed => Self::Closed,
        }
    }
}
