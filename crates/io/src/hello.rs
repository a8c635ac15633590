//! The first message inside every channel: the initiator says who it is. A replica answers a client
//! by an empty message, the *welcome*: what is executed from then on is answered over this channel.
//! A client that sent requests before could miss answers, because others may have executed them
//! before this replica knew where the client is.

use pentarchy_core::ids::{ClientId, Node, ReplicaId};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Who dialled. The receiver checks that the channel's static key belongs to that node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hello(pub Node);

impl Wire for Hello {
    fn encode(&self, to: &mut Writer) {
        match &self.0 {
            Node::Replica(id) => {
                to.u8(0);
                id.encode(to);
            }
            Node::Client(id) => {
                to.u8(1);
                id.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => ReplicaId::decode(from).map(|id| Self(Node::Replica(id))),
            1 => ClientId::decode(from).map(|id| Self(Node::Client(id))),
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        for node in [Node::Replica(ReplicaId(3)), Node::Client(ClientId([9; 32]))] {
            let bytes = Hello(node).to_bytes();
            assert_eq!(Hello::from_bytes(&bytes), Ok(Hello(node)));
        }
        assert_eq!(Hello::from_bytes(&vec![2].into()), Err(Malformed));
    }
}
