//! What a replica keeps across a crash.
//!
//! Each record is persisted before the message that rests on it is sent
//! ([`crate::common::counters::record`]).
//!
//! Signed messages need no record. A request for a view is made again if there is still a reason,
//! and a checkpoint is signed again when execution gets there.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`compaction.rs`). `recall.rs`
//! reads them.

use super::certificate::{Entry, NewView, ViewChange};
use super::message::Message;
use crate::common::counters::record::Noted;
use crate::common::record::Kept;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::ids::View;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// What every protocol keeps. A batch is one that the next NEW-VIEW takes over.
    Kept(Kept),
    /// What it said by its counter.
    Noted(Noted<Message>),
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica found that NEW-VIEW valid, and holds its batches.
    Acknowledge(Verified<Message>),
    /// This replica enters its view.
    Enter(Entry),
    /// In this view this replica committed last. It has left it, or is about to.
    Entered(Entry),
    /// This replica gave up all lower views, and has said nothing in this one.
    Left(View),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Kept(record) => record.encode(to),
            Self::Noted(record) => record.encode(to),
            Self::Leave(change) => {
                to.u8(2);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(3);
                opening.encode(to);
            }
            Self::Acknowledge(opening) => {
                to.u8(4);
                opening.encode(to);
            }
            Self::Enter(entry) => {
                to.u8(5);
                entry.encode(to);
            }
            Self::Entered(entry) => {
                to.u8(7);
                entry.encode(to);
            }
            Self::Left(view) => {
                to.u8(8);
                view.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            tag @ (0 | 1 | Noted::<Message>::SAID | Noted::<Message>::EXECUTED) => {
                Self::Noted(Noted::decode(tag, from)?)
            }
            2 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            3 => Self::Open(Arc::new(NewView::decode(from)?)),
            4 => Self::Acknowledge(Verified::decode(from)?),
            5 => Self::Enter(Entry::decode(from)?),
            7 => Self::Entered(Entry::decode(from)?),
            8 => Self::Left(View::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}
