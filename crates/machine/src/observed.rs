//! What a machine does, for drivers that watch it: checkers, traces, worlds in which disks fail. A
//! driver that does not watch pays nothing, since machines are compiled for each driver.

use bytes::Bytes;
use pentarchy_core::batch::Batch;
use pentarchy_core::counter::Ui;
use pentarchy_core::digest::Digest;
use pentarchy_core::epochs::Handover;
use pentarchy_core::erased::{CoreEffect, CoreEvent, Incoming, ReplicaCore};
use pentarchy_core::executor::Notice;
use pentarchy_core::ids::{ClientId, Epoch, MemberId, Slot, View};
use pentarchy_core::membership::Membership;
use pentarchy_core::ports::client::{Place, Reply, ToClient};
use pentarchy_core::protocol::{Evidence, Reject, To};
use pentarchy_core::request::Envelope;
use std::sync::Arc;

/// One thing that a machine does.
pub enum Observed<'a> {
    /// The core takes this event.
    Takes(&'a CoreEvent),
    /// The core asks for these effects.
    Asks(&'a [CoreEffect]),
    /// A message of the core was authenticated and is sent.
    Sent(Sent<'a>),
    /// The core passes on what another replica, or this one before, had authenticated.
    Relayed {
        /// To whom.
        to: To,
        /// Of which kind it is.
        kind: &'static str,
        /// The bytes.
        wire: &'a Bytes,
    },
    /// The core found a lie.
    Reported(&'a Evidence),
    /// A message of a member is refused.
    Rejected(MemberId, Reject),
    /// These envelopes of clients are checked together.
    Checks(&'a [Arc<Envelope>]),
    /// A batch was executed.
    Executed {
        /// The slot.
        slot: Slot,
        /// The batch.
        batch: &'a Arc<Batch>,
    },
    /// A batch was executed that may be taken back.
    Speculated {
        /// Where it stands.
        place: Place,
        /// The batch.
        batch: &'a Arc<Batch>,
    },
    /// What was executed up to this slot is final.
    Committed(Slot),
    /// What was executed behind this slot is taken back.
    RolledBack(Slot),
    /// A client is told again what is final.
    Answered(&'a ClientId, &'a [Reply]),
    /// A client's query came, which this number has.
    Query(&'a ClientId, u64),
    /// A query is answered from the state of this slot; true if that may be taken back.
    Answer(&'a ClientId, u64, (Slot, bool)),
    /// A client is told something that rests on what was kept before.
    Told {
        /// What it is told.
        message: &'a ToClient,
        /// The last slot that was executed.
        executed: Slot,
    },
    /// A snapshot was taken.
    Checkpointed(Slot, Digest),
    /// A quorum vouches for this state.
    Stable(Slot, Digest),
    /// This state is to be fetched.
    Fetching(Slot, Digest),
    /// This state was installed.
    Installed(Slot, Digest),
    /// The core entered this view, and left the one before for this reason.
    Entered(View, &'static str),
    /// The replica's state of this slot is not the group's.
    Diverged(Slot),
    /// The replica asks something of its group.
    Petitions(&'a Envelope),
    /// The replica, which went on from its disk, speaks from now on in this epoch.
    Resumes {
        /// The epoch.
        epoch: Epoch,
        /// Whether enough others have said what they saw of it.
        is_answered: bool,
    },
    /// The last slot of the epoch was executed.
    Ended(&'a Handover),
    /// The next epoch begins.
    Began(&'a Arc<Membership>),
    /// A message of the core was handed over to the barrier: it rests on all that is kept by now.
    Held,
    /// The next such message leaves the barrier.
    Leaves,
    /// What clients are told from now on rests on all that is kept by now.
    Rests,
    /// An answer to a client was handed over to wait for the disk, ...
    HeldAnswer,
    /// ... and the next one leaves.
    LeavesAnswer,
    /// The state of this slot is durable, and the replica vouches for it.
    Vouches(Slot),
}

/// A message that is sent.
pub struct Sent<'a> {
    /// The core that sends it.
    pub core: &'a dyn ReplicaCore,
    /// To whom.
    pub to: To,
    /// The message, as it comes back to its sender.
    pub incoming: &'a Incoming,
    /// Its bytes.
    pub wire: &'a Bytes,
    /// The digest of its statement, ...
    pub digest: Digest,
    /// ... and the identifier that the device gave it, if it did.
    pub ui: Option<Ui>,
}

/// Collects what clients are told of what is executed.
pub trait NoticeLog: Default {
    /// A client is told this.
    fn note(&mut self, client: &ClientId, notice: &Notice) {
        let _ = (client, notice);
    }

    /// A client is told this, which may be taken back.
    fn note_open(&mut self, client: &ClientId, reply: &Reply) {
        let _ = (client, reply);
    }
}

/// Of a driver that does not watch.
impl NoticeLog for () {}
