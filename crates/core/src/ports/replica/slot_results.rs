//! The capability to hear what came of a slot. A core that wants it says so in its rules
//! ([`Rules::hears_slot_results`](crate::protocol::Rules::hears_slot_results)).

use crate::digest::{Digest, Hasher};
use crate::ids::{ClientId, Slot};
use crate::ports::client::Reply;
use crate::wire::Wire as _;
use alloc::vec::Vec;

/// What the host tells a core that hears what came of slots.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// Answer to [`Execute`](super::Output::Execute) or
    /// [`Speculate`](super::speculation::Output::Speculate), before anything from outside. A slot
    /// that is not executed has no answer, and a core must not wait for one for ever:
    ///
    /// - while an installed state is being made durable, nothing is executed: then
    ///   [`Installed`](super::Input::Installed) is what it hears;
    /// - behind the last slot of the epoch nothing is. If that slot was executed speculatively, a
    ///   [`Rollback`](super::speculation::Output::Rollback) to before it leads on; else the epoch
    ///   is over, and so is this core.
    Executed {
        /// The slot.
        slot: Slot,
        /// What came of it: one entry for each client, by ascending identity.
        results: Vec<Results>,
    },
}

/// What came of a client's requests in one slot.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Results {
    /// The client.
    pub client: ClientId,
    /// The digest of its replies.
    pub digest: Digest,
    /// The replies, in the order of execution.
    pub replies: Vec<Reply>,
}

impl Results {
    /// A client's replies, with their digest.
    #[must_use]
    pub fn new(client: ClientId, replies: Vec<Reply>) -> Self {
        let mut hasher = Hasher::new("results");
        hasher.u64(replies.len() as u64);
        for reply in &replies {
            hasher.bytes(&reply.to_bytes());
        }
        Self { client, digest: hasher.finish(), replies }
    }
}

impl From<Input> for super::Input {
    fn from(input: Input) -> Self {
        Self::SlotResults(input)
    }
}
