//! What a replica keeps across a crash.
//!
//! Each record is persisted before what rests on it is said: an order before it is executed, as
//! the answer is a vote; a certificate before COMMIT; what a VIEW-CHANGE shows before it is shown;
//! a NEW-VIEW before it is confirmed. A replica that starts again has all that it told others, and
//! says it again. For each slot up to which all became final at once, the log has the history,
//! before the state there is saved: the slot is final again when it is executed again, and a saved
//! state without its history was fetched, and what the log orders may lead elsewhere.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`compaction.rs`). `recall.rs`
//! reads them.

use super::certificate::{Committed, Confirmed, Reached, ViewChange};
use super::message::Message;
use super::new_view::NewView;
use crate::common::record::Kept;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// As primary, this replica orders.
    Propose {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// The history before it.
        parent: Digest,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica executes what that order says.
    Order(Verified<Message>),
    /// This replica has that certificate.
    Certificate(Arc<Committed>),
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica confirms what follows from that NEW-VIEW.
    Confirm(Verified<Message>),
    /// This replica enters the view of that NEW-VIEW, as a quorum agrees on what follows.
    Enter(Verified<Message>, Arc<Confirmed>),
    /// That history was final at a slot. The state there, or one before it, may be saved.
    Final {
        /// The slot.
        slot: Slot,
        /// The history up to there.
        history: Digest,
    },
    /// A stable checkpoint contradicts what this replica ordered as primary of that view.
    Overruled(View),
    /// What every protocol keeps.
    Kept(Kept<Reached>),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Propose { view, slot, parent, proposal } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                parent.encode(to);
                proposal.encode(to);
            }
            Self::Order(order) => {
                to.u8(1);
                order.encode(to);
            }
            Self::Certificate(certificate) => {
                to.u8(2);
                certificate.encode(to);
            }
            Self::Leave(change) => {
                to.u8(3);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Confirm(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Enter(opening, proof) => {
                to.u8(6);
                opening.encode(to);
                proof.encode(to);
            }
            Self::Final { slot, history } => {
                to.u8(7);
                slot.encode(to);
                history.encode(to);
            }
            Self::Overruled(view) => {
                to.u8(8);
                view.encode(to);
            }
            Self::Kept(kept) => kept.encode(to),
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Propose {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                parent: Digest::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            1 => Self::Order(Verified::decode(from)?),
            2 => Self::Certificate(Arc::new(Committed::decode(from)?)),
            3 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            4 => Self::Open(Arc::new(NewView::decode(from)?)),
            5 => Self::Confirm(Verified::decode(from)?),
            6 => Self::Enter(Verified::decode(from)?, Arc::new(Confirmed::decode(from)?)),
            7 => Self::Final { slot: Slot::decode(from)?, history: Digest::decode(from)? },
            8 => Self::Overruled(View::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}
