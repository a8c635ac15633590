//! What a replica keeps across a crash.
//!
//! Each record is persisted before the message that rests on it is sent
//! ([`crate::common::counters::record`]).
//!
//! A request for a view is made again if there is still a reason, and a checkpoint is signed again
//! when execution gets there. Who wanted a view and had not sent VIEW-CHANGE for it has promised
//! nothing: it is where it was before, or in the view that it accepted late meanwhile.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`compaction.rs`). `recall.rs`
//! reads them.

use super::certificate::{NewView, ViewChange, ViewChanges};
use super::message::Message;
use crate::common::counters::record::Noted;
use crate::common::record::Kept;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// What every protocol keeps. A batch is one that the next NEW-VIEW takes over.
    Kept(Kept),
    /// What it said by its counter.
    Noted(Noted<Message>),
    /// This replica leaves all lower views.
    Leave {
        /// ForwardTo this.
        change: Arc<ViewChange>,
        /// By this it could, if not by having accepted the NEW-VIEW of the view before.
        basis: Option<Arc<ViewChanges>>,
    },
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica enters the view of that NEW-VIEW, and commits to what it takes over.
    Enter(Verified<Message>),
    /// This replica accepts that NEW-VIEW, of a view that it has left.
    Acknowledge(Verified<Message>),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Kept(record) => record.encode(to),
            Self::Noted(record) => record.encode(to),
            Self::Leave { change, basis } => {
                to.u8(2);
                change.encode(to);
                to.option(basis.as_deref());
            }
            Self::Open(opening) => {
                to.u8(3);
                opening.encode(to);
            }
            Self::Enter(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Acknowledge(opening) => {
                to.u8(5);
                opening.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            tag @ (0 | 1 | Noted::<Message>::SAID) => Self::Noted(Noted::decode(tag, from)?),
            2 => Self::Leave {
                change: Arc::new(ViewChange::decode(from)?),
                basis: from.option()?.map(Arc::new),
            },
            3 => Self::Open(Arc::new(NewView::decode(from)?)),
            4 => Self::Enter(Verified::decode(from)?),
            5 => Self::Acknowledge(Verified::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}
