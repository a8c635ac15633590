//! What a replica did, as checkers and traces are told.

use crate::packet::Address;
use pentarchy_core::Bytes;
use pentarchy_core::ballot::{Ballot, Shown};
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::erased::Incoming;
use pentarchy_core::forge::Lie;
use pentarchy_core::ids::{ClientId, Epoch, ReplicaSet, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Place, Reply};
use pentarchy_core::protocol::{Evidence, Reject, To, Topic};
use std::sync::Arc;

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
        /// What it says towards decisions.
        ballots: Vec<Ballot>,
        /// What the replica shows of its ballots, if it leaves a view by this message.
        shows: Option<Box<Shown>>,
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
    /// A message left that tells a client what came of this slot: the highest so far, or the
    /// highest so far of a view.
    Supports {
        /// The slot.
        slot: Slot,
        /// Where that stands, if it may be taken back.
        place: Option<Place>,
    },
    /// A query came.
    Queried {
        /// Whose.
        client: ClientId,
        /// Its number.
        number: u64,
    },
    /// It answered a query.
    Answered {
        /// Whose.
        client: ClientId,
        /// Its number.
        number: u64,
        /// The last slot that was executed, and whether that may be taken back.
        state: (Slot, bool),
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
    /// It ends, as the group goes on without it.
    Removed {
        /// From this epoch on.
        epoch: Epoch,
    },
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

/// What a replica found when it started again.
#[derive(Clone, Copy, Debug)]
pub struct Recovered {
    /// The slot up to which it had states, and may have vouched for them.
    pub had: Slot,
    /// Others may rely on all entries below this, ...
    pub relied: u64,
    /// ... and all below this are there.
    pub found: u64,
    /// Others may rely on its having the state of this slot, or of a later one, ...
    pub vouched: Slot,
    /// ... and it has this one.
    pub has: Slot,
    /// Something was damaged meanwhile, or put back from a copy.
    pub rots: bool,
    /// The latter.
    pub is_old: bool,
}
