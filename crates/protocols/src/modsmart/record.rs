//! What a replica keeps across a crash.
//!
//! Each record is persisted before the message that rests on it is sent: a proposal before PROPOSE;
//! a write before WRITE, with the batch; a lock before ACCEPT; what a VIEW-CHANGE shows before it
//! is shown; a decision before this replica signs a state that contains it. A replica that starts
//! again has all that it told others, and says the same again.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`compaction.rs`). `recall.rs`
//! reads them.

use super::certificate::{NewView, ViewChange};
use super::message::Message;
use super::variant::{Variant, Windowed};
use super::writes::Lock;
use crate::common::message::decode_flag;
use crate::common::record::Kept;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::Proposal;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record<V: Variant = Windowed> {
    /// What every protocol keeps. A batch is one that a later record is about.
    Kept(Kept),
    /// As primary, this replica proposes, and so writes, or locks where nobody writes.
    Propose {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
        /// Whether it signs that, and does not keep it as written.
        signed: bool,
    },
    /// This replica writes a batch.
    Write {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
        /// Whether it signs that, and does not keep it as written.
        signed: bool,
    },
    /// This replica locks a batch, and accepts it.
    Lock {
        /// The slot.
        slot: Slot,
        /// What it locks.
        lock: Lock,
    },
    /// A slot is decided.
    Decided {
        /// The slot.
        slot: Slot,
        /// Digest of the proposal.
        batch: Digest,
    },
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView<V::Seal>>),
    /// This replica enters the view of that NEW-VIEW.
    Enter(Verified<Message<V>>),
}

impl<V: Variant> Wire for Record<V> {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Kept(record) => record.encode(to),
            Self::Propose { view, slot, proposal, signed } => {
                to.u8(0);
                view.encode(to);
                slot.encode(to);
                to.u8(u8::from(*signed));
                proposal.encode(to);
            }
            Self::Write { view, slot, batch, signed } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                to.u8(u8::from(*signed));
                batch.encode(to);
            }
            Self::Lock { slot, lock } => {
                to.u8(2);
                slot.encode(to);
                lock.encode(to);
            }
            Self::Decided { slot, batch } => {
                to.u8(3);
                slot.encode(to);
                batch.encode(to);
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
            0 => {
                let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
                let signed = decode_flag(from)?;
                let proposal = Arc::new(Proposal::decode(from)?);
                Self::Propose { view, slot, proposal, signed }
            }
            1 => {
                let (view, slot) = (View::decode(from)?, Slot::decode(from)?);
                let signed = decode_flag(from)?;
                Self::Write { view, slot, batch: Digest::decode(from)?, signed }
            }
            2 => Self::Lock { slot: Slot::decode(from)?, lock: Lock::decode(from)? },
            3 => Self::Decided { slot: Slot::decode(from)?, batch: Digest::decode(from)? },
            4 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            5 => Self::Open(Arc::new(NewView::decode(from)?)),
            6 => Self::Enter(Verified::decode(from)?),
            tag => Self::Kept(Kept::decode(tag, from)?),
        })
    }
}
