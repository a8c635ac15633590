//! What replicas and clients send each other.

use pentarchy_core::Bytes;
use pentarchy_core::ids::{Epoch, MemberId, ReplicaId};
use pentarchy_core::membership::{Member, Membership};
use pentarchy_core::wire::{Reader, Wire as _, Writer};
use pentarchy_machine::{EPOCHS, PROTOCOL, RESUMING, TRANSFER};

/// Who sends or gets a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// A replica, by its place in the world. That is the number of its member, in all epochs, and
    /// of the replica that it is in the first one.
    Replica(ReplicaId),
    /// A client, by its index in the world.
    Client(u16),
}

impl Address {
    /// Where a member is.
    #[must_use]
    pub const fn of(MemberId(number): MemberId) -> Self {
        Self::Replica(ReplicaId(number as u16))
    }
}

/// Which member is at this place in the world.
#[must_use]
pub const fn member_at(ReplicaId(place): ReplicaId) -> MemberId {
    MemberId(place as u32)
}

/// The member at this place in the world; none if the group has none there.
#[must_use]
pub fn member_of(membership: &Membership, place: ReplicaId) -> Option<&Member> {
    membership.members.iter().find(|member| member.id == member_at(place))
}

/// Where in the world a replica of this group is; none if the group has none of that number.
#[must_use]
pub fn place_of(membership: &Membership, replica: ReplicaId) -> Option<ReplicaId> {
    let member = membership.members.get(usize::from(replica.0))?;
    Some(ReplicaId(member.id.0 as u16))
}

/// Whether the member at this place can only have joined after this configuration.
#[must_use]
pub fn joins_later(membership: &Membership, place: ReplicaId) -> bool {
    let stated = membership.stated.as_ref();
    stated.is_some_and(|stated| member_at(place) >= stated.next_member)
}

/// What goes over a channel.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Packet {
    /// A protocol's message, as its core encoded it, and the epoch of that core.
    Protocol(Epoch, Bytes),
    /// A [`pentarchy_core::transfer::Message`].
    Transfer(Bytes),
    /// A [`pentarchy_core::ports::client::ToReplica`].
    ToReplica(Bytes),
    /// A [`pentarchy_core::ports::client::ToClient`], and the number of the configuration in which
    /// the replica was when it sent that. A channel keeps its order, and a replica says what has
    /// begun before it says anything in it, so whoever hears the message knows.
    ToClient(u64, Bytes),
    /// A [`pentarchy_core::epochs::Message`].
    Epochs(Bytes),
    /// A question of a replica that goes on from its disk, or an answer to one.
    Resuming(Bytes),
}

impl Packet {
    /// What one replica sends another, as a machine has it sent.
    ///
    /// # Panics
    /// If no machine sends this.
    #[must_use]
    pub(crate) fn from_link(bytes: &Bytes) -> Self {
        let rest = bytes.slice(1..);
        match bytes[0] {
            PROTOCOL => {
                let epoch = Epoch::decode(&mut Reader::new(&rest)).expect("an epoch");
                Self::Protocol(epoch, rest.slice(8..))
            }
            TRANSFER => Self::Transfer(rest),
            EPOCHS => Self::Epochs(rest),
            RESUMING => Self::Resuming(rest),
            other => unreachable!("no machine sends messages of kind {other}"),
        }
    }

    /// The same, as a machine takes it; none if only clients and replicas say it to each other.
    pub(crate) fn to_link(&self) -> Option<Bytes> {
        let mut to = Writer::default();
        match self {
            Self::Protocol(epoch, _) => {
                to.u8(PROTOCOL);
                epoch.encode(&mut to);
            }
            Self::Transfer(_) => to.u8(TRANSFER),
            Self::Epochs(_) => to.u8(EPOCHS),
            Self::Resuming(_) => to.u8(RESUMING),
            Self::ToReplica(_) | Self::ToClient(..) => return None,
        }
        to.array(self.bytes());
        Some(to.into_bytes())
    }

    /// Its bytes.
    #[must_use]
    pub const fn bytes(&self) -> &Bytes {
        match self {
            Self::Protocol(_, bytes)
            | Self::Transfer(bytes)
            | Self::Epochs(bytes)
            | Self::Resuming(bytes)
            | Self::ToReplica(bytes)
            | Self::ToClient(_, bytes) => bytes,
        }
    }

    /// The same kind with other bytes.
    #[must_use]
    pub const fn with(&self, bytes: Bytes) -> Self {
        match self {
            Self::Protocol(epoch, _) => Self::Protocol(*epoch, bytes),
            Self::Epochs(_) => Self::Epochs(bytes),
            Self::Resuming(_) => Self::Resuming(bytes),
            Self::Transfer(_) => Self::Transfer(bytes),
            Self::ToReplica(_) => Self::ToReplica(bytes),
            Self::ToClient(begun, _) => Self::ToClient(*begun, bytes),
        }
    }

    /// A number for its kind.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Protocol(..) => 1,
            Self::Transfer(_) => 2,
            Self::ToReplica(_) => 3,
            Self::ToClient(..) => 4,
            Self::Epochs(_) => 5,
            Self::Resuming(_) => 6,
        }
    }
}
