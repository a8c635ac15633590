//! What a replica keeps across a crash.
//!
//! Each record is persisted before the message that rests on it is sent: a commitment before the
//! COMMIT, with the batch that it commits to. Slots are not logged as decided: whoever committed
//! says so again, and `f + 1` commitments decide as before.
//!
//! Signed messages need no record. A request for a view is made again if there is still a reason,
//! and a checkpoint is signed again when execution gets there.
//!
//! Records are facts, and may be told twice: when a checkpoint becomes stable, those that are still
//! needed are persisted again, so that the log can be cut below (`renew.rs`). `recall.rs` reads
//! them.

use super::certificate::{Entry, NewView, ViewChange};
use super::message::Message;
use super::replica::MinBft;
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use pentarchy_core::auth::Verified;
use pentarchy_core::batch::{Batch, Proposal};
use pentarchy_core::ids::{Slot, View};
use pentarchy_core::protocol::Effects;
use pentarchy_core::request::Envelope;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that a replica does not forget.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record {
    /// An envelope that the next proposal names without carrying it.
    Envelope(Arc<Envelope>),
    /// As primary, this replica proposes.
    Prepare {
        /// The view.
        view: View,
        /// The slot.
        slot: Slot,
        /// What to order.
        proposal: Arc<Proposal>,
    },
    /// This replica commits to that PREPARE.
    Commit(Verified<Message>),
    /// A batch that the next NEW-VIEW takes over.
    Body {
        /// The slot that orders it.
        slot: Slot,
        /// The batch, as it was proposed.
        proposal: Arc<Proposal>,
    },
    /// This replica leaves all lower views, showing this.
    Leave(Arc<ViewChange>),
    /// As primary, this replica opens its view with this.
    Open(Arc<NewView>),
    /// This replica found that NEW-VIEW valid, and holds its batches.
    Acknowledge(Verified<Message>),
    /// This replica enters its view.
    Enter(Entry),
    /// A state that a quorum vouches for; nothing up to there is needed any more.
    Stable(CheckpointProof),
    /// What this replica said, under the certificate that it was given.
    Said(Verified<Message>),
    /// In this view this replica committed last. It has left it, or is about to.
    Entered(Entry),
    /// This replica gave up all lower views, and has said nothing in this one.
    Left(View),
}

impl Wire for Record {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Envelope(envelope) => {
                to.u8(0);
                envelope.encode(to);
            }
            Self::Prepare { view, slot, proposal } => {
                to.u8(1);
                view.encode(to);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Commit(prepare) => {
                to.u8(2);
                prepare.encode(to);
            }
            Self::Body { slot, proposal } => {
                to.u8(3);
                slot.encode(to);
                proposal.encode(to);
            }
            Self::Leave(change) => {
                to.u8(4);
                change.encode(to);
            }
            Self::Open(opening) => {
                to.u8(5);
                opening.encode(to);
            }
            Self::Acknowledge(opening) => {
                to.u8(6);
                opening.encode(to);
            }
            Self::Enter(entry) => {
                to.u8(7);
                entry.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(8);
                proof.encode(to);
            }
            Self::Said(message) => {
                to.u8(9);
                message.encode(to);
            }
            Self::Entered(entry) => {
                to.u8(10);
                entry.encode(to);
            }
            Self::Left(view) => {
                to.u8(11);
                view.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Envelope(Arc::new(Envelope::decode(from)?)),
            1 => Self::Prepare {
                view: View::decode(from)?,
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            2 => Self::Commit(Verified::decode(from)?),
            3 => Self::Body {
                slot: Slot::decode(from)?,
                proposal: Arc::new(Proposal::decode(from)?),
            },
            4 => Self::Leave(Arc::new(ViewChange::decode(from)?)),
            5 => Self::Open(Arc::new(NewView::decode(from)?)),
            6 => Self::Acknowledge(Verified::decode(from)?),
            7 => Self::Enter(Entry::decode(from)?),
            8 => Self::Stable(CheckpointProof::decode(from)?),
            9 => Self::Said(Verified::decode(from)?),
            10 => Self::Entered(Entry::decode(from)?),
            11 => Self::Left(View::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}

/// Keeps the envelopes of a batch that its proposal only names.
pub(super) fn persist_named(batch: &Batch, out: &mut Effects<MinBft>) {
    for envelope in batch.envelopes.iter().filter(|envelope| envelope.is_large()) {
        out.persist(Record::Envelope(envelope.clone()));
    }
}
