//! The capability to speak with clients: to execute does not mean to reply. A core that replies
//! itself says so in its rules ([`Rules::replies_itself`](crate::protocol::Rules::replies_itself));
//! its host then tells no client what came of a request. Such a core does not speculate: what it is
//! asked for is final, and so is what it replies.

use crate::ids::ClientId;
use crate::ports::client::Reply;
use alloc::vec::Vec;
use bytes::Bytes;

/// What the host tells a core that replies itself.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Input {
    /// A client asks again for what is settled. At most once in a round for each client; never
    /// while the replica has not resumed: the client has to ask again then.
    Asked {
        /// The client.
        client: ClientId,
        /// What the client table has for it, by ascending number.
        replies: Vec<Reply>,
    },
}

/// What a core that speaks with clients asks of its host. What the core asked to be kept before is
/// durable when a client is told.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Output {
    /// Tell a client what came of its requests, which is final.
    Reply {
        /// The client.
        client: ClientId,
        /// The replies.
        replies: Vec<Reply>,
    },
    /// Tell a client something in the protocol's own encoding
    /// ([`ToClient::Protocol`](crate::ports::client::ToClient::Protocol)).
    Tell {
        /// The client.
        client: ClientId,
        /// The encoding.
        message: Bytes,
    },
}

impl From<Input> for super::Input {
    fn from(input: Input) -> Self {
        Self::Replying(input)
    }
}

impl From<Output> for super::Output {
    fn from(output: Output) -> Self {
        Self::Replying(output)
    }
}
