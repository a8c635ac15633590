//! What a replica keeps across a crash.
//!
//! Each record is persisted before the message that rests on it is sent: a vote before PREPARE,
//! with the batch; a certificate before COMMIT; what a VIEW-CHANGE shows before it is shown. A
//! replica that starts again has all that it told others, and says it again. Slots are not logged
//! as decided: whoever committed says so again, and `2f + 1` COMMITs decide as before.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`compaction.rs`). `recall.rs`
//! reads them.
//!
//! A request for a view needs no record, it is made again if there is still a reason; nor does a
//! signed state, as execution gets there again.

use super::certificate::{NewView, Prepared, ViewChange};
use super::message::Message;
use super::seal::Seal;
use crate::common::record::Kept;
use alloc::sync::Arc;
use pentarchy_core::auth::{Signature, Verified};
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record<S: Seal = Signature> {
    /// What every protocol keeps. A batch is one that the next record is about.
    Kept(Kept),
    /// As primary, this replica proposes.
    Propose {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica votes for that PRE-PREPARE.
    Vote(Verified<Message<S>>),
    /// This replica votes for what its view took over, or voted for what its slot does not order.
    VoteAgain {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// This replica has that certificate, and commits.
    Prepared(Prepared<S>),
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange<S>>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView<S>>),
    /// This replica enters the view of that NEW-VIEW.
    Enter(Verified<Message<S>>),
}

impl<S: Seal> Wire for Record<S> {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Kept(record) => record.encode(to),
            Self::Propose { view, slot, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Vote(proposed) => {
                to.u8(1);
                proposed.encode(to);
            }
            Self::VoteAgain { view, slot, batch } => {
                to.u8(2);
                view.encode(to);
                slot.encode(to);
                batch.encode(to);
            }
            Self::Prepared(certificate) => {
                to.u8(3);
                certificate.encode(to);
            }
            Self::Leave(change) => {
                to.u8(4);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Enter(opening) => {
                to.u8(6);
                opening.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Propose {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Vote(Verified::decode(from)?),
            2 => Self::VoteAgain {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                batch: Digest::decode(from)?,
            },
            3 => Self::Prepared(Prepared::decode(from)?),
            4 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            5 => Self::Open(Arc::new(NewView::decode(from)?)),
            6 => Self::Enter(Verified::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}
