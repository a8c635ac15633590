//! What replicas say to a client, as its host tells it apart.

use bytes::Bytes;
use pentarchy_core::ids::ReplicaId;
use pentarchy_core::ports::client::ToClient;
use pentarchy_core::standing::Standing;
use pentarchy_core::welcome::Welcome;
use pentarchy_core::wire::Wire as _;
use tracing::debug;

/// What a replica says: of itself, or to the client's core.
pub enum Said {
    Status(Bytes),
    Standing(Standing, Bytes),
    State(Bytes),
    Begun(Welcome),
    ToCore(ToClient),
}

impl Said {
    /// Reads what a replica sent; none if the replica sent no message.
    pub fn read(from: ReplicaId, bytes: &Bytes) -> Option<Self> {
        match ToClient::from_bytes(bytes) {
            Ok(ToClient::Status(json)) => return Some(Self::Status(json)),
            Ok(ToClient::Standing(bytes)) => match Standing::from_bytes(&bytes) {
                Ok(standing) => return Some(Self::Standing(standing, bytes)),
                Err(_) => debug!(replica = from.0, "malformed standing"),
            },
            Ok(ToClient::State(part)) => return Some(Self::State(part)),
            Ok(ToClient::Begun(welcome)) => return Some(Self::Begun(welcome)),
            Ok(message) => return Some(Self::ToCore(message)),
            Err(_) => debug!(replica = from.0, "malformed message"),
        }
        None
    }
}
