//! The first message inside every channel: the initiator says who it is, and a member's pillar
//! also which one: it speaks with the same pillar over there. A replica answers a client by its
//! [welcome](pentarchy_core::welcome), and sends its results over this channel from then on.
//! A client that sent requests before could miss answers, because others may have executed them
//! before this replica knew where the client is.

use pentarchy_core::ids::{ClientId, MemberId, Node};
use pentarchy_core::limits::PILLARS_MAX;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// Who dialled. The receiver checks that the channel's static key belongs to that node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hello {
    /// A member of the group or a client.
    Node(Node),
    /// A pillar of a member, by its number.
    Pillar(MemberId, u8),
}

impl Wire for Hello {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Node(Node::Member(id)) => {
                to.u8(0);
                id.encode(to);
            }
            Self::Node(Node::Client(id)) => {
                to.u8(1);
                id.encode(to);
            }
            Self::Pillar(id, pillar) => {
                to.u8(2);
                id.encode(to);
                to.u8(*pillar);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        match from.u8()? {
            0 => MemberId::decode(from).map(|id| Self::Node(Node::Member(id))),
            1 => ClientId::decode(from).map(|id| Self::Node(Node::Client(id))),
            2 => {
                let (id, pillar) = (MemberId::decode(from)?, from.u8()?);
                if pillar < PILLARS_MAX { Ok(Self::Pillar(id, pillar)) } else { Err(Malformed) }
            }
            _ => Err(Malformed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trips() {
        let nodes = [Node::Member(MemberId(3)), Node::Client(ClientId([9; 32]))];
        let last = Hello::Pillar(MemberId(3), PILLARS_MAX - 1);
        for hello in nodes.map(Hello::Node).into_iter().chain([last]) {
            let bytes = hello.to_bytes();
            assert_eq!(Hello::from_bytes(&bytes), Ok(hello));
            assert_eq!(Hello::from_bytes(&bytes.slice(1..)), Err(Malformed));
        }
        for wrong in [vec![3], vec![2, 3, 0, 0, 0], vec![2, 3, 0, 0, 0, PILLARS_MAX], vec![0, 3, 0]]
        {
            assert_eq!(Hello::from_bytes(&wrong.into()), Err(Malformed));
        }
    }

    /// Who knows no pillars says what it always said.
    #[test]
    fn a_replica_and_a_client_say_who_they_are_and_nothing_else() {
        let replica = Hello::Node(Node::Member(MemberId(3)));
        assert_eq!(replica.to_bytes(), vec![0, 3, 0, 0, 0]);
        let client = Hello::Node(Node::Client(ClientId([9; 32])));
        assert_eq!(client.to_bytes(), [&[1][..], &[9; 32]].concat());
        assert_eq!(Hello::Pillar(MemberId(3), 1).to_bytes(), vec![2, 3, 0, 0, 0, 1]);
    }
}
