//! What goes into a replica and what comes out of it.

use super::Recovered;
use pentarchy_core::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::erased::Incoming;
use pentarchy_core::forge::Lie;
use pentarchy_core::ids::{ClientId, Epoch, ReplicaId, ReplicaSet, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Place, Reply};
use pentarchy_core::protocol::{Delay, Evidence, Reject, TimerKey, To, Topic};
use pentarchy_core::wire::{Reader, Wire as _, Writer};
use pentarchy_machine::{EPOCHS, PROTOCOL, RESUMING, TRANSFER};
use std::sync::Arc;

/// Who sends or gets a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Address {
    /// A replica.
    Replica(ReplicaId),
    /// A client, by its index in the world.
    Client(u16),
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
    /// A [`pentarchy_core::ports::client::ToClient`].
    ToClient(Bytes),
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
    pub(super) fn from_link(bytes: &Bytes) -> Self {
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
    pub(super) fn to_link(&self) -> Option<Bytes> {
        let mut to = Writer::default();
        match self {
            Self::Protocol(epoch, _) => {
                to.u8(PROTOCOL);
                epoch.encode(&mut to);
            }
            Self::Transfer(_) => to.u8(TRANSFER),
            Self::Epochs(_) => to.u8(EPOCHS),
            Self::Resuming(_) => to.u8(RESUMING),
            Self::ToReplica(_) | Self::ToClient(_) => return None,
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
            | Self::ToClient(bytes) => bytes,
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
            Self::ToClient(_) => Self::ToClient(bytes),
        }
    }

    /// A number for its kind.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Protocol(..) => 1,
            Self::Transfer(_) => 2,
            Self::ToReplica(_) => 3,
            Self::ToClient(_) => 4,
            Self::Epochs(_) => 5,
            Self::Resuming(_) => 6,
        }
    }
}

/// What a replica does.
pub enum Act {
    /// Sends a packet.
    Send {
        /// To whom.
        to: Address,
        /// What.
        packet: Packet,
    },
    /// Arms a timer, replacing one of the same name.
    Arm {
        /// Which.
        timer: TimerKey,
        /// For how long.
        after: Delay,
    },
    /// Stops a timer.
    Disarm(TimerKey),
    /// Stops all timers: they are of an epoch that is over, and none of them fires late.
    DisarmAll,
    /// Does not listen to somebody for a moment.
    Pause {
        /// To whom.
        whom: Address,
        /// It sent many times its share, or forges. If it goes on, the next moment is longer.
        is_flood: bool,
    },
    /// Lets checkers and traces know.
    Saw(Observation),
}

/// What checkers and traces want to know of a replica.
pub enum Observation {
    /// It sent a message of its own; `describe` has the line for it.
    Said {
        /// To whom.
        to: To,
        /// What.
        incoming: Incoming,
        /// Of what that speaks, and the digest of what it says; none if it binds nobody.
        topic: Option<Box<(Topic, Digest)>>,
    },
    /// It passed on what another replica, or itself, had authenticated.
    Relayed {
        /// To whom.
        to: To,
        /// Of which kind it is.
        kind: &'static str,
        /// The bytes.
        wire: Bytes,
    },
    /// It lied.
    Lied {
        /// To whom.
        to: ReplicaSet,
        /// What about.
        lie: Lie,
    },
    /// Its device gave this identifier to the statement with this digest.
    Certified {
        /// The epoch in which the device was.
        epoch: Epoch,
        /// The identifier.
        ui: Ui,
        /// The digest.
        digest: Digest,
    },
    /// A message of its core left.
    Left {
        /// All entries below this were to be kept when the message was handed over, ...
        behind: u64,
        /// ... and all below this are on the disk.
        durable: u64,
    },
    /// It went on because a state is durable.
    Rests {
        /// The slot of the state.
        slot: Slot,
        /// The newest state on the disk.
        saved: Option<Slot>,
    },
    /// It started again with what it had kept.
    Found(Recovered),
    /// It goes on from what it had kept, and speaks from now on in this epoch.
    Resumes {
        /// The epoch.
        epoch: Epoch,
        /// Whether enough others have said what they saw of it.
        is_answered: bool,
    },
    /// It ended, as its counter does not answer.
    LostCounter,
    /// It ended, as another replica has seen what it had not kept; what it says of that.
    Rewound(String),
    /// It executed a slot.
    Executed {
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Arc<Batch>,
    },
    /// It executed a slot, which it may take back.
    Speculated {
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: Arc<Batch>,
        /// Names all that it executed up to there.
        history: Digest,
        /// What its service ran.
        ran: Vec<(ClientId, u64)>,
        /// What it told clients.
        told: Vec<(ClientId, Vec<Reply>)>,
    },
    /// What it executed up to this slot counts.
    Committed {
        /// The slot.
        upto: Slot,
    },
    /// It took back what it had executed behind this slot.
    RolledBack {
        /// The slot.
        after: Slot,
    },
    /// It confirmed to a client that a place is final.
    Confirmed {
        /// The place.
        place: Place,
    },
    /// It answered a client.
    Replied {
        /// Whom.
        client: ClientId,
        /// With what.
        replies: Vec<Reply>,
    },
    /// It told a client an event.
    Told {
        /// Whom.
        client: ClientId,
        /// The event's number.
        number: u64,
        /// What.
        body: Bytes,
    },
    /// It took a checkpoint.
    Checkpointed {
        /// The slot.
        slot: Slot,
        /// Its state.
        state: Digest,
    },
    /// It believes a checkpoint to be stable.
    Stable {
        /// The slot.
        slot: Slot,
        /// The vouched state.
        state: Digest,
    },
    /// It fetches a state.
    Fetching {
        /// The slot.
        slot: Slot,
        /// The vouched state.
        state: Digest,
    },
    /// It installed a state that came from others.
    Installed {
        /// The slot.
        slot: Slot,
        /// Its own digest of what it now has.
        state: Digest,
    },
    /// It entered a view.
    Entered {
        /// The view.
        view: View,
        /// Why the one before was left.
        reason: &'static str,
    },
    /// It found its own state to be wrong.
    Diverged {
        /// The slot.
        slot: Slot,
    },
    /// It refused a packet.
    Rejected {
        /// From whom.
        from: Address,
        /// Why.
        why: Reject,
    },
    /// It found a lie.
    Reported(Evidence),
    /// It asked the group to admit its device.
    Asked {
        /// The number of the request.
        number: u64,
        /// The request.
        operation: Bytes,
    },
    /// It executed the last slot of an epoch.
    Ended(Handover),
    /// It goes on in this epoch.
    Began(Arc<Membership>),
}

impl Observation {
    /// Whether the replica asks for another view, or repeats that it does.
    #[must_use]
    pub fn asks(&self) -> bool {
        let kind = match self {
            Self::Said { incoming, .. } => incoming.kind(),
            Self::Relayed { kind, .. } => kind,
            _ => return false,
        };
        kind == "request_view_change"
    }
}
