//! The ordering of one replica alone: what it heard in a whole group is written down once, and told
//! again to a fresh one as often as is wanted. Nothing is executed, and nothing leaves.
//!
//! Equal replicas that hear the same say the same, so the recorded answers of the others fit.

use crate::host::Host;
use pentarchy_core::Bytes;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{ClientId, Millis, ReplicaId, Slot};
use pentarchy_core::ports::replica::Output;

/// Something that a replica hears.
#[derive(Clone, Debug)]
pub enum Heard {
    /// From another replica: a message, decrypted.
    Replica(ReplicaId, Bytes),
    /// From a client.
    Client(ClientId, Bytes),
    /// All that had arrived was told.
    Round(Millis),
    /// The digest of the state after a slot.
    Checkpointed(Slot, Digest),
}

/// All that a replica heard, in order.
pub type Recording = Vec<Heard>;

impl Heard {
    /// Tells a replica.
    pub fn tell(&self, host: &mut Host) {
        match self {
            Self::Replica(peer, bytes) => host.on_peer(*peer, bytes),
            Self::Client(client, bytes) => host.on_client(*client, bytes),
            Self::Round(now) => {
                host.admit();
                host.on_round(*now);
            }
            Self::Checkpointed(slot, state) => host.checkpointed(*slot, *state),
        }
    }
}

/// Tells a fresh replica all of it. Gives the number of requests that it ordered.
pub fn order(host: &mut Host, recording: &[Heard]) -> usize {
    let mut ordered = 0;
    for heard in recording {
        heard.tell(host);
        while let Some(output) = host.next_output() {
            if let Output::Execute { batch, .. } | Output::Speculate { batch, .. } = output {
                ordered += batch.requests();
            }
        }
        host.drop_outgoing();
    }
    ordered
}
