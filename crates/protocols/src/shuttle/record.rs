//! What a replica remembers across a crash.

use super::message::Order;
use super::mode::Mode;
use super::statements::Marked;
use crate::common::certificate::CheckpointProof;
use alloc::sync::Arc;
use pentarchy_core::digest::Digest;
use pentarchy_core::ids::Slot;
use pentarchy_core::membership::Base;
use pentarchy_core::wire::{Malformed, Reader, Wire, Writer};

/// One thing that no replica forgets. A fact: it may be told twice.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Record<M: Mode> {
    /// The replica ordered this. Written before anybody hears of it.
    Ordered(Arc<Order<M>>),
    /// What came of a slot here, as clients and the successor were told.
    Results {
        /// The slot.
        slot: Slot,
        /// The digest of what came of the slot.
        results: Digest,
    },
    /// The host has cut this state, which is due, and keeps it. What is executed again after a
    /// restart may begin behind it, and then nobody says it again.
    Cut(Base),
    /// All full replicas marked this state; nothing up to there is needed any more.
    Stable(CheckpointProof<Marked>),
    /// The replica has stopped.
    Wedged,
}

impl<M: Mode> Wire for Record<M> {
    fn encode(&self, to: &mut Writer) {
        match self {
            Self::Ordered(order) => {
                to.u8(0);
                order.encode(to);
            }
            Self::Results { slot, results } => {
                to.u8(1);
                slot.encode(to);
                results.encode(to);
            }
            Self::Stable(proof) => {
                to.u8(2);
                proof.encode(to);
            }
            Self::Wedged => to.u8(3),
            Self::Cut(base) => {
                to.u8(4);
                base.encode(to);
            }
        }
    }
    fn decode(from: &mut Reader<'_>) -> Result<Self, Malformed> {
        Ok(match from.u8()? {
            0 => Self::Ordered(Arc::new(Order::decode(from)?)),
            1 => Self::Results { slot: Slot::decode(from)?, results: Digest::decode(from)? },
            2 => Self::Stable(CheckpointProof::decode(from)?),
            3 => Self::Wedged,
            4 => Self::Cut(Base::decode(from)?),
            _ => return Err(Malformed),
        })
    }
}
